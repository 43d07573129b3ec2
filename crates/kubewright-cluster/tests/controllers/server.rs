//! The clusters that tests run on: embedded ones, or namespaces of another that `KUBEWRIGHT_SERVER` names.

use k8s_openapi::api::core::v1::PersistentVolume;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams},
};
use kubewright_cluster::TestCluster;
use serde_json::json;

/// Whether the tests run on the embedded cluster.
pub fn is_embedded() -> bool {
    TestCluster::is_embedded()
}

/// Whether a test is left out because the cluster is not the embedded one.
pub fn is_left_out(why: &str) -> bool {
    TestCluster::is_left_out(why)
}

/// A cluster for a test, with one node, or with three if it is not the embedded one.
pub async fn start() -> TestCluster {
    TestCluster::start().await
}

/// A cluster for a test that needs three nodes.
pub async fn start_with_three_nodes() -> TestCluster {
    match is_embedded() {
        true => TestCluster::with(|builder| builder.nodes(3)).await,
        false => TestCluster::start().await,
    }
}

/// A cluster in the process, wherever the other tests run: for tests of what is in the process there, too.
pub async fn start_embedded() -> TestCluster {
    TestCluster::with(|builder| builder).await
}

/// A cluster, and a namespace that the test may delete.
pub async fn start_with_namespace() -> (TestCluster, String) {
    let cluster = start().await;
    if !is_embedded() {
        let own = cluster.namespace().to_owned();
        return (cluster, own);
    }
    cluster.apply("{apiVersion: v1, kind: Namespace, metadata: {name: shop}}").await;
    (cluster, "shop".to_owned())
}

/// A cluster in which there is no volume but those that were made for the claims of other tests.
pub async fn start_without_volumes() -> TestCluster {
    let cluster = start().await;
    let volumes = cluster.list::<PersistentVolume>().await.into_iter().map(|volume| volume.name_any());
    let api: Api<PersistentVolume> = Api::all(cluster.client());
    for name in volumes.filter(|name| !name.starts_with("pvc-")) {
        // One that is on its way already may be gone at any time.
        let released = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        let _ = api.delete(&name, &DeleteParams::default()).await;
        let _ = api.patch(&name, &PatchParams::default(), &released).await;
    }
    cluster
}
