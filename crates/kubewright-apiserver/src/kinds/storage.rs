//! Storage classes, drivers and attachments.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{
    Strategy,
    access::{default_to, get, items, remove, same},
    checks,
    core::pod_spec::csi_driver_name,
    internal_form::{Absent, internal_form},
    lifecycle::{keep_status, spec_changed},
    report::{At, Errors},
    status::{drop_status, keep_spec_and_metadata},
};
use crate::field::FieldError;

const KIBIBYTE: usize = 1024;

/// The kinds of the group `storage.k8s.io`.
pub(crate) const STRATEGIES: &[(&str, &str, Strategy)] = &[
    ("v1", "CSIDriver", CSI_DRIVER),
    ("v1", "CSINode", CSI_NODE),
    ("v1", "CSIStorageCapacity", CSI_STORAGE_CAPACITY),
    ("v1", "StorageClass", STORAGE_CLASS),
    ("v1", "VolumeAttachment", VOLUME_ATTACHMENT),
    ("v1", "VolumeAttributesClass", VOLUME_ATTRIBUTES_CLASS),
];

const STORAGE_CLASS: Strategy = Strategy {
    default: |object| {
        default_to(object, &["reclaimPolicy"], "Delete");
        default_to(object, &["volumeBindingMode"], "Immediate");
    },
    validate: |object| Errors::of(object, storage_class),
    validate_update: |object, old| {
        Errors::of(object, |class, errors| {
            storage_class(class, errors);
            let old = At::root(old);
            for field in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
                errors.immutable(&class.field(field), &old.field(field));
            }
        })
    },
    ..Strategy::PLAIN
};

const VOLUME_ATTRIBUTES_CLASS: Strategy = Strategy {
    validate: |object| Errors::of(object, volume_attributes_class),
    validate_update: |object, old| {
        Errors::of(object, |class, errors| {
            for field in ["driverName", "parameters"] {
                if !same(object, old, &[field]) {
                    errors.forbidden(&class.field(field), format!("updates to {field} are forbidden."));
                }
            }
            volume_attributes_class(class, errors);
        })
    },
    ..Strategy::PLAIN
};

const CSI_DRIVER: Strategy = Strategy {
    default: default_driver,
    prepare_create: drop_gated,
    prepare_update: |object, _| drop_gated(object),
    validate: |object| Errors::of(object, csi_driver),
    validate_update: |object, old| {
        Errors::of(object, |driver, errors| {
            csi_driver(driver, errors);
            let old = At::root(old);
            let (spec, old_spec) = (driver.field("spec"), old.field("spec"));
            if spec.field("attachRequired").bool() != old_spec.field("attachRequired").bool() {
                let shown = spec.field("attachRequired").shown();
                errors.invalid(&spec.field("attachedRequired"), shown, "field is immutable");
            }
            errors.immutable(&spec.field("volumeLifecycleModes"), &old_spec.field("volumeLifecycleModes"));
        })
    },
    warnings: driver_warnings,
    generation: Some(spec_changed),
    ..Strategy::PLAIN
};

const CSI_NODE: Strategy = Strategy {
    validate: |object| Errors::of(object, csi_node),
    validate_update: csi_node_update,
    ..Strategy::PLAIN
};

const CSI_STORAGE_CAPACITY: Strategy = Strategy {
    validate: |object| Errors::of(object, storage_capacity),
    validate_update: |object, old| {
        Errors::of(object, |capacity, errors| {
            storage_capacity(capacity, errors);
            let old = At::root(old);
            for field in ["nodeTopology", "storageClassName"] {
                errors.immutable(&capacity.field(field), &old.field(field));
            }
        })
    },
    ..Strategy::PLAIN
};

const VOLUME_ATTACHMENT: Strategy = Strategy {
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_status_update: keep_spec_and_metadata,
    validate: |object| Errors::of(object, volume_attachment),
    validate_update: attachment_update,
    validate_status_update: attachment_update,
    ..Strategy::PLAIN
};

fn provisioner(at: &At<'_, '_>, errors: &mut Errors) {
    let lower = at.str().to_lowercase();
    if lower.is_empty() {
        errors.required(at, "");
        return;
    }
    for reason in checks::qualified_name(&lower) {
        errors.invalid(at, lower.as_str(), reason);
    }
}

fn parameters(at: &At<'_, '_>, errors: &mut Errors) {
    if at.len() > 512 {
        errors.too_long(at, 512);
        return;
    }
    let mut size = 0;
    for (key, value) in at.entries() {
        if key.is_empty() {
            errors.invalid(at, key, "field can not be empty.");
        }
        size += key.len() + value.str().len();
    }
    if size > 256 * KIBIBYTE {
        errors.too_long(at, 256 * KIBIBYTE);
    }
}

fn storage_class(class: &At<'_, '_>, errors: &mut Errors) {
    provisioner(&class.field("provisioner"), errors);
    parameters(&class.field("parameters"), errors);
    let policy = class.field("reclaimPolicy");
    if !policy.str().is_empty() {
        errors.optional_one_of(&policy, &["Delete", "Retain"]);
    }
    let mode = class.field("volumeBindingMode");
    if mode.exists() {
        errors.optional_one_of(&mode, &["Immediate", "WaitForFirstConsumer"]);
    } else {
        errors.required(&mode, "");
    }
    topologies(&class.field("allowedTopologies"), errors);
}

fn topologies(topologies: &At<'_, '_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for term in topologies.items() {
        let expressions = term.field("matchLabelExpressions");
        let mut keys = BTreeSet::new();
        let mut requirements = Vec::new();
        for expression in expressions.items() {
            let (key, values) = (expression.field("key"), expression.field("values"));
            if values.is_empty() {
                errors.required(&values, "");
            }
            let mut known = BTreeSet::new();
            for value in values.items() {
                if !known.insert(value.str()) {
                    errors.duplicate(&value, value.str());
                }
            }
            errors.each(&key, checks::qualified_name(key.str()));
            if !keys.insert(key.str()) {
                errors.duplicate(&key, key.str());
            }
            requirements.push((key.str(), known));
        }
        requirements.sort_unstable();
        if !seen.insert(requirements) {
            errors.duplicate(&expressions, "");
        }
    }
}

fn volume_attributes_class(class: &At<'_, '_>, errors: &mut Errors) {
    provisioner(&class.field("driverName"), errors);
    let given = class.field("parameters");
    parameters(&given, errors);
    if given.is_empty() {
        errors.required(&given, "must contain at least one key/value pair");
    }
}

fn default_driver(object: &mut Value) {
    for (field, value) in [
        ("attachRequired", Value::Bool(true)),
        ("podInfoOnMount", Value::Bool(false)),
        ("storageCapacity", Value::Bool(false)),
        ("fsGroupPolicy", "ReadWriteOnceWithFSType".into()),
        ("requiresRepublish", Value::Bool(false)),
        ("seLinuxMount", Value::Bool(false)),
    ] {
        default_to(object, &["spec", field], value);
    }
    if items(object, &["spec", "volumeLifecycleModes"]).is_empty() {
        remove(object, &["spec", "volumeLifecycleModes"]);
        default_to(object, &["spec", "volumeLifecycleModes"], vec!["Persistent"]);
    }
}

/// Belongs to a feature that is switched off.
fn drop_gated(object: &mut Value) {
    remove(object, &["spec", "preventPodSchedulingIfMissing"]);
}

fn csi_driver(driver: &At<'_, '_>, errors: &mut Errors) {
    let spec = driver.field("spec");
    errors.optional_one_of(&spec.field("fsGroupPolicy"), &["File", "None", "ReadWriteOnceWithFSType"]);
    let tokens = spec.field("tokenRequests");
    let mut audiences = BTreeSet::new();
    for token in tokens.items() {
        let audience = token.field("audience");
        if !audiences.insert(audience.str()) {
            errors.duplicate(&audience, audience.str());
            continue;
        }
        let expiration = token.field("expirationSeconds");
        if let Some(seconds) = expiration.number() {
            if seconds < 600 {
                errors.invalid(&expiration, seconds, "may not specify a duration less than 10 minutes");
            }
            if seconds > 1 << 32 {
                errors.invalid(&expiration, seconds, "may not specify a duration larger than 2^32 seconds");
            }
        }
    }
    let modes = spec.field("volumeLifecycleModes");
    for mode in modes.strings().filter(|mode| !matches!(*mode, "Persistent" | "Ephemeral")) {
        errors.not_supported(&modes, mode, &["Persistent", "Ephemeral"]);
    }
    let period = spec.field("nodeAllocatableUpdatePeriodSeconds");
    if period.number().is_some_and(|seconds| seconds < 10) {
        errors.invalid(&period, period.int(), "must be greater than or equal to 10 seconds");
    }
    let in_secrets = spec.field("serviceAccountTokenInSecrets");
    if in_secrets.exists() && tokens.is_empty() {
        let why = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        errors.invalid(&in_secrets, in_secrets.shown(), why);
    }
}

fn driver_warnings(object: &Value, old: Option<&Value>) -> Vec<String> {
    let tokens = &["spec", "tokenRequests"];
    let changed = old.is_none_or(|old| !same(object, old, tokens));
    let unset = get(object, &["spec", "serviceAccountTokenInSecrets"]).is_none();
    if changed && unset && !items(object, tokens).is_empty() {
        vec!["spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes".to_owned()]
    } else {
        Vec::new()
    }
}

fn csi_node(node: &At<'_, '_>, errors: &mut Errors) {
    let spec = node.field("spec");
    let drivers = spec.field("drivers");
    let mut names = BTreeSet::new();
    for driver in drivers.items() {
        let (name, id) = (driver.field("name"), driver.field("nodeID"));
        csi_driver_name(&name, errors);
        if id.str().is_empty() {
            errors.required(&id, "");
        }
        if id.str().len() > 256 {
            errors.invalid(&id, id.str(), "must be 256 characters or less");
        }
        errors.non_negative(&driver.field("allocatable").field("count"));
        if !names.insert(name.str()) {
            errors.duplicate(&name, name.str());
        }
        let mut keys = BTreeSet::new();
        for key in driver.field("topologyKeys").strings() {
            if key.is_empty() {
                errors.required(&driver, "");
            }
            if !keys.insert(key) {
                errors.duplicate(&driver, key);
            }
            for reason in checks::qualified_name(key) {
                errors.invalid(&driver, key, reason);
            }
        }
    }
}

/// A driver may leave or come, but what it said of a node stays, its capacity aside.
fn csi_node_update(object: &Value, old: &Value) -> Vec<FieldError> {
    Errors::of(object, |node, errors| {
        csi_node(node, errors);
        let old = At::root(old);
        let (spec, old_spec) = (node.field("spec"), old.field("spec"));
        let (drivers, old_drivers) = (spec.field("drivers"), old_spec.field("drivers"));
        for before in old_drivers.items() {
            for driver in drivers.items() {
                let (Some(now), Some(then)) = (driver.value(), before.value()) else { continue };
                let changed = ["nodeID", "topologyKeys"].iter().any(|field| !same(now, then, &[field]));
                if driver.field("name").str() == before.field("name").str() && changed {
                    let shown = internal_form(
                        &driver,
                        &[
                            ("name", "Name", Absent::Text),
                            ("nodeID", "NodeID", Absent::Text),
                            ("topologyKeys", "TopologyKeys", Absent::Nil),
                            // Left out of the comparison, and so shown as if it were not there.
                            ("", "Allocatable", Absent::Nil),
                        ],
                    );
                    errors.invalid_unshown(&drivers, format!("{shown}: field is immutable"));
                }
            }
        }
    })
}

fn storage_capacity(capacity: &At<'_, '_>, errors: &mut Errors) {
    checks::label_selector(&capacity.field("nodeTopology"), errors);
    let class = capacity.field("storageClassName");
    errors.each(&class, checks::dns_subdomain(class.str()));
    let amount = capacity.field("capacity");
    if checks::quantity(amount.str()).sign() < 0 {
        errors.invalid(&amount, amount.str(), "must be greater than or equal to 0");
    }
}

fn volume_attachment(attachment: &At<'_, '_>, errors: &mut Errors) {
    const ONE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    let spec = attachment.field("spec");
    csi_driver_name(&spec.field("attacher"), errors);
    let source = spec.field("source");
    let (inline, volume) = (source.field("inlineVolumeSpec"), source.field("persistentVolumeName"));
    match (inline.exists(), volume.exists()) {
        (false, false) => errors.required(&source, ONE),
        (true, true) => errors.forbidden(&source, ONE),
        (false, true) if volume.str().is_empty() => {
            errors.required(&volume, "must specify non empty persistentVolumeName");
        }
        _ => {}
    }
    let node = spec.field("nodeName");
    errors.each(&node, checks::dns_subdomain(node.str()));
    let status = attachment.field("status");
    let metadata = status.field("attachmentMetadata");
    let size: usize = metadata.entries().map(|(key, value)| key.len() + value.str().len()).sum();
    if size > 256 * KIBIBYTE {
        errors.too_long(&metadata, 256 * KIBIBYTE);
    }
    for field in ["attachError", "detachError"] {
        let error = status.field(field);
        let (message, code) = (error.field("message"), error.field("errorCode"));
        if message.str().len() > KIBIBYTE {
            errors.too_long(&message, 256 * KIBIBYTE);
        }
        if code.int() < 0 {
            errors.invalid(&code, code.int(), checks::out_of_range(0, i64::from(i32::MAX)));
        }
    }
    if volume.exists() {
        errors.each(&volume, checks::dns_subdomain(volume.str()));
    }
}

fn attachment_update(object: &Value, old: &Value) -> Vec<FieldError> {
    Errors::of(object, |attachment, errors| {
        volume_attachment(attachment, errors);
        if same(object, old, &["spec"]) {
            return;
        }
        let spec = attachment.field("spec");
        let source = spec.field("source");
        let shown = format!(
            "{{\"Attacher\":{},\"Source\":{{\"PersistentVolumeName\":{},\"InlineVolumeSpec\":{}}},\"NodeName\":{}}}",
            Value::from(spec.field("attacher").str()),
            source.field("persistentVolumeName").shown(),
            source.field("inlineVolumeSpec").value().map_or(Value::Null, |_| Value::Object(Map::new())),
            Value::from(spec.field("nodeName").str()),
        );
        errors.invalid_unshown(&spec, format!("{shown}: field is immutable"));
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts(errors: &[FieldError]) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_storage_class_deletes_at_once_unless_it_says_else_and_never_changes() {
        let mut class = json!({"provisioner": "example.com/p"});
        (STORAGE_CLASS.default)(&mut class);
        assert_eq!(
            class,
            json!({"provisioner": "example.com/p", "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"})
        );
        let mut changed = class.clone();
        changed["parameters"] = json!({"a": "b"});
        changed["reclaimPolicy"] = "Recycle".into();
        assert_eq!(
            texts(&(STORAGE_CLASS.validate_update)(&changed, &class)),
            [
                "reclaimPolicy: Unsupported value: \"Recycle\": supported values: \"Delete\", \"Retain\"",
                "parameters: Invalid value: {\"a\":\"b\"}: field is immutable",
                "reclaimPolicy: Invalid value: \"Recycle\": field is immutable",
            ]
        );
    }

    #[test]
    fn a_driver_is_described_in_full() {
        let mut driver = json!({"spec": {"attachRequired": false}});
        default_driver(&mut driver);
        assert_eq!(
            driver["spec"],
            json!({
                "attachRequired": false, "fsGroupPolicy": "ReadWriteOnceWithFSType", "podInfoOnMount": false,
                "requiresRepublish": false, "seLinuxMount": false, "storageCapacity": false,
                "volumeLifecycleModes": ["Persistent"],
            })
        );
        assert!((CSI_DRIVER.validate)(&driver).is_empty());
        let mut changed = driver.clone();
        changed["spec"]["attachRequired"] = true.into();
        assert_eq!(
            texts(&(CSI_DRIVER.validate_update)(&changed, &driver)),
            ["spec.attachedRequired: Invalid value: true: field is immutable"]
        );
    }

    #[test]
    fn an_attachment_names_one_volume() {
        let attachment =
            |source: Value| json!({"spec": {"attacher": "a.b", "nodeName": "n", "source": source}});
        assert_eq!(
            texts(&(VOLUME_ATTACHMENT.validate)(&attachment(json!({})))),
            [
                "spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName"
            ]
        );
        let (one, other) = (
            attachment(json!({"persistentVolumeName": "v"})),
            attachment(json!({"persistentVolumeName": "w"})),
        );
        assert_eq!(
            texts(&(VOLUME_ATTACHMENT.validate_update)(&other, &one)),
            [
                "spec: Invalid value: {\"Attacher\":\"a.b\",\"Source\":{\"PersistentVolumeName\":\"w\",\"InlineVolumeSpec\":null},\"NodeName\":\"n\"}: field is immutable"
            ]
        );
    }
}
