//! An operator with three children for each of its resources, against the API server in the same process, on all
//! cores: how fast fresh resources come to rest.

use std::path::Path;

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec},
        core::v1::{
            ConfigMap, Container, Namespace, PodSpec, PodTemplateSpec, Service, ServicePort, ServiceSpec,
        },
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube::{
    Api, CustomResource, ResourceExt as _,
    api::{ObjectMeta, PostParams},
};
use kubewright::{Context, Controller, Next, Operator, Options, Reconciler, install_crds};
use kubewright_apiserver::ApiServer;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::{Duration, Instant, sleep};

use crate::{
    Result,
    measure::Measure,
    peer::{Peer, resident},
    progress, runtime,
};

const RESOURCES: usize = 10_000;
const WORKERS: usize = 8;
const CACHED: usize = 100_000;

/// A page and what it takes to serve it.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(group = "bench.kubewright.dev", version = "v1", kind = "Site", namespaced, status = "SiteStatus")]
pub(crate) struct SiteSpec {
    image: String,
    page: String,
}

/// Whether it is served.
#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
pub(crate) struct SiteStatus {
    published: bool,
}

struct Publish;

impl Reconciler<Site> for Publish {
    async fn reconcile(&self, site: &Site, cx: &Context<Site>) -> kubewright::Result<Next> {
        cx.apply(page(site)).await?;
        cx.apply(deployment(site)).await?;
        cx.apply(service(site)).await?;
        cx.status(SiteStatus { published: true }).await?;
        Ok(Next::on_change())
    }
}

fn operator() -> Operator {
    Operator::new("bench").controller(
        Controller::of::<Site>()
            .owns::<ConfigMap>()
            .owns::<Deployment>()
            .owns::<Service>()
            .concurrency(WORKERS)
            .run(Publish),
    )
}

/// Everything about operators.
pub(crate) fn run(server: &Path, rounds: u32) -> Result<Vec<Measure>> {
    Ok(vec![cache(server)?, rate(rounds)?])
}

/// How much memory a cache takes, compared with what it holds. The server runs in a process of its own.
fn cache(server: &Path) -> Result<Measure> {
    progress("operator: cache");
    let ratio = runtime()?.block_on(async {
        let peer = Peer::embedded(server).await?;
        let size = crate::load::fill_with(&peer.endpoint, CACHED, 1024).await?;
        let own = std::process::id();
        let before = resident(own)?;
        let operator = Operator::new("bench")
            .controller(Controller::of_existing::<Namespace>().reads::<ConfigMap>().run(Nothing));
        let client = peer.endpoint.client()?;
        let mut running = operator.start(client, Options::default());
        running.working().await.map_err(|why| why.to_string())?;
        let ratio = (resident(own)? - before) / size;
        running.stop().await.map_err(|why| why.to_string())?;
        Result::Ok(ratio)
    })?;
    let name = format!("operator: memory of a cache of {CACHED} ConfigMaps, compared with their JSON");
    Ok(Measure::less_is_better(name, "×").reaching(1.6).with(vec![ratio], Vec::new()))
}

struct Nothing;

impl Reconciler<Namespace> for Nothing {
    async fn reconcile(&self, _: &Namespace, _: &Context<Namespace>) -> kubewright::Result<Next> {
        Ok(Next::on_change())
    }
}

/// How many reconciles a second bring fresh resources to rest.
fn rate(rounds: u32) -> Result<Measure> {
    let mut rates = Vec::new();
    for round in 0..rounds.min(3) {
        progress(&format!("operator, round {}", round + 1));
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        rates.push(runtime.block_on(converge())?);
    }
    let name = format!("operator: reconciles, {RESOURCES} fresh resources with three children");
    Ok(Measure::more_is_better(name, "/s").reaching(2_000.0).with(rates, Vec::new()))
}

async fn converge() -> Result<f64> {
    let server = ApiServer::start().await?;
    let client = server.client();
    install_crds(&client, &operator()).await.map_err(|why| why.to_string())?;
    let sites: Api<Site> = Api::namespaced(client.clone(), "default");
    for number in 0..RESOURCES {
        let spec = SiteSpec { image: "nginx".to_owned(), page: number.to_string() };
        sites.create(&PostParams::default(), &Site::new(&format!("site-{number}"), spec)).await?;
    }
    let started = Instant::now();
    let mut running = operator().start(client.clone(), Options::default());
    running.working().await.map_err(|why| why.to_string())?;
    let mut done = 0;
    let mut still = 0;
    // At rest once no reconcile has ended for a while; that while does not count.
    let mut last = started;
    while still < 20 || done < RESOURCES {
        sleep(Duration::from_millis(25)).await;
        let now = reconciles(&running.metrics());
        if now == done {
            still += 1;
        } else {
            (done, still, last) = (now, 0, Instant::now());
        }
        if last.elapsed() > Duration::from_secs(60) {
            return Err(format!("the operator stopped after {done} reconciles").into());
        }
    }
    running.stop().await.map_err(|why| why.to_string())?;
    Ok(done as f64 / last.duration_since(started).as_secs_f64())
}

/// How many reconciles went well, from the metrics.
fn reconciles(metrics: &str) -> usize {
    let line = metrics.lines().find(|line| {
        line.starts_with("controller_runtime_reconcile_total") && line.contains("result=\"success\"")
    });
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
}

fn named(site: &Site) -> ObjectMeta {
    ObjectMeta { name: Some(site.name_any()), ..ObjectMeta::default() }
}

fn page(site: &Site) -> ConfigMap {
    let data = [("index.html".to_owned(), site.spec.page.clone())].into();
    ConfigMap { metadata: named(site), data: Some(data), ..ConfigMap::default() }
}

fn deployment(site: &Site) -> Deployment {
    let labels = [("site".to_owned(), site.name_any())];
    let container =
        Container { name: "web".to_owned(), image: Some(site.spec.image.clone()), ..Container::default() };
    Deployment {
        metadata: named(site),
        spec: Some(DeploymentSpec {
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

fn service(site: &Site) -> Service {
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
