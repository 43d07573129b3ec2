//! Evicts pods from nodes whose taints they don't tolerate, or no longer.

use std::{collections::BTreeMap, time::Duration};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod, PodCondition, Taint};
use kube::ResourceExt as _;
use kubewright::{Change, Context, Controller, Event, Key, Next, Predicate, Reconciler, Result, Seen, Watch};
use parking_lot::Mutex;

use crate::{
    fit,
    pods::{self, BY_NODE},
};

#[derive(Default)]
struct Evictions {
    /// By node and UID: since when a pod is on a node whose taints it tolerates for a while.
    since: Mutex<BTreeMap<String, BTreeMap<String, Timestamp>>>,
}

pub(super) fn controller() -> Controller {
    // A pod comes to a node, or tolerates something else.
    let place = |pod: &Pod| (pods::spec(pod).node_name.clone(), pods::spec(pod).tolerations.clone());
    let has_come = Predicate::new(move |change: &Change<Pod>| {
        change.new.is_some() && change.old.as_deref().map(place) != change.new.as_deref().map(place)
    });
    Controller::of_existing::<Node>()
        .named("taint-eviction")
        .when(Predicate::new(|change: &Change<Node>| {
            let taints = |node: &Node| node.spec.as_ref().and_then(|spec| spec.taints.clone());
            change.old.as_deref().map(taints) != change.new.as_deref().map(taints)
        }))
        .watches_with(
            Watch::<Pod>::new().index(BY_NODE),
            async |pod, _| pods::spec(&pod).node_name.iter().map(|node| Key::cluster(node)).collect(),
            [has_come],
        )
        .reports_as("taint-eviction-controller")
        .run(Evictions::default())
}

impl Reconciler<Node> for Evictions {
    async fn reconcile(&self, node: &Node, cx: &Context<Node>) -> Result<Next> {
        let (name, now) = (node.name_any(), cx.clock().now());
        let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
        let taints: Vec<&Taint> = taints.filter(|taint| taint.effect == "NoExecute").collect();
        let before = self.since.lock().remove(&name).unwrap_or_default();
        if taints.is_empty() {
            return Ok(Next::on_change());
        }
        let (mut since, mut soonest) = (BTreeMap::new(), None::<Timestamp>);
        for pod in cx.lookup().indexed(&BY_NODE, &name)? {
            let uid = pod.uid().unwrap_or_default();
            let began = before.get(&uid).copied().unwrap_or(now);
            let due = match tolerated(&pod, &taints) {
                _ if pods::is_terminating(&pod) => continue,
                Tolerated::Always => continue,
                Tolerated::For(pause) => began.saturating_add(pause).unwrap_or(Timestamp::MAX),
            };
            if due <= now {
                evict(&pod, cx).await?;
                continue;
            }
            since.insert(uid, began);
            soonest = Some(soonest.map_or(due, |soonest| soonest.min(due)));
        }
        self.since.lock().insert(name, since);
        let left = soonest.map(|due| Duration::try_from(due.duration_since(now)).unwrap_or_default());
        Ok(left.map_or_else(Next::on_change, Next::after))
    }
}

enum Tolerated {
    Always,
    For(SignedDuration),
}

/// For how long a pod tolerates all of the taints.
fn tolerated(pod: &Pod, taints: &[&Taint]) -> Tolerated {
    let mut shortest = None::<i64>;
    for taint in taints {
        let seconds = match fit::tolerating(pods::spec(pod), taint) {
            None => Some(0),
            Some(toleration) => toleration.toleration_seconds.map(|seconds| seconds.max(0)),
        };
        shortest = shortest.into_iter().chain(seconds).min();
    }
    shortest.map_or(Tolerated::Always, |seconds| Tolerated::For(SignedDuration::from_secs(seconds)))
}

async fn evict(pod: &Seen<Pod>, cx: &Context<Node>) -> Result<()> {
    let note = format!("Marking for deletion Pod {}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
    cx.event_about(pod, Event::normal("TaintManagerEviction", "Evict", note)).await;
    let mut status = pod.status.clone().unwrap_or_default();
    let target = PodCondition {
        type_: "DisruptionTarget".to_owned(),
        status: "True".to_owned(),
        reason: Some("DeletionByTaintManager".to_owned()),
        message: Some("Taint manager: deleting due to NoExecute taint".to_owned()),
        observed_generation: pod.metadata.generation,
        ..PodCondition::default()
    };
    pods::set_condition(&mut status, target, cx.clock().time());
    let marked = cx.replace_status(Pod { status: Some(status), ..Pod::clone(pod) }).await?;
    cx.delete(&marked).await
}
