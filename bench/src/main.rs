//! Measures the embedded API server side by side with kube-apiserver, and says which targets are met.
//!
//! Both servers run as processes of their own on this machine and are loaded in turns by the same client,
//! so that what else the machine does hits both alike. What has no counterpart is measured in the process.

mod chart;
mod client;
mod cluster;
mod contest;
mod explore;
mod inside;
mod load;
mod measure;
mod operators;
mod peer;
mod report;
mod webhooks;
mod wire;

use std::{
    error::Error,
    fs,
    io::{IsTerminal as _, Write as _, stderr, stdout},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Parser, ValueEnum};

use self::{client::Protocol, load::Load, measure::Measure, peer::Peer, report::Report};

/// As the `kubewright` command has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Measure the embedded API server side by side with kube-apiserver
#[derive(Parser)]
#[command(name = "bench/run", version, about)]
struct Arguments {
    /// The `kubewright` command, built for release
    #[arg(long, value_name = "FILE")]
    server: PathBuf,

    /// The script that starts kube-apiserver and etcd; without it there is nothing to compare with
    #[arg(long, value_name = "FILE")]
    reference: Option<PathBuf>,

    /// Compare with an etcd that does not wait for the disk, instead of etcd as it is
    #[arg(long, requires = "reference")]
    no_fsync: bool,

    /// The operator in a process of its own, built for release
    #[arg(long, value_name = "FILE")]
    operator: PathBuf,

    /// The same operator, written with something else; may be repeated
    #[arg(long, value_name = "FILE", requires = "reference")]
    peer: Vec<PathBuf>,

    /// Measure only this; may be repeated
    #[arg(long, value_enum, value_name = "PART")]
    only: Vec<Part>,

    /// How often everything is measured; the median counts
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=50))]
    rounds: u32,

    /// The HTTP version of the load
    #[arg(long, value_enum, default_value_t = Protocol::Http1)]
    http: Protocol,

    /// How to print the figures
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,

    /// Write a chart of the comparison, as SVG
    #[arg(long, value_name = "FILE")]
    chart: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The servers, side by side
    Servers,
    /// The embedded server and the queue, in process
    Inside,
    /// An operator
    Operator,
    /// A cluster in a test
    TestCluster,
    /// Webhooks of an operator
    Webhooks,
    /// How fast operators are explored
    Explore,
    /// Explorations of all operators of this repository, some minutes
    Explorations,
    /// An exploration of 100,000 runs, some minutes
    Endurance,
    /// A whole cluster
    Cluster,
    /// The same operator, written with something else
    Peers,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Json,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(code) => code,
        Err(why) => {
            let _ = writeln!(stderr(), "error: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Exit code 0: compared. 2: there was nothing to compare with.
fn run(arguments: &Arguments) -> Result<ExitCode> {
    let wants = |part| arguments.only.is_empty() || arguments.only.contains(&part);
    let rounds = arguments.rounds;
    let mut measures = Vec::new();
    if wants(Part::Inside) {
        measures.extend(inside::run(rounds)?);
    }
    if wants(Part::Operator) {
        measures.extend(operators::run(&arguments.server, rounds)?);
        measures.push(contest::idle(&arguments.server, &arguments.operator, rounds)?);
    }
    if wants(Part::TestCluster) {
        measures.extend(cluster::in_a_test(rounds)?);
    }
    if wants(Part::Webhooks) {
        measures.extend(webhooks::run(rounds)?);
    }
    if wants(Part::Explore) {
        measures.extend(explore::run()?);
    }
    if wants(Part::Explorations) {
        measures.push(explore::all_operators()?);
    }
    if wants(Part::Endurance) {
        measures.extend(explore::endurance()?);
    }
    if wants(Part::Cluster) {
        measures.extend(cluster::run(&arguments.server, rounds)?);
    }
    let mut versions = Vec::new();
    if wants(Part::Servers) {
        let (compared, found) = runtime()?.block_on(side_by_side(arguments))?;
        measures.splice(0..0, compared);
        versions = found;
    }
    let operators = match &arguments.reference {
        Some(script) if wants(Part::Peers) && !arguments.peer.is_empty() => {
            contest::run(script, arguments.no_fsync, &arguments.operator, &arguments.peer, rounds)?
        }
        _ => Vec::new(),
    };
    let report = Report {
        measures,
        operators,
        versions,
        no_fsync: arguments.no_fsync,
        machine: report::machine(),
        protocol: arguments.http,
        rounds: arguments.rounds,
    };
    if let Some(path) = &arguments.chart {
        fs::write(path, chart::draw(&report)).map_err(|why| format!("{}: {why}", path.display()))?;
    }
    let text = match arguments.output {
        Output::Text => report.text(stdout().is_terminal()),
        Output::Json => format!("{:#}\n", report.json()),
    };
    stdout().write_all(text.as_bytes())?;
    Ok(if arguments.reference.is_some() { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

/// One thread: the load shall leave the other cores to the servers.
fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

/// Starts both servers, loads them in turns, and gives what was measured and which versions they are.
async fn side_by_side(arguments: &Arguments) -> Result<(Vec<Measure>, Vec<String>)> {
    let (mut embedded, mut reference) = (Vec::new(), Vec::new());
    let mut peers: Vec<Peer> = Vec::new();
    for round in 0..arguments.rounds {
        progress(&format!("start, round {}", round + 1));
        for peer in peers.drain(..) {
            peer.stop().await?;
        }
        let peer = Peer::embedded(&arguments.server).await?;
        embedded.push(peer.ready.as_secs_f64() * 1e3);
        peers.push(peer);
        if let Some(script) = &arguments.reference {
            let peer = Peer::reference(script, arguments.no_fsync).await?;
            reference.push(peer.ready.as_secs_f64() * 1e3);
            peers.push(peer);
        }
    }
    let mut measures =
        vec![Measure::less_is_better("time to ready", "ms").at_least_times(50.0).with(embedded, reference)];
    let load = Load::new(peers, arguments.http, arguments.rounds);
    measures.extend(load.run().await?);
    Ok((measures, load.versions().await?))
}

/// What is being done, for people who wait.
fn progress(what: &str) {
    if stderr().is_terminal() {
        let _ = write!(stderr(), "\r\u{1b}[K{what}");
        let _ = stderr().flush();
    }
}
