//! What a cluster asks of its API server: what it must, and nothing twice.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request};
use k8s_openapi::api::core::v1::Pod;
use kubewright_apiserver::{Answer, BoxFuture, Cut, Hook, Next};
use kubewright_cluster::{Cluster, StartError, TestCluster};
use parking_lot::Mutex;

use crate::server;

/// All requests, as their method, path and query.
#[derive(Clone, Default)]
struct Requests(Arc<Mutex<Vec<(Method, String, String)>>>);

impl Requests {
    /// The queries of the requests to a path.
    fn to(&self, method: &Method, path: &str) -> Vec<String> {
        let all = self.0.lock();
        let same = all.iter().filter(|(its_method, its_path, _)| its_method == method && its_path == path);
        same.map(|(_, _, query)| query.clone()).collect()
    }
}

impl Hook for Requests {
    fn call<'a>(&'a self, request: Request<Bytes>, next: Next<'a>) -> BoxFuture<'a, Result<Answer, Cut>> {
        let (uri, method) = (request.uri(), request.method().clone());
        self.0.lock().push((method, uri.path().to_owned(), uri.query().unwrap_or_default().to_owned()));
        Box::pin(next.run(request))
    }
}

/// Lets nothing be said of the status of nodes.
struct SilentNodes;

impl Hook for SilentNodes {
    fn call<'a>(&'a self, request: Request<Bytes>, next: Next<'a>) -> BoxFuture<'a, Result<Answer, Cut>> {
        let is_said =
            request.uri().path().starts_with("/api/v1/nodes/") && request.uri().path().ends_with("/status");
        Box::pin(async move { if is_said { Err(Cut) } else { next.run(request).await } })
    }
}

#[tokio::test]
async fn a_kubelet_says_nothing_twice() {
    if server::is_left_out("the requests of another cluster can't be seen") {
        return;
    }
    let requests = Requests::default();
    let hook = requests.clone();
    let cluster = TestCluster::with(|builder| builder.hook(hook)).await;
    cluster
        .apply(
            "
            apiVersion: v1
            kind: Pod
            metadata: {name: web}
            spec: {containers: [{name: main, image: nginx}]}
            ",
        )
        .await;
    cluster.quiet().await;
    assert_eq!(cluster.get::<Pod>("web").await.status.unwrap().phase.as_deref(), Some("Running"));
    let said = requests.to(&Method::PUT, "/api/v1/namespaces/default/pods/web/status");
    assert_eq!(said.len(), 2, "that it is being created, and that it runs");
}

#[tokio::test]
async fn what_controllers_watch_is_not_watched_again_to_collect_garbage() {
    if server::is_left_out("the requests of another cluster can't be seen") {
        return;
    }
    let requests = Requests::default();
    let hook = requests.clone();
    let cluster = TestCluster::with(|builder| builder.hook(hook)).await;
    cluster.quiet().await;
    for path in [
        "/api/v1/pods",
        "/api/v1/services",
        "/apis/apps/v1/deployments",
        "/apis/batch/v1/jobs",
        "/apis/storage.k8s.io/v1/storageclasses",
        "/api/v1/secrets",
    ] {
        let watches = requests.to(&Method::GET, path);
        assert_eq!(watches.len(), 1, "{path}: {watches:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_whose_nodes_do_not_become_ready_says_which() {
    if server::is_left_out("it has no nodes of its own") {
        return;
    }
    let outcome = Cluster::builder().nodes(2).hook(SilentNodes).start().await;
    let why = outcome.err().expect("its nodes can't say that they are ready");
    assert!(matches!(why, StartError::NotReady(_)), "{why}");
    assert_eq!(why.to_string(), "not ready in time: node-1, node-2");
}
