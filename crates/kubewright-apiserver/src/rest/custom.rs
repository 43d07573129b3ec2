//! What is special about reading and writing custom resources: decoding, and versions.

use std::{slice, sync::Arc};

use serde_json::Value;

use super::{
    Scope,
    body::Source,
    codec::{self, version_of},
    options::FieldValidation,
};
use crate::{
    crd::{self, Conversion},
    decode::{self, Parsed, Problem},
    error::ApiError,
    fields::folded::{self, Unfolded},
    http::answer::write_json,
    registry::{Origin, custom::Custom, group_version},
    schema,
    store::Stored,
    webhook,
};

/// The real server has objects converted one by one: webhooks are not used to bodies of any size.
const REVIEW_MAX: usize = 1 << 20;

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

    /// Brings objects, folded or not, into a version of their kind. Those that are in it stay as they are.
    pub(crate) async fn to_version(
        &self,
        custom: &Arc<Custom>,
        objects: &mut [Value],
        version: &str,
    ) -> Result<(), ApiError> {
        let is_other = |object: &&mut Value| version_of(object) != version;
        let mut others: Vec<&mut Value> = objects.iter_mut().filter(is_other).collect();
        if others.is_empty() {
            return Ok(());
        }
        let custom = self.definition_now(custom);
        self.convert(&custom, &mut others, version).await.map_err(ApiError::unexplained)?;
        for object in others {
            custom.coerce(version, object).map_err(ApiError::unexplained)?;
        }
        Ok(())
    }

    /// The definition as it is now: a watch may be older than the certificate of its webhook.
    fn definition_now(&self, custom: &Arc<Custom>) -> Arc<Custom> {
        self.server.registry().customs().get(self.storage().as_str()).unwrap_or(custom).clone()
    }

    /// Names the version of the request as it is defined now. As long as the name is the same, a custom object looks
    /// the same in it.
    pub(crate) fn version_now(&self) -> Option<String> {
        let Origin::Custom(custom) = &self.resource.origin else { return None };
        Some(format!("{}@{}", self.resource.version, self.definition_now(custom).revision))
    }

    /// Converts objects that are all of other versions, and leaves them as they come out.
    pub(crate) async fn convert(
        &self,
        custom: &Custom,
        objects: &mut [&mut Value],
        version: &str,
    ) -> Result<(), String> {
        let group = &self.resource.group;
        for object in objects.iter() {
            let from = version_of(object);
            if !custom.has_version(from) {
                return Err(format!("request to convert CR from an invalid group/version: {group}/{from}"));
            }
        }
        let desired = group_version(group, version);
        if !custom.has_version(version) {
            return Err(format!("request to convert CR to an invalid group/version: {desired}"));
        }
        match &custom.conversion {
            Some(conversion) => Box::pin(self.call_converter(conversion, objects, &desired)).await,
            None => {
                objects.iter_mut().for_each(|object| object["apiVersion"] = desired.as_str().into());
                Ok(())
            }
        }
    }

    async fn call_converter(
        &self,
        conversion: &Conversion,
        mut objects: &mut [&mut Value],
        desired: &str,
    ) -> Result<(), String> {
        while !objects.is_empty() {
            let mut sent: Vec<Vec<u8>> = Vec::new();
            let mut size = 0;
            for object in objects.iter() {
                let mut bytes = Vec::new();
                write_json(&mut bytes, &Unfolded::new(object));
                size += bytes.len();
                if size > REVIEW_MAX && !sent.is_empty() {
                    break;
                }
                sent.push(bytes);
            }
            let (asked, rest) = std::mem::take(&mut objects).split_at_mut(sent.len());
            let uid = self.server.entropy.uid();
            let review = conversion.review(&uid, desired, sent.iter().map(Vec::as_slice));
            let answer = self.server.webhooks.post(&conversion.endpoint, review, webhook::PATIENCE).await;
            let converted = conversion.converted(&uid, answer, asked, desired)?;
            for (object, converted) in asked.iter_mut().zip(converted) {
                **object = converted;
            }
            objects = rest;
        }
        Ok(())
    }

    /// Whether storing `object`, which says what is stored, would change neither the version nor the form of that.
    pub(crate) async fn keeps_form(&self, stored: &Stored, object: &Value) -> Result<bool, ApiError> {
        let Origin::Custom(custom) = &self.resource.origin else { return Ok(true) };
        if !stored.bytes.starts_with(&custom.storage_head) {
            return Ok(false);
        }
        if stored.revision > custom.schema_revision {
            return Ok(true);
        }
        let mut object = object.clone();
        self.prepare_stored(custom, &mut object).await?;
        folded::unfold(&mut object);
        Ok(object == codec::parse(&stored.bytes)?)
    }

    /// What is left of an object once it has been in the version it is kept in.
    pub(crate) async fn as_if_stored(&self, mut object: Value) -> Result<Value, ApiError> {
        if let Origin::Custom(custom) = &self.resource.origin {
            self.prepare_stored(custom, &mut object).await?;
            self.to_version(custom, slice::from_mut(&mut object), &self.resource.version).await?;
        }
        Ok(object)
    }

    /// Brings an object into the version it is kept in.
    pub(crate) async fn prepare_stored(
        &self,
        custom: &Arc<Custom>,
        object: &mut Value,
    ) -> Result<(), ApiError> {
        if *custom.storage_version != *self.resource.version {
            self.to_version(custom, slice::from_mut(object), &custom.storage_version).await?;
            custom.default(&custom.storage_version, object);
        }
        schema::normalise_numbers(object);
        Ok(())
    }
}
