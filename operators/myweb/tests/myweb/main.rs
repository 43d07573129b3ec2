//! What those see who apply a `MyWeb`.

mod promises;

use std::{
    sync::atomic::{AtomicI32, Ordering},
    time::Duration,
};

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Pod, Service},
};
use kube::ResourceExt as _;
use kubewright_cluster::{TestCluster, nodes::Script};
use myweb_operator::{MyWeb, SAMPLE, operator};
use serde_json::{Value, json};

/// A port that no other test has: on a cluster that they share, there is but one of each.
fn port() -> i32 {
    static NEXT: AtomicI32 = AtomicI32::new(30100);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The sample with another port.
fn sample(port: i32) -> String {
    SAMPLE.replace("30100", &port.to_string())
}

fn spec(image: &str, port: i32, page: &str) -> Value {
    json!({"image": image, "nodePortNumber": port, "pageContentHtml": page})
}

/// A cluster in which the image `slow` is ready after a minute.
async fn start() -> TestCluster {
    let cluster = TestCluster::start().await;
    cluster.script("slow", Script::default().ready_after(Duration::from_secs(60)));
    cluster
}

async fn is_completed(cluster: &TestCluster) -> bool {
    cluster.status::<MyWeb>("sample").await.completed
}

#[tokio::test]
async fn the_page_is_mounted_as_the_root_of_the_server_and_the_port_is_open() {
    let (cluster, port) = (start().await, port());
    let _operator = cluster.run(operator()).await;
    cluster.apply(&sample(port)).await;
    cluster.quiet().await;
    let page = cluster.get::<ConfigMap>("sample-page").await;
    assert_eq!(page.data.unwrap()["index.html"], "<h1>Hello!</h1>\n");
    let pod = cluster.list::<Pod>().await.remove(0).spec.unwrap();
    assert_eq!(pod.containers[0].image.as_deref(), Some("nginx:1.29"));
    let (mount, volume) = (&pod.containers[0].volume_mounts.as_ref().unwrap()[0], &pod.volumes.unwrap()[0]);
    assert_eq!((mount.mount_path.as_str(), &mount.name), ("/usr/share/nginx/html", &volume.name));
    assert_eq!(volume.config_map.as_ref().unwrap().name, "sample-page");
    let service = cluster.get::<Service>("sample").await.spec.unwrap();
    assert_eq!(service.type_.as_deref(), Some("NodePort"));
    assert_eq!(service.ports.unwrap()[0].node_port, Some(port));
    let labels = cluster.list::<Pod>().await.remove(0).metadata.labels.unwrap();
    assert!(service.selector.unwrap().iter().all(|(name, value)| labels.get(name) == Some(value)));
    let table = cluster.table::<MyWeb>().await;
    let expected = format!("NAME     PORT    COMPLETED   AGE\nsample   {port}   true        ");
    assert!(table.starts_with(&expected), "{table}");
}

#[tokio::test]
async fn it_is_completed_when_the_page_is_served_and_not_before() {
    let (cluster, port) = (start().await, port());
    let _operator = cluster.run(operator()).await;
    cluster.apply_spec::<MyWeb>("sample", spec("slow", port, "one")).await;
    cluster.quiet().await;
    assert!(!is_completed(&cluster).await, "the pod is not ready");
    cluster.advance(Duration::from_secs(60)).await;
    assert!(is_completed(&cluster).await);
    cluster.apply_spec::<MyWeb>("sample", spec("slow", port, "two")).await;
    cluster.quiet().await;
    assert!(!is_completed(&cluster).await, "it is the old page that is served");
    cluster.advance(Duration::from_secs(60)).await;
    assert!(is_completed(&cluster).await);
}

#[tokio::test]
async fn a_changed_page_rolls_the_pods_and_another_port_does_not() {
    let (cluster, port, other) = (start().await, port(), port());
    let _operator = cluster.run(operator()).await;
    let pods = async || cluster.list::<Pod>().await.iter().map(|pod| pod.name_any()).collect::<Vec<_>>();
    cluster.apply_spec::<MyWeb>("sample", spec("nginx", port, "one")).await;
    cluster.quiet().await;
    let first = pods().await;
    cluster.apply_spec::<MyWeb>("sample", spec("nginx", other, "one")).await;
    cluster.quiet().await;
    assert_eq!(cluster.get::<Service>("sample").await.spec.unwrap().ports.unwrap()[0].node_port, Some(other));
    assert_eq!(pods().await, first);
    cluster.apply_spec::<MyWeb>("sample", spec("nginx", other, "two")).await;
    cluster.quiet().await;
    assert_eq!(cluster.get::<ConfigMap>("sample-page").await.data.unwrap()["index.html"], "two");
    assert_ne!(pods().await, first);
    let status = cluster.status::<MyWeb>("sample").await;
    assert_eq!((status.completed, status.observed_generation), (true, Some(3)));
}

#[tokio::test]
async fn a_port_that_is_taken_is_told_until_it_is_free() {
    let (cluster, port, taken) = (start().await, port(), port());
    let _operator = cluster.run(operator()).await;
    cluster.apply_spec::<MyWeb>("sample", spec("nginx", port, "one")).await;
    cluster.quiet().await;
    cluster
        .apply_spec::<Service>(
            "other",
            json!({"type": "NodePort", "selector": {"app": "other"}, "ports": [{"port": 80, "nodePort": taken}]}),
        )
        .await;
    cluster.apply_spec::<MyWeb>("sample", spec("nginx", taken, "one")).await;
    cluster.advance(Duration::from_secs(10)).await;
    let conditions = cluster.conditions::<MyWeb>("sample").await;
    let told = format!(
        "Stalled=True RetriedError: Service \"sample\" is invalid: spec.ports[0].nodePort: Invalid value: {taken}: \
         provided port is already allocated"
    );
    assert!(conditions.contains(&told), "{conditions}");
    assert!(!is_completed(&cluster).await, "it is not served under this port");
    cluster.delete::<Service>("other").await;
    cluster.eventually("it is served", async |cluster| is_completed(cluster).await).await;
    assert!(!cluster.conditions::<MyWeb>("sample").await.contains("Stalled"));
}

#[tokio::test]
async fn what_can_not_be_is_refused_by_name() {
    let cluster = start().await;
    let _operator = cluster.run(operator()).await;
    for (spec, expected) in [
        (spec("nginx", 80, ""), "spec.nodePortNumber in body should be greater than or equal to 30000"),
        (spec("nginx", 40000, ""), "spec.nodePortNumber in body should be less than or equal to 32767"),
        (spec("", 30100, ""), "spec.image in body should be at least 1 chars long"),
        (
            json!({"image": "nginx", "nodePortNumber": "30100", "pageContentHtml": ""}),
            "spec.nodePortNumber: expected numeric",
        ),
        (json!({"image": "nginx", "nodePortNumber": 30100}), "spec.pageContentHtml: Required value"),
    ] {
        let refusal = cluster.refusal::<MyWeb>("sample", spec).await;
        assert!(refusal.contains(expected), "{refusal}");
    }
    assert!(cluster.list::<Deployment>().await.is_empty());
}
