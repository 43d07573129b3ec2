//! Requests to a whole server whose webhooks are real ones: another task behind TLS, on a socket or in memory.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use ::http::{Method, Request, Response};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncWrite, DuplexStream},
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;
use tower_service::Service as _;

use super::{Route, ServiceResolver, service};
use crate::{
    ApiServer,
    auth::{UserInfo, certificates::CertificateAuthority},
    store::{Attributes, Change, Expect, ResourceId, Store, Write},
};

/// What a webhook of a name says to a request.
type Reviewer = dyn Fn(&str, &Value) -> Value + Send + Sync;

/// A server of webhooks: what is posted to `/NAME` is answered as `answer` says, and kept. Null is never answered.
#[derive(Clone)]
pub(crate) struct Hooks {
    pub(crate) address: SocketAddr,
    ca_bundle: String,
    tls: TlsAcceptor,
    answer: Arc<Reviewer>,
    /// Name and request of every call.
    pub(crate) reviews: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Hooks {
    pub(crate) async fn start(answer: impl Fn(&str, &Value) -> Value + Send + Sync + 'static) -> Self {
        Self::certified_at(crate::Clock::system().now(), answer).await
    }

    /// One whose certificates were made at some time.
    pub(crate) async fn certified_at(
        now: Timestamp,
        answer: impl Fn(&str, &Value) -> Value + Send + Sync + 'static,
    ) -> Self {
        let authority = CertificateAuthority::generate(now).unwrap();
        let hosts = ["127.0.0.1".to_owned(), "checks.default.svc".to_owned()];
        let mut tls = authority.server_config(&authority.serving(&hosts, now).unwrap()).unwrap();
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let hooks = Self {
            address: listener.local_addr().unwrap(),
            ca_bundle: STANDARD.encode(authority.certificate_pem()),
            tls: TlsAcceptor::from(Arc::new(tls)),
            answer: Arc::new(answer),
            reviews: Arc::default(),
        };
        let served = hooks.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(served.clone().serve(stream));
            }
        });
        hooks
    }

    /// A connection to it that needs no socket.
    fn pipe(&self) -> DuplexStream {
        let (near, far) = tokio::io::duplex(64 << 10);
        tokio::spawn(self.clone().serve(far));
        near
    }

    async fn serve(self, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
        let Ok(stream) = self.tls.accept(stream).await else { return };
        let service = service_fn(move |request| self.clone().review(request));
        let _ =
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
    }

    async fn review(self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
        let name = request.uri().path().trim_start_matches('/').to_owned();
        let body = request.into_body().collect().await?.to_bytes();
        let mut review: Value = serde_json::from_slice(&body).unwrap();
        let request = review["request"].take();
        let mut response = (self.answer)(&name, &request);
        if response.is_null() {
            std::future::pending::<()>().await;
        }
        response["uid"] = request["uid"].clone();
        self.reviews.lock().push((name, request));
        review["response"] = response;
        Ok(Response::new(Full::new(Bytes::from(review.to_string()))))
    }

    pub(crate) fn client_config(&self, name: &str) -> Value {
        json!({"url": format!("https://{}/{name}", self.address), "caBundle": self.ca_bundle})
    }

    /// The same, by the Service `checks`.
    fn service_config(&self, port: u16) -> Value {
        json!({
            "service": {"namespace": "default", "name": "checks", "path": "/convert", "port": port},
            "caBundle": self.ca_bundle,
        })
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.reviews.lock().iter().map(|(name, _)| name.clone()).collect()
    }
}

/// One request of an administrator: code, body and warnings.
pub(crate) async fn call(
    server: &ApiServer,
    method: Method,
    path: &str,
    body: &Value,
) -> (u16, Value, Vec<String>) {
    let user = UserInfo::new("alice", ["system:masters"]);
    let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .body(kube::client::Body::from(body))
        .unwrap();
    let answer = server.service(user).call(request).await.unwrap();
    let warnings =
        answer.headers().get_all("warning").iter().map(|one| one.to_str().unwrap().to_owned()).collect();
    let code = answer.status().as_u16();
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or_default(), warnings)
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const GATES: &str = "/apis/example.com/v1/gates";

/// Renames a field, which is all the versions of gates differ in.
fn convert(_: &str, request: &Value) -> Value {
    let to = request["desiredAPIVersion"].clone();
    let (from, into) = if to == "example.com/v2" { ("old", "new") } else { ("new", "old") };
    let converted = request["objects"].as_array().unwrap().iter().map(|object| {
        let mut object = object.clone();
        object["apiVersion"] = to.clone();
        let name = object.as_object_mut().unwrap().remove(from).unwrap();
        object[into] = name;
        object
    });
    json!({"convertedObjects": converted.collect::<Vec<_>>(), "result": {"status": "Success"}})
}

/// Defines gates and makes one, `a`, that is kept in `v1`.
async fn define(server: &ApiServer, client_config: Value) {
    let version = |name: &str, field: &str| {
        json!({"name": name, "served": true, "storage": name == "v1", "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {field: {"type": "string"}}}}})
    };
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "gates.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"plural": "gates", "kind": "Gate"},
            "versions": [version("v1", "old"), version("v2", "new")],
            "conversion": {"strategy": "Webhook", "webhook": {
                "clientConfig": client_config, "conversionReviewVersions": ["v1"]}},
        },
    });
    let (code, answer, _) = call(server, Method::POST, DEFINITIONS, &definition).await;
    assert_eq!(code, 201, "{answer}");
    let gate = json!({"apiVersion": "example.com/v1", "kind": "Gate", "metadata": {"name": "a"}, "old": "x"});
    assert_eq!(call(server, Method::POST, GATES, &gate).await.0, 201);
}

/// What a request for `v2` of the gate comes to: the renamed field, or what went wrong with the call.
async fn converted(server: &ApiServer) -> Result<Value, String> {
    let (code, mut gate, _) = call(server, Method::GET, "/apis/example.com/v2/gates/a", &Value::Null).await;
    if code == 200 {
        return Ok(gate["new"].take());
    }
    assert_eq!(code, 500, "{gate}");
    let message = gate["message"].as_str().unwrap();
    Err(message.rsplit("?timeout=30s\": ").next().unwrap().to_owned())
}

/// A resolver that may learn later where `checks` is.
#[derive(Clone, Default)]
struct Resolver(Arc<Mutex<Option<Hooks>>>);

impl Resolver {
    fn learn(&self, hooks: &Hooks) {
        *self.0.lock() = Some(hooks.clone());
    }
}

impl ServiceResolver for Resolver {
    fn resolve(&self, namespace: &str, name: &str, port: u16) -> Option<Route> {
        assert_eq!((namespace, name, port), ("default", "checks", 443));
        self.0.lock().as_ref().map(|hooks| Route::Pipe(hooks.pipe()))
    }
}

#[tokio::test(start_paused = true)]
async fn a_webhook_inside_the_process_is_called_without_a_socket() {
    let hooks = Hooks::start(convert).await;
    let resolver = Resolver::default();
    let server = ApiServer::builder().service_resolver(resolver.clone()).start().await.unwrap();
    define(&server, hooks.service_config(443)).await;
    assert_eq!(converted(&server).await.unwrap_err(), "service \"checks\" not found");
    resolver.learn(&hooks);
    for _ in 0..2 {
        assert_eq!(converted(&server).await.unwrap(), "x");
    }
    assert_eq!(converted(&server.fork()).await.unwrap(), "x");
    assert_eq!(hooks.asked(), ["convert"; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_webhook_has_half_a_minute_to_convert() {
    let hooks = Hooks::start(|_, _| Value::Null).await;
    let resolver = Resolver::default();
    resolver.learn(&hooks);
    let server = ApiServer::builder().service_resolver(resolver.clone()).start().await.unwrap();
    define(&server, hooks.service_config(443)).await;
    let begin = tokio::time::Instant::now();
    let why = converted(&server).await.unwrap_err();
    assert_eq!(why, "context deadline exceeded (Client.Timeout exceeded while awaiting headers)");
    assert_eq!(begin.elapsed(), Duration::from_secs(30));
}

#[tokio::test(start_paused = true)]
async fn certificates_are_judged_by_the_time_of_the_server() {
    let origin: Timestamp = "2031-01-01T00:00:00Z".parse().unwrap();
    let hooks = Hooks::certified_at(origin, convert).await;
    let resolver = Resolver::default();
    resolver.learn(&hooks);
    let server =
        ApiServer::builder().service_resolver(resolver.clone()).starting_at(origin).start().await.unwrap();
    define(&server, hooks.service_config(443)).await;
    assert_eq!(converted(&server).await.unwrap(), "x");
    tokio::time::advance(Duration::from_secs(400 * 24 * 3600)).await;
    let expired = "tls: failed to verify certificate: x509: certificate has expired or is not yet valid: \
                   current time 2032-02-05T00:00:00Z is after ";
    // A fork has no connection yet.
    let why = converted(&server.fork()).await.unwrap_err();
    assert!(why.starts_with(expired), "{why}");
}

#[tokio::test]
async fn a_service_that_leads_nowhere_is_said_to() {
    let hooks = Hooks::start(convert).await;
    let server = ApiServer::start().await.unwrap();
    define(&server, hooks.service_config(8443)).await;
    let base = "/api/v1/namespaces/default";
    assert_eq!(converted(&server).await.unwrap_err(), "service \"checks\" not found");
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "checks"}, "spec": {"ports": [{"port": 443}]},
    });
    assert_eq!(call(&server, Method::POST, &format!("{base}/services"), &service).await.0, 201);
    assert_eq!(converted(&server).await.unwrap_err(), "no service port 8443 found for service \"checks\"");
    let ports = json!([{"port": 443, "name": "other"}, {"port": 8443, "name": "hooks"}]);
    crate::patch::merge::apply(&mut service, json!({"spec": {"ports": ports}}));
    let path = format!("{base}/services/checks");
    assert_eq!(call(&server, Method::PUT, &path, &service).await.0, 200);
    assert_eq!(converted(&server).await.unwrap_err(), "no endpoints available for service \"checks\"");
}

/// Stores an object of the namespace `default` as it is: addresses of this machine are none the API lets through.
async fn keep(store: &Store, group: &str, plural: &str, object: Value) {
    let metadata = &object["metadata"];
    let label = metadata["labels"]["kubernetes.io/service-name"].as_str();
    let labels = label.map(|name| ("kubernetes.io/service-name", name)).into_iter().collect();
    let key = format!("default/{}", metadata["name"].as_str().unwrap()).into();
    let change =
        Change::put(labels, Attributes::default(), move |_, out| out.extend(object.to_string().bytes()));
    let write = Write { resource: ResourceId::new(group, plural), key, expect: Expect::Absent, change };
    store.commit(write).await.unwrap();
}

#[tokio::test]
async fn a_service_is_served_by_the_first_endpoint_that_is_ready() {
    let store = Store::default();
    let named = |name: &str, port: u16| json!({"name": name, "port": port});
    let service =
        |name: &str| json!({"metadata": {"name": name}, "spec": {"ports": [named("a", 1), named("b", 2)]}});
    keep(&store, "", "services", service("sliced")).await;
    keep(&store, "", "services", service("listed")).await;
    for (name, of, ready) in
        [("1", "listed", Value::Null), ("2", "sliced", json!(false)), ("3", "sliced", json!(true))]
    {
        let slice = json!({
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": of}},
            "endpoints": [{"addresses": [format!("10.0.0.{name}")], "conditions": {"ready": ready}}],
            "ports": if of == "sliced" { json!([named("b", 8443)]) } else { json!([]) },
        });
        keep(&store, "discovery.k8s.io", "endpointslices", slice).await;
    }
    let endpoints = json!({"metadata": {"name": "listed"}, "subsets": [
        {"addresses": [{"ip": "10.0.1.1"}], "ports": [named("a", 8080)]},
        {"addresses": [{"ip": "10.0.1.2"}], "ports": [named("b", 8443)]},
    ]});
    keep(&store, "", "endpoints", endpoints).await;
    let found = |name: &str, port: u16| service::stored(&store, "default", name, port);
    assert_eq!(found("sliced", 2), Ok(("10.0.0.3".to_owned(), 8443)));
    assert_eq!(found("listed", 2), Ok(("10.0.1.2".to_owned(), 8443)));
    assert_eq!(found("sliced", 1), Err("no endpoints available for service \"sliced\"".to_owned()));
}

#[tokio::test]
async fn an_external_name_is_a_host() {
    let hooks = Hooks::start(convert).await;
    let server = ApiServer::start().await.unwrap();
    define(&server, hooks.service_config(hooks.address.port())).await;
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "checks"},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    });
    assert_eq!(call(&server, Method::POST, "/api/v1/namespaces/default/services", &service).await.0, 201);
    assert_eq!(converted(&server).await.unwrap(), "x");
}
