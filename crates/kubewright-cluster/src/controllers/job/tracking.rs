//! The finalizer by which a job makes sure that it counts each of its pods once, and never misses one. A pod that
//! no job will count any more is let go.

use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::ResourceExt as _;
use kubewright::{Context, Controller, Key, Kind, Next, Predicate, Reconciler, Result, Seen};
use serde_json::json;

use super::{is_finished, is_managed_elsewhere};
use crate::pods::controller_of;

/// On each pod of a job until it is counted.
pub(super) const FINALIZER: &str = "batch.kubernetes.io/job-tracking";

/// Whether a pod is not counted yet.
pub(super) fn is_tracked(pod: &Pod) -> bool {
    pod.finalizers().iter().any(|name| name == FINALIZER)
}

/// Takes the finalizer off a pod.
pub(super) async fn release<K: Kind>(cx: &Context<K>, pod: &Seen<Pod>) -> Result<()> {
    // As it is now: it may have been deleted since it was listed.
    let Some(pod) = cx.get::<Pod>(&pod.name_any())?.filter(|newest| newest.uid() == pod.uid()) else {
        return Ok(());
    };
    if !is_tracked(&pod) {
        return Ok(());
    }
    let rest: Vec<&String> = pod.finalizers().iter().filter(|name| *name != FINALIZER).collect();
    // Of any revision: if its kubelet was faster, it might succeed meanwhile, and be counted after all.
    match cx.patch(&pod, json!({"metadata": {"finalizers": rest}})).await {
        Err(error) if error.status().is_some_and(|status| status.code == 404) => Ok(()),
        outcome => outcome.map(|_| ()),
    }
}

struct Orphans;

/// Lets pods go whose job is gone or has ended.
pub(in super::super) fn controller() -> Controller {
    Controller::of_existing::<Pod>()
        .named("job-orphans")
        .when(Predicate::new(|change| change.new.as_deref().is_some_and(is_tracked)))
        .watches_with::<Job, _, _>(
            kubewright::Watch::new(),
            |job, lookup| async move {
                let pods = lookup.owned_by::<Pod>(job.uid().unwrap_or_default().as_str()).unwrap_or_default();
                pods.iter().filter(|pod| is_tracked(pod)).map(|pod| Key::of(&**pod)).collect()
            },
            [Predicate::new(|change| change.new.as_deref().is_none_or(is_finished))],
        )
        .reconciles_deleted()
        .concurrency(5)
        .reports_as("job-controller")
        .run(Orphans)
}

impl Reconciler<Pod> for Orphans {
    async fn reconcile(&self, pod: &Pod, cx: &Context<Pod>) -> Result<Next> {
        if !is_tracked(pod) {
            return Ok(Next::on_change());
        }
        if let Some(owner) = controller_of(pod) {
            if owner.kind != "Job" || !owner.api_version.starts_with("batch/") {
                return Ok(Next::on_change());
            }
            let job = cx.get::<Job>(&owner.name)?.filter(|job| job.uid().as_ref() == Some(&owner.uid));
            if job.is_some_and(|job| is_managed_elsewhere(&job) || !is_finished(&job)) {
                return Ok(Next::on_change());
            }
        }
        if let Some(seen) = cx.get::<Pod>(&pod.name_any())? {
            release(cx, &seen).await?;
        }
        Ok(Next::on_change())
    }
}
