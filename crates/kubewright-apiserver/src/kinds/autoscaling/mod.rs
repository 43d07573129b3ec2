//! Autoscalers, in both versions, and the `Scale` of anything that has replicas.
//!
//! Autoscalers are stored as `autoscaling/v2`; what `autoscaling/v1` can't say, it carries in annotations
//! (see [`v1_to_v2`] and [`v2_to_v1`]).

mod conversion;
mod metrics;
#[cfg(test)]
mod tests;

use serde_json::{Value, json};

use super::{
    Strategy,
    access::{default_to, get_mut, has, items, set},
    checks,
    lifecycle::{keep_spec, keep_status},
    report::{At, Errors},
    status::drop_status,
};
use crate::{field::FieldError, names};

pub(crate) use conversion::{v1_to_v2, v2_to_v1};

/// The kinds of the group `autoscaling`.
pub(crate) const STRATEGIES: &[(&str, &str, Strategy)] = &[
    ("v1", "HorizontalPodAutoscaler", AUTOSCALER_V1),
    ("v1", "Scale", SCALE),
    ("v2", "HorizontalPodAutoscaler", AUTOSCALER_V2),
];

const AUTOSCALER_V2: Strategy = Strategy {
    default,
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_status_update: keep_spec,
    validate: |object| validate(object, None),
    validate_update: |object, old| validate(object, Some(old)),
    validate_status_update,
    ..Strategy::PLAIN
};

const AUTOSCALER_V1: Strategy = Strategy {
    default: |object| default_to(object, &["spec", "minReplicas"], 1),
    validate: |object| validate(&as_v2(object), None),
    validate_update: |object, old| validate(&as_v2(object), Some(&as_v2(old))),
    ..AUTOSCALER_V2
};

const SCALE: Strategy = Strategy {
    validate: validate_scale,
    validate_update: |object, _| validate_scale(object),
    ..Strategy::PLAIN
};

fn as_v2(object: &Value) -> Value {
    let mut converted = object.clone();
    v1_to_v2(&mut converted);
    converted
}

fn validate_scale(object: &Value) -> Vec<FieldError> {
    Errors::of(object, |scale, errors| errors.non_negative(&scale.field("spec").field("replicas")))
}

/// The metric of an autoscaler that names none.
fn default_metrics() -> Value {
    json!([{"type": "Resource", "resource": {
        "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80},
    }}])
}

fn default(object: &mut Value) {
    default_to(object, &["spec", "minReplicas"], 1);
    if items(object, &["spec", "metrics"]).is_empty() {
        set(object, &["spec", "metrics"], default_metrics());
    }
    if let Some(behavior) = get_mut(object, &["spec", "behavior"]) {
        let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
        default_to(behavior, &["scaleUp", "stabilizationWindowSeconds"], 0);
        for (direction, policies) in [
            ("scaleUp", json!([{"type": "Pods", "value": 4, "periodSeconds": 15}, percent.clone()])),
            ("scaleDown", json!([percent])),
        ] {
            default_to(behavior, &[direction, "selectPolicy"], "Max");
            default_to(behavior, &[direction, "policies"], policies);
        }
    }
}

fn validate(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    Errors::of(object, |object, errors| {
        let spec = object.field("spec");
        let (minimum, maximum) = (spec.field("minReplicas"), spec.field("maxReplicas"));
        if minimum.exists() && minimum.int() < 1 {
            errors.invalid(&minimum, minimum.int(), "must be greater than or equal to 1");
        }
        if maximum.int() == 0 {
            errors.required(&maximum, "must be set and greater than 0");
        } else if maximum.int() < 0 {
            errors.invalid(&maximum, maximum.int(), "must be greater than or equal to 1");
        }
        if minimum.number().is_some_and(|minimum| maximum.int() < minimum) {
            errors.invalid(&maximum, maximum.int(), "must be greater than or equal to `minReplicas`");
        }
        let target = spec.field("scaleTargetRef");
        let same_kind = old.is_some_and(|old| {
            let old = At::root(old);
            let old_spec = old.field("spec");
            let old_target = old_spec.field("scaleTargetRef");
            ["apiVersion", "kind"]
                .iter()
                .all(|field| old_target.field(field).str() == target.field(field).str())
        });
        let group = match target.field("kind").str() {
            _ if same_kind => Group::Unchecked,
            "ReplicationController" => Group::Optional,
            _ => Group::Required,
        };
        reference(&target, group, errors);
        metrics::metrics(&spec.field("metrics"), minimum.number(), errors);
        let behavior = spec.field("behavior");
        for direction in ["scaleUp", "scaleDown"] {
            scaling_rules(&behavior.field(direction), errors);
        }
    })
}

/// Whether the group of a referenced object must be given.
#[derive(Clone, Copy)]
enum Group {
    Required,
    Optional,
    /// The reference was accepted before, whatever it says.
    Unchecked,
}

fn reference(at: &At<'_, '_>, group: Group, errors: &mut Errors) {
    for field in ["kind", "name"] {
        let part = at.field(field);
        if part.str().is_empty() {
            errors.required(&part, "");
        } else {
            errors.each(&part, names::path_segment(part.str()));
        }
    }
    let version = at.field("apiVersion");
    match group {
        Group::Unchecked => {}
        _ if version.str().matches('/').count() > 1 => {
            let why = format!("unexpected GroupVersion string: {}", version.str());
            errors.invalid(&version, version.str(), why);
        }
        Group::Required if version.str().split_once('/').is_none_or(|(group, _)| group.is_empty()) => {
            errors.invalid(&version, version.str(), "apiVersion must specify API group");
        }
        Group::Required | Group::Optional => {}
    }
}

fn scaling_rules(rules: &At<'_, '_>, errors: &mut Errors) {
    if !rules.exists() {
        return;
    }
    let window = rules.field("stabilizationWindowSeconds");
    if window.int() < 0 {
        errors.invalid(&window, window.int(), "must be greater than or equal to zero");
    }
    if window.int() > 3600 {
        errors.invalid(&window, window.int(), "must be less than or equal to 3600");
    }
    errors.optional_one_of(&rules.field("selectPolicy"), &["Disabled", "Max", "Min"]);
    let policies = rules.field("policies");
    if policies.is_empty() {
        errors.required(&policies, "must specify at least one Policy");
    }
    for policy in policies.items() {
        let kind = policy.field("type");
        if !matches!(kind.str(), "Percent" | "Pods") {
            errors.not_supported(&kind, kind.str(), &["Percent", "Pods"]);
        }
        for field in ["value", "periodSeconds"] {
            let number = policy.field(field);
            if number.int() <= 0 {
                errors.invalid(&number, number.int(), "must be greater than zero");
            }
        }
        let period = policy.field("periodSeconds");
        if period.int() > 1800 {
            errors.invalid(&period, period.int(), "must be less than or equal to 1800");
        }
    }
    let tolerance = rules.field("tolerance");
    if checks::quantity(tolerance.str()).sign() < 0 {
        errors.invalid(&tolerance, tolerance.str(), "must be greater than or equal to 0");
    }
}

fn validate_status_update(object: &Value, _: &Value) -> Vec<FieldError> {
    Errors::of(object, |object, errors| {
        let status = object.field("status");
        errors.non_negative(&status.field("currentReplicas"));
        errors.non_negative(&status.field("desiredReplicas"));
    })
}

/// Whether the metric is the one that `autoscaling/v1` has a field for.
fn is_cpu_utilization(metric: &Value) -> bool {
    let at = At::root(metric);
    let resource = at.field("resource");
    at.field("type").str() == "Resource"
        && resource.field("name").str() == "cpu"
        && has(metric, &["resource", "target", "averageUtilization"])
}
