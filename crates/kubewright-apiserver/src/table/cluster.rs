//! Rows of the cluster itself: nodes, namespaces, events, leases, classes, flow control.

use std::{borrow::Cow, collections::BTreeSet};

use jiff::Timestamp;
use serde_json::Value;

use super::format::{
    NONE, UNKNOWN, UNSET, age, condition, list_with_more, name, number, or, qualified, row, scalar, since,
};
use crate::kinds::{
    access::{entries, get, get_bool, get_i64, get_str, has, items},
    events,
};

pub(super) fn node(node: &Value, now: Timestamp) -> Vec<Value> {
    let info = |field| get_str(node, &["status", "nodeInfo", field]);
    let mut status = match condition(node, "Ready") {
        None => "Unknown",
        Some(ready) if get_str(ready, &["status"]) == "True" => "Ready",
        Some(_) => "NotReady",
    }
    .to_owned();
    if get_bool(node, &["spec", "unschedulable"]) {
        status.push_str(",SchedulingDisabled");
    }
    let mut kernel = or(info("kernelVersion"), UNKNOWN).to_owned();
    if !info("architecture").is_empty() {
        kernel = format!("{kernel} ({})", info("architecture"));
    }
    row![
        name(node),
        status,
        or(&roles(node), NONE),
        age(node, now),
        info("kubeletVersion"),
        node_address(node, "InternalIP"),
        node_address(node, "ExternalIP"),
        or(info("osImage"), UNKNOWN),
        kernel,
        or(info("containerRuntimeVersion"), UNKNOWN),
    ]
}

fn roles(node: &Value) -> String {
    let roles: BTreeSet<&str> = entries(node, &["metadata", "labels"])
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None if key == "kubernetes.io/role" => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.into_iter().collect::<Vec<_>>().join(",")
}

fn node_address<'a>(node: &'a Value, kind: &str) -> &'a str {
    let addresses = items(node, &["status", "addresses"]);
    let found = addresses.iter().find(|address| get_str(address, &["type"]) == kind);
    found.map_or(NONE, |address| get_str(address, &["address"]))
}

pub(super) fn namespace(namespace: &Value, now: Timestamp) -> Vec<Value> {
    row![name(namespace), get_str(namespace, &["status", "phase"]), age(namespace, now)]
}

pub(super) fn component_status(component: &Value, _: Timestamp) -> Vec<Value> {
    let conditions = items(component, &["conditions"]);
    let healthy = conditions.iter().find(|condition| get_str(condition, &["type"]) == "Healthy");
    let (status, message, error) = healthy.map_or(("Unknown", "", ""), |healthy| {
        let status = if get_str(healthy, &["status"]) == "True" { "Healthy" } else { "Unhealthy" };
        (status, get_str(healthy, &["message"]), get_str(healthy, &["error"]))
    });
    row![name(component), status, message, error]
}

pub(super) fn event(event: &Value, now: Timestamp) -> Vec<Value> {
    let event = if get_str(event, &["apiVersion"]) == "events.k8s.io/v1" {
        let mut converted = event.clone();
        events::to_core(&mut converted);
        Cow::Owned(converted)
    } else {
        Cow::Borrowed(event)
    };
    let first = if has(&event, &["firstTimestamp"]) { "firstTimestamp" } else { "eventTime" };
    let last = if has(&event, &["lastTimestamp"]) { "lastTimestamp" } else { first };
    let (last_seen, count) = if has(&event, &["series"]) {
        (since(&event, &["series", "lastObservedTime"], now), number(&event, &["series", "count"]))
    } else {
        // An event of the newer API that happened once has no count.
        (since(&event, &[last], now), get_i64(&event, &["count"]).filter(|count| *count != 0).unwrap_or(1))
    };
    let kind = get_str(&event, &["involvedObject", "kind"]).to_lowercase();
    let target = match get_str(&event, &["involvedObject", "name"]) {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let component = or(get_str(&event, &["source", "component"]), get_str(&event, &["reportingComponent"]));
    let source = match or(get_str(&event, &["source", "host"]), get_str(&event, &["reportingInstance"])) {
        "" => component.to_owned(),
        instance => format!("{component}, {instance}"),
    };
    row![
        last_seen,
        get_str(&event, &["type"]),
        get_str(&event, &["reason"]),
        target,
        get_str(&event, &["involvedObject", "fieldPath"]),
        source,
        get_str(&event, &["message"]).trim(),
        since(&event, &[first], now),
        count,
        name(&event),
    ]
}

pub(super) fn lease(lease: &Value, now: Timestamp) -> Vec<Value> {
    row![name(lease), get_str(lease, &["spec", "holderIdentity"]), age(lease, now)]
}

pub(super) fn lease_candidate(candidate: &Value, now: Timestamp) -> Vec<Value> {
    let spec = |field| get_str(candidate, &["spec", field]);
    row![
        name(candidate),
        spec("leaseName"),
        spec("binaryVersion"),
        spec("emulationVersion"),
        age(candidate, now)
    ]
}

pub(super) fn priority_class(class: &Value, now: Timestamp) -> Vec<Value> {
    row![
        name(class),
        number(class, &["value"]),
        get_bool(class, &["globalDefault"]),
        age(class, now),
        get_str(class, &["preemptionPolicy"]),
    ]
}

pub(super) fn runtime_class(class: &Value, now: Timestamp) -> Vec<Value> {
    row![name(class), get_str(class, &["handler"]), age(class, now)]
}

pub(super) fn api_service(service: &Value, now: Timestamp) -> Vec<Value> {
    let host = get(service, &["spec", "service"]).map_or_else(
        || "Local".to_owned(),
        |host| format!("{}/{}", get_str(host, &["namespace"]), get_str(host, &["name"])),
    );
    let available = condition(service, "Available").map_or_else(
        || "Unknown".to_owned(),
        |available| match (get_str(available, &["status"]), get_str(available, &["reason"])) {
            ("True", _) => "True".to_owned(),
            (status, "") => status.to_owned(),
            (status, reason) => format!("{status} ({reason})"),
        },
    );
    row![name(service), host, available, age(service, now)]
}

pub(super) fn flow_schema(schema: &Value, now: Timestamp) -> Vec<Value> {
    row![
        name(schema),
        get_str(schema, &["spec", "priorityLevelConfiguration", "name"]),
        number(schema, &["spec", "matchingPrecedence"]),
        or(get_str(schema, &["spec", "distinguisherMethod", "type"]), NONE),
        age(schema, now),
        condition(schema, "Dangling").map_or("?", |dangling| get_str(dangling, &["status"])),
    ]
}

pub(super) fn priority_level_configuration(level: &Value, now: Timestamp) -> Vec<Value> {
    let limited = get(level, &["spec", "limited"]);
    let shares =
        limited.map_or_else(|| NONE.into(), |limited| number(limited, &["nominalConcurrencyShares"]).into());
    let queuing = limited.and_then(|limited| get(limited, &["limitResponse", "queuing"]));
    let queue = |field: &str| -> Value {
        queuing.map_or_else(|| NONE.into(), |queuing| number(queuing, &[field]).into())
    };
    vec![
        name(level),
        get_str(level, &["spec", "type"]).into(),
        shares,
        queue("queues"),
        queue("handSize"),
        queue("queueLengthLimit"),
        age(level, now).into(),
    ]
}

pub(super) fn storage_version(version: &Value, now: Timestamp) -> Vec<Value> {
    let servers: Vec<String> = items(version, &["status", "storageVersions"])
        .iter()
        .map(|server| {
            format!("{}={}", get_str(server, &["apiServerID"]), get_str(server, &["encodingVersion"]))
        })
        .collect();
    row![
        name(version),
        scalar(version, &["status", "commonEncodingVersion"]).unwrap_or_else(|| UNSET.to_owned()),
        list_with_more(&servers, 3),
        age(version, now),
    ]
}

pub(super) fn storage_version_migration(migration: &Value, _: Timestamp) -> Vec<Value> {
    let resource = |field| get_str(migration, &["spec", "resource", field]);
    let conditions = items(migration, &["status", "conditions"]);
    let state = conditions
        .iter()
        .filter(|condition| get_str(condition, &["status"]) == "True")
        .map(|condition| get_str(condition, &["type"]))
        .rfind(|kind| matches!(*kind, "Running" | "Failed" | "Succeeded"));
    row![name(migration), qualified(resource("resource"), resource("group")), state.unwrap_or("Unknown")]
}
