//! The four kinds of patches, without apply, which has a chapter of its own.

use serde_json::{Value, json};

use crate::{
    definition::Definition,
    harness::{Server, media, on_a_server},
    manifests::{config_map, config_map_with, deployment, service},
};

async fn a_config_map(t: &Server) -> String {
    t.post(&t.path("configmaps"), config_map("a", json!({"n": "1", "m": "1"}))).await.code(201);
    t.path("configmaps/a")
}

#[test]
fn a_json_patch_does_its_operations_in_order() {
    on_a_server(async |t| {
        let path = a_config_map(&t).await;
        let patch = json!([
            {"op": "test", "path": "/data/n", "value": "1"},
            {"op": "replace", "path": "/data/n", "value": "2"},
            {"op": "copy", "from": "/data/n", "path": "/data/o"},
            {"op": "move", "from": "/data/m", "path": "/data/p"},
            {"op": "add", "path": "/metadata/labels", "value": {}},
            {"op": "add", "path": "/metadata/labels/example.com~1a", "value": "b"},
            {"op": "remove", "path": "/data/n"},
        ]);
        let patched = t.patch(&path, media::JSON_PATCH, patch).await.code(200);
        assert_eq!(patched.at("/data"), &json!({"o": "2", "p": "1"}));
        assert_eq!(patched.at("/metadata/labels"), &json!({"example.com/a": "b"}));
    });
}

#[test]
fn a_json_patch_whose_test_fails_or_whose_path_is_missing_changes_nothing() {
    on_a_server(async |t| {
        let path = a_config_map(&t).await;
        for patch in [
            json!([{"op": "add", "path": "/data/x", "value": "1"}, {"op": "test", "path": "/data/n", "value": "9"}]),
            json!([{"op": "remove", "path": "/data/none"}]),
            json!([{"op": "add", "path": "/none/x", "value": "1"}]),
        ] {
            t.patch(&path, media::JSON_PATCH, patch).await.refused(422, "Invalid");
        }
        assert_eq!(t.get(&path).await.at("/data"), &json!({"n": "1", "m": "1"}));
        t.patch(&path, media::JSON_PATCH, json!({"data": {}})).await.refused(400, "BadRequest");
    });
}

#[test]
fn a_json_patch_of_more_than_ten_thousand_operations_is_too_large() {
    on_a_server(async |t| {
        let path = a_config_map(&t).await;
        let operations: Vec<Value> = vec![json!({"op": "test", "path": "/data/n", "value": "1"}); 10_001];
        t.patch(&path, media::JSON_PATCH, json!(operations)).await.refused(413, "RequestEntityTooLarge");
        t.patch(&path, media::JSON_PATCH, json!(operations[..10_000])).await.code(200);
    });
}

#[test]
fn a_merge_patch_merges_maps_and_removes_what_is_null() {
    on_a_server(async |t| {
        let path = a_config_map(&t).await;
        let patched = t.merge(&path, json!({"data": {"n": null, "x": "3"}})).await.code(200);
        assert_eq!(patched.at("/data"), &json!({"m": "1", "x": "3"}));
        t.merge(&path, "[]").await.code(400);
        t.merge(&path, "{\"data\":").await.refused(400, "BadRequest");
    });
}

#[test]
fn a_merge_patch_that_names_a_revision_is_a_lock() {
    on_a_server(async |t| {
        let path = a_config_map(&t).await;
        let seen = t.get(&path).await.revision().to_owned();
        let patch = |value: &str| json!({"metadata": {"resourceVersion": seen}, "data": {"n": value}});
        t.merge(&path, patch("2")).await.code(200);
        t.merge(&path, patch("3")).await.refused(409, "Conflict");
        assert_eq!(t.get(&path).await.at("/data/n"), "2");
    });
}

#[test]
fn a_strategic_merge_patch_merges_lists_by_their_key() {
    on_a_server(async |t| {
        let path = t.path("apps/v1/deployments/a");
        t.post(&t.path("apps/v1/deployments"), deployment("a")).await.code(201);
        let strategic = async |containers: Value| {
            let patch = json!({"spec": {"template": {"spec": {"containers": containers}}}});
            t.patch(&path, media::STRATEGIC_MERGE_PATCH, patch).await
        };
        let names = |reply: &crate::reply::Reply| -> Vec<String> {
            let containers = reply.at("/spec/template/spec/containers").as_array().unwrap().clone();
            containers.iter().map(|c| c["name"].as_str().unwrap().to_owned()).collect()
        };
        let patched = strategic(json!([{"name": "second", "image": "other"}])).await.code(200);
        assert_eq!(names(&patched), ["second", "main"]);
        let patched = strategic(json!([{"name": "main", "image": "newer"}])).await.code(200);
        assert_eq!(names(&patched).len(), 2);
        let patched = strategic(json!([{"name": "main", "$patch": "delete"}])).await.code(200);
        assert_eq!(names(&patched), ["second"]);
        let patched =
            strategic(json!([{"$patch": "replace"}, {"name": "third", "image": "image"}])).await.code(200);
        assert_eq!(names(&patched), ["third"]);
        let ordered = json!([{"name": "third", "ports": [{"containerPort": 80}]}]);
        assert_eq!(
            strategic(ordered).await.code(200).at("/spec/template/spec/containers/0/ports/0/protocol"),
            "TCP"
        );
    });
}

#[test]
fn a_strategic_merge_item_without_its_key_is_an_internal_error() {
    on_a_server(async |t| {
        t.post(&t.path("apps/v1/deployments"), deployment("a")).await.code(201);
        let patch = json!({"spec": {"template": {"spec": {"containers": [{"image": "x"}]}}}});
        let refused = t
            .patch(&t.path("apps/v1/deployments/a"), media::STRATEGIC_MERGE_PATCH, patch)
            .await
            .refused(500, "");
        refused.saying("does not contain declared merge key: name");
    });
}

#[test]
fn a_strategic_merge_puts_new_finalizers_first() {
    on_a_server(async |t| {
        let path = t.path("configmaps/a");
        t.post(&t.path("configmaps"), config_map_with("a", json!({"finalizers": ["example.com/a"]})))
            .await
            .code(201);
        let patch = json!({"metadata": {"finalizers": ["example.com/b"]}});
        let patched = t.patch(&path, media::STRATEGIC_MERGE_PATCH, patch).await.code(200);
        assert_eq!(patched.at("/metadata/finalizers"), &json!(["example.com/b", "example.com/a"]));
        let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}});
        let patched = t.patch(&path, media::STRATEGIC_MERGE_PATCH, patch).await.code(200);
        assert_eq!(patched.at("/metadata/finalizers"), &json!(["example.com/b"]));
    });
}

#[test]
fn a_merge_patch_replaces_lists_where_a_strategic_one_merges() {
    on_a_server(async |t| {
        t.post(&t.path("services"), service("a")).await.code(201);
        let patch =
            json!({"spec": {"ports": [{"name": "x", "port": 81, "targetPort": 81, "protocol": "TCP"}]}});
        let patched = t.merge(&t.path("services/a"), patch).await.code(200);
        assert_eq!(patched.at("/spec/ports").as_array().map(Vec::len), Some(1));
        let patch = json!({"spec": {"ports": [{"name": "y", "port": 82}]}});
        let patched = t.patch(&t.path("services/a"), media::STRATEGIC_MERGE_PATCH, patch).await.code(200);
        assert_eq!(patched.at("/spec/ports").as_array().map(Vec::len), Some(2));
    });
}

#[test]
fn custom_resources_know_no_strategic_merge() {
    on_a_server(async |t| {
        let widgets = t.define(Definition::free_form()).await;
        let path = widgets.within(&t.namespace);
        t.post(&path, widgets.object("a", json!({"l": [1]}))).await.code(201);
        let patch = json!({"spec": {"l": [2]}});
        let refused = t.patch(&format!("{path}/a"), media::STRATEGIC_MERGE_PATCH, &patch).await;
        refused.refused(415, "UnsupportedMediaType");
        let patched = t.merge(&format!("{path}/a"), &patch).await.code(200);
        assert_eq!(patched.at("/spec/l"), &json!([2]));
    });
}

#[test]
fn force_is_only_for_apply() {
    on_a_server(async |t| {
        let path = a_config_map(&t).await;
        let refused = t.merge(&format!("{path}?force=true"), json!({})).await.refused(422, "Invalid");
        refused.because("FieldValueForbidden", "force");
        t.merge(&format!("{path}?force=false"), json!({})).await.refused(422, "Invalid");
    });
}

#[test]
fn a_patch_can_not_rename_or_move() {
    on_a_server(async |t| {
        let path = a_config_map(&t).await;
        t.merge(&path, json!({"metadata": {"name": "b"}})).await.refused(400, "BadRequest");
        t.merge(&path, json!({"metadata": {"namespace": "default"}})).await.refused(400, "BadRequest");
        let uid = json!({"metadata": {"uid": "00000000-0000-0000-0000-000000000000"}});
        t.merge(&path, uid).await.refused(422, "Invalid").because("FieldValueInvalid", "metadata.uid");
    });
}

#[test]
fn a_patch_that_makes_the_object_invalid_is_refused() {
    on_a_server(async |t| {
        let widgets =
            t.define(Definition::of_properties(json!({"size": {"type": "integer", "minimum": 1}}))).await;
        let path = widgets.within(&t.namespace);
        t.post(&path, widgets.object("a", json!({"size": 1}))).await.code(201);
        let refused =
            t.merge(&format!("{path}/a"), json!({"spec": {"size": 0}})).await.refused(422, "Invalid");
        refused.because("FieldValueInvalid", "spec.size");
        assert_eq!(t.get(&format!("{path}/a")).await.at("/spec/size"), 1);
    });
}
