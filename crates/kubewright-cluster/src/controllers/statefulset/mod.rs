//! StatefulSets: pods with names and claims of their own, which come one after the other and go in reverse.

mod member;
mod retention;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use k8s_openapi::{
    api::{
        apps::v1::{ControllerRevision, StatefulSet, StatefulSetSpec, StatefulSetStatus},
        core::v1::{PersistentVolumeClaim, Pod, PodTemplateSpec},
    },
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::ResourceExt as _;
use kubewright::{
    Context, Controller, Error, Event, Key, Lookup, Next, Owners, Reconciler, Result, Seen, Watch,
};
use serde_json::json;

use super::{
    claim::{self, ORPHANED_PODS, claim_matching},
    is_taken,
    revisions::{ORPHANED_REVISIONS, REVISION_LABEL, Revisions, template_of},
    update_status,
};
use crate::pods::{self, Availability, available_in, is_finished, is_ready, is_terminating, selects};

/// The label of revisions with what tells their names apart.
const HASH_LABEL: &str = "controller.kubernetes.io/hash";

struct StatefulSets;

pub(super) fn controller() -> Controller {
    Controller::of_existing::<StatefulSet>()
        .owns_with(Watch::<Pod>::new().index(ORPHANED_PODS), Owners::Controller, [])
        .watches::<Pod, _, _>(|pod, lookup| {
            claim::adopters::<StatefulSet, _>(pod, lookup, |set| set.spec.as_ref().map(|spec| &spec.selector))
        })
        .owns_with(Watch::<ControllerRevision>::new().index(ORPHANED_REVISIONS), Owners::Controller, [])
        .watches::<PersistentVolumeClaim, _, _>(sets_of_claim)
        .reconciles_deleted()
        .concurrency(5)
        .reports_as("statefulset-controller")
        .run(StatefulSets)
}

/// The sets that wait for a claim to go, as it belongs to them or to one of their pods.
async fn sets_of_claim(claim: Seen<PersistentVolumeClaim>, _: Lookup) -> Vec<Key> {
    let namespace = claim.namespace().unwrap_or_default();
    let set = |owner: &OwnerReference| {
        let name = match owner.kind.as_str() {
            "StatefulSet" => owner.name.as_str(),
            "Pod" => owner.name.rsplit_once('-')?.0,
            _ => return None,
        };
        Some(Key::new(&namespace, name))
    };
    claim.owner_references().iter().filter_map(set).collect()
}

impl Reconciler<StatefulSet> for StatefulSets {
    async fn reconcile(&self, set: &StatefulSet, cx: &Context<StatefulSet>) -> Result<Next> {
        let Some(spec) = &set.spec else { return Ok(Next::on_change()) };
        let name = set.name_any();
        let is_member = |pod: &Pod| {
            selects(&spec.selector, pod)
                && pod.name_any().rsplit_once('-').is_some_and(|(owner, _)| owner == name)
        };
        let pods = claim_matching(set, cx, is_member, &ORPHANED_PODS, None).await?;
        let mut used: BTreeSet<String> = pods.iter().map(|pod| revision(pod).to_owned()).collect();
        let members = pods.into_iter().filter_map(|pod| Some((member::ordinal(&name, &pod)?, pod)));
        let before = set.status.clone().unwrap_or_default();
        let collisions = before.collision_count.unwrap_or(0);
        let revisions =
            Revisions::of(set, cx, &spec.selector, &spec.template, HASH_LABEL, collisions).await?;
        let Some(update) = revisions.newest() else { return Ok(Next::on_change()) };
        let current = revisions.named(before.current_revision.as_deref()).unwrap_or(update);
        let round = Round {
            cx,
            set,
            spec,
            members: members.collect(),
            current: Version { name: current.name_any(), template: template_of(current)? },
            update: Version { name: update.name_any(), template: spec.template.clone() },
        };
        let outcome = match set.metadata.deletion_timestamp {
            Some(_) => Ok(()),
            None => round.settle().await,
        };
        let (status, next) = round.status(revisions.collisions)?;
        used.extend([round.current.name.clone(), round.update.name.clone()]);
        update_status(cx, set, |set| &mut set.status, status).await?;
        for revision in revisions.superfluous(spec.revision_history_limit, |name| used.contains(name)) {
            cx.delete(revision).await?;
        }
        outcome?;
        Ok(next)
    }
}

/// The revision that a pod was made from.
fn revision(pod: &Pod) -> &str {
    pod.labels().get(REVISION_LABEL).map_or("", String::as_str)
}

/// A revision, and what it makes of a pod.
struct Version {
    name: String,
    template: PodTemplateSpec,
}

/// Whether to go on with the next pod, or to wait for this one.
#[derive(PartialEq, Eq)]
enum Step {
    On,
    Wait,
}

/// One reconcile of a StatefulSet.
struct Round<'r> {
    cx: &'r Context<StatefulSet>,
    set: &'r StatefulSet,
    spec: &'r StatefulSetSpec,
    /// Its pods, by their ordinals, as they were at first.
    members: BTreeMap<i32, Seen<Pod>>,
    /// The revision that pods below the partition have.
    current: Version,
    /// The revision that the others are to have.
    update: Version,
}

impl Round<'_> {
    /// Brings pods to where they should be: first those that are wanted, in order, then those that are not, in
    /// reverse, and then those of another revision, one at a time.
    async fn settle(&self) -> Result<()> {
        let in_order = self.spec.pod_management_policy.as_deref() != Some("Parallel");
        for ordinal in member::ordinals(self.spec) {
            let step = match self.members.get(&ordinal) {
                Some(pod) => self.settle_member(pod, ordinal).await?,
                None => self.create(ordinal).await?,
            };
            if in_order && step == Step::Wait {
                return Ok(());
            }
        }
        let condemned = self.condemned();
        for pod in &condemned {
            self.keep_claims(pod).await?;
        }
        let first_unhealthy = condemned.iter().rev().find(|pod| self.is_unavailable(pod));
        for pod in &condemned {
            let is_next =
                !self.is_unavailable(pod) || first_unhealthy.is_some_and(|one| one.uid() == pod.uid());
            if !is_terminating(pod) && (is_next || !in_order) {
                self.delete(pod).await?;
            }
            if in_order {
                return Ok(());
            }
        }
        self.update().await
    }

    /// Replaces the last pod that has not the newest revision, if all after it are well.
    async fn update(&self) -> Result<()> {
        let strategy = self.spec.update_strategy.as_ref();
        if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("OnDelete") {
            return Ok(());
        }
        let ordinals = member::ordinals(self.spec);
        for ordinal in (self.first_updated()..ordinals.end).rev() {
            let Some(pod) = self.members.get(&ordinal) else { return Ok(()) };
            if revision(pod) != self.update.name && !is_terminating(pod) {
                return self.delete(pod).await;
            }
            if self.is_unavailable(pod) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The first ordinal that gets the newest revision.
    fn first_updated(&self) -> i32 {
        let rolling =
            self.spec.update_strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_ref());
        let partition = rolling.and_then(|rolling| rolling.partition).unwrap_or(0);
        member::ordinals(self.spec).start.saturating_add(partition)
    }

    /// The pods that are no longer wanted, the last first.
    fn condemned(&self) -> Vec<&Seen<Pod>> {
        let wanted = member::ordinals(self.spec);
        let condemned = self.members.iter().rev().filter(|(ordinal, _)| !wanted.contains(ordinal));
        condemned.map(|(_, pod)| pod).collect()
    }

    fn availability(&self, pod: &Pod) -> Availability {
        available_in(pod, self.spec.min_ready_seconds.unwrap_or(0), self.cx.clock().now())
    }

    fn is_unavailable(&self, pod: &Pod) -> bool {
        self.availability(pod) != Availability::Available || is_terminating(pod)
    }

    /// Sees to a pod that is wanted and there.
    async fn settle_member(&self, pod: &Seen<Pod>, ordinal: i32) -> Result<Step> {
        if is_finished(pod) {
            if !is_terminating(pod) {
                self.delete(pod).await?;
            }
            return Ok(Step::Wait);
        }
        if pods::phase(pod) == "Pending" {
            self.create_claims(ordinal).await?;
            self.keep_claims(pod).await?;
        }
        if self.is_unavailable(pod) {
            return Ok(Step::Wait);
        }
        self.keep_claims(pod).await?;
        let name = pod.name_any();
        if pod.labels().get(member::POD_NAME_LABEL) != Some(&name) {
            self.cx.patch(pod, json!({"metadata": {"labels": {member::POD_NAME_LABEL: name}}})).await?;
            self.tell("Update", &name, None).await;
        }
        Ok(Step::On)
    }

    async fn create(&self, ordinal: i32) -> Result<Step> {
        let version = if ordinal < self.first_updated() { &self.current } else { &self.update };
        let pod = member::member(self.set, ordinal, &version.template, &version.name);
        let name = pod.name_any();
        for (_, claim) in member::claims(self.set, ordinal) {
            let present = self.cx.get::<PersistentVolumeClaim>(&claim.name_any())?;
            if present.is_some_and(|present| retention::is_stale(&present, self.spec, &name)) {
                return Ok(Step::Wait);
            }
        }
        let created = match self.create_claims(ordinal).await {
            Ok(()) => self.cx.create(pod).await,
            Err(error) => Err(error),
        };
        match created {
            Ok(pod) => {
                self.keep_claims(&pod).await?;
                self.tell("Create", &name, None).await;
                Ok(Step::Wait)
            }
            Err(error) => {
                // A pod of an earlier set of the same name may not be gone yet.
                if !is_taken(&error) {
                    self.tell("Create", &name, Some(&error)).await;
                }
                Err(error)
            }
        }
    }

    async fn delete(&self, pod: &Seen<Pod>) -> Result<()> {
        self.cx.delete(pod).await?;
        self.tell("Delete", &pod.name_any(), None).await;
        Ok(())
    }

    /// Creates the claims of a pod that are not there.
    async fn create_claims(&self, ordinal: i32) -> Result<()> {
        let set = self.set.name_any();
        for (_, claim) in member::claims(self.set, ordinal) {
            let name = claim.name_any();
            match self.cx.get::<PersistentVolumeClaim>(&name)? {
                Some(present) if present.metadata.deletion_timestamp.is_some() => {
                    return Err(Error::new(format!("pvc {name} is being deleted")));
                }
                Some(_) => continue,
                None => {}
            }
            let (pod, created) = (format!("{set}-{ordinal}"), self.cx.create_free(claim).await);
            let event = match &created {
                Ok(_) => Event::normal(
                    "SuccessfulCreate",
                    "Create",
                    format!("Create Claim {name} Pod {pod} in StatefulSet {set} success"),
                ),
                Err(error) => Event::warning(
                    "FailedCreate",
                    "Create",
                    format!("Create Claim {name} for Pod {pod} in StatefulSet {set} failed error: {error}"),
                ),
            };
            self.cx.event(event).await;
            created.map_err(|error| Error::new(format!("failed to create PVC {name}: {error}")))?;
        }
        Ok(())
    }

    /// The claims of a pod go when the set says they should.
    async fn keep_claims(&self, pod: &Seen<Pod>) -> Result<()> {
        let Some(ordinal) = member::ordinal(&self.set.name_any(), pod) else { return Ok(()) };
        for (_, claim) in member::claims(self.set, ordinal) {
            let Some(claim) = self.cx.get::<PersistentVolumeClaim>(&claim.name_any())? else { continue };
            if let Some(owners) = retention::owners(&claim, self.set, pod) {
                let change = json!({"metadata": {
                    "resourceVersion": claim.resource_version(), "ownerReferences": owners,
                }});
                self.cx.patch(&claim, change).await?;
            }
        }
        Ok(())
    }

    async fn tell(&self, action: &str, pod: &str, failure: Option<&Error>) {
        let subject = format!("{action} Pod {pod} in StatefulSet {}", self.set.name_any());
        let event = match failure {
            None => Event::normal(format!("Successful{action}"), action, format!("{subject} successful")),
            Some(why) => {
                Event::warning(format!("Failed{action}"), action, format!("{subject} failed error: {why}"))
            }
        };
        self.cx.event(event).await;
    }

    /// What is said of the set with its pods as they now are, and when to look again.
    fn status(&self, collisions: i32) -> Result<(StatefulSetStatus, Next)> {
        let uid = self.set.uid().unwrap_or_default();
        let mut pods = self.cx.children::<Pod>()?;
        pods.retain(|pod| pods::is_controlled_by(&**pod, &uid));
        let count = |counts: &dyn Fn(&Pod) -> bool| {
            i32::try_from(pods.iter().filter(|pod| counts(pod)).count()).unwrap_or(i32::MAX)
        };
        let is_of = |pod: &Pod, version: &Version| revision(pod) == version.name && !is_terminating(pod);
        let runs = |pod: &Pod| pods::phase(pod) == "Running" && is_ready(pod);
        let (replicas, ready) = (count(&|_| true), count(&runs));
        let available = count(&|pod| runs(pod) && self.availability(pod) == Availability::Available);
        let updated = count(&|pod| is_of(pod, &self.update));
        let wanted = self.spec.replicas.unwrap_or(1);
        let strategy = self.spec.update_strategy.as_ref();
        let is_rolling = strategy.and_then(|strategy| strategy.type_.as_deref()) != Some("OnDelete");
        let is_complete = is_rolling && [replicas, ready, updated].iter().all(|number| *number == wanted);
        let (current, current_revision) = match is_complete {
            true => (updated, &self.update.name),
            false => (count(&|pod| is_of(pod, &self.current)), &self.current.name),
        };
        let some = |number: i32| Some(number).filter(|number| *number > 0);
        let status = StatefulSetStatus {
            observed_generation: self.set.metadata.generation,
            replicas,
            ready_replicas: some(ready),
            available_replicas: Some(available),
            current_replicas: some(current),
            updated_replicas: some(updated),
            current_revision: Some(current_revision.clone()),
            update_revision: Some(self.update.name.clone()),
            collision_count: Some(collisions),
            conditions: self.set.status.as_ref().and_then(|status| status.conditions.clone()),
        };
        let soonest: Option<Duration> = pods
            .iter()
            .filter_map(|pod| match self.availability(pod) {
                Availability::After(left) => Some(left),
                _ => None,
            })
            .min();
        Ok((status, soonest.map_or_else(Next::on_change, Next::after)))
    }
}
