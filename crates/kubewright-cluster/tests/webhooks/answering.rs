//! What webhooks see, and what becomes of their answers.

use std::sync::Arc;

use http::Request;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, ResourceExt as _,
    api::{DynamicObject, PostParams},
};
use kubewright::{KindName, Validator, prelude::*};
use kubewright_cluster::TestCluster;
use parking_lot::Mutex;
use serde_json::json;

use crate::casks::{Cask, cask, casks, check, fill, operator, refusal, refused_change, refused_deletion};

#[test]
fn a_handler_is_a_function() {
    let mut full = cask("old", json!({"wine": "red"}));
    fill(&mut full, &Admission::create());
    assert_eq!(full.spec.litres, Some(225));
    assert_eq!(check(&full, &Admission::create()), Verdict::allowed());
    let small = cask("new", json!({"litres": 1}));
    assert_eq!(
        check(&small, &Admission::update(full)).reasons(),
        [
            "spec.wine: Required value: an empty cask goes bad",
            "spec.litres: Invalid value: 1: a cask does not shrink",
        ]
    );
}

#[tokio::test]
async fn what_is_left_open_is_filled_in() {
    let cluster = TestCluster::start().await;
    let _operator = cluster.run(operator()).await;
    cluster.apply_spec::<Cask>("a", json!({"wine": "red"})).await;
    assert_eq!(cluster.get::<Cask>("a").await.spec.litres, Some(225));
    cluster.apply_spec::<Cask>("b", json!({"wine": "red", "litres": 300})).await;
    assert_eq!(cluster.get::<Cask>("b").await.spec.litres, Some(300));
}

#[tokio::test]
async fn a_refusal_names_every_field() {
    let cluster = TestCluster::start().await;
    let _operator = cluster.run(operator()).await;
    casks(&cluster).create(&PostParams::default(), &cask("a", json!({"wine": "red"}))).await.unwrap();
    let refused = refused_change(&cluster, "a", json!({"spec": {"wine": null, "litres": 1}})).await;
    assert_eq!(
        refused.message,
        "admission webhook \"validate.casks.v1.test.kubewright.dev\" denied the request: \
         Cask.test.kubewright.dev \"a\" is invalid: [spec.wine: Required value: an empty cask goes bad, \
         spec.litres: Invalid value: 1: a cask does not shrink]"
    );
    assert_eq!((refused.code, refused.reason.as_str()), (422, "Invalid"));
    let causes = refused.details.unwrap().causes;
    let causes: Vec<_> = causes.iter().map(|cause| (cause.field.as_str(), cause.reason.as_str())).collect();
    assert_eq!(causes, [("spec.wine", "FieldValueRequired"), ("spec.litres", "FieldValueInvalid")]);
    assert_eq!(cluster.get::<Cask>("a").await.spec.litres, Some(225), "nothing was changed");
}

#[tokio::test]
async fn warnings_reach_the_sender() {
    let cluster = TestCluster::start().await;
    let _operator = cluster.run(operator()).await;
    let body = json!(cask("a", json!({"wine": "red", "litres": 600})));
    let path = format!("/apis/test.kubewright.dev/v1/namespaces/{}/casks", cluster.namespace());
    let request = Request::post(path).header("content-type", "application/json");
    let request = request.body(body.to_string().into_bytes().into()).unwrap();
    let answer = cluster.client().send(request).await.unwrap();
    assert_eq!(answer.status(), 201);
    assert_eq!(answer.headers()["warning"], "299 - \"a cask this large is hard to move\"");
}

#[tokio::test]
async fn a_deletion_is_asked_about_if_that_is_wanted() {
    let cluster = TestCluster::start().await;
    let keep = |cask: &Cask, admission: &Admission<Cask>| match cask.labels().contains_key("empty") {
        false if admission.operation == Operation::Delete => Verdict::denied("there is wine in it"),
        _ => Verdict::allowed(),
    };
    let webhook = Webhook::validating::<Cask>(keep).operations([Operation::Delete]);
    let _operator = cluster.run(Operator::new("cask-operator").defines::<Cask>().webhook(webhook)).await;
    cluster.apply_spec::<Cask>("a", json!({})).await;
    let refused = refused_deletion(&cluster, "a").await;
    assert!(refused.message.ends_with(" denied the request: there is wine in it"), "{}", refused.message);
    assert_eq!((refused.code, refused.reason.as_str()), (403, "Forbidden"));
    cluster.patch::<Cask>("a", json!({"metadata": {"labels": {"empty": ""}}})).await;
    cluster.delete::<Cask>("a").await;
}

#[tokio::test]
async fn who_asks_and_whether_it_is_meant_is_told() {
    let cluster = TestCluster::start().await;
    let told = Arc::new(Mutex::new(Vec::new()));
    let (note, namespace) = (told.clone(), cluster.namespace().to_owned());
    let listen = move |_: &Cask, admission: &Admission<Cask>| {
        assert_eq!(admission.namespace.as_ref(), Some(&namespace));
        let user = admission.user.groups.clone().unwrap_or_default();
        assert!(user.contains(&"system:masters".to_owned()), "{user:?}");
        note.lock().push((admission.operation, admission.name.clone(), admission.is_dry_run));
    };
    let operator = Operator::new("cask-operator").defines::<Cask>().validates::<Cask>(listen);
    let _operator = cluster.run(operator).await;
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    casks(&cluster).create(&dry, &cask("a", json!({}))).await.unwrap();
    casks(&cluster).create(&PostParams::default(), &cask("a", json!({}))).await.unwrap();
    cluster.patch::<Cask>("a", json!({"spec": {"litres": 1}})).await;
    let asked = |operation, is_dry_run| (operation, "a".to_owned(), is_dry_run);
    let expected =
        [asked(Operation::Create, true), asked(Operation::Create, false), asked(Operation::Update, false)];
    assert_eq!(*told.lock(), expected);
}

#[tokio::test]
async fn built_in_kinds_are_filled_in_and_keep_what_the_type_does_not_know() {
    let cluster = TestCluster::start().await;
    let label = |map: &mut ConfigMap, _: &Admission<ConfigMap>| {
        map.labels_mut().insert("seen".to_owned(), "yes".to_owned());
    };
    let webhook =
        Webhook::defaulting::<ConfigMap>(label).condition("wanted", "object.metadata.name == 'wanted'");
    let _operator = cluster.run(Operator::new("map-operator").webhook(webhook)).await;
    for name in ["wanted", "other"] {
        cluster
            .apply(&format!(
                "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}, data: {{a: b}}}}"
            ))
            .await;
    }
    let wanted = cluster.get::<ConfigMap>("wanted").await;
    assert_eq!(wanted.labels()["seen"], "yes");
    assert_eq!(wanted.data.unwrap()["a"], "b");
    assert!(cluster.get::<ConfigMap>("other").await.labels().is_empty());
}

#[tokio::test]
async fn kinds_that_are_known_at_run_time_are_objects_of_any_shape() {
    let cluster = TestCluster::start().await;
    let label = |object: &mut DynamicObject, _: &Admission<DynamicObject>| {
        object.data["spec"]["litres"] = json!(7);
    };
    let webhook = Webhook::defaulting_of(KindName::of::<Cask>(), label);
    let _operator = cluster.run(Operator::new("cask-operator").defines::<Cask>().webhook(webhook)).await;
    cluster.apply_spec::<Cask>("a", json!({"wine": "red"})).await;
    assert_eq!(cluster.get::<Cask>("a").await.spec.litres, Some(7));
}

/// Refuses casks of wines that no Secret tells of.
struct Cellar;

impl Validator<Cask> for Cellar {
    async fn check(&self, cask: &Cask, admission: &Admission<Cask>) -> Result<Verdict> {
        let secrets = admission.lookup().list::<Secret>(admission.namespace.as_deref())?;
        let wine = cask.spec.wine.clone().unwrap_or_default();
        Ok(match secrets.iter().any(|secret| secret.name_any() == wine) {
            true => Verdict::allowed(),
            false => Verdict::allowed().invalid("spec.wine", wine, "nobody knows this wine"),
        })
    }
}

#[tokio::test]
async fn what_a_webhook_reads_is_in_memory() {
    let cluster = TestCluster::start().await;
    let webhook = Webhook::validating::<Cask>(Cellar).reads::<Secret>();
    let operator = cluster.run(Operator::new("cask-operator").defines::<Cask>().webhook(webhook)).await;
    let refused = refusal(&casks(&cluster), &cask("a", json!({"wine": "red"}))).await;
    assert!(
        refused.message.ends_with("spec.wine: Invalid value: \"red\": nobody knows this wine"),
        "{}",
        refused.message
    );
    cluster.apply("{apiVersion: v1, kind: Secret, metadata: {name: red}}").await;
    cluster
        .eventually("the cask is taken", async |cluster| {
            casks(cluster).create(&PostParams::default(), &cask("a", json!({"wine": "red"}))).await.is_ok()
        })
        .await;
    assert_eq!(operator.forbidden(), Vec::<String>::new());
    let metrics = operator.metrics();
    let counted = "controller_runtime_webhook_requests_total{webhook=\"/validate-test-kubewright-dev-v1-cask\",code=\"200\"}";
    assert!(metrics.contains(counted), "{metrics}");
}

#[tokio::test]
async fn a_webhook_says_nothing_before_it_has_seen_what_it_reads() {
    if TestCluster::is_left_out("the definition is there from another test") {
        return;
    }
    let cluster = TestCluster::start().await;
    let check = |_: &ConfigMap, admission: &Admission<ConfigMap>| -> Result<Verdict> {
        Ok(match admission.lookup().list::<Cask>(None)?.is_empty() {
            true => Verdict::denied("there is no cask"),
            false => Verdict::allowed(),
        })
    };
    let webhook = Webhook::validating::<ConfigMap>(check)
        .reads::<Cask>()
        .condition("wanted", "object.metadata.name == 'wanted'");
    // Casks are not defined, so nobody knows whether there are some.
    let _operator = cluster.run(Operator::new("map-operator").webhook(webhook)).await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client(), cluster.namespace());
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "wanted"}})).unwrap();
    let refused = refusal(&maps, &map).await;
    assert_eq!(refused.code, 500, "{}", refused.message);
    kubewright::install_crds(&cluster.client(), &Operator::new("cask-operator").defines::<Cask>())
        .await
        .unwrap();
    cluster
        .eventually("it is known that there is none", async |_| {
            refusal(&maps, &map).await.message.ends_with("denied the request: there is no cask")
        })
        .await;
}

#[tokio::test]
async fn an_object_that_is_none_of_the_kind_is_refused() {
    let cluster = TestCluster::start().await;
    // The schema in the cluster is one that takes anything.
    let mut definition = json!(Cask::crd());
    definition["apiVersion"] = json!("apiextensions.k8s.io/v1");
    definition["kind"] = json!("CustomResourceDefinition");
    definition["spec"]["names"] = json!({"kind": "Vat", "plural": "vats"});
    definition["metadata"]["name"] = json!("vats.test.kubewright.dev");
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    cluster.apply(&definition.to_string()).await;
    let kind = KindName { kind: "Vat".to_owned(), plural: "vats".to_owned(), ..KindName::of::<Cask>() };
    let webhook = Webhook::validating_of::<Cask>(kind, |_: &Cask, _: &Admission<Cask>| ());
    let _operator = cluster.run(Operator::new("vat-operator").webhook(webhook)).await;
    let resource = kube::core::ApiResource {
        kind: "Vat".to_owned(),
        plural: "vats".to_owned(),
        ..kube::core::ApiResource::erase::<Cask>(&())
    };
    let vats: Api<DynamicObject> = Api::namespaced_with(cluster.client(), cluster.namespace(), &resource);
    let vat = DynamicObject::new("a", &resource).data(json!({"spec": {"litres": "many"}}));
    let refused = refusal(&vats, &vat).await;
    assert!(
        refused.message.contains("denied the request: this can't be read as a Vat: invalid type"),
        "{}",
        refused.message
    );
    assert_eq!(refused.code, 400);
}
