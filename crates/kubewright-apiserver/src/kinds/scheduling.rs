//! Priority classes: which pods count more than others.

use serde_json::Value;

use super::{
    Strategy,
    access::default_to,
    report::{At, Errors},
};
use crate::field::FieldError;

const HIGHEST_OF_USERS: i64 = 1_000_000_000;

/// The kinds of the group `scheduling.k8s.io`.
pub(crate) const STRATEGIES: &[(&str, &str, Strategy)] = &[("v1", "PriorityClass", PRIORITY_CLASS)];

const PRIORITY_CLASS: Strategy = Strategy {
    default: |object| default_to(object, &["preemptionPolicy"], "PreemptLowerPriority"),
    validate,
    validate_update,
    // There is a generation, but nothing that could raise it may change.
    generation: Some(|_, _| false),
    ..Strategy::PLAIN
};

fn validate(object: &Value) -> Vec<FieldError> {
    Errors::of(object, |object, errors| {
        let metadata = object.field("metadata");
        let name = metadata.field("name");
        let value = object.field("value");
        if name.str().starts_with("system-") {
            if let Some(why) =
                not_of_the_system(name.str(), value.int(), object.field("globalDefault").bool())
            {
                errors.forbidden(
                    &name,
                    format!("priority class names with 'system-' prefix are reserved for system use only. error: {why}"),
                );
            }
        } else if value.int() > HIGHEST_OF_USERS {
            errors.forbidden(
                &value,
                format!("maximum allowed value of a user defined priority is {HIGHEST_OF_USERS}"),
            );
        }
        let policy = object.field("preemptionPolicy");
        if policy.exists() {
            errors.one_of(&policy, &["PreemptLowerPriority", "Never"]);
        }
    })
}

fn not_of_the_system(name: &str, value: i64, global_default: bool) -> Option<String> {
    let known = match name {
        "system-cluster-critical" => 2 * HIGHEST_OF_USERS,
        "system-node-critical" => 2 * HIGHEST_OF_USERS + 1000,
        _ => return Some(format!("{name} is not a known system priority class")),
    };
    if value != known {
        Some(format!("value of {name} PriorityClass must be {known}"))
    } else if global_default {
        Some(format!("globalDefault of {name} PriorityClass must be false"))
    } else {
        None
    }
}

fn validate_update(object: &Value, old: &Value) -> Vec<FieldError> {
    Errors::of(object, |object, errors| {
        let old = At::root(old);
        let value = object.field("value");
        if value.int() != old.field("value").int() {
            errors.forbidden(&value, "may not be changed in an update.");
        }
        errors.immutable(&object.field("preemptionPolicy"), &old.field("preemptionPolicy"));
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_system_has_the_highest_priorities() {
        let text = |object: Value| validate(&object).first().map(ToString::to_string).unwrap_or_default();
        assert_eq!(text(json!({"metadata": {"name": "a"}, "value": 1_000_000_000})), "");
        assert_eq!(
            text(json!({"metadata": {"name": "a"}, "value": 1_000_000_001})),
            "value: Forbidden: maximum allowed value of a user defined priority is 1000000000"
        );
        assert_eq!(
            text(json!({"metadata": {"name": "system-x"}, "value": 1})),
            "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: system-x is not a known system priority class"
        );
        assert_eq!(text(json!({"metadata": {"name": "system-node-critical"}, "value": 2_000_001_000})), "");
    }
}
