//! Ways to find objects other than by name: by their owner, and by whatever a function reads from them.

use std::{collections::BTreeMap, sync::Arc};

use super::slot::Slot;
use crate::kind::{Key, Object, Seen};

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

/// The objects that have a value, for each value.
type Entries<K> = BTreeMap<String, BTreeMap<Key, Arc<Slot<K>>>>;

/// A state of an object, and where it is kept.
pub(super) type Kept<'a, K> = (&'a K, &'a Arc<Slot<K>>);

/// The indexes of one store.
pub(super) struct Indexes<K> {
    owners: Entries<K>,
    declared: BTreeMap<&'static str, (Index<K>, Entries<K>)>,
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

    pub(super) fn fill(&mut self, index: &Index<K>, key: &Key, slot: &Arc<Slot<K>>) {
        if let Some((_, entries)) = self.declared.get_mut(index.name) {
            change(entries, index.values, key, None, Some((&*slot.get(), slot)));
        }
    }

    /// An object has come, changed or gone.
    pub(super) fn change(&mut self, key: &Key, old: Option<&K>, new: Option<Kept<'_, K>>) {
        change(&mut self.owners, owners, key, old, new);
        for (index, entries) in self.declared.values_mut() {
            change(entries, index.values, key, old, new);
        }
    }

    pub(super) fn owned_by(&self, owner: &str) -> Vec<Seen<K>> {
        objects(&self.owners, owner)
    }

    /// Nothing if the index was not declared.
    pub(super) fn get(&self, index: &Index<K>, value: &str) -> Option<Vec<Seen<K>>> {
        Some(objects(&self.declared.get(index.name)?.1, value))
    }
}

fn owners<K: Object>(object: &K) -> Vec<String> {
    object.meta().owner_references.iter().flatten().map(|owner| owner.uid.clone()).collect()
}

fn objects<K: Object>(entries: &Entries<K>, value: &str) -> Vec<Seen<K>> {
    entries.get(value).into_iter().flat_map(BTreeMap::values).map(|slot| Seen::new(slot.get())).collect()
}

fn change<K>(
    entries: &mut Entries<K>,
    values: fn(&K) -> Vec<String>,
    key: &Key,
    old: Option<&K>,
    new: Option<Kept<'_, K>>,
) {
    let values = |object: Option<&K>| object.map(values).unwrap_or_default();
    let (before, after) = (values(old), values(new.map(|(object, _)| object)));
    for value in before.iter().filter(|value| !after.contains(value)) {
        if let Some(objects) = entries.get_mut(value) {
            objects.remove(key);
            if objects.is_empty() {
                entries.remove(value);
            }
        }
    }
    let Some((_, slot)) = new else { return };
    for value in after {
        entries.entry(value).or_default().insert(key.clone(), slot.clone());
    }
}
