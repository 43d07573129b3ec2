//! Rows of configuration and permission: config maps, secrets, quotas, bindings, certificates, admission.

use jiff::Timestamp;
use serde_json::Value;

use super::format::{NONE, UNSET, age, human_duration, labels, name, or, quantity, row, strings};
use crate::kinds::access::{entries, get, get_i64, get_str, has, items};

pub(super) fn config_map(map: &Value, now: Timestamp) -> Vec<Value> {
    let count = entries(map, &["data"]).count() + entries(map, &["binaryData"]).count();
    row![name(map), count, age(map, now)]
}

pub(super) fn secret(secret: &Value, now: Timestamp) -> Vec<Value> {
    row![name(secret), get_str(secret, &["type"]), entries(secret, &["data"]).count(), age(secret, now)]
}

pub(super) fn resource_quota(quota: &Value, now: Timestamp) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, _) in entries(quota, &["status", "hard"]) {
        let used = quantity(quota, &["status", "used", resource]);
        let hard = quantity(quota, &["status", "hard", resource]);
        let column = if resource.starts_with("limits.") { &mut limits } else { &mut requests };
        column.push(format!("{resource}: {used}/{hard}"));
    }
    row![name(quota), requests.join(", "), limits.join(", "), age(quota, now)]
}

pub(super) fn role_binding(binding: &Value, now: Timestamp) -> Vec<Value> {
    let subjects = items(binding, &["subjects"]);
    let of = |kind: &str| {
        let list: Vec<String> = subjects
            .iter()
            .filter(|subject| get_str(subject, &["kind"]) == kind)
            .map(|subject| match kind {
                "ServiceAccount" => {
                    format!("{}/{}", get_str(subject, &["namespace"]), get_str(subject, &["name"]))
                }
                _ => get_str(subject, &["name"]).to_owned(),
            })
            .collect();
        list.join(", ")
    };
    let role =
        format!("{}/{}", get_str(binding, &["roleRef", "kind"]), get_str(binding, &["roleRef", "name"]));
    row![name(binding), role, age(binding, now), of("User"), of("Group"), of("ServiceAccount")]
}

pub(super) fn certificate_signing_request(request: &Value, now: Timestamp) -> Vec<Value> {
    let duration = get_i64(request, &["spec", "expirationSeconds"])
        .map_or_else(|| NONE.to_owned(), |seconds| human_duration(jiff::SignedDuration::from_secs(seconds)));
    row![
        name(request),
        age(request, now),
        or(get_str(request, &["spec", "signerName"]), NONE),
        get_str(request, &["spec", "username"]),
        duration,
        signing_status(request),
    ]
}

fn signing_status(request: &Value) -> String {
    let conditions = items(request, &["status", "conditions"]);
    let any = |kind: &str| conditions.iter().any(|condition| get_str(condition, &["type"]) == kind);
    let mut status = if any("Denied") {
        "Denied"
    } else if any("Approved") {
        "Approved"
    } else {
        "Pending"
    }
    .to_owned();
    if any("Failed") {
        status.push_str(",Failed");
    }
    if !get_str(request, &["status", "certificate"]).is_empty() {
        status.push_str(",Issued");
    }
    status
}

pub(super) fn cluster_trust_bundle(bundle: &Value, _: Timestamp) -> Vec<Value> {
    row![name(bundle), or(get_str(bundle, &["spec", "signerName"]), NONE)]
}

pub(super) fn pod_certificate_request(request: &Value, _: Timestamp) -> Vec<Value> {
    let spec = |field| get_str(request, &["spec", field]);
    let conditions = items(request, &["status", "conditions"]);
    let state = conditions
        .iter()
        .map(|condition| get_str(condition, &["type"]))
        .rfind(|kind| matches!(*kind, "Issued" | "Denied" | "Failed"));
    row![
        name(request),
        spec("podName"),
        spec("serviceAccountName"),
        spec("nodeName"),
        spec("signerName"),
        state.unwrap_or("Pending"),
        labels(request, &["spec", "unverifiedUserAnnotations"]),
    ]
}

pub(super) fn webhook_configuration(configuration: &Value, now: Timestamp) -> Vec<Value> {
    row![name(configuration), items(configuration, &["webhooks"]).len(), age(configuration, now)]
}

pub(super) fn validating_policy(policy: &Value, now: Timestamp) -> Vec<Value> {
    policy_row(policy, "validations", now)
}

pub(super) fn mutating_policy(policy: &Value, now: Timestamp) -> Vec<Value> {
    policy_row(policy, "mutations", now)
}

fn policy_row(policy: &Value, rules: &str, now: Timestamp) -> Vec<Value> {
    let param_kind = get(policy, &["spec", "paramKind"]).map_or_else(
        || UNSET.to_owned(),
        |kind| format!("{}/{}", get_str(kind, &["apiVersion"]), get_str(kind, &["kind"])),
    );
    row![name(policy), items(policy, &["spec", rules]).len(), param_kind, age(policy, now)]
}

pub(super) fn policy_binding(binding: &Value, now: Timestamp) -> Vec<Value> {
    let param = get(binding, &["spec", "paramRef"]).map_or_else(|| UNSET.to_owned(), param_ref);
    row![name(binding), get_str(binding, &["spec", "policyName"]), param, age(binding, now)]
}

fn param_ref(param: &Value) -> String {
    let (namespace, name) = (get_str(param, &["namespace"]), get_str(param, &["name"]));
    if !name.is_empty() {
        return format!("{}/{name}", or(namespace, "*"));
    }
    if !has(param, &["selector"]) {
        return UNSET.to_owned();
    }
    let labels: String = entries(param, &["selector", "matchLabels"])
        .map(|(key, value)| format!("{key}: {},", value.as_str().unwrap_or_default()))
        .collect();
    let expressions: String = items(param, &["selector", "matchExpressions"])
        .iter()
        .map(|expression| {
            let (key, operator) = (get_str(expression, &["key"]), get_str(expression, &["operator"]));
            let values = strings(expression, &["values"]).join(" ");
            format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},")
        })
        .collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}
