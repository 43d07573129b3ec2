//! The cluster that a command works with.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use kube::Client;

/// How to reach it.
#[derive(Args)]
pub(crate) struct Target {
    /// How to reach the cluster; without it the files of KUBECONFIG, or ~/.kube/config
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig; the current one without it
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

impl Target {
    /// A client of the cluster, which has answered.
    pub(crate) async fn connect(&self) -> Result<Client, String> {
        let connected = kubewright::connect(self.kubeconfig.as_deref(), self.context.as_deref()).await;
        connected.map(|(client, _)| client).map_err(|why| why.to_string())
    }
}

/// How long it may take until what was asked for has come about.
#[derive(Args)]
pub(crate) struct Patience {
    /// How long to wait for it, as in 30s or 1m30s
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration)]
    pub(crate) timeout: Duration,
}

fn duration(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().map(Duration::from_secs);
    let spelled = || text.parse::<jiff::SignedDuration>().ok()?.try_into().ok();
    seconds.or_else(spelled).ok_or_else(|| "expected a duration, as in 30s or 1m30s".to_owned())
}
