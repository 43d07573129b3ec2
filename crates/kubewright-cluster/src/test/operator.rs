//! An operator in the cluster of a test: installed as its manifests say, with the rights they give and no others, on a
//! line that can be listened to and broken.

use std::{
    future::Future,
    net::{SocketAddr, TcpListener},
    ops::Deref,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::{Method, Request, Response, StatusCode};
use kube::{Client, api::DynamicObject, client::Body};
use kubewright::{
    ManifestOptions, Operator, Options, Part, Reach, Running, clock::Clock, entropy::Entropy, install_crds_at,
};
use parking_lot::Mutex;
use serde_json::json;

use super::{TestCluster, elsewhere};

/// An operator that runs in a [`TestCluster`] as its own service account. Dropping it is a crash.
#[must_use = "the operator ends when this is dropped"]
pub struct TestOperator {
    running: Running,
    line: Line,
}

impl Deref for TestOperator {
    type Target = Running;

    fn deref(&self) -> &Running {
        &self.running
    }
}

#[allow(clippy::panic, reason = "a test says what is wrong by panicking")]
impl TestOperator {
    /// What it has written since this was last asked: method and path of each request.
    pub fn writes(&self) -> Vec<String> {
        std::mem::take(&mut self.line.0.lock().writes)
    }

    /// What it was refused because it has no right to it, so far.
    pub fn forbidden(&self) -> Vec<String> {
        self.line.0.lock().forbidden.clone()
    }

    /// From now on its requests for a resource, such as `deployments`, are answered with an internal error; watches
    /// that are open stay so. It ends when the answer is dropped.
    pub fn outage_of(&self, resource: &str) -> Outage {
        self.line.0.lock().broken.push(resource.to_owned());
        Outage { line: self.line.clone(), resource: resource.to_owned() }
    }

    /// Asks it to end, as the deletion of its pod does.
    ///
    /// # Panics
    /// If it ends with an error.
    pub async fn stop(self) {
        self.running.stop().await.unwrap_or_else(|why| panic!("the operator did not stop: {why}"));
    }
}

/// A time in which requests of an operator fail. See [`TestOperator::outage_of`].
#[must_use = "the outage ends when this is dropped"]
pub struct Outage {
    line: Line,
    resource: String,
}

impl Drop for Outage {
    fn drop(&mut self) {
        let broken = &mut self.line.0.lock().broken;
        if let Some(at) = broken.iter().position(|resource| *resource == self.resource) {
            broken.swap_remove(at);
        }
    }
}

#[allow(clippy::panic, reason = "a test says what is wrong by panicking")]
impl TestCluster {
    /// Installs an operator and runs it until the answer is dropped: its definitions, its service account, its roles and
    /// its webhooks are what its manifests have, and it may do what they let it do.
    ///
    /// # Panics
    /// If it can't be installed, or does not start.
    pub async fn run(&self, operator: Operator) -> TestOperator {
        self.run_with(operator, |options| options).await
    }

    /// Like [`run`](Self::run), with other options.
    ///
    /// # Panics
    /// If it can't be installed, or does not start.
    pub async fn run_with(
        &self,
        operator: Operator,
        choose: impl FnOnce(Options) -> Options,
    ) -> TestOperator {
        let webhook_address = self.webhook_address();
        self.install_at(&operator, webhook_address).await;
        let (namespace, name) = (format!("{}-system", operator.name()), operator.name());
        let account = match &self.cluster {
            Some(cluster) => cluster.server().client_of_service_account(&namespace, name),
            None => elsewhere::client_of_service_account(self.client(), &namespace, name).await,
        };
        let line = Line::default();
        let client = Client::new(OnLine { client: account, line: line.clone() }, namespace.clone());
        let options = Options {
            clock: Clock::starting_at(self.clock().now()),
            entropy: Entropy::seeded(2),
            namespaces: self.watched(),
            webhook_address,
            ..Options::default()
        };
        let service = operator.webhook_service();
        let mut running = operator.start(client, choose(options));
        if let Some(cluster) = &self.cluster {
            cluster.lead_service(&namespace, &service, running.webhooks());
        }
        running.working().await.unwrap_or_else(|why| panic!("the operator does not work: {why}"));
        running.trusted().await;
        TestOperator { running, line }
    }

    /// Installs an operator without running it.
    ///
    /// # Panics
    /// If it can't be installed.
    pub async fn install(&self, operator: &Operator) {
        self.install_at(operator, self.webhook_address()).await;
    }

    async fn install_at(&self, operator: &Operator, webhook_address: Option<SocketAddr>) {
        let reach = match webhook_address {
            Some(address) => Reach::Url(format!("https://{address}")),
            None => Reach::service_of(operator.name(), format!("{}-system", operator.name())),
        };
        let installed = install_crds_at(&self.client(), operator, &reach).await;
        installed.unwrap_or_else(|why| panic!("the definitions were not installed: {why}"));
        for document in self.manifests(operator, webhook_address) {
            self.apply_one(&document).await.unwrap_or_else(|why| panic!("a manifest was not applied: {why}"));
        }
    }

    /// Where the webhooks of an operator are reached; nothing for within the process.
    fn webhook_address(&self) -> Option<SocketAddr> {
        // The port is free again at once, and given to nobody else for a while.
        let free = || TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
        let is_elsewhere = self.cluster.is_none();
        is_elsewhere.then(|| free().unwrap_or_else(|why| panic!("there is no free port: {why}")))
    }

    /// The namespaces that operators watch: where tests share a cluster, each has one for its own.
    fn watched(&self) -> Vec<String> {
        match self.cluster {
            Some(_) => Vec::new(),
            None => vec![self.namespace.clone()],
        }
    }

    /// The manifests that decide what an operator may do, and when it is asked.
    fn manifests(&self, operator: &Operator, webhook_address: Option<SocketAddr>) -> Vec<DynamicObject> {
        let options = ManifestOptions {
            only: [Part::Namespace, Part::Rbac, Part::Webhooks].into(),
            namespaces: self.watched(),
            webhook_url: webhook_address.map(|address| format!("https://{address}")),
            ..ManifestOptions::default()
        };
        let read = |manifest| {
            serde_json::from_value(manifest).unwrap_or_else(|why| panic!("this is no manifest: {why}"))
        };
        operator.manifests(&options).into_iter().map(read).collect()
    }

    /// Removes what [`run`](Self::run) has installed, apart from the definitions: with these, all resources would go.
    ///
    /// # Panics
    /// If that is refused.
    pub async fn uninstall(&self, operator: &Operator) {
        // The other way round, so that the namespace takes nothing along.
        for document in self.manifests(operator, self.webhook_address()).iter().rev() {
            self.delete_one(document).await.unwrap_or_else(|why| panic!("a manifest was not deleted: {why}"));
        }
    }
}

/// The line between an operator and the server.
#[derive(Clone, Default)]
struct Line(Arc<Mutex<Traffic>>);

#[derive(Default)]
struct Traffic {
    writes: Vec<String>,
    forbidden: Vec<String>,
    /// The resources for which requests fail.
    broken: Vec<String>,
}

/// A client whose requests go over a line.
#[derive(Clone)]
struct OnLine {
    client: Client,
    line: Line,
}

impl tower_service::Service<Request<Body>> for OnLine {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (client, line) = (self.client.clone(), self.line.clone());
        let what = format!("{} {}", request.method(), request.uri().path());
        let is_broken = {
            let mut traffic = line.0.lock();
            if request.method() != Method::GET {
                traffic.writes.push(what.clone());
            }
            let mut parts = request.uri().path().split('/');
            parts.any(|part| traffic.broken.iter().any(|resource| resource == part))
        };
        Box::pin(async move {
            if is_broken {
                return Ok(internal_error());
            }
            let answer = client.send(request).await?;
            if answer.status() == StatusCode::FORBIDDEN {
                line.0.lock().forbidden.push(what);
            }
            Ok(answer)
        })
    }
}

fn internal_error() -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 500,
        "reason": "InternalError", "message": "Internal error occurred: the test says so",
    });
    let mut answer = Response::new(Body::from(status.to_string().into_bytes()));
    *answer.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    answer
}
