//! What goes wrong is told by a `Status` with a code and a reason.

use http::Method;
use serde_json::json;

use crate::{
    definition::Definition,
    harness::{media, on_a_server, with},
    manifests::{config_map, config_map_with, deployment, pod, pod_on},
};

#[test]
fn a_missing_object_is_not_found() {
    on_a_server(async |t| {
        let missing = t.get(&t.path("configmaps/none")).await.refused(404, "NotFound");
        assert_eq!(missing.text("/message"), "configmaps \"none\" not found");
        assert_eq!(missing.at("/details"), &json!({"name": "none", "kind": "configmaps"}));
        let missing = t.get(&t.path("apps/v1/deployments/none")).await.refused(404, "NotFound");
        assert_eq!(missing.text("/message"), "deployments.apps \"none\" not found");
        t.delete(&t.path("configmaps/none")).await.refused(404, "NotFound");
        t.merge(&t.path("configmaps/none"), json!({})).await.refused(404, "NotFound");
        t.put(&t.path("configmaps/none"), config_map("none", json!({}))).await.refused(404, "NotFound");
    });
}

#[test]
fn a_create_in_a_missing_namespace_is_not_found() {
    on_a_server(async |t| {
        let path = format!("/api/v1/namespaces/none-{}/configmaps", t.unique);
        let refused = t.post(&path, config_map("a", json!({}))).await.refused(404, "NotFound");
        assert_eq!(refused.text("/details/kind"), "namespaces");
    });
}

#[test]
fn a_missing_namespace_lists_nothing() {
    on_a_server(async |t| {
        let found = t.get(&format!("/api/v1/namespaces/none-{}/configmaps", t.unique)).await.code(200);
        assert_eq!(found.at("/items"), &json!([]));
    });
}

#[test]
fn an_unknown_group_is_a_plain_404() {
    on_a_server(async |t| {
        for path in
            ["/apis/none.example.com/v1/things", "/apis/none.example.com/v1", "/apis/none.example.com"]
        {
            let missing = t.get(path).await.code(404);
            assert_eq!(missing.body(), "404 page not found\n");
            assert!(missing.header("content-type").starts_with("text/plain"));
        }
    });
}

#[test]
fn the_group_of_a_deleted_definition_is_a_plain_404() {
    on_a_server(async |t| {
        let widgets = t.define(Definition::free_form()).await;
        t.delete(&widgets.path()).await.code(200);
        t.until("the group is gone", async || {
            (t.get(&widgets.everywhere()).await.body() == "404 page not found\n").then_some(())
        })
        .await;
    });
}

#[test]
fn an_unknown_resource_or_version_of_a_known_group_is_a_status() {
    on_a_server(async |t| {
        let missing = t.get("/apis/apps/v1/namespaces/default/nones").await.refused(404, "NotFound");
        assert_eq!(missing.text("/message"), "the server could not find the requested resource");
        t.get("/api/v1/nones").await.refused(404, "NotFound");
        for path in ["/apis/apps/v9", "/apis/apps/v9/deployments", "/api/v2", "/api/v2/pods"] {
            t.get(path).await.refused(404, "NotFound");
        }
        // A version that no definition serves is as unknown as a group.
        let widgets = t.define(Definition::free_form()).await;
        assert_eq!(t.get(&widgets.at("v9", &t.namespace)).await.code(404).body(), "404 page not found\n");
    });
}

#[test]
fn a_second_create_already_exists() {
    on_a_server(async |t| {
        t.post(&t.path("configmaps"), config_map("a", json!({}))).await.code(201);
        let refused =
            t.post(&t.path("configmaps"), config_map("a", json!({}))).await.refused(409, "AlreadyExists");
        assert_eq!(refused.text("/message"), "configmaps \"a\" already exists");
        t.get(&t.path("configmaps/a")).await.code(200);
    });
}

#[test]
fn a_create_over_an_object_that_is_being_deleted_says_so() {
    on_a_server(async |t| {
        let held = config_map_with("a", json!({"finalizers": ["example.com/hold"]}));
        t.post(&t.path("configmaps"), held).await.code(201);
        t.delete(&t.path("configmaps/a")).await.code(200);
        let refused =
            t.post(&t.path("configmaps"), config_map("a", json!({}))).await.refused(409, "AlreadyExists");
        assert!(refused.text("/message").starts_with("object is being deleted: "), "{}", refused.json);
    });
}

#[test]
fn a_stale_revision_conflicts() {
    on_a_server(async |t| {
        let path = t.path("configmaps/a");
        let first = t.post(&t.path("configmaps"), config_map("a", json!({"n": "1"}))).await.code(201);
        t.merge(&path, json!({"data": {"n": "2"}})).await.code(200);
        let refused = t.put(&path, &first.json).await.refused(409, "Conflict");
        assert!(
            refused
                .text("/message")
                .contains("the object has been modified; please apply your changes to the latest")
        );
        assert_eq!(t.get(&path).await.at("/data/n"), "2");
    });
}

#[test]
fn a_uid_that_is_not_the_objects_conflicts() {
    on_a_server(async |t| {
        t.post(&t.path("configmaps"), config_map("a", json!({}))).await.code(201);
        let other = config_map_with("a", json!({"uid": "00000000-0000-0000-0000-000000000000"}));
        t.put(&t.path("configmaps/a"), other)
            .await
            .refused(409, "Conflict")
            .saying("Precondition failed: UID in precondition");
    });
}

#[test]
fn a_validation_error_is_invalid_and_names_every_field() {
    on_a_server(async |t| {
        let mut broken = pod("Not_A_Name");
        broken["spec"]["containers"][0] = json!({"image": "", "name": "UPPER"});
        let refused = t.post(&t.path("pods"), broken).await.refused(422, "Invalid");
        let refused = refused
            .because("FieldValueInvalid", "metadata.name")
            .because("FieldValueInvalid", "spec.containers[0].name");
        let refused = refused.because("FieldValueRequired", "spec.containers[0].image");
        assert!(refused.text("/message").starts_with("Pod \"Not_A_Name\" is invalid: ["));
    });
}

#[test]
fn bad_options_are_invalid() {
    on_a_server(async |t| {
        let path = t.path("configmaps");
        let long = "m".repeat(129);
        for (parameter, value, field) in [
            ("dryRun", "Some", "dryRun"),
            ("fieldValidation", "Some", "fieldValidation"),
            ("fieldManager", long.as_str(), "fieldManager"),
        ] {
            let refused =
                t.post(&with(&path, &[(parameter, value)]), config_map("a", json!({}))).await.code(422);
            assert!(refused.causes().iter().any(|(_, of)| *of == field), "{}", refused.json);
        }
    });
}

#[test]
fn malformed_requests_are_bad_requests() {
    on_a_server(async |t| {
        let path = t.path("configmaps");
        t.post(&path, "{\"kind\":").await.refused(400, "BadRequest");
        t.post(&path, "[]").await.refused(400, "BadRequest");
        t.post(&path, config_map("a", json!({"n": 1}))).await.refused(400, "BadRequest");
        t.get(&with(&path, &[("labelSelector", "a in (")])).await.refused(400, "BadRequest");
        t.get(&with(&path, &[("fieldSelector", "a b c")])).await.refused(400, "BadRequest");
        t.get(&with(&path, &[("continue", "not a token")])).await.refused(400, "BadRequest");
        t.get(&with(&path, &[("limit", "many")])).await.refused(400, "BadRequest");
    });
}

#[test]
fn a_name_or_namespace_that_is_not_that_of_the_path_is_a_bad_request() {
    on_a_server(async |t| {
        t.post(&t.path("configmaps"), config_map("a", json!({}))).await.code(201);
        let refused =
            t.put(&t.path("configmaps/a"), config_map("b", json!({}))).await.refused(400, "BadRequest");
        assert_eq!(
            refused.text("/message"),
            "the name of the object (b) does not match the name on the URL (a)"
        );
        let elsewhere = config_map_with("c", json!({"namespace": "default"}));
        let refused = t.post(&t.path("configmaps"), elsewhere).await.refused(400, "BadRequest");
        assert_eq!(
            refused.text("/message"),
            "the namespace of the provided object does not match the namespace sent on the request"
        );
    });
}

#[test]
fn a_create_that_names_a_revision_is_an_internal_error_but_fine_as_a_dry_run() {
    on_a_server(async |t| {
        let body = config_map_with("a", json!({"resourceVersion": "5"}));
        let refused = t.post(&t.path("configmaps"), &body).await.refused(500, "");
        assert_eq!(refused.text("/message"), "resourceVersion should not be set on objects to be created");
        t.get(&t.path("configmaps/a")).await.refused(404, "NotFound");
        t.post(&t.path("configmaps?dryRun=All"), &body).await.code(201);
    });
}

#[test]
fn a_method_the_resource_does_not_have_is_not_allowed() {
    on_a_server(async |t| {
        t.post(&t.path("configmaps/a"), config_map("a", json!({}))).await.refused(405, "MethodNotAllowed");
        t.put(&t.path("configmaps"), config_map("a", json!({}))).await.refused(405, "MethodNotAllowed");
        t.get("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
            .await
            .refused(405, "MethodNotAllowed");
        let widgets = t.define(Definition::free_form()).await;
        let refused = t
            .put(&widgets.within(&t.namespace), widgets.object("a", json!({})))
            .await
            .refused(400, "BadRequest");
        assert_eq!(refused.text("/message"), "name must be provided");
    });
}

#[test]
fn an_answer_in_a_form_that_is_not_served_is_not_acceptable() {
    on_a_server(async |t| {
        t.get_as(&t.path("configmaps"), "text/html").await.refused(406, "NotAcceptable");
        t.get_as(&t.path("configmaps"), "application/json;as=Table;v=v9;g=meta.k8s.io")
            .await
            .refused(406, "NotAcceptable");
        t.get_as(&t.path("configmaps"), "text/html, */*").await.code(200);
    });
}

#[test]
fn a_body_in_a_form_that_is_not_read_is_unsupported() {
    on_a_server(async |t| {
        let body = config_map("a", json!({}));
        let send =
            async |method, path: &str, media| t.send(method, path, &[("content-type", media)], &body).await;
        send(Method::POST, &t.path("configmaps"), "text/plain").await.refused(415, "UnsupportedMediaType");
        t.post(&t.path("configmaps"), &body).await.code(201);
        send(Method::PATCH, &t.path("configmaps/a"), "application/json")
            .await
            .refused(415, "UnsupportedMediaType");
    });
}

#[test]
fn an_expired_revision_is_gone() {
    on_a_server(async |t| {
        t.post(&t.path("configmaps"), config_map("a", json!({}))).await.code(201);
        let revision = t.expired_revision();
        let parameters = [("resourceVersionMatch", "Exact"), ("resourceVersion", revision.as_str())];
        t.get(&with(&t.path("configmaps"), &parameters)).await.refused(410, "Expired");
    });
}

#[test]
fn a_revision_from_the_future_times_out() {
    on_a_server(async |t| {
        let path = with(&t.path("configmaps"), &[("resourceVersion", "9999999999")]);
        let refused = t
            .get(&path)
            .await
            .refused(504, "Timeout")
            .saying("Too large resource version: 9999999999, current: ");
        assert_eq!(refused.causes(), [("ResourceVersionTooLarge", "")]);
        assert_eq!(refused.at("/details/retryAfterSeconds"), 1);
    });
}

#[test]
fn an_eviction_that_a_disruption_budget_blocks_is_too_many_requests() {
    on_a_server(async |t| {
        let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "all"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}});
        t.post(&t.path("policy/v1/poddisruptionbudgets"), budget).await.code(201);
        t.post(&t.path("pods"), pod_on("a", "node")).await.code(201);
        let ready =
            json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        t.merge(&t.path("pods/a/status"), ready).await.code(200);
        let status = json!({"status": {"observedGeneration": 1, "currentHealthy": 1, "desiredHealthy": 1,
            "expectedPods": 1, "disruptionsAllowed": 0}});
        t.merge(&t.path("policy/v1/poddisruptionbudgets/all/status"), status).await.code(200);
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}});
        let refused = t.post(&t.path("pods/a/eviction"), eviction).await.refused(429, "TooManyRequests");
        assert_eq!(
            refused.text("/message"),
            "Cannot evict pod as it would violate the pod's disruption budget."
        );
        assert_eq!(refused.causes(), [("DisruptionBudget", "")]);
        t.get(&t.path("pods/a")).await.code(200);
    });
}

#[test]
fn a_body_over_three_mebibytes_is_too_large() {
    on_a_server(async |t| {
        let body = config_map("a", json!({"n": "x".repeat(3 * 1024 * 1024)}));
        t.post(&t.path("configmaps"), body).await.refused(413, "RequestEntityTooLarge");
    });
}

#[test]
fn answers_are_compact_with_the_kind_first() {
    on_a_server(async |t| {
        t.post(&t.path("configmaps"), config_map("a", json!({"n": "1"}))).await.code(201);
        for path in [t.path("configmaps/a"), t.path("configmaps"), t.path("configmaps/none")] {
            let found = t.get(&path).await;
            assert!(found.body().starts_with("{\"kind\":\""), "{}", found.body());
            assert!(found.body().ends_with("}\n"));
            assert_eq!(found.body().trim_end().lines().count(), 1);
            assert_eq!(found.header("content-type"), "application/json");
        }
        assert!(t.get(&t.path("configmaps/a?pretty=true")).await.body().contains("\n  \"kind\""));
    });
}

#[test]
fn a_failed_create_leaves_nothing_behind() {
    on_a_server(async |t| {
        let before = t.revision_of(&t.path("configmaps")).await;
        t.post(&t.path("configmaps"), config_map("a", json!({"not a key": "1"})))
            .await
            .refused(422, "Invalid");
        assert!(t.get(&t.path("configmaps")).await.names().is_empty());
        let events = t
            .watch(&with(&t.path("configmaps"), &[("resourceVersion", &before), ("timeoutSeconds", "1")]))
            .await
            .next()
            .await;
        assert_eq!(events, None);
    });
}

#[test]
fn the_kind_of_the_body_must_be_that_of_the_path() {
    on_a_server(async |t| {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}});
        t.post(&t.path("configmaps"), secret).await.refused(400, "BadRequest").saying("ConfigMap");
        t.post(&t.path("configmaps"), deployment("a")).await.refused(400, "BadRequest");
        // Who says nothing means the kind of the path.
        t.post(&t.path("configmaps"), json!({"metadata": {"name": "a"}})).await.code(201);
    });
}

#[test]
fn a_custom_kind_that_differs_is_invalid_but_its_version_a_bad_request() {
    on_a_server(async |t| {
        let widgets = t.define(Definition::free_form()).await;
        let path = widgets.within(&t.namespace);
        let mut other = widgets.object("a", json!({}));
        other["kind"] = json!("Gadget");
        t.post(&path, &other).await.refused(422, "Invalid").because("FieldValueInvalid", "kind");
        let other = widgets.object_in("v2", "a", json!({}));
        t.post(&path, &other).await.refused(400, "BadRequest");
    });
}

#[test]
fn a_resource_is_reached_only_in_its_scope() {
    on_a_server(async |t| {
        t.get("/api/v1/configmaps/a").await.refused(404, "NotFound");
        t.post("/api/v1/configmaps", config_map("a", json!({}))).await.code(405);
        let widgets = t.define(Definition::free_form()).await;
        t.get(&format!("{}/a", widgets.everywhere())).await.code(404);
        let gadgets = t
            .define(Definition::free_form().named("gadgets", "Gadget").set("/scope", json!("Cluster")))
            .await;
        t.get(&gadgets.within(&t.namespace)).await.code(404);
        t.post(&gadgets.everywhere(), gadgets.object("a", json!({}))).await.code(201);
    });
}

#[test]
fn yaml_bodies_follow_yaml_1_1() {
    on_a_server(async |t| {
        let yaml = [("content-type", "application/yaml")];
        let named = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  key: \"on\"\n";
        t.send(Method::POST, &t.path("configmaps"), &yaml, named).await.code(201);
        let boolean = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\ndata: {key: y}\n";
        t.send(Method::POST, &t.path("configmaps"), &yaml, boolean)
            .await
            .refused(400, "BadRequest")
            .saying("bool");
        let found = t.get_as(&t.path("configmaps/a"), "application/yaml").await.code(200);
        assert!(found.body().contains("\n  key: \"on\"\n"), "{}", found.body());
        assert_eq!(found.header("content-type"), "application/yaml");
        t.get_as(&t.path("configmaps/a"), media::JSON).await.code(200);
    });
}
