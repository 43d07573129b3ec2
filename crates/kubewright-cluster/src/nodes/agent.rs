//! What every node says of itself: its addresses, what it offers, how it is, and again and again that it is there.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        coordination::v1::{Lease, LeaseSpec},
        core::v1::{Node, NodeCondition, NodeStatus},
    },
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::ResourceExt as _;
use kubewright::{Context, Controller, Key, Next, Reconciler, Result, Seen, Watch};
use kubewright_apiserver::KUBERNETES_VERSION;
use serde_json::{Value, json};

use super::{Lost, container::between};

/// How often a node says that it is there. All do at the same time, so that a cluster is quiet in between.
const RENEWED_EVERY: Duration = Duration::from_secs(10);
/// How often a node says all of it again.
const STATUS_EVERY: Duration = Duration::from_secs(300);
const LEASE_SECONDS: i32 = 40;
/// Where the leases of nodes are.
pub(crate) const LEASES: &str = "kube-node-lease";

/// How many nodes have a range of addresses for their pods.
const RANGES: usize = 64 * 256;

struct Agent {
    lost: Lost,
}

pub(crate) fn controller(lost: Lost) -> Controller {
    Controller::of_existing::<Node>()
        .named("node-agent")
        .reads_with(Watch::<Lease>::new().namespaces([LEASES]))
        .reports_as("kubelet")
        .run(Agent { lost })
}

impl Reconciler<Node> for Agent {
    async fn reconcile(&self, _: &Node, cx: &Context<Node>) -> Result<Next> {
        let (node, now) = (cx.object(), cx.clock().now());
        if !self.lost.contains(&node.name_any()) {
            let node = introduce(node, cx).await?;
            let ready = condition(&node, "Ready").filter(|ready| ready.status == "True");
            let said = ready.and_then(|ready| ready.last_heartbeat_time.as_ref());
            if said.is_none_or(|said| between(said.0, now) >= STATUS_EVERY) {
                cx.patch_status(&node, status(&node, cx)).await?;
            }
            renew(&node, now, cx).await?;
        }
        let every = i64::try_from(RENEWED_EVERY.as_millis()).unwrap_or(1);
        let left = every - now.as_millisecond().rem_euclid(every);
        Ok(Next::after(Duration::from_millis(u64::try_from(left).unwrap_or(1))))
    }
}

/// A condition of a node, by its type.
pub(crate) fn condition<'n>(node: &'n Node, name: &str) -> Option<&'n NodeCondition> {
    node.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == name)
}

/// Gives a node the labels that every node has, and a range of addresses for its pods.
async fn introduce(node: Seen<Node>, cx: &Context<Node>) -> Result<Seen<Node>> {
    if node.spec.as_ref().is_some_and(|spec| spec.pod_cidr.is_some()) {
        return Ok(node);
    }
    let range = |node: &Seen<Node>| node.spec.as_ref().and_then(|spec| spec.pod_cidr.clone());
    let taken: Vec<String> = cx.list::<Node>()?.iter().filter_map(range).collect();
    let free = (1..RANGES).map(pod_range).find(|range| !taken.contains(range));
    let mut labels = json!({
        "kubernetes.io/hostname": node.name_any(),
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": "amd64",
    });
    for (name, value) in node.labels() {
        labels[name] = value.as_str().into();
    }
    let change = json!({"metadata": {"labels": labels}, "spec": {"podCIDR": free, "podCIDRs": [free]}});
    cx.patch(&node, change).await
}

/// The addresses of the pods on a node.
fn pod_range(number: usize) -> String {
    format!("10.{}.{}.0/24", 128 + number / 256, number % 256)
}

/// The address of a node, by the range of its pods, so that no two have the same.
fn address(node: &Node) -> String {
    let range = node.spec.as_ref().and_then(|spec| spec.pod_cidr.as_deref()).unwrap_or_default();
    let mut parts = range.split('.').skip(1).filter_map(|part| part.parse::<usize>().ok());
    let (high, low) = (parts.next().unwrap_or(128), parts.next().unwrap_or(0));
    let number = (high.saturating_sub(128)) * 256 + low;
    format!("172.18.{}.{}", number / 254, number % 254 + 1)
}

/// All that a node says of itself. What somebody else has said it offers, it does offer.
fn status(node: &Node, cx: &Context<Node>) -> Value {
    let now = cx.clock().time();
    let conditions = [
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ];
    let conditions = conditions.map(|(name, status, reason, message)| {
        let before = condition(node, name).filter(|before| before.status == status);
        let since =
            before.and_then(|before| before.last_transition_time.clone()).unwrap_or_else(|| now.clone());
        json!({
            "type": name, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": now, "lastTransitionTime": since,
        })
    });
    let NodeStatus { capacity, allocatable, addresses, .. } = node.status.clone().unwrap_or_default();
    let name = node.name_any();
    let usual = json!({"cpu": "16", "memory": "64Gi", "ephemeral-storage": "256Gi", "pods": "110"});
    let capacity = capacity.map_or(usual, |capacity| json!(capacity));
    json!({
        "allocatable": allocatable.map_or_else(|| capacity.clone(), |allocatable| json!(allocatable)),
        "capacity": capacity,
        "conditions": conditions,
        "addresses": addresses.map_or_else(
            || json!([
                {"type": "InternalIP", "address": address(node)},
                {"type": "Hostname", "address": name},
            ]),
            |addresses| json!(addresses),
        ),
        "nodeInfo": {
            "architecture": "amd64", "operatingSystem": "linux", "kubeletVersion": KUBERNETES_VERSION,
            "kubeProxyVersion": KUBERNETES_VERSION, "containerRuntimeVersion": "simulated://1", "osImage": "Kubewright",
            "kernelVersion": "6", "machineID": name, "systemUUID": name, "bootID": name,
        },
    })
}

/// Says that a node is there, once in each period.
async fn renew(node: &Seen<Node>, now: Timestamp, cx: &Context<Node>) -> Result<()> {
    let name = node.name_any();
    let time = cx.clock().micro_time();
    let Some(lease) = cx.lookup().get::<Lease>(&Key::new(LEASES, &name))? else {
        let owner = OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            name: name.clone(),
            uid: node.uid().unwrap_or_default(),
            ..OwnerReference::default()
        };
        let lease = Lease {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                namespace: Some(LEASES.to_owned()),
                owner_references: Some(vec![owner]),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(name),
                lease_duration_seconds: Some(LEASE_SECONDS),
                renew_time: Some(time),
                ..LeaseSpec::default()
            }),
        };
        cx.create_free(lease).await?;
        return Ok(());
    };
    let period = |time: Timestamp| time.as_millisecond().div_euclid(10_000);
    let renewed = lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref());
    if renewed.is_none_or(|renewed| period(renewed.0) < period(now)) {
        cx.patch(&lease, json!({"spec": {"renewTime": time}})).await?;
    }
    Ok(())
}
