//! The least that a schema asks for, as an object to begin with. Patterns and rules are beyond it: whether a server
//! takes the object, only the server can tell.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray,
};
use serde_json::{Map, Value, json};

/// The fields besides name and kind that an object must have.
pub(super) fn least(definition: &CustomResourceDefinition, version: &str) -> Value {
    let version = definition.spec.versions.iter().find(|one| one.name == version);
    let schema = version.and_then(|one| one.schema.as_ref()?.open_api_v3_schema.as_ref());
    let mut fields = schema.map_or_else(Map::new, fields);
    // Most readers expect one, asked for or not.
    if let Some(spec) = schema.and_then(|schema| schema.properties.as_ref()?.get("spec")) {
        fields.entry("spec").or_insert_with(|| value(spec));
    }
    for common in ["apiVersion", "kind", "metadata"] {
        fields.remove(common);
    }
    Value::Object(fields)
}

/// What is required of an object, apart from what the server fills in.
fn fields(schema: &JSONSchemaProps) -> Map<String, Value> {
    let property = |name: &String| schema.properties.as_ref()?.get(name);
    let required = schema.required.iter().flatten();
    let missing = required.filter_map(|name| Some((name, property(name)?)));
    missing
        .filter(|(_, schema)| schema.default.is_none())
        .map(|(name, schema)| (name.clone(), value(schema)))
        .collect()
}

fn value(schema: &JSONSchemaProps) -> Value {
    if let Some(first) = schema.enum_.iter().flatten().next() {
        return first.0.clone();
    }
    let lowest = schema.minimum.unwrap_or(0.0) + f64::from(schema.exclusive_minimum == Some(true));
    let count = |limit: Option<i64>| usize::try_from(limit.unwrap_or(0)).unwrap_or(0);
    match schema.type_.as_deref() {
        _ if schema.x_kubernetes_int_or_string == Some(true) => json!(lowest as i64),
        Some("integer") => json!(lowest.ceil() as i64),
        Some("number") => json!(lowest),
        Some("boolean") => json!(false),
        Some("array") => {
            let item = match &schema.items {
                Some(JSONSchemaPropsOrArray::Schema(item)) => value(item),
                _ => Value::Null,
            };
            Value::Array(vec![item; count(schema.min_items)])
        }
        Some("string") => text(schema, count(schema.min_length)),
        Some("object") => Value::Object(fields(schema)),
        _ => json!({}),
    }
}

fn text(schema: &JSONSchemaProps, shortest: usize) -> Value {
    let text = match schema.format.as_deref() {
        Some("date-time") => "2026-01-01T00:00:00Z",
        Some("date") => "2026-01-01",
        Some("duration") => "1h",
        Some("uri") => "https://example.com",
        Some("email") => "someone@example.com",
        Some("hostname") => "example.com",
        Some("ipv4" | "ip") => "192.0.2.1",
        Some("ipv6") => "2001:db8::1",
        Some("cidr") => "192.0.2.0/24",
        Some("uuid") => "00000000-0000-4000-8000-000000000000",
        Some("byte") => "",
        _ => "example",
    };
    let missing = shortest.saturating_sub(text.len());
    json!(format!("{text}{}", "e".repeat(missing)))
}
