//! The garbage collector.

use k8s_openapi::{
    api::{
        apps::v1::ReplicaSet,
        core::v1::{ConfigMap, Namespace, Pod, Secret},
        events::v1::Event,
        rbac::v1::ClusterRole,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{
    Api, Resource as _, ResourceExt as _,
    api::{DeleteParams, ListParams, PostParams, PropagationPolicy},
};
use kubewright::Kind;
use kubewright_cluster::TestCluster;
use serde_json::{Value, json};

use crate::{gadgets, server};

/// A config map that belongs to others.
async fn map(cluster: &TestCluster, name: &str, owners: &[OwnerReference]) -> OwnerReference {
    let map = json!({"metadata": {"name": name, "ownerReferences": owners}});
    let api: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let map = api.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
    map.owner_ref(&()).unwrap()
}

fn blocking(owner: OwnerReference) -> OwnerReference {
    OwnerReference { block_owner_deletion: Some(true), ..owner }
}

async fn delete(cluster: &TestCluster, name: &str, policy: PropagationPolicy) {
    let api: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let parameters = DeleteParams { propagation_policy: Some(policy), ..DeleteParams::default() };
    api.delete(name, &parameters).await.unwrap();
}

/// The names of the config maps that are there.
async fn maps(cluster: &TestCluster) -> Vec<String> {
    let all = cluster.list::<ConfigMap>().await;
    all.iter().map(|map| map.name_any()).filter(|name| name != "kube-root-ca.crt").collect()
}

/// Keeps an object from going, until it is let go.
async fn hold<K: Kind>(cluster: &TestCluster, name: &str) {
    cluster.patch::<K>(name, json!({"metadata": {"finalizers": ["example.com/held"]}})).await;
}

async fn finalizers(cluster: &TestCluster, name: &str) -> Vec<String> {
    cluster.get::<ConfigMap>(name).await.finalizers().to_vec()
}

#[tokio::test]
async fn what_a_deleted_owner_owns_goes_after_it() {
    let cluster = server::start().await;
    let root = map(&cluster, "root", &[]).await;
    let child = map(&cluster, "child", &[root]).await;
    map(&cluster, "grandchild", &[child]).await;
    map(&cluster, "stranger", &[]).await;
    cluster.quiet().await;
    assert_eq!(maps(&cluster).await, ["child", "grandchild", "root", "stranger"]);
    cluster.delete::<ConfigMap>("root").await;
    cluster.quiet().await;
    assert_eq!(maps(&cluster).await, ["stranger"]);
}

#[tokio::test]
async fn a_deleted_replica_set_takes_its_pods_along() {
    let cluster = server::start().await;
    cluster
        .apply(
            "
            apiVersion: apps/v1
            kind: ReplicaSet
            metadata: {name: web}
            spec:
              replicas: 3
              selector: {matchLabels: {app: web}}
              template:
                metadata: {labels: {app: web}}
                spec: {containers: [{name: web, image: nginx}]}
        ",
        )
        .await;
    cluster.quiet().await;
    assert_eq!(cluster.list::<Pod>().await.len(), 3);
    cluster.delete::<ReplicaSet>("web").await;
    cluster.quiet().await;
    assert_eq!(cluster.list::<Pod>().await.len(), 0, "{}", cluster.describe().await);
}

#[tokio::test]
async fn an_owner_that_never_was_or_is_another_by_now_is_absent() {
    let cluster = server::start().await;
    let real = map(&cluster, "real", &[]).await;
    let invented = OwnerReference { uid: "00000000-0000-0000-0000-000000000000".to_owned(), ..real };
    map(&cluster, "replaced", std::slice::from_ref(&invented)).await;
    map(&cluster, "missing", &[OwnerReference { name: "never".to_owned(), ..invented }]).await;
    cluster.quiet().await;
    assert_eq!(maps(&cluster).await, ["real"]);
}

#[tokio::test]
async fn an_object_stays_for_its_last_owner_and_forgets_the_others() {
    let cluster = server::start().await;
    let (one, two) = (map(&cluster, "one", &[]).await, map(&cluster, "two", &[]).await);
    map(&cluster, "child", &[one, two]).await;
    cluster.delete::<ConfigMap>("one").await;
    cluster.quiet().await;
    let owners = cluster.get::<ConfigMap>("child").await.owner_references().to_vec();
    assert_eq!(owners.iter().map(|owner| owner.name.as_str()).collect::<Vec<_>>(), ["two"]);
    cluster.delete::<ConfigMap>("two").await;
    cluster.quiet().await;
    assert_eq!(maps(&cluster).await, Vec::<String>::new());
}

#[tokio::test]
async fn in_the_foreground_the_owner_waits_for_those_that_block_it() {
    let cluster = server::start().await;
    let root = map(&cluster, "root", &[]).await;
    map(&cluster, "blocking", &[blocking(root.clone())]).await;
    map(&cluster, "other", &[root]).await;
    hold::<ConfigMap>(&cluster, "blocking").await;
    hold::<ConfigMap>(&cluster, "other").await;
    delete(&cluster, "root", PropagationPolicy::Foreground).await;
    cluster.quiet().await;
    assert_eq!(finalizers(&cluster, "root").await, ["foregroundDeletion"]);
    for name in ["blocking", "other"] {
        assert!(cluster.get::<ConfigMap>(name).await.meta().deletion_timestamp.is_some(), "{name}");
    }
    cluster.patch::<ConfigMap>("blocking", json!({"metadata": {"finalizers": null}})).await;
    cluster.quiet().await;
    assert_eq!(maps(&cluster).await, ["other"], "only what blocks is waited for");
}

#[tokio::test]
async fn in_the_foreground_a_whole_tree_goes_from_its_leaves() {
    let cluster = server::start().await;
    let root = map(&cluster, "root", &[]).await;
    let child = map(&cluster, "child", &[blocking(root)]).await;
    map(&cluster, "leaf", &[blocking(child)]).await;
    hold::<ConfigMap>(&cluster, "leaf").await;
    delete(&cluster, "root", PropagationPolicy::Foreground).await;
    cluster.quiet().await;
    assert_eq!(maps(&cluster).await, ["child", "leaf", "root"]);
    assert_eq!(finalizers(&cluster, "child").await, ["foregroundDeletion"]);
    cluster.patch::<ConfigMap>("leaf", json!({"metadata": {"finalizers": null}})).await;
    cluster.quiet().await;
    assert_eq!(maps(&cluster).await, Vec::<String>::new());
}

#[tokio::test]
async fn those_that_own_each_other_do_not_wait_for_each_other_for_ever() {
    let cluster = server::start().await;
    let one = map(&cluster, "one", &[]).await;
    let two = map(&cluster, "two", &[blocking(one)]).await;
    let back = json!({"metadata": {"ownerReferences": [blocking(two)]}});
    cluster.patch::<ConfigMap>("one", back).await;
    cluster.quiet().await;
    assert_eq!(maps(&cluster).await, ["one", "two"]);
    delete(&cluster, "one", PropagationPolicy::Foreground).await;
    cluster.quiet().await;
    assert_eq!(maps(&cluster).await, Vec::<String>::new());
}

#[tokio::test]
async fn an_owner_that_leaves_orphans_takes_its_references_with_it() {
    let cluster = server::start().await;
    let (root, other) = (map(&cluster, "root", &[]).await, map(&cluster, "other", &[]).await);
    map(&cluster, "child", &[root, other]).await;
    delete(&cluster, "root", PropagationPolicy::Orphan).await;
    cluster.quiet().await;
    assert_eq!(maps(&cluster).await, ["child", "other"]);
    let owners = cluster.get::<ConfigMap>("child").await.owner_references().to_vec();
    assert_eq!(owners.iter().map(|owner| owner.name.as_str()).collect::<Vec<_>>(), ["other"]);
}

#[tokio::test]
async fn an_owner_in_another_namespace_is_none_and_people_are_told() {
    let cluster = server::start().await;
    let (own, elsewhere) = (cluster.namespace(), format!("not-{}", cluster.namespace()));
    let namespace = json!({"metadata": {"name": elsewhere}});
    let namespaces: Api<Namespace> = Api::all(cluster.client());
    namespaces.create(&PostParams::default(), &serde_json::from_value(namespace).unwrap()).await.unwrap();
    let secrets: Api<Secret> = Api::namespaced(cluster.client(), &elsewhere);
    let owner = json!({"metadata": {"name": "owner"}});
    let owner =
        secrets.create(&PostParams::default(), &serde_json::from_value(owner).unwrap()).await.unwrap();
    let owner = owner.owner_ref(&()).unwrap();
    map(&cluster, "inside", std::slice::from_ref(&owner)).await;
    let role = json!({"metadata": {"name": elsewhere, "ownerReferences": [owner]}});
    let roles: Api<ClusterRole> = Api::all(cluster.client());
    roles.create(&PostParams::default(), &serde_json::from_value(role).unwrap()).await.unwrap();
    cluster.quiet().await;
    assert_eq!(maps(&cluster).await, Vec::<String>::new());
    assert!(cluster.find::<ClusterRole>(&elsewhere).await.is_some(), "nothing is known of its owner");
    let uid = owner.uid;
    let events = Api::<Event>::all(cluster.client()).list(&ListParams::default()).await.unwrap();
    let told = events.into_iter().filter(|event| event.reason.as_deref() == Some("OwnerRefInvalidNamespace"));
    let mut notes: Vec<String> =
        told.filter_map(|event| event.note).filter(|note| note.contains(&uid)).collect();
    notes.sort();
    assert_eq!(
        notes,
        [
            format!(
                "ownerRef [v1/Secret, namespace: , name: owner, uid: {uid}] does not exist in namespace \"\""
            ),
            format!(
                "ownerRef [v1/Secret, namespace: {own}, name: owner, uid: {uid}] does not exist in namespace \
                 \"{own}\""
            ),
        ]
    );
}

#[tokio::test]
async fn kinds_that_come_later_own_and_are_owned_and_their_end_is_seen() {
    let cluster = server::start().await;
    cluster.quiet().await;
    let resource = gadgets::define(&cluster, "example.com").await;
    let gadget = |name: &str, owners: Value| {
        let meta = json!({"name": name, "ownerReferences": owners});
        json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": meta}).to_string()
    };
    cluster.apply(&gadget("one", json!([]))).await;
    cluster.apply(&gadget("two", json!([]))).await;
    let gadgets: Api<kube::api::DynamicObject> = Api::default_namespaced_with(cluster.client(), &resource);
    for name in ["one", "two"] {
        let owner = gadgets.get(name).await.unwrap().owner_ref(&resource).unwrap();
        let child = map(&cluster, &format!("child-of-{name}"), &[owner]).await;
        cluster.apply(&gadget(&format!("grandchild-of-{name}"), json!([child]))).await;
    }
    cluster.quiet().await;
    gadgets.delete("one", &DeleteParams::default()).await.unwrap();
    cluster
        .eventually("what was the first one's is gone", async |cluster| {
            let left = gadgets.list(&ListParams::default()).await.unwrap().items.len();
            maps(cluster).await == ["child-of-two"] && left == 2
        })
        .await;
    cluster.delete::<CustomResourceDefinition>("gadgets.example.com").await;
    cluster.eventually("nothing is left", async |cluster| maps(cluster).await.is_empty()).await;
}
