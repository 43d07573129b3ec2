//! The program itself, run on this machine against a cluster that is there.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::Api;
use kubewright::{clock::Clock, install_crds};
use kubewright_cluster::TestCluster;
use memcached_operator::{Memcached, operator, v1alpha1};
use serde_json::json;

/// Starts it, and waits until it works.
fn start(kubeconfig: &Path, url: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memcached-operator"));
    command.args(["run", "--webhook-url", url, "--kubeconfig"]).arg(kubeconfig);
    command.args(["--metrics-bind-address", "0", "--health-probe-bind-address", "0"]);
    let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
    let read: Vec<String> =
        lines.by_ref().map(Result::unwrap).take_while(|line| !line.contains(" working")).collect();
    // What else it says must find a reader.
    std::thread::spawn(move || lines.for_each(drop));
    assert!(child.try_wait().expect("it is a child").is_none(), "it has ended: {read:#?}");
    child
}

#[tokio::test(flavor = "multi_thread")]
async fn a_local_cluster_is_led_to_it_until_it_is_interrupted() {
    if TestCluster::is_left_out("it is found as only a cluster of kubewright is") {
        return;
    }
    let cluster = TestCluster::with(|builder| builder.starting_at(Clock::system().now())).await;
    install_crds(&cluster.client(), &operator()).await.unwrap();
    let listening = cluster.server().listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let place = tempfile::tempdir().unwrap();
    let kubeconfig = place.path().join("kubeconfig");
    fs::write(&kubeconfig, listening.kubeconfig()).unwrap();
    let mut child = tokio::task::spawn_blocking(move || start(&kubeconfig, "auto")).await.unwrap();
    cluster.apply_spec::<v1alpha1::Memcached>("sample", json!({"size": 5})).await;
    assert_eq!(cluster.get::<Memcached>("sample").await.spec.memory_megabytes, Some(64));
    let refusal = cluster.refusal::<Memcached>("sample", json!({"replicas": 2})).await;
    assert!(refusal.contains("only one pod may go at a time"), "{refusal}");

    let told = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(told.success());
    let status = tokio::task::spawn_blocking(move || child.wait().unwrap()).await.unwrap();
    assert!(status.success(), "{status}");
    let left: Api<ValidatingWebhookConfiguration> = Api::all(cluster.client());
    assert!(left.get_opt("memcached-operator").await.unwrap().is_none());
    cluster.apply_spec::<Memcached>("another", json!({"replicas": 2})).await;
    assert_eq!(
        cluster.get::<Memcached>("another").await.spec.memory_megabytes,
        None,
        "nobody is asked any more"
    );
}
