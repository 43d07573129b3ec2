//! Reading and filling fields of an object by path, for the strategies of the built-in kinds.
//!
//! An absent field, `null` and a field of another type are all the same here: nothing. Reading never fails,
//! and writing makes the objects on the way, so that a strategy states rules and not how to walk JSON.

use serde_json::{Map, Value};

/// The value at `path`; `None` if it or anything on the way is absent or `null`.
pub(crate) fn get<'a>(object: &'a Value, path: &[&str]) -> Option<&'a Value> {
    let mut at = object;
    for name in path {
        at = at.as_object()?.get(*name)?;
    }
    (!at.is_null()).then_some(at)
}

/// Like [`get`], to change the value in place.
pub(crate) fn get_mut<'a>(object: &'a mut Value, path: &[&str]) -> Option<&'a mut Value> {
    let mut at = object;
    for name in path {
        at = at.as_object_mut()?.get_mut(*name)?;
    }
    (!at.is_null()).then_some(at)
}

/// Whether there is a value at `path`.
pub(crate) fn has(object: &Value, path: &[&str]) -> bool {
    get(object, path).is_some()
}

/// The string at `path`, or `""`.
pub(crate) fn get_str<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    get(object, path).and_then(Value::as_str).unwrap_or_default()
}

/// The whole number at `path`.
pub(crate) fn get_i64(object: &Value, path: &[&str]) -> Option<i64> {
    get(object, path).and_then(Value::as_i64)
}

/// Whether `true` is at `path`.
pub(crate) fn get_bool(object: &Value, path: &[&str]) -> bool {
    get(object, path).and_then(Value::as_bool).unwrap_or_default()
}

/// The items of the list at `path`; none if there is no list.
pub(crate) fn items<'a>(object: &'a Value, path: &[&str]) -> &'a [Value] {
    get(object, path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The items of the list at `path`, to change them in place.
pub(crate) fn items_mut<'a>(object: &'a mut Value, path: &[&str]) -> &'a mut [Value] {
    get_mut(object, path).and_then(Value::as_array_mut).map(Vec::as_mut_slice).unwrap_or_default()
}

/// The names and values of the map at `path`, ordered by name; none if there is no map.
pub(crate) fn entries<'a>(object: &'a Value, path: &[&str]) -> impl Iterator<Item = (&'a str, &'a Value)> {
    let map = get(object, path).and_then(Value::as_object);
    map.into_iter().flatten().map(|(name, value)| (name.as_str(), value))
}

/// The object at `path`, made (with all on the way) if it is not there.
pub(crate) fn ensure_object<'a>(object: &'a mut Value, path: &[&str]) -> &'a mut Map<String, Value> {
    let mut at = as_map(object);
    for name in path {
        at = as_map(at.entry(*name).or_insert(Value::Null));
    }
    at
}

fn as_map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("was made an object just above")
}

/// Puts `value` at `path`, making the objects on the way.
pub(crate) fn set(object: &mut Value, path: &[&str], value: impl Into<Value>) {
    match path {
        [] => *object = value.into(),
        [parents @ .., name] => {
            ensure_object(object, parents).insert((*name).to_owned(), value.into());
        }
    }
}

/// Puts `value` at `path` if nothing is there.
pub(crate) fn default_to(object: &mut Value, path: &[&str], value: impl Into<Value>) {
    if !has(object, path) {
        set(object, path, value);
    }
}

/// Takes the value at `path` out of the object.
pub(crate) fn remove(object: &mut Value, path: &[&str]) -> Option<Value> {
    let (name, parents) = path.split_last()?;
    get_mut(object, parents)?.as_object_mut()?.remove(*name)
}

/// Makes the value at `path` what it is in `old`: equal, or absent.
pub(crate) fn copy_from(object: &mut Value, old: &Value, path: &[&str]) {
    match get(old, path) {
        same @ Some(_) if get(object, path) == same => {}
        Some(value) => set(object, path, value.clone()),
        None => {
            remove(object, path);
        }
    }
}

/// Whether `path` holds the same in both, taking absent, `null`, `[]` and `{}` for the same.
pub(crate) fn same(object: &Value, old: &Value, path: &[&str]) -> bool {
    let of = |whole| get(whole, path).filter(|value| !is_empty(value));
    of(object) == of(old)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn absent_null_and_mistyped_values_read_as_nothing() {
        let object = json!({"spec": {"type": null, "ports": 7, "name": "x"}});
        assert_eq!(get_str(&object, &["spec", "type"]), "");
        assert_eq!(get_str(&object, &["spec", "name"]), "x");
        assert_eq!(get_str(&object, &["spec", "name", "deeper"]), "");
        assert!(items(&object, &["spec", "ports"]).is_empty());
        assert_eq!(entries(&object, &["spec", "name"]).count(), 0);
    }

    #[test]
    fn a_default_makes_its_parents_and_yields_to_what_is_there() {
        let mut object = json!({"spec": {"replicas": 0}});
        default_to(&mut object, &["spec", "replicas"], 1);
        default_to(&mut object, &["spec", "strategy", "type"], "RollingUpdate");
        assert_eq!(object, json!({"spec": {"replicas": 0, "strategy": {"type": "RollingUpdate"}}}));
    }

    #[test]
    fn what_the_old_object_lacks_is_taken_away() {
        let mut object = json!({"spec": {}, "status": {"phase": "Running"}});
        copy_from(&mut object, &json!({"spec": {"a": 1}}), &["status"]);
        assert_eq!(object, json!({"spec": {}}));
        copy_from(&mut object, &json!({"status": {"phase": "Pending"}}), &["status", "phase"]);
        assert_eq!(object, json!({"spec": {}, "status": {"phase": "Pending"}}));
    }

    #[test]
    fn empty_and_absent_are_the_same() {
        assert!(same(&json!({"a": []}), &json!({}), &["a"]));
        assert!(!same(&json!({"a": [1]}), &json!({}), &["a"]));
    }
}
