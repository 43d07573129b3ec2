//! `kubewright undeploy`: the way back.

use clap::Args;
use kube::{
    Api, Client, ResourceExt as _,
    api::{DynamicObject, ListParams},
    discovery::{Discovery, Scope, verbs},
};

use super::{ApplySet, Output, PART_OF, Placed, phase};
use crate::{
    apply::{reason, rehearse_removal, remove},
    install::{Held, refuse_loss, resources},
    program::{Installation, Program, Which},
    target::{Patience, Target},
    terminal::note,
};

/// Remove an operator that was deployed
#[derive(Args)]
#[command(after_help = "\
Removes exactly what deploy has brought. If there are resources of its kinds, they would go with the definitions: so
nothing is done unless --keep-crds or --yes says what is wanted. The definitions go first, while the operator is there
to clean up after its resources. A namespace in which there is something else is kept.

Examples:
  kubewright undeploy
      The operator of this directory, from the cluster of the current kubeconfig.

  kubewright undeploy --keep-crds
      Its kinds and all of their resources stay.

  kubewright undeploy operators/memcached --namespace operators --dry-run
      What would go.")]
pub(crate) struct Undeploy {
    #[command(flatten)]
    operator: Which,

    /// Namespace the operator lives in; its name and "-system" without it
    #[arg(long, short, value_name = "NAME")]
    namespace: Option<String>,

    /// Keep the definitions of its kinds, and their resources
    #[arg(long)]
    keep_crds: bool,

    /// Delete the resources of its kinds, too
    #[arg(long, short, conflicts_with = "keep_crds")]
    yes: bool,

    #[command(flatten)]
    target: Target,

    /// Change nothing: tell what would go
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    patience: Patience,

    /// What to print: a line for each object, or the objects as they were
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
}

impl Undeploy {
    pub(crate) async fn run(self) -> Result<(), String> {
        let source = self.operator.source().await?;
        let client = self.target.connect().await?;
        let installation = Installation { namespace: self.namespace.clone(), ..Installation::default() };
        let documents = Program::of(&source).await?.manifests(&installation.arguments()).await?;
        let set = ApplySet::of(&documents)?;
        let Some(contents) = set.read(&client).await? else {
            return Err(format!(
                "{} is not deployed in namespace {}: name the one it is in with --namespace",
                set.operator, set.namespace
            ));
        };
        let is_definition = |member: &Placed| member.kind() == "CustomResourceDefinition";
        let members = set.members(&client, &contents).await?;
        let (definitions, members): (Vec<Placed>, Vec<Placed>) = members.into_iter().partition(is_definition);
        if !self.keep_crds && !self.yes {
            let mut all = Held::default();
            for definition in &definitions {
                all.extend(resources(&client, &definition.object).await?);
            }
            refuse_loss(&all, "--keep-crds keeps them, --yes deletes them")?;
        }
        let (kept, mut going) =
            if self.keep_crds { (definitions, Vec::new()) } else { (Vec::new(), definitions) };
        let count = going.len();
        going.extend(members);
        // The definitions as they are, and then what came last goes first.
        going[count..].sort_by_key(|member| std::cmp::Reverse(phase(member.kind())));
        rehearse_removal(&going).await?;
        if self.dry_run {
            going.iter().for_each(|member| self.output.tell(member, "deleted", true));
            return self.output.print(&going);
        }
        for definition in &kept {
            definition.unlabel(PART_OF).await?;
            self.output.tell(definition, "kept", false);
        }
        for together in going.chunk_by(|one, other| phase(one.kind()) == phase(other.kind())) {
            self.remove(&client, together, &set).await?;
        }
        let parent = Placed::document(&client, set.parent(&contents)).await?;
        remove(&[&parent], self.patience.timeout).await?;
        self.output.print(&going)
    }

    /// Removes objects of one phase; of a namespace, only if nobody else has anything in it.
    async fn remove(&self, client: &Client, members: &[Placed], set: &ApplySet) -> Result<(), String> {
        let mut going = Vec::new();
        for member in members {
            let others = match member.kind() {
                "Namespace" => strangers(client, &member.object.name_any(), set).await,
                _ => Ok(Vec::new()),
            };
            let why = match others {
                Ok(others) if others.is_empty() => {
                    going.push(member);
                    continue;
                }
                Ok(others) => format!("there is more in it: {}", others.join(", ")),
                Err(why) => format!("it is not known what else is in it: {why}"),
            };
            member.unlabel(PART_OF).await?;
            note(&format!("{} is kept, as {why}", member.called()));
        }
        remove(&going, self.patience.timeout).await?;
        going.iter().for_each(|member| self.output.tell(member, "deleted", false));
        Ok(())
    }
}

/// What a namespace holds, but for what the cluster puts into every one, what comes and goes by itself, and what an
/// operator leaves behind.
async fn strangers(client: &Client, namespace: &str, set: &ApplySet) -> Result<Vec<String>, String> {
    let found = Discovery::new(client.clone()).run().await.map_err(|why| reason(&why))?;
    let mut strangers = Vec::new();
    for (resource, capabilities) in found.groups().flat_map(|group| group.recommended_resources()) {
        let passes = matches!(resource.kind.as_str(), "Event" | "EndpointSlice" | "Endpoints" | "PodMetrics");
        if capabilities.scope == Scope::Cluster || !capabilities.supports_operation(verbs::LIST) || passes {
            continue;
        }
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
        let list = match api.list_metadata(&ListParams::default()).await {
            // Some kinds are listed by discovery and by nobody else.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 405) => continue,
            list => list.map_err(|why| reason(&why))?,
        };
        let is_usual = |name: &str| match resource.kind.as_str() {
            "ServiceAccount" => name == "default",
            "ConfigMap" => name == "kube-root-ca.crt" || name == set.operator,
            "Lease" => name == set.operator,
            _ => false,
        };
        let others = list.items.iter().filter(|one| one.metadata.deletion_timestamp.is_none());
        let others = others.map(|one| one.name_any()).filter(|name| !is_usual(name));
        strangers.extend(others.map(|name| format!("{}/{name}", resource.kind.to_lowercase())));
    }
    strangers.sort();
    Ok(strangers)
}
