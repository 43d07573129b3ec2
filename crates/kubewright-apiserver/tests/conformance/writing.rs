//! Dry runs, field validation and warnings.

use http::Method;
use serde_json::{Value, json};

use crate::{
    definition::Definition,
    harness::{media, on_a_server},
    manifests::{config_map, deployment, pod},
};

#[test]
fn a_dry_run_goes_the_whole_way_but_stores_nothing() {
    on_a_server(async |t| {
        let tried = t.post(&t.path("pods?dryRun=All"), pod("a")).await.code(201);
        assert!(!tried.uid().is_empty());
        assert_eq!(tried.at("/metadata/resourceVersion"), &Value::Null);
        assert_eq!(tried.text("/spec/restartPolicy"), "Always", "defaults are there");
        t.get(&t.path("pods/a")).await.refused(404, "NotFound");
        t.post(
            &t.path("pods?dryRun=All"),
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": []}}),
        )
        .await
        .refused(422, "Invalid");
        t.post(&t.path("configmaps"), config_map("a", json!({"n": "1"}))).await.code(201);
        t.post(&t.path("configmaps?dryRun=All"), config_map("a", json!({})))
            .await
            .refused(409, "AlreadyExists");
        let tried = t.merge(&t.path("configmaps/a?dryRun=All"), json!({"data": {"n": "2"}})).await.code(200);
        assert_eq!(tried.at("/data/n"), "2");
        assert_eq!(t.get(&t.path("configmaps/a")).await.at("/data/n"), "1");
    });
}

#[test]
fn a_dry_run_of_a_custom_resource_is_defaulted() {
    on_a_server(async |t| {
        let widgets =
            t.define(Definition::of_properties(json!({"size": {"type": "integer", "default": 3}}))).await;
        let path = widgets.within(&t.namespace);
        let tried = t.post(&format!("{path}?dryRun=All"), widgets.object("a", json!({}))).await.code(201);
        assert_eq!((tried.at("/spec/size"), tried.at("/metadata/generation")), (&json!(3), &json!(1)));
        assert_eq!(tried.at("/metadata/resourceVersion"), &Value::Null);
        t.get(&format!("{path}/a")).await.refused(404, "NotFound");
    });
}

#[test]
fn an_unknown_field_is_dropped_with_a_warning() {
    on_a_server(async |t| {
        let mut body = deployment("a");
        body["spec"]["sise"] = json!(3);
        body["spec"]["template"]["spec"]["containers"][0]["imagee"] = json!("x");
        let created = t.post(&t.path("apps/v1/deployments"), body).await.code(201);
        let expected = [
            "299 - \"unknown field \\\"spec.sise\\\"\"",
            "299 - \"unknown field \\\"spec.template.spec.containers[0].imagee\\\"\"",
        ];
        assert_eq!(created.warnings(), expected);
        assert_eq!(created.at("/spec/sise"), &Value::Null);
    });
}

#[test]
fn strict_validation_refuses_unknown_and_repeated_fields() {
    on_a_server(async |t| {
        let mut unknown = config_map("a", json!({}));
        unknown["foo"] = json!(1);
        let strict = t.path("configmaps?fieldValidation=Strict");
        let refused = t.post(&strict, &unknown).await.refused(400, "BadRequest");
        assert!(
            refused.text("/message").ends_with("strict decoding error: unknown field \"foo\""),
            "{}",
            refused.json
        );
        let repeated =
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"n":"1","n":"2"}}"#;
        t.post(&strict, repeated).await.refused(400, "BadRequest").saying("duplicate field \"data.n\"");
        t.get(&t.path("configmaps/a")).await.refused(404, "NotFound");
        t.post(&t.path("configmaps?fieldValidation=Ignore"), &unknown).await.code(201);
    });
}

#[test]
fn strict_validation_of_a_patch_is_invalid() {
    on_a_server(async |t| {
        t.post(&t.path("configmaps"), config_map("a", json!({}))).await.code(201);
        let path = t.path("configmaps/a?fieldValidation=Strict");
        t.merge(&path, json!({"foo": 1}))
            .await
            .refused(422, "Invalid")
            .saying("strict decoding error: unknown field \"foo\"");
        let patch = json!([{"op": "add", "path": "/foo", "value": 1}]);
        t.patch(&path, media::JSON_PATCH, patch).await.refused(422, "Invalid");
    });
}

#[test]
fn a_repeated_key_is_warned_of_and_the_last_one_counts() {
    on_a_server(async |t| {
        let repeated =
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"n":"1","n":"2"}}"#;
        let created = t.post(&t.path("configmaps"), repeated).await.code(201);
        assert_eq!(created.warnings(), ["299 - \"duplicate field \\\"data.n\\\"\""]);
        assert_eq!(created.at("/data/n"), "2");
    });
}

#[test]
fn unknown_fields_of_custom_resources_are_treated_alike() {
    on_a_server(async |t| {
        let widgets = t.define(Definition::of_properties(json!({"size": {"type": "integer"}}))).await;
        let path = widgets.within(&t.namespace);
        let created = t.post(&path, widgets.object("a", json!({"size": 1, "sise": 2}))).await.code(201);
        assert_eq!(created.warnings(), ["299 - \"unknown field \\\"spec.sise\\\"\""]);
        assert_eq!(created.at("/spec"), &json!({"size": 1}));
        let strict = format!("{path}?fieldValidation=Strict");
        t.post(&strict, widgets.object("b", json!({"sise": 2})))
            .await
            .refused(400, "BadRequest")
            .saying("unknown field \"spec.sise\"");
    });
}

#[test]
fn keys_are_told_apart_by_case() {
    on_a_server(async |t| {
        let body = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"Data":{"n":"1"}}"#;
        let created = t.post(&t.path("configmaps"), body).await.code(201);
        assert_eq!(created.warnings(), ["299 - \"unknown field \\\"Data\\\"\""]);
        assert_eq!(created.at("/data"), &Value::Null);
    });
}

#[test]
fn a_deprecated_resource_is_warned_of() {
    on_a_server(async |t| {
        let found = t.get("/api/v1/componentstatuses").await.code(200);
        assert_eq!(found.warnings(), ["299 - \"v1 ComponentStatus is deprecated in v1.19+\""]);
        let found = t.send(Method::GET, &t.path("endpoints"), &[], "").await.code(200);
        assert_eq!(found.warnings().len(), 1);
    });
}

#[test]
fn built_in_kinds_are_defaulted_and_validated() {
    on_a_server(async |t| {
        let created = t.post(&t.path("apps/v1/deployments"), deployment("a")).await.code(201);
        for (pointer, value) in [
            ("/spec/strategy/type", json!("RollingUpdate")),
            ("/spec/strategy/rollingUpdate/maxSurge", json!("25%")),
            ("/spec/revisionHistoryLimit", json!(10)),
            ("/spec/progressDeadlineSeconds", json!(600)),
            ("/spec/template/spec/restartPolicy", json!("Always")),
            ("/spec/template/spec/terminationGracePeriodSeconds", json!(30)),
            ("/spec/template/spec/dnsPolicy", json!("ClusterFirst")),
            ("/spec/template/spec/containers/0/imagePullPolicy", json!("Always")),
            ("/spec/template/spec/containers/0/terminationMessagePath", json!("/dev/termination-log")),
        ] {
            assert_eq!(created.at(pointer), &value, "{pointer}");
        }
        let mut wrong = deployment("b");
        wrong["spec"]["selector"] = json!({"matchLabels": {"app": "other"}});
        wrong["spec"]["replicas"] = json!(-1);
        let refused = t.post(&t.path("apps/v1/deployments"), wrong).await.refused(422, "Invalid");
        refused
            .because("FieldValueInvalid", "spec.template.metadata.labels")
            .because("FieldValueInvalid", "spec.replicas");
    });
}

#[test]
fn what_is_immutable_stays() {
    on_a_server(async |t| {
        t.post(&t.path("pods"), pod("a")).await.code(201);
        t.merge(&t.path("pods/a"), json!({"spec": {"nodeName": "other"}}))
            .await
            .refused(422, "Invalid")
            .because("FieldValueForbidden", "spec");
        t.post(&t.path("apps/v1/deployments"), deployment("a")).await.code(201);
        let selector = json!({"spec": {"selector": {"matchLabels": {"more": "labels"}}}});
        let refused = t.merge(&t.path("apps/v1/deployments/a"), selector).await.refused(422, "Invalid");
        refused.because("FieldValueInvalid", "spec.selector").saying("field is immutable");
        let mut fixed = config_map("a", json!({"n": "1"}));
        fixed["immutable"] = json!(true);
        t.post(&t.path("configmaps"), fixed).await.code(201);
        t.merge(&t.path("configmaps/a"), json!({"data": {"n": "2"}}))
            .await
            .refused(422, "Invalid")
            .because("FieldValueForbidden", "data");
    });
}
