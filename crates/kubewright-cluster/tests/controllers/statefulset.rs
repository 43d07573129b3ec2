//! StatefulSets.

use std::time::Duration;

use k8s_openapi::api::{
    apps::v1::{ControllerRevision, StatefulSet, StatefulSetStatus},
    core::v1::{PersistentVolumeClaim, Pod},
    events::v1::Event,
};
use kube::ResourceExt as _;
use kubewright_cluster::{TestCluster, nodes::Script};
use serde_json::{Value, json};

use crate::server;

const DB: &str = "
    apiVersion: apps/v1
    kind: StatefulSet
    metadata: {name: db}
    spec:
      replicas: 3
      serviceName: db
      selector: {matchLabels: {app: db}}
      template:
        metadata: {labels: {app: db}}
        spec: {containers: [{name: db, image: 'db:1'}]}
      volumeClaimTemplates:
        - metadata: {name: data, labels: {tier: fast}}
          spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
";

fn image(tag: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "db", "image": tag}]}}}})
}

async fn settled(set: &str) -> TestCluster {
    let cluster = server::start().await;
    cluster.apply(set).await;
    cluster.quiet().await;
    cluster
}

async fn status(cluster: &TestCluster) -> StatefulSetStatus {
    cluster.get::<StatefulSet>("db").await.status.unwrap_or_default()
}

async fn names(cluster: &TestCluster) -> Vec<String> {
    cluster.list::<Pod>().await.iter().map(|pod| pod.name_any()).collect()
}

async fn claims(cluster: &TestCluster) -> Vec<String> {
    cluster.list::<PersistentVolumeClaim>().await.iter().map(|claim| claim.name_any()).collect()
}

/// The images of the pods, by ordinal.
async fn images(cluster: &TestCluster) -> Vec<String> {
    let pods = cluster.list::<Pod>().await;
    pods.iter().map(|pod| pod.spec.as_ref().unwrap().containers[0].image.clone().unwrap()).collect()
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|one| one.type_ == "Ready" && one.status == "True")
}

#[tokio::test]
async fn its_pods_have_names_labels_and_claims_of_their_own() {
    let cluster = settled(DB).await;
    assert_eq!(names(&cluster).await, ["db-0", "db-1", "db-2"]);
    assert_eq!(claims(&cluster).await, ["data-db-0", "data-db-1", "data-db-2"]);
    let set = cluster.get::<StatefulSet>("db").await;
    let status = set.status.unwrap();
    let revision = status.update_revision.clone().unwrap();
    let pod = cluster.get::<Pod>("db-1").await;
    assert_eq!(
        serde_json::to_value(pod.labels()).unwrap(),
        json!({
            "app": "db", "statefulset.kubernetes.io/pod-name": "db-1", "apps.kubernetes.io/pod-index": "1",
            "controller-revision-hash": revision,
        })
    );
    let spec = pod.spec.unwrap();
    assert_eq!((spec.hostname.as_deref(), spec.subdomain.as_deref()), (Some("db-1"), Some("db")));
    let volume = &spec.volumes.unwrap()[0];
    assert_eq!(volume.name, "data");
    assert_eq!(volume.persistent_volume_claim.as_ref().unwrap().claim_name, "data-db-1");
    let claim = cluster.get::<PersistentVolumeClaim>("data-db-1").await;
    assert_eq!(serde_json::to_value(claim.labels()).unwrap(), json!({"app": "db", "tier": "fast"}));
    assert!(claim.owner_references().is_empty(), "claims are kept unless said otherwise");
    assert_eq!(
        serde_json::to_value(status).unwrap(),
        json!({
            "observedGeneration": 1, "replicas": 3, "readyReplicas": 3, "availableReplicas": 3,
            "currentReplicas": 3, "updatedReplicas": 3, "currentRevision": revision,
            "updateRevision": revision, "collisionCount": 0,
        })
    );
    let revisions = cluster.list::<ControllerRevision>().await;
    assert_eq!(revisions.len(), 1);
    assert_eq!((revisions[0].name_any(), revisions[0].revision), (revision, 1));
    let events = cluster.list::<Event>().await;
    let said = |note: &str| events.iter().any(|event| event.note.as_deref() == Some(note));
    assert!(said("Create Claim data-db-0 Pod db-0 in StatefulSet db success"));
    assert!(said("Create Pod db-0 in StatefulSet db successful"));
}

#[tokio::test]
async fn a_pod_waits_until_those_before_it_are_ready() {
    let cluster = server::start().await;
    cluster.script("db:1", Script::default().never_ready());
    cluster.apply(DB).await;
    cluster.quiet().await;
    assert_eq!(names(&cluster).await, ["db-0"]);
}

#[tokio::test]
async fn in_parallel_no_pod_waits_for_another() {
    let cluster = server::start().await;
    cluster.script("db:1", Script::default().never_ready());
    cluster.apply(&DB.replace("serviceName", "podManagementPolicy: Parallel\n      serviceName")).await;
    cluster.quiet().await;
    assert_eq!(names(&cluster).await, ["db-0", "db-1", "db-2"]);
    cluster.patch::<StatefulSet>("db", json!({"spec": {"replicas": 0}})).await;
    cluster.quiet().await;
    assert!(names(&cluster).await.is_empty());
}

#[tokio::test]
async fn a_pod_must_be_ready_for_long_enough_before_the_next_one_comes() {
    let cluster = server::start().await;
    cluster.apply(&DB.replace("serviceName", "minReadySeconds: 60\n      serviceName")).await;
    cluster.advance(Duration::from_secs(50)).await;
    assert_eq!(names(&cluster).await, ["db-0"]);
    cluster.advance(Duration::from_secs(30)).await;
    assert_eq!(names(&cluster).await, ["db-0", "db-1"]);
    assert_eq!(status(&cluster).await.available_replicas, Some(1));
}

#[tokio::test]
async fn it_is_scaled_down_from_the_end_and_keeps_the_claims() {
    let cluster = settled(DB).await;
    cluster.patch::<StatefulSet>("db", json!({"spec": {"replicas": 1}})).await;
    cluster
        .eventually("one is left", async |cluster| {
            let left = names(cluster).await;
            assert_ne!(left, ["db-0", "db-2"], "the last goes first");
            left.len() == 1
        })
        .await;
    cluster.quiet().await;
    assert_eq!(names(&cluster).await, ["db-0"]);
    assert_eq!(claims(&cluster).await.len(), 3);
}

#[tokio::test]
async fn ordinals_may_start_anywhere() {
    let cluster = settled(&DB.replace("serviceName", "ordinals: {start: 5}\n      serviceName")).await;
    assert_eq!(names(&cluster).await, ["db-5", "db-6", "db-7"]);
    cluster.patch::<StatefulSet>("db", json!({"spec": {"ordinals": {"start": 6}}})).await;
    cluster.quiet().await;
    assert_eq!(names(&cluster).await, ["db-6", "db-7", "db-8"]);
}

#[tokio::test]
async fn an_update_goes_from_the_last_pod_to_the_first_one_at_a_time() {
    let cluster = settled(DB).await;
    let before = status(&cluster).await.update_revision;
    cluster.patch::<StatefulSet>("db", image("db:2")).await;
    cluster
        .eventually("all are new", async |cluster| {
            let pods = cluster.list::<Pod>().await;
            assert!(pods.iter().filter(|pod| is_ready(pod)).count() >= 2, "one at a time");
            let status = status(cluster).await;
            status.updated_replicas == Some(3) && status.current_revision == status.update_revision
        })
        .await;
    cluster.quiet().await;
    assert_eq!(images(&cluster).await, ["db:2"; 3]);
    let after = status(&cluster).await;
    assert_ne!(after.update_revision, before);
    assert_eq!((after.current_replicas, after.ready_replicas), (Some(3), Some(3)));
    let mut events = cluster.list::<Event>().await;
    events.retain(|event| event.reason.as_deref() == Some("SuccessfulDelete"));
    events.sort_by_key(|event| event.metadata.resource_version.clone().unwrap().parse::<u64>().unwrap());
    let notes: Vec<_> = events.iter().map(|event| event.note.clone().unwrap()).collect();
    assert_eq!(
        notes,
        [2, 1, 0].map(|ordinal| format!("Delete Pod db-{ordinal} in StatefulSet db successful"))
    );
}

#[tokio::test]
async fn pods_below_the_partition_stay_as_they_are_even_if_they_are_lost() {
    let cluster = settled(DB).await;
    let partition =
        |number: i32| json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": number}}}});
    cluster.patch::<StatefulSet>("db", partition(2)).await;
    cluster.patch::<StatefulSet>("db", image("db:2")).await;
    cluster.quiet().await;
    assert_eq!(images(&cluster).await, ["db:1", "db:1", "db:2"]);
    let halfway = status(&cluster).await;
    assert_ne!(halfway.current_revision, halfway.update_revision);
    assert_eq!((halfway.current_replicas, halfway.updated_replicas), (Some(2), Some(1)));
    cluster.lose_pod("db-0").await;
    cluster.quiet().await;
    assert_eq!(images(&cluster).await, ["db:1", "db:1", "db:2"]);
    cluster.patch::<StatefulSet>("db", partition(0)).await;
    cluster.quiet().await;
    assert_eq!(images(&cluster).await, ["db:2"; 3]);
}

#[tokio::test]
async fn updates_may_be_left_to_whoever_deletes_pods() {
    let cluster =
        settled(&DB.replace("serviceName", "updateStrategy: {type: OnDelete}\n      serviceName")).await;
    cluster.patch::<StatefulSet>("db", image("db:2")).await;
    cluster.quiet().await;
    assert_eq!(images(&cluster).await, ["db:1"; 3]);
    cluster.delete::<Pod>("db-1").await;
    cluster.quiet().await;
    assert_eq!(images(&cluster).await, ["db:1", "db:2", "db:1"]);
}

#[tokio::test]
async fn going_back_renews_the_old_revision_and_only_so_many_are_kept() {
    let cluster = settled(&DB.replace("serviceName", "revisionHistoryLimit: 1\n      serviceName")).await;
    let first = status(&cluster).await.update_revision.unwrap();
    cluster.patch::<StatefulSet>("db", image("db:2")).await;
    cluster.quiet().await;
    cluster.patch::<StatefulSet>("db", image("db:1")).await;
    cluster.quiet().await;
    assert_eq!(status(&cluster).await.update_revision.as_ref(), Some(&first));
    assert_eq!(cluster.get::<ControllerRevision>(&first).await.revision, 3);
    assert_eq!(cluster.list::<ControllerRevision>().await.len(), 2);
    cluster.patch::<StatefulSet>("db", image("db:3")).await;
    cluster.quiet().await;
    let mut numbers: Vec<_> =
        cluster.list::<ControllerRevision>().await.iter().map(|one| one.revision).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [3, 4], "the newest, and one before it");
}

#[tokio::test]
async fn a_pod_that_has_ended_is_replaced_under_the_same_name() {
    let cluster = settled(DB).await;
    let before = cluster.get::<Pod>("db-1").await.uid();
    let failed = json!({"status": {"phase": "Failed"}});
    let pods: kube::Api<Pod> = kube::Api::default_namespaced(cluster.client());
    let parameters = kube::api::PatchParams::default();
    pods.patch_status("db-1", &parameters, &kube::api::Patch::Merge(failed)).await.unwrap();
    cluster.quiet().await;
    let after = cluster.get::<Pod>("db-1").await;
    assert_ne!(after.uid(), before);
    assert!(is_ready(&after));
    assert_eq!(claims(&cluster).await.len(), 3);
}

#[tokio::test]
async fn claims_belong_to_whom_they_should_go_with() {
    let policy =
        "persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete, whenScaled: Delete}\n      serviceName";
    let cluster = settled(&DB.replace("serviceName", policy)).await;
    let owner = async |cluster: &TestCluster, claim: &str| {
        let claim = cluster.get::<PersistentVolumeClaim>(claim).await;
        claim
            .owner_references()
            .iter()
            .map(|owner| (owner.kind.clone(), owner.name.clone()))
            .collect::<Vec<_>>()
    };
    let to = |kind: &str, name: &str| vec![(kind.to_owned(), name.to_owned())];
    assert_eq!(owner(&cluster, "data-db-2").await, to("StatefulSet", "db"));
    cluster.script("db:1", Script::default().stops_after(Duration::from_secs(20)));
    cluster.patch::<StatefulSet>("db", json!({"spec": {"replicas": 2}})).await;
    cluster.advance(Duration::from_secs(5)).await;
    assert_eq!(owner(&cluster, "data-db-2").await, to("Pod", "db-2"), "while the pod terminates");
    assert_eq!(owner(&cluster, "data-db-1").await, to("StatefulSet", "db"));
    cluster
        .patch::<StatefulSet>(
            "db",
            json!({"spec": {"persistentVolumeClaimRetentionPolicy": {
                "whenDeleted": "Retain", "whenScaled": "Retain",
            }}}),
        )
        .await;
    cluster.quiet().await;
    assert!(owner(&cluster, "data-db-1").await.is_empty());
}
