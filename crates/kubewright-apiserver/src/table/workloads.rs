//! Rows of what runs pods: controllers, jobs, autoscalers, disruption budgets, pod groups.

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::Value;

use super::format::{
    NONE, UNKNOWN, UNSET, age, condition, condition_is_true, containers, human_duration, labels, name,
    number, or, qualified, row, scalar, selector, selector_or_none, since, time,
};
use crate::kinds::{
    access::{get, get_bool, get_i64, get_str, has, items},
    autoscaling,
};

const CONTAINERS: &[&str] = &["spec", "template", "spec", "containers"];
const SELECTOR: &[&str] = &["spec", "selector"];

fn status(object: &Value, field: &str) -> i64 {
    number(object, &["status", field])
}

fn replicas(object: &Value) -> i64 {
    number(object, &["spec", "replicas"])
}

pub(super) fn replication_controller(object: &Value, now: Timestamp) -> Vec<Value> {
    replicas_row(object, now, labels(object, SELECTOR))
}

pub(super) fn replica_set(object: &Value, now: Timestamp) -> Vec<Value> {
    replicas_row(object, now, selector_or_none(object, SELECTOR))
}

fn replicas_row(object: &Value, now: Timestamp, selector: String) -> Vec<Value> {
    let (names, images) = containers(object, CONTAINERS);
    row![
        name(object),
        replicas(object),
        status(object, "replicas"),
        status(object, "readyReplicas"),
        age(object, now),
        names,
        images,
        selector,
    ]
}

pub(super) fn daemon_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let (names, images) = containers(object, CONTAINERS);
    row![
        name(object),
        status(object, "desiredNumberScheduled"),
        status(object, "currentNumberScheduled"),
        status(object, "numberReady"),
        status(object, "updatedNumberScheduled"),
        status(object, "numberAvailable"),
        labels(object, &["spec", "template", "spec", "nodeSelector"]),
        age(object, now),
        names,
        images,
        selector_or_none(object, SELECTOR),
    ]
}

pub(super) fn deployment(object: &Value, now: Timestamp) -> Vec<Value> {
    let (names, images) = containers(object, CONTAINERS);
    row![
        name(object),
        format!("{}/{}", status(object, "readyReplicas"), replicas(object)),
        status(object, "updatedReplicas"),
        status(object, "availableReplicas"),
        age(object, now),
        names,
        images,
        selector(object, SELECTOR).unwrap_or_else(|| "<invalid>".to_owned()),
    ]
}

pub(super) fn stateful_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let (names, images) = containers(object, CONTAINERS);
    let ready = format!("{}/{}", status(object, "readyReplicas"), replicas(object));
    row![name(object), ready, age(object, now), names, images]
}

pub(super) fn controller_revision(object: &Value, now: Timestamp) -> Vec<Value> {
    let owners = items(object, &["metadata", "ownerReferences"]);
    let controller = owners.iter().find(|owner| get_bool(owner, &["controller"]));
    let shown = controller.map_or_else(
        || NONE.to_owned(),
        |owner| {
            let group = get_str(owner, &["apiVersion"]).rsplit_once('/').map_or("", |(group, _)| group);
            let kind = qualified(get_str(owner, &["kind"]), group).to_lowercase();
            format!("{kind}/{}", get_str(owner, &["name"]))
        },
    );
    row![name(object), shown, number(object, &["revision"]), age(object, now)]
}

pub(super) fn job(object: &Value, now: Timestamp) -> Vec<Value> {
    let succeeded = status(object, "succeeded");
    let completions =
        match (get_i64(object, &["spec", "completions"]), number(object, &["spec", "parallelism"])) {
            (Some(completions), _) => format!("{succeeded}/{completions}"),
            (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
            _ => format!("{succeeded}/1"),
        };
    let end = time(object, &["status", "completionTime"]).unwrap_or(now);
    let duration = time(object, &["status", "startTime"])
        .map_or_else(String::new, |start| human_duration(end.duration_since(start)));
    let (names, images) = containers(object, CONTAINERS);
    row![
        name(object),
        job_status(object),
        completions,
        duration,
        age(object, now),
        names,
        images,
        selector_or_none(object, SELECTOR),
    ]
}

fn job_status(object: &Value) -> &'static str {
    let first_true =
        |kinds: &[&'static str]| kinds.iter().copied().find(|kind| condition_is_true(object, kind));
    if let Some(finished) = first_true(&["Complete", "Failed"]) {
        return finished;
    }
    if has(object, &["metadata", "deletionTimestamp"]) {
        return "Terminating";
    }
    first_true(&["Suspended", "FailureTarget", "SuccessCriteriaMet"]).unwrap_or("Running")
}

pub(super) fn cron_job(object: &Value, now: Timestamp) -> Vec<Value> {
    let last_schedule: &[&str] = &["status", "lastScheduleTime"];
    let (names, images) =
        containers(object, &["spec", "jobTemplate", "spec", "template", "spec", "containers"]);
    let suspend = match get(object, &["spec", "suspend"]).and_then(Value::as_bool) {
        Some(true) => "True",
        Some(false) => "False",
        None => UNSET,
    };
    row![
        name(object),
        get_str(object, &["spec", "schedule"]),
        get(object, &["spec", "timeZone"]).and_then(Value::as_str).unwrap_or(NONE),
        suspend,
        items(object, &["status", "active"]).len(),
        if has(object, last_schedule) { since(object, last_schedule, now) } else { NONE.to_owned() },
        age(object, now),
        names,
        images,
        selector_or_none(object, &["spec", "jobTemplate", "spec", "selector"]),
    ]
}

pub(super) fn pod_disruption_budget(object: &Value, now: Timestamp) -> Vec<Value> {
    let limit = |field| scalar(object, &["spec", field]).unwrap_or_else(|| "N/A".to_owned());
    row![
        name(object),
        limit("minAvailable"),
        limit("maxUnavailable"),
        status(object, "disruptionsAllowed"),
        age(object, now),
    ]
}

pub(super) fn scale(object: &Value, now: Timestamp) -> Vec<Value> {
    row![name(object), replicas(object), status(object, "replicas"), age(object, now)]
}

pub(super) fn horizontal_pod_autoscaler(object: &Value, now: Timestamp) -> Vec<Value> {
    let object = if get_str(object, &["apiVersion"]) == "autoscaling/v1" {
        let mut converted = object.clone();
        autoscaling::v1_to_v2(&mut converted);
        Cow::Owned(converted)
    } else {
        Cow::Borrowed(object)
    };
    let target = |field| get_str(&object, &["spec", "scaleTargetRef", field]);
    row![
        name(&object),
        format!("{}/{}", target("kind"), target("name")),
        metrics(items(&object, &["spec", "metrics"]), items(&object, &["status", "currentMetrics"])),
        scalar(&object, &["spec", "minReplicas"]).unwrap_or_else(|| UNSET.to_owned()),
        number(&object, &["spec", "maxReplicas"]),
        status(&object, "currentReplicas"),
        age(&object, now),
    ]
}

/// Current over target of the first two metrics.
fn metrics(specs: &[Value], statuses: &[Value]) -> String {
    const SHOWN: usize = 2;
    if specs.is_empty() {
        return NONE.to_owned();
    }
    let list: Vec<String> =
        specs.iter().take(SHOWN).enumerate().map(|(index, spec)| metric(spec, statuses.get(index))).collect();
    let shown = list.join(", ");
    if specs.len() > SHOWN { format!("{shown} + {} more...", specs.len() - SHOWN) } else { shown }
}

fn metric(spec: &Value, status: Option<&Value>) -> String {
    let source = match get_str(spec, &["type"]) {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let reported = status.and_then(|status| get(status, &[source]));
    let current = |field| reported.and_then(|reported| scalar(reported, &["current", field]));
    let target = |field| scalar(spec, &[source, "target", field]);
    let unknown = || UNKNOWN.to_owned();
    // A metric that is reported without the value asked for shows what Go prints for a missing quantity.
    let nil = || if reported.is_some() { "<nil>".to_owned() } else { unknown() };
    let average = target("averageValue");
    match (source, average) {
        ("external" | "object", Some(average)) => {
            format!("{}/{average} (avg)", current("averageValue").unwrap_or_else(unknown))
        }
        ("external" | "object", None) => {
            let value = target("value").unwrap_or_else(|| "<nil>".to_owned());
            format!("{}/{value}", current("value").unwrap_or_else(nil))
        }
        ("pods", average) => {
            let average = average.unwrap_or_else(|| "<nil>".to_owned());
            format!("{}/{average}", current("averageValue").unwrap_or_else(nil))
        }
        (_, Some(average)) => {
            let resource = get_str(spec, &[source, "name"]);
            format!("{resource}: {}/{average}", current("averageValue").unwrap_or_else(nil))
        }
        (_, None) => {
            let percent = |number: String| format!("{number}%");
            let now = current("averageUtilization").map_or_else(unknown, percent);
            let aim = target("averageUtilization").map_or_else(|| "<auto>".to_owned(), percent);
            format!("{}: {now}/{aim}", get_str(spec, &[source, "name"]))
        }
    }
}

pub(super) fn pod_group(object: &Value, now: Timestamp) -> Vec<Value> {
    let policy = if has(object, &["spec", "schedulingPolicy", "gang"]) { "Gang" } else { "Basic" };
    let status = if let Some(disrupted) = condition(object, "DisruptionTarget") {
        get_str(disrupted, &["reason"])
    } else if condition(object, "PodGroupScheduled").is_none() {
        "Pending"
    } else if condition_is_true(object, "PodGroupScheduled") {
        "Scheduled"
    } else {
        "Unschedulable"
    };
    let workload = get_str(object, &["spec", "podGroupTemplateRef", "workload", "workloadName"]);
    row![name(object), policy, or(workload, NONE), status, age(object, now)]
}
