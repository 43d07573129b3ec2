//! OpenAPI documents: version 3 by group and version, version 2 as a whole.
//!
//! They serve `kubectl explain`, client-side validation and client-side apply, so they carry what those
//! read: schemas with their Kubernetes extensions, and operations with their kind, action, media types and
//! query parameters. Documents are made on request; nobody needs them to get ready.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::descriptions;
use crate::{
    crd::{self, Definition},
    registry::{
        Origin, Registry, Resource, Version,
        types::{OBJECT_META, Types},
    },
    schema::{Field, ListType, Schema, Type},
};

const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";

/// Where references of a document point to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dialect {
    V2,
    V3,
}

impl Dialect {
    fn reference(self, name: &str) -> Value {
        let prefix = match self {
            Self::V2 => "#/definitions/",
            Self::V3 => "#/components/schemas/",
        };
        json!({"$ref": format!("{prefix}{name}")})
    }
}

/// `/openapi/v3`: where the documents are. The hash lets clients cache them for good.
pub(crate) fn index(registry: &Registry) -> Value {
    let mut paths = Map::new();
    for group in registry.groups() {
        for version in &group.versions {
            let path = document_path(&group.name, &version.name);
            let hash = fingerprint(&state(version));
            let url = format!("/openapi/v3/{path}?hash={hash}");
            paths.insert(path, json!({"serverRelativeURL": url}));
        }
    }
    json!({"paths": paths})
}

/// What the document of a version depends on: this build, and the definitions behind custom resources.
fn state(version: &Version) -> String {
    let mut state = env!("CARGO_PKG_VERSION").to_owned();
    for resource in &version.resources {
        if let Origin::Custom(custom) = &resource.origin {
            state.push_str(&format!("/{}@{}", resource.plural, custom.revision));
        }
    }
    state
}

fn document_path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// A short, stable name for a text (FNV-1a), for entity tags and cache keys; not for security.
pub(crate) fn fingerprint(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016X}")
}

/// The entity tag of a body.
pub(crate) fn tag(body: &[u8]) -> String {
    format!("\"{}\"", fingerprint(&String::from_utf8_lossy(body)))
}

/// `/openapi/v3/…`: the document of one group and version.
pub(crate) fn document(group: &str, version: &Version) -> Value {
    let mut schemas = Map::new();
    let mut paths = Map::new();
    for resource in &version.resources {
        add_schemas(resource, Dialect::V3, &mut schemas);
        add_paths(resource, Dialect::V3, &mut paths);
    }
    descriptions::add(group, &version.name, &mut schemas);
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "1.36"},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"BearerToken": {
                "type": "apiKey", "description": "Bearer Token authentication", "name": "authorization", "in": "header",
            }},
        },
    })
}

/// `/openapi/v2`: everything in one document.
pub(crate) fn document_v2(registry: &Registry) -> Value {
    let mut definitions = Map::new();
    let mut paths = Map::new();
    for version in registry.groups().iter().flat_map(|group| &group.versions) {
        for resource in &version.resources {
            add_schemas(resource, Dialect::V2, &mut definitions);
            add_paths(resource, Dialect::V2, &mut paths);
        }
    }
    for group in registry.groups() {
        for version in &group.versions {
            descriptions::add(&group.name, &version.name, &mut definitions);
        }
    }
    json!({
        "swagger": "2.0", "info": {"title": "Kubernetes", "version": "v1.36"},
        "paths": paths, "definitions": definitions,
        "securityDefinitions": {"BearerToken": {
            "type": "apiKey", "description": "Bearer Token authentication", "name": "authorization", "in": "header",
        }},
    })
}

/// The name of a resource's kind among the schemas.
fn definition_name(resource: &Resource) -> String {
    resource
        .schema
        .name
        .map_or_else(|| crd::model_name(&resource.group, &resource.version, &resource.kind), str::to_owned)
}

fn group_version_kind(resource: &Resource, kind: &str) -> Value {
    json!({"group": &*resource.group, "kind": kind, "version": &*resource.version})
}

fn add_schemas(resource: &Resource, dialect: Dialect, schemas: &mut Map<String, Value>) {
    let name = definition_name(resource);
    if let Origin::Custom(custom) = &resource.origin {
        let definition = Definition(&custom.definition);
        let models = match dialect {
            Dialect::V2 => crd::openapi_v2(definition, &resource.version),
            Dialect::V3 => crd::openapi_v3(definition, &resource.version),
        };
        schemas.extend(models.into_iter().flatten());
        add_references(vec![LIST_META, OBJECT_META, DELETE_OPTIONS, STATUS], dialect, schemas);
        return;
    }
    let mut kind = structure(&resource.schema, dialect);
    kind["x-kubernetes-group-version-kind"] = json!([group_version_kind(resource, &resource.kind)]);
    let metadata = "metadata";
    let list = json!({
        "description": format!("{} is a list of {}", resource.list_kind, resource.kind),
        "type": "object", "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "items": {"type": "array", "items": dialect.reference(&name)},
            metadata: dialect.reference(LIST_META),
        },
        "x-kubernetes-group-version-kind": [group_version_kind(resource, &resource.list_kind)],
    });
    schemas.insert(name.clone(), kind);
    if resource.has_verb("list") {
        let list_name =
            name.strip_suffix(&*resource.kind).map(|prefix| format!("{prefix}{}", resource.list_kind));
        schemas.insert(list_name.unwrap_or_else(|| format!("{name}List")), list);
    }
    let mut wanted: Vec<&'static str> = vec![LIST_META, DELETE_OPTIONS, STATUS];
    references(&resource.schema, &mut wanted, &mut BTreeSet::new());
    add_references(wanted, dialect, schemas);
}

/// Adds the named types of the catalogue that `wanted` asks for, and what they mention.
fn add_references(mut wanted: Vec<&'static str>, dialect: Dialect, schemas: &mut Map<String, Value>) {
    schemas
        .entry(PATCH)
        .or_insert_with(|| json!({"description": "Patch is provided to give a concrete name and type to the Kubernetes PATCH request body.", "type": "object"}));
    let mut seen = BTreeSet::new();
    while let Some(name) = wanted.pop() {
        if schemas.contains_key(name) {
            continue;
        }
        let definition = Types::get().definition(name);
        let mut entry = structure(&definition, dialect);
        if let Some((group, version, kind)) = Types::get().kind_of(name) {
            entry["x-kubernetes-group-version-kind"] =
                json!([{"group": group, "kind": kind, "version": version}]);
        }
        schemas.insert(name.to_owned(), entry);
        references(&definition, &mut wanted, &mut seen);
    }
}

/// The named types a schema mentions directly.
fn references(schema: &Schema, found: &mut Vec<&'static str>, seen: &mut BTreeSet<&'static str>) {
    let parts =
        schema.properties.values().map(|field| &field.schema).chain(&schema.values).chain(&schema.items);
    for part in parts {
        match part.name {
            Some(name) => {
                if seen.insert(name) {
                    found.push(name);
                }
            }
            None => references(part, found, seen),
        }
    }
}

/// A type with its fields, extensions included.
fn structure(schema: &Schema, dialect: Dialect) -> Value {
    let mut out = json!({"type": "object"});
    if !schema.properties.is_empty() {
        let fields =
            schema.properties.iter().map(|(name, field)| (name.clone(), field_schema(field, dialect)));
        out["properties"] = Value::Object(fields.collect());
    }
    if !schema.required.is_empty() {
        out["required"] = schema.required.clone().into();
    }
    if schema.atomic {
        out["x-kubernetes-map-type"] = "atomic".into();
    }
    out
}

fn field_schema(field: &Field, dialect: Dialect) -> Value {
    let mut out = node(&field.schema, dialect);
    if field.schema.name.is_some() && dialect == Dialect::V3 && !field.pointer {
        out = json!({"default": {}, "allOf": [out]});
    }
    let strategies: Vec<&str> = [(field.merge.merge, "merge"), (field.merge.retain_keys, "retainKeys")]
        .iter()
        .filter_map(|(on, name)| on.then_some(*name))
        .collect();
    if !strategies.is_empty() {
        out["x-kubernetes-patch-strategy"] = strategies.join(",").into();
    }
    if let Some(key) = &field.merge.key {
        out["x-kubernetes-patch-merge-key"] = key.as_str().into();
    }
    out
}

fn node(schema: &Schema, dialect: Dialect) -> Value {
    if let Some(name) = schema.name {
        return dialect.reference(name);
    }
    let mut out = match schema.ty {
        Type::Any => json!({}),
        Type::Object => match &schema.values {
            Some(values) => json!({"type": "object", "additionalProperties": node(values, dialect)}),
            None => structure(schema, dialect),
        },
        Type::Array => {
            json!({"type": "array", "items": schema.items.as_ref().map_or(json!({}), |items| node(items, dialect))})
        }
        Type::String => json!({"type": "string"}),
        Type::Integer => json!({"type": "integer"}),
        Type::Number => json!({"type": "number"}),
        Type::Boolean => json!({"type": "boolean"}),
        Type::IntOrString if dialect == Dialect::V3 => {
            json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]})
        }
        Type::IntOrString => json!({"type": "string", "format": "int-or-string"}),
    };
    match schema.format.as_deref() {
        Some("quantity") if dialect == Dialect::V3 => {
            out = json!({"oneOf": [{"type": "string"}, {"type": "number"}]});
        }
        Some("micro-time") => out["format"] = "date-time".into(),
        Some("quantity" | "duration") | None => {}
        Some(format) => out["format"] = format.into(),
    }
    match &schema.list {
        ListType::Atomic => {
            if schema.ty == Type::Array {
                out["x-kubernetes-list-type"] = "atomic".into();
            }
        }
        ListType::Set => out["x-kubernetes-list-type"] = "set".into(),
        ListType::Map(keys) => {
            out["x-kubernetes-list-type"] = "map".into();
            out["x-kubernetes-list-map-keys"] = keys.clone().into();
        }
    }
    if schema.atomic {
        out["x-kubernetes-map-type"] = "atomic".into();
    }
    if let Some(default) = &schema.default {
        out["default"] = default.clone();
    }
    if !schema.one_of_values.is_empty() {
        out["enum"] = schema.one_of_values.clone().into();
    }
    out
}

/// An operation to document.
struct Operation<'a> {
    action: &'a str,
    method: &'a str,
    description: String,
    parameters: &'a [&'a str],
    media_types: &'a [&'a str],
    body: Option<&'a str>,
    answer: &'a str,
}

const WRITE: &[&str] = &["dryRun", "fieldManager", "fieldValidation"];
const APPLY: &[&str] = &["dryRun", "fieldManager", "fieldValidation", "force"];
const DELETE: &[&str] = &[
    "dryRun",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "orphanDependents",
    "propagationPolicy",
];
const LIST: &[&str] = &[
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
    "watch",
];
const PATCH_TYPES: &[&str] = &[
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];
const CUSTOM_PATCH_TYPES: &[&str] =
    &["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"];

fn add_paths(resource: &Resource, dialect: Dialect, paths: &mut Map<String, Value>) {
    let base = format!("/{}", document_path(&resource.group, &resource.version));
    let kind = &*resource.kind;
    let name = definition_name(resource);
    let list_name = format!("{}{}", name.strip_suffix(kind).unwrap_or(&name), resource.list_kind);
    let patch_types = if resource.is_custom() { CUSTOM_PATCH_TYPES } else { PATCH_TYPES };
    let collection = if resource.namespaced {
        if resource.has_verb("list") {
            let all = Operation {
                action: "list",
                method: "get",
                description: format!("list or watch objects of kind {kind}"),
                parameters: LIST,
                media_types: &[],
                body: None,
                answer: &list_name,
            };
            add(
                paths,
                resource,
                dialect,
                &format!("{base}/{}", resource.plural),
                "ForAllNamespaces",
                false,
                &[all],
            );
        }
        format!("{base}/namespaces/{{namespace}}/{}", resource.plural)
    } else {
        format!("{base}/{}", resource.plural)
    };
    let json_types: &[&str] = &["*/*"];
    let on = |verb: &str| resource.has_verb(verb);
    let mut operations = Vec::new();
    if on("list") {
        operations.push(Operation {
            action: "list",
            method: "get",
            description: format!("list or watch objects of kind {kind}"),
            parameters: LIST,
            media_types: &[],
            body: None,
            answer: &list_name,
        });
    }
    if on("create") {
        operations.push(Operation {
            action: "post",
            method: "post",
            description: format!("create a {kind}"),
            parameters: WRITE,
            media_types: json_types,
            body: Some(&name),
            answer: &name,
        });
    }
    if on("deletecollection") {
        operations.push(Operation {
            action: "deletecollection",
            method: "delete",
            description: format!("delete collection of {kind}"),
            parameters: DELETE,
            media_types: json_types,
            body: Some(DELETE_OPTIONS),
            answer: STATUS,
        });
    }
    add(paths, resource, dialect, &collection, "", false, &operations);
    let item = format!("{collection}/{{name}}");
    let mut operations = Vec::new();
    if on("get") {
        operations.push(Operation {
            action: "get",
            method: "get",
            description: format!("read the specified {kind}"),
            parameters: &[],
            media_types: &[],
            body: None,
            answer: &name,
        });
    }
    if on("update") {
        operations.push(Operation {
            action: "put",
            method: "put",
            description: format!("replace the specified {kind}"),
            parameters: WRITE,
            media_types: json_types,
            body: Some(&name),
            answer: &name,
        });
    }
    if on("patch") {
        operations.push(Operation {
            action: "patch",
            method: "patch",
            description: format!("partially update the specified {kind}"),
            parameters: APPLY,
            media_types: patch_types,
            body: Some(PATCH),
            answer: &name,
        });
    }
    if on("delete") {
        operations.push(Operation {
            action: "delete",
            method: "delete",
            description: format!("delete a {kind}"),
            parameters: DELETE,
            media_types: json_types,
            body: Some(DELETE_OPTIONS),
            answer: STATUS,
        });
    }
    add(paths, resource, dialect, &item, "", true, &operations);
    for sub in &resource.subresources {
        let kind = &*sub.kind;
        let foreign = sub.group_version.as_ref().and_then(|(g, v)| Types::get().kind(g, v, kind));
        let own = foreign.and_then(|schema| schema.name).map_or_else(|| name.clone(), str::to_owned);
        let operations: Vec<Operation<'_>> = sub
            .verbs
            .iter()
            .filter_map(|verb| {
                let (action, method, parameters, media_types, body): (_, _, _, &[&str], _) = match &**verb {
                    "get" => ("get", "get", &[][..], &[], None),
                    "create" => ("post", "post", WRITE, json_types, Some(own.as_str())),
                    "update" => ("put", "put", WRITE, json_types, Some(own.as_str())),
                    "patch" => ("patch", "patch", APPLY, patch_types, Some(PATCH)),
                    _ => return None,
                };
                let description = format!("{action} {} of the specified {}", sub.name, resource.kind);
                Some(Operation { action, method, description, parameters, media_types, body, answer: &own })
            })
            .collect();
        add(
            paths,
            resource,
            dialect,
            &format!("{item}/{}", sub.name),
            &capital(&sub.name),
            true,
            &operations,
        );
    }
}

fn add(
    paths: &mut Map<String, Value>,
    resource: &Resource,
    dialect: Dialect,
    path: &str,
    suffix: &str,
    named: bool,
    operations: &[Operation<'_>],
) {
    if operations.is_empty() {
        return;
    }
    let mut entry = Map::new();
    let tag = format!(
        "{}_{}",
        resource.group.split('.').next().filter(|g| !g.is_empty()).unwrap_or("core"),
        resource.version
    );
    let scope = if resource.namespaced && suffix != "ForAllNamespaces" { "Namespaced" } else { "" };
    for operation in operations {
        let verb = match operation.action {
            "get" => "read",
            "post" => "create",
            "put" => "replace",
            "deletecollection" => "deleteCollection",
            other => other,
        };
        let tagged: String = tag.split('_').map(capital).collect();
        let mut parameters: Vec<Value> =
            operation.parameters.iter().map(|name| parameter(name, "query", dialect)).collect();
        let mut document = json!({
            "tags": [&tag],
            "description": &operation.description,
            "operationId": format!("{verb}{tagged}{scope}{}{suffix}", resource.kind),
            "x-kubernetes-action": operation.action,
            "x-kubernetes-group-version-kind": group_version_kind(resource, &resource.kind),
        });
        let answer = dialect.reference(operation.answer);
        match dialect {
            Dialect::V3 => {
                let content = |types: &[&str], schema: &Value| -> Value {
                    Value::Object(
                        types.iter().map(|t| ((*t).to_owned(), json!({"schema": schema}))).collect(),
                    )
                };
                if let Some(body) = operation.body {
                    document["requestBody"] = json!({"content": content(operation.media_types, &dialect.reference(body)), "required": true});
                }
                document["responses"] = json!({
                    "200": {"description": "OK", "content": content(&["application/json", "application/yaml"], &answer)},
                    "401": {"description": "Unauthorized"},
                });
            }
            Dialect::V2 => {
                if let Some(body) = operation.body {
                    parameters.push(json!({"name": "body", "in": "body", "required": true, "schema": dialect.reference(body)}));
                    document["consumes"] = operation.media_types.into();
                }
                document["produces"] = json!(["application/json", "application/yaml"]);
                document["responses"] = json!({"200": {"description": "OK", "schema": answer}, "401": {"description": "Unauthorized"}});
            }
        }
        if !parameters.is_empty() {
            document["parameters"] = parameters.into();
        }
        entry.insert(operation.method.to_owned(), document);
    }
    let mut shared = Vec::new();
    if named {
        shared.push(parameter("name", "path", dialect));
    }
    if path.contains("{namespace}") {
        shared.push(parameter("namespace", "path", dialect));
    }
    shared.push(parameter("pretty", "query", dialect));
    entry.insert("parameters".to_owned(), shared.into());
    paths.insert(path.to_owned(), Value::Object(entry));
}

fn parameter(name: &str, place: &str, dialect: Dialect) -> Value {
    let ty = match name {
        "force"
        | "watch"
        | "allowWatchBookmarks"
        | "sendInitialEvents"
        | "orphanDependents"
        | "ignoreStoreReadErrorWithClusterBreakingPotential" => "boolean",
        "limit" | "timeoutSeconds" | "gracePeriodSeconds" => "integer",
        _ => "string",
    };
    let mut out = json!({"name": name, "in": place});
    match dialect {
        Dialect::V3 => out["schema"] = json!({"type": ty, "uniqueItems": true}),
        Dialect::V2 => {
            out["type"] = ty.into();
            out["uniqueItems"] = true.into();
        }
    }
    if place == "path" {
        out["required"] = true.into();
    }
    out
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
