//! What a CRD's schema may use of OpenAPI, and how Kubernetes' own extensions go together.

use serde_json::Value;

use crate::{
    field::{FieldError, Path, Problem},
    schema::{
        Schema, field_path,
        props::{Additional, Items, Props},
    },
};

use super::{internal, structural::unsupported};

/// What is wrong with the schema at `path`.
pub(super) fn validate(props: Props<'_>, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    node(props, path, &Standing { is_root: true, ..Standing::default() }, &mut errors);
    errors
}

/// Where a node stands.
#[derive(Clone, Default)]
struct Standing {
    is_root: bool,
    /// The node describes apiVersion, kind or metadata of an object.
    in_metadata: bool,
    /// Why there may be no defaults here.
    no_defaults: Option<String>,
}

impl Standing {
    fn below(&self) -> Self {
        Self { is_root: false, ..self.clone() }
    }
}

fn node(props: Props<'_>, path: &Path, standing: &Standing, errors: &mut Vec<FieldError>) {
    keywords(props, path, standing, errors);
    let below = standing.below();
    if let Some(additional) = props.additional("additionalProperties") {
        let at = path.child("additionalProperties");
        if props.filled("properties") && !matches!(additional, Additional::Allowed(true)) {
            let detail = "additionalProperties and properties are mutual exclusive";
            errors.push(FieldError::forbidden(&at, detail));
        }
        if let Additional::Schema(schema) = additional {
            let mut below = below.clone();
            if standing.in_metadata {
                below.no_defaults =
                    Some("inside additionalProperties applying to object metadata".to_owned());
            }
            node(schema, &at, &below, errors);
        }
    }
    let is_resource = standing.is_root || props.flag("x-kubernetes-embedded-resource");
    for (name, property) in props.named("properties") {
        let mut below = below.clone();
        if is_resource && matches!(name, "metadata" | "kind" | "apiVersion") {
            below.in_metadata = true;
            if standing.is_root {
                below.no_defaults = Some(format!("in top-level {name}"));
            }
        }
        node(property, &path.child("properties").key(name), &below, errors);
    }
    if let Some(not) = props.schema("not") {
        node(not, &path.child("not"), &below, errors);
    }
    for key in ["allOf", "oneOf", "anyOf"] {
        for (index, nested) in props.schemas(key).enumerate() {
            node(nested, &path.child(key).index(index), &below, errors);
        }
    }
    for key in ["definitions", "dependencies"] {
        for (name, nested) in props.named(key) {
            node(nested, &path.child(key).key(name), &below, errors);
        }
    }
    match props.items() {
        Some(Items::One(item)) => node(item, &path.child("items"), &below, errors),
        Some(Items::Many(list)) => {
            for (index, item) in list.iter().filter_map(Props::of).enumerate() {
                node(item, &path.child("items").index(index), &below, errors);
            }
        }
        None => {}
    }
    if props.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let at = path.child("x-kubernetes-preserve-unknown-fields");
        errors.push(FieldError::invalid(&at, false, "must be true or undefined"));
    }
    topology(props, path, errors);
    keyed_list(props, path, errors);
    rules(props, path, errors);
}

/// The keywords of OpenAPI that CRDs can't use.
fn keywords(props: Props<'_>, path: &Path, standing: &Standing, errors: &mut Vec<FieldError>) {
    let ty = props.text("type");
    let types = ["array", "boolean", "integer", "number", "object", "string"];
    if !ty.is_empty() && !types.contains(&ty) {
        errors.push(FieldError::not_supported(&path.child("type"), ty, &types));
    }
    if let Some(why) = &standing.no_defaults
        && props.get("default").is_some()
    {
        errors.push(FieldError::forbidden(&path.child("default"), format!("must not be set {why}")));
    }
    let mut forbid = |key: &str, set: bool, detail: &str| {
        if set {
            errors.push(FieldError::forbidden(&path.child(key), detail));
        }
    };
    forbid("id", props.filled("id"), "id is not supported");
    forbid("additionalItems", props.get("additionalItems").is_some(), "additionalItems is not supported");
    forbid("patternProperties", props.filled("patternProperties"), "patternProperties is not supported");
    forbid("definitions", props.filled("definitions"), "definitions is not supported");
    forbid("dependencies", props.get("dependencies").is_some(), "dependencies is not supported");
    forbid("$ref", props.get("$ref").is_some(), "$ref is not supported");
    forbid("type", ty == "null", "type cannot be set to null, use nullable as an alternative");
    let many = matches!(props.items(), Some(Items::Many(list)) if !list.is_empty());
    forbid("items", many, "items must be a schema object and not an array");
    let embedded = standing.in_metadata && props.flag("x-kubernetes-embedded-resource");
    forbid("x-kubernetes-embedded-resource", embedded, "must not be used inside of resource meta");
    let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
    forbid("uniqueItems", props.flag("uniqueItems"), detail);
}

/// `x-kubernetes-map-type` and `x-kubernetes-list-type`.
fn topology(props: Props<'_>, path: &Path, errors: &mut Vec<FieldError>) {
    let ty = props.text("type");
    let types_must_match = |key: &str, wanted: &str, errors: &mut Vec<FieldError>| {
        let detail = format!("must be {wanted} if {key} is specified");
        let at = path.child("type");
        if ty.is_empty() {
            errors.push(FieldError::required(&at, detail));
        } else if ty != wanted {
            errors.push(FieldError::invalid(&at, ty, detail));
        }
    };
    const MAP_TYPE: &str = "x-kubernetes-map-type";
    const LIST_TYPE: &str = "x-kubernetes-list-type";
    if let Some(map_type) = props.get(MAP_TYPE).and_then(Value::as_str) {
        types_must_match(MAP_TYPE, "object", errors);
        if !matches!(map_type, "atomic" | "granular") {
            let supported = ["atomic", "granular"];
            errors.push(FieldError::not_supported(&path.child(MAP_TYPE), map_type, &supported));
        }
    }
    let Some(list_type) = props.get(LIST_TYPE).and_then(Value::as_str) else { return };
    types_must_match(LIST_TYPE, "array", errors);
    if ty == "array"
        && list_type == "set"
        && let Some(item) = props.item()
    {
        let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let shown = item.get(LIST_TYPE).cloned().unwrap_or_default();
        let (key, wrong) = match item.text("type") {
            "array" => (LIST_TYPE, !matches!(item.text(LIST_TYPE), "" | "atomic")),
            "object" => (MAP_TYPE, item.text(MAP_TYPE) != "atomic"),
            _ => ("", false),
        };
        if wrong {
            errors.push(FieldError::invalid(&path.child("items").child(key), shown, detail));
        }
    }
    if !matches!(list_type, "atomic" | "set" | "map") {
        let supported = ["atomic", "set", "map"];
        errors.push(FieldError::not_supported(&path.child(LIST_TYPE), list_type, &supported));
    }
}

/// The keys of a list, and what its items must be like for them.
fn keyed_list(props: Props<'_>, path: &Path, errors: &mut Vec<FieldError>) {
    let list_type = props.text("x-kubernetes-list-type");
    let keys: Vec<&str> = props.strings("x-kubernetes-list-map-keys").collect();
    if !keys.is_empty() && list_type != "map" {
        let at = path.child("x-kubernetes-list-type");
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        errors.push(if props.get("x-kubernetes-list-type").is_none() {
            FieldError::required(&at, detail)
        } else {
            FieldError::invalid(&at, list_type, detail)
        });
    }
    if list_type == "map" {
        let at_keys = path.child("x-kubernetes-list-map-keys");
        if keys.is_empty() {
            let detail = "must not be empty if x-kubernetes-list-type is map";
            errors.push(FieldError::required(&at_keys, detail));
        }
        let at = path.child("items");
        match props.items() {
            None => {
                errors.push(FieldError::required(&at, "must have a schema if x-kubernetes-list-type is map"));
            }
            Some(many @ Items::Many(_)) => {
                let detail = "must only have a single schema if x-kubernetes-list-type is map";
                errors.push(internal::invalid(&at, &internal::items(many), detail));
            }
            Some(Items::One(item)) if item.text("type") != "object" => {
                let detail = "must be object if parent array's x-kubernetes-list-type is map";
                errors.push(FieldError::invalid(&at.child("type"), item.text("type"), detail));
            }
            Some(Items::One(item)) => {
                for (index, key) in keys.iter().enumerate() {
                    match item.property(key) {
                        Some(property) if matches!(property.text("type"), "array" | "object") => {
                            let at = at.child("properties").key(key).child("type");
                            let detail =
                                "must be a scalar type if parent array's x-kubernetes-list-type is map";
                            errors.push(FieldError::invalid(&at, "object", detail));
                        }
                        Some(_) => {}
                        None => {
                            let detail = "entries must all be names of item properties";
                            errors.push(FieldError::invalid(&at_keys, keys.clone(), detail));
                        }
                    }
                    if keys[..index].contains(key) {
                        let detail = "must not contain duplicate entries";
                        errors.push(FieldError::invalid(&at_keys, keys.clone(), detail));
                    }
                }
            }
        }
    }
    items_have_keys(props, list_type, &keys, path, errors);
}

/// Items of sets and keyed lists are not null, and keys are always there.
fn items_have_keys(
    props: Props<'_>,
    list_type: &str,
    keys: &[&str],
    path: &Path,
    errors: &mut Vec<FieldError>,
) {
    let Some(item) = props.item().filter(|_| matches!(list_type, "set" | "map")) else { return };
    let at = path.child("items");
    if item.flag("nullable") {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(FieldError::forbidden(&at.child("nullable"), detail));
    }
    for key in keys.iter().filter(|_| list_type == "map") {
        let Some(property) = item.property(key) else { continue };
        let at = at.child("properties").key(key);
        if !item.strings("required").any(|name| name == *key) && property.get("default").is_none() {
            errors.push(FieldError::required(
                &at.child("default"),
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
            ));
        }
        if property.flag("nullable") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(FieldError::forbidden(&at.child("nullable"), detail));
        }
    }
}

/// The shape of `x-kubernetes-validations`; the expressions themselves are the compiler's.
fn rules(props: Props<'_>, path: &Path, errors: &mut Vec<FieldError>) {
    let has_line_break = |text: &str| text.contains(['\n', '\r']);
    for (index, rule) in props.schemas("x-kubernetes-validations").enumerate() {
        let at = path.child("x-kubernetes-validations").index(index);
        let (expression, message) = (rule.text("rule").trim(), rule.text("message"));
        if expression.is_empty() {
            errors.push(FieldError::required(&at.child("rule"), "rule is not specified"));
        } else if !message.is_empty() && message.trim().is_empty() {
            errors.push(FieldError::invalid(&at.child("message"), message, "must be non-empty if specified"));
        } else if has_line_break(message.trim()) {
            errors.push(FieldError::invalid(&at.child("message"), message, "must not contain line breaks"));
        } else if has_line_break(expression) && message.is_empty() {
            let detail = "message must be specified if rule contains line breaks";
            errors.push(FieldError::required(&at.child("message"), detail));
        }
        if rule.filled("messageExpression") && rule.text("messageExpression").trim().is_empty() {
            let detail = "messageExpression must be non-empty if specified";
            errors.push(FieldError::required(&at.child("messageExpression"), detail));
        }
        let reasons =
            ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
        if let Some(reason) = rule.get("reason").and_then(Value::as_str)
            && !reasons.contains(&reason)
        {
            errors.push(FieldError::not_supported(&at.child("reason"), reason, &reasons));
        }
        let field = rule.text("fieldPath");
        if field.is_empty() {
            continue;
        }
        let mut refuse = |detail| errors.push(FieldError::invalid(&at.child("fieldPath"), field, detail));
        if field.trim().is_empty() {
            refuse("must be non-empty if specified");
        }
        if has_line_break(field) {
            refuse("must not contain line breaks");
        }
        if unsupported(props).is_none() && field_path(field, &Schema::structural(props)).is_err() {
            refuse("must be a valid path");
        }
    }
}

/// What may not be at the root of a schema whose status is a subresource, as status is validated by
/// `properties.status` alone.
pub(super) fn root_beside_status(props: Props<'_>, path: &Path) -> Option<FieldError> {
    const ALLOWED: &str = "Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum \
         MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs \
         Example XPreserveUnknownFields XValidations";
    const REFUSED: [&str; 22] = [
        "id",
        "$schema",
        "$ref",
        "nullable",
        "default",
        "enum",
        "maxProperties",
        "minProperties",
        "allOf",
        "oneOf",
        "anyOf",
        "not",
        "additionalProperties",
        "patternProperties",
        "dependencies",
        "additionalItems",
        "definitions",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-map-type",
    ];
    let ty = props.text("type");
    if !ty.is_empty() && ty != "object" {
        return Some(FieldError::invalid(
            &path.child("type"),
            ty,
            r#"only "object" is allowed as the type at the root of the schema if the status subresource is enabled"#,
        ));
    }
    let set = |key: &&str| match props.get(key) {
        None | Some(Value::Bool(false)) => false,
        Some(Value::String(text)) => {
            !text.is_empty() || matches!(*key, "$ref" | "x-kubernetes-list-type" | "x-kubernetes-map-type")
        }
        Some(Value::Array(list)) => !list.is_empty(),
        Some(_) => true,
    };
    REFUSED.iter().any(set).then(|| {
        let detail = format!(
            "only [{ALLOWED}] fields are allowed at the root of the schema if the status subresource is enabled"
        );
        FieldError {
            problem: Problem::Invalid,
            path: path.clone(),
            value: None,
            detail: format!("{}: {detail}", internal::schema(props)),
        }
    })
}
