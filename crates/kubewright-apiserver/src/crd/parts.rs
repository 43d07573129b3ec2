//! The smaller parts of a CustomResourceDefinition: names, deprecation, columns, scale, selectable fields.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{
    field::{FieldError, Path},
    names,
    schema::{Schema, field_path, props::Props},
};

use super::{Names, Version, structural};

pub(super) fn validate_deprecation(version: Version<'_>, at: &Path, errors: &mut Vec<FieldError>) {
    let Some(warning) = version.0["deprecationWarning"].as_str() else { return };
    let mut refuse = |detail: &str| {
        errors.push(FieldError::invalid(&at.child("deprecationWarning"), warning, detail));
    };
    if !version.deprecated() {
        refuse("can only be set for deprecated versions");
        return;
    }
    if warning.len() > 256 {
        refuse("must be <= 256 characters long");
    }
    if warning.is_empty() {
        refuse("must not be an empty string");
    }
    let unprintable =
        |character: &char| character.is_control() || (character.is_whitespace() && *character != ' ');
    if let Some((index, _)) = warning.char_indices().find(|(_, character)| unprintable(character)) {
        refuse(&format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {index}"
        ));
    }
}

pub(super) fn validate_names(names: Names<'_>, at: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut label = |at: Path, name: &str, lower: String, words: &str| {
        let problems = names::dns1035_label(&lower);
        if !problems.is_empty() {
            errors.push(FieldError::invalid(&at, name, format!("{words}{}", problems.join(","))));
        }
    };
    const MIXED: &str = "may have mixed case, but should otherwise match: ";
    for (key, name) in [("plural", names.plural()), ("singular", names.singular())] {
        if !name.is_empty() {
            label(at.child(key), name, name.to_owned(), "");
        }
    }
    for (key, name) in [("kind", names.kind()), ("listKind", names.list_kind())] {
        if !name.is_empty() {
            label(at.child(key), name, name.to_lowercase(), MIXED);
        }
    }
    for (index, name) in names.short_names().enumerate() {
        label(at.child("shortNames").index(index), name, name.to_owned(), "");
    }
    for (index, name) in names.categories().enumerate() {
        label(at.child("categories").index(index), name, name.to_owned(), "");
    }
    if !names.kind().is_empty() && names.kind() == names.list_kind() {
        let detail = "kind and listKind may not be the same";
        errors.push(FieldError::invalid(&at.child("listKind"), names.list_kind(), detail));
    }
    errors
}

pub(super) fn validate_columns(columns: &[Value], at: &Path) -> Vec<FieldError> {
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    const FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
    let mut errors = Vec::new();
    for (index, column) in columns.iter().enumerate() {
        let at = at.index(index);
        let text = |key: &str| column[key].as_str().unwrap_or_default();
        let one_of = |list: &[&str]| format!("must be one of {}", list.join(","));
        if text("name").is_empty() {
            errors.push(FieldError::required(&at.child("name"), ""));
        }
        if text("type").is_empty() {
            errors.push(FieldError::required(&at.child("type"), one_of(&TYPES)));
        } else if !TYPES.contains(&text("type")) {
            errors.push(FieldError::invalid(&at.child("type"), text("type"), one_of(&TYPES)));
        }
        if !text("format").is_empty() && !FORMATS.contains(&text("format")) {
            errors.push(FieldError::invalid(&at.child("format"), text("format"), one_of(&FORMATS)));
        }
        match text("jsonPath") {
            "" => errors.push(FieldError::required(&at.child("JSONPath"), "")),
            path => errors.extend(not_a_simple_path(path, &at.child("JSONPath"))),
        }
    }
    errors
}

fn not_a_simple_path(path: &str, at: &Path) -> Option<FieldError> {
    let detail = "must be a simple json path starting with .";
    (!path.starts_with('.')).then(|| FieldError::invalid(at, path, detail))
}

pub(super) fn validate_scale(scale: Option<&Value>, at: &Path) -> Vec<FieldError> {
    let Some(scale) = scale else { return Vec::new() };
    let mut errors = Vec::new();
    for (key, required, roots) in [
        ("specReplicasPath", true, &[".spec"][..]),
        ("statusReplicasPath", true, &[".status"]),
        ("labelSelectorPath", false, &[".spec", ".status"]),
    ] {
        let at = at.child("scale").child(key);
        let path = scale[key].as_str().unwrap_or_default();
        if path.is_empty() {
            if required {
                errors.push(FieldError::required(&at, ""));
            }
            continue;
        }
        let under = |root: &&str| path.strip_prefix(root).is_some_and(|rest| rest.starts_with('.'));
        if let Some(error) = not_a_simple_path(path, &at) {
            errors.push(error);
        } else if !roots.iter().any(under) {
            let either = if roots.len() > 1 { "either " } else { "" };
            let detail = format!("should be a json path under {either}{}", roots.join(" or "));
            errors.push(FieldError::invalid(&at, path, detail));
        }
    }
    errors
}

pub(super) fn validate_selectable(
    fields: &[Value],
    openapi: &Value,
    kept: bool,
    at: &Path,
) -> Vec<FieldError> {
    const MOST: usize = 8;
    let mut errors = Vec::new();
    let Some(props) = Props::of(openapi).filter(|props| structural::unsupported(*props).is_none()) else {
        return errors;
    };
    let schema = Schema::structural(props);
    let mut seen = BTreeSet::new();
    for (index, field) in fields.iter().enumerate() {
        let at = at.index(index).child("jsonPath");
        let text = field["jsonPath"].as_str().unwrap_or_default();
        if text.is_empty() {
            errors.push(FieldError::required(&at, ""));
            continue;
        }
        let found = match text.find('[') {
            Some(bracket) => field_path(&text[..bracket], &schema)
                .and_then(|_| Err("array notation is not allowed".to_owned())),
            None => field_path(text, &schema),
        };
        let (path, found) = match found {
            Ok(found) => found,
            Err(why) => {
                errors.push(FieldError::invalid(&at, text, format!("is an invalid path: {why}")));
                continue;
            }
        };
        if path.as_str().split('.').next() == Some("metadata") {
            errors.push(FieldError::invalid(&at, text, "must not point to fields in metadata"));
        }
        if !matches!(found.type_name(), "string" | "boolean" | "integer") {
            errors.push(FieldError::invalid(
                &at,
                text,
                "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.",
            ));
        }
        if !seen.insert(path) {
            errors.push(FieldError::duplicate(&at, text));
        }
    }
    if seen.len() > MOST && !kept {
        errors.push(FieldError::too_many(at, seen.len(), MOST));
    }
    errors
}
