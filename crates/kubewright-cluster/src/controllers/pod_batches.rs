//! Pods that are created and deleted many at once, and told of as events of their owner.

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt as _, core::NamespaceResourceScope};
use kubewright::{Context, Event, Kind, Result, Seen};

/// How many pods are created at once at first; twice as many with each time that goes well.
const FIRST_BATCH: usize = 1;
/// How many pods are made or deleted in one go.
pub(super) const BURST: usize = 500;

/// Creates pods, few at first, so that a mistake in the template costs few requests. Says how many there are,
/// also if not all could be.
pub(super) async fn create<K: Kind<Scope = NamespaceResourceScope>>(
    cx: &Context<K>,
    pods: Vec<Pod>,
) -> (usize, Result<()>) {
    let (mut left, mut created, mut batch) = (pods.into_iter(), 0, FIRST_BATCH);
    while left.len() > 0 {
        let outcomes = join_all(left.by_ref().take(batch).map(|pod| create_one(cx, pod))).await;
        created += outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        batch *= 2;
        if let Err(error) = outcomes.into_iter().collect::<Result<()>>() {
            return (created, Err(error));
        }
    }
    (created, Ok(()))
}

async fn create_one<K: Kind<Scope = NamespaceResourceScope>>(cx: &Context<K>, pod: Pod) -> Result<()> {
    match cx.create(pod).await {
        Ok(pod) => {
            let note = format!("Created pod: {}", pod.name_any());
            cx.event(Event::normal("SuccessfulCreate", "Create", note)).await;
            Ok(())
        }
        Err(error) => {
            cx.event(Event::warning("FailedCreate", "Create", format!("Error creating: {error}"))).await;
            Err(error)
        }
    }
}

/// Deletes pods.
pub(super) async fn delete<K: Kind>(cx: &Context<K>, pods: &[Seen<Pod>]) -> Result<()> {
    let outcomes = join_all(pods.iter().map(async |pod| match cx.delete(pod).await {
        Ok(()) => {
            let note = format!("Deleted pod: {}", pod.name_any());
            cx.event(Event::normal("SuccessfulDelete", "Delete", note)).await;
            Ok(())
        }
        Err(error) => {
            let note = format!("Error deleting: {error}");
            cx.event(Event::warning("FailedDelete", "Delete", note)).await;
            Err(error)
        }
    }))
    .await;
    outcomes.into_iter().collect()
}
