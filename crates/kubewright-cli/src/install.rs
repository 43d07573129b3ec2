//! `kubewright install` and `uninstall`: the definitions of an operator's kinds alone.
//!
//! With a definition all resources of its kind go, so this looks for them before it removes one; and before it
//! replaces one, whether objects that are there would still be valid.

use std::{fmt, time::Duration};

use clap::Args;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, Error, ResourceExt as _,
    api::{ApiResource, DynamicObject, ListParams},
    core::GroupVersionKind,
};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::{
    apply::{GLANCE, Placed, outcome, reason, refused, remove},
    deploy::PART_OF,
    program::{Program, Which},
    target::{Patience, Target},
    terminal::line,
};

/// Install the definitions of an operator's kinds
#[derive(Args)]
#[command(after_help = "\
Examples:
  kubewright install
      Those of the operator in this directory, in the cluster of the current kubeconfig.

  kubewright install && kubewright run
      Then run the operator on this machine.

  kubewright install operators/memcached --force
      Even if objects that are there would no longer be valid.")]
pub(crate) struct Install {
    #[command(flatten)]
    operator: Which,

    #[command(flatten)]
    target: Target,

    /// Replace definitions even if objects that are there would no longer be valid
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    patience: Patience,
}

/// Remove the definitions of an operator's kinds, and with them their resources
#[derive(Args)]
#[command(after_help = "\
Examples:
  kubewright uninstall
      If there are resources of these kinds, nothing is done.

  kubewright uninstall --yes
      Deletes them, too.")]
pub(crate) struct Uninstall {
    #[command(flatten)]
    operator: Which,

    #[command(flatten)]
    target: Target,

    /// Delete the resources of these kinds, too
    #[arg(long, short)]
    yes: bool,

    #[command(flatten)]
    patience: Patience,
}

impl Install {
    pub(crate) async fn run(self) -> Result<(), String> {
        let source = self.operator.source().await?;
        let client = self.target.connect().await?;
        let mut definitions = Vec::new();
        for document in Program::of(&source).await?.definitions().await? {
            let mut definition = Placed::document(&client, document).await?;
            let present = definition.present().await?;
            if let Some(present) = &present {
                if !self.force {
                    check_loss(present, &definition.object)?;
                }
                // What was deployed stays part of it.
                let deployment = present.labels().get(PART_OF);
                definition.object.labels_mut().extend(deployment.map(|id| (PART_OF.to_owned(), id.clone())));
            }
            definition.rehearse().await.map_err(|why| refused(&definition.object, &why))?;
            definitions.push((definition, present));
        }
        for (definition, present) in &definitions {
            let applied = definition.apply().await?;
            wait_until_served(&client, &definition.object.name_any(), self.patience.timeout).await?;
            let outcome = outcome(present.as_ref(), &applied);
            line(&format!("{} {outcome}", definition.called()));
        }
        Ok(())
    }
}

impl Uninstall {
    pub(crate) async fn run(self) -> Result<(), String> {
        let source = self.operator.source().await?;
        let client = self.target.connect().await?;
        let (mut going, mut held) = (Vec::new(), Held::default());
        for document in Program::of(&source).await?.definitions().await? {
            let mut definition = Placed::document(&client, document).await?;
            let Some(present) = definition.present().await? else { continue };
            held.extend(resources(&client, &present).await?);
            definition.object = present;
            going.push(definition);
        }
        if !self.yes {
            refuse_loss(&held, "--yes deletes them")?;
        }
        if going.is_empty() {
            line("none of its definitions is installed");
        }
        remove(&going.iter().collect::<Vec<_>>(), self.patience.timeout).await?;
        going.iter().for_each(|definition| line(&format!("{} deleted", definition.called())));
        Ok(())
    }
}

/// Fails if a definition would take something away from the objects and the clients of the one that is there. Other
/// objects pass.
pub(crate) fn check_loss(present: &DynamicObject, wanted: &DynamicObject) -> Result<(), String> {
    let definition = |object: &DynamicObject| -> Option<CustomResourceDefinition> {
        let is_definition = object.types.as_ref()?.kind == "CustomResourceDefinition";
        is_definition.then(|| serde_json::from_value(serde_json::json!(object)).ok())?
    };
    let (Some(present), Some(wanted)) = (definition(present), definition(wanted)) else { return Ok(()) };
    match kubewright::lost_by(&present, &wanted) {
        None => Ok(()),
        Some(why) => {
            let name = present.name_any();
            Err(format!("CustomResourceDefinition {name:?}: {why} (--force replaces it all the same)"))
        }
    }
}

/// Resources of some kinds, as they are told to people.
#[derive(Default)]
pub(crate) struct Held(Vec<String>);

impl Held {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 5;
        let shown = self.0.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
        match self.0.len().checked_sub(SHOWN) {
            Some(more @ 1..) => write!(f, "{shown} and {more} more"),
            _ => f.write_str(&shown),
        }
    }
}

pub(crate) fn refuse_loss(held: &Held, remedy: &str) -> Result<(), String> {
    match held.is_empty() {
        true => Ok(()),
        false => Err(format!("there are resources that would go with their definitions: {held}; {remedy}")),
    }
}

/// The resources of the kind that a definition in the cluster defines; none for any other object.
pub(crate) async fn resources(client: &Client, definition: &DynamicObject) -> Result<Held, String> {
    let spec = &definition.data["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let versions = spec["versions"].as_array().into_iter().flatten();
    let Some(version) =
        versions.filter(|version| version["served"] == true).map(|version| text(&version["name"])).next()
    else {
        return Ok(Held::default());
    };
    let (group, kind) = (text(&spec["group"]), text(&spec["names"]["kind"]));
    let resource = ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk(&group, &version, &kind),
        &text(&spec["names"]["plural"]),
    );
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let list = match api.list_metadata(&ListParams::default()).await {
        // A definition that was never served has none.
        Err(Error::Api(status)) if status.code == 404 => return Ok(Held::default()),
        list => list.map_err(|why| format!("resources of kind {kind}: {}", reason(&why)))?,
    };
    let told = |one: &kube::core::PartialObjectMeta<DynamicObject>| match one.namespace() {
        Some(namespace) => format!("{kind} {namespace}/{}", one.name_any()),
        None => format!("{kind} {}", one.name_any()),
    };
    Ok(Held(list.items.iter().map(told).collect()))
}

/// Waits until the kind of a definition can be used.
pub(crate) async fn wait_until_served(client: &Client, name: &str, timeout: Duration) -> Result<(), String> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let started = Instant::now();
    loop {
        let definition = definitions.get(name).await;
        let definition =
            definition.map_err(|why| format!("CustomResourceDefinition {name:?}: {}", reason(&why)))?;
        let conditions = definition.status.and_then(|status| status.conditions).unwrap_or_default();
        if conditions.iter().any(|condition| condition.type_ == "Established" && condition.status == "True") {
            return Ok(());
        }
        let refusal = conditions
            .iter()
            .find(|condition| condition.type_ == "NamesAccepted" && condition.status == "False");
        if refusal.is_some() || started.elapsed() >= timeout {
            let why = refusal.and_then(|condition| condition.message.clone());
            let why = why.unwrap_or_else(|| format!("it took more than {timeout:?}"));
            return Err(format!("CustomResourceDefinition {name:?} is not served: {why}"));
        }
        sleep(GLANCE).await;
    }
}
