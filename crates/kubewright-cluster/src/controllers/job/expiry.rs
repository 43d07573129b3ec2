//! Jobs that have ended and go by themselves after a time.

use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::batch::v1::Job;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Preconditions},
};
use kubewright::{Context, Controller, Next, Reconciler, Result};

use super::terminal_condition;

struct Expiry;

pub(in super::super) fn controller() -> Controller {
    Controller::of_existing::<Job>()
        .named("ttl-after-finished")
        .reports_as("ttl-after-finished-controller")
        .run(Expiry)
}

impl Reconciler<Job> for Expiry {
    async fn reconcile(&self, job: &Job, cx: &Context<Job>) -> Result<Next> {
        let ttl = job.spec.as_ref().and_then(|spec| spec.ttl_seconds_after_finished);
        let end = terminal_condition(job).and_then(|condition| condition.last_transition_time.as_ref());
        let (Some(ttl), Some(end)) = (ttl, end) else { return Ok(Next::on_change()) };
        let until = end.0.saturating_add(SignedDuration::from_secs(ttl.into()))?;
        match Duration::try_from(until.duration_since(cx.clock().now())) {
            Ok(left) if !left.is_zero() => Ok(Next::after(left)),
            _ => remove(job, cx).await,
        }
    }
}

/// Its pods go first.
async fn remove(job: &Job, cx: &Context<Job>) -> Result<Next> {
    let api: Api<Job> = Api::namespaced(cx.client().clone(), cx.namespace());
    let parameters = DeleteParams {
        preconditions: Some(Preconditions { uid: job.uid(), resource_version: None }),
        ..DeleteParams::foreground()
    };
    match api.delete(&job.name_any(), &parameters).await {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(Next::on_change()),
        outcome => Ok(outcome.map(|_| Next::on_change())?),
    }
}
