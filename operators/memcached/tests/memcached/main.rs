//! What those see who apply a `Memcached`.

mod outside;
mod promises;
mod versions;
mod webhooks;

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kubewright_cluster::{TestCluster, nodes::Script};
use memcached_operator::{Memcached, SAMPLE, operator};
use serde_json::json;

/// The images of the pods that the status names.
async fn images(cluster: &TestCluster) -> Vec<String> {
    let mut images = Vec::new();
    for node in cluster.status::<Memcached>("sample").await.nodes {
        let pod = cluster.find::<Pod>(&node).await.and_then(|pod| pod.spec);
        images.extend(pod.into_iter().flat_map(|spec| spec.containers).filter_map(|one| one.image));
    }
    images
}

#[tokio::test]
async fn there_are_as_many_pods_as_are_asked_for_and_the_status_names_them() {
    let cluster = TestCluster::start().await;
    let _operator = cluster.run(operator()).await;
    cluster.apply(SAMPLE).await;
    cluster.quiet().await;
    let pods: Vec<String> = cluster.list::<Pod>().await.iter().map(|pod| pod.name_any()).collect();
    assert_eq!(pods.len(), 3);
    assert_eq!(cluster.status::<Memcached>("sample").await.nodes, pods);
    assert_eq!(images(&cluster).await, ["memcached:1.6-alpine"; 3]);
    let table = cluster.table::<Memcached>().await;
    assert!(
        table.starts_with("NAME     REPLICAS   AVAILABLE   AGE\nsample   3          True        "),
        "{table}"
    );
}

#[tokio::test]
async fn a_changed_specification_flows_through() {
    let cluster = TestCluster::start().await;
    let _operator = cluster.run(operator()).await;
    for (generation, spec, expected) in [
        (1, json!({"replicas": 3}), vec!["memcached:1.6-alpine"; 3]),
        (2, json!({"replicas": 5, "image": "memcached:1.7"}), vec!["memcached:1.7"; 5]),
        (3, json!({"replicas": 4, "image": "memcached:1.7"}), vec!["memcached:1.7"; 4]),
        (4, json!({"replicas": 4}), vec!["memcached:1.6-alpine"; 4]),
    ] {
        cluster.apply_spec::<Memcached>("sample", spec).await;
        cluster.quiet().await;
        assert_eq!(images(&cluster).await, expected);
        assert_eq!(cluster.list::<Pod>().await.len(), expected.len(), "and no others");
        let status = cluster.status::<Memcached>("sample").await;
        assert_eq!(status.observed_generation, Some(generation));
        assert!(status.conditions.iter().all(|one| one.observed_generation == Some(generation)));
    }
}

#[tokio::test]
async fn memcached_is_told_how_much_memory_it_may_take() {
    let cluster = TestCluster::start().await;
    let _operator = cluster.run(operator()).await;
    for (spec, expected) in [
        (json!({"replicas": 1, "memoryMegabytes": 256}), Some(vec!["-m".to_owned(), "256".to_owned()])),
        (json!({"replicas": 1}), Some(vec!["-m".to_owned(), "64".to_owned()])),
    ] {
        cluster.apply_spec::<Memcached>("sample", spec).await;
        cluster.quiet().await;
        let pods = cluster.list::<Pod>().await;
        let arguments: Vec<_> = pods
            .into_iter()
            .flat_map(|pod| pod.spec.map(|spec| spec.containers).unwrap_or_default())
            .map(|container| container.args)
            .collect();
        assert_eq!(arguments, [expected]);
    }
}

#[tokio::test]
async fn the_conditions_tell_how_far_it_is() {
    let cluster = TestCluster::start().await;
    cluster.script("slow", Script::default().ready_after(Duration::from_secs(60)));
    let _operator = cluster.run(operator()).await;
    cluster.apply_spec::<Memcached>("sample", json!({"replicas": 2, "image": "slow"})).await;
    cluster.quiet().await;
    assert_eq!(
        cluster.conditions::<Memcached>("sample").await,
        "Available=False PodsUnavailable: 0 of 2 pods are available\n\
         Progressing=True RollingOut: 2 of 2 pods are up to date\n\
         Degraded=False AsExpected: nothing is in the way"
    );
    cluster.advance(Duration::from_secs(60)).await;
    assert_eq!(
        cluster.conditions::<Memcached>("sample").await,
        "Available=True PodsAvailable: 2 of 2 pods are available\n\
         Progressing=False Complete: 2 of 2 pods are up to date\n\
         Degraded=False AsExpected: nothing is in the way"
    );
}

#[tokio::test]
async fn a_name_may_be_too_long_for_a_label() {
    let cluster = TestCluster::start().await;
    let _operator = cluster.run(operator()).await;
    let name = "x".repeat(100);
    cluster.apply_spec::<Memcached>(&name, json!({"replicas": 2})).await;
    cluster.quiet().await;
    assert_eq!(cluster.status::<Memcached>(&name).await.nodes.len(), 2);
    cluster.lose_pod(&cluster.list::<Pod>().await[0].name_any()).await;
    cluster.quiet().await;
    let pods: Vec<String> = cluster.list::<Pod>().await.iter().map(|pod| pod.name_any()).collect();
    assert_eq!(cluster.status::<Memcached>(&name).await.nodes, pods);
}

#[tokio::test]
async fn what_can_not_be_is_refused_by_name() {
    let cluster = TestCluster::start().await;
    let _operator = cluster.run(operator()).await;
    for (spec, expected) in [
        (json!({"replicas": 0}), "spec.replicas in body should be greater than or equal to 1"),
        (json!({"replicas": 6}), "spec.replicas in body should be less than or equal to 5"),
        (json!({"replicas": "three"}), "spec.replicas: expected numeric (int or float), got string"),
        (json!({"replicas": 1, "image": 2}), "spec.image: expected string, got"),
        (json!({}), "spec.replicas: Required value"),
    ] {
        let refusal = cluster.refusal::<Memcached>("sample", spec).await;
        assert!(refusal.contains(expected), "{refusal}");
    }
}
