//! Disruption budgets: how many pods may be gone at a time.

use serde_json::Value;

use super::{
    Strategy, checks,
    internal_form::{Absent, internal_form},
    lifecycle::{keep_spec, keep_status, spec_changed},
    report::{At, Errors},
    status::{conditions, drop_status},
};
use crate::field::FieldError;

/// The kinds of the group `policy`.
pub(crate) const STRATEGIES: &[(&str, &str, Strategy)] =
    &[("v1", "PodDisruptionBudget", POD_DISRUPTION_BUDGET)];

const POD_DISRUPTION_BUDGET: Strategy = Strategy {
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_status_update: keep_spec,
    validate,
    validate_update: |object, _| validate(object),
    validate_status_update,
    generation: Some(spec_changed),
    ..Strategy::PLAIN
};

fn validate(object: &Value) -> Vec<FieldError> {
    Errors::of(object, |object, errors| {
        let spec = object.field("spec");
        let (minimum, maximum) = (spec.field("minAvailable"), spec.field("maxUnavailable"));
        if minimum.exists() && maximum.exists() {
            let shown = internal_form(
                &spec,
                &[
                    ("minAvailable", "MinAvailable", Absent::Nil),
                    ("selector", "Selector", Absent::Nil),
                    ("maxUnavailable", "MaxUnavailable", Absent::Nil),
                    ("unhealthyPodEvictionPolicy", "UnhealthyPodEvictionPolicy", Absent::Nil),
                ],
            );
            let why = "minAvailable and maxUnavailable cannot be both set";
            errors.invalid_unshown(&spec, format!("{shown}: {why}"));
        }
        for limit in [&minimum, &maximum] {
            count_or_percent(limit, errors);
        }
        checks::label_selector(&spec.field("selector"), errors);
        let policy = spec.field("unhealthyPodEvictionPolicy");
        errors.optional_one_of(&policy, &["AlwaysAllow", "IfHealthyBudget"]);
    })
}

/// A number of pods that is not negative, or a part of them that is not more than all.
fn count_or_percent(at: &At<'_, '_>, errors: &mut Errors) {
    let Some(Value::String(text)) = at.value() else {
        errors.non_negative(at);
        return;
    };
    let reasons = checks::percent(text);
    let valid = reasons.is_empty();
    errors.each(at, reasons);
    let digits = text.trim_end_matches('%').trim_start_matches('0');
    let over = digits.len() > 3 || digits.parse::<u32>().is_ok_and(|value| value > 100);
    if valid && over {
        errors.invalid(at, text.as_str(), "must not be greater than 100%");
    }
}

fn validate_status_update(object: &Value, _: &Value) -> Vec<FieldError> {
    Errors::of(object, |object, errors| {
        let status = object.field("status");
        conditions(&status.field("conditions"), errors);
        for count in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
            errors.non_negative(&status.field(count));
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_budget_has_one_limit_that_makes_sense() {
        let texts = |spec: Value| -> Vec<String> {
            validate(&json!({"spec": spec})).iter().map(ToString::to_string).collect()
        };
        assert_eq!(
            texts(json!({"minAvailable": 1, "maxUnavailable": 1, "selector": {"matchLabels": {"app": "x"}}})),
            [
                "spec: Invalid value: {\"MinAvailable\":1,\"Selector\":{\"matchLabels\":{\"app\":\"x\"}},\"MaxUnavailable\":1,\"UnhealthyPodEvictionPolicy\":null}: minAvailable and maxUnavailable cannot be both set"
            ]
        );
        assert_eq!(
            texts(json!({"minAvailable": -1})),
            ["spec.minAvailable: Invalid value: -1: must be greater than or equal to 0"]
        );
        assert_eq!(
            texts(json!({"maxUnavailable": "101%"})),
            ["spec.maxUnavailable: Invalid value: \"101%\": must not be greater than 100%"]
        );
        assert!(texts(json!({"maxUnavailable": "0100%"})).is_empty());
        assert_eq!(
            texts(json!({"maxUnavailable": "half"})),
            [
                "spec.maxUnavailable: Invalid value: \"half\": a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
            ]
        );
    }
}
