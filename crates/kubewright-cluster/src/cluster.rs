//! The cluster as a whole: what it is made of, and how it is started and stopped.

use std::{fmt::Debug, path::PathBuf, sync::Arc};

use jiff::Timestamp;
use kube::{Api, Client, api::PostParams};
use kubewright::{Operator, Options, Running, clock::Clock, entropy::Entropy};
use kubewright_apiserver::{ApiServer, Hook, auth::UserInfo};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    controllers,
    nodes::{self, Lost, Runtime, Simulated},
    scheduler,
    services::{Served, Services},
};

/// Why a cluster could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The API server could not.
    #[error(transparent)]
    Server(#[from] kubewright_apiserver::StartError),
    /// The nodes could not be registered.
    #[error("the nodes could not be registered: {0}")]
    Nodes(kube::Error),
    /// Nodes were registered but can't be used.
    #[error("not ready in time: {}", .0.join(", "))]
    NotReady(Vec<String>),
    /// The default storage class could not be put in place.
    #[error("the default storage class could not be put in place: {0}")]
    Storage(kube::Error),
    /// The controllers could not.
    #[error("the controllers did not start: {0}")]
    Controllers(kubewright::Error),
}

/// How a cluster is set up. See [`Cluster::builder`].
pub struct Builder {
    server: kubewright_apiserver::Builder,
    nodes: usize,
    runtime: Arc<dyn Runtime>,
    seed: Option<u64>,
    origin: Option<Timestamp>,
    events: bool,
    services: Services,
}

impl Builder {
    /// Keeps everything in a directory, where it survives the process.
    #[must_use]
    pub fn data_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.server = self.server.data_dir(dir);
        self
    }

    /// A bearer token for the administrator; a random one without this.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.server = self.server.token(token);
        self
    }

    /// How many nodes there are: one without this.
    #[must_use]
    pub fn nodes(mut self, nodes: usize) -> Self {
        self.nodes = nodes;
        self
    }

    /// What runs the containers of pods: a simulation without this.
    #[must_use]
    pub fn runtime(mut self, runtime: impl Runtime) -> Self {
        self.runtime = Arc::new(runtime);
        self
    }

    /// The seed of everything that is random: the same seed and the same requests give the same run.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.server = self.server.seed(seed);
        self.seed = Some(seed);
        self
    }

    /// The time at which the cluster starts; it goes on with tokio's clock. The machine's time without this.
    #[must_use]
    pub fn starting_at(mut self, origin: Timestamp) -> Self {
        self.server = self.server.starting_at(origin);
        self.origin = Some(origin);
        self
    }

    /// Whether its controllers write events: they do without this. It is less work without them, if nobody reads them.
    #[must_use]
    pub fn events(mut self, are_written: bool) -> Self {
        self.events = are_written;
        self
    }

    /// Sees every request and answer and may change, delay, fail or cut it.
    #[must_use]
    pub fn hook(mut self, hook: impl Hook) -> Self {
        self.server = self.server.hook(hook);
        self
    }

    /// Where calls of Services are led. A server that is [there already](Self::start_on) has to have it as its resolver.
    #[must_use]
    pub fn services(mut self, services: Services) -> Self {
        self.services = services;
        self
    }

    /// Starts the cluster. Its controllers work and its nodes are ready when this returns.
    pub async fn start(mut self) -> Result<Cluster, StartError> {
        let server = std::mem::take(&mut self.server).service_resolver(self.services.clone());
        let server = server.start().await?;
        self.start_on(server).await
    }

    /// Starts everything else around a server that is there already; what was said of the server here is not heard.
    pub async fn start_on(self, server: ApiServer) -> Result<Cluster, StartError> {
        let client = server.client_as(UserInfo::new("system:kube-controller-manager", ["system:masters"]));
        let clock = self.origin.map_or_else(Clock::system, Clock::starting_at);
        nodes::register(&client, self.nodes).await.map_err(StartError::Nodes)?;
        controllers::volumes::register(&client).await.map_err(StartError::Storage)?;
        // One operator for all of them, so that they share their watches.
        let operator = Operator::new("kube-controller-manager");
        let operator =
            controllers::all(server.certificate_authority()).into_iter().fold(operator, Operator::controller);
        server.reads_logs_from(nodes::Logs { runtime: self.runtime.clone(), clock });
        let lost = Lost::default();
        let operator = operator
            .controller(scheduler::controller())
            .controller(nodes::agent(lost.clone()))
            .controller(nodes::controller(self.runtime, lost.clone()));
        let operator = operator.task("garbage-collector-controller", controllers::collect_garbage);
        let options = Options {
            clock,
            events: self.events,
            entropy: self.seed.map_or_else(Entropy::system, Entropy::seeded),
            ..Options::default()
        };
        let mut running = operator.start(client.clone(), options);
        running.working().await.map_err(StartError::Controllers)?;
        nodes::ready(&client).await?;
        Ok(Cluster { server, running, clock, lost, services: self.services })
    }
}

/// Creates an object, unless there is one of that name.
pub(crate) async fn create_if_missing<K>(api: &Api<K>, object: &K) -> kube::Result<()>
where
    K: Clone + Debug + Serialize + DeserializeOwned,
{
    match api.create(&PostParams::default(), object).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        created => created.map(|_| ()),
    }
}

/// A Kubernetes cluster inside the process. It ends when this is dropped.
pub struct Cluster {
    server: ApiServer,
    running: Running,
    clock: Clock,
    lost: Lost,
    services: Services,
}

impl Cluster {
    /// A cluster in memory with one simulated node.
    pub async fn start() -> Result<Self, StartError> {
        Self::builder().start().await
    }

    /// A cluster to be set up.
    pub fn builder() -> Builder {
        Builder {
            server: ApiServer::builder(),
            nodes: 1,
            runtime: Arc::new(Simulated::default()),
            seed: None,
            origin: None,
            events: true,
            services: Services::default(),
        }
    }

    /// Its API server.
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// A client of the administrator, without a socket.
    pub fn client(&self) -> Client {
        self.server.client()
    }

    /// The time it is in the cluster.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Leads calls of the API server to a Service, such as those of webhooks, to an operator on this machine.
    pub fn lead_service(&self, namespace: &str, name: &str, to: impl Into<Served>) {
        self.services.lead(namespace, name, to);
    }

    pub(crate) fn services(&self) -> Services {
        self.services.clone()
    }

    /// Cuts a node off: nothing is heard of it any more, and nothing changes on it.
    pub fn lose_node(&self, name: &str) {
        self.lost.lose(name);
    }

    /// A node that was cut off comes back.
    pub fn restore_node(&self, name: &str) {
        self.lost.restore(name);
    }

    /// Waits until the controllers end by themselves, which they only do if something fails.
    pub async fn ended(&mut self) -> kubewright::Result<()> {
        self.running.ended().await
    }

    /// Lets what is being done come to its end, and stops.
    pub async fn stop(self) -> kubewright::Result<()> {
        self.running.stop().await
    }
}
