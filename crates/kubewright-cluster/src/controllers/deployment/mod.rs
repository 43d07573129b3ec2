//! Deployments: a ReplicaSet for every template there was, and pods that move from the older ones to the newest.

mod history;
mod progress;
mod scaling;

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec, DeploymentStatus, ReplicaSet, ReplicaSetSpec},
        core::v1::Pod,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::ResourceExt as _;
use kubewright::{Context, Controller, Error, Event, Index, Next, Owners, Reconciler, Result, Seen, Watch};
use serde_json::json;

use self::{
    history::{REVISION, TEMPLATE_HASH},
    scaling::{Limits, available, size},
};
use super::{
    claim::{self, claim},
    hash::hash,
    is_taken, update_status,
};
use crate::pods::{is_controlled_by, is_finished};

/// ReplicaSets that nobody controls, by their namespace.
const ORPHANED: Index<ReplicaSet> = Index::new("orphaned", claim::orphaned);
/// The longest name of an object.
const LONGEST_NAME: usize = 253;

struct Deployments;

pub(super) fn controller() -> Controller {
    Controller::of_existing::<Deployment>()
        .owns_with(Watch::<ReplicaSet>::new().index(ORPHANED), Owners::Controller, [])
        .watches::<ReplicaSet, _, _>(|set, lookup| {
            claim::adopters::<Deployment, _>(set, lookup, |one| one.spec.as_ref().map(|spec| &spec.selector))
        })
        .reads::<Pod>()
        .reconciles_deleted()
        .concurrency(5)
        .reports_as("deployment-controller")
        .run(Deployments)
}

impl Reconciler<Deployment> for Deployments {
    async fn reconcile(&self, deployment: &Deployment, cx: &Context<Deployment>) -> Result<Next> {
        let Some(spec) = &deployment.spec else { return Ok(Next::on_change()) };
        let mut old = claim(deployment, cx, &spec.selector, &ORPHANED).await?;
        old.sort_by_key(|set| set.metadata.creation_timestamp.clone()); // and by name, as before
        let new = old.iter().position(|set| history::is_made_from(set, &spec.template));
        let new = new.map(|at| old.remove(at));
        let limits = Limits::of(spec);
        let status = deployment.status.clone().unwrap_or_default();
        let mut rollout = Rollout { cx, deployment, spec, limits, status, new, old };
        let outcome = rollout.advance().await;
        let mut status = progress::counted(&rollout);
        let next = match &outcome {
            Ok(Progress::Estimated) => progress::estimate(&rollout, &mut status),
            _ => Next::on_change(),
        };
        let may_forget = spec.paused.unwrap_or(false) || progress::is_complete(&rollout.limits, &status);
        update_status(cx, deployment, |one| &mut one.status, status).await?;
        outcome?;
        if may_forget && deployment.metadata.deletion_timestamp.is_none() {
            for set in history::superfluous(&rollout.old, spec.revision_history_limit) {
                cx.delete(set).await?;
            }
        }
        Ok(next)
    }
}

/// Whether it says anything about a rollout if pods come and go.
enum Progress {
    Estimated,
    /// The Deployment was scaled, paused or deleted.
    Ignored,
}

/// One reconcile of a Deployment.
struct Rollout<'r> {
    cx: &'r Context<Deployment>,
    deployment: &'r Deployment,
    spec: &'r DeploymentSpec,
    limits: Limits,
    /// What was last said, and what this reconcile has noted.
    status: DeploymentStatus,
    /// The set that is made from the template, if it is there.
    new: Option<Seen<ReplicaSet>>,
    /// The others, oldest first.
    old: Vec<Seen<ReplicaSet>>,
}

impl Rollout<'_> {
    /// All sets, oldest first, and the newest last.
    fn all(&self) -> impl Iterator<Item = &Seen<ReplicaSet>> {
        self.old.iter().chain(&self.new)
    }

    /// The sets that are to have pods.
    fn active(&self) -> impl Iterator<Item = &Seen<ReplicaSet>> {
        self.all().filter(|set| size(set) > 0)
    }

    fn active_old(&self) -> Vec<Seen<ReplicaSet>> {
        self.old.iter().filter(|set| size(set) > 0).cloned().collect()
    }

    /// Takes the next step.
    async fn advance(&mut self) -> Result<Progress> {
        let is_leaving = self.deployment.metadata.deletion_timestamp.is_some();
        if !is_leaving {
            progress::note_pause(self);
        }
        self.keep_revision().await?;
        if is_leaving {
            return Ok(Progress::Ignored);
        }
        let was_scaled = self
            .active()
            .filter_map(|set| history::desired_replicas(set))
            .any(|desired| desired != self.limits.desired);
        if self.spec.paused.unwrap_or(false) || was_scaled {
            self.rescale().await?;
            return Ok(Progress::Ignored);
        }
        match self.limits.is_rolling {
            true => self.roll().await?,
            false => self.recreate().await?,
        }
        Ok(Progress::Estimated)
    }

    /// Replaces pods bit by bit: first new ones, as far as there is room, then the old ones they make superfluous.
    async fn roll(&mut self) -> Result<()> {
        let new = self.newest().await?;
        let total = self.all().map(|set| size(set)).sum();
        let wanted = scaling::grown(&self.limits, size(&new), total);
        if wanted != size(&new) {
            return self.scale(&new, wanted).await;
        }
        let old = self.active_old();
        let sizes = scaling::shrunk(&self.limits, &new, &old.iter().map(|set| &**set).collect::<Vec<_>>());
        for (set, wanted) in old.iter().zip(sizes).filter(|(set, wanted)| size(set) != *wanted) {
            self.scale(set, wanted).await?;
        }
        Ok(())
    }

    /// Replaces pods all at once: no new one before the last old one is gone.
    async fn recreate(&mut self) -> Result<()> {
        let active = self.active_old();
        for set in &active {
            self.scale(set, 0).await?;
        }
        if !active.is_empty() || self.has_old_pods()? {
            return Ok(());
        }
        let new = self.newest().await?;
        if size(&new) != self.limits.desired {
            self.scale(&new, self.limits.desired).await?;
        }
        Ok(())
    }

    /// Whether pods of old sets run, or may.
    fn has_old_pods(&self) -> Result<bool> {
        let lookup = self.cx.lookup();
        for set in &self.old {
            let pods = lookup.owned_by::<Pod>(set.uid().as_deref().unwrap_or_default())?;
            let counts = set.status.as_ref().is_some_and(|status| status.replicas > 0);
            if counts || pods.iter().any(|pod| !is_finished(pod)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Brings the sets to the size of the Deployment, without rolling anything out.
    async fn rescale(&mut self) -> Result<()> {
        let active: Vec<_> = self.active().cloned().collect();
        let desired = self.limits.desired;
        let only = match active.as_slice() {
            [] => self.new.as_ref().or(self.old.last()).cloned(),
            [only] => Some(only.clone()),
            _ => None,
        };
        if let Some(only) = only {
            return if size(&only) == desired { Ok(()) } else { self.scale(&only, desired).await };
        }
        let is_saturated = self.new.as_ref().is_some_and(|new| {
            [Some(size(new)), history::desired_replicas(new), Some(available(new))]
                .iter()
                .all(|count| *count == Some(desired))
        });
        if is_saturated {
            for set in self.active_old() {
                self.scale(&set, 0).await?;
            }
        } else if self.limits.is_rolling {
            let sets: Vec<&ReplicaSet> = active.iter().map(|set| &**set).collect();
            let running = self.status.replicas.unwrap_or(0);
            for (set, wanted) in active.iter().zip(scaling::shared(&self.limits, running, &sets)) {
                self.scale(set, wanted).await?;
            }
        }
        Ok(())
    }

    /// Gives a set a size, tells it of its Deployment, and people of it.
    async fn scale(&mut self, set: &Seen<ReplicaSet>, wanted: i32) -> Result<()> {
        let before = size(set);
        let wanted_annotations = history::scale_annotations(&self.limits);
        let annotations = history::missing(set.annotations(), &wanted_annotations);
        if before == wanted && annotations.is_empty() {
            return Ok(());
        }
        let change = json!({"metadata": {"annotations": annotations}, "spec": {"replicas": wanted}});
        let scaled = self.cx.patch(set, change).await?;
        self.keep(scaled);
        if before != wanted {
            self.tell_scaled(&set.name_any(), before, wanted).await;
        }
        Ok(())
    }

    async fn tell_scaled(&self, set: &str, before: i32, after: i32) {
        let direction = if before < after { "up" } else { "down" };
        let note = format!("Scaled {direction} replica set {set} from {before} to {after}");
        self.cx.event(Event::normal("ScalingReplicaSet", "Scale", note)).await;
    }

    /// Goes on with a set as it now is.
    fn keep(&mut self, set: Seen<ReplicaSet>) {
        match self.old.iter_mut().find(|old| old.uid() == set.uid()) {
            Some(old) => *old = set,
            None => self.new = Some(set),
        }
    }

    /// The newest set has the highest revision, and the Deployment the same.
    async fn keep_revision(&mut self) -> Result<()> {
        let Some(new) = self.new.clone() else { return Ok(()) };
        let wanted = history::annotations(self.deployment, new.annotations(), &self.old);
        let annotations = history::missing(new.annotations(), &wanted);
        let min_ready = self.spec.min_ready_seconds.unwrap_or(0);
        let has_min_ready =
            new.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0) == min_ready;
        let new = if annotations.is_empty() && has_min_ready {
            new
        } else {
            let change =
                json!({"metadata": {"annotations": annotations}, "spec": {"minReadySeconds": min_ready}});
            self.cx.patch(&new, change).await?
        };
        progress::note_found(self, &new);
        self.tell_revision(&new).await?;
        self.new = Some(new);
        Ok(())
    }

    async fn tell_revision(&self, new: &ReplicaSet) -> Result<()> {
        let Some(revision) = new.annotations().get(REVISION) else { return Ok(()) };
        if self.deployment.annotations().get(REVISION) == Some(revision) {
            return Ok(());
        }
        if let Some(seen) = self.cx.get::<Deployment>(&self.deployment.name_any())? {
            let mut deployment = Deployment::clone(&seen);
            deployment.annotations_mut().insert(REVISION.to_owned(), revision.clone());
            // With the status, because other changes of annotations make a new generation.
            self.cx.replace_status(deployment).await?;
        }
        Ok(())
    }

    /// The newest set, which is created if it is not there.
    async fn newest(&mut self) -> Result<Seen<ReplicaSet>> {
        if let Some(new) = &self.new {
            return Ok(new.clone());
        }
        let set = self.set();
        let (name, replicas) = (set.name_any(), size(&set));
        let created = match self.cx.create(set).await {
            Ok(created) => {
                if replicas > 0 {
                    self.tell_scaled(&name, 0, replicas).await;
                }
                let message = format!("Created new replica set {name:?}");
                progress::note(self, "True", "NewReplicaSetCreated", message);
                created
            }
            Err(error) => self.found(&name, error).await?,
        };
        self.tell_revision(&created).await?;
        self.new = Some(created.clone());
        Ok(created)
    }

    /// What to do if a set was not created: perhaps it is there.
    async fn found(&mut self, name: &str, error: Error) -> Result<Seen<ReplicaSet>> {
        if is_taken(&error) {
            let uid = self.deployment.uid().unwrap_or_default();
            let present = self.cx.live().get::<ReplicaSet>(name).await?;
            let is_ours = |set: &Seen<ReplicaSet>| {
                is_controlled_by(&**set, &uid) && history::is_made_from(set, &self.spec.template)
            };
            if let Some(present) = present.filter(is_ours) {
                return Ok(present);
            }
            // Another template has the same name: the next try gives this one another.
            *self.status.collision_count.get_or_insert_default() += 1;
            return Err(error);
        }
        let message = format!("Failed to create new replica set {name:?}: {error}");
        progress::note(self, "False", "ReplicaSetCreateError", message.clone());
        self.cx.event(Event::warning("ReplicaSetCreateError", "Create", message)).await;
        Err(error)
    }

    /// The set for the template.
    fn set(&self) -> ReplicaSet {
        let mut template = self.spec.template.clone();
        let hash = hash(&template, self.status.collision_count);
        let labels = template.metadata.get_or_insert_default().labels.get_or_insert_default();
        labels.insert(TEMPLATE_HASH.to_owned(), hash.clone());
        let labels = Some(labels.clone());
        let mut selector = self.spec.selector.clone();
        selector.match_labels.get_or_insert_default().insert(TEMPLATE_HASH.to_owned(), hash.clone());
        let mut name = self.deployment.name_any();
        name.truncate(LONGEST_NAME - 1 - hash.len());
        let mut annotations = history::annotations(self.deployment, &BTreeMap::new(), &self.old);
        annotations.extend(history::scale_annotations(&self.limits));
        ReplicaSet {
            metadata: ObjectMeta {
                name: Some(format!("{name}-{hash}")),
                namespace: self.deployment.namespace(),
                labels,
                annotations: Some(annotations),
                ..ObjectMeta::default()
            },
            spec: Some(ReplicaSetSpec {
                replicas: Some(scaling::grown(&self.limits, 0, self.old.iter().map(|set| size(set)).sum())),
                min_ready_seconds: self.spec.min_ready_seconds,
                selector,
                template: Some(template),
            }),
            status: None,
        }
    }
}
