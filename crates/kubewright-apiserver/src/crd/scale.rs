//! The `/scale` subresource of a custom resource: an `autoscaling/v1` Scale made of a few of its fields.

use serde_json::{Map, Value, json};

use crate::{
    error::ApiError,
    field::{FieldError, Path},
};

/// What stands for "no replicas yet" in a Scale that is about to be changed.
const UNSET: i64 = -2_147_483_648;

fn path<'a>(scale: &'a Value, key: &str) -> &'a str {
    scale[key].as_str().unwrap_or_default()
}

/// The Scale of an object, `scale` being the paths its definition gives.
pub(crate) fn scale_of(object: &Value, scale: &Value) -> Result<Value, ApiError> {
    let (value, found) = read(object, scale).map_err(ApiError::unexplained)?;
    if !found {
        let field = path(scale, "specReplicasPath");
        return Err(ApiError::internal(format!("the spec replicas field {field:?} does not exist")));
    }
    Ok(value)
}

/// The Scale of an object for a change of it. It exists even if the object has no replicas yet.
pub(crate) fn scale_for_update(object: &Value, scale: &Value) -> Result<Value, ApiError> {
    let (mut value, found) = read(object, scale).map_err(ApiError::unexplained)?;
    if !found {
        value["spec"]["replicas"] = UNSET.into();
    }
    Ok(value)
}

/// Writes the replicas of a changed Scale into the object, and its resourceVersion if it has one.
pub(crate) fn write_scale(object: &mut Value, changed: &Value, scale: &Value) -> Result<(), ApiError> {
    let field = path(scale, "specReplicasPath");
    let replicas = changed["spec"]["replicas"].as_i64().unwrap_or_default();
    if replicas == UNSET {
        let message = format!("the spec replicas field {field:?} cannot be empty");
        return Err(ApiError::bad_request(message));
    }
    let steps: Vec<&str> = steps(field).collect();
    let Some((last, parents)) = steps.split_last() else { return Ok(()) };
    let mut place = &mut *object;
    for (index, step) in parents.iter().enumerate() {
        let at = steps[..index].join(".");
        let map = place.as_object_mut().ok_or_else(|| not_a_map(&at))?;
        place = map.entry(*step).or_insert_with(|| Value::Object(Map::new()));
    }
    let map = place.as_object_mut().ok_or_else(|| not_a_map(&parents.join(".")))?;
    map.insert((*last).to_owned(), replicas.into());
    let version = changed["metadata"]["resourceVersion"].as_str().filter(|version| !version.is_empty());
    if let (Some(version), Some(Value::Object(metadata))) = (version, object.get_mut("metadata")) {
        metadata.insert("resourceVersion".to_owned(), version.into());
    }
    Ok(())
}

fn not_a_map(at: &str) -> ApiError {
    ApiError::unexplained(format!("value cannot be set because .{at} is not a map[string]interface{{}}"))
}

fn steps(path: &str) -> impl Iterator<Item = &str> {
    path.strip_prefix('.').unwrap_or(path).split('.')
}

/// The Scale, and whether the object says how many replicas it wants.
fn read(object: &Value, scale: &Value) -> Result<(Value, bool), String> {
    let wanted = integer(object, path(scale, "specReplicasPath"))?;
    let actual = integer(object, path(scale, "statusReplicasPath"))?.unwrap_or_default();
    let selector = match path(scale, "labelSelectorPath") {
        "" => "",
        path => string(object, path)?.unwrap_or_default(),
    };
    let metadata: Map<String, Value> = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"]
        .into_iter()
        .filter_map(|key| Some((key.to_owned(), object["metadata"].get(key)?.clone())))
        .collect();
    let spec = match wanted {
        None | Some(0) => json!({}),
        Some(replicas) => json!({ "replicas": replicas }),
    };
    let mut status = json!({ "replicas": actual });
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    let value = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status,
    });
    Ok((value, wanted.is_some()))
}

/// Replicas are whole, not negative, and fit 32 bits; the selector is a string. The spec is only looked
/// at where it can change.
pub(super) fn validate_scale(object: &Value, scale: Option<&Value>, with_spec: bool) -> Vec<FieldError> {
    let Some(scale) = scale else { return Vec::new() };
    let mut errors = Vec::new();
    for (key, looked_at) in [("specReplicasPath", with_spec), ("statusReplicasPath", true)] {
        let field = path(scale, key);
        let at = Path::new(field);
        match integer(object, field) {
            _ if !looked_at => {}
            Err(why) => errors.push(FieldError::invalid(&at, 0, why)),
            Ok(Some(replicas)) if replicas < 0 => {
                errors.push(FieldError::invalid(&at, replicas, "should be a non-negative integer"));
            }
            Ok(Some(replicas)) if replicas > i64::from(i32::MAX) => {
                let detail = format!("should be less than or equal to {}", i32::MAX);
                errors.push(FieldError::invalid(&at, replicas, detail));
            }
            Ok(_) => {}
        }
    }
    let field = path(scale, "labelSelectorPath");
    if !field.is_empty()
        && let Err(why) = string(object, field)
    {
        errors.push(FieldError::invalid(&Path::new(field), "", why));
    }
    errors
}

fn integer(object: &Value, path: &str) -> Result<Option<i64>, String> {
    let Some(value) = nested(object, path)? else { return Ok(None) };
    value.as_i64().map(Some).ok_or_else(|| mistyped(path, value, "int64"))
}

fn string<'a>(object: &'a Value, path: &str) -> Result<Option<&'a str>, String> {
    let Some(value) = nested(object, path)? else { return Ok(None) };
    value.as_str().map(Some).ok_or_else(|| mistyped(path, value, "string"))
}

fn nested<'a>(object: &'a Value, path: &str) -> Result<Option<&'a Value>, String> {
    let mut value = object;
    let mut at = String::new();
    for step in steps(path) {
        at.push('.');
        at.push_str(step);
        match value {
            Value::Null => return Ok(None),
            Value::Object(map) => match map.get(step) {
                Some(found) => value = found,
                None => return Ok(None),
            },
            other => return Err(mistyped(&at, other, "map[string]interface{}")),
        }
    }
    Ok(Some(value))
}

fn mistyped(path: &str, value: &Value, wanted: &str) -> String {
    let ty = match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    let path = path.strip_prefix('.').unwrap_or(path);
    let shown = if value.is_null() { "<nil>".to_owned() } else { super::table::text(value) };
    format!(".{path} accessor error: {shown} is of the type {ty}, expected {wanted}")
}
