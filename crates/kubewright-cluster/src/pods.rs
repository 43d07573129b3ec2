//! What the controllers of workloads ask of pods.

use std::{cmp::Reverse, collections::BTreeMap, time::Duration};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::core::v1::{Pod, PodCondition, PodSpec, PodStatus, PodTemplateSpec},
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference, Time},
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, Preconditions},
    core::{Selector, SelectorExt as _},
};
use kubewright::{Index, Result};

/// Pods by the node they are on, as long as they need it.
pub(crate) const BY_NODE: Index<Pod> = Index::new("node", |pod| match is_finished(pod) {
    true => Vec::new(),
    false => spec(pod).node_name.iter().cloned().collect(),
});

/// Removes a pod at once, whatever runs of it; the last step of its deletion. One that has gone is fine.
pub(crate) async fn remove(pod: &Pod, client: &Client) -> Result<()> {
    let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    let parameters = DeleteParams {
        grace_period_seconds: Some(0),
        preconditions: Some(Preconditions { uid: pod.uid(), resource_version: None }),
        ..DeleteParams::default()
    };
    match api.delete(&pod.name_any(), &parameters).await {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        outcome => Ok(outcome.map(|_| ())?),
    }
}

/// Sets a condition of a pod; the time of its change only where its status changes.
pub(crate) fn set_condition(status: &mut PodStatus, mut condition: PodCondition, now: Time) {
    let all = status.conditions.get_or_insert_default();
    let found = all.iter_mut().find(|found| found.type_ == condition.type_);
    condition.last_transition_time = match &found {
        Some(found) if found.status == condition.status => found.last_transition_time.clone(),
        _ => Some(now),
    };
    match found {
        Some(found) => *found = condition,
        None => all.push(condition),
    }
}

/// A condition of a pod, by its type.
pub(crate) fn condition<'p>(pod: &'p Pod, name: &str) -> Option<&'p PodCondition> {
    pod.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == name)
}

/// The phase of a pod; `Pending` until somebody says otherwise.
pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending")
}

/// Whether a pod has ended, well or not.
pub(crate) fn is_finished(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Whether a pod is being deleted.
pub(crate) fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// Whether a pod counts: it has not ended, and it may stay.
pub(crate) fn is_active(pod: &Pod) -> bool {
    !is_finished(pod) && !is_terminating(pod)
}

/// Whether a pod is ready.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready").is_some_and(|ready| ready.status == "True")
}

/// Whether a pod has been ready for long enough; if not, how much longer it must be.
pub(crate) fn available_in(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> Availability {
    let Some(ready) = condition(pod, "Ready").filter(|ready| ready.status == "True") else {
        return Availability::Unready;
    };
    if min_ready_seconds == 0 {
        return Availability::Available;
    }
    let Some(since) = &ready.last_transition_time else { return Availability::Unready };
    let until = since.0.saturating_add(SignedDuration::from_secs(min_ready_seconds.into()));
    match Duration::try_from(until.unwrap_or(Timestamp::MAX).duration_since(now)) {
        Ok(left) if !left.is_zero() => Availability::After(left),
        _ => Availability::Available,
    }
}

/// How far a pod is from being available.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Availability {
    Available,
    /// It is ready, but not yet for long enough.
    After(Duration),
    Unready,
}

/// The specification of a pod; an empty one if it has none, which the API server does not let happen.
pub(crate) fn spec(pod: &Pod) -> &PodSpec {
    static EMPTY: std::sync::LazyLock<PodSpec> = std::sync::LazyLock::new(PodSpec::default);
    pod.spec.as_ref().unwrap_or(&EMPTY)
}

/// The owner that controls an object.
pub(crate) fn controller_of<K: kube::Resource>(object: &K) -> Option<&OwnerReference> {
    object.meta().owner_references.as_ref()?.iter().find(|owner| owner.controller == Some(true))
}

/// Whether the one with this UID controls an object.
pub(crate) fn is_controlled_by<K: kube::Resource>(object: &K, uid: &str) -> bool {
    controller_of(object).is_some_and(|owner| owner.uid == uid)
}

/// Whether a selector matches the labels of an object. One that can't be read, or is empty, matches nothing.
pub(crate) fn selects<K: kube::Resource>(selector: &LabelSelector, object: &K) -> bool {
    let is_empty = selector.match_labels.is_none() && selector.match_expressions.is_none();
    !is_empty && matches(selector, object.labels())
}

/// Whether a selector matches labels. One that can't be read matches nothing, an empty one everything.
pub(crate) fn matches(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    Selector::try_from(selector.clone()).is_ok_and(|selector| selector.matches(labels))
}

/// A pod as a template wants it. Its name is generated from that of its owner.
pub(crate) fn from_template(template: &PodTemplateSpec, owner: &str) -> Pod {
    let meta = template.metadata.clone().unwrap_or_default();
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{owner}-")),
            labels: meta.labels,
            annotations: meta.annotations,
            finalizers: meta.finalizers,
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}

/// How much a pod would be missed: those that compare less are deleted first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DeletionRank {
    is_assigned: bool,
    phase: u8,
    is_ready: bool,
    cost: i32,
    /// How many others are on the same node, most first.
    alone: Reverse<usize>,
    /// How long it has been ready, in powers of two, so that of pods of about the same age any may go.
    ready_for: u32,
    restarts: Reverse<i32>,
    age: u32,
    uid: String,
}

impl DeletionRank {
    /// The rank of a pod with this many of its kind on its node.
    pub(crate) fn of(pod: &Pod, on_node: usize, now: Timestamp) -> Self {
        let logarithm = |since: Option<Timestamp>| {
            let seconds = since.map_or(0, |since| now.duration_since(since).as_secs());
            u64::try_from(seconds).unwrap_or(0).checked_ilog2().map_or(0, |log| log + 1)
        };
        let ready = condition(pod, "Ready").filter(|ready| ready.status == "True");
        let ready_since = ready.and_then(|ready| Some(ready.last_transition_time.as_ref()?.0));
        let cost = pod.annotations().get("controller.kubernetes.io/pod-deletion-cost");
        let containers = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
        Self {
            is_assigned: spec(pod).node_name.is_some(),
            phase: match phase(pod) {
                "Pending" => 0,
                "Running" => 2,
                _ => 1,
            },
            is_ready: ready.is_some(),
            cost: cost.and_then(|cost| cost.parse().ok()).unwrap_or(0),
            alone: Reverse(on_node),
            ready_for: logarithm(ready_since),
            restarts: Reverse(containers.map(|container| container.restart_count).max().unwrap_or(0)),
            age: logarithm(pod.metadata.creation_timestamp.as_ref().map(|time| time.0)),
            uid: pod.metadata.uid.clone().unwrap_or_default(),
        }
    }
}
