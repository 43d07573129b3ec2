//! The cache: one watch for each kind, namespace and selector, shared by everything in the operator that wants
//! it. Reads are from memory and give shared objects, never copies. What is not declared is not watched.

mod feed;
mod index;
mod options;
mod scan;
mod slot;
mod store;
mod told;

use std::{
    any::Any,
    collections::BTreeMap,
    sync::{Arc, Weak},
};

use kube::{Client, core::PartialObjectMeta};
use parking_lot::Mutex;
use tokio::task::AbortHandle;

pub(crate) use self::options::WatchId;
pub(crate) use self::store::{Applied, Store};
pub(crate) use self::told::Told;
pub use self::{
    index::Index,
    options::Watch,
    store::{Change, Health},
};
use self::{options::Selection, store::Subscriber};
use crate::{
    entropy::Entropy,
    error::{Error, Result},
    kind::{Key, Kind, KindName, Object, Seen, uid},
};

/// The cache of one operator.
#[derive(Clone)]
pub(crate) struct Cache(Arc<Inner>);

struct Inner {
    client: Client,
    entropy: Entropy,
    /// The field manager of this operator.
    manager: Arc<str>,
    /// The namespaces that are watched if nothing else is said; none means all.
    namespaces: Vec<String>,
    running: Mutex<BTreeMap<WatchId, Running>>,
}

/// A watch that somebody holds, or held.
struct Running {
    informer: Weak<dyn Any + Send + Sync>,
    name: KindName,
    describe: fn(&(dyn Any + Send + Sync)) -> Option<(usize, Health)>,
    /// Takes an object out by its UID, whether it is kept whole or only its metadata is.
    bury: fn(&(dyn Any + Send + Sync), &Key, &str),
}

/// A watch and what it has seen. It ends with the last that holds it.
pub(crate) struct Informer<K> {
    pub(crate) store: Arc<Store<K>>,
    task: AbortHandle,
}

impl<K> Drop for Informer<K> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// One running watch, as it is shown to people.
#[derive(Debug, Clone)]
pub(crate) struct WatchState {
    pub(crate) name: KindName,
    pub(crate) objects: usize,
    pub(crate) health: Health,
}

impl Cache {
    pub(crate) fn new(client: Client, entropy: Entropy, manager: &str, namespaces: Vec<String>) -> Self {
        let running = Mutex::default();
        Self(Arc::new(Inner { client, entropy, manager: manager.into(), namespaces, running }))
    }

    /// The objects of a kind, as `watch` wants them: from a watch that is running, or from a new one.
    pub(crate) fn view<K: Object>(&self, watch: &Watch<K>) -> View<K> {
        let namespaces = match watch.namespaces.as_slice() {
            [] => self.0.namespaces.as_slice(),
            chosen => chosen,
        };
        let informers = match namespaces {
            chosen @ [_, ..] if watch.selection.kind.is_namespaced => chosen
                .iter()
                .map(|namespace| self.informer(&watch.selection, Some(namespace.clone())))
                .collect(),
            _ => vec![self.informer(&watch.selection, None)],
        };
        let view = View { informers };
        for index in &watch.indexes {
            view.informers.iter().for_each(|informer| informer.store.index(*index));
        }
        view
    }

    fn informer<K: Object>(&self, selection: &Selection<K>, namespace: Option<String>) -> Arc<Informer<K>> {
        let selection = Selection { namespace, ..selection.clone() };
        let id = selection.id();
        let mut running = self.0.running.lock();
        let found = running.get(&id).and_then(|running| running.informer.upgrade()?.downcast().ok());
        if let Some(found) = found {
            return found;
        }
        running.retain(|_, running| running.informer.strong_count() > 0);
        let name = selection.kind.clone();
        let store = Arc::new(Store::new(selection, self.0.manager.clone()));
        let task = feed::feed(store.clone(), self.0.client.clone(), self.0.entropy.clone());
        let informer = Arc::new(Informer { store, task: tokio::spawn(task).abort_handle() });
        let erased: Arc<dyn Any + Send + Sync> = informer.clone();
        running.insert(
            id,
            Running {
                informer: Arc::downgrade(&erased),
                name,
                describe: |any| {
                    let store = &any.downcast_ref::<Informer<K>>()?.store;
                    Some((store.len(), store.health().borrow().clone()))
                },
                bury: |any, key, uid| {
                    if let Some(informer) = any.downcast_ref::<Informer<K>>() {
                        informer.store.bury(key, uid);
                    }
                },
            },
        );
        informer
    }

    /// Passes the answer to an own write on to all watches of the kind, so that it is seen at once.
    pub(crate) fn wrote<K: Kind>(&self, told: &Told<K>) {
        self.stores::<K>().iter().for_each(|store| store.wrote(told));
        let of_metadata = self.stores::<PartialObjectMeta<K>>();
        if !of_metadata.is_empty() {
            let metadata = told.metadata();
            of_metadata.iter().for_each(|store| store.wrote(&metadata));
        }
    }

    /// Tells all watches of the kind that an object has gone by an own delete.
    pub(crate) fn deleted<K: Kind>(&self, object: &K) {
        let (name, key) = (KindName::of::<K>(), Key::of(object));
        let informers: Vec<_> = {
            let running = self.0.running.lock();
            let of_kind = running.values().filter(|running| running.name == name);
            of_kind.filter_map(|running| Some((running.bury, running.informer.upgrade()?))).collect()
        };
        informers.iter().for_each(|(bury, informer)| bury(&**informer, &key, uid(object)));
    }

    fn stores<K: Kind>(&self) -> Vec<Arc<Store<K>>> {
        let running = self.0.running.lock();
        running
            .iter()
            .filter(|(id, _)| id.is_of::<K>())
            .filter_map(|(_, running)| running.informer.upgrade()?.downcast::<Informer<K>>().ok())
            .map(|informer| informer.store.clone())
            .collect()
    }

    /// The running watches.
    pub(crate) fn watches(&self) -> Vec<WatchState> {
        let running = self.0.running.lock();
        running
            .values()
            .filter_map(|running| {
                let (objects, health) = (running.describe)(&*running.informer.upgrade()?)?;
                Some(WatchState { name: running.name.clone(), objects, health })
            })
            .collect()
    }
}

/// The objects of a kind, as one part of the operator has asked for them.
pub(crate) struct View<K> {
    informers: Vec<Arc<Informer<K>>>,
}

impl<K> Clone for View<K> {
    fn clone(&self) -> Self {
        Self { informers: self.informers.clone() }
    }
}

impl<K: Object> View<K> {
    fn stores(&self) -> impl Iterator<Item = &Arc<Store<K>>> {
        self.informers.iter().map(|informer| &informer.store)
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Seen<K>> {
        self.stores().find_map(|store| store.get(key))
    }

    pub(crate) fn applied(&self, key: &Key) -> Option<(Seen<K>, Option<Applied>)> {
        self.stores().find_map(|store| store.applied(key))
    }

    pub(crate) fn settle(&self, key: &Key, revision: u64, fingerprint: u64) {
        self.stores().for_each(|store| store.settle(key, revision, fingerprint));
    }

    pub(crate) fn list(&self, namespace: Option<&str>) -> Vec<Seen<K>> {
        self.stores().flat_map(|store| store.list(namespace)).collect()
    }

    pub(crate) fn keys(&self) -> Vec<Key> {
        self.stores().flat_map(|store| store.keys()).collect()
    }

    pub(crate) fn owned_by(&self, owner: &str) -> Vec<Seen<K>> {
        self.stores().flat_map(|store| store.owned_by(owner)).collect()
    }

    pub(crate) fn indexed(&self, index: &Index<K>, value: &str) -> Result<Vec<Seen<K>>> {
        let mut all = Vec::new();
        for store in self.stores() {
            all.extend(store.indexed(index, value).ok_or_else(|| {
                Error::terminal(format!(
                    "{} has no index {:?} here: declare it with Watch::index",
                    store.selection().kind,
                    index.name()
                ))
            })?);
        }
        Ok(all)
    }

    /// What tells its watches from others.
    pub(crate) fn ids(&self) -> Vec<WatchId> {
        self.stores().map(|store| store.selection().id()).collect()
    }

    /// Calls `subscriber` with everything that is there and with every change, until the answer is dropped.
    pub(crate) fn subscribe(&self, subscriber: Subscriber<K>) -> Subscription {
        let ends = self
            .informers
            .iter()
            .map(|informer| {
                let (informer, id) = (informer.clone(), informer.store.subscribe(subscriber.clone()));
                Box::new(move || informer.store.unsubscribe(id)) as End
            })
            .collect();
        Subscription(ends)
    }

    /// Waits until everything was seen once.
    pub(crate) async fn synced(&self) {
        for store in self.stores() {
            // The sender lives as long as the store does.
            let _ = store.health().wait_for(|health| health.is_synced).await;
        }
    }

    /// Waits until everything was seen once, or it is known why it can't be.
    pub(crate) async fn ready(&self) -> Result<()> {
        for store in self.stores() {
            let mut health = store.health();
            let told = health.wait_for(|health| health.is_synced || health.trouble.is_some()).await;
            if let Ok(health) = told
                && let (false, Some(trouble)) = (health.is_synced, &health.trouble)
            {
                return Err(Error::new(format!("can't watch {}: {trouble}", store.selection().kind)));
            }
        }
        Ok(())
    }

    /// How each of its watches is doing.
    pub(crate) fn health(&self) -> Vec<Health> {
        self.stores().map(|store| store.health().borrow().clone()).collect()
    }
}

/// Ends a subscription when it is dropped, and its watch if nobody else wants it.
pub(crate) struct Subscription(Vec<End>);

type End = Box<dyn FnOnce() + Send + Sync>;

impl Drop for Subscription {
    fn drop(&mut self) {
        self.0.drain(..).for_each(|end| end());
    }
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        future::{Ready, ready},
        sync::atomic::{AtomicUsize, Ordering},
        task::{Context, Poll},
    };

    use futures_util::stream;
    use http::{Request, Response};
    use http_body_util::StreamBody;
    use hyper::body::{Bytes, Frame};
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    use kube::client::Body;

    use super::*;

    /// A server that never tells anything, and knows how many are listening.
    #[derive(Clone, Default)]
    struct Silent(Arc<AtomicUsize>);

    struct Listener(Arc<AtomicUsize>);

    impl Drop for Listener {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }

    impl tower_service::Service<Request<Body>> for Silent {
        type Response = Response<StreamBody<stream::BoxStream<'static, Result<Frame<Bytes>, Infallible>>>>;
        type Error = Infallible;
        type Future = Ready<Result<Self::Response, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Request<Body>) -> Self::Future {
            self.0.fetch_add(1, Ordering::Relaxed);
            let listener = Listener(self.0.clone());
            let silence = stream::once(async move {
                let _listener = listener;
                std::future::pending().await
            });
            ready(Ok(Response::new(StreamBody::new(Box::pin(silence)))))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_is_shared_and_ends_with_the_last_that_wants_it() {
        let server = Silent::default();
        let client = Client::new(server.clone(), "default");
        let cache = Cache::new(client, Entropy::seeded(1), "manager", Vec::new());
        let listening = async || {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            server.0.load(Ordering::Relaxed)
        };
        let one = cache.view(&Watch::<ConfigMap>::new());
        let other = cache.view(&Watch::<ConfigMap>::new());
        let subscription = other.subscribe(Arc::new(|_| {}));
        assert_eq!(listening().await, 1);
        let secrets = cache.view(&Watch::<Secret>::new());
        let selected = cache.view(&Watch::<ConfigMap>::new().labels("a=b"));
        assert_eq!(listening().await, 3);
        drop((one, secrets, selected));
        assert_eq!(listening().await, 1);
        drop(other);
        assert_eq!(listening().await, 1, "a subscription wants it, too");
        drop(subscription);
        assert_eq!(listening().await, 0);
        assert!(cache.watches().is_empty());
        let _again = cache.view(&Watch::<ConfigMap>::new());
        assert_eq!(listening().await, 1);
    }
}
