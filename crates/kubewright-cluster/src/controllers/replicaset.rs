//! ReplicaSets: as many pods as wanted, no more and no less.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::{
    apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus},
    core::v1::Pod,
};
use kube::ResourceExt as _;
use kubewright::{Context, Controller, Error, Next, Owners, Reconciler, Result, Seen, Watch};

use super::{
    claim::{self, ORPHANED_PODS, claim},
    pod_batches::{self, BURST},
    update_status,
};
use crate::pods::{self, Availability, available_in, is_active, is_ready, is_terminating};

struct ReplicaSets;

pub(super) fn controller() -> Controller {
    Controller::of_existing::<ReplicaSet>()
        .owns_with(Watch::<Pod>::new().index(ORPHANED_PODS), Owners::Controller, [])
        .watches::<Pod, _, _>(|pod, lookup| {
            claim::adopters::<ReplicaSet, _>(pod, lookup, |set| set.spec.as_ref().map(|spec| &spec.selector))
        })
        .reconciles_deleted()
        .concurrency(5)
        .reports_as("replicaset-controller")
        .run(ReplicaSets)
}

impl Reconciler<ReplicaSet> for ReplicaSets {
    async fn reconcile(&self, set: &ReplicaSet, cx: &Context<ReplicaSet>) -> Result<Next> {
        let Some(spec) = &set.spec else { return Ok(Next::on_change()) };
        let all = claim(set, cx, &spec.selector, &ORPHANED_PODS).await?;
        let (active, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|pod| is_active(pod));
        let terminating = others.iter().filter(|pod| is_terminating(pod)).count();
        let wanted = usize::try_from(spec.replicas.unwrap_or(1)).unwrap_or(0);
        let managed = match set.metadata.deletion_timestamp {
            Some(_) => Ok(()),
            None if active.len() < wanted => create(set, cx, wanted - active.len()).await,
            None => delete(cx, &active, active.len() - wanted).await,
        };
        let (status, next) = status(set, &active, terminating, managed.as_ref().err(), cx);
        update_status(cx, set, |set| &mut set.status, status).await?;
        managed?;
        Ok(next)
    }
}

/// Creates as many pods as are missing.
async fn create(set: &ReplicaSet, cx: &Context<ReplicaSet>, missing: usize) -> Result<()> {
    let template = set.spec.as_ref().and_then(|spec| spec.template.clone()).unwrap_or_default();
    let pod = pods::from_template(&template, &set.name_any());
    pod_batches::create(cx, vec![pod; missing.min(BURST)]).await.1?;
    if missing > BURST {
        Err(Error::new("there are more pods to create than fit into one go"))
    } else {
        Ok(())
    }
}

/// Deletes those pods that are missed least.
async fn delete(cx: &Context<ReplicaSet>, active: &[Seen<Pod>], surplus: usize) -> Result<()> {
    if surplus == 0 {
        return Ok(());
    }
    let mut on_node: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in active {
        *on_node.entry(pods::spec(pod).node_name.as_deref().unwrap_or_default()).or_default() += 1;
    }
    let mut ranked: Vec<&Seen<Pod>> = active.iter().collect();
    ranked.sort_by_cached_key(|pod| {
        let node = pods::spec(pod).node_name.as_deref().unwrap_or_default();
        pods::DeletionRank::of(pod, on_node[node], cx.clock().now())
    });
    let surplus: Vec<Seen<Pod>> = ranked.into_iter().take(surplus.min(BURST)).cloned().collect();
    pod_batches::delete(cx, &surplus).await
}

/// What is said of the set, and when to look again.
fn status(
    set: &ReplicaSet,
    active: &[Seen<Pod>],
    terminating: usize,
    failure: Option<&Error>,
    cx: &Context<ReplicaSet>,
) -> (ReplicaSetStatus, Next) {
    let spec = set.spec.clone().unwrap_or_default();
    let labels = spec.template.and_then(|template| template.metadata?.labels).unwrap_or_default();
    let is_full = |pod: &&Seen<Pod>| labels.iter().all(|(name, value)| pod.labels().get(name) == Some(value));
    let now = cx.clock().now();
    let availability: Vec<Availability> =
        active.iter().map(|pod| available_in(pod, spec.min_ready_seconds.unwrap_or(0), now)).collect();
    let soonest: Option<Duration> = availability
        .iter()
        .filter_map(|one| if let Availability::After(left) = one { Some(*left) } else { None })
        .min();
    let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    let some = |number: usize| Some(count(number)).filter(|number| *number > 0);
    let before = set.status.as_ref().and_then(|status| status.conditions.as_ref());
    let before = before.and_then(|all| all.iter().find(|one| one.type_ == "ReplicaFailure"));
    let condition = failure.map(|failure| {
        let wanted = spec.replicas.unwrap_or(1);
        let reason = if count(active.len()) < wanted { "FailedCreate" } else { "FailedDelete" };
        // Its message stays while it lasts, as the reason it began with.
        before.cloned().unwrap_or_else(|| ReplicaSetCondition {
            type_: "ReplicaFailure".to_owned(),
            status: "True".to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(failure.to_string()),
            last_transition_time: Some(cx.clock().time()),
        })
    });
    let status = ReplicaSetStatus {
        replicas: count(active.len()),
        fully_labeled_replicas: some(active.iter().filter(is_full).count()),
        ready_replicas: some(active.iter().filter(|pod| is_ready(pod)).count()),
        available_replicas: some(availability.iter().filter(|one| **one == Availability::Available).count()),
        terminating_replicas: Some(count(terminating)),
        observed_generation: set.metadata.generation,
        conditions: condition.map(|condition| vec![condition]),
    };
    (status, soonest.map_or_else(Next::on_change, Next::after))
}
