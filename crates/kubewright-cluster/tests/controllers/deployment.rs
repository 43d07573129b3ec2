//! Deployments.

use std::time::Duration;

use k8s_openapi::api::{
    apps::v1::{Deployment, DeploymentStatus, ReplicaSet},
    core::v1::Pod,
    events::v1::Event,
};
use kube::ResourceExt as _;
use kubewright_cluster::{TestCluster, nodes::Script};
use serde_json::{Value, json};

use crate::server;

const WEB: &str = "
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: web, annotations: {team: shop}}
    spec:
      replicas: 3
      selector: {matchLabels: {app: web}}
      template:
        metadata: {labels: {app: web}}
        spec: {containers: [{name: web, image: 'web:1'}]}
";

const REVISION: &str = "deployment.kubernetes.io/revision";

fn image(tag: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "image": tag}]}}}})
}

async fn status(cluster: &TestCluster) -> DeploymentStatus {
    cluster.get::<Deployment>("web").await.status.unwrap_or_default()
}

/// The status, reason and message of a condition.
async fn condition(cluster: &TestCluster, kind: &str) -> Option<(String, String, String)> {
    let status = status(cluster).await;
    let found = status.conditions.into_iter().flatten().find(|condition| condition.type_ == kind)?;
    Some((found.status, found.reason.unwrap(), found.message.unwrap()))
}

/// The set for an image.
async fn set_of(cluster: &TestCluster, image: &str) -> ReplicaSet {
    let sets = cluster.list::<ReplicaSet>().await;
    let found = sets.into_iter().find(|set| {
        let template = set.spec.as_ref().unwrap().template.as_ref().unwrap();
        template.spec.as_ref().unwrap().containers[0].image.as_deref() == Some(image)
    });
    found.unwrap_or_else(|| panic!("there is no set for {image}"))
}

fn size(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().unwrap().replicas.unwrap()
}

/// What was said about scaling, in order.
async fn scalings(cluster: &TestCluster) -> Vec<String> {
    let mut events = cluster.list::<Event>().await;
    events.retain(|event| event.reason.as_deref() == Some("ScalingReplicaSet"));
    events.sort_by_key(|event| event.metadata.resource_version.clone().unwrap().parse::<u64>().unwrap());
    events.into_iter().map(|event| event.note.unwrap()).collect()
}

async fn rolled_out(replicas: &str) -> TestCluster {
    let cluster = server::start().await;
    cluster.apply(&WEB.replace("replicas: 3", replicas)).await;
    cluster.quiet().await;
    cluster
}

#[tokio::test]
async fn a_deployment_has_a_replica_set_and_says_what_came_of_it() {
    let cluster = rolled_out("replicas: 3").await;
    let deployment = cluster.get::<Deployment>("web").await;
    assert_eq!(deployment.annotations()[REVISION], "1");
    let set = set_of(&cluster, "web:1").await;
    let hash = set.labels()["pod-template-hash"].clone();
    assert_eq!(set.name_any(), format!("web-{hash}"));
    assert_eq!(set.labels()["app"], "web");
    assert_eq!(
        serde_json::to_value(set.annotations()).unwrap(),
        json!({
            "team": "shop", REVISION: "1",
            "deployment.kubernetes.io/desired-replicas": "3", "deployment.kubernetes.io/max-replicas": "4",
        })
    );
    let selector = set.spec.unwrap().selector.match_labels.unwrap();
    assert_eq!(serde_json::to_value(selector).unwrap(), json!({"app": "web", "pod-template-hash": hash}));
    for pod in cluster.list::<Pod>().await {
        assert_eq!(pod.labels()["pod-template-hash"], hash);
    }
    let mut status = serde_json::to_value(deployment.status.unwrap()).unwrap();
    let conditions = status.as_object_mut().unwrap().remove("conditions").unwrap();
    assert_eq!(
        status,
        json!({
            "observedGeneration": 1, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3,
            "availableReplicas": 3, "terminatingReplicas": 0,
        })
    );
    assert_eq!(conditions.as_array().unwrap().len(), 2, "{conditions}");
    let name = format!("web-{hash}");
    assert_eq!(
        condition(&cluster, "Progressing").await.unwrap(),
        (
            "True".to_owned(),
            "NewReplicaSetAvailable".to_owned(),
            format!("ReplicaSet \"{name}\" has successfully progressed.")
        )
    );
    assert_eq!(
        condition(&cluster, "Available").await.unwrap(),
        (
            "True".to_owned(),
            "MinimumReplicasAvailable".to_owned(),
            "Deployment has minimum availability.".to_owned()
        )
    );
    assert_eq!(scalings(&cluster).await, [format!("Scaled up replica set {name} from 0 to 3")]);
}

#[tokio::test]
async fn a_new_template_is_rolled_out_within_the_limits() {
    let cluster = rolled_out("replicas: 4").await;
    let old = set_of(&cluster, "web:1").await.name_any();
    cluster.patch::<Deployment>("web", image("web:2")).await;
    cluster
        .eventually("all pods are new", async |cluster| {
            let pods = cluster.list::<Pod>().await;
            let live = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
            let ready = live.clone().filter(|pod| {
                let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
                conditions.into_iter().flatten().any(|one| one.type_ == "Ready" && one.status == "True")
            });
            assert!(live.count() <= 5, "at most a quarter more");
            assert!(ready.count() >= 3, "at most a quarter less");
            let status = status(cluster).await;
            (status.observed_generation, status.updated_replicas, status.replicas)
                == (Some(2), Some(4), Some(4))
        })
        .await;
    cluster.quiet().await;
    let new = set_of(&cluster, "web:2").await;
    assert_eq!((size(&new), size(&set_of(&cluster, "web:1").await)), (4, 0));
    assert_eq!(new.annotations()[REVISION], "2");
    assert_eq!(cluster.get::<Deployment>("web").await.annotations()[REVISION], "2");
    let new = new.name_any();
    assert_eq!(
        scalings(&cluster).await[1..3],
        [
            format!("Scaled up replica set {new} from 0 to 1"),
            format!("Scaled down replica set {old} from 4 to 3"),
        ]
    );
    assert_eq!(status(&cluster).await.unavailable_replicas, None);
}

#[tokio::test]
async fn recreating_starts_no_new_pod_before_the_last_old_one_is_gone() {
    let cluster = server::start().await;
    cluster.script("web:1", Script::default().stops_after(Duration::from_secs(10)));
    cluster.apply(&WEB.replace("replicas: 3", "replicas: 3\n      strategy: {type: Recreate}")).await;
    cluster.quiet().await;
    cluster.patch::<Deployment>("web", image("web:2")).await;
    cluster
        .eventually("all pods are new", async |cluster| {
            let pods = cluster.list::<Pod>().await;
            let images = pods.iter().map(|pod| pod.spec.as_ref().unwrap().containers[0].image.clone());
            let images: std::collections::BTreeSet<_> = images.collect();
            assert!(images.len() <= 1, "{images:?}");
            let status = status(cluster).await;
            (status.observed_generation, status.updated_replicas) == (Some(2), Some(3))
        })
        .await;
    cluster.quiet().await;
    assert_eq!(condition(&cluster, "Progressing").await.unwrap().1, "NewReplicaSetAvailable");
    assert_eq!(status(&cluster).await.available_replicas, Some(3));
}

#[tokio::test]
async fn going_back_gives_the_old_set_a_new_revision_and_keeps_its_history() {
    let cluster = rolled_out("replicas: 3").await;
    cluster.patch::<Deployment>("web", image("web:2")).await;
    cluster.quiet().await;
    cluster.patch::<Deployment>("web", image("web:1")).await;
    cluster.quiet().await;
    let back = set_of(&cluster, "web:1").await;
    assert_eq!(size(&back), 3);
    assert_eq!(back.annotations()[REVISION], "3");
    assert_eq!(back.annotations()["deployment.kubernetes.io/revision-history"], "1");
    assert_eq!(cluster.get::<Deployment>("web").await.annotations()[REVISION], "3");
    assert_eq!(cluster.list::<ReplicaSet>().await.len(), 2, "no third set");
}

#[tokio::test]
async fn a_paused_deployment_scales_but_does_not_roll_out() {
    let cluster = rolled_out("replicas: 3").await;
    cluster.patch::<Deployment>("web", json!({"spec": {"paused": true}})).await;
    cluster.patch::<Deployment>("web", image("web:2")).await;
    cluster.patch::<Deployment>("web", json!({"spec": {"replicas": 5}})).await;
    cluster.quiet().await;
    assert_eq!(cluster.list::<ReplicaSet>().await.len(), 1);
    assert_eq!(size(&set_of(&cluster, "web:1").await), 5);
    assert_eq!(
        condition(&cluster, "Progressing").await.unwrap(),
        ("Unknown".to_owned(), "DeploymentPaused".to_owned(), "Deployment is paused".to_owned())
    );
    cluster.patch::<Deployment>("web", json!({"spec": {"paused": false}})).await;
    cluster.quiet().await;
    assert_eq!(size(&set_of(&cluster, "web:2").await), 5);
    assert_eq!(condition(&cluster, "Progressing").await.unwrap().1, "NewReplicaSetAvailable");
}

#[tokio::test]
async fn a_rollout_that_is_paused_halfway_is_scaled_in_proportion() {
    let cluster = rolled_out("replicas: 10").await;
    cluster.script("web:2", Script::default().never_ready());
    cluster.patch::<Deployment>("web", image("web:2")).await;
    cluster.quiet().await;
    let sizes = async |cluster: &TestCluster| {
        (size(&set_of(cluster, "web:1").await), size(&set_of(cluster, "web:2").await))
    };
    assert_eq!(sizes(&cluster).await, (8, 5));
    cluster.patch::<Deployment>("web", json!({"spec": {"replicas": 20}})).await;
    cluster.quiet().await;
    // Twenty and a quarter of that are shared by what were eight and five of thirteen.
    assert_eq!(sizes(&cluster).await, (15, 10));
}

#[tokio::test]
async fn a_rollout_that_gets_stuck_says_so_when_its_time_is_over() {
    let cluster = rolled_out("replicas: 3\n      progressDeadlineSeconds: 60").await;
    cluster.script("web:2", Script::default().never_ready());
    cluster.patch::<Deployment>("web", image("web:2")).await;
    cluster.advance(Duration::from_secs(50)).await;
    let (progresses, reason, _) = condition(&cluster, "Progressing").await.unwrap();
    assert_eq!(progresses, "True");
    // The real controller may still say how the rollout began: it depends on what its caches have seen.
    let is_early = !server::is_embedded() && reason == "NewReplicaSetCreated";
    assert!(is_early || reason == "ReplicaSetUpdated", "{reason}");
    cluster.advance(Duration::from_secs(30)).await;
    let name = set_of(&cluster, "web:2").await.name_any();
    assert_eq!(
        condition(&cluster, "Progressing").await.unwrap(),
        (
            "False".to_owned(),
            "ProgressDeadlineExceeded".to_owned(),
            format!("ReplicaSet \"{name}\" has timed out progressing.")
        )
    );
    assert_eq!(status(&cluster).await.unavailable_replicas, Some(1));
    assert_eq!(condition(&cluster, "Available").await.unwrap().0, "True", "the old pods still work");
}

#[tokio::test]
async fn only_so_many_old_sets_are_kept() {
    let cluster = rolled_out("replicas: 1\n      revisionHistoryLimit: 1").await;
    for tag in ["web:2", "web:3"] {
        cluster.patch::<Deployment>("web", image(tag)).await;
        cluster.quiet().await;
    }
    let sets = cluster.list::<ReplicaSet>().await;
    let revisions: Vec<_> = sets.iter().map(|set| set.annotations()[REVISION].as_str()).collect();
    assert_eq!(sets.len(), 2, "{revisions:?}");
    assert!(!revisions.contains(&"1"), "the oldest goes: {revisions:?}");
}

#[tokio::test]
async fn a_set_that_fits_is_adopted_and_not_made_again() {
    let cluster = server::start().await;
    let set = WEB.replace("kind: Deployment", "kind: ReplicaSet");
    let set = set.replace("metadata: {name: web,", "metadata: {name: orphan, labels: {app: web},");
    cluster.apply(&set).await;
    cluster.quiet().await;
    cluster.apply(WEB).await;
    cluster.quiet().await;
    let sets = cluster.list::<ReplicaSet>().await;
    assert_eq!(sets.len(), 1);
    assert_eq!(sets[0].owner_references()[0].name, "web");
    assert_eq!(cluster.list::<Pod>().await.len(), 3);
}

#[tokio::test]
async fn a_template_that_the_server_refuses_is_told_as_a_failure() {
    let cluster = server::start().await;
    cluster.apply(&WEB.replace("spec: {containers", "spec: {priorityClassName: none, containers")).await;
    cluster.quiet().await;
    let (status, reason, _) = condition(&cluster, "ReplicaFailure").await.unwrap();
    assert_eq!((status.as_str(), reason.as_str()), ("True", "FailedCreate"));
    assert_eq!(condition(&cluster, "Available").await.unwrap().1, "MinimumReplicasUnavailable");
}

#[tokio::test]
async fn its_status_is_updated_and_only_another_status_is_a_transition() {
    let cluster = rolled_out("replicas: 3").await;
    let progressing = async || {
        let conditions = status(&cluster).await.conditions.unwrap_or_default();
        conditions.into_iter().find(|one| one.type_ == "Progressing").unwrap()
    };
    let before = progressing().await;
    cluster.advance(Duration::from_secs(3)).await;
    cluster.patch::<Deployment>("web", image("web:2")).await;
    cluster.quiet().await;
    let after = progressing().await;
    assert!(before.last_update_time < after.last_update_time);
    assert!(before.last_transition_time.is_some());
    assert_eq!(before.last_transition_time, after.last_transition_time);
    let managed = cluster.get::<Deployment>("web").await.metadata.managed_fields.unwrap();
    let of_status = managed.iter().filter(|entry| entry.subresource.as_deref() == Some("status"));
    let operations: Vec<_> = of_status.filter_map(|entry| entry.operation.as_deref()).collect();
    assert_eq!(operations, ["Update"]);
}

#[tokio::test]
async fn nothing_is_told_where_nobody_wants_to_know() {
    for are_written in [true, false] {
        let cluster = TestCluster::with(|builder| builder.events(are_written)).await;
        cluster.apply(WEB).await;
        cluster.quiet().await;
        assert_eq!(status(&cluster).await.available_replicas, Some(3));
        assert_eq!(!cluster.list::<Event>().await.is_empty(), are_written);
    }
}

#[tokio::test]
async fn a_set_whose_name_is_taken_gets_another() {
    let taken = set_of(&rolled_out("replicas: 3").await, "web:1").await.name_any();
    let cluster = server::start().await;
    let other = WEB.replace("kind: Deployment", "kind: ReplicaSet").replace("app: web", "app: other");
    cluster.apply(&other.replace("metadata: {name: web,", &format!("metadata: {{name: {taken},"))).await;
    cluster.apply(WEB).await;
    cluster.quiet().await;
    let status = status(&cluster).await;
    assert_eq!((status.collision_count, status.available_replicas), (Some(1), Some(3)));
    assert_eq!(cluster.list::<ReplicaSet>().await.len(), 2);
    assert!(cluster.get::<ReplicaSet>(&taken).await.owner_references().is_empty());
}
