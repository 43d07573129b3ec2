//! JSON merge patch (RFC 7386): an object that overlays another, in which `null` removes.

use serde_json::{Map, Value};

use crate::{
    decode::{self, Parsed},
    error::ApiError,
};

/// Reads the patch from a body.
pub(crate) fn read(body: &[u8]) -> Result<Parsed<'_>, ApiError> {
    let parsed = decode::json::parse(body)
        .and_then(|parsed| super::require_object(&parsed).map(|()| parsed))
        .map_err(|why| ApiError::bad_request(format!("error decoding patch: {why}")))?;
    if parsed.value.is_null() {
        return Err(ApiError::bad_request("Invalid JSON Patch"));
    }
    Ok(parsed)
}

/// Lays `patch` over `object`.
pub(crate) fn apply(object: &mut Value, patch: Value) {
    match (object, patch) {
        (Value::Object(object), Value::Object(patch)) => overlay(object, patch),
        (object, mut patch) => {
            drop_nulls(&mut patch);
            *object = patch;
        }
    }
}

fn overlay(object: &mut Map<String, Value>, patch: Map<String, Value>) {
    for (key, value) in patch {
        if value.is_null() {
            object.remove(&key);
            continue;
        }
        match (object.get_mut(&key), value) {
            (Some(Value::Object(current)), Value::Object(patch)) => overlay(current, patch),
            // The real one leaves nulls alone in a list or scalar that replaces an object.
            (Some(current @ Value::Object(_)), other) => *current = other,
            (_, mut value) => {
                drop_nulls(&mut value);
                object.insert(key, value);
            }
        }
    }
}

/// Removes fields that are `null`, at any depth; items of lists stay.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => map.retain(|_, value| {
            drop_nulls(value);
            !value.is_null()
        }),
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_examples_of_the_standard_hold() {
        for (object, patch, expected) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1, null]}), json!({"a": [1, null]})),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
            (json!({}), json!({"a": [{"b": null}]}), json!({"a": [{}]})),
            (json!({"a": {"x": 1}}), json!({"a": [{"b": null}]}), json!({"a": [{"b": null}]})),
        ] {
            let mut result = object.clone();
            apply(&mut result, patch.clone());
            assert_eq!(result, expected, "{object} {patch}");
        }
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for (body, why) in [
            ("", "error decoding patch: unexpected end of JSON input"),
            ("data: x", "error decoding patch: invalid character 'd' looking for beginning of value"),
            (
                "[]",
                "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
            ),
            ("null", "Invalid JSON Patch"),
        ] {
            let error = read(body.as_bytes()).unwrap_err();
            assert_eq!((error.code, error.message.as_str()), (400, why));
        }
    }
}
