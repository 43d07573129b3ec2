//! Ways to find objects other than by name: by their owner, and by whatever a function reads from them.

use std::collections::{BTreeMap, BTreeSet};

use crate::kind::{Key, Object};

/// Finds objects of a kind by values that a function reads from them.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use kubewright::Index;
///
/// /// Pods by the node they run on.
/// const BY_NODE: Index<Pod> =
///     Index::new("node", |pod| pod.spec.iter().filter_map(|spec| spec.node_name.clone()).collect());
/// ```
pub struct Index<K> {
    name: &'static str,
    values: fn(&K) -> Vec<String>,
}

impl<K> Index<K> {
    /// An index under a name of its own within the kind.
    pub const fn new(name: &'static str, values: fn(&K) -> Vec<String>) -> Self {
        Self { name, values }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }
}

impl<K> Clone for Index<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Index<K> {}

type Entries = BTreeMap<String, BTreeSet<Key>>;

/// The indexes of one store.
pub(super) struct Indexes<K> {
    owners: Entries,
    declared: BTreeMap<&'static str, (Index<K>, Entries)>,
}

impl<K> Default for Indexes<K> {
    fn default() -> Self {
        Self { owners: BTreeMap::new(), declared: BTreeMap::new() }
    }
}

impl<K: Object> Indexes<K> {
    /// Whether the index was not there before.
    pub(super) fn declare(&mut self, index: Index<K>) -> bool {
        let is_new = !self.declared.contains_key(index.name);
        if is_new {
            self.declared.insert(index.name, (index, BTreeMap::new()));
        }
        is_new
    }

    pub(super) fn fill(&mut self, index: &Index<K>, key: &Key, object: &K) {
        if let Some((_, entries)) = self.declared.get_mut(index.name) {
            insert(entries, (index.values)(object), key);
        }
    }

    pub(super) fn add(&mut self, key: &Key, object: &K) {
        insert(&mut self.owners, owners(object), key);
        for (index, entries) in self.declared.values_mut() {
            insert(entries, (index.values)(object), key);
        }
    }

    pub(super) fn remove(&mut self, key: &Key, object: &K) {
        remove(&mut self.owners, owners(object), key);
        for (index, entries) in self.declared.values_mut() {
            remove(entries, (index.values)(object), key);
        }
    }

    pub(super) fn owned_by(&self, owner: &str) -> impl Iterator<Item = &Key> {
        self.owners.get(owner).into_iter().flatten()
    }

    /// Nothing if the index was not declared.
    pub(super) fn get(&self, index: &Index<K>, value: &str) -> Option<impl Iterator<Item = &Key>> {
        Some(self.declared.get(index.name)?.1.get(value).into_iter().flatten())
    }
}

fn owners<K: Object>(object: &K) -> impl IntoIterator<Item = String> {
    object.meta().owner_references.iter().flatten().map(|owner| owner.uid.clone()).collect::<Vec<_>>()
}

fn insert(entries: &mut Entries, values: impl IntoIterator<Item = String>, key: &Key) {
    for value in values {
        entries.entry(value).or_default().insert(key.clone());
    }
}

fn remove(entries: &mut Entries, values: impl IntoIterator<Item = String>, key: &Key) {
    for value in values {
        if let Some(keys) = entries.get_mut(&value) {
            keys.remove(key);
            if keys.is_empty() {
                entries.remove(&value);
            }
        }
    }
}
