//! `kubewright generate`: everything that follows from an operator's code, as files of its project.

mod files;
mod reference;
mod schema;
mod typescript;

use std::{collections::BTreeMap, path::Path};

use clap::{Args, Subcommand};

pub(crate) use self::files::{Files, header};
use crate::{
    program::{Program, Which},
    terminal::{line, note},
};

/// Write the files that follow from an operator's code
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Without a word everything is written: config/, docs/ and clients/. A file that was generated and follows from the code
no longer is removed; those that say nothing of having been generated are left alone. A check leaves out docs/ and
clients/ if nothing was ever generated there.

Examples:
  kubewright generate
      Everything, for the operator in this directory.

  kubewright generate crds operators/memcached
      The definitions of its kinds alone.

  kubewright generate --check
      For CI: writes nothing, prints what differs, and fails if anything does."
)]
pub(crate) struct Generate {
    #[command(flatten)]
    how: How,

    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Args)]
struct How {
    #[command(flatten)]
    operator: Which,

    /// Write nothing: print what differs, and fail if anything does
    #[arg(long)]
    check: bool,
}

#[derive(Subcommand)]
enum What {
    /// The definitions of its kinds: config/crd
    #[command(after_help = "\
Examples:
  kubewright generate crds
      The definitions alone, for the operator in this directory.")]
    Crds(How),
    /// Its rights, and those of the people who use it: config/rbac
    #[command(after_help = "\
Examples:
  kubewright generate rbac --check
      For CI: fails if the rights have changed and were not written.")]
    Rbac(How),
    /// Everything that installs it, as kustomize bases: config
    #[command(after_help = "\
Examples:
  kubewright generate manifests operators/memcached
      All of config/, for an operator somewhere else.")]
    Manifests(How),
    /// A reference of its kinds, and JSON schemas for editors: docs/api.md, docs/schemas
    #[command(after_help = "\
Examples:
  kubewright generate docs
      For those who write resources: what each field means, and what their editor should know.")]
    Docs(How),
    /// Types for clients in TypeScript: clients/typescript
    #[command(after_help = "\
Examples:
  kubewright generate client
      For programs in TypeScript that read and write the kinds.")]
    Client(How),
}

/// What each word stands for.
const CRDS: &[&str] = &["config/crd"];
const RBAC: &[&str] = &["config/rbac"];
pub(crate) const MANIFESTS: &[&str] = &["config"];
const DOCS: &[&str] = &["docs"];
const CLIENT: &[&str] = &["clients"];
const EVERYTHING: &[&str] = &["config", "docs", "clients"];
/// Of everything, what a project may do without.
const OPTIONAL: &[&str] = &["docs", "clients"];

impl Generate {
    pub(crate) async fn run(self) -> Result<(), String> {
        let is_everything = self.what.is_none();
        let (folders, how) = match self.what {
            None => (EVERYTHING, self.how),
            Some(What::Crds(how)) => (CRDS, how),
            Some(What::Rbac(how)) => (RBAC, how),
            Some(What::Manifests(how)) => (MANIFESTS, how),
            Some(What::Docs(how)) => (DOCS, how),
            Some(What::Client(how)) => (CLIENT, how),
        };
        let program = how.operator.program().await?;
        let mut files = generated(&program, &how.operator.path, folders).await?;
        if how.check && is_everything {
            for folder in files.forget_unused(OPTIONAL)? {
                note(&format!("{folder} is not checked: nothing was ever generated there"));
            }
        }
        let changes = files.changes()?;
        if how.check && !changes.is_empty() {
            changes.iter().for_each(|change| line(change.difference().trim_end()));
            let (number, files) = counted(changes.len());
            return Err(format!("{number} generated {files} not up to date: run `kubewright generate`"));
        }
        for change in &changes {
            change.write(&how.operator.path)?;
            line(&change.to_string());
        }
        Ok(())
    }
}

fn counted(number: usize) -> (usize, &'static str) {
    (number, if number == 1 { "file is" } else { "files are" })
}

/// What belongs into some folders of a project.
pub(crate) async fn generated(
    program: &Program,
    project: &Path,
    folders: &'static [&'static str],
) -> Result<Files, String> {
    let definitions = program.definitions().await?;
    let config =
        program.config().await?.into_iter().map(|(path, content)| (format!("config/{path}"), content));
    let mut wanted: BTreeMap<String, String> = config.collect();
    wanted.insert("docs/api.md".to_owned(), reference::reference(&definitions));
    wanted.extend(schema::schemas(&definitions));
    wanted.extend(typescript::types(&definitions));
    Ok(Files::new(project, wanted, folders))
}

/// The kinds of some definitions, in each of their versions.
fn versions(definitions: &[serde_json::Value]) -> impl Iterator<Item = Version<'_>> {
    definitions.iter().flat_map(|definition| {
        let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
        versions.map(move |version| Version { spec: &definition["spec"], version })
    })
}

/// A kind in one of its versions.
struct Version<'a> {
    spec: &'a serde_json::Value,
    version: &'a serde_json::Value,
}

impl<'a> Version<'a> {
    fn group(&self) -> &'a str {
        self.spec["group"].as_str().unwrap_or_default()
    }

    fn kind(&self) -> &'a str {
        self.spec["names"]["kind"].as_str().unwrap_or_default()
    }

    fn name(&self) -> &'a str {
        self.version["name"].as_str().unwrap_or_default()
    }

    fn schema(&self) -> &'a serde_json::Value {
        &self.version["schema"]["openAPIV3Schema"]
    }
}
