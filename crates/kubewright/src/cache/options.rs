//! What of a kind is watched, and in which form it is kept.

use std::any::TypeId;

use kube::core::SelectorExt as _;

use super::index::Index;
use crate::{
    kind::{Kind, KindName, Object},
    selector,
};

/// Which objects of a kind are watched, and in which form they are kept. Watches that want the same share one.
///
/// ```
/// use k8s_openapi::api::core::v1::Secret;
/// use kubewright::Watch;
///
/// let watch = Watch::<Secret>::new()
///     .labels("app.kubernetes.io/managed-by=example")
///     .transform(|secret| secret.data = None);
/// ```
pub struct Watch<K> {
    pub(super) selection: Selection<K>,
    pub(super) namespaces: Vec<String>,
    pub(super) indexes: Vec<Index<K>>,
}

/// One watch: what makes it another one.
pub(crate) struct Selection<K> {
    pub(super) kind: KindName,
    /// Nothing for all namespaces.
    pub(super) namespace: Option<String>,
    pub(super) labels: Option<String>,
    pub(super) fields: Option<String>,
    pub(super) keeps_managed_fields: bool,
    pub(super) transform: Option<fn(&mut K)>,
}

/// Tells watches apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WatchId {
    kind: KindName,
    form: TypeId,
    namespace: Option<String>,
    labels: Option<String>,
    fields: Option<String>,
    keeps_managed_fields: bool,
    transform: Option<usize>,
}

impl<K: Object> Watch<K> {
    /// All objects, without their managed fields.
    pub fn new() -> Self
    where
        K: Kind,
    {
        Self::of(KindName::of::<K>())
    }

    /// All objects of a kind that is only known at run time, for `DynamicObject` and its `PartialObjectMeta`.
    ///
    /// ```
    /// use kube::core::DynamicObject;
    /// use kubewright::{KindName, Watch};
    ///
    /// let kind = KindName {
    ///     group: "example.com".to_owned(),
    ///     version: "v1".to_owned(),
    ///     kind: "Gadget".to_owned(),
    ///     plural: "gadgets".to_owned(),
    ///     is_namespaced: true,
    /// };
    /// let gadgets = Watch::<DynamicObject>::of(kind).namespaces(["production"]);
    /// ```
    pub fn of(kind: KindName) -> Self {
        let selection = Selection {
            kind,
            namespace: None,
            labels: None,
            fields: None,
            keeps_managed_fields: false,
            transform: None,
        };
        Self { selection, namespaces: Vec::new(), indexes: Vec::new() }
    }

    /// Only objects whose labels match.
    #[must_use]
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.selection.labels = Some(selector.into());
        self
    }

    /// Only objects whose fields match, as far as the server can select by them.
    #[must_use]
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.selection.fields = Some(selector.into());
        self
    }

    /// Only objects of these namespaces, with one watch each.
    #[must_use]
    pub fn namespaces<N: Into<String>>(mut self, namespaces: impl IntoIterator<Item = N>) -> Self {
        self.namespaces = namespaces.into_iter().map(Into::into).collect();
        self
    }

    /// Changes every object before it is kept, for example to drop what nobody reads.
    #[must_use]
    pub fn transform(mut self, transform: fn(&mut K)) -> Self {
        self.selection.transform = Some(transform);
        self
    }

    /// Keeps `metadata.managedFields`, which is dropped otherwise.
    #[must_use]
    pub fn keep_managed_fields(mut self) -> Self {
        self.selection.keeps_managed_fields = true;
        self
    }

    /// Whether objects are kept as they are, apart from managed fields.
    pub(crate) fn keeps_everything(&self) -> bool {
        self.selection.transform.is_none()
    }

    /// Keeps an index.
    #[must_use]
    pub fn index(mut self, index: Index<K>) -> Self {
        self.indexes.push(index);
        self
    }
}

impl<K: Kind> Default for Watch<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K> Clone for Watch<K> {
    fn clone(&self) -> Self {
        Self {
            selection: self.selection.clone(),
            namespaces: self.namespaces.clone(),
            indexes: self.indexes.clone(),
        }
    }
}

impl<K> Clone for Selection<K> {
    fn clone(&self) -> Self {
        Self {
            kind: self.kind.clone(),
            namespace: self.namespace.clone(),
            labels: self.labels.clone(),
            fields: self.fields.clone(),
            keeps_managed_fields: self.keeps_managed_fields,
            transform: self.transform,
        }
    }
}

impl<K: Object> Selection<K> {
    pub(super) fn id(&self) -> WatchId {
        WatchId {
            kind: self.kind.clone(),
            form: TypeId::of::<K>(),
            namespace: self.namespace.clone(),
            labels: self.labels.clone(),
            fields: self.fields.clone(),
            keeps_managed_fields: self.keeps_managed_fields,
            transform: self.transform.map(|function| function as usize),
        }
    }

    /// Whether objects are kept as the watch reads them: without managed fields, and with all else.
    pub(super) fn is_as_read(&self) -> bool {
        self.transform.is_none() && !self.keeps_managed_fields
    }

    /// Whether an object is in the namespace and matches the labels.
    pub(super) fn admits(&self, object: &K) -> bool {
        let namespace = object.meta().namespace.as_deref();
        if self.namespace.is_some() && self.namespace.as_deref() != namespace {
            return false;
        }
        let Some(labels) = &self.labels else { return true };
        let empty = Default::default();
        selector::parse(labels)
            .is_ok_and(|selector| selector.matches(object.meta().labels.as_ref().unwrap_or(&empty)))
    }
}

impl WatchId {
    pub(super) fn is_of<K: Kind>(&self) -> bool {
        self.form == TypeId::of::<K>()
    }
}
