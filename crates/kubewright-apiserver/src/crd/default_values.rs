//! Whether the default values of a CRD's schema are values of that schema.

use serde_json::{Value, json};

use crate::{
    field::{FieldError, Path},
    schema::{
        Schema, check_rules,
        embedded::{coerce_embedded_root, coerce_value, validate_embedded_root, validate_embedded_value},
        prune::prune_value,
        validate,
    },
};

/// What is wrong with the defaults of the structural schema at `path`.
pub(super) fn validate_defaults(schema: &Schema, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let root = &Schema { embedded: true, ..schema.clone() };
    let surroundings = Surroundings { root, steps: Vec::new() };
    walk(root, path, &surroundings, true, false, &mut errors);
    errors
}

/// What the compiled rules of `schema` say to its own defaults.
pub(super) fn validate_default_rules(schema: &Schema, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(default) = &schema.default {
        let at = path.child("default");
        errors = check_rules(default, Some(default), schema, &at).errors;
        if errors.is_empty() {
            errors = check_rules(default, None, schema, &at).errors;
        }
    }
    if schema.below.defaults && schema.below.rules {
        for (name, field) in &schema.properties {
            errors.extend(validate_default_rules(&field.schema, &path.child("properties").key(name)));
        }
        if let Some(items) = &schema.items {
            errors.extend(validate_default_rules(items, &path.child("items")));
        }
    }
    errors
}

/// The way from the nearest whole object to a field of its metadata.
#[derive(Clone)]
struct Surroundings<'a> {
    root: &'a Schema,
    steps: Vec<Step>,
}

#[derive(Clone)]
enum Step {
    Field(String),
    Item,
}

impl Surroundings<'_> {
    fn with(&self, step: Step) -> Self {
        let mut steps = self.steps.clone();
        steps.push(step);
        Self { root: self.root, steps }
    }

    /// The smallest object that has `focus` in its place.
    fn around(&self, focus: Value) -> Value {
        let mut object = self.steps.iter().rev().fold(focus, |inner, step| match step {
            Step::Field(name) => json!({ name: inner }),
            Step::Item => json!([inner]),
        });
        if let Some(map) = object.as_object_mut() {
            map.entry("kind").or_insert("Validation".into());
            map.entry("apiVersion").or_insert("validation/v1".into());
        }
        object
    }
}

fn walk(
    schema: &Schema,
    path: &Path,
    surroundings: &Surroundings<'_>,
    is_resource: bool,
    in_metadata: bool,
    errors: &mut Vec<FieldError>,
) {
    if !schema.below.defaults {
        return;
    }
    if let Some(default) = &schema.default {
        let at = path.child("default");
        if in_metadata {
            check_in_metadata(default, schema, surroundings, &at, errors);
        } else {
            check(default, schema, &at, errors);
        }
    }
    if let Some(items) = &schema.items {
        let (surroundings, in_metadata) = step(items, Step::Item, surroundings, in_metadata);
        walk(items, &path.child("items"), &surroundings, items.embedded, in_metadata, errors);
    }
    for (name, field) in &schema.properties {
        let field = &field.schema;
        let is_meta_field = is_resource && matches!(name.as_str(), "metadata" | "apiVersion" | "kind");
        let below = step(field, Step::Field(name.clone()), surroundings, in_metadata || is_meta_field);
        walk(field, &path.child("properties").key(name), &below.0, field.embedded, below.1, errors);
    }
}

fn step<'a>(
    child: &'a Schema,
    step: Step,
    surroundings: &Surroundings<'a>,
    in_metadata: bool,
) -> (Surroundings<'a>, bool) {
    if child.embedded {
        (Surroundings { root: child, steps: Vec::new() }, false)
    } else {
        (surroundings.with(step), in_metadata)
    }
}

fn check_in_metadata(
    default: &Value,
    schema: &Schema,
    surroundings: &Surroundings<'_>,
    at: &Path,
    errors: &mut Vec<FieldError>,
) {
    let mut object = surroundings.around(default.clone());
    let problem = match coerce_embedded_root(&mut object, surroundings.root) {
        Err(error) => Some(error.to_string()),
        Ok(()) => {
            let found = validate_embedded_root(&object, surroundings.root);
            match found.as_slice() {
                [] => None,
                [one] => Some(one.to_string()),
                many => {
                    let list: Vec<String> = many.iter().map(ToString::to_string).collect();
                    Some(format!("[{}]", list.join(", ")))
                }
            }
        }
    };
    match problem {
        Some(why) => {
            let detail = format!("must result in valid metadata: {why}");
            errors.push(FieldError::invalid(at, default.clone(), detail));
        }
        None => errors.extend(validate(default, schema, at)),
    }
}

fn check(default: &Value, schema: &Schema, at: &Path, errors: &mut Vec<FieldError>) {
    let mut value = default.clone();
    prune_value(&mut value, schema);
    if value != *default {
        errors.push(FieldError::invalid(at, default.clone(), "must not have unknown fields"));
    }
    let mut value = default.clone();
    if let Err(error) = coerce_value(&mut value, schema, at) {
        errors.push(error);
        return;
    }
    let embedded = validate_embedded_value(&value, schema, at);
    if embedded.is_empty() {
        errors.extend(validate(&value, schema, at));
    } else {
        errors.extend(embedded);
    }
}
