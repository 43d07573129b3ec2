//! How an object is doing, in a few words.

use kube::{ResourceExt as _, api::DynamicObject};
use serde_json::Value;

/// Whether somebody should look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mood {
    Well,
    Busy,
    Unwell,
}

/// How an object is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct State {
    pub(super) mood: Mood,
    pub(super) text: String,
}

impl State {
    fn well(text: impl Into<String>) -> Self {
        Self { mood: Mood::Well, text: text.into() }
    }

    fn busy(text: impl Into<String>) -> Self {
        Self { mood: Mood::Busy, text: text.into() }
    }

    fn unwell(text: impl Into<String>) -> Self {
        Self { mood: Mood::Unwell, text: text.into() }
    }

    /// The state of an object of any kind.
    pub(super) fn of(object: &DynamicObject) -> Self {
        if object.metadata.deletion_timestamp.is_some() {
            return Self::busy("Terminating");
        }
        match kind(object) {
            "Pod" => of_pod(object),
            "Deployment" | "ReplicaSet" | "StatefulSet" => of_replicas(object),
            "Job" => of_job(object),
            "Service" => of_service(object),
            "ConfigMap" | "Secret" => of_data(object),
            _ => of_conditions(object),
        }
    }
}

/// The kind of an object.
pub(super) fn kind(object: &DynamicObject) -> &str {
    object.types.as_ref().map_or("", |types| &types.kind)
}

fn text<'o>(object: &'o Value, path: &str) -> &'o str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

fn number(object: &Value, path: &str) -> i64 {
    object.pointer(path).and_then(Value::as_i64).unwrap_or_default()
}

fn items<'o>(object: &'o Value, path: &str) -> impl Iterator<Item = &'o Value> {
    object.pointer(path).and_then(Value::as_array).into_iter().flatten()
}

fn condition<'o>(object: &'o Value, kind: &str) -> Option<&'o Value> {
    items(object, "/status/conditions").find(|condition| condition["type"] == kind)
}

/// A condition that holds.
fn holds<'o>(object: &'o Value, kind: &str) -> Option<&'o Value> {
    condition(object, kind).filter(|condition| condition["status"] == "True")
}

/// What a condition says to people.
fn said(condition: &Value) -> String {
    match (text(condition, "/reason"), text(condition, "/message")) {
        (reason, "") => reason.to_owned(),
        ("", message) => message.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }
}

/// Of the resource of an operator, by the conditions that are usual.
fn of_conditions(object: &DynamicObject) -> State {
    let data = &object.data;
    if let Some(bad) = ["Degraded", "Stalled", "Failed"].iter().find_map(|kind| holds(data, kind)) {
        return State::unwell(said(bad));
    }
    let is_current =
        data.pointer("/status/observedGeneration").and_then(Value::as_i64) == object.metadata.generation;
    let good =
        ["Available", "Ready", "Complete"].iter().find_map(|kind| Some((kind, condition(data, kind)?)));
    match good {
        Some((kind, good)) if is_current && good["status"] == "True" => {
            State::well(match text(good, "/message") {
                "" => (*kind).to_string(),
                message => format!("{kind}: {message}"),
            })
        }
        Some((_, good)) => State::busy(said(holds(data, "Progressing").unwrap_or(good))),
        None => State::busy("not looked at yet"),
    }
}

fn of_pod(pod: &DynamicObject) -> State {
    let data = &pod.data;
    let node = text(data, "/spec/nodeName");
    let waiting = items(data, "/status/initContainerStatuses")
        .chain(items(data, "/status/containerStatuses"))
        .map(|status| text(status, "/state/waiting/reason"))
        .find(|reason| !reason.is_empty());
    let restarts: i64 =
        items(data, "/status/containerStatuses").map(|status| number(status, "/restartCount")).sum();
    let restarted = match restarts {
        0 => String::new(),
        times => format!(", restarted {times}×"),
    };
    match (text(data, "/status/phase"), waiting) {
        ("Succeeded", _) => State::well(format!("Succeeded on {node}")),
        ("Failed", _) => State::unwell(match text(data, "/status/reason") {
            "" => format!("Failed on {node}"),
            reason => format!("{reason} on {node}"),
        }),
        (_, Some("ContainerCreating" | "PodInitializing")) => State::busy(format!("starting on {node}")),
        (_, Some(reason)) => State::unwell(format!("{reason} on {node}{restarted}")),
        ("Running", None) if holds(data, "Ready").is_some() => {
            State::well(format!("Running on {node}{restarted}"))
        }
        ("Running", None) => State::busy(format!("Running on {node}, not ready{restarted}")),
        _ => match condition(data, "PodScheduled").filter(|scheduled| scheduled["status"] == "False") {
            Some(unscheduled) => State::unwell(said(unscheduled)),
            None => State::busy("Pending"),
        },
    }
}

fn of_replicas(object: &DynamicObject) -> State {
    let data = &object.data;
    let wanted = data.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
    let ready = number(data, "/status/readyReplicas");
    let updated = match kind(object) {
        "Deployment" => number(data, "/status/updatedReplicas"),
        _ => wanted,
    };
    let is_current = Some(number(data, "/status/observedGeneration")) == object.metadata.generation;
    let said = format!("{ready} of {wanted} ready");
    if is_current && ready == wanted && updated == wanted && number(data, "/status/replicas") == wanted {
        State::well(said)
    } else {
        State::busy(said)
    }
}

fn of_job(job: &DynamicObject) -> State {
    if let Some(failed) = holds(&job.data, "Failed") {
        return State::unwell(said(failed));
    }
    let succeeded = number(&job.data, "/status/succeeded");
    match holds(&job.data, "Complete") {
        Some(_) => State::well(format!("Complete, {succeeded} succeeded")),
        None => State::busy(format!("{} active, {succeeded} succeeded", number(&job.data, "/status/active"))),
    }
}

fn of_service(service: &DynamicObject) -> State {
    let ports: Vec<String> = items(&service.data, "/spec/ports")
        .map(|port| match number(port, "/nodePort") {
            0 => number(port, "/port").to_string(),
            open => format!("{}:{open}", number(port, "/port")),
        })
        .collect();
    let kind = match (text(&service.data, "/spec/type"), text(&service.data, "/spec/clusterIP")) {
        (_, "None") => "headless",
        (kind, _) => kind,
    };
    State::well(format!("{kind} {}", ports.join(", ")))
}

fn of_data(object: &DynamicObject) -> State {
    let keys: Vec<&str> = ["data", "binaryData"]
        .iter()
        .filter_map(|field| object.data.get(field)?.as_object())
        .flat_map(|data| data.keys().map(String::as_str))
        .collect();
    State::well(keys.join(", "))
}

/// Whether nobody misses it: a ReplicaSet that is only kept to go back to.
pub(super) fn is_past(object: &DynamicObject) -> bool {
    kind(object) == "ReplicaSet"
        && number(&object.data, "/spec/replicas") == 0
        && number(&object.data, "/status/replicas") == 0
}

/// How people call an object.
pub(super) fn called(object: &DynamicObject) -> String {
    format!("{} {}", kind(object), object.name_any())
}
