//! How the real server shows a piece of a CRD in an error: as Go's JSON of its internal types.
//!
//! Only read by people, but people compare; so names, order and nulls are those of the Go structs.

use serde_json::{Map, Value};

use crate::{
    field::{FieldError, Path, Problem},
    schema::props::{Additional, Items, Props},
};

/// An `Invalid value` whose value is already written out.
pub(super) fn invalid(path: &Path, shown: &str, detail: &str) -> FieldError {
    FieldError {
        problem: Problem::Invalid,
        path: path.clone(),
        value: None,
        detail: format!("{shown}: {detail}"),
    }
}

/// JSON as Go writes it: `<`, `>` and `&` are escaped.
pub(super) fn json(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// `spec.versions`, without what all versions have in common.
pub(super) fn versions(versions: &[Map<String, Value>]) -> String {
    list(versions, |version| {
        let props = Value::Object(version.clone());
        object(&[
            ("Name", text(&props, "name")),
            ("Served", flag(&props, "served")),
            ("Storage", flag(&props, "storage")),
            ("Deprecated", flag(&props, "deprecated")),
            ("DeprecationWarning", raw(&props, "deprecationWarning")),
            ("Schema", optional(props.get("schema"), validation)),
            ("Subresources", optional(props.get("subresources"), subresources)),
            ("AdditionalPrinterColumns", optional_list(&props, "additionalPrinterColumns", column)),
            ("SelectableFields", optional_list(&props, "selectableFields", selectable)),
        ])
    })
}

fn validation(value: &Value) -> String {
    object(&[(
        "OpenAPIV3Schema",
        optional(value.get("openAPIV3Schema"), |schema| {
            Props::of(schema).map_or_else(|| "null".to_owned(), self::schema)
        }),
    )])
}

fn subresources(value: &Value) -> String {
    let scale = |scale: &Value| {
        object(&[
            ("SpecReplicasPath", text(scale, "specReplicasPath")),
            ("StatusReplicasPath", text(scale, "statusReplicasPath")),
            ("LabelSelectorPath", raw(scale, "labelSelectorPath")),
        ])
    };
    object(&[
        ("Status", optional(value.get("status"), |_| "{}".to_owned())),
        ("Scale", optional(value.get("scale"), scale)),
    ])
}

fn column(value: &Value) -> String {
    object(&[
        ("Name", text(value, "name")),
        ("Type", text(value, "type")),
        ("Format", text(value, "format")),
        ("Description", text(value, "description")),
        ("Priority", value.get("priority").filter(|v| v.is_number()).map_or("0".to_owned(), json)),
        ("JSONPath", text(value, "jsonPath")),
    ])
}

fn selectable(value: &Value) -> String {
    object(&[("JSONPath", text(value, "jsonPath"))])
}

/// A rule of `x-kubernetes-validations`.
pub(super) fn rule(value: &Value) -> String {
    object(&[
        ("Rule", text(value, "rule")),
        ("Message", text(value, "message")),
        ("MessageExpression", text(value, "messageExpression")),
        ("Reason", raw(value, "reason")),
        ("FieldPath", text(value, "fieldPath")),
        ("OptionalOldSelf", raw(value, "optionalOldSelf")),
    ])
}

/// A whole schema.
pub(super) fn schema(props: Props<'_>) -> String {
    let fields = &Value::Object(props.fields().clone());
    let named = |key: &str| {
        let entries: Vec<String> = props
            .named(key)
            .map(|(name, props)| format!("{}:{}", json(&name.into()), schema(props)))
            .collect();
        if props.get(key).is_some() { format!("{{{}}}", entries.join(",")) } else { "null".to_owned() }
    };
    let schemas = |key: &str| {
        let entries: Vec<String> = props.schemas(key).map(schema).collect();
        if props.get(key).is_some() { format!("[{}]", entries.join(",")) } else { "null".to_owned() }
    };
    let additional = |key: &str| match props.additional(key) {
        None => "null".to_owned(),
        Some(Additional::Allowed(allowed)) => format!(r#"{{"Allows":{allowed},"Schema":null}}"#),
        Some(Additional::Schema(props)) => format!(r#"{{"Allows":true,"Schema":{}}}"#, schema(props)),
    };
    let documentation =
        |docs: &Value| object(&[("Description", text(docs, "description")), ("URL", text(docs, "url"))]);
    object(&[
        ("ID", text(fields, "id")),
        ("Schema", text(fields, "$schema")),
        ("Ref", raw(fields, "$ref")),
        ("Description", text(fields, "description")),
        ("Type", text(fields, "type")),
        ("Nullable", flag(fields, "nullable")),
        ("Format", text(fields, "format")),
        ("Title", text(fields, "title")),
        ("Default", raw(fields, "default")),
        ("Maximum", raw(fields, "maximum")),
        ("ExclusiveMaximum", flag(fields, "exclusiveMaximum")),
        ("Minimum", raw(fields, "minimum")),
        ("ExclusiveMinimum", flag(fields, "exclusiveMinimum")),
        ("MaxLength", raw(fields, "maxLength")),
        ("MinLength", raw(fields, "minLength")),
        ("Pattern", text(fields, "pattern")),
        ("MaxItems", raw(fields, "maxItems")),
        ("MinItems", raw(fields, "minItems")),
        ("UniqueItems", flag(fields, "uniqueItems")),
        ("MultipleOf", raw(fields, "multipleOf")),
        ("Enum", raw(fields, "enum")),
        ("MaxProperties", raw(fields, "maxProperties")),
        ("MinProperties", raw(fields, "minProperties")),
        ("Required", raw(fields, "required")),
        ("Items", props.items().map_or_else(|| "null".to_owned(), items)),
        ("AllOf", schemas("allOf")),
        ("OneOf", schemas("oneOf")),
        ("AnyOf", schemas("anyOf")),
        ("Not", props.schema("not").map_or_else(|| "null".to_owned(), schema)),
        ("Properties", named("properties")),
        ("AdditionalProperties", additional("additionalProperties")),
        ("PatternProperties", named("patternProperties")),
        ("Dependencies", named("dependencies")),
        ("AdditionalItems", additional("additionalItems")),
        ("Definitions", named("definitions")),
        ("ExternalDocs", optional(fields.get("externalDocs"), documentation)),
        ("Example", raw(fields, "example")),
        ("XPreserveUnknownFields", raw(fields, "x-kubernetes-preserve-unknown-fields")),
        ("XEmbeddedResource", flag(fields, "x-kubernetes-embedded-resource")),
        ("XIntOrString", flag(fields, "x-kubernetes-int-or-string")),
        ("XListMapKeys", raw(fields, "x-kubernetes-list-map-keys")),
        ("XListType", raw(fields, "x-kubernetes-list-type")),
        ("XMapType", raw(fields, "x-kubernetes-map-type")),
        ("XValidations", optional_list(fields, "x-kubernetes-validations", rule)),
    ])
}

pub(super) fn items(items: Items<'_>) -> String {
    match items {
        Items::One(props) => object(&[("Schema", schema(props)), ("JSONSchemas", "null".to_owned())]),
        Items::Many(many) => {
            let schemas: Vec<String> = many.iter().filter_map(Props::of).map(schema).collect();
            object(&[("Schema", "null".to_owned()), ("JSONSchemas", format!("[{}]", schemas.join(",")))])
        }
    }
}

fn object(fields: &[(&str, String)]) -> String {
    let fields: Vec<String> = fields.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    format!("{{{}}}", fields.join(","))
}

fn list<T>(items: &[T], show: impl Fn(&T) -> String) -> String {
    format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(","))
}

fn optional(value: Option<&Value>, show: impl Fn(&Value) -> String) -> String {
    value.filter(|value| !value.is_null()).map_or_else(|| "null".to_owned(), show)
}

fn optional_list(value: &Value, key: &str, show: impl Fn(&Value) -> String) -> String {
    value.get(key).and_then(Value::as_array).map_or_else(|| "null".to_owned(), |items| list(items, show))
}

fn text(value: &Value, key: &str) -> String {
    json(&value.get(key).and_then(Value::as_str).unwrap_or_default().into())
}

fn flag(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_bool).unwrap_or_default().to_string()
}

fn raw(value: &Value, key: &str) -> String {
    value.get(key).map_or_else(|| "null".to_owned(), json)
}
