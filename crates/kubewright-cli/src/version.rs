//! `kubewright version`: of this command, of the Kubernetes that it brings along, and what it was built for.

use clap::Args;
use kubewright_apiserver::KUBERNETES_VERSION;
use serde_json::json;

use crate::terminal::{Output, line};

/// Print the version of this command and of its Kubernetes
#[derive(Args)]
#[command(after_help = "\
Examples:
  kubewright version
  kubewright version --output json")]
pub(crate) struct Version {
    /// How to print it
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
}

impl Version {
    pub(crate) fn run(&self) {
        let (own, target) = (env!("CARGO_PKG_VERSION"), env!("KUBEWRIGHT_TARGET"));
        match self.output {
            Output::Text => {
                line(&format!("kubewright  {own}"));
                line(&format!("Kubernetes  {KUBERNETES_VERSION}"));
                line(&format!("target      {target}"));
            }
            Output::Json => {
                line(
                    &json!({"version": own, "kubernetes": KUBERNETES_VERSION, "target": target}).to_string(),
                );
            }
        }
    }
}
