//! One handle to whichever server the tests run on: the embedded one, or, where `KUBEWRIGHT_SERVER` names it, any other.
//!
//! A test gets a [`Server`] with a namespace and a group of its own, sends requests and looks at whole replies. It must
//! hold on a shared server without controllers, so it never relies on what other tests leave behind.

use std::{env, panic::AssertUnwindSafe, process, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use http_body_util::BodyExt as _;
use kube::{Client, Config, client::Body};
use kubewright_apiserver::{ApiServer, Listening};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{definition::Definition, known_gaps::KNOWN_GAPS, reply::Reply, watch::Watch};

/// The media types of patches.
pub(crate) mod media {
    pub(crate) const JSON: &str = "application/json";
    pub(crate) const JSON_PATCH: &str = "application/json-patch+json";
    pub(crate) const MERGE_PATCH: &str = "application/merge-patch+json";
    pub(crate) const STRATEGIC_MERGE_PATCH: &str = "application/strategic-merge-patch+json";
    pub(crate) const APPLY_PATCH: &str = "application/apply-patch+yaml";
    pub(crate) const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
}

/// How long an answer or an event of a real server may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Runs a test on a server. On the embedded one time is paused: what waits for a minute takes no time.
pub(crate) fn on_a_server<T: AsyncFnOnce(Server)>(test: T) {
    run(test, false);
}

/// Runs a test on a server that is reached over a socket on both sides, in real time.
pub(crate) fn over_the_network<T: AsyncFnOnce(Server)>(test: T) {
    run(test, true);
}

fn run<T: AsyncFnOnce(Server)>(test: T, network: bool) {
    let name = std::any::type_name_of_val(&test);
    let name = name.trim_start_matches("conformance::").trim_end_matches("::{{closure}}");
    let reference = env::var("KUBEWRIGHT_SERVER").ok();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(reference.is_none() && !network)
        .build()
        .expect("a runtime can be built");
    let gap = KNOWN_GAPS.iter().find(|(gap, _)| *gap == name);
    let body = async {
        let server = match &reference {
            Some(url) => Server::at(url, env::var("KUBEWRIGHT_TOKEN").unwrap_or_default(), name).await,
            None => Server::embedded(name, network).await,
        };
        test(server).await;
    };
    if reference.is_some() || gap.is_none() || env::var_os("KUBEWRIGHT_STRICT").is_some() {
        return runtime.block_on(body);
    }
    let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| runtime.block_on(body)));
    assert!(outcome.is_err(), "{name} holds now: take it off the list of known gaps");
}

/// A server with a namespace of the test's own.
pub(crate) struct Server {
    client: Client,
    url: Option<String>,
    token: String,
    embedded: Option<ApiServer>,
    /// Keeps the port open.
    _listening: Option<Listening>,
    /// Unique to the test and the run; good as a name, a label value, and a part of a group.
    pub(crate) unique: String,
    /// The test's own.
    pub(crate) namespace: String,
}

impl Server {
    async fn embedded(test: &str, network: bool) -> Self {
        let server = ApiServer::start().await.expect("the embedded server starts");
        if !network {
            return Self::new(server.client(), None, String::new(), Some(server), None, test).await;
        }
        let address = "127.0.0.1:0".parse().expect("an address");
        let listening = server.listen(address).await.expect("a port on loopback is free");
        let (url, token) = (format!("https://{}", listening.address()), server.token().to_owned());
        let client = connect(&url, Some(&token));
        Self::new(client, Some(url), token, Some(server), Some(listening), test).await
    }

    async fn at(url: &str, token: String, test: &str) -> Self {
        Self::new(connect(url, Some(&token)), Some(url.to_owned()), token, None, None, test).await
    }

    async fn new(
        client: Client,
        url: Option<String>,
        token: String,
        embedded: Option<ApiServer>,
        listening: Option<Listening>,
        test: &str,
    ) -> Self {
        let run = env::var("KUBEWRIGHT_RUN").unwrap_or_else(|_| process::id().to_string());
        // FNV-1a: two long names that begin alike stay apart.
        let hash = test
            .bytes()
            .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        let unique = format!("t{hash:08x}-{run}");
        let server = Self {
            client,
            url,
            token,
            embedded,
            _listening: listening,
            namespace: unique.clone(),
            unique: unique.clone(),
        };
        server.create_namespace(&unique).await;
        server
    }

    /// The client, for typed requests.
    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// Whether this is the server inside the process.
    pub(crate) fn is_embedded(&self) -> bool {
        self.embedded.is_some()
    }

    /// A handle of the same server and namespace with other credentials. Only over the network.
    pub(crate) fn with_token(&self, token: Option<&str>) -> Self {
        let url = self.url.as_deref().expect("credentials are told apart over the network");
        Self {
            client: connect(url, token),
            url: self.url.clone(),
            token: token.unwrap_or_default().to_owned(),
            embedded: self.embedded.clone(),
            _listening: None,
            unique: self.unique.clone(),
            namespace: self.namespace.clone(),
        }
    }

    /// The administrator's name: what both servers know it by.
    pub(crate) fn username(&self) -> &'static str {
        "kubernetes-admin"
    }

    /// Creates a namespace.
    pub(crate) async fn create_namespace(&self, name: &str) {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.post("/api/v1/namespaces", namespace).await.code(201);
    }

    /// The path of a resource in the test's namespace: `configmaps`, `configmaps/a`, `apps/v1/deployments/a/scale`.
    pub(crate) fn path(&self, resource: &str) -> String {
        in_namespace(&self.namespace, resource)
    }

    /// A definition in a group of the test's own, established and served.
    pub(crate) async fn define(&self, definition: Definition) -> Definition {
        let definition = definition.in_group(&self.unique);
        self.post(Definition::COLLECTION, definition.manifest()).await.code(201);
        self.established(&definition).await;
        definition
    }

    /// Waits until a definition is established and served.
    pub(crate) async fn established(&self, definition: &Definition) {
        self.until("the definition is established", async || {
            let found = self.get(&definition.path()).await;
            found.condition("Established").filter(|condition| condition["status"] == "True").cloned()
        })
        .await;
        self.until("the resource is served", async || {
            (self.get(&definition.everywhere()).await.code == 200).then_some(())
        })
        .await;
    }

    /// Waits for what a real server does a moment later and the embedded one at once.
    pub(crate) async fn until<V>(&self, what: &str, mut attempt: impl AsyncFnMut() -> Option<V>) -> V {
        let attempts = if self.is_embedded() { 1 } else { 300 };
        for _ in 0..attempts {
            if let Some(value) = attempt().await {
                return value;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("not within reach: {what}")
    }

    /// A revision of which the history is gone: every watch cache starts after it, and every store has forgotten it.
    pub(crate) fn expired_revision(&self) -> String {
        if let Some(server) = &self.embedded {
            server.compact();
        }
        "1".to_owned()
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send(Method::GET, path, &[], "").await
    }

    pub(crate) async fn get_as(&self, path: &str, accept: &str) -> Reply {
        self.send(Method::GET, path, &[("accept", accept)], "").await
    }

    pub(crate) async fn post(&self, path: &str, body: impl Content) -> Reply {
        self.send(Method::POST, path, &[("content-type", media::JSON)], body).await
    }

    pub(crate) async fn put(&self, path: &str, body: impl Content) -> Reply {
        self.send(Method::PUT, path, &[("content-type", media::JSON)], body).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Reply {
        self.send(Method::DELETE, path, &[], "").await
    }

    pub(crate) async fn delete_with(&self, path: &str, options: Value) -> Reply {
        self.send(Method::DELETE, path, &[("content-type", media::JSON)], options).await
    }

    pub(crate) async fn patch(&self, path: &str, media_type: &str, body: impl Content) -> Reply {
        self.send(Method::PATCH, path, &[("content-type", media_type)], body).await
    }

    pub(crate) async fn merge(&self, path: &str, body: impl Content) -> Reply {
        self.patch(path, media::MERGE_PATCH, body).await
    }

    /// A server-side apply as `manager`, which may carry further parameters: `me&force=true`.
    pub(crate) async fn apply(&self, path: &str, manager: &str, body: impl Content) -> Reply {
        let separator = if path.contains('?') { '&' } else { '?' };
        self.patch(&format!("{path}{separator}fieldManager={manager}"), media::APPLY_PATCH, body).await
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Content,
    ) -> Reply {
        let answer = self.begin(method, path, headers, body).await;
        let (parts, body) = answer.into_parts();
        let body = timeout(PATIENCE, body.collect())
            .await
            .expect("the body ends")
            .expect("the body is whole")
            .to_bytes();
        Reply::new(parts.status.as_u16(), parts.headers, body)
    }

    /// A watch; the path carries the parameters except `watch` itself.
    pub(crate) async fn watch(&self, path: &str) -> Watch {
        self.watch_as(path, media::JSON).await
    }

    pub(crate) async fn watch_as(&self, path: &str, accept: &str) -> Watch {
        let separator = if path.contains('?') { '&' } else { '?' };
        let answer =
            self.begin(Method::GET, &format!("{path}{separator}watch=true"), &[("accept", accept)], "").await;
        let (parts, body) = answer.into_parts();
        assert_eq!(parts.status, 200, "a watch begins");
        Watch::new(parts.headers, body)
    }

    async fn begin(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Content,
    ) -> http::Response<Body> {
        let mut request = Request::builder().method(method).uri(path);
        if !headers.iter().any(|(name, _)| *name == "accept") {
            request = request.header("accept", media::JSON);
        }
        if !headers.iter().any(|(name, _)| *name == "user-agent") {
            request = request.header("user-agent", "conformance/1");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body.bytes().to_vec())).expect("a well-formed request");
        timeout(PATIENCE, self.client.send(request)).await.expect("an answer in time").expect("an answer")
    }

    /// Sends a GET over a connection of its own in a version of HTTP. Only over the network.
    pub(crate) async fn get_in(&self, version: http::Version, path: &str) -> (u16, http::Version) {
        let url = self.url.as_deref().expect("connections are opened over the network");
        let address = url.trim_start_matches("https://").trim_end_matches('/');
        crate::network::get(address, path, &self.token, version).await
    }

    /// The revision of the newest list.
    pub(crate) async fn revision_of(&self, path: &str) -> String {
        self.get(path).await.code(200).text("/metadata/resourceVersion").to_owned()
    }
}

/// What can be sent as a body.
pub(crate) trait Content {
    fn bytes(self) -> Bytes;
}

impl Content for &str {
    fn bytes(self) -> Bytes {
        Bytes::copy_from_slice(self.as_bytes())
    }
}

impl Content for String {
    fn bytes(self) -> Bytes {
        self.into()
    }
}

impl Content for Value {
    fn bytes(self) -> Bytes {
        self.to_string().into()
    }
}

impl Content for &Value {
    fn bytes(self) -> Bytes {
        self.to_string().into()
    }
}

/// The path of a resource in a namespace.
pub(crate) fn in_namespace(namespace: &str, resource: &str) -> String {
    let parts: Vec<&str> = resource.split('/').collect();
    // A group version has two parts, of which the second is the version.
    let is_version =
        |part: &&&str| part.starts_with('v') && part[1..].starts_with(|c: char| c.is_ascii_digit());
    match parts.get(1).filter(is_version) {
        Some(version) => {
            format!("/apis/{}/{version}/namespaces/{namespace}/{}", parts[0], parts[2..].join("/"))
        }
        None => format!("/api/v1/namespaces/{namespace}/{resource}"),
    }
}

/// A path with parameters, encoded.
pub(crate) fn with(path: &str, parameters: &[(&str, &str)]) -> String {
    let query: Vec<String> =
        parameters.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect();
    format!("{path}?{}", query.join("&"))
}

fn encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// A client of a server, whose certificate is taken as it is: these tests run on loopback.
fn connect(url: &str, token: Option<&str>) -> Client {
    let mut config = Config::new(url.parse().expect("the address of a server"));
    config.accept_invalid_certs = true;
    config.auth_info.token = token.map(Into::into);
    config.read_timeout = None;
    // A refusal is what a test wants to see.
    config.default_retry = false;
    Client::try_from(config).expect("a client can be made")
}

/// All values of a header.
pub(crate) fn header<'a>(headers: &'a HeaderMap, name: &str) -> Vec<&'a str> {
    headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect()
}
