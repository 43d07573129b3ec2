//! Filling in the default values of a custom resource.

use serde_json::{Map, Value};

use super::Schema;

/// Sets every declared field that is absent, or `null` without being nullable, to its default. An absent
/// object is not created for the sake of defaults inside it.
pub(crate) fn default(value: &mut Value, schema: &Schema) {
    if !schema.below.defaults {
        return;
    }
    match value {
        Value::Object(map) => default_fields(map, schema),
        Value::Array(list) => {
            let Some(items) = &schema.items else { return };
            for item in list {
                default_null(item, items);
                default(item, items);
            }
        }
        _ => {}
    }
}

fn default_fields(map: &mut Map<String, Value>, schema: &Schema) {
    for (name, field) in &schema.properties {
        let Some(set) = &field.schema.default else { continue };
        match map.get_mut(name) {
            None => {
                map.insert(name.clone(), set.clone());
            }
            Some(value) => default_null(value, &field.schema),
        }
    }
    for (name, value) in map.iter_mut() {
        if let Some(field) = schema.properties.get(name) {
            default(value, &field.schema);
        } else if let Some(values) = &schema.values {
            default_null(value, values);
            default(value, values);
        }
    }
}

fn default_null(value: &mut Value, schema: &Schema) {
    if value.is_null()
        && !schema.nullable
        && let Some(set) = &schema.default
    {
        *value = set.clone();
    }
}
