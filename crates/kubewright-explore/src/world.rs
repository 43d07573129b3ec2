//! What an author's own demands look at: everything that is stored, at one moment.

use kubewright::{Kind, KindName};
use kubewright_apiserver::store::{ResourceId, Snapshot};

/// The objects of a cluster at one moment of a run, as they are stored: Events, for instance, as those of the core group.
pub struct World {
    snapshot: Snapshot,
    namespace: String,
}

impl World {
    pub(crate) fn new(snapshot: Snapshot, namespace: &str) -> Self {
        Self { snapshot, namespace: namespace.to_owned() }
    }

    /// An object of the namespace of the sample, or one outside of namespaces, if it is there.
    pub fn get<K: Kind>(&self, name: &str) -> Option<K> {
        let key = match KindName::of::<K>().is_namespaced {
            true => format!("{}/{name}", self.namespace),
            false => name.to_owned(),
        };
        let stored = self.snapshot.collection(&resource::<K>()).get(&key).cloned()?;
        serde_json::from_slice(&stored.bytes).ok()
    }

    /// All objects of a kind, by namespace and name.
    pub fn list<K: Kind>(&self) -> Vec<K> {
        let all = self.snapshot.collection(&resource::<K>());
        all.range("", "").filter_map(|stored| serde_json::from_slice(&stored.bytes).ok()).collect()
    }
}

fn resource<K: Kind>() -> ResourceId {
    ResourceId::new(&K::group(&()), &K::plural(&()))
}
