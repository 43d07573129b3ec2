//! Writes on their way in: checked against what is there, given revisions, encoded.
//!
//! A batch reads the published state and its own earlier writes; it publishes nothing. Whoever
//! runs it makes sure that no other batch is under way on the same store.

use std::{collections::BTreeMap, fmt, io, ops::Range, sync::Arc, sync::OnceLock};

use bytes::Bytes;
use parking_lot::RwLock;

use super::{
    object::{Attributes, Converted, Event, EventKind, ResourceId, Stored},
    state::State,
};

/// One write to one object.
#[derive(Debug)]
pub struct Write {
    /// The collection.
    pub resource: ResourceId,
    /// `namespace/name`, or `name` for what has no namespace.
    pub key: Arc<str>,
    /// What must be there for the write to happen.
    pub expect: Expect,
    /// What to do.
    pub change: Change,
}

/// What must be there for a write to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Nothing.
    Absent,
    /// The object as of this revision.
    Revision(u64),
    /// The object, whatever its revision.
    Existing,
}

/// Appends an object for the revision it is given.
pub type EncodePut = Box<dyn FnOnce(u64, &mut Vec<u8>) + Send>;

/// Appends the last state of an object that is being removed, for the revision it is given.
pub type EncodeDelete = Box<dyn FnOnce(u64, &Stored, &mut Vec<u8>) + Send>;

/// What a write does. The encoders append the serialised object, with the revision they are given
/// as its resourceVersion. They run while the store is closed to other writers: they must be
/// short and must not write to the store.
pub enum Change {
    /// Stores an object.
    Put {
        /// Its labels.
        labels: Attributes,
        /// What field selectors may ask for beyond namespace and name.
        fields: Attributes,
        /// Appends the object.
        encode: EncodePut,
    },
    /// Removes the object.
    Delete {
        /// Appends the object that is being removed, for the event that tells of it.
        encode: EncodeDelete,
    },
}

impl Change {
    /// Stores what `encode` appends for the revision it is given.
    pub fn put(
        labels: Attributes,
        fields: Attributes,
        encode: impl FnOnce(u64, &mut Vec<u8>) + Send + 'static,
    ) -> Self {
        Self::Put { labels, fields, encode: Box::new(encode) }
    }

    /// Removes the object; `encode` appends its last state for the revision it is given.
    pub fn delete(encode: impl FnOnce(u64, &Stored, &mut Vec<u8>) + Send + 'static) -> Self {
        Self::Delete { encode: Box::new(encode) }
    }
}

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Put { .. } => "Put",
            Self::Delete { .. } => "Delete",
        })
    }
}

/// Why a write did not happen.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CommitError {
    /// What is there is not what was expected.
    #[error("{resource:?} {key}: expected {expect:?}, found {}", Found(.current))]
    Conflict {
        /// The collection.
        resource: ResourceId,
        /// The key.
        key: Arc<str>,
        /// What was expected.
        expect: Expect,
        /// What is there.
        current: Option<Arc<Stored>>,
    },
    /// The disk refused it. Nothing of it is visible.
    #[error("the write could not be stored: {0}")]
    Storage(Arc<io::Error>),
}

struct Found<'a>(&'a Option<Arc<Stored>>);

impl fmt::Display for Found<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(object) => write!(f, "revision {}", object.revision),
            None => f.write_str("nothing"),
        }
    }
}

/// A write that passed its check and has its revision.
pub(super) struct Staged {
    pub(super) resource: ResourceId,
    pub(super) event: Arc<Event>,
    /// The earlier write of this batch to the same object.
    shadows: Option<usize>,
}

/// Writes that become visible together.
pub(super) struct Batch<'a> {
    state: &'a RwLock<State>,
    base: u64,
    staged: Vec<Staged>,
    /// The last write in `staged` to each object.
    newest: BTreeMap<(ResourceId, Arc<str>), usize>,
}

impl<'a> Batch<'a> {
    pub(super) fn new(state: &'a RwLock<State>) -> Self {
        let base = state.read().revision;
        Self { state, base, staged: Vec::new(), newest: BTreeMap::new() }
    }

    pub(super) fn staged(&self) -> &[Staged] {
        &self.staged
    }

    /// Takes in all of `writes` or, if one of them can't be, none.
    pub(super) fn stage(
        &mut self,
        writes: Vec<Write>,
        scratch: &mut Vec<u8>,
    ) -> Result<Range<usize>, CommitError> {
        let start = self.staged.len();
        for write in writes {
            if let Err(error) = self.stage_one(write, scratch) {
                self.roll_back(start);
                return Err(error);
            }
        }
        Ok(start..self.staged.len())
    }

    fn stage_one(&mut self, write: Write, scratch: &mut Vec<u8>) -> Result<(), CommitError> {
        let Write { resource, key, expect, change } = write;
        let slot = (resource, key);
        let shadows = self.newest.get(&slot).copied();
        let previous = match shadows {
            Some(index) => self.staged[index].event.current().cloned(),
            None => self.state.read().get(&slot.0, &slot.1).cloned(),
        };
        let holds = match expect {
            Expect::Absent => previous.is_none(),
            Expect::Revision(revision) => previous.as_ref().is_some_and(|old| old.revision == revision),
            Expect::Existing => previous.is_some(),
        };
        let revision = self.base + self.staged.len() as u64 + 1;
        scratch.clear();
        let (kind, labels, fields) = match (change, &previous) {
            (Change::Put { labels, fields, encode }, None) if holds => {
                encode(revision, scratch);
                (EventKind::Added, labels, fields)
            }
            (Change::Put { labels, fields, encode }, Some(old)) if holds => {
                encode(revision, scratch);
                (EventKind::Modified, labels.shared_with(&old.labels), fields.shared_with(&old.fields))
            }
            (Change::Delete { encode }, Some(old)) if holds => {
                encode(revision, old, scratch);
                (EventKind::Deleted, old.labels.clone(), old.fields.clone())
            }
            _ => {
                let (resource, key) = slot;
                return Err(CommitError::Conflict { resource, key, expect, current: previous });
            }
        };
        let key = previous.as_ref().map_or_else(|| slot.1.clone(), |old| old.key.clone());
        let object = Stored { key, revision, bytes: Bytes::copy_from_slice(scratch), labels, fields };
        let event = Event {
            revision,
            kind,
            object: Arc::new(object),
            previous,
            encoded: OnceLock::new(),
            converted: Converted::default(),
        };
        self.staged.push(Staged { resource: slot.0.clone(), event: Arc::new(event), shadows });
        self.newest.insert(slot, self.staged.len() - 1);
        Ok(())
    }

    fn roll_back(&mut self, length: usize) {
        for Staged { resource, event, shadows } in self.staged.drain(length..).rev() {
            let slot = (resource, event.object.key.clone());
            match shadows {
                Some(index) => self.newest.insert(slot, index),
                None => self.newest.remove(&slot),
            };
        }
    }
}
