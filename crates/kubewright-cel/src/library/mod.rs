//! The functions an expression can call: the standard ones, the extensions that Kubernetes 1.36 enables,
//! and Kubernetes' own.
//!
//! A [`Function`] is declared once, with its overloads for the checker and one implementation that tells
//! argument types apart when it runs.

pub(crate) mod authorizer;
pub(crate) mod base64;
mod declarations;
pub(crate) mod format_string;
mod lists;
pub(crate) mod named_format;
mod net;
mod patterns;
mod quantity;
mod semver;
mod standard;
mod strings;
mod url;

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Arc, LazyLock},
};

use regex::Regex;

use crate::{
    eval::EvalError,
    types::Type,
    value::{Evaluated, Val},
};

pub(crate) use patterns::{compile as pattern, dynamic as dynamic_pattern};
pub(crate) use standard::{go_float, is_type_conversion};

/// A function.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) overloads: Vec<Overload>,
    pub(crate) implementation: Implementation,
}

/// One way to call a function.
#[derive(Debug)]
pub(crate) struct Overload {
    pub(crate) id: &'static str,
    /// The first parameter is the receiver of the call.
    pub(crate) member: bool,
    pub(crate) params: Vec<Type>,
    pub(crate) result: Type,
}

/// What runs.
#[derive(Debug)]
pub(crate) enum Implementation {
    Plain(for<'a> fn(&[Val<'a>]) -> Evaluated<'a>),
    /// The second argument is a pattern, which is compiled before.
    Pattern(for<'a> fn(&Regex, &[Val<'a>]) -> Evaluated<'a>),
    /// The evaluator has a step for it.
    Special,
}

static FUNCTIONS: LazyLock<BTreeMap<&'static str, Function>> =
    LazyLock::new(|| declarations::all().into_iter().map(|function| (function.name, function)).collect());

/// The function of a name.
pub(crate) fn function(name: &str) -> Option<&'static Function> {
    FUNCTIONS.get(name)
}

/// The type that a name denotes in an expression.
pub(crate) fn type_named(name: &str) -> Option<Type> {
    Some(match name {
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "double" => Type::Double,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "string" => Type::String,
        "null_type" => Type::Null,
        "type" => Type::Type(None),
        "list" => Type::list(Type::Param("A")),
        "map" => Type::map(Type::Param("A"), Type::Param("B")),
        "google.protobuf.Timestamp" => Type::Timestamp,
        "google.protobuf.Duration" => Type::Duration,
        "optional_type" => Type::optional(Type::Dyn),
        "net.IP" => net::IP,
        "net.CIDR" => net::CIDR,
        _ => return None,
    })
}

/// A value of a library type.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Extension<'a> {
    /// An amount of a resource.
    #[doc(hidden)]
    Quantity(quantity::Quantity),
    /// An IP address.
    #[doc(hidden)]
    Ip(IpAddr),
    /// A range of IP addresses.
    #[doc(hidden)]
    Cidr(net::Cidr),
    /// A URL.
    #[doc(hidden)]
    Url(Arc<url::Url>),
    /// A semantic version.
    #[doc(hidden)]
    Semver(Arc<semver::Version>),
    /// A format of names.
    #[doc(hidden)]
    Format(&'static named_format::NamedFormat),
    /// A step of an authorization check.
    #[doc(hidden)]
    Authorization(authorizer::Step<'a>),
}

impl Extension<'_> {
    pub(crate) fn type_value(&self) -> Type {
        match self {
            Self::Quantity(_) => Type::object("kubernetes.Quantity"),
            Self::Ip(_) => net::IP,
            Self::Cidr(_) => net::CIDR,
            Self::Url(_) => Type::object("kubernetes.URL"),
            Self::Semver(_) => Type::object("kubernetes.Semver"),
            Self::Format(_) => Type::object("kubernetes.NamedFormat"),
            Self::Authorization(step) => Type::object(step.type_name()),
        }
    }

    pub(crate) fn size(&self) -> u64 {
        match self {
            Self::Ip(IpAddr::V4(_)) => 4,
            Self::Ip(IpAddr::V6(_)) => 16,
            Self::Cidr(cidr) => cidr.bits().div_ceil(8).into(),
            _ => 1,
        }
    }

    pub(crate) fn equal(&self, other: &Self) -> Result<bool, EvalError> {
        Ok(match (self, other) {
            (Self::Quantity(one), Self::Quantity(two)) => one == two,
            (Self::Ip(one), Self::Ip(two)) => one == two,
            (Self::Cidr(one), Self::Cidr(two)) => one == two,
            (Self::Url(one), Self::Url(two)) => one.text() == two.text(),
            (Self::Semver(one), Self::Semver(two)) => one.compare(two).is_eq(),
            (Self::Format(one), Self::Format(two)) => one.name == two.name,
            _ => return Err(EvalError::no_such_overload()),
        })
    }
}
