//! Namespaces: their label, their finalizer, and the phase that only deletion changes.

use serde_json::{Value, json};

use super::super::{
    Strategy,
    access::{copy_from, get, get_str, has, items, set},
    checks,
    lifecycle::{keep_spec, keep_status},
    report::{At, Errors},
};
use crate::field::FieldError;

/// What a namespace does.
pub(crate) const STRATEGY: Strategy = Strategy {
    default,
    prepare_create,
    prepare_update: |namespace, old| {
        copy_from(namespace, old, &["spec", "finalizers"]);
        keep_status(namespace, old);
    },
    prepare_status_update: keep_spec,
    validate: |namespace| Errors::of(namespace, validate),
    validate_update: |namespace, _| Errors::of(namespace, validate),
    validate_status_update,
    ..Strategy::PLAIN
};

/// Every namespace carries its name as a label. One whose name is still to be generated gets it after:
/// call again.
fn default(namespace: &mut Value) {
    let name = get_str(namespace, &["metadata", "name"]).to_owned();
    if !name.is_empty() {
        set(namespace, &["metadata", "labels", "kubernetes.io/metadata.name"], name);
    }
    if get_str(namespace, &["status", "phase"]).is_empty() {
        set(namespace, &["status", "phase"], "Active");
    }
}

fn prepare_create(namespace: &mut Value) {
    set(namespace, &["status"], json!({"phase": "Active"}));
    let finalizers = items(namespace, &["spec", "finalizers"]);
    if !finalizers.iter().any(|finalizer| finalizer == "kubernetes") {
        let mut finalizers = finalizers.to_vec();
        finalizers.push("kubernetes".into());
        set(namespace, &["spec", "finalizers"], finalizers);
    }
}

fn validate(namespace: &At<'_, '_>, errors: &mut Errors) {
    let spec = namespace.field("spec");
    let finalizers = spec.field("finalizers");
    for finalizer in finalizers.items() {
        check_finalizer(&finalizers.holding(finalizer.value()), errors);
    }
}

fn check_finalizer(finalizer: &At<'_, '_>, errors: &mut Errors) {
    errors.each(finalizer, checks::qualified_name(finalizer.str()));
    let name = finalizer.str();
    if !name.contains('/') && !matches!(name, "kubernetes" | "orphan" | "foregroundDeletion") {
        let text = "name is neither a standard finalizer name nor is it fully qualified";
        errors.invalid(finalizer, name, text);
    }
}

fn validate_status_update(namespace: &Value, _old: &Value) -> Vec<FieldError> {
    Errors::of(namespace, |at, errors| {
        let status = at.field("status");
        let phase = get(namespace, &["status", "phase"]).and_then(Value::as_str).unwrap_or_default();
        let place = status.field("Phase");
        let deleting = has(namespace, &["metadata", "deletionTimestamp"]);
        if !deleting && phase != "Active" {
            errors.invalid(&place, phase, "may only be 'Active' if `deletionTimestamp` is empty");
        } else if deleting && phase != "Terminating" {
            errors.invalid(&place, phase, "may only be 'Terminating' if `deletionTimestamp` is not empty");
        }
    })
}

/// What an update of `/finalize` does: it touches all but the status.
pub(crate) const FINALIZE: Strategy =
    Strategy { default, prepare_update: keep_status, validate_update: validate_finalize, ..Strategy::PLAIN };

fn validate_finalize(namespace: &Value, _old: &Value) -> Vec<FieldError> {
    Errors::of(namespace, |namespace, errors| {
        let spec = namespace.field("spec");
        for finalizer in spec.field("finalizers").items() {
            check_finalizer(&finalizer, errors);
        }
    })
}
