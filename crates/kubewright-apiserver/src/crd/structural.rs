//! Whether a schema is structural: each field is declared outside of `allOf` and its like, and each
//! declared field has a type. Pruning, defaulting and apply rely on it.

use serde_json::{Value, json};

use crate::{
    field::{FieldError, Path},
    schema::{
        Pattern,
        props::{Additional, Items, Props},
    },
};

#[derive(Clone, Copy, PartialEq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Why the schema can't even be read as a structural one: it uses what CRDs don't support.
pub(super) fn unsupported(props: Props<'_>) -> Option<String> {
    let refused = |what: &str| Some(format!("OpenAPIV3Schema '{what}' is not supported"));
    for (key, what) in [
        ("id", "id"),
        ("$schema", "schema"),
        ("$ref", "$ref"),
        ("patternProperties", "patternProperties"),
        ("dependencies", "dependencies"),
        ("definitions", "definitions"),
    ] {
        if props.filled(key) {
            return refused(what);
        }
    }
    if props.get("additionalItems").is_some() {
        return refused("additionalItems");
    }
    if props.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let text = "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined";
        return Some(text.to_owned());
    }
    let items = match props.items() {
        Some(Items::Many(list)) if !list.is_empty() => {
            return Some("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
        }
        Some(Items::One(item)) => Some(item),
        _ => None,
    };
    let additional = match props.additional("additionalProperties") {
        Some(Additional::Schema(schema)) => Some(schema),
        _ => None,
    };
    let nested = ["allOf", "anyOf", "oneOf"].into_iter().flat_map(|key| props.schemas(key));
    let mut children = props
        .named("properties")
        .map(|(_, child)| child)
        .chain(items)
        .chain(additional)
        .chain(props.schema("not"))
        .chain(nested);
    children.find_map(unsupported)
}

/// What keeps the schema at `path` from being structural, sorted.
pub(super) fn validate(props: Props<'_>, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    invariants(props, Level::Root, path, &mut errors);
    junctors_complete(props, Some(props), path, path, &mut errors);
    errors.sort_by_cached_key(ToString::to_string);
    errors
}

fn invariants(props: Props<'_>, level: Level, path: &Path, errors: &mut Vec<FieldError>) {
    let ty = props.text("type");
    let preserve = props.flag("x-kubernetes-preserve-unknown-fields");
    let embedded = props.flag("x-kubernetes-embedded-resource");
    let int_or_string = props.flag("x-kubernetes-int-or-string");
    match props.item() {
        Some(item) => invariants(item, Level::Item, &path.child("items"), errors),
        None if ty == "array" => errors.push(FieldError::required(&path.child("items"), "must be specified")),
        None => {}
    }
    for (name, property) in props.named("properties") {
        invariants(property, Level::Field, &path.child("properties").key(name), errors);
    }
    if let Some(additional) = props.additional("additionalProperties") {
        let at = path.child("additionalProperties");
        if level == Level::Root {
            errors.push(FieldError::forbidden(&at, "must not be used at the root"));
        }
        if let Additional::Schema(schema) = additional {
            invariants(schema, Level::Field, &at, errors);
        }
        if embedded {
            let detail = "must not be used if x-kubernetes-embedded-resource is set";
            errors.push(FieldError::forbidden(&at, detail));
        }
    }
    for (set, key) in
        [(preserve, "x-kubernetes-preserve-unknown-fields"), (embedded, "x-kubernetes-embedded-resource")]
    {
        if int_or_string && set {
            let detail = "must be false if x-kubernetes-int-or-string is true";
            errors.push(FieldError::invalid(&path.child(key), true, detail));
        }
    }
    values(props, is_int_or_string(props), path, errors);
    let at = path.child("type");
    if embedded && ty != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(if ty.is_empty() {
            FieldError::required(&at, detail)
        } else {
            FieldError::invalid(&at, ty, detail)
        });
    } else if ty.is_empty() && !int_or_string && !preserve {
        errors.push(FieldError::required(
            &at,
            match level {
                Level::Root => "must not be empty at the root",
                Level::Item => "must not be empty for specified array items",
                Level::Field => "must not be empty for specified object fields",
            },
        ));
    }
    if level == Level::Root && !ty.is_empty() && ty != "object" {
        errors.push(FieldError::invalid(&at, ty, "must be object at the root"));
    }
    metadata(props, level, embedded, path, errors);
    if embedded && !preserve && !props.filled("properties") {
        errors.push(FieldError::required(
            &path.child("properties"),
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
        ));
    }
}

/// apiVersion and kind are strings, metadata an object of which only the name can be restricted.
fn metadata(props: Props<'_>, level: Level, embedded: bool, path: &Path, errors: &mut Vec<FieldError>) {
    let is_resource = level == Level::Root || embedded;
    for (name, ty) in [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")] {
        let Some(property) = props.property(name) else { continue };
        let at = path.child("properties").key(name);
        let found = property.text("type");
        if is_resource && found != ty {
            errors.push(FieldError::invalid(&at.child("type"), found, format!("must be {ty}")));
        }
        if name == "metadata" && level == Level::Root {
            let only_names =
                property.named("properties").all(|(name, _)| matches!(name, "name" | "generateName"));
            let more = property.fields().iter().any(|(key, value)| {
                let zero = match value {
                    Value::Null => true,
                    Value::Bool(set) => !set,
                    Value::String(text) => text.is_empty(),
                    Value::Array(list) => list.is_empty(),
                    Value::Object(_) | Value::Number(_) => false,
                };
                !zero && !matches!(key.as_str(), "type" | "default" | "properties")
            });
            if more || !only_names {
                errors.push(FieldError::forbidden(
                    &at,
                    "must not specify anything other than name and generateName, but metadata is implicitly specified",
                ));
            }
        }
    }
}

/// Which of the two ways to write "integer or string" a node uses, if any.
#[derive(Clone, Copy, Default)]
struct IntOrString {
    any_of: bool,
    first_all_of: bool,
}

fn is_int_or_string(props: Props<'_>) -> IntOrString {
    let pattern = json!([{ "type": "integer" }, { "type": "string" }]);
    let has_pattern = |props: Props<'_>| props.get("anyOf") == Some(&pattern);
    IntOrString {
        any_of: has_pattern(props),
        first_all_of: props.schemas("allOf").next().is_some_and(has_pattern),
    }
}

fn values(props: Props<'_>, skip: IntOrString, path: &Path, errors: &mut Vec<FieldError>) {
    let none = IntOrString::default();
    for key in ["anyOf", "allOf", "oneOf"] {
        if key == "anyOf" && skip.any_of {
            continue;
        }
        for (index, nested) in props.schemas(key).enumerate() {
            let any_of = key == "allOf" && index == 0 && skip.first_all_of;
            nested_values(nested, IntOrString { any_of, ..none }, &path.child(key).index(index), errors);
        }
    }
    if let Some(nested) = props.schema("not") {
        nested_values(nested, none, &path.child("not"), errors);
    }
    let pattern = props.text("pattern");
    if let Some(why) = Pattern::new(pattern).problem().filter(|_| !pattern.is_empty()) {
        let detail = format!("must be a valid regular expression, but isn't: {why}");
        errors.push(FieldError::invalid(&path.child("pattern"), pattern, detail));
    }
}

fn nested_values(props: Props<'_>, skip: IntOrString, path: &Path, errors: &mut Vec<FieldError>) {
    let none = IntOrString::default();
    values(props, skip, path, errors);
    if let Some(item) = props.item() {
        nested_values(item, none, &path.child("items"), errors);
    }
    for (name, property) in props.named("properties") {
        nested_values(property, none, &path.child("properties").key(name), errors);
    }
    let mut forbid = |key: &str, set: bool, what: &str| {
        if set {
            errors.push(FieldError::forbidden(&path.child(key), format!("must be {what} to be structural")));
        }
    };
    let additional = props.additional("additionalProperties");
    forbid("type", props.filled("type"), "empty");
    forbid(
        "additionalProperties",
        matches!(additional, Some(Additional::Schema(_) | Additional::Allowed(true))),
        "undefined",
    );
    forbid("default", props.get("default").is_some(), "undefined");
    forbid("title", props.filled("title"), "empty");
    forbid("description", props.filled("description"), "empty");
    forbid("nullable", props.flag("nullable"), "false");
    for key in [
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
    ] {
        forbid(key, props.flag(key), "false");
    }
    forbid("x-kubernetes-list-map-keys", props.filled("x-kubernetes-list-map-keys"), "empty");
    forbid("x-kubernetes-list-type", props.get("x-kubernetes-list-type").is_some(), "undefined");
    forbid("x-kubernetes-map-type", props.get("x-kubernetes-map-type").is_some(), "undefined");
    forbid("x-kubernetes-validations", props.filled("x-kubernetes-validations"), "empty");
    if props.property("metadata").is_some() {
        let at = path.child("properties").key("metadata");
        errors.push(FieldError::forbidden(&at, "must not be specified in a nested context"));
    }
}

/// Whatever is validated below a junctor of the root is declared outside of it.
fn junctors_complete(
    nested: Props<'_>,
    spine: Option<Props<'_>>,
    spine_path: &Path,
    path: &Path,
    errors: &mut Vec<FieldError>,
) {
    if let Some(not) = nested.schema("not") {
        complete(not, spine, spine_path, &path.child("not"), errors);
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        for (index, one) in nested.schemas(key).enumerate() {
            complete(one, spine, spine_path, &path.child(key).index(index), errors);
        }
    }
}

fn complete(
    nested: Props<'_>,
    spine: Option<Props<'_>>,
    spine_path: &Path,
    path: &Path,
    errors: &mut Vec<FieldError>,
) {
    let Some(spine) = spine else {
        errors.push(FieldError::required(spine_path, format!("because it is defined in {path}")));
        return;
    };
    junctors_complete(nested, Some(spine), spine_path, path, errors);
    if let Some(item) = nested.item() {
        complete(item, spine.item(), &spine_path.child("items"), &path.child("items"), errors);
    }
    for (name, property) in nested.named("properties") {
        let declared = spine.property(name);
        let spine_path = spine_path.child("properties").key(name);
        complete(property, declared, &spine_path, &path.child("properties").key(name), errors);
    }
}
