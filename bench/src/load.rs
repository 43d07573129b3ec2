//! The load: what both servers are asked to do, in turns, by the same client.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::try_join_all;
use http::Method;
use http_body_util::BodyExt as _;
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use crate::{
    Result,
    client::{Ask, Caller, Connection, Endpoint, Protocol},
    measure::Measure,
    peer::{Peer, resident},
    progress,
};

/// How many ConfigMaps are stored while memory, lists and everything else are measured.
const STORED: usize = 16_000;
/// How many connections there are where it is not one.
const MANY: usize = 16;
const WATCHERS: usize = 100;
/// How long one round of a rate takes.
const ROUND: Duration = Duration::from_secs(1);
/// Until memory is read, so that what was let go of is given back.
const SETTLE: Duration = Duration::from_secs(3);
/// The size of a ConfigMap as it is sent.
const BODY_SIZE: usize = 512;

const COLLECTION: &str = "/api/v1/namespaces/default/configmaps";

/// The servers and how they are loaded.
pub(crate) struct Load {
    peers: Vec<Peer>,
    protocol: Protocol,
    rounds: u32,
    /// Numbers for names nobody has used.
    next: AtomicUsize,
}

impl Load {
    pub(crate) fn new(peers: Vec<Peer>, protocol: Protocol, rounds: u32) -> Self {
        Self { peers, protocol, rounds, next: AtomicUsize::new(0) }
    }

    /// Everything, in an order in which one thing does not disturb the next.
    pub(crate) async fn run(&self) -> Result<Vec<Measure>> {
        let mut measures = Vec::new();
        measures.extend(self.memory("memory idle", 10.0).await?);
        progress("storing ConfigMaps");
        for peer in &self.peers {
            self.fill(&peer.endpoint).await?;
        }
        measures.extend(self.memory(&format!("memory with {STORED} ConfigMaps"), 8.0).await?);
        measures.extend(self.lists().await?);
        for (connections, target) in [(1, 10.0), (MANY, 10.0)] {
            let name = format!("creates, {}", plural(connections, "connection"));
            let measure = Measure::more_is_better(name, "/s").at_least_times(target);
            measures.push(self.rate(measure, connections, &|| self.create()).await?);
        }
        let measure = Measure::more_is_better(format!("gets, {}", plural(MANY, "connection")), "/s");
        measures.push(self.rate(measure, MANY, &|| self.get()).await?);
        let measure = Measure::more_is_better(format!("updates, {}", plural(MANY, "connection")), "/s");
        measures.push(self.rate(measure, MANY, &|| self.update()).await?);
        measures.push(self.fan_out().await?);
        Ok(measures)
    }

    /// What the servers say they are.
    pub(crate) async fn versions(&self) -> Result<Vec<String>> {
        let mut versions = Vec::new();
        for peer in &self.peers {
            let mut connection = peer.endpoint.connect(self.protocol).await?;
            let answer = connection.send(Method::GET, "/version", Bytes::new()).await?;
            let body = answer.into_body().collect().await?.to_bytes();
            let version: serde_json::Value = serde_json::from_slice(&body)?;
            versions.push(version["gitVersion"].as_str().unwrap_or("unknown").to_owned());
        }
        Ok(versions)
    }

    async fn memory(&self, name: &str, target: f64) -> Result<Vec<Measure>> {
        progress(name);
        sleep(SETTLE).await;
        let mut all = Vec::new();
        let mut alone = Vec::new();
        for peer in &self.peers {
            let sizes: Vec<f64> = peer.processes.iter().map(|id| resident(*id)).collect::<Result<_>>()?;
            all.push(sizes.iter().sum());
            alone.push(sizes[0]);
        }
        let split = |mut samples: Vec<f64>| {
            let rest = samples.split_off(1);
            (samples, rest)
        };
        let (embedded, reference) = split(all);
        let whole = Measure::less_is_better(name, "MiB").at_least_times(target).with(embedded, reference);
        let (embedded, reference) = split(alone);
        let apart = Measure::less_is_better(format!("{name}, without etcd"), "MiB").with(embedded, reference);
        Ok(if self.peers.len() > 1 { vec![whole, apart] } else { vec![whole] })
    }

    async fn fill(&self, endpoint: &Endpoint) -> Result<()> {
        let next = AtomicUsize::new(0);
        let workers = (0..MANY).map(async |_| {
            let mut connection = endpoint.connect(self.protocol).await?;
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= STORED {
                    return Ok(());
                }
                let body = config_map(&stored_name(index), index);
                connection.call(Method::POST, COLLECTION, body, 201).await?;
            }
        });
        try_join_all(workers).await.map(|_: Vec<()>| ())
    }

    async fn lists(&self) -> Result<Vec<Measure>> {
        let mut times = Samples::default();
        let mut sizes = Samples::default();
        for round in 0..self.rounds {
            progress(&format!("list, round {}", round + 1));
            for (index, peer) in self.peers.iter().enumerate() {
                let mut connection = peer.endpoint.connect(self.protocol).await?;
                let started = Instant::now();
                let size = connection.call(Method::GET, COLLECTION, Bytes::new(), 200).await?;
                times.add(index, started.elapsed().as_secs_f64() * 1e3);
                sizes.add(index, size as f64 / f64::from(1 << 20));
            }
        }
        let time = Measure::less_is_better(format!("list of {STORED} ConfigMaps"), "ms").at_least_times(5.0);
        let size = Measure::less_is_better("list, size of the answer", "MiB");
        Ok(vec![times.of(time), sizes.of(size)])
    }

    /// How often a second something can be asked for.
    async fn rate(&self, measure: Measure, connections: usize, request: &dyn Fn() -> Ask) -> Result<Measure> {
        let mut samples = Samples::default();
        for round in 0..self.rounds {
            progress(&format!("{}, round {}", measure.name, round + 1));
            for (index, peer) in self.peers.iter().enumerate() {
                samples.add(index, self.asked_per_second(&peer.endpoint, connections, request).await?);
            }
        }
        Ok(samples.of(measure))
    }

    async fn asked_per_second(
        &self,
        endpoint: &Endpoint,
        connections: usize,
        request: &dyn Fn() -> Ask,
    ) -> Result<f64> {
        let opened = (0..connections).map(|_| endpoint.caller(self.protocol));
        let mut opened: Vec<Caller> = try_join_all(opened).await?;
        let started = Instant::now();
        let workers = opened.iter_mut().map(async |caller| {
            let mut done = 0usize;
            while started.elapsed() < ROUND {
                caller.call(request()).await?;
                done += 1;
            }
            Result::Ok(done)
        });
        let done: Vec<usize> = try_join_all(workers).await?;
        Ok(done.iter().sum::<usize>() as f64 / started.elapsed().as_secs_f64())
    }

    fn number(&self) -> usize {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn create(&self) -> Ask {
        let number = self.number();
        let body = config_map(&format!("created-{number}"), number);
        Ask { method: Method::POST, path: COLLECTION.to_owned(), body, expected: 201 }
    }

    fn get(&self) -> Ask {
        let path = format!("{COLLECTION}/{}", stored_name(scattered(self.number())));
        Ask { method: Method::GET, path, body: Bytes::new(), expected: 200 }
    }

    fn update(&self) -> Ask {
        let number = self.number();
        let name = stored_name(scattered(number));
        let body = config_map(&name, number);
        Ask { method: Method::PUT, path: format!("{COLLECTION}/{name}"), body, expected: 200 }
    }

    /// From sending a create to the last of the watchers that has seen it.
    async fn fan_out(&self) -> Result<Measure> {
        let mut samples = Samples::default();
        let mut audiences = Vec::new();
        for peer in &self.peers {
            audiences.push(Audience::gather(&peer.endpoint, self.protocol).await?);
        }
        for round in 0..self.rounds * 4 {
            progress(&format!("watchers, round {}", round + 1));
            for (index, audience) in audiences.iter_mut().enumerate() {
                samples.add(index, audience.event(round).await?.as_secs_f64() * 1e3);
            }
        }
        Ok(samples.of(Measure::less_is_better(format!("one event to {WATCHERS} watchers"), "ms")))
    }
}

/// The samples of the embedded server and of the reference.
#[derive(Default)]
struct Samples([Vec<f64>; 2]);

impl Samples {
    fn add(&mut self, peer: usize, sample: f64) {
        self.0[peer].push(sample);
    }

    fn of(self, measure: Measure) -> Measure {
        let [embedded, reference] = self.0;
        measure.with(embedded, reference)
    }
}

/// Watchers of one collection, each on a connection of its own.
struct Audience {
    writer: Connection,
    watchers: Vec<JoinHandle<()>>,
    seen: mpsc::UnboundedReceiver<Instant>,
}

/// A namespace that holds nothing but what is watched.
const WATCHED: &str = "/api/v1/namespaces/kube-public/configmaps";

impl Audience {
    async fn gather(endpoint: &Endpoint, protocol: Protocol) -> Result<Self> {
        let (tell, seen) = mpsc::unbounded_channel();
        let mut watchers = Vec::new();
        for _ in 0..WATCHERS {
            let mut connection = endpoint.connect(protocol).await?;
            let path = format!("{WATCHED}?watch=true&timeoutSeconds=600");
            let answer = connection.send(Method::GET, &path, Bytes::new()).await?;
            if answer.status() != 200 {
                return Err(format!("{path}: got {}", answer.status()).into());
            }
            let tell = tell.clone();
            watchers.push(tokio::spawn(async move {
                let _open = connection;
                let mut body = answer.into_body();
                while let Some(Ok(frame)) = body.frame().await {
                    // An event of this size is one chunk, or two of which the last one ends the line.
                    if frame.data_ref().is_some_and(|data| data.ends_with(b"\n"))
                        && tell.send(Instant::now()).is_err()
                    {
                        return;
                    }
                }
            }));
        }
        let mut audience = Self { writer: endpoint.connect(protocol).await?, watchers, seen };
        // Watchers without a revision first see what is there; then they are known to listen.
        let quiet = Duration::from_millis(500);
        while timeout(quiet, audience.seen.recv()).await.is_ok() {}
        Ok(audience)
    }

    async fn event(&mut self, round: u32) -> Result<Duration> {
        let started = Instant::now();
        let body = config_map(&format!("event-{round}"), 0);
        self.writer.call(Method::POST, WATCHED, body, 201).await?;
        let mut last = started;
        for _ in 0..WATCHERS {
            let seen = timeout(Duration::from_secs(10), self.seen.recv()).await?;
            last = last.max(seen.ok_or("the watches ended")?);
        }
        Ok(last - started)
    }
}

impl Drop for Audience {
    fn drop(&mut self) {
        self.watchers.iter().for_each(JoinHandle::abort);
    }
}

/// Stores ConfigMaps with one value of a size, and gives how much JSON they are together as the server tells them, in
/// MiB.
pub(crate) async fn fill_with(endpoint: &Endpoint, count: usize, size: usize) -> Result<f64> {
    let value = "x".repeat(size);
    let next = AtomicUsize::new(0);
    let workers = (0..MANY).map(async |_| {
        let mut caller = endpoint.caller(Protocol::Http1).await?;
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return Result::Ok(());
            }
            let name = stored_name(index);
            let body = format!(
                r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}},"data":{{"value":"{value}"}}}}"#
            );
            let body = Bytes::from(body);
            caller
                .call(Ask { method: Method::POST, path: COLLECTION.to_owned(), body, expected: 201 })
                .await?;
        }
    });
    let _: Vec<()> = try_join_all(workers).await?;
    let mut connection = endpoint.connect(Protocol::Http1).await?;
    let listed = connection.call(Method::GET, COLLECTION, Bytes::new(), 200).await?;
    Ok(listed as f64 / f64::from(1 << 20))
}

/// A ConfigMap of half a KiB, with content that differs by `number`. Cheap to make: the client shall not slow the servers down.
pub(crate) fn config_map(name: &str, number: usize) -> Bytes {
    let mut body = Vec::with_capacity(BODY_SIZE);
    let number = number.to_string();
    let parts = [
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":""#,
        name,
        r#"","labels":{"app":"bench"}},"data":{"number":""#,
        &number,
        r#"","first":"first value","second":"second value","rest":""#,
    ];
    parts.iter().for_each(|part| body.extend_from_slice(part.as_bytes()));
    let end = b"\"}}";
    body.resize((BODY_SIZE - end.len()).max(body.len()), b'x');
    body.extend_from_slice(end);
    body.into()
}

fn stored_name(index: usize) -> String {
    format!("stored-{index}")
}

/// Goes through all stored objects without following their order.
fn scattered(number: usize) -> usize {
    number.wrapping_mul(7919) % STORED
}

fn plural(count: usize, noun: &str) -> String {
    if count == 1 { format!("{count} {noun}") } else { format!("{count} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_config_map_is_half_a_kibibyte_of_json() {
        let body = config_map("stored-15999", 123);
        assert_eq!(body.len(), BODY_SIZE);
        let value: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(value["metadata"]["name"], "stored-15999");
    }

    #[test]
    fn every_stored_object_has_its_turn() {
        let mut seen: Vec<usize> = (0..STORED).map(scattered).collect();
        seen.sort_unstable();
        assert!(seen.iter().copied().eq(0..STORED));
    }
}
