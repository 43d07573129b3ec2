//! What a write does to a custom resource beyond its schema, and all of its validation in order.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
};

use serde_json::Value;

use crate::{
    field::{FieldError, Path},
    names,
    schema::{
        Schema, blocking, check_rules, skipped_rules, validate, validate_embedded, validate_lists,
        validate_update,
    },
};

use super::{Definition, Version, jsonpath::JsonPath, scale::validate_scale, table};

/// What validating a custom resource came to.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// Why it is refused.
    pub errors: Vec<FieldError>,
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
}

/// Kind and apiVersion are those of the URL. If they are not, nothing else is looked at.
pub(crate) fn validate_type(object: &Value, kind: &str, api_version: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, wanted) in [("kind", kind), ("apiVersion", api_version)] {
        let found = object[key].as_str().unwrap_or_default();
        if found != wanted {
            errors.push(FieldError::invalid(&Path::new(key), found, format!("must be {wanted}")));
        }
    }
    errors
}

/// What is wrong with a new object. `errors` are those of its metadata, which the caller has looked at.
pub(crate) fn validate_object(
    mut errors: Vec<FieldError>,
    object: &Value,
    schema: &Schema,
    version: Version<'_>,
) -> Verdict {
    errors.extend(validate(object, schema, &Path::default()));
    errors.extend(validate_scale(object, version.scale(), true));
    errors.extend(validate_embedded(object, schema));
    errors.extend(validate_lists(object, schema));
    conclude(errors, object, None, schema)
}

/// What is wrong with an object as the successor of `old`.
pub(crate) fn validate_object_update(
    mut errors: Vec<FieldError>,
    object: &Value,
    old: &Value,
    schema: &Schema,
    version: Version<'_>,
) -> Verdict {
    errors.extend(validate_update(object, old, schema, &Path::default()));
    errors.extend(validate_scale(object, version.scale(), true));
    errors.extend(validate_embedded(object, schema));
    errors.extend(validate_changed_lists(object, old, schema));
    conclude(errors, object, Some(old), schema)
}

/// What is wrong with an object as the successor of `old` through `/status`.
pub(crate) fn validate_object_status(
    mut errors: Vec<FieldError>,
    object: &Value,
    old: &Value,
    schema: &Schema,
    version: Version<'_>,
) -> Verdict {
    if let (Some(status), Some(field)) = (object.get("status"), schema.properties.get("status")) {
        let at = Path::new("status");
        errors.extend(match old.get("status") {
            Some(old) => validate_update(status, old, &field.schema, &at),
            None => validate(status, &field.schema, &at),
        });
    }
    errors.extend(validate_scale(object, version.scale(), false));
    errors.extend(validate_changed_lists(object, old, schema));
    conclude(errors, object, Some(old), schema)
}

/// Repeated items are forgiven as long as there were some before.
fn validate_changed_lists(object: &Value, old: &Value, schema: &Schema) -> Vec<FieldError> {
    let errors = validate_lists(object, schema);
    if errors.is_empty() || validate_lists(old, schema).is_empty() { errors } else { Vec::new() }
}

fn conclude(mut errors: Vec<FieldError>, object: &Value, old: Option<&Value>, schema: &Schema) -> Verdict {
    let mut warnings = Vec::new();
    if schema.below.rules {
        if blocking(&errors) {
            errors.push(skipped_rules());
        } else {
            let report = check_rules(object, old, schema, &Path::default());
            errors.extend(report.errors);
            warnings = report.warnings;
        }
    }
    Verdict { errors, warnings }
}

/// Gives a new object its generation, and takes a status it may not set.
pub(crate) fn prepare_object(object: &mut Value, version: Version<'_>) {
    if version.has_status()
        && let Some(map) = object.as_object_mut()
    {
        map.remove("status");
    }
    set_generation(object, 1);
}

/// Keeps the status of `old` where it is a subresource, and raises the generation if anything but
/// metadata changes.
pub(crate) fn prepare_object_update(object: &mut Value, old: &Value, version: Version<'_>) {
    let Some(map) = object.as_object_mut() else { return };
    if version.has_status() {
        match old.get("status") {
            Some(status) => map.insert("status".to_owned(), status.clone()),
            None => map.remove("status"),
        };
    }
    let same = |key: &str| map.get(key) == old.get(key);
    let keys = map.keys().chain(old.as_object().into_iter().flat_map(|old| old.keys()));
    let changed = keys.filter(|key| *key != "metadata").any(|key| !same(key));
    if changed {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or_default();
        set_generation(object, generation.saturating_add(1));
    }
}

/// Keeps everything of `old` but status and managed fields.
pub(crate) fn prepare_object_status(object: &mut Value, old: &Value) {
    let status = object.get_mut("status").map(Value::take);
    let managed = object.pointer_mut("/metadata/managedFields").map(Value::take);
    *object = old.clone();
    let Some(map) = object.as_object_mut() else { return };
    match status {
        Some(status) => map.insert("status".to_owned(), status),
        None => map.remove("status"),
    };
    if let Some(metadata) = map.get_mut("metadata").and_then(Value::as_object_mut) {
        match managed {
            Some(managed) => metadata.insert("managedFields".to_owned(), managed),
            None => metadata.remove("managedFields"),
        };
    }
}

fn set_generation(object: &mut Value, generation: i64) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("generation".to_owned(), generation.into());
    }
}

/// Texts for `Warning` headers: finalizers that `old` did not have and that name no domain.
pub(crate) fn finalizer_warnings(object: &Value, old: Option<&Value>) -> Vec<String> {
    fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
        object["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str)
    }
    let had: BTreeSet<&str> = old.into_iter().flat_map(finalizers).collect();
    let added: BTreeSet<&str> = finalizers(object).filter(|one| !had.contains(one)).collect();
    let mut warnings = Vec::new();
    for finalizer in added {
        let mut warn = |why: &str| warnings.push(format!("metadata.finalizers: {finalizer:?}: {why}"));
        names::qualified_name(finalizer).iter().for_each(|why| warn(why));
        if !finalizer.contains('/') && !matches!(finalizer, "orphan" | "foregroundDeletion" | "kubernetes") {
            let path = if finalizer.contains('.') { "including a path (/) " } else { "" };
            warn(&format!(
                "prefer a domain-qualified finalizer name {path}to avoid accidental conflicts with other finalizer writers"
            ));
        }
    }
    warnings
}

/// The selectable fields of a version, parsed once.
#[derive(Debug, Clone)]
pub(crate) struct SelectableFields(Vec<(String, JsonPath)>);

impl SelectableFields {
    /// Those of a version.
    pub(crate) fn of(version: Version<'_>) -> Self {
        let parse = |text: &str| {
            let name = text.strip_prefix('.').unwrap_or(text);
            Some((name.to_owned(), JsonPath::parse(text).ok()?))
        };
        Self(version.selectable_fields().filter_map(parse).collect())
    }

    /// What field selectors can name, such as `spec.color`.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// The values of an object; empty where it has none.
    pub(crate) fn values(&self, object: &Value) -> BTreeMap<&str, String> {
        let value = |path: &JsonPath| {
            let found = path.find(object).unwrap_or_default();
            found.first().filter(|value| !value.is_null()).map(|value| table::text(value)).unwrap_or_default()
        };
        self.0.iter().map(|(name, path)| (name.as_str(), value(path))).collect()
    }
}

/// The warning for whoever uses a deprecated version.
pub(crate) fn deprecation_warning(definition: Definition<'_>, version: Version<'_>) -> Option<String> {
    if !version.deprecated() {
        return None;
    }
    if let Some(given) = version.0["deprecationWarning"].as_str() {
        return Some(given.to_owned());
    }
    let (group, kind) = (definition.group(), definition.names().kind());
    let better = definition
        .versions()
        .filter(|other| other.served() && !other.deprecated())
        .map(Version::name)
        .filter(|other| compare_versions(version.name(), other) == Ordering::Less)
        .max_by(|one, other| compare_versions(one, other));
    let instead = better.map(|better| format!("; use {group}/{better} {kind}")).unwrap_or_default();
    Some(format!("{group}/{} {kind} is deprecated{instead}", version.name()))
}

/// The order of versions: `v1` is above `v2beta1`, which is above `v2alpha1`, which is above anything else.
pub(crate) fn compare_versions(one: &str, other: &str) -> Ordering {
    match (parse_version(one), parse_version(other)) {
        (Some(one), Some(other)) => one.cmp(&other),
        (Some(_), None) => Ordering::Greater,
        (None, Some(_)) => Ordering::Less,
        (None, None) => other.cmp(one),
    }
}

/// Stability, major and minor of a version such as `v1beta2`.
fn parse_version(name: &str) -> Option<(u8, u32, u32)> {
    let rest = name.strip_prefix('v')?;
    let number = |digits: &str| {
        let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse::<u32>().ok().filter(|_| plain)
    };
    let letters = rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len());
    let (major, stage) = rest.split_at(letters);
    let major = number(major)?;
    if stage.is_empty() {
        return Some((2, major, 0));
    }
    if let Some(minor) = stage.strip_prefix("beta") {
        return Some((1, major, number(minor)?));
    }
    Some((0, major, number(stage.strip_prefix("alpha")?)?))
}
