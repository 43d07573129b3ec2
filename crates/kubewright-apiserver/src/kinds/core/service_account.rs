//! Service accounts: an identity for pods.

use serde_json::Value;

use super::super::{
    Strategy,
    access::{has, items_mut},
};

const ENFORCE: &str = "kubernetes.io/enforce-mountable-secrets";

/// What a service account does.
pub(crate) const STRATEGY: Strategy = Strategy {
    prepare_create: only_names_of_secrets,
    prepare_update: |account, _| only_names_of_secrets(account),
    warnings: |account, old| {
        let annotated = |object: &Value| has(object, &["metadata", "annotations", ENFORCE]);
        if !annotated(account) || old.is_some_and(annotated) {
            return Vec::new();
        }
        vec![format!(
            "metadata.annotations[{ENFORCE}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
        )]
    },
    ..Strategy::PLAIN
};

/// Secrets are referred to within the namespace, by name; anything else of a reference is dropped.
fn only_names_of_secrets(account: &mut Value) {
    for secret in items_mut(account, &["secrets"]) {
        if let Some(reference) = secret.as_object_mut() {
            reference.retain(|field, name| field == "name" && *name != "");
        }
    }
}
