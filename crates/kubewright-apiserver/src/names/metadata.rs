//! What is wrong with an object's metadata, on creation and as the successor of an older one.
//!
//! Takes `metadata` as decoded JSON; what has the wrong JSON type counts as absent. Gives field errors in
//! the order and words of apimachinery. Never looks at the rest of the object.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{NameCheck, label_value, name_is_dns_label, qualified_name};
use crate::field::{FieldError, Path};

const ANNOTATIONS_MAX: usize = 256 * 1024;
const FIELD_MANAGER_MAX: usize = 128;
const SUBRESOURCE_MAX: usize = 256;

fn text<'a>(meta: &'a Value, field: &str) -> &'a str {
    meta.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn strings<'a>(meta: &'a Value, field: &str) -> impl Iterator<Item = &'a str> {
    list(meta, field).iter().filter_map(Value::as_str)
}

fn list<'a>(meta: &'a Value, field: &str) -> &'a [Value] {
    meta.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn map<'a>(meta: &'a Value, field: &str) -> Option<&'a Map<String, Value>> {
    meta.get(field).and_then(Value::as_object)
}

/// What is wrong with the metadata of a new object. Its name has been generated already.
pub(crate) fn validate_object_meta(
    meta: &Value,
    namespaced: bool,
    check: NameCheck,
    path: &Path,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (name, prefix) = (text(meta, "name"), text(meta, "generateName"));
    if !prefix.is_empty() {
        let path = path.child("generateName");
        errors.extend(check(prefix, true).into_iter().map(|why| FieldError::invalid(&path, prefix, why)));
    }
    let name_path = path.child("name");
    if name.is_empty() {
        errors.push(FieldError::required(&name_path, "name or generateName is required"));
    } else {
        errors.extend(check(name, false).into_iter().map(|why| FieldError::invalid(&name_path, name, why)));
    }

    let (namespace, namespace_path) = (text(meta, "namespace"), path.child("namespace"));
    match (namespaced, namespace.is_empty()) {
        (true, true) => errors.push(FieldError::required(&namespace_path, "")),
        (true, false) => errors.extend(
            name_is_dns_label(namespace, false)
                .into_iter()
                .map(|why| FieldError::invalid(&namespace_path, namespace, why)),
        ),
        (false, true) => {}
        (false, false) => errors.push(FieldError::forbidden(&namespace_path, "not allowed on this type")),
    }

    let generation = meta.get("generation").and_then(Value::as_i64).unwrap_or_default();
    if generation < 0 {
        let path = path.child("generation");
        errors.push(FieldError::invalid(&path, generation, "must be greater than or equal to 0"));
    }
    validate_parts(meta, path, &mut errors);
    let finalizers = list(meta, "finalizers");
    if !finalizers.is_empty() {
        errors.extend(validate_finalizers(finalizers, &path.child("finalizers")));
    }
    validate_managers(meta, path, &mut errors);
    errors
}

/// What is wrong with the metadata `new` as the successor of `old`.
pub(crate) fn validate_object_meta_update(new: &Value, old: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if old.get("deletionTimestamp").is_some_and(|time| !time.is_null()) {
        let known: BTreeSet<&str> = strings(old, "finalizers").collect();
        let added: BTreeSet<&str> = strings(new, "finalizers").filter(|one| !known.contains(one)).collect();
        if !added.is_empty() {
            let added: Vec<String> = added.iter().map(|one| format!("{one:?}")).collect();
            errors.push(FieldError::forbidden(
                &path.child("finalizers"),
                format!(
                    "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                    added.join(", ")
                ),
            ));
        }
    }
    if text(new, "resourceVersion").is_empty() {
        let path = path.child("resourceVersion");
        errors.push(FieldError::invalid(&path, "", "must be specified for an update"));
    }
    let generation = |meta: &Value| meta.get("generation").and_then(Value::as_i64).unwrap_or_default();
    if generation(new) < generation(old) {
        let path = path.child("generation");
        errors.push(FieldError::invalid(&path, generation(new), "must not be decremented"));
    }
    for field in ["name", "namespace", "uid"] {
        let (new, old) = (text(new, field), text(old, field));
        if new != old {
            errors.push(FieldError::invalid(&path.child(field), new, "field is immutable"));
        }
    }
    for field in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        errors.extend(validate_immutable_field(new.get(field), old.get(field), &path.child(field)));
    }
    validate_parts(new, path, &mut errors);
    validate_managers(new, path, &mut errors);
    errors
}

/// Labels, annotations and owners. Most objects have few of them, and what is absent costs nothing.
fn validate_parts(meta: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    if let Some(labels) = map(meta, "labels") {
        errors.extend(validate_labels(Some(labels), &path.child("labels")));
    }
    if let Some(annotations) = map(meta, "annotations") {
        errors.extend(validate_annotations(Some(annotations), &path.child("annotations")));
    }
    let owners = list(meta, "ownerReferences");
    if !owners.is_empty() {
        errors.extend(validate_owner_references(owners, &path.child("ownerReferences")));
    }
}

fn validate_managers(meta: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    let managed = list(meta, "managedFields");
    if !managed.is_empty() {
        errors.extend(validate_managed_fields(managed, &path.child("managedFields")));
    }
}

/// Refuses a field that differs from what it was. Absent and `null` are the same.
pub(crate) fn validate_immutable_field(
    new: Option<&Value>,
    old: Option<&Value>,
    path: &Path,
) -> Option<FieldError> {
    let (new, old) = (new.unwrap_or(&Value::Null), old.unwrap_or(&Value::Null));
    (new != old).then(|| FieldError::invalid(path, new.clone(), "field is immutable"))
}

/// What is wrong with the key of a label.
pub(crate) fn validate_label_name(name: &str, path: &Path) -> Vec<FieldError> {
    qualified_name(name).into_iter().map(|why| FieldError::invalid(path, name, why)).collect()
}

/// What is wrong with labels.
pub(crate) fn validate_labels(labels: Option<&Map<String, Value>>, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in labels.into_iter().flatten() {
        errors.extend(validate_label_name(key, path));
        let value = value.as_str().unwrap_or_default();
        errors.extend(label_value(value).into_iter().map(|why| FieldError::invalid(path, value, why)));
    }
    errors
}

/// What is wrong with annotations.
pub(crate) fn validate_annotations(annotations: Option<&Map<String, Value>>, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut size = 0;
    for (key, value) in annotations.into_iter().flatten() {
        // Prefixes of annotations may be written in capitals, unlike those of labels.
        let problems = if key.bytes().any(|byte| byte.is_ascii_uppercase()) {
            qualified_name(&key.to_lowercase())
        } else {
            qualified_name(key)
        };
        errors.extend(problems.into_iter().map(|why| FieldError::invalid(path, key.as_str(), why)));
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > ANNOTATIONS_MAX {
        errors.push(FieldError::too_long(path, ANNOTATIONS_MAX));
    }
    errors
}

/// What is wrong with owner references.
pub(crate) fn validate_owner_references(references: &[Value], path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut controller: Option<String> = None;
    for reference in references {
        let (api_version, kind) = (text(reference, "apiVersion"), text(reference, "kind"));
        let name = text(reference, "name");
        // As apimachinery reads it: more than one slash leaves neither group nor version.
        let (group, version) = match api_version.matches('/').count() {
            0 => ("", api_version),
            1 => api_version.split_once('/').unwrap_or_default(),
            _ => ("", ""),
        };
        if version.is_empty() {
            let path = path.child("apiVersion");
            errors.push(FieldError::invalid(&path, api_version, "version must not be empty"));
        }
        for field in ["kind", "name", "uid"] {
            if text(reference, field).is_empty() {
                errors.push(FieldError::invalid(&path.child(field), "", "must not be empty"));
            }
        }
        if (group, version, kind) == ("", "v1", "Event") {
            let why = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(FieldError::invalid(path, reference.clone(), why));
        }
        if reference.get("controller").and_then(Value::as_bool) == Some(true) {
            let this = format!("{kind}/{name}");
            match &controller {
                Some(first) => errors.push(FieldError::invalid(
                    path,
                    references.to_vec(),
                    format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                    ),
                )),
                None => controller = Some(this),
            }
        }
    }
    errors
}

/// What is wrong with finalizers.
pub(crate) fn validate_finalizers(finalizers: &[Value], path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let names = || finalizers.iter().filter_map(Value::as_str);
    for name in names() {
        errors.extend(validate_label_name(name, path));
    }
    if names().any(|name| name == "orphan") && names().any(|name| name == "foregroundDeletion") {
        errors.push(FieldError::invalid(
            path,
            finalizers.to_vec(),
            "finalizer orphan and foregroundDeletion cannot be both set",
        ));
    }
    errors
}

/// What is wrong with the entries of `managedFields`.
pub(crate) fn validate_managed_fields(entries: &[Value], path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let (operation, fields_type) = (text(entry, "operation"), text(entry, "fieldsType"));
        let path = || path.index(index);
        if !matches!(operation, "Apply" | "Update") {
            let path = path().child("operation");
            errors.push(FieldError::invalid(&path, operation, "must be `Apply` or `Update`"));
        }
        if !matches!(fields_type, "" | "FieldsV1") {
            errors.push(FieldError::invalid(&path().child("fieldsType"), fields_type, "must be `FieldsV1`"));
        }
        let manager = text(entry, "manager");
        if !is_field_manager(manager) {
            errors.extend(validate_field_manager(manager, &path().child("manager")));
        }
        if text(entry, "subresource").len() > SUBRESOURCE_MAX {
            errors.push(FieldError::too_long(&path().child("subresource"), SUBRESOURCE_MAX));
        }
    }
    errors
}

fn is_field_manager(name: &str) -> bool {
    name.len() <= FIELD_MANAGER_MAX && name.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ')
}

/// What is wrong with the name of a field manager.
pub(crate) fn validate_field_manager(manager: &str, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if manager.len() > FIELD_MANAGER_MAX {
        errors.push(FieldError::too_long(path, FIELD_MANAGER_MAX));
    }
    for (position, character) in manager.char_indices() {
        if character != ' ' && (character.is_control() || character.is_whitespace()) {
            let why = format!("invalid character U+{:04X} (at position {position})", u32::from(character));
            errors.push(FieldError::invalid(path, manager, why));
        }
    }
    errors
}
