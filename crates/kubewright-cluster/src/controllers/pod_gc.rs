//! Removes pods that nobody else can: those whose node is no longer there.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod, PodCondition};
use kube::ResourceExt as _;
use kubewright::{
    Change, Context, Controller, Index, Key, Lookup, Next, Predicate, Reconciler, Result, Seen, Watch,
};
use parking_lot::Mutex;

use crate::pods;

/// How long a node must be gone.
const QUARANTINE: Duration = Duration::from_secs(40);

/// Pods by the node they are on or were.
const OF_NODE: Index<Pod> = Index::new("of-node", |pod| pods::spec(pod).node_name.iter().cloned().collect());

#[derive(Default)]
struct Orphans {
    /// Since when nodes are known to be missing.
    missing: Mutex<BTreeMap<String, Timestamp>>,
}

pub(super) fn controller() -> Controller {
    let node_of = |pod: &Pod| pods::spec(pod).node_name.clone();
    Controller::of_existing::<Pod>()
        .named("pod-garbage-collector")
        .watching(Watch::new().index(OF_NODE))
        .when(Predicate::new(move |change: &Change<Pod>| {
            change.old.as_deref().map(node_of) != change.new.as_deref().map(node_of)
        }))
        .watches_with(
            Watch::<Node>::new(),
            pods_of,
            [Predicate::new(|change: &Change<Node>| change.new.is_none())],
        )
        .reconciles_deleted()
        .concurrency(8)
        .run(Orphans::default())
}

async fn pods_of(node: Seen<Node>, lookup: Lookup) -> Vec<Key> {
    let pods = lookup.indexed(&OF_NODE, &node.name_any()).unwrap_or_default();
    pods.iter().map(|pod| Key::of(&**pod)).collect()
}

impl Reconciler<Pod> for Orphans {
    async fn reconcile(&self, pod: &Pod, cx: &Context<Pod>) -> Result<Next> {
        let Some(node) = pods::spec(pod).node_name.clone() else { return Ok(Next::on_change()) };
        if cx.get::<Node>(&node)?.is_some() {
            self.missing.lock().remove(&node);
            return Ok(Next::on_change());
        }
        let now = cx.clock().now();
        let since = *self.missing.lock().entry(node.clone()).or_insert(now);
        let left =
            QUARANTINE.saturating_sub(Duration::try_from(now.duration_since(since)).unwrap_or_default());
        if !left.is_zero() {
            return Ok(Next::after(left));
        }
        if cx.live().get::<Node>(&node).await?.is_some() {
            return Ok(Next::after(QUARANTINE));
        }
        if !pods::is_finished(pod) {
            let mut status = pod.status.clone().unwrap_or_default();
            status.phase = Some("Failed".to_owned());
            let target = PodCondition {
                type_: "DisruptionTarget".to_owned(),
                status: "True".to_owned(),
                reason: Some("DeletionByPodGC".to_owned()),
                message: Some("PodGC: node no longer exists".to_owned()),
                observed_generation: pod.metadata.generation,
                ..PodCondition::default()
            };
            pods::set_condition(&mut status, target, cx.clock().time());
            cx.replace_status(Pod { status: Some(status), ..pod.clone() }).await?;
        }
        pods::remove(pod, cx.client()).await?;
        Ok(Next::on_change())
    }
}
