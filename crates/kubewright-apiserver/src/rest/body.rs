//! Request bodies: from bytes to an object of the request's kind, or to a clear refusal.

use serde_json::Value;

use super::{
    Scope,
    options::{FieldValidation, WriteOptions},
};
use crate::{
    decode::{self, Parsed, Problem, go::quote, protobuf::Envelope},
    error::ApiError,
    fields::folded,
    http::negotiate::{self, Encoding},
    registry::{Origin, group_version, types::Types},
    schema::SchemaRef,
};

/// The kind a body must have.
pub(crate) struct Expected<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) schema: &'a SchemaRef,
}

/// Where an object that is to be decoded comes from. Refusals differ, and those of a patch show something, which
/// is put together only for them.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    /// The body of the request.
    Body,
    /// A JSON or merge patch, applied; what came out, as JSON.
    Patched(&'a dyn Fn() -> String),
    /// A strategic merge patch, applied; the patch, as Go prints it.
    Strategic(&'a dyn Fn() -> String),
}

impl Scope {
    /// The kind of the resource itself.
    pub(crate) fn expected(&self) -> Expected<'_> {
        Expected {
            group: &self.resource.group,
            version: &self.resource.version,
            kind: &self.resource.kind,
            schema: &self.resource.schema,
        }
    }

    /// The body as a folded value, with what a strict reader would mind.
    pub(crate) fn parse_body(&self, kind: &str) -> Result<Parsed<'_>, ApiError> {
        let parsed = match negotiate::content_type(self.content_type.as_deref())? {
            // Of custom resources all of the body is looked at for what it has twice.
            Encoding::Json if self.resource.is_custom() => {
                decode::json::parse(&self.body).map(fold).map_err(not_json)
            }
            Encoding::Json => decode::json::parse_folded(&self.body).map_err(not_json),
            Encoding::Yaml => decode::yaml::parse(&self.body).map(fold),
            Encoding::Protobuf => return self.parse_protobuf(kind).map(fold),
        };
        let parsed = parsed.map_err(|why| decode::unrecognized(kind, &self.body, why))?;
        decode::type_meta(&parsed.value).map_err(|why| decode::unrecognized(kind, &self.body, why))?;
        Ok(parsed)
    }

    /// A body in the protobuf form, which only built-in kinds have.
    fn parse_protobuf(&self, kind: &str) -> Result<Parsed<'_>, ApiError> {
        let refuse = |why: String| decode::unrecognized(kind, &self.body, why);
        let envelope = Envelope::open(&self.body).map_err(refuse)?;
        let (group, version) = envelope.api_version.split_once('/').unwrap_or(("", &envelope.api_version));
        // Schemas inside definitions have forms of their own that are not known here.
        let schema =
            Types::get().kind(group, version, &envelope.kind).filter(|_| group != "apiextensions.k8s.io");
        let Some(schema) = schema.filter(|_| !self.resource.is_custom()) else {
            return Err(negotiate::unsupported_media_type());
        };
        let value = envelope.decode(&schema).map_err(refuse)?;
        Ok(Parsed::from(value))
    }

    /// The body of a create or update: an object of the resource's kind, defaulted.
    pub(crate) fn body_object(&self, options: &WriteOptions) -> Result<Value, ApiError> {
        let parsed = self.parse_body(&self.resource.kind)?;
        self.decode_object(parsed, options, Source::Body)
    }

    /// Brings an object of the resource's kind into shape: types checked, unknown fields dropped and
    /// reported, defaults filled in.
    pub(crate) fn decode_object(
        &self,
        parsed: Parsed<'_>,
        options: &WriteOptions,
        source: Source<'_>,
    ) -> Result<Value, ApiError> {
        let mut object = match &self.resource.origin {
            Origin::BuiltIn(_) => self.decode_as(parsed, &self.expected(), options.validation, source)?,
            Origin::Custom(custom) => self.decode_custom(custom, parsed, options.validation, source)?,
        };
        self.resource.default(&mut object);
        Ok(object)
    }

    /// Decodes a built-in kind.
    pub(crate) fn decode_as(
        &self,
        parsed: Parsed<'_>,
        expected: &Expected<'_>,
        validation: FieldValidation,
        source: Source<'_>,
    ) -> Result<Value, ApiError> {
        let (api_version, kind) = decode::type_meta(&parsed.value).map_err(ApiError::bad_request)?;
        let kind = if kind.is_empty() { expected.kind } else { kind }.to_owned();
        let (group, version) = match api_version {
            "" => (expected.group.to_owned(), expected.version.to_owned()),
            text => {
                let (group, version) = text.split_once('/').unwrap_or(("", text));
                (group.to_owned(), version.to_owned())
            }
        };
        let refuse = |why: String| match source {
            Source::Body => decode::undecodable(&kind, &version, expected.kind, why),
            Source::Patched(shown) | Source::Strategic(shown) => decode::invalid_patch(&shown(), why),
        };
        self.check_kind(expected, &group, &version, &kind).map_err(&refuse)?;
        if group != expected.group || version != expected.version {
            return Err(ApiError::bad_request(format!(
                "the API version in the data ({}) does not match the expected API version ({})",
                group_version(&group, &version),
                group_version(expected.group, expected.version)
            )));
        }
        let (mut value, problems) = match source {
            Source::Strategic(_) => {
                let earlier = parsed.problems;
                let (value, problems) = decode::convert(parsed.value, expected.schema).map_err(&refuse)?;
                (value, [earlier, problems].concat())
            }
            _ => {
                let typed = parsed.typed(expected.schema).map_err(&refuse)?;
                (typed.value, typed.problems)
            }
        };
        self.judge(problems, validation, |list| refuse(decode::strict_error(list)))?;
        if let Value::Object(fields) = &mut value {
            fields.insert("apiVersion".to_owned(), group_version(expected.group, expected.version).into());
            fields.insert("kind".to_owned(), expected.kind.into());
        }
        Ok(value)
    }

    /// Whether a body's kind is the expected one; else what Go says of it.
    fn check_kind(
        &self,
        expected: &Expected<'_>,
        group: &str,
        version: &str,
        kind: &str,
    ) -> Result<(), String> {
        let known = self.registry.knows_kind(group, version, kind);
        if kind == expected.kind && (group == expected.group || !known) {
            return if known || group != expected.group {
                Ok(())
            } else {
                Err(unregistered(group, version, kind))
            };
        }
        if !known {
            return Err(unregistered(group, version, kind));
        }
        let internal = match expected.group.split('.').next() {
            None | Some("") => "core",
            Some(group) => group,
        };
        Err(format!("converting ({version}.{kind}) to ({internal}.{}): unknown conversion", expected.kind))
    }

    /// Ignores, warns of, or refuses what a strict reader minds.
    pub(crate) fn judge(
        &self,
        problems: Vec<Problem>,
        validation: FieldValidation,
        refuse: impl FnOnce(&[Problem]) -> ApiError,
    ) -> Result<(), ApiError> {
        match validation {
            _ if problems.is_empty() => Ok(()),
            FieldValidation::Ignore => Ok(()),
            FieldValidation::Warn => {
                problems.into_iter().for_each(|problem| self.warn(problem.to_string()));
                Ok(())
            }
            FieldValidation::Strict => Err(refuse(&problems)),
        }
    }
}

fn fold(mut parsed: Parsed<'_>) -> Parsed<'_> {
    folded::fold(&mut parsed.value);
    parsed
}

fn not_json(why: String) -> String {
    format!("couldn't get version/kind; json parse error: {why}")
}

fn unregistered(group: &str, version: &str, kind: &str) -> String {
    format!(
        "no kind {} is registered for version {} in scheme \"k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30\"",
        quote(kind),
        quote(&group_version(group, version))
    )
}
