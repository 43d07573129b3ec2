//! What is to be done about the pods of a DaemonSet, node by node. Nothing here waits or writes.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, DaemonSetSpec, DaemonSetStatus, RollingUpdateDaemonSet},
        core::v1::{Node, Pod},
    },
    apimachinery::pkg::util::intstr::IntOrString,
};
use kube::ResourceExt as _;
use kubewright::Seen;

use super::pod::{Place, is_current, node_of};
use crate::{
    controllers::percent::rounded_up,
    pods::{self, Availability, available_in, is_finished, is_ready, is_terminating, phase},
};

/// The nodes of a cluster and the pods of a DaemonSet on them.
pub(super) struct Rollout<'s> {
    pub(super) set: &'s DaemonSet,
    spec: &'s DaemonSetSpec,
    /// Of the current template.
    hash: &'s str,
    nodes: BTreeMap<String, (Place, Vec<Seen<Pod>>)>,
    /// Pods for nodes that are gone, which can never be scheduled.
    lost: Vec<Seen<Pod>>,
    now: Timestamp,
}

/// A pod of the current template on a node, and one of another.
type Pair<'p> = (Option<&'p Seen<Pod>>, Option<&'p Seen<Pod>>);

/// What is to be done.
#[derive(Default)]
pub(super) struct Steps {
    /// Nodes that need a pod.
    pub(super) create: Vec<String>,
    pub(super) delete: Vec<Seen<Pod>>,
    /// Pods that have ended, which no daemon should, with their nodes. They are to be deleted, but not in a hurry.
    pub(super) ended: Vec<(String, Seen<Pod>)>,
}

impl Steps {
    pub(super) fn is_empty(&self) -> bool {
        self.create.is_empty() && self.delete.is_empty()
    }
}

impl<'s> Rollout<'s> {
    pub(super) fn new(
        set: &'s DaemonSet,
        spec: &'s DaemonSetSpec,
        hash: &'s str,
        nodes: &[Seen<Node>],
        pods: Vec<Seen<Pod>>,
        now: Timestamp,
    ) -> Self {
        let places = nodes.iter().map(|node| (node.name_any(), (Place::of(set, node), Vec::new())));
        let mut nodes: BTreeMap<String, (Place, Vec<Seen<Pod>>)> = places.collect();
        let mut lost = Vec::new();
        for pod in pods.into_iter().filter(|pod| !(is_finished(pod) && is_terminating(pod))) {
            let Some(name) = node_of(&pod) else { continue };
            match nodes.get_mut(name) {
                Some((_, pods)) => pods.push(pod),
                None if pods::spec(&pod).node_name.is_none() => lost.push(pod),
                None => {}
            }
        }
        for (_, pods) in nodes.values_mut() {
            // Those that are scheduled first, then the oldest.
            pods.sort_by_cached_key(|pod| {
                (pods::spec(pod).node_name.is_none(), pod.metadata.creation_timestamp.clone(), pod.name_any())
            });
        }
        Self { set, spec, hash, nodes, lost, now }
    }

    /// What every node needs, whatever the template was.
    pub(super) fn manage(&self) -> Steps {
        let mut steps = Steps { delete: self.lost.clone(), ..Steps::default() };
        for (node, (place, pods)) in &self.nodes {
            match place {
                Place::Wanted if pods.is_empty() => steps.create.push(node.clone()),
                Place::Wanted | Place::Tolerated => self.manage_node(node, *place, pods, &mut steps),
                Place::Unwanted => steps.delete.extend(staying(pods).cloned()),
            }
        }
        steps
    }

    fn manage_node(&self, node: &str, place: Place, pods: &[Seen<Pod>], steps: &mut Steps) {
        let mut running = Vec::new();
        for pod in staying(pods) {
            match phase(pod) {
                "Failed" | "Succeeded" => steps.ended.push((node.to_owned(), pod.clone())),
                _ => running.push(pod),
            }
        }
        if self.limit(|rolling| rolling.max_surge.as_ref(), 1) == 0 {
            steps.delete.extend(running.into_iter().skip(1).cloned());
            return;
        }
        if running.is_empty() && place == Place::Wanted {
            steps.create.push(node.to_owned());
        }
        let (new, old): (Vec<&Seen<Pod>>, Vec<_>) =
            running.into_iter().partition(|pod| is_current(pod, self.hash));
        steps.delete.extend(new.iter().skip(1).chain(old.iter().skip(1)).map(|pod| Seen::clone(pod)));
        // Two only while the old one is ready, and the new one is not available yet.
        if let (Some(new), Some(old)) = (new.first(), old.first())
            && (!is_ready(old) || self.is_available(new))
        {
            steps.delete.push(Seen::clone(old));
        }
    }

    /// What brings the pods closer to the current template.
    pub(super) fn roll(&self) -> Steps {
        let strategy = self.spec.update_strategy.as_ref().and_then(|strategy| strategy.type_.as_deref());
        if strategy != Some("RollingUpdate") {
            return Steps::default();
        }
        let wanted = self.wanted();
        let surge = self.limit(|rolling| rolling.max_surge.as_ref(), wanted);
        let unavailable = self.limit(|rolling| rolling.max_unavailable.as_ref(), wanted);
        match surge {
            0 => self.roll_by_deleting(if wanted > 0 { unavailable.max(1) } else { unavailable }),
            _ => self.roll_by_creating(surge, wanted),
        }
    }

    /// Deletes old pods, as many as may be unavailable; new ones follow.
    fn roll_by_deleting(&self, most: usize) -> Steps {
        let (mut unavailable, mut broken, mut candidates) = (0, Vec::new(), Vec::new());
        for (place, pods) in self.nodes.values() {
            if *place != Place::Wanted && pods.is_empty() {
                continue;
            }
            match self.pair(pods) {
                Some((Some(new), None)) => unavailable += usize::from(!self.is_available(new)),
                Some((None, Some(old))) if self.is_available(old) => candidates.push(old.clone()),
                Some((None, Some(old))) => {
                    unavailable += 1;
                    broken.push(old.clone());
                }
                _ => unavailable += 1,
            }
        }
        candidates.truncate(most.saturating_sub(unavailable));
        broken.extend(candidates);
        Steps { delete: broken, ..Steps::default() }
    }

    /// Creates new pods beside the old ones, and deletes these when the new ones are available.
    fn roll_by_creating(&self, most: usize, wanted: usize) -> Steps {
        let (mut steps, mut surging, mut available) = (Steps::default(), 0, 0);
        let (mut candidates, mut misplaced) = (Vec::new(), Vec::new());
        for (node, (place, pods)) in &self.nodes {
            let Some((new, old)) = self.pair(pods) else {
                surging += 1;
                continue;
            };
            available += usize::from(old.or(new).is_some_and(|pod| self.is_available(pod)));
            let Some(old) = old else { continue };
            match (new, self.is_available(old), *place == Place::Wanted) {
                (Some(new), ..) if self.is_available(new) => steps.delete.push(old.clone()),
                (Some(_), ..) => surging += 1,
                (None, false, true) => steps.create.push(node.clone()),
                (None, false, false) => steps.delete.push(old.clone()),
                (None, true, true) => candidates.push(node.clone()),
                (None, true, false) => misplaced.push(old.clone()),
            }
        }
        // Where pods are no longer wanted, they go once there are enough elsewhere.
        misplaced.truncate(available.saturating_sub(wanted));
        steps.delete.extend(misplaced);
        candidates.truncate(most.saturating_sub(surging));
        steps.create.extend(candidates);
        steps
    }

    /// The new and the old pod on a node; nothing if there are two of a kind.
    fn pair<'p>(&self, pods: &'p [Seen<Pod>]) -> Option<Pair<'p>> {
        let (new, old): (Vec<_>, Vec<_>) = staying(pods).partition(|pod| is_current(pod, self.hash));
        (new.len() <= 1 && old.len() <= 1).then(|| (new.first().copied(), old.first().copied()))
    }

    fn wanted(&self) -> usize {
        self.nodes.values().filter(|(place, _)| *place == Place::Wanted).count()
    }

    fn limit(&self, which: impl Fn(&RollingUpdateDaemonSet) -> Option<&IntOrString>, wanted: usize) -> usize {
        let rolling =
            self.spec.update_strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_ref());
        let limit = rolling.and_then(which);
        limit.map_or(0, |limit| usize::try_from(rounded_up(limit, number(wanted))).unwrap_or(0))
    }

    fn availability(&self, pod: &Pod) -> Availability {
        available_in(pod, self.spec.min_ready_seconds.unwrap_or(0), self.now)
    }

    fn is_available(&self, pod: &Pod) -> bool {
        self.availability(pod) == Availability::Available
    }

    /// How soon a pod that is ready will be available.
    pub(super) fn soonest(&self) -> Option<Duration> {
        let pods = self.nodes.values().flat_map(|(_, pods)| pods);
        pods.filter_map(|pod| match self.availability(pod) {
            Availability::After(left) => Some(left),
            _ => None,
        })
        .min()
    }

    /// What is said of the set.
    pub(super) fn status(&self, collisions: i32) -> DaemonSetStatus {
        let wanted = self.wanted();
        let oldest: Vec<&Seen<Pod>> = self
            .nodes
            .values()
            .filter(|(place, _)| *place == Place::Wanted)
            .filter_map(|(_, pods)| pods.first())
            .collect();
        let count = |which: &dyn Fn(&Pod) -> bool| oldest.iter().filter(|pod| which(pod)).count();
        let available = count(&|pod| self.is_available(pod));
        let misplaced =
            self.nodes.values().filter(|(place, pods)| *place != Place::Wanted && !pods.is_empty()).count();
        let some = |count: usize| Some(number(count)).filter(|count| *count > 0);
        DaemonSetStatus {
            desired_number_scheduled: number(wanted),
            current_number_scheduled: number(oldest.len()),
            number_misscheduled: number(misplaced),
            number_ready: number(count(&is_ready)),
            updated_number_scheduled: some(count(&|pod| is_current(pod, self.hash))),
            number_available: some(available),
            number_unavailable: some(wanted - available),
            observed_generation: self.set.metadata.generation,
            collision_count: Some(collisions).filter(|count| *count > 0),
            conditions: self.set.status.as_ref().and_then(|status| status.conditions.clone()),
        }
    }
}

/// The pods that are not about to go.
fn staying(pods: &[Seen<Pod>]) -> impl Iterator<Item = &Seen<Pod>> {
    pods.iter().filter(|pod| !is_terminating(pod))
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
