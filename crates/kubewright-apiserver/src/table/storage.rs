//! Rows of volumes, claims and their classes and drivers.

use jiff::Timestamp;
use serde_json::Value;

use super::format::{NONE, UNSET, age, annotated, name, or, quantity, row, strings};
use crate::kinds::access::{get, get_bool, get_str, has, items};

const BETA_CLASS: &[&str] = &["metadata", "annotations", "volume.beta.kubernetes.io/storage-class"];

fn access_modes(object: &Value, path: &[&str]) -> String {
    const SHORT: [(&str, &str); 4] = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let modes = strings(object, path);
    let shown: Vec<&str> =
        SHORT.iter().filter(|(mode, _)| modes.contains(mode)).map(|(_, short)| *short).collect();
    shown.join(",")
}

fn phase(object: &Value) -> &str {
    if has(object, &["metadata", "deletionTimestamp"]) {
        "Terminating"
    } else {
        get_str(object, &["status", "phase"])
    }
}

/// The class of a volume or claim: the annotation of old counts before the field.
fn class(object: &Value) -> &str {
    let class = get(object, BETA_CLASS).or_else(|| get(object, &["spec", "storageClassName"]));
    class.and_then(Value::as_str).unwrap_or_default()
}

fn text_or_unset<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    get(object, path).and_then(Value::as_str).unwrap_or(UNSET)
}

pub(super) fn persistent_volume(volume: &Value, now: Timestamp) -> Vec<Value> {
    let claim = get(volume, &["spec", "claimRef"]).map_or_else(String::new, |claim| {
        format!("{}/{}", get_str(claim, &["namespace"]), get_str(claim, &["name"]))
    });
    row![
        name(volume),
        quantity(volume, &["spec", "capacity", "storage"]),
        access_modes(volume, &["spec", "accessModes"]),
        get_str(volume, &["spec", "persistentVolumeReclaimPolicy"]),
        phase(volume),
        claim,
        class(volume),
        text_or_unset(volume, &["spec", "volumeAttributesClassName"]),
        get_str(volume, &["status", "reason"]),
        age(volume, now),
        text_or_unset(volume, &["spec", "volumeMode"]),
    ]
}

pub(super) fn persistent_volume_claim(claim: &Value, now: Timestamp) -> Vec<Value> {
    let volume = get_str(claim, &["spec", "volumeName"]);
    let (capacity, modes) = if volume.is_empty() {
        (String::new(), String::new())
    } else {
        (quantity(claim, &["status", "capacity", "storage"]), access_modes(claim, &["status", "accessModes"]))
    };
    row![
        name(claim),
        phase(claim),
        volume,
        capacity,
        modes,
        class(claim),
        text_or_unset(claim, &["spec", "volumeAttributesClassName"]),
        age(claim, now),
        text_or_unset(claim, &["spec", "volumeMode"]),
    ]
}

pub(super) fn storage_class(class: &Value, now: Timestamp) -> Vec<Value> {
    let mut shown_name = get_str(class, &["metadata", "name"]).to_owned();
    if annotated(class, "storageclass.kubernetes.io/is-default-class")
        || annotated(class, "storageclass.beta.kubernetes.io/is-default-class")
    {
        shown_name.push_str(" (default)");
    }
    row![
        shown_name,
        get_str(class, &["provisioner"]),
        or(get_str(class, &["reclaimPolicy"]), "Delete"),
        or(get_str(class, &["volumeBindingMode"]), "Immediate"),
        get_bool(class, &["allowVolumeExpansion"]),
        age(class, now),
    ]
}

pub(super) fn volume_attributes_class(class: &Value, now: Timestamp) -> Vec<Value> {
    row![name(class), get_str(class, &["driverName"]), age(class, now)]
}

pub(super) fn volume_attachment(attachment: &Value, now: Timestamp) -> Vec<Value> {
    row![
        name(attachment),
        get_str(attachment, &["spec", "attacher"]),
        get_str(attachment, &["spec", "source", "persistentVolumeName"]),
        get_str(attachment, &["spec", "nodeName"]),
        get_bool(attachment, &["status", "attached"]),
        age(attachment, now),
    ]
}

pub(super) fn csi_node(node: &Value, now: Timestamp) -> Vec<Value> {
    row![name(node), items(node, &["spec", "drivers"]).len(), age(node, now)]
}

pub(super) fn csi_driver(driver: &Value, now: Timestamp) -> Vec<Value> {
    let attach = get(driver, &["spec", "attachRequired"]).and_then(Value::as_bool).unwrap_or(true);
    let tokens = get(driver, &["spec", "tokenRequests"]).and_then(Value::as_array).map_or_else(
        || UNSET.to_owned(),
        |tokens| {
            let audiences: Vec<&str> = tokens.iter().map(|token| get_str(token, &["audience"])).collect();
            audiences.join(",")
        },
    );
    row![
        name(driver),
        attach,
        get_bool(driver, &["spec", "podInfoOnMount"]),
        get_bool(driver, &["spec", "storageCapacity"]),
        tokens,
        get_bool(driver, &["spec", "requiresRepublish"]),
        or(&strings(driver, &["spec", "volumeLifecycleModes"]).join(","), NONE),
        age(driver, now),
    ]
}
