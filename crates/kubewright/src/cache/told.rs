//! Objects as the server tells them. Their managed fields, which are the larger part of many, are kept as text:
//! hardly anybody wants more of them than what this operator itself has applied.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::core::{PartialObjectMeta, PartialObjectMetaExt as _};
use serde::{Deserialize, de::Error as _};
use serde_json::{Error, value::RawValue};

use super::scan::Scan;
use crate::kind::{Key, Kind, Object, revision_of};

/// Marks the bookmark after the last of the initial events.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// What an object tells before it is read.
pub(super) struct Outline<'t> {
    text: &'t str,
    meta: Meta<'t>,
}

#[derive(Default)]
struct Meta<'t> {
    name: Cow<'t, str>,
    namespace: Cow<'t, str>,
    resource_version: Cow<'t, str>,
    /// As they are written.
    annotations: Option<&'t str>,
    managed_fields: Option<&'t str>,
}

impl<'t> Outline<'t> {
    pub(super) fn of(text: &'t str) -> serde_json::Result<Self> {
        Self::scan(&mut Scan::new(text)).ok_or_else(|| Error::custom("this is no object"))
    }

    /// That of the object that a scan has come to.
    pub(super) fn scan(scan: &mut Scan<'t>) -> Option<Self> {
        let mut meta = Meta::default();
        let mut take_meta = |name, scan: &mut Scan<'t>| {
            let value = scan.value()?;
            match name {
                "name" => meta.name = string(value),
                "namespace" => meta.namespace = string(value),
                "resourceVersion" => meta.resource_version = string(value),
                "annotations" => meta.annotations = Some(value),
                "managedFields" if value != "null" => meta.managed_fields = Some(value),
                _ => {}
            }
            Some(())
        };
        let text = scan.object(|name, scan| match name {
            "metadata" => scan.object(&mut take_meta).map(drop),
            _ => scan.value().map(drop),
        })?;
        Some(Self { text, meta })
    }

    /// All of it, as it was told.
    pub(super) fn whole(&self) -> &'t str {
        self.text
    }

    pub(super) fn key(&self) -> Key {
        Key::new(&self.meta.namespace, &self.meta.name)
    }

    /// The revision, as the server writes it.
    pub(super) fn place(&self) -> &str {
        &self.meta.resource_version
    }

    pub(super) fn revision(&self) -> u64 {
        revision_of(Some(&self.meta.resource_version))
    }

    /// Whether this, as a bookmark, comes after the last of the initial events.
    pub(super) fn ends_initial_events(&self) -> bool {
        let annotations: Option<BTreeMap<Cow<'_, str>, Cow<'_, str>>> =
            self.meta.annotations.and_then(|text| serde_json::from_str(text).ok());
        annotations.is_some_and(|all| all.get(INITIAL_EVENTS_END).is_some_and(|text| text == "true"))
    }

    /// The object, but for its managed fields.
    pub(super) fn text(&self) -> Cow<'t, str> {
        let Some(managed) = self.meta.managed_fields else { return Cow::Borrowed(self.text) };
        let begin = managed.as_ptr().addr() - self.text.as_ptr().addr();
        let (before, after) = (&self.text[..begin], &self.text[begin + managed.len()..]);
        Cow::Owned([before, "null", after].concat())
    }

    /// The object that `text` has.
    pub(super) fn read<K: Object>(&self, text: &str) -> serde_json::Result<Told<K>> {
        let object = Arc::new(serde_json::from_str(text)?);
        Ok(Told { object, managed: self.meta.managed_fields.map(Box::from) })
    }
}

/// An object as the server has told it.
pub(crate) struct Told<K> {
    /// Without its managed fields.
    pub(crate) object: Arc<K>,
    managed: Option<Box<str>>,
}

/// What an entry of the managed fields says, as far as it is wanted here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manager<'t> {
    #[serde(borrow)]
    manager: Option<Cow<'t, str>>,
    #[serde(borrow)]
    operation: Option<Cow<'t, str>>,
    #[serde(borrow)]
    subresource: Option<Cow<'t, str>>,
    #[serde(borrow)]
    fields_v1: Option<&'t RawValue>,
}

impl<K> Clone for Told<K> {
    fn clone(&self) -> Self {
        Self { object: self.object.clone(), managed: self.managed.clone() }
    }
}

impl<K: Object> Told<K> {
    pub(crate) fn read(text: &str) -> serde_json::Result<Self> {
        let outline = Outline::of(text)?;
        outline.read(&outline.text())
    }

    /// The fields that `manager` has applied, in the form of `fieldsV1`.
    pub(super) fn applied_by(&self, manager: &str) -> Option<Box<str>> {
        let entries: Vec<Manager<'_>> = serde_json::from_str(self.managed.as_ref()?).ok()?;
        let own = entries.into_iter().find(|entry| {
            entry.manager.as_deref() == Some(manager)
                && entry.operation.as_deref() == Some("Apply")
                && entry.subresource.as_deref().unwrap_or_default().is_empty()
        });
        own?.fields_v1.map(|fields| fields.get().into())
    }

    /// The managed fields, for those who want them.
    pub(super) fn managed_fields(&self) -> Option<Vec<ManagedFieldsEntry>> {
        serde_json::from_str(self.managed.as_ref()?).ok()
    }

    /// The same of its metadata alone.
    pub(super) fn metadata(&self) -> Told<PartialObjectMeta<K>>
    where
        K: Kind,
    {
        let object = Arc::new(self.object.meta().clone().into_response_partial::<K>());
        Told { object, managed: self.managed.clone() }
    }
}

/// What a value says, if it is a string; nothing otherwise.
fn string(value: &str) -> Cow<'_, str> {
    match value.strip_prefix('"').and_then(|value| value.strip_suffix('"')) {
        Some(plain) if !plain.contains('\\') => Cow::Borrowed(plain),
        Some(_) => Cow::Owned(serde_json::from_str(value).unwrap_or_default()),
        None => Cow::default(),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    fn managed(managed_fields: serde_json::Value) -> String {
        let metadata = json!({
            "name": "a \"quoted\" map", "managedFields": managed_fields, "namespace": "default", "resourceVersion": "7",
        });
        json!({"data": {"key": "value"}, "metadata": metadata}).to_string()
    }

    #[test]
    fn an_object_is_read_without_its_managed_fields_and_knows_who_applied_what() {
        let entry = |manager: &str, operation: &str, subresource: &str, field: &str| {
            json!({
                "manager": manager, "operation": operation, "subresource": subresource, "apiVersion": "v1",
                "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {field: {}}},
            })
        };
        let text = managed(json!([
            entry("own", "Update", "", "f:updated"),
            entry("own", "Apply", "status", "f:status"),
            entry("other", "Apply", "", "f:other"),
            entry("own", "Apply", "", "f:key"),
        ]));
        let outline = Outline::of(&text).unwrap();
        assert_eq!((outline.key().name(), outline.revision()), ("a \"quoted\" map", 7));
        let told: Told<ConfigMap> = outline.read(&outline.text()).unwrap();
        let mut object = ConfigMap::clone(&told.object);
        assert_eq!(object.metadata.managed_fields, None);
        assert_eq!(told.applied_by("own").as_deref(), Some(r#"{"f:data":{"f:key":{}}}"#));
        assert_eq!(told.applied_by("nobody"), None);
        object.metadata.managed_fields = told.managed_fields();
        assert_eq!(object, serde_json::from_str(&text).unwrap(), "nothing else is lost");
    }

    #[test]
    fn what_is_not_there_is_not_missed() {
        for text in [managed(json!(null)), managed(json!([])), "{}".to_owned()] {
            let told: Told<ConfigMap> = Told::read(&text).unwrap();
            assert_eq!(told.applied_by("own"), None);
            assert_eq!(
                *told.object,
                ConfigMap { metadata: told.object.metadata.clone(), ..serde_json::from_str(&text).unwrap() }
            );
        }
    }
}
