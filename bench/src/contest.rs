//! The same operator, written with Kubewright and with others, each in a process of its own: what it takes to bring
//! fresh resources to rest on kube-apiserver. The server counts the requests.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use http::Request;
use kube::{
    Api, Client, ResourceExt as _,
    api::{ListParams, PostParams, WatchEvent, WatchParams},
};
use kubewright::install_crds;
use kubewright_bench_operator::{
    operator,
    site::{Site, site},
};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    Result,
    client::Endpoint,
    measure::Measure,
    peer::{Peer, cpu, resident},
    progress, runtime,
};

const RESOURCES: usize = 1_500;
/// How many resources an operator has that is as good as idle.
const FEW: usize = 10;
/// How many resources are made at a time.
const MAKERS: usize = 16;
/// Until an operator counts as stuck.
const PATIENCE: Duration = Duration::from_secs(300);
/// An operator that has used no CPU time for so long is at rest.
const REST: Duration = Duration::from_secs(3);

/// The memory of an operator that has nothing to do.
pub(crate) fn idle(server: &Path, program: &Path, rounds: u32) -> Result<Measure> {
    let mut samples = Vec::new();
    for _ in 0..rounds.min(3) {
        progress("operator: idle");
        let effort = runtime()?.block_on(async {
            let peer = Peer::embedded(server).await?;
            converge(&peer.endpoint, program, FEW).await
        })?;
        samples.push(effort.memory);
    }
    let name = format!("operator: memory idle, with {FEW} resources");
    Ok(Measure::less_is_better(name, "MiB").reaching(MOST_IDLE).with(samples, Vec::new()))
}

/// Fifteen megabytes, in MiB.
const MOST_IDLE: f64 = 15e6 / (1024.0 * 1024.0);

/// Runs our operator and the others in turns, each against a server that is as new as it is, and compares ours with
/// each of the others, by name.
pub(crate) fn run(
    script: &Path,
    no_fsync: bool,
    ours: &Path,
    others: &[PathBuf],
    rounds: u32,
) -> Result<Vec<(String, Vec<Measure>)>> {
    let programs: Vec<&Path> = std::iter::once(ours).chain(others.iter().map(PathBuf::as_path)).collect();
    let mut efforts: Vec<Vec<Effort>> = programs.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds.min(3) {
        for (program, efforts) in programs.iter().zip(&mut efforts) {
            progress(&format!("{}, round {}", name(program), round + 1));
            efforts.push(runtime()?.block_on(async {
                let peer = Peer::reference(script, no_fsync).await?;
                let effort = converge(&peer.endpoint, program, RESOURCES).await?;
                peer.stop().await?;
                Result::Ok(effort)
            })?);
        }
    }
    Ok(programs[1..]
        .iter()
        .zip(&efforts[1..])
        .map(|(peer, theirs)| (name(peer), compare(&efforts[0], theirs)))
        .collect())
}

/// The name of a program, without what all of them have in common.
fn name(program: &Path) -> String {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    name.strip_prefix("peer-").unwrap_or(&name).to_owned()
}

/// What it took an operator to bring all resources to rest.
struct Effort {
    seconds: f64,
    cpu: f64,
    memory: f64,
    requests: Requests,
}

/// Requests about the resources and their children, as the server counts them.
#[derive(Default)]
struct Requests {
    reads: f64,
    children: f64,
    status: f64,
}

fn compare(ours: &[Effort], theirs: &[Effort]) -> Vec<Measure> {
    let row = |name: &str, unit, value: fn(&Effort) -> f64| {
        let samples = |efforts: &[Effort]| efforts.iter().map(value).collect();
        Measure::less_is_better(format!("{RESOURCES} fresh resources: {name}"), unit)
            .with(samples(ours), samples(theirs))
    };
    vec![
        row("time until all have their status", "s", |effort| effort.seconds),
        row("CPU time of the operator", "s", |effort| effort.cpu),
        row("memory of the operator, at rest", "MiB", |effort| effort.memory),
        row("writes of children", "", |effort| effort.requests.children),
        row("writes of status", "", |effort| effort.requests.status),
        row("reads", "", |effort| effort.requests.reads),
    ]
}

/// Starts an operator where resources wait for it, and waits until it has nothing left to do.
async fn converge(endpoint: &Endpoint, program: &Path, resources: usize) -> Result<Effort> {
    let client = endpoint.client()?;
    install_crds(&client, &operator()).await.map_err(|why| why.to_string())?;
    let sites: Api<Site> = Api::namespaced(client.clone(), "default");
    let made = stream::iter(0..resources).map(|number| {
        let sites = sites.clone();
        async move { sites.create(&PostParams::default(), &site(number)).await }
    });
    made.buffer_unordered(MAKERS).try_for_each(|_site| std::future::ready(Ok(()))).await?;
    let before = requests(&client).await?;

    let place = sites.list_metadata(&ListParams::default().limit(1)).await?.metadata.resource_version;
    let started = Instant::now();
    let process = Process::start(program, endpoint)?;
    timeout(PATIENCE, published(&sites, &place.unwrap_or_default(), resources))
        .await
        .map_err(|_| format!("{} has not come to an end after {PATIENCE:?}", program.display()))??;
    let seconds = started.elapsed().as_secs_f64();
    let cpu = process.rest().await?;
    let after = requests(&client).await?;
    Ok(Effort {
        seconds,
        cpu,
        memory: resident(process.0.id())?,
        requests: Requests {
            reads: after.reads - before.reads,
            children: after.children - before.children,
            status: after.status - before.status,
        },
    })
}

/// Waits until so many sites have a condition.
async fn published(sites: &Api<Site>, place: &str, count: usize) -> Result<()> {
    let mut published = BTreeSet::new();
    let mut events = sites.watch(&WatchParams::default(), place).await?.boxed();
    while published.len() < count {
        match events.try_next().await?.ok_or("the watch of the sites ended")? {
            WatchEvent::Modified(site)
                if site.status.as_ref().is_some_and(|status| !status.conditions.is_empty()) =>
            {
                published.insert(site.name_any());
            }
            _ => {}
        }
    }
    Ok(())
}

/// What a server has been asked about the resources and their children so far. The embedded one does not count.
async fn requests(client: &Client) -> Result<Requests> {
    let Ok(metrics) = client.request_text(Request::get("/metrics").body(Vec::new())?).await else {
        return Ok(Requests::default());
    };
    let mut requests = Requests::default();
    for line in metrics.lines().filter_map(|line| line.strip_prefix("apiserver_request_total{")) {
        let Some((labels, count)) = line.rsplit_once("} ") else { continue };
        let label = |name: &str| {
            labels
                .split(',')
                .find_map(|label| label.strip_prefix(name)?.strip_prefix("=\"")?.strip_suffix('"'))
        };
        let count: f64 = count.parse()?;
        let (Some(resource), Some(subresource), Some(verb)) =
            (label("resource"), label("subresource"), label("verb"))
        else {
            continue;
        };
        match (resource, subresource, verb) {
            ("sites" | "configmaps" | "deployments" | "services", _, "GET" | "LIST") => {
                requests.reads += count
            }
            ("sites", "status", _) => requests.status += count,
            ("configmaps" | "deployments" | "services", _, "APPLY" | "PATCH" | "PUT" | "POST") => {
                requests.children += count
            }
            _ => {}
        }
    }
    Ok(requests)
}

/// An operator that runs. It ends when this is dropped.
struct Process(Child);

impl Process {
    fn start(program: &Path, endpoint: &Endpoint) -> Result<Self> {
        let kubeconfig =
            std::env::temp_dir().join(format!("kubewright-bench-{}.kubeconfig", std::process::id()));
        fs::write(&kubeconfig, endpoint.kubeconfig())?;
        let child = Command::new(program)
            .env("KUBECONFIG", kubeconfig)
            .env("METRICS_BIND_ADDRESS", "127.0.0.1:0")
            .env("HEALTH_PROBE_BIND_ADDRESS", "127.0.0.1:0")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|why| format!("{}: {why}", program.display()))?;
        Ok(Self(child))
    }

    /// Waits until it does nothing, and gives the CPU time it has spent until then.
    async fn rest(&self) -> Result<f64> {
        let (mut spent, mut since) = (0.0, Instant::now());
        while since.elapsed() < REST {
            sleep(Duration::from_millis(100)).await;
            let now = cpu(self.0.id())?;
            if now > spent {
                (spent, since) = (now, Instant::now());
            }
        }
        Ok(spent)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
