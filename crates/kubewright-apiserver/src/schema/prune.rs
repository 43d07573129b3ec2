//! Dropping what a custom resource's schema does not know, on the way in.
//!
//! This is what decoding into a Go struct does for built-in kinds. It reports what it dropped, and it
//! never drops apiVersion, kind and metadata of the object or of an embedded one.

use std::fmt::Write as _;

use serde_json::Value;

use super::{Schema, embedded::coerce_embedded, object_meta::coerce_metadata};

/// Brings a decoded custom resource into the shape its schema wants: metadata is checked and stripped of
/// unknown fields, undeclared fields and `null`s without a meaning go. Answers the paths of the unknown
/// fields, or why the object can't be handled at all.
pub(crate) fn coerce(object: &mut Value, schema: &Schema) -> Result<Vec<String>, String> {
    let mut unknown = coerce_metadata(object, "metadata")?;
    unknown.extend(prune(object, schema));
    drop_nulls(object, schema);
    unknown.extend(coerce_embedded(object, schema).map_err(|error| error.to_string())?);
    Ok(unknown)
}

/// Removes the fields of a whole custom resource that its schema does not declare; answers their paths.
pub(crate) fn prune(object: &mut Value, schema: &Schema) -> Vec<String> {
    let mut pruner = Pruner::default();
    pruner.prune(object, Some(schema), true);
    pruner.unknown.sort();
    pruner.unknown
}

/// The same for a value inside an object.
pub(crate) fn prune_value(value: &mut Value, schema: &Schema) -> Vec<String> {
    let mut pruner = Pruner::default();
    pruner.prune(value, Some(schema), schema.embedded);
    pruner.unknown
}

#[derive(Default)]
struct Pruner {
    path: String,
    unknown: Vec<String>,
}

impl Pruner {
    fn prune(&mut self, value: &mut Value, schema: Option<&Schema>, is_object: bool) {
        let preserve = schema.is_some_and(|schema| schema.preserve_unknown);
        match value {
            Value::Object(map) => map.retain(|name, value| {
                if is_object && is_meta_field(name) {
                    return true;
                }
                let Some(child) = schema.and_then(|schema| schema.field(name)) else {
                    if !preserve {
                        self.report(name);
                    }
                    return preserve;
                };
                self.below_field(name, |pruner| pruner.prune(value, Some(child), child.embedded));
                true
            }),
            Value::Array(list) => {
                let items = schema.and_then(|schema| schema.items.as_deref());
                if preserve && items.is_none() {
                    return; // whatever is in the list is unknown, and kept
                }
                for (index, item) in list.iter_mut().enumerate() {
                    self.below_index(index, |pruner| {
                        if preserve {
                            pruner.keep(item, items);
                        } else {
                            pruner.prune(item, items, items.is_some_and(|items| items.embedded));
                        }
                    });
                }
            }
            _ => {}
        }
    }

    /// Keeps unknown fields of items of a list that preserves them, and prunes below the known ones.
    fn keep(&mut self, item: &mut Value, schema: Option<&Schema>) {
        let Some(schema) = schema else { return };
        match item {
            Value::Object(map) => {
                for (name, value) in map.iter_mut() {
                    if schema.embedded && is_meta_field(name) {
                        continue;
                    }
                    if let Some(child) = schema.field(name) {
                        self.below_field(name, |pruner| pruner.prune(value, Some(child), child.embedded));
                    }
                }
            }
            Value::Array(list) => {
                for (index, item) in list.iter_mut().enumerate() {
                    self.below_index(index, |pruner| pruner.keep(item, schema.items.as_deref()));
                }
            }
            _ => {}
        }
    }

    fn report(&mut self, name: &str) {
        if self.path.is_empty() {
            if !is_meta_field(name) {
                self.unknown.push(name.to_owned());
            }
        } else {
            self.unknown.push(format!("{}.{name}", self.path));
        }
    }

    fn below_field(&mut self, name: &str, walk: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        walk(self);
        self.path.truncate(length);
    }

    fn below_index(&mut self, index: usize, walk: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        let _ = write!(self.path, "[{index}]");
        walk(self);
        self.path.truncate(length);
    }
}

fn is_meta_field(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

/// Removes the fields that are `null` where `null` means nothing, and which have no default that
/// would replace it.
fn drop_nulls(value: &mut Value, schema: &Schema) {
    match value {
        Value::Object(map) => map.retain(|name, value| {
            let Some(child) = schema.field(name) else { return true };
            if value.is_null() && !child.nullable && child.default.is_none() {
                return false;
            }
            drop_nulls(value, child);
            true
        }),
        Value::Array(list) => {
            if let Some(items) = &schema.items {
                list.iter_mut().for_each(|item| drop_nulls(item, items));
            }
        }
        _ => {}
    }
}
