//! Certificates: made, renewed and made known, and what happens with those that are not as they should be.

use std::time::Duration;

use k8s_openapi::{
    ByteString,
    api::{
        admissionregistration::v1::{
            MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
        },
        core::v1::Secret,
    },
};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use kubewright::{Certificate, Options};
use kubewright_cluster::{TestCluster, TestOperator};
use serde_json::json;

use crate::casks::{Cask, cask, casks, operator, refusal};

/// Certificates for three hours, and authorities for twelve.
fn short_lived(options: Options) -> Options {
    Options { webhook_certificate_life: Duration::from_secs(3 * 60 * 60), ..options }
}

fn secrets(cluster: &TestCluster) -> Api<Secret> {
    Api::namespaced(cluster.client(), "cask-operator-system")
}

/// A cluster without nodes, which tell every ten seconds that they are there.
async fn for_days() -> TestCluster {
    TestCluster::with(|cluster| cluster.nodes(0)).await
}

async fn certificate(cluster: &TestCluster) -> Vec<u8> {
    let secret = secrets(cluster).get("cask-operator-webhook-certificates").await.unwrap();
    secret.data.unwrap()["tls.crt"].0.clone()
}

#[tokio::test]
async fn no_request_is_refused_while_certificates_are_renewed() {
    if TestCluster::is_left_out("hours pass") {
        return;
    }
    let cluster = for_days().await;
    let operator = cluster.run_with(operator(), short_lived).await;
    let (mut shown, mut trusted) = (certificate(&cluster).await, trusted(&cluster).await);
    let (mut certificates, mut authorities) = (0, 0);
    // Every five minutes for ten hours.
    for at in 0..10 * 12 {
        cluster.advance(Duration::from_secs(5 * 60)).await;
        let name = format!("cask-{at}");
        let created =
            casks(&cluster).create(&PostParams::default(), &cask(&name, json!({"wine": "red"}))).await;
        created.unwrap_or_else(|why| panic!("after {certificates} renewals: {why}"));
        let now = certificate(&cluster).await;
        certificates += usize::from(now != shown);
        shown = now;
        let now = self::trusted(&cluster).await;
        authorities += usize::from(now != trusted);
        trusted = now;
    }
    assert!(certificates >= 3, "{certificates}");
    assert!(authorities >= 1, "{authorities}");
    assert_eq!(operator.forbidden(), Vec::<String>::new());
}

#[tokio::test]
async fn a_certificate_is_made_once_and_everybody_told_once() {
    if TestCluster::is_left_out("the certificate is there from another test") {
        return;
    }
    let cluster = TestCluster::start().await;
    let operator = cluster.run(operator()).await;
    cluster.quiet().await;
    let writes = operator.writes();
    let about = |part: &str| writes.iter().filter(|write| write.contains(part)).count();
    assert_eq!(
        (about("secrets/"), about("/mutatingwebhook"), about("/validatingwebhook")),
        (1, 1, 1),
        "{writes:#?}"
    );
}

#[tokio::test]
async fn a_configuration_that_leads_elsewhere_is_left_alone() {
    if TestCluster::is_left_out("configurations are named after the namespace of the test") {
        return;
    }
    let cluster = TestCluster::start().await;
    let _operator = cluster.run(operator()).await;
    let elsewhere = |config: &mut WebhookClientConfig| {
        config.ca_bundle = None;
        config.service.as_mut().unwrap().namespace = "elsewhere".to_owned();
    };
    let api: Api<ValidatingWebhookConfiguration> = Api::all(cluster.client());
    let mut configuration = api.get("cask-operator").await.unwrap();
    elsewhere(&mut configuration.webhooks.as_mut().unwrap()[0].client_config);
    let written = api.replace("cask-operator", &PostParams::default(), &configuration).await.unwrap();
    cluster.quiet().await;
    assert_eq!(api.get("cask-operator").await.unwrap(), written);
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
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(cluster.client());
    let mut wrong = validating.get("cask-operator").await.unwrap();
    wrong.webhooks.as_mut().unwrap()[0].client_config.ca_bundle = None;
    validating.replace("cask-operator", &PostParams::default(), &wrong).await.unwrap();
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(cluster.client());
    let mut wrong = mutating.get("cask-operator").await.unwrap();
    wrong.webhooks.as_mut().unwrap()[0].client_config.ca_bundle = None;
    mutating.replace("cask-operator", &PostParams::default(), &wrong).await.unwrap();
    cluster
        .eventually("it is put right", async |cluster| {
            casks(cluster).create(&PostParams::default(), &cask("a", json!({"wine": "red"}))).await.is_ok()
        })
        .await;
    assert_eq!(trusted(&cluster).await, right);
}

/// Waits until there is another certificate than before, and it is trusted.
async fn renewed(cluster: &TestCluster, before: &[u8]) {
    let is_renewed = async |cluster: &TestCluster| {
        let found = secrets(cluster).get_opt("cask-operator-webhook-certificates").await.unwrap();
        let red = cask("a", json!({"wine": "red"}));
        found.is_some_and(|found| found.data.unwrap()["tls.crt"].0 != before)
            && casks(cluster).create(&PostParams::default(), &red).await.is_ok()
    };
    cluster.eventually("there is a new one that is trusted", is_renewed).await;
}

#[tokio::test]
async fn certificates_that_are_lost_are_made_anew() {
    let cluster = TestCluster::start().await;
    let _operator = cluster.run(operator()).await;
    let before = certificate(&cluster).await;
    secrets(&cluster).delete("cask-operator-webhook-certificates", &DeleteParams::default()).await.unwrap();
    renewed(&cluster, &before).await;
}

#[tokio::test]
async fn certificates_that_can_not_be_used_are_made_anew() {
    if TestCluster::is_left_out("others use them") {
        return;
    }
    let cluster = TestCluster::start().await;
    let _operator = cluster.run(operator()).await;
    let api = secrets(&cluster);
    let mut broken = api.get("cask-operator-webhook-certificates").await.unwrap();
    let before = certificate(&cluster).await;
    broken.data.as_mut().unwrap().insert("tls.key".to_owned(), ByteString(b"no key".to_vec()));
    api.replace("cask-operator-webhook-certificates", &PostParams::default(), &broken).await.unwrap();
    renewed(&cluster, &before).await;
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

/// Runs the operator with a certificate that is given to it, after one that has made its own.
async fn given(cluster: &TestCluster, certificate: Certificate) -> TestOperator {
    let given = |options| Options { webhook_certificate: Some(certificate), ..options };
    cluster.run_with(operator(), given).await
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_is_not_trusted() {
    let cluster = TestCluster::start().await;
    drop(cluster.run(operator()).await);
    let names = ["cask-operator-webhook.cask-operator-system.svc", "127.0.0.1"].map(str::to_owned);
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let _operator = given(&cluster, Certificate::Given { certificate, key }).await;
    let refused = refusal(&casks(&cluster), &cask("a", json!({"wine": "red"}))).await.message;
    let why = "tls: failed to verify certificate: x509: certificate signed by unknown authority";
    assert!(refused.contains(why), "{refused}");
}

#[tokio::test]
async fn a_certificate_whose_time_is_over_is_not_trusted() {
    if TestCluster::is_left_out("hours pass") {
        return;
    }
    let cluster = for_days().await;
    drop(cluster.run_with(operator(), short_lived).await);
    let secret = secrets(&cluster).get("cask-operator-webhook-certificates").await.unwrap().data.unwrap();
    let text = |name: &str| String::from_utf8(secret[name].0.clone()).unwrap();
    let _operator =
        given(&cluster, Certificate::Given { certificate: text("tls.crt"), key: text("tls.key") }).await;
    casks(&cluster).create(&PostParams::default(), &cask("a", json!({"wine": "red"}))).await.unwrap();
    cluster.advance(Duration::from_secs(4 * 60 * 60)).await;
    let refused = refusal(&casks(&cluster), &cask("b", json!({"wine": "red"}))).await.message;
    let why = "tls: failed to verify certificate: x509: certificate has expired or is not yet valid";
    assert!(refused.contains(why), "{refused}");
    assert!(cluster.find::<Cask>("b").await.is_none());
}
