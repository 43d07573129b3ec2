//! Deployments.

use serde_json::{Value, json};

use super::{
    super::{
        Strategy,
        access::{copy_from, default_to, get_str, same, set},
        lifecycle::{keep_spec, keep_status, spec_changed},
        report::{At, Errors},
        workload,
    },
    rollout,
};

/// What a deployment does.
pub(crate) const STRATEGY: Strategy = Strategy {
    default,
    prepare_create: |deployment| set(deployment, &["status"], json!({})),
    prepare_update: keep_status,
    prepare_status_update: |deployment, old| {
        keep_spec(deployment, old);
        copy_from(deployment, old, &["metadata", "labels"]);
    },
    validate: |deployment| Errors::of(deployment, validate),
    validate_update: |deployment, old| {
        Errors::of(deployment, |deployment, errors| {
            validate(deployment, errors);
            let old = At::root(old);
            errors
                .immutable(&deployment.field("spec").field("selector"), &old.field("spec").field("selector"));
        })
    },
    validate_status_update: |deployment, old| {
        Errors::of(deployment, |deployment, errors| {
            let counts = [
                "observedGeneration",
                "replicas",
                "updatedReplicas",
                "readyReplicas",
                "availableReplicas",
                "unavailableReplicas",
                "terminatingReplicas",
                "collisionCount",
            ];
            workload::replica_counts(deployment, &counts, "readyReplicas", errors);
            workload::collisions_only_rise(deployment, &At::root(old), errors);
        })
    },
    warnings: |deployment, old| workload::template_warnings(deployment, old, true),
    generation: Some(|deployment, old| {
        spec_changed(deployment, old) || !same(deployment, old, &["metadata", "annotations"])
    }),
};

fn default(deployment: &mut Value) {
    workload::default_template(deployment);
    default_to(deployment, &["spec", "replicas"], 1);
    let strategy = &["spec", "strategy", "type"];
    if get_str(deployment, strategy).is_empty() {
        set(deployment, strategy, "RollingUpdate");
    }
    if get_str(deployment, strategy) == "RollingUpdate" {
        default_to(deployment, &["spec", "strategy", "rollingUpdate", "maxUnavailable"], "25%");
        default_to(deployment, &["spec", "strategy", "rollingUpdate", "maxSurge"], "25%");
    }
    default_to(deployment, &["spec", "revisionHistoryLimit"], 10);
    default_to(deployment, &["spec", "progressDeadlineSeconds"], 600);
}

fn validate(deployment: &At<'_, '_>, errors: &mut Errors) {
    let spec = deployment.field("spec");
    errors.non_negative(&spec.field("replicas"));
    workload::selected_template(&spec, "deployment", "ReplicaSet", errors);
    strategy(&spec.field("strategy"), errors);
    errors.non_negative(&spec.field("minReadySeconds"));
    errors.non_negative(&spec.field("revisionHistoryLimit"));
    let deadline = spec.field("progressDeadlineSeconds");
    errors.non_negative(&deadline);
    if deadline.exists() && deadline.int() <= spec.field("minReadySeconds").int() {
        errors.invalid(&deadline, deadline.int(), "must be greater than minReadySeconds");
    }
}

fn strategy(strategy: &At<'_, '_>, errors: &mut Errors) {
    let rolling = strategy.field("rollingUpdate");
    match strategy.field("type").str() {
        "Recreate" if rolling.exists() => {
            errors.forbidden(&rolling, "may not be specified when strategy `type` is 'Recreate'");
        }
        "Recreate" => {}
        "RollingUpdate" => {
            let (unavailable, surge) = (rolling.field("maxUnavailable"), rolling.field("maxSurge"));
            rollout::amount(&unavailable, errors);
            rollout::amount(&surge, errors);
            if rollout::is_nothing(&unavailable) && rollout::is_nothing(&surge) {
                errors.invalid(&unavailable, unavailable.shown(), "may not be 0 when `maxSurge` is 0");
            }
            rollout::at_most_all(&unavailable, errors);
        }
        _ => {
            let shown = strategy.as_go(rollout::STRATEGY);
            errors.not_supported_text(strategy, &shown, &["Recreate", "RollingUpdate"]);
        }
    }
}
