//! An operator to test with, and the world it is tested in.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec},
        core::v1::{
            ConfigMap, Container, Namespace, PodSpec, PodTemplateSpec, Service, ServicePort, ServiceSpec,
        },
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector},
};
use kube::{
    Api, Client, CustomResource, CustomResourceExt as _, ResourceExt as _,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use kubewright::{
    Context, Controller, Kind, Next, Operator, Options, Reconciler, Result, clock::Clock, condition,
    entropy::Entropy,
};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use crate::{
    line::{Line, Meddle, Recording, Requests, is_watch, resource},
    server::{Server, is_embedded},
};

/// How long it is waited until everything is at rest; in real time no longer than it takes.
const LONGEST: Duration = Duration::from_secs(30);

/// A site: a page, pods that serve it, and a service in front of them.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(group = "test.kubewright.dev", version = "v1", kind = "Site", namespaced, status = "SiteStatus")]
#[serde(rename_all = "camelCase")]
pub struct SiteSpec {
    pub image: String,
    pub page: String,
    pub replicas: Option<i32>,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct SiteStatus {
    pub published: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

pub struct Publish;

impl Reconciler<Site> for Publish {
    async fn reconcile(&self, site: &Site, cx: &Context<Site>) -> Result<Next> {
        cx.apply(page(site)).await?;
        cx.apply(deployment(site)).await?;
        cx.apply(service(site)).await?;
        let published = condition("Published", true, "Applied", "all children are applied");
        cx.status(SiteStatus { published: true, observed_generation: None, conditions: vec![published] })
            .await?;
        Ok(Next::on_change())
    }
}

pub fn operator() -> Operator {
    Operator::new("site-operator").controller(
        Controller::of::<Site>().owns::<ConfigMap>().owns::<Deployment>().owns::<Service>().run(Publish),
    )
}

fn named(site: &Site) -> ObjectMeta {
    ObjectMeta { name: Some(site.name_any()), ..ObjectMeta::default() }
}

pub fn page(site: &Site) -> ConfigMap {
    let data = [("index.html".to_owned(), site.spec.page.clone())].into();
    ConfigMap { metadata: named(site), data: Some(data), ..ConfigMap::default() }
}

pub fn deployment(site: &Site) -> Deployment {
    let labels = [("site".to_owned(), site.name_any())];
    let container = Container {
        name: "web".to_owned(),
        image: Some(site.spec.image.clone()),
        resources: Some(
            serde_json::from_value(serde_json::json!({"requests": {"cpu": "0.1", "memory": "64Mi"}}))
                .unwrap(),
        ),
        ..Container::default()
    };
    Deployment {
        metadata: named(site),
        spec: Some(DeploymentSpec {
            replicas: site.spec.replicas,
            selector: LabelSelector { match_labels: Some(labels.clone().into()), ..LabelSelector::default() },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta { labels: Some(labels.into()), ..ObjectMeta::default() }),
                spec: Some(PodSpec { containers: vec![container], ..PodSpec::default() }),
            },
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    }
}

pub fn service(site: &Site) -> Service {
    Service {
        metadata: named(site),
        spec: Some(ServiceSpec {
            selector: Some([("site".to_owned(), site.name_any())].into()),
            ports: Some(vec![ServicePort { port: 80, ..ServicePort::default() }]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

pub fn site(name: &str) -> Site {
    Site::new(name, SiteSpec { image: "nginx".to_owned(), page: "hello".to_owned(), replicas: Some(2) })
}

/// A reconciler that is a function.
pub struct Doing<F>(F);

impl<F> Reconciler<Site> for Doing<F>
where
    F: for<'a> Fn(&'a Site, &'a Context<Site>) -> BoxFuture<'a, Result<Next>> + Send + Sync + 'static,
{
    async fn reconcile(&self, site: &Site, cx: &Context<Site>) -> Result<Next> {
        (self.0)(site, cx).await
    }
}

pub fn doing<F>(function: F) -> Doing<F>
where
    F: for<'a> Fn(&'a Site, &'a Context<Site>) -> BoxFuture<'a, Result<Next>> + Send + Sync + 'static,
{
    Doing(function)
}

/// An operator with one controller.
pub fn only(controller: Controller) -> Operator {
    Operator::new("site-operator").controller(controller)
}

/// A config map with one value.
pub fn map(name: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        data: Some([("value".to_owned(), value.to_owned())].into()),
        ..ConfigMap::default()
    }
}

pub fn value(map: &ConfigMap) -> &str {
    &map.data.as_ref().unwrap()["value"]
}

/// What happened, in order.
#[derive(Clone, Default)]
pub struct Log(pub Arc<Mutex<Vec<String>>>);

impl Log {
    pub fn add(&self, entry: impl Into<String>) {
        self.0.lock().push(entry.into());
    }

    /// What happened since this was last asked.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock())
    }

    /// The same, without its order.
    pub fn sorted(&self) -> Vec<String> {
        let mut entries = self.take();
        entries.sort();
        entries
    }
}

/// One test: a namespace on a server, with the definition of sites.
pub struct World {
    pub client: Client,
    pub namespace: String,
    pub server: Server,
    pub requests: Requests,
    pub line: Line,
}

impl World {
    /// For a test whose time is paused. It is not if the server is a real one.
    pub async fn new() -> Self {
        if !is_embedded() {
            tokio::time::resume();
        }
        Self::in_real_time().await
    }

    pub async fn in_real_time() -> Self {
        let server = Server::start().await;
        let client = server.client.clone();
        let namespace = create_namespace(&client).await;
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        let apply = PatchParams::apply("test").force();
        definitions.patch(Site::crd_name(), &apply, &Patch::Apply(Site::crd())).await.unwrap();
        let world = Self { client, namespace, server, requests: Requests::default(), line: Line::new() };
        let sites = world.api::<Site>();
        eventually("sites are served", async || sites.list(&Default::default()).await.is_ok()).await;
        world
    }

    /// Options for tests: the same run for the same seed. What others do on a shared server is none of the test's.
    pub fn options(&self) -> Options {
        let namespaces = match is_embedded() {
            true => Vec::new(),
            false => vec![self.namespace.clone()],
        };
        Options {
            namespaces,
            clock: Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()),
            entropy: Entropy::seeded(7),
            ..Options::default()
        }
    }

    /// Lets time pass, in real time only until everything that is going on has come to rest.
    pub async fn pass(&self, time: Duration) {
        if is_embedded() {
            return sleep(time).await;
        }
        let start = Instant::now();
        while start.elapsed() < time.min(LONGEST) && !self.line.is_quiet_since(start) {
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Lets everything that is going on come to rest.
    pub async fn rest(&self) {
        self.pass(LONGEST).await;
    }

    /// Longer than it takes the server to tell of a change.
    pub fn soon(&self) -> Duration {
        Duration::from_millis(if is_embedded() { 20 } else { 1000 })
    }

    /// From now on, watches can't be taken up again where they were.
    pub async fn forget(&self) {
        if !self.server.compact() {
            let sites = self.api::<Site>().list(&Default::default()).await.unwrap();
            self.line.forget(sites.metadata.resource_version.unwrap().parse().unwrap());
        }
    }

    /// The API of a kind in the namespace of the test.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Kind<Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// A client whose requests are written down.
    pub fn recorded(&self) -> Client {
        self.meddled(Arc::new(|_| false))
    }

    /// A client whose requests are written down, and cut if `cut` says so.
    pub fn meddled(&self, cut: Meddle) -> Client {
        self.through(self.client.clone(), cut)
    }

    /// Another client, whose requests are written down, and cut if `cut` says so.
    pub fn through(&self, client: Client, cut: Meddle) -> Client {
        Client::new(self.recording(client, cut), self.namespace.clone())
    }

    /// A client of a server that can't send the first list as a stream.
    pub fn without_streaming(&self) -> Client {
        let recording = self.recording(self.client.clone(), Arc::new(|_| false));
        Client::new(Recording { streams: false, ..recording }, self.namespace.clone())
    }

    fn recording(&self, client: Client, cut: Meddle) -> Recording {
        Recording { client, requests: self.requests.clone(), cut, line: self.line.clone(), streams: true }
    }

    pub async fn delete<K>(&self, name: &str)
    where
        K: Kind<Scope = k8s_openapi::NamespaceResourceScope>,
    {
        self.api::<K>().delete(name, &Default::default()).await.unwrap();
    }

    /// The resources for which watches were asked for, in order, and forgets all requests.
    pub fn watches(&self) -> Vec<String> {
        let requests = std::mem::take(&mut *self.requests.lock());
        let mut watches: Vec<String> =
            requests.into_iter().filter(|(_, uri)| is_watch(uri)).map(|(_, uri)| resource(&uri)).collect();
        watches.sort();
        watches
    }

    /// The resources whose watches are open, in order.
    pub fn open_watches(&self) -> Vec<String> {
        self.line.open_watches()
    }

    /// How often everything of a kind was asked for.
    pub fn full_reads(&self) -> usize {
        self.requests.lock().iter().filter(|(_, uri)| uri.contains("sendInitialEvents")).count()
    }

    pub async fn create<K>(&self, object: &K) -> K
    where
        K: Kind<Scope = k8s_openapi::NamespaceResourceScope>,
    {
        self.api::<K>().create(&PostParams::default(), object).await.unwrap()
    }

    pub async fn merge<K>(&self, name: &str, change: serde_json::Value) -> K
    where
        K: Kind<Scope = k8s_openapi::NamespaceResourceScope>,
    {
        self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(change)).await.unwrap()
    }

    /// The writes that were written down, as method and last part of the path, and forgets them.
    pub fn writes(&self) -> Vec<String> {
        let requests = std::mem::take(&mut *self.requests.lock());
        let shown = |(method, uri): (http::Method, String)| {
            let path = uri.split('?').next().unwrap_or_default();
            let parts: Vec<&str> = path.split('/').collect();
            let from = parts.iter().position(|part| *part == "namespaces").map_or(0, |at| at + 2);
            format!("{method} {}", parts[from..].join("/"))
        };
        requests.into_iter().filter(|(method, _)| method != http::Method::GET).map(shown).collect()
    }
}

/// Creates a namespace that nobody else has.
pub async fn create_namespace(client: &Client) -> String {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = Namespace {
        metadata: ObjectMeta { generate_name: Some("test-".to_owned()), ..ObjectMeta::default() },
        ..Namespace::default()
    };
    namespaces.create(&PostParams::default(), &namespace).await.unwrap().name_any()
}

/// Waits until something holds. Where time is paused, waiting takes none.
pub async fn eventually<F: AsyncFnMut() -> bool>(what: &str, mut holds: F) {
    for _ in 0..6000 {
        if holds().await {
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("not within a minute: {what}");
}
