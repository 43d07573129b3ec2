//! What is special about reading and writing custom resources: decoding, and versions.

use serde_json::Value;

use super::{Scope, body::Source, options::FieldValidation};
use crate::{
    crd,
    decode::{self, Parsed, Problem},
    error::ApiError,
    registry::custom::Custom,
    schema,
    store::Stored,
};

impl Scope {
    /// Decodes an object of the resource's kind: undeclared fields go, metadata is checked.
    pub(crate) fn decode_custom(
        &self,
        custom: &Custom,
        parsed: Parsed<'_>,
        validation: FieldValidation,
        source: Source<'_>,
    ) -> Result<Value, ApiError> {
        let Parsed { mut value, mut problems, .. } = parsed;
        let (version, kind) = (self.resource.api_version(), &*self.resource.kind);
        let given = value.get("apiVersion").and_then(Value::as_str).unwrap_or_default().to_owned();
        let given_kind = value.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        if given_kind.is_empty() && matches!(source, Source::Body) {
            let why =
                format!("Object 'Kind' is missing in '{}'", String::from_utf8_lossy(self.body.trim_ascii()));
            return Err(decode::unrecognized(kind, &self.body, why));
        }
        if given != version {
            return Err(ApiError::bad_request(format!(
                "the API version in the data ({given}) does not match the expected API version ({version})"
            )));
        }
        let errors = crd::validate_type(&value, kind, &version);
        if !errors.is_empty() {
            let name = value["metadata"]["name"].as_str().unwrap_or_default();
            return Err(ApiError::invalid(&self.resource.subject(), name, &errors));
        }
        let refuse = |why: String| match source {
            Source::Body => decode::undecodable(&given_kind, &self.resource.version, kind, why),
            Source::Patched(shown) | Source::Strategic(shown) => decode::invalid_patch(&shown(), why),
        };
        let unknown = custom.coerce(&self.resource.version, &mut value).map_err(&refuse)?;
        problems.extend(unknown.into_iter().map(Problem::Unknown));
        self.judge(problems, validation, |list| refuse(decode::strict_error(list)))?;
        Ok(value)
    }

    /// Brings a stored object up to the schema it was stored in, as that is today, and then into the version of
    /// the request.
    pub(crate) async fn read_stored(
        &self,
        custom: &Custom,
        stored: &Stored,
        object: &mut Value,
    ) -> Result<(), ApiError> {
        let version = object["apiVersion"].as_str().unwrap_or_default();
        let version = version.rsplit('/').next().unwrap_or_default().to_owned();
        if stored.revision <= custom.schema_revision {
            custom.coerce(&version, object).map_err(ApiError::internal)?;
            custom.default(&version, object);
        }
        object["apiVersion"] = self.resource.api_version().into();
        Ok(())
    }

    /// Brings an object into the version it is kept in.
    pub(crate) async fn prepare_stored(&self, custom: &Custom, object: &mut Value) -> Result<(), ApiError> {
        schema::normalise_numbers(object);
        object["apiVersion"] =
            crate::registry::group_version(&self.resource.group, &custom.storage_version).into();
        Ok(())
    }
}
