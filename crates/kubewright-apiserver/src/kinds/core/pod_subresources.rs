//! What may change of a pod through its subresources `ephemeralcontainers` and `resize`.

use serde_json::Value;

use super::{
    super::{
        Strategy,
        access::{copy_from, get, get_str, items, items_mut, remove, set},
        lifecycle::spec_changed,
        report::{At, Errors},
    },
    pod::{annotation_changes, default, qos_class, validate_any},
};
use crate::field::FieldError;

/// What an update of `/ephemeralcontainers` does.
pub(crate) const EPHEMERAL_CONTAINERS: Strategy = Strategy {
    default,
    prepare_update: prepare_ephemeral_containers,
    validate_update: validate_ephemeral_containers,
    generation: Some(spec_changed),
    ..Strategy::PLAIN
};

/// What an update of `/resize` does.
pub(crate) const RESIZE: Strategy = Strategy {
    default,
    prepare_update: prepare_resize,
    validate_update: validate_resize,
    generation: Some(spec_changed),
    ..Strategy::PLAIN
};

/// An update of `/ephemeralcontainers` touches nothing else.
fn prepare_ephemeral_containers(pod: &mut Value, old: &Value) {
    let added = remove(pod, &["spec", "ephemeralContainers"]);
    copy_from(pod, old, &["spec"]);
    copy_from(pod, old, &["status"]);
    match added {
        Some(containers) => set(pod, &["spec", "ephemeralContainers"], containers),
        None => {
            remove(pod, &["spec", "ephemeralContainers"]);
        }
    }
}

/// Ephemeral containers come, and never go or change.
fn validate_ephemeral_containers(pod: &Value, old: &Value) -> Vec<FieldError> {
    Errors::of(pod, |pod, errors| {
        validate_any(pod, errors);
        let old = At::root(old);
        annotation_changes(pod, &old, errors);
        let (spec, was) = (pod.field("spec"), old.field("spec"));
        let containers = spec.field("ephemeralContainers");
        for before in was.field("ephemeralContainers").items() {
            let name = before.field("name").str();
            match containers.items().find(|one| one.field("name").str() == name) {
                None => {
                    let text = format!("existing ephemeral containers \"{name}\" may not be removed\n");
                    errors.forbidden(&containers, text);
                }
                Some(now) if now.value() != before.value() => {
                    let text = format!("existing ephemeral containers \"{name}\" may not be changed\n");
                    errors.forbidden(&containers, text);
                }
                Some(_) => {}
            }
        }
    })
}

/// An update of `/resize` touches resources and resize policies of containers, and the resources of the
/// pod as a whole.
fn prepare_resize(pod: &mut Value, old: &Value) {
    let resized = pod.get("spec").cloned().unwrap_or_default();
    copy_from(pod, old, &["spec"]);
    copy_from(pod, old, &["status"]);
    for list in ["containers", "initContainers"] {
        for container in items_mut(pod, &["spec", list]) {
            let name = get_str(container, &["name"]).to_owned();
            let wanted = items(&resized, &[list]).iter().find(|one| get_str(one, &["name"]) == name);
            if let Some(wanted) = wanted {
                copy_from(container, wanted, &["resources"]);
                copy_from(container, wanted, &["resizePolicy"]);
            }
        }
    }
    match get(&resized, &["resources"]) {
        Some(resources) => set(pod, &["spec", "resources"], resources.clone()),
        None => {
            remove(pod, &["spec", "resources"]);
        }
    }
}

/// A resize keeps the quality-of-service class and changes only CPU and memory.
fn validate_resize(pod: &Value, old: &Value) -> Vec<FieldError> {
    Errors::of(pod, |at, errors| {
        validate_any(at, errors);
        let spec = at.field("spec");
        if qos_class(pod) != qos_class(old) {
            let text = "Pod QOS Class may not change as a result of resizing";
            errors.invalid(&spec, get_str(pod, &["status", "qosClass"]), text);
        }
        let was = At::root(old);
        let was = was.field("spec");
        for list in ["containers", "initContainers"] {
            for (container, before) in spec.field(list).items().zip(was.field(list).items()) {
                for side in ["requests", "limits"] {
                    let (resources, old_resources) =
                        (container.field("resources"), before.field("resources"));
                    let (now, then) = (resources.field(side), old_resources.field(side));
                    for (name, amount) in then.entries() {
                        let basic = matches!(name, "cpu" | "memory");
                        if basic && !now.key(name).exists() {
                            errors.forbidden(&now, format!("resource {side} cannot be removed"));
                        } else if !basic && now.key(name).value() != amount.value() {
                            errors.forbidden(&spec, "only cpu and memory resources are mutable");
                        }
                    }
                }
            }
        }
    })
}
