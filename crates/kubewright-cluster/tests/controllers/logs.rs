//! What containers have written, as `kubectl logs` asks for it.

use std::{panic::AssertUnwindSafe, time::Duration};

use futures_util::{AsyncReadExt as _, FutureExt as _};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{Api, ResourceExt as _, api::LogParams};
use kubewright_cluster::{TestCluster, nodes::Script};
use serde_json::{Value, json};

use crate::server;

async fn pod(cluster: &TestCluster, containers: Value) {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": containers},
    });
    cluster.apply(&pod.to_string()).await;
    cluster.advance(Duration::from_secs(5)).await;
}

fn api(cluster: &TestCluster) -> Api<Pod> {
    Api::namespaced(cluster.client(), "default")
}

async fn logs(cluster: &TestCluster, parameters: LogParams) -> String {
    api(cluster).logs("web", &parameters).await.unwrap()
}

async fn refusal(cluster: &TestCluster, parameters: LogParams) -> String {
    let refused = api(cluster).logs("web", &parameters).await.unwrap_err();
    let kube::Error::Api(status) = refused else { panic!("{refused}") };
    assert_eq!((status.code, status.reason.as_str()), (400, "BadRequest"));
    status.message
}

#[tokio::test]
async fn logs_are_read_as_far_as_they_are_wanted() {
    let cluster = server::start_embedded().await;
    cluster.script("talks", Script::default().logs("one\ntwo\nthree\n"));
    pod(&cluster, json!([{"name": "main", "image": "talks"}])).await;
    assert_eq!(logs(&cluster, LogParams::default()).await, "one\ntwo\nthree\n");
    assert_eq!(
        logs(&cluster, LogParams { tail_lines: Some(2), ..LogParams::default() }).await,
        "two\nthree\n"
    );
    assert_eq!(logs(&cluster, LogParams { limit_bytes: Some(5), ..LogParams::default() }).await, "one\nt");
    let stamped = LogParams { timestamps: true, tail_lines: Some(1), ..LogParams::default() };
    let stamped = logs(&cluster, stamped).await;
    assert!(stamped.starts_with("2026-01-01T00:00:0") && stamped.ends_with("00Z three\n"), "{stamped}");
    cluster.advance(Duration::from_secs(60)).await;
    assert_eq!(logs(&cluster, LogParams { since_seconds: Some(30), ..LogParams::default() }).await, "");
    assert_eq!(logs(&cluster, LogParams { since_seconds: Some(90), ..LogParams::default() }).await.len(), 14);
}

#[tokio::test]
async fn a_log_is_followed_until_its_container_ends() {
    let cluster = server::start_embedded().await;
    cluster.script("talks", Script::default().logs("one\n").exits_after(Duration::from_secs(60), 0));
    pod(&cluster, json!([{"name": "main", "image": "talks"}])).await;
    let parameters = LogParams { follow: true, ..LogParams::default() };
    let mut followed = Box::pin(api(&cluster).log_stream("web", &parameters).await.unwrap());
    let (before, mut text) = (cluster.clock().now(), String::new());
    followed.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "one\n");
    let took = cluster.clock().now().duration_since(before).as_secs();
    assert!((50..60).contains(&took), "{took}");
}

#[tokio::test]
async fn what_has_no_log_says_why() {
    let cluster = server::start_embedded().await;
    cluster.script("talks", Script::default().logs("one\n").exits_after(Duration::from_secs(100), 1));
    cluster.script("slow", Script::default().starts_after(Duration::from_secs(600)));
    cluster.script("gone", Script::default().cannot_be_pulled("not found"));
    let containers = ["talks", "slow", "gone"].map(|image| json!({"name": image, "image": image}));
    pod(&cluster, json!(containers)).await;
    let of = |container: &str| LogParams { container: Some(container.to_owned()), ..LogParams::default() };
    let previous = LogParams { previous: true, ..of("talks") };
    assert_eq!(
        refusal(&cluster, LogParams::default()).await,
        "a container name must be specified for pod web, choose one of: [talks slow gone]"
    );
    assert_eq!(refusal(&cluster, of("other")).await, "container other is not valid for pod web");
    assert_eq!(
        refusal(&cluster, of("slow")).await,
        "container \"slow\" in pod \"web\" is waiting to start: ContainerCreating"
    );
    assert_eq!(
        refusal(&cluster, of("gone")).await,
        "container \"gone\" in pod \"web\" is waiting to start: trying and failing to pull image"
    );
    assert_eq!(
        refusal(&cluster, previous.clone()).await,
        "previous terminated container \"talks\" in pod \"web\" not found"
    );
    cluster.advance(Duration::from_secs(120)).await;
    assert_eq!(logs(&cluster, previous).await, "one\n");
}

#[tokio::test]
async fn a_wait_in_vain_tells_what_the_cluster_looks_like() {
    let cluster = server::start_embedded().await;
    cluster.script("talks", Script::default().logs("one\ntwo\n").exits_after(Duration::from_secs(1), 3));
    let labels = json!({"app": "web"});
    let template =
        json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "talks"}]}});
    let spec = json!({"selector": {"matchLabels": labels}, "template": template});
    cluster.apply_spec::<Deployment>("web", spec).await;
    let waiting = cluster.eventually("it is available", async |_| false);
    let panicked = AssertUnwindSafe(waiting).catch_unwind().await.unwrap_err();
    let told = panicked.downcast_ref::<String>().unwrap();
    let pod = cluster.list::<Pod>().await[0].name_any();
    for expected in [
        "not within 1800s: it is available\n\nobjects:\n",
        "\n  Deployment web generation=1 {\"conditions\":[",
        &format!("\npods:\n  default/{pod} Running main restarts="),
        &format!("\nlogs:\n  {pod} main: one\n  {pod} main: two\n"),
        &format!("\n  Warning Pod {pod} BackOff: "),
    ] {
        assert!(told.contains(expected), "{expected:?} is not in\n{told}");
    }
}
