//! Custom resources as a table: the name, and the columns their definition asks for.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{field::float, schema::numbers::truncated};

use super::{Version, internal::json as go_json, jsonpath::JsonPath};

/// The columns of a version's tables, parsed once.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    definitions: Vec<Value>,
    columns: Vec<(String, JsonPath)>,
}

const NAME: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources \
     may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for \
     creation idempotence and configuration definition. Cannot be updated. More info: \
     https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";

const CREATED: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is \
     not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is \
     represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: \
     https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

impl Table {
    /// The table of a version; its age if it asks for no columns. A path that can't be read ends the
    /// columns.
    pub(crate) fn of(version: Version<'_>) -> Self {
        let age = [json!({
            "name": "Age", "type": "date", "description": CREATED, "jsonPath": ".metadata.creationTimestamp",
        })];
        let columns = if version.columns().is_empty() { &age[..] } else { version.columns() };
        let header =
            json!({ "name": "Name", "type": "string", "format": "name", "description": NAME, "priority": 0 });
        let mut table = Self { definitions: vec![header], columns: Vec::new() };
        for column in columns {
            let text = |key: &str| column[key].as_str().unwrap_or_default();
            let Ok(path) = JsonPath::parse(text("jsonPath")) else { break };
            let description = match text("description") {
                "" => format!("Custom resource definition column (in JSONPath format): {}", text("jsonPath")),
                given => given.to_owned(),
            };
            table.definitions.push(json!({
                "name": text("name"), "type": text("type"), "format": text("format"),
                "description": description, "priority": column["priority"].as_i64().unwrap_or_default(),
            }));
            table.columns.push((text("type").to_owned(), path));
        }
        table
    }

    /// The `columnDefinitions`.
    pub(crate) fn definitions(&self) -> &[Value] {
        &self.definitions
    }

    /// The cells of an object's row.
    pub(crate) fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let cell = |(ty, path): &(String, JsonPath)| match path.find(object) {
            Ok(found) => found.first().map_or(Value::Null, |value| cell(ty, value, now)),
            Err(_) => Value::Null,
        };
        std::iter::once(name.into()).chain(self.columns.iter().map(cell)).collect()
    }
}

fn cell(ty: &str, value: &Value, now: Timestamp) -> Value {
    match (ty, value) {
        ("string", value) => text(value).into(),
        ("integer", Value::Number(number)) => {
            let whole = number.as_i64().or_else(|| number.as_f64().map(truncated));
            whole.map_or(Value::Null, Value::from)
        }
        ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => value.clone(),
        ("date", Value::String(text)) => match text.as_str() {
            "" | "null" => "<unknown>".into(),
            text => text.parse::<Timestamp>().map_or("<invalid>".into(), |time| age(time, now).into()),
        },
        _ => Value::Null,
    }
}

/// A value as Go prints it.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (None, Some(value)) => float(value),
            _ => number.to_string(),
        },
        Value::Bool(set) => set.to_string(),
        Value::Array(_) | Value::Object(_) => go_json(value),
    }
}

/// How long ago a time was, as kubectl shows it.
fn age(time: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(time).as_secs();
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let with_rest = |amount: i64, unit: &str, rest: i64, rest_unit: &str| match rest {
        0 => format!("{amount}{unit}"),
        rest => format!("{amount}{unit}{rest}{rest_unit}"),
    };
    match () {
        () if seconds < -1 => "<invalid>".to_owned(),
        () if seconds < 0 => "0s".to_owned(),
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => with_rest(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => with_rest(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if hours < 24 * 8 => with_rest(hours / 24, "d", hours % 24, "h"),
        () if hours < 24 * 365 * 2 => format!("{}d", hours / 24),
        () if hours < 24 * 365 * 8 => with_rest(hours / 24 / 365, "y", hours / 24 % 365, "d"),
        () => format!("{}y", hours / 24 / 365),
    }
}
