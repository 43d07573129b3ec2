//! Requests about what somebody may do. Nothing here is stored.

use serde_json::Value;

use super::{
    Strategy, checks,
    internal_form::{Absent, internal_form},
    report::{At, Errors},
};
use crate::field::FieldError;

/// The kinds of the group `authorization.k8s.io`.
pub(crate) const STRATEGIES: &[(&str, &str, Strategy)] = &[
    ("v1", "LocalSubjectAccessReview", Strategy { validate: local_review, ..Strategy::PLAIN }),
    (
        "v1",
        "SelfSubjectAccessReview",
        Strategy { validate: |object| review(object, false), ..Strategy::PLAIN },
    ),
    ("v1", "SelfSubjectRulesReview", Strategy::PLAIN),
    ("v1", "SubjectAccessReview", Strategy { validate: |object| review(object, true), ..Strategy::PLAIN }),
];

/// A review of somebody's rights, or of one's own, which has no subject.
fn review(object: &Value, has_subject: bool) -> Vec<FieldError> {
    Errors::of(object, |review, errors| {
        spec(&review.field("spec"), has_subject, errors);
        if metadata_beyond(review, &[]) {
            let metadata = review.field("metadata");
            errors.invalid(&metadata, metadata.shown(), "must be empty");
        }
    })
}

fn local_review(object: &Value) -> Vec<FieldError> {
    Errors::of(object, |review, errors| {
        let attributes = review.field("spec");
        spec(&attributes, true, errors);
        let metadata = review.field("metadata");
        if metadata_beyond(review, &["namespace"]) {
            errors.invalid(&metadata, metadata.shown(), "must be empty except for namespace");
        }
        let (resource, other) =
            (attributes.field("resourceAttributes"), attributes.field("nonResourceAttributes"));
        let namespace = resource.field("namespace");
        if resource.exists() && namespace.str() != metadata.field("namespace").str() {
            errors.invalid(&namespace, namespace.str(), "must match metadata.namespace");
        }
        if other.exists() {
            errors.invalid_unshown(
                &other,
                format!("{}: disallowed on this kind of request", url_shown(&other)),
            );
        }
    })
}

/// Whether the metadata says more than these fields; its managers are the server's own note.
fn metadata_beyond(review: &At<'_, '_>, allowed: &[&str]) -> bool {
    let metadata = review.field("metadata");
    metadata.entries().any(|(name, _)| name != "managedFields" && !allowed.contains(&name))
}

/// The attributes of a request for a URL, as Go names them.
fn url_shown(at: &At<'_, '_>) -> String {
    internal_form(at, &[("path", "Path", Absent::Text), ("verb", "Verb", Absent::Text)])
}

fn spec(spec: &At<'_, '_>, has_subject: bool, errors: &mut Errors) {
    let (resource, other) = (spec.field("resourceAttributes"), spec.field("nonResourceAttributes"));
    if resource.exists() && other.exists() {
        let why = "cannot be specified in combination with resourceAttributes";
        errors.invalid_unshown(&other, format!("{}: {why}", url_shown(&other)));
    }
    if !resource.exists() && !other.exists() {
        let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        errors.invalid(&resource, Value::Null, why);
    }
    let user = spec.field("user");
    if has_subject && user.str().is_empty() && spec.field("groups").is_empty() {
        errors.invalid(&user, user.str(), "at least one of user or group must be specified");
    }
    for (field, of_labels) in [("fieldSelector", false), ("labelSelector", true)] {
        selector(&resource.field(field), of_labels, errors);
    }
}

fn selector(selector: &At<'_, '_>, of_labels: bool, errors: &mut Errors) {
    if !selector.exists() {
        return;
    }
    let (raw, requirements) = (selector.field("rawSelector"), selector.field("requirements"));
    if !raw.str().is_empty() && !requirements.is_empty() {
        errors.invalid(&raw, raw.str(), "may not specified at the same time as requirements");
    }
    if raw.str().is_empty() && requirements.is_empty() {
        let why = format!("when {} is specified, requirements or rawSelector is required", selector.path());
        errors.required(&requirements, why);
    }
    for requirement in requirements.items() {
        let (key, values) = (requirement.field("key"), requirement.field("values"));
        if !of_labels && key.str().is_empty() {
            errors.required(&key, "must be specified");
        }
        match requirement.field("operator").str() {
            "In" | "NotIn" if values.is_empty() => {
                errors.required(&values, "must be specified when `operator` is 'In' or 'NotIn'");
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                errors
                    .forbidden(&values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
            }
            _ => {}
        }
        if of_labels {
            errors.each(&key, checks::qualified_name(key.str()));
            for value in values.items() {
                errors.each(&value, checks::label_value(value.str()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_review_asks_about_one_thing_and_somebody() {
        let texts =
            |errors: &[FieldError]| -> Vec<String> { errors.iter().map(ToString::to_string).collect() };
        assert_eq!(
            texts(&review(&json!({"spec": {}, "metadata": {"name": "x"}}), true)),
            [
                "spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified",
                "spec.user: Invalid value: \"\": at least one of user or group must be specified",
                "metadata: Invalid value: {\"name\":\"x\"}: must be empty",
            ]
        );
        assert!(
            review(&json!({"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}}), false)
                .is_empty()
        );
        assert_eq!(
            texts(&local_review(&json!({
                "metadata": {"namespace": "a"},
                "spec": {"user": "u", "resourceAttributes": {"namespace": "default"}},
            }))),
            ["spec.resourceAttributes.namespace: Invalid value: \"default\": must match metadata.namespace"]
        );
    }
}
