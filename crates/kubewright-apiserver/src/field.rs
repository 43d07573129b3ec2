//! Paths into an object, and what can be wrong with the value there.
//!
//! The wording is that of the `field` package of apimachinery: `spec.ports[0].port: Required value`.

use std::fmt::{self, Write as _};

use serde_json::Value;

use crate::error::Cause;

/// A path into an object, such as `spec.template.labels[app]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(String);

impl Path {
    /// A path of one field, or of several already joined by dots.
    pub fn new(root: &str) -> Self {
        Self(root.to_owned())
    }

    /// The path of a field of this one.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        if self.0.is_empty() {
            return Self::new(name);
        }
        // Built for every field that is checked, so without the detour through formatting.
        let mut path = String::with_capacity(self.0.len() + 1 + name.len());
        path.push_str(&self.0);
        path.push('.');
        path.push_str(name);
        Self(path)
    }

    /// The path of an item of this list.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// The path of a value of this map.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }

    /// The path as text; empty for the object itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "<nil>" } else { &self.0 })
    }
}

/// What is wrong with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Problem {
    /// Must be there and is not.
    Required,
    /// Has a value that is not allowed.
    Invalid,
    /// Has a value of the wrong type.
    TypeInvalid,
    /// Appears twice where it may appear once.
    Duplicate,
    /// Is not one of the values there are.
    NotSupported,
    /// May not be set here, or not be changed.
    Forbidden,
    /// Is too long.
    TooLong,
    /// Has too many items.
    TooMany,
    /// Names something that does not exist.
    NotFound,
    /// Could not be checked.
    Internal,
}

impl Problem {
    /// The machine-readable reason.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::Duplicate => "FieldValueDuplicate",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::NotFound => "FieldValueNotFound",
            Self::Internal => "InternalError",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::Duplicate => "Duplicate value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::NotFound => "Not found",
            Self::Internal => "Internal error",
        }
    }
}

/// One problem of one field.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    /// What is wrong.
    pub problem: Problem,
    /// Where.
    pub path: Path,
    /// The value that was found, if the message shows it.
    pub value: Option<Value>,
    /// What would be right.
    pub detail: String,
}

impl FieldError {
    fn new(problem: Problem, path: &Path, value: Option<Value>, detail: impl Into<String>) -> Self {
        Self { problem, path: path.clone(), value, detail: detail.into() }
    }

    /// The field must be there.
    pub fn required(path: &Path, detail: impl Into<String>) -> Self {
        Self::new(Problem::Required, path, None, detail)
    }

    /// The value is not allowed.
    pub fn invalid(path: &Path, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(Problem::Invalid, path, Some(value.into()), detail)
    }

    /// The value has the wrong type.
    pub fn type_invalid(path: &Path, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(Problem::TypeInvalid, path, Some(value.into()), detail)
    }

    /// The value appears twice.
    pub fn duplicate(path: &Path, value: impl Into<Value>) -> Self {
        Self::new(Problem::Duplicate, path, Some(value.into()), "")
    }

    /// The value is none of `supported`.
    pub fn not_supported(path: &Path, value: impl Into<Value>, supported: &[&str]) -> Self {
        let list: Vec<String> = supported.iter().map(|one| quoted(one)).collect();
        let detail =
            if list.is_empty() { String::new() } else { format!("supported values: {}", list.join(", ")) };
        Self::new(Problem::NotSupported, path, Some(value.into()), detail)
    }

    /// The field may not be set or changed.
    pub fn forbidden(path: &Path, detail: impl Into<String>) -> Self {
        Self::new(Problem::Forbidden, path, None, detail)
    }

    /// The value is longer than `max` bytes.
    pub fn too_long(path: &Path, max: usize) -> Self {
        let unit = if max == 1 { "byte" } else { "bytes" };
        Self::new(Problem::TooLong, path, None, format!("may not be more than {max} {unit}"))
    }

    /// The list has `actual` items where `max` are allowed.
    pub fn too_many(path: &Path, actual: usize, max: usize) -> Self {
        let unit = if max == 1 { "item" } else { "items" };
        let detail = format!("must have at most {max} {unit}");
        Self::new(Problem::TooMany, path, Some(actual.into()), detail)
    }

    /// The value names something that does not exist.
    pub fn not_found(path: &Path, value: impl Into<Value>) -> Self {
        Self::new(Problem::NotFound, path, Some(value.into()), "")
    }

    /// The field could not be checked.
    pub fn internal(path: &Path, why: impl Into<String>) -> Self {
        Self::new(Problem::Internal, path, None, why)
    }

    /// The same problem as a cause of a `Status`.
    pub fn cause(&self) -> Cause {
        Cause {
            reason: self.problem.reason().to_owned(),
            message: self.message(),
            field: self.path.to_string(),
        }
    }

    /// The message without the field's path.
    pub fn message(&self) -> String {
        let mut text = self.problem.words().to_owned();
        if let Some(value) = &self.value {
            let shown = match value {
                Value::Object(_) | Value::Array(_) => escaped_json(value),
                Value::String(text) => quoted(text),
                Value::Number(number) if !number.is_i64() && !number.is_u64() => {
                    number.as_f64().map_or_else(|| number.to_string(), float)
                }
                scalar => scalar.to_string(),
            };
            let _ = write!(text, ": {shown}");
        }
        if !self.detail.is_empty() {
            let _ = write!(text, ": {}", self.detail);
        }
        text
    }
}

/// A string as Go's `%q` writes it.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        let _ = match character {
            '"' | '\\' => write!(quoted, "\\{character}"),
            '\x07' => write!(quoted, "\\a"),
            '\x08' => write!(quoted, "\\b"),
            '\x0c' => write!(quoted, "\\f"),
            '\n' => write!(quoted, "\\n"),
            '\r' => write!(quoted, "\\r"),
            '\t' => write!(quoted, "\\t"),
            '\x0b' => write!(quoted, "\\v"),
            ' ' => write!(quoted, " "),
            hidden if hidden.is_ascii_control() => write!(quoted, "\\x{:02x}", u32::from(hidden)),
            hidden if hidden.is_control() || hidden.is_whitespace() || is_invisible(hidden) => {
                write!(quoted, "\\u{:04x}", u32::from(hidden))
            }
            plain => write!(quoted, "{plain}"),
        };
    }
    quoted.push('"');
    quoted
}

/// Characters without a shape of their own: zero-width ones, marks of direction, the byte order mark.
fn is_invisible(character: char) -> bool {
    matches!(character, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2064}' | '\u{feff}')
}

/// A float64 as Go's `%v` writes it: the shortest form, with an exponent from a million on.
pub(crate) fn float(value: f64) -> String {
    let scientific = format!("{value:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..=5).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
        _ => value.to_string(),
    }
}

/// JSON as Go writes it: `<`, `>` and `&` are escaped.
fn escaped_json(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message())
    }
}
