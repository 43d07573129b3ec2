//! What is said of a pod as a whole, by what its containers look like: its phase and its conditions.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, PodCondition, PodStatus};

use super::{
    container::{Look, Restarts, time},
    record::{Looks, restarts, stays},
};
use crate::pods;

/// The conditions that a kubelet sets.
const OWN: [&str; 5] =
    ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];

/// Status, reason and message of a condition.
type Verdict = (bool, Option<&'static str>, Option<String>);

/// Whether an init container lets the next one begin: it is done, or, if it stays, it has started.
pub(super) fn is_passed(container: &Container, look: &Look) -> bool {
    match stays(container) {
        true => look.status.started == Some(true),
        false => look.ended().is_some_and(|ended| ended.exit_code == 0),
    }
}

/// Whether an init container has failed for good.
pub(super) fn has_failed(pod: &Pod, container: &Container, look: &Look) -> bool {
    let is_final = |code: i32| code != 0 && restarts(pods::spec(pod)) == Restarts::Never;
    !stays(container) && look.is_over && look.ended().is_some_and(|ended| is_final(ended.exit_code))
}

/// The phase of a pod. One that is ending has no other chance.
pub(super) fn phase(pod: &Pod, looks: &Looks, is_ending: bool) -> &'static str {
    let init = || pods::spec(pod).init_containers.iter().flatten().zip(&looks.init);
    if init().any(|(container, look)| has_failed(pod, container, look)) {
        return "Failed";
    }
    let has_begun = looks.main.iter().any(|look| !look.is_new());
    let is_pending = |(container, look): (&Container, &Look)| match stays(container) {
        true => look.is_new() || (!has_begun && look.status.started != Some(true) && !look.is_over),
        false => look.is_running() || look.is_new(),
    };
    if init().any(is_pending) || looks.main.iter().any(Look::is_new) {
        return "Pending";
    }
    let sidecars = init().filter(|(container, _)| stays(container)).map(|(_, look)| look);
    if looks.main.iter().chain(sidecars).any(Look::is_running) {
        return "Running";
    }
    if !is_ending && !looks.main.iter().all(|look| look.is_over) {
        return "Running";
    }
    let succeeded = |look: &Look| look.ended().is_some_and(|ended| ended.exit_code == 0);
    if looks.main.iter().all(succeeded) { "Succeeded" } else { "Failed" }
}

/// Sets the conditions of a kubelet, and leaves those of others alone.
pub(super) fn set_conditions(
    status: &mut PodStatus,
    pod: &Pod,
    looks: &Looks,
    has_sandbox: bool,
    now: Timestamp,
) {
    let before = status.conditions.take().unwrap_or_default();
    let (own, others): (Vec<_>, Vec<_>) =
        before.into_iter().partition(|condition| OWN.contains(&condition.type_.as_str()));
    let phase = status.phase.as_deref().unwrap_or_default();
    let containers = containers_ready(pod, looks, phase);
    let ready = match containers.0 {
        true => gates_open(pod, &others),
        false => containers.clone(),
    };
    let verdicts =
        [(has_sandbox, None, None), initialized(pod, looks, phase), ready, containers, (true, None, None)];
    let set = OWN.iter().zip(verdicts).map(|(name, (is_true, reason, message))| {
        let wanted = if is_true { "True" } else { "False" };
        let since = own.iter().find(|found| found.type_ == *name && found.status == wanted);
        PodCondition {
            type_: (*name).to_owned(),
            status: wanted.to_owned(),
            reason: reason.map(str::to_owned),
            message,
            last_transition_time: since
                .map_or_else(|| Some(time(now)), |found| found.last_transition_time.clone()),
            observed_generation: status.observed_generation,
            ..PodCondition::default()
        }
    });
    status.conditions = Some(others.into_iter().chain(set).collect());
}

fn names<'a>(containers: impl Iterator<Item = &'a Container>) -> Option<String> {
    let names: Vec<&str> = containers.map(|container| container.name.as_str()).collect();
    if names.is_empty() { None } else { Some(names.join(" ")) }
}

fn initialized(pod: &Pod, looks: &Looks, phase: &str) -> Verdict {
    let init = pods::spec(pod).init_containers.iter().flatten().zip(&looks.init);
    let left = names(init.filter(|(container, look)| !is_passed(container, look)).map(|(one, _)| one));
    match left {
        _ if phase == "Succeeded" => (true, Some("PodCompleted"), None),
        Some(left) if looks.main.iter().all(Look::is_new) => {
            let message = format!("containers with incomplete status: [{left}]");
            (false, Some("ContainersNotInitialized"), Some(message))
        }
        _ => (true, None, None),
    }
}

fn containers_ready(pod: &Pod, looks: &Looks, phase: &str) -> Verdict {
    let spec = pods::spec(pod);
    let sidecars =
        spec.init_containers.iter().flatten().zip(&looks.init).filter(|(container, _)| stays(container));
    let all = sidecars.chain(spec.containers.iter().zip(&looks.main));
    let unready = names(all.filter(|(_, look)| !look.status.ready).map(|(container, _)| container));
    match (phase, unready) {
        ("Succeeded", _) => (false, Some("PodCompleted"), None),
        ("Failed", _) => (false, Some("PodFailed"), None),
        (_, None) => (true, None, None),
        (_, Some(unready)) => {
            let message = format!("containers with unready status: [{unready}]");
            (false, Some("ContainersNotReady"), Some(message))
        }
    }
}

/// Whether the conditions that others must set before a pod counts as ready are set.
fn gates_open(pod: &Pod, conditions: &[PodCondition]) -> Verdict {
    let gates = pods::spec(pod).readiness_gates.iter().flatten().map(|gate| &gate.condition_type);
    let closed =
        gates.filter_map(|gate| match conditions.iter().find(|condition| condition.type_ == *gate) {
            None => Some(format!("corresponding condition of pod readiness gate {gate:?} does not exist.")),
            Some(found) if found.status != "True" => {
                let status = &found.status;
                Some(format!("the status of pod readiness gate {gate:?} is not \"True\", but {status}"))
            }
            Some(_) => None,
        });
    let closed: Vec<String> = closed.collect();
    match closed.is_empty() {
        true => (true, None, None),
        false => (false, Some("ReadinessGatesNotReady"), Some(closed.join(", "))),
    }
}
