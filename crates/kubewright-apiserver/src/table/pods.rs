//! Rows of pods and pod templates.
//!
//! The status of a pod is one word for what a person should know first: a failing container before the
//! phase, initialisation before the containers, deletion before all.

use jiff::Timestamp;
use serde_json::Value;

use super::format::{
    NONE, age, condition, condition_is_true, containers, human_duration, labels, name, number, or, row, time,
};
use crate::kinds::access::{get, get_bool, get_str, has, items};

/// Restarts so far, and when the last one was.
#[derive(Clone, Copy, Default)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, container: &Value) {
        self.count = self.count.saturating_add(number(container, &["restartCount"]));
        self.last = self.last.max(time(container, &["lastState", "terminated", "finishedAt"]));
    }
}

struct Summary {
    status: String,
    ready: usize,
    restarts: Restarts,
}

pub(super) fn pod(pod: &Value, now: Timestamp) -> Vec<Value> {
    let summary = summary(pod);
    let sidecars = items(pod, &["spec", "initContainers"]).iter().filter(|one| is_restartable(one)).count();
    let total = items(pod, &["spec", "containers"]).len() + sidecars;
    let restarts = match summary.restarts {
        Restarts { count, last: Some(last) } if count != 0 => {
            format!("{count} ({} ago)", human_duration(now.duration_since(last)))
        }
        Restarts { count, .. } => count.to_string(),
    };
    let address = items(pod, &["status", "podIPs"]).first().map_or("", |first| get_str(first, &["ip"]));
    let gates = items(pod, &["spec", "readinessGates"]);
    let open = gates.iter().filter(|gate| condition_is_true(pod, get_str(gate, &["conditionType"]))).count();
    row![
        name(pod),
        format!("{}/{total}", summary.ready),
        summary.status,
        restarts,
        age(pod, now),
        or(address, NONE),
        or(get_str(pod, &["spec", "nodeName"]), NONE),
        or(get_str(pod, &["status", "nominatedNodeName"]), NONE),
        if gates.is_empty() { NONE.to_owned() } else { format!("{open}/{}", gates.len()) },
    ]
}

fn is_restartable(init_container: &Value) -> bool {
    get_str(init_container, &["restartPolicy"]) == "Always"
}

fn summary(pod: &Value) -> Summary {
    let phase = get_str(pod, &["status", "phase"]);
    let reason = get_str(pod, &["status", "reason"]);
    let mut status = or(reason, phase).to_owned();
    if condition(pod, "PodScheduled").is_some_and(|one| get_str(one, &["reason"]) == "SchedulingGated") {
        "SchedulingGated".clone_into(&mut status);
    }
    let (mut ready, mut restarts) = (0, Restarts::default());
    let (initializing, sidecar_restarts) = init_containers(pod, &mut ready, &mut restarts);
    let initialized = initializing.is_none() || condition_is_true(pod, "Initialized");
    if let Some(init_status) = initializing {
        status = init_status;
    }
    if initialized {
        restarts = sidecar_restarts;
        containers_status(pod, &mut status, &mut ready, &mut restarts);
    }
    if has(pod, &["metadata", "deletionTimestamp"]) {
        if reason == "NodeLost" {
            "Unknown".clone_into(&mut status);
        } else if !matches!(phase, "Succeeded" | "Failed") {
            "Terminating".clone_into(&mut status);
        }
    }
    Summary { status, ready, restarts }
}

/// The status of the init container that holds the pod up, if one does, and the restarts of sidecars.
fn init_containers(pod: &Value, ready: &mut usize, restarts: &mut Restarts) -> (Option<String>, Restarts) {
    let declared = items(pod, &["spec", "initContainers"]);
    let mut sidecar_restarts = Restarts::default();
    for (index, container) in items(pod, &["status", "initContainerStatuses"]).iter().enumerate() {
        restarts.add(container);
        let called = get_str(container, &["name"]);
        let sidecar = declared.iter().any(|one| get_str(one, &["name"]) == called && is_restartable(one));
        if sidecar {
            sidecar_restarts.add(container);
        }
        let waiting = get_str(container, &["state", "waiting", "reason"]);
        if let Some(terminated) = get(container, &["state", "terminated"])
            && number(terminated, &["exitCode"]) == 0
        {
            continue;
        }
        if sidecar && get_bool(container, &["started"]) {
            *ready += usize::from(get_bool(container, &["ready"]));
            continue;
        }
        let status = match get(container, &["state", "terminated"]) {
            Some(terminated) => format!("Init:{}", termination(terminated)),
            None if !waiting.is_empty() && waiting != "PodInitializing" => format!("Init:{waiting}"),
            None => format!("Init:{index}/{}", declared.len()),
        };
        return (Some(status), sidecar_restarts);
    }
    (None, sidecar_restarts)
}

fn containers_status(pod: &Value, status: &mut String, ready: &mut usize, restarts: &mut Restarts) {
    let mut running = false;
    let mut failure = None;
    for container in items(pod, &["status", "containerStatuses"]).iter().rev() {
        restarts.add(container);
        let waiting = get_str(container, &["state", "waiting", "reason"]);
        if !waiting.is_empty() {
            waiting.clone_into(status);
        } else if let Some(terminated) = get(container, &["state", "terminated"]) {
            *status = termination(terminated);
            if number(terminated, &["exitCode"]) != 0 {
                failure = Some(status.clone());
            }
        } else if get_bool(container, &["ready"]) && has(container, &["state", "running"]) {
            running = true;
            *ready += 1;
        }
    }
    if status == "Completed" {
        if running && condition_is_true(pod, "Ready") {
            "Running".clone_into(status);
        } else if let Some(failure) = failure {
            *status = failure;
        } else if running {
            "NotReady".clone_into(status);
        }
    }
}

fn termination(terminated: &Value) -> String {
    let reason = get_str(terminated, &["reason"]);
    match number(terminated, &["signal"]) {
        _ if !reason.is_empty() => reason.to_owned(),
        0 => format!("ExitCode:{}", number(terminated, &["exitCode"])),
        signal => format!("Signal:{signal}"),
    }
}

pub(super) fn pod_template(template: &Value, _: Timestamp) -> Vec<Value> {
    let (names, images) = containers(template, &["template", "spec", "containers"]);
    row![name(template), names, images, labels(template, &["template", "metadata", "labels"])]
}
