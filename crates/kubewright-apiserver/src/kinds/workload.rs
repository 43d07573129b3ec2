//! What the kinds that keep pods running have in common: their template, selector and counts.

use serde_json::{Map, Value};

use super::{
    access::{default_to, get_str},
    checks,
    core::pod_spec,
    lifecycle::spec_changed,
    report::{At, Errors},
};

/// Fills the template of `spec`.
pub(crate) fn default_template(object: &mut Value) {
    default_to(object, &["spec", "template"], Map::new());
    if let Some(template) = object.pointer_mut("/spec/template") {
        pod_spec::default_template(template);
    }
}

/// A selector that is required and may not be empty, and a template that it selects.
pub(crate) fn selected_template(spec: &At<'_, '_>, what: &str, owner: &str, errors: &mut Errors) {
    let (selector, template) = (spec.field("selector"), spec.field("template"));
    if !selector.exists() {
        errors.required(&selector, "");
    } else {
        checks::label_selector(&selector, errors);
        if selector.field("matchLabels").is_empty() && selector.field("matchExpressions").is_empty() {
            errors.invalid(&selector, selector.shown(), format!("empty selector is invalid for {what}"));
        }
    }
    let metadata = template.field("metadata");
    match checks::selects(&selector, &metadata.field("labels")) {
        None => errors.invalid(&selector, selector.shown(), "invalid label selector"),
        Some(selected) => {
            if !selected {
                template_not_selected(&template, errors);
            }
            long_running_template(&template, owner, errors);
        }
    }
}

/// The labels of a template miss what its owner selects.
pub(crate) fn template_not_selected(template: &At<'_, '_>, errors: &mut Errors) {
    let metadata = template.field("metadata");
    let labels = metadata.field("labels");
    errors.invalid(&labels, labels.shown(), "`selector` does not match template `labels`");
}

/// A template of pods that are meant to run for ever.
pub(crate) fn long_running_template(template: &At<'_, '_>, owner: &str, errors: &mut Errors) {
    pod_spec::validate_template(template, errors);
    runs_for_ever(template, owner, errors);
}

/// Pods that are meant to run for ever restart always and have no deadline.
pub(crate) fn runs_for_ever(template: &At<'_, '_>, owner: &str, errors: &mut Errors) {
    let spec = template.field("spec");
    let policy = spec.field("restartPolicy");
    if policy.str() != "Always" {
        errors.not_supported(&policy, policy.str(), &["Always"]);
    }
    let deadline = spec.field("activeDeadlineSeconds");
    if deadline.exists() {
        errors.forbidden(&deadline, format!("activeDeadlineSeconds in {owner} is not Supported"));
    }
}

/// Counts of a status: none negative, none above the number of replicas. `ready` is how the count of ready
/// replicas is spoken of.
pub(crate) fn replica_counts(object: &At<'_, '_>, counts: &[&str], ready: &str, errors: &mut Errors) {
    let status = object.field("status");
    for count in counts {
        errors.non_negative(&status.field(count));
    }
    let replicas = status.field("replicas").int();
    let parts = counts.iter().filter(|count| {
        matches!(
            **count,
            "fullyLabeledReplicas"
                | "readyReplicas"
                | "currentReplicas"
                | "updatedReplicas"
                | "availableReplicas"
        )
    });
    for count in parts {
        let count = status.field(count);
        if count.int() > replicas {
            errors.invalid(&count, count.int(), "cannot be greater than status.replicas");
        }
    }
    let available = status.field("availableReplicas");
    if available.int() > status.field("readyReplicas").int() {
        errors.invalid(&available, available.int(), format!("cannot be greater than {ready}"));
    }
}

/// The number of name collisions only rises.
pub(crate) fn collisions_only_rise(object: &At<'_, '_>, old: &At<'_, '_>, errors: &mut Errors) {
    let status = object.field("status");
    let (now, was) = (status.field("collisionCount"), old.field("status"));
    let was = was.field("collisionCount").number();
    if was.is_some_and(|was| now.number().is_none_or(|now| now < was)) {
        errors.invalid(&now, now.int(), "cannot be decremented");
    }
}

/// Warnings of the template of `spec`, and where pods are named after the object, of its name.
pub(crate) fn template_warnings(object: &Value, old: Option<&Value>, names_pods: bool) -> Vec<String> {
    if old.is_some_and(|old| !spec_changed(object, old)) {
        return Vec::new();
    }
    let mut warnings = if names_pods && old.is_none() { name_warnings(object) } else { Vec::new() };
    let at = At::root(object);
    warnings.extend(pod_spec::pod_warnings(&at.field("spec").field("template")));
    warnings
}

/// Warns of a name that can't be a host name.
pub(crate) fn name_warnings(object: &Value) -> Vec<String> {
    let reasons = checks::dns_label(get_str(object, &["metadata", "name"]));
    if reasons.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [{}]",
        reasons.join(" ")
    )]
}
