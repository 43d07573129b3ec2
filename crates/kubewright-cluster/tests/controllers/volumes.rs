//! PersistentVolumeClaims and PersistentVolumes.

use k8s_openapi::api::{
    core::v1::{PersistentVolume, PersistentVolumeClaim, Pod},
    events::v1::Event,
    storage::v1::StorageClass,
};
use kube::ResourceExt as _;
use kubewright_cluster::TestCluster;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::server;

const CLAIM: &str = "
    apiVersion: v1
    kind: PersistentVolumeClaim
    metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
";
const POD: &str = "
    apiVersion: v1
    kind: Pod
    metadata: {name: db}
    spec:
      containers: [{name: db, image: db}]
      volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
";
const IMMEDIATE: &str = "
    apiVersion: storage.k8s.io/v1
    kind: StorageClass
    metadata: {name: fast}
    provisioner: kubewright.dev/simulated
    volumeBindingMode: Immediate
    reclaimPolicy: Retain
";

/// Where a cluster is shared, any test could take the volumes of another one.
static ALONE: Mutex<()> = Mutex::const_new(());

/// A volume that somebody made by hand, without a class.
fn volume(name: &str, size: &str, more: &str) -> String {
    format!(
        "
        apiVersion: v1
        kind: PersistentVolume
        metadata: {{name: {name}, labels: {{disk: {name}}}}}
        spec:
          capacity: {{storage: {size}}}
          accessModes: [ReadWriteOnce]
          hostPath: {{path: /data}}
          {more}
    "
    )
}

/// The claim with something more in its specification.
fn claim(more: &str) -> String {
    CLAIM.replace("spec: {", &format!("spec: {{{more}, "))
}

/// Whether a volume is not for the claim of another test.
fn is_of(cluster: &TestCluster, volume: &PersistentVolume) -> bool {
    let claim = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    claim.is_none_or(|claim| claim.namespace.as_deref() == Some(cluster.namespace()))
}

async fn phases(cluster: &TestCluster) -> (Option<String>, Vec<(String, String)>) {
    let claim = cluster.find::<PersistentVolumeClaim>("data").await;
    let mut volumes = cluster.list::<PersistentVolume>().await;
    volumes.retain(|volume| is_of(cluster, volume));
    let phase = |volume: &PersistentVolume| {
        (volume.name_any(), volume.status.clone().unwrap_or_default().phase.unwrap_or_default())
    };
    (claim.and_then(|claim| claim.status?.phase), volumes.iter().map(phase).collect())
}

fn expected(claim: &str, volumes: &[(&str, &str)]) -> (Option<String>, Vec<(String, String)>) {
    let volumes = volumes.iter().map(|(name, phase)| ((*name).to_owned(), (*phase).to_owned()));
    (Some(claim.to_owned()).filter(|claim| !claim.is_empty()), volumes.collect())
}

/// Waits until claim and volumes are in these phases.
async fn become_so(cluster: &TestCluster, claim: &str, volumes: &[(&str, &str)]) {
    let expected = expected(claim, volumes);
    let are_so = async |cluster: &TestCluster| phases(cluster).await == expected;
    cluster.eventually("claim and volumes are in these phases", are_so).await;
}

async fn notes(cluster: &TestCluster, reason: &str) -> Vec<String> {
    let mut events = cluster.list::<Event>().await;
    events.retain(|event| event.reason.as_deref() == Some(reason));
    events.into_iter().map(|event| event.note.unwrap()).collect()
}

async fn node_of(cluster: &TestCluster, pod: &str) -> Option<String> {
    cluster.get::<Pod>(pod).await.spec.unwrap().node_name
}

#[tokio::test]
async fn a_cluster_has_a_default_class() {
    if server::is_left_out("a class is not the work of a controller") {
        return;
    }
    let cluster = server::start().await;
    let class = cluster.get::<StorageClass>("standard").await;
    assert_eq!(class.annotations()["storageclass.kubernetes.io/is-default-class"], "true");
    assert_eq!(class.volume_binding_mode.as_deref(), Some("WaitForFirstConsumer"));
}

#[tokio::test]
async fn a_claim_waits_for_its_first_pod_and_then_gets_a_volume_of_its_own() {
    if server::is_left_out("volumes are made by a provisioner") {
        return;
    }
    let cluster = server::start().await;
    cluster.apply(CLAIM).await;
    cluster.quiet().await;
    assert_eq!(phases(&cluster).await, expected("Pending", &[]));
    let waiting = ["waiting for first consumer to be created before binding"];
    assert_eq!(notes(&cluster, "WaitForFirstConsumer").await, waiting);
    cluster.apply(POD).await;
    cluster.quiet().await;
    let claim = cluster.get::<PersistentVolumeClaim>("data").await;
    let name = format!("pvc-{}", claim.uid().unwrap());
    assert_eq!(phases(&cluster).await, expected("Bound", &[(&name, "Bound")]));
    assert_eq!(
        serde_json::to_value(claim.annotations()).unwrap(),
        json!({
            "pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes",
            "volume.kubernetes.io/selected-node": "node-1",
        })
    );
    let status: Value = serde_json::to_value(claim.status.as_ref().unwrap()).unwrap();
    assert_eq!(
        status,
        json!({"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}})
    );
    let spec = cluster.get::<PersistentVolume>(&name).await.spec.unwrap();
    assert_eq!(spec.storage_class_name.as_deref(), Some("standard"));
    assert_eq!(spec.persistent_volume_reclaim_policy.as_deref(), Some("Delete"));
    assert_eq!(spec.claim_ref.unwrap().uid, claim.uid());
    let said = [format!("Successfully provisioned volume {name} using kubewright.dev/simulated")];
    assert_eq!(notes(&cluster, "ProvisioningSucceeded").await, said);
}

#[tokio::test]
async fn a_class_may_bind_at_once_and_keep_its_volumes() {
    if server::is_left_out("volumes are made by a provisioner") {
        return;
    }
    let cluster = server::start().await;
    cluster.apply(&claim("storageClassName: fast")).await;
    cluster.quiet().await;
    assert_eq!(
        notes(&cluster, "ProvisioningFailed").await,
        ["storageclass.storage.k8s.io \"fast\" not found"]
    );
    cluster.apply(IMMEDIATE).await;
    cluster.quiet().await;
    let name = format!("pvc-{}", cluster.get::<PersistentVolumeClaim>("data").await.uid().unwrap());
    assert_eq!(phases(&cluster).await, expected("Bound", &[(&name, "Bound")]));
    cluster.delete::<PersistentVolumeClaim>("data").await;
    cluster.quiet().await;
    assert_eq!(phases(&cluster).await, expected("", &[(&name, "Released")]));
}

#[tokio::test]
async fn a_claim_that_is_used_does_not_go_and_its_volume_goes_with_it() {
    if server::is_left_out("volumes are deleted by a provisioner") {
        return;
    }
    let cluster = server::start().await;
    cluster.apply(CLAIM).await;
    cluster.apply(POD).await;
    cluster.quiet().await;
    assert_eq!(cluster.list::<PersistentVolume>().await.len(), 1);
    cluster.delete::<PersistentVolumeClaim>("data").await;
    cluster.quiet().await;
    let claim = cluster.get::<PersistentVolumeClaim>("data").await;
    assert!(claim.metadata.deletion_timestamp.is_some());
    assert_eq!(claim.finalizers(), ["kubernetes.io/pvc-protection"]);
    cluster.delete::<Pod>("db").await;
    cluster.quiet().await;
    assert_eq!(phases(&cluster).await, expected("", &[]), "policy Delete");
}

#[tokio::test]
async fn a_volume_grows_with_its_claim() {
    if server::is_left_out("volumes grow by a resizer") {
        return;
    }
    let cluster = server::start().await;
    cluster.apply(CLAIM).await;
    cluster.apply(POD).await;
    cluster.quiet().await;
    let more = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
    cluster.patch::<PersistentVolumeClaim>("data", more).await;
    cluster.quiet().await;
    let claim = cluster.get::<PersistentVolumeClaim>("data").await;
    assert_eq!(claim.status.as_ref().unwrap().capacity.as_ref().unwrap()["storage"].0, "2Gi");
    let volume = cluster.get::<PersistentVolume>(&format!("pvc-{}", claim.uid().unwrap())).await;
    assert_eq!(volume.spec.unwrap().capacity.unwrap()["storage"].0, "2Gi");
}

#[tokio::test]
async fn a_volume_that_is_bound_does_not_go() {
    let _alone = ALONE.lock().await;
    let cluster = server::start_without_volumes().await;
    cluster.apply(&volume("disk", "1Gi", "")).await;
    cluster.apply(&claim("storageClassName: ''")).await;
    cluster.quiet().await;
    cluster.delete::<PersistentVolume>("disk").await;
    cluster.quiet().await;
    assert_eq!(phases(&cluster).await, expected("Bound", &[("disk", "Bound")]));
    cluster.delete::<PersistentVolumeClaim>("data").await;
    cluster.quiet().await;
    assert_eq!(phases(&cluster).await, expected("", &[]));
}

#[tokio::test]
async fn of_the_volumes_that_are_free_the_smallest_that_will_do_is_taken() {
    let _alone = ALONE.lock().await;
    let cluster = server::start_without_volumes().await;
    for (name, size) in [("a-large", "10Gi"), ("b-small", "500Mi"), ("c-right", "1536Mi")] {
        cluster.apply(&volume(name, size, "")).await;
    }
    cluster.apply(&volume("d-classy", "1Gi", "storageClassName: gold")).await;
    cluster.apply(&claim("storageClassName: ''")).await;
    cluster.quiet().await;
    let others =
        [("a-large", "Available"), ("b-small", "Available"), ("c-right", "Bound"), ("d-classy", "Available")];
    assert_eq!(phases(&cluster).await, expected("Bound", &others));
    let bound = cluster.get::<PersistentVolume>("c-right").await;
    assert_eq!(bound.annotations()["pv.kubernetes.io/bound-by-controller"], "yes");
    let capacity = cluster.get::<PersistentVolumeClaim>("data").await.status.unwrap().capacity.unwrap();
    assert_eq!(capacity["storage"].0, "1536Mi", "what it has, not what it asked for");
}

#[tokio::test]
async fn a_claim_may_choose_by_labels_and_waits_until_there_is_something_to_choose() {
    let _alone = ALONE.lock().await;
    let cluster = server::start_without_volumes().await;
    cluster.apply(&volume("one", "1Gi", "")).await;
    cluster.apply(&claim("storageClassName: '', selector: {matchLabels: {disk: two}}")).await;
    cluster.quiet().await;
    assert_eq!(phases(&cluster).await, expected("Pending", &[("one", "Available")]));
    assert_eq!(
        notes(&cluster, "FailedBinding").await,
        ["no persistent volumes available for this claim and no storage class is set"]
    );
    cluster.apply(&volume("two", "1Gi", "")).await;
    become_so(&cluster, "Bound", &[("one", "Available"), ("two", "Bound")]).await;
}

#[tokio::test]
async fn a_volume_may_be_reserved_for_a_claim() {
    let _alone = ALONE.lock().await;
    let cluster = server::start_without_volumes().await;
    let claim_ref = format!("claimRef: {{namespace: {}, name: data}}", cluster.namespace());
    cluster.apply(&volume("small", "1Gi", "")).await;
    cluster.apply(&volume("reserved", "5Gi", &claim_ref)).await;
    cluster.quiet().await;
    assert_eq!(phases(&cluster).await.1[0], ("reserved".to_owned(), "Available".to_owned()));
    cluster.apply(&claim("storageClassName: ''")).await;
    cluster.quiet().await;
    assert_eq!(phases(&cluster).await, expected("Bound", &[("reserved", "Bound"), ("small", "Available")]));
}

#[tokio::test]
async fn a_claim_that_asks_for_a_volume_gets_no_other() {
    let _alone = ALONE.lock().await;
    let cluster = server::start_without_volumes().await;
    cluster.apply(&claim("storageClassName: '', volumeName: mine")).await;
    cluster.apply(&volume("other", "1Gi", "")).await;
    cluster.quiet().await;
    assert_eq!(phases(&cluster).await, expected("Pending", &[("other", "Available")]));
    cluster.apply(&volume("mine", "500Mi", "")).await;
    cluster
        .eventually("the claim says why it does not take it", async |cluster| {
            notes(cluster, "VolumeMismatch").await
                == ["Cannot bind to requested volume \"mine\": requested PV is too small"]
        })
        .await;
    cluster.apply(&volume("mine", "2Gi", "")).await;
    become_so(&cluster, "Bound", &[("mine", "Bound"), ("other", "Available")]).await;
}

#[tokio::test]
async fn a_claim_whose_volume_vanishes_is_lost() {
    let _alone = ALONE.lock().await;
    let cluster = server::start_without_volumes().await;
    cluster.apply(&volume("disk", "1Gi", "")).await;
    cluster.apply(&claim("storageClassName: ''")).await;
    cluster.quiet().await;
    cluster.delete::<PersistentVolume>("disk").await;
    cluster.patch::<PersistentVolume>("disk", json!({"metadata": {"finalizers": null}})).await;
    cluster.quiet().await;
    assert_eq!(phases(&cluster).await, expected("Lost", &[]));
    let lost = ["Bound claim has lost its PersistentVolume. Data on the volume is lost!"];
    assert_eq!(notes(&cluster, "ClaimLost").await, lost);
}

#[tokio::test]
async fn another_provisioner_is_asked_and_not_replaced() {
    let _alone = ALONE.lock().await;
    let cluster = server::start_without_volumes().await;
    cluster.apply(&IMMEDIATE.replace("kubewright.dev/simulated", "example.com/disks")).await;
    cluster.apply(&claim("storageClassName: fast")).await;
    cluster.quiet().await;
    assert_eq!(phases(&cluster).await, expected("Pending", &[]));
    let claim = cluster.get::<PersistentVolumeClaim>("data").await;
    assert_eq!(claim.annotations()["volume.kubernetes.io/storage-provisioner"], "example.com/disks");
}

#[tokio::test]
async fn a_pod_is_not_scheduled_before_its_claims_are_there() {
    if server::is_left_out("the same scheduler would run on both") {
        return;
    }
    let cluster = server::start().await;
    cluster.apply(POD).await;
    cluster.quiet().await;
    assert_eq!(node_of(&cluster, "db").await, None);
    assert_eq!(
        notes(&cluster, "FailedScheduling").await,
        [
            "0/1 nodes are available: persistentvolumeclaim \"data\" not found. preemption: 0/1 nodes are available: 1 \
             Preemption is not helpful for scheduling."
        ]
    );
    cluster.apply(&claim("storageClassName: ''")).await;
    cluster.quiet().await;
    assert_eq!(node_of(&cluster, "db").await, None, "no volume is free");
    cluster.apply(&volume("disk", "1Gi", "")).await;
    cluster.quiet().await;
    assert_eq!(node_of(&cluster, "db").await.as_deref(), Some("node-1"));
}
