//! One step of a path into an object, as managed fields name it: a field, a list item by its keys or its
//! value, or an index. Steps have a total order (that of FieldsV1), a text for people and a canonical JSON
//! form. Values inside a step are compared as numbers or texts, never by meaning: `1` and `1000m` differ.

use std::{cmp::Ordering, fmt};

use serde_json::{Number, Value};

/// A step from a value to one of its parts.
#[derive(Debug, Clone)]
pub(crate) enum PathElement {
    /// A field of an object, or a value of a map.
    Field(Box<str>),
    /// The item of a list whose fields have these values, ordered by field name.
    Key(Box<[(Box<str>, Value)]>),
    /// The item of a set with this value.
    Value(Box<Value>),
    /// The item at this place.
    Index(i64),
}

impl PathElement {
    /// The step to a field.
    pub(crate) fn field(name: &str) -> Self {
        Self::Field(name.into())
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }

    /// Reads the form used in FieldsV1. `Ok(None)` is a step of a kind that does not exist yet.
    pub(super) fn parse(text: &str) -> Result<Option<Self>, String> {
        let bytes = text.as_bytes();
        if bytes.len() < 2 {
            return Err("key must be 2 characters long:".to_owned());
        }
        if bytes[1] != b':' {
            return Err(format!("missing colon: {text}"));
        }
        let Some(content) = text.get(2..) else { return Ok(None) };
        let json = |what: &str| serde_json::from_str::<Value>(what).map_err(|error| error.to_string());
        Ok(Some(match bytes[0] {
            b'f' => Self::field(content),
            b'v' => Self::Value(Box::new(json(content)?)),
            b'i' => Self::Index(content.parse().map_err(|_| format!("parsing {content:?}: invalid syntax"))?),
            b'k' => {
                let Value::Object(fields) = json(content)? else {
                    return Err(format!("expected a JSON object of keys, found {content}"));
                };
                let mut keys: Vec<_> =
                    fields.into_iter().map(|(name, value)| (name.into_boxed_str(), value)).collect();
                keys.sort_by(|a, b| a.0.cmp(&b.0));
                Self::Key(keys.into())
            }
            _ => return Ok(None),
        }))
    }

    /// The form used in FieldsV1, such as `f:spec` or `k:{"name":"web"}`.
    pub(super) fn serialise(&self) -> String {
        match self {
            Self::Field(name) => {
                let mut text = String::with_capacity(2 + name.len());
                text.push_str("f:");
                text.push_str(name);
                text
            }
            Self::Key(keys) => {
                let mut text = String::from("k:{");
                for (position, (name, value)) in keys.iter().enumerate() {
                    if position > 0 {
                        text.push(',');
                    }
                    text.push_str(&Value::from(&**name).to_string());
                    text.push(':');
                    text.push_str(&html_safe(value));
                }
                text.push('}');
                text
            }
            Self::Value(value) => format!("v:{}", html_safe(value)),
            Self::Index(index) => format!("i:{index}"),
        }
    }
}

/// JSON with the characters escaped that Go escapes for the sake of HTML.
pub(super) fn html_safe(value: &Value) -> String {
    let text = value.to_string();
    if !text.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        return text;
    }
    text.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.cmp(b),
            (Self::Key(a), Self::Key(b)) => a
                .iter()
                .zip(b.iter())
                .map(|(a, b)| a.0.cmp(&b.0).then_with(|| order(&a.1, &b.1)))
                .find(|found| found.is_ne())
                .unwrap_or_else(|| a.len().cmp(&b.len())),
            (Self::Value(a), Self::Value(b)) => order(a, b),
            (Self::Index(a), Self::Index(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for PathElement {}

impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(keys) => {
                f.write_str("[")?;
                for (position, (name, value)) in keys.iter().enumerate() {
                    let comma = if position > 0 { "," } else { "" };
                    write!(f, "{comma}{name}={}", shown(value))?;
                }
                f.write_str("]")
            }
            Self::Value(value) => write!(f, "[={}]", shown(value)),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// A value inside a path, as people read it.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Array(items) => format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(",")),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| format!("{name}={}", shown(value))).collect()
        }
        other => other.to_string(),
    }
}

/// A text in quotes, the way Go writes `%q`.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            other if other.is_ascii_control() => out.push_str(&format!("\\x{:02x}", u32::from(other))),
            other if other.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(other))),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

/// Whether two values are the same; a whole number equals the same number with a fraction of zero.
pub(super) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || order_numbers(a, b).is_eq(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| equal(a, b)))
        }
        _ => a == b,
    }
}

/// A total order of values: numbers, strings, booleans, lists, maps, null.
fn order(a: &Value, b: &Value) -> Ordering {
    fn rank(value: &Value) -> u8 {
        match value {
            Value::Number(_) => 0,
            Value::String(_) => 1,
            Value::Bool(_) => 2,
            Value::Array(_) => 3,
            Value::Object(_) => 4,
            Value::Null => 5,
        }
    }
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => order_numbers(a, b),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => a
            .iter()
            .zip(b)
            .map(|(a, b)| order(a, b))
            .find(|found| found.is_ne())
            .unwrap_or_else(|| a.len().cmp(&b.len())),
        (Value::Object(a), Value::Object(b)) => {
            let sorted = |map: &'_ serde_json::Map<String, Value>| {
                let mut fields: Vec<_> =
                    map.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
                fields.sort_by(|a, b| a.0.cmp(&b.0));
                fields
            };
            let (a, b) = (sorted(a), sorted(b));
            a.iter()
                .zip(&b)
                .map(|(a, b)| a.0.cmp(&b.0).then_with(|| order(&a.1, &b.1)))
                .find(|found| found.is_ne())
                .unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        _ => rank(a).cmp(&rank(b)),
    }
}

fn order_numbers(a: &Number, b: &Number) -> Ordering {
    match (a.as_i64(), b.as_i64()) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => {
            let number = |number: &Number| number.as_f64().unwrap_or_default();
            number(a).total_cmp(&number(b))
        }
    }
}
