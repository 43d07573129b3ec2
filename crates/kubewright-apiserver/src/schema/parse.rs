//! From the `openAPIV3Schema` of a CustomResourceDefinition to [`Schema`] nodes.
//!
//! Expects what validation of the definition has let through, but never fails on anything else:
//! what can't be understood restricts nothing.

use serde_json::Value;

use super::{
    Below, Bound, Checks, Field, ListType, Pattern, Rule, RuleSet, Schema, SchemaRef, Type,
    field_path::field_path,
    formats,
    object_meta::object_meta,
    props::{Additional, Props},
};

impl Schema {
    /// The schema of a custom resource: `openapi` with apiVersion, kind and metadata as every object has
    /// them, at the root and in embedded resources.
    pub(crate) fn custom_resource(openapi: &Value) -> Self {
        let mut schema = Props::of(openapi).map_or_else(Self::default, |props| node(props, true));
        complete_metadata(&mut schema);
        schema
    }

    /// The schema exactly as `openapi` says, without the fields every object has.
    pub(crate) fn structural(openapi: Props<'_>) -> Self {
        node(openapi, false)
    }
}

/// A value the schema says nothing about, not even that nothing may be there.
fn opaque() -> Schema {
    Schema { nullable: true, ..Schema::default() }
}

fn node(props: Props<'_>, with_metadata: bool) -> Schema {
    let child = |props| SchemaRef::new(node(props, with_metadata));
    let additional = props.additional("additionalProperties");
    let mut schema = Schema {
        name: None,
        ty: type_of(props),
        nullable: props.flag("nullable"),
        preserve_unknown: props.flag("x-kubernetes-preserve-unknown-fields"),
        embedded: props.flag("x-kubernetes-embedded-resource"),
        properties: props
            .named("properties")
            .map(|(name, props)| (name.to_owned(), Field { schema: child(props), ..Field::default() }))
            .collect(),
        values: additional.map(|additional| match additional {
            Additional::Schema(props) => child(props),
            Additional::Allowed(_) => SchemaRef::new(opaque()),
        }),
        items: props.item().map(child),
        list: match props.text("x-kubernetes-list-type") {
            "set" => ListType::Set,
            "map" => ListType::Map(props.strings("x-kubernetes-list-map-keys").map(str::to_owned).collect()),
            _ => ListType::Atomic,
        },
        atomic: props.text("x-kubernetes-map-type") == "atomic",
        default: props.get("default").cloned(),
        required: props.strings("required").map(str::to_owned).collect(),
        format: formats::supported(props.text("type"), props.text("format")).map(str::to_owned),
        one_of_values: props.array("enum").to_vec(),
        checks: checks(props, with_metadata),
        rules: None,
        below: Below::default(),
    };
    schema.rules = rules(props, &schema);
    if with_metadata && schema.embedded {
        complete_metadata(&mut schema);
    }
    schema.below = below(&schema);
    schema
}

fn type_of(props: Props<'_>) -> Type {
    if props.flag("x-kubernetes-int-or-string") {
        return Type::IntOrString;
    }
    match props.text("type") {
        "object" => Type::Object,
        "array" => Type::Array,
        "string" => Type::String,
        "integer" => Type::Integer,
        "number" => Type::Number,
        "boolean" => Type::Boolean,
        _ => Type::Any,
    }
}

fn below(schema: &Schema) -> Below {
    let mut below = Below {
        defaults: schema.default.is_some(),
        embedded: schema.embedded,
        keyed_lists: schema.list != ListType::Atomic,
        rules: schema.rules.is_some(),
    };
    for child in schema
        .properties
        .values()
        .map(|field| &field.schema)
        .chain(&schema.values)
        .chain(&schema.items)
        .filter(|child| !child.same(object_meta()))
    {
        below |= child.below;
    }
    below
}

/// Adds apiVersion, kind and metadata where the schema leaves them out; what it does say about
/// single fields of metadata stays.
fn complete_metadata(schema: &mut Schema) {
    for name in ["apiVersion", "kind"] {
        schema.properties.entry(name.to_owned()).or_insert_with(|| Field {
            schema: SchemaRef::new(Schema::scalar(Type::String)),
            ..Field::default()
        });
    }
    match schema.properties.get_mut("metadata") {
        Some(field) if !field.schema.properties.is_empty() => {
            let mut metadata = Schema::clone(&field.schema);
            for (name, known) in &object_meta().properties {
                metadata.properties.entry(name.clone()).or_insert_with(|| known.clone());
            }
            field.schema = SchemaRef::new(metadata);
        }
        _ => {
            let metadata = Field { schema: object_meta().clone(), ..Field::default() };
            schema.properties.insert("metadata".to_owned(), metadata);
        }
    }
}

fn checks(props: Props<'_>, with_metadata: bool) -> Option<Box<Checks>> {
    let bound = |limit: &str, exclusive: &str| {
        Some(Bound { limit: props.number(limit)?, exclusive: props.flag(exclusive) })
    };
    let nested = |key| props.schemas(key).map(|props| node(props, with_metadata)).collect();
    let format = formats::supported(props.text("type"), props.text("format"));
    let any = [
        "minimum",
        "maximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "pattern",
        "format",
        "minItems",
        "maxItems",
        "uniqueItems",
        "minProperties",
        "maxProperties",
        "additionalProperties",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
    ];
    any.iter().any(|key| props.get(key).is_some()).then(|| {
        Box::new(Checks {
            minimum: bound("minimum", "exclusiveMinimum"),
            maximum: bound("maximum", "exclusiveMaximum"),
            multiple_of: props.number("multipleOf"),
            min_length: props.integer("minLength"),
            max_length: props.integer("maxLength"),
            pattern: Some(props.text("pattern")).filter(|text| !text.is_empty()).map(Pattern::new),
            format: format.and_then(formats::check),
            min_items: props.integer("minItems"),
            max_items: props.integer("maxItems"),
            unique_items: props.flag("uniqueItems"),
            min_properties: props.integer("minProperties"),
            max_properties: props.integer("maxProperties"),
            closed: matches!(props.additional("additionalProperties"), Some(Additional::Allowed(false))),
            all_of: nested("allOf"),
            any_of: nested("anyOf"),
            one_of: nested("oneOf"),
            not: props.schema("not").map(|props| node(props, with_metadata)),
        })
    })
}

fn rules(props: Props<'_>, schema: &Schema) -> Option<Box<RuleSet>> {
    let rules: Vec<Rule> = props.schemas("x-kubernetes-validations").map(rule).collect();
    if rules.is_empty() {
        return None;
    }
    let error_path = |rule: &Rule| match field_path(&rule.field_path, schema) {
        Ok((path, _)) => path.as_str().to_owned(),
        Err(_) => String::new(),
    };
    let error_paths = rules.iter().map(error_path).collect();
    Some(Box::new(RuleSet { rules, error_paths, ..RuleSet::default() }))
}

fn rule(props: Props<'_>) -> Rule {
    Rule {
        rule: props.text("rule").to_owned(),
        message: props.text("message").to_owned(),
        message_expression: props.text("messageExpression").to_owned(),
        reason: props.get("reason").and_then(Value::as_str).map(str::to_owned),
        field_path: props.text("fieldPath").to_owned(),
        optional_old_self: props.get("optionalOldSelf").and_then(Value::as_bool),
    }
}
