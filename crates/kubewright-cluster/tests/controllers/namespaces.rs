//! Namespaces: what is in every one of them, and how they go.

use std::time::Duration;

use k8s_openapi::api::{
    apps::v1::ReplicaSet,
    core::v1::{ConfigMap, Namespace, Pod, ServiceAccount},
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use kubewright_cluster::{TestCluster, nodes::Script};
use serde_json::json;

use crate::server;

const WEB: &str = "
    apiVersion: apps/v1
    kind: ReplicaSet
    metadata: {name: web, namespace: SHOP}
    spec:
      replicas: 2
      selector: {matchLabels: {app: web}}
      template:
        metadata: {labels: {app: web}}
        spec: {containers: [{name: web, image: nginx}]}
";

async fn web(cluster: &TestCluster, shop: &str) {
    cluster.apply(&WEB.replace("SHOP", shop)).await;
}

async fn map(cluster: &TestCluster, shop: &str, name: &str, finalizers: &[&str]) {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": shop, "finalizers": finalizers},
    });
    cluster.apply(&map.to_string()).await;
}

/// The reason and the message of each condition that is so.
async fn complaints(cluster: &TestCluster, shop: &str) -> Vec<(String, String)> {
    let conditions = cluster.get::<Namespace>(shop).await.status.unwrap().conditions.unwrap_or_default();
    let so = conditions.into_iter().filter(|condition| condition.status == "True");
    so.map(|condition| (condition.reason.unwrap(), condition.message.unwrap())).collect()
}

async fn is_gone(cluster: &TestCluster, shop: &str) {
    let is_gone = async |cluster: &TestCluster| cluster.find::<Namespace>(shop).await.is_none();
    cluster.eventually("the namespace is gone", is_gone).await;
}

#[tokio::test]
async fn every_namespace_has_an_account_and_the_certificate_of_the_server() {
    if server::is_left_out("nothing tells the certificate of another server") {
        return;
    }
    let (cluster, shop) = server::start_with_namespace().await;
    cluster.quiet().await;
    for namespace in ["default", "kube-system", &shop] {
        let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client(), namespace);
        assert!(accounts.get_opt("default").await.unwrap().is_some(), "{namespace}");
        let maps: Api<ConfigMap> = Api::namespaced(cluster.client(), namespace);
        let map = maps.get("kube-root-ca.crt").await.unwrap();
        assert_eq!(map.data.unwrap()["ca.crt"], cluster.server().certificate_authority());
    }
}

#[tokio::test]
async fn the_account_and_the_certificate_come_back() {
    let cluster = server::start().await;
    cluster.quiet().await;
    let before = cluster.get::<ServiceAccount>("default").await.uid();
    cluster.delete::<ServiceAccount>("default").await;
    cluster.delete::<ConfigMap>("kube-root-ca.crt").await;
    cluster.quiet().await;
    assert_ne!(cluster.get::<ServiceAccount>("default").await.uid(), before);
    let right = cluster.get::<ConfigMap>("kube-root-ca.crt").await.data;
    cluster.patch::<ConfigMap>("kube-root-ca.crt", json!({"data": {"ca.crt": "mine"}})).await;
    cluster.quiet().await;
    assert_eq!(cluster.get::<ConfigMap>("kube-root-ca.crt").await.data, right);
}

#[tokio::test]
async fn a_deleted_namespace_takes_everything_in_it_along() {
    let (cluster, shop) = server::start_with_namespace().await;
    web(&cluster, &shop).await;
    map(&cluster, &shop, "greeting", &[]).await;
    cluster.quiet().await;
    cluster.delete::<Namespace>(&shop).await;
    is_gone(&cluster, &shop).await;
    let client = cluster.client();
    let none = &ListParams::default();
    assert_eq!(Api::<Pod>::namespaced(client.clone(), &shop).list(none).await.unwrap().items.len(), 0);
    assert_eq!(Api::<ReplicaSet>::namespaced(client.clone(), &shop).list(none).await.unwrap().items.len(), 0);
    assert_eq!(Api::<ConfigMap>::namespaced(client, &shop).list(none).await.unwrap().items.len(), 0);
}

#[tokio::test]
async fn a_namespace_says_what_it_waits_for() {
    let (cluster, shop) = server::start_with_namespace().await;
    map(&cluster, &shop, "one", &["example.com/held"]).await;
    map(&cluster, &shop, "two", &["example.com/held", "example.com/kept"]).await;
    cluster.delete::<Namespace>(&shop).await;
    cluster.advance(Duration::from_secs(60)).await;
    let namespace = cluster.get::<Namespace>(&shop).await;
    assert_eq!(namespace.status.unwrap().phase.as_deref(), Some("Terminating"));
    let so = [
        ("SomeResourcesRemain", "Some resources are remaining: configmaps. has 2 resource instances"),
        (
            "SomeFinalizersRemain",
            "Some content in the namespace has finalizers remaining: example.com/held in 2 resource instances, \
             example.com/kept in 1 resource instances",
        ),
    ];
    assert_eq!(
        complaints(&cluster, &shop).await,
        so.map(|(reason, why)| (reason.to_owned(), why.to_owned()))
    );
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client(), &shop);
    for name in ["one", "two"] {
        let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        maps.patch(name, &PatchParams::default(), &free).await.unwrap();
    }
    is_gone(&cluster, &shop).await;
}

#[tokio::test]
async fn what_pods_need_stays_until_they_have_ended() {
    let (cluster, shop) = server::start_with_namespace().await;
    cluster.script("nginx", Script::default().stops_after(Duration::from_secs(20)));
    web(&cluster, &shop).await;
    map(&cluster, &shop, "settings", &[]).await;
    cluster.quiet().await;
    cluster.delete::<Namespace>(&shop).await;
    cluster.advance(Duration::from_secs(15)).await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client(), &shop);
    assert!(maps.get_opt("settings").await.unwrap().is_some());
    is_gone(&cluster, &shop).await;
}

#[tokio::test]
async fn a_namespace_goes_right_after_its_last_pod() {
    if server::is_left_out("the real controller takes its time") {
        return;
    }
    let (cluster, shop) = server::start_with_namespace().await;
    cluster.script("nginx", Script::default().stops_after(Duration::from_secs(20)));
    web(&cluster, &shop).await;
    cluster.quiet().await;
    cluster.delete::<Namespace>(&shop).await;
    cluster.advance(Duration::from_secs(21)).await;
    assert!(cluster.find::<Namespace>(&shop).await.is_none());
}

#[tokio::test]
async fn a_finalizer_of_somebody_else_is_left_alone() {
    let (cluster, shop) = server::start_with_namespace().await;
    let mut namespace = cluster.get::<Namespace>(&shop).await;
    namespace.spec.as_mut().unwrap().finalizers.as_mut().unwrap().push("example.com/audit".to_owned());
    let namespaces: Api<Namespace> = Api::all(cluster.client());
    let finalize = async |namespace: &Namespace| {
        namespaces.replace_subresource("finalize", &shop, &Default::default(), namespace).await.unwrap();
    };
    finalize(&namespace).await;
    namespaces.delete(&shop, &DeleteParams::default()).await.unwrap();
    cluster
        .eventually("its own finalizer is taken away", async |cluster| {
            let spec = cluster.get::<Namespace>(&shop).await.spec.unwrap();
            spec.finalizers.unwrap() == ["example.com/audit"]
        })
        .await;
    cluster.quiet().await;
    let mut namespace = cluster.get::<Namespace>(&shop).await;
    namespace.spec.as_mut().unwrap().finalizers = None;
    finalize(&namespace).await;
    assert!(cluster.find::<Namespace>(&shop).await.is_none());
}
