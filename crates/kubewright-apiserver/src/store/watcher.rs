//! Following a collection: a cursor into its history and a signal to wait on.
//!
//! A watcher queues nothing, so a slow one costs nothing; it finds out that it is too slow when
//! history no longer holds what it wants next. Only writes to its own collection wake it.

use std::{collections::BTreeMap, fmt, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::{
    Shared,
    batch::Staged,
    object::{Event, ResourceId},
    state::Compacted,
};

/// How many events one batch holds at most, so that who is far behind does not hold up writers.
const BATCH_EVENTS: usize = 512;

/// Follows one collection from a revision on.
pub struct Watcher {
    shared: Arc<Shared>,
    resource: ResourceId,
    /// All events of the collection up to this revision were handed out.
    cursor: u64,
    signal: watch::Receiver<()>,
}

impl Watcher {
    pub(super) fn new(
        shared: &Arc<Shared>,
        resource: &ResourceId,
        after_revision: u64,
    ) -> Result<Self, Compacted> {
        shared.state.read().check_kept(resource, after_revision)?;
        Ok(Self {
            shared: shared.clone(),
            resource: resource.clone(),
            cursor: after_revision,
            signal: shared.signals.subscribe(resource),
        })
    }

    /// Waits for the next events, in order and without a gap. Fails once some of them are gone
    /// from history. Dropping the future loses nothing.
    pub async fn next_batch(&mut self) -> Result<Vec<Arc<Event>>, Compacted> {
        loop {
            // Before reading: what is read now is no news afterwards, what comes later is.
            self.signal.borrow_and_update();
            let events = self.advance()?;
            if !events.is_empty() {
                return Ok(events);
            }
            self.signal.changed().await.expect("a signal stays while a watcher listens to it");
        }
    }

    /// The store's revision, if every event of this collection up to it was handed out: what a
    /// bookmark may promise.
    pub fn caught_up(&mut self) -> Option<u64> {
        let state = self.shared.state.read();
        if !matches!(state.events_after(&self.resource, self.cursor, 1), Ok(events) if events.is_empty()) {
            return None;
        }
        self.cursor = self.cursor.max(state.revision);
        Some(self.cursor)
    }

    fn advance(&mut self) -> Result<Vec<Arc<Event>>, Compacted> {
        let state = self.shared.state.read();
        let events = state.events_after(&self.resource, self.cursor, BATCH_EVENTS)?;
        self.cursor = match events.last() {
            Some(event) => event.revision,
            None => self.cursor.max(state.revision),
        };
        Ok(events)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.shared.signals.leave(&self.resource);
    }
}

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watcher").field("resource", &self.resource).field("cursor", &self.cursor).finish()
    }
}

/// The signals of the collections that somebody watches.
#[derive(Default)]
pub(super) struct Signals(Mutex<BTreeMap<ResourceId, watch::Sender<()>>>);

impl Signals {
    fn subscribe(&self, resource: &ResourceId) -> watch::Receiver<()> {
        self.0.lock().entry(resource.clone()).or_default().subscribe()
    }

    /// Called while the leaving watcher still holds its receiver.
    fn leave(&self, resource: &ResourceId) {
        let mut signals = self.0.lock();
        if signals.get(resource).is_some_and(|signal| signal.receiver_count() == 1) {
            signals.remove(resource);
        }
    }

    /// Wakes whoever watches a collection that `staged` wrote to.
    pub(super) fn wake(&self, staged: &[Staged]) {
        let mut woken = BTreeMap::new();
        {
            let signals = self.0.lock();
            if signals.is_empty() {
                return;
            }
            for Staged { resource, .. } in staged {
                if !woken.contains_key(resource)
                    && let Some(signal) = signals.get(resource)
                {
                    woken.insert(resource, signal.clone());
                }
            }
        }
        for signal in woken.into_values() {
            signal.send_replace(());
        }
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.0.lock().len()
    }
}
