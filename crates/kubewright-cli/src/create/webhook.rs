//! `kubewright create webhook`: what is asked before objects of a kind are stored, and how its versions become each other.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::api::{add_test, values};
use crate::{
    names,
    project::{Project, Resource},
    scaffold::{Change, Rendering, Templates},
    terminal::Output,
};

/// Add webhooks for a kind
#[derive(Args)]
#[command(after_help = "\
Examples:
  kubewright create webhook --group cache --version v1alpha1 --kind Memcached --defaulting --validation
      Fills in what objects leave open, and refuses what can't be.

  kubewright create webhook --group cache --version v1 --kind Memcached --conversion --spoke v1alpha1
      Converts objects between two versions of the kind, so that clients of each lose nothing.")]
#[command(group = clap::ArgGroup::new("purpose").args(["defaulting", "validation", "conversion"]).multiple(true).required(true))]
pub(crate) struct Webhook {
    /// The directory of the project
    #[arg(default_value = ".")]
    path: PathBuf,

    /// The group of the kind, without the domain
    #[arg(long, value_name = "NAME")]
    group: String,

    /// The version of the kind; with --conversion, the one that all others are converted to
    #[arg(long, value_name = "VERSION")]
    version: String,

    /// The kind
    #[arg(long, value_name = "NAME")]
    kind: String,

    /// Fill in what objects leave open
    #[arg(long)]
    defaulting: bool,

    /// Decide which objects may be stored
    #[arg(long)]
    validation: bool,

    /// Convert between versions of the kind
    #[arg(long, requires = "spoke")]
    conversion: bool,

    /// A version that is converted to --version and from it
    #[arg(long, value_name = "VERSION", requires = "conversion")]
    spoke: Option<String>,

    #[command(flatten)]
    templates: Templates,

    /// How to print what was made
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
}

impl Webhook {
    pub(crate) async fn run(self) -> Result<(), String> {
        let mut project = Project::read(&self.path)?;
        let rendering = self.templates.open()?;
        let mut change = Change::of(&self.path);
        let resource = self.resource(&project, &self.version)?;
        let known = resource.webhooks.clone();
        if self.defaulting || self.validation {
            if known.defaulting || known.validation {
                let file = format!("src/webhooks/{}.rs", project.unit(&resource));
                let is_new = (self.defaulting && !known.defaulting, self.validation && !known.validation);
                let lines = registrations(&project, &resource, is_new).join(" and ");
                let lines = if lines.is_empty() { lines } else { format!(", and add {lines} to src/lib.rs") };
                return Err(format!("{} has webhooks already: extend {file}{lines}", self.kind));
            }
            self.add_admission(&project, &rendering, &mut change, &resource)?;
        }
        if let Some(spoke) = &self.spoke {
            if *spoke == self.version {
                return Err(format!("{spoke} can't be converted to itself: --spoke names another version"));
            }
            self.resource(&project, spoke)?;
            if known.conversion.contains(spoke) {
                return Err(format!("{} is converted from {spoke} already", self.kind));
            }
            let hub = project.versions_of(&resource).find(|one| !one.webhooks.conversion.is_empty());
            if let Some(hub) = hub.filter(|hub| hub.version != self.version) {
                return Err(format!(
                    "versions of {} are converted to {} already: say --version {}, and --spoke for another one",
                    self.kind, hub.version, hub.version
                ));
            }
            add_conversion(&project, &rendering, &mut change, &resource, spoke)?;
        }
        let same = |one: &&mut Resource| one.is_same_kind(&resource) && one.version == resource.version;
        if let Some(recorded) = project.resources.iter_mut().find(same) {
            recorded.webhooks.defaulting |= self.defaulting;
            recorded.webhooks.validation |= self.validation;
            recorded.webhooks.conversion.extend(self.spoke.clone());
        }
        let outcome = change.write(&mut project).await?;
        outcome.show(self.output, &["kubewright generate", "cargo test", "kubewright run --local"]);
        Ok(())
    }

    /// The kind in a version, if the project has its types.
    fn resource(&self, project: &Project, version: &str) -> Result<Resource, String> {
        names::check_version(version)?;
        let (group, kind) = (&self.group, &self.kind);
        let is_it = |one: &&Resource| one.group == *group && one.kind == *kind && one.resource;
        let found = project.resources.iter().find(|one| is_it(one) && one.version == version);
        found.cloned().ok_or_else(|| {
            let versions: Vec<&str> =
                project.resources.iter().filter(is_it).map(|one| one.version.as_str()).collect();
            let hint = match versions.as_slice() {
                [] => format!(
                    "`kubewright create api --group {group} --version {version} --kind {kind}` makes it; for a kind of \
                     somebody else, add .defaults::<{kind}>(..) or .validates::<{kind}>(..) to src/lib.rs by hand"
                ),
                versions => format!("there is {}", versions.join(", ")),
            };
            format!("the project has no {kind} of {group} in version {version}: {hint}")
        })
    }

    fn add_admission(
        &self,
        project: &Project,
        rendering: &Rendering,
        change: &mut Change,
        resource: &Resource,
    ) -> Result<(), String> {
        const MODULES: &str = "src/webhooks/mod.rs";
        let mut values = values(project, resource);
        values["defaulting"] = json!(self.defaulting);
        values["validation"] = json!(self.validation);
        let unit = project.unit(resource);
        change.create(&format!("src/webhooks/{unit}.rs"), rendering.render("webhook/webhook.rs", &values)?);
        change.ensure(MODULES, rendering.render("webhook/module.rs", &values)?);
        change.insert(MODULES, "modules", &[format!("pub mod {unit};")])?;
        change.insert("src/lib.rs", "modules", &["pub mod webhooks;".to_owned()])?;
        let lines = registrations(project, resource, (self.defaulting, self.validation));
        change.insert("src/lib.rs", "operator", &lines)?;
        let module = format!("{}_webhooks", unit.trim_end_matches('_'));
        add_test(change, &module, rendering.render("webhook/webhook_test.rs", &values)?)
    }
}

/// How `src/lib.rs` names the functions that fill in and that check, if they are wanted.
fn registrations(
    project: &Project,
    resource: &Resource,
    (defaulting, validation): (bool, bool),
) -> Vec<String> {
    let (kind, unit) = (path_of(resource, &resource.version), project.unit(resource));
    [(defaulting, "defaults", "fill"), (validation, "validates", "check")]
        .into_iter()
        .filter(|(is_wanted, ..)| *is_wanted)
        .map(|(_, method, function)| format!(".{method}::<{kind}>(webhooks::{unit}::{function})"))
        .collect()
}

/// Adds the conversion of a version to the one that is the hub, and back.
pub(super) fn add_conversion(
    project: &Project,
    rendering: &Rendering,
    change: &mut Change,
    resource: &Resource,
    spoke: &str,
) -> Result<(), String> {
    let mut values = values(project, resource);
    values["spoke"] = json!(spoke);
    let module = format!("{}_from_{spoke}", resource.kind_module().trim_end_matches('_'));
    let folder = super::folder(resource);
    change.create(&format!("{folder}/{module}.rs"), rendering.render("webhook/conversion.rs", &values)?);
    change.insert(&format!("{folder}/mod.rs"), "modules", &[format!("mod {module};")])?;
    let (from, to) = (path_of(resource, spoke), path_of(resource, &resource.version));
    change.insert("src/lib.rs", "operator", &[format!(".converts::<{from}, {to}>()")])?;
    let unit = project.unit(resource);
    let test = format!("{}_{spoke}_to_{}", unit.trim_end_matches('_'), resource.version);
    add_test(change, &test, rendering.render("webhook/conversion_test.rs", &values)?)
}

/// A kind in a version, as `src/lib.rs` names it.
fn path_of(resource: &Resource, version: &str) -> String {
    format!("api::{}::{version}::{}", resource.group_module(), resource.kind)
}
