//! Values of a running expression.
//!
//! JSON is borrowed and read along its declared shape only where the expression looks; nothing is copied
//! up front. Values are cheap to clone.

mod list;
mod map;

use std::{cmp::Ordering, fmt, ops::Deref, sync::Arc};

use serde_json::Value as Json;

use crate::{
    eval::EvalError,
    library::{Extension, base64, go_float},
    schema::{DeclType, Shape},
    time::{Span, Timestamp},
    types::Type,
};

pub(crate) use list::Items;
pub use list::List;
pub use map::Map;
pub(crate) use map::{Fields, Key};

/// What comes out when a step of an expression runs.
pub(crate) type Evaluated<'a> = Result<Val<'a>, EvalError>;

/// A value.
#[derive(Debug, Clone)]
pub enum Val<'a> {
    /// `null`.
    Null,
    /// A truth value.
    Bool(bool),
    /// A signed number.
    Int(i64),
    /// An unsigned number.
    Uint(u64),
    /// A floating point number.
    Double(f64),
    /// A text.
    String(Str<'a>),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// A point in time.
    Timestamp(Timestamp),
    /// A span of time.
    Duration(Span),
    /// A list.
    List(List<'a>),
    /// A map or an object.
    Map(Map<'a>),
    /// A type.
    Type(Type),
    /// A value that may be absent.
    Optional(Option<Arc<Val<'a>>>),
    /// A value of a library.
    Extension(Extension<'a>),
    /// An object whose fields the caller computes when they are asked for.
    Lazy(&'a dyn Lazy),
}

/// An object whose fields are computed when an expression selects them, such as `variables`.
pub trait Lazy: fmt::Debug + Sync {
    /// The value of a field, if there is one of that name.
    fn field(&self, name: &str) -> Option<Result<Val<'_>, EvalError>>;
}

/// A text, borrowed from the data or shared.
#[derive(Clone)]
pub enum Str<'a> {
    /// Borrowed from the data.
    Borrowed(&'a str),
    /// Made by the expression.
    Shared(Arc<str>),
}

impl Deref for Str<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl fmt::Debug for Str<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl From<String> for Val<'_> {
    fn from(text: String) -> Self {
        Self::String(Str::Shared(text.into()))
    }
}

impl<'a> From<&'a str> for Val<'a> {
    fn from(text: &'a str) -> Self {
        Self::String(Str::Borrowed(text))
    }
}

impl From<bool> for Val<'_> {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Val<'_> {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl<'a> From<Vec<Val<'a>>> for Val<'a> {
    fn from(items: Vec<Val<'a>>) -> Self {
        Self::List(List { items: Items::Owned(Arc::new(items)), identity: None })
    }
}

static DYN: DeclType = DeclType::DYN;

impl<'a> Val<'a> {
    /// Reads a JSON value of a declared shape.
    ///
    /// # Errors
    ///
    /// The value does not have the shape.
    pub fn from_json(json: &'a Json, ty: &'a DeclType) -> Result<Self, EvalError> {
        if json.is_null() && !matches!(ty.shape, Shape::Dyn) {
            if ty.nullable {
                return Ok(Self::Null);
            }
            return Err(EvalError::new("invalid data, got null for schema with nullable=false"));
        }
        let wrong = |expected: &str| {
            Err(EvalError::new(format!("invalid data, expected {expected}, got {}", go_kind(json))))
        };
        Ok(match (&ty.shape, json) {
            (Shape::Dyn, _) => Self::from_dyn_json(json),
            (Shape::IntOrString, Json::String(text)) | (Shape::String, Json::String(text)) => {
                Self::from(text.as_str())
            }
            (Shape::IntOrString | Shape::Int, Json::Number(number)) => match whole(number) {
                Some(whole) => Self::Int(whole),
                None => return wrong("int"),
            },
            (Shape::Double, Json::Number(number)) => Self::Double(number.as_f64().unwrap_or(f64::NAN)),
            (Shape::Bool, Json::Bool(value)) => Self::Bool(*value),
            (Shape::Bytes, Json::String(text)) => match base64::decode(text) {
                Some(bytes) => Self::Bytes(bytes.into()),
                None => {
                    return Err(EvalError::new(format!(
                        "Invalid byte formatted string {text}: illegal base64 data"
                    )));
                }
            },
            (Shape::Duration, Json::String(text)) => match Span::parse_lenient(text) {
                Some(span) => Self::Duration(span),
                None => {
                    return Err(EvalError::new(format!(
                        "Invalid duration {text}: unable to parse {text} as duration"
                    )));
                }
            },
            (Shape::Date, Json::String(text)) => match Timestamp::parse_date(text) {
                Some(time) => Self::Timestamp(time),
                None => return Err(EvalError::new(format!("Invalid date formatted string {text}"))),
            },
            (Shape::DateTime, Json::String(text)) => match Timestamp::parse_lenient(text) {
                Some(time) => Self::Timestamp(time),
                None => return Err(EvalError::new(format!("Invalid date-time formatted string {text}"))),
            },
            (Shape::List { items, identity }, Json::Array(array)) => {
                Self::List(List { items: Items::Json { array, ty: items }, identity: Some(identity) })
            }
            (Shape::Map { values }, Json::Object(object)) => {
                Self::Map(Map::Json { object, fields: Fields::Values(values) })
            }
            (Shape::Object(shape), Json::Object(object)) => {
                Self::Map(Map::Json { object, fields: Fields::Declared(shape) })
            }
            (Shape::List { .. }, _) => {
                return Err(EvalError::new(
                    "invalid data, expected an array for the provided schema with type=array",
                ));
            }
            (Shape::Map { .. } | Shape::Object(_), _) => {
                return Err(EvalError::new(
                    "invalid data, expected a map for the provided schema with type=object",
                ));
            }
            (Shape::IntOrString, _) => {
                return Err(EvalError::new(
                    "invalid data, expected XIntOrString value to be either a string or integer",
                ));
            }
            (Shape::Bool, _) => return wrong("bool"),
            (Shape::Int, _) => return wrong("int"),
            (Shape::Double, _) => return wrong("float"),
            (Shape::String | Shape::Bytes | Shape::Duration | Shape::Date | Shape::DateTime, _) => {
                return wrong("string");
            }
        })
    }

    /// Reads a JSON value as what it is.
    pub fn from_dyn_json(json: &'a Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(*value),
            Json::Number(number) => {
                number.as_i64().map_or_else(|| Self::Double(number.as_f64().unwrap_or(f64::NAN)), Self::Int)
            }
            Json::String(text) => Self::from(text.as_str()),
            Json::Array(array) => Self::List(List { items: Items::Json { array, ty: &DYN }, identity: None }),
            Json::Object(object) => Self::Map(Map::Json { object, fields: Fields::Values(&DYN) }),
        }
    }

    /// The value as JSON, if it is one that JSON can hold.
    pub fn to_json(&self) -> Option<Json> {
        Some(match self {
            Self::Null => Json::Null,
            Self::Bool(value) => Json::Bool(*value),
            Self::Int(value) => (*value).into(),
            Self::Uint(value) => (*value).into(),
            Self::Double(value) => serde_json::Number::from_f64(*value)?.into(),
            Self::String(text) => Json::String(text.to_string()),
            Self::Bytes(bytes) => Json::String(base64::encode(bytes)),
            Self::Timestamp(time) => Json::String(time.to_string()),
            Self::Duration(span) => Json::String(span.to_string()),
            Self::List(list) => match list {
                List { items: Items::Json { array, .. }, .. } => Json::Array(array.to_vec()),
                _ => Json::Array(list.iter().map(|item| item.ok()?.to_json()).collect::<Option<Vec<_>>>()?),
            },
            Self::Map(Map::Json { object, .. }) => Json::Object((*object).clone()),
            Self::Map(Map::Entries(entries)) => Json::Object(
                entries
                    .iter()
                    .map(|(key, value)| Some((key.to_val().to_text()?, value.to_json()?)))
                    .collect::<Option<_>>()?,
            ),
            Self::Optional(Some(value)) => value.to_json()?,
            Self::Optional(None) => Json::Null,
            Self::Type(_) | Self::Extension(_) | Self::Lazy(_) => return None,
        })
    }

    /// The truth value, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The text, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn optional(value: Self) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    pub(crate) fn type_value(&self) -> Type {
        match self {
            Self::Null => Type::Null,
            Self::Bool(_) => Type::Bool,
            Self::Int(_) => Type::Int,
            Self::Uint(_) => Type::Uint,
            Self::Double(_) => Type::Double,
            Self::String(_) => Type::String,
            Self::Bytes(_) => Type::Bytes,
            Self::Timestamp(_) => Type::Timestamp,
            Self::Duration(_) => Type::Duration,
            Self::List(_) => Type::list(Type::Dyn),
            Self::Map(_) | Self::Lazy(_) => Type::map(Type::Dyn, Type::Dyn),
            Self::Type(_) => Type::Type(None),
            Self::Optional(_) => Type::optional(Type::Dyn),
            Self::Extension(extension) => extension.type_value(),
        }
    }

    /// How the value converts to text, if it does.
    pub(crate) fn to_text(&self) -> Option<String> {
        Some(match self {
            Self::String(text) => text.to_string(),
            Self::Bool(value) => value.to_string(),
            Self::Int(value) => value.to_string(),
            Self::Uint(value) => value.to_string(),
            Self::Double(value) => go_float(*value),
            Self::Timestamp(time) => time.to_string(),
            Self::Duration(span) => span.to_string(),
            Self::Type(ty) => ty.runtime_name().to_owned(),
            _ => return None,
        })
    }

    /// How an error message shows the value.
    pub(crate) fn shown(&self) -> String {
        self.to_text().unwrap_or_else(|| self.type_value().runtime_name().to_owned())
    }

    /// Number of items, entries, characters or bytes; one for what has no size.
    pub(crate) fn size(&self) -> u64 {
        match self {
            Self::String(text) => text.chars().count() as u64,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::List(list) => list.len() as u64,
            Self::Map(map) => map.len() as u64,
            Self::Extension(extension) => extension.size(),
            _ => 1,
        }
    }

    pub(crate) fn equal(&self, other: &Self) -> Result<bool, EvalError> {
        Ok(match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Null, _) | (_, Self::Null) => false,
            (Self::Bool(one), Self::Bool(two)) => one == two,
            (Self::String(one), Self::String(two)) => **one == **two,
            (Self::Bytes(one), Self::Bytes(two)) => one == two,
            (Self::Timestamp(one), Self::Timestamp(two)) => one == two,
            (Self::Duration(one), Self::Duration(two)) => one == two,
            (Self::Type(one), Self::Type(two)) => one.runtime_name() == two.runtime_name(),
            (Self::List(one), Self::List(two)) => return one.equal(two),
            (Self::Map(one), Self::Map(two)) => return one.equal(two),
            (Self::Optional(one), Self::Optional(two)) => match (one, two) {
                (Some(one), Some(two)) => return one.equal(two),
                (one, two) => one.is_none() && two.is_none(),
            },
            (Self::Extension(one), Self::Extension(two)) => return one.equal(two),
            // Data with a schema and values of libraries do not compare to values of other types.
            (Self::Extension(_), _)
            | (Self::List(List { identity: Some(_), .. }), _)
            | (Self::Map(Map::Json { fields: Fields::Declared(_), .. }), _) => {
                return Err(EvalError::no_such_overload());
            }
            _ => self.compare_numbers(other) == Some(Some(Ordering::Equal)),
        })
    }

    /// The order of two numbers of any types; nothing inside if one is not a number.
    fn compare_numbers(&self, other: &Self) -> Option<Option<Ordering>> {
        Some(match (self, other) {
            (Self::Int(one), Self::Int(two)) => Some(one.cmp(two)),
            (Self::Uint(one), Self::Uint(two)) => Some(one.cmp(two)),
            (Self::Double(one), Self::Double(two)) => one.partial_cmp(two),
            (Self::Int(one), Self::Uint(two)) => Some(i128::from(*one).cmp(&i128::from(*two))),
            (Self::Uint(one), Self::Int(two)) => Some(i128::from(*one).cmp(&i128::from(*two))),
            (Self::Int(one), Self::Double(two)) => compare_whole(i128::from(*one), *two),
            (Self::Uint(one), Self::Double(two)) => compare_whole(i128::from(*one), *two),
            (Self::Double(one), Self::Int(two)) => {
                compare_whole(i128::from(*two), *one).map(Ordering::reverse)
            }
            (Self::Double(one), Self::Uint(two)) => {
                compare_whole(i128::from(*two), *one).map(Ordering::reverse)
            }
            _ => return None,
        })
    }

    /// The order of two values; an inner nothing when one is not a number.
    pub(crate) fn compare(&self, other: &Self) -> Result<Option<Ordering>, EvalError> {
        Ok(match (self, other) {
            (Self::Bool(one), Self::Bool(two)) => Some(one.cmp(two)),
            (Self::String(one), Self::String(two)) => Some((**one).cmp(&**two)),
            (Self::Bytes(one), Self::Bytes(two)) => Some(one.cmp(two)),
            (Self::Timestamp(one), Self::Timestamp(two)) => Some(one.cmp(two)),
            (Self::Duration(one), Self::Duration(two)) => Some(one.cmp(two)),
            _ => return self.compare_numbers(other).ok_or_else(EvalError::no_such_overload),
        })
    }

    /// Whether the value is the empty or zero one of its type.
    pub(crate) fn is_zero(&self) -> bool {
        match self {
            Self::Null | Self::Bool(false) | Self::Int(0) | Self::Uint(0) => true,
            Self::Double(number) => *number == 0.0,
            Self::String(text) => text.is_empty(),
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::Duration(span) => span.nanos == 0,
            Self::Timestamp(time) => time.is_zero(),
            Self::List(list) => list.len() == 0,
            Self::Map(map) => map.len() == 0,
            Self::Optional(value) => value.as_ref().is_none_or(|value| value.is_zero()),
            _ => false,
        }
    }

    /// The item, entry or field that an index names; nothing if there is none.
    pub(crate) fn get(&self, index: &Self) -> Result<Option<Val<'a>>, EvalError> {
        match self {
            Self::Map(map) => map.get(index),
            Self::List(list) => {
                let position = match index {
                    Self::Int(position) => usize::try_from(*position).ok(),
                    Self::Uint(position) => usize::try_from(*position).ok(),
                    Self::Double(position) if position.fract() == 0.0 => {
                        (*position >= 0.0).then_some(*position as usize)
                    }
                    Self::Double(position) => {
                        return Err(EvalError::new(format!(
                            "unsupported index value {} in list",
                            go_float(*position)
                        )));
                    }
                    other => {
                        return Err(EvalError::new(format!(
                            "unsupported index type '{}' in list",
                            other.type_value().runtime_name()
                        )));
                    }
                };
                position
                    .filter(|position| *position < list.len())
                    .map(|position| list.get(position))
                    .transpose()
            }
            Self::Lazy(object) => match index {
                Self::String(name) => object.field(name).transpose(),
                _ => Ok(None),
            },
            _ => Ok(None),
        }
    }

    /// Why an index found nothing.
    pub(crate) fn missing(&self, index: &Self) -> EvalError {
        match self {
            Self::List(_) => EvalError::new(format!("index out of bounds: {}", index.shown())),
            _ => EvalError::new(format!("no such key: {}", index.shown())),
        }
    }
}

fn compare_whole(whole: i128, number: f64) -> Option<Ordering> {
    if number.is_nan() {
        return None;
    }
    // Beyond this every finite number is larger or smaller than any 64-bit one.
    if number >= 2e19 {
        return Some(Ordering::Less);
    }
    if number <= -1e19 {
        return Some(Ordering::Greater);
    }
    let truncated = number.trunc();
    Some(
        whole
            .cmp(&(truncated as i128))
            .then_with(|| truncated.partial_cmp(&number).unwrap_or(Ordering::Equal)),
    )
}

fn whole(number: &serde_json::Number) -> Option<i64> {
    number.as_i64().or_else(|| {
        let float = number.as_f64()?;
        (float.fract() == 0.0 && float.abs() < 9.2e18).then_some(float as i64)
    })
}

fn go_kind(json: &Json) -> &'static str {
    match json {
        Json::Null => "<nil>",
        Json::Bool(_) => "bool",
        Json::Number(number) if number.is_i64() => "int64",
        Json::Number(_) => "float64",
        Json::String(_) => "string",
        Json::Array(_) => "[]interface {}",
        Json::Object(_) => "map[string]interface {}",
    }
}
