//! `kubewright create api`: a kind with its types, a controller, a sample and tests, in a project that builds before and
//! after.

use std::path::PathBuf;

use clap::{ArgAction, Args};
use serde_json::{Value, json};

use super::{add_types, check_module, external, types_path, webhook::add_conversion};
use crate::{
    names,
    project::{Project, Resource, Webhooks},
    scaffold::{Change, Rendering, Templates},
    terminal::Output,
};

/// Add a kind, and what looks after it
#[derive(Args)]
#[command(after_help = "\
Examples:
  kubewright create api --group cache --version v1alpha1 --kind Memcached
      A kind with a status, a controller, a sample and tests.

  kubewright create api --group cache --version v1 --kind Memcached
      Another version of it: a copy of the last one. Objects stay stored as they were.

  kubewright create api --group infra --version v1 --kind Region --namespaced=false --shortname reg --resource
      A kind of the whole cluster that no controller looks after.

  kubewright create api --external --group apps --version v1 --kind Deployment
      A controller for a kind that is not of this project. For one that is not built in, first `create types`.")]
pub(crate) struct Api {
    /// The directory of the project
    #[arg(default_value = ".")]
    path: PathBuf,

    /// The group of the kind, without the domain; the whole of it with --external, and "core" for that without a name
    #[arg(long, value_name = "NAME")]
    group: String,

    /// The version of the kind
    #[arg(long, value_name = "VERSION")]
    version: String,

    /// The kind
    #[arg(long, value_name = "NAME")]
    kind: String,

    /// Make the kind; without --controller only that
    #[arg(long, conflicts_with = "external")]
    resource: bool,

    /// Make a controller; without --resource only that
    #[arg(long)]
    controller: bool,

    /// The kind is somebody else's: make only a controller
    #[arg(long, conflicts_with_all = ["plural", "shortnames"])]
    external: bool,

    /// Whether its objects are in namespaces
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    namespaced: bool,

    /// The plural of the kind; as English forms it without this
    #[arg(long, value_name = "NAME")]
    plural: Option<String>,

    /// A short name for it on the command line
    #[arg(long = "shortname", value_name = "NAME", value_delimiter = ',')]
    shortnames: Vec<String>,

    #[command(flatten)]
    templates: Templates,

    /// How to print what was made
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
}

/// What is to be made of a kind.
struct Plan {
    resource: Resource,
    makes_types: bool,
    makes_controller: bool,
}

impl Api {
    pub(crate) async fn run(self) -> Result<(), String> {
        let mut project = Project::read(&self.path)?;
        let rendering = self.templates.open()?;
        names::check_version(&self.version)?;
        let mut change = Change::of(&self.path);
        match self.external {
            true => self.add_external(&mut project, &rendering, &mut change).await?,
            false => self.add_own(&mut project, &rendering, &mut change)?,
        }
        let outcome = change.write(&mut project).await?;
        outcome.show(self.output, &["kubewright generate", "cargo test", "kubewright run --local"]);
        Ok(())
    }

    fn add_own(
        &self,
        project: &mut Project,
        rendering: &Rendering,
        change: &mut Change,
    ) -> Result<(), String> {
        let Plan { resource, makes_types, makes_controller } = self.plan(project)?;
        check_module(project, &resource)?;
        let earlier = project.versions_of(&resource).filter(|other| other.version != resource.version).last();
        let earlier = earlier.cloned();
        // What the author has made of the types is not known, so a controller uses nothing of them.
        let basis = if makes_types { earlier.as_ref() } else { Some(&resource) };
        let is_as_scaffolded = match basis.map(types_path) {
            Some(path) => project.is_untouched(&path, &change.read(&path)?),
            None => true,
        };
        record(project, &resource);
        let values = values(project, &resource);
        if makes_types {
            match &earlier {
                None => add_first_version(project, rendering, change, &resource, &values)?,
                Some(earlier) => add_next_version(project, rendering, change, &resource, earlier, &values)?,
            }
            // Where versions are converted, all are.
            let is_hub =
                |one: &&mut Resource| one.is_same_kind(&resource) && !one.webhooks.conversion.is_empty();
            if let Some(hub) = project.resources.iter_mut().find(is_hub) {
                hub.webhooks.conversion.push(resource.version.clone());
                let hub = hub.clone();
                add_conversion(project, rendering, change, &hub, &resource.version)?;
            }
        }
        if makes_controller {
            let template = if is_as_scaffolded { "controller" } else { "note_controller" };
            add_controller(rendering, change, template, &values)?;
        } else {
            let path = format!("api::{}::{}::{}", resource.group_module(), resource.version, resource.kind);
            change.insert("src/lib.rs", "operator", &[format!(".defines::<{path}>()")])?;
        }
        Ok(())
    }

    /// What is asked for, if it can be made of the project.
    fn plan(&self, project: &Project) -> Result<Plan, String> {
        names::check_group(&self.group)?;
        names::check_kind(&self.kind, &self.group)?;
        let mut resource = Resource {
            group: self.group.clone(),
            version: self.version.clone(),
            kind: self.kind.clone(),
            plural: self.plural.clone().unwrap_or_else(|| names::plural(&self.kind)),
            namespaced: self.namespaced,
            resource: true,
            controller: false,
            external: false,
            short_names: self.shortnames.clone(),
            webhooks: Webhooks::default(),
        };
        names::check_group(&project.api_group(&resource))?;
        names::check_resource(&resource.plural, "--plural")?;
        for name in &self.shortnames {
            names::check_resource(name, "--shortname")?;
        }
        let shown = format!("{} {}/{}", self.kind, project.api_group(&resource), self.version);
        let controlled = project.versions_of(&resource).find(|one| one.controller).cloned();
        if self.controller
            && let Some(controlled) = &controlled
        {
            return Err(format!(
                "{} has a controller already, of version {}: extend that one",
                self.kind, controlled.version
            ));
        }
        let same = project.versions_of(&resource).find(|one| one.version == self.version);
        if let Some(same) = same {
            return match self.controller && !self.resource {
                true => {
                    let resource = Resource { controller: true, ..same.clone() };
                    Ok(Plan { resource, makes_types: false, makes_controller: true })
                }
                false if controlled.is_some() => Err(format!("{shown} exists already")),
                false => Err(format!("{shown} exists already: --controller alone adds a controller to it")),
            };
        }
        if self.controller && !self.resource {
            return Err(format!(
                "there is no {shown} to look after: add --resource to make it, or --external if it is somebody else's"
            ));
        }
        if let Some(earlier) = project.versions_of(&resource).last().cloned() {
            self.check_versions(&earlier)?;
            (resource.plural, resource.short_names) = (earlier.plural, earlier.short_names);
        } else {
            check_others(project, &resource)?;
        }
        let makes_controller = self.controller || (!self.resource && controlled.is_none());
        resource.controller = makes_controller;
        Ok(Plan { resource, makes_types: true, makes_controller })
    }

    /// What all versions of a kind have in common.
    fn check_versions(&self, earlier: &Resource) -> Result<(), String> {
        let (kind, version) = (&self.kind, &earlier.version);
        if self.namespaced != earlier.namespaced {
            let (is, say) = if earlier.namespaced { ("is", "true") } else { ("is not", "false") };
            return Err(format!(
                "{kind} {is} in namespaces in {version}, and so in all versions: say --namespaced={say}"
            ));
        }
        if self.plural.as_ref().is_some_and(|plural| *plural != earlier.plural) {
            let plural = &earlier.plural;
            return Err(format!("the plural of {kind} is {plural} in {version}, and so in all versions"));
        }
        if !self.shortnames.is_empty() && self.shortnames != earlier.short_names {
            return Err(format!("{kind} has its short names from {version}: leave out --shortname"));
        }
        Ok(())
    }

    async fn add_external(
        &self,
        project: &mut Project,
        rendering: &Rendering,
        change: &mut Change,
    ) -> Result<(), String> {
        let group = if self.group == "core" { "" } else { &self.group };
        let known = project.resources.iter().find(|one| {
            one.external
                && (one.group.as_str(), &one.version, &one.kind) == (group, &self.version, &self.kind)
        });
        if known.is_some_and(|known| known.controller) {
            return Err(format!("{} has a controller already: extend that one", self.kind));
        }
        let found = match known {
            Some(known) => external::Found::with_types(known.clone(), change)?,
            None => external::Found::built_in(group, &self.version, &self.kind).await?,
        };
        let resource = Resource { controller: true, ..found.resource.clone() };
        record(project, &resource);
        let mut values = values(project, &resource);
        let sample = found.sample().await?;
        values["import"] = json!(found.import);
        values["definition_path"] = json!(found.definition_path);
        values["sample"] = json!(sample.text);
        values["sample_name"] = json!(external::SAMPLE);
        values["ignored"] = json!(!sample.is_accepted);
        add_controller(rendering, change, "note_controller", &values)
    }
}

fn add_first_version(
    project: &Project,
    rendering: &Rendering,
    change: &mut Change,
    resource: &Resource,
    values: &Value,
) -> Result<(), String> {
    add_types(change, rendering, project, resource, rendering.render("api/types.rs", values)?)?;
    add_sample(rendering, change, values, rendering.render("api/sample.yaml", values)?)?;
    add_test(change, &type_test(project, resource), rendering.render("api/types_test.rs", values)?)
}

/// Another version begins as a copy of the last one: without conversion, nothing else would read the same.
fn add_next_version(
    project: &Project,
    rendering: &Rendering,
    change: &mut Change,
    resource: &Resource,
    earlier: &Resource,
    values: &Value,
) -> Result<(), String> {
    let path = types_path(earlier);
    let (old, new) =
        (format!("version = {:?},", earlier.version), format!("version = {:?},", resource.version));
    let types = change.read(&path)?;
    if types.matches(&old).count() != 1 {
        return Err(format!("{path} has no line `{old}`, so it can't be copied to another version"));
    }
    let storage = if types.contains("storage = false") { "" } else { "\n    storage = false," };
    let types = types.replace(&old, &format!("{new}{storage}"));
    add_types(change, rendering, project, resource, types)?;

    let sample = change.read(&sample_path(earlier))?;
    let group = project.api_group(resource);
    let (old, new) = (format!("{group}/{}", earlier.version), format!("{group}/{}", resource.version));
    let name = |resource| format!("name: {}\n", sample_name(project, resource));
    // With a name of its own, so that all samples can be there at the same time.
    let sample = sample.replace(&old, &new).replace(&name(earlier), &name(resource));
    add_sample(rendering, change, values, sample)?;

    let mut values = values.clone();
    values["other_version"] = json!(earlier.version);
    add_test(change, &type_test(project, resource), rendering.render("api/version_test.rs", &values)?)
}

/// Puts a kind into the project, where it was before or at the end.
pub(super) fn record(project: &mut Project, resource: &Resource) {
    let same = |one: &&mut Resource| one.is_same_kind(resource) && one.version == resource.version;
    match project.resources.iter_mut().find(same) {
        Some(known) => *known = resource.clone(),
        None => project.resources.push(resource.clone()),
    }
}

/// Whether another kind of the group is in the way: by its plural, or by what its types are called.
fn check_others(project: &Project, resource: &Resource) -> Result<(), String> {
    let group = project.api_group(resource);
    for other in project.resources.iter().filter(|other| project.api_group(other) == group) {
        let (kind, plural) = (&other.kind, &other.plural);
        if *plural == resource.plural || kind.eq_ignore_ascii_case(&resource.kind) {
            return Err(format!(
                "{group} has {kind}, with the plural {plural}, already: choose another kind and --plural"
            ));
        }
        for part in ["Spec", "Status"] {
            if format!("{kind}{part}") == resource.kind || format!("{}{part}", resource.kind) == *kind {
                return Err(format!(
                    "{} and {kind} can't both be in {group}: the {} of one is called as the other. Choose another kind",
                    resource.kind,
                    part.to_lowercase()
                ));
            }
        }
    }
    Ok(())
}

fn sample_path(resource: &Resource) -> String {
    let group = resource.group.replace('.', "-");
    format!("config/samples/{}_{}_{}.yaml", group, resource.version, resource.kind.to_ascii_lowercase())
}

/// The name of a sample: of the first version that of the kind, of others with the version.
fn sample_name(project: &Project, resource: &Resource) -> String {
    let kind = project.unit(resource).trim_end_matches('_').replace('_', "-");
    match project.versions_of(resource).next() {
        Some(first) if first.version != resource.version => format!("{kind}-sample-{}", resource.version),
        _ => format!("{kind}-sample"),
    }
}

/// The module of the tests of a kind's types.
fn type_test(project: &Project, resource: &Resource) -> String {
    format!("{}_{}", project.unit(resource), resource.version)
}

/// What templates know of a kind.
pub(super) fn values(project: &Project, resource: &Resource) -> Value {
    let unit = project.unit(resource);
    let dashed = unit.trim_end_matches('_').replace('_', "-");
    let kind = resource.kind.to_ascii_lowercase();
    // The only one of its name, so that the controller can have the name that it has anyway.
    let is_alone = unit == resource.kind_module();
    json!({
        "name": project.project_name,
        "crate": project.project_name.replace('-', "_"),
        "domain": project.domain,
        "api_group": project.api_group(resource),
        "group_module": resource.group_module(),
        "version": resource.version,
        "kind": resource.kind,
        "plural": resource.plural,
        "default_plural": names::plural(&resource.kind),
        "short_names": resource.short_names,
        "namespaced": resource.namespaced,
        "external": resource.external,
        "unit": unit,
        "variable": variable(resource),
        "container": kind,
        "controller_name": if is_alone { &kind } else { &dashed },
        "sample_name": sample_name(project, resource),
        "sample_path": sample_path(resource),
        "import": null,
        "definition_path": null,
        "ignored": false,
    })
}

/// What an object of a kind is called in a controller: as the kind, unless something else there has that name.
fn variable(resource: &Resource) -> String {
    const OTHERS: [&str; 10] = [
        "container",
        "cx",
        "data",
        "deployment",
        "generation",
        "labelled",
        "metadata",
        "namespace",
        "note",
        "pod",
    ];
    let variable = resource.kind_module();
    if OTHERS.contains(&variable.as_str()) { "object".to_owned() } else { variable }
}

fn add_sample(
    rendering: &Rendering,
    change: &mut Change,
    values: &Value,
    sample: String,
) -> Result<(), String> {
    const LIST: &str = "config/samples/kustomization.yaml";
    let path = values["sample_path"].as_str().unwrap_or_default();
    change.create(path, sample);
    change.ensure(LIST, rendering.render("api/samples.yaml", values)?);
    let file = path.rsplit('/').next().unwrap_or_default();
    change.insert(LIST, "samples", &[format!("- {file}")])
}

pub(super) fn add_test(change: &mut Change, module: &str, test: String) -> Result<(), String> {
    change.create(&format!("tests/operator/{module}.rs"), test);
    change.insert("tests/operator/main.rs", "modules", &[format!("mod {module};")])
}

fn add_controller(
    rendering: &Rendering,
    change: &mut Change,
    template: &str,
    values: &Value,
) -> Result<(), String> {
    let unit = values["unit"].as_str().unwrap_or_default();
    let controller = rendering.render(&format!("api/{template}.rs"), values)?;
    change.create(&format!("src/controllers/{unit}.rs"), controller);
    change.insert("src/controllers/mod.rs", "modules", &[format!("pub mod {unit};")])?;
    let line = format!(".controller(controllers::{unit}::controller())");
    change.insert("src/lib.rs", "operator", &[line])?;
    add_test(change, unit, rendering.render(&format!("api/{template}_test.rs"), values)?)
}
