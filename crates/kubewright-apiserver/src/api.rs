//! What users of the crate hold: a server to build, to talk to in the process, to fork, and to open on a port.

use std::{
    fmt, io,
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
    task::{Context, Poll},
};

use ::http::{Request, Response};
use jiff::Timestamp;
use serde_json::json;
use tokio::{net::TcpListener, task::JoinHandle};

use crate::{
    auth::{CredentialError, UserInfo, certificates::KeyedCertificate, user},
    clock::Clock,
    credentials::Credentials,
    entropy::Entropy,
    http::{answer::Body, listener},
    rest::logs::LogSource,
    server::{BoxFuture, Cut, Hook, Server},
    store::{OpenError, Options, Snapshot, Store},
    webhook::ServiceResolver,
};

/// Why a server could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data directory can't be used.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// Certificates or keys can't be made, read or kept.
    #[error("credentials in {}: {source}", .path.display())]
    Credentials {
        /// Where they are kept.
        path: PathBuf,
        /// What is wrong.
        source: CredentialError,
    },
    /// A file can't be read or written.
    #[error("{}: {source}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// The objects every cluster starts with could not be stored.
    #[error("the first objects could not be stored: {0}")]
    Bootstrap(crate::error::ApiError),
}

/// A Kubernetes API server inside the process. Clones are handles to the same one.
///
/// ```
/// # tokio_test_block(async {
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kube::api::{Api, PostParams};
///
/// let server = kubewright_apiserver::ApiServer::start().await?;
/// let maps: Api<ConfigMap> = Api::namespaced(server.client(), "default");
/// let map = serde_json::from_value(serde_json::json!({"metadata": {"name": "greeting"}, "data": {"text": "hello"}}))?;
/// let created = maps.create(&PostParams::default(), &map).await?;
/// assert!(created.metadata.uid.is_some());
/// # Ok(()) });
/// # fn tokio_test_block(run: impl std::future::Future<Output = Result<(), Box<dyn std::error::Error>>>) {
/// #     tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(run).unwrap();
/// # }
/// ```
#[derive(Clone)]
pub struct ApiServer {
    server: Arc<Server>,
}

impl fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiServer").field("revision", &self.server.store.revision()).finish_non_exhaustive()
    }
}

/// How a server is set up. See [`ApiServer::builder`].
#[derive(Default)]
pub struct Builder {
    data_dir: Option<PathBuf>,
    token: Option<String>,
    seed: Option<u64>,
    origin: Option<Timestamp>,
    hook: Option<Arc<dyn Hook>>,
    hosts: Vec<String>,
    options: Options,
    services: Option<Arc<dyn ServiceResolver>>,
}

impl Builder {
    /// Keeps everything in a directory, where it survives the process.
    #[must_use]
    pub fn data_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.data_dir = Some(dir.into());
        self
    }

    /// A bearer token for the administrator; a random one without this.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// The seed of uids, generated names and jitter: the same seed and the same requests give the same objects.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// The time at which the server starts; it goes on with tokio's clock. The machine's time without this.
    #[must_use]
    pub fn starting_at(mut self, origin: Timestamp) -> Self {
        self.origin = Some(origin);
        self
    }

    /// Sees every request and answer and may change, delay, fail or cut it.
    #[must_use]
    pub fn hook(mut self, hook: impl Hook) -> Self {
        self.hook = Some(Arc::new(hook));
        self
    }

    /// A further name or address the serving certificate is good for.
    #[must_use]
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.hosts.push(host.into());
        self
    }

    /// Finds the webhooks that are named by a Service. Those it does not know are where the Service and its endpoints
    /// say.
    #[must_use]
    pub fn service_resolver(mut self, resolver: impl ServiceResolver) -> Self {
        self.services = Some(Arc::new(resolver));
        self
    }

    /// How much watch history is kept.
    #[must_use]
    pub fn store_options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Starts the server. It is ready when this returns.
    pub async fn start(self) -> Result<ApiServer, StartError> {
        let clock = self.origin.map_or_else(Clock::system, Clock::starting_at);
        let store = match &self.data_dir {
            Some(dir) => Store::open(dir, self.options)?,
            None => Store::in_memory(self.options),
        };
        let credentials = Credentials::open(self.data_dir.as_deref(), self.token, clock.now())?;
        let entropy = Entropy::seeded(self.seed.unwrap_or_else(Entropy::machine_seed));
        let server =
            Arc::new(Server::new(store, clock, entropy, credentials, self.hook, self.hosts, self.services));
        server.bootstrap().await.map_err(StartError::Bootstrap)?;
        Ok(ApiServer { server })
    }
}

impl ApiServer {
    /// A server in memory, ready when this returns.
    pub async fn start() -> Result<Self, StartError> {
        Self::builder().start().await
    }

    /// A server to be set up.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// A client of the administrator, without a socket.
    pub fn client(&self) -> kube::Client {
        self.client_as(UserInfo::new("kubernetes-admin", [user::MASTERS]))
    }

    /// A client of any user, without a socket. What it may do is up to RBAC.
    pub fn client_as(&self, user: UserInfo) -> kube::Client {
        kube::Client::new(self.service(user), "default")
    }

    /// A client of a service account, without a socket. What it may do is up to RBAC.
    pub fn client_of_service_account(&self, namespace: &str, name: &str) -> kube::Client {
        kube::Client::new(self.service(UserInfo::service_account(namespace, name)), namespace)
    }

    /// The server as a service for HTTP requests of `user`.
    pub fn service(&self, user: UserInfo) -> InProcess {
        InProcess { server: self.server.clone(), user: Arc::new(user) }
    }

    /// An independent server with the same content, which goes its own way from here. Costs next to nothing.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self { server: Arc::new(self.server.fork()) }
    }

    /// The revision of the last write.
    pub fn revision(&self) -> u64 {
        self.server.store.revision()
    }

    /// Waits until something of at least this revision was written.
    pub async fn reached(&self, revision: u64) {
        self.server.store.wait_for_revision(revision).await;
    }

    /// Everything that is stored, as it is now.
    pub fn snapshot(&self) -> Snapshot {
        self.server.store.snapshot()
    }

    /// Forgets watch history up to now, as the compaction of a real cluster does every few minutes.
    pub fn compact(&self) {
        self.server.store.compact(self.server.store.revision());
    }

    /// What containers have written is read from here, from now on. Without this, no pod has a log.
    pub fn reads_logs_from(&self, source: impl LogSource) {
        self.server.set_log_source(Arc::new(source));
    }

    /// The administrator's bearer token.
    pub fn token(&self) -> &str {
        &self.server.credentials.token
    }

    /// The certificate, as PEM, by which clients know the server.
    pub fn certificate_authority(&self) -> String {
        self.server.credentials.authority.certificate_pem()
    }

    /// Opens the server on an address, with TLS. Port 0 takes a free one.
    pub async fn listen(&self, address: SocketAddr) -> io::Result<Listening> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let tls = self.server.tls(address).map_err(io::Error::other)?;
        let admin = self.server.credentials.admin(self.server.clock.now()).map_err(io::Error::other)?;
        self.server.set_address(address.to_string());
        let task = tokio::spawn(listener::serve(self.server.clone(), listener, tls));
        Ok(Listening { server: self.server.clone(), address, admin, task })
    }
}

/// A server that is open on a port. It closes when this is dropped.
pub struct Listening {
    server: Arc<Server>,
    address: SocketAddr,
    admin: KeyedCertificate,
    task: JoinHandle<()>,
}

impl fmt::Debug for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listening").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Listening {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A kubeconfig with which kubectl and every client reach it as administrator.
    pub fn kubeconfig(&self) -> String {
        use base64::{Engine as _, engine::general_purpose::STANDARD};
        let authority = self.server.credentials.authority.certificate_pem();
        let document = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "kubewright", "preferences": {},
            "clusters": [{"name": "kubewright", "cluster": {
                "server": format!("https://{}", self.address),
                "certificate-authority-data": STANDARD.encode(authority),
            }}],
            "contexts": [{"name": "kubewright", "context": {"cluster": "kubewright", "user": "kubewright-admin"}}],
            "users": [{"name": "kubewright-admin", "user": {
                "client-certificate-data": STANDARD.encode(&self.admin.certificate),
                "client-key-data": STANDARD.encode(&self.admin.key),
            }}],
        });
        crate::http::yaml::print(&document)
    }

    /// Ends watches, lets open requests finish, and closes.
    pub async fn stop(mut self) {
        self.server.stop();
        let _ = (&mut self.task).await;
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.server.stop();
        self.task.abort();
    }
}

/// The server as a `tower` service in the process: what [`ApiServer::client`] stands on.
#[derive(Clone)]
pub struct InProcess {
    server: Arc<Server>,
    user: Arc<UserInfo>,
}

impl fmt::Debug for InProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InProcess").field("user", &self.user.name).finish_non_exhaustive()
    }
}

impl tower_service::Service<Request<kube::client::Body>> for InProcess {
    type Response = Response<Body>;
    type Error = Cut;
    type Future = BoxFuture<'static, Result<Self::Response, Cut>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Cut>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let (server, user) = (self.server.clone(), self.user.clone());
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            match listener::read(body).await {
                Ok(body) => server.call(Request::from_parts(parts, body), user).await,
                Err(error) => Ok(error.into()),
            }
        })
    }
}
