//! `kubewright create`: more of a project that is there.

mod api;
mod external;
mod sample;
mod schema;
mod types;
mod webhook;

use clap::{Args, Subcommand};

use crate::{
    project::{Project, Resource},
    scaffold::{Change, Rendering},
};

/// Add kinds, types and webhooks to a project
#[derive(Args)]
#[command(after_help = "\
Examples:
  kubewright create api --group cache --version v1alpha1 --kind Memcached
      A kind of this project, and a controller that looks after it.

  kubewright create types --from cluster Certificate
      Rust types for somebody else's kind, from its definition.

  kubewright create webhook --group cache --version v1alpha1 --kind Memcached --validation
      What decides which objects of a kind may be stored.")]
pub(crate) struct Create {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Api(api::Api),
    Types(types::Types),
    Webhook(webhook::Webhook),
}

impl Create {
    pub(crate) async fn run(self) -> Result<(), String> {
        match self.what {
            What::Api(api) => api.run().await,
            What::Types(types) => types.run().await,
            What::Webhook(webhook) => webhook.run().await,
        }
    }
}

/// The folder of a kind's types, in one version.
fn folder(resource: &Resource) -> String {
    format!("src/api/{}/{}", resource.group_module(), resource.version)
}

/// The file of a kind's types, in one version.
fn types_path(resource: &Resource) -> String {
    format!("{}/{}.rs", folder(resource), resource.kind_module())
}

/// Adds the types of a kind, and makes the modules known that lead to them.
fn add_types(
    change: &mut Change,
    rendering: &Rendering,
    project: &Project,
    resource: &Resource,
    types: String,
) -> Result<(), String> {
    let (group, version, kind) = (resource.group_module(), &resource.version, resource.kind_module());
    let values = serde_json::json!({"api_group": project.api_group(resource), "version": version});
    let group_path = format!("src/api/{group}/mod.rs");
    let version_path = format!("{}/mod.rs", folder(resource));
    change.create(&types_path(resource), types);
    change.ensure(&group_path, rendering.render("api/module.rs", &values)?);
    change.ensure(&version_path, rendering.render("api/version.rs", &values)?);
    change.insert("src/api/mod.rs", "modules", &[format!("pub mod {group};")])?;
    change.insert(&group_path, "modules", &[format!("pub mod {version};")])?;
    change.insert(&version_path, "modules", &[format!("mod {kind};")])?;
    change.insert(&version_path, "exports", &[format!("pub use self::{kind}::*;")])
}

/// Whether another group has the module already that a kind's group would have.
fn check_module(project: &Project, resource: &Resource) -> Result<(), String> {
    let module = resource.group_module();
    let group = project.api_group(resource);
    let other = project
        .resources
        .iter()
        .find(|other| other.group_module() == module && project.api_group(other) != group);
    other.map_or(Ok(()), |other| {
        let other = project.api_group(other);
        Err(format!("{group} would be in the module {module}, where {other} is: choose another group"))
    })
}
