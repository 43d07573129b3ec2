//! Types of CEL expressions, as the checker tells them apart.

use std::{fmt, sync::Arc};

/// The type of a CEL expression.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Type {
    /// The type of an expression that has a problem.
    Error,
    /// Any type; checked when the expression runs.
    Dyn,
    /// The type of `null`.
    Null,
    /// A truth value.
    Bool,
    /// A signed 64-bit number.
    Int,
    /// An unsigned 64-bit number.
    Uint,
    /// A floating point number.
    Double,
    /// A text.
    String,
    /// A sequence of bytes.
    Bytes,
    /// A point in time.
    Timestamp,
    /// A span of time.
    Duration,
    /// A list of values of one type.
    List(Arc<Type>),
    /// A map from keys of one type to values of another.
    Map(Arc<Type>, Arc<Type>),
    /// An object with declared fields, or a value of a library such as `kubernetes.Quantity`.
    Object(Arc<str>),
    /// A value of a library that has neither fields nor parameters, such as `net.IP`.
    Opaque(&'static str),
    /// A value that may be absent.
    Optional(Arc<Type>),
    /// A type itself, if it is known which.
    Type(Option<Arc<Type>>),
    /// A parameter in the declaration of a function.
    Param(&'static str),
    /// A type that is still to be inferred.
    Var(u32),
}

impl Type {
    /// A list of items.
    pub fn list(items: Self) -> Self {
        Self::List(Arc::new(items))
    }

    /// A map.
    pub fn map(keys: Self, values: Self) -> Self {
        Self::Map(Arc::new(keys), Arc::new(values))
    }

    /// A value that may be absent.
    pub fn optional(value: Self) -> Self {
        Self::Optional(Arc::new(value))
    }

    /// An object type by its name.
    pub fn object(name: &str) -> Self {
        Self::Object(name.into())
    }

    pub(crate) fn type_of(of: Self) -> Self {
        Self::Type(Some(Arc::new(of)))
    }

    /// The type's parameters, such as the type of the items of a list.
    pub(crate) fn parameters(&self) -> Vec<&Self> {
        match self {
            Self::List(items) => vec![items],
            Self::Map(keys, values) => vec![keys, values],
            Self::Optional(value) => vec![value],
            Self::Type(Some(of)) => vec![of],
            _ => Vec::new(),
        }
    }

    pub(crate) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }

    /// The name that a value of the type reports when it runs.
    pub(crate) fn runtime_name(&self) -> &str {
        match self {
            Self::Error => "error",
            Self::Dyn => "dyn",
            Self::Null => "null_type",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Timestamp => "google.protobuf.Timestamp",
            Self::Duration => "google.protobuf.Duration",
            Self::List(_) => "list",
            Self::Map(..) => "map",
            Self::Object(name) => name,
            Self::Opaque(name) | Self::Param(name) => name,
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
            Self::Var(_) => "var",
        }
    }
}

/// As error messages write it.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error => f.write_str("!error!"),
            Self::Null => f.write_str("null"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Duration => f.write_str("duration"),
            Self::List(items) => write!(f, "list({items})"),
            Self::Map(keys, values) => write!(f, "map({keys}, {values})"),
            Self::Optional(value) => write!(f, "optional_type({value})"),
            Self::Type(Some(of)) => write!(f, "type({of})"),
            Self::Var(number) => write!(f, "_var{number}"),
            other => f.write_str(other.runtime_name()),
        }
    }
}
