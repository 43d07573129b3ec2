//! Bodies of requests to values.
//!
//! Bytes come in as [`json::parse`] or [`yaml::parse`] read them; [`Parsed::typed`] then holds the value
//! against the schema of a built-in kind and leaves what Go's decoder would have kept and written again.
//! On the way strict [`Problem`]s are collected; what they amount to (a refusal, a warning, nothing) is the
//! caller's decision, by `fieldValidation`. Nothing here knows which kinds there are.

mod base64;
pub(crate) mod go;
pub(crate) mod json;
pub(crate) mod protobuf;
mod time;
mod typed;
pub(crate) mod yaml;

use std::fmt;

use serde_json::Value;

pub(crate) use self::typed::{convert, typed};
use crate::{
    error::{ApiError, Subject},
    field::{FieldError, Path},
};

/// A server reports no more strict problems than this at once.
const MAX_PROBLEMS: usize = 100;

/// A body that was read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Parsed<'a> {
    /// What it says.
    pub value: Value,
    /// What a strict reader would object to.
    pub problems: Vec<Problem>,
    /// The JSON it was read from, which still knows the order of fields.
    source: Option<&'a [u8]>,
}

impl From<Value> for Parsed<'_> {
    /// A value that was not read from bytes.
    fn from(value: Value) -> Self {
        Self { value, problems: Vec::new(), source: None }
    }
}

/// Something that only a strict reader objects to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Problem {
    /// The kind has no field of this path.
    Unknown(String),
    /// The field of this path was given twice.
    Duplicate(String),
    /// A YAML reader's own words about keys that were set twice.
    Yaml(String),
}

impl fmt::Display for Problem {
    /// The text of a `Warning`, and of the part of a strict error.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(path) => write!(f, "unknown field {}", go::quote(path)),
            Self::Duplicate(path) => write!(f, "duplicate field {}", go::quote(path)),
            Self::Yaml(text) => f.write_str(text),
        }
    }
}

/// The one error that strict validation makes of all problems.
pub(crate) fn strict_error<P: fmt::Display>(problems: &[P]) -> String {
    let list: Vec<String> = problems.iter().map(ToString::to_string).collect();
    format!("strict decoding error: {}", list.join(", "))
}

/// 400: a body that names its kind, but can't be decoded as the kind that is expected.
pub(crate) fn undecodable(kind: &str, version: &str, expected: &str, why: impl fmt::Display) -> ApiError {
    let version = go::quote(version);
    ApiError::bad_request(format!("{kind} in version {version} cannot be handled as a {expected}: {why}"))
}

/// 400: a body of which not even the kind is known.
pub(crate) fn unrecognized(expected: &str, body: &[u8], why: impl fmt::Display) -> ApiError {
    const SHOWN: usize = 30;
    let (start, more) = if body.len() > SHOWN { (&body[..SHOWN], " ...") } else { (body, "") };
    let start = match start.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(start).into_owned(),
        Some(_) => start.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    ApiError::bad_request(format!(
        "the object provided is unrecognized (must be of type {expected}): {why} ({start}{more})"
    ))
}

/// 422: a patch was applied, but what came out can't be decoded. `shown` is the result, or the patch
/// itself for a strategic merge (see [`printed`]).
pub(crate) fn invalid_patch(shown: &str, why: impl fmt::Display) -> ApiError {
    let error = FieldError::invalid(&Path::new("patch"), shown, why.to_string());
    ApiError::invalid(&Subject::default(), "", &[error])
}

/// A value in the notation of Go, as messages about strategic merge patches show it.
pub(crate) fn printed(value: &Value) -> String {
    go::print(value)
}

/// The `apiVersion` and `kind` that a body claims; empty where it does not.
pub(crate) fn type_meta(value: &Value) -> Result<(&str, &str), String> {
    let fail = |why: String| format!("couldn't get version/kind; json parse error: {why}");
    let object = match value {
        Value::Object(object) => object,
        Value::Null => return Ok(("", "")),
        other => {
            return Err(fail(format!(
                "json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
                go::json_kind(other)
            )));
        }
    };
    let text = |field: &str| match object.get(field) {
        Some(Value::String(text)) => Ok(text.as_str()),
        None | Some(Value::Null) => Ok(""),
        Some(other) => Err(fail(format!(
            "json: cannot unmarshal {} into Go struct field .{field} of type string",
            go::json_kind(other)
        ))),
    };
    let (api_version, kind) = (text("apiVersion")?, text("kind")?);
    if api_version.matches('/').count() > 1 {
        return Err(format!("unexpected GroupVersion string: {api_version}"));
    }
    Ok((api_version, kind))
}

#[cfg(test)]
mod tests;
