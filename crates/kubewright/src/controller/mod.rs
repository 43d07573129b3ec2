//! A controller: a kind, where its keys come from, and what is done for each of them.

mod doubt;
mod echo;
mod history;
mod predicate;
mod runner;
mod source;
mod views;

use std::{any::TypeId, collections::BTreeMap, future::Future, sync::Arc, time::Duration};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{CustomResourceExt, core::PartialObjectMeta};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use self::source::Source;
pub(crate) use self::{
    doubt::Doubts,
    echo::Echoes,
    history::{Failure, History, Slow},
    runner::{Parts, Prepared, Queues},
    source::{Resync, Started, Wiring},
    views::Views,
};
pub use self::{predicate::Predicate, source::Owners};
use crate::{
    cache::{Index, Watch},
    context::Context,
    error::{Error, Result},
    finalizer::{Cleanup, Finalizer},
    kind::{Key, Kind, KindName, MayOwn, Seen},
    lookup::Lookup,
    next::Next,
    queue,
    rights::{Rights, Verb},
};

/// Brings one object to the state it asks for. Called with the newest known state, never with an event; it may
/// be called at any time and any number of times, and must then find out for itself what is left to do.
pub trait Reconciler<K: Kind>: Send + Sync + 'static {
    /// Compares what is wanted with what is, and does what is missing.
    fn reconcile(&self, object: &K, cx: &Context<K>) -> impl Future<Output = Result<Next>> + Send;

    /// The object is gone: what was remembered of it can go, too.
    fn forget(&self, key: &Key) {
        let _ = key;
    }

    /// Whether it may keep something from one reconcile to the next. Whoever holds no data can't, and who does is taken to
    /// unless it says otherwise: one that only has settings may say no, and is explored in less time.
    fn remembers(&self) -> bool {
        size_of_val(self) > 0
    }
}

impl<K: Kind, R: Reconciler<K>> Reconciler<K> for Arc<R> {
    async fn reconcile(&self, object: &K, cx: &Context<K>) -> Result<Next> {
        R::reconcile(self, object, cx).await
    }

    fn forget(&self, key: &Key) {
        R::forget(self, key);
    }

    fn remembers(&self) -> bool {
        R::remembers(self)
    }
}

/// How a controller works.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) concurrency: usize,
    pub(crate) timeout: Option<Duration>,
    pub(crate) prunes: bool,
    pub(crate) needs_leadership: bool,
    /// Whether objects are also reconciled while they are being deleted.
    pub(crate) reconciles_deleted: bool,
    pub(crate) queue: queue::Options,
    /// Who reports its events; the operator if nothing is said.
    pub(crate) reporter: Option<Arc<str>>,
}

/// A controller that is ready to be added to an operator.
pub struct Controller {
    pub(crate) description: Description,
    pub(crate) prepare: Box<dyn Fn(Parts) -> Prepared + Send + Sync>,
}

/// What a controller says of itself.
pub(crate) struct Description {
    pub(crate) name: String,
    pub(crate) kind: KindName,
    pub(crate) definition: Option<CustomResourceDefinition>,
    /// The kinds of children.
    pub(crate) owned: Vec<KindName>,
    pub(crate) rights: Rights,
    pub(crate) options: Options,
    pub(crate) audience: Audience,
    /// Whether it sees its objects whole, and one replica at a time speaks for them: only then it can say in their
    /// status that they are stalled.
    pub(crate) tells_stalled: bool,
    /// Whether its code may keep something from one reconcile to the next.
    pub(crate) remembers: bool,
}

/// For whom the manifests have roles by which they get to the objects of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Audience {
    Nobody,
    Editors,
    Everybody,
}

impl Description {
    /// Whether two controllers of one operator don't get in each other's way.
    pub(crate) fn stands_beside(&self, other: &Self) -> Result<()> {
        if self.name == other.name {
            return Err(Error::terminal(format!(
                "two controllers are named {:?}: give one of them another name with .named(..)",
                self.name
            )));
        }
        let shared = self.owned.iter().find(|kind| self.kind == other.kind && other.owned.contains(kind));
        if let (Some(kind), true) = (shared, self.options.prunes || other.options.prunes) {
            return Err(Error::terminal(format!(
                "controllers {:?} and {:?} both own {kind} for {}, and would prune each other's: apply them in one \
                 controller, or leave out .prunes()",
                self.name, other.name, self.kind
            )));
        }
        Ok(())
    }
}

impl Controller {
    /// A controller of a kind that this operator brings along.
    pub fn of<K: Kind + CustomResourceExt>() -> Builder<K> {
        Builder::new(Some(definition::<K>()))
    }

    /// A controller of a kind that exists without this operator: a built-in one, or another operator's.
    pub fn of_existing<K: Kind>() -> Builder<K> {
        Builder::new(None)
    }
}

/// The definition of a kind, worked out from its Rust type once: an operator that is made anew a thousand times is explored.
fn definition<K: Kind + CustomResourceExt>() -> CustomResourceDefinition {
    // Not a state that anybody could see: it says the same each time.
    static KNOWN: Mutex<BTreeMap<TypeId, CustomResourceDefinition>> = Mutex::new(BTreeMap::new());
    KNOWN.lock().entry(TypeId::of::<K>()).or_insert_with(K::crd).clone()
}

/// Puts a [`Controller`] together.
pub struct Builder<K: Kind> {
    name: String,
    definition: Option<CustomResourceDefinition>,
    watch: Watch<K>,
    predicates: Vec<Predicate<K>>,
    sources: Vec<Source>,
    indexes: Vec<Index<K>>,
    period: Option<Duration>,
    prune: Vec<runner::Prune<K>>,
    cleanups: Vec<Cleanup<K>>,
    owned: Vec<KindName>,
    rights: Rights,
    audience: Audience,
    options: Options,
    remembers: bool,
}

impl<K: Kind> Builder<K> {
    fn new(definition: Option<CustomResourceDefinition>) -> Self {
        let mut rights = Rights::default();
        rights.needs::<K>(Verb::WATCHING);
        rights.needs_part::<K>("status", &[Verb::Get, Verb::Patch, Verb::Update]);
        Self {
            name: K::kind(&()).to_ascii_lowercase(),
            definition,
            watch: Watch::new(),
            predicates: Vec::new(),
            sources: Vec::new(),
            indexes: Vec::new(),
            period: None,
            prune: Vec::new(),
            cleanups: Vec::new(),
            owned: Vec::new(),
            rights,
            audience: Audience::Everybody,
            options: Options {
                concurrency: 1,
                timeout: None,
                prunes: false,
                needs_leadership: true,
                reconciles_deleted: false,
                queue: queue::Options::default(),
                reporter: None,
            },
            remembers: false,
        }
    }

    /// A name for logs and metrics, instead of the kind in lower case. Two controllers of one kind need it.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Which objects of the kind are seen at all.
    #[must_use]
    pub fn watching(mut self, watch: Watch<K>) -> Self {
        self.watch = watch;
        self
    }

    /// Which changes of the objects themselves count. Several must all let a change pass.
    #[must_use]
    pub fn when(mut self, predicate: Predicate<K>) -> Self {
        self.predicates.push(predicate);
        self
    }

    /// The objects own others of this kind: a change of one reconciles the owner that is its controller.
    ///
    /// An object outside of namespaces may own any other. One in a namespace owns no object outside of them: that
    /// does not compile.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
    /// # use kubewright::Controller;
    /// let builder = Controller::of_existing::<Namespace>().owns::<ConfigMap>();
    /// ```
    #[must_use]
    pub fn owns<C: Kind>(self) -> Self
    where
        K::Scope: MayOwn<C::Scope>,
    {
        self.owns_with(Watch::<C>::new(), Owners::Controller, [])
    }

    /// Like [`owns`](Self::owns), but only the metadata of the children is watched and kept.
    #[must_use]
    pub fn owns_metadata<C: Kind>(self) -> Self
    where
        K::Scope: MayOwn<C::Scope>,
        PartialObjectMeta<C>: Kind<Scope = C::Scope>,
    {
        self.owns_with(Watch::<PartialObjectMeta<C>>::new(), Owners::Controller, [])
    }

    /// Like [`owns`](Self::owns), with a say in what is watched, which owners are told, and which changes count.
    #[must_use]
    pub fn owns_with<C: Kind>(
        mut self,
        watch: Watch<C>,
        owners: Owners,
        predicates: impl IntoIterator<Item = Predicate<C>>,
    ) -> Self
    where
        K::Scope: MayOwn<C::Scope>,
    {
        self.rights.needs::<C>(Verb::WATCHING);
        self.rights.needs::<C>(&[Verb::Create, Verb::Patch, Verb::Delete]);
        // Where the server asks who may block the deletion of an owner, as OpenShift does.
        self.rights.needs_part::<K>("finalizers", &[Verb::Update]);
        self.owned.push(KindName::of::<C>());
        self.prune.push(runner::prune::<K, C>());
        self.sources.push(source::owned::<K, C>(watch, owners, predicates.into_iter().collect()));
        self
    }

    /// Objects of this kind matter to those whose keys `map` gives. It may wait, and look things up.
    #[must_use]
    pub fn watches<C, F, R>(self, map: F) -> Self
    where
        C: Kind,
        F: Fn(Seen<C>, Lookup) -> R + Send + Sync + 'static,
        R: Future<Output = Vec<Key>> + Send + 'static,
    {
        self.watches_with(Watch::new(), map, [])
    }

    /// Like [`watches`](Self::watches), with a say in what is watched and which changes count.
    #[must_use]
    pub fn watches_with<C, F, R>(
        mut self,
        watch: Watch<C>,
        map: F,
        predicates: impl IntoIterator<Item = Predicate<C>>,
    ) -> Self
    where
        C: Kind,
        F: Fn(Seen<C>, Lookup) -> R + Send + Sync + 'static,
        R: Future<Output = Vec<Key>> + Send + 'static,
    {
        self.rights.needs::<C>(Verb::WATCHING);
        self.remembers |= size_of::<F>() > 0;
        let map: source::Map<C> = Arc::new(move |object, views| Box::pin(map(object, Lookup::new(views))));
        self.sources.push(source::mapped(watch, map, predicates.into_iter().collect()));
        self
    }

    /// The reconciler reads objects of this kind; their changes reconcile nothing.
    #[must_use]
    pub fn reads<C: Kind>(self) -> Self {
        self.reads_with(Watch::<C>::new())
    }

    /// Like [`reads`](Self::reads), with a say in what is watched.
    #[must_use]
    pub fn reads_with<C: Kind>(mut self, watch: Watch<C>) -> Self {
        self.rights.needs::<C>(Verb::WATCHING);
        self.sources.push(source::read(watch));
        self
    }

    /// Objects of the controller's own kind can be found by an index.
    #[must_use]
    pub fn index(mut self, index: Index<K>) -> Self {
        self.indexes.push(index);
        self
    }

    /// Keys that are sent to a channel are reconciled.
    #[must_use]
    pub fn triggered_by(mut self, keys: mpsc::Receiver<Key>) -> Self {
        self.sources.push(source::channel(keys));
        self
    }

    /// Every object is reconciled at least this often, when nothing more urgent is to be done; otherwise as often
    /// as [`Options::resync`](crate::Options::resync) says.
    #[must_use]
    pub fn every(mut self, period: Duration) -> Self {
        self.period = Some(period);
        self
    }

    /// Rights that can't be seen from the kinds above, for what the reconciler does by itself.
    #[must_use]
    pub fn needs<C: Kind>(mut self, verbs: &[Verb]) -> Self {
        self.rights.needs::<C>(verbs);
        self
    }

    /// The objects hold secrets: the manifests have no role for those who may only look at them, just as nobody may
    /// look at Secrets who has no other right than that.
    #[must_use]
    pub fn confidential(mut self) -> Self {
        self.audience = self.audience.min(Audience::Editors);
        self
    }

    /// The objects are between this operator and itself: the manifests have no roles by which people get to them.
    #[must_use]
    pub fn internal(mut self) -> Self {
        self.audience = Audience::Nobody;
        self
    }

    /// Cleans up before an object goes: the name is put on each object before it is first reconciled, and taken
    /// off when the finalizer is done. Several are run in the order in which they were added.
    #[must_use]
    pub fn finalizer(mut self, name: impl Into<String>, finalizer: impl Finalizer<K>) -> Self {
        self.rights.needs::<K>(&[Verb::Patch]);
        self.rights.needs_part::<K>("finalizers", &[Verb::Update]);
        self.remembers |= size_of_val(&finalizer) > 0;
        self.cleanups.push(Cleanup::new(name.into(), finalizer));
        self
    }

    /// How many objects are reconciled at the same time, instead of one; never one of them twice.
    #[must_use]
    pub fn concurrency(mut self, reconciles: usize) -> Self {
        self.options.concurrency = reconciles.max(1);
        self
    }

    /// A reconcile that takes longer is ended, and tried again.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.options.timeout = Some(limit);
        self
    }

    /// Children that a reconcile no longer applies are deleted when it has gone well, unless the server has the object
    /// in another generation by then: the reconcile of that one decides.
    #[must_use]
    pub fn prunes(mut self) -> Self {
        self.options.prunes = true;
        self
    }

    /// Runs in every replica, not only in the leader.
    #[must_use]
    pub fn without_leadership(mut self) -> Self {
        self.options.needs_leadership = false;
        self
    }

    /// Also reconciles objects that are being deleted, until they are gone: for those whose deletion is followed
    /// rather than held up by a finalizer, as a kubelet follows that of its pods.
    #[must_use]
    pub fn reconciles_deleted(mut self) -> Self {
        self.options.reconciles_deleted = true;
        self
    }

    /// How the queue behaves: pauses after failures, and an overall limit.
    #[must_use]
    pub fn queue(mut self, options: queue::Options) -> Self {
        self.options.queue = options;
        self
    }

    /// Who the events of this controller come from, instead of the operator.
    #[must_use]
    pub fn reports_as(mut self, name: &str) -> Self {
        self.options.reporter = Some(name.into());
        self
    }

    /// What is done for each object.
    pub fn run(self, reconciler: impl Reconciler<K>) -> Controller {
        let Self {
            name,
            definition,
            predicates,
            mut sources,
            prune,
            cleanups,
            owned,
            rights,
            audience,
            options,
            ..
        } = self;
        // Only now: `watching` may have been called after the others.
        let watch = self.indexes.into_iter().fold(self.watch, Watch::index);
        sources.insert(0, source::of(watch.clone(), predicates));
        let tells_stalled = options.needs_leadership && watch.keeps_everything();
        sources.push(source::timer(self.period, watch));
        let description = Description {
            name,
            kind: KindName::of::<K>(),
            definition,
            owned,
            rights,
            options,
            audience,
            tells_stalled,
            remembers: self.remembers || reconciler.remembers(),
        };
        let plan = Arc::new(runner::Plan::new(&description, reconciler, sources, prune, cleanups));
        Controller { description, prepare: Box::new(move |parts| runner::prepare(plan.clone(), parts)) }
    }
}
