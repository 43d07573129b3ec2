//! Server-side apply: who owns which field, and what follows from it.

use http::Method;
use serde_json::{Value, json};

use crate::{
    definition::Definition,
    harness::{Server, media, on_a_server},
    manifests::{config_map, config_map_with, deployment},
};

/// Applies a ConfigMap `a` with this data.
async fn applied(t: &Server, manager: &str, data: Value) -> crate::reply::Reply {
    t.apply(&t.path("configmaps/a"), manager, config_map("a", data)).await
}

#[test]
fn an_apply_creates_and_then_updates() {
    on_a_server(async |t| {
        let created = applied(&t, "me", json!({"n": "1"})).await.code(201);
        assert_eq!(created.owned_by("me/Apply"), json!({"f:data": {"f:n": {}}}));
        let updated = applied(&t, "me", json!({"n": "2"})).await.code(200);
        assert_eq!((updated.uid(), updated.at("/data/n")), (created.uid(), &json!("2")));
    });
}

#[test]
fn an_apply_of_the_same_keeps_the_revision() {
    on_a_server(async |t| {
        let first = applied(&t, "me", json!({"n": "1"})).await.code(201);
        let second = applied(&t, "me", json!({"n": "1"})).await.code(200);
        assert_eq!(first.revision(), second.revision());
        assert_eq!(first.at("/metadata/managedFields"), second.at("/metadata/managedFields"));
    });
}

#[test]
fn an_apply_needs_a_manager_with_a_printable_name_of_up_to_128_characters() {
    on_a_server(async |t| {
        let path = t.path("configmaps/a");
        let body = config_map("a", json!({}));
        let refused = t.patch(&path, media::APPLY_PATCH, &body).await.refused(422, "Invalid");
        refused.because("FieldValueRequired", "fieldManager");
        t.apply(&path, &"m".repeat(129), &body)
            .await
            .refused(422, "Invalid")
            .because("FieldValueTooLong", "fieldManager");
        t.apply(&path, "a%01b", &body)
            .await
            .refused(422, "Invalid")
            .because("FieldValueInvalid", "fieldManager");
        t.apply(&path, &"m".repeat(128), &body).await.code(201);
    });
}

#[test]
fn managed_fields_in_an_apply_are_a_bad_request() {
    on_a_server(async |t| {
        for fields in [json!([]), json!([{"manager": "x", "operation": "Apply", "apiVersion": "v1"}])] {
            let body = config_map_with("a", json!({"managedFields": fields}));
            let refused = t.apply(&t.path("configmaps/a"), "me", body).await.refused(400, "BadRequest");
            assert_eq!(refused.text("/message"), "metadata.managedFields must be nil");
        }
    });
}

#[test]
fn the_version_of_an_apply_is_that_of_the_path() {
    on_a_server(async |t| {
        let mut body = config_map("a", json!({}));
        body["apiVersion"] = json!("v2");
        t.apply(&t.path("configmaps/a"), "me", body).await.refused(400, "BadRequest");
        let mut body = config_map("a", json!({}));
        body["kind"] = json!("Secret");
        t.apply(&t.path("configmaps/a"), "me", body).await.code(400);
    });
}

#[test]
fn an_apply_may_name_a_revision_but_not_a_stale_one() {
    on_a_server(async |t| {
        let path = t.path("configmaps/a");
        // On a missing object the revision counts for nothing.
        let created =
            t.apply(&path, "me", config_map_with("a", json!({"resourceVersion": "1"}))).await.code(201);
        let body = |revision: &str| {
            let mut body = config_map_with("a", json!({"resourceVersion": revision}));
            body["data"] = json!({"n": "2"});
            body
        };
        t.apply(&path, "me", body("1")).await.refused(409, "Conflict");
        t.apply(&path, "me", body(created.revision())).await.code(200);
    });
}

#[test]
fn a_uid_on_a_missing_object_conflicts() {
    on_a_server(async |t| {
        let body = config_map_with("a", json!({"uid": "00000000-0000-0000-0000-000000000000"}));
        t.apply(&t.path("configmaps/a"), "me", body).await.refused(409, "Conflict").saying("uid mismatch");
        t.get(&t.path("configmaps/a")).await.refused(404, "NotFound");
    });
}

#[test]
fn an_undeclared_or_mistyped_field_in_an_apply_is_an_internal_error() {
    on_a_server(async |t| {
        let path = t.path("configmaps/a");
        let mut unknown = config_map("a", json!({}));
        unknown["foo"] = json!("bar");
        t.apply(&path, "me", unknown).await.refused(500, "").saying(".foo: field not declared in schema");
        t.apply(&path, "me", config_map("a", json!({"n": 1})))
            .await
            .refused(500, "")
            .saying("expected string");
        let mut repeated = deployment("a");
        let container = repeated["spec"]["template"]["spec"]["containers"][0].clone();
        repeated["spec"]["template"]["spec"]["containers"] = json!([container, container]);
        let refused = t.apply(&t.path("apps/v1/deployments/a"), "me", repeated).await.refused(500, "");
        refused.saying("duplicate entries for key [name=\"main\"]");
        t.get(&path).await.refused(404, "NotFound");
    });
}

#[test]
fn equal_values_are_owned_together() {
    on_a_server(async |t| {
        applied(&t, "one", json!({"n": "1"})).await.code(201);
        let both = applied(&t, "two", json!({"n": "1"})).await.code(200);
        assert_eq!(both.owned_by("one/Apply"), both.owned_by("two/Apply"));
        let one_left = applied(&t, "two", json!({})).await.code(200);
        assert_eq!(one_left.at("/data"), &json!({"n": "1"}), "another still owns it");
        assert_eq!(one_left.owned_by("one/Apply"), json!({"f:data": {"f:n": {}}}));
    });
}

#[test]
fn changing_what_another_owns_conflicts_and_tells_with_whom() {
    on_a_server(async |t| {
        applied(&t, "one", json!({"n": "1", "m": "1"})).await.code(201);
        t.merge(&t.path("configmaps/a?fieldManager=updater"), json!({"data": {"o": "1"}})).await.code(200);
        let refused =
            applied(&t, "two", json!({"n": "2", "m": "2", "o": "2"})).await.refused(409, "Conflict");
        let mut causes = refused.causes();
        causes.sort_unstable();
        let conflict = "FieldManagerConflict";
        assert_eq!(causes, [(conflict, ".data.m"), (conflict, ".data.n"), (conflict, ".data.o")]);
        assert!(
            refused
                .text("/message")
                .starts_with("Apply failed with 3 conflicts: conflicts with \"one\":\n- .data."),
            "{}",
            refused.json
        );
        let refused = applied(&t, "two", json!({"n": "2"})).await.refused(409, "Conflict");
        assert_eq!(refused.text("/message"), "Apply failed with 1 conflict: conflict with \"one\": .data.n");
        assert_eq!(refused.text("/details/causes/0/message"), "conflict with \"one\"");
    });
}

#[test]
fn force_takes_ownership() {
    on_a_server(async |t| {
        applied(&t, "one", json!({"n": "1", "m": "1"})).await.code(201);
        let forced = applied(&t, "two&force=true", json!({"n": "2"})).await.code(200);
        assert_eq!(forced.at("/data"), &json!({"n": "2", "m": "1"}));
        assert_eq!(forced.owned_by("one/Apply"), json!({"f:data": {"f:m": {}}}));
        assert_eq!(forced.owned_by("two/Apply"), json!({"f:data": {"f:n": {}}}));
    });
}

#[test]
fn a_field_dropped_by_its_last_owner_is_removed() {
    on_a_server(async |t| {
        applied(&t, "me", json!({"n": "1", "m": "1"})).await.code(201);
        let dropped = applied(&t, "me", json!({"n": "1"})).await.code(200);
        assert_eq!(dropped.at("/data"), &json!({"n": "1"}));
        // What an update has touched since belongs to it, too.
        t.merge(&t.path("configmaps/a?fieldManager=updater"), json!({"data": {"n": "2"}})).await.code(200);
        let kept = t
            .apply(
                &t.path("configmaps/a"),
                "me",
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}),
            )
            .await
            .code(200);
        assert_eq!(kept.at("/data"), &json!({"n": "2"}));
    });
}

#[test]
fn a_dropped_field_gets_its_default_back() {
    on_a_server(async |t| {
        let properties = json!({"color": {"type": "string", "default": "red"}, "size": {"type": "integer"}});
        let widgets = t.define(Definition::of_properties(properties)).await;
        let path = format!("{}/a", widgets.within(&t.namespace));
        let created = t.apply(&path, "me", widgets.object("a", json!({"size": 1}))).await.code(201);
        assert_eq!(created.at("/spec"), &json!({"size": 1, "color": "red"}));
        assert_eq!(created.owned_by("me/Apply"), json!({"f:spec": {"f:size": {}}}), "nobody owns a default");
        let set =
            t.apply(&path, "me", widgets.object("a", json!({"size": 1, "color": "blue"}))).await.code(200);
        assert_eq!(set.at("/spec/color"), "blue");
        let dropped = t.apply(&path, "me", widgets.object("a", json!({"size": 1}))).await.code(200);
        assert_eq!(dropped.at("/spec/color"), "red");
    });
}

#[test]
fn managers_are_told_apart_by_name_operation_version_and_subresource() {
    on_a_server(async |t| {
        let widgets = t.define(Definition::free_form().versions(&["v1", "v2"])).await;
        let (first, second) = (widgets.at("v1", &t.namespace), widgets.at("v2", &t.namespace));
        t.apply(&format!("{first}/a"), "me", widgets.object("a", json!({"n": 1}))).await.code(201);
        t.merge(&format!("{first}/a?fieldManager=me"), json!({"spec": {"m": 1}})).await.code(200);
        t.merge(&format!("{first}/a/status?fieldManager=me"), json!({"status": {"n": 1}})).await.code(200);
        t.merge(&format!("{second}/a?fieldManager=me"), json!({"spec": {"o": 1}})).await.code(200);
        let status = json!({"apiVersion": format!("{}/v1", widgets.group), "kind": "Widget", "metadata": {"name": "a"}, "status": {"m": 1}});
        let found = t.apply(&format!("{first}/a/status"), "me", status).await.code(200);
        let entries = found.at("/metadata/managedFields").as_array().expect("managers");
        let mut keys: Vec<String> = entries
            .iter()
            .map(|entry| {
                let version = entry["apiVersion"].as_str().unwrap().rsplit('/').next().unwrap();
                let subresource = entry["subresource"].as_str().unwrap_or("-");
                format!(
                    "{} {} {version} {subresource}",
                    entry["manager"].as_str().unwrap(),
                    entry["operation"].as_str().unwrap()
                )
            })
            .collect();
        keys.sort();
        assert_eq!(
            keys,
            [
                "me Apply v1 -",
                "me Apply v1 status",
                "me Update v1 -",
                "me Update v1 status",
                "me Update v2 -"
            ]
        );
    });
}

#[test]
fn an_apply_and_an_update_of_the_same_name_conflict() {
    on_a_server(async |t| {
        applied(&t, "me", json!({"n": "1"})).await.code(201);
        let updated =
            t.merge(&t.path("configmaps/a?fieldManager=me"), json!({"data": {"n": "2"}})).await.code(200);
        assert_eq!(updated.owned_by("me/Update"), json!({"f:data": {"f:n": {}}}));
        let refused = applied(&t, "me", json!({"n": "1"})).await.refused(409, "Conflict");
        assert!(
            refused.text("/details/causes/0/message").starts_with("conflict with \"me\" using v1"),
            "{}",
            refused.json
        );
    });
}

#[test]
fn more_than_ten_updating_managers_collapse() {
    on_a_server(async |t| {
        t.post(&t.path("configmaps?fieldManager=creator"), config_map("a", json!({"n": "1"})))
            .await
            .code(201);
        for index in 0..12 {
            let path = t.path(&format!("configmaps/a?fieldManager=m{index:02}"));
            t.merge(&path, json!({"data": {format!("k{index:02}"): "1"}})).await.code(200);
        }
        let found = t.get(&t.path("configmaps/a")).await;
        let names: Vec<String> = found.managers().into_iter().map(|(name, _)| name).collect();
        assert!(names.contains(&"ancient-changes/Update".to_owned()), "{names:?}");
        assert!(
            names.contains(&"m11/Update".to_owned()) && !names.contains(&"creator/Update".to_owned()),
            "{names:?}"
        );
        assert_eq!(names.len(), 10, "{names:?}");
    });
}

#[test]
fn without_a_manager_the_user_agent_up_to_its_slash_is_it() {
    on_a_server(async |t| {
        let headers = [("content-type", media::JSON), ("user-agent", "my-tool/1.2 (linux)")];
        let created = t
            .send(Method::POST, &t.path("configmaps"), &headers, config_map("a", json!({"n": "1"})))
            .await
            .code(201);
        assert_eq!(created.owned_by("my-tool/Update"), json!({"f:data": {".": {}, "f:n": {}}}));
    });
}

#[test]
fn lists_of_maps_are_merged_by_their_keys() {
    on_a_server(async |t| {
        let list = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "string"}}}});
        let widgets = t.define(Definition::of_properties(json!({"l": list}))).await;
        let path = format!("{}/a", widgets.within(&t.namespace));
        let apply = async |manager: &str, list: Value| {
            t.apply(&path, manager, widgets.object("a", json!({"l": list}))).await
        };
        apply("one", json!([{"k": "a", "v": "1"}])).await.code(201);
        let both = apply("two", json!([{"k": "b", "v": "2"}])).await.code(200);
        assert_eq!(both.at("/spec/l"), &json!([{"k": "a", "v": "1"}, {"k": "b", "v": "2"}]));
        assert_eq!(
            both.owned_by("two/Apply"),
            json!({"f:spec": {"f:l": {"k:{\"k\":\"b\"}": {".": {}, "f:k": {}, "f:v": {}}}}})
        );
        let refused = apply("two", json!([{"k": "a", "v": "9"}])).await.refused(409, "Conflict");
        assert_eq!(refused.causes(), [("FieldManagerConflict", ".spec.l[k=\"a\"].v")]);
        let left = apply("one", json!([])).await.code(200);
        assert_eq!(left.at("/spec/l"), &json!([{"k": "b", "v": "2"}]));
    });
}

#[test]
fn sets_are_united_and_atomic_lists_replaced() {
    on_a_server(async |t| {
        let strings = |kind: &str| json!({"type": "array", "x-kubernetes-list-type": kind, "items": {"type": "string"}});
        let plain = json!({"type": "array", "items": {"type": "string"}});
        let properties = json!({"set": strings("set"), "atomic": strings("atomic"), "plain": plain});
        let widgets = t.define(Definition::of_properties(properties)).await;
        let path = format!("{}/a", widgets.within(&t.namespace));
        let apply =
            async |manager: &str, spec: Value| t.apply(&path, manager, widgets.object("a", spec)).await;
        apply("one", json!({"set": ["a", "b"], "atomic": ["a"], "plain": ["a"]})).await.code(201);
        let united = apply("two", json!({"set": ["c", "b"]})).await.code(200);
        assert_eq!(united.at("/spec/set"), &json!(["a", "c", "b"]));
        apply("two", json!({"atomic": ["b"]}))
            .await
            .refused(409, "Conflict")
            .because("FieldManagerConflict", ".spec.atomic");
        apply("two", json!({"plain": ["b"]}))
            .await
            .refused(409, "Conflict")
            .because("FieldManagerConflict", ".spec.plain");
        let replaced = apply("two&force=true", json!({"atomic": ["b"]})).await.code(200);
        assert_eq!(replaced.at("/spec/atomic"), &json!(["b"]));
    });
}

#[test]
fn maps_are_granular_unless_they_are_atomic() {
    on_a_server(async |t| {
        let map = |atomic: bool| {
            let mut map = json!({"type": "object", "additionalProperties": {"type": "string"}});
            if atomic {
                map["x-kubernetes-map-type"] = json!("atomic");
            }
            map
        };
        let widgets =
            t.define(Definition::of_properties(json!({"atomic": map(true), "granular": map(false)}))).await;
        let path = format!("{}/a", widgets.within(&t.namespace));
        let apply =
            async |manager: &str, spec: Value| t.apply(&path, manager, widgets.object("a", spec)).await;
        apply("one", json!({"atomic": {"a": "1"}, "granular": {"a": "1"}})).await.code(201);
        apply("two", json!({"atomic": {"b": "1"}}))
            .await
            .refused(409, "Conflict")
            .because("FieldManagerConflict", ".spec.atomic");
        let merged = apply("two", json!({"granular": {"b": "1"}})).await.code(200);
        assert_eq!(merged.at("/spec/granular"), &json!({"a": "1", "b": "1"}));
    });
}

#[test]
fn an_apply_is_not_a_strategic_merge() {
    on_a_server(async |t| {
        let path = t.path("apps/v1/deployments/a");
        let with_containers = |names: &[&str]| {
            let mut deployment = deployment("a");
            let containers: Vec<Value> =
                names.iter().map(|name| json!({"name": name, "image": "image"})).collect();
            deployment["spec"]["template"]["spec"]["containers"] = json!(containers);
            deployment
        };
        t.apply(&path, "me", with_containers(&["x", "y"])).await.code(201);
        let one = t.apply(&path, "me", with_containers(&["y"])).await.code(200);
        assert_eq!(
            one.at("/spec/template/spec/containers").as_array().map(Vec::len),
            Some(1),
            "what is left out goes"
        );
        let directive = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
            "spec": {"template": {"spec": {"containers": [{"name": "y", "$patch": "delete"}]}}}});
        t.apply(&path, "me", directive).await.refused(500, "");
    });
}

#[test]
fn the_status_is_applied_but_never_created() {
    on_a_server(async |t| {
        let widgets = t.define(Definition::free_form()).await;
        let path = format!("{}/a/status", widgets.within(&t.namespace));
        let mut body = widgets.object("a", json!({}));
        body["status"] = json!({"n": 1});
        t.apply(&path, "me", &body).await.refused(404, "NotFound");
        t.post(&widgets.within(&t.namespace), widgets.object("a", json!({}))).await.code(201);
        assert_eq!(t.apply(&path, "me", &body).await.code(200).at("/status/n"), 1);
    });
}

#[test]
fn an_applied_empty_map_is_owned_and_conflicts() {
    on_a_server(async |t| {
        let created = applied(&t, "one", json!({})).await.code(201);
        assert_eq!(created.owned_by("one/Apply"), json!({"f:data": {}}));
        applied(&t, "two", json!({"n": "1"}))
            .await
            .refused(409, "Conflict")
            .because("FieldManagerConflict", ".data");
    });
}

#[test]
fn quantities_are_compared_as_text() {
    on_a_server(async |t| {
        let path = t.path("apps/v1/deployments/a");
        let with_cpu = |cpu: &str| {
            let mut deployment = deployment("a");
            deployment["spec"]["template"]["spec"]["containers"][0]["resources"] =
                json!({"limits": {"cpu": cpu}});
            deployment
        };
        t.apply(&path, "one", with_cpu("1")).await.code(201);
        t.apply(&path, "two", with_cpu("1000m")).await.refused(409, "Conflict");
        t.apply(&path, "two", with_cpu("1")).await.code(200);
    });
}

#[test]
fn what_existed_before_the_first_apply_belongs_to_a_manager_of_its_own() {
    on_a_server(async |t| {
        let path = t.path("configmaps/a");
        t.post(&t.path("configmaps"), config_map("a", json!({"n": "1"}))).await.code(201);
        let cleared = t.merge(&path, json!({"metadata": {"managedFields": [{}]}})).await.code(200);
        assert_eq!(cleared.at("/metadata/managedFields"), &Value::Null);
        let applied = applied(&t, "me", json!({"n": "1", "m": "1"})).await.code(200);
        assert_eq!(applied.owned_by("before-first-apply/Update"), json!({"f:data": {".": {}, "f:n": {}}}));
    });
}

#[test]
fn an_apply_as_a_dry_run_shows_the_conflict_and_stores_nothing() {
    on_a_server(async |t| {
        applied(&t, "one&dryRun=All", json!({"n": "1"})).await.code(201);
        t.get(&t.path("configmaps/a")).await.refused(404, "NotFound");
        applied(&t, "one", json!({"n": "1"})).await.code(201);
        applied(&t, "two&dryRun=All", json!({"n": "2"})).await.refused(409, "Conflict");
        assert_eq!(
            applied(&t, "two&dryRun=All&force=true", json!({"n": "2"})).await.code(200).at("/data/n"),
            "2"
        );
        assert_eq!(t.get(&t.path("configmaps/a")).await.at("/data/n"), "1");
    });
}

#[test]
fn what_managers_own_is_json_for_whoever_sees_or_changes_it() {
    on_a_server(async |t| {
        let (maps, path) = (t.path("configmaps?fieldManager=me"), t.path("configmaps/a?fieldManager=me"));
        let owned = json!({"f:data": {".": {}, "f:n": {}}});
        let (dry, dry_path) = (format!("{maps}&dryRun=All"), format!("{path}&dryRun=All"));
        let planned = t.post(&dry, config_map("a", json!({"n": "1"}))).await.code(201);
        assert_eq!(planned.owned_by("me/Update"), owned);
        let created = t.post(&maps, config_map("a", json!({"n": "1"}))).await.code(201);
        assert_eq!(created.owned_by("me/Update"), owned);
        let mut changed = created.json.clone();
        changed["data"]["n"] = "2".into();
        for reply in [t.put(&dry_path, &changed).await, t.merge(&dry_path, json!({"data": {"n": "2"}})).await]
        {
            assert_eq!(reply.code(200).owned_by("me/Update"), owned);
        }
        let yaml = t.get_as(&path, "application/yaml").await.code(200);
        assert!(yaml.body().contains("\n      f:data:\n        .: {}\n        f:n: {}\n"), "{}", yaml.body());
        let refused = t.merge(&path, json!({"data": 1})).await.refused(422, "Invalid");
        refused.saying(r#"\"fieldsV1\":{\"f:data\":{"#);

        let fields = "/metadata/managedFields/0/fieldsV1/f:data";
        let patch = json!([
            {"op": "test", "path": fields, "value": {".": {}, "f:n": {}}},
            {"op": "remove", "path": format!("{fields}/f:n")},
        ]);
        let patched = t.patch(&path, media::JSON_PATCH, patch).await.code(200);
        assert_eq!(patched.owned_by("me/Update"), json!({"f:data": {}}));
        let mut entries = patched.at("/metadata/managedFields").clone();
        entries[0]["fieldsV1"] = json!({"f:data": {"f:n": {}}});
        let merged = t.merge(&path, json!({"metadata": {"managedFields": entries}})).await.code(200);
        assert_eq!(merged.owned_by("me/Update"), json!({"f:data": {"f:n": {}}}));
        // A text is not what they own, even if it reads like it.
        entries[0]["fieldsV1"] = r#"{"f:data":{}}"#.into();
        let kept = t.merge(&path, json!({"metadata": {"managedFields": entries}})).await.code(200);
        assert_eq!(kept.owned_by("me/Update"), json!({"f:data": {"f:n": {}}}));
    });
}
