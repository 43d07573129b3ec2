//! Which part of an old value a part of the new one descends from.
//!
//! Fields descend from the field of the same name, items of a keyed list from the item with the same
//! keys; items of any other list from nothing. Errors of a value that has not changed are forgiven.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{ListType, Schema, SchemaRef, object_meta::object_meta};

/// The items of an old keyed list, by key.
pub(crate) struct OldItems<'a> {
    keys: &'a [String],
    items: BTreeMap<String, &'a Value>,
}

impl<'a> OldItems<'a> {
    /// `None` unless `old` is a list whose items can be told apart.
    pub(crate) fn of(old: Option<&'a Value>, schema: &'a Schema) -> Option<Self> {
        let ListType::Map(keys) = &schema.list else { return None };
        let mut items = BTreeMap::new();
        for item in old?.as_array()? {
            if let Some(key) = key_of(item, keys) {
                items.entry(key).or_insert(item);
            }
        }
        Some(Self { keys, items })
    }

    pub(crate) fn get(&self, item: &Value) -> Option<&'a Value> {
        self.items.get(&key_of(item, self.keys)?).copied()
    }
}

fn key_of(item: &Value, keys: &[String]) -> Option<String> {
    let mut composite = String::new();
    for key in keys {
        match item.get(key)? {
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
            scalar => {
                composite.push_str(&scalar.to_string());
                composite.push('\0');
            }
        }
    }
    Some(composite)
}

/// The schema along which a field is correlated. Metadata that the CRD does not describe is not.
pub(crate) fn correlated_field<'a>(schema: &'a Schema, name: &str) -> Option<&'a SchemaRef> {
    schema.field(name).filter(|field| !field.same(object_meta()))
}

/// Whether `new` is what `old` was. Keyed lists may have changed their order.
pub(crate) fn unchanged(new: &Value, old: &Value, schema: &Schema) -> bool {
    match (new, old) {
        (Value::Object(new), Value::Object(old)) => {
            new.len() == old.len()
                && new.iter().all(|(name, value)| match (old.get(name), correlated_field(schema, name)) {
                    (Some(old), Some(field)) => unchanged(value, old, field),
                    _ => false,
                })
        }
        (Value::Array(new_items), Value::Array(old_items)) => {
            if new_items.len() != old_items.len() {
                return false;
            }
            match (OldItems::of(Some(old), schema), &schema.items) {
                (Some(old_items), Some(items)) => new_items
                    .iter()
                    .all(|item| old_items.get(item).is_some_and(|old| unchanged(item, old, items))),
                _ => new == old,
            }
        }
        _ => new == old,
    }
}
