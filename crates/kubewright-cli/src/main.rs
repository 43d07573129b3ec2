//! The `kubewright` command.

mod cluster;
mod terminal;

use std::process::ExitCode;

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
    /// Run a local cluster
    Cluster(cluster::Cluster),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match arguments.command {
        Command::Cluster(cluster) => cluster.run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            terminal::error(&why);
            ExitCode::FAILURE
        }
    }
}
