//! Whether a schema takes everything that another one takes, and if not, where. Told for people, at the first place.

use serde_json::Value;

/// Limits that get narrower as they fall.
const UPPER: [&str; 4] = ["maximum", "maxLength", "maxItems", "maxProperties"];

/// Limits that get narrower as they rise.
const LOWER: [&str; 4] = ["minimum", "minLength", "minItems", "minProperties"];

/// What `old` takes and `new` does not, if anything. `path` is where they are.
pub(super) fn narrowed(old: &Value, new: &Value, path: &str) -> Option<String> {
    narrowed_here(old, new)
        .map(|why| format!("{} {why}", if path.is_empty() { "the object" } else { path }))
        .or_else(|| narrowed_fields(old, new, path))
        .or_else(|| narrowed_elements(old, new, path))
}

fn narrowed_here(old: &Value, new: &Value) -> Option<String> {
    if !new["type"].is_null() && old["type"] != new["type"] {
        return Some(format!("would be {} instead of {}", new["type"], old["type"]));
    }
    if old["nullable"] == true && new["nullable"] != true {
        return Some("could no longer be null".to_owned());
    }
    if keeps_unknown(old) && !keeps_unknown(new) {
        return Some("would lose its unknown fields".to_owned());
    }
    if !new["pattern"].is_null() && old["pattern"] != new["pattern"] {
        return Some(format!("would have to match {}", new["pattern"]));
    }
    let (before, after) = (list(old, "enum"), list(new, "enum"));
    if !after.is_empty() && (before.is_empty() || before.iter().any(|value| !after.contains(value))) {
        return Some("would allow fewer values".to_owned());
    }
    let required = list(new, "required").iter().find(|field| {
        let has_default = !new["properties"][field.as_str().unwrap_or_default()]["default"].is_null();
        !has_default && !list(old, "required").contains(field)
    });
    if let Some(field) = required {
        return Some(format!("would require {field}"));
    }
    let is_tighter = |limit: &str, is_upper: bool| match (old[limit].as_f64(), new[limit].as_f64()) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(old), Some(new)) => (is_upper && new < old) || (!is_upper && new > old),
    };
    let upper = UPPER.into_iter().find(|limit| is_tighter(limit, true));
    let limit = upper.or_else(|| LOWER.into_iter().find(|limit| is_tighter(limit, false)))?;
    Some(format!("would have a {limit} of {}", new[limit]))
}

fn narrowed_fields(old: &Value, new: &Value, path: &str) -> Option<String> {
    let takes_others = keeps_unknown(new) || !new["additionalProperties"].is_null();
    old["properties"].as_object()?.iter().find_map(|(field, schema)| {
        let path = format!("{path}.{field}");
        match new["properties"].get(field) {
            Some(new) => narrowed(schema, new, &path),
            None if takes_others => None,
            None => Some(format!("{path} would be removed")),
        }
    })
}

/// The elements of lists and the values of maps.
fn narrowed_elements(old: &Value, new: &Value, path: &str) -> Option<String> {
    ["items", "additionalProperties"].into_iter().find_map(|elements| {
        let are_known = old[elements].is_object() && new[elements].is_object();
        are_known.then(|| narrowed(&old[elements], &new[elements], &format!("{path}[*]")))?
    })
}

fn keeps_unknown(schema: &Value) -> bool {
    schema["x-kubernetes-preserve-unknown-fields"] == true
}

fn list<'a>(schema: &'a Value, field: &str) -> &'a [Value] {
    schema[field].as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(properties: Value, required: &[&str]) -> Value {
        json!({"type": "object", "properties": {"spec": {
            "type": "object", "properties": properties, "required": required,
        }}})
    }

    #[test]
    fn a_schema_may_take_more() {
        let old = json!({"page": {"type": "string", "maxLength": 5}, "size": {"type": "string", "enum": ["S", "L"]}});
        let new = json!({
            "page": {"type": "string", "maxLength": 9, "nullable": true},
            "size": {"type": "string", "enum": ["S", "M", "L"]},
            "host": {"type": "string", "default": "localhost"},
        });
        assert_eq!(narrowed(&spec(old.clone(), &["page"]), &spec(new, &["host"]), ""), None);
        assert_eq!(narrowed(&spec(old.clone(), &["page"]), &spec(old, &["page"]), ""), None);
    }

    #[test]
    fn what_a_schema_no_longer_takes_is_told() {
        let cases = [
            (
                json!({"type": "string"}),
                json!({"type": "integer"}),
                r#"would be "integer" instead of "string""#,
            ),
            (json!({"nullable": true}), json!({}), "could no longer be null"),
            (json!({}), json!({"pattern": "^a"}), r#"would have to match "^a""#),
            (json!({"enum": ["S", "L"]}), json!({"enum": ["S"]}), "would allow fewer values"),
            (json!({}), json!({"enum": ["S"]}), "would allow fewer values"),
            (json!({"maxLength": 9}), json!({"maxLength": 5}), "would have a maxLength of 5"),
            (json!({}), json!({"minimum": 1}), "would have a minimum of 1"),
            (json!({}), json!({"required": ["host"]}), r#"would require "host""#),
            (
                json!({"x-kubernetes-preserve-unknown-fields": true}),
                json!({}),
                "would lose its unknown fields",
            ),
        ];
        for (old, new, why) in cases {
            let within = |schema: Value| spec(json!({"hosts": {"type": "array", "items": schema}}), &[]);
            let expected = format!(".spec.hosts[*] {why}");
            assert_eq!(narrowed(&within(old), &within(new), ""), Some(expected));
        }
        let (old, new) = (spec(json!({"page": {}}), &[]), spec(json!({}), &[]));
        assert_eq!(narrowed(&old, &new, ""), Some(".spec.page would be removed".to_owned()));
    }
}
