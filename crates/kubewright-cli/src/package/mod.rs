//! `kubewright package`: what users of an operator install it from, without its source: one file for kubectl, and a
//! chart for Helm.

mod chart;

use std::{collections::BTreeMap, path::PathBuf};

use clap::Args;

use crate::{
    generate::{Files, header},
    program::{Installation, Which},
    terminal::line,
};

/// Package an operator for its users: one YAML file, and a Helm chart
#[derive(Args)]
#[command(after_help = "\
Examples:
  kubewright package --image registry.example/memcached-operator:1.0
      dist/install.yaml, and a Helm chart in dist/chart.

  kubectl apply --server-side -f dist/install.yaml
  helm install memcached-operator dist/chart --namespace memcached-operator-system --create-namespace
      How its users install it.")]
pub(crate) struct Package {
    #[command(flatten)]
    operator: Which,

    #[command(flatten)]
    installation: Installation,

    /// Where to write it; dist in the operator's directory without it
    #[arg(long, value_name = "DIRECTORY")]
    output_dir: Option<PathBuf>,
}

impl Package {
    pub(crate) async fn run(self) -> Result<(), String> {
        let program = self.operator.program().await?;
        let directory = self.output_dir.unwrap_or_else(|| self.operator.path.join("dist"));
        let documents = program.manifests(&self.installation.arguments()).await?;
        let yaml = kubewright::to_yaml(&documents).map_err(|why| why.to_string())?;
        let mut wanted: BTreeMap<String, String> =
            [("install.yaml".to_owned(), format!("# {}\n{yaml}", header("kubewright package")))].into();
        wanted.extend(chart::files(&program, &self.installation).await?);
        for change in Files::new(&directory, wanted, &["install.yaml", "chart"]).changes()? {
            change.write(&directory)?;
        }
        let (name, _) = program.version().await?;
        let namespace = self.installation.namespace.unwrap_or_else(|| format!("{name}-system"));
        let directory = directory.display();
        line(&format!("kubectl apply --server-side -f {directory}/install.yaml"));
        line(&format!("helm install {name} {directory}/chart --namespace {namespace} --create-namespace"));
        Ok(())
    }
}
