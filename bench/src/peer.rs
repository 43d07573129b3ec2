//! The servers under test, as processes: how they start, how much memory they take, how they end.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use bytes::Bytes;
use http::Method;
use tokio::time::{Instant, sleep, timeout};

use crate::{
    Result,
    client::{Endpoint, Protocol},
};

/// How long a server may take to start or to end.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running server. It ends when this is dropped.
pub(crate) struct Peer {
    /// Everything runs until this process is gone.
    owner: Child,
    pub(crate) endpoint: Endpoint,
    /// From the start of its process to the first good answer on `/readyz`.
    pub(crate) ready: Duration,
    /// The process that serves the API, then those it needs.
    pub(crate) processes: Vec<u32>,
}

impl Peer {
    /// Starts the embedded server in a process of its own and waits until it is ready.
    pub(crate) async fn embedded(command: &Path) -> Result<Self> {
        Self::command(command, &["--api-only"]).await
    }

    /// Starts a whole cluster in a process of its own and waits until it is ready.
    pub(crate) async fn cluster(command: &Path, nodes: usize) -> Result<Self> {
        Self::command(command, &["--nodes", &nodes.to_string()]).await
    }

    async fn command(command: &Path, arguments: &[&str]) -> Result<Self> {
        // The port is free again before the server opens it: good enough on a quiet loopback.
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let endpoint = Endpoint { address, token: format!("bench-{}", std::process::id()) };
        let started = Instant::now();
        let owner = Command::new(command)
            .args(["cluster", "--listen", &address.to_string(), "--token", &endpoint.token])
            .args(arguments)
            .arg("--kubeconfig")
            .arg(std::env::temp_dir().join("kubewright-bench.kubeconfig"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|why| format!("{}: {why}", command.display()))?;
        let processes = vec![owner.id()];
        let mut peer = Self { owner, endpoint, ready: Duration::ZERO, processes };
        while !is_ready(&peer.endpoint).await {
            if let Some(status) = peer.owner.try_wait()? {
                return Err(format!("{} ended: {status}", command.display()).into());
            }
            if started.elapsed() > PATIENCE {
                return Err(format!("{} is not ready after {PATIENCE:?}", command.display()).into());
            }
            sleep(Duration::from_millis(1)).await;
        }
        peer.ready = started.elapsed();
        Ok(peer)
    }

    /// Starts kube-apiserver with its etcd by a script, which waits until the API is ready.
    pub(crate) async fn reference(script: &Path, no_fsync: bool) -> Result<Self> {
        let owner = Command::new("sleep").arg("3600").stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
        let mut command = Command::new(script);
        command.arg(owner.id().to_string());
        command.args(no_fsync.then_some("--unsafe-no-fsync"));
        command.stdin(Stdio::null()).stderr(Stdio::inherit());
        let endpoint = Endpoint { address: (Ipv4Addr::LOCALHOST, 0).into(), token: String::new() };
        let mut peer = Self { owner, endpoint, ready: Duration::ZERO, processes: Vec::new() };
        let output = tokio::task::spawn_blocking(move || command.output());
        let output = timeout(PATIENCE, output).await???;
        if !output.status.success() {
            return Err(format!("{}: {}", script.display(), output.status).into());
        }
        let text = String::from_utf8(output.stdout)?;
        let value = |name: &str| {
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix("export ")?.strip_prefix(name)?.strip_prefix('='));
            line.map(|value| value.trim_matches('\''))
                .ok_or_else(|| format!("{} did not print {name}", script.display()))
        };
        peer.endpoint.address =
            value("KUBEWRIGHT_SERVER")?.trim_start_matches("https://").parse::<SocketAddr>()?;
        value("KUBEWRIGHT_TOKEN")?.clone_into(&mut peer.endpoint.token);
        peer.ready = Duration::from_millis(value("KUBEWRIGHT_SERVER_READY_MS")?.parse()?);
        for process in value("KUBEWRIGHT_SERVER_PIDS")?.split(' ') {
            peer.processes.push(process.parse()?);
        }
        Ok(peer)
    }

    /// Ends it and waits until nothing of it is left that could disturb what comes next.
    pub(crate) async fn stop(mut self) -> Result<()> {
        let processes = std::mem::take(&mut self.processes);
        drop(self);
        let started = Instant::now();
        while processes.iter().any(|process| resident(*process).is_ok()) {
            if started.elapsed() > PATIENCE {
                return Err(format!("a server has not ended after {PATIENCE:?}").into());
            }
            sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.owner.kill();
        let _ = self.owner.wait();
    }
}

async fn is_ready(endpoint: &Endpoint) -> bool {
    let Ok(mut connection) = endpoint.connect(Protocol::Http1).await else { return false };
    connection.call(Method::GET, "/readyz", Bytes::new(), 200).await.is_ok()
}

/// The resident memory of a process, in MiB.
pub(crate) fn resident(process: u32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")).ok_or("no VmRSS in /proc")?;
    Ok(kilobytes.trim().parse::<f64>()? / 1024.0)
}

/// The CPU time that a process has spent, in seconds, to a hundredth.
pub(crate) fn cpu(process: u32) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // After the name, which may have anything in it: user and system time are the 12th and 13th field.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    let ticks: f64 = fields.map(|field| field.parse::<f64>()).sum::<std::result::Result<_, _>>()?;
    Ok(ticks / 100.0)
}
