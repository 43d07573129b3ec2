//! Persistent volume claims, also as templates of StatefulSets and ephemeral volumes.

use serde_json::{Map, Value, json};

use super::{
    super::{
        Strategy,
        access::{copy_from, default_to, get, get_mut, get_str, has, remove, same, set},
        checks::{self, quantity},
        lifecycle::{keep_spec, keep_status},
        report::{At, Errors},
    },
    pod_spec,
};
use crate::field::FieldError;

/// What a claim does.
pub(crate) const STRATEGY: Strategy = Strategy {
    default,
    prepare_create: |claim| {
        set(claim, &["status"], json!({"phase": "Pending"}));
        data_sources(claim, None);
    },
    prepare_update: |claim, old| {
        keep_status(claim, old);
        data_sources(claim, Some(old));
    },
    prepare_status_update: keep_spec,
    validate: |claim| Errors::of(claim, |claim, errors| validate_spec(&claim.field("spec"), errors)),
    validate_update,
    validate_status_update,
    warnings: |claim, _| {
        let mut warnings = Vec::new();
        let claim = At::root(claim);
        let metadata = claim.field("metadata");
        let annotations = metadata.field("annotations");
        let class = annotations.key(CLASS_ANNOTATION);
        if class.exists() {
            warnings.push(format!(
                "{}: deprecated since v1.8; use \"storageClassName\" attribute instead",
                class.path()
            ));
        }
        spec_warnings(&claim.field("spec"), &mut warnings);
        warnings
    },
    ..Strategy::PLAIN
};

const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

fn default(claim: &mut Value) {
    default_to(claim, &["spec"], Map::new());
    if let Some(spec) = claim.get_mut("spec") {
        default_spec(spec);
    }
    if get_str(claim, &["status", "phase"]).is_empty() {
        set(claim, &["status", "phase"], "Pending");
    }
}

/// The spec of a claim or of a template of claims.
pub(crate) fn default_spec(spec: &mut Value) {
    default_to(spec, &["volumeMode"], "Filesystem");
    default_to(spec, &["resources"], Map::new());
    for side in ["limits", "requests"] {
        pod_spec::round_amounts(get_mut(spec, &["resources", side]));
    }
}

/// `dataSource` is the older, narrower way to say `dataSourceRef`; each fills the other.
fn data_sources(claim: &mut Value, old: Option<&Value>) {
    let in_use = |field: &str| old.is_some_and(|old| has(old, &["spec", field]));
    let namespaced = !get_str(claim, &["spec", "dataSourceRef", "namespace"]).is_empty();
    if namespaced && !in_use("dataSourceRef") {
        remove(claim, &["spec", "dataSourceRef"]);
    }
    let known = {
        let source = |field: &str| get_str(claim, &["spec", "dataSource", field]);
        matches!(
            (source("kind"), source("apiGroup")),
            ("PersistentVolumeClaim", "") | ("VolumeSnapshot", "snapshot.storage.k8s.io")
        )
    };
    if !in_use("dataSource") && !in_use("dataSourceRef") && !has(claim, &["spec", "dataSourceRef"]) && !known
    {
        remove(claim, &["spec", "dataSource"]);
    }
    for (from, to) in [("dataSource", "dataSourceRef"), ("dataSourceRef", "dataSource")] {
        if has(claim, &["spec", to]) || !get_str(claim, &["spec", from, "namespace"]).is_empty() {
            continue;
        }
        if let Some(source) = get(claim, &["spec", from]).cloned() {
            set(claim, &["spec", to], source);
        }
    }
}

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/// Access modes of a claim or volume.
pub(crate) fn access_modes(modes: &At<'_, '_>, errors: &mut Errors) {
    for mode in modes.strings().filter(|mode| !ACCESS_MODES.contains(mode)) {
        errors.not_supported(modes, mode, &ACCESS_MODES);
    }
    let once = modes.strings().any(|mode| mode == "ReadWriteOncePod");
    let other = modes.strings().any(|mode| mode != "ReadWriteOncePod" && ACCESS_MODES.contains(&mode));
    if once && other {
        errors.forbidden(modes, "may not use ReadWriteOncePod with other access modes");
    }
}

/// The spec of a claim or of a template of claims.
pub(crate) fn validate_spec(spec: &At<'_, '_>, errors: &mut Errors) {
    let modes = spec.field("accessModes");
    if modes.is_empty() {
        errors.required(&modes, "at least 1 access mode is required");
    }
    checks::label_selector(&spec.field("selector"), errors);
    access_modes(&modes, errors);
    let resources = spec.field("resources");
    let size = resources.field("requests");
    let size = size.field("storage");
    let place = resources.key("storage").holding(size.value());
    if !size.exists() {
        errors.required(&place, "");
    } else if quantity(size.str()).sign() <= 0 {
        errors.invalid(&place, size.str(), "must be greater than zero");
    }
    for field in ["storageClassName", "volumeAttributesClassName"] {
        let class = spec.field(field);
        if !class.str().is_empty() {
            errors.each(&class, checks::dns_subdomain(class.str()));
        }
    }
    errors.optional_one_of(&spec.field("volumeMode"), &["Block", "Filesystem"]);
    let (source, reference) = (spec.field("dataSource"), spec.field("dataSourceRef"));
    for source in [&source, &reference] {
        data_source(source, errors);
    }
    let path = || spec.field("dataSource").path().to_string();
    if !reference.field("namespace").str().is_empty() {
        if source.exists() {
            errors.invalid(spec, path(), "may not be specified when dataSourceRef.namespace is specified");
        }
    } else if source.exists() && reference.exists() {
        let same = |field: &str| source.field(field).str() == reference.field(field).str();
        if !(same("apiGroup") && same("kind") && same("name")) {
            errors.invalid(spec, path(), "must match dataSourceRef");
        }
    }
}

fn data_source(source: &At<'_, '_>, errors: &mut Errors) {
    if !source.exists() {
        return;
    }
    for field in ["name", "kind"] {
        if source.field(field).str().is_empty() {
            errors.required(&source.field(field), "");
        }
    }
    let (group, kind) = (source.field("apiGroup"), source.field("kind").str());
    if group.str().is_empty() && kind != "PersistentVolumeClaim" {
        let text = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errors.invalid(source, kind, text);
    }
    if !group.str().is_empty() {
        errors.each(&group, checks::dns_subdomain(group.str()));
    }
    let namespace = source.field("namespace");
    if !namespace.str().is_empty() {
        errors.each(&namespace, checks::dns_label(namespace.str()));
    }
}

fn validate_update(claim: &Value, old: &Value) -> Vec<FieldError> {
    const STORAGE: &[&str] = &["spec", "resources", "requests", "storage"];
    Errors::of(claim, |at, errors| {
        let spec = at.field("spec");
        validate_spec(&spec, errors);
        let (mut now, mut before) = (claim.clone(), old.clone());
        data_sources(&mut before, Some(old));
        if get_str(old, &["spec", "volumeName"]).is_empty() {
            copy_from(&mut before, claim, &["spec", "volumeName"]);
        }
        class_changes(at, old, &mut now, errors);
        if get_str(claim, &["status", "phase"]) == "Bound" {
            if has(&now, &["spec", "resources", "requests"]) {
                copy_from(&mut now, old, STORAGE);
            }
            copy_from(&mut now, old, &["spec", "volumeAttributesClassName"]);
        }
        if !same(&now, &before, &["spec"]) {
            let text = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
            let line =
                |sign: &str, spec: &Value| format!("{sign} {}", spec.get("spec").unwrap_or(&Value::Null));
            errors.forbidden(&spec, format!("{text}\n{}\n{}", line("-", &before), line("+", &now)));
        }
        let resources = spec.field("resources");
        let requests = resources.field("requests");
        let size = quantity(get_str(claim, STORAGE));
        if size < quantity(get_str(old, STORAGE))
            && size <= quantity(get_str(old, &["status", "capacity", "storage"]))
        {
            errors.forbidden(&requests.field("storage"), "field can not be less than status.capacity");
        }
        let was = At::root(old);
        let was = was.field("spec");
        let mode = spec.field("volumeMode");
        if mode.value() != was.field("volumeMode").value() {
            let place = at.field("volumeMode");
            errors.invalid(&place, mode.shown(), "field is immutable");
        }
        let class = spec.field("volumeAttributesClassName");
        let changed = class.value() != was.field("volumeAttributesClassName").value();
        if changed && has(old, &["status", "currentVolumeAttributesClassName"]) && class.str().is_empty() {
            let what = if class.exists() { "empty string" } else { "nil" };
            let text = format!(
                "update to {what} is forbidden when status.currentVolumeAttributesClassName is not nil"
            );
            errors.forbidden(&class, text);
        }
    })
}

/// A class may be named later, and may move from the old annotation to its field.
fn class_changes(claim: &At<'_, '_>, old: &Value, now: &mut Value, errors: &mut Errors) {
    let annotation = |object: &Value| {
        get(object, &["metadata", "annotations", CLASS_ANNOTATION]).and_then(Value::as_str).map(str::to_owned)
    };
    let class = get(now, &["spec", "storageClassName"]).and_then(Value::as_str).map(str::to_owned);
    let unnamed = !has(old, &["spec", "storageClassName"]);
    let (new_annotation, old_annotation) = (annotation(now), annotation(old));
    let moved = old_annotation.is_some()
        && unnamed
        && class == old_annotation
        && (new_annotation.is_none() || new_annotation == old_annotation);
    if moved {
        remove(now, &["spec", "storageClassName"]);
        return;
    }
    if new_annotation != old_annotation {
        let metadata = claim.field("metadata");
        let annotations = metadata.field("annotations");
        let place = annotations.field(CLASS_ANNOTATION);
        errors.invalid(&place, new_annotation.clone().unwrap_or_default(), "field is immutable");
    }
    if unnamed && class.is_some() && (old_annotation.is_none() || old_annotation == class) {
        remove(now, &["spec", "storageClassName"]);
    }
}

fn validate_status_update(claim: &Value, _old: &Value) -> Vec<FieldError> {
    Errors::of(claim, |claim, errors| {
        let status = claim.field("status");
        for (_, amount) in status.field("capacity").entries() {
            if quantity(amount.str()).sign() < 0 {
                errors.invalid(&amount, quantity(amount.str()).value(), "must be a valid resource quantity");
            }
        }
    })
}

/// Warnings of the spec of a claim.
pub(crate) fn spec_warnings(spec: &At<'_, '_>, warnings: &mut Vec<String>) {
    let resources = spec.field("resources");
    for side in ["requests", "limits"] {
        let list = resources.field(side);
        let size = list.key("storage");
        if !checks::is_whole(&quantity(size.str())) {
            warnings.push(format!(
                "{}: fractional byte value \"{}\" is invalid, must be an integer",
                size.path(),
                size.str()
            ));
        }
    }
}
