//! The resources embedded in a custom resource: their metadata is decoded and validated as that of
//! any object, whatever the schema says.

use serde_json::{Map, Value};

use crate::{
    field::{FieldError, Path, Problem},
    names,
};

use super::{Schema, object_meta::coerce_metadata};

/// Decodes the metadata of every embedded resource of a custom resource, in place. Answers the paths
/// of unknown fields.
pub(crate) fn coerce_embedded(object: &mut Value, schema: &Schema) -> Result<Vec<String>, FieldError> {
    let mut unknown = Vec::new();
    coerce_node(object, schema, false, &Path::default(), &mut unknown)?;
    unknown.sort();
    Ok(unknown)
}

/// The same for a value inside an object, which may be an embedded resource itself.
pub(crate) fn coerce_value(value: &mut Value, schema: &Schema, path: &Path) -> Result<(), FieldError> {
    coerce_node(value, schema, schema.embedded, path, &mut Vec::new())
}

/// The same for a whole object, its own metadata included.
pub(crate) fn coerce_embedded_root(object: &mut Value, schema: &Schema) -> Result<(), FieldError> {
    coerce_node(object, schema, true, &Path::default(), &mut Vec::new())
}

fn coerce_node(
    value: &mut Value,
    schema: &Schema,
    embedded: bool,
    path: &Path,
    unknown: &mut Vec<String>,
) -> Result<(), FieldError> {
    if !embedded && !schema.below.embedded {
        return Ok(());
    }
    if embedded && value.is_object() {
        for name in ["apiVersion", "kind"] {
            if let Some(found) = value.get(name)
                && !found.is_string()
            {
                return Err(FieldError::invalid(&path.child(name), found.clone(), "must be a string"));
            }
        }
        let given = value.get("metadata").cloned();
        let at = path.child("metadata");
        match coerce_metadata(value, at.as_str()) {
            Ok(paths) => unknown.extend(paths),
            Err(why) => return Err(FieldError::invalid(&at, given.unwrap_or_default(), why)),
        }
    }
    match value {
        Value::Object(map) => {
            for (name, value) in map.iter_mut() {
                if let Some(field) = schema.properties.get(name) {
                    if field.schema.below.embedded {
                        coerce_node(value, &field.schema, field.schema.embedded, &path.child(name), unknown)?;
                    }
                } else if let Some(values) = &schema.values {
                    coerce_node(value, values, values.embedded, &path.key(name), unknown)?;
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = &schema.items {
                for (index, item) in list.iter_mut().enumerate() {
                    coerce_node(item, items, items.embedded, &path.index(index), unknown)?;
                }
            }
        }
        _ => {}
    }
    Ok(())
}

/// What is wrong with apiVersion, kind and metadata of the resources embedded in a custom resource.
pub(crate) fn validate_embedded(object: &Value, schema: &Schema) -> Vec<FieldError> {
    let mut errors = Vec::new();
    validate_node(object, schema, false, &Path::default(), &mut errors);
    errors
}

/// The same for a value inside an object, which may be an embedded resource itself.
pub(crate) fn validate_embedded_value(value: &Value, schema: &Schema, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    validate_node(value, schema, schema.embedded, path, &mut errors);
    errors
}

/// The same for a whole object, its own metadata included.
pub(crate) fn validate_embedded_root(object: &Value, schema: &Schema) -> Vec<FieldError> {
    let mut errors = Vec::new();
    validate_node(object, schema, true, &Path::default(), &mut errors);
    errors
}

fn validate_node(value: &Value, schema: &Schema, embedded: bool, path: &Path, errors: &mut Vec<FieldError>) {
    if !embedded && !schema.below.embedded {
        return;
    }
    match value {
        Value::Object(map) => {
            if embedded {
                validate_resource(map, path, errors);
            }
            for (name, value) in map {
                if let Some(field) = schema.properties.get(name) {
                    if field.schema.below.embedded {
                        validate_node(value, &field.schema, field.schema.embedded, &path.child(name), errors);
                    }
                } else if let Some(values) = &schema.values {
                    validate_node(value, values, values.embedded, &path.key(name), errors);
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = &schema.items {
                for (index, item) in list.iter().enumerate() {
                    validate_node(item, items, items.embedded, &path.index(index), errors);
                }
            }
        }
        _ => {}
    }
}

fn validate_resource(map: &Map<String, Value>, path: &Path, errors: &mut Vec<FieldError>) {
    let at = path.child("apiVersion");
    match map.get("apiVersion") {
        None => errors.push(FieldError::required(&at, "")),
        Some(Value::String(text)) if text.is_empty() => {
            errors.push(FieldError::invalid(&at, "", "must not be empty"));
        }
        Some(Value::String(text)) if text.matches('/').count() > 1 => {
            let detail = format!("unexpected GroupVersion string: {text}");
            errors.push(FieldError::invalid(&at, text.as_str(), detail));
        }
        Some(Value::String(_)) => {}
        Some(other) => errors.push(FieldError::invalid(&at, other.clone(), "must be a string")),
    }
    let at = path.child("kind");
    match map.get("kind") {
        None => errors.push(FieldError::required(&at, "")),
        Some(Value::String(text)) if text.is_empty() => {
            errors.push(FieldError::invalid(&at, "", "must not be empty"));
        }
        Some(Value::String(text)) => {
            let problems = names::dns1035_label(&text.to_lowercase());
            if !problems.is_empty() {
                let detail =
                    format!("may have mixed case, but should otherwise match: {}", problems.join(","));
                errors.push(FieldError::invalid(&at, text.as_str(), detail));
            }
        }
        Some(other) => errors.push(FieldError::invalid(&at, other.clone(), "must be a string")),
    }
    if let Some(metadata) = map.get("metadata") {
        let at = path.child("metadata");
        for (name, prefix) in [("generateName", true), ("name", false)] {
            let text = metadata.get(name).and_then(Value::as_str).unwrap_or_default();
            let problems = names::name_is_path_segment(text, prefix);
            errors.extend(problems.into_iter().map(|why| FieldError::invalid(&at.child(name), text, why)));
        }
        let namespace = metadata.get("namespace").and_then(Value::as_str).unwrap_or_default();
        if !namespace.is_empty() {
            let problems = names::dns1123_label(namespace).into_iter();
            errors.extend(problems.map(|why| FieldError::invalid(&at.child("namespace"), namespace, why)));
        }
        errors.extend(validate_metadata(metadata, &at));
    }
}

/// What is wrong with metadata apart from name and namespace: labels, annotations, owners, finalizers,
/// managed fields.
pub(crate) fn validate_metadata(metadata: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let texts = |name: &str| metadata.get(name).and_then(Value::as_object).into_iter().flatten();
    if let Some(generation) = metadata.get("generation").and_then(Value::as_i64)
        && generation < 0
    {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(&path.child("generation"), generation, detail));
    }
    let at = path.child("labels");
    for (key, value) in texts("labels") {
        let value = value.as_str().unwrap_or_default();
        errors
            .extend(names::qualified_name(key).into_iter().map(|why| FieldError::invalid(&at, &**key, why)));
        errors.extend(names::label_value(value).into_iter().map(|why| FieldError::invalid(&at, value, why)));
    }
    let at = path.child("annotations");
    let mut size = 0;
    for (key, value) in texts("annotations") {
        size += key.len() + value.as_str().map_or(0, str::len);
        let problems = names::qualified_name(&key.to_lowercase()).into_iter();
        errors.extend(problems.map(|why| FieldError::invalid(&at, key.as_str(), why)));
    }
    const MOST_ANNOTATIONS: usize = 256 * 1024;
    if size > MOST_ANNOTATIONS {
        errors.push(FieldError::too_long(&at, MOST_ANNOTATIONS));
    }
    errors.extend(validate_owners(metadata, &path.child("ownerReferences")));
    errors.extend(validate_finalizers(metadata, &path.child("finalizers")));
    errors.extend(validate_managed_fields(metadata, &path.child("managedFields")));
    errors
}

fn validate_owners(metadata: &Value, at: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut controller: Option<String> = None;
    let owners = metadata.get("ownerReferences").and_then(Value::as_array);
    for owner in owners.into_iter().flatten() {
        let text = |name: &str| owner.get(name).and_then(Value::as_str).unwrap_or_default();
        let version = text("apiVersion").rsplit('/').next().unwrap_or_default();
        if version.is_empty() || text("apiVersion").matches('/').count() > 1 {
            let detail = "version must not be empty";
            errors.push(FieldError::invalid(&at.child("apiVersion"), text("apiVersion"), detail));
        }
        for name in ["kind", "name", "uid"] {
            if text(name).is_empty() {
                errors.push(FieldError::invalid(&at.child(name), "", "must not be empty"));
            }
        }
        if text("apiVersion") == "v1" && text("kind") == "Event" {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(invalid_owners(at, &shown_owner(owner), detail));
        }
        if owner.get("controller").and_then(Value::as_bool) == Some(true) {
            let current = format!("{}/{}", text("kind"), text("name"));
            match &controller {
                Some(first) => {
                    let detail = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {current}"
                    );
                    let all: Vec<String> = owners.into_iter().flatten().map(shown_owner).collect();
                    errors.push(invalid_owners(at, &format!("[{}]", all.join(",")), &detail));
                }
                None => controller = Some(current),
            }
        }
    }
    errors
}

/// An owner reference with its fields in the order of the Go struct.
fn shown_owner(owner: &Value) -> String {
    let fields = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
    let fields = fields.into_iter().filter_map(|key| Some(format!("\"{key}\":{}", owner.get(key)?)));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

fn invalid_owners(at: &Path, shown: &str, detail: &str) -> FieldError {
    FieldError {
        problem: Problem::Invalid,
        path: at.clone(),
        value: None,
        detail: format!("{shown}: {detail}"),
    }
}

fn validate_managed_fields(metadata: &Value, at: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let entries = metadata.get("managedFields").and_then(Value::as_array);
    for (index, entry) in entries.into_iter().flatten().enumerate() {
        let at = at.index(index);
        let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
        if !matches!(text("operation"), "Apply" | "Update") {
            let detail = "must be `Apply` or `Update`";
            errors.push(FieldError::invalid(&at.child("operation"), text("operation"), detail));
        }
        if !matches!(text("fieldsType"), "" | "FieldsV1") {
            let detail = "must be `FieldsV1`";
            errors.push(FieldError::invalid(&at.child("fieldsType"), text("fieldsType"), detail));
        }
        let manager = text("manager");
        if manager.len() > 128 {
            errors.push(FieldError::too_long(&at.child("manager"), 128));
        }
        if manager.chars().any(char::is_control) {
            let detail = "should only contain printable characters";
            errors.push(FieldError::invalid(&at.child("manager"), manager, detail));
        }
        if text("subresource").len() > 256 {
            errors.push(FieldError::too_long(&at.child("subresource"), 256));
        }
    }
    errors
}

fn validate_finalizers(metadata: &Value, at: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let list = metadata.get("finalizers").and_then(Value::as_array);
    let finalizers: Vec<&str> = list.into_iter().flatten().filter_map(Value::as_str).collect();
    for finalizer in &finalizers {
        let problems = names::qualified_name(finalizer).into_iter();
        errors.extend(problems.map(|why| FieldError::invalid(at, *finalizer, why)));
    }
    if finalizers.contains(&"orphan") && finalizers.contains(&"foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid(at, finalizers, detail));
    }
    errors
}
