//! Events are forgotten an hour after they were last seen. Only their metadata is kept in memory: there are many,
//! and most are never looked at again.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Event;
use kube::{
    ResourceExt as _,
    core::{ObjectMeta, PartialObjectMeta},
};
use kubewright::{Context, Controller, Next, Predicate, Reconciler, Result, Watch};

/// How long an event is kept.
const KEPT: SignedDuration = SignedDuration::from_hours(1);

struct Expiry;

pub(super) fn controller() -> Controller {
    Controller::of_existing::<PartialObjectMeta<Event>>()
        .named("event-expiry")
        .watching(Watch::new().transform(lean))
        .when(Predicate::new(|change| change.old.is_none()))
        .run(Expiry)
}

impl Reconciler<PartialObjectMeta<Event>> for Expiry {
    async fn reconcile(
        &self,
        event: &PartialObjectMeta<Event>,
        cx: &Context<PartialObjectMeta<Event>>,
    ) -> Result<Next> {
        let now = cx.clock().now();
        let created = event.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
        if let Some(left) = left(created, now) {
            return Ok(Next::after(left));
        }
        // It may have been seen again since.
        let Some(event) = cx.live().get::<Event>(&event.name_any()).await? else {
            return Ok(Next::on_change());
        };
        if let Some(left) = last_seen(&event).and_then(|seen| left(seen, now)) {
            return Ok(Next::after(left));
        }
        cx.delete(&event).await?;
        Ok(Next::on_change())
    }
}

/// How much longer an event is kept; nothing if it is not.
fn left(seen: Timestamp, now: Timestamp) -> Option<Duration> {
    let until = seen.saturating_add(KEPT).unwrap_or(Timestamp::MAX);
    Duration::try_from(until.duration_since(now)).ok().filter(|left| !left.is_zero())
}

fn last_seen(event: &Event) -> Option<Timestamp> {
    let series = event.series.as_ref().and_then(|series| Some(series.last_observed_time.as_ref()?.0));
    let last = event.last_timestamp.as_ref().map(|time| time.0);
    series.max(last)
}

/// Leaves of an event what is read here.
fn lean(event: &mut PartialObjectMeta<Event>) {
    let meta = std::mem::take(&mut event.metadata);
    event.metadata = ObjectMeta {
        name: meta.name,
        namespace: meta.namespace,
        uid: meta.uid,
        resource_version: meta.resource_version,
        creation_timestamp: meta.creation_timestamp,
        ..ObjectMeta::default()
    };
}
