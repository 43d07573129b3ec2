//! A kind that the cluster learns of in a test.

use kube::{api::ApiResource, core::GroupVersionKind, discovery};
use kubewright_cluster::TestCluster;

/// Defines the kind `Gadget`, and waits until it is served.
pub async fn define(cluster: &TestCluster, group: &str) -> ApiResource {
    let definition = "
        apiVersion: apiextensions.k8s.io/v1
        kind: CustomResourceDefinition
        metadata: {name: gadgets.GROUP}
        spec:
          group: GROUP
          scope: Namespaced
          names: {plural: gadgets, singular: gadget, kind: Gadget}
          versions:
          - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
    ";
    cluster.apply(&definition.replace("GROUP", group)).await;
    let kind = GroupVersionKind::gvk(group, "v1", "Gadget");
    let is_served =
        async |cluster: &TestCluster| discovery::pinned_kind(&cluster.client(), &kind).await.is_ok();
    cluster.eventually("gadgets are served", is_served).await;
    ApiResource::from_gvk(&kind)
}
