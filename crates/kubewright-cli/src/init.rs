//! `kubewright init`: a project that builds, passes its tests and its lints, before a line of it is written.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf, absolute},
};

use clap::{Args, ValueEnum};
use kubewright::{ManifestOptions, Operator};
use serde_json::json;

use crate::{
    names,
    project::{self, Project, Sdk},
    scaffold::{Change, Templates},
    terminal::Output,
};

/// The version that a new project begins with.
const FIRST_VERSION: &str = "0.1.0";
/// What may be in a directory that counts as empty: its history, and the way to a cluster that was tried out from there.
const NOTHING: [&str; 5] = [".git", ".hg", ".jj", "kubewright.kubeconfig", "kubewright.operator.kubeconfig"];

/// Make a new project
#[derive(Args)]
#[command(after_help = "\
Examples:
  mkdir memcached-operator && cd memcached-operator
  kubewright init --domain example.com
      A project named after the directory; its kinds will be in groups such as cache.example.com.

  kubewright init memcached-operator --domain example.com --owner Acme
      In a directory of its own, which is made if it is missing.

  kubewright init --domain example.com --force
      Beside what is there already: no file is overwritten, and those that are kept are named.")]
pub(crate) struct Init {
    /// The directory of the project
    #[arg(default_value = ".")]
    path: PathBuf,

    /// The domain behind the groups of its kinds
    #[arg(long, value_name = "NAME")]
    domain: String,

    /// The name of the project; that of its directory without it
    #[arg(long, value_name = "NAME")]
    project_name: Option<String>,

    /// The licence it is under
    #[arg(long, value_enum, default_value_t = License::Apache2)]
    license: License,

    /// Who holds the rights to it
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,

    /// A checkout of Kubewright to build against, instead of its published version
    #[arg(long, value_name = "DIR", env = "KUBEWRIGHT_SDK_PATH")]
    sdk_path: Option<PathBuf>,

    /// Also into a directory that is not empty: what is there stays as it is
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    templates: Templates,

    /// How to print what was made
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum License {
    /// The Apache License 2.0
    Apache2,
    /// None: all rights reserved
    None,
}

impl License {
    fn name(self) -> &'static str {
        match self {
            Self::Apache2 => "apache2",
            Self::None => "none",
        }
    }
}

impl Init {
    pub(crate) async fn run(self) -> Result<(), String> {
        let root = absolute(&self.path).map_err(|why| format!("{}: {why}", self.path.display()))?;
        names::check_domain(&self.domain)?;
        let name = match &self.project_name {
            Some(name) => name.clone(),
            None => root.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        };
        names::check_project(&name)?;
        let owner = self.owner.as_deref().map(str::trim).filter(|owner| !owner.is_empty());
        if owner.is_some_and(|owner| owner.contains(char::is_control)) {
            return Err("the owner is more than one line: name them in one".to_owned());
        }
        self.check_directory(&root)?;
        let sdk = self.sdk()?;
        let values = json!({
            "name": name,
            "crate": name.replace('-', "_"),
            "domain": self.domain,
            "license": self.license.name(),
            "owner": owner,
            "owner_quoted": json!(owner).to_string(),
            "rust": env!("CARGO_PKG_RUST_VERSION"),
            "sdk": dependency(&sdk, "kubewright"),
            "sdk_cluster": dependency(&sdk, "kubewright-cluster"),
            "sdk_explore": dependency(&sdk, "kubewright-explore"),
            "sdk_explore_optional": optional(&sdk, "kubewright-explore"),
            "sdk_version": sdk.version,
        });
        let mut change = Change::of(&root);
        for (path, text) in self.templates.open()?.project(&values)? {
            change.create(path, text);
        }
        let operator = Operator::new(&name).version(FIRST_VERSION);
        let config = operator.config(&ManifestOptions::default()).map_err(|why| why.to_string())?;
        for (path, text) in config {
            change.create(&format!("config/{path}"), text);
        }
        let license = self.license.name();
        let mut project = Project::new(&self.domain, &name, license, owner.map(str::to_owned), sdk);
        let outcome = change.write_around(&mut project).await?;
        let enter = format!("cd {}", self.path.display());
        let steps = [
            enter.as_str(),
            "kubewright create api --group example --version v1alpha1 --kind Example",
            "cargo test",
        ];
        outcome.show(self.output, if self.path == Path::new(".") { &steps[1..] } else { &steps });
        Ok(())
    }

    fn check_directory(&self, root: &Path) -> Result<(), String> {
        let shown = self.path.display();
        if root.join(project::FILE).exists() {
            return Err(format!(
                "{shown} is a project already: add to it with `kubewright create api`, or name another directory"
            ));
        }
        if !root.exists() {
            return Ok(());
        }
        let entries = fs::read_dir(root).map_err(|why| format!("can't read {shown}: {why}"))?;
        match something(entries) {
            Some(found) if !self.force => Err(format!(
                "{shown} is not empty, there is {}: name another directory, or use --force, which overwrites nothing",
                found.to_string_lossy()
            )),
            _ => Ok(()),
        }
    }

    /// Where the SDK comes from. A path that is given whole stays as it is.
    fn sdk(&self) -> Result<Sdk, String> {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let Some(given) = self.sdk_path.as_ref().filter(|path| !path.as_os_str().is_empty()) else {
            return Ok(Sdk { version, path: None });
        };
        let path = absolute(given).map_err(|why| format!("{}: {why}", given.display()))?;
        if !path.join("crates/kubewright/Cargo.toml").is_file() {
            return Err(format!(
                "{} is no checkout of Kubewright: it has no crates/kubewright. Name one with --sdk-path",
                given.display()
            ));
        }
        let path =
            path.to_str().ok_or_else(|| format!("{} is no text: use another path", given.display()))?;
        Ok(Sdk { version, path: Some(path.to_owned()) })
    }
}

/// The first thing in a directory that makes it one that is not empty.
pub(crate) fn something(entries: fs::ReadDir) -> Option<OsString> {
    let mut names = entries.flatten().map(|entry| entry.file_name());
    names.find(|name| !NOTHING.iter().any(|nothing| name == nothing))
}

/// A crate of the SDK, as Cargo.toml names it.
fn dependency(sdk: &Sdk, name: &str) -> String {
    match &sdk.path {
        None => json!(sdk.version).to_string(),
        Some(_) => format!("{{ {} }}", source(sdk, name)),
    }
}

/// One that only a feature brings along.
fn optional(sdk: &Sdk, name: &str) -> String {
    format!("{{ {}, optional = true }}", source(sdk, name))
}

/// Where a crate of the SDK comes from.
fn source(sdk: &Sdk, name: &str) -> String {
    let version = format!("version = {}", json!(sdk.version));
    match &sdk.path {
        None => version,
        Some(path) => format!("path = {}, {version}", json!(format!("{path}/crates/{name}"))),
    }
}
