//! Pod templates that stand alone.

use serde_json::{Map, Value};

use super::{
    super::{
        Strategy,
        access::{default_to, same},
        report::{At, Errors},
    },
    pod_spec,
};

/// What a pod template does.
pub(crate) const STRATEGY: Strategy = Strategy {
    default: |object| {
        default_to(object, &["template"], Map::new());
        if let Some(template) = object.get_mut("template") {
            pod_spec::default_template(template);
        }
    },
    validate: |object| Errors::of(object, validate),
    validate_update: |object, _| Errors::of(object, validate),
    warnings: |object, old| {
        if old.is_some_and(|old| !changed(object, old)) {
            return Vec::new();
        }
        pod_spec::pod_warnings(&At::root(object).field("template"))
    },
    generation: Some(changed),
    ..Strategy::PLAIN
};

fn changed(object: &Value, old: &Value) -> bool {
    !same(object, old, &["template"])
}

fn validate(object: &At<'_, '_>, errors: &mut Errors) {
    pod_spec::validate_template(&object.field("template"), errors);
}
