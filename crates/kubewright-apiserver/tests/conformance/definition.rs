//! Custom resource definitions for tests, and the objects they define.

use serde_json::{Value, json};

/// A definition of `widgets`, unless it is told otherwise.
#[derive(Clone)]
pub(crate) struct Definition {
    pub(crate) group: String,
    pub(crate) plural: String,
    pub(crate) kind: String,
    spec: Value,
}

impl Definition {
    pub(crate) const COLLECTION: &'static str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

    /// One version `v1` with this schema for `.spec` and a free-form `.status`, which is a subresource.
    pub(crate) fn of_spec(spec: Value) -> Self {
        Self::of(json!({"type": "object", "properties": {
            "spec": spec,
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }}))
    }

    /// The same, from the properties of `.spec`.
    pub(crate) fn of_properties(properties: Value) -> Self {
        Self::of_spec(json!({"type": "object", "properties": properties}))
    }

    /// One version `v1` with this schema and a status subresource.
    pub(crate) fn of(schema: Value) -> Self {
        Self {
            group: String::new(),
            plural: "widgets".to_owned(),
            kind: "Widget".to_owned(),
            spec: json!({
                "scope": "Namespaced",
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                }],
            }),
        }
    }

    /// Anything goes in `.spec` and `.status`.
    pub(crate) fn free_form() -> Self {
        Self::of_spec(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}))
    }

    pub(crate) fn named(mut self, plural: &str, kind: &str) -> Self {
        (self.plural, self.kind) = (plural.to_owned(), kind.to_owned());
        self
    }

    /// Sets a part of the definition's spec by its JSON pointer.
    pub(crate) fn set(mut self, pointer: &str, value: Value) -> Self {
        let (parent, key) = pointer.rsplit_once('/').expect("a pointer has a slash");
        let parent = self.spec.pointer_mut(parent).expect("the parent is there");
        parent[key] = value;
        self
    }

    /// Sets a part of the only version.
    pub(crate) fn version(self, key: &str, value: Value) -> Self {
        self.set(&format!("/versions/0/{key}"), value)
    }

    /// Several versions, the first of which is stored, with the schema that is there.
    pub(crate) fn versions(mut self, names: &[&str]) -> Self {
        let template = self.spec["versions"][0].clone();
        let versions = names.iter().enumerate().map(|(index, name)| {
            let mut version = template.clone();
            version["name"] = json!(name);
            version["storage"] = json!(index == 0);
            version
        });
        self.spec["versions"] = versions.collect();
        self
    }

    pub(crate) fn in_group(mut self, unique: &str) -> Self {
        if self.group.is_empty() {
            self.group = format!("{unique}.example.com");
        }
        self
    }

    pub(crate) fn manifest(&self) -> Value {
        let mut spec = self.spec.clone();
        spec["group"] = json!(self.group);
        if spec["names"].is_null() {
            spec["names"] = json!({});
        }
        spec["names"]["plural"] = json!(self.plural);
        spec["names"]["kind"] = json!(self.kind);
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{}.{}", self.plural, self.group)}, "spec": spec,
        })
    }

    /// The path of the definition itself.
    pub(crate) fn path(&self) -> String {
        format!("{}/{}.{}", Self::COLLECTION, self.plural, self.group)
    }

    /// The path of all objects.
    pub(crate) fn everywhere(&self) -> String {
        let served =
            self.spec["versions"].as_array().into_iter().flatten().find(|version| version["served"] == true);
        let version = served.and_then(|version| version["name"].as_str()).unwrap_or("v1");
        format!("/apis/{}/{version}/{}", self.group, self.plural)
    }

    /// The path of the objects of a namespace in a version.
    pub(crate) fn at(&self, version: &str, namespace: &str) -> String {
        format!("/apis/{}/{version}/namespaces/{namespace}/{}", self.group, self.plural)
    }

    /// The path of the objects of a namespace.
    pub(crate) fn within(&self, namespace: &str) -> String {
        self.at("v1", namespace)
    }

    /// An object in `v1`.
    pub(crate) fn object(&self, name: &str, spec: Value) -> Value {
        self.object_in("v1", name, spec)
    }

    pub(crate) fn object_in(&self, version: &str, name: &str, spec: Value) -> Value {
        json!({
            "apiVersion": format!("{}/{version}", self.group), "kind": self.kind,
            "metadata": {"name": name}, "spec": spec,
        })
    }
}
