//! What becomes of requests whose webhook can't answer.

use kube::{Api, api::PostParams};
use kubewright::{FailurePolicy, Validator, prelude::*};
use kubewright_cluster::TestCluster;
use serde_json::json;

use crate::casks::{Cask, cask, casks, refusal};

fn with(validator: impl Validator<Cask>, policy: FailurePolicy) -> Operator {
    let webhook = Webhook::validating(validator).failure_policy(policy).timeout(Duration::from_secs(1));
    Operator::new("cask-operator").defines::<Cask>().webhook(webhook)
}

/// What a request is told if it fails; then, that it goes on where failures are ignored.
async fn told(validator: impl Validator<Cask> + Copy) -> String {
    let cluster = TestCluster::start().await;
    let failing = cluster.run(with(validator, FailurePolicy::Fail)).await;
    let refused = refusal(&casks(&cluster), &cask("a", json!({}))).await;
    assert_eq!(refused.code, 500, "{}", refused.message);
    drop(failing);
    let _ignored = cluster.run(with(validator, FailurePolicy::Ignore)).await;
    cluster
        .eventually("a failure is ignored", async |cluster| {
            casks(cluster).create(&PostParams::default(), &cask("a", json!({}))).await.is_ok()
        })
        .await;
    let prefix = "Internal error occurred: failed calling webhook \"validate.casks.v1.test.kubewright.dev\": failed to call webhook: ";
    refused.message.strip_prefix(prefix).unwrap_or_else(|| panic!("{}", refused.message)).to_owned()
}

#[tokio::test]
async fn a_panic_is_a_failure() {
    let panics = |_: &Cask, _: &Admission<Cask>| -> Verdict { panic!("out of wine") };
    let why =
        "an error on the server (\"it panicked: out of wine\") has prevented the request from succeeding";
    assert_eq!(told(panics).await, why);
}

#[tokio::test]
async fn an_error_is_a_failure() {
    let fails = |_: &Cask, _: &Admission<Cask>| -> Result<Verdict> { Err(Error::new("nobody can say")) };
    let why = "an error on the server (\"nobody can say\") has prevented the request from succeeding";
    assert_eq!(told(fails).await, why);
}

#[derive(Clone, Copy)]
struct Hanging;

impl Validator<Cask> for Hanging {
    async fn check(&self, _: &Cask, _: &Admission<Cask>) -> Result<Verdict> {
        std::future::pending().await
    }
}

#[tokio::test]
async fn one_that_hangs_is_a_failure_before_the_api_server_gives_up() {
    assert_eq!(
        told(Hanging).await,
        "the server was unable to return a response in the time allotted, but may still be processing the request"
    );
}

#[tokio::test]
async fn without_the_operator_the_policy_decides() {
    for (policy, is_taken) in [(FailurePolicy::Fail, false), (FailurePolicy::Ignore, true)] {
        let cluster = TestCluster::start().await;
        let operator = cluster.run(with(|_: &Cask, _: &Admission<Cask>| (), policy)).await;
        casks(&cluster).create(&PostParams::default(), &cask("a", json!({}))).await.unwrap();
        drop(operator);
        let created = casks(&cluster).create(&PostParams::default(), &cask("b", json!({}))).await;
        assert_eq!(created.is_ok(), is_taken, "{policy:?}: {created:?}");
    }
}

#[tokio::test]
async fn the_namespace_of_the_operator_itself_is_left_out() {
    if TestCluster::is_left_out("the operator watches the namespace of the test, and is asked about no other")
    {
        return;
    }
    let cluster = TestCluster::start().await;
    let operator = cluster.run(with(|_: &Cask, _: &Admission<Cask>| (), FailurePolicy::Fail)).await;
    drop(operator);
    let own: Api<Cask> = Api::namespaced(cluster.client(), "cask-operator-system");
    own.create(&PostParams::default(), &cask("a", json!({}))).await.unwrap();
    refusal(&casks(&cluster), &cask("a", json!({}))).await;
}

#[tokio::test]
async fn two_webhooks_of_a_kind_are_one_too_many() {
    let check = |_: &Cask, _: &Admission<Cask>| ();
    let operator = Operator::new("cask-operator").validates::<Cask>(check).validates::<Cask>(check);
    let cluster = TestCluster::start().await;
    let mut running = operator.start(cluster.client(), Options::default());
    let why = running.working().await.unwrap_err().to_string();
    assert_eq!(why, "there are two webhooks validate.casks.v1.test.kubewright.dev: make them one");
}
