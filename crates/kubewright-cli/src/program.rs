//! An operator's own program, and what it says of itself.

use std::{collections::BTreeMap, path::PathBuf, process::Stdio};

use clap::Args;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::process::Command;

use crate::source::{Source, output};

/// Which operator a command is about.
#[derive(Args)]
pub(crate) struct Which {
    /// The directory of the operator's crate
    #[arg(default_value = ".")]
    pub(crate) path: PathBuf,

    /// Which of its programs, if it has several
    #[arg(long, value_name = "NAME")]
    bin: Option<String>,
}

impl Which {
    /// Where it is built from.
    pub(crate) async fn source(&self) -> Result<Source, String> {
        Source::of(&self.path, self.bin.clone()).await
    }

    /// Builds it.
    pub(crate) async fn program(&self) -> Result<Program, String> {
        Program::of(&self.source().await?).await
    }
}

/// How an operator is installed: what `manifests` of its program is asked for.
#[derive(Args, Default)]
pub(crate) struct Installation {
    /// Image of the operator; its name and version without it
    #[arg(long, value_name = "IMAGE")]
    pub(crate) image: Option<String>,

    /// Namespace the operator lives in; its name and "-system" without it
    #[arg(long, short, value_name = "NAME")]
    pub(crate) namespace: Option<String>,

    /// Limit the operator and its rights to these namespaces
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) watch_namespace: Vec<String>,

    /// Serve metrics over TLS, to those who have the right to read them
    #[arg(long)]
    pub(crate) metrics_secure: bool,
}

impl Installation {
    pub(crate) fn arguments(&self) -> Vec<String> {
        let one =
            |flag: &str, value: &Option<String>| value.as_ref().map(|value| format!("--{flag}={value}"));
        let namespaces = self.watch_namespace.iter().map(|name| format!("--watch-namespace={name}"));
        one("image", &self.image)
            .into_iter()
            .chain(one("namespace", &self.namespace))
            .chain(namespaces)
            .chain(self.metrics_secure.then(|| "--metrics-secure".to_owned()))
            .collect()
    }
}

/// A program that calls `kubewright::main`.
pub(crate) struct Program(PathBuf);

impl Program {
    /// Builds it.
    pub(crate) async fn of(source: &Source) -> Result<Self, String> {
        Ok(Self(source.build().await?))
    }

    /// One that is built.
    pub(crate) fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The documents that install it, in the order in which they can be applied.
    pub(crate) async fn manifests(&self, arguments: &[String]) -> Result<Vec<Value>, String> {
        let mut list: Value = self.told("json", arguments).await?;
        match list["items"].take() {
            Value::Array(items) => Ok(items),
            _ => Err(self.no_manifests()),
        }
    }

    /// The definitions of its kinds.
    pub(crate) async fn definitions(&self) -> Result<Vec<Value>, String> {
        self.manifests(&["--only=crds".to_owned()]).await
    }

    /// The files of its `config`: path and content of each.
    pub(crate) async fn config(&self) -> Result<BTreeMap<String, String>, String> {
        self.told("files", &[]).await
    }

    /// Its name and its version.
    pub(crate) async fn version(&self) -> Result<(String, Option<String>), String> {
        let text = String::from_utf8_lossy(&self.output(&["version".to_owned()]).await?).into_owned();
        let mut words = text.split_whitespace();
        let name = words.next().ok_or_else(|| self.no_manifests())?.to_owned();
        Ok((name, words.next().filter(|word| !word.starts_with('(')).map(ToOwned::to_owned)))
    }

    async fn told<T: DeserializeOwned>(&self, form: &str, arguments: &[String]) -> Result<T, String> {
        let command = ["manifests".to_owned(), format!("--output={form}")];
        let output = self.output(&[&command, arguments].concat()).await?;
        serde_json::from_slice(&output).map_err(|_| self.no_manifests())
    }

    async fn output(&self, arguments: &[String]) -> Result<Vec<u8>, String> {
        let mut command = Command::new(&self.0);
        command.args(arguments).kill_on_drop(true).stdin(Stdio::null());
        let said = output(&mut command).await;
        Ok(said.map_err(|why| format!("can't run {}: {why}", self.0.display()))?.stdout)
    }

    pub(crate) fn no_manifests(&self) -> String {
        format!("{} has no manifests: does it call kubewright::main?", self.0.display())
    }
}
