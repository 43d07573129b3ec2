//! `kubewright deploy` and `undeploy`: everything that an operator is, in a cluster and out of it again.
//!
//! Nothing is changed before the server has said to a rehearsal of all of it that it would take it.

mod applyset;
mod rollout;
mod undeploy;

use std::cmp::Reverse;

use clap::{Args, ValueEnum};
use kube::{Client, ResourceExt as _, api::DynamicObject};
use kubewright::BORROWED;
use serde_json::{Value, json};

use self::{applyset::Contents, rollout::Rollout};
pub(crate) use self::{
    applyset::{ApplySet, PART_OF},
    undeploy::Undeploy,
};
use crate::{
    apply::{Placed, outcome, refused, remove},
    install::{check_loss, resources, wait_until_served},
    program::{Installation, Program, Which},
    target::{Patience, Target},
    terminal::{line, note},
};

/// Deploy an operator to a cluster
#[derive(Args)]
#[command(after_help = "\
Everything is applied by the server and labelled as an ApplySet, so that a later deploy removes what is no longer part
of it, and undeploy removes exactly what deploy has brought. A namespace that was there before is left as it is.

Examples:
  kubewright deploy --image registry.example/memcached-operator:1.0
      The operator in this directory, to the cluster of the current kubeconfig; waits until it is available.

  kubewright deploy operators/memcached --namespace operators --context staging
      To a namespace of your choice, in another cluster.

  kubewright deploy --dry-run
      What would be created and changed; the server checks everything, and nothing happens.

  kubewright deploy --dry-run --output yaml
      The same, as the documents that would be applied.")]
pub(crate) struct Deploy {
    #[command(flatten)]
    operator: Which,

    #[command(flatten)]
    installation: Installation,

    #[command(flatten)]
    target: Target,

    /// Change nothing: let the server check everything, and tell what would happen
    #[arg(long)]
    dry_run: bool,

    /// Replace definitions even if objects that are there would no longer be valid
    #[arg(long)]
    force: bool,

    /// Don't wait until the operator is available
    #[arg(long, conflicts_with = "timeout")]
    no_wait: bool,

    #[command(flatten)]
    patience: Patience,

    /// What to print: what was done for each object, or the objects as they were applied
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
}

/// The form in which a command tells what it has done with objects.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// A line an object
    Text,
    /// The objects, as a stream of documents
    Yaml,
    /// The objects, as a List
    Json,
}

impl Output {
    /// What became of an object, for people.
    pub(crate) fn tell(self, object: &Placed, what: &str, dry_run: bool) {
        if self == Self::Text {
            let suffix = if dry_run { " (dry run)" } else { "" };
            line(&format!("{} {what}{suffix}", object.called()));
        }
    }

    /// All objects, for programs.
    pub(crate) fn print<'a>(self, objects: impl IntoIterator<Item = &'a Placed>) -> Result<(), String> {
        let objects: Vec<Value> = objects.into_iter().map(|placed| json!(placed.object)).collect();
        match self {
            Self::Text => {}
            Self::Yaml => line(kubewright::to_yaml(&objects).map_err(|why| why.to_string())?.trim_end()),
            Self::Json => {
                line(&format!("{:#}", json!({"apiVersion": "v1", "kind": "List", "items": objects})))
            }
        }
        Ok(())
    }
}

/// The order in which objects come: where the others live, what they are, what they may do, and what does it.
fn phase(kind: &str) -> u8 {
    match kind {
        "Namespace" => 0,
        "CustomResourceDefinition" => 1,
        "ServiceAccount" | "Role" | "RoleBinding" | "ClusterRole" | "ClusterRoleBinding" => 2,
        _ => 3,
    }
}

/// An object that is to be applied, and what the cluster has of it.
struct Step {
    object: Placed,
    present: Option<DynamicObject>,
}

impl Step {
    fn outcome(&self, after: &DynamicObject) -> &'static str {
        outcome(self.present.as_ref(), after)
    }
}

/// All that is to be done.
struct Plan {
    set: ApplySet,
    /// Where the set has members already.
    known: Contents,
    steps: Vec<Step>,
    /// Members that are no longer part of it: those that go, and those that stay.
    obsolete: Vec<Placed>,
    kept: Vec<Placed>,
}

impl Deploy {
    pub(crate) async fn run(self) -> Result<(), String> {
        let source = self.operator.source().await?;
        let client = self.target.connect().await?;
        let documents = Program::of(&source).await?.manifests(&self.installation.arguments()).await?;
        let plan = self.plan(&client, documents).await?;
        let outcomes = rehearse(&plan).await?;
        if self.dry_run {
            for (step, outcome) in plan.steps.iter().zip(outcomes) {
                self.output.tell(&step.object, outcome, true);
            }
            plan.obsolete.iter().for_each(|member| self.output.tell(member, "pruned", true));
        } else {
            self.carry_out(&client, &plan).await?;
        }
        self.output.print(plan.steps.iter().map(|step| &step.object))?;
        if self.dry_run || self.no_wait {
            return Ok(());
        }
        for step in plan.steps.iter().filter(|step| step.object.kind() == "Deployment") {
            let rollout = Rollout::of(&client, &plan.set.namespace, &step.object.object.name_any());
            rollout.available(self.patience.timeout).await?;
        }
        Ok(())
    }

    async fn plan(&self, client: &Client, documents: Vec<Value>) -> Result<Plan, String> {
        let set = ApplySet::of(&documents)?;
        let known = set.read(client).await?.unwrap_or_default();
        let steps = self.steps(client, &set, documents).await?;
        let mut others = set.members(client, &known).await?;
        others.retain(|member| !steps.iter().any(|step| step.object.is(member)));
        others.sort_by_key(|member| Reverse(phase(member.kind())));
        let (obsolete, kept) = spare_data(client, others).await?;
        Ok(Plan { set, known, steps, obsolete, kept })
    }

    async fn carry_out(&self, client: &Client, plan: &Plan) -> Result<(), String> {
        let Plan { set, known, steps, obsolete, kept } = plan;
        let contents = Contents::of(steps.iter().map(|step| &step.object).chain(kept));
        // It names all that may be there at any time, so that nothing is lost if this is interrupted.
        let mut parent = Some(set.parent(&contents.and(known)));
        for step in steps {
            if phase(step.object.kind()) > 0
                && let Some(parent) = parent.take()
            {
                Placed::document(client, parent).await?.apply().await?;
            }
            let applied = step.object.apply().await?;
            self.output.tell(&step.object, step.outcome(&applied), false);
            if step.object.kind() == "CustomResourceDefinition" {
                wait_until_served(client, &step.object.object.name_any(), self.patience.timeout).await?;
            }
        }
        for member in obsolete {
            remove(&[member], self.patience.timeout).await?;
            self.output.tell(member, "pruned", false);
        }
        Placed::document(client, set.parent(&contents)).await?.apply().await?;
        Ok(())
    }

    /// The objects in the order in which they are applied. A namespace of somebody else is not among them.
    async fn steps(
        &self,
        client: &Client,
        set: &ApplySet,
        documents: Vec<Value>,
    ) -> Result<Vec<Step>, String> {
        let mut steps = Vec::new();
        for document in documents {
            let object = Placed::document(client, set.labelled(document)).await?;
            let present = object.present().await?;
            let owner = present.as_ref().and_then(|present| present.labels().get(PART_OF).cloned());
            match (&present, owner) {
                (Some(_), None) if object.kind() == "Namespace" => {
                    note(&format!("{} is there already: it is left as it is", object.called()));
                    continue;
                }
                (_, Some(owner)) if owner != set.id() => {
                    return Err(format!(
                        "{} belongs to another deployment ({owner}): undeploy that first",
                        object.called()
                    ));
                }
                _ => {}
            }
            if present.as_ref().is_some_and(|present| present.annotations().contains_key(BORROWED)) {
                return Err(format!(
                    "{} leads to an operator that runs outside of the cluster: end `kubewright run` first; if it was \
                     killed, run it once more and end it with Ctrl-C",
                    object.called()
                ));
            }
            if let Some(present) = &present
                && !self.force
            {
                check_loss(present, &object.object)?;
            }
            steps.push(Step { object, present });
        }
        steps.sort_by_key(|step| phase(step.object.kind()));
        Ok(steps)
    }
}

/// Which of the obsolete members go, and which stay: definitions of which there are resources, as data does not go by the
/// way.
async fn spare_data(client: &Client, members: Vec<Placed>) -> Result<(Vec<Placed>, Vec<Placed>), String> {
    let (mut going, mut kept) = (Vec::new(), Vec::new());
    for member in members {
        let held = resources(client, &member.object).await?;
        if held.is_empty() {
            going.push(member);
            continue;
        }
        note(&format!(
            "{} is no longer part of the operator; it stays, as there are resources of it: {held}",
            member.called()
        ));
        kept.push(member);
    }
    Ok((going, kept))
}

/// Lets the server check all objects, and tells what would become of each. What depends on another one that is not there
/// yet can't be checked before it is.
async fn rehearse(plan: &Plan) -> Result<Vec<&'static str>, String> {
    let is_new_namespace = |step: &Step| step.object.kind() == "Namespace" && step.present.is_none();
    let has_new_namespace = plan.steps.iter().any(is_new_namespace);
    let mut outcomes = Vec::new();
    for step in &plan.steps {
        let object = &step.object.object;
        let depends = (has_new_namespace && object.namespace().as_ref() == Some(&plan.set.namespace))
            || step.object.kind().ends_with("Binding");
        outcomes.push(match step.object.rehearse().await {
            Ok(after) => step.outcome(&after),
            Err(kube::Error::Api(status)) if status.reason == "NotFound" && depends => "created",
            Err(why) => return Err(refused(object, &why)),
        });
    }
    Ok(outcomes)
}
