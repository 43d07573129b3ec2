//! The store: revisions, snapshots, watch history.
//!
//! Every write gets the next number of one global revision. Objects come in as bytes and go out as
//! the same bytes; readers take consistent views that cost nothing, watchers hold a cursor into a
//! bounded history, and a store forks at any point. In memory a commit is done when it is first
//! polled; with a data directory it is done when it is on disk, and nobody sees it earlier. The
//! store knows nothing of Kubernetes beyond keys, labels and selectable fields.

mod batch;
mod durable;
mod object;
mod state;
#[cfg(test)]
mod tests;
mod watcher;

use std::{fmt, path::Path, sync::Arc};

use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;

use self::{
    batch::{Batch, Staged},
    durable::Committer,
    state::State,
    watcher::Signals,
};
pub use self::{
    batch::{Change, CommitError, EncodeDelete, EncodePut, Expect, Write},
    durable::OpenError,
    object::{Attributes, Converted, Event, EventKind, ResourceId, Stored},
    state::{Collection, Compacted, RevisionError, Snapshot},
    watcher::Watcher,
};

/// How a store is set up.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// How much history each collection keeps.
    pub history: HistoryLimits,
    /// A data directory gets a new snapshot once its log has grown by this much, or by the size
    /// of the last snapshot if that is more.
    pub snapshot_after_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { history: HistoryLimits::default(), snapshot_after_bytes: 32 << 20 }
    }
}

/// How much history each collection keeps.
#[derive(Debug, Clone, Copy)]
pub struct HistoryLimits {
    /// The number of events.
    pub events: usize,
    /// The size of the objects in them. The watch lines kept beside may take as much again for each version that
    /// is watched.
    pub bytes: usize,
}

impl Default for HistoryLimits {
    fn default() -> Self {
        Self { events: 10_000, bytes: 16 << 20 }
    }
}

/// A store. Clones are handles to the same one.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    writer: Writer,
}

enum Writer {
    /// Writers take turns; what the turn hands on is the buffer objects are encoded in.
    Memory(Mutex<Vec<u8>>),
    Durable(Committer),
}

/// What readers, watchers and the writer share.
struct Shared {
    state: RwLock<State>,
    signals: Signals,
    /// The revision of `state`, for those who wait for one.
    revision: watch::Sender<u64>,
    limits: HistoryLimits,
}

impl Shared {
    fn new(state: State, limits: HistoryLimits) -> Arc<Self> {
        let revision = watch::Sender::new(state.revision);
        Arc::new(Self { state: RwLock::new(state), signals: Signals::default(), revision, limits })
    }

    fn publish(&self, staged: &[Staged]) {
        let mut state = self.state.write();
        for Staged { resource, event, .. } in staged {
            state.apply(resource, event.clone(), &self.limits);
        }
    }

    /// Wakes those whom `staged`, already published, concerns.
    fn wake(&self, staged: &[Staged]) {
        let Some(last) = staged.last() else { return };
        let reached = last.event.revision;
        self.revision.send_if_modified(|revision| {
            let is_news = reached > *revision;
            *revision = reached.max(*revision);
            is_news
        });
        self.signals.wake(staged);
    }
}

impl Default for Store {
    fn default() -> Self {
        Self::in_memory(Options::default())
    }
}

impl Store {
    /// An empty store that lives and dies with the process.
    pub fn in_memory(options: Options) -> Self {
        Self::of(State::new(), options.history)
    }

    /// The store in the directory `dir`, which is created if it is not there. Only one process at
    /// a time can have it open. History begins anew: revisions before the current one are gone.
    pub fn open(dir: &Path, options: Options) -> Result<Self, OpenError> {
        let (shared, committer) = durable::open(Arc::new(durable::RealDisk), dir, options)?;
        Ok(Self(Arc::new(Inner { shared, writer: Writer::Durable(committer) })))
    }

    fn of(state: State, limits: HistoryLimits) -> Self {
        let writer = Writer::Memory(Mutex::default());
        Self(Arc::new(Inner { shared: Shared::new(state, limits), writer }))
    }

    /// An independent store in memory with the same content, history and revision.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self::of(self.0.shared.state.read().clone(), self.0.shared.limits)
    }

    /// Does one write. A write once handed over happens even if the future is dropped.
    pub async fn commit(&self, write: Write) -> Result<Arc<Event>, CommitError> {
        let mut events = self.commit_all(vec![write]).await?;
        Ok(events.pop().expect("a write that succeeds gives an event"))
    }

    /// Does all of `writes`, in order, or none of them. Each gets a revision of its own; they
    /// become visible together. A later write sees the earlier ones.
    pub async fn commit_all(&self, writes: Vec<Write>) -> Result<Vec<Arc<Event>>, CommitError> {
        match &self.0.writer {
            Writer::Memory(turn) => self.commit_in_memory(turn, writes),
            Writer::Durable(committer) => committer.commit(writes).await,
        }
    }

    fn commit_in_memory(
        &self,
        turn: &Mutex<Vec<u8>>,
        writes: Vec<Write>,
    ) -> Result<Vec<Arc<Event>>, CommitError> {
        let shared = &self.0.shared;
        let mut scratch = turn.lock();
        let mut batch = Batch::new(&shared.state);
        batch.stage(writes, &mut scratch)?;
        shared.publish(batch.staged());
        drop(scratch);
        shared.wake(batch.staged());
        Ok(batch.staged().iter().map(|staged| staged.event.clone()).collect())
    }

    /// The revision of the last write.
    pub fn revision(&self) -> u64 {
        self.0.shared.state.read().revision
    }

    /// Waits until the store has reached `revision`.
    pub async fn wait_for_revision(&self, revision: u64) {
        let mut reached = self.0.shared.revision.subscribe();
        reached
            .wait_for(|reached| *reached >= revision)
            .await
            .expect("the sender lives as long as the store that is waited on");
    }

    /// A consistent view of everything.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.0.shared.state.read().clone())
    }

    /// The object under `key`.
    pub fn get(&self, resource: &ResourceId, key: &str) -> Option<Arc<Stored>> {
        self.0.shared.state.read().get(resource, key).cloned()
    }

    /// The objects of one resource.
    pub fn collection(&self, resource: &ResourceId) -> Collection {
        self.0.shared.state.read().collection(resource)
    }

    /// The objects of one resource as they were at `revision`, if history still holds it.
    pub fn collection_at(&self, resource: &ResourceId, revision: u64) -> Result<Collection, RevisionError> {
        self.snapshot().collection_at(resource, revision)
    }

    /// Follows `resource`: every event after `after_revision`, which may lie in the future.
    pub fn watch(&self, resource: &ResourceId, after_revision: u64) -> Result<Watcher, Compacted> {
        Watcher::new(&self.0.shared, resource, after_revision)
    }

    /// Gives up all history before `revision`. Watchers that have seen what there was go on.
    pub fn compact(&self, revision: u64) {
        self.0.shared.state.write().compact(revision);
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("revision", &self.revision()).finish_non_exhaustive()
    }
}
