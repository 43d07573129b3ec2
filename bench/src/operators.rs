//! What an operator costs: against the API server in the same process, on all cores, how fast fresh resources come
//! to rest and how much dearer a reconcile is among many of them; and how much memory it takes.

use std::path::Path;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use kubewright::{Context, Controller, Next, Operator, Options, Reconciler, Running, install_crds};
use kubewright_apiserver::ApiServer;
use kubewright_bench_operator::{
    operator,
    site::{Site, site},
};
use serde_json::json;
use tokio::{
    runtime::Builder,
    time::{Duration, Instant, sleep},
};

use crate::{
    Result,
    measure::Measure,
    peer::{Peer, cpu, resident},
    progress, runtime,
};

const RESOURCES: usize = 10_000;
const CACHED: usize = 100_000;
const FEW: usize = 1_000;
const LOTS: usize = 100_000;
/// How many resources are changed to see what a reconcile costs; all of the few.
const TOUCHED: usize = FEW;

/// Everything about operators.
pub(crate) fn run(server: &Path, rounds: u32) -> Result<Vec<Measure>> {
    let mut measures = vec![cache(server)?, rate(rounds)?];
    measures.extend(scale(rounds)?);
    Ok(measures)
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
        let rate = Builder::new_multi_thread().enable_all().build()?.block_on(async {
            let started = Sites::stored(RESOURCES).await?;
            let begun = Instant::now();
            let (done, last) = started.run().await?.rest(RESOURCES).await?;
            Result::Ok(done as f64 / last.duration_since(begun).as_secs_f64())
        })?;
        rates.push(rate);
    }
    let name = format!("operator: reconciles, {RESOURCES} fresh resources with three children");
    Ok(Measure::more_is_better(name, "/s").reaching(2_000.0).with(rates, Vec::new()))
}

/// How much dearer many resources make a reconcile, and the first sight of each object.
fn scale(rounds: u32) -> Result<Vec<Measure>> {
    progress("operator: bringing 100,000 resources to rest");
    let (mut costs, mut sights) = (Vec::new(), Vec::new());
    Builder::new_multi_thread().enable_all().build()?.block_on(async {
        let (few, lots) = (Sites::stored(FEW).await?, Sites::stored(LOTS).await?);
        let (few_run, lots_run) = (few.run().await?, lots.run().await?);
        few_run.rest(FEW).await?;
        lots_run.rest(LOTS).await?;
        for round in 0..rounds.min(3) {
            progress(&format!("operator: cost of a reconcile, round {}", round + 1));
            let at_few = few.touch(&few_run, round).await?;
            let at_lots = lots.touch(&lots_run, round).await?;
            costs.push(at_lots / at_few);
        }
        drop((few_run, lots_run));
        for round in 0..rounds.min(3) {
            progress(&format!("operator: first sight, round {}", round + 1));
            sights.push(lots.sight().await? / few.sight().await?);
        }
        Result::Ok(())
    })?;
    let name = "operator: CPU time of a reconcile at 100,000 resources, compared with 1,000";
    let cost = Measure::less_is_better(name, "×").reaching(1.3).with(costs, Vec::new());
    let name = "operator: time until each of 400,000 objects is seen, compared with 4,000";
    Ok(vec![cost, Measure::less_is_better(name, "×").reaching(1.3).with(sights, Vec::new())])
}

/// A server with nothing but sites, for operators to run against.
struct Sites {
    server: ApiServer,
    count: usize,
}

impl Sites {
    async fn stored(count: usize) -> Result<Self> {
        let server = ApiServer::start().await?;
        install_crds(&server.client(), &operator()).await.map_err(|why| why.to_string())?;
        let this = Self { server, count };
        for number in 0..count {
            this.api().create(&PostParams::default(), &site(number)).await?;
        }
        Ok(this)
    }

    fn api(&self) -> Api<Site> {
        Api::namespaced(self.server.client(), "default")
    }

    /// An operator that has seen everything and begins to work.
    async fn run(&self) -> Result<Run> {
        let mut running = operator().start(self.server.client(), Options::default());
        running.working().await.map_err(|why| why.to_string())?;
        Ok(Run(running))
    }

    /// The seconds until an operator has seen everything, for each resource.
    async fn sight(&self) -> Result<f64> {
        let begun = Instant::now();
        let _run = self.run().await?;
        Ok(begun.elapsed().as_secs_f64() / self.count as f64)
    }

    /// Changes some sites all over the place, and gives the CPU time that each reconcile has cost this process, with
    /// all that the server did for it.
    async fn touch(&self, run: &Run, round: u32) -> Result<f64> {
        let sites = self.api();
        let before = run.reconciles();
        let spent = cpu(std::process::id())?;
        for step in 0..TOUCHED {
            let number = step * (self.count / TOUCHED);
            let change = json!({"spec": {"page": format!("{number}, round {round}")}});
            let name = format!("site-{number}");
            sites.patch(&name, &PatchParams::default(), &Patch::Merge(change)).await?;
        }
        let (after, _) = run.rest(before + TOUCHED).await?;
        Ok((cpu(std::process::id())? - spent) / (after - before) as f64)
    }
}

/// A running operator.
struct Run(Running);

impl Run {
    /// Waits until no reconcile has ended for a while, but at least so many have since its start. Gives how many it
    /// were, and when the last one ended.
    async fn rest(&self, expected: usize) -> Result<(usize, Instant)> {
        let (mut done, mut still, mut last) = (0, 0, Instant::now());
        while still < 20 || done < expected {
            sleep(Duration::from_millis(25)).await;
            let now = self.reconciles();
            if now == done {
                still += 1;
            } else {
                (done, still, last) = (now, 0, Instant::now());
            }
            if last.elapsed() > Duration::from_secs(60) {
                return Err(format!("the operator stopped after {done} reconciles").into());
            }
        }
        Ok((done, last))
    }

    /// How many reconciles went well.
    fn reconciles(&self) -> usize {
        let metrics = self.0.metrics();
        let line = metrics.lines().find(|line| {
            line.starts_with("controller_runtime_reconcile_total") && line.contains("result=\"success\"")
        });
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
    }
}
