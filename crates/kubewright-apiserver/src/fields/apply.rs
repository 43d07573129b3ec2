//! Server-side apply: the applied configuration is merged into the live object, what the applier gave up is
//! taken out, and whatever that changes of others' fields is a conflict. The live object is never touched.

use serde_json::Value;

use super::{
    FieldManager, FieldSet,
    compare::claims,
    conflict::{Conflict, refusal},
    entries::{Entries, Entry, Operation, managed_fields, set_managed_fields},
    last_applied,
    manager::{Differences, NEVER_OWNED, describe, type_of, type_text},
    merge::{merge, remove},
    node::{Duplicates, Node},
    path::equal,
};
use crate::{clock, error::ApiError};

/// Why an apply was not possible.
enum Refused {
    Conflicts(Vec<Conflict>),
    Error(ApiError),
}

impl From<ApiError> for Refused {
    fn from(error: ApiError) -> Self {
        Self::Error(error)
    }
}

/// What an apply comes to.
struct Applied {
    /// The merged object, unless it equals the live one.
    object: Option<Value>,
    managed: Entries,
    /// Neither the object nor its owners change.
    is_noop: bool,
}

impl FieldManager<'_> {
    /// The live object with an applied configuration merged in; `None` if that changes nothing at all, not
    /// even who owns what. For a create, `live` is [`FieldManager::empty`]. The result is to be decoded,
    /// defaulted and validated like any other request body.
    pub(crate) fn apply(
        &self,
        live: &Value,
        config: &Value,
        manager: &str,
        force: bool,
    ) -> Result<Option<Value>, ApiError> {
        let kind = type_of(config);
        if kind != (self.api_version, self.kind) {
            return Err(ApiError::bad_request(format!("invalid object type: {}", type_text(kind))));
        }
        if managed_fields(config)
            .and_then(Value::as_array)
            .is_some_and(|entries| entries.iter().all(Value::is_object))
        {
            return Err(ApiError::bad_request("metadata.managedFields must be nil"));
        }

        let is_kubectl = manager == "kubectl";
        let applied = match self.merge_applied(live, config, manager, force) {
            Err(Refused::Conflicts(conflicts)) if is_kubectl => {
                match self.conflicts_with_others(live, conflicts) {
                    None => self.merge_applied(live, config, manager, true),
                    Some(conflicts) => Err(Refused::Conflicts(conflicts)),
                }
            }
            other => other,
        };
        let applied = applied.map_err(|refused| match refused {
            Refused::Conflicts(conflicts) => refusal(conflicts),
            Refused::Error(error) => error,
        })?;

        let follows_annotation = is_kubectl && last_applied::is_present(live);
        if applied.is_noop && !follows_annotation {
            return Ok(None);
        }
        let mut object = applied.object.unwrap_or_else(|| live.clone());
        set_managed_fields(&mut object, applied.managed.encode());
        if is_kubectl && last_applied::is_present(&object) {
            last_applied::refresh(&mut object, config);
        }
        Ok((object != *live).then_some(object))
    }

    fn merge_applied(
        &self,
        live: &Value,
        config: &Value,
        manager: &str,
        force: bool,
    ) -> Result<Applied, Refused> {
        let unexplained =
            |what: &'static str| move |why: String| ApiError::unexplained(format!("{what}{why}"));
        let mut entries = Entries::decode(managed_fields(live))
            .map_err(unexplained("failed to decode managed fields: "))?;
        let mut is_noop = !entries.list.is_empty();
        if entries.list.is_empty() {
            self.follow_update(self.empty, live, &mut entries, "before-first-apply")
                .map_err(unexplained("failed to create manager for existing fields: "))?;
        }
        let schema = self.schema().map_err(unexplained(""))?;
        let node = Node::root(&schema);
        for (what, object, duplicates) in
            [("patch", config, Duplicates::Refused), ("live", live, Duplicates::Allowed)]
        {
            node.validate(object, duplicates).map_err(|misfit| {
                ApiError::unexplained(format!(
                    "failed to create typed {what} object ({}): {misfit}",
                    describe(object)
                ))
            })?;
        }
        is_noop &= !self.follow_schema(&mut entries);

        let mut own = self.entry(manager, Operation::Apply);
        let mut claimed = claims(node, config);
        self.reset.filter(&mut claimed);
        let last = entries.position(&own).map(|place| entries.list.swap_remove(place));

        let mut merged = merge(node, live, config);
        if let Some(last) = &last {
            let gives_up = last.api_version != own.api_version || !claimed.contains(&last.fields);
            if gives_up {
                let owned = entries.list.iter().map(|entry| (entry.api_version.as_str(), &entry.fields));
                let owned = owned.chain([(self.api_version, &claimed)]);
                let whole = merged.unwrap_or_else(|| live.clone());
                let pruned =
                    self.prune(whole, last, owned).map_err(unexplained("failed to prune fields: "))?;
                merged = Some(pruned);
            }
        }
        let merged = merged.filter(|merged| !equal(live, merged));

        let new = merged.as_ref().unwrap_or(live);
        let found = merged.as_ref().map(|new| self.compare(node, live, new)).unwrap_or_default();
        let mut differences = Differences { manager: self, old: live, new, own: found, others: Vec::new() };
        let mut conflicts = Vec::new();
        let taken_from_others = differences.take_from(&mut entries, |entry, changed| {
            let paths = entry.fields.intersection(changed);
            if !paths.is_empty() {
                conflicts.push(Conflict::new(entry, paths));
            }
        });
        is_noop &= !taken_from_others.map_err(unexplained(""))?;
        if !force && !conflicts.is_empty() {
            return Err(Refused::Conflicts(conflicts));
        }

        claimed.remove(&NEVER_OWNED);
        is_noop &= merged.is_none()
            && match &last {
                Some(last) => last.api_version == own.api_version && last.fields == claimed,
                None => claimed.is_empty(),
            };
        let time = match merged {
            Some(_) => Some(clock::seconds(self.now)),
            None => last.and_then(|last| last.time),
        };
        if !claimed.is_empty() {
            own.take(claimed, time);
            entries.list.push(own);
        }
        Ok(Applied { object: merged, managed: entries, is_noop })
    }

    /// Takes out of the merged object what this applier owned, does not apply any more, and nobody else
    /// owns. `owned` is who owns what from now on, with the version that is said in.
    fn prune<'e>(
        &self,
        merged: Value,
        last: &'e Entry,
        owned: impl Iterator<Item = (&'e str, &'e FieldSet)>,
    ) -> Result<Value, String> {
        let Some(schema) = self.versions.schema(&last.api_version) else { return Ok(merged) };
        let node = Node::root(&schema);
        let mut merged = self
            .convert(&merged, &last.api_version, node)
            .map_err(|why| format!("failed to convert merged object to last applied version: {why}"))?
            .into_owned();
        let owned_before = last.fields.with_named_fields(node);
        let mut pruned = merged.clone();
        remove(node, &mut pruned, &owned_before);

        // Whatever somebody owns comes back, version by version, the last applied one first.
        let mut versions: Vec<(&str, FieldSet)> = Vec::new();
        for (version, fields) in owned {
            match versions.iter_mut().find(|(known, _)| *known == version) {
                Some((_, known)) => known.union(fields.clone()),
                None => versions.push((version, fields.clone())),
            }
        }
        versions.sort_by_key(|(version, _)| *version != last.api_version);
        for (version, owned) in versions {
            let Some(schema) = self.versions.schema(version) else { continue };
            let other = Node::root(&schema);
            let convert = |what: &str, object| {
                let converted = self.convert(object, version, other);
                converted.map_err(|why| {
                    format!("failed add back owned items: failed to convert {what} object at version {version}: {why}")
                })
            };
            let (whole, left) = (convert("merged", &merged), convert("pruned", &pruned));
            let (mut whole, left) = (whole?.into_owned(), left?);
            let mut surplus = claims(other, &whole).with_named_fields(other);
            surplus.remove(&claims(other, &left).with_named_fields(other));
            surplus.remove(&owned.with_named_fields(other));
            remove(other, &mut whole, &surplus);
            pruned = self.convert(&whole, &last.api_version, node)?.into_owned();
        }

        // And whatever this applier did not own before is none of its business.
        let mut dropped = claims(node, &merged).with_named_fields(node);
        dropped.remove(&claims(node, &pruned).with_named_fields(node));
        remove(node, &mut merged, &dropped.intersection(&owned_before));
        let schema = self.schema()?;
        Ok(self.convert(&merged, self.api_version, Node::root(&schema))?.into_owned())
    }

    /// What is left of kubectl's conflicts once those are set aside that are with its own client-side self.
    fn conflicts_with_others(&self, live: &Value, mut conflicts: Vec<Conflict>) -> Option<Vec<Conflict>> {
        let Some(owned) = self.schema().ok().and_then(|schema| {
            let node = Node::root(&schema);
            node.validate(live, Duplicates::Refused).ok()?;
            last_applied::still_owned(node, live, self.api_version)
        }) else {
            return Some(conflicts);
        };
        conflicts.retain_mut(|conflict| {
            conflict.paths.remove(&owned);
            !conflict.paths.is_empty()
        });
        if conflicts.is_empty() { None } else { Some(conflicts) }
    }
}
