//! What a reconciler works with: reads from the cache, and writes that are seen at once.

mod apply;
mod condition;
mod naming;
pub(crate) mod request;
mod stalled;
mod status;
mod unchanged;
mod watching;
mod writing;

use std::{collections::BTreeSet, ops::Deref, sync::Arc};

use kube::Client;
use parking_lot::Mutex;

pub use self::{condition::condition, naming::child_name, watching::Watched};
pub(crate) use self::{
    naming::{digest, label_value},
    stalled::stall,
    status::StatusShape,
    watching::Held,
};
use crate::{
    cache::{Cache, Index, WatchId},
    clock::Clock,
    controller::{Doubts, Echoes, Queues, Views},
    error::{Error, Result},
    events::{Event, Recorder},
    kind::{Key, Kind, KindName, Seen, is_namespaced, uid},
    lookup::Lookup,
    queue::{Priority, Queue},
};

/// What all reconciles of a controller share.
pub(crate) struct Shared {
    /// The operator's name, which is also its field manager.
    pub(crate) operator: Arc<str>,
    pub(crate) client: Client,
    pub(crate) cache: Cache,
    pub(crate) views: Arc<Views>,
    pub(crate) queue: Queue,
    pub(crate) queues: Arc<Queues>,
    pub(crate) clock: Clock,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) status: StatusShape,
    pub(crate) held: Held,
    pub(crate) echoes: Arc<Echoes>,
    pub(crate) doubts: Arc<Doubts>,
}

/// What a reconciler works with, for one object: everything a [`Reader`] can, and writing children.
pub struct Context<K: Kind> {
    reader: Reader<K>,
    /// The children this reconcile has applied, so that others can be pruned.
    applied: Mutex<BTreeSet<(KindName, Key)>>,
}

impl<K: Kind> Deref for Context<K> {
    type Target = Reader<K>;

    fn deref(&self) -> &Reader<K> {
        &self.reader
    }
}

/// Reads, deletes and reports, for one object.
pub struct Reader<K: Kind> {
    shared: Arc<Shared>,
    object: Seen<K>,
    /// The watches this reconcile has asked for, so that others end.
    asked: Mutex<BTreeSet<Vec<WatchId>>>,
}

impl<K: Kind> Context<K> {
    pub(crate) fn new(shared: Arc<Shared>, object: Seen<K>) -> Self {
        Self { reader: Reader { shared, object, asked: Mutex::default() }, applied: Mutex::default() }
    }

    pub(crate) fn reader(&self) -> &Reader<K> {
        &self.reader
    }

    /// Deletes the children of a kind that this operator has once applied, but this reconcile has not. If the object is
    /// no longer as it was reconciled, they stay: the next reconcile may want them.
    pub(crate) async fn prune<C: Kind>(&self) -> Result<()> {
        let view = self.shared.views.get::<C>()?;
        let mut unwanted = self.children::<C>()?;
        unwanted.retain(|child| {
            let key = Key::of(&**child);
            let is_applied = view.applied(&key).is_some_and(|(_, applied)| applied.is_some());
            let is_wanted = self.applied.lock().contains(&(KindName::of::<C>(), key));
            is_applied && !is_wanted && child.meta().deletion_timestamp.is_none()
        });
        if unwanted.is_empty() {
            return Ok(());
        }
        if !self.is_current().await? {
            tracing::debug!(kind = %C::kind(&()), "not pruned: the object has changed since it was seen");
            return Ok(());
        }
        for child in unwanted {
            tracing::info!(kind = %C::kind(&()), child = %Key::of(&*child), "pruned: no longer applied");
            self.delete(&child).await?;
        }
        Ok(())
    }

    /// Whether the server has the object in the generation that is reconciled. The cache may lag behind it, most of all
    /// after a start; if it is the server that lags behind, it has to be asked again.
    pub(super) async fn is_current(&self) -> Result<bool> {
        let now = request::get::<K>(&self.shared.client, &self.key()).await?;
        let Some(now) = now.filter(|now| uid(now) == uid(&*self.object)) else { return Ok(false) };
        let (is, seen) = (now.meta().generation, self.object.meta().generation);
        if is < seen {
            return Err(Error::new(format!("the server has only generation {is:?}, but {seen:?} was seen")));
        }
        Ok(is == seen)
    }
}

impl<K: Kind> Reader<K> {
    /// The namespace of the object; empty for objects outside of namespaces.
    pub fn namespace(&self) -> &str {
        self.object.meta().namespace.as_deref().unwrap_or_default()
    }

    /// The object, as it was when this reconcile began.
    pub fn object(&self) -> Seen<K> {
        self.object.clone()
    }

    /// The key of the object.
    pub fn key(&self) -> Key {
        Key::of(&*self.object)
    }

    /// The client of the operator, for what is not offered here. While another replica leads, it refuses to
    /// write.
    pub fn client(&self) -> &Client {
        &self.shared.client
    }

    /// The time it is, as the operator sees it.
    pub fn clock(&self) -> Clock {
        self.shared.clock
    }

    /// Reads from the cache, wherever objects are.
    pub fn lookup(&self) -> Lookup {
        Lookup::new(self.shared.views.clone())
    }

    /// An object of the same namespace by its name, from the cache.
    pub fn get<C: Kind>(&self, name: &str) -> Result<Option<Seen<C>>> {
        Ok(self.shared.views.get::<C>()?.get(&self.key_of::<C>(name)))
    }

    /// All objects of a kind in the same namespace, by name, from the cache; of a kind outside of namespaces, or
    /// for an object outside of them, all there are.
    pub fn list<C: Kind>(&self) -> Result<Vec<Seen<C>>> {
        let namespace =
            Some(self.namespace()).filter(|namespace| !namespace.is_empty() && is_namespaced::<C>());
        Ok(self.shared.views.get::<C>()?.list(namespace))
    }

    /// The objects of a kind that this object owns, by name, from the cache.
    pub fn children<C: Kind>(&self) -> Result<Vec<Seen<C>>> {
        Ok(self.shared.views.get::<C>()?.owned_by(uid(&*self.object)))
    }

    /// The objects that an index has under a value, from the cache.
    pub fn indexed<C: Kind>(&self, index: &Index<C>, value: &str) -> Result<Vec<Seen<C>>> {
        self.lookup().indexed(index, value)
    }

    /// Reads from the server instead of the cache.
    pub fn live(&self) -> Live<'_, K> {
        Live(self)
    }

    /// Deletes an object that was seen, and only that one: a new object of the same name stays. Its children go
    /// along in the background. An object that has gone already is fine.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use kubewright::{Context, Result};
    /// # async fn example(cx: &Context<ConfigMap>) -> Result<()> {
    /// for seen in cx.children::<ConfigMap>()? {
    ///     cx.delete(&seen).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// What was made up can't be deleted: that does not compile.
    pub async fn delete<C: Kind>(&self, object: &Seen<C>) -> Result<()> {
        let left = request::delete::<C>(&self.shared.client, &Key::of(&**object), uid(&**object)).await?;
        match left {
            Some(left) => self.shared.cache.wrote(&left),
            None => self.shared.cache.deleted(&**object),
        }
        Ok(())
    }

    /// Tells people about the object, as `kubectl describe` shows it. What can't be told is logged: an event never
    /// fails a reconcile.
    pub async fn event(&self, event: Event) {
        self.shared.recorder.record(&self.shared.client, &*self.object, event).await;
    }

    /// Like [`event`](Self::event), about another object.
    pub async fn event_about<C: Kind>(&self, object: &Seen<C>, event: Event) {
        self.shared.recorder.record(&self.shared.client, &**object, event).await;
    }

    /// Reconciles another object of this controller soon.
    pub fn requeue(&self, key: Key) {
        self.shared.queue.add(key, Priority::Normal);
    }

    /// Reconciles an object of another controller of this operator soon, by its kind and its key.
    pub fn requeue_of<C: Kind>(&self, key: &Key) -> Result<()> {
        self.shared.queues.add::<C>(key)
    }

    fn key_of<C: Kind>(&self, name: &str) -> Key {
        if is_namespaced::<C>() { Key::new(self.namespace(), name) } else { Key::cluster(name) }
    }
}

/// Reads from the server.
pub struct Live<'a, K: Kind>(&'a Reader<K>);

impl<K: Kind> Live<'_, K> {
    /// An object of the same namespace by its name.
    pub async fn get<C: Kind>(&self, name: &str) -> Result<Option<Seen<C>>> {
        let found = request::get::<C>(&self.0.shared.client, &self.0.key_of::<C>(name)).await?;
        Ok(found.map(|object| Seen::new(Arc::new(object))))
    }
}
