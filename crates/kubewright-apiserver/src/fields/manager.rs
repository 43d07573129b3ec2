//! The field manager: who owns which field after a write. [`FieldManager::update`] follows any write that is
//! not an apply; [`FieldManager::apply`] is in its own file. Both leave `metadata.managedFields` of the result
//! as kube-apiserver would. Nothing here reads a store or a clock.

use std::{borrow::Cow, sync::LazyLock};

use jiff::Timestamp;
use serde_json::Value;

use super::{
    compare::{Comparison, compare},
    entries::{Entries, Entry, Operation, is_reset, managed_fields, set_managed_fields, take_managed_fields},
    node::{Duplicates, Node},
    set::{FieldSet, Match},
};
use crate::{clock, schema::SchemaRef};

/// The versions of one kind.
pub(crate) trait Versions {
    /// What an object looks like in an apiVersion; `None` for a version there is not (any more).
    fn schema(&self, api_version: &str) -> Option<SchemaRef>;

    /// The object in another version; borrowed if that needs no conversion.
    fn convert<'o>(&self, object: &'o Value, _api_version: &str) -> Result<Cow<'o, Value>, String> {
        Ok(Cow::Borrowed(object))
    }
}

/// A kind of one version.
impl Versions for (&str, SchemaRef) {
    fn schema(&self, api_version: &str) -> Option<SchemaRef> {
        (self.0 == api_version).then(|| self.1.clone())
    }
}

/// Fields that a request can't change and therefore can't own, such as `status` outside of `/status`.
#[derive(Debug, Clone, Default)]
pub(crate) enum ResetFields {
    /// All fields count.
    #[default]
    None,
    /// These do not, nor what is below them.
    Except(FieldSet),
    /// Only these do, and what is below them.
    Only(Vec<Vec<Match>>),
}

impl ResetFields {
    pub(super) fn filter(&self, set: &mut FieldSet) {
        match self {
            Self::None => {}
            Self::Except(fields) => set.remove_recursively(fields),
            Self::Only(patterns) => {
                let patterns: Vec<&[Match]> = patterns.iter().map(Vec::as_slice).collect();
                set.keep_only(&patterns);
            }
        }
    }
}

/// Keeps track of who owns which field of objects of one kind and version.
pub(crate) struct FieldManager<'a> {
    /// The versions of the kind.
    pub versions: &'a dyn Versions,
    /// The version of the request; live and new objects come in it.
    pub api_version: &'a str,
    /// The kind.
    pub kind: &'a str,
    /// The subresource that is written to; empty for the object itself.
    pub subresource: &'a str,
    /// What the request can't change.
    pub reset: &'a ResetFields,
    /// The object of this kind that nobody has touched yet, which a create updates: apiVersion and kind, and
    /// for built-in kinds what [`empty_object`](super::empty_object) says.
    pub empty: &'a Value,
    /// When the request happens.
    pub now: Timestamp,
}

/// What nobody owns: the identity of the object, and what only the server sets.
pub(super) static NEVER_OWNED: LazyLock<FieldSet> = LazyLock::new(|| {
    FieldSet::of(&[
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ])
});

static MANAGED_FIELDS: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of(&[&["metadata", "managedFields"]]));

impl FieldManager<'_> {
    /// Sets `metadata.managedFields` of an object that is about to replace `live` by anything but an apply.
    /// A create replaces [`FieldManager::empty`]. If the fields can't be followed, none are kept.
    pub(crate) fn update(&self, live: &Value, new: &mut Value, manager: &str) {
        let mut entries = self.entries_of_update(live, take_managed_fields(new));
        let is_create =
            live.get("metadata").and_then(|m| m.get("uid")).and_then(Value::as_str).is_none_or(str::is_empty);
        if entries.list.is_empty() && !is_create {
            return; // managers are followed again from the next apply on
        }
        if self.follow_update(live, new, &mut entries, manager).is_ok() {
            entries.cap_updaters();
            set_managed_fields(new, entries.encode());
        }
    }

    /// The entries a new object starts from: those it brings along if they make sense, else the live ones,
    /// because many clients do not know of managed fields and drop them.
    fn entries_of_update(&self, live: &Value, managed: Option<Value>) -> Entries {
        let of_live = || {
            let mut entries = Entries::decode(managed_fields(live)).unwrap_or_default();
            entries.remember(managed_fields(live).cloned().unwrap_or_default());
            entries
        };
        let Some(managed) = managed.filter(|_| self.subresource.is_empty()) else { return of_live() };
        if is_reset(&managed) {
            return Entries::default();
        }
        match Entries::decode(Some(&managed)) {
            Ok(mut entries) if !entries.list.is_empty() => {
                if managed_fields(live) == Some(&managed) {
                    entries.remember(managed);
                }
                entries
            }
            _ => of_live(),
        }
    }

    pub(super) fn follow_update(
        &self,
        live: &Value,
        new: &Value,
        entries: &mut Entries,
        manager: &str,
    ) -> Result<(), String> {
        let schema = self.schema()?;
        let node = Node::root(&schema);
        for (what, object) in [("new", new), ("live", live)] {
            node.validate(object, Duplicates::Allowed).map_err(|misfit| {
                format!("failed to convert {what} object ({}) to smd typed: {misfit}", describe(object))
            })?;
        }
        self.follow_schema(entries);
        let own = self.compare(node, live, new);
        let mut differences = Differences { manager: self, old: live, new, own, others: Vec::new() };
        differences.take_from(entries, |_, _| {})?;
        let mut taken = differences.own.changed;
        taken.remove(&NEVER_OWNED);
        if taken.is_empty() {
            return Ok(());
        }
        let entry = self.entry(manager, Operation::Update);
        let place = entries.position(&entry).unwrap_or_else(|| {
            entries.list.push(entry);
            entries.list.len() - 1
        });
        entries.list[place].take(taken, Some(clock::seconds(self.now)));
        Ok(())
    }

    pub(super) fn schema(&self) -> Result<SchemaRef, String> {
        self.versions
            .schema(self.api_version)
            .ok_or_else(|| format!("no corresponding type for {}", type_text((self.api_version, self.kind))))
    }

    /// The object in another version, of which `node` is the root.
    pub(super) fn convert<'o>(
        &self,
        object: &'o Value,
        api_version: &str,
        node: Node<'_>,
    ) -> Result<Cow<'o, Value>, String> {
        if type_of(object).0 == api_version {
            return Ok(Cow::Borrowed(object));
        }
        let converted = self.versions.convert(object, api_version)?;
        if let Cow::Owned(converted) = &converted {
            node.validate(converted, Duplicates::Refused).map_err(|misfit| misfit.to_string())?;
        }
        Ok(converted)
    }

    pub(super) fn entry(&self, manager: &str, operation: Operation) -> Entry {
        let manager = if manager.is_empty() { "unknown" } else { manager };
        Entry::new(manager, operation, self.api_version, self.subresource)
    }

    pub(super) fn compare(&self, node: Node<'_>, old: &Value, new: &Value) -> Comparison {
        let mut found = compare(node, old, new);
        self.reset.filter(&mut found.changed);
        self.reset.filter(&mut found.removed);
        found
    }

    /// Brings entries in line with schemas that changed since; drops those of versions that are gone. Tells
    /// whether that changed anything.
    pub(super) fn follow_schema(&self, entries: &mut Entries) -> bool {
        let mut changed = false;
        entries.list.retain_mut(|entry| {
            let schema = self.versions.schema(&entry.api_version);
            changed |= schema.as_ref().is_none_or(|schema| entry.follow_schema(Node::root(schema)));
            schema.is_some()
        });
        changed
    }
}

/// The differences between two objects in the versions that are asked for.
pub(super) struct Differences<'a> {
    pub(super) manager: &'a FieldManager<'a>,
    pub(super) old: &'a Value,
    pub(super) new: &'a Value,
    /// Those in the version of the request.
    pub(super) own: Comparison,
    pub(super) others: Vec<(String, Comparison)>,
}

impl Differences<'_> {
    /// Takes what changed or is gone from all entries, after showing each entry together with what changed.
    /// Tells whether anything was taken.
    pub(super) fn take_from(
        &mut self,
        entries: &mut Entries,
        mut before: impl FnMut(&Entry, &FieldSet),
    ) -> Result<bool, String> {
        let mut result = Ok(false);
        entries.list.retain_mut(|entry| match self.of(&entry.api_version) {
            Ok(comparison) => {
                before(entry, &comparison.changed);
                let taken = entry.give_up(&comparison.changed) | entry.give_up(&comparison.removed);
                if let Ok(any) = &mut result {
                    *any |= taken;
                }
                !entry.fields.is_empty()
            }
            Err(why) => {
                result = Err(why);
                true
            }
        });
        result
    }

    /// The differences in a version.
    fn of(&mut self, api_version: &str) -> Result<&Comparison, String> {
        if api_version == self.manager.api_version || self.is_nothing() {
            return Ok(&self.own);
        }
        let place = match self.others.iter().position(|(version, _)| version == api_version) {
            Some(place) => place,
            None => {
                let found = self.in_version(api_version)?;
                self.others.push((api_version.to_owned(), found));
                self.others.len() - 1
            }
        };
        Ok(&self.others[place].1)
    }

    /// Whether both objects are the same, but for who owns what.
    fn is_nothing(&self) -> bool {
        let is_empty = |fields: &FieldSet| {
            let mut fields = fields.clone();
            fields.remove_recursively(&MANAGED_FIELDS);
            fields.is_empty()
        };
        is_empty(&self.own.changed) && is_empty(&self.own.removed)
    }

    fn in_version(&self, api_version: &str) -> Result<Comparison, String> {
        let Some(schema) = self.manager.versions.schema(api_version) else {
            return Ok(Comparison::default());
        };
        let node = Node::root(&schema);
        let convert = |what: &str, object| {
            let converted = self.manager.convert(object, api_version, node);
            converted.map_err(|why| format!("failed to convert {what} object: {why}"))
        };
        // Both are asked for, so that they can be converted together.
        let (old, new) = (convert("old", self.old), convert("new", self.new));
        let (old, new) = (old?, new?);
        Ok(self.manager.compare(node, &old, &new))
    }
}

/// The object in a message: `namespace/name; group/version, Kind=kind`.
pub(super) fn describe(object: &Value) -> String {
    let of = |name: &str| {
        object.get("metadata").and_then(|m| m.get(name)).and_then(Value::as_str).unwrap_or_default()
    };
    format!("{}/{}; {}", of("namespace"), of("name"), type_text(type_of(object)))
}

/// apiVersion and kind of an object. Like kube-apiserver, an apiVersion that is none leaves both empty.
pub(super) fn type_of(object: &Value) -> (&str, &str) {
    let of = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    match of("apiVersion") {
        unreadable if unreadable.matches('/').count() > 1 => ("", ""),
        api_version => (api_version, of("kind")),
    }
}

/// A type in a message: `group/version, Kind=kind`.
pub(super) fn type_text((api_version, kind): (&str, &str)) -> String {
    let slash = if api_version.contains('/') { "" } else { "/" };
    format!("{slash}{api_version}, Kind={kind}")
}

/// The manager of a request that names none: its User-Agent up to the first `/`, printable characters only,
/// at most 128 bytes.
pub(crate) fn manager_of_user_agent(user_agent: &str) -> String {
    const LONGEST: usize = 128;
    let name = user_agent.split('/').next().unwrap_or_default();
    let mut out = String::new();
    for character in name.chars() {
        if character.is_control() || (character.is_whitespace() && character != ' ') {
            continue;
        }
        if out.len() + character.len_utf8() > LONGEST {
            break;
        }
        out.push(character);
    }
    out
}
