//! How kube-apiserver shows a struct in a message: with the names and order of its Go fields.

use serde_json::Value;

use super::report::At;

/// A field: its name in JSON, its name in Go, and what stands for its absence.
pub(crate) type Field = (&'static str, &'static str, Absent);

/// What Go has in place of a field that is not given.
#[derive(Clone, Copy)]
pub(crate) enum Absent {
    /// An empty string.
    Text,
    /// A pointer, list or map that is nil.
    Nil,
}

/// The object as Go would print its internal type; `null` if there is none.
pub(crate) fn internal_form(at: &At<'_, '_>, fields: &[Field]) -> String {
    if !at.exists() {
        return Value::Null.to_string();
    }
    let shown: Vec<String> = fields
        .iter()
        .map(|(json, go, absent)| {
            let field = at.field(json);
            let value = match (field.value(), absent) {
                (Some(value), _) => value.to_string(),
                (None, Absent::Text) => "\"\"".to_owned(),
                (None, Absent::Nil) => "null".to_owned(),
            };
            format!("\"{go}\":{value}")
        })
        .collect();
    format!("{{{}}}", shown.join(","))
}
