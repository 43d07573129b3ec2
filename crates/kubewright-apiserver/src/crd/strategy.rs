//! What writing a CustomResourceDefinition does to it before it is validated.

use serde_json::{Value, json};

use crate::schema::{props::Props, recognised_format};

use super::Definition;

/// Fills unset fields: singular, list kind, conversion, the port of a conversion webhook's service, and
/// in the status the stored versions.
pub(crate) fn default(crd: &mut Value) {
    let storage = Definition(crd).storage_version().map(|version| version.name().to_owned());
    if Definition(crd).stored_versions().next().is_none()
        && let Some(storage) = storage
        && let Some(Value::Object(status)) = crd.get_mut("status")
    {
        status.insert("storedVersions".to_owned(), json!([storage]));
    }
    let names = Definition(crd).names();
    let (kind, singular, list_kind) = (names.kind().to_owned(), names.singular(), names.list_kind());
    let (no_singular, no_list_kind) = (singular.is_empty(), list_kind.is_empty());
    let Some(spec) = crd.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        if no_singular && !kind.is_empty() {
            names.insert("singular".to_owned(), kind.to_lowercase().into());
        }
        if no_list_kind && !kind.is_empty() {
            names.insert("listKind".to_owned(), format!("{kind}List").into());
        }
    }
    let conversion = spec.entry("conversion").or_insert(Value::Null);
    if conversion.is_null() {
        *conversion = json!({ "strategy": "None" });
    }
    let service = conversion.pointer_mut("/webhook/clientConfig/service");
    if let Some(service) = service.and_then(Value::as_object_mut)
        && service.get("port").is_none_or(Value::is_null)
    {
        service.insert("port".to_owned(), 443.into());
    }
}

/// Gives a new definition its first status.
pub(crate) fn prepare_create(crd: &mut Value) {
    let stored: Vec<Value> =
        Definition(crd).storage_version().into_iter().map(|version| version.name().into()).collect();
    if let Some(object) = crd.as_object_mut() {
        let status = json!({
            "acceptedNames": { "kind": "", "plural": "" },
            "conditions": null,
            "storedVersions": if stored.is_empty() { Value::Null } else { stored.into() },
        });
        object.insert("status".to_owned(), status);
    }
}

/// Keeps the status of `old`, except that a new storage version is added to the stored ones.
pub(crate) fn prepare_update(crd: &mut Value, old: &Value) {
    if let Some(object) = crd.as_object_mut() {
        object.insert("status".to_owned(), old["status"].clone());
    }
    let definition = Definition(crd);
    let Some(storage) = definition.storage_version().map(|version| version.name().to_owned()) else { return };
    if definition.stored_versions().any(|version| version == storage) {
        return;
    }
    if let Some(status) = crd.get_mut("status").and_then(Value::as_object_mut) {
        let stored = status.entry("storedVersions").or_insert(Value::Null);
        match stored {
            Value::Array(list) => list.push(storage.into()),
            other => *other = json!([storage]),
        }
    }
}

/// Keeps everything but status and metadata of `old`.
pub(crate) fn prepare_status_update(crd: &mut Value, old: &Value) {
    if let Some(object) = crd.as_object_mut() {
        object.insert("spec".to_owned(), old["spec"].clone());
    }
}

/// Whether the change from `old` raises the generation.
pub(crate) fn raises_generation(crd: &Value, old: &Value) -> bool {
    crd.get("spec") != old.get("spec")
}

/// Texts for `Warning` headers: formats nobody knows, unless `old` had them already.
pub(crate) fn warnings(crd: &Value, old: Option<&Value>) -> Vec<String> {
    let known = old.map(unrecognised_formats).unwrap_or_default();
    unrecognised_formats(crd)
        .into_iter()
        .filter(|format| !known.contains(format))
        .map(|format| format!("unrecognized format {format:?}"))
        .collect()
}

fn unrecognised_formats(crd: &Value) -> Vec<&str> {
    let schemas: Vec<Props<'_>> =
        Definition(crd).versions().filter_map(|version| Props::of(version.openapi()?)).collect();
    // a schema that all versions share is looked at once
    let shared = schemas.windows(2).all(|pair| pair[0].fields() == pair[1].fields());
    let take = if shared { 1 } else { schemas.len() };
    let mut formats = Vec::new();
    for schema in schemas.into_iter().take(take) {
        schema.each(&mut |node| {
            if !recognised_format(node.text("type"), node.text("format")) {
                formats.push(node.text("format"));
            }
        });
    }
    formats
}
