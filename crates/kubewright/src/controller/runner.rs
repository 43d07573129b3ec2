//! The loop of one controller: takes keys from the queue, reconciles each on a task of its own, and puts back
//! what has to come again. A reconcile that fails, panics or hangs costs its own object a pause, nothing else.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use kube::{Client, ResourceExt as _};
use parking_lot::RwLock;
use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};
use tracing::Instrument as _;

use super::{
    Description, Doubts, Echoes, History, Options, Reconciler, Resync, Source, Started, Views, Wiring,
};
use crate::{
    cache::{Cache, Health},
    clock::Clock,
    context::{Context, Held, Shared, StatusShape, request, stall},
    entropy::Entropy,
    error::{Error, Result},
    events::{Event, Recorder},
    finalizer::{Cleanup, Finalizing},
    kind::{Key, Kind, KindName, Seen, revision, uid},
    metrics::{ControllerMetrics, Ended},
    next::Next,
    queue::{Outcome, Priority, Queue, Stats, Taken},
    shutdown::Shutdown,
};

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;
type Reconcile<K> = Arc<dyn for<'a> Fn(&'a K, &'a Context<K>) -> Answer<'a, Next> + Send + Sync>;

/// Deletes the children of one kind that were not applied.
pub(super) type Prune<K> = Arc<dyn for<'a> Fn(&'a Context<K>) -> Answer<'a, ()> + Send + Sync>;

pub(super) fn prune<K: Kind, C: Kind>() -> Prune<K> {
    Arc::new(|cx| Box::pin(cx.prune::<C>()))
}

/// What a controller does, however often it is started.
pub(super) struct Plan<K: Kind> {
    name: String,
    options: Options,
    /// Whether it is the only controller of its kind is known when it is started.
    status: Box<dyn Fn(bool) -> StatusShape + Send + Sync>,
    reconcile: Reconcile<K>,
    forget: Box<dyn Fn(&Key) + Send + Sync>,
    sources: Vec<Source>,
    prune: Vec<Prune<K>>,
    cleanups: Vec<Cleanup<K>>,
}

impl<K: Kind> Plan<K> {
    pub(super) fn new(
        description: &Description,
        reconciler: impl Reconciler<K>,
        sources: Vec<Source>,
        prune: Vec<Prune<K>>,
        cleanups: Vec<Cleanup<K>>,
    ) -> Self {
        let reconciler = Arc::new(reconciler);
        let (definition, version) = (description.definition.clone(), description.kind.version.clone());
        let tells_stalled = description.tells_stalled;
        Self {
            name: description.name.clone(),
            options: description.options.clone(),
            status: Box::new(move |is_alone| match &definition {
                Some(definition) => StatusShape::of(definition, &version, is_alone && tells_stalled),
                None => StatusShape::default(),
            }),
            forget: Box::new({
                let reconciler = reconciler.clone();
                move |key| reconciler.forget(key)
            }),
            reconcile: Arc::new(move |object, cx| {
                let reconciler = reconciler.clone();
                Box::pin(async move { reconciler.reconcile(object, cx).await })
            }),
            sources,
            prune,
            cleanups,
        }
    }
}

/// What the manager gives to a controller.
#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) operator: Arc<str>,
    pub(crate) client: Client,
    pub(crate) cache: Cache,
    pub(crate) clock: Clock,
    pub(crate) entropy: Entropy,
    pub(crate) metrics: ControllerMetrics,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) queues: Arc<Queues>,
    pub(crate) resync: Resync,
    /// Whether no other controller of the operator looks after the same kind.
    pub(crate) is_alone: bool,
}

/// The queues of all controllers of an operator.
#[derive(Default)]
pub(crate) struct Queues(RwLock<Vec<(KindName, Queue)>>);

impl Queues {
    /// How much there is to do in each, in the order in which they were made.
    pub(crate) fn stats(&self) -> Vec<Stats> {
        self.0.read().iter().map(|(_, queue)| queue.stats()).collect()
    }

    /// Puts a key into the queues of all controllers of a kind.
    pub(crate) fn add<C: Kind>(&self, key: &Key) -> Result<()> {
        let (kind, queues) = (KindName::of::<C>(), self.0.read());
        let mut found = queues.iter().filter(|(of, _)| *of == kind).peekable();
        if found.peek().is_none() {
            return Err(Error::terminal(format!("this operator has no controller of {kind}")));
        }
        found.for_each(|(_, queue)| queue.add(key.clone(), Priority::Normal));
        Ok(())
    }
}

type Run = Box<dyn FnOnce(Shutdown) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// A controller whose watches run and whose queue fills, but that does not reconcile yet.
pub(crate) struct Prepared {
    pub(crate) name: String,
    pub(crate) needs_leadership: bool,
    pub(crate) queue: Queue,
    pub(crate) history: Arc<History>,
    pub(crate) health: Box<dyn Fn() -> Vec<(KindName, Health)> + Send + Sync>,
    pub(crate) synced: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Reconciles until it is told to stop, then lets what runs come to its end.
    pub(crate) run: Run,
}

/// Starts the watches of a controller.
pub(super) fn prepare<K: Kind>(plan: Arc<Plan<K>>, parts: Parts) -> Prepared {
    let queue = Queue::new(plan.options.queue.clone(), parts.entropy.clone());
    parts.queues.0.write().push((KindName::of::<K>(), queue.clone()));
    let history = Arc::new(History::default());
    let views = Arc::new(Views::new(&plan.name));
    let echoes = Arc::new(Echoes::default());
    let doubts = Arc::new(Doubts::default());
    let wiring = Wiring {
        cache: &parts.cache,
        queue: &queue,
        views: &views,
        echoes: &echoes,
        doubts: &doubts,
        entropy: &parts.entropy,
        resync: &parts.resync,
    };
    let sources: Vec<Started> = plan.sources.iter().map(|source| source(&wiring)).collect();
    let shared = Arc::new(Shared {
        operator: parts.operator,
        client: parts.client,
        cache: parts.cache,
        views: views.clone(),
        queue: queue.clone(),
        queues: parts.queues,
        clock: parts.clock,
        recorder: parts.recorder,
        status: (plan.status)(parts.is_alone),
        echoes,
        doubts,
        held: Held::default(),
    });
    parts.metrics.watch_queue(queue.clone());
    parts.metrics.concurrency(plan.options.concurrency);
    Prepared {
        name: plan.name.clone(),
        needs_leadership: plan.options.needs_leadership,
        queue: queue.clone(),
        history: history.clone(),
        health: Box::new({
            let views = views.clone();
            move || views.health()
        }),
        synced: Box::pin(async move { views.synced().await }),
        run: Box::new(move |shutdown| {
            let metrics = parts.metrics;
            let runner = Runner { plan, shared, queue, metrics, history, reconciles: AtomicU64::new(0) };
            Box::pin(async move {
                Arc::new(runner).run(shutdown).await;
                drop(sources);
            })
        }),
    }
}

struct Runner<K: Kind> {
    plan: Arc<Plan<K>>,
    shared: Arc<Shared>,
    queue: Queue,
    metrics: ControllerMetrics,
    history: Arc<History>,
    /// Numbers the reconciles, so that the lines of one can be found in the logs.
    reconciles: AtomicU64,
}

impl<K: Kind> Runner<K> {
    async fn run(self: Arc<Self>, shutdown: Shutdown) {
        let mut running = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                () = shutdown.requested() => break,
                Some(_ended) = running.join_next() => {}
                taken = self.queue.get(), if running.len() < self.plan.options.concurrency => match taken {
                    Some(taken) => { running.spawn(self.clone().handle(taken)); }
                    None => break,
                },
            }
        }
        self.queue.shut_down();
        while running.join_next().await.is_some() {}
    }

    /// One key, to its end. Should the reconcile panic, the key is given back as it is dropped.
    async fn handle(self: Arc<Self>, taken: Taken) {
        let number = self.reconciles.fetch_add(1, Ordering::Relaxed) + 1;
        let key = taken.key().clone();
        let span = tracing::info_span!("reconcile", controller = self.plan.name, object = %key, id = number);
        let started = Instant::now();
        let _active = self.metrics.started(&taken);
        let mut work = {
            let (runner, key, failures) = (self.clone(), key.clone(), taken.failures());
            // A task of its own, so that a panic ends there.
            Abort(tokio::spawn(async move { runner.attempt(&key, failures).await }.instrument(span.clone())))
        };
        let limit = self.plan.options.timeout;
        let outcome = match limit {
            Some(limit) => timeout(limit, &mut work).await.ok(),
            None => Some((&mut work).await),
        };
        if outcome.is_none() {
            // It has ended before the object can be taken again, also if it is busy rather than waiting.
            work.0.abort();
            let _ = work.await;
        }
        let _entered = span.enter();
        let now = self.shared.clock.now();
        let failed = |why: String| self.history.failed(&key, why, now);
        let (outcome, ended) = match outcome {
            Some(Ok(Ok(next))) => match next.pause() {
                None => (Outcome::Success, Ended::Success),
                Some(pause) => (Outcome::After(pause), Ended::Requeued),
            },
            Some(Ok(Err(error))) if error.is_terminal() => {
                tracing::error!(%error, "failed for good: not tried again until the object changes");
                failed(error.to_string());
                (Outcome::Forget, Ended::Terminal)
            }
            Some(Ok(Err(error))) => {
                let failures = taken.failures() + 1;
                tracing::warn!(%error, failures, "failed: tried again later");
                failed(error.to_string());
                (Outcome::Retry { after: error.retry_after() }, Ended::Failed)
            }
            Some(Err(panic)) => {
                tracing::error!(%panic, "the reconciler panicked: tried again later");
                failed(panic.to_string());
                (Outcome::Retry { after: None }, Ended::Panicked)
            }
            None => {
                let limit = limit.unwrap_or_default();
                tracing::warn!(?limit, "took too long: ended, and tried again later");
                failed(format!("took longer than {limit:?}"));
                (Outcome::Retry { after: None }, Ended::TimedOut)
            }
        };
        let took = started.elapsed();
        self.metrics.ended(ended, took);
        self.history.ended(&key, took, now);
        taken.done(outcome);
    }

    /// A reconcile after so many failures; people are told of one that waits for them, or does not pass by itself.
    async fn attempt(&self, key: &Key, failures: u32) -> Result<Next> {
        let Some(object) = self.shared.views.get::<K>()?.get(key) else {
            self.shared.status.forget(key);
            self.shared.held.forget(key);
            self.shared.doubts.settle(key);
            (self.plan.forget)(key);
            return Ok(Next::on_change());
        };
        let outcome = self.reconcile(object.clone()).await;
        stall(&self.shared, &object, outcome.as_ref().err(), failures + 1).await?;
        if let Err(error) = &outcome
            && error.is_terminal()
        {
            let event = Event::warning("ReconcileFailed", "Reconcile", error.to_string());
            self.shared.recorder.record(&self.shared.client, &*object, event).await;
        }
        outcome
    }

    async fn reconcile(&self, object: Seen<K>) -> Result<Next> {
        if object.meta().deletion_timestamp.is_some() && !self.plan.options.reconciles_deleted {
            return self.finalize(object).await;
        }
        let object = self.mark(object).await?;
        let cx = Context::new(self.shared.clone(), object.clone());
        let next = (self.plan.reconcile)(&object, &cx).await?;
        if self.plan.options.prunes {
            for prune in &self.plan.prune {
                prune(&cx).await?;
            }
        }
        cx.reader().end_other_watches();
        Ok(next)
    }

    /// Puts all finalizers on an object before anything is made that they would have to clean up.
    async fn mark(&self, object: Seen<K>) -> Result<Seen<K>> {
        if object.meta().deletion_timestamp.is_some() {
            return Ok(object);
        }
        let present = object.finalizers();
        let mut wanted = present.to_vec();
        wanted.extend(
            self.plan.cleanups.iter().map(|one| one.name.clone()).filter(|name| !present.contains(name)),
        );
        if wanted.len() == present.len() {
            return Ok(object);
        }
        self.set_finalizers(&object, &wanted).await
    }

    /// Cleans up after an object that is about to go, one finalizer after the other.
    async fn finalize(&self, mut object: Seen<K>) -> Result<Next> {
        for cleanup in &self.plan.cleanups {
            if !object.finalizers().contains(&cleanup.name) {
                continue;
            }
            let cx = Finalizing::new(Context::new(self.shared.clone(), object.clone()));
            if let Some(pause) = (cleanup.run)(&object, cx).await?.pause() {
                return Ok(Next::after(pause));
            }
            let rest: Vec<String> =
                object.finalizers().iter().filter(|name| **name != cleanup.name).cloned().collect();
            object = self.set_finalizers(&object, &rest).await?;
        }
        Ok(Next::on_change())
    }

    /// Only if the object is still the one that was seen, and as it was seen.
    async fn set_finalizers(&self, object: &Seen<K>, finalizers: &[String]) -> Result<Seen<K>> {
        let change = json!({"metadata": {
            "uid": uid(&**object),
            "resourceVersion": object.resource_version(),
            "finalizers": finalizers,
        }});
        let answer = request::merge::<K>(
            &self.shared.client,
            &Key::of(&**object),
            None,
            &change,
            &self.shared.operator,
        )
        .await?;
        tracing::debug!(revision = revision(&*answer.object), ?finalizers, "finalizers set");
        if answer.object.meta().deletion_timestamp.is_some() && finalizers.is_empty() {
            self.shared.cache.deleted(&*answer.object);
            return Ok(Seen::new(answer.object));
        }
        Ok(self.shared.written(&answer))
    }
}

/// A task that ends with whoever waits for it.
struct Abort<T>(tokio::task::JoinHandle<T>);

impl<T> Future for Abort<T> {
    type Output = std::result::Result<T, tokio::task::JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> std::task::Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx)
    }
}

impl<T> Drop for Abort<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
