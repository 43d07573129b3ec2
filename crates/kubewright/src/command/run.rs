//! `run`: finds the cluster, runs the operator, and brings it to a clean end when it is told to stop.

use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use clap::Args;
use http::Uri;
use kube::Client;

use super::{connect::connect, failed, logs, webhook_url};
use crate::{
    error::Result,
    leader::LeaderElection,
    manager::Options,
    operator::Operator,
    serve::{Certificate, parse_address},
    webhook,
};

/// As shells have it for a program that was interrupted.
const INTERRUPTED: u8 = 130;

#[derive(Args)]
pub(super) struct Run {
    /// Let one replica work at a time
    #[arg(long, env = "LEADER_ELECT")]
    leader_elect: bool,

    /// Namespace of the lease; that of the operator without it
    #[arg(long, value_name = "NAME", env = "LEADER_ELECTION_NAMESPACE")]
    leader_election_namespace: Option<String>,

    /// Where /metrics and /debug are served; 0 for nowhere
    #[arg(long, value_name = "ADDRESS", default_value = ":8080", env = "METRICS_BIND_ADDRESS", value_parser = address)]
    metrics_bind_address: Address,

    /// Serve /metrics and /debug over TLS, and only to those whose token has the right to get the path
    #[arg(long, env = "METRICS_SECURE")]
    metrics_secure: bool,

    /// Directory with tls.crt and tls.key, read again when they change; a self-signed certificate without it
    #[arg(long, value_name = "DIRECTORY", env = "METRICS_CERT_PATH", requires = "metrics_secure")]
    metrics_cert_path: Option<PathBuf>,

    /// Where /healthz and /readyz are served; 0 for nowhere
    #[arg(long, value_name = "ADDRESS", default_value = ":8081", env = "HEALTH_PROBE_BIND_ADDRESS", value_parser = address)]
    health_probe_bind_address: Address,

    /// Where webhooks are served; 0 for nowhere, and without it the port of --webhook-url, or :9443
    #[arg(long, value_name = "ADDRESS", env = "WEBHOOK_BIND_ADDRESS", value_parser = address)]
    webhook_bind_address: Option<Address>,

    /// Where the API server finds this operator, which runs outside of the cluster, as in https://HOST:PORT: it is led here
    /// until this ends. With "auto", only if that is a local cluster of kubewright
    #[arg(long, value_name = "URL", env = "WEBHOOK_URL", value_parser = whereabouts)]
    webhook_url: Option<Whereabouts>,

    /// Directory with tls.crt and tls.key for webhooks, read again when they change; without it the operator keeps its own
    /// certificates in a Secret, and tells the API server to trust them
    #[arg(long, value_name = "DIRECTORY", env = "WEBHOOK_CERT_PATH")]
    webhook_cert_path: Option<PathBuf>,

    /// How to reach the cluster; without it the files of KUBECONFIG, ~/.kube/config, or the cluster it runs in
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Look after these namespaces only; may be repeated
    #[arg(long, value_name = "NAME", value_delimiter = ',', env = "WATCH_NAMESPACE")]
    namespace: Vec<String>,

    /// How long running reconciles may take to end when it is told to stop
    #[arg(long, value_name = "DURATION", default_value = "30s", env = "GRACE_PERIOD", value_parser = duration)]
    grace_period: Duration,

    /// What is logged: error, warn, info, debug, trace, or rules as in "info,kube=debug"
    #[arg(long, value_name = "LEVEL", default_value = "info", env = "LOG_LEVEL", value_parser = logs::filter)]
    log_level: String,

    /// The form of logs
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = logs::Format::Text, env = "LOG_FORMAT")]
    log_format: logs::Format,
}

/// An address, or none.
#[derive(Clone, Copy)]
struct Address(Option<SocketAddr>);

fn address(text: &str) -> Result<Address, String> {
    parse_address(text).map(Address)
}

/// Where the API server finds an operator outside of its cluster.
#[derive(Clone)]
enum Whereabouts {
    At(String),
    /// On the machine that both run on, if they do.
    Auto,
}

fn whereabouts(text: &str) -> Result<Whereabouts, String> {
    match text {
        "auto" => Ok(Whereabouts::Auto),
        url => webhook_url(url).map(Whereabouts::At),
    }
}

/// `90s`, `1m30s`, or just seconds.
fn duration(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().map(Duration::from_secs);
    let spelled = || text.parse::<jiff::SignedDuration>().ok()?.try_into().ok();
    seconds.or_else(spelled).ok_or_else(|| "expected a duration, as in 30s or 1m30s".to_owned())
}

impl Run {
    pub(super) fn run(self, operator: Operator) -> ExitCode {
        logs::start(&self.log_level, self.log_format);
        let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(why) => return failed(format!("no threads can be started: {why}")),
        };
        let code = runtime.block_on(self.until_told(operator)).unwrap_or_else(failed);
        // Whatever still runs was given its time.
        runtime.shutdown_background();
        code
    }

    async fn until_told(self, operator: Operator) -> Result<ExitCode> {
        let mut signals = Signals::new()?;
        let (client, url) = tokio::select! {
            biased;
            () = signals.next() => return Ok(ExitCode::from(INTERRUPTED)),
            client = connect(self.kubeconfig.as_deref(), None) => client?,
        };
        let (webhook_address, webhook_url) = self.webhooks(&operator, &client, &url).await?;
        let host = url.authority().map(ToString::to_string).unwrap_or_default();
        let options = Options { host, webhook_address, webhook_url, ..self.options(&operator) };
        let mut running = operator.start(client, options);
        tokio::select! {
            biased;
            () = signals.next() => {}
            ended = running.ended() => return ended.map(|()| ExitCode::SUCCESS),
        }
        tracing::info!("stopping; a second signal ends it at once");
        tokio::select! {
            biased;
            () = signals.next() => Ok(ExitCode::from(INTERRUPTED)),
            ended = running.stop() => ended.map(|()| ExitCode::SUCCESS),
        }
    }

    /// Where webhooks are served, and where the API server is led to if this is outside of its cluster.
    async fn webhooks(
        &self,
        operator: &Operator,
        client: &Client,
        server: &Uri,
    ) -> Result<(Option<SocketAddr>, Option<String>)> {
        let chosen = self.webhook_bind_address.map(|Address(chosen)| chosen);
        let everywhere = |port| Some(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)));
        match &self.webhook_url {
            None => Ok((chosen.unwrap_or_else(|| everywhere(webhook::PORT)), None)),
            Some(Whereabouts::At(url)) => {
                let port = url.parse::<Uri>().ok().and_then(|url| url.port_u16());
                let address = chosen.unwrap_or_else(|| everywhere(port.unwrap_or(webhook::PORT)));
                Ok((address, Some(url.clone())))
            }
            Some(Whereabouts::Auto) if is_on_this_machine(client, server).await? => {
                // Free again at once, and given to nobody else for a while.
                let free = || TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
                let address = chosen.map_or_else(|| free().map(Some), Ok)?;
                Ok((address, address.map(|address| format!("https://127.0.0.1:{}", address.port()))))
            }
            Some(Whereabouts::Auto) => {
                if !operator.webhook_targets(&self.namespace).is_empty() {
                    tracing::warn!(
                        "webhooks are not served, as the cluster may not find this machine: if it does, say where with \
                         --webhook-url https://HOST:{}",
                        webhook::PORT
                    );
                }
                Ok((chosen.flatten(), None))
            }
        }
    }

    fn options(self, operator: &Operator) -> Options {
        let election = LeaderElection {
            namespace: self.leader_election_namespace,
            ..LeaderElection::new(operator.name())
        };
        let certificate = self.metrics_cert_path.map_or(Certificate::SelfSigned, Certificate::Directory);
        Options {
            leader_election: self.leader_elect.then_some(election),
            namespaces: self.namespace.into_iter().filter(|name| !name.is_empty()).collect(),
            grace: self.grace_period,
            metrics_address: self.metrics_bind_address.0,
            secure_metrics: self.metrics_secure.then_some(certificate),
            health_address: self.health_probe_bind_address.0,
            webhook_certificate: self.webhook_cert_path.map(Certificate::Directory),
            ..Options::default()
        }
    }
}

/// Whether an API server is a process of this machine. One at a loopback address need not be: the ports of clusters in
/// containers end there, too, and what is loopback to them is not this machine. Kubewright's own is in none.
async fn is_on_this_machine(client: &Client, server: &Uri) -> Result<bool> {
    let host = server.host().unwrap_or_default().trim_matches(['[', ']']);
    let is_loopback = host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback());
    Ok(is_loopback && client.apiserver_version().await?.git_version.contains("+kubewright"))
}

/// The signals that ask a program to end.
struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    #[cfg(unix)]
    fn new() -> Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    #[cfg(unix)]
    async fn next(&mut self) {
        tokio::select! {
            biased;
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    #[cfg(not(unix))]
    fn new() -> Result<Self> {
        Ok(Self {})
    }

    #[cfg(not(unix))]
    async fn next(&mut self) {
        // An error means that there are no such signals here.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        assert_eq!(duration("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(duration("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("5"), Ok(Duration::from_secs(5)));
        assert!(duration("soon").is_err());
        assert!(duration("-1s").is_err());
    }
}
