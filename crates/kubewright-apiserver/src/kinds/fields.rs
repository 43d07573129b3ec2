//! Field selectors: which fields of a kind a list or watch may be limited by, and their values.
//!
//! Every kind can be selected by name, and if it has namespaces, by namespace; a few have more. Asking for
//! any other field is an error, never ignored.

use std::borrow::Cow;

use serde_json::Value;

use super::access::{get, get_bool, get_i64, get_str, items};
use crate::error::ApiError;

const NAME: &str = "metadata.name";
const NAMESPACE: &str = "metadata.namespace";

const EVENT: &[&str] = &[
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
    NAMESPACE,
    NAME,
];

const EVENT_V1: &[&str] = &[
    "reason",
    "regarding.kind",
    "regarding.namespace",
    "regarding.name",
    "regarding.uid",
    "regarding.apiVersion",
    "regarding.resourceVersion",
    "regarding.fieldPath",
    "reportingController",
    "type",
    NAMESPACE,
    NAME,
];

const POD: &[&str] = &[
    NAME,
    NAMESPACE,
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.podIPs",
    "status.nominatedNodeName",
    // The name of old for spec.nodeName.
    "spec.host",
];

/// The fields a built-in kind can be selected by.
pub(crate) fn supported(group: &str, kind: &str) -> &'static [&'static str] {
    match (group, kind) {
        ("", "Event") => EVENT,
        ("events.k8s.io", "Event") => EVENT_V1,
        ("", "Namespace") => &["status.phase", NAME],
        ("", "Node") => &[NAME, "spec.unschedulable"],
        ("", "Pod") => POD,
        ("", "ReplicationController") => &[NAME, NAMESPACE, "status.replicas"],
        ("", "Secret") => &["type", NAMESPACE, NAME],
        ("", "Service") => &[NAMESPACE, NAME, "spec.clusterIP", "spec.type"],
        ("batch", "Job") => &[NAME, NAMESPACE, "status.successful"],
        ("certificates.k8s.io", "CertificateSigningRequest") => &[NAME, "spec.signerName"],
        ("resource.k8s.io", "ResourceSlice") => &[NAME, "spec.nodeName", "spec.driver"],
        _ => &[NAME, NAMESPACE],
    }
}

/// Refuses a field that a built-in kind can't be selected by, in the kind's own words.
pub(crate) fn check(group: &str, version: &str, kind: &str, field: &str) -> Result<(), ApiError> {
    let supported = supported(group, kind);
    if supported.contains(&field) {
        return Ok(());
    }
    Err(ApiError::bad_request(match (group, kind) {
        ("batch", "Job") => format!("field label \"{field}\" not supported for Job"),
        ("resource.k8s.io", "ResourceSlice") => {
            format!("field label not supported for {group}/{version}, Kind={kind}: {field}")
        }
        _ if supported == [NAME, NAMESPACE] => {
            format!("\"{field}\" is not a known field selector: only \"{NAME}\", \"{NAMESPACE}\"")
        }
        _ => format!("field label not supported: {field}"),
    }))
}

/// The values of the fields `object` can be selected by; absent fields have the value they default to.
pub(crate) fn selectable(group: &str, kind: &str, object: &Value) -> Vec<(&'static str, String)> {
    let value = |field: &&'static str| (*field, value(group, kind, object, field).into_owned());
    supported(group, kind).iter().map(value).collect()
}

/// The value of one of the [`supported`] fields, which is all that a watch has to know of an object.
pub(crate) fn value<'a>(group: &str, kind: &str, object: &'a Value, field: &str) -> Cow<'a, str> {
    let number = |path: &[&str]| get_i64(object, path).unwrap_or_default().to_string().into();
    match (group, kind, field) {
        ("" | "events.k8s.io", "Event", _) => event(object, field).into(),
        ("batch", "Job", "status.successful") => number(&["status", "succeeded"]),
        ("", "ReplicationController", "status.replicas") => number(&["status", "replicas"]),
        ("", "Node", "spec.unschedulable") => get_bool(object, &["spec", "unschedulable"]).to_string().into(),
        ("", "Pod", "spec.hostNetwork") => get_bool(object, &["spec", "hostNetwork"]).to_string().into(),
        ("", "Pod", "spec.host") => get_str(object, &["spec", "nodeName"]).into(),
        ("", "Pod", "status.podIP") => {
            let first = items(object, &["status", "podIPs"]).first();
            first.map_or("", |address| get_str(address, &["ip"])).into()
        }
        // Accepted, but without a value on the real server, too.
        ("", "Pod", "status.podIPs") => "".into(),
        _ => match field.split_once('.') {
            Some((parent, name)) => get_str(object, &[parent, name]).into(),
            None => get_str(object, &[field]).into(),
        },
    }
}

/// A field of an event, which may be in the shape of either group.
fn event<'a>(object: &'a Value, field: &str) -> &'a str {
    let either = |core: &[&str], newer: &[&str]| {
        get(object, core).or_else(|| get(object, newer)).and_then(Value::as_str).unwrap_or_default()
    };
    let reporter = || either(&["reportingComponent"], &["reportingController"]);
    match field.split_once('.') {
        Some(("metadata", name)) => get_str(object, &["metadata", name]),
        Some((_, name)) => either(&["involvedObject", name], &["regarding", name]),
        None if field == "source" => {
            match either(&["source", "component"], &["deprecatedSource", "component"]) {
                "" => reporter(),
                component => component,
            }
        }
        None if matches!(field, "reportingComponent" | "reportingController") => reporter(),
        None => get_str(object, &[field]),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(group: &str, kind: &str, object: &Value, field: &str) -> String {
        let values = selectable(group, kind, object);
        values.into_iter().find(|(name, _)| *name == field).expect("a supported field has a value").1
    }

    #[test]
    fn absent_fields_have_their_default_as_value() {
        assert_eq!(of("", "Node", &json!({}), "spec.unschedulable"), "false");
        assert_eq!(of("", "Pod", &json!({}), "spec.hostNetwork"), "false");
        assert_eq!(of("batch", "Job", &json!({}), "status.successful"), "0");
        assert_eq!(of("", "Secret", &json!({}), "type"), "");
    }

    #[test]
    fn fields_are_read_from_where_they_are() {
        let pod = json!({
            "metadata": {"name": "p", "namespace": "n"}, "spec": {"nodeName": "node", "hostNetwork": true},
            "status": {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}]},
        });
        assert_eq!(of("", "Pod", &pod, "metadata.namespace"), "n");
        assert_eq!(of("", "Pod", &pod, "spec.host"), "node");
        assert_eq!(of("", "Pod", &pod, "spec.hostNetwork"), "true");
        assert_eq!(of("", "Pod", &pod, "status.podIP"), "10.0.0.1");
        let event = json!({"involvedObject": {"kind": "Pod"}, "reportingComponent": "c"});
        assert_eq!(of("", "Event", &event, "source"), "c");
        assert_eq!(of("events.k8s.io", "Event", &event, "regarding.kind"), "Pod");
        assert_eq!(of("events.k8s.io", "Event", &event, "reportingController"), "c");
    }

    #[test]
    fn a_field_that_is_not_supported_is_refused_in_the_words_of_its_kind() {
        let refused = |group, kind| check(group, "v1", kind, "spec.x").unwrap_err().message;
        assert_eq!(refused("", "Pod"), "field label not supported: spec.x");
        assert_eq!(refused("batch", "Job"), "field label \"spec.x\" not supported for Job");
        assert_eq!(
            refused("", "ConfigMap"),
            "\"spec.x\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        );
        assert!(check("", "v1", "Node", "metadata.namespace").is_err());
        assert!(check("", "v1", "Pod", "spec.nodeName").is_ok());
    }
}
