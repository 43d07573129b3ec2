//! How the API server finds the webhooks of an operator, and when it asks them. What makes it trust them is not in here:
//! the operator tells it when it runs.

use serde_json::{Value, json};

use super::{ManifestOptions, Names};
use crate::{
    operator::Operator,
    webhook::{self, Purpose, configuration_name, service_name},
};

pub(super) fn webhooks(operator: &Operator, names: &Names<'_>, options: &ManifestOptions) -> Vec<Value> {
    if operator.webhook_targets(&options.namespaces).is_empty() {
        return Vec::new();
    }
    let mut documents = match options.webhook_url {
        Some(_) => Vec::new(),
        None => vec![service(names), policy(names)],
    };
    let configurations = [
        ("MutatingWebhookConfiguration", Purpose::Defaulting),
        ("ValidatingWebhookConfiguration", Purpose::Validating),
    ];
    for (kind, purpose) in configurations {
        let entries: Vec<Value> = operator
            .webhooks
            .iter()
            .map(|webhook| &webhook.description)
            .filter(|description| description.purpose == purpose)
            .map(|description| {
                let mut entry = description.entry(&names.namespace, &options.namespaces);
                entry["clientConfig"] = options.reach(names).client_config(&description.path());
                entry
            })
            .collect();
        if !entries.is_empty() {
            documents.push(json!({
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": kind,
                "metadata": names.cluster(configuration_name(names.operator, &options.namespaces)),
                "webhooks": entries,
            }));
        }
    }
    documents
}

fn service(names: &Names<'_>) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": names.own(service_name(names.operator)),
        "spec": {
            "selector": names.selector(),
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": "webhooks"}],
        },
    })
}

/// The API server is in no namespace, so it can't be named: whoever comes is let through to this port.
fn policy(names: &Names<'_>) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": names.own(service_name(names.operator)),
        "spec": {
            "podSelector": {"matchLabels": names.selector()},
            "policyTypes": ["Ingress"],
            "ingress": [{"ports": [{"port": webhook::PORT, "protocol": "TCP"}]}],
        },
    })
}
