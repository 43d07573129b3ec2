//! Nodes: how they are, what becomes of them, and of the pods on them.

use std::time::Duration;

use k8s_openapi::api::{
    apps::v1::ReplicaSet,
    coordination::v1::Lease,
    core::v1::{Node, NodeCondition, Pod},
};
use kube::{Api, ResourceExt as _, api::EvictParams};
use kubewright_cluster::TestCluster;
use serde_json::json;

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

async fn cluster_of(nodes: usize) -> TestCluster {
    let cluster = TestCluster::with(|builder| builder.nodes(nodes)).await;
    cluster.quiet().await;
    cluster
}

async fn pod_on(cluster: &TestCluster, name: &str, node: &str) {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "containers": [{"name": "main", "image": "nginx"}],
        },
    });
    cluster.apply(&pod.to_string()).await;
    cluster.eventually("it is ready", async |cluster| is_ready(cluster, name).await).await;
}

async fn is_ready(cluster: &TestCluster, pod: &str) -> bool {
    let conditions = cluster.get::<Pod>(pod).await.status.unwrap().conditions.unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

async fn ready(cluster: &TestCluster, node: &str) -> NodeCondition {
    let conditions = cluster.get::<Node>(node).await.status.unwrap().conditions.unwrap();
    conditions.into_iter().find(|condition| condition.type_ == "Ready").unwrap()
}

/// The taints of a node, as `kubectl` prints them.
async fn taints(cluster: &TestCluster, node: &str) -> Vec<String> {
    let taints = cluster.get::<Node>(node).await.spec.unwrap().taints.unwrap_or_default();
    taints.into_iter().map(|taint| format!("{}:{}", taint.key, taint.effect)).collect()
}

async fn is_leaving(cluster: &TestCluster, pod: &str) -> bool {
    cluster.get::<Pod>(pod).await.metadata.deletion_timestamp.is_some()
}

#[tokio::test]
async fn a_node_is_ready_and_says_so_again_and_again() {
    let cluster = cluster_of(2).await;
    assert_eq!(ready(&cluster, "node-2").await.reason.as_deref(), Some("KubeletReady"));
    assert!(taints(&cluster, "node-2").await.is_empty());
    let leases: Api<Lease> = Api::namespaced(cluster.client(), "kube-node-lease");
    let renewed = async || leases.get("node-2").await.unwrap().spec.unwrap().renew_time.unwrap().0;
    let first = renewed().await;
    cluster.advance(seconds(3600)).await;
    let passed = renewed().await.duration_since(first).as_secs();
    assert!((3590..=3610).contains(&passed), "{passed}");
    assert_eq!(ready(&cluster, "node-2").await.status, "True");
    cluster.quiet().await;
}

#[tokio::test]
async fn a_node_that_people_add_gets_ready_and_takes_pods() {
    let cluster = cluster_of(1).await;
    cluster.apply("{apiVersion: v1, kind: Node, metadata: {name: large, labels: {size: large}}}").await;
    cluster.quiet().await;
    assert!(taints(&cluster, "large").await.is_empty());
    pod_on(&cluster, "web", "large").await;
    let ranges: Vec<_> =
        cluster.list::<Node>().await.into_iter().map(|node| node.spec.unwrap().pod_cidr.unwrap()).collect();
    assert_ne!(ranges[0], ranges[1]);
    assert_eq!(cluster.get::<Node>("large").await.labels()["size"], "large");
}

#[tokio::test]
async fn a_node_that_is_lost_loses_its_pods_in_time_and_may_come_back() {
    let cluster = cluster_of(2).await;
    pod_on(&cluster, "far", "node-2").await;
    pod_on(&cluster, "near", "node-1").await;
    cluster.lose_node("node-2");
    cluster.advance(seconds(35)).await;
    assert_eq!(ready(&cluster, "node-2").await.status, "True", "it may be late");
    cluster.advance(seconds(25)).await;
    let unknown = ready(&cluster, "node-2").await;
    assert_eq!(unknown.status, "Unknown");
    assert_eq!(unknown.reason.as_deref(), Some("NodeStatusUnknown"));
    assert_eq!(unknown.message.as_deref(), Some("Kubelet stopped posting node status."));
    assert_eq!(
        taints(&cluster, "node-2").await,
        ["node.kubernetes.io/unreachable:NoSchedule", "node.kubernetes.io/unreachable:NoExecute"]
    );
    assert!(!is_ready(&cluster, "far").await && is_ready(&cluster, "near").await);
    assert!(cluster.describe().await.contains("Warning Pod far NodeNotReady: Node is not ready"));
    cluster.advance(seconds(270)).await;
    assert!(!is_leaving(&cluster, "far").await, "it tolerates that for five minutes");
    cluster.advance(seconds(40)).await;
    assert!(is_leaving(&cluster, "far").await && !is_leaving(&cluster, "near").await);
    assert!(cluster.describe().await.contains("TaintManagerEviction: Marking for deletion Pod default/far"));
    cluster.advance(seconds(3600)).await;
    assert!(is_leaving(&cluster, "far").await, "nobody can say that it has ended");
    cluster.restore_node("node-2");
    cluster.advance(seconds(30)).await;
    assert!(cluster.find::<Pod>("far").await.is_none());
    assert_eq!(ready(&cluster, "node-2").await.status, "True");
    assert!(taints(&cluster, "node-2").await.is_empty());
}

#[tokio::test]
async fn pods_of_a_node_that_comes_back_in_time_are_ready_again() {
    let cluster = cluster_of(2).await;
    pod_on(&cluster, "far", "node-2").await;
    cluster.lose_node("node-2");
    cluster.advance(seconds(100)).await;
    assert!(!is_ready(&cluster, "far").await);
    cluster.restore_node("node-2");
    cluster.advance(seconds(3600)).await;
    assert!(is_ready(&cluster, "far").await && !is_leaving(&cluster, "far").await);
    assert_eq!(
        cluster.get::<Pod>("far").await.status.unwrap().container_statuses.unwrap()[0].restart_count,
        0
    );
}

#[tokio::test]
async fn if_all_nodes_are_lost_nobody_is_evicted() {
    let cluster = cluster_of(1).await;
    pod_on(&cluster, "web", "node-1").await;
    cluster.lose_node("node-1");
    cluster.advance(seconds(3600)).await;
    assert_eq!(taints(&cluster, "node-1").await, ["node.kubernetes.io/unreachable:NoSchedule"]);
    assert!(!is_leaving(&cluster, "web").await);
}

#[tokio::test]
async fn pods_of_a_node_that_is_deleted_are_removed() {
    let cluster = cluster_of(2).await;
    pod_on(&cluster, "far", "node-2").await;
    cluster.delete::<Node>("node-2").await;
    cluster.advance(seconds(35)).await;
    assert!(cluster.find::<Pod>("far").await.is_some());
    cluster.advance(seconds(30)).await;
    assert!(cluster.find::<Pod>("far").await.is_none());
}

#[tokio::test]
async fn taints_of_people_stay_and_evict_at_once() {
    let cluster = cluster_of(2).await;
    pod_on(&cluster, "web", "node-2").await;
    let taint = json!({"key": "example.com/maintenance", "effect": "NoExecute"});
    cluster.patch::<Node>("node-2", json!({"spec": {"taints": [taint]}})).await;
    cluster.eventually("it has gone", async |cluster| cluster.find::<Pod>("web").await.is_none()).await;
    assert_eq!(taints(&cluster, "node-2").await, ["example.com/maintenance:NoExecute"]);
}

#[tokio::test]
async fn a_node_can_be_cordoned_and_drained() {
    let cluster = cluster_of(2).await;
    cluster
        .apply(
            "
            apiVersion: apps/v1
            kind: ReplicaSet
            metadata: {name: web}
            spec:
              replicas: 4
              selector: {matchLabels: {app: web}}
              template:
                metadata: {labels: {app: web}}
                spec: {containers: [{name: web, image: nginx}]}
        ",
        )
        .await;
    cluster.quiet().await;
    cluster.patch::<Node>("node-2", json!({"spec": {"unschedulable": true}})).await;
    cluster.quiet().await;
    assert_eq!(taints(&cluster, "node-2").await, ["node.kubernetes.io/unschedulable:NoSchedule"]);
    let api: Api<Pod> = Api::namespaced(cluster.client(), "default");
    let on_second = async || {
        let pods = cluster.list::<Pod>().await.into_iter();
        pods.filter(|pod| pod.spec.as_ref().unwrap().node_name.as_deref() == Some("node-2"))
            .collect::<Vec<_>>()
    };
    assert_eq!(on_second().await.len(), 2, "those that are there may stay");
    for pod in on_second().await {
        api.evict(&pod.name_any(), &EvictParams::default()).await.unwrap();
    }
    cluster.quiet().await;
    assert!(on_second().await.is_empty());
    assert_eq!(cluster.get::<ReplicaSet>("web").await.status.unwrap().ready_replicas, Some(4));
    cluster.patch::<Node>("node-2", json!({"spec": {"unschedulable": null}})).await;
    cluster.quiet().await;
    assert!(taints(&cluster, "node-2").await.is_empty());
}
