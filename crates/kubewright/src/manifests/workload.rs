//! What runs the operator: its namespace, its Deployment, and the way to its metrics. The pod asks for nothing
//! that the restricted Pod Security Standard forbids.

use serde_json::{Value, json};

use super::{ManifestOptions, Names};
use crate::operator::Operator;

const METRICS_PORT: u16 = 8080;
const HEALTH_PORT: u16 = 8081;

/// Longer than the grace that running reconciles get, so that the lease can be released after them.
const TERMINATION_SECONDS: u32 = 40;

pub(super) fn namespace(names: &Names<'_>) -> Value {
    let mut metadata = names.cluster(&names.namespace);
    metadata["labels"]["pod-security.kubernetes.io/enforce"] = json!("restricted");
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
}

pub(super) fn deployment(operator: &Operator, names: &Names<'_>, options: &ManifestOptions) -> Value {
    let image = options.image.clone().unwrap_or_else(|| {
        format!("{}:{}", operator.name(), operator.version.as_deref().unwrap_or("latest"))
    });
    let mut arguments = vec![
        "run".to_owned(),
        "--leader-elect".to_owned(),
        format!("--metrics-bind-address=:{METRICS_PORT}"),
        format!("--health-probe-bind-address=:{HEALTH_PORT}"),
    ];
    if !options.namespaces.is_empty() {
        arguments.push(format!("--namespace={}", options.namespaces.join(",")));
    }
    let container = json!({
        "name": "operator",
        "image": image,
        "args": arguments,
        "ports": [
            {"name": "metrics", "containerPort": METRICS_PORT},
            {"name": "health", "containerPort": HEALTH_PORT},
        ],
        "livenessProbe": {
            "httpGet": {"path": "/healthz", "port": "health"},
            "initialDelaySeconds": 15,
            "periodSeconds": 20,
        },
        "readinessProbe": {
            "httpGet": {"path": "/readyz", "port": "health"},
            "initialDelaySeconds": 5,
            "periodSeconds": 10,
        },
        "resources": {
            "requests": {"cpu": "10m", "memory": "64Mi"},
            "limits": {"cpu": "500m", "memory": "128Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": true,
        },
    });
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": names.own(names.operator),
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": names.selector()},
            "template": {
                "metadata": {
                    "annotations": {"kubectl.kubernetes.io/default-container": "operator"},
                    "labels": names.selector(),
                },
                "spec": {
                    "serviceAccountName": names.operator,
                    "terminationGracePeriodSeconds": TERMINATION_SECONDS,
                    "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
                    "containers": [container],
                },
            },
        },
    })
}

pub(super) fn metrics_service(names: &Names<'_>) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": names.own(format!("{}-metrics", names.operator)),
        "spec": {
            "selector": names.selector(),
            "ports": [{"name": "metrics", "port": METRICS_PORT, "protocol": "TCP", "targetPort": "metrics"}],
        },
    })
}

/// Metrics are for namespaces that are labelled `metrics: enabled`; probes come from the node and always pass.
pub(super) fn metrics_policy(names: &Names<'_>) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": names.own(format!("{}-metrics", names.operator)),
        "spec": {
            "podSelector": {"matchLabels": names.selector()},
            "policyTypes": ["Ingress"],
            "ingress": [{
                "from": [{"namespaceSelector": {"matchLabels": {"metrics": "enabled"}}}],
                "ports": [{"port": METRICS_PORT, "protocol": "TCP"}],
            }],
        },
    })
}
