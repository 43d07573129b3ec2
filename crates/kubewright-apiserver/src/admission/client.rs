//! Calls of webhooks: one JSON document there, one back, over TLS.
//!
//! A [`Clients`] keeps connections open between calls, one pool for each address and CA bundle. What a
//! failed call is said to have died of is worded as Go's HTTP client words it, because that text reaches
//! users. Nothing here knows what the documents mean.

use std::{
    collections::BTreeMap,
    fmt, io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use ::http::{HeaderValue, Method, Request, Uri, header};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::{
    client::legacy::{
        Client,
        connect::{Connected, Connection},
    },
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use parking_lot::Mutex;
use rustls::{
    CertificateError, ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::{
    decode::{self, go::quote},
    server::BoxFuture,
};

/// More clients than this are not kept; the pools start over.
const CLIENTS_MAX: usize = 256;
/// How much of an answer is read.
const ANSWER_MAX: usize = 16 << 20;
/// How much of an answer that is an error is shown.
const SHOWN_MAX: usize = 2048;
const IDLE: Duration = Duration::from_secs(90);

/// Finds where a Service is served, for webhooks that are named by one.
pub trait ServiceResolver: Send + Sync + 'static {
    /// An address that serves the port of a Service, if there is one.
    fn resolve(&self, namespace: &str, name: &str, port: u16) -> Option<SocketAddr>;
}

impl<F> ServiceResolver for F
where
    F: Fn(&str, &str, u16) -> Option<SocketAddr> + Send + Sync + 'static,
{
    fn resolve(&self, namespace: &str, name: &str, port: u16) -> Option<SocketAddr> {
        self(namespace, name, port)
    }
}

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

    /// Namespace and name of the Service that serves it, if it is one.
    pub(crate) fn service(&self) -> Option<(&str, &str)> {
        match &self.address {
            Address::Service { namespace, name, .. } => Some((namespace, name)),
            Address::Host(_) => None,
        }
    }

    /// The error of a call that could not be made.
    pub(crate) fn failed(&self, timeout: Duration, why: impl fmt::Display) -> CallError {
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

/// The clients of all webhooks. Clones share their connections.
#[derive(Clone, Default)]
pub(crate) struct Clients {
    open: Arc<Mutex<BTreeMap<(Address, String), HookClient>>>,
    resolver: Option<Arc<dyn ServiceResolver>>,
}

type HookClient = Client<Connector, Full<Bytes>>;

impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clients").finish_non_exhaustive()
    }
}

impl Clients {
    pub(crate) fn new(resolver: Option<Arc<dyn ServiceResolver>>) -> Self {
        Self { resolver, ..Self::default() }
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
            let answer = client.request(request).await.map_err(|why| failed(explain(&why)))?;
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
            resolver: self.resolver.clone(),
            tls: TlsConnector::from(Arc::new(tls(&endpoint.ca_bundle)?)),
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

/// TLS that trusts a bundle, base64 of PEM, and nobody else.
fn tls(ca_bundle: &str) -> Result<ClientConfig, String> {
    const UNUSABLE: &str = "unable to load root certificates: unable to parse bytes as PEM block";
    let mut roots = RootCertStore::empty();
    if !ca_bundle.is_empty() {
        let pem = STANDARD.decode(ca_bundle).map_err(|_| UNUSABLE.to_owned())?;
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            let certificate = certificate.map_err(|_| UNUSABLE.to_owned())?;
            roots.add(certificate).map_err(|why| format!("unable to load root certificates: {why}"))?;
        }
        if roots.is_empty() {
            return Err(UNUSABLE.to_owned());
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|why| why.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    // One connection a call in flight spreads calls over what stands behind a Service.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
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

/// What a connection died of.
fn explain(error: &hyper_util::client::legacy::Error) -> String {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    let mut last = error.to_string();
    while let Some(error) = source {
        if let Some(failure) = error.downcast_ref::<ConnectError>() {
            return failure.0.clone();
        }
        last = error.to_string();
        source = error.source();
    }
    if last.contains("connection closed") { "EOF".to_owned() } else { last }
}

/// Why no connection came about.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct ConnectError(String);

impl ConnectError {
    fn dial(address: impl fmt::Display, error: &io::Error) -> Self {
        let why = match error.kind() {
            io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
            io::ErrorKind::HostUnreachable => "no route to host".to_owned(),
            io::ErrorKind::NetworkUnreachable => "network is unreachable".to_owned(),
            io::ErrorKind::TimedOut => "connection timed out".to_owned(),
            _ => error.to_string(),
        };
        Self(format!("dial tcp {address}: connect: {why}"))
    }

    fn handshake(error: &io::Error) -> Self {
        let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        let why = match tls {
            Some(rustls::Error::InvalidCertificate(why)) => {
                let why = match why {
                    CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                        "certificate signed by unknown authority".to_owned()
                    }
                    CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                        "certificate has expired or is not yet valid".to_owned()
                    }
                    other => other.to_string(),
                };
                format!("tls: failed to verify certificate: x509: {why}")
            }
            Some(rustls::Error::InvalidMessage(_)) => {
                "tls: first record does not look like a TLS handshake".to_owned()
            }
            _ if error.kind() == io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
            _ => error.to_string(),
        };
        Self(why)
    }
}

/// Opens connections to one address.
#[derive(Clone)]
struct Connector {
    address: Address,
    resolver: Option<Arc<dyn ServiceResolver>>,
    tls: TlsConnector,
}

impl Connector {
    async fn connect(self) -> Result<Stream, ConnectError> {
        let (name, stream) = match &self.address {
            Address::Service { namespace, name, port } => {
                let found =
                    self.resolver.as_ref().and_then(|resolver| resolver.resolve(namespace, name, *port));
                let address = found
                    .ok_or_else(|| ConnectError(format!("no endpoints available for service {name:?}")))?;
                let stream = TcpStream::connect(address).await;
                let stream = stream.map_err(|error| ConnectError::dial(address, &error))?;
                (format!("{name}.{namespace}.svc"), stream)
            }
            Address::Host(host) => {
                let (name, port) = split_port(host);
                let stream = TcpStream::connect((name, port)).await.map_err(|error| {
                    if name.parse::<std::net::IpAddr>().is_err() && error.raw_os_error().is_none() {
                        return ConnectError(format!("dial tcp: lookup {name}: no such host"));
                    }
                    ConnectError::dial(format_args!("{host}"), &error)
                })?;
                (name.to_owned(), stream)
            }
        };
        stream.set_nodelay(true).map_err(|error| ConnectError(error.to_string()))?;
        let name = ServerName::try_from(name).map_err(|error| ConnectError(error.to_string()))?;
        let stream = self.tls.connect(name, stream).await;
        Ok(Stream(TokioIo::new(stream.map_err(|error| ConnectError::handshake(&error))?)))
    }
}

/// Host and port of an authority; an IPv6 host loses its brackets.
fn split_port(authority: &str) -> (&str, u16) {
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.parse().unwrap_or(443)),
        _ => (authority, 443),
    };
    (host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host), port)
}

impl tower_service::Service<Uri> for Connector {
    type Response = Stream;
    type Error = ConnectError;
    type Future = BoxFuture<'static, Result<Stream, ConnectError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        Box::pin(self.clone().connect())
    }
}

/// A connection to a webhook.
struct Stream(TokioIo<TlsStream<TcpStream>>);

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl hyper::rt::Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: hyper::rt::ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl hyper::rt::Write for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
