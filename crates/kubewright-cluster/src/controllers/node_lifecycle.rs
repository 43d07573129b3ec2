//! The health of nodes: one that is not heard of any more is unknown, is tainted by what is wrong with it, and its
//! pods count as not ready.

use std::{sync::OnceLock, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        coordination::v1::Lease,
        core::v1::{Node, NodeCondition, Pod, PodCondition, Taint},
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::ResourceExt as _;
use kubewright::{Context, Controller, Event, Key, Next, Reconciler, Result, Seen, Watch};
use serde_json::json;

use crate::{
    nodes::{LEASES, NOT_READY, condition},
    pods::{self, BY_NODE},
};

/// How long nothing may be heard of a node.
const GRACE: Duration = Duration::from_secs(50);
/// The same for one that has never said anything.
const FIRST_GRACE: Duration = Duration::from_secs(60);
/// How often a node that is not ready is looked at.
const PERIOD: Duration = Duration::from_secs(5);
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// By condition and status: the taint that says so.
const TAINTS: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];
/// What a kubelet says of its node, and nobody if it does not.
const OF_KUBELET: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

#[derive(Default)]
struct Nodes {
    /// Since when this listens: before, nothing could be heard.
    since: OnceLock<Timestamp>,
}

pub(super) fn controller() -> Controller {
    Controller::of_existing::<Node>()
        .named("node-lifecycle")
        .reads_with(Watch::<Lease>::new().namespaces([LEASES]))
        .reads_with(Watch::<Pod>::new().index(BY_NODE))
        .concurrency(8)
        .reports_as("node-controller")
        .run(Nodes::default())
}

fn is_ready(node: &Node) -> bool {
    condition(node, "Ready").is_some_and(|ready| ready.status == "True")
}

impl Reconciler<Node> for Nodes {
    async fn reconcile(&self, _: &Node, cx: &Context<Node>) -> Result<Next> {
        let (mut node, now) = (cx.object(), cx.clock().now());
        let grace = if condition(&node, "Ready").is_some() { GRACE } else { FIRST_GRACE };
        let heard = heard(&node, cx)?.max(*self.since.get_or_init(|| now));
        let silence = Duration::try_from(now.duration_since(heard)).unwrap_or_default();
        if silence >= grace && condition(&node, "Ready").is_none_or(|ready| ready.status != "Unknown") {
            let was_ready = is_ready(&node);
            node = cx.patch_status(&node, json!({"conditions": unknown(&node, &cx.clock().time())})).await?;
            if was_ready {
                let note = format!("Node {} status is now: NodeNotReady", node.name_any());
                cx.event(Event::normal("NodeNotReady", "Watch", note)).await;
            }
        }
        // If no node is ready, it is rather this side that is cut off: nothing is evicted then.
        let evicts = cx.list::<Node>()?.iter().any(|node| is_ready(node));
        let taints = taints(&node, evicts, cx.clock().time());
        if node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default() != taints {
            let version = node.resource_version();
            let change = json!({"metadata": {"resourceVersion": version}, "spec": {"taints": taints}});
            node = cx.patch(&node, change).await?;
        }
        if is_ready(&node) {
            return Ok(Next::after(grace.saturating_sub(silence)));
        }
        for pod in cx.lookup().indexed(&BY_NODE, &node.name_any())? {
            say_unready(&pod, cx).await?;
        }
        Ok(Next::after(PERIOD))
    }
}

/// When a node was last heard of.
fn heard(node: &Node, cx: &Context<Node>) -> Result<Timestamp> {
    let lease = cx.lookup().get::<Lease>(&Key::new(LEASES, &node.name_any()))?;
    let renewed = lease.and_then(|lease| Some(lease.spec.as_ref()?.renew_time.as_ref()?.0));
    let said =
        condition(node, "Ready").and_then(|ready| ready.last_heartbeat_time.as_ref()).map(|time| time.0);
    let created = node.metadata.creation_timestamp.as_ref().map(|time| time.0);
    Ok(renewed.max(said).max(created).unwrap_or(Timestamp::MIN))
}

/// The conditions of a node that is not heard of.
fn unknown(node: &Node, now: &Time) -> Vec<NodeCondition> {
    let mut conditions =
        node.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    for name in OF_KUBELET {
        let (reason, message) = match condition(node, name) {
            Some(_) => ("NodeStatusUnknown", "Kubelet stopped posting node status."),
            None => ("NodeStatusNeverUpdated", "Kubelet never posted node status."),
        };
        let unknown = NodeCondition {
            type_: name.to_owned(),
            status: "Unknown".to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_heartbeat_time: node.metadata.creation_timestamp.clone(),
            last_transition_time: Some(now.clone()),
        };
        match conditions.iter_mut().find(|condition| condition.type_ == name) {
            Some(found) if found.status == "Unknown" => {}
            Some(found) => {
                *found = NodeCondition { last_heartbeat_time: found.last_heartbeat_time.clone(), ..unknown };
            }
            None => conditions.push(unknown),
        }
    }
    conditions
}

/// The taints that a node should have: those that its state asks for, and those that others have given it.
fn taints(node: &Node, evicts: bool, now: Time) -> Vec<Taint> {
    let spec = node.spec.clone().unwrap_or_default();
    let holds = |(name, status, _): &&(&str, &str, &str)| {
        condition(node, name).is_some_and(|condition| condition.status == *status)
    };
    let mut wanted: Vec<(&str, &str)> =
        TAINTS.iter().filter(holds).map(|(_, _, key)| (*key, "NoSchedule")).collect();
    // Until it says something, a new node stays as it was made.
    if condition(node, "Ready").is_none() {
        wanted.push((NOT_READY, "NoSchedule"));
    }
    if spec.unschedulable == Some(true) {
        wanted.push((UNSCHEDULABLE, "NoSchedule"));
    }
    if evicts {
        let evicting = TAINTS.iter().filter(|(name, ..)| *name == "Ready").filter(holds);
        wanted.extend(evicting.map(|(_, _, key)| (*key, "NoExecute")));
    }
    let is_ours = |taint: &Taint| match taint.effect.as_str() {
        "NoSchedule" => taint.key == UNSCHEDULABLE || TAINTS.iter().any(|(_, _, key)| taint.key == *key),
        "NoExecute" => matches!(taint.key.as_str(), NOT_READY | UNREACHABLE),
        _ => false,
    };
    let is = |taint: &Taint, (key, effect): (&str, &str)| taint.key == key && taint.effect == effect;
    let mut taints = spec.taints.unwrap_or_default();
    taints.retain(|taint| !is_ours(taint) || wanted.iter().any(|wanted| is(taint, *wanted)));
    for wanted in wanted {
        if !taints.iter().any(|taint| is(taint, wanted)) {
            let (key, effect) = (wanted.0.to_owned(), wanted.1.to_owned());
            taints.push(Taint { key, effect, time_added: Some(now.clone()), value: None });
        }
    }
    taints
}

/// A pod on a node that is not ready is not ready either, whatever it was when it was last heard of.
async fn say_unready(pod: &Seen<Pod>, cx: &Context<Node>) -> Result<()> {
    let Some(ready) = pods::condition(pod, "Ready").filter(|ready| ready.status == "True") else {
        return Ok(());
    };
    let mut status = pod.status.clone().unwrap_or_default();
    let unready = PodCondition { status: "False".to_owned(), ..ready.clone() };
    pods::set_condition(&mut status, unready, cx.clock().time());
    cx.replace_status(Pod { status: Some(status), ..Pod::clone(pod) }).await?;
    cx.event_about(pod, Event::warning("NodeNotReady", "Watch", "Node is not ready")).await;
    Ok(())
}
