//! What a user does with the resource: creates it, changes it, breaks it, undoes that, deletes it, creates it again.

use std::collections::BTreeMap;

use kube::{ResourceExt as _, api::DynamicObject};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The image whose containers are never ready.
pub(crate) const NEVER_READY: &str = "kubewright.invalid/never-ready:1";

/// One thing that a user does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// What it is called; no two steps of a scenario have the same name.
    pub name: String,
    /// The spec that is asked for; nothing to delete the resource.
    pub spec: Option<Value>,
    /// Labels of the resource, besides those of the sample.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

impl Step {
    /// The user asks for a spec.
    pub fn apply(name: impl Into<String>, spec: Value) -> Self {
        Self { name: name.into(), spec: Some(spec), labels: BTreeMap::new() }
    }

    /// The user deletes the resource.
    pub fn delete(name: impl Into<String>) -> Self {
        Self { name: name.into(), spec: None, labels: BTreeMap::new() }
    }

    /// The same, with one more label at the resource.
    #[must_use]
    pub fn labelled(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// Whether the same is asked for.
    pub(crate) fn asks_for_the_same(&self, other: &Self) -> bool {
        (&self.spec, &self.labels) == (&other.spec, &other.labels)
    }
}

/// The sample with another spec.
pub(crate) fn asking(
    sample: &DynamicObject,
    spec: &Value,
    labels: &BTreeMap<String, String>,
) -> DynamicObject {
    let mut object = sample.clone();
    object.data["spec"] = spec.clone();
    object.labels_mut().extend(labels.clone());
    object
}
