//! The `kubewright` command.

mod apply;
mod cluster;
mod create;
mod init;
mod local;
mod names;
mod project;
mod run;
mod scaffold;
mod source;
mod terminal;
mod up;

use std::{io, process::ExitCode};

use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// As shells have it for a program that was interrupted.
const INTERRUPTED: i32 = 130;

/// Build, run and test Kubernetes operators in Rust.
#[derive(Parser)]
#[command(name = "kubewright", version, about, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Init(init::Init),
    Create(create::Create),
    Up(up::Up),
    Run(run::Run),
    Cluster(cluster::Cluster),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match carry_out(arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            terminal::error(&why);
            ExitCode::FAILURE
        }
    }
}

fn carry_out(command: Command) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|why| format!("can't start the runtime: {why}"))?;
    runtime.block_on(async {
        // Before anything is opened, so that a signal during the start also ends cleanly.
        let stop = stop_signal().map_err(|why| format!("can't listen for signals: {why}"))?;
        match command {
            Command::Init(init) => init.run().await,
            Command::Create(create) => create.run().await,
            Command::Up(up) => up.run(stop).await,
            Command::Run(run) => run.run(stop).await,
            Command::Cluster(cluster) => cluster.run(stop).await,
        }
    })
}

/// A future that resolves at SIGINT or SIGTERM. A second one ends the process at once.
fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let mut next = async move || {
        tokio::select! {
            biased;
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    Ok(async move {
        next().await;
        tokio::spawn(async move {
            next().await;
            std::process::exit(INTERRUPTED);
        });
    })
}
