//! Kinds, keys and objects: what the rest of the crate talks about.

use std::{fmt, ops::Deref, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    Resource,
    core::{ClusterResourceScope, NamespaceResourceScope},
};
use serde::{Serialize, de::DeserializeOwned};

/// What can be watched: any [`Kind`], and `DynamicObject` for kinds that are only known at run time.
pub trait Object:
    Resource + Serialize + DeserializeOwned + Clone + fmt::Debug + Send + Sync + 'static
{
}

impl<K> Object for K where
    K: Resource + Serialize + DeserializeOwned + Clone + fmt::Debug + Send + Sync + 'static
{
}

/// A kind of object that is known when the operator is compiled: those of k8s-openapi, those with
/// `#[derive(CustomResource)]`, and `PartialObjectMeta` of any of them.
pub trait Kind: Object + Resource<DynamicType = (), Scope: Scope> {}

impl<K> Kind for K where K: Object + Resource<DynamicType = (), Scope: Scope> {}

/// Where objects of a kind live: in namespaces or in the cluster as a whole.
pub trait Scope: 'static {
    /// Whether objects live in namespaces.
    const NAMESPACED: bool;
}

impl Scope for NamespaceResourceScope {
    const NAMESPACED: bool = true;
}

impl Scope for ClusterResourceScope {
    const NAMESPACED: bool = false;
}

/// Which scope may own which: an owner must be visible from where its children are.
#[diagnostic::on_unimplemented(
    message = "an object in a namespace can't own one outside of namespaces",
    note = "the garbage collector would delete the child; make the owner a cluster-scoped kind, or clean up in a finalizer"
)]
pub trait MayOwn<Child> {}

impl MayOwn<NamespaceResourceScope> for NamespaceResourceScope {}
impl MayOwn<NamespaceResourceScope> for ClusterResourceScope {}
impl MayOwn<ClusterResourceScope> for ClusterResourceScope {}

/// Whether objects of a kind live in namespaces.
pub(crate) fn is_namespaced<K: Kind>() -> bool {
    <K::Scope as Scope>::NAMESPACED
}

/// A kind as people and rules name it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct KindName {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version, as in `v1`.
    pub version: String,
    /// The kind, as in `Deployment`.
    pub kind: String,
    /// The resource, as in `deployments`.
    pub plural: String,
    /// Whether its objects live in namespaces.
    pub is_namespaced: bool,
}

impl KindName {
    /// The name of a kind.
    pub fn of<K: Kind>() -> Self {
        Self {
            group: K::group(&()).into_owned(),
            version: K::version(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
            plural: K::plural(&()).into_owned(),
            is_namespaced: is_namespaced::<K>(),
        }
    }

    /// Where the server has objects of the kind, in all namespaces or in one.
    pub(crate) fn path(&self, namespace: Option<&str>) -> String {
        let root = if self.group.is_empty() { "/api" } else { "/apis" };
        let version = self.api_version();
        match namespace {
            Some(namespace) => format!("{root}/{version}/namespaces/{namespace}/{}", self.plural),
            None => format!("{root}/{version}/{}", self.plural),
        }
    }

    /// Group and version in one, as objects carry them.
    pub fn api_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }
}

impl fmt::Display for KindName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group.as_str() {
            "" => f.write_str(&self.plural),
            group => write!(f, "{}.{group}", self.plural),
        }
    }
}

/// The namespace and the name of an object. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

impl Key {
    /// The key of an object in a namespace.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self(format!("{namespace}/{name}").into())
    }

    /// The key of an object outside of namespaces.
    pub fn cluster(name: &str) -> Self {
        Self::new("", name)
    }

    /// The key of `object`.
    pub fn of<K: Resource>(object: &K) -> Self {
        let meta = object.meta();
        Self::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
    }

    /// The namespace; nothing for objects outside of namespaces.
    pub fn namespace(&self) -> Option<&str> {
        Some(self.parts().0).filter(|namespace| !namespace.is_empty())
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.parts().1
    }

    fn parts(&self) -> (&str, &str) {
        self.0.split_once('/').unwrap_or_default()
    }

    /// All keys of a namespace come after this and before any other.
    pub(crate) fn first_of(namespace: &str) -> Self {
        Self::new(namespace, "")
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.trim_start_matches('/'))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An object as the API server has told it: from the cache, or as an answer. It can't be made up, so what is
/// seen can be deleted by its UID. Cheap to clone.
pub struct Seen<K>(Arc<K>);

impl<K> Seen<K> {
    pub(crate) fn new(object: Arc<K>) -> Self {
        Self(object)
    }

    /// The object itself, still shared.
    pub fn into_arc(self) -> Arc<K> {
        self.0
    }
}

impl<K> Clone for Seen<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K> Deref for Seen<K> {
    type Target = K;

    fn deref(&self) -> &K {
        &self.0
    }
}

impl<K: fmt::Debug> fmt::Debug for Seen<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The UID of an object; empty if it was never on a server.
pub(crate) fn uid<K: Resource>(object: &K) -> &str {
    object.meta().uid.as_deref().unwrap_or_default()
}

/// The revision of an object. Revisions of one resource can be compared; zero if it has none.
pub(crate) fn revision<K: Resource>(object: &K) -> u64 {
    revision_of(object.meta().resource_version.as_deref())
}

/// A revision, as objects carry it.
pub(crate) fn revision_of(text: Option<&str>) -> u64 {
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The reference by which `owner` owns a child as its controller.
pub(crate) fn owner_reference<K: Kind>(owner: &K) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: owner.meta().name.clone().unwrap_or_default(),
        uid: uid(owner).to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_namespace_are_neighbours() {
        let mut keys: Vec<Key> = [("a", "x"), ("a-b", "x"), ("a", "z"), ("b", "x"), ("", "c"), ("a0", "x")]
            .map(|(ns, name)| Key::new(ns, name))
            .into();
        keys.sort();
        let of_a: Vec<usize> = (0..keys.len()).filter(|at| keys[*at].namespace() == Some("a")).collect();
        assert_eq!(of_a.len(), 2);
        assert_eq!(of_a[0] + 1, of_a[1]);
        assert!(Key::first_of("a") < keys[of_a[0]] && Key::first_of("a") > keys[of_a[0] - 1]);
    }

    #[test]
    fn a_key_shows_as_people_write_it() {
        assert_eq!(Key::new("default", "web").to_string(), "default/web");
        assert_eq!(Key::cluster("node-1").to_string(), "node-1");
        assert_eq!(Key::cluster("node-1").namespace(), None);
    }
}
