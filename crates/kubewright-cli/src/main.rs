//! The `kubewright` command.

mod apply;
mod cluster;
mod local;
mod terminal;
mod up;

use std::{io, process::ExitCode};

use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Build, run and test Kubernetes operators in Rust.
#[derive(Parser)]
#[command(name = "kubewright", version, about, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Up(up::Up),
    Cluster(cluster::Cluster),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            terminal::error(&why);
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|why| format!("can't start the runtime: {why}"))?;
    runtime.block_on(async {
        // Before anything is opened, so that a signal during the start also ends cleanly.
        let stop = stop_signal().map_err(|why| format!("can't listen for signals: {why}"))?;
        match command {
            Command::Up(up) => up.run(stop).await,
            Command::Cluster(cluster) => cluster.run(stop).await,
        }
    })
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
