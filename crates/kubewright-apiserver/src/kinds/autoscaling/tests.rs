use serde_json::{Value, json};

use super::*;

fn autoscaler(spec: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"},
        "spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}},
    });
    for (name, value) in spec.as_object().unwrap() {
        object["spec"][name] = value.clone();
    }
    object
}

fn texts(spec: &Value) -> Vec<String> {
    let mut object = autoscaler(spec);
    default(&mut object);
    validate(&object, None).iter().map(ToString::to_string).collect()
}

#[test]
fn an_autoscaler_without_metrics_looks_at_the_cpu() {
    let mut object = autoscaler(&json!({"behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}}}));
    default(&mut object);
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    assert_eq!(
        object["spec"],
        json!({
            "behavior": {
                "scaleDown": {"policies": [percent], "selectPolicy": "Max", "stabilizationWindowSeconds": 60},
                "scaleUp": {
                    "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, percent],
                    "selectPolicy": "Max", "stabilizationWindowSeconds": 0,
                },
            },
            "maxReplicas": 3, "minReplicas": 1,
            "metrics": [{"type": "Resource", "resource": {
                "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80},
            }}],
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
        })
    );
    assert!(validate(&object, None).is_empty());
}

#[test]
fn limits_targets_and_metrics_are_checked() {
    assert_eq!(
        texts(&json!({"maxReplicas": 0})),
        [
            "spec.maxReplicas: Required value: must be set and greater than 0",
            "spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`",
        ]
    );
    assert_eq!(
        texts(&json!({"minReplicas": 0})),
        [
            "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1",
            "spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to zero replicas",
        ]
    );
    assert_eq!(
        texts(&json!({"scaleTargetRef": {"kind": "Deployment", "name": "a/b"}})),
        [
            "spec.scaleTargetRef.name: Invalid value: \"a/b\": may not contain '/'",
            "spec.scaleTargetRef.apiVersion: Invalid value: \"\": apiVersion must specify API group",
        ]
    );
    assert_eq!(
        texts(
            &json!({"metrics": [{"type": "Pods", "resource": {"name": "cpu", "target": {"type": "Odd"}}}]})
        ),
        [
            "spec.metrics[0].resource.target.type: Invalid value: \"Odd\": must be either Utilization, Value, or AverageValue",
            "spec.metrics[0].resource.target.averageUtilization: Required value: must set either a target raw value or a target utilization",
            "spec.metrics[0].pods: Required value: must populate information for the given metric source",
        ]
    );
}

#[test]
fn nothing_is_lost_on_the_way_through_the_old_version() {
    let mut object = autoscaler(&json!({
        "behavior": {"scaleUp": {"selectPolicy": "Min"}},
        "metrics": [
            {"type": "Object", "object": {
                "describedObject": {"kind": "Service", "name": "s", "apiVersion": "v1"},
                "metric": {"name": "requests"}, "target": {"type": "Value", "value": "10"},
            }},
            {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}},
        ],
    }));
    default(&mut object);
    object["status"] = json!({
        "conditions": [{"type": "AbleToScale", "status": "True"}],
        "currentMetrics": [{"type": "Resource", "resource": {
            "name": "cpu", "current": {"averageUtilization": 7, "averageValue": "3m"},
        }}],
        "desiredReplicas": 1,
    });
    let mut converted = object.clone();
    v2_to_v1(&mut converted);
    assert_eq!(
        converted["spec"],
        json!({
            "maxReplicas": 3, "minReplicas": 1, "targetCPUUtilizationPercentage": 50,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
        })
    );
    assert_eq!(converted["status"], json!({"currentCPUUtilizationPercentage": 7, "desiredReplicas": 1}));
    assert_eq!(
        converted["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/metrics"],
        "[{\"object\":{\"metricName\":\"requests\",\"target\":{\"apiVersion\":\"v1\",\"kind\":\"Service\",\"name\":\"s\"},\"targetValue\":\"10\"},\"type\":\"Object\"}]"
    );
    v1_to_v2(&mut converted);
    assert_eq!(converted, object);
}

#[test]
fn garbage_in_the_annotations_of_the_old_version_is_ignored() {
    let mut object = json!({
        "apiVersion": "autoscaling/v1", "spec": {"maxReplicas": 1},
        "metadata": {"annotations": {"a": "b", "autoscaling.alpha.kubernetes.io/metrics": "[7,{]"}},
    });
    v1_to_v2(&mut object);
    assert_eq!(object["spec"]["metrics"], default_metrics());
    assert_eq!(object["metadata"]["annotations"], json!({"a": "b"}));
}
