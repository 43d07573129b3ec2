//! DaemonSets.

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::api::{
    apps::v1::{ControllerRevision, DaemonSet},
    core::v1::{Node, Pod},
};
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
};
use kubewright_cluster::{TestCluster, nodes::Script};
use serde_json::{Value, json};

use crate::{events::events, server};

/// What keeps pods to one node, however many there are.
fn on_one_node() -> Value {
    json!({"nodeSelector": {"kubernetes.io/hostname": "node-1"}})
}

/// Applies a DaemonSet with these fields of its pods, and of itself.
async fn daemon_set(cluster: &TestCluster, pod: Value, spec: Value) {
    let mut set = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {
                "metadata": {"labels": {"app": "agent"}},
                "spec": {"containers": [{"name": "main", "image": "agent:1"}]},
            },
        },
    });
    for (name, value) in pod.as_object().unwrap() {
        set["spec"]["template"]["spec"][name] = value.clone();
    }
    for (name, value) in spec.as_object().unwrap() {
        set["spec"][name] = value.clone();
    }
    cluster.apply(&set.to_string()).await;
}

async fn set_image(cluster: &TestCluster, image: &str) {
    let container = json!({"name": "main", "image": image});
    let change = json!({"spec": {"template": {"spec": {"containers": [container]}}}});
    cluster.patch::<DaemonSet>("agent", change).await;
}

/// The nodes with a pod, each as often as it has one.
async fn nodes(cluster: &TestCluster) -> Vec<String> {
    let pods = cluster.list::<Pod>().await;
    let mut nodes: Vec<String> =
        pods.iter().map(|pod| pod.spec.clone().unwrap().node_name.unwrap()).collect();
    nodes.sort();
    nodes
}

async fn status(cluster: &TestCluster) -> Value {
    serde_json::to_value(cluster.get::<DaemonSet>("agent").await.status.unwrap_or_default()).unwrap()
}

async fn are_available(cluster: &TestCluster, count: usize) {
    cluster
        .eventually("all are available and up to date", async |cluster| {
            let (set, status) = (cluster.get::<DaemonSet>("agent").await, status(cluster).await);
            status["observedGeneration"] == json!(set.metadata.generation)
                && [&status["numberAvailable"], &status["updatedNumberScheduled"]] == [&json!(count); 2]
                && cluster.list::<Pod>().await.len() == count
        })
        .await;
}

#[tokio::test]
async fn every_node_has_a_pod() {
    let cluster = server::start_with_three_nodes().await;
    daemon_set(&cluster, json!({}), json!({})).await;
    cluster.quiet().await;
    assert_eq!(nodes(&cluster).await, ["node-1", "node-2", "node-3"]);
    assert_eq!(
        status(&cluster).await,
        json!({
            "desiredNumberScheduled": 3, "currentNumberScheduled": 3, "numberReady": 3, "numberAvailable": 3,
            "updatedNumberScheduled": 3, "numberMisscheduled": 0, "observedGeneration": 1,
        })
    );
    let revision = &cluster.list::<ControllerRevision>().await[0];
    let hash = &revision.labels()["controller-revision-hash"];
    assert_eq!(revision.name_any(), format!("agent-{hash}"));
    for pod in cluster.list::<Pod>().await {
        assert_eq!(&pod.labels()["controller-revision-hash"], hash);
        assert_eq!(pod.labels()["pod-template-generation"], "1");
        let spec = pod.spec.unwrap();
        let affinity = serde_json::to_value(spec.affinity.unwrap()).unwrap();
        let required = &affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        let field = json!({"key": "metadata.name", "operator": "In", "values": [spec.node_name.unwrap()]});
        assert_eq!(*required, json!({"nodeSelectorTerms": [{"matchFields": [field]}]}));
        let keys: Vec<_> = spec.tolerations.iter().flatten().filter_map(|one| one.key.as_deref()).collect();
        assert!(keys.contains(&"node.kubernetes.io/unschedulable"), "{keys:?}");
    }
    let told = events(&cluster, "DaemonSet", "agent").await;
    assert_eq!(
        told.iter().filter(|event| event.starts_with("SuccessfulCreate: Created pod: agent-")).count(),
        3
    );
}

#[tokio::test]
async fn only_nodes_that_are_wanted_have_one_and_that_may_change() {
    if server::is_left_out("it changes nodes, which others need") {
        return;
    }
    let cluster = server::start_with_three_nodes().await;
    cluster.patch::<Node>("node-2", json!({"metadata": {"labels": {"disk": "ssd"}}})).await;
    daemon_set(&cluster, json!({"nodeSelector": {"disk": "ssd"}}), json!({})).await;
    cluster.quiet().await;
    assert_eq!(nodes(&cluster).await, ["node-2"]);
    cluster.patch::<Node>("node-3", json!({"metadata": {"labels": {"disk": "ssd"}}})).await;
    cluster.patch::<Node>("node-2", json!({"metadata": {"labels": {"disk": "hdd"}}})).await;
    cluster.quiet().await;
    assert_eq!(nodes(&cluster).await, ["node-3"]);
    assert_eq!(status(&cluster).await["desiredNumberScheduled"], 1);
}

#[tokio::test]
async fn taints_keep_pods_away_or_drive_them_off() {
    if server::is_left_out("it changes nodes, which others need") {
        return;
    }
    let cluster = server::start_with_three_nodes().await;
    let taint =
        |effect: &str| json!({"spec": {"taints": [{"key": "own", "value": "team", "effect": effect}]}});
    cluster.patch::<Node>("node-1", taint("NoSchedule")).await;
    daemon_set(&cluster, json!({}), json!({})).await;
    cluster.quiet().await;
    assert_eq!(nodes(&cluster).await, ["node-2", "node-3"]);
    cluster.patch::<Node>("node-2", taint("NoSchedule")).await;
    cluster.patch::<Node>("node-3", taint("NoExecute")).await;
    cluster.quiet().await;
    assert_eq!(nodes(&cluster).await, ["node-2"], "one that is there may stay");
    assert_eq!(status(&cluster).await["numberMisscheduled"], 1);
    cluster.patch::<Node>("node-1", json!({"spec": {"taints": null}})).await;
    cluster.quiet().await;
    assert_eq!(nodes(&cluster).await, ["node-1", "node-2"]);
}

#[tokio::test]
async fn an_update_takes_one_node_after_the_other() {
    let cluster = server::start_with_three_nodes().await;
    cluster.script("agent:2", Script::default().ready_after(Duration::from_secs(10)));
    daemon_set(&cluster, json!({}), json!({})).await;
    are_available(&cluster, 3).await;
    set_image(&cluster, "agent:2").await;
    let mut steps = Vec::new();
    cluster
        .eventually("all are updated", async |cluster| {
            let (set, status) = (cluster.get::<DaemonSet>("agent").await, status(cluster).await);
            assert!(status["numberUnavailable"].as_i64().unwrap_or(0) <= 1, "{status}");
            if status["observedGeneration"] != json!(set.metadata.generation) {
                return false;
            }
            steps.push(status["updatedNumberScheduled"].as_i64().unwrap_or(0));
            status["observedGeneration"] == 2
                && status["updatedNumberScheduled"] == 3
                && status["numberAvailable"] == 3
        })
        .await;
    steps.dedup();
    assert_eq!(steps, [0, 1, 2, 3]);
    cluster.quiet().await;
    let images: BTreeSet<_> = cluster
        .list::<Pod>()
        .await
        .iter()
        .map(|pod| pod.spec.clone().unwrap().containers[0].image.clone())
        .collect();
    assert_eq!(images, BTreeSet::from([Some("agent:2".to_owned())]));
    let mut revisions: Vec<i64> =
        cluster.list::<ControllerRevision>().await.iter().map(|one| one.revision).collect();
    revisions.sort_unstable();
    assert_eq!(revisions, [1, 2]);
    set_image(&cluster, "agent:1").await;
    are_available(&cluster, 3).await;
    let mut revisions: Vec<i64> =
        cluster.list::<ControllerRevision>().await.iter().map(|one| one.revision).collect();
    revisions.sort_unstable();
    assert_eq!(revisions, [2, 3], "the way back is a newer revision");
}

#[tokio::test]
async fn an_update_may_surge() {
    let cluster = server::start_with_three_nodes().await;
    cluster.script("agent:2", Script::default().ready_after(Duration::from_secs(10)));
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    daemon_set(&cluster, json!({}), json!({"updateStrategy": rolling})).await;
    are_available(&cluster, 3).await;
    set_image(&cluster, "agent:2").await;
    let mut most = 0;
    cluster
        .eventually("all are updated", async |cluster| {
            let status = status(cluster).await;
            let pods = cluster.list::<Pod>().await;
            let staying = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).count();
            most = most.max(staying);
            assert!(staying >= 3, "none goes before its successor is there");
            status["observedGeneration"] == 2
                && status["updatedNumberScheduled"] == 3
                && status["numberAvailable"] == 3
                && pods.len() == 3
        })
        .await;
    assert_eq!(most, 4);
}

#[tokio::test]
async fn on_delete_updates_only_what_somebody_deletes() {
    let cluster = server::start_with_three_nodes().await;
    daemon_set(&cluster, json!({}), json!({"updateStrategy": {"type": "OnDelete"}})).await;
    are_available(&cluster, 3).await;
    set_image(&cluster, "agent:2").await;
    cluster.quiet().await;
    assert_eq!(status(&cluster).await["updatedNumberScheduled"], Value::Null);
    let pod = cluster.list::<Pod>().await[0].name_any();
    cluster.delete::<Pod>(&pod).await;
    cluster.quiet().await;
    assert_eq!(status(&cluster).await["updatedNumberScheduled"], 1);
    assert_eq!(nodes(&cluster).await, ["node-1", "node-2", "node-3"]);
}

#[tokio::test]
async fn a_pod_that_failed_is_replaced_but_not_in_a_hurry() {
    let cluster = server::start().await;
    daemon_set(&cluster, on_one_node(), json!({})).await;
    are_available(&cluster, 1).await;
    let pods: Api<Pod> = Api::default_namespaced(cluster.client());
    for time in 0..2 {
        let name = cluster.list::<Pod>().await[0].name_any();
        let evicted = json!({"status": {"phase": "Failed", "reason": "Evicted"}});
        pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(evicted)).await.unwrap();
        let told = async |cluster: &TestCluster| {
            let all = events(cluster, "DaemonSet", "agent").await;
            let note = format!(
                "FailedDaemonPod: Found failed daemon pod {}/{name} on node node-1, will try to kill it",
                cluster.namespace()
            );
            all.contains(&note)
        };
        if time == 1 {
            cluster.advance(Duration::from_millis(500)).await;
            assert!(!told(&cluster).await, "the second one in a second has to wait");
        }
        cluster.eventually("it is told of", told).await;
        cluster
            .eventually("it is replaced", async |cluster| {
                let pods = cluster.list::<Pod>().await;
                pods.len() == 1 && pods[0].name_any() != name
            })
            .await;
    }
}

#[tokio::test]
async fn few_revisions_are_kept() {
    let cluster = server::start().await;
    daemon_set(&cluster, on_one_node(), json!({"revisionHistoryLimit": 1})).await;
    for version in 2..5 {
        are_available(&cluster, 1).await;
        set_image(&cluster, &format!("agent:{version}")).await;
    }
    are_available(&cluster, 1).await;
    cluster.quiet().await;
    let mut revisions: Vec<i64> =
        cluster.list::<ControllerRevision>().await.iter().map(|one| one.revision).collect();
    revisions.sort_unstable();
    assert_eq!(revisions, [3, 4]);
}

#[tokio::test]
async fn it_is_available_only_after_it_was_ready_for_long_enough() {
    let cluster = server::start().await;
    daemon_set(&cluster, on_one_node(), json!({"minReadySeconds": 20})).await;
    cluster.eventually("it is ready", async |cluster| status(cluster).await["numberReady"] == 1).await;
    assert_eq!(status(&cluster).await["numberUnavailable"], 1);
    cluster.advance(Duration::from_secs(22)).await;
    assert_eq!(status(&cluster).await["numberAvailable"], 1);
}
