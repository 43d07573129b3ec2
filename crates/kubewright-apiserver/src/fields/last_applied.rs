//! The annotation of client-side `kubectl apply`. When kubectl moves an object to server-side apply, what the
//! annotation proves to be its own is no conflict, and the annotation is kept up to date.

use serde_json::{Map, Value};

use super::{
    compare::{claims, compare},
    node::{Duplicates, Node},
    set::FieldSet,
};

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// How large all annotations may be together.
const MOST_ANNOTATION_BYTES: usize = 256 * 1024;

fn annotation(object: &Value) -> Option<&str> {
    object.get("metadata")?.get("annotations")?.get(ANNOTATION)?.as_str().filter(|text| !text.is_empty())
}

/// Whether the object was applied by a client.
pub(super) fn is_present(object: &Value) -> bool {
    annotation(object).is_some()
}

/// The paths that client-side apply set and that still have the value it gave them.
pub(super) fn still_owned(node: Node<'_>, live: &Value, api_version: &str) -> Option<FieldSet> {
    let applied: Value = serde_json::from_str(annotation(live)?).ok()?;
    if applied.get("apiVersion").and_then(Value::as_str) != Some(api_version) {
        return None;
    }
    node.validate(&applied, Duplicates::Refused).ok()?;
    let mut owned = claims(node, &applied);
    let differences = compare(node, &applied, live);
    owned.remove(&differences.changed);
    owned.remove(&differences.removed);
    Some(owned)
}

/// Writes the configuration just applied into the object's annotation.
pub(super) fn refresh(object: &mut Value, config: &Value) {
    let mut config = config.clone();
    if let Some(annotations) = annotations_of(&mut config) {
        annotations.remove(ANNOTATION);
    }
    let text = format!("{}\n", go_json(&config));
    let Some(annotations) = annotations_of(object) else { return };
    annotations.insert(ANNOTATION.to_owned(), text.into());
    let size: usize =
        annotations.iter().map(|(name, value)| name.len() + value.as_str().unwrap_or_default().len()).sum();
    if size > MOST_ANNOTATION_BYTES {
        annotations.remove(ANNOTATION);
    }
}

fn annotations_of(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object.get_mut("metadata")?.get_mut("annotations")?.as_object_mut()
}

/// JSON with ordered keys and the characters escaped that Go escapes for the sake of HTML.
fn go_json(value: &Value) -> String {
    let mut ordered = value.clone();
    ordered.sort_all_objects();
    super::path::html_safe(&ordered)
}
