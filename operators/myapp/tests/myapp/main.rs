//! What those see who apply a `MyApp`.

mod promises;

use std::time::Duration;

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kubewright_cluster::{TestCluster, nodes::Script};
use myapp_operator::{MyApp, SAMPLE, operator};
use serde_json::json;

/// The images of all pods.
async fn images(cluster: &TestCluster) -> Vec<String> {
    let specs = cluster.list::<Pod>().await.into_iter().filter_map(|pod| pod.spec);
    specs.flat_map(|spec| spec.containers).filter_map(|container| container.image).collect()
}

#[tokio::test]
async fn the_image_runs_as_often_as_is_asked_for_and_the_status_counts() {
    let cluster = TestCluster::start().await;
    let _operator = cluster.run(operator()).await;
    cluster.apply(SAMPLE).await;
    cluster.quiet().await;
    assert_eq!(images(&cluster).await, ["nginx:1.29"; 3]);
    assert_eq!(cluster.status::<MyApp>("sample").await.ready_replicas, 3);
    let table = cluster.table::<MyApp>().await;
    assert!(
        table.starts_with("NAME     REPLICAS   IMAGE        AGE\nsample   3          nginx:1.29   "),
        "{table}"
    );
}

#[tokio::test]
async fn a_changed_specification_flows_through() {
    let cluster = TestCluster::start().await;
    let _operator = cluster.run(operator()).await;
    for (generation, spec, expected) in [
        (1, json!({"replicas": 3, "image": "nginx:1"}), vec!["nginx:1"; 3]),
        (2, json!({"replicas": 5, "image": "nginx:1"}), vec!["nginx:1"; 5]),
        (3, json!({"replicas": 5, "image": "nginx:2"}), vec!["nginx:2"; 5]),
        (4, json!({"replicas": 0, "image": "nginx:2"}), vec![]),
        (5, json!({"image": "nginx:2"}), vec!["nginx:2"]),
    ] {
        cluster.apply_spec::<MyApp>("sample", spec).await;
        cluster.quiet().await;
        assert_eq!(images(&cluster).await, expected);
        let status = cluster.status::<MyApp>("sample").await;
        assert_eq!(status.ready_replicas, i32::try_from(expected.len()).unwrap());
        assert_eq!(status.observed_generation, Some(generation));
        assert!(status.conditions.iter().all(|one| one.observed_generation == Some(generation)));
    }
}

#[tokio::test]
async fn pods_are_added_while_those_that_are_there_stay() {
    let cluster = TestCluster::start().await;
    cluster.script("slow", Script::default().ready_after(Duration::from_secs(60)));
    let _operator = cluster.run(operator()).await;
    cluster.apply_spec::<MyApp>("sample", json!({"replicas": 3, "image": "slow"})).await;
    cluster.advance(Duration::from_secs(90)).await;
    cluster.apply_spec::<MyApp>("sample", json!({"replicas": 5, "image": "slow"})).await;
    cluster.quiet().await;
    assert_eq!(cluster.status::<MyApp>("sample").await.ready_replicas, 3);
    assert_eq!(
        cluster.conditions::<MyApp>("sample").await,
        "Available=False PodsUnavailable: 3 of 5 pods are available\n\
         Progressing=True RollingOut: 5 of 5 pods are up to date\n\
         Degraded=False AsExpected: nothing is in the way"
    );
    cluster.advance(Duration::from_secs(60)).await;
    assert_eq!(
        cluster.conditions::<MyApp>("sample").await,
        "Available=True PodsAvailable: 5 of 5 pods are available\n\
         Progressing=False Complete: 5 of 5 pods are up to date\n\
         Degraded=False AsExpected: nothing is in the way"
    );
}

#[tokio::test]
async fn a_rollout_that_does_not_come_to_its_end_is_told_and_leaves_the_old_pods() {
    if TestCluster::is_left_out("twenty minutes pass") {
        return;
    }
    let cluster = TestCluster::start().await;
    cluster.script("missing", Script::default().cannot_be_pulled("no such image"));
    let _operator = cluster.run(operator()).await;
    cluster.apply(SAMPLE).await;
    cluster.quiet().await;
    cluster.apply_spec::<MyApp>("sample", json!({"replicas": 3, "image": "missing"})).await;
    cluster.advance(Duration::from_secs(20 * 60)).await;
    let conditions = cluster.conditions::<MyApp>("sample").await;
    assert!(conditions.contains("Available=True PodsAvailable: 3 of 3 pods are available"), "{conditions}");
    assert!(conditions.contains("Progressing=False ProgressDeadlineExceeded: 1 of 3 pods"), "{conditions}");
    assert!(conditions.contains("Degraded=True ImagePullBackOff: pod sample-"), "{conditions}");
    assert!(conditions.contains("container app: "), "{conditions}");
    assert_eq!(cluster.status::<MyApp>("sample").await.ready_replicas, 3);
}

#[tokio::test]
async fn what_others_say_of_the_deployment_stays() {
    let cluster = TestCluster::start().await;
    let _operator = cluster.run(operator()).await;
    cluster.apply(SAMPLE).await;
    cluster.quiet().await;
    cluster.patch::<Deployment>("sample", json!({"spec": {"minReadySeconds": 7}})).await;
    cluster.apply_spec::<MyApp>("sample", json!({"replicas": 4, "image": "nginx:1.29"})).await;
    cluster.quiet().await;
    let spec = cluster.get::<Deployment>("sample").await.spec.unwrap();
    assert_eq!((spec.replicas, spec.min_ready_seconds), (Some(4), Some(7)));
}

#[tokio::test]
async fn what_can_not_be_is_refused_by_name() {
    let cluster = TestCluster::start().await;
    let _operator = cluster.run(operator()).await;
    for (spec, expected) in [
        (
            json!({"replicas": -1, "image": "nginx"}),
            "spec.replicas in body should be greater than or equal to 0",
        ),
        (
            json!({"replicas": "3", "image": "nginx"}),
            "spec.replicas: expected numeric (int or float), got string",
        ),
        (json!({"image": ""}), "spec.image in body should be at least 1 chars long"),
        (json!({}), "spec.image: Required value"),
    ] {
        let refusal = cluster.refusal::<MyApp>("sample", spec).await;
        assert!(refusal.contains(expected), "{refusal}");
    }
}
