//! The server itself: what all requests share, and how it is built, forked and reached.

use std::{
    future::Future,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, atomic::AtomicBool},
};

use ::http::{Request, Response};
use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use serde_json::Value;
use tokio::sync::watch;

use crate::{
    admission::Configurations,
    auth::{Authenticator, CredentialError, UserInfo, rbac::Rules},
    clock::Clock,
    credentials::Credentials,
    entropy::Entropy,
    http::{self, answer::Body},
    registry::Registry,
    rest::logs::LogSource,
    services::Allocations,
    store::Store,
    webhook::{Clients, ServiceResolver},
};

/// What all requests share.
pub(crate) struct Server {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) entropy: Entropy,
    pub(crate) credentials: Arc<Credentials>,
    /// The webhooks and policies in force.
    pub(crate) admission: Configurations,
    /// Calls them, and the webhooks that convert.
    pub(crate) webhooks: Clients,
    registry: RwLock<Arc<Registry>>,
    rules: RwLock<Rules>,
    pub(crate) services: Mutex<Allocations>,
    logs: RwLock<Option<Arc<dyn LogSource>>>,
    address: RwLock<String>,
    hook: Option<Arc<dyn Hook>>,
    /// Further names the serving certificate is good for.
    hosts: Vec<String>,
    stop: watch::Sender<bool>,
    /// Held while definitions turn into resources.
    pub(crate) definitions: tokio::sync::Mutex<()>,
    /// Whoever holds `definitions` has to look again.
    pub(crate) definitions_stale: AtomicBool,
}

/// Sees every request and every answer, in order, and may change, delay, fail or cut them.
///
/// ```
/// use kubewright_apiserver::{BoxFuture, Cut, Hook, Next, Answer};
/// use bytes::Bytes;
///
/// /// Answers every write as if the connection broke after it.
/// struct LostAnswers;
///
/// impl Hook for LostAnswers {
///     fn call<'a>(&'a self, request: http::Request<Bytes>, next: Next<'a>) -> BoxFuture<'a, Result<Answer, Cut>> {
///         Box::pin(async move {
///             let is_write = request.method() != http::Method::GET;
///             let answer = next.run(request).await?;
///             if is_write { Err(Cut) } else { Ok(answer) }
///         })
///     }
/// }
/// ```
pub trait Hook: Send + Sync + 'static {
    /// Handles a request; `next` is the server behind the hook.
    fn call<'a>(&'a self, request: Request<Bytes>, next: Next<'a>) -> BoxFuture<'a, Result<Answer, Cut>>;
}

/// A future on the heap.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An answer of the server.
pub type Answer = Response<Body>;

/// The connection is cut: the client sees no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the connection was cut")]
pub struct Cut;

/// The server behind a [`Hook`].
pub struct Next<'a> {
    server: &'a Arc<Server>,
    user: Arc<UserInfo>,
}

impl Next<'_> {
    /// Who asks.
    pub fn user(&self) -> &UserInfo {
        &self.user
    }

    /// Lets the request through.
    pub async fn run(self, request: Request<Bytes>) -> Result<Answer, Cut> {
        Ok(http::handle(self.server, request, self.user).await)
    }
}

impl Server {
    pub(crate) fn new(
        store: Store,
        clock: Clock,
        entropy: Entropy,
        credentials: Credentials,
        hook: Option<Arc<dyn Hook>>,
        hosts: Vec<String>,
        resolver: Option<Arc<dyn ServiceResolver>>,
    ) -> Self {
        Self {
            webhooks: Clients::new(resolver, store.clone(), clock),
            store,
            clock,
            entropy,
            credentials: Arc::new(credentials),
            admission: Configurations::default(),
            registry: RwLock::new(Registry::built_in()),
            rules: RwLock::default(),
            services: Mutex::default(),
            logs: RwLock::default(),
            address: RwLock::new("127.0.0.1:6443".to_owned()),
            hook,
            hosts,
            stop: watch::Sender::new(false),
            definitions: tokio::sync::Mutex::default(),
            definitions_stale: AtomicBool::new(false),
        }
    }

    /// An independent server that goes its own way from here.
    pub(crate) fn fork(&self) -> Self {
        let store = self.store.fork();
        Self {
            webhooks: self.webhooks.fork(store.clone()),
            store,
            clock: self.clock,
            entropy: self.entropy.fork(),
            credentials: self.credentials.clone(),
            admission: self.admission.fork(),
            registry: RwLock::new(self.registry()),
            rules: RwLock::new(self.rules()),
            services: Mutex::new(self.services.lock().clone()),
            // The nodes stay where they are.
            logs: RwLock::default(),
            address: RwLock::new(self.address()),
            hook: self.hook.clone(),
            hosts: self.hosts.clone(),
            stop: watch::Sender::new(false),
            definitions: tokio::sync::Mutex::default(),
            definitions_stale: AtomicBool::new(false),
        }
    }

    pub(crate) fn log_source(&self) -> Option<Arc<dyn LogSource>> {
        self.logs.read().clone()
    }

    pub(crate) fn set_log_source(&self, source: Arc<dyn LogSource>) {
        *self.logs.write() = Some(source);
    }

    pub(crate) fn authenticator(&self) -> &Authenticator {
        &self.credentials.authenticator
    }

    /// TLS for a server that listens on `address`.
    pub(crate) fn tls(&self, address: SocketAddr) -> Result<rustls::ServerConfig, CredentialError> {
        let mut hosts = self.hosts.clone();
        if !address.ip().is_unspecified() {
            hosts.push(address.ip().to_string());
        }
        let authority = &self.credentials.authority;
        authority.server_config(&authority.serving(&hosts, self.clock.now())?)
    }

    /// Serves a request of a known user, through the hook if there is one.
    pub(crate) async fn call(
        self: &Arc<Self>,
        request: Request<Bytes>,
        user: Arc<UserInfo>,
    ) -> Result<Answer, Cut> {
        let next = Next { server: self, user };
        match &self.hook {
            Some(hook) => hook.call(request, next).await,
            None => next.run(request).await,
        }
    }

    pub(crate) fn registry(&self) -> Arc<Registry> {
        self.registry.read().clone()
    }

    pub(crate) fn set_registry(&self, registry: Registry) {
        *self.registry.write() = Arc::new(registry);
    }

    /// The rights there are; a copy costs nothing.
    pub(crate) fn rules(&self) -> Rules {
        self.rules.read().clone()
    }

    pub(crate) fn change_rules<T>(&self, change: impl FnOnce(&mut Rules) -> T) -> T {
        change(&mut self.rules.write())
    }

    /// Host and port under which the server is reached, once it listens.
    pub(crate) fn address(&self) -> String {
        self.address.read().clone()
    }

    pub(crate) fn set_address(&self, address: String) {
        *self.address.write() = address;
    }

    pub(crate) fn openid_configuration(&self) -> Value {
        self.authenticator().service_accounts().openid_configuration(&self.address())
    }

    pub(crate) fn key_set(&self) -> Value {
        self.authenticator().service_accounts().key_set()
    }

    /// Resolves once the server stops: streams end then.
    pub(crate) async fn stopped(&self) {
        let mut stop = self.stop.subscribe();
        let _ = stop.wait_for(|stop| *stop).await;
    }

    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
    }
}
