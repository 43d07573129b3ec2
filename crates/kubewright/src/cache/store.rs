//! What is known of the objects of one watch: the newest state of each, with indexes. Fed by the watch and by
//! the answers to the operator's own writes; whichever is newer counts, so that a write is seen at once and is
//! never unseen by a watch that lags behind.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;

use super::{
    index::{Index, Indexes},
    options::Selection,
    slot::Slot,
    told::{Outline, Told},
};
use crate::kind::{Key, Object, Seen, revision, uid};

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

impl<K: Object> Change<K> {
    /// The object as it was last seen.
    pub fn object(&self) -> &Arc<K> {
        self.new.as_ref().or(self.old.as_ref()).expect("a change has an object before or after it")
    }
}

/// What is told of every change.
pub(crate) type Subscriber<K> = Arc<dyn Fn(&Change<K>) + Send + Sync>;

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
    /// Held from a change until all are told of it, so that they are told in the order of the changes.
    telling: Mutex<()>,
    subscribers: RwLock<BTreeMap<u64, Subscriber<K>>>,
    health: watch::Sender<Health>,
    selection: Selection<K>,
    /// The field manager whose applied fields are remembered.
    manager: Arc<str>,
}

struct State<K> {
    objects: BTreeMap<Key, Entry<K>>,
    indexes: Indexes<K>,
    /// Objects, by UID, that left by an own write, until the watch has seen it, too.
    buried: BTreeMap<String, Grave>,
    /// The revision up to which the watch has told everything: an own write that is not newer is no news.
    reached: u64,
    /// Counts full synchronisations, so that what one of them did not see is known to be gone.
    round: u32,
    is_syncing: bool,
    subscriptions: u64,
}

struct Entry<K> {
    slot: Arc<Slot<K>>,
    revision: u64,
    /// The synchronisation that last saw it; zero if only an own write has told of it.
    round: u32,
    applied: Option<Box<Applied>>,
}

/// What keeps the watch, while it lags behind, from bringing an object back.
struct Grave {
    /// States up to this revision are past.
    until: u64,
    /// A synchronisation that began later knows of it.
    round: u32,
}

/// Whether nothing of an object has changed that people or operators ask for, as far as its metadata tells. That the same
/// fields are owned does not: what this operator wrote without hearing the answer changes only their values.
fn is_as_asked_for<K: Object>(old: &K, new: &K) -> bool {
    let (old, new) = (old.meta(), new.meta());
    old.generation.is_some()
        && old.generation == new.generation
        && old.labels == new.labels
        && old.annotations == new.annotations
        && old.owner_references == new.owner_references
        && old.finalizers == new.finalizers
}

/// What this operator has applied to an object, as the server remembers it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Applied {
    /// The fields it owns, in the form of `fieldsV1`.
    pub(crate) fields: Box<str>,
    /// The fingerprint of a configuration that, applied again, would change nothing.
    pub(crate) settled: Option<u64>,
}

impl<K: Object> Store<K> {
    pub(super) fn new(selection: Selection<K>, manager: Arc<str>) -> Self {
        let state = State {
            objects: BTreeMap::new(),
            indexes: Indexes::default(),
            buried: BTreeMap::new(),
            reached: 0,
            round: 0,
            is_syncing: false,
            subscriptions: 0,
        };
        let health = watch::Sender::new(Health::default());
        Self {
            state: RwLock::new(state),
            telling: Mutex::default(),
            subscribers: RwLock::default(),
            health,
            selection,
            manager,
        }
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
        let _telling = self.telling.lock();
        let mut state = self.state.write();
        state.subscriptions += 1;
        let id = state.subscriptions;
        self.subscribers.write().insert(id, subscriber.clone());
        let present: Vec<_> = state.objects.values().map(|entry| entry.slot.clone()).collect();
        drop(state);
        for slot in present {
            subscriber(&Change { old: None, new: Some(slot.get()), is_initial: true });
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
                state.indexes.fill(&index, key, &entry.slot);
            }
        }
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Seen<K>> {
        self.state.read().objects.get(key).map(Entry::seen)
    }

    /// An object, and what this operator has applied to it.
    pub(crate) fn applied(&self, key: &Key) -> Option<(Seen<K>, Option<Applied>)> {
        let state = self.state.read();
        let entry = state.objects.get(key)?;
        Some((entry.seen(), entry.applied.as_deref().cloned()))
    }

    /// Remembers that applying a configuration with this fingerprint would change nothing, as long as the
    /// fields this operator owns, and what is asked for in them, stay what they are.
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
        match namespace {
            None => state.objects.values().map(Entry::seen).collect(),
            Some(namespace) => state
                .objects
                .range(Key::first_of(namespace)..)
                .take_while(|(key, _)| key.namespace() == Some(namespace))
                .map(|(_, entry)| entry.seen())
                .collect(),
        }
    }

    /// The keys of all objects, in order.
    pub(crate) fn keys(&self) -> Vec<Key> {
        self.state.read().objects.keys().cloned().collect()
    }

    /// The objects that `owner`, by its UID, owns.
    pub(crate) fn owned_by(&self, owner: &str) -> Vec<Seen<K>> {
        self.state.read().indexes.owned_by(owner)
    }

    /// The objects that an index has under a value; an error if the index was not declared.
    pub(crate) fn indexed(&self, index: &Index<K>, value: &str) -> Option<Vec<Seen<K>>> {
        self.state.read().indexes.get(index, value)
    }

    pub(crate) fn len(&self) -> usize {
        self.state.read().objects.len()
    }

    /// A full synchronisation begins: what it does not see until it ends has gone.
    pub(super) fn begin(&self) {
        let mut state = self.state.write();
        state.round += 1;
        state.is_syncing = true;
    }

    /// A full synchronisation has ended at a revision.
    pub(super) fn finish(&self, revision: u64) {
        let _telling = self.telling.lock();
        let mut state = self.state.write();
        let round = state.round;
        state.is_syncing = false;
        state.reached = state.reached.max(revision);
        state.buried.retain(|_, grave| grave.round >= round);
        // What is newer than the list was written meanwhile; the watch will tell of it.
        let gone: Vec<Key> = state
            .objects
            .iter()
            .filter(|(_, entry)| entry.round != round && entry.revision <= revision)
            .map(|(key, _)| key.clone())
            .collect();
        let changes: Vec<Change<K>> = gone.iter().filter_map(|key| state.remove(key)).collect();
        drop(state);
        changes.iter().for_each(|change| self.tell(change));
        self.health.send_replace(Health { is_synced: true, trouble: None });
    }

    /// Whether the watch tells of an object what is known already, mostly by an own write. If so, it is noted, and
    /// need not be read.
    pub(super) fn recognises(&self, outline: &Outline<'_>) -> bool {
        let (key, revision) = (outline.key(), outline.revision());
        let mut state = self.state.write();
        let state = &mut *state;
        let Some(entry) = state.objects.get_mut(&key).filter(|entry| entry.revision >= revision) else {
            return false;
        };
        entry.round = state.round;
        if !state.is_syncing {
            state.reached = state.reached.max(revision);
        }
        true
    }

    /// The watch has told of an object, which was read from `text`.
    pub(super) fn observe(&self, told: Told<K>, text: Cow<'_, str>) {
        let _telling = self.telling.lock();
        let mut state = self.state.write();
        let round = state.round;
        if !state.is_syncing {
            state.reached = state.reached.max(revision(&*told.object));
        }
        let is_initial = state.is_syncing && !self.health.borrow().is_synced;
        // What was there before, and what nobody waits for, may never be looked at.
        let is_awaited = !is_initial && !self.subscribers.read().is_empty();
        let text = (!is_awaited && self.selection.is_as_read()).then_some(text);
        let change = self.put(&mut state, told, text, round, is_initial);
        drop(state);
        self.tell_if_any(change);
    }

    /// The watch has told that an object has gone, or is no longer one of those selected.
    pub(super) fn vanish(&self, object: &K) {
        let _telling = self.telling.lock();
        let mut state = self.state.write();
        let at = revision(object);
        if !state.is_syncing {
            state.reached = state.reached.max(at);
        }
        if state.buried.get(uid(object)).is_some_and(|grave| grave.until == u64::MAX || grave.until <= at) {
            state.buried.remove(uid(object));
        }
        let key = Key::of(object);
        // A newer state is from an own write that the watch has yet to tell of.
        let is_past = state.objects.get(&key).is_some_and(|entry| entry.revision <= at);
        let change = if is_past { state.remove(&key) } else { None };
        drop(state);
        self.tell_if_any(change);
    }

    /// An own write was answered with an object.
    pub(super) fn wrote(&self, told: &Told<K>) {
        let object = &*told.object;
        let _telling = self.telling.lock();
        let mut state = self.state.write();
        let (key, at) = (Key::of(object), revision(object));
        // The watch was faster, and may have told of a deletion since.
        if at <= state.reached {
            return;
        }
        let known = state.objects.get(&key).map(|entry| (entry.round, entry.revision));
        let change = if self.selection.admits(object) {
            // Only the server can judge fields, apart from the name.
            let name = || object.meta().name.as_deref().unwrap_or_default();
            let is_chosen = |fields: &String| {
                fields.strip_prefix("metadata.name=").is_some_and(|chosen| chosen == name())
            };
            if known.is_none() && !self.selection.fields.as_ref().is_none_or(is_chosen) {
                return;
            }
            // Not as seen by a synchronisation that is going on: it may have been deleted before that.
            let round = known.map_or(0, |(round, _)| round);
            self.put(&mut state, told.clone(), None, round, false)
        } else if known.is_some_and(|(_, revision)| revision < at) {
            state.bury(uid(object), at);
            state.remove(&key)
        } else {
            None
        };
        drop(state);
        self.tell_if_any(change);
    }

    /// This operator has deleted the object with this UID; the watch may still tell of it for a while.
    pub(super) fn bury(&self, key: &Key, dead: &str) {
        let _telling = self.telling.lock();
        let mut state = self.state.write();
        if state.objects.get(key).is_none_or(|entry| uid(&*entry.slot.get()) != dead) {
            return;
        }
        state.bury(dead, u64::MAX);
        let change = state.remove(key);
        drop(state);
        self.tell_if_any(change);
    }

    /// Keeps an object, as its text if that is given, if it is newer than what is known.
    fn put(
        &self,
        state: &mut State<K>,
        told: Told<K>,
        text: Option<Cow<'_, str>>,
        round: u32,
        is_initial: bool,
    ) -> Option<Change<K>> {
        let (key, revision) = (Key::of(&*told.object), revision(&*told.object));
        if state.buried.get(uid(&*told.object)).is_some_and(|grave| revision <= grave.until) {
            return None;
        }
        let applied = told.applied_by(&self.manager);
        let object = self.kept(told);
        let slot = || text.map_or_else(|| Slot::object(object.clone()), Slot::text);
        let old = match state.objects.get_mut(&key) {
            Some(entry) if entry.revision >= revision => {
                entry.round = round;
                return None;
            }
            Some(entry) => {
                let (before, old) = (entry.applied.take(), entry.slot.get());
                let applied = applied.map(|fields| match before {
                    Some(before) if before.fields == fields && is_as_asked_for(&*old, &*object) => before,
                    _ => Box::new(Applied { fields, settled: None }),
                });
                *entry = Entry { slot: slot(), revision, round, applied };
                Some(old)
            }
            None => {
                let applied = applied.map(|fields| Box::new(Applied { fields, settled: None }));
                state.objects.insert(key.clone(), Entry { slot: slot(), revision, round, applied });
                None
            }
        };
        let slot = &state.objects[&key].slot;
        state.indexes.change(&key, old.as_deref(), Some((&*object, slot)));
        Some(Change { old, new: Some(object), is_initial })
    }

    /// An object in the form that is wanted here.
    fn kept(&self, mut told: Told<K>) -> Arc<K> {
        if self.selection.keeps_managed_fields {
            Arc::make_mut(&mut told.object).meta_mut().managed_fields = told.managed_fields();
        }
        if let Some(transform) = self.selection.transform {
            transform(Arc::make_mut(&mut told.object));
        }
        told.object
    }

    fn tell_if_any(&self, change: Option<Change<K>>) {
        if let Some(change) = change {
            self.tell(&change);
        }
    }

    /// A predicate that panics costs its own controller this one change, not everybody the watch.
    fn tell(&self, change: &Change<K>) {
        let subscribers: Vec<Subscriber<K>> = self.subscribers.read().values().cloned().collect();
        for subscriber in subscribers {
            if catch_unwind(AssertUnwindSafe(|| subscriber(change))).is_err() {
                let object = Key::of(&**change.object());
                tracing::error!(kind = %self.selection.kind, %object, "a predicate panicked: the change is left out");
            }
        }
    }
}

impl<K: Object> State<K> {
    fn bury(&mut self, uid: &str, until: u64) {
        self.buried.insert(uid.to_owned(), Grave { until, round: self.round });
    }

    fn remove(&mut self, key: &Key) -> Option<Change<K>> {
        let old = self.objects.remove(key)?.slot.get();
        self.indexes.change(key, Some(&*old), None);
        Some(Change { old: Some(old), new: None, is_initial: false })
    }
}

impl<K: Object> Entry<K> {
    fn seen(&self) -> Seen<K> {
        Seen::new(self.slot.get())
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;
    use crate::cache::Watch;

    fn store(watch: Watch<ConfigMap>) -> Store<ConfigMap> {
        Store::new(watch.selection, "manager".into())
    }

    fn map(uid: &str, revision: u64) -> Told<ConfigMap> {
        coloured(uid, revision, "none")
    }

    fn coloured(uid: &str, revision: u64, colour: &str) -> Told<ConfigMap> {
        let metadata = json!({
            "name": "map", "uid": uid, "resourceVersion": revision.to_string(), "labels": {"colour": colour},
        });
        Told::read(&json!({"metadata": metadata}).to_string()).unwrap()
    }

    fn observe(store: &Store<ConfigMap>, told: &Told<ConfigMap>) {
        let text = serde_json::to_string(&*told.object).unwrap();
        store.observe(told.clone(), text.into());
    }

    /// A store that has seen everything up to a revision.
    fn synced(watch: Watch<ConfigMap>, revision: u64) -> Store<ConfigMap> {
        let store = store(watch);
        store.begin();
        store.finish(revision);
        store
    }

    fn known(store: &Store<ConfigMap>) -> Option<u64> {
        store.get(&Key::cluster("map")).map(|map| revision(&*map))
    }

    #[test]
    fn an_answer_that_comes_after_the_watch_has_told_of_the_deletion_brings_nothing_back() {
        let store = synced(Watch::new(), 1);
        observe(&store, &map("a", 5));
        store.vanish(&map("a", 6).object);
        store.wrote(&map("a", 5));
        assert_eq!(known(&store), None);
    }

    #[test]
    fn what_was_written_and_deleted_while_everything_is_read_is_gone_at_its_end() {
        let store = synced(Watch::new(), 1);
        store.begin();
        store.wrote(&map("a", 5));
        assert_eq!(known(&store), Some(5));
        store.finish(6);
        assert_eq!(known(&store), None, "the list, which is newer, does not have it");
        store.begin();
        store.wrote(&map("b", 9));
        store.finish(8);
        assert_eq!(known(&store), Some(9), "the list is older");
    }

    #[test]
    fn what_is_known_is_recognised_and_counts_as_seen() {
        let text = |revision: u64| {
            json!({"metadata": {"name": "map", "resourceVersion": revision.to_string()}}).to_string()
        };
        let store = synced(Watch::new(), 1);
        assert!(!store.recognises(&Outline::of(&text(5)).unwrap()));
        store.wrote(&map("a", 5));
        assert!(!store.recognises(&Outline::of(&text(6)).unwrap()));
        store.begin();
        assert!(store.recognises(&Outline::of(&text(5)).unwrap()));
        store.finish(7);
        assert_eq!(known(&store), Some(5), "the list has it");
        assert!(store.recognises(&Outline::of(&text(4)).unwrap()), "that was before");
    }

    #[test]
    fn an_older_object_of_the_same_name_does_not_replace_a_newer_one() {
        let store = synced(Watch::new(), 1);
        store.wrote(&map("new", 9));
        observe(&store, &map("old", 5));
        store.vanish(&map("old", 6).object);
        assert_eq!(known(&store), Some(9));
    }

    #[test]
    fn a_deleted_object_stays_gone_until_the_watch_knows_and_is_then_forgotten() {
        let store = synced(Watch::new(), 1);
        observe(&store, &map("a", 5));
        store.bury(&Key::cluster("map"), "another");
        assert_eq!(known(&store), Some(5));
        store.bury(&Key::cluster("map"), "a");
        observe(&store, &map("a", 6));
        assert_eq!(known(&store), None);
        store.vanish(&map("a", 7).object);
        assert!(store.state.read().buried.is_empty());
        observe(&store, &map("b", 8));
        store.bury(&Key::cluster("map"), "b");
        store.begin();
        store.finish(20);
        assert!(store.state.read().buried.is_empty(), "the event was missed, the list knows");
    }

    #[test]
    fn an_own_write_leaves_a_selection_at_once_and_may_come_back_later() {
        let store = synced(Watch::new().labels("colour=red"), 1);
        observe(&store, &coloured("a", 5, "red"));
        store.wrote(&coloured("a", 7, "blue"));
        assert_eq!(known(&store), None);
        observe(&store, &coloured("a", 6, "red"));
        assert_eq!(known(&store), None, "that was before");
        store.wrote(&coloured("a", 9, "red"));
        store.vanish(&coloured("a", 7, "blue").object);
        assert_eq!(known(&store), Some(9), "that was before, too");
    }
    #[test]
    fn what_was_there_before_is_one_object_for_everybody_once_it_is_wanted() {
        const BY_COLOUR: Index<ConfigMap> = Index::new("colour", |map| {
            map.metadata.labels.iter().flatten().map(|(_, v)| v.clone()).collect()
        });
        let store = store(Watch::new().index(BY_COLOUR));
        store.index(BY_COLOUR);
        store.begin();
        observe(&store, &coloured("a", 5, "red"));
        store.finish(5);
        let first = store.get(&Key::cluster("map")).unwrap().into_arc();
        assert_eq!(*first, *coloured("a", 5, "red").object);
        let again = [
            store.get(&Key::cluster("map")).unwrap(),
            store.applied(&Key::cluster("map")).unwrap().0,
            store.list(None).remove(0),
            store.indexed(&BY_COLOUR, "red").unwrap().remove(0),
        ];
        assert!(again.into_iter().all(|seen| Arc::ptr_eq(&seen.into_arc(), &first)));

        let before = Arc::new(Mutex::new(Vec::new()));
        let told = before.clone();
        store.subscribe(Arc::new(move |change| told.lock().push(change.old.clone())));
        observe(&store, &coloured("a", 6, "blue"));
        assert!(matches!(&before.lock()[..], [None, Some(old)] if Arc::ptr_eq(old, &first)));
        assert!(store.indexed(&BY_COLOUR, "red").unwrap().is_empty());
        assert_eq!(known(&store), Some(6));
    }
}
