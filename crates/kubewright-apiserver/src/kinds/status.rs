//! What kinds have in common around their `/status`: metadata that it may not touch, and conditions.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    access::{copy_from, remove},
    checks,
    lifecycle::keep_spec,
    report::{At, Errors},
};

/// A creator may not set the status.
pub(crate) fn drop_status(object: &mut Value) {
    remove(object, &["status"]);
}

/// An update of `/status` touches neither the spec nor what people write into the metadata.
pub(crate) fn keep_spec_and_metadata(object: &mut Value, old: &Value) {
    keep_spec(object, old);
    for field in [
        "labels",
        "annotations",
        "finalizers",
        "ownerReferences",
        "deletionTimestamp",
        "generation",
        "selfLink",
    ] {
        copy_from(object, old, &["metadata", field]);
    }
}

/// A list of conditions of the standard type.
pub(crate) fn conditions(at: &At<'_, '_>, errors: &mut Errors) {
    const STATUSES: &[&str] = &["False", "True", "Unknown"];
    let mut seen = BTreeSet::new();
    for condition in at.items() {
        let kind = condition.field("type");
        if !seen.insert(kind.str()) {
            errors.duplicate(&kind, kind.str());
        }
        errors.each(&kind, checks::qualified_name(kind.str()));
        let status = condition.field("status");
        if !STATUSES.contains(&status.str()) {
            errors.not_supported(&status, status.str(), STATUSES);
        }
        let generation = condition.field("observedGeneration");
        if generation.int() < 0 {
            errors.invalid(&generation, generation.int(), "must be greater than or equal to zero");
        }
        let transition = condition.field("lastTransitionTime");
        if !transition.exists() {
            errors.required(&transition, "");
        }
        condition_reason(&condition.field("reason"), errors);
        let message = condition.field("message");
        if message.str().len() > 32 * 1024 {
            errors.too_long(&message, 32 * 1024);
        }
    }
}

fn condition_reason(at: &At<'_, '_>, errors: &mut Errors) {
    const RULE: &str = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";
    let text = at.str();
    if text.is_empty() {
        errors.required(at, "");
        return;
    }
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b',' | b':');
    let ends = !text.ends_with([',', ':']);
    if !text.starts_with(|first: char| first.is_ascii_alphabetic()) || !ends || !text.bytes().all(inside) {
        errors.invalid(at, text, RULE);
    }
    if text.len() > 1024 {
        errors.too_long(at, 1024);
    }
}
