//! What runs the operator: its namespace, its Deployment, and the way to its metrics. The pod asks for nothing
//! that the restricted Pod Security Standard forbids.

use serde_json::{Value, json};

use super::{ManifestOptions, Names};
use crate::{operator::Operator, webhook};

const METRICS_PORT: u16 = 8080;
const SECURE_METRICS_PORT: u16 = 8443;
const HEALTH_PORT: u16 = 8081;

/// Longer than the grace that running reconciles get, so that the lease can be released after them.
const TERMINATION_SECONDS: u32 = 40;

fn metrics_port(options: &ManifestOptions) -> u16 {
    if options.secure_metrics { SECURE_METRICS_PORT } else { METRICS_PORT }
}

pub(super) fn namespace(names: &Names<'_>) -> Value {
    let mut metadata = names.cluster(&names.namespace);
    metadata["labels"]["pod-security.kubernetes.io/enforce"] = json!("restricted");
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
}

pub(super) fn deployment(operator: &Operator, names: &Names<'_>, options: &ManifestOptions) -> Value {
    let image = options.image.clone().unwrap_or_else(|| {
        format!("{}:{}", operator.name(), operator.version.as_deref().unwrap_or("latest"))
    });
    let metrics_port = metrics_port(options);
    let mut arguments = vec![
        "run".to_owned(),
        "--leader-elect".to_owned(),
        format!("--metrics-bind-address=:{metrics_port}"),
        format!("--health-probe-bind-address=:{HEALTH_PORT}"),
    ];
    if options.secure_metrics {
        arguments.push("--metrics-secure".to_owned());
    }
    if !options.namespaces.is_empty() {
        arguments.push(format!("--namespace={}", options.namespaces.join(",")));
    }
    let mut ports = vec![
        json!({"name": "metrics", "containerPort": metrics_port}),
        json!({"name": "health", "containerPort": HEALTH_PORT}),
    ];
    if !operator.webhook_targets(&options.namespaces).is_empty() {
        ports.push(json!({"name": "webhooks", "containerPort": webhook::PORT}));
    }
    let container = json!({
        "name": "operator",
        "image": image,
        "args": arguments,
        "ports": ports,
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

pub(super) fn metrics_service(names: &Names<'_>, options: &ManifestOptions) -> Value {
    let name = if options.secure_metrics { "https" } else { "metrics" };
    let port = metrics_port(options);
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": names.own(format!("{}-metrics", names.operator)),
        "spec": {
            "selector": names.selector(),
            "ports": [{"name": name, "port": port, "protocol": "TCP", "targetPort": "metrics"}],
        },
    })
}

/// Metrics are for namespaces that are labelled `metrics: enabled`; probes come from the node and always pass.
pub(super) fn metrics_policy(names: &Names<'_>, options: &ManifestOptions) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": names.own(format!("{}-metrics", names.operator)),
        "spec": {
            "podSelector": {"matchLabels": names.selector()},
            "policyTypes": ["Ingress"],
            "ingress": [{
                "from": [{"namespaceSelector": {"matchLabels": {"metrics": "enabled"}}}],
                "ports": [{"port": metrics_port(options), "protocol": "TCP"}],
            }],
        },
    })
}
