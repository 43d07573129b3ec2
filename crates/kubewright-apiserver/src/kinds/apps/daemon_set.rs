//! DaemonSets. The generation of their template lives on in an annotation.

use serde_json::{Value, json};

use super::{
    super::{
        Strategy,
        access::{copy_from, default_to, get_str, same, set},
        checks,
        core::pod_spec,
        lifecycle::{keep_spec, keep_status, spec_changed},
        report::{At, Errors},
        workload,
    },
    rollout,
};

/// What a DaemonSet does.
pub(crate) const STRATEGY: Strategy = Strategy {
    default,
    prepare_create: |daemons| {
        let zeros = json!({
            "currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0,
        });
        set(daemons, &["status"], zeros);
        let generation = template_generation(daemons).max(1);
        set(daemons, TEMPLATE_GENERATION, generation.to_string());
    },
    prepare_update: |daemons, old| {
        keep_status(daemons, old);
        let generation = template_generation(old);
        let changed = !same(daemons, old, &["spec", "template"]);
        set(daemons, TEMPLATE_GENERATION, (generation.saturating_add(i64::from(changed))).to_string());
    },
    prepare_status_update: |daemons, old| {
        keep_spec(daemons, old);
        copy_from(daemons, old, TEMPLATE_GENERATION);
    },
    validate: |daemons| Errors::of(daemons, validate),
    validate_update: |daemons, old| {
        Errors::of(daemons, |daemons, errors| {
            let old = At::root(old);
            errors.immutable(&daemons.field("spec").field("selector"), &old.field("spec").field("selector"));
            validate(daemons, errors);
        })
    },
    validate_status_update: |daemons, old| {
        Errors::of(daemons, |daemons, errors| {
            let status = daemons.field("status");
            for count in [
                "currentNumberScheduled",
                "numberMisscheduled",
                "desiredNumberScheduled",
                "numberReady",
                "observedGeneration",
                "updatedNumberScheduled",
                "numberAvailable",
                "numberUnavailable",
                "collisionCount",
            ] {
                errors.non_negative(&status.field(count));
            }
            workload::collisions_only_rise(daemons, &At::root(old), errors);
        })
    },
    warnings: |daemons, old| {
        let unchanged = old.is_some_and(|old| same(daemons, old, &["spec", "template"]));
        if unchanged { Vec::new() } else { workload::template_warnings(daemons, old, false) }
    },
    generation: Some(spec_changed),
};

const TEMPLATE_GENERATION: &[&str] = &["metadata", "annotations", "deprecated.daemonset.template.generation"];

fn template_generation(daemons: &Value) -> i64 {
    get_str(daemons, TEMPLATE_GENERATION).parse().unwrap_or_default()
}

fn default(daemons: &mut Value) {
    workload::default_template(daemons);
    let kind = &["spec", "updateStrategy", "type"];
    if get_str(daemons, kind).is_empty() {
        set(daemons, kind, "RollingUpdate");
    }
    if get_str(daemons, kind) == "RollingUpdate" {
        default_to(daemons, &["spec", "updateStrategy", "rollingUpdate", "maxUnavailable"], 1);
        default_to(daemons, &["spec", "updateStrategy", "rollingUpdate", "maxSurge"], 0);
    }
    default_to(daemons, &["spec", "revisionHistoryLimit"], 10);
}

fn validate(daemons: &At<'_, '_>, errors: &mut Errors) {
    let spec = daemons.field("spec");
    let (selector, template) = (spec.field("selector"), spec.field("template"));
    checks::label_selector(&selector, errors);
    let metadata = template.field("metadata");
    if checks::selects(&selector, &metadata.field("labels")) == Some(false) {
        workload::template_not_selected(&template, errors);
    }
    let empty = selector.field("matchLabels").is_empty() && selector.field("matchExpressions").is_empty();
    if selector.exists() && empty {
        errors.invalid(&selector, selector.shown(), "empty selector is invalid for daemonset");
    }
    pod_spec::validate_template(&template, errors);
    workload::runs_for_ever(&template, "DaemonSet", errors);
    errors.non_negative(&spec.field("minReadySeconds"));
    update_strategy(&spec.field("updateStrategy"), errors);
    errors.non_negative(&spec.field("revisionHistoryLimit"));
}

fn update_strategy(strategy: &At<'_, '_>, errors: &mut Errors) {
    let rolling = strategy.field("rollingUpdate");
    match strategy.field("type").str() {
        "OnDelete" => {}
        "RollingUpdate" if !rolling.exists() => errors.required(&rolling, ""),
        "RollingUpdate" => {
            let (unavailable, surge) = (rolling.field("maxUnavailable"), rolling.field("maxSurge"));
            rollout::amount(&unavailable, errors);
            rollout::amount(&surge, errors);
            rollout::at_most_all(&unavailable, errors);
            rollout::at_most_all(&surge, errors);
            match (rollout::is_nothing(&unavailable), rollout::is_nothing(&surge)) {
                (false, false) => {
                    let text = "may not be set when maxUnavailable is non-zero";
                    errors.invalid(&surge, surge.shown(), text);
                }
                (true, true) => errors.required(&unavailable, "cannot be 0 when maxSurge is 0"),
                _ => {}
            }
        }
        _ => {
            let shown = strategy.as_go(rollout::STRATEGY);
            errors.not_supported_text(strategy, &shown, &["RollingUpdate", "OnDelete"]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::super::access::has, *};

    #[test]
    fn the_generation_of_the_template_is_counted_in_an_annotation() {
        let mut first = json!({"spec": {"template": {"spec": {}}}});
        (STRATEGY.prepare_create)(&mut first);
        assert_eq!(get_str(&first, TEMPLATE_GENERATION), "1");
        let mut same_template = json!({"spec": {"template": {"spec": {}}, "minReadySeconds": 5}});
        (STRATEGY.prepare_update)(&mut same_template, &first);
        assert_eq!(get_str(&same_template, TEMPLATE_GENERATION), "1");
        let mut other_template = json!({"spec": {"template": {"spec": {"hostNetwork": true}}}});
        (STRATEGY.prepare_update)(&mut other_template, &first);
        assert_eq!(get_str(&other_template, TEMPLATE_GENERATION), "2");
        assert!(has(&other_template, &["status", "numberReady"]));
    }
}
