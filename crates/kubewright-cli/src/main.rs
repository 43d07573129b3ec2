//! The `kubewright` command.

mod apply;
mod build;
mod cluster;
mod completion;
mod create;
mod deploy;
mod doctor;
mod explore;
mod generate;
mod init;
mod install;
mod local;
mod names;
mod next;
mod package;
mod plugin;
mod program;
mod project;
mod reference;
mod run;
mod scaffold;
mod source;
mod target;
mod terminal;
mod test;
mod up;
mod version;

use std::{env, ffi::OsString, io, process::ExitCode};

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use self::plugin::Called;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// As shells have it for a program that was interrupted.
const INTERRUPTED: i32 = 130;

/// Build, run and test Kubernetes operators in Rust.
#[derive(Parser)]
#[command(
    name = "kubewright",
    version,
    after_help = "\
Without a command it looks at this directory, and says what to do next.

Examples:
  kubewright up
      See operators at work in a local cluster.

  kubewright run --local
      Run the operator in this directory against a local cluster of its own, again at every change."
)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    Init(init::Init),
    Create(create::Create),
    Generate(generate::Generate),
    Test(test::Test),
    Explore(explore::Explore),
    Run(run::Run),
    Build(build::Build),
    Install(install::Install),
    Uninstall(install::Uninstall),
    Deploy(deploy::Deploy),
    Undeploy(deploy::Undeploy),
    Package(package::Package),
    Doctor(doctor::Doctor),
    Up(up::Up),
    Cluster(cluster::Cluster),
    Completion(completion::Completion),
    Version(version::Version),
    Reference(reference::Reference),
}

fn main() -> ExitCode {
    let called = Called::by(env::args_os().next().as_deref());
    let command_line = called.speak(Arguments::command());
    if called == Called::Completion {
        let words: Vec<OsString> = env::args_os().skip(1).collect();
        plugin::complete(command_line, &words);
        return ExitCode::SUCCESS;
    }
    let matches = command_line.get_matches();
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|why| why.exit());
    match carry_out(arguments.command, called.spoken()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            terminal::error(&why);
            ExitCode::FAILURE
        }
    }
}

fn carry_out(command: Option<Command>, spoken: &str) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|why| format!("can't start the runtime: {why}"))?;
    runtime.block_on(async {
        // Before anything is opened, so that a signal during the start also ends cleanly.
        let stop = stop_signal().map_err(|why| format!("can't listen for signals: {why}"))?;
        let Some(command) = command else { return next::run(spoken).await };
        match command {
            Command::Init(init) => init.run().await,
            Command::Create(create) => create.run().await,
            Command::Generate(generate) => unless(stop, generate.run()).await,
            Command::Test(test) => test.run(stop).await,
            Command::Explore(explore) => explore.run(stop).await,
            Command::Run(run) => run.run(stop).await,
            Command::Build(build) => build.run(stop).await,
            Command::Install(install) => unless(stop, install.run()).await,
            Command::Uninstall(uninstall) => unless(stop, uninstall.run()).await,
            Command::Deploy(deploy) => unless(stop, deploy.run()).await,
            Command::Undeploy(undeploy) => unless(stop, undeploy.run()).await,
            Command::Package(package) => unless(stop, package.run()).await,
            Command::Doctor(doctor) => unless(stop, doctor.run()).await,
            Command::Up(up) => up.run(stop).await,
            Command::Cluster(cluster) => cluster.run(stop).await,
            Command::Completion(completion) => {
                completion.run(Arguments::command());
                Ok(())
            }
            Command::Version(version) => {
                version.run();
                Ok(())
            }
            Command::Reference(reference) => {
                reference.run(Arguments::command());
                Ok(())
            }
        }
    })
}

/// Does something that comes to an end by itself, unless it is told to stop.
async fn unless(
    stop: impl Future<Output = ()>,
    work: impl Future<Output = Result<(), String>>,
) -> Result<(), String> {
    tokio::select! {
        biased;
        () = stop => Err("interrupted".to_owned()),
        done = work => done,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Every command that people see, with what it is called by.
    fn visible(command: &clap::Command, path: &str, found: &mut Vec<(String, String)>) {
        found.push((path.to_owned(), command.get_after_help().map(ToString::to_string).unwrap_or_default()));
        for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
            visible(command, &format!("{path} {}", command.get_name()), found);
        }
    }

    fn all_visible() -> Vec<(String, String)> {
        let mut found = Vec::new();
        visible(&Arguments::command(), "kubewright", &mut found);
        found
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_help_of_every_command_has_an_example_of_it() {
        for (path, help) in all_visible() {
            let (_, examples) =
                help.split_once("Examples:\n").unwrap_or_else(|| panic!("{path} has no Examples:"));
            assert!(examples.contains(&path), "none of the examples of {path} has it:\n{examples}");
        }
    }

    #[test]
    fn every_example_is_a_command_line_that_is_understood() {
        let front = ("README.md".to_owned(), include_str!("../../../README.md").to_owned());
        for (path, help) in all_visible().into_iter().chain([front]) {
            for line in help.lines().filter(|line| line.trim_start().starts_with("kubewright ")) {
                // What comes then is for the shell.
                let words = line
                    .split_whitespace()
                    .take_while(|word| !["&", "|", ">", "&&", ";", "#"].contains(word));
                if let Err(why) = Arguments::command().try_get_matches_from(words) {
                    panic!("an example of {path}: {line}\n{why}");
                }
            }
        }
    }
}
