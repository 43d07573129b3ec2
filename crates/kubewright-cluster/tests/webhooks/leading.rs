//! Operators outside of the cluster, to which the API server is led while they run. Time is real here, as calls go over
//! sockets.

use std::{net::TcpListener, time::Duration};

use k8s_openapi::{
    api::admissionregistration::v1::{
        MutatingWebhookConfiguration, ValidatingWebhook, ValidatingWebhookConfiguration,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        CustomResourceConversion, CustomResourceDefinition,
    },
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, PostParams},
};
use kubewright::{Options, Running, clock::Clock, install_crds, prelude::*};
use kubewright_cluster::TestCluster;
use serde_json::json;

use crate::{
    casks::{cask, casks, operator},
    converting,
};

fn options(cluster: &TestCluster) -> Options {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    Options {
        clock: Clock::starting_at(cluster.clock().now()),
        namespaces: if TestCluster::is_embedded() { vec![] } else { vec![cluster.namespace().to_owned()] },
        webhook_address: Some(free),
        webhook_url: Some(format!("https://{free}")),
        sync_timeout: Duration::from_secs(30),
        ..Options::default()
    }
}

/// Runs an operator whose definitions are there, and which nobody has deployed.
async fn outside(cluster: &TestCluster, operator: Operator) -> Running {
    let mut running = operator.start(cluster.client(), options(cluster));
    running.working().await.unwrap();
    running
}

/// What the operator's configuration is called.
fn name(cluster: &TestCluster) -> String {
    let namespace = cluster.namespace();
    if TestCluster::is_embedded() { "cask-operator".to_owned() } else { format!("cask-operator-{namespace}") }
}

fn configurations(cluster: &TestCluster) -> Api<ValidatingWebhookConfiguration> {
    Api::all(cluster.client())
}

async fn webhooks(cluster: &TestCluster) -> Vec<ValidatingWebhook> {
    let configuration = configurations(cluster).get(&name(cluster)).await.unwrap();
    assert!(!configuration.annotations().contains_key("kubewright.dev/found"));
    configuration.webhooks.unwrap()
}

/// Waits until casks without wine are refused, or taken.
async fn until_refused(cluster: &TestCluster, is_refused: bool) {
    let what = if is_refused { "an empty cask is refused" } else { "an empty cask is taken" };
    cluster
        .eventually(what, async |cluster| {
            let created = casks(cluster).create(&PostParams::default(), &cask("empty", json!({}))).await;
            if created.is_ok() {
                casks(cluster).delete("empty", &DeleteParams::default()).await.unwrap();
            }
            let why = created.err().map(|why| why.to_string()).unwrap_or_default();
            why.contains("an empty cask goes bad") == is_refused && why.is_empty() != is_refused
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_outside_is_asked_while_it_runs() {
    let cluster = TestCluster::start().await;
    install_crds(&cluster.client(), &operator()).await.unwrap();
    let running = outside(&cluster, operator()).await;
    until_refused(&cluster, true).await;
    let red = cask("red", json!({"wine": "red"}));
    assert_eq!(casks(&cluster).create(&PostParams::default(), &red).await.unwrap().spec.litres, Some(225));
    running.stop().await.unwrap();
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(cluster.client());
    assert!(mutating.get_opt(&name(&cluster)).await.unwrap().is_none());
    assert!(configurations(&cluster).get_opt(&name(&cluster)).await.unwrap().is_none());
    until_refused(&cluster, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_leads_to_one_inside_is_put_back() {
    let cluster = TestCluster::start().await;
    let inside = cluster.run(operator()).await;
    let before = webhooks(&cluster).await;
    let _ = inside.writes();
    let running = outside(&cluster, operator()).await;
    cluster
        .eventually("the one outside is asked", async |cluster| {
            let red = cask("red", json!({"wine": "red"}));
            let created = casks(cluster).create(&PostParams::default(), &red).await;
            if created.is_ok() {
                casks(cluster).delete("red", &DeleteParams::default()).await.unwrap();
            }
            running.metrics().contains("webhook=\"/validate-test-kubewright-dev-v1-cask\",code=\"200\"}")
        })
        .await;
    assert_eq!(inside.writes(), [""; 0], "the one inside leaves it to the other one");
    running.stop().await.unwrap();
    assert_eq!(webhooks(&cluster).await, before);
    until_refused(&cluster, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_crash_the_next_one_puts_back_what_the_first_has_found() {
    let cluster = TestCluster::start().await;
    install_crds(&cluster.client(), &operator()).await.unwrap();
    drop(outside(&cluster, operator()).await);
    assert!(configurations(&cluster).get_opt(&name(&cluster)).await.unwrap().is_some());
    let running = outside(&cluster, operator()).await;
    until_refused(&cluster, true).await;
    running.stop().await.unwrap();
    assert!(configurations(&cluster).get_opt(&name(&cluster)).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_led_elsewhere_meanwhile_stays_so() {
    let cluster = TestCluster::start().await;
    install_crds(&cluster.client(), &operator()).await.unwrap();
    let running = outside(&cluster, operator()).await;
    let mut configuration = configurations(&cluster).get(&name(&cluster)).await.unwrap();
    for webhook in configuration.webhooks.iter_mut().flatten() {
        webhook.client_config.url = Some("https://192.0.2.1:9443/elsewhere".to_owned());
    }
    let elsewhere = configurations(&cluster)
        .replace(&name(&cluster), &PostParams::default(), &configuration)
        .await
        .unwrap();
    running.stop().await.unwrap();
    assert_eq!(Some(webhooks(&cluster).await), elsewhere.webhooks);
    configurations(&cluster).delete(&name(&cluster), &DeleteParams::default()).await.unwrap();
}

async fn conversion(cluster: &TestCluster) -> Option<CustomResourceConversion> {
    let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client());
    let definition = definitions.get("jars.test.kubewright.dev").await.unwrap();
    definition.spec.conversion
}

#[tokio::test(flavor = "multi_thread")]
async fn one_outside_converts_while_it_runs() {
    let cluster = TestCluster::start().await;
    install_crds(&cluster.client(), &converting::operator()).await.unwrap();
    let before = conversion(&cluster).await;
    for is_crash in [true, false] {
        let running = outside(&cluster, converting::operator()).await;
        cluster
            .eventually("a jar can be had in both versions", async |cluster| {
                converting::is_converted(cluster).await
            })
            .await;
        if !is_crash {
            running.stop().await.unwrap();
        }
    }
    assert_eq!(conversion(&cluster).await, before);
}

/// A client that may change definitions, and nothing else.
async fn limited(cluster: &TestCluster) -> Client {
    for document in [
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "limited"}}),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "limited"},
            "rules": [{
                "apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"],
                "verbs": ["get", "update"],
            }],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": "limited"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "limited"},
            "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": "limited"}],
        }),
    ] {
        cluster.apply(&document.to_string()).await;
    }
    cluster.server().client_of_service_account("default", "limited")
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_may_not_lead_it_leaves_everything_as_it_was() {
    if TestCluster::is_left_out("rights are given to an account of its own") {
        return;
    }
    let cluster = TestCluster::start().await;
    let both = || converting::operator().validates::<crate::casks::Cask>(crate::casks::check);
    install_crds(&cluster.client(), &both()).await.unwrap();
    let before = conversion(&cluster).await;
    let mut running = both().start(limited(&cluster).await, options(&cluster));
    let why = running.ended().await.unwrap_err().to_string();
    assert!(
        why.starts_with("ValidatingWebhookConfiguration jar-operator can't be led to https://127.0.0.1:"),
        "{why}"
    );
    assert!(why.contains("is forbidden"), "{why}");
    assert_eq!(conversion(&cluster).await, before);
}
