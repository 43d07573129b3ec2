//! ReplicaSets.

use serde_json::{Value, json};

use super::super::{
    Strategy,
    access::{default_to, set},
    lifecycle::{keep_spec, keep_status, spec_changed},
    report::{At, Errors},
    workload,
};

/// What a ReplicaSet does.
pub(crate) const STRATEGY: Strategy = Strategy {
    default,
    prepare_create: |set_of_pods| set(set_of_pods, &["status"], json!({"replicas": 0})),
    prepare_update: keep_status,
    prepare_status_update: keep_spec,
    validate: |replicas| Errors::of(replicas, validate),
    validate_update: |replicas, old| {
        Errors::of(replicas, |replicas, errors| {
            validate(replicas, errors);
            let old = At::root(old);
            errors.immutable(&replicas.field("spec").field("selector"), &old.field("spec").field("selector"));
        })
    },
    validate_status_update: |replicas, _| {
        Errors::of(replicas, |replicas, errors| {
            let counts = [
                "replicas",
                "fullyLabeledReplicas",
                "readyReplicas",
                "availableReplicas",
                "observedGeneration",
                "terminatingReplicas",
            ];
            workload::replica_counts(replicas, &counts, "readyReplicas", errors);
        })
    },
    warnings: |replicas, old| workload::template_warnings(replicas, old, true),
    generation: Some(spec_changed),
};

fn default(replicas: &mut Value) {
    workload::default_template(replicas);
    default_to(replicas, &["spec", "replicas"], 1);
}

fn validate(replicas: &At<'_, '_>, errors: &mut Errors) {
    let spec = replicas.field("spec");
    errors.non_negative(&spec.field("replicas"));
    errors.non_negative(&spec.field("minReadySeconds"));
    workload::selected_template(&spec, "deployment", "ReplicaSet", errors);
}
