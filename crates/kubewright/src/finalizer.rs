//! Cleaning up before an object goes.

use std::{future::Future, ops::Deref, pin::Pin, sync::Arc, time::Duration};

use crate::{context::Context, error::Result, kind::Kind};

/// Cleans up what an object has led to outside of its own children, which the garbage collector takes care of.
pub trait Finalizer<K: Kind>: Send + Sync + 'static {
    /// Cleans up, and says whether it is done. Called until it is; it must find out for itself what is left.
    fn finalize(&self, object: &K, cx: Finalizing<K>) -> impl Future<Output = Result<Finalized>> + Send;
}

impl<K: Kind, F: Finalizer<K>> Finalizer<K> for Arc<F> {
    async fn finalize(&self, object: &K, cx: Finalizing<K>) -> Result<Finalized> {
        F::finalize(self, object, cx).await
    }
}

/// What a finalizer works with. It can look, delete and report, but it applies nothing: what it made would be
/// left behind. Saying that it is done takes it away, so that nothing can follow.
///
/// ```
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use kubewright::{Finalized, Finalizing, Result};
/// async fn finalize(cx: Finalizing<ConfigMap>) -> Result<Finalized> {
///     for child in cx.children::<ConfigMap>()? {
///         cx.delete(&child).await?;
///     }
///     Ok(cx.done())
/// }
/// ```
///
/// Nothing is applied here, and nothing is done after [`done`](Self::done): neither compiles.
pub struct Finalizing<K: Kind>(Context<K>);

impl<K: Kind> Finalizing<K> {
    pub(crate) fn new(context: Context<K>) -> Self {
        Self(context)
    }

    /// Everything is cleaned up: the object may go.
    pub fn done(self) -> Finalized {
        Finalized(None)
    }

    /// Something is still to be cleaned up: call again after some time, or when something changes. The time is taken as
    /// by [`Next::after`](crate::Next::after).
    pub fn again_after(self, pause: Duration) -> Finalized {
        Finalized(Some(pause))
    }
}

impl<K: Kind> Deref for Finalizing<K> {
    type Target = crate::context::Reader<K>;

    fn deref(&self) -> &Self::Target {
        self.0.reader()
    }
}

/// How far a finalizer has come. Made by [`Finalizing::done`] and [`Finalizing::again_after`].
#[derive(Debug)]
#[must_use]
pub struct Finalized(Option<Duration>);

impl Finalized {
    /// Nothing if it is done.
    pub(crate) fn pause(&self) -> Option<Duration> {
        self.0
    }
}

type Run<K> = Arc<
    dyn for<'a> Fn(&'a K, Finalizing<K>) -> Pin<Box<dyn Future<Output = Result<Finalized>> + Send + 'a>>
        + Send
        + Sync,
>;

/// A finalizer with its name.
pub(crate) struct Cleanup<K: Kind> {
    pub(crate) name: String,
    pub(crate) run: Run<K>,
}

impl<K: Kind> Cleanup<K> {
    pub(crate) fn new(name: String, finalizer: impl Finalizer<K>) -> Self {
        let finalizer = Arc::new(finalizer);
        Self {
            name,
            run: Arc::new(move |object, cx| {
                let finalizer = finalizer.clone();
                Box::pin(async move { finalizer.finalize(object, cx).await })
            }),
        }
    }
}
