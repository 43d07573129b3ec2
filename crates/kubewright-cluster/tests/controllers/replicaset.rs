//! ReplicaSets.

use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod};
use kube::ResourceExt as _;
use kubewright_cluster::TestCluster;
use serde_json::json;

use crate::server;

const WEB: &str = "
    apiVersion: apps/v1
    kind: ReplicaSet
    metadata: {name: web}
    spec:
      replicas: 3
      selector: {matchLabels: {app: web}}
      template:
        metadata: {labels: {app: web}}
        spec: {containers: [{name: web, image: nginx}]}
";

async fn is_ready(cluster: &TestCluster, replicas: i32) -> bool {
    let status = cluster.get::<ReplicaSet>("web").await.status.unwrap_or_default();
    status.replicas == replicas && status.ready_replicas.unwrap_or(0) == replicas
}

#[tokio::test]
async fn a_replica_set_has_the_pods_it_wants_and_says_so() {
    let cluster = server::start().await;
    cluster.apply(WEB).await;
    cluster.quiet().await;
    let set = cluster.get::<ReplicaSet>("web").await;
    assert_eq!(
        serde_json::to_value(set.status.unwrap()).unwrap(),
        json!({
            "replicas": 3, "fullyLabeledReplicas": 3, "readyReplicas": 3, "availableReplicas": 3,
            "terminatingReplicas": 0, "observedGeneration": 1,
        })
    );
    let pods = cluster.list::<Pod>().await;
    assert_eq!(pods.len(), 3);
    for pod in &pods {
        assert!(pod.name_any().starts_with("web-"), "{}", pod.name_any());
        let owner = &pod.owner_references()[0];
        assert_eq!((owner.kind.as_str(), owner.controller), ("ReplicaSet", Some(true)));
        let status = pod.status.as_ref().unwrap();
        assert_eq!(status.phase.as_deref(), Some("Running"));
        assert!(status.pod_ip.is_some() && status.host_ip.is_some());
    }
}

#[tokio::test]
async fn it_scales_heals_and_goes_down() {
    let cluster = server::start().await;
    cluster.apply(WEB).await;
    cluster.eventually("three are ready", async |cluster| is_ready(cluster, 3).await).await;
    let lost = cluster.list::<Pod>().await[0].name_any();
    cluster.lose_pod(&lost).await;
    cluster.quiet().await;
    assert!(is_ready(&cluster, 3).await);
    assert!(cluster.list::<Pod>().await.iter().all(|pod| pod.name_any() != lost));
    cluster.patch::<ReplicaSet>("web", json!({"spec": {"replicas": 5}})).await;
    cluster.eventually("five are ready", async |cluster| is_ready(cluster, 5).await).await;
    cluster.patch::<ReplicaSet>("web", json!({"spec": {"replicas": 1}})).await;
    cluster.quiet().await;
    assert!(is_ready(&cluster, 1).await);
    assert_eq!(cluster.list::<Pod>().await.len(), 1, "{}", cluster.describe().await);
}

#[tokio::test]
async fn it_adopts_what_it_selects_and_releases_what_it_does_not() {
    let cluster = server::start().await;
    cluster
        .apply(
            "
            apiVersion: v1
            kind: Pod
            metadata: {name: orphan, labels: {app: web}}
            spec: {containers: [{name: web, image: nginx}]}
        ",
        )
        .await;
    cluster.apply(WEB).await;
    cluster.quiet().await;
    assert_eq!(cluster.list::<Pod>().await.len(), 3, "the orphan counts");
    assert_eq!(cluster.get::<Pod>("orphan").await.owner_references()[0].name, "web");
    cluster.patch::<Pod>("orphan", json!({"metadata": {"labels": {"app": "other"}}})).await;
    cluster.quiet().await;
    assert_eq!(cluster.list::<Pod>().await.len(), 4);
    assert!(cluster.get::<Pod>("orphan").await.owner_references().is_empty());
}
