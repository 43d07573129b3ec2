//! What the collector makes of a change that it is told of: work, and the knowledge of who has gone.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kubewright::{
    Change, Key, Object,
    queue::{Priority, Queue},
};
use parking_lot::Mutex;

use super::SETTLING;

/// Holds an object until its dependents are deleted.
pub(super) const FOREGROUND: &str = "foregroundDeletion";
/// Holds an object until its dependents no longer name it.
pub(super) const ORPHAN: &str = "orphan";
/// The resource of definitions, whose changes bring kinds and take them away.
const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";
/// How many of those who have gone are remembered.
const REMEMBERED: usize = 500;

/// Something to be looked at.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Work {
    /// Which kinds there are.
    Discover,
    /// An object, by its resource: whether its owners are there, and whether it waits for its dependents.
    Check(Arc<str>, Key),
    /// An owner that may have waited for a dependent.
    Owner { api_version: String, kind: String, key: Key },
    /// All that an object, by its UID, has owned.
    Bereaved(String),
}

/// What was seen.
pub(super) struct Sight {
    queue: Queue<Work>,
    gone: Mutex<Gone>,
}

/// The UIDs of the last objects that have gone. None of them ever comes back.
#[derive(Default)]
struct Gone {
    known: BTreeSet<String>,
    order: VecDeque<String>,
}

impl Sight {
    pub(super) fn new(queue: Queue<Work>) -> Self {
        Self { queue, gone: Mutex::default() }
    }

    pub(super) fn queue(&self) -> &Queue<Work> {
        &self.queue
    }

    /// Whether the object with this UID was seen to go, not long ago.
    pub(super) fn has_gone(&self, uid: &str) -> bool {
        self.gone.lock().known.contains(uid)
    }

    /// Takes note of a change.
    pub(super) fn saw<K: Object>(&self, resource: &Arc<str>, change: &Change<K>) {
        let (old, new) = (change.old.as_deref().map(K::meta), change.new.as_deref().map(K::meta));
        let is_same = old.map(|old| &old.uid) == new.map(|new| &new.uid);
        if let Some(old) = old.filter(|_| !is_same) {
            self.bury(old.uid.clone().unwrap_or_default());
        }
        for owner in old.iter().flat_map(|old| released(old, new.filter(|_| is_same))) {
            self.queue.add(owner, Priority::Normal);
        }
        if let Some(new) = new.filter(|new| concerns(old.filter(|_| is_same), new)) {
            let priority = if change.is_initial { Priority::Low } else { Priority::Normal };
            self.queue.add(Work::Check(resource.clone(), key_of(new)), priority);
        }
        if &**resource == DEFINITIONS && !change.is_initial {
            self.queue.add_after(Work::Discover, SETTLING, Priority::High);
        }
    }

    fn bury(&self, uid: String) {
        self.queue.add(Work::Bereaved(uid.clone()), Priority::Normal);
        let mut gone = self.gone.lock();
        if gone.known.insert(uid.clone()) {
            gone.order.push_back(uid);
        }
        if gone.order.len() > REMEMBERED
            && let Some(oldest) = gone.order.pop_front()
        {
            gone.known.remove(&oldest);
        }
    }
}

/// Whether a new state of an object is to be looked at: its owners are others, or it begins to wait.
fn concerns(old: Option<&ObjectMeta>, new: &ObjectMeta) -> bool {
    let owners = |meta: &ObjectMeta| meta.owner_references.clone().unwrap_or_default();
    let has_others = !owners(new).is_empty() && old.is_none_or(|old| owners(old) != owners(new));
    has_others
        || [FOREGROUND, ORPHAN]
            .into_iter()
            .any(|finalizer| is_held(new, finalizer) && !old.is_some_and(|old| is_held(old, finalizer)))
}

/// The owners that an object no longer keeps from going.
fn released<'m>(old: &'m ObjectMeta, new: Option<&'m ObjectMeta>) -> impl Iterator<Item = Work> + use<'m> {
    let still = move |owner: &OwnerReference| {
        new.is_some_and(|new| references(new).any(|one| one.uid == owner.uid && blocks(one)))
    };
    references(old).filter(|owner| blocks(owner)).filter(move |owner| !still(owner)).map(|owner| {
        Work::Owner {
            api_version: owner.api_version.clone(),
            kind: owner.kind.clone(),
            key: Key::new(old.namespace.as_deref().unwrap_or_default(), &owner.name),
        }
    })
}

pub(super) fn references(meta: &ObjectMeta) -> impl Iterator<Item = &OwnerReference> {
    meta.owner_references.iter().flatten()
}

/// Whether an owner must not go before its dependent.
pub(super) fn blocks(reference: &OwnerReference) -> bool {
    reference.block_owner_deletion == Some(true)
}

/// Whether an object is being deleted and waits for a finalizer.
pub(super) fn is_held(meta: &ObjectMeta, finalizer: &str) -> bool {
    meta.deletion_timestamp.is_some() && has_finalizer(meta, finalizer)
}

pub(super) fn has_finalizer(meta: &ObjectMeta, finalizer: &str) -> bool {
    meta.finalizers.iter().flatten().any(|one| one == finalizer)
}

pub(super) fn key_of(meta: &ObjectMeta) -> Key {
    Key::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
}
