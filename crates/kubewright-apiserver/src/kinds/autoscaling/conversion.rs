//! Autoscalers from one version to the other without loss.
//!
//! `autoscaling/v1` knows CPU utilization only. Other metrics, the behaviour, current metrics and conditions
//! travel as JSON in annotations, in shapes of their own.

use serde_json::{Map, Value, json};

use super::{default_metrics, is_cpu_utilization};
use crate::kinds::access::{ensure_object, get, get_i64, get_mut, get_str, has, items, remove, set};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const ANNOTATIONS: [&str; 6] = [
    METRICS,
    CURRENT_METRICS,
    CONDITIONS,
    BEHAVIOR,
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
];

/// A field of a metric in the annotations of v1, and where it is in v2.
type Fields = &'static [(&'static str, &'static [&'static str])];

const SPECS: [(&str, Fields); 5] = [
    (
        "object",
        &[
            ("target", &["describedObject"]),
            ("metricName", &["metric", "name"]),
            ("selector", &["metric", "selector"]),
            ("targetValue", &["target", "value"]),
            ("averageValue", &["target", "averageValue"]),
        ],
    ),
    (
        "pods",
        &[
            ("metricName", &["metric", "name"]),
            ("selector", &["metric", "selector"]),
            ("targetAverageValue", &["target", "averageValue"]),
        ],
    ),
    (
        "resource",
        &[
            ("name", &["name"]),
            ("targetAverageUtilization", &["target", "averageUtilization"]),
            ("targetAverageValue", &["target", "averageValue"]),
        ],
    ),
    (
        "containerResource",
        &[
            ("name", &["name"]),
            ("container", &["container"]),
            ("targetAverageUtilization", &["target", "averageUtilization"]),
            ("targetAverageValue", &["target", "averageValue"]),
        ],
    ),
    (
        "external",
        &[
            ("metricName", &["metric", "name"]),
            ("metricSelector", &["metric", "selector"]),
            ("targetValue", &["target", "value"]),
            ("targetAverageValue", &["target", "averageValue"]),
        ],
    ),
];

const STATUSES: [(&str, Fields); 5] = [
    (
        "object",
        &[
            ("target", &["describedObject"]),
            ("metricName", &["metric", "name"]),
            ("selector", &["metric", "selector"]),
            ("currentValue", &["current", "value"]),
            ("averageValue", &["current", "averageValue"]),
        ],
    ),
    (
        "pods",
        &[
            ("metricName", &["metric", "name"]),
            ("selector", &["metric", "selector"]),
            ("currentAverageValue", &["current", "averageValue"]),
        ],
    ),
    (
        "resource",
        &[
            ("name", &["name"]),
            ("currentAverageUtilization", &["current", "averageUtilization"]),
            ("currentAverageValue", &["current", "averageValue"]),
        ],
    ),
    (
        "containerResource",
        &[
            ("name", &["name"]),
            ("container", &["container"]),
            ("currentAverageUtilization", &["current", "averageUtilization"]),
            ("currentAverageValue", &["current", "averageValue"]),
        ],
    ),
    (
        "external",
        &[
            ("metricName", &["metric", "name"]),
            ("metricSelector", &["metric", "selector"]),
            ("currentValue", &["current", "value"]),
            ("currentAverageValue", &["current", "averageValue"]),
        ],
    ),
];

/// Turns an `autoscaling/v1` autoscaler into the `autoscaling/v2` one it is stored as.
pub(crate) fn v1_to_v2(object: &mut Value) {
    set(object, &["apiVersion"], "autoscaling/v2");
    let mut metrics: Vec<Value> = annotation(object, METRICS)
        .as_array()
        .into_iter()
        .flatten()
        .map(|metric| with_target_type(translate(metric, &SPECS, widen)))
        .collect();
    if let Some(percent) = remove(object, &["spec", "targetCPUUtilizationPercentage"]) {
        let target = json!({"type": "Utilization", "averageUtilization": percent});
        metrics.push(json!({"type": "Resource", "resource": {"name": "cpu", "target": target}}));
    }
    let metrics = if metrics.is_empty() { default_metrics() } else { Value::Array(metrics) };
    set(object, &["spec", "metrics"], metrics);

    if let Value::Object(behavior) = rename(annotation(object, BEHAVIOR), lower_first)
        && !behavior.is_empty()
    {
        set(object, &["spec", "behavior"], behavior);
    }
    let utilization = remove(object, &["status", "currentCPUUtilizationPercentage"]);
    if let Value::Array(current) = annotation(object, CURRENT_METRICS) {
        let current: Vec<Value> = current.iter().map(|metric| translate(metric, &STATUSES, widen)).collect();
        set(object, &["status", "currentMetrics"], current);
    } else if let Some(percent) = utilization {
        let resource = json!({"name": "cpu", "current": {"averageUtilization": percent}});
        set(object, &["status", "currentMetrics"], json!([{"type": "Resource", "resource": resource}]));
    }
    if let Value::Array(conditions) = annotation(object, CONDITIONS) {
        set(object, &["status", "conditions"], conditions);
    }
    drop_annotations(object);
}

/// Turns an `autoscaling/v2` autoscaler into an `autoscaling/v1` one.
pub(crate) fn v2_to_v1(object: &mut Value) {
    set(object, &["apiVersion"], "autoscaling/v1");
    drop_annotations(object);
    let metrics = remove(object, &["spec", "metrics"]).unwrap_or_default();
    let (cpu, others): (Vec<&Value>, Vec<&Value>) =
        metrics.as_array().into_iter().flatten().partition(|metric| is_cpu_utilization(metric));
    if let Some(percent) =
        cpu.first().and_then(|metric| get_i64(metric, &["resource", "target", "averageUtilization"]))
    {
        set(object, &["spec", "targetCPUUtilizationPercentage"], percent);
    }
    let others: Vec<Value> = others.into_iter().map(|metric| translate(metric, &SPECS, narrow)).collect();
    annotate(object, METRICS, Value::Array(others));

    let behavior = remove(object, &["spec", "behavior"]).unwrap_or_default();
    annotate(object, BEHAVIOR, rename(behavior, upper_first));
    let current = remove(object, &["status", "currentMetrics"]).unwrap_or_default();
    for metric in items(&current, &[]) {
        let cpu = get_str(metric, &["resource", "name"]) == "cpu" && get_str(metric, &["type"]) == "Resource";
        if let Some(percent) = get_i64(metric, &["resource", "current", "averageUtilization"]).filter(|_| cpu)
        {
            set(object, &["status", "currentCPUUtilizationPercentage"], percent);
        }
    }
    let current: Vec<Value> =
        items(&current, &[]).iter().map(|metric| translate(metric, &STATUSES, narrow)).collect();
    annotate(object, CURRENT_METRICS, Value::Array(current));
    let conditions = remove(object, &["status", "conditions"]).unwrap_or_default();
    annotate(object, CONDITIONS, conditions);
}

/// What an annotation holds; `null` if there is none or it is not JSON.
fn annotation(object: &Value, name: &str) -> Value {
    serde_json::from_str(get_str(object, &["metadata", "annotations", name])).unwrap_or_default()
}

fn annotate(object: &mut Value, name: &str, value: Value) {
    let empty = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    if !empty {
        set(object, &["metadata", "annotations", name], value.to_string());
    }
}

fn drop_annotations(object: &mut Value) {
    if let Some(Value::Object(annotations)) = get_mut(object, &["metadata", "annotations"]) {
        annotations.retain(|name, _| !ANNOTATIONS.contains(&name.as_str()));
        if annotations.is_empty() {
            ensure_object(object, &["metadata"]).remove("annotations");
        }
    }
}

fn translate(metric: &Value, sources: &[(&str, Fields)], direction: fn(&Value, Fields) -> Value) -> Value {
    let mut out = json!({"type": get_str(metric, &["type"])});
    for (source, fields) in sources {
        if let Some(described) = get(metric, &[source]) {
            out[*source] = direction(described, fields);
        }
    }
    out
}

fn widen(source: &Value, fields: Fields) -> Value {
    let mut out = json!({});
    for (flat, path) in fields {
        if let Some(value) = get(source, &[flat]) {
            set(&mut out, path, value.clone());
        }
    }
    out
}

fn narrow(source: &Value, fields: Fields) -> Value {
    let mut out = json!({});
    for (flat, path) in fields {
        if let Some(value) = get(source, path) {
            set(&mut out, &[flat], value.clone());
        }
    }
    out
}

/// v1 does not write down what kind of target a metric has; it follows from what is given.
fn with_target_type(mut metric: Value) -> Value {
    for (source, _) in SPECS {
        if !has(&metric, &[source]) {
            continue;
        }
        let given = |field| has(&metric, &[source, "target", field]);
        let kind = match source {
            "resource" | "containerResource" if given("averageUtilization") => "Utilization",
            "object" if !given("averageValue") => "Value",
            "external" if given("value") => "Value",
            _ => "AverageValue",
        };
        set(&mut metric, &[source, "target", "type"], kind);
    }
    metric
}

/// The behaviour is written down with the names of Go's fields; a `null` stands for nothing.
fn rename(value: Value, name: fn(&str) -> String) -> Value {
    match value {
        Value::Object(map) => {
            let renamed: Map<String, Value> = map
                .into_iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| (name(&key), rename(value, name)))
                .collect();
            Value::Object(renamed)
        }
        Value::Array(list) => Value::Array(list.into_iter().map(|item| rename(item, name)).collect()),
        scalar => scalar,
    }
}

fn lower_first(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

fn upper_first(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
