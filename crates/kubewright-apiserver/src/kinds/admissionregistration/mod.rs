//! What the server asks before it accepts a write: webhooks and policies.
//!
//! The shape is checked here, and that expressions compile. Whether the author may read the parameters of a
//! policy is decided elsewhere.

mod policies;
mod rules;
#[cfg(test)]
mod tests;
mod webhooks;

use serde_json::Value;

use super::{Strategy, access::get_str};

/// The kinds of the group `admissionregistration.k8s.io`.
pub(crate) const STRATEGIES: &[(&str, &str, Strategy)] = &[
    ("v1", "MutatingAdmissionPolicy", policies::MUTATING_POLICY),
    ("v1", "MutatingAdmissionPolicyBinding", policies::MUTATING_BINDING),
    ("v1", "MutatingWebhookConfiguration", webhooks::MUTATING),
    ("v1", "ValidatingAdmissionPolicy", policies::VALIDATING_POLICY),
    ("v1", "ValidatingAdmissionPolicyBinding", policies::VALIDATING_BINDING),
    ("v1", "ValidatingWebhookConfiguration", webhooks::VALIDATING),
];

/// Names that are meant for configuration from files.
fn warn_of_reserved_name(object: &Value, _: Option<&Value>) -> Vec<String> {
    if !get_str(object, &["metadata", "name"]).ends_with(".static.k8s.io") {
        return Vec::new();
    }
    vec!["metadata.name: names ending with \".static.k8s.io\" are reserved for static manifest-based configurations and cannot be managed via the API".to_owned()]
}
