//! `kubewright completion`: a script for a shell.

use std::io::{Write as _, stdout};

use clap::{Args, Command};
use clap_complete::Shell;

/// Print a script that completes this command line
#[derive(Args)]
#[command(after_help = "\
Examples:
  source <(kubewright completion bash)
      For this shell; the same line in ~/.bashrc is for all.

  kubewright completion zsh > ~/.zfunc/_kubewright
  kubewright completion fish > ~/.config/fish/completions/kubewright.fish")]
pub(crate) struct Completion {
    /// The shell it is for
    shell: Shell,
}

impl Completion {
    pub(crate) fn run(self, mut command: Command) {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, "kubewright", &mut script);
        // A reader that has gone away is no error.
        let _ = stdout().write_all(&script);
    }
}
