//! The community's groups (`*.k8s.io`, `*.kubernetes.io`) are only for APIs that were approved.

use serde_json::{Value, json};

use crate::{
    field::{FieldError, Path},
    schema::formats::{is_request_uri, split_scheme},
};

use super::Definition;

const ANNOTATION: &str = "api-approved.kubernetes.io";

#[derive(Clone, Copy, PartialEq)]
enum Approval {
    Missing,
    Invalid,
    Bypassed,
    Approved,
}

fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"]
        .into_iter()
        .any(|domain| group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

fn approval(definition: Definition<'_>) -> (Approval, String) {
    const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";
    let annotation = definition.annotation(ANNOTATION);
    let is_url = is_request_uri(annotation)
        && split_scheme(annotation).is_ok_and(|(scheme, rest)| {
            let host = rest.strip_prefix("//").and_then(|rest| rest.split(['/', '?']).next());
            !scheme.is_empty() && host.is_some_and(|host| !host.is_empty())
        });
    if annotation.is_empty() {
        let why = format!("protected groups must have approval annotation {ANNOTATION:?}, {SEE}");
        (Approval::Missing, why)
    } else if annotation.starts_with("unapproved") {
        (Approval::Bypassed, format!("not approved: {annotation:?}"))
    } else if is_url {
        (Approval::Approved, format!("approved in {annotation}"))
    } else {
        let why = format!(
            "protected groups must have approval annotation {ANNOTATION:?} with either a URL or a reason starting with \
             \"unapproved\", {SEE}"
        );
        (Approval::Invalid, why)
    }
}

/// What is wrong with the approval of a definition, unless `old` had the same.
pub(super) fn validate(definition: Definition<'_>, old: Option<Definition<'_>>) -> Option<FieldError> {
    if !is_protected(definition.group()) {
        return None;
    }
    let (state, why) = approval(definition);
    if old.is_some_and(|old| approval(old).0 == state) {
        return None;
    }
    let at = Path::new("metadata").child("annotations").key(ANNOTATION);
    match state {
        Approval::Missing => Some(FieldError::required(&at, why)),
        Approval::Invalid => Some(FieldError::invalid(&at, definition.annotation(ANNOTATION), why)),
        Approval::Bypassed | Approval::Approved => None,
    }
}

/// The condition `KubernetesAPIApprovalPolicyConformant`, for protected groups.
pub(super) fn condition(definition: Definition<'_>) -> Option<Value> {
    if !is_protected(definition.group()) {
        return None;
    }
    let (state, why) = approval(definition);
    let (status, reason) = match state {
        Approval::Invalid => ("False", "InvalidAnnotation"),
        Approval::Missing => ("False", "MissingAnnotation"),
        Approval::Approved => ("True", "ApprovedAnnotation"),
        Approval::Bypassed => ("False", "UnapprovedAnnotation"),
    };
    Some(json!({
        "type": "KubernetesAPIApprovalPolicyConformant", "status": status, "reason": reason, "message": why,
    }))
}
