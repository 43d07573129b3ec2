//! PodDisruptionBudgets, and evictions within them.

use std::time::Duration;

use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod, policy::v1::PodDisruptionBudget};
use kube::{
    Api, ResourceExt as _,
    api::{EvictParams, Patch, PatchParams},
};
use kubewright_cluster::{TestCluster, nodes::Script};
use serde_json::{Value, json};

use crate::{events::events, server};

async fn web(cluster: &TestCluster, replicas: i32) {
    let template = json!({
        "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web"}]},
    });
    let set = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    });
    cluster.apply(&set.to_string()).await;
}

async fn budget(cluster: &TestCluster, limit: Value) {
    let mut spec = json!({"selector": {"matchLabels": {"app": "web"}}});
    spec.as_object_mut().unwrap().extend(limit.as_object().unwrap().clone());
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"}, "spec": spec,
    });
    cluster.apply(&budget.to_string()).await;
}

/// The status of the budget, without times.
async fn status(cluster: &TestCluster) -> Value {
    let budget = cluster.get::<PodDisruptionBudget>("web").await;
    let mut status = serde_json::to_value(budget.status.unwrap_or_default()).unwrap();
    for condition in status.get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten() {
        condition.as_object_mut().unwrap().remove("lastTransitionTime").unwrap();
    }
    status
}

/// Evicts a pod; the code of the answer.
async fn evict(cluster: &TestCluster, pod: &str) -> u16 {
    let pods: Api<Pod> = Api::default_namespaced(cluster.client());
    match pods.evict(pod, &EvictParams::default()).await {
        Ok(_) => 201,
        Err(kube::Error::Api(status)) => status.code,
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn evictions_wait_for_the_budget() {
    let cluster = server::start().await;
    cluster.script("web", Script::default().ready_after(Duration::from_secs(10)));
    web(&cluster, 3).await;
    budget(&cluster, json!({"minAvailable": 2})).await;
    cluster.quiet().await;
    cluster.advance(Duration::from_secs(15)).await;
    let condition = json!({
        "type": "DisruptionAllowed", "status": "True", "reason": "SufficientPods", "message": "",
        "observedGeneration": 1,
    });
    assert_eq!(
        status(&cluster).await,
        json!({
            "currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 3, "disruptionsAllowed": 1,
            "observedGeneration": 1, "conditions": [condition],
        })
    );
    let names: Vec<String> = cluster.list::<Pod>().await.iter().map(|pod| pod.name_any()).collect();
    assert_eq!(evict(&cluster, &names[0]).await, 201);
    assert_eq!(evict(&cluster, &names[1]).await, 429);
    cluster.advance(Duration::from_secs(5)).await;
    assert_eq!(evict(&cluster, &names[1]).await, 429, "its successor is not ready");
    let refused = status(&cluster).await;
    assert_eq!((&refused["disruptionsAllowed"], &refused["currentHealthy"]), (&json!(0), &json!(2)));
    assert_eq!(refused["conditions"][0]["reason"], "InsufficientPods");
    cluster.advance(Duration::from_secs(10)).await;
    assert_eq!(evict(&cluster, &names[1]).await, 201);
}

#[tokio::test]
async fn a_share_is_one_of_what_the_controllers_want() {
    let cluster = server::start().await;
    web(&cluster, 5).await;
    budget(&cluster, json!({"maxUnavailable": "30%"})).await;
    cluster.quiet().await;
    let is = status(&cluster).await;
    let numbers =
        ["expectedPods", "desiredHealthy", "disruptionsAllowed"].map(|field| is[field].as_i64().unwrap());
    assert_eq!(numbers, [5, 3, 2], "30% of 5, rounded up, may be unavailable");
    cluster
        .patch::<PodDisruptionBudget>("web", json!({"spec": {"maxUnavailable": null, "minAvailable": "50%"}}))
        .await;
    cluster.quiet().await;
    let is = status(&cluster).await;
    let numbers =
        ["expectedPods", "desiredHealthy", "disruptionsAllowed"].map(|field| is[field].as_i64().unwrap());
    assert_eq!(numbers, [5, 3, 2]);
    cluster.patch::<ReplicaSet>("web", json!({"spec": {"replicas": 3}})).await;
    cluster.quiet().await;
    assert_eq!(status(&cluster).await["disruptionsAllowed"], 1);
}

#[tokio::test]
async fn bare_pods_count_for_numbers_but_not_for_shares() {
    let cluster = server::start().await;
    for name in ["one", "two"] {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "web"}]},
        });
        cluster.apply(&pod.to_string()).await;
    }
    budget(&cluster, json!({"minAvailable": 1})).await;
    cluster.quiet().await;
    assert_eq!(status(&cluster).await["disruptionsAllowed"], 1);
    cluster.patch::<PodDisruptionBudget>("web", json!({"spec": {"minAvailable": "50%"}})).await;
    cluster.quiet().await;
    let is = status(&cluster).await;
    assert_eq!((&is["expectedPods"], &is["disruptionsAllowed"]), (&json!(0), &json!(0)));
    let told = events(&cluster, "PodDisruptionBudget", "web").await;
    let start = "UnmanagedPods: Pods selected by this PodDisruptionBudget (selector: \
                 &LabelSelector{MatchLabels:map[string]string{app: web,},MatchExpressions:[]LabelSelectorRequirement{},}) \
                 were found to be unmanaged.";
    assert!(told.iter().any(|event| event.starts_with(start)), "{told:?}");
}

#[tokio::test]
async fn what_cannot_be_counted_must_not_be_disrupted() {
    let cluster = server::start().await;
    let template = json!({
        "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web"}]},
    });
    let daemons = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template},
    });
    cluster.apply(&daemons.to_string()).await;
    budget(&cluster, json!({"maxUnavailable": 1})).await;
    cluster.quiet().await;
    let is = status(&cluster).await;
    assert_eq!(is["disruptionsAllowed"], 0);
    assert_eq!(is["conditions"][0]["reason"], "SyncFailed");
    assert_eq!(is["conditions"][0]["message"], "daemonsets.apps does not implement the scale subresource");
}

#[tokio::test]
async fn a_budget_without_pods_says_so() {
    let cluster = server::start().await;
    budget(&cluster, json!({"maxUnavailable": 1})).await;
    cluster.quiet().await;
    assert_eq!(events(&cluster, "PodDisruptionBudget", "web").await, ["NoPods: No matching pods found"]);
    assert_eq!(status(&cluster).await["disruptionsAllowed"], 0);
}

#[tokio::test]
async fn an_eviction_that_never_comes_is_forgotten_after_two_minutes() {
    let cluster = server::start().await;
    web(&cluster, 2).await;
    budget(&cluster, json!({"minAvailable": 1})).await;
    cluster.quiet().await;
    let pod = cluster.list::<Pod>().await[0].name_any();
    let now = cluster.clock().time();
    let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(cluster.client());
    let noted = json!({"status": {"disruptedPods": {&pod: now}, "disruptionsAllowed": 0}});
    budgets.patch_status("web", &PatchParams::default(), &Patch::Merge(noted)).await.unwrap();
    let target = json!({"type": "DisruptionTarget", "status": "True", "lastTransitionTime": now});
    let marked = json!({"status": {"conditions": [target]}});
    let pods: Api<Pod> = Api::default_namespaced(cluster.client());
    pods.patch_status(&pod, &PatchParams::default(), &Patch::Strategic(marked)).await.unwrap();
    cluster.advance(Duration::from_secs(60)).await;
    assert_eq!(status(&cluster).await["disruptionsAllowed"], 0);
    cluster.advance(Duration::from_secs(65)).await;
    assert_eq!(status(&cluster).await["disruptionsAllowed"], 1);
    assert_eq!(status(&cluster).await["disruptedPods"], Value::Null);
    let conditions = cluster.get::<Pod>(&pod).await.status.unwrap().conditions.unwrap();
    assert!(conditions.iter().any(|one| one.type_ == "DisruptionTarget" && one.status == "False"));
}
