//! What an operator does besides its controllers, and what that works with.

use std::{future::Future, ops::Deref, pin::Pin, sync::Arc};

use kube::Client;

use crate::{
    cache::{Cache, Change, Subscription, Watch},
    clock::Clock,
    context::Watched,
    error::Result,
    kind::Object,
    shutdown::Shutdown,
};

/// Something an operator does besides its controllers.
pub(crate) struct Task {
    pub(crate) name: String,
    pub(crate) needs_leadership: bool,
    pub(crate) run: TaskFunction,
}

type TaskFunction =
    Arc<dyn Fn(TaskContext) -> Pin<Box<dyn Future<Output = Result<()>> + Send>> + Send + Sync>;

/// What a task works with.
#[derive(Clone)]
pub struct TaskContext {
    /// The client of the operator.
    pub client: Client,
    /// The time it is, as the operator sees it.
    pub clock: Clock,
    /// Asks the task to come to its end.
    pub shutdown: Shutdown,
    pub(crate) cache: Cache,
}

impl TaskContext {
    /// Watches objects for as long as the answer is held, and tells of everything that is there and of every
    /// change, one after another. The watch is shared with whoever wants the same. What is told should only be
    /// written down, in a [`Queue`](crate::queue::Queue) for example: other watchers wait meanwhile.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Secret;
    /// use kubewright::{Operator, Watch};
    ///
    /// let operator = Operator::new("example-operator").task("count", async |cx| {
    ///     let secrets = cx.watch(Watch::<Secret>::new(), |change| match &change.new {
    ///         Some(secret) => println!("{:?} is there", secret.metadata.name),
    ///         None => println!("{:?} has gone", change.object().metadata.name),
    ///     });
    ///     secrets.ready().await?;
    ///     println!("{} at first", secrets.list(None).len());
    ///     cx.shutdown.requested().await;
    ///     Ok(())
    /// });
    /// ```
    pub fn watch<C: Object>(
        &self,
        watch: Watch<C>,
        tell: impl Fn(&Change<C>) + Send + Sync + 'static,
    ) -> Watching<C> {
        let view = self.cache.view(&watch);
        let subscription = view.subscribe(Arc::new(tell));
        Watching { watched: Watched::new(view), _subscription: subscription }
    }
}

/// A watch that a task holds, and what it has seen. It ends when this is dropped.
#[must_use = "the watch ends when this is dropped"]
pub struct Watching<C> {
    watched: Watched<C>,
    _subscription: Subscription,
}

impl<C: Object> Watching<C> {
    /// Waits until everything was seen once; fails if it is known why it can't be.
    pub async fn ready(&self) -> Result<()> {
        self.watched.ready().await
    }
}

impl<C> Deref for Watching<C> {
    type Target = Watched<C>;

    fn deref(&self) -> &Watched<C> {
        &self.watched
    }
}
