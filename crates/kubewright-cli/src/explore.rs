//! `kubewright explore`: builds an operator with the explorer in it, and has it explore itself.

use std::{path::PathBuf, pin::pin, process};

use clap::Args;
use kubewright_explore::Flags;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use crate::{INTERRUPTED, source::Source};

/// The feature with which an operator's program has the command `explore`.
const FEATURE: &str = "explore";

/// Try every crash, stale read and lost event on an operator
#[derive(Args)]
#[command(after_help = "\
It needs no cluster: the operator, an API server, the built-in controllers and nodes run in one process, on a clock of \
their own. The operator is built with optimisation, which takes longer the first time. It ends with 0 if nothing was \
found, with 1 if something was, and with 2 if it could not be tried. Ctrl-C ends it with what is known.

Examples:
  kubewright explore
      Try every single fault at every step on the operator in this directory, with the sample in config/samples.

  kubewright explore operators/myweb --level pairs --time 5m --html report.html
      Then pairs of faults, for five minutes in all, with a page to look at.

  kubewright explore operators/memcached --sample operators/memcached/config/samples/memcached.yaml --faults crash-after
      Only crashes after a write, with one sample of several.

  kubewright explore --replay findings/end-state-crash-after.json
      Make the run of a finding again, and tell all of it.")]
pub(crate) struct Explore {
    /// The directory of the operator's crate
    #[arg(default_value = ".")]
    path: PathBuf,

    /// Which of its programs, if it has several
    #[arg(long, value_name = "NAME")]
    bin: Option<String>,

    /// How it is built: `dev` is built sooner, and slower
    #[arg(long, value_name = "PROFILE", default_value = "release")]
    profile: String,

    #[command(flatten)]
    flags: Flags,
}

impl Explore {
    /// Returns only if the operator survives; otherwise the process ends as the exploration did.
    pub(crate) async fn run(self, stop: impl Future<Output = ()>) -> Result<(), String> {
        let mut stop = pin!(stop);
        let could_not = |why: String| -> ! {
            crate::terminal::error(&why);
            process::exit(2)
        };
        let words = self.flags.words(&self.path).unwrap_or_else(|why| could_not(why.to_string()));
        let program = tokio::select! {
            biased;
            () = &mut stop => process::exit(INTERRUPTED),
            program = self.program() => program.unwrap_or_else(|why| could_not(why)),
        };
        let mut command = Command::new(&program);
        let mut child = command
            .arg("explore")
            .args(words)
            .spawn()
            .unwrap_or_else(|why| could_not(format!("can't run {}: {why}", program.display())));
        // A terminal tells both, and the operator ends with what is known; whoever tells only this one means both.
        let status = tokio::select! {
            biased;
            () = &mut stop => {
                tell(&child);
                child.wait().await
            }
            status = child.wait() => status,
        };
        let status = status.map_err(|why| format!("the exploration was lost: {why}"))?;
        match status.code() {
            Some(0) => Ok(()),
            Some(code) => process::exit(code),
            None => Err(format!("the exploration has ended: {status}")),
        }
    }

    async fn program(&self) -> Result<PathBuf, String> {
        let source = Source::of(&self.path, self.bin.clone()).await?;
        if !source.has_feature(FEATURE) {
            return Err(format!(
                "{} has no feature `{FEATURE}`. It needs one that brings kubewright-explore along, and a main that \
                 calls kubewright_explore::main with it; `kubewright init` makes both, and docs/howto/reliability.md \
                 shows them",
                source.about().name
            ));
        }
        source
            .build_with(|command| {
                command.args(["--profile", &self.profile, "--features", FEATURE]);
            })
            .await
    }
}

/// Asks a program to come to its end.
fn tell(child: &Child) {
    let id = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    // Who has ended need not be told.
    id.map(|id| kill_process(id, Signal::TERM));
}
