//! What is measured in this process, without sockets and TLS: on one thread, through the service that
//! every in-process client stands on.

use bytes::Bytes;
use futures_util::future::join_all;
use http::{Method, Request};
use http_body_util::BodyExt as _;
use kubewright::{
    Key,
    entropy::Entropy,
    queue::{Options, Outcome, Priority, Queue},
};
use kubewright_apiserver::{ApiServer, Body, InProcess, auth::UserInfo};
use tokio::time::Instant;
use tower_service::Service as _;

use crate::{Result, load::config_map, measure::Measure, progress, runtime};

const WATCHERS: usize = 1_000;
const CREATES: usize = 10_000;
const FEW: usize = 1_000;
const LOTS: usize = 100_000;
const UPDATES: usize = 4_000;
const ITEMS: usize = 1_000;

const COLLECTION: &str = "/api/v1/namespaces/default/configmaps";

/// Measures everything there is inside.
pub(crate) fn run(rounds: u32) -> Result<Vec<Measure>> {
    runtime()?.block_on(async {
        Ok(vec![
            start(rounds).await?,
            fork(rounds).await?,
            creates(rounds).await?,
            fan_out(rounds).await?,
            write_cost(rounds).await?,
            queue(rounds).await?,
        ])
    })
}

async fn start(rounds: u32) -> Result<Measure> {
    let mut samples = Vec::new();
    for _ in 0..rounds * 4 {
        progress("in process: start");
        let started = Instant::now();
        let _server = ApiServer::start().await?;
        samples.push(started.elapsed().as_secs_f64() * 1e3);
    }
    Ok(Measure::less_is_better("in process: start", "ms").with(samples, Vec::new()))
}

async fn fork(rounds: u32) -> Result<Measure> {
    let server = filled(FEW).await?;
    let mut samples = Vec::new();
    for _ in 0..rounds * 100 {
        let started = Instant::now();
        let _fork = server.fork();
        samples.push(started.elapsed().as_secs_f64() * 1e6);
    }
    Ok(Measure::less_is_better("in process: fork", "µs").with(samples, Vec::new()))
}

async fn creates(rounds: u32) -> Result<Measure> {
    let mut samples = Vec::new();
    for round in 0..rounds {
        progress(&format!("in process: creates, round {}", round + 1));
        let server = ApiServer::start().await?;
        let mut caller = Caller::of(&server);
        let bodies: Vec<Bytes> = (0..CREATES).map(|index| config_map(&name(index), index)).collect();
        let started = Instant::now();
        for body in bodies {
            caller.call(Method::POST, COLLECTION, body, 201).await?;
        }
        samples.push(CREATES as f64 / started.elapsed().as_secs_f64());
    }
    Ok(Measure::more_is_better("in process: creates, one core", "/s")
        .reaching(15_000.0)
        .with(samples, Vec::new()))
}

/// From the request that commits the event to the line at the last watcher.
async fn fan_out(rounds: u32) -> Result<Measure> {
    let server = ApiServer::start().await?;
    let mut caller = Caller::of(&server);
    let mut streams = Vec::with_capacity(WATCHERS);
    for _ in 0..WATCHERS {
        let path = format!("{COLLECTION}?watch=true&resourceVersion={}", server.revision());
        streams.push(caller.send(Method::GET, &path, Bytes::new()).await?);
    }
    let mut samples = Vec::new();
    for round in 0..rounds * 4 {
        progress(&format!("in process: watchers, round {}", round + 1));
        let listening = streams.into_iter().map(|mut stream| {
            tokio::spawn(async move {
                let line = stream.frame().await;
                (stream, line.is_some(), Instant::now())
            })
        });
        let listening: Vec<_> = listening.collect();
        // Lets every watcher get to where it waits.
        tokio::task::yield_now().await;
        let started = Instant::now();
        caller.call(Method::POST, COLLECTION, config_map(&format!("event-{round}"), 0), 201).await?;
        let mut last = started;
        streams = Vec::with_capacity(WATCHERS);
        for heard in join_all(listening).await {
            let (stream, is_line, at) = heard?;
            if !is_line {
                return Err("a watch ended".into());
            }
            last = last.max(at);
            streams.push(stream);
        }
        samples.push((last - started).as_secs_f64() * 1e3);
    }
    Ok(Measure::less_is_better("in process: one event to 1,000 watchers", "ms")
        .reaching(1.0)
        .with(samples, Vec::new()))
}

/// How much dearer an update is among many objects than among few.
async fn write_cost(rounds: u32) -> Result<Measure> {
    progress("in process: storing 100,000 ConfigMaps");
    let (few, lots) = (filled(FEW).await?, filled(LOTS).await?);
    let mut samples = Vec::new();
    for round in 0..rounds {
        progress(&format!("in process: write cost, round {}", round + 1));
        let at_few = updates(&few, FEW, round).await?;
        let at_lots = updates(&lots, LOTS, round).await?;
        samples.push(at_lots / at_few);
    }
    let name = "in process: a write at 100,000 objects, compared with 1,000";
    Ok(Measure::less_is_better(name, "×").reaching(1.3).with(samples, Vec::new()))
}

/// The queue alone, as a worker sees it that is never short of work.
async fn queue(rounds: u32) -> Result<Measure> {
    let queue = Queue::new(Options::default(), Entropy::seeded(1));
    let keys: Vec<Key> = (0..ITEMS).map(|index| Key::new("default", &name(index))).collect();
    let mut samples = Vec::new();
    for _ in 0..rounds * 100 {
        let started = Instant::now();
        for key in &keys {
            queue.add(key.clone(), Priority::Normal);
        }
        for _ in &keys {
            let taken = queue.get().await.ok_or("the queue ended")?;
            taken.done(Outcome::Success);
        }
        samples.push(started.elapsed().as_secs_f64() * 1e3);
    }
    Ok(Measure::less_is_better("queue: 1,000 items added, taken and done", "ms")
        .reaching(0.35)
        .with(samples, Vec::new()))
}

async fn updates(server: &ApiServer, stored: usize, round: u32) -> Result<f64> {
    let mut caller = Caller::of(server);
    let requests: Vec<(String, Bytes)> = (0..UPDATES)
        .map(|step| {
            let number = step + round as usize * UPDATES;
            let name = name(number.wrapping_mul(7919) % stored);
            (format!("{COLLECTION}/{name}"), config_map(&name, number + stored))
        })
        .collect();
    let started = Instant::now();
    for (path, body) in requests {
        caller.call(Method::PUT, &path, body, 200).await?;
    }
    Ok(started.elapsed().as_secs_f64())
}

async fn filled(count: usize) -> Result<ApiServer> {
    let server = ApiServer::start().await?;
    let mut caller = Caller::of(&server);
    for index in 0..count {
        caller.call(Method::POST, COLLECTION, config_map(&name(index), index), 201).await?;
    }
    Ok(server)
}

fn name(index: usize) -> String {
    format!("stored-{index}")
}

/// Calls the service of a server as its administrator.
struct Caller(InProcess);

impl Caller {
    fn of(server: &ApiServer) -> Self {
        Self(server.service(UserInfo::new("kubernetes-admin", ["system:masters"])))
    }

    async fn call(&mut self, method: Method, path: &str, body: Bytes, expected: u16) -> Result<()> {
        let request = request(method, path, body)?;
        let answer = self.0.call(request).await?;
        if answer.status().as_u16() == expected {
            return Ok(());
        }
        let text = answer.body().whole().cloned().unwrap_or_default();
        Err(format!(
            "{path}: expected {expected}, got {}: {}",
            answer.status(),
            String::from_utf8_lossy(&text)
        )
        .into())
    }

    async fn send(&mut self, method: Method, path: &str, body: Bytes) -> Result<Body> {
        Ok(self.0.call(request(method, path, body)?).await?.into_body())
    }
}

fn request(method: Method, path: &str, body: Bytes) -> Result<Request<kube::client::Body>> {
    let request =
        Request::builder().method(method).uri(path).header(http::header::CONTENT_TYPE, "application/json");
    Ok(request.body(kube::client::Body::from(body))?)
}
