//! What a kind is: the built-in catalogue and custom resources behind one type.
//!
//! A [`Registry`] is a value: it is built from the catalogue and the CRDs there are, never changed, and
//! replaced as a whole when a CRD changes. Requests hold the one they started with.

mod behaviour;
mod catalogue;
pub(crate) mod custom;
pub(crate) mod types;

use std::{
    borrow::Cow,
    collections::BTreeMap,
    sync::{Arc, LazyLock, OnceLock},
};

use serde_json::{Value, json};

use self::custom::Custom;
use crate::{
    crd, error::Subject, fields, http::discovery::Document, kinds::Strategy, schema::SchemaRef,
    store::ResourceId,
};

/// One served version of a resource.
#[derive(Debug, Clone)]
pub(crate) struct Resource {
    pub(crate) group: Arc<str>,
    pub(crate) version: Arc<str>,
    pub(crate) plural: Arc<str>,
    pub(crate) singular: Arc<str>,
    pub(crate) kind: Arc<str>,
    pub(crate) list_kind: Arc<str>,
    pub(crate) namespaced: bool,
    pub(crate) verbs: Vec<Arc<str>>,
    pub(crate) short_names: Vec<Arc<str>>,
    pub(crate) categories: Vec<Arc<str>>,
    pub(crate) storage_hash: Option<Arc<str>>,
    pub(crate) subresources: Vec<Subresource>,
    pub(crate) schema: SchemaRef,
    pub(crate) origin: Origin,
    pub(crate) storage: Storage,
    /// How objects of this kind and version begin as JSON.
    pub(crate) head: Vec<u8>,
    /// An object that nobody has touched yet, made on first use.
    pub(crate) empty: OnceLock<Value>,
}

/// Where and in which form objects are kept.
#[derive(Debug, Clone)]
pub(crate) struct Storage {
    pub(crate) id: ResourceId,
    /// Built-in kinds that are kept in another version or group than this one.
    pub(crate) convert: Option<Convert>,
}

/// Changes an object between the form it is served in and the form it is kept in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Convert {
    pub(crate) to_storage: fn(&mut Value),
    pub(crate) from_storage: fn(&mut Value),
}

/// A part of an object with verbs of its own, such as `status` or `scale`.
#[derive(Debug, Clone)]
pub(crate) struct Subresource {
    pub(crate) name: Arc<str>,
    /// Group and version of the body's kind, if it is not that of the resource.
    pub(crate) group_version: Option<(Arc<str>, Arc<str>)>,
    pub(crate) kind: Arc<str>,
    pub(crate) verbs: Vec<Arc<str>>,
}

/// Where a resource comes from, and with that how it behaves.
#[derive(Debug, Clone)]
pub(crate) enum Origin {
    /// The catalogue.
    BuiltIn(&'static Strategy),
    /// A CustomResourceDefinition.
    Custom(Arc<Custom>),
}

impl Resource {
    /// `group/version`, or the version alone in the core group.
    pub(crate) fn api_version(&self) -> String {
        group_version(&self.group, &self.version)
    }

    /// What errors call it.
    pub(crate) fn subject(&self) -> Subject<'_> {
        Subject { group: &self.group, resource: &self.plural, kind: &self.kind }
    }

    pub(crate) fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|one| &**one == verb)
    }

    pub(crate) fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|one| &*one.name == name)
    }

    pub(crate) fn is_custom(&self) -> bool {
        matches!(self.origin, Origin::Custom(_))
    }

    /// Whether a webhook converts between its versions.
    pub(crate) fn has_converter(&self) -> bool {
        matches!(&self.origin, Origin::Custom(custom) if custom.conversion.is_some())
    }

    /// An object that nobody has touched yet: what decoding `{}` gives.
    pub(crate) fn empty(&self) -> &Value {
        self.empty.get_or_init(|| {
            let api_version = self.api_version();
            match &self.origin {
                Origin::BuiltIn(_) => fields::empty_object(&self.schema, &api_version, &self.kind),
                Origin::Custom(_) => json!({"apiVersion": api_version, "kind": &*self.kind}),
            }
        })
    }

    /// The name under which the store knows a selectable field.
    pub(crate) fn stored_field<'a>(&self, field: &'a str) -> Cow<'a, str> {
        if &*self.group != "events.k8s.io" {
            return Cow::Borrowed(field);
        }
        match field.strip_prefix("regarding.") {
            Some(part) => Cow::Owned(format!("involvedObject.{part}")),
            None if field == "reportingController" => Cow::Borrowed("reportingComponent"),
            None => Cow::Borrowed(field),
        }
    }
}

/// `group/version`, or the version alone in the core group.
pub(crate) fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// The versions of one API group, the preferred one first.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub(crate) name: Arc<str>,
    pub(crate) versions: Vec<Version>,
}

/// The resources of one group and version.
#[derive(Debug, Clone)]
pub(crate) struct Version {
    pub(crate) name: Arc<str>,
    pub(crate) resources: Vec<Arc<Resource>>,
}

/// Everything that is served, in the order of discovery.
#[derive(Debug, Clone)]
pub(crate) struct Registry {
    groups: Vec<Group>,
    /// Every CustomResourceDefinition by name, served or not.
    customs: BTreeMap<Arc<str>, Arc<Custom>>,
    /// The core group and the others as discovery shows them at once, made on first use.
    pub(crate) documents: [OnceLock<Document>; 2],
}

impl Registry {
    /// The catalogue alone, the same for all servers of the process.
    pub(crate) fn built_in() -> Arc<Self> {
        static BUILT_IN: LazyLock<Arc<Registry>> =
            LazyLock::new(|| Arc::new(Registry::with_customs(BTreeMap::new())));
        BUILT_IN.clone()
    }

    /// The catalogue and what definitions define, in groups of their own after it.
    pub(crate) fn with_customs(customs: BTreeMap<Arc<str>, Arc<Custom>>) -> Self {
        let resources: Vec<Arc<Resource>> = customs.values().flat_map(Custom::resources).collect();
        let mut registry = Self { groups: Vec::new(), customs, documents: Default::default() };
        for resource in catalogue::built_in() {
            registry.add(resource.clone());
        }
        let built_in = registry.groups.len();
        for resource in resources {
            registry.add(resource);
        }
        registry.groups[built_in..].sort_by(|a, b| a.name.cmp(&b.name));
        for group in &mut registry.groups[built_in..] {
            group.versions.sort_by(|a, b| crd::compare_versions(&b.name, &a.name));
        }
        registry
    }

    fn add(&mut self, resource: Arc<Resource>) {
        let at = self.groups.iter().position(|group| group.name == resource.group).unwrap_or_else(|| {
            self.groups.push(Group { name: resource.group.clone(), versions: Vec::new() });
            self.groups.len() - 1
        });
        let versions = &mut self.groups[at].versions;
        let at = versions.iter().position(|one| one.name == resource.version).unwrap_or_else(|| {
            versions.push(Version { name: resource.version.clone(), resources: Vec::new() });
            versions.len() - 1
        });
        versions[at].resources.push(resource);
    }

    /// Every CustomResourceDefinition by name, served or not.
    pub(crate) fn customs(&self) -> &BTreeMap<Arc<str>, Arc<Custom>> {
        &self.customs
    }

    /// All groups; the core group has an empty name and comes first.
    pub(crate) fn groups(&self) -> &[Group] {
        &self.groups
    }

    pub(crate) fn group(&self, name: &str) -> Option<&Group> {
        self.groups.iter().find(|group| &*group.name == name)
    }

    pub(crate) fn version(&self, group: &str, version: &str) -> Option<&Version> {
        self.group(group)?.versions.iter().find(|one| &*one.name == version)
    }

    pub(crate) fn resource(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.version(group, version)?.resources.iter().find(|one| &*one.plural == plural)
    }

    /// Whether there is such a kind at all, be it a resource or the body of a subresource.
    pub(crate) fn knows_kind(&self, group: &str, version: &str, kind: &str) -> bool {
        self.kind(group, version, kind).is_some() || types::Types::get().kind(group, version, kind).is_some()
    }

    /// The resource of a kind.
    pub(crate) fn kind(&self, group: &str, version: &str, kind: &str) -> Option<&Arc<Resource>> {
        self.version(group, version)?.resources.iter().find(|one| &*one.kind == kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_catalogue_knows_subresources_and_their_foreign_kinds() {
        let registry = Registry::built_in();
        let pods = registry.resource("", "v1", "pods").expect("pods are built in");
        let eviction = pods.subresource("eviction").expect("pods can be evicted");
        assert_eq!(eviction.group_version, Some(("policy".into(), "v1".into())));
        assert!(registry.groups().iter().any(|group| &*group.name == "apiregistration.k8s.io"));
    }
}
