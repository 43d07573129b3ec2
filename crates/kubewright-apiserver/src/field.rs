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
        if self.0.is_empty() { Self::new(name) } else { Self(format!("{}.{name}", self.0)) }
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
        let list: Vec<String> = supported.iter().map(|one| format!("\"{one}\"")).collect();
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
                Value::Object(_) | Value::Array(_) => value.to_string(),
                Value::Null => "null".to_owned(),
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

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message())
    }
}
