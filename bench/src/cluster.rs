//! What a whole cluster costs: how soon it is there, how fast workloads come to rest, and how much memory pods take.

use std::{collections::BTreeSet, path::Path};

use futures_util::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ListParams, PostParams, WatchEvent, WatchParams},
};
use kubewright_cluster::{Cluster, TestCluster};
use serde_json::json;
use tokio::{
    runtime::Builder,
    time::{Duration, Instant, sleep, timeout},
};

use crate::{
    Result,
    measure::Measure,
    peer::{Peer, resident},
    progress, runtime,
};

const DEPLOYMENTS: usize = 1_000;
const REPLICAS: i32 = 3;
const PODS: i32 = 10_000;
const NODES: usize = 100;
/// How long pods may take to come to rest.
const PATIENCE: Duration = Duration::from_secs(300);

/// Clusters with much in them.
pub(crate) fn run(server: &Path, rounds: u32) -> Result<Vec<Measure>> {
    Ok(vec![deployments(rounds)?, pods(server)?])
}

/// How long a test waits for its cluster, and for a Deployment in it. The clock of a test stands still, so time is
/// taken around its runtime.
pub(crate) fn in_a_test(rounds: u32) -> Result<Vec<Measure>> {
    progress("cluster: in a test");
    let (mut starts, mut rollouts) = (Vec::new(), Vec::new());
    for _ in 0..rounds * 4 {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let begun = Instant::now();
        let cluster = runtime.block_on(TestCluster::start());
        starts.push(begun.elapsed().as_secs_f64() * 1e3);
        let begun = Instant::now();
        runtime.block_on(async {
            let api = Api::default_namespaced(cluster.client());
            api.create(&PostParams::default(), &deployment("web", REPLICAS)?).await?;
            cluster
                .eventually("it is available", async |_| {
                    api.get("web").await.is_ok_and(|web| is_available(&web))
                })
                .await;
            Result::Ok(())
        })?;
        rollouts.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    Ok(vec![
        Measure::less_is_better("cluster: a test has one", "ms").reaching(5.0).with(starts, Vec::new()),
        Measure::less_is_better("cluster: a Deployment of 3 is available, in a test", "ms")
            .reaching(10.0)
            .with(rollouts, Vec::new()),
    ])
}

/// How long many Deployments take until all are available, on all cores and with the clock running.
fn deployments(rounds: u32) -> Result<Measure> {
    let mut samples = Vec::new();
    for round in 0..rounds.min(3) {
        progress(&format!("cluster: {DEPLOYMENTS} Deployments, round {}", round + 1));
        let seconds = Builder::new_multi_thread().enable_all().build()?.block_on(async {
            let cluster = Cluster::builder().nodes(NODES).start().await?;
            let api: Api<Deployment> = Api::default_namespaced(cluster.client());
            let place = api.list_metadata(&ListParams::default()).await?.metadata.resource_version;
            let begun = Instant::now();
            for number in 0..DEPLOYMENTS {
                let deployment = deployment(&format!("web-{number}"), REPLICAS)?;
                api.create(&PostParams::default(), &deployment).await?;
            }
            timeout(PATIENCE, available(&api, &place.unwrap_or_default(), DEPLOYMENTS))
                .await
                .map_err(|_| "the Deployments do not become available")??;
            Result::Ok(begun.elapsed().as_secs_f64())
        })?;
        samples.push(seconds);
    }
    let name = format!("cluster: {DEPLOYMENTS} Deployments of 3 are available");
    Ok(Measure::less_is_better(name, "s").reaching(10.0).with(samples, Vec::new()))
}

/// Waits until so many Deployments have become available since a revision.
async fn available(api: &Api<Deployment>, place: &str, count: usize) -> Result<()> {
    let mut available = BTreeSet::new();
    let mut events = api.watch(&WatchParams::default(), place).await?.boxed();
    while available.len() < count {
        match events.try_next().await?.ok_or("the watch of the Deployments ended")? {
            WatchEvent::Modified(deployment) if is_available(&deployment) => {
                available.insert(deployment.name_any());
            }
            _ => {}
        }
    }
    Ok(())
}

/// How much memory a cluster takes, as a process of its own, with many running pods.
fn pods(server: &Path) -> Result<Measure> {
    progress(&format!("cluster: {PODS} pods on {NODES} nodes"));
    let memory = runtime()?.block_on(async {
        let peer = Peer::cluster(server, NODES).await?;
        let client = peer.endpoint.client()?;
        let api: Api<Deployment> = Api::default_namespaced(client.clone());
        for number in 0..10 {
            let deployment = deployment(&format!("web-{number}"), PODS / 10)?;
            api.create(&PostParams::default(), &deployment).await?;
        }
        let begun = Instant::now();
        while running(&client).await? < PODS {
            if begun.elapsed() > PATIENCE {
                return Err("the pods do not become ready".into());
            }
            sleep(Duration::from_millis(500)).await;
        }
        let memory = resident(peer.processes[0])?;
        peer.stop().await?;
        Result::Ok(memory)
    })?;
    let name = format!("cluster: memory with {PODS} pods on {NODES} nodes");
    Ok(Measure::less_is_better(name, "MiB").reaching(600.0).with(vec![memory], Vec::new()))
}

/// How many replicas of all Deployments are ready. There are no other pods.
async fn running(client: &Client) -> Result<i32> {
    let api: Api<Deployment> = Api::default_namespaced(client.clone());
    let all = api.list(&ListParams::default()).await?;
    Ok(all.iter().filter_map(|one| one.status.as_ref()?.ready_replicas).sum())
}

fn is_available(deployment: &Deployment) -> bool {
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas);
    let seen = |status: &DeploymentStatus| {
        status.observed_generation == deployment.metadata.generation && status.available_replicas == wanted
    };
    deployment.status.as_ref().is_some_and(seen)
}

fn deployment(name: &str, replicas: i32) -> Result<Deployment> {
    Ok(serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "web", "image": "nginx"}]},
            },
        },
    }))?)
}
