//! `kubewright test`: the tests of a project, by cargo, with what it says and the code it ends with.

use std::{path::PathBuf, pin::pin, process};

use clap::Args;

use crate::{
    INTERRUPTED,
    source::{cargo, no_cargo},
};

/// Run the tests of an operator
#[derive(Args)]
#[command(after_help = "\
The clusters of the tests run inside of them: nothing needs to be installed or started. It ends with the code that \
cargo test ends with.

Examples:
  kubewright test
      The tests of the project in this directory.

  kubewright test operators/memcached -- --release
  kubewright test -- a_lost_pod -- --nocapture
      What is behind -- is for cargo test, and what is behind another one for the tests.")]
pub(crate) struct Test {
    /// The directory of the operator's crate
    #[arg(default_value = ".")]
    path: PathBuf,

    /// Arguments for cargo test
    #[arg(last = true, value_name = "ARGUMENTS")]
    arguments: Vec<String>,
}

impl Test {
    /// Returns only if all is well; otherwise the process ends as cargo did.
    pub(crate) async fn run(self, stop: impl Future<Output = ()>) -> Result<(), String> {
        let manifest = self.path.join("Cargo.toml");
        if !manifest.is_file() {
            let path = self.path.display();
            return Err(format!(
                "{path} is no project: it has no Cargo.toml. Make one with `kubewright init`"
            ));
        }
        let mut command = cargo();
        command.args(["test", "--manifest-path"]).arg(&manifest).args(&self.arguments);
        let status = tokio::select! {
            biased;
            () = pin!(stop) => process::exit(INTERRUPTED),
            status = command.status() => status.map_err(|why| no_cargo(&why))?,
        };
        match status.code() {
            Some(0) => Ok(()),
            Some(code) => process::exit(code),
            None => Err(format!("cargo test has ended: {status}")),
        }
    }
}
