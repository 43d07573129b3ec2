//! Runtime classes: which container runtime a pod asks for.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    Strategy, checks,
    core::pod_spec,
    report::{At, Errors},
};
use crate::field::FieldError;

/// The kinds of the group `node.k8s.io`.
pub(crate) const STRATEGIES: &[(&str, &str, Strategy)] = &[("v1", "RuntimeClass", RUNTIME_CLASS)];

const RUNTIME_CLASS: Strategy =
    Strategy { validate: |object| Errors::of(object, runtime_class), validate_update, ..Strategy::PLAIN };

fn runtime_class(object: &At<'_, '_>, errors: &mut Errors) {
    let handler = object.field("handler");
    if handler.str().is_empty() {
        errors.required(&handler, "");
    } else {
        errors.each(&handler, checks::dns_label(handler.str()));
    }
    overhead(&object.field("overhead"), errors);
    let scheduling = object.field("scheduling");
    checks::labels(&scheduling.field("nodeSelector"), errors);
    let tolerations = scheduling.field("tolerations");
    pod_spec::tolerations(&tolerations, errors);
    let identity = |toleration: &At<'_, '_>| {
        ["key", "operator", "value", "effect"].map(|field| toleration.field(field).str().to_owned())
    };
    let mut seen = BTreeSet::new();
    for toleration in tolerations.items() {
        if !seen.insert(identity(&toleration)) {
            errors.duplicate(&toleration, toleration.shown());
        }
    }
}

/// What a pod of this class needs besides its containers; reported as if these were limits.
fn overhead(overhead: &At<'_, '_>, errors: &mut Errors) {
    let limits = overhead.field("limits");
    let fixed = overhead.field("podFixed");
    for (name, amount) in fixed.entries() {
        let at = limits.key(name);
        pod_spec::container_resource_name(&at, name, errors);
        if checks::quantity(amount.str()).sign() < 0 {
            errors.invalid(&at, amount.str(), "must be greater than or equal to 0");
        }
    }
}

fn validate_update(object: &Value, old: &Value) -> Vec<FieldError> {
    Errors::of(object, |object, errors| {
        runtime_class(object, errors);
        errors.immutable(&object.field("handler"), &At::root(old).field("handler"));
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_class_names_its_handler_for_good() {
        let texts =
            |errors: &[FieldError]| -> Vec<String> { errors.iter().map(ToString::to_string).collect() };
        let class = json!({"handler": "a"});
        assert!(Errors::of(&class, runtime_class).is_empty());
        assert_eq!(
            texts(&validate_update(&json!({"handler": "b"}), &class)),
            ["handler: Invalid value: \"b\": field is immutable"]
        );
        let toleration = json!({"key": "a", "operator": "Exists"});
        assert_eq!(
            texts(&Errors::of(
                &json!({
                    "overhead": {"podFixed": {"cpu": "-1"}}, "scheduling": {"tolerations": [toleration, toleration]},
                }),
                runtime_class
            )),
            [
                "handler: Required value",
                "overhead.limits[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
                "scheduling.tolerations[1]: Duplicate value: {\"key\":\"a\",\"operator\":\"Exists\"}",
            ]
        );
    }
}
