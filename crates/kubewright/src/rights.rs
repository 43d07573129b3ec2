//! What an operator must be allowed to do: collected while it is put together, so that its Role says just that.

use std::collections::{BTreeMap, BTreeSet};

use crate::kind::{Kind, KindName};

/// What can be done with a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Verb {
    /// What watching a kind takes.
    pub const WATCHING: &[Self] = &[Self::Get, Self::List, Self::Watch];

    /// The verb as rules spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }
}

/// Rights, by resource. Ordered, so that what is generated from them does not change by itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rights {
    /// By group, resource with its subresource, and whether it is in namespaces.
    pub(crate) verbs: BTreeMap<(String, String, bool), BTreeSet<Verb>>,
    /// The same to single objects, by their name. What is in a namespace is in the operator's own: of others it knows
    /// no names.
    pub(crate) named: BTreeMap<(String, String, bool), BTreeMap<String, BTreeSet<Verb>>>,
}

impl Rights {
    pub(crate) fn needs<K: Kind>(&mut self, verbs: &[Verb]) {
        let name = KindName::of::<K>();
        self.add(name.group, name.plural, name.is_namespaced, verbs);
    }

    pub(crate) fn needs_part<K: Kind>(&mut self, subresource: &str, verbs: &[Verb]) {
        let name = KindName::of::<K>();
        self.add(name.group, format!("{}/{subresource}", name.plural), name.is_namespaced, verbs);
    }

    pub(crate) fn add(&mut self, group: String, resource: String, is_namespaced: bool, verbs: &[Verb]) {
        self.verbs.entry((group, resource, is_namespaced)).or_default().extend(verbs);
    }

    /// Rights to one object. Creating it needs to be done by applying it: then its name is known when rights are checked.
    pub(crate) fn named(
        &mut self,
        group: &str,
        resource: &str,
        is_namespaced: bool,
        name: &str,
        verbs: &[Verb],
    ) {
        let named = self.named.entry((group.to_owned(), resource.to_owned(), is_namespaced)).or_default();
        named.entry(name.to_owned()).or_default().extend(verbs);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (key, verbs) in &other.verbs {
            self.verbs.entry(key.clone()).or_default().extend(verbs);
        }
        for ((group, resource, is_namespaced), names) in &other.named {
            for (name, verbs) in names {
                let verbs: Vec<Verb> = verbs.iter().copied().collect();
                self.named(group, resource, *is_namespaced, name, &verbs);
            }
        }
    }
}
