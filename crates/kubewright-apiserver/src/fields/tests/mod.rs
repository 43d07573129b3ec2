//! What a write does to ownership, scenario by scenario.

mod applying;
mod replay;
mod scaling;
mod sets;
mod updating;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    FieldManager, ResetFields, Versions,
    folded::{fold, unfold},
};
use crate::{
    error::ApiError,
    schema::{Field, ListType, Schema, SchemaRef, Type},
};

/// A schema from its OpenAPI form, as far as ownership cares.
fn schema(openapi: &Value) -> Schema {
    let text = |name: &str| openapi.get(name).and_then(Value::as_str);
    let flag = |name: &str| openapi.get(name) == Some(&Value::Bool(true));
    let format = text("format").map(str::to_owned);
    let ty = match text("type") {
        Some("object") => Type::Object,
        Some("array") => Type::Array,
        Some("integer") => Type::Integer,
        Some("number") => Type::Number,
        Some("boolean") => Type::Boolean,
        Some("string") if format.as_deref() == Some("int-or-string") => Type::IntOrString,
        Some("string") => Type::String,
        _ => Type::Any,
    };
    let field = |of: &Value| Field { schema: SchemaRef::new(schema(of)), ..Field::default() };
    Schema {
        ty,
        format,
        preserve_unknown: flag("x-kubernetes-preserve-unknown-fields"),
        atomic: text("x-kubernetes-map-type") == Some("atomic"),
        properties: openapi
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(|(name, of)| (name.clone(), field(of)))
            .collect(),
        values: openapi.get("additionalProperties").map(|of| SchemaRef::new(schema(of))),
        items: openapi.get("items").map(|of| SchemaRef::new(schema(of))),
        list: match text("x-kubernetes-list-type") {
            Some("set") => ListType::Set,
            Some("map") => ListType::Map(
                openapi["x-kubernetes-list-map-keys"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(|key| key.as_str().map(str::to_owned))
                    .collect(),
            ),
            _ => ListType::Atomic,
        },
        default: openapi.get("default").cloned(),
        ..Schema::default()
    }
}

/// A kind with a bit of everything: `data`, and a `spec` with ports, containers and untyped parts.
fn kind() -> Schema {
    let text = json!({"type": "string"});
    let texts = json!({"type": "object", "additionalProperties": text});
    schema(&json!({"type": "object", "properties": {
        "apiVersion": text, "kind": text,
        "metadata": {"type": "object", "properties": {
            "name": text, "namespace": text, "uid": text, "resourceVersion": text, "labels": texts,
            "annotations": texts,
            "finalizers": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
            "managedFields": {"type": "array", "items": {"type": "object"}},
        }},
        "data": texts,
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "spec": {"type": "object", "properties": {
            "replicas": {"type": "integer"},
            "selector": {"type": "object", "additionalProperties": text, "x-kubernetes-map-type": "atomic"},
            "ports": {"type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["containerPort", "protocol"],
                "items": {"type": "object", "properties": {
                    "containerPort": {"type": "integer"},
                    "protocol": {"type": "string", "default": "TCP"}, "name": text}}},
            "containers": {"type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "properties": {
                    "name": text, "image": text, "args": {"type": "array", "items": text},
                    "resources": {"type": "object", "additionalProperties": text}}}},
            "anything": {"x-kubernetes-preserve-unknown-fields": true},
        }},
    }}))
}

/// An object of that kind and the requests that reach it.
struct Server {
    versions: BTreeMap<&'static str, SchemaRef>,
    api_version: &'static str,
    subresource: &'static str,
    reset: ResetFields,
    second: i64,
    live: Value,
}

impl Versions for BTreeMap<&'static str, SchemaRef> {
    fn schema(&self, api_version: &str) -> Option<SchemaRef> {
        self.get(api_version).cloned()
    }
}

impl Server {
    fn new() -> Self {
        Self {
            versions: BTreeMap::from([("v1", SchemaRef::new(kind()))]),
            api_version: "v1",
            subresource: "",
            reset: ResetFields::None,
            second: 0,
            live: json!({"apiVersion": "v1", "kind": "Thing"}),
        }
    }

    fn request<T>(&mut self, run: impl FnOnce(&FieldManager<'_>, &Value) -> T) -> T {
        let empty = json!({"apiVersion": self.api_version, "kind": "Thing"});
        self.second += 1;
        let manager = FieldManager {
            versions: &self.versions,
            api_version: self.api_version,
            kind: "Thing",
            subresource: self.subresource,
            reset: &self.reset,
            empty: &empty,
            now: jiff::Timestamp::from_second(self.second).unwrap(),
        };
        let mut live = self.live.clone();
        fold(&mut live);
        run(&manager, &live)
    }

    fn thing(&self, parts: &Value) -> Value {
        let mut object = json!({"apiVersion": self.api_version, "kind": "Thing", "metadata": {"name": "x"}});
        for (name, part) in parts.as_object().unwrap() {
            if name == "metadata" {
                for (name, part) in part.as_object().unwrap() {
                    object["metadata"][name] = part.clone();
                }
            } else {
                object[name] = part.clone();
            }
        }
        fold(&mut object);
        object
    }

    /// Applies; tells whether anything changed.
    fn apply(&mut self, manager: &str, parts: &Value, force: bool) -> Result<bool, ApiError> {
        let config = self.thing(parts);
        let result = self.request(|fields, live| fields.apply(live, &config, manager, force))?;
        let changed = result.is_some();
        if let Some(mut object) = result {
            unfold(&mut object);
            self.live = object;
        }
        Ok(changed)
    }

    /// Applies what must not fail.
    fn applies(&mut self, manager: &str, parts: &Value) {
        self.apply(manager, parts, false).unwrap();
    }

    /// Replaces the object, which keeps its uid, and what was stored of its managed fields unless the new
    /// object brings its own.
    fn update(&mut self, manager: &str, parts: &Value) {
        let mut new = self.thing(parts);
        self.request(|fields, live| fields.update(live, &mut new, manager));
        new["metadata"]["uid"] = "uid".into();
        unfold(&mut new);
        self.live = new;
    }

    /// Who owns what: FieldsV1 by `manager/operation`.
    fn owners(&self) -> Value {
        let entries = self.live["metadata"]["managedFields"].as_array().into_iter().flatten();
        entries
            .map(|entry| {
                let mut name = format!(
                    "{}/{}",
                    entry["manager"].as_str().unwrap(),
                    entry["operation"].as_str().unwrap()
                );
                if let Some(subresource) = entry["subresource"].as_str() {
                    name = format!("{name}/{subresource}");
                }
                (name, entry["fieldsV1"].clone())
            })
            .collect::<serde_json::Map<_, _>>()
            .into()
    }

    /// When each manager last took a field.
    fn times(&self) -> Value {
        let entries = self.live["metadata"]["managedFields"].as_array().into_iter().flatten();
        entries
            .map(|entry| (entry["manager"].as_str().unwrap().to_owned(), entry["time"].clone()))
            .collect::<serde_json::Map<_, _>>()
            .into()
    }
}
