//! Objects that lack what their version requires. The API server sends such ones when somebody applies an object in
//! another version than before: of the object, it removes what is no longer applied, and asks how that looks in the other
//! version. Types can't hold them, so what is missing is filled in with what means nothing.

use serde_json::{Map, Value, json};

/// Fills in what a schema requires and an object lacks.
pub(super) fn fill(object: &mut Value, schema: &Value) {
    match object {
        Value::Object(fields) => {
            let nothing = Map::new();
            let properties = schema["properties"].as_object().unwrap_or(&nothing);
            for required in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                let property = properties.get(required).unwrap_or(&Value::Null);
                fields.entry(required).or_insert_with(|| empty(property));
            }
            for (name, value) in fields {
                fill(value, properties.get(name).unwrap_or(&schema["additionalProperties"]));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| fill(item, &schema["items"])),
        _ => {}
    }
}

/// The least that a schema takes, as far as its type tells.
fn empty(schema: &Value) -> Value {
    if let Some(first) = schema["enum"].get(0) {
        return first.clone();
    }
    match schema["type"].as_str() {
        Some("string") => json!(""),
        // Limits are floats in the type of a schema.
        Some("integer") => json!(schema["minimum"].as_f64().unwrap_or(0.0).ceil() as i64),
        Some("number") => schema.get("minimum").cloned().unwrap_or(json!(0)),
        Some("boolean") => json!(false),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_required_and_missing_is_filled_in() {
        let port = json!({"type": "object", "required": ["port", "protocol"], "properties": {
            "port": {"type": "integer", "minimum": 1.0},
            "protocol": {"enum": ["TCP", "UDP"], "type": "string"},
        }});
        let schema = json!({"type": "object", "required": ["spec"], "properties": {
            "spec": {"type": "object", "required": ["name", "deep"], "properties": {
                "name": {"type": "string"},
                "note": {"type": "string"},
                "deep": {"type": "object", "required": ["on"], "properties": {"on": {"type": "boolean"}}},
                "ports": {"type": "array", "items": port},
            }},
        }});
        let mut object = json!({"spec": {"ports": [{"port": 5}, {}]}});
        fill(&mut object, &schema);
        assert_eq!(
            object,
            json!({"spec": {
                "name": "", "deep": {"on": false},
                "ports": [{"port": 5, "protocol": "TCP"}, {"port": 1, "protocol": "TCP"}],
            }})
        );
        let mut empty = json!({});
        fill(&mut empty, &schema);
        assert_eq!(empty, json!({"spec": {"name": "", "deep": {"on": false}}}));
    }
}
