//! What a CRD publishes of itself: the schemas of its kind and of the list of it, for OpenAPI v3 and v2.

use serde_json::{Map, Value, json};

use crate::schema::props::Props;

use super::{Definition, structural};

const METADATA: &str = "Standard object's metadata. More info: \
     https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";
const LIST_METADATA: &str = "Standard list metadata. More info: \
     https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const API_VERSION: &str = "APIVersion defines the versioned schema of this representation of an object. Servers should \
     convert recognized schemas to the latest internal value, and may reject unrecognized values. More info: \
     https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const KIND: &str = "Kind is a string value representing the REST resource this object represents. Servers may infer this \
     from the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: \
     https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const EMBEDDED_API_VERSION: &str = "apiVersion defines the versioned schema of this representation of an object. More \
     info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const EMBEDDED_KIND: &str = "kind is a string value representing the type of this object. In CamelCase. More info: \
     https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";

/// A named schema of an OpenAPI document.
pub(crate) type Model = (String, Value);

/// The name under which a kind is published, such as `io.example.v1.Foo`.
pub(crate) fn model_name(group: &str, version: &str, kind: &str) -> String {
    let mut parts: Vec<&str> = group.split('.').collect();
    parts.reverse();
    format!("{}.{version}.{kind}", parts.join("."))
}

/// The entries of `components.schemas` for a version's kind and its list.
pub(crate) fn openapi_v3(definition: Definition<'_>, version: &str) -> Option<[Model; 2]> {
    Dialect::V3.models(definition, version)
}

/// The entries of `definitions` for a version's kind and its list.
pub(crate) fn openapi_v2(definition: Definition<'_>, version: &str) -> Option<[Model; 2]> {
    Dialect::V2.models(definition, version)
}

#[derive(Clone, Copy, PartialEq)]
enum Dialect {
    V2,
    V3,
}

impl Dialect {
    fn models(self, definition: Definition<'_>, name: &str) -> Option<[Model; 2]> {
        let version = definition.version(name)?;
        let names = definition.names();
        let identity = |kind: &str| json!([{ "group": definition.group(), "version": name, "kind": kind }]);
        let selectable: Vec<Value> = version
            .selectable_fields()
            .map(|path| json!({ "fieldPath": path.strip_prefix('.').unwrap_or(path) }))
            .collect();
        let finish = |mut schema: Value, kind: &str| {
            schema["x-kubernetes-group-version-kind"] = identity(kind);
            if !selectable.is_empty() {
                schema["x-kubernetes-selectable-fields"] = selectable.clone().into();
            }
            (model_name(definition.group(), name, kind), schema)
        };
        let kind = self.kind(version.openapi());
        let item = model_name(definition.group(), name, names.kind());
        let list = json!({
            "type": "object",
            "description": format!("{} is a list of {}", names.list_kind(), names.kind()),
            "required": ["items"],
            "properties": {
                "apiVersion": string(API_VERSION),
                "kind": string(KIND),
                "metadata": self.reference("io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta", LIST_METADATA),
                "items": {
                    "type": "array",
                    "description": format!(
                        "List of {}. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md",
                        names.plural(),
                    ),
                    "items": { "$ref": self.pointer(&item) },
                },
            },
        });
        Some([finish(kind, names.kind()), finish(list, names.list_kind())])
    }

    fn pointer(self, model: &str) -> String {
        match self {
            Self::V2 => format!("#/definitions/{model}"),
            Self::V3 => format!("#/components/schemas/{model}"),
        }
    }

    /// A reference with a description, which v3 only allows beside an `allOf`.
    fn reference(self, model: &str, description: &str) -> Value {
        let pointer = self.pointer(model);
        match self {
            Self::V2 => json!({ "$ref": pointer, "description": description }),
            Self::V3 => json!({ "allOf": [{ "$ref": pointer }], "description": description }),
        }
    }

    fn add_metadata(self, map: &mut Map<String, Value>, api_version: &str, kind: &str) {
        if let Value::Object(properties) = map.entry("properties").or_insert_with(|| json!({})) {
            let metadata = self.reference("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", METADATA);
            properties.insert("apiVersion".to_owned(), string(api_version));
            properties.insert("kind".to_owned(), string(kind));
            properties.insert("metadata".to_owned(), metadata);
        }
    }

    fn kind(self, openapi: Option<&Value>) -> Value {
        let structural = openapi.filter(|openapi| {
            Props::of(openapi).is_some_and(|props| structural::unsupported(props).is_none())
        });
        let Some(mut schema) = structural.cloned() else { return json!({ "type": "object" }) };
        if self == Self::V2 && preserves(&schema) {
            return json!({ "type": "object" });
        }
        self.publish(&mut schema);
        if let Some(map) = schema.as_object_mut() {
            self.add_metadata(map, API_VERSION, KIND);
        }
        schema
    }

    /// Writes out what Kubernetes' extensions imply, and for v2 leaves out what it can't say.
    fn publish(self, schema: &mut Value) {
        let Some(map) = schema.as_object_mut() else { return };
        unfold(map);
        if self == Self::V2 {
            restrict_to_v2(map);
        }
        if let Some(Value::Object(properties)) = map.get_mut("properties") {
            properties.values_mut().for_each(|property| self.publish(property));
        }
        for key in ["items", "additionalProperties"] {
            if let Some(child) = map.get_mut(key) {
                self.publish(child);
            }
        }
        let embedded = is_set(map, "x-kubernetes-embedded-resource");
        let preserves = is_set(map, "x-kubernetes-preserve-unknown-fields");
        if embedded && !(self == Self::V2 && preserves) {
            self.add_metadata(map, EMBEDDED_API_VERSION, EMBEDDED_KIND);
            if let Value::Array(required) = map.entry("required").or_insert_with(|| json!([])) {
                for name in ["kind", "apiVersion"] {
                    if !required.iter().any(|known| known == name) {
                        required.push(name.into());
                    }
                }
            }
        }
    }
}

fn string(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

fn is_set(map: &Map<String, Value>, key: &str) -> bool {
    map.get(key) == Some(&Value::Bool(true))
}

fn preserves(schema: &Value) -> bool {
    schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true))
}

/// Says in OpenAPI's own words that a value is an integer or a string.
fn unfold(map: &mut Map<String, Value>) {
    let pattern = json!([{ "type": "integer" }, { "type": "string" }]);
    let said = map.get("anyOf") == Some(&pattern)
        || map.get("allOf").and_then(|all| all.get(0)?.get("anyOf")) == Some(&pattern);
    if !is_set(map, "x-kubernetes-int-or-string") || said {
        return;
    }
    if map.get("anyOf").is_none_or(Value::is_null) {
        map.insert("anyOf".to_owned(), pattern);
    } else if let Value::Array(all) = map.entry("allOf").or_insert_with(|| json!([])) {
        all.insert(0, json!({ "anyOf": pattern }));
    }
}

/// What kubectl can't cope with in v2 goes: junctors, nullable types, fields beside unknown ones.
fn restrict_to_v2(map: &mut Map<String, Value>) {
    for key in ["allOf", "anyOf", "oneOf", "not", "default"] {
        map.remove(key);
    }
    let preserves = is_set(map, "x-kubernetes-preserve-unknown-fields");
    if is_set(map, "nullable") {
        for key in ["type", "nullable", "items", "properties"] {
            map.remove(key);
        }
    }
    if preserves {
        map.remove("items");
        map.remove("properties");
    }
    let is_type = |map: &Map<String, Value>, name: &str| map.get("type").is_some_and(|ty| ty == name);
    if (is_type(map, "array") && !map.contains_key("items")) || (preserves && is_type(map, "object")) {
        map.remove("type");
    }
    let nullable = |schema: &Value| schema.get("nullable") == Some(&Value::Bool(true));
    let dropped: Vec<String> = match map.get("properties") {
        Some(Value::Object(properties)) => {
            properties.iter().filter(|(_, schema)| nullable(schema)).map(|(name, _)| name.clone()).collect()
        }
        _ => Vec::new(),
    };
    if let Some(Value::Array(required)) = map.get_mut("required") {
        required.retain(|name| !dropped.iter().any(|dropped| name == dropped));
        if required.is_empty() {
            map.remove("required");
        }
    }
    if map.get("additionalProperties").is_some_and(nullable) {
        map.remove("required");
    }
}
