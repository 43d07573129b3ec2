//! The whole content of a store at one revision, built of persistent maps: a clone costs nothing
//! and shares everything, and a change copies only what a living clone still shares.
//!
//! Events flow in through `apply`, strictly in order of revision. Nothing here locks or waits.

use std::{ops::Bound, sync::Arc};

use imbl::{OrdMap, Vector};

use super::{
    HistoryLimits,
    object::{Event, ResourceId, Stored},
};

/// The revision of a store that nothing was written to. Not 0, which clients read as "any".
const FIRST_REVISION: u64 = 1;

type Objects = OrdMap<Arc<str>, Arc<Stored>>;

/// The asked-for revision is older than what history still holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the revision is compacted; the oldest one kept is {oldest}")]
pub struct Compacted {
    /// The oldest revision that can still be asked for.
    pub oldest: u64,
}

/// Why a collection can't be shown at a revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RevisionError {
    /// History does not reach back that far.
    #[error(transparent)]
    Compacted(#[from] Compacted),
    /// The store has not reached it yet.
    #[error("the revision is not reached yet; the current one is {current}")]
    Future {
        /// The revision the store is at.
        current: u64,
    },
}

/// The objects of one resource at one revision, ordered by key. A clone costs nothing; while one
/// is held, writes copy what they change.
#[derive(Debug, Clone)]
pub struct Collection {
    revision: u64,
    objects: Objects,
}

impl Collection {
    /// The revision it shows.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// The object under `key`.
    pub fn get(&self, key: &str) -> Option<&Arc<Stored>> {
        self.objects.get(key)
    }

    /// The objects whose key begins with `prefix`, in order, from the key `start` on (inclusive;
    /// empty for all). A namespace is the prefix `namespace/`.
    pub fn range<'a>(&'a self, prefix: &'a str, start: &str) -> impl Iterator<Item = &'a Arc<Stored>> {
        let bounds = (Bound::Included(prefix.max(start)), Bound::Unbounded);
        self.objects
            .range::<_, str>(bounds)
            .take_while(move |(key, _)| key.starts_with(prefix))
            .map(|(_, object)| object)
    }

    /// How many objects [`range`](Self::range) would give.
    pub fn count(&self, prefix: &str, start: &str) -> usize {
        if prefix.is_empty() && start.is_empty() { self.len() } else { self.range(prefix, start).count() }
    }
}

/// A consistent view of everything at one revision. Hold it no longer than needed: while it
/// lives, writes copy what they change.
#[derive(Debug, Clone)]
pub struct Snapshot(pub(super) State);

impl Snapshot {
    /// The revision it shows.
    pub fn revision(&self) -> u64 {
        self.0.revision
    }

    /// The resources that hold or held an object, in order.
    pub fn resources(&self) -> impl Iterator<Item = &ResourceId> {
        self.0.tables.keys()
    }

    /// The revision of the last change of one resource; 0 if there never was one.
    pub fn changed(&self, resource: &ResourceId) -> u64 {
        self.0.changed(resource)
    }

    /// The objects of one resource.
    pub fn collection(&self, resource: &ResourceId) -> Collection {
        self.0.collection(resource)
    }

    /// The objects of one resource as they were at an older `revision` that history still holds.
    pub fn collection_at(&self, resource: &ResourceId, revision: u64) -> Result<Collection, RevisionError> {
        self.0.collection_at(resource, revision)
    }
}

/// Everything a store holds.
#[derive(Debug, Clone)]
pub(super) struct State {
    pub(super) revision: u64,
    /// Older revisions were given up for all resources; a table may reach back less far.
    compacted: u64,
    tables: OrdMap<ResourceId, Arc<Table>>,
}

/// One resource: its objects and what happened to them of late.
#[derive(Debug, Clone, Default)]
struct Table {
    objects: Objects,
    history: Vector<Arc<Event>>,
    /// The size of all objects in `history`.
    history_bytes: usize,
    /// The revision of the newest event that is no longer in `history`.
    lost: u64,
}

impl State {
    pub(super) fn new() -> Self {
        Self { revision: FIRST_REVISION, compacted: FIRST_REVISION, tables: OrdMap::new() }
    }

    pub(super) fn get(&self, resource: &ResourceId, key: &str) -> Option<&Arc<Stored>> {
        self.tables.get(resource)?.objects.get(key)
    }

    fn changed(&self, resource: &ResourceId) -> u64 {
        let Some(table) = self.tables.get(resource) else { return 0 };
        table.history.last().map_or(table.lost, |event| event.revision)
    }

    pub(super) fn collection(&self, resource: &ResourceId) -> Collection {
        let objects = self.tables.get(resource).map_or_else(Objects::new, |table| table.objects.clone());
        Collection { revision: self.revision, objects }
    }

    pub(super) fn collection_at(
        &self,
        resource: &ResourceId,
        revision: u64,
    ) -> Result<Collection, RevisionError> {
        if revision > self.revision {
            return Err(RevisionError::Future { current: self.revision });
        }
        self.check_kept(resource, revision)?;
        let Some(table) = self.tables.get(resource) else {
            return Ok(Collection { revision, objects: Objects::new() });
        };
        let mut objects = table.objects.clone();
        for event in table.history.iter().rev().take_while(|event| event.revision > revision) {
            match &event.previous {
                Some(previous) => objects.insert(previous.key.clone(), previous.clone()),
                None => objects.remove(&event.object.key),
            };
        }
        Ok(Collection { revision, objects })
    }

    /// Whether everything that happened to `resource` after `revision` is still known.
    pub(super) fn check_kept(&self, resource: &ResourceId, revision: u64) -> Result<(), Compacted> {
        let lost = self.tables.get(resource).map_or(0, |table| table.lost);
        let oldest = self.compacted.max(lost);
        if revision < oldest { Err(Compacted { oldest }) } else { Ok(()) }
    }

    /// The first `limit` events of `resource` after `revision`. Fails only if one of them is
    /// gone: who has seen all events of an idle resource does not suffer from a compaction.
    pub(super) fn events_after(
        &self,
        resource: &ResourceId,
        revision: u64,
        limit: usize,
    ) -> Result<Vec<Arc<Event>>, Compacted> {
        let Some(table) = self.tables.get(resource) else { return Ok(Vec::new()) };
        if revision < table.lost {
            return Err(Compacted { oldest: self.compacted.max(table.lost) });
        }
        let first = table.first_after(revision);
        let end = table.history.len().min(first.saturating_add(limit));
        Ok((first..end).map(|index| table.history[index].clone()).collect())
    }

    /// Takes in the next event.
    pub(super) fn apply(&mut self, resource: &ResourceId, event: Arc<Event>, limits: &HistoryLimits) {
        self.revision = event.revision;
        let table = self.table_mut(resource.as_str());
        match event.current() {
            Some(object) => table.objects.insert(object.key.clone(), object.clone()),
            None => table.objects.remove(&event.object.key),
        };
        table.history_bytes += event.object.bytes.len();
        table.history.push_back(event);
        while table.history.len() > limits.events || table.history_bytes > limits.bytes {
            table.lose_oldest();
        }
    }

    /// Gives up all history before `revision`.
    pub(super) fn compact(&mut self, revision: u64) {
        let revision = revision.min(self.revision);
        self.compacted = self.compacted.max(revision);
        let is_old = |table: &Table| table.history.front().is_some_and(|event| event.revision <= revision);
        let affected: Vec<ResourceId> =
            self.tables.iter().filter(|(_, table)| is_old(table)).map(|(id, _)| id.clone()).collect();
        for resource in affected {
            let table = self.table_mut(resource.as_str());
            while is_old(table) {
                table.lose_oldest();
            }
        }
    }

    /// Takes in an object from disk, without history.
    pub(super) fn restore(&mut self, resource: &str, object: Stored) {
        self.table_mut(resource).objects.insert(object.key.clone(), Arc::new(object));
    }

    /// Takes in a deletion from disk, without history.
    pub(super) fn restore_deleted(&mut self, resource: &str, key: &str) {
        self.table_mut(resource).objects.remove(key);
    }

    /// Ends a restore: history begins at `revision`.
    pub(super) fn restored_to(&mut self, revision: u64) {
        self.revision = revision;
        self.compacted = revision;
    }

    /// Every object, ordered by resource and key.
    pub(super) fn objects(&self) -> impl Iterator<Item = (&ResourceId, &Stored)> {
        self.tables.iter().flat_map(|(id, table)| table.objects.values().map(move |object| (id, &**object)))
    }

    fn table_mut(&mut self, resource: &str) -> &mut Table {
        if !self.tables.contains_key(resource) {
            self.tables.insert(ResourceId::parse(resource), Arc::default());
        }
        Arc::make_mut(self.tables.get_mut(resource).expect("the table is there or was just made"))
    }
}

impl Table {
    /// The index of the first event after `revision`. Gallops from the end, because nearly
    /// everyone who asks is only a few events behind.
    fn first_after(&self, revision: u64) -> usize {
        let is_after = |index: usize| self.history[index].revision > revision;
        let (mut low, mut high, mut step) = (self.history.len(), self.history.len(), 1);
        while low > 0 && is_after(low - 1) {
            high = low - 1;
            low = low.saturating_sub(step);
            step *= 2;
        }
        while low < high {
            let middle = low.midpoint(high);
            if is_after(middle) { high = middle } else { low = middle + 1 }
        }
        low
    }

    fn lose_oldest(&mut self) {
        if let Some(event) = self.history.pop_front() {
            self.lost = event.revision;
            self.history_bytes -= event.object.bytes.len();
        }
    }
}
