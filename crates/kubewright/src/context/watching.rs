//! Watches that come and go with what an object asks for: held for as long as each of its reconciles asks again.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parking_lot::Mutex;

use super::Reader;
use crate::{
    cache::{Index, Subscription, View, Watch, WatchId},
    error::Result,
    kind::{Key, Kind, Object, Seen},
    queue::Priority,
};

/// What tells the watches of an object apart: one for each namespace.
type Ids = Vec<WatchId>;

/// The watches that the objects of a controller hold.
#[derive(Default)]
pub(crate) struct Held(Mutex<BTreeMap<Key, BTreeMap<Ids, Subscription>>>);

impl Held {
    /// Ends the watches of an object that are not among those asked for.
    pub(crate) fn keep(&self, key: &Key, asked: &BTreeSet<Ids>) {
        let mut held = self.0.lock();
        let Some(watches) = held.get_mut(key) else { return };
        watches.retain(|ids, _| asked.contains(ids));
        if watches.is_empty() {
            held.remove(key);
        }
    }

    /// The object has gone, and its watches go with it.
    pub(crate) fn forget(&self, key: &Key) {
        self.0.lock().remove(key);
    }
}

impl<K: Kind> Reader<K> {
    /// Watches for this object what only its specification can tell: from now on, changes of what is watched
    /// reconcile it. The watch is shared with whoever wants the same, lasts until a reconcile goes well without
    /// asking for it again, or the object is gone, and then frees its connection and its memory.
    ///
    /// Answers when everything was seen once, and fails if it can't be watched. The right to do so is declared
    /// with [`needs`](crate::Builder::needs).
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// use kubewright::{Context, Key, Result, Watch};
    ///
    /// async fn password(cx: &Context<ConfigMap>, namespace: &str, name: &str) -> Result<bool> {
    ///     let one = Watch::<Secret>::new().namespaces([namespace]).fields(format!("metadata.name={name}"));
    ///     let secrets = cx.watch(one).await?;
    ///     Ok(secrets.get(&Key::new(namespace, name)).is_some())
    /// }
    /// ```
    pub async fn watch<C: Object>(&self, watch: Watch<C>) -> Result<Watched<C>> {
        let (key, view) = (self.key(), self.shared.cache.view(&watch));
        let ids = view.ids();
        self.asked.lock().insert(ids.clone());
        self.shared.held.0.lock().entry(key.clone()).or_default().entry(ids).or_insert_with(|| {
            let queue = self.shared.queue.clone();
            view.subscribe(Arc::new(move |change| {
                // What is there at first is read by whoever asked.
                if !change.is_initial {
                    queue.add(key.clone(), Priority::Normal);
                }
            }))
        });
        view.ready().await?;
        Ok(Watched::new(view))
    }

    /// Ends the watches that this reconcile has not asked for.
    pub(crate) fn end_other_watches(&self) {
        self.shared.held.keep(&self.key(), &self.asked.lock());
    }
}

/// What a watch has seen, from memory.
pub struct Watched<C>(View<C>);

impl<C: Object> Watched<C> {
    pub(crate) fn new(view: View<C>) -> Self {
        Self(view)
    }

    pub(crate) async fn ready(&self) -> Result<()> {
        self.0.ready().await
    }

    /// One object, if it is there.
    pub fn get(&self, key: &Key) -> Option<Seen<C>> {
        self.0.get(key)
    }

    /// All objects, or those of one namespace, by name.
    pub fn list(&self, namespace: Option<&str>) -> Vec<Seen<C>> {
        self.0.list(namespace)
    }

    /// The objects that the one with this UID owns.
    pub fn owned_by(&self, uid: &str) -> Vec<Seen<C>> {
        self.0.owned_by(uid)
    }

    /// The objects that an index of this watch has under a value.
    pub fn indexed(&self, index: &Index<C>, value: &str) -> Result<Vec<Seen<C>>> {
        self.0.indexed(index, value)
    }
}
