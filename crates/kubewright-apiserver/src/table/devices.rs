//! Rows of dynamic resource allocation: claims, slices, taints, pool status.

use jiff::Timestamp;
use serde_json::Value;

use super::format::{NONE, age, name, number, row, since};
use crate::kinds::access::{get, get_str, has, items};

pub(super) fn resource_claim(claim: &Value, now: Timestamp) -> Vec<Value> {
    let mut states = Vec::new();
    let deleted = has(claim, &["metadata", "deletionTimestamp"]);
    if deleted {
        states.push("deleted");
    }
    if has(claim, &["status", "allocation"]) {
        states.push("allocated");
        if !items(claim, &["status", "reservedFor"]).is_empty() {
            states.push("reserved");
        }
    } else if !deleted {
        states.push("pending");
    }
    row![name(claim), states.join(","), age(claim, now)]
}

pub(super) fn resource_slice(slice: &Value, now: Timestamp) -> Vec<Value> {
    row![
        name(slice),
        get_str(slice, &["spec", "nodeName"]),
        get_str(slice, &["spec", "driver"]),
        get_str(slice, &["spec", "pool", "name"]),
        age(slice, now),
    ]
}

pub(super) fn device_taint_rule(rule: &Value, now: Timestamp) -> Vec<Value> {
    let taint = |field| get_str(rule, &["spec", "taint", field]);
    let added: &[&str] = &["spec", "taint", "timeAdded"];
    let since_added = if has(rule, added) { since(rule, added, now) } else { String::new() };
    row![name(rule), taint("key"), taint("value"), taint("effect"), since_added, age(rule, now)]
}

pub(super) fn resource_pool_status_request(request: &Value, now: Timestamp) -> Vec<Value> {
    let pools = items(request, &["status", "pools"]);
    let pool_count = number(request, &["status", "poolCount"]);
    let decided = items(request, &["status", "conditions"]).iter().find(|condition| {
        matches!(get_str(condition, &["type"]), "Complete" | "Failed")
            && get_str(condition, &["status"]) == "True"
    });
    let outcome = decided.map_or("Pending", |condition| get_str(condition, &["type"]));
    let failed = outcome == "Failed";
    let counted = |count: &dyn Fn(&Value) -> i64| {
        if failed || get(request, &["status"]).is_none() {
            "-".to_owned()
        } else {
            pools.iter().map(count).fold(0_i64, i64::saturating_add).to_string()
        }
    };
    let sum = |field: &str| counted(&|pool: &Value| number(pool, &[field]));
    let listed = i64::try_from(pools.len()).unwrap_or(i64::MAX);
    let status = if outcome == "Complete" && pool_count > listed {
        format!("Complete ({listed}/{pool_count} pools)")
    } else {
        outcome.to_owned()
    };
    let completed = match decided {
        Some(condition) if !failed => since(condition, &["lastTransitionTime"], now),
        _ => NONE.to_owned(),
    };
    row![
        name(request),
        get_str(request, &["spec", "driver"]),
        sum("totalDevices"),
        sum("availableDevices"),
        sum("allocatedDevices"),
        sum("unavailableDevices"),
        counted(&|pool: &Value| i64::from(has(pool, &["validationError"]))),
        pool_count,
        status,
        completed,
    ]
}
