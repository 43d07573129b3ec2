//! The front door: raw HTTP requests to a server in the process, and what comes back.
//!
//! Time is virtual (tokio's clock is paused), so whoever waits for something that never comes is found out at
//! once: an answer that takes longer than any the server may take is a hang.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::BodyExt as _;
use kubewright_apiserver::{
    ApiServer,
    auth::{UserInfo, user},
};
use serde_json::Value;
use tower_service::Service as _;

/// Longer than any answer may take in virtual time: a revision from the future is waited for three seconds,
/// and a webhook for thirty.
const HANG: Duration = Duration::from_secs(120);
/// How long an endless answer is listened to.
const LISTEN: Duration = Duration::from_secs(2);

/// An answer, read to its end; an endless one until it fell silent.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    pub code: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Reply {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON; null if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The documents of a stream, one a line.
    #[allow(dead_code, reason = "only the property tests look into streams")]
    pub fn lines(&self) -> Vec<Value> {
        let lines = self.body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines
            .map(|line| serde_json::from_slice(line).expect("a watch gives one JSON document a line"))
            .collect()
    }
}

/// A request that can be sent, shown and sent again.
#[derive(Debug, Clone, Default)]
pub struct Call {
    pub method: String,
    pub uri: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Call {
    pub fn new(method: &str, uri: impl Into<String>) -> Self {
        Self { method: method.to_owned(), uri: uri.into(), ..Self::default() }
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn content(self, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), ..self.header("content-type", content_type) }
    }

    pub fn json(self, body: &Value) -> Self {
        self.content("application/json", body.to_string())
    }

    /// What is to be typed to send it again.
    pub fn shown(&self) -> String {
        const SHOWN: usize = 4000;
        let body = String::from_utf8_lossy(&self.body);
        let body: String = body.chars().take(SHOWN).collect();
        format!("{} {} {:?}\n{body}", self.method, self.uri, self.headers)
    }

    /// The request; nothing if HTTP itself has no such one.
    fn request(&self) -> Option<Request<kube::client::Body>> {
        let mut request = Request::builder().method(self.method.as_bytes()).uri(self.uri.as_str());
        for (name, value) in &self.headers {
            request = request.header(name, value.as_bytes());
        }
        request.body(kube::client::Body::from(self.body.clone())).ok()
    }
}

/// Sends a request as the administrator. `None` if it is no HTTP request at all.
pub async fn try_send(server: &ApiServer, call: &Call) -> Option<Reply> {
    let admin = UserInfo::new("kubernetes-admin", [user::MASTERS]);
    let request = call.request()?;
    let answered = tokio::time::timeout(HANG, server.service(admin).call(request)).await;
    let answer = answered.expect("the server hangs").expect("nothing cuts connections here");
    let (parts, mut body) = answer.into_parts();
    let mut read = Vec::new();
    while let Ok(Some(frame)) = tokio::time::timeout(LISTEN, body.frame()).await {
        let frame = frame.expect("bodies in the process do not break");
        read.extend_from_slice(frame.data_ref().expect("there are no trailers"));
    }
    Some(Reply { code: parts.status.as_u16(), headers: parts.headers, body: read.into() })
}

/// Sends a request that is one.
pub async fn send(server: &ApiServer, call: &Call) -> Reply {
    try_send(server, call).await.unwrap_or_else(|| panic!("not a request: {}", call.shown()))
}

/// A server that does the same in every run.
pub async fn start() -> ApiServer {
    let origin = "2026-01-01T00:00:00Z".parse().expect("a time");
    ApiServer::builder()
        .seed(7)
        .starting_at(origin)
        .token("t")
        .start()
        .await
        .expect("a server in memory starts")
}
