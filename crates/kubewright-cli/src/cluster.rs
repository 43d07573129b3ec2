//! `kubewright cluster`: a local cluster on a port, until it is told to stop.

use std::{io, net::SocketAddr, path::PathBuf};

use clap::{Args, ValueEnum};
use kubewright_apiserver::{ApiServer, write_private};
use tokio::time::Instant;

use crate::terminal::line;

/// Run a local cluster
#[derive(Args)]
#[command(after_help = "\
Examples:
  kubewright cluster
      A cluster in memory on a free port, with one simulated node; prints how to reach it.

  kubewright cluster --nodes 3 --listen 127.0.0.1:6443 --data-dir ~/.local/share/kubewright
      Three nodes on a fixed port; everything goes on after a restart.

  kubewright cluster --kubeconfig dev.yaml &
  kubectl --kubeconfig dev.yaml create deployment web --image nginx --replicas 3
  kubectl --kubeconfig dev.yaml rollout status deployment web

  kubewright cluster --api-only
      The API server alone: what is created stays as it is, as nothing acts on it.")]
pub(crate) struct Cluster {
    /// Run the API server alone, without controllers and nodes
    #[arg(long)]
    api_only: bool,

    /// How many simulated nodes there are; those of an earlier run stay
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        conflicts_with = "api_only",
        env = "KUBEWRIGHT_NODES"
    )]
    nodes: usize,

    /// Address to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0", env = "KUBEWRIGHT_LISTEN")]
    listen: SocketAddr,

    /// Keep everything in this directory; in memory without it
    #[arg(long, value_name = "DIR", env = "KUBEWRIGHT_DATA_DIR")]
    data_dir: Option<PathBuf>,

    /// Bearer token of the administrator; a random one without it
    #[arg(long, value_name = "TOKEN", env = "KUBEWRIGHT_TOKEN", hide_env_values = true)]
    token: Option<String>,

    /// Where to write the kubeconfig
    #[arg(long, value_name = "FILE", default_value = "kubewright.kubeconfig", env = "KUBEWRIGHT_KUBECONFIG")]
    kubeconfig: PathBuf,

    /// How to print where the cluster is
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Json,
}

impl Cluster {
    /// Runs until SIGINT or SIGTERM.
    pub(crate) fn run(self) -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(|why| format!("can't start the runtime: {why}"))?;
        runtime.block_on(self.serve())
    }

    async fn serve(self) -> Result<(), String> {
        let started = Instant::now();
        // Before anything is opened, so that a signal during the start also ends cleanly.
        let stop = stop_signal().map_err(|why| format!("can't listen for signals: {why}"))?;
        let mut builder = ApiServer::builder();
        if let Some(dir) = &self.data_dir {
            builder = builder.data_dir(dir);
        }
        if let Some(token) = &self.token {
            builder = builder.token(token);
        }
        let server = builder.start().await.map_err(|why| why.to_string())?;
        let mut whole = match self.api_only {
            true => None,
            false => {
                let cluster = kubewright_cluster::Cluster::builder().nodes(self.nodes);
                Some(cluster.start_on(server.clone()).await.map_err(|why| why.to_string())?)
            }
        };
        let listening = server.listen(self.listen).await.map_err(|why| match why.kind() {
            io::ErrorKind::AddrInUse => {
                format!("{} is in use: choose another port with --listen, or 0 for a free one", self.listen)
            }
            _ => format!("can't listen on {}: {why}", self.listen),
        })?;
        write_private(&self.kubeconfig, &listening.kubeconfig())
            .map_err(|why| format!("can't write the kubeconfig {}: {why}", self.kubeconfig.display()))?;
        let ready = started.elapsed();
        let address = listening.address();
        match self.output {
            Output::Text => {
                line(&format!("address     https://{address}"));
                line(&format!("kubeconfig  {}", self.kubeconfig.display()));
                line(&format!("ready       after {:.1} ms", ready.as_secs_f64() * 1000.0));
                line("");
                let shown = if self.api_only { "namespaces" } else { "nodes" };
                line(&format!("  kubectl --kubeconfig {} get {shown}", self.kubeconfig.display()));
                line("");
                line("Ctrl-C stops it.");
            }
            Output::Json => line(
                &serde_json::json!({
                    "server": format!("https://{address}"),
                    "kubeconfig": self.kubeconfig,
                    "readyMilliseconds": ready.as_secs_f64() * 1000.0,
                })
                .to_string(),
            ),
        }
        let outcome = tokio::select! {
            biased;
            () = stop => Ok(()),
            why = ended(whole.as_mut()) => Err(format!("the controllers have ended: {why}")),
        };
        if let Some(whole) = whole {
            // What they do comes to its end while the server still answers.
            let _ = whole.stop().await;
        }
        listening.stop().await;
        outcome
    }
}

/// Why the controllers have ended by themselves; never if there are none.
async fn ended(whole: Option<&mut kubewright_cluster::Cluster>) -> String {
    match whole {
        Some(whole) => whole.ended().await.err().map_or_else(String::new, |why| why.to_string()),
        None => std::future::pending().await,
    }
}

/// A future that resolves at SIGINT or SIGTERM.
fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    Ok(async move {
        tokio::select! {
            biased;
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}
