//! `kubewright cluster`: a local cluster on a port, until it is told to stop.

use clap::Args;
use serde_json::json;

use crate::{
    local::Place,
    terminal::{Output, line},
};

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

    #[command(flatten)]
    place: Place,

    /// How to print where the cluster is
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
}

impl Cluster {
    /// Runs until SIGINT or SIGTERM.
    pub(crate) async fn run(self, stop: impl Future<Output = ()>) -> Result<(), String> {
        let mut local = self.place.start((!self.api_only).then_some(self.nodes)).await?;
        let kubeconfig = self.place.kubeconfig.display();
        let milliseconds = local.ready.as_secs_f64() * 1000.0;
        match self.output {
            Output::Text => {
                line(&format!("address     {}", local.url()));
                line(&format!("kubeconfig  {kubeconfig}"));
                line(&format!("ready       after {milliseconds:.1} ms"));
                line("");
                let shown = if self.api_only { "namespaces" } else { "nodes" };
                line(&format!("  kubectl --kubeconfig {kubeconfig} get {shown}"));
                line("");
                line("Ctrl-C stops it.");
            }
            Output::Json => line(
                &json!({
                    "server": local.url(),
                    "kubeconfig": self.place.kubeconfig,
                    "readyMilliseconds": milliseconds,
                })
                .to_string(),
            ),
        }
        let outcome = tokio::select! {
            biased;
            () = stop => Ok(()),
            why = local.ended() => Err(why),
        };
        local.stop().await;
        outcome
    }
}
