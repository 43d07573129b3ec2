//! Between the store's bytes and objects.
//!
//! A built-in object is kept without `kind` and `apiVersion`: lists leave them out, and a single object gets
//! them back as a prefix. A custom object is kept whole, in the storage version of its day. An object in memory
//! always carries both, in the version of the request.

use std::{slice, sync::Arc};

use bytes::Bytes;
use serde_json::Value;

use super::Scope;
use crate::{
    decode,
    error::ApiError,
    fields::folded::Unfolded,
    http::answer::write_json,
    kinds::access,
    registry::{Origin, Resource},
    store::{Attributes, Change, Stored},
};

impl Resource {
    /// Whether the stored bytes are already what this version serves.
    pub(crate) fn serves_as_stored(&self, stored: &Stored) -> bool {
        match &self.origin {
            Origin::BuiltIn(_) => self.storage.convert.is_none(),
            Origin::Custom(custom) => {
                stored.revision > custom.schema_revision && stored.bytes.starts_with(&self.head)
            }
        }
    }

    /// The object as JSON with kind and apiVersion, if that takes no conversion.
    pub(crate) fn whole(&self, stored: &Stored, end: &[u8]) -> Option<Bytes> {
        if !self.serves_as_stored(stored) {
            return None;
        }
        let body = match &self.origin {
            Origin::BuiltIn(_) => {
                let rest = stored.bytes.get(1..).unwrap_or_default();
                [&self.head, rest, end].concat()
            }
            Origin::Custom(_) => [&stored.bytes, end].concat(),
        };
        Some(body.into())
    }

    /// The object as an item of a list, if that takes no conversion.
    pub(crate) fn item(&self, stored: &Stored) -> Option<Bytes> {
        self.serves_as_stored(stored).then(|| stored.bytes.clone())
    }
}

impl Scope {
    /// The object in the version of the request.
    pub(crate) async fn load(&self, stored: &Stored) -> Result<Value, ApiError> {
        self.convert_stored(stored, parse(&stored.bytes)?).await
    }

    /// The object in the version of the request, folded for a write.
    pub(crate) async fn load_folded(&self, stored: &Stored) -> Result<Value, ApiError> {
        self.convert_stored(stored, decode::json::parse_folded(&stored.bytes).map_err(damaged)?.value).await
    }

    async fn convert_stored(&self, stored: &Stored, mut object: Value) -> Result<Value, ApiError> {
        self.read_stored(stored, &mut object)?;
        if let Origin::Custom(custom) = &self.resource.origin {
            self.to_version(custom, slice::from_mut(&mut object), &self.resource.version).await?;
        }
        Ok(object)
    }

    /// Many objects in the version of the request: what a webhook has to convert, it gets together.
    pub(crate) async fn load_all(&self, stored: &[Arc<Stored>]) -> Result<Vec<Value>, ApiError> {
        let read = |stored: &Arc<Stored>| {
            let mut object = parse(&stored.bytes)?;
            self.read_stored(stored, &mut object).map(|()| object)
        };
        let mut objects: Vec<Value> = stored.iter().map(read).collect::<Result<_, _>>()?;
        if let Origin::Custom(custom) = &self.resource.origin {
            self.to_version(custom, &mut objects, &self.resource.version).await?;
        }
        Ok(objects)
    }

    /// Brings an object up to today's form: a built-in one of the request's version, a custom one of its own.
    fn read_stored(&self, stored: &Stored, object: &mut Value) -> Result<(), ApiError> {
        match &self.resource.origin {
            Origin::BuiltIn(_) => {
                if let Some(convert) = &self.resource.storage.convert {
                    (convert.from_storage)(object);
                    self.resource.normalise(object)?;
                }
                self.set_type(object);
            }
            Origin::Custom(custom) if stored.revision <= custom.schema_revision => {
                let version = version_of(object).to_owned();
                custom.coerce(&version, object).map_err(ApiError::internal)?;
                custom.default(&version, object);
            }
            Origin::Custom(_) => {}
        }
        Ok(())
    }

    /// Gives an object the kind and version of the request.
    pub(crate) fn set_type(&self, object: &mut Value) {
        if let Value::Object(fields) = object {
            fields.insert("apiVersion".to_owned(), self.resource.api_version().into());
            fields.insert("kind".to_owned(), (&*self.resource.kind).into());
        }
    }

    /// The write that stores `object`, which is folded or not and in the version of the request.
    pub(crate) async fn put(&self, mut object: Value) -> Result<Change, ApiError> {
        match &self.resource.origin {
            Origin::BuiltIn(_) => {
                if let Some(convert) = &self.resource.storage.convert {
                    (convert.to_storage)(&mut object);
                }
                if let Value::Object(map) = &mut object {
                    map.remove("kind");
                    map.remove("apiVersion");
                }
            }
            Origin::Custom(custom) => self.prepare_stored(custom, &mut object).await?,
        }
        let (labels, fields) = (labels(&object), self.selectable(&object));
        Ok(Change::put(labels, fields, move |revision, out| encode(object, revision, out)))
    }

    /// The write that removes the object; `last` is its last state if that differs from what is stored.
    pub(crate) fn removal(last: Option<Value>) -> Change {
        Change::delete(move |revision, stored, out| {
            let object = last.or_else(|| parse(&stored.bytes).ok()).unwrap_or_default();
            encode(object, revision, out);
        })
    }

    /// What field selectors can ask for.
    pub(crate) fn selectable(&self, object: &Value) -> Attributes {
        match &self.resource.origin {
            Origin::BuiltIn(_) => crate::kinds::fields::selectable(
                self.resource.storage.id.group(),
                &self.resource.kind,
                object,
            )
            .into_iter()
            .filter(|(name, _)| !name.starts_with("metadata."))
            .collect(),
            Origin::Custom(custom) => custom.selectable_values(object),
        }
    }
}

pub(crate) fn labels(object: &Value) -> Attributes {
    access::entries(object, &["metadata", "labels"])
        .filter_map(|(name, value)| Some((name, value.as_str()?)))
        .collect()
}

/// Appends the object under `revision`.
fn encode(mut object: Value, revision: u64, out: &mut Vec<u8>) {
    access::set(&mut object, &["metadata", "resourceVersion"], revision.to_string());
    write_json(out, &Unfolded::new(&object));
}

/// The version in an object's apiVersion.
pub(crate) fn version_of(object: &Value) -> &str {
    let version = access::get_str(object, &["apiVersion"]);
    version.split_once('/').map_or(version, |(_, version)| version)
}

/// Stored bytes as an object.
pub(crate) fn parse(bytes: &[u8]) -> Result<Value, ApiError> {
    serde_json::from_slice(bytes).map_err(damaged)
}

fn damaged(why: impl std::fmt::Display) -> ApiError {
    ApiError::internal(format!("stored object is damaged: {why}"))
}

/// How a custom object of a version begins.
pub(crate) fn custom_head(api_version: &str) -> Vec<u8> {
    let mut out = b"{\"apiVersion\":".to_vec();
    write_json(&mut out, api_version);
    out.push(b',');
    out
}

/// `{"kind":K,"apiVersion":V,` as a built-in object begins.
pub(crate) fn head(kind: &str, api_version: &str) -> Vec<u8> {
    let mut out = b"{\"kind\":".to_vec();
    write_json(&mut out, kind);
    out.extend_from_slice(b",\"apiVersion\":");
    write_json(&mut out, api_version);
    out.push(b',');
    out
}
