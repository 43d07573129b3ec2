//! The scheduler: where pods go, and what is said of those that can't go anywhere.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, Pod};
use kubewright_cluster::TestCluster;
use serde_json::{Value, json};

use crate::server;

async fn nodes(count: usize) -> TestCluster {
    TestCluster::with(|builder| builder.nodes(count)).await
}

/// Applies a pod whose specification has these fields besides its container.
async fn pod(cluster: &TestCluster, name: &str, labels: Value, fields: Value) {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [{"name": "main", "image": "nginx"}]},
    });
    for (field, value) in fields.as_object().unwrap() {
        pod["spec"][field] = value.clone();
    }
    cluster.apply(&pod.to_string()).await;
}

fn needing(cpu: &str) -> Value {
    json!({"containers": [{"name": "main", "image": "nginx", "resources": {"requests": {"cpu": cpu}}}]})
}

async fn node_of(cluster: &TestCluster, pod: &str) -> Option<String> {
    cluster.get::<Pod>(pod).await.spec.unwrap().node_name
}

/// Reason and message of the condition that says why a pod has no node.
async fn trouble(cluster: &TestCluster, pod: &str) -> (String, String) {
    let conditions = cluster.get::<Pod>(pod).await.status.unwrap().conditions.unwrap_or_default();
    let condition = conditions.into_iter().find(|condition| condition.type_ == "PodScheduled").unwrap();
    assert_eq!(condition.status, "False");
    (condition.reason.unwrap(), condition.message.unwrap())
}

#[tokio::test]
async fn pods_are_spread_over_the_nodes() {
    if server::is_left_out("the same scheduler would run on both") {
        return;
    }
    let cluster = nodes(3).await;
    for number in 0..9 {
        pod(&cluster, &format!("pod-{number}"), json!({}), json!({})).await;
    }
    cluster.quiet().await;
    let mut loads: BTreeMap<String, usize> = BTreeMap::new();
    for pod in cluster.list::<Pod>().await {
        *loads.entry(pod.spec.unwrap().node_name.unwrap()).or_default() += 1;
    }
    assert_eq!(loads.into_values().collect::<Vec<_>>(), [3, 3, 3]);
}

#[tokio::test]
async fn a_pod_that_asks_for_nothing_is_not_taken_for_none() {
    if server::is_left_out("the same scheduler would run on both") {
        return;
    }
    let cluster = nodes(2).await;
    let mut modest = needing("50m");
    modest["containers"][0]["resources"]["requests"]["memory"] = "100Mi".into();
    modest["nodeName"] = "node-1".into();
    pod(&cluster, "modest", json!({}), modest).await;
    pod(&cluster, "silent", json!({}), json!({"nodeName": "node-2"})).await;
    cluster.quiet().await;
    pod(&cluster, "next", json!({}), json!({})).await;
    cluster.quiet().await;
    assert_eq!(node_of(&cluster, "next").await.as_deref(), Some("node-1"));
}

#[tokio::test]
async fn a_pod_that_fits_nowhere_says_why_and_goes_when_there_is_room() {
    if server::is_left_out("the same scheduler would run on both") {
        return;
    }
    let cluster = nodes(2).await;
    pod(&cluster, "first", json!({}), needing("10")).await;
    pod(&cluster, "second", json!({}), needing("10")).await;
    cluster.quiet().await;
    pod(&cluster, "third", json!({}), needing("10")).await;
    pod(&cluster, "giant", json!({}), needing("100")).await;
    cluster.quiet().await;
    let (reason, message) = trouble(&cluster, "third").await;
    assert_eq!(reason, "Unschedulable");
    assert_eq!(
        message,
        "0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: 2 No preemption victims \
         found for incoming pod."
    );
    assert!(trouble(&cluster, "giant").await.1.ends_with("2 Preemption is not helpful for scheduling."));
    assert!(cluster.describe().await.contains("Warning Pod third FailedScheduling: 0/2 nodes are available"));
    let freed = node_of(&cluster, "first").await;
    cluster.delete::<Pod>("first").await;
    cluster.quiet().await;
    assert_eq!(node_of(&cluster, "third").await, freed);
}

#[tokio::test]
async fn selectors_affinities_and_taints_are_obeyed() {
    if server::is_left_out("the same scheduler would run on both") {
        return;
    }
    let cluster = nodes(3).await;
    cluster.patch::<Node>("node-1", json!({"metadata": {"labels": {"disk": "ssd", "size": "5"}}})).await;
    cluster
        .patch::<Node>(
            "node-2",
            json!({"spec": {"taints": [{"key": "only", "value": "gpu", "effect": "NoSchedule"}]}}),
        )
        .await;
    cluster.patch::<Node>("node-3", json!({"spec": {"unschedulable": true}})).await;
    let affinity = |operator: &str, values: Value| {
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "size", "operator": operator, "values": values}]}],
        }}}})
    };
    let tolerating = json!({
        "tolerations": [{"key": "only", "operator": "Equal", "value": "gpu"}],
        "nodeSelector": {"kubernetes.io/hostname": "node-2"},
    });
    pod(&cluster, "on-ssd", json!({}), json!({"nodeSelector": {"disk": "ssd"}})).await;
    pod(&cluster, "large", json!({}), affinity("Gt", json!(["4"]))).await;
    pod(&cluster, "larger", json!({}), affinity("Gt", json!(["5"]))).await;
    pod(&cluster, "tolerant", json!({}), tolerating).await;
    cluster.quiet().await;
    assert_eq!(node_of(&cluster, "on-ssd").await.as_deref(), Some("node-1"));
    assert_eq!(node_of(&cluster, "large").await.as_deref(), Some("node-1"));
    assert_eq!(node_of(&cluster, "tolerant").await.as_deref(), Some("node-2"));
    assert_eq!(
        trouble(&cluster, "larger").await.1,
        "0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated \
         taint(s), 1 node(s) were unschedulable. preemption: 0/3 nodes are available: 3 Preemption is not helpful for \
         scheduling."
    );
    cluster.patch::<Node>("node-1", json!({"metadata": {"labels": {"size": "6"}}})).await;
    cluster.quiet().await;
    assert_eq!(node_of(&cluster, "larger").await.as_deref(), Some("node-1"));
}

#[tokio::test]
async fn pods_that_want_to_be_together_are_and_those_that_do_not_are_not() {
    if server::is_left_out("the same scheduler would run on both") {
        return;
    }
    let cluster = nodes(2).await;
    let term =
        json!([{"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}]);
    let apart =
        json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}});
    let together =
        json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}});
    for name in ["web-1", "web-2", "web-3"] {
        pod(&cluster, name, json!({"app": "web"}), apart.clone()).await;
        cluster.quiet().await;
    }
    let homes = [node_of(&cluster, "web-1").await, node_of(&cluster, "web-2").await];
    assert!(homes[0].is_some() && homes[1].is_some() && homes[0] != homes[1]);
    assert!(
        trouble(&cluster, "web-3").await.1.contains("2 node(s) didn't match pod anti-affinity rules"),
        "{}",
        cluster.describe().await
    );
    pod(&cluster, "intruder", json!({"app": "web"}), json!({})).await;
    pod(&cluster, "friend", json!({}), together).await;
    cluster.quiet().await;
    assert!(
        trouble(&cluster, "intruder")
            .await
            .1
            .contains("2 node(s) didn't satisfy existing pods anti-affinity rules")
    );
    assert!(homes.contains(&node_of(&cluster, "friend").await));
}

#[tokio::test]
async fn the_first_that_wants_to_be_with_its_like_may_be_anywhere_and_the_others_follow() {
    if server::is_left_out("the same scheduler would run on both") {
        return;
    }
    let cluster = nodes(3).await;
    let term =
        json!([{"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "kubernetes.io/hostname"}]);
    let together =
        json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}});
    pod(&cluster, "stranger", json!({}), together.clone()).await;
    for name in ["db-1", "db-2", "db-3"] {
        pod(&cluster, name, json!({"app": "db"}), together.clone()).await;
    }
    cluster
        .eventually("all have a node", async |cluster| {
            cluster.list::<Pod>().await.iter().all(|pod| pod.spec.as_ref().unwrap().node_name.is_some())
        })
        .await;
    let homes: BTreeSet<_> =
        cluster.list::<Pod>().await.into_iter().map(|pod| pod.spec.unwrap().node_name).collect();
    assert_eq!(homes.len(), 1);
}

#[tokio::test]
async fn host_ports_gates_and_other_schedulers_are_respected() {
    if server::is_left_out("the same scheduler would run on both") {
        return;
    }
    let cluster = nodes(1).await;
    let port = json!({"containers": [{"name": "main", "image": "nginx", "ports": [{"containerPort": 80, "hostPort": 80}]}]});
    pod(&cluster, "first", json!({}), port.clone()).await;
    cluster.quiet().await;
    pod(&cluster, "second", json!({}), port).await;
    pod(&cluster, "gated", json!({}), json!({"schedulingGates": [{"name": "example.com/wait"}]})).await;
    pod(&cluster, "other", json!({}), json!({"schedulerName": "another"})).await;
    cluster.quiet().await;
    assert!(
        trouble(&cluster, "second")
            .await
            .1
            .contains("1 node(s) didn't have free ports for the requested pod ports")
    );
    assert_eq!(
        trouble(&cluster, "gated").await,
        ("SchedulingGated".to_owned(), "Scheduling is blocked due to non-empty scheduling gates".to_owned())
    );
    assert!(cluster.get::<Pod>("other").await.status.unwrap().conditions.is_none());
    cluster.patch::<Pod>("gated", json!({"spec": {"schedulingGates": null}})).await;
    cluster.quiet().await;
    assert_eq!(node_of(&cluster, "gated").await.as_deref(), Some("node-1"));
}
