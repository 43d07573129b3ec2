//! What is known of the objects of one watch: the newest state of each, with indexes. Fed by the watch and by
//! the answers to the operator's own writes; whichever is newer counts, so that a write is seen at once and is
//! never unseen by a watch that lags behind.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parking_lot::RwLock;
use tokio::sync::watch;

use super::{
    index::{Index, Indexes},
    options::Selection,
};
use crate::kind::{Key, Kind, Seen, revision, uid};

/// What happened to one object.
#[derive(Debug)]
pub struct Change<K> {
    /// The object before; nothing if it is new.
    pub old: Option<Arc<K>>,
    /// The object now; nothing if it has gone.
    pub new: Option<Arc<K>>,
    /// Whether this is from the first sight of everything, rather than something that just happened.
    pub is_initial: bool,
}

impl<K> Clone for Change<K> {
    fn clone(&self) -> Self {
        Self { old: self.old.clone(), new: self.new.clone(), is_initial: self.is_initial }
    }
}

impl<K: Kind> Change<K> {
    /// The object as it was last seen.
    pub fn object(&self) -> &Arc<K> {
        self.new.as_ref().or(self.old.as_ref()).expect("a change has an object before or after it")
    }
}

type Subscriber<K> = Arc<dyn Fn(&Change<K>) + Send + Sync>;

/// How the watch that feeds a store is doing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Health {
    /// Whether everything was seen once.
    pub is_synced: bool,
    /// What keeps the watch from working, if something does.
    pub trouble: Option<String>,
}

/// The objects of one watch.
pub(crate) struct Store<K> {
    state: RwLock<State<K>>,
    subscribers: RwLock<BTreeMap<u64, Subscriber<K>>>,
    health: watch::Sender<Health>,
    selection: Selection<K>,
    /// The field manager whose applied fields are remembered.
    manager: Arc<str>,
}

struct State<K> {
    objects: BTreeMap<Key, Entry<K>>,
    indexes: Indexes<K>,
    /// Objects this operator has deleted, until the watch has seen it, too.
    buried: BTreeSet<String>,
    /// Counts full synchronisations, so that what one of them did not see is known to be gone.
    round: u32,
    is_syncing: bool,
    subscriptions: u64,
}

struct Entry<K> {
    object: Arc<K>,
    revision: u64,
    round: u32,
    applied: Option<Box<Applied>>,
}

/// What this operator has applied to an object, as the server remembers it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Applied {
    /// The fields it owns, in the form of `fieldsV1`.
    pub(crate) fields: Box<str>,
    /// The fingerprint of a configuration that, applied again, would change nothing.
    pub(crate) settled: Option<u64>,
}

impl<K: Kind> Store<K> {
    pub(super) fn new(selection: Selection<K>, manager: Arc<str>) -> Self {
        let state = State {
            objects: BTreeMap::new(),
            indexes: Indexes::default(),
            buried: BTreeSet::new(),
            round: 0,
            is_syncing: false,
            subscriptions: 0,
        };
        let health = watch::Sender::new(Health::default());
        Self { state: RwLock::new(state), subscribers: RwLock::default(), health, selection, manager }
    }

    pub(super) fn selection(&self) -> &Selection<K> {
        &self.selection
    }

    pub(crate) fn health(&self) -> watch::Receiver<Health> {
        self.health.subscribe()
    }

    pub(super) fn trouble(&self, trouble: Option<String>) {
        self.health.send_if_modified(|health| {
            let is_new = health.trouble != trouble;
            health.trouble = trouble;
            is_new
        });
    }

    /// Calls `subscriber` with everything that is there, and from then on with every change.
    pub(crate) fn subscribe(&self, subscriber: Subscriber<K>) -> u64 {
        let mut state = self.state.write();
        state.subscriptions += 1;
        let id = state.subscriptions;
        self.subscribers.write().insert(id, subscriber.clone());
        let present: Vec<Arc<K>> = state.objects.values().map(|entry| entry.object.clone()).collect();
        drop(state);
        for object in present {
            subscriber(&Change { old: None, new: Some(object), is_initial: true });
        }
        id
    }

    pub(crate) fn unsubscribe(&self, id: u64) {
        self.subscribers.write().remove(&id);
    }

    /// Keeps an index from now on. Declaring it twice is the same as once.
    pub(crate) fn index(&self, index: Index<K>) {
        let mut state = self.state.write();
        let state = &mut *state;
        if state.indexes.declare(index) {
            for (key, entry) in &state.objects {
                state.indexes.fill(&index, key, &entry.object);
            }
        }
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Seen<K>> {
        self.state.read().objects.get(key).map(|entry| Seen::new(entry.object.clone()))
    }

    /// What this operator has applied to an object, if the object is still the one with this UID.
    pub(crate) fn applied(&self, key: &Key) -> Option<(Seen<K>, Option<Applied>)> {
        let state = self.state.read();
        let entry = state.objects.get(key)?;
        Some((Seen::new(entry.object.clone()), entry.applied.as_deref().cloned()))
    }

    /// Remembers that applying a configuration with this fingerprint would change nothing, as long as the
    /// fields this operator owns stay what they are.
    pub(crate) fn settle(&self, key: &Key, revision: u64, fingerprint: u64) {
        if let Some(entry) = self.state.write().objects.get_mut(key)
            && entry.revision == revision
            && let Some(applied) = &mut entry.applied
        {
            applied.settled = Some(fingerprint);
        }
    }

    /// All objects, or those of one namespace, in order.
    pub(crate) fn list(&self, namespace: Option<&str>) -> Vec<Seen<K>> {
        let state = self.state.read();
        let seen = |entry: &Entry<K>| Seen::new(entry.object.clone());
        match namespace {
            None => state.objects.values().map(seen).collect(),
            Some(namespace) => state
                .objects
                .range(Key::first_of(namespace)..)
                .take_while(|(key, _)| key.namespace() == Some(namespace))
                .map(|(_, entry)| seen(entry))
                .collect(),
        }
    }

    /// The objects that `owner`, by its UID, owns.
    pub(crate) fn owned_by(&self, owner: &str) -> Vec<Seen<K>> {
        let state = self.state.read();
        state.resolve(state.indexes.owned_by(owner))
    }

    /// The objects that an index has under a value; an error if the index was not declared.
    pub(crate) fn indexed(&self, index: &Index<K>, value: &str) -> Option<Vec<Seen<K>>> {
        let state = self.state.read();
        Some(state.resolve(state.indexes.get(index, value)?))
    }

    pub(crate) fn len(&self) -> usize {
        self.state.read().objects.len()
    }

    /// Tells all subscribers of everything again, as if it were first seen.
    pub(crate) fn replay(&self) {
        for object in self.list(None) {
            self.tell(&Change {
                old: Some(object.clone().into_arc()),
                new: Some(object.into_arc()),
                is_initial: true,
            });
        }
    }

    /// A full synchronisation begins: what it does not see until it ends has gone.
    pub(super) fn begin(&self) {
        let mut state = self.state.write();
        state.round += 1;
        state.is_syncing = true;
    }

    /// A full synchronisation has ended at a revision.
    pub(super) fn finish(&self, revision: u64) {
        let mut state = self.state.write();
        let round = state.round;
        state.is_syncing = false;
        // What is newer than the list was written meanwhile; the watch will tell of it.
        let gone: Vec<Key> = state
            .objects
            .iter()
            .filter(|(_, entry)| entry.round != round && entry.revision <= revision)
            .map(|(key, _)| key.clone())
            .collect();
        let changes: Vec<Change<K>> = gone.iter().filter_map(|key| state.remove(key, false)).collect();
        drop(state);
        changes.iter().for_each(|change| self.tell(change));
        self.health.send_replace(Health { is_synced: true, trouble: None });
    }

    /// The watch, or an answer to an own write, has told of an object.
    pub(crate) fn observe(&self, mut object: K) {
        let revision = revision(&object);
        let applied = self.trim(&mut object);
        let key = Key::of(&object);
        let mut state = self.state.write();
        let round = state.round;
        if state.buried.contains(uid(&object)) {
            return;
        }
        let is_initial = state.is_syncing && !self.health.borrow().is_synced;
        let object = Arc::new(object);
        let change = match state.objects.get_mut(&key) {
            Some(entry) if entry.revision >= revision && uid(&*entry.object) == uid(&*object) => {
                entry.round = round;
                return;
            }
            Some(entry) => {
                let settled = applied
                    .as_ref()
                    .zip(entry.applied.as_ref())
                    .and_then(|(new, old)| (new.fields == old.fields).then_some(old.settled).flatten());
                let applied = applied.map(|fields| Box::new(Applied { settled, ..*fields }));
                let old =
                    std::mem::replace(entry, Entry { object: object.clone(), revision, round, applied });
                state.indexes.remove(&key, &old.object);
                Change { old: Some(old.object), new: Some(object.clone()), is_initial }
            }
            None => {
                state.objects.insert(key.clone(), Entry { object: object.clone(), revision, round, applied });
                Change { old: None, new: Some(object.clone()), is_initial }
            }
        };
        state.indexes.add(&key, &object);
        drop(state);
        self.tell(&change);
    }

    /// The watch has told that an object has gone.
    pub(super) fn vanish(&self, object: &K) {
        let mut state = self.state.write();
        state.buried.remove(uid(object));
        let key = Key::of(object);
        let is_same =
            |entry: &Entry<K>| uid(&*entry.object) == uid(object) || entry.revision <= revision(object);
        let change = match state.objects.get(&key).is_some_and(is_same) {
            true => state.remove(&key, false),
            false => None,
        };
        drop(state);
        if let Some(change) = change {
            self.tell(&change);
        }
    }

    /// This operator has deleted an object; the watch may still tell of it for a while.
    pub(crate) fn bury(&self, object: &K) {
        let mut state = self.state.write();
        let key = Key::of(object);
        let is_same = state.objects.get(&key).is_some_and(|entry| uid(&*entry.object) == uid(object));
        let change = if is_same { state.remove(&key, true) } else { None };
        drop(state);
        if let Some(change) = change {
            self.tell(&change);
        }
    }

    /// Whether objects like this one belong here. Fields can only be judged by the server.
    pub(crate) fn admits(&self, object: &K) -> bool {
        self.selection.admits(object)
            && (self.selection.fields.is_none() || self.get(&Key::of(object)).is_some())
    }

    /// Takes out what nobody reads, and keeps what this operator itself has applied.
    fn trim(&self, object: &mut K) -> Option<Box<Applied>> {
        let entries = match self.selection.keeps_managed_fields {
            true => object.meta().managed_fields.clone(),
            false => object.meta_mut().managed_fields.take(),
        };
        let own = entries.into_iter().flatten().find(|entry| {
            entry.manager.as_deref() == Some(&*self.manager)
                && entry.operation.as_deref() == Some("Apply")
                && entry.subresource.is_none()
        });
        if let Some(transform) = self.selection.transform {
            transform(object);
        }
        let fields = own?.fields_v1?.0.to_string().into();
        Some(Box::new(Applied { fields, settled: None }))
    }

    fn tell(&self, change: &Change<K>) {
        let subscribers: Vec<Subscriber<K>> = self.subscribers.read().values().cloned().collect();
        subscribers.iter().for_each(|subscriber| subscriber(change));
    }
}

impl<K: Kind> State<K> {
    fn remove(&mut self, key: &Key, buries: bool) -> Option<Change<K>> {
        let entry = self.objects.remove(key)?;
        self.indexes.remove(key, &entry.object);
        if buries {
            self.buried.insert(uid(&*entry.object).to_owned());
        }
        Some(Change { old: Some(entry.object), new: None, is_initial: false })
    }

    fn resolve<'k>(&self, keys: impl IntoIterator<Item = &'k Key>) -> Vec<Seen<K>> {
        keys.into_iter()
            .filter_map(|key| self.objects.get(key))
            .map(|entry| Seen::new(entry.object.clone()))
            .collect()
    }
}
