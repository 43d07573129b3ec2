//! Whether a CustomResourceDefinition is valid, in the words and with the paths of the real server.
//!
//! The real server judges its internal version, in which what all versions have in common stands at the
//! top of the spec: so does this, and a schema shared by all versions is complained about at
//! `spec.validation`.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::{
    field::{FieldError, Path},
    names,
    schema::{Schema, props::Props},
};

use super::{
    Definition, Version, approval, default_values, internal,
    parts::{validate_columns, validate_deprecation, validate_names, validate_scale, validate_selectable},
    rules, schema_rules, structural,
    webhook::{self, validate_conversion},
};

/// What is wrong with a new definition, its name included.
pub(crate) fn validate(crd: &Value) -> Vec<FieldError> {
    let definition = Definition(crd);
    let mut errors = Vec::new();
    let at = Path::new("metadata").child("name");
    let name = definition.name();
    for why in names::dns1123_subdomain(name) {
        errors.push(FieldError::invalid(&at, name, why));
    }
    if name != format!("{}.{}", definition.names().plural(), definition.group()) {
        errors.push(FieldError::invalid(&at, name, r#"must be spec.names.plural+"."+spec.group"#));
    }
    errors.extend(validate_spec(definition, None));
    errors.extend(validate_status(crd));
    errors.extend(validate_stored_versions(definition));
    errors.extend(approval::validate(definition, None));
    if definition.preserves_unknown_fields() {
        errors.push(preserving_refused());
    }
    errors
}

/// What is wrong with `crd` as the successor of `old`.
pub(crate) fn validate_update(crd: &Value, old: &Value) -> Vec<FieldError> {
    let (definition, old) = (Definition(crd), Definition(old));
    let mut errors = validate_spec(definition, Some(old));
    let spec = Path::new("spec");
    let mut immutable = |path: Path, new: &str, old: &str| {
        if new != old {
            errors.push(FieldError::invalid(&path, new, "field is immutable"));
        }
    };
    let names = spec.child("names");
    if old.is_true("Established") {
        immutable(spec.child("scope"), definition.scope(), old.scope());
        immutable(names.child("kind"), definition.names().kind(), old.names().kind());
    }
    immutable(spec.child("group"), definition.group(), old.group());
    immutable(names.child("plural"), definition.names().plural(), old.names().plural());
    errors.extend(validate_status(crd));
    errors.extend(validate_stored_versions(definition));
    errors.extend(approval::validate(definition, Some(old)));
    if definition.preserves_unknown_fields() && !old.preserves_unknown_fields() {
        errors.push(preserving_refused());
    }
    errors
}

/// What is wrong with the status of a definition, on its own.
pub(crate) fn validate_status(crd: &Value) -> Vec<FieldError> {
    validate_names(Definition(crd).accepted_names(), &Path::new("status").child("acceptedNames"))
}

fn preserving_refused() -> FieldError {
    FieldError::invalid(
        &Path::new("spec").child("preserveUnknownFields"),
        true,
        "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
    )
}

fn validate_stored_versions(definition: Definition<'_>) -> Vec<FieldError> {
    let at = Path::new("status").child("storedVersions");
    let stored: Vec<&str> = definition.stored_versions().collect();
    if stored.is_empty() {
        return vec![FieldError::invalid(&at, Value::Null, "must have at least one stored version")];
    }
    let mut errors = Vec::new();
    for version in definition.versions().filter(|version| version.storage()) {
        if !stored.contains(&version.name()) {
            let detail = format!("must have the storage version {}", version.name());
            errors.push(FieldError::invalid(&at, stored.clone(), detail));
        }
    }
    for (index, name) in stored.iter().enumerate() {
        if definition.version(name).is_none() {
            let detail = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions \
                 until a storage migration ensures no data remains persisted in {name} and removes {name} from \
                 status.storedVersions"
            );
            errors.push(FieldError::invalid(&at.index(index), *name, detail));
        }
    }
    errors
}

/// The spec with what its versions have in common taken out.
struct Hoisted<'a> {
    definition: Definition<'a>,
    schema: bool,
    subresources: bool,
    columns: bool,
    selectable: bool,
}

impl<'a> Hoisted<'a> {
    fn of(definition: Definition<'a>) -> Self {
        let shared = |key: &str| {
            let empty = |value: &&Value| match value {
                Value::Null => true,
                Value::Array(list) => list.is_empty(),
                _ => false,
            };
            let values: Vec<Option<&Value>> =
                definition.versions().map(|version| version.0.get(key).filter(|v| !empty(v))).collect();
            !values.is_empty() && values.windows(2).all(|pair| pair[0] == pair[1])
        };
        Self {
            definition,
            schema: shared("schema"),
            subresources: shared("subresources"),
            columns: shared("additionalPrinterColumns"),
            selectable: shared("selectableFields"),
        }
    }

    /// The versions as the real server shows them.
    fn shown(&self) -> String {
        let versions: Vec<Map<String, Value>> = self
            .definition
            .versions()
            .map(|version| {
                let mut fields = version.0.as_object().cloned().unwrap_or_default();
                for (taken, key) in [
                    (self.schema, "schema"),
                    (self.subresources, "subresources"),
                    (self.columns, "additionalPrinterColumns"),
                    (self.selectable, "selectableFields"),
                ] {
                    if taken {
                        fields.remove(key);
                    }
                }
                fields
            })
            .collect();
        internal::versions(&versions)
    }
}

fn validate_spec(definition: Definition<'_>, old: Option<Definition<'_>>) -> Vec<FieldError> {
    let spec = Path::new("spec");
    let mut errors = Vec::new();
    validate_group_and_scope(definition, &spec, &mut errors);
    let hoisted = Hoisted::of(definition);
    let shared = definition.versions().next().filter(|_| hoisted.schema);
    if shared.is_none_or(|version| version.openapi().is_none()) {
        for (index, version) in definition.versions().enumerate() {
            if version.openapi().is_none() {
                let at = spec.child("versions").index(index).child("schema").child("openAPIV3Schema");
                errors.push(FieldError::required(&at, ""));
            }
        }
    }
    let has_defaults = || {
        let schemas = definition.versions().filter_map(|version| Props::of(version.openapi()?));
        let mut found = false;
        schemas.for_each(|schema| schema.each(&mut |node| found |= node.get("default").is_some()));
        found
    };
    let preserving = definition.preserves_unknown_fields();
    if preserving && has_defaults() {
        let at = spec.child("preserveUnknownFields");
        errors.push(FieldError::invalid(&at, true, "must be false in order to use defaults in the schema"));
    }
    validate_versions(&hoisted, old, &spec, &mut errors);
    if let Some(first) = definition.versions().next().map(Version::name).filter(|name| !name.is_empty()) {
        let problems = names::dns1035_label(first);
        if !problems.is_empty() {
            errors.push(FieldError::invalid(&spec.child("version"), first, problems.join(",")));
        }
    }
    for (key, text) in [
        ("plural", definition.names().plural()),
        ("singular", definition.names().singular()),
        ("kind", definition.names().kind()),
        ("listKind", definition.names().list_kind()),
    ] {
        if text.is_empty() {
            errors.push(FieldError::required(&spec.child("names").child(key), ""));
        }
    }
    errors.extend(validate_names(definition.names(), &spec.child("names")));
    validate_shared(&hoisted, old, &spec, &mut errors);
    let conversion = &definition.spec()["conversion"];
    let strategy = conversion["strategy"].as_str().unwrap_or_default();
    let at = spec.child("conversion");
    if preserving && !conversion.is_null() && strategy != "None" {
        let detail = "must be None if spec.preserveUnknownFields is true";
        errors.push(FieldError::invalid(&at.child("strategy"), strategy, detail));
    }
    let trusted = old.is_none_or(|old| !old.is_true("Established") || webhook::has_invalid_ca_bundle(old));
    errors.extend(validate_conversion(conversion, &at, trusted));
    errors
}

fn validate_group_and_scope(definition: Definition<'_>, spec: &Path, errors: &mut Vec<FieldError>) {
    let group = definition.group();
    let at = spec.child("group");
    let problems = names::dns1123_subdomain(group);
    if group.is_empty() {
        errors.push(FieldError::required(&at, ""));
    } else if !problems.is_empty() {
        errors.push(FieldError::invalid(&at, group, problems.join(",")));
    } else if !group.contains('.') {
        errors.push(FieldError::invalid(&at, group, "should be a domain with at least one dot"));
    }
    match definition.scope() {
        "" => errors.push(FieldError::required(&spec.child("scope"), "")),
        "Cluster" | "Namespaced" => {}
        other => {
            errors.push(FieldError::not_supported(&spec.child("scope"), other, &["Cluster", "Namespaced"]));
        }
    }
}

/// What each version says for itself, and that they go together.
fn validate_versions(
    hoisted: &Hoisted<'_>,
    old: Option<Definition<'_>>,
    spec: &Path,
    errors: &mut Vec<FieldError>,
) {
    let definition = hoisted.definition;
    let mut names = BTreeSet::new();
    let mut unique = true;
    for (index, version) in definition.versions().enumerate() {
        let at = spec.child("versions").index(index);
        unique &= names.insert(version.name());
        let problems = names::dns1035_label(version.name());
        if !problems.is_empty() {
            errors.push(FieldError::invalid(&at.child("name"), version.name(), problems.join(",")));
        }
        validate_deprecation(version, &at, errors);
        if !hoisted.schema
            && let Some(openapi) = version.openapi()
        {
            let unchanged = old
                .and_then(|old| old.version(version.name()))
                .is_some_and(|old| old.validation() == version.validation());
            let at = at.child("schema").child("openAPIV3Schema");
            errors.extend(validate_schema(openapi, version.has_status(), unchanged, &at));
        }
        if !hoisted.subresources {
            errors.extend(validate_scale(version.scale(), &at.child("subresources")));
        }
        if !hoisted.columns {
            errors.extend(validate_columns(version.columns(), &at.child("additionalPrinterColumns")));
        }
        if !hoisted.selectable && !version.selectable().is_empty() {
            let at = at.child("selectableFields");
            match version.openapi().filter(|_| !hoisted.schema) {
                None => errors.push(FieldError::invalid(
                    &at,
                    "",
                    "may only be set when `version.schema.openAPIV3Schema` is not included",
                )),
                Some(openapi) => {
                    let before = old.and_then(|old| old.version(version.name()));
                    let kept = before.is_some_and(|old| old.selectable() == version.selectable());
                    errors.extend(validate_selectable(version.selectable(), openapi, kept, &at));
                }
            }
        }
    }
    let at = spec.child("versions");
    if !unique {
        errors.push(internal::invalid(&at, &hoisted.shown(), "must contain unique version names"));
    }
    if definition.versions().filter(|version| version.storage()).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(internal::invalid(&at, &hoisted.shown(), detail));
    }
}

/// What all versions have in common.
fn validate_shared(
    hoisted: &Hoisted<'_>,
    old: Option<Definition<'_>>,
    spec: &Path,
    errors: &mut Vec<FieldError>,
) {
    let definition = hoisted.definition;
    let Some(first) = definition.versions().next() else { return };
    let openapi = first.openapi().filter(|_| hoisted.schema);
    if let Some(openapi) = openapi {
        let has_status = definition.versions().any(|version| version.has_status());
        let before = old.and_then(|old| old.version(first.name()));
        let unchanged = before.is_some_and(|old| old.validation() == first.validation());
        let at = spec.child("validation").child("openAPIV3Schema");
        errors.extend(validate_schema(openapi, has_status, unchanged, &at));
    }
    if hoisted.subresources {
        errors.extend(validate_scale(first.scale(), &spec.child("subresources")));
    }
    if hoisted.columns {
        errors.extend(validate_columns(first.columns(), &spec.child("additionalPrinterColumns")));
    }
    if hoisted.selectable && !first.selectable().is_empty() {
        let at = spec.child("selectableFields");
        match openapi {
            None => {
                let detail = "may only be set when validations.schema is included";
                errors.push(FieldError::invalid(&at, "", detail));
            }
            Some(openapi) => {
                let before = old.and_then(|old| old.version(first.name()));
                let kept = before.is_some_and(|old| old.selectable() == first.selectable());
                errors.extend(validate_selectable(first.selectable(), openapi, kept, &at));
            }
        }
    }
}

fn validate_schema(openapi: &Value, has_status: bool, unchanged: bool, at: &Path) -> Vec<FieldError> {
    let Some(props) = Props::of(openapi) else { return Vec::new() };
    let mut errors = Vec::new();
    if has_status {
        errors.extend(schema_rules::root_beside_status(props, at));
    }
    if props.flag("nullable") {
        errors.push(FieldError::forbidden(&at.child("nullable"), "nullable cannot be true at the root"));
    }
    let unsupported = structural::unsupported(props);
    let mut is_structural = false;
    if unsupported.is_none() {
        let mut problems = structural::validate(props, at);
        if problems.is_empty() {
            problems = default_values::validate_defaults(&Schema::structural(props), at);
        }
        is_structural = problems.is_empty();
        errors.extend(problems);
    }
    let of_nodes = schema_rules::validate(props, at);
    let mut of_rules = Vec::new();
    // Rules that were accepted once stay so.
    if is_structural && !unchanged {
        let schema = Schema::custom_resource(openapi);
        if schema.below.rules {
            of_rules = rules::compile(props, &schema, at, &of_nodes);
            let of_defaults = default_values::validate_default_rules(&schema, at);
            if !of_defaults.is_empty() {
                of_rules = of_defaults;
            }
        }
    }
    errors.extend(of_nodes);
    errors.extend(of_rules);
    if errors.is_empty() {
        errors.extend(unsupported.map(|why| FieldError::invalid(at, "", why)));
    }
    errors
}
