//! What the store keeps: an object as the bytes it is served as, and what happened to it.
//!
//! Everything here is immutable and shared: lists, watchers, history and forks hold the same
//! allocation. Nothing here parses the bytes.

use std::{
    borrow::Borrow,
    fmt,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

/// Names one collection: a plural resource name and its API group, such as `deployments.apps`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceId(Arc<str>);

impl ResourceId {
    /// The collection of `plural` in `group`; the group is empty for core.
    pub fn new(group: &str, plural: &str) -> Self {
        if group.is_empty() { Self(plural.into()) } else { Self(format!("{plural}.{group}").into()) }
    }

    pub(super) fn parse(text: &str) -> Self {
        Self(text.into())
    }

    /// The plural resource name.
    pub fn plural(&self) -> &str {
        self.0.split_once('.').map_or(&self.0, |(plural, _)| plural)
    }

    /// The API group; empty for core.
    pub fn group(&self) -> &str {
        self.0.split_once('.').map_or("", |(_, group)| group)
    }

    /// `plural.group`, or `plural` alone for core.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for ResourceId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ResourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A small, shared, sorted map of strings: labels, or the fields a selector may name.
/// Empty costs nothing.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Attributes(Option<Arc<[Attribute]>>);

type Attribute = (Box<str>, Box<str>);

impl Attributes {
    /// The value of `name`.
    pub fn get(&self, name: &str) -> Option<&str> {
        let entries = self.entries();
        let index = entries.binary_search_by(|(key, _)| (**key).cmp(name)).ok()?;
        Some(&entries[index].1)
    }

    /// All names and values, ordered by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.entries().iter().map(|(name, value)| (&**name, &**value))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    fn entries(&self) -> &[Attribute] {
        self.0.as_deref().unwrap_or_default()
    }

    /// The same content, in the allocation of `other` if that holds the same.
    pub(super) fn shared_with(self, other: &Self) -> Self {
        if self == *other { other.clone() } else { self }
    }
}

impl<K: Into<Box<str>>, V: Into<Box<str>>> FromIterator<(K, V)> for Attributes {
    /// Of a name given twice the first value counts.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut entries: Vec<Attribute> =
            pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        entries.dedup_by(|later, earlier| later.0 == earlier.0);
        Self(if entries.is_empty() { None } else { Some(entries.into()) })
    }
}

impl fmt::Debug for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// One object at one revision.
#[derive(Debug, PartialEq, Eq)]
pub struct Stored {
    /// `namespace/name`, or `name` for what has no namespace.
    pub key: Arc<str>,
    /// The revision of the write that made it so; the bytes carry the same as resourceVersion.
    pub revision: u64,
    /// The object as it is served.
    pub bytes: Bytes,
    /// Its labels.
    pub labels: Attributes,
    /// What field selectors may ask for beyond namespace and name.
    pub fields: Attributes,
}

impl Stored {
    /// The namespace; empty for what has none.
    pub fn namespace(&self) -> &str {
        self.key.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.key.split_once('/').map_or(&self.key, |(_, name)| name)
    }
}

/// What a write did to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// It was not there before.
    Added,
    /// It was there before, and differs.
    Modified,
    /// It is gone.
    Deleted,
}

/// One write, as history keeps it and watchers receive it.
#[derive(Debug)]
pub struct Event {
    /// The revision of the write.
    pub revision: u64,
    /// What it did.
    pub kind: EventKind,
    /// The object after the write; for a deletion the last object under the deletion's revision.
    pub object: Arc<Stored>,
    /// The object before the write.
    pub previous: Option<Arc<Stored>>,
    /// The watch line of this event, serialised by whoever needs it first and shared by all.
    pub encoded: OnceLock<Bytes>,
    /// The watch lines of this event in other versions.
    pub converted: Converted,
}

/// Watch lines by the name of their version, each made by whoever needs it first and shared by all.
#[derive(Debug, Default)]
pub struct Converted(Mutex<Vec<(Box<str>, Line)>>);

type Line = Arc<OnceCell<Bytes>>;

impl Converted {
    /// The line in a version, or its place.
    pub(crate) fn of(&self, version: &str) -> Line {
        let mut lines = self.0.lock();
        if let Some((_, line)) = lines.iter().find(|(known, _)| **known == *version) {
            return line.clone();
        }
        let line = Arc::default();
        lines.push((version.into(), Arc::clone(&line)));
        line
    }
}

impl Event {
    /// What is there after the write.
    pub fn current(&self) -> Option<&Arc<Stored>> {
        (self.kind != EventKind::Deleted).then_some(&self.object)
    }
}
