//! The webhooks and policies in force, compiled.
//!
//! They are read from the store when first needed after a change; what has not changed is kept as it is.
//! Where there are none, asking costs a load and a clone of a pointer.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use parking_lot::RwLock;
use serde_json::Value;

use super::{
    policy::validating::{Binding, Policy},
    webhook::{Kind, Webhook},
};
use crate::{
    rest::codec,
    store::{ResourceId, Store, Stored},
};

/// The API group of webhooks and policies.
pub(super) const GROUP: &str = "admissionregistration.k8s.io";

/// What admission keeps between requests.
#[derive(Debug)]
pub(crate) struct Configurations {
    stale: AtomicBool,
    current: RwLock<Arc<InForce>>,
}

/// The webhooks and policies in force, each in the order in which they are asked.
#[derive(Debug, Default)]
pub(super) struct InForce {
    pub(super) mutating: Vec<Arc<Read<Vec<Webhook>>>>,
    pub(super) validating: Vec<Arc<Read<Vec<Webhook>>>>,
    /// Policies with the bindings that put them into force.
    pub(super) policies: Vec<BoundPolicy>,
}

/// A policy with the bindings that put it into force.
pub(super) type BoundPolicy = (Arc<Read<Policy>>, Vec<Arc<Read<Binding>>>);

/// What a stored object was compiled to.
#[derive(Debug)]
pub(super) struct Read<T> {
    name: String,
    revision: u64,
    pub(super) content: T,
}

impl Default for Configurations {
    fn default() -> Self {
        Self { stale: AtomicBool::new(true), current: RwLock::default() }
    }
}

impl Configurations {
    pub(crate) fn fork(&self) -> Self {
        Self {
            stale: AtomicBool::new(self.stale.load(Ordering::Acquire)),
            current: RwLock::new(self.current.read().clone()),
        }
    }

    /// To be called after every write to the group.
    pub(crate) fn changed(&self) {
        self.stale.store(true, Ordering::Release);
    }

    pub(super) fn current(&self, store: &Store) -> Arc<InForce> {
        if self.stale.load(Ordering::Acquire) {
            let mut current = self.current.write();
            // Cleared before the store is read: a write in between is not lost.
            if self.stale.swap(false, Ordering::AcqRel) {
                *current = Arc::new(InForce::read(store, &current));
            }
        }
        self.current.read().clone()
    }
}

impl InForce {
    pub(super) fn is_empty(&self) -> bool {
        self.mutating.is_empty() && self.validating.is_empty() && self.policies.is_empty()
    }

    fn read(store: &Store, before: &Self) -> Self {
        let webhooks = |kind: Kind, plural: &str, before: &[Arc<Read<Vec<Webhook>>>]| {
            read_all(store, plural, before, |name, object| Webhook::read_all(kind, name, object))
        };
        let known: Vec<_> = before.policies.iter().map(|(policy, _)| policy.clone()).collect();
        let policies = read_all(store, "validatingadmissionpolicies", &known, Policy::read);
        let known: Vec<_> = before.policies.iter().flat_map(|(_, bindings)| bindings).cloned().collect();
        let bindings = read_all(store, "validatingadmissionpolicybindings", &known, Binding::read);
        let policies = policies.into_iter().map(|policy| {
            let of_policy = |binding: &&Arc<Read<Binding>>| binding.content.policy == policy.name;
            let bindings: Vec<_> = bindings.iter().filter(of_policy).cloned().collect();
            (policy, bindings)
        });
        Self {
            mutating: webhooks(Kind::Mutating, "mutatingwebhookconfigurations", &before.mutating),
            validating: webhooks(Kind::Validating, "validatingwebhookconfigurations", &before.validating),
            policies: policies.filter(|(_, bindings)| !bindings.is_empty()).collect(),
        }
    }
}

fn read_all<T>(
    store: &Store,
    plural: &str,
    before: &[Arc<Read<T>>],
    read: impl Fn(&str, &Value) -> T,
) -> Vec<Arc<Read<T>>> {
    let collection = store.collection(&ResourceId::new(GROUP, plural));
    let one = |stored: &Arc<Stored>| {
        let known = before.iter().find(|one| one.revision == stored.revision && one.name == stored.name());
        if let Some(known) = known {
            return Some(known.clone());
        }
        let object = codec::parse(&stored.bytes).ok()?;
        let content = read(stored.name(), &object);
        Some(Arc::new(Read { name: stored.name().to_owned(), revision: stored.revision, content }))
    };
    collection.range("", "").filter_map(one).collect()
}
