//! Calls of webhooks: one JSON document there, one back, over TLS.
//!
//! A [`Clients`] keeps connections open between calls, one pool for each address and CA bundle. What a
//! failed call is said to have died of is worded as Go's HTTP client words it, because that text reaches
//! users. Nothing here knows what the documents mean.

mod connection;
mod service;
#[cfg(test)]
pub(crate) mod tests;

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use ::http::{HeaderValue, Method, Request, Uri, header};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::{
    client::legacy::Client,
    rt::{TokioExecutor, TokioTimer},
};
use parking_lot::Mutex;
use serde_json::Value;
use tokio_rustls::TlsConnector;

use self::connection::{Connector, Routes};
pub use self::service::{Route, ServiceResolver};
use crate::{
    Clock,
    decode::{self, go::quote},
    store::Store,
};

/// More clients than this are not kept; the pools start over.
const CLIENTS_MAX: usize = 256;
/// How much of an answer is read.
const ANSWER_MAX: usize = 16 << 20;
/// How much of an answer that is an error is shown.
const SHOWN_MAX: usize = 2048;
/// How long a call may take at most.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
const IDLE: Duration = Duration::from_secs(90);

/// Where a webhook is: a `clientConfig`, read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Endpoint {
    address: Address,
    path: String,
    ca_bundle: String,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Address {
    /// `host[:port]` of a URL.
    Host(String),
    Service {
        namespace: String,
        name: String,
        port: u16,
    },
}

impl Endpoint {
    /// Reads a `clientConfig` that was validated.
    pub(crate) fn read(config: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let ca_bundle = text(&config["caBundle"]);
        if let Some(service) = config.get("service").filter(|service| service.is_object()) {
            let port = service["port"].as_u64().and_then(|port| u16::try_from(port).ok()).unwrap_or(443);
            let address = Address::Service {
                namespace: text(&service["namespace"]),
                name: text(&service["name"]),
                port,
            };
            return Self { address, path: text(&service["path"]), ca_bundle };
        }
        let url = text(&config["url"]);
        let rest = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
        let (host, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        Self { address: Address::Host(host.to_owned()), path: path.to_owned(), ca_bundle }
    }

    /// The error of a call that could not be made.
    fn failed(&self, timeout: Duration, why: impl fmt::Display) -> CallError {
        CallError(format!("Post {}: {why}", quote(&self.url(timeout))))
    }

    fn host(&self) -> String {
        match &self.address {
            Address::Host(host) => host.clone(),
            Address::Service { namespace, name, port } => format!("{name}.{namespace}.svc:{port}"),
        }
    }

    fn url(&self, timeout: Duration) -> String {
        let path = if self.path.is_empty() { "/" } else { &self.path };
        format!("https://{}{path}?timeout={}s", self.host(), timeout.as_secs())
    }
}

/// Why a call failed, in the words of the real server's client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct CallError(pub(crate) String);

/// The clients of all webhooks of a server.
pub(crate) struct Clients {
    open: Mutex<BTreeMap<(Address, String), HookClient>>,
    routes: Routes,
    clock: Clock,
}

type HookClient = Client<Connector, Full<Bytes>>;

impl Clients {
    pub(crate) fn new(resolver: Option<Arc<dyn ServiceResolver>>, store: Store, clock: Clock) -> Self {
        Self { open: Mutex::default(), routes: Routes { resolver, store }, clock }
    }

    /// The clients of a server that goes its own way with `store`.
    pub(crate) fn fork(&self, store: Store) -> Self {
        Self::new(self.routes.resolver.clone(), store, self.clock)
    }

    /// Posts a document and reads the one that comes back.
    pub(crate) async fn post(
        &self,
        endpoint: &Endpoint,
        body: Bytes,
        timeout: Duration,
    ) -> Result<Value, CallError> {
        let url = endpoint.url(timeout);
        let failed = |why: String| endpoint.failed(timeout, why);
        let client = self.client(endpoint).map_err(failed)?;
        let uri: Uri = url.parse().map_err(|why| failed(format!("{why}")))?;
        let json = HeaderValue::from_static("application/json");
        let request = Request::builder()
            .method(Method::POST)
            .uri(uri)
            .header(header::CONTENT_TYPE, json)
            .header(header::ACCEPT, "application/json, */*")
            .header(header::USER_AGENT, "kube-apiserver-admission")
            .body(Full::new(body))
            .map_err(|why| failed(why.to_string()))?;
        let exchange = async {
            let answer = client.request(request).await.map_err(|why| failed(connection::explain(&why)))?;
            let (parts, body) = answer.into_parts();
            let body = Limited::new(body, ANSWER_MAX).collect().await.map_err(|why| {
                CallError(format!(
                    "unexpected error when reading response body. Please retry. Original error: {why}"
                ))
            })?;
            read_answer(&parts, &body.to_bytes())
        };
        match tokio::time::timeout(timeout, exchange).await {
            Ok(outcome) => outcome,
            // Go's client has a deadline of its own, and says so if it is that.
            Err(_) if timeout >= PATIENCE => Err(failed(
                "context deadline exceeded (Client.Timeout exceeded while awaiting headers)".to_owned(),
            )),
            Err(_) => Err(failed("context deadline exceeded".to_owned())),
        }
    }

    fn client(&self, endpoint: &Endpoint) -> Result<HookClient, String> {
        let key = (endpoint.address.clone(), endpoint.ca_bundle.clone());
        let mut open = self.open.lock();
        if let Some(client) = open.get(&key) {
            return Ok(client.clone());
        }
        let connector = Connector {
            address: endpoint.address.clone(),
            routes: self.routes.clone(),
            tls: TlsConnector::from(Arc::new(connection::tls(&endpoint.ca_bundle, self.clock)?)),
        };
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .build(connector);
        if open.len() >= CLIENTS_MAX {
            open.clear();
        }
        open.insert(key, client.clone());
        Ok(client)
    }
}

/// Reads an answer as Go's REST client does: only a document with a code of success is one.
fn read_answer(parts: &::http::response::Parts, body: &[u8]) -> Result<Value, CallError> {
    let content_type = parts.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let code = parts.status.as_u16();
    if !(200..=206).contains(&code) {
        return Err(CallError(refusal(
            code,
            content_type.is_none_or(|text| text.starts_with("text/")),
            body,
        )));
    }
    if body.is_empty() {
        let content_type = content_type.unwrap_or("application/json");
        return Err(CallError(format!(
            "0-length response with status code: {code} and content type: {content_type}"
        )));
    }
    // What it claims to be does not matter: whatever is not JSON is taken for YAML.
    let parsed = match decode::json::parse(body) {
        Ok(parsed) => Ok(parsed.value),
        Err(_) => decode::yaml::parse(body).map(|parsed| parsed.value),
    };
    let document =
        parsed.map_err(|why| CallError(format!("couldn't get version/kind; json parse error: {why}")))?;
    decode::type_meta(&document).map_err(CallError)?;
    Ok(document)
}

fn refusal(code: u16, is_text: bool, body: &[u8]) -> String {
    let message = if is_text {
        String::from_utf8_lossy(&body[..body.len().min(SHOWN_MAX)]).trim().to_owned()
    } else {
        "unknown".to_owned()
    };
    match code {
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        404 => "the server could not find the requested resource",
        405 => "the server does not allow this method on the requested resource",
        406 if message.is_empty() || message == "unknown" => {
            "the server was unable to respond with a content type that the client supports"
        }
        403 | 406 | 415 => return message,
        409 => "the server reported a conflict",
        422 => "the server rejected our request due to an error in our request",
        429 => "the server has received too many requests and has asked us to try again later",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
        }
        500.. => {
            let message = quote(&message);
            return format!("an error on the server ({message}) has prevented the request from succeeding");
        }
        _ => {
            return format!(
                "the server responded with the status code {code} but did not return more information"
            );
        }
    }
    .to_owned()
}
