//! Persistent volumes: a piece of storage and who may claim it.

use serde_json::{Value, json};

use super::{
    super::{
        Strategy,
        access::{default_to, get_mut, get_str, has, remove, set},
        checks::{self, quantity},
        lifecycle::{keep_spec, keep_status},
        report::{At, Errors},
    },
    pod_spec, volume_claim,
};
use crate::field::FieldError;

/// What a persistent volume does.
pub(crate) const STRATEGY: Strategy = Strategy {
    default,
    prepare_create: |volume| set(volume, &["status"], json!({"phase": "Pending"})),
    prepare_update: keep_status,
    prepare_status_update: keep_spec,
    validate: |volume| Errors::of(volume, validate),
    validate_update,
    warnings: |volume, _| warnings(&At::root(volume)),
    ..Strategy::PLAIN
};

const MOUNT_OPTIONS: &str = "volume.beta.kubernetes.io/mount-options";

const SOURCES: [&str; 22] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flocker",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

fn default(volume: &mut Value) {
    if get_str(volume, &["status", "phase"]).is_empty() {
        set(volume, &["status", "phase"], "Pending");
    }
    if get_str(volume, &["spec", "persistentVolumeReclaimPolicy"]).is_empty() {
        set(volume, &["spec", "persistentVolumeReclaimPolicy"], "Retain");
    }
    default_to(volume, &["spec", "volumeMode"], "Filesystem");
    pod_spec::round_amounts(get_mut(volume, &["spec", "capacity"]));
    if let Some(spec) = volume.get_mut("spec") {
        pod_spec::default_volume_source(spec);
    }
}

fn validate(volume: &At<'_, '_>, errors: &mut Errors) {
    let spec = volume.field("spec");
    let modes = spec.field("accessModes");
    if modes.is_empty() {
        errors.required(&modes, "");
    }
    volume_claim::access_modes(&modes, errors);
    let capacity = spec.field("capacity");
    if capacity.is_empty() {
        errors.required(&capacity, "");
    }
    if !capacity.field("storage").exists() || capacity.len() > 1 {
        errors.not_supported(&capacity, capacity.shown(), &["storage"]);
    }
    for (_, amount) in capacity.entries() {
        let size = quantity(amount.str());
        if size.sign() < 0 {
            errors.invalid(&amount, size.value(), "must be a valid resource quantity");
        }
        if size.sign() <= 0 {
            errors.invalid(&amount, amount.str(), "must be greater than zero");
        }
    }
    let policy = spec.field("persistentVolumeReclaimPolicy");
    errors.optional_one_of(&policy, &["Delete", "Recycle", "Retain"]);
    let affinity = spec.field("nodeAffinity");
    if affinity.exists() {
        if affinity.field("required").exists() {
            pod_spec::node_selector(&affinity.field("required"), errors);
        } else {
            errors.required(&affinity.field("required"), "must specify required node constraints");
        }
    }
    source(&spec, errors);
    let root = spec.field("hostPath").field("path").str();
    if !root.is_empty() && root.split('/').all(|part| matches!(part, "" | ".")) && policy.str() == "Recycle" {
        errors.forbidden(&policy, "may not be 'recycle' for a hostPath mount of '/'");
    }
    let class = spec.field("storageClassName");
    if !class.str().is_empty() {
        errors.each(&class, checks::dns_subdomain(class.str()));
    }
    errors.optional_one_of(&spec.field("volumeMode"), &["Block", "Filesystem"]);
    let attributes = spec.field("volumeAttributesClassName");
    if attributes.exists() {
        if attributes.str().is_empty() {
            errors.required(&attributes, "an empty string is disallowed");
        } else {
            errors.each(&attributes, checks::dns_subdomain(attributes.str()));
        }
        if !spec.field("csi").exists() {
            errors.required(&spec.field("csi"), "has to be specified when using volumeAttributesClassName");
        }
    }
    mount_options(volume, errors);
}

/// The annotation with mount options is for some kinds of volumes only.
fn mount_options(volume: &At<'_, '_>, errors: &mut Errors) {
    const WITHOUT: [&str; 9] =
        ["hostPath", "fc", "flocker", "flexVolume", "portworxVolume", "scaleIO", "local", "storageos", "csi"];
    let (spec, metadata) = (volume.field("spec"), volume.field("metadata"));
    let annotations = metadata.field("annotations");
    let with = SOURCES.iter().any(|kind| spec.field(kind).exists() && !WITHOUT.contains(kind));
    if annotations.key(MOUNT_OPTIONS).exists() && !with {
        errors.forbidden(
            &annotations.field(MOUNT_OPTIONS),
            "may not specify mount options for this volume type",
        );
    }
}

fn source(spec: &At<'_, '_>, errors: &mut Errors) {
    let mut found = false;
    for kind in SOURCES {
        let source = spec.field(kind);
        if !source.exists() {
            continue;
        }
        if found {
            errors.forbidden(&source, "may not specify more than 1 volume type");
            continue;
        }
        found = true;
        match kind {
            "hostPath" => pod_spec::host_path(&source, errors),
            "nfs" => pod_spec::nfs(&source, errors),
            "local" => {
                let path = source.field("path");
                if path.str().is_empty() {
                    errors.required(&path, "");
                }
                checks::no_backsteps(&path, path.str(), errors);
                if !spec.field("nodeAffinity").exists() {
                    errors.required(&spec.field("nodeAffinity"), "Local volume requires node affinity");
                }
            }
            "csi" => csi(&source, errors),
            _ => {}
        }
    }
    if !found {
        errors.required(spec, "must specify a volume type");
    }
}

fn csi(source: &At<'_, '_>, errors: &mut Errors) {
    pod_spec::csi_driver_name(&source.field("driver"), errors);
    let handle = source.field("volumeHandle");
    if handle.str().is_empty() {
        errors.required(&handle, "");
    }
    for field in [
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ] {
        let secret = source.field(field);
        if !secret.exists() {
            continue;
        }
        for (part, rule) in
            [("name", checks::dns_subdomain as fn(&str) -> Vec<String>), ("namespace", checks::dns_label)]
        {
            let part = secret.field(part);
            if part.str().is_empty() {
                errors.required(&part, "");
            } else {
                errors.each(&part, rule(part.str()));
            }
        }
    }
}

fn validate_update(volume: &Value, old: &Value) -> Vec<FieldError> {
    Errors::of(volume, |at, errors| {
        validate(at, errors);
        let was = At::root(old);
        let (spec, was) = (at.field("spec"), was.field("spec"));
        let mut now = volume.clone();
        if has(old, &["spec", "csi"]) && !has(old, &["spec", "csi", "controllerExpandSecretRef"]) {
            remove(&mut now, &["spec", "csi", "controllerExpandSecretRef"]);
        }
        let changed = SOURCES.iter().find(|kind| now["spec"].get(**kind) != old["spec"].get(**kind));
        if let Some(kind) = changed {
            let text = "spec.persistentvolumesource is immutable after creation";
            let shown = |value: Option<&Value>| value.map_or_else(|| "null".to_owned(), Value::to_string);
            let (before, after) = (shown(old["spec"].get(*kind)), shown(now["spec"].get(*kind)));
            let place = spec.field("persistentvolumesource");
            errors.forbidden(&place, format!("{text}\n- {kind}: {before}\n+ {kind}: {after}"));
        }
        let mode = spec.field("volumeMode");
        if mode.value() != was.field("volumeMode").value() {
            errors.invalid(&at.field("volumeMode"), mode.shown(), "field is immutable");
        }
        let affinity = spec.field("nodeAffinity");
        if was.field("nodeAffinity").exists() && affinity.value() != was.field("nodeAffinity").value() {
            let text = "field is immutable, except for updating from beta label to GA";
            errors.invalid(&at.field("nodeAffinity"), affinity.shown(), text);
        }
        let class = spec.field("volumeAttributesClassName");
        if was.field("volumeAttributesClassName").exists() && !class.exists() {
            errors.forbidden(&class, "update from non-nil value to nil is forbidden");
        }
    })
}

fn warnings(volume: &At<'_, '_>) -> Vec<String> {
    let mut warnings = Vec::new();
    let (spec, metadata) = (volume.field("spec"), volume.field("metadata"));
    let annotations = metadata.field("annotations");
    for (key, message) in [
        (
            "volume.beta.kubernetes.io/storage-class",
            "deprecated since v1.8; use \"storageClassName\" attribute instead",
        ),
        (MOUNT_OPTIONS, "deprecated since v1.31; use \"mountOptions\" attribute instead"),
    ] {
        if annotations.key(key).exists() {
            warnings.push(format!("{}: {message}", annotations.key(key).path()));
        }
    }
    if spec.field("persistentVolumeReclaimPolicy").str() == "Recycle" {
        warnings.push("spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.".to_owned());
    }
    let affinity = spec.field("nodeAffinity");
    let required = affinity.field("required");
    for term in required.field("nodeSelectorTerms").items() {
        pod_spec::node_selector_term_warnings(&term, false, &mut warnings);
    }
    for (kind, message) in [
        ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
        ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
        ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
        ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
        ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
        ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
    ] {
        if spec.field(kind).exists() {
            let shown = if kind == "storageos" { "storageOS" } else { kind };
            warnings.push(format!("spec.{shown}: {message}"));
        }
    }
    warnings
}
