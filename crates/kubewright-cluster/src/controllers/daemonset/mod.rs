//! DaemonSets: a pod on every node that is wanted.

mod pod;
mod rollout;

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        apps::v1::{ControllerRevision, DaemonSet, DaemonSetSpec},
        core::v1::{Node, Pod},
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube::ResourceExt as _;
use kubewright::{
    Context, Controller, Event, Key, Lookup, Next, Owners, Predicate, Reconciler, Result, Seen, Watch,
};
use parking_lot::Mutex;

use self::{
    pod::Place,
    rollout::{Rollout, Steps},
};
use super::{
    claim::{self, ORPHANED_PODS, claim},
    pod_batches::{self, BURST},
    revisions::{ORPHANED_REVISIONS, REVISION_LABEL, Revisions},
    update_status,
};
use crate::pods::phase;

/// How long a node has to wait for another pod after one that failed, at first and at most.
const FIRST_BACK_OFF: Duration = Duration::from_secs(1);
const LONGEST_BACK_OFF: Duration = Duration::from_secs(15 * 60);

#[derive(Default)]
struct DaemonSets {
    failures: Mutex<BTreeMap<Key, Failures>>,
}

/// When pods of a generation of a set were last deleted for having failed, by node, and how long that counts.
#[derive(Default)]
struct Failures {
    generation: Option<i64>,
    nodes: BTreeMap<String, (Timestamp, Duration)>,
}

pub(super) fn controller() -> Controller {
    let matters = Predicate::labels_changed().or(Predicate::new(|change: &kubewright::Change<Node>| {
        let taints = |node: &Node| node.spec.as_ref().and_then(|spec| spec.taints.clone());
        change.old.as_deref().map(taints) != change.new.as_deref().map(taints)
    }));
    Controller::of_existing::<DaemonSet>()
        .owns_with(Watch::<Pod>::new().index(ORPHANED_PODS), Owners::Controller, [])
        .owns_with(Watch::<ControllerRevision>::new().index(ORPHANED_REVISIONS), Owners::Controller, [])
        .watches::<Pod, _, _>(|pod, lookup| {
            claim::adopters::<DaemonSet, _>(pod, lookup, |set| set.spec.as_ref().map(|spec| &spec.selector))
        })
        .watches_with(Watch::<Node>::new(), concerned, [matters])
        .concurrency(2)
        .reports_as("daemonset-controller")
        .run(DaemonSets::default())
}

/// The sets that may have or want a pod on a node.
async fn concerned(node: Seen<Node>, lookup: Lookup) -> Vec<Key> {
    let sets = lookup.list::<DaemonSet>(None).unwrap_or_default();
    sets.iter().filter(|set| Place::of(set, &node) != Place::Unwanted).map(|set| Key::of(&**set)).collect()
}

impl Reconciler<DaemonSet> for DaemonSets {
    async fn reconcile(&self, set: &DaemonSet, cx: &Context<DaemonSet>) -> Result<Next> {
        let Some(spec) = &set.spec else { return Ok(Next::on_change()) };
        if spec.selector == LabelSelector::default() {
            let note = "This daemon set is selecting all pods. A non-empty selector is required.";
            cx.event(Event::warning("SelectingAll", "Select", note)).await;
            return Ok(Next::on_change());
        }
        let collisions = set.status.as_ref().and_then(|status| status.collision_count).unwrap_or(0);
        let revisions =
            Revisions::of(set, cx, &spec.selector, &spec.template, REVISION_LABEL, collisions).await?;
        let hash = revisions.newest().and_then(|newest| newest.labels().get(REVISION_LABEL).cloned());
        let hash = hash.unwrap_or_default();
        let managed = self.manage(set, spec, &hash, &revisions, cx).await;
        let rollout = look(set, spec, &hash, cx).await?;
        let status = rollout.status(revisions.collisions);
        update_status(cx, set, |set| &mut set.status, status).await?;
        let next = [managed?, rollout.soonest()].into_iter().flatten().min();
        Ok(next.map_or_else(Next::on_change, Next::after))
    }

    fn forget(&self, key: &Key) {
        self.failures.lock().remove(key);
    }
}

/// The set as it is now.
async fn look<'s>(
    set: &'s DaemonSet,
    spec: &'s DaemonSetSpec,
    hash: &'s str,
    cx: &Context<DaemonSet>,
) -> Result<Rollout<'s>> {
    let pods = claim(set, cx, &spec.selector, &ORPHANED_PODS).await?;
    Ok(Rollout::new(set, spec, hash, &cx.list::<Node>()?, pods, cx.clock().now()))
}

impl DaemonSets {
    /// Does what is to be done, one thing after the other; gives how long a failed pod has to wait.
    async fn manage(
        &self,
        set: &DaemonSet,
        spec: &DaemonSetSpec,
        hash: &str,
        revisions: &Revisions,
        cx: &Context<DaemonSet>,
    ) -> Result<Option<Duration>> {
        let rollout = look(set, spec, hash, cx).await?;
        let (mut steps, wait) = self.rule(&rollout, rollout.manage(), cx).await;
        if steps.is_empty() {
            steps = rollout.roll();
        }
        take(set, steps, hash, cx).await?;
        let live: Vec<Seen<Pod>> = cx.children()?;
        let newest = revisions.newest().map(|newest| newest.name_any());
        let is_used = |name: &str| {
            Some(name) == newest.as_deref()
                || live.iter().any(|pod| {
                    let hash = pod.labels().get(REVISION_LABEL);
                    hash.is_some_and(|hash| {
                        name.strip_suffix(hash.as_str()).is_some_and(|rest| rest.ends_with('-'))
                    })
                })
        };
        for revision in revisions.superfluous(spec.revision_history_limit, is_used) {
            cx.delete(revision).await?;
        }
        Ok(wait)
    }

    /// Decides about pods that have ended: they are deleted, unless that was done on their node not long ago. Gives
    /// how long the first of these has to wait.
    async fn rule(
        &self,
        rollout: &Rollout<'_>,
        mut steps: Steps,
        cx: &Context<DaemonSet>,
    ) -> (Steps, Option<Duration>) {
        let mut wait: Option<Duration> = None;
        for (node, pod) in std::mem::take(&mut steps.ended) {
            let (is_failed, name) = (phase(&pod) == "Failed", Key::of(&*pod));
            if is_failed && let Some(left) = self.back_off(rollout.set, &node, cx) {
                wait = Some(wait.map_or(left, |sooner| sooner.min(left)));
                continue;
            }
            cx.event(match is_failed {
                true => {
                    let note = format!("Found failed daemon pod {name} on node {node}, will try to kill it");
                    Event::warning("FailedDaemonPod", "Delete", note)
                }
                false => {
                    let note =
                        format!("Found succeeded daemon pod {name} on node {node}, will try to delete it");
                    Event::normal("SucceededDaemonPod", "Delete", note)
                }
            })
            .await;
            steps.delete.push(pod);
        }
        (steps, wait)
    }

    /// How long a failed pod has to stay where it is; if it need not, the next one has to for longer.
    fn back_off(&self, set: &DaemonSet, node: &str, cx: &Context<DaemonSet>) -> Option<Duration> {
        let (generation, now) = (set.metadata.generation, cx.clock().now());
        let mut all = self.failures.lock();
        let failures = all.entry(cx.key()).or_default();
        if failures.generation != generation {
            *failures = Failures { generation, nodes: BTreeMap::new() };
        }
        let before = failures.nodes.get(node).copied();
        let since = |at: Timestamp| Duration::try_from(now.duration_since(at)).unwrap_or_default();
        let before = before.filter(|(at, _)| since(*at) <= 2 * LONGEST_BACK_OFF);
        if let Some(left) =
            before.and_then(|(at, pause)| pause.checked_sub(since(at))).filter(|left| !left.is_zero())
        {
            return Some(left);
        }
        let pause = before.map_or(FIRST_BACK_OFF, |(_, pause)| (2 * pause).min(LONGEST_BACK_OFF));
        failures.nodes.insert(node.to_owned(), (now, pause));
        None
    }
}

async fn take(set: &DaemonSet, mut steps: Steps, hash: &str, cx: &Context<DaemonSet>) -> Result<()> {
    steps.create.truncate(BURST);
    let pods = steps.create.iter().map(|node| pod::new(set, node, hash)).collect();
    let (_, created) = pod_batches::create(cx, pods).await;
    steps.delete.truncate(BURST);
    pod_batches::delete(cx, &steps.delete).await?;
    created
}
