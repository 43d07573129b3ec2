//! Certificates: made, renewed and made known, and what happens with those that are not as they should be.

use std::time::Duration;

use k8s_openapi::api::{
    admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
    core::v1::Secret,
};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use kubewright::{Certificate, Options};
use kubewright_cluster::TestCluster;
use serde_json::json;

use crate::casks::{Cask, cask, casks, operator, refusal};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn secrets(cluster: &TestCluster) -> Api<Secret> {
    Api::namespaced(cluster.client(), "cask-operator-system")
}

async fn certificate(cluster: &TestCluster) -> Vec<u8> {
    let secret = secrets(cluster).get("cask-operator-webhook-certificates").await.unwrap();
    secret.data.unwrap()["tls.crt"].0.clone()
}

#[tokio::test]
async fn no_request_is_refused_while_certificates_are_renewed() {
    if TestCluster::is_left_out("months pass") {
        return;
    }
    let cluster = TestCluster::start().await;
    let operator = cluster.run(operator()).await;
    let (mut shown, mut renewals, mut authorities) = (certificate(&cluster).await, 0, 0);
    let mut trusted = trusted(&cluster).await;
    for day in 0..300 {
        for at in 0..4 {
            cluster.advance(DAY / 4).await;
            let name = format!("c-{day}-{at}");
            let created =
                casks(&cluster).create(&PostParams::default(), &cask(&name, json!({"wine": "red"}))).await;
            created.unwrap_or_else(|why| panic!("on day {day}: {why}"));
            casks(&cluster).delete(&name, &DeleteParams::default()).await.unwrap();
        }
        let now = certificate(&cluster).await;
        renewals += usize::from(now != shown);
        shown = now;
        let now = self::trusted(&cluster).await;
        authorities += usize::from(now != trusted);
        trusted = now;
    }
    assert!(renewals >= 4, "{renewals}");
    assert_eq!(authorities, 1, "after 243 days there is a new authority, besides the old one");
    assert_eq!(operator.forbidden(), Vec::<String>::new());
}

async fn trusted(cluster: &TestCluster) -> Vec<u8> {
    let configuration = cluster.get::<ValidatingWebhookConfiguration>("cask-operator").await;
    configuration.webhooks.unwrap().remove(0).client_config.ca_bundle.unwrap().0
}

#[tokio::test]
async fn who_is_trusted_is_put_right() {
    if TestCluster::is_left_out("configurations are named after the namespace of the test") {
        return;
    }
    let cluster = TestCluster::start().await;
    let _operator = cluster.run(operator()).await;
    let right = trusted(&cluster).await;
    let wrong = json!([{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]);
    let wrong: Patch<()> = Patch::Json(serde_json::from_value(wrong).unwrap());
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(cluster.client());
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(cluster.client());
    mutating.patch("cask-operator", &PatchParams::default(), &wrong).await.unwrap();
    validating.patch("cask-operator", &PatchParams::default(), &wrong).await.unwrap();
    cluster
        .eventually("it is put right", async |cluster| {
            casks(cluster).create(&PostParams::default(), &cask("a", json!({"wine": "red"}))).await.is_ok()
        })
        .await;
    assert_eq!(trusted(&cluster).await, right);
}

#[tokio::test]
async fn certificates_that_are_lost_are_made_anew() {
    let cluster = TestCluster::start().await;
    let _operator = cluster.run(operator()).await;
    let before = certificate(&cluster).await;
    secrets(&cluster).delete("cask-operator-webhook-certificates", &DeleteParams::default()).await.unwrap();
    cluster
        .eventually("there is a new one that is trusted", async |cluster| {
            let found = secrets(cluster).get_opt("cask-operator-webhook-certificates").await.unwrap();
            found.is_some_and(|found| found.data.unwrap()["tls.crt"].0 != before)
                && casks(cluster)
                    .create(&PostParams::default(), &cask("a", json!({"wine": "red"})))
                    .await
                    .is_ok()
        })
        .await;
}

#[tokio::test]
async fn a_second_replica_shows_the_same_certificate() {
    let cluster = TestCluster::start().await;
    let _first = cluster.run(operator()).await;
    let before = certificate(&cluster).await;
    let second = cluster.run(operator()).await;
    assert_eq!(certificate(&cluster).await, before);
    // Calls go to the second one now.
    casks(&cluster).create(&PostParams::default(), &cask("a", json!({"wine": "red"}))).await.unwrap();
    assert!(second.metrics().contains("webhook=\"/validate-test-kubewright-dev-v1-cask\",code=\"200\"} 1"));
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_is_not_trusted() {
    if TestCluster::is_left_out("the operator is reached within the process") {
        return;
    }
    let cluster = TestCluster::start().await;
    drop(cluster.run(operator()).await);
    let made =
        rcgen::generate_simple_self_signed(["cask-operator-webhook.cask-operator-system.svc".to_owned()])
            .unwrap();
    let given = Certificate::Given { certificate: made.cert.pem(), key: made.signing_key.serialize_pem() };
    let options = Options { webhook_certificate: Some(given), ..Options::default() };
    let mut running = operator().start(cluster.client(), options);
    running.working().await.unwrap();
    cluster.lead_service("cask-operator-system", "cask-operator-webhook", running.webhooks());
    let refused = refusal(&casks(&cluster), &cask("a", json!({"wine": "red"}))).await;
    assert!(
        refused
            .message
            .ends_with("tls: failed to verify certificate: x509: certificate signed by unknown authority"),
        "{}",
        refused.message
    );
}

#[tokio::test]
async fn a_certificate_whose_time_is_over_is_not_trusted() {
    if TestCluster::is_left_out("months pass") {
        return;
    }
    let cluster = TestCluster::start().await;
    let first = cluster.run(operator()).await;
    drop(first);
    let secret = secrets(&cluster).get("cask-operator-webhook-certificates").await.unwrap().data.unwrap();
    let text = |name: &str| String::from_utf8(secret[name].0.clone()).unwrap();
    let given = Certificate::Given { certificate: text("tls.crt"), key: text("tls.key") };
    let options = Options { webhook_certificate: Some(given), ..Options::default() };
    let mut running = operator().start(cluster.client(), options);
    running.working().await.unwrap();
    cluster.lead_service("cask-operator-system", "cask-operator-webhook", running.webhooks());
    casks(&cluster).create(&PostParams::default(), &cask("a", json!({"wine": "red"}))).await.unwrap();
    cluster.advance(DAY * 91).await;
    let refused = refusal(&casks(&cluster), &cask("b", json!({"wine": "red"}))).await;
    assert!(
        refused
            .message
            .contains("tls: failed to verify certificate: x509: certificate has expired or is not yet valid"),
        "{}",
        refused.message
    );
    assert!(cluster.find::<Cask>("b").await.is_none());
}
