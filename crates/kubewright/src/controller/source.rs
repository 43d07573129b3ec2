//! Where the keys of a controller come from: its own kind, what that owns, what is watched for it, channels and
//! timers. A source turns changes into keys and puts them into the queue; it never reconciles.

use std::{
    any::Any, collections::BTreeMap, future::Future, panic::AssertUnwindSafe, pin::Pin, sync::Arc,
    time::Duration,
};

use futures_util::FutureExt as _;
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, mpsc},
    task::AbortHandle,
    time::sleep,
};

use super::{doubt::Doubts, echo::Echoes, predicate::Predicate, views::Views};
use crate::{
    cache::{Cache, Change, Watch},
    entropy::Entropy,
    kind::{Key, Kind, Seen, is_namespaced, revision},
    queue::{Priority, Queue},
};

/// When every object is looked at again though nothing has changed.
#[derive(Clone)]
pub(crate) struct Resync {
    /// How often, if its controller does not say.
    pub(crate) every: Option<Duration>,
    /// And whenever this is told.
    pub(crate) now: Arc<Notify>,
}

/// What a source needs to begin.
pub(crate) struct Wiring<'a> {
    pub(crate) cache: &'a Cache,
    pub(crate) queue: &'a Queue,
    pub(crate) views: &'a Views,
    pub(crate) entropy: &'a Entropy,
    pub(crate) resync: &'a Resync,
    pub(crate) echoes: &'a Arc<Echoes>,
    pub(crate) doubts: &'a Arc<Doubts>,
}

/// A running source. It ends when this is dropped.
pub(crate) struct Started(
    #[allow(dead_code, reason = "held for what its drop ends")] Box<dyn Any + Send + Sync>,
);

/// A source that has not begun.
pub(crate) type Source = Box<dyn Fn(&Wiring<'_>) -> Started + Send + Sync>;

/// The live changes of an object come before what is merely seen for the first time.
fn priority<K>(change: &Change<K>) -> Priority {
    if change.is_initial { Priority::Low } else { Priority::Normal }
}

/// The objects of the controller's own kind.
pub(crate) fn of<K: Kind>(watch: Watch<K>, predicates: Vec<Predicate<K>>) -> Source {
    Box::new(move |wiring| {
        let (queue, predicates) = (wiring.queue.clone(), predicates.clone());
        let echoes = wiring.echoes.clone();
        let view = wiring.views.view(wiring.cache, &watch);
        Started(Box::new(view.subscribe(Arc::new(move |change| {
            let key = Key::of(&**change.object());
            let is_echo = || match (&change.old, &change.new) {
                (Some(old), Some(new)) => echoes.swallows(&key, revision(&**old), revision(&**new)),
                _ => false,
            };
            if predicates.iter().all(|predicate| predicate.passes(change)) && !is_echo() {
                queue.add(key, priority(change));
            }
        }))))
    })
}

/// Which owners of an object are told of its changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owners {
    /// The one that is its controller.
    Controller,
    /// All of them.
    Every,
}

/// Objects that those of the controller's kind own.
pub(crate) fn owned<K: Kind, C: Kind>(
    watch: Watch<C>,
    owners: Owners,
    predicates: Vec<Predicate<C>>,
) -> Source {
    Box::new(move |wiring| {
        let (queue, predicates, doubts) = (wiring.queue.clone(), predicates.clone(), wiring.doubts.clone());
        let view = wiring.views.view(wiring.cache, &watch);
        Started(Box::new(view.subscribe(Arc::new(move |change| {
            if !predicates.iter().all(|predicate| predicate.passes(change)) {
                return;
            }
            // Also those who owned it before: they have lost a child.
            for object in [&change.old, &change.new].into_iter().flatten() {
                for key in owner_keys::<K, C>(object, owners) {
                    if change.new.is_none() {
                        doubts.raise(key.clone());
                    }
                    queue.add(key, priority(change));
                }
            }
        }))))
    })
}

fn owner_keys<K: Kind, C: Kind>(object: &C, owners: Owners) -> impl Iterator<Item = Key> {
    let meta = object.meta();
    let namespace = meta.namespace.as_deref().filter(|_| is_namespaced::<K>()).unwrap_or_default();
    meta.owner_references
        .iter()
        .flatten()
        .filter(move |owner| owners == Owners::Every || owner.controller == Some(true))
        .filter(|owner| {
            // Another version of the group is the same object.
            let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
            owner.kind == K::kind(&()) && group == K::group(&())
        })
        .map(move |owner| Key::new(namespace, &owner.name))
}

type Keys = Pin<Box<dyn Future<Output = Vec<Key>> + Send>>;

/// Turns an object into the keys that depend on it.
pub(crate) type Map<C> = Arc<dyn Fn(Seen<C>, Arc<Views>) -> Keys + Send + Sync>;

/// Objects that a function maps to keys. The function may wait: changes that come meanwhile are put together,
/// one for each object.
pub(crate) fn mapped<C: Kind>(watch: Watch<C>, map: Map<C>, predicates: Vec<Predicate<C>>) -> Source {
    Box::new(move |wiring| {
        let predicates = predicates.clone();
        let inbox = Arc::new(Inbox { waiting: Mutex::new(BTreeMap::new()), arrived: Notify::new() });
        let view = wiring.views.view(wiring.cache, &watch);
        let subscription = view.subscribe({
            let inbox = inbox.clone();
            Arc::new(move |change| {
                if predicates.iter().all(|predicate| predicate.passes(change)) {
                    inbox.put(change);
                }
            })
        });
        let (queue, map, views) = (wiring.queue.clone(), map.clone(), wiring.views.share());
        let task = Task::spawn(async move {
            loop {
                let change = inbox.take().await;
                for object in [&change.old, &change.new].into_iter().flatten() {
                    // Called within the future, so that a panic of the call itself ends there, too.
                    let keys = async { map(Seen::new(object.clone()), views.clone()).await };
                    match AssertUnwindSafe(keys).catch_unwind().await {
                        Ok(keys) => keys.into_iter().for_each(|key| queue.add(key, priority(&change))),
                        Err(_) => {
                            let object = Key::of(&**object);
                            tracing::error!(kind = %C::kind(&()), %object, "a map function panicked: left out");
                        }
                    }
                }
            }
        });
        Started(Box::new((subscription, task)))
    })
}

/// Changes that wait for a map function, at most one for each object.
struct Inbox<C> {
    waiting: Mutex<BTreeMap<Key, Change<C>>>,
    arrived: Notify,
}

impl<C: Kind> Inbox<C> {
    fn put(&self, change: &Change<C>) {
        let mut waiting = self.waiting.lock();
        waiting
            .entry(Key::of(&**change.object()))
            .and_modify(|earlier| {
                // What came and went meanwhile is still told of, as gone: somebody may have read it.
                if earlier.old.is_none() && change.new.is_none() {
                    earlier.old.clone_from(&change.old);
                }
                earlier.new.clone_from(&change.new);
                earlier.is_initial &= change.is_initial;
            })
            .or_insert_with(|| change.clone());
        self.arrived.notify_one();
    }

    async fn take(&self) -> Change<C> {
        loop {
            if let Some((_, change)) = self.waiting.lock().pop_first() {
                return change;
            }
            self.arrived.notified().await;
        }
    }
}

/// Keys that somebody sends.
pub(crate) fn channel(receiver: mpsc::Receiver<Key>) -> Source {
    let receiver = Arc::new(tokio::sync::Mutex::new(receiver));
    Box::new(move |wiring| {
        let (queue, receiver) = (wiring.queue.clone(), receiver.clone());
        Started(Box::new(Task::spawn(async move {
            while let Some(key) = receiver.lock().await.recv().await {
                queue.add(key, Priority::Normal);
            }
        })))
    })
}

/// Every object of the controller's kind, from time to time: as often as is said here, or by the operator.
pub(crate) fn timer<K: Kind>(period: Option<Duration>, watch: Watch<K>) -> Source {
    Box::new(move |wiring| {
        // Not all controllers of all operators at once.
        let jittered = |longest| wiring.entropy.jitter(longest, 0.1);
        let pause = period.or_else(|| wiring.resync.every.map(jittered));
        let now = wiring.resync.now.clone();
        let queue = wiring.queue.clone();
        let view = wiring.views.view(wiring.cache, &watch);
        Started(Box::new(Task::spawn(async move {
            loop {
                let due = async {
                    match pause {
                        Some(pause) => sleep(pause).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    biased;
                    () = now.notified() => {}
                    () = due => {}
                }
                for key in view.keys() {
                    queue.add(key, Priority::Low);
                }
            }
        })))
    })
}

/// A task that ends when this is dropped.
struct Task(AbortHandle);

impl Task {
    fn spawn(future: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(future).abort_handle())
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Objects that are only read.
pub(crate) fn read<C: Kind>(watch: Watch<C>) -> Source {
    Box::new(move |wiring| Started(Box::new(wiring.views.view(wiring.cache, &watch))))
}
