//! Replication controllers, which ReplicaSets came after.

use serde_json::{Value, json};

use super::{
    super::{
        Strategy,
        access::{default_to, get, has, set},
        lifecycle::{keep_spec, keep_status, spec_changed},
        report::{At, Errors},
        workload,
    },
    pod_spec,
};

/// What a replication controller does.
pub(crate) const STRATEGY: Strategy = Strategy {
    default,
    prepare_create: |controller| set(controller, &["status"], json!({"replicas": 0})),
    prepare_update: keep_status,
    prepare_status_update: keep_spec,
    validate: |controller| Errors::of(controller, validate),
    validate_update: |controller, _| Errors::of(controller, validate),
    validate_status_update: |controller, _| {
        Errors::of(controller, |controller, errors| {
            let counts = [
                "replicas",
                "fullyLabeledReplicas",
                "readyReplicas",
                "availableReplicas",
                "observedGeneration",
            ];
            workload::replica_counts(controller, &counts, "readyReplicas", errors);
        })
    },
    warnings: |controller, old| workload::template_warnings(controller, old, true),
    generation: Some(spec_changed),
};

fn default(controller: &mut Value) {
    default_to(controller, &["spec", "replicas"], 1);
    let labels = get(controller, &["spec", "template", "metadata", "labels"]).cloned();
    if let Some(labels) = labels {
        let empty = |path: &[&str], object: &Value| {
            get(object, path).and_then(Value::as_object).is_none_or(serde_json::Map::is_empty)
        };
        if empty(&["spec", "selector"], controller) {
            set(controller, &["spec", "selector"], labels.clone());
        }
        if empty(&["metadata", "labels"], controller) {
            set(controller, &["metadata", "labels"], labels);
        }
    }
    if has(controller, &["spec", "template"])
        && let Some(template) = controller.pointer_mut("/spec/template")
    {
        pod_spec::default_template(template);
    }
}

fn validate(controller: &At<'_, '_>, errors: &mut Errors) {
    let spec = controller.field("spec");
    errors.non_negative(&spec.field("minReadySeconds"));
    let (selector, template) = (spec.field("selector"), spec.field("template"));
    if selector.is_empty() {
        errors.required(&selector, "");
    }
    errors.non_negative(&spec.field("replicas"));
    if !template.exists() {
        return errors.required(&template, "");
    }
    let metadata = template.field("metadata");
    let labels = metadata.field("labels");
    if selector.entries().any(|(key, value)| labels.key(key).value() != value.value()) {
        errors.invalid(&labels, labels.shown(), "`selector` does not match template `labels`");
    }
    workload::long_running_template(&template, "ReplicationController", errors);
}
