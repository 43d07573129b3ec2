//! Whether an apply would change anything: it would not if the operator already owns just the fields that it
//! applies, and the object already has their values. `fieldsV1` says which fields, and which lists are keyed.

use serde_json::{Map, Value};

/// Whether applying `configuration` to `live`, of which the operator owns `fields`, changes nothing. When in
/// doubt, no: then the server is asked.
pub(super) fn is_unchanged(fields: &Value, configuration: &Value, live: &Value) -> bool {
    let Some(owned) = fields.as_object() else { return false };
    // What identifies an object is never owned.
    let mut configuration = configuration.clone();
    if let Some(map) = configuration.as_object_mut() {
        map.retain(|name, _| !matches!(name.as_str(), "apiVersion" | "kind"));
        if let Some(Value::Object(meta)) = map.get_mut("metadata") {
            meta.retain(|name, _| !matches!(name.as_str(), "name" | "namespace"));
        }
    }
    let mut live = live.clone();
    canonical(&mut configuration);
    canonical(&mut live);
    node(owned, &configuration, &live)
}

/// Fields that hold amounts of resources, which the server writes in a form of its own.
const AMOUNTS: [&str; 4] = ["requests", "limits", "hard", "capacity"];

/// Writes amounts such that equal ones are equal: half a core as `500m` and as `0.5`.
fn canonical(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::Object(amounts) if AMOUNTS.contains(&name.as_str()) => {
                        for amount in amounts.values_mut() {
                            if let Some(nano) = amount.as_str().and_then(nano) {
                                *amount = nano.to_string().into();
                            }
                        }
                    }
                    Value::Array(claims) if name == "volumeClaimTemplates" => {
                        claims.iter_mut().for_each(bare);
                        claims.iter_mut().for_each(canonical);
                    }
                    other => canonical(other),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(canonical),
        _ => {}
    }
}

/// Takes from a claim of a template what the server fills in. The list of them is owned as a whole, so that nothing else tells
/// what was given.
fn bare(claim: &mut Value) {
    let Some(fields) = claim.as_object_mut() else { return };
    fields.retain(|name, _| !matches!(name.as_str(), "apiVersion" | "kind" | "status"));
    if let Some(Value::Object(spec)) = fields.get_mut("spec") {
        spec.retain(|name, value| name != "volumeMode" || value != "Filesystem");
    }
}

/// A quantity in billionths; nothing if it is none, or one that does not fit.
fn nano(text: &str) -> Option<i128> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (numerator, denominator): (i128, i128) = match suffix {
        "n" => (1, 1_000_000_000),
        "u" => (1, 1_000_000),
        "m" => (1, 1_000),
        "" => (1, 1),
        _ => {
            let (letter, base): (&str, i128) = match suffix.strip_suffix('i') {
                Some(letter) => (letter, 1024),
                None => (suffix, 1000),
            };
            let power =
                ["", "k", "M", "G", "T", "P", "E"].iter().position(|one| one.eq_ignore_ascii_case(letter))?;
            (base.pow(u32::try_from(power).ok()?), 1)
        }
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits: i128 = format!("{whole}{part}").parse().ok()?;
    let scale = 10i128.checked_pow(u32::try_from(part.len()).ok()?)?;
    let scaled = digits.checked_mul(numerator)?.checked_mul(1_000_000_000)?;
    let divisor = denominator.checked_mul(scale)?;
    (scaled % divisor == 0).then_some(scaled / divisor)
}

/// One level: what is owned below it, what is applied, what is there.
fn node(owned: &Map<String, Value>, applied: &Value, live: &Value) -> bool {
    let members = || owned.iter().filter(|(name, _)| *name != ".");
    match applied {
        // A leaf: an atomic value, or a structure that is owned as a whole.
        _ if members().next().is_none() => applied == live || is_hollow(applied, owned),
        Value::Object(fields) => {
            let known = members()
                .all(|(name, _)| name.strip_prefix("f:").is_some_and(|name| fields.contains_key(name)));
            known
                && fields.iter().all(|(name, value)| {
                    let below = owned.get(&format!("f:{name}")).and_then(Value::as_object);
                    match (below, live.get(name)) {
                        (Some(below), Some(live)) => node(below, value, live),
                        // Nothing was given, so nothing is owned.
                        (None, _) => is_empty(value),
                        (Some(_), None) => false,
                    }
                })
        }
        Value::Array(items) => {
            let Some(live) = live.as_array() else { return false };
            members().count() == items.len()
                && items.iter().all(|item| {
                    members().any(|(name, below)| match (name.strip_prefix("k:"), name.strip_prefix("v:")) {
                        (Some(key), _) => keyed(key, below, item, live),
                        (_, Some(value)) => serde_json::from_str::<Value>(value)
                            .is_ok_and(|value| value == *item && live.contains(item)),
                        _ => false,
                    })
                })
        }
        _ => false,
    }
}

/// An item of a list with keys: the same key in what is applied, and unchanged in what is there.
fn keyed(key: &str, below: &Value, item: &Value, live: &[Value]) -> bool {
    let Ok(Value::Object(key)) = serde_json::from_str::<Value>(key) else { return false };
    // A key field that is left out has its default, which only the server knows: what is there has it.
    let given = |candidate: &Value| {
        key.iter().all(|(name, value)| candidate.get(name).is_none_or(|candidate| candidate == value))
    };
    let exact = |candidate: &&Value| key.iter().all(|(name, value)| candidate.get(name) == Some(value));
    let Some(below) = below.as_object() else { return false };
    given(item) && live.iter().find(exact).is_some_and(|live| node(below, item, live))
}

/// An empty map or list, which is owned by itself alone.
fn is_hollow(applied: &Value, owned: &Map<String, Value>) -> bool {
    owned.contains_key(".") && is_empty(applied)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.values().all(is_empty),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equal_amounts_are_equal_however_they_are_written() {
        for (one, other) in
            [("0.5", "500m"), ("1Gi", "1024Mi"), ("1k", "1000"), ("1.5", "1500m"), ("2", "2.0")]
        {
            assert_eq!(nano(one), nano(other), "{one} and {other}");
            assert!(nano(one).is_some());
        }
        assert_ne!(nano("1k"), nano("1Ki"));
        assert_eq!(nano("soon"), None);
    }

    #[test]
    fn owning_more_or_less_than_is_applied_is_a_change() {
        let applied = json!({"kind": "ConfigMap", "data": {"a": "1"}});
        let live = json!({"kind": "ConfigMap", "data": {"a": "1", "b": "2"}, "metadata": {"name": "x"}});
        let owns = |fields: Value| is_unchanged(&fields, &applied, &live);
        assert!(owns(json!({"f:data": {"f:a": {}}})));
        assert!(owns(json!({"f:data": {".": {}, "f:a": {}}})));
        assert!(!owns(json!({"f:data": {"f:a": {}, "f:b": {}}})), "b would be removed");
        assert!(!owns(json!({"f:data": {}})), "a would become owned");
        assert!(!owns(json!({})));
    }

    #[test]
    fn templates_of_claims_are_the_same_with_what_the_server_fills_in() {
        let claim = |storage: &str| {
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
                   "spec": {"resources": {"requests": {"storage": storage}}}})
        };
        let mut stored = claim("1Gi");
        stored["spec"]["volumeMode"] = json!("Filesystem");
        stored["status"] = json!({"phase": "Pending"});
        let set = |claim: Value| json!({"spec": {"volumeClaimTemplates": [claim]}});
        let fields = json!({"f:spec": {"f:volumeClaimTemplates": {}}});
        assert!(is_unchanged(&fields, &set(claim("1024Mi")), &set(stored.clone())));
        assert!(!is_unchanged(&fields, &set(claim("2Gi")), &set(stored.clone())));
        stored["spec"]["volumeMode"] = json!("Block");
        assert!(!is_unchanged(&fields, &set(claim("1Gi")), &set(stored)));
    }

    #[test]
    fn items_are_compared_by_their_keys_and_not_by_their_place() {
        let item = |name: &str, image: &str| json!({"name": name, "image": image});
        let fields = json!({"f:list": {
            "k:{\"name\":\"a\"}": {".": {}, "f:name": {}, "f:image": {}},
            "k:{\"name\":\"b\"}": {".": {}, "f:name": {}, "f:image": {}},
        }});
        let live = json!({"list": [item("other", "z"), item("b", "y"), item("a", "x")]});
        let unchanged = |list: Value| is_unchanged(&fields, &json!({"list": list}), &live);
        assert!(unchanged(json!([item("a", "x"), item("b", "y")])));
        assert!(!unchanged(json!([item("a", "x"), item("b", "changed")])));
        assert!(!unchanged(json!([item("a", "x")])), "b would be removed");
    }
}
