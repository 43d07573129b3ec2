//! What is said of a Deployment: how many pods there are, whether enough of them are available, and whether its
//! rollout gets on.

use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::apps::v1::{
    DeploymentCondition, DeploymentSpec, DeploymentStatus, ReplicaSet, ReplicaSetStatus,
};
use kube::ResourceExt as _;
use kubewright::{Next, Seen, clock::Clock};

use super::{
    Rollout,
    scaling::{Limits, available, size},
};

const PROGRESSING: &str = "Progressing";
const REPLICA_FAILURE: &str = "ReplicaFailure";
const COMPLETE: &str = "NewReplicaSetAvailable";
const PAUSED: &str = "DeploymentPaused";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";

/// How long a rollout may take without getting on; nothing if for ever.
pub(super) fn deadline(spec: &DeploymentSpec) -> Option<SignedDuration> {
    let seconds = spec.progress_deadline_seconds.filter(|seconds| *seconds != i32::MAX)?;
    Some(SignedDuration::from_secs(seconds.into()))
}

/// A condition for a status. Since when it has its status is filled in when it is written.
fn condition(kind: &str, status: &str, reason: &str, message: String, clock: Clock) -> DeploymentCondition {
    DeploymentCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_update_time: Some(clock.time()),
        last_transition_time: Some(clock.time()),
    }
}

fn find<'s>(status: &'s DeploymentStatus, kind: &str) -> Option<&'s DeploymentCondition> {
    status.conditions.iter().flatten().find(|condition| condition.type_ == kind)
}

fn remove(status: &mut DeploymentStatus, kind: &str) {
    status.conditions.get_or_insert_default().retain(|condition| condition.type_ != kind);
}

/// Puts a condition, unless the same is said already for the same reason.
fn put(status: &mut DeploymentStatus, condition: DeploymentCondition) {
    let is_said = find(status, &condition.type_)
        .is_some_and(|before| before.status == condition.status && before.reason == condition.reason);
    if !is_said {
        replace(status, condition);
    }
}

fn replace(status: &mut DeploymentStatus, mut condition: DeploymentCondition) {
    if let Some(before) = find(status, &condition.type_).filter(|before| before.status == condition.status) {
        condition.last_transition_time.clone_from(&before.last_transition_time);
    }
    remove(status, &condition.type_);
    status.conditions.get_or_insert_default().push(condition);
}

/// Notes what has come of the newest set, if anybody wants to know about progress.
pub(super) fn note(rollout: &mut Rollout<'_>, status: &str, reason: &str, message: String) {
    if deadline(rollout.spec).is_some() {
        put(&mut rollout.status, condition(PROGRESSING, status, reason, message, rollout.cx.clock()));
    }
}

/// Notes that the newest set was there already, if nothing is known of its progress.
pub(super) fn note_found(rollout: &mut Rollout<'_>, set: &ReplicaSet) {
    if find(&rollout.status, PROGRESSING).is_none() {
        let message = format!("Found new replica set {:?}", set.name_any());
        note(rollout, "True", "FoundNewReplicaSet", message);
    }
}

/// Notes that a rollout was paused or resumed: the time in between does not count.
pub(super) fn note_pause(rollout: &mut Rollout<'_>) {
    let reason = find(&rollout.status, PROGRESSING).and_then(|condition| condition.reason.as_deref());
    let was_paused = reason == Some(PAUSED);
    match rollout.spec.paused.unwrap_or(false) {
        // What has failed is not hidden by a pause.
        _ if reason == Some(TIMED_OUT) => {}
        true if !was_paused => note(rollout, "Unknown", PAUSED, "Deployment is paused".to_owned()),
        false if was_paused => {
            note(rollout, "Unknown", "DeploymentResumed", "Deployment is resumed".to_owned());
        }
        _ => {}
    }
}

/// The numbers, and whether enough pods are available.
pub(super) fn counted(rollout: &Rollout<'_>) -> DeploymentStatus {
    let sum = |count: fn(&ReplicaSet) -> i32| rollout.all().map(|set| count(set)).sum::<i32>();
    let some = |number: i32| Some(number).filter(|number| *number > 0);
    let is_available = sum(available) >= rollout.limits.least_available();
    let mut status = DeploymentStatus {
        observed_generation: rollout.deployment.metadata.generation,
        replicas: some(sum(|set| said(set, |status| status.replicas))),
        updated_replicas: some(rollout.new.as_deref().map_or(0, |set| said(set, |status| status.replicas))),
        ready_replicas: some(sum(|set| said(set, |status| status.ready_replicas.unwrap_or(0)))),
        available_replicas: some(sum(available)),
        unavailable_replicas: some(sum(size) - sum(available)),
        terminating_replicas: Some(sum(|set| said(set, |status| status.terminating_replicas.unwrap_or(0)))),
        collision_count: rollout.status.collision_count,
        conditions: rollout.status.conditions.clone(),
    };
    let (value, reason, message) = match is_available {
        true => ("True", "MinimumReplicasAvailable", "Deployment has minimum availability."),
        false => ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability."),
    };
    put(&mut status, condition("Available", value, reason, message.to_owned(), rollout.cx.clock()));
    status
}

fn said(set: &ReplicaSet, count: fn(&ReplicaSetStatus) -> i32) -> i32 {
    set.status.as_ref().map_or(0, count)
}

/// Whether all pods are made from the newest template and available, and no others are left.
pub(super) fn is_complete(limits: &Limits, status: &DeploymentStatus) -> bool {
    [status.updated_replicas, status.replicas, status.available_replicas]
        .iter()
        .all(|count| count.unwrap_or(0) == limits.desired)
}

/// Says in a status how the rollout gets on, and when to look again whether it still does.
pub(super) fn estimate(rollout: &Rollout<'_>, status: &mut DeploymentStatus) -> Next {
    let next = match deadline(rollout.spec) {
        Some(deadline) => estimate_until(rollout, status, deadline),
        None => {
            remove(status, PROGRESSING);
            Next::on_change()
        }
    };
    match failure(rollout.new.as_ref()).or_else(|| rollout.all().find_map(|set| failure(Some(set)))) {
        Some(failure) => put(status, failure),
        None => remove(status, REPLICA_FAILURE),
    }
    next
}

fn estimate_until(rollout: &Rollout<'_>, status: &mut DeploymentStatus, deadline: SignedDuration) -> Next {
    let clock = rollout.cx.clock();
    let current = find(&rollout.status, PROGRESSING);
    let reason = current.and_then(|current| current.reason.as_deref());
    if status.replicas == status.updated_replicas && reason == Some(COMPLETE) {
        return Next::on_change();
    }
    let subject = match &rollout.new {
        Some(set) => format!("ReplicaSet {:?}", set.name_any()),
        None => format!("Deployment {:?}", rollout.deployment.name_any()),
    };
    let progressing =
        |value, reason, words| condition(PROGRESSING, value, reason, format!("{subject} {words}"), clock);
    if is_complete(&rollout.limits, status) {
        put(status, progressing("True", COMPLETE, "has successfully progressed."));
        return Next::on_change();
    }
    if has_moved(&rollout.status, status) {
        // Even if this was said before: the time starts again.
        replace(status, progressing("True", "ReplicaSetUpdated", "is progressing."));
        return Next::after(after(deadline));
    }
    let Some(since) = current.and_then(|current| current.last_update_time.as_ref()) else {
        return Next::on_change();
    };
    if matches!(reason, Some(COMPLETE | TIMED_OUT)) {
        return Next::on_change();
    }
    let left = deadline - clock.now().duration_since(since.0);
    if left.is_negative() {
        put(status, progressing("False", TIMED_OUT, "has timed out progressing."));
        return Next::on_change();
    }
    Next::after(after(left))
}

/// A moment after a time has passed: exactly then it has not yet.
fn after(time: SignedDuration) -> Duration {
    Duration::try_from(time).unwrap_or_default() + Duration::from_secs(1)
}

/// Whether there are more new pods, fewer old ones, or more that work.
fn has_moved(before: &DeploymentStatus, now: &DeploymentStatus) -> bool {
    let count = |number: Option<i32>| number.unwrap_or(0);
    let old = |status: &DeploymentStatus| count(status.replicas) - count(status.updated_replicas);
    count(now.updated_replicas) > count(before.updated_replicas)
        || old(now) < old(before)
        || count(now.ready_replicas) > count(before.ready_replicas)
        || count(now.available_replicas) > count(before.available_replicas)
}

/// Why a set has not the pods it wants, as a condition of its Deployment.
fn failure(set: Option<&Seen<ReplicaSet>>) -> Option<DeploymentCondition> {
    let conditions = set?.status.as_ref()?.conditions.as_ref()?;
    let failure = conditions.iter().find(|condition| condition.type_ == REPLICA_FAILURE)?;
    Some(DeploymentCondition {
        type_: failure.type_.clone(),
        status: failure.status.clone(),
        reason: failure.reason.clone(),
        message: failure.message.clone(),
        last_update_time: failure.last_transition_time.clone(),
        last_transition_time: failure.last_transition_time.clone(),
    })
}
