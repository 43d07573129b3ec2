//! JSON schemas for editors and validators: one a kind and version, as yaml-language-server and kubeconform read them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Version, header, versions};

/// The schemas, each with its path, which is where kubeconform looks for it.
pub(super) fn schemas(definitions: &[Value]) -> BTreeMap<String, String> {
    let file = |version: Version<'_>| {
        let kind = version.kind().to_lowercase();
        let path = format!("docs/schemas/{}/{kind}_{}.json", version.group(), version.name());
        (path, format!("{:#}\n", document(&version)))
    };
    versions(definitions).map(file).collect()
}

fn document(version: &Version<'_>) -> Value {
    let (group, kind, name) = (version.group(), version.kind(), version.name());
    let mut schema = converted(version.schema());
    // Before everything else in the order of names, so that it is seen.
    schema["$comment"] = header("kubewright generate docs").into();
    schema["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    schema["x-kubernetes-group-version-kind"] = json!([{"group": group, "kind": kind, "version": name}]);
    schema["properties"]["apiVersion"] = json!({"type": "string", "const": format!("{group}/{name}")});
    schema["properties"]["kind"] = json!({"type": "string", "const": kind});
    if schema["properties"]["metadata"].is_null() {
        schema["properties"]["metadata"] = json!({"type": "object"});
    }
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let all = ["apiVersion", "kind", "metadata"].into_iter().map(Value::from).chain(required);
    schema["required"] = all.collect();
    schema
}

/// A schema of OpenAPI 3.0 as one of JSON Schema: null is a type of its own, open limits are numbers, and a field that
/// the server would drop is a mistake.
fn converted(schema: &Value) -> Value {
    let Some(fields) = schema.as_object() else { return schema.clone() };
    let mut result = Map::new();
    for (name, value) in fields {
        let value = match name.as_str() {
            "nullable" => continue,
            name if name.starts_with("x-kubernetes-") => continue,
            "minimum" | "maximum" if schema[exclusive(name)] == true => continue,
            "exclusiveMinimum" | "exclusiveMaximum" => match (value, inclusive(name)) {
                (Value::Bool(true), limit) => schema[limit].clone(),
                _ => continue,
            },
            "properties" => {
                let converted = |(name, schema): (&String, &Value)| (name.clone(), converted(schema));
                value.as_object().into_iter().flatten().map(converted).collect()
            }
            "items" | "additionalProperties" | "not" => converted(value),
            "allOf" | "anyOf" | "oneOf" => value.as_array().into_iter().flatten().map(converted).collect(),
            _ => value.clone(),
        };
        result.insert(name.clone(), value);
    }
    if schema["x-kubernetes-int-or-string"] == true {
        result.insert("type".to_owned(), json!(["integer", "string"]));
        // It says the same, of every such field.
        result.remove("anyOf");
    }
    let drops_others = fields.contains_key("properties")
        && !fields.contains_key("additionalProperties")
        && schema["x-kubernetes-preserve-unknown-fields"] != true
        && schema["x-kubernetes-embedded-resource"] != true;
    if drops_others && schema["type"] == "object" {
        result.insert("additionalProperties".to_owned(), json!(false));
    }
    if schema["nullable"] == true {
        make_nullable(&mut result);
    }
    Value::Object(result)
}

fn make_nullable(schema: &mut Map<String, Value>) {
    if let Some(kind) = schema.get_mut("type") {
        let kinds = match kind.take() {
            Value::Array(kinds) => kinds,
            one => vec![one],
        };
        *kind = kinds.into_iter().chain([json!("null")]).collect();
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
}

fn exclusive(limit: &str) -> &'static str {
    if limit == "minimum" { "exclusiveMinimum" } else { "exclusiveMaximum" }
}

fn inclusive(limit: &str) -> &'static str {
    if limit == "exclusiveMinimum" { "minimum" } else { "maximum" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_openapi_says_in_its_own_way_is_said_as_json_schema_does() {
        let schema = json!({"type": "object", "properties": {
            "open": {"type": "number", "minimum": 0, "exclusiveMinimum": true, "maximum": 9, "exclusiveMaximum": false},
            "size": {"type": "string", "enum": ["S", "L"], "nullable": true},
            "port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {}}},
            "map": {"type": "object", "additionalProperties": {"type": "string", "nullable": true}},
            "x-kubernetes-list-type": {"type": "string"},
        }});
        assert_eq!(
            converted(&schema),
            json!({"type": "object", "additionalProperties": false, "properties": {
                "open": {"type": "number", "exclusiveMinimum": 0, "maximum": 9},
                "size": {"type": ["string", "null"], "enum": ["S", "L", null]},
                "port": {"type": ["integer", "string"]},
                "any": {"type": "object", "properties": {"a": {}}},
                "map": {"type": "object", "additionalProperties": {"type": ["string", "null"]}},
                "x-kubernetes-list-type": {"type": "string"},
            }})
        );
    }
}
