//! `kubewright create types`: Rust types for somebody else's kind, from its definition in a file or in a cluster.

use std::{fs, io, path::PathBuf};

use clap::Args;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition,
};
use kube::{
    Api, Client,
    api::{ListParams, ObjectMeta},
};
use serde_json::Value;

use super::{add_types, api::record, check_module, external, schema};
use crate::{
    names,
    project::{Project, Resource, Webhooks},
    scaffold::{Change, Templates},
    terminal::Output,
};

/// Where definitions are looked for that are in no file.
const CLUSTER: &str = "cluster";

/// Make Rust types for somebody else's kind
#[derive(Args)]
#[command(after_help = "\
Examples:
  kubewright create types --from cert-manager.crds.yaml Certificate
      From a file with one or more definitions.

  kubewright create types --from cluster certificates.cert-manager.io --version v1
      From the cluster of the current kubeconfig; a kind may be named as its definition is.

  kubewright create api --external --group cert-manager.io --version v1 --kind Certificate
      And then a controller for it.")]
pub(crate) struct Types {
    /// The kind, or the name of its definition
    #[arg(value_name = "KIND")]
    kind: String,

    /// The directory of the project
    #[arg(default_value = ".")]
    path: PathBuf,

    /// The file with its definition, "-" for standard input, or "cluster"
    #[arg(long, value_name = "FILE|cluster")]
    from: String,

    /// The version; that in which objects are stored without it
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,

    #[command(flatten)]
    templates: Templates,

    /// How to print what was made
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
}

impl Types {
    pub(crate) async fn run(self) -> Result<(), String> {
        let mut project = Project::read(&self.path)?;
        let rendering = self.templates.open()?;
        let definition = plain(self.definition().await?);
        let spec = &definition.spec;
        let version = match &self.version {
            Some(version) => spec.versions.iter().find(|one| one.name == *version),
            None => spec.versions.iter().find(|one| one.storage),
        };
        let Some(version) = version else {
            let all: Vec<&str> = spec.versions.iter().map(|one| one.name.as_str()).collect();
            return Err(format!("{} has no such version, but {}", spec.names.kind, all.join(", ")));
        };
        let resource = Resource {
            group: spec.group.clone(),
            version: version.name.clone(),
            kind: spec.names.kind.clone(),
            plural: spec.names.plural.clone(),
            namespaced: spec.scope == "Namespaced",
            resource: false,
            controller: false,
            external: true,
            short_names: spec.names.short_names.clone().unwrap_or_default(),
            webhooks: Webhooks::default(),
        };
        if project.versions_of(&resource).any(|one| one.version == resource.version) {
            return Err(format!(
                "the project has {} {}/{} already",
                resource.kind, spec.group, resource.version
            ));
        }
        if project.resources.iter().any(|one| !one.external && project.api_group(one) == spec.group) {
            return Err(format!("{} is a group of this project: use `kubewright create api`", spec.group));
        }
        names::check_foreign_kind(&resource.kind)?;
        check_module(&project, &resource)?;
        external::check(&definition).await?;
        let mut change = Change::of(&self.path);
        let types = schema::types(&definition, &resource.version)?;
        record(&mut project, &resource);
        add_types(&mut change, &rendering, &project, &resource, types)?;
        let path = external::definition_path(&resource);
        let text = serde_saphyr::to_string(&definition).map_err(|why| why.to_string())?;
        change.ensure(&format!("tests/operator/{path}"), text);
        let line = format!("cluster.apply(include_str!({path:?})).await;");
        change.insert("tests/operator/main.rs", "definitions", &[line])?;
        let outcome = change.write(&mut project).await?;
        let Resource { group, version, kind, .. } = &resource;
        let step =
            format!("kubewright create api --external --group {group} --version {version} --kind {kind}");
        outcome.show(self.output, &[&step]);
        Ok(())
    }

    async fn definition(&self) -> Result<CustomResourceDefinition, String> {
        let all = match self.from.as_str() {
            CLUSTER => from_cluster().await?,
            file => from_file(file)?,
        };
        let is_meant = |one: &CustomResourceDefinition| {
            one.spec.names.kind.eq_ignore_ascii_case(&self.kind)
                || one.metadata.name.as_deref() == Some(self.kind.as_str())
        };
        let name = |one: &CustomResourceDefinition| one.metadata.name.clone().unwrap_or_default();
        let (found, others): (Vec<_>, Vec<_>) = all.into_iter().partition(is_meant);
        match found.as_slice() {
            [_] => Ok(found.into_iter().next().unwrap_or_default()),
            [] => {
                let others: Vec<String> = others.iter().map(name).collect();
                let there = if others.is_empty() { "none at all".to_owned() } else { others.join(", ") };
                Err(format!("{} has no definition of {}: there is {there}", self.from, self.kind))
            }
            several => {
                let several: Vec<String> = several.iter().map(name).collect();
                Err(format!("{} may be one of {}: name it so", self.kind, several.join(", ")))
            }
        }
    }
}

async fn from_cluster() -> Result<Vec<CustomResourceDefinition>, String> {
    let told = |why: &dyn std::fmt::Display| format!("the cluster can't be asked for its definitions: {why}");
    let client = Client::try_default().await.map_err(|why| told(&why))?;
    let api: Api<CustomResourceDefinition> = Api::all(client);
    Ok(api.list(&ListParams::default()).await.map_err(|why| told(&why))?.items)
}

/// The definitions in a file, which may have other documents, too.
fn from_file(file: &str) -> Result<Vec<CustomResourceDefinition>, String> {
    let text = match file {
        "-" => io::read_to_string(io::stdin()),
        file => fs::read_to_string(file),
    };
    let text = text.map_err(|why| format!("can't read {file}: {why}"))?;
    let first_line = |why: String| why.lines().next().unwrap_or_default().to_owned();
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text)
        .map_err(|why| format!("{file} is no YAML: {}", first_line(why.to_string())))?;
    let lists = documents.into_iter().flat_map(|mut document| match document.get_mut("items") {
        Some(Value::Array(items)) => std::mem::take(items),
        _ => vec![document],
    });
    let definitions = lists.filter(|document| document["kind"] == "CustomResourceDefinition");
    definitions
        .map(|document| {
            serde_json::from_value(document)
                .map_err(|why| format!("{file} has a definition that is none: {why}"))
        })
        .collect()
}

/// A definition as it can be applied to any cluster: without what a cluster has said of it, and without the webhook that
/// converts between its versions.
fn plain(mut definition: CustomResourceDefinition) -> CustomResourceDefinition {
    definition.metadata = ObjectMeta { name: definition.metadata.name, ..ObjectMeta::default() };
    definition.status = None;
    definition.spec.conversion = definition
        .spec
        .conversion
        .map(|_| CustomResourceConversion { strategy: "None".to_owned(), webhook: None });
    definition
}
