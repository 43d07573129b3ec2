//! ResourceQuotas and LimitRanges, with the controller that counts.

use std::time::Duration;

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, ResourceQuota, Secret};
use kube::{
    Api, ResourceExt as _,
    api::{DynamicObject, PostParams},
};
use kubewright_cluster::{TestCluster, nodes::Script};
use serde_json::{Value, json};

use crate::{gadgets, server};

/// A quota, once it is in force.
async fn quota(cluster: &TestCluster, spec: Value) {
    let count = spec["hard"].as_object().unwrap().len();
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": spec});
    cluster.apply(&quota.to_string()).await;
    cluster
        .eventually("the quota is in force", async |cluster| {
            let status = cluster.get::<ResourceQuota>("q").await.status.unwrap_or_default();
            json!(status.hard) == quota["spec"]["hard"] && status.used.is_some_and(|used| used.len() == count)
        })
        .await;
}

async fn used(cluster: &TestCluster) -> Value {
    json!(cluster.get::<ResourceQuota>("q").await.status.unwrap().used)
}

fn secret(name: &str) -> Secret {
    serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
}

fn pod(name: &str, requests: Value, change: Value) -> Pod {
    let container = json!({"name": "c", "image": "nginx", "resources": {"requests": requests}});
    let mut pod = json!({"metadata": {"name": name}, "spec": {"containers": [container]}});
    for (field, value) in change.as_object().into_iter().flatten() {
        pod["spec"][field] = value.clone();
    }
    serde_json::from_value(pod).unwrap()
}

/// Why an object is refused; nothing if it is not.
async fn refusal<K>(cluster: &TestCluster, object: K) -> Option<String>
where
    K: kubewright::Kind + kube::Resource<Scope = kube::core::NamespaceResourceScope>,
{
    let api: Api<K> = Api::default_namespaced(cluster.client());
    match api.create(&PostParams::default(), &object).await {
        Ok(_) => None,
        Err(kube::Error::Api(status)) if status.code == 403 => Some(status.message.clone()),
        Err(other) => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_quota_says_what_is_used_and_refuses_more() {
    let cluster = server::start().await;
    assert_eq!(refusal(&cluster, secret("early")).await, None);
    quota(&cluster, json!({"hard": {"secrets": "2", "count/configmaps": "1"}})).await;
    assert_eq!(used(&cluster).await, json!({"secrets": "1", "count/configmaps": "1"}));
    assert_eq!(refusal(&cluster, secret("a")).await, None);
    assert_eq!(
        refusal(&cluster, secret("b")).await.unwrap(),
        "secrets \"b\" is forbidden: exceeded quota: q, requested: secrets=1, used: secrets=2, limited: secrets=2"
    );
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "m"}})).unwrap();
    assert_eq!(
        refusal(&cluster, map).await.unwrap(),
        "configmaps \"m\" is forbidden: exceeded quota: q, requested: count/configmaps=1, used: \
         count/configmaps=1, limited: count/configmaps=1"
    );
    cluster.delete::<Secret>("a").await;
    cluster.quiet().await;
    assert_eq!(used(&cluster).await["secrets"], "1");
    assert_eq!(refusal(&cluster, secret("b")).await, None);
}

#[tokio::test]
async fn of_creates_at_the_same_moment_no_more_get_through_than_there_is_room_for() {
    let cluster = server::start().await;
    quota(&cluster, json!({"hard": {"secrets": "3"}})).await;
    let refused = join_all((0..20).map(|number| refusal(&cluster, secret(&format!("s{number}"))))).await;
    assert_eq!(refused.iter().filter(|refusal| refusal.is_none()).count(), 3);
    assert_eq!(cluster.list::<Secret>().await.len(), 3);
    cluster.quiet().await;
    assert_eq!(used(&cluster).await["secrets"], "3");
}

#[tokio::test]
async fn what_pods_ask_for_counts_until_they_have_ended() {
    let cluster = server::start().await;
    cluster.script("nginx", Script::default().exits_after(Duration::from_secs(60), 0));
    quota(&cluster, json!({"hard": {"requests.cpu": "1", "pods": "5"}})).await;
    let never = json!({"restartPolicy": "Never"});
    assert_eq!(
        refusal(&cluster, pod("mute", json!({}), json!({}))).await.unwrap(),
        "pods \"mute\" is forbidden: failed quota: q: must specify requests.cpu for: c"
    );
    assert_eq!(refusal(&cluster, pod("one", json!({"cpu": "600m"}), never)).await, None);
    assert_eq!(used(&cluster).await, json!({"requests.cpu": "600m", "pods": "1"}));
    assert_eq!(
        refusal(&cluster, pod("two", json!({"cpu": "500m"}), json!({}))).await.unwrap(),
        "pods \"two\" is forbidden: exceeded quota: q, requested: requests.cpu=500m, used: requests.cpu=600m, \
         limited: requests.cpu=1"
    );
    cluster.advance(Duration::from_secs(90)).await;
    assert_eq!(used(&cluster).await, json!({"requests.cpu": "0", "pods": "0"}));
    assert_eq!(refusal(&cluster, pod("two", json!({"cpu": "500m"}), json!({}))).await, None);
}

#[tokio::test]
async fn a_quota_counts_only_what_is_in_its_scopes() {
    let cluster = server::start().await;
    quota(&cluster, json!({"hard": {"pods": "1"}, "scopes": ["BestEffort"]})).await;
    assert_eq!(refusal(&cluster, pod("a", json!({"cpu": "1"}), json!({}))).await, None);
    assert_eq!(refusal(&cluster, pod("b", json!({}), json!({}))).await, None);
    assert!(refusal(&cluster, pod("c", json!({}), json!({}))).await.is_some());
    assert_eq!(refusal(&cluster, pod("d", json!({"cpu": "1"}), json!({}))).await, None);
    cluster.quiet().await;
    assert_eq!(used(&cluster).await, json!({"pods": "1"}));
}

#[tokio::test]
async fn kinds_of_definitions_are_counted_too() {
    let cluster = server::start().await;
    let resource = gadgets::define(&cluster, "quota.example.com").await;
    quota(&cluster, json!({"hard": {"count/gadgets.quota.example.com": "1"}})).await;
    let gadgets: Api<DynamicObject> = Api::default_namespaced_with(cluster.client(), &resource);
    gadgets.create(&PostParams::default(), &DynamicObject::new("a", &resource)).await.unwrap();
    let refused = gadgets.create(&PostParams::default(), &DynamicObject::new("b", &resource)).await;
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("exceeded quota: q, requested: count/gadgets.quota.example.com=1")
    );
}

#[tokio::test]
async fn a_limit_range_fills_in_and_refuses() {
    let cluster = server::start().await;
    cluster
        .apply(
            "
            apiVersion: v1
            kind: LimitRange
            metadata: {name: l}
            spec:
              limits:
              - type: Container
                default: {cpu: 500m}
                max: {cpu: '1'}
                min: {cpu: 100m}
                maxLimitRequestRatio: {cpu: '2'}
        ",
        )
        .await;
    let limited = |name: &str, request: Option<&str>, limit: Option<&str>| -> Pod {
        let resources = json!({"requests": {"cpu": request}, "limits": {"cpu": limit}});
        let resources: Value = match (request, limit) {
            (None, None) => json!({}),
            _ => resources,
        };
        serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {"containers": [{"name": "c", "image": "nginx", "resources": resources}]},
        }))
        .unwrap()
    };
    assert_eq!(refusal(&cluster, limited("fine", None, None)).await, None);
    let fine = cluster.get::<Pod>("fine").await;
    assert_eq!(
        fine.annotations()["kubernetes.io/limit-ranger"],
        "LimitRanger plugin set: cpu request for container c; cpu limit for container c"
    );
    let resources = json!(fine.spec.unwrap().containers[0].resources);
    assert_eq!(resources, json!({"requests": {"cpu": "500m"}, "limits": {"cpu": "500m"}}));
    for (name, request, limit, why) in [
        ("large", "2", "2", "maximum cpu usage per Container is 1, but limit is 2"),
        ("small", "50m", "100m", "minimum cpu usage per Container is 100m, but request is 50m"),
        (
            "wide",
            "200m",
            "1",
            "cpu max limit to request ratio per Container is 2, but provided ratio is 5.000000",
        ),
    ] {
        assert_eq!(
            refusal(&cluster, limited(name, Some(request), Some(limit))).await.unwrap(),
            format!("pods \"{name}\" is forbidden: {why}")
        );
    }
}
