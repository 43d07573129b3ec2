//! Server-side apply: conflicts, shared ownership, dropping fields, versions, and its refusals.

use serde_json::{Value, json};

use super::{Server, kind};
use crate::schema::SchemaRef;

#[test]
fn a_change_of_what_another_manager_owns_is_a_conflict_with_its_name_and_path() {
    let mut server = Server::new();
    server.applies("m1", &json!({"data": {"a": "1"}}));
    let error = server.apply("m2", &json!({"data": {"a": "2"}}), false).unwrap_err();
    let expected = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Conflict",
        "code": 409,
        "message": "Apply failed with 1 conflict: conflict with \"m1\": .data.a",
        "details": {"causes": [
            {"reason": "FieldManagerConflict", "message": "conflict with \"m1\"", "field": ".data.a"}
        ]},
    });
    assert_eq!(error.to_status(), expected);
}

#[test]
fn many_conflicts_are_listed_manager_by_manager() {
    let mut server = Server::new();
    server.update("upd", &json!({"data": {"c": "1"}}));
    server.applies("m1", &json!({"data": {"a": "1", "b": "1"}, "metadata": {"labels": {"l": "1"}}}));
    let parts = json!({"data": {"a": "9", "b": "9", "c": "9"}, "metadata": {"labels": {"l": "2"}}});
    let error = server.apply("m2", &parts, false).unwrap_err();
    assert_eq!(
        error.message,
        "Apply failed with 4 conflicts: conflicts with \"m1\":\n- .data.a\n- .data.b\n- .metadata.labels.l\n\
         conflicts with \"upd\" using v1:\n- .data.c"
    );
}

#[test]
fn a_conflict_with_a_subresource_names_it() {
    let mut server = Server::new();
    server.applies("m1", &json!({"spec": {"replicas": 1}}));
    server.subresource = "scale";
    server.update("hpa", &json!({"spec": {"replicas": 3}}));
    server.subresource = "";
    let error = server.apply("m1", &json!({"spec": {"replicas": 1}}), false).unwrap_err();
    assert_eq!(
        error.message,
        "Apply failed with 1 conflict: conflict with \"hpa\" with subresource \"scale\" using v1: .spec.replicas"
    );
}

#[test]
fn paths_through_lists_show_their_keys() {
    let mut server = Server::new();
    let ports = |name: &str| json!({"spec": {"ports": [{"containerPort": 80, "name": name}]}});
    server.applies("m1", &ports("http"));
    let error = server.apply("m2", &ports("web"), false).unwrap_err();
    let field = &error.details.unwrap().causes[0].field;
    assert_eq!(field, ".spec.ports[containerPort=80,protocol=\"TCP\"].name");
}

#[test]
fn force_takes_fields_and_equal_values_are_shared() {
    let mut server = Server::new();
    server.applies("m1", &json!({"data": {"a": "1", "b": "1"}}));
    server.apply("m2", &json!({"data": {"a": "2", "b": "1"}}), true).unwrap();
    assert_eq!(
        server.owners(),
        json!({"m1/Apply": {"f:data": {"f:b": {}}}, "m2/Apply": {"f:data": {"f:a": {}, "f:b": {}}}})
    );
    assert_eq!(server.live["data"], json!({"a": "2", "b": "1"}));
}

#[test]
fn a_dropped_field_is_removed_with_its_last_owner() {
    let mut server = Server::new();
    server.applies("m1", &json!({"data": {"a": "1", "b": "1"}}));
    server.applies("m2", &json!({"data": {"a": "1"}}));
    server.applies("m1", &json!({"data": {"b": "1"}}));
    assert_eq!(server.live["data"], json!({"a": "1", "b": "1"}), "m2 still owns it");
    server.applies("m2", &json!({}));
    assert_eq!(server.live["data"], json!({"b": "1"}));
    assert_eq!(server.owners(), json!({"m1/Apply": {"f:data": {"f:b": {}}}}));
}

#[test]
fn a_dropped_field_that_an_update_owns_too_stays() {
    let mut server = Server::new();
    server.applies("m1", &json!({"data": {"a": "1"}}));
    server.update("u", &json!({"data": {"a": "2"}}));
    server.applies("m1", &json!({}));
    assert_eq!(server.live["data"], json!({"a": "2"}));
}

#[test]
fn a_dropped_list_item_goes_with_the_fields_nobody_owns() {
    let mut server = Server::new();
    server.applies("m1", &json!({"spec": {"ports": [{"containerPort": 80}, {"containerPort": 81}]}}));
    server.live["spec"]["ports"][0]["protocol"] = "TCP".into(); // as defaulting does
    server.applies("m1", &json!({"spec": {"ports": [{"containerPort": 81}]}}));
    assert_eq!(server.live["spec"]["ports"], json!([{"containerPort": 81}]));
}

#[test]
fn an_applied_empty_map_is_a_leaf_that_appliers_fight_over() {
    let mut server = Server::new();
    server.applies("m1", &json!({"spec": {"anything": {}}}));
    assert_eq!(server.owners(), json!({"m1/Apply": {"f:spec": {"f:anything": {}}}}));
    let error = server.apply("m2", &json!({"spec": {"anything": 5}}), false).unwrap_err();
    assert_eq!(error.message, "Apply failed with 1 conflict: conflict with \"m1\": .spec.anything");
}

#[test]
fn merged_lists_keep_the_order_of_the_applied_one() {
    let names = |names: &[&str]| -> Value {
        let list: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        json!({"spec": {"containers": list}})
    };
    let mut server = Server::new();
    server.applies("m1", &names(&["a", "b"]));
    server.applies("m2", &names(&["z", "b", "y"]));
    let order: Vec<&str> = server.live["spec"]["containers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|container| container["name"].as_str().unwrap())
        .collect();
    assert_eq!(order, ["a", "z", "b", "y"]);
}

#[test]
fn applying_the_same_again_changes_nothing_at_all() {
    let mut server = Server::new();
    let parts =
        json!({"data": {"a": "1"}, "spec": {"ports": [{"containerPort": 80}], "selector": {"a": "b"}}});
    assert!(server.apply("m1", &parts, false).unwrap());
    let before = server.live.clone();
    assert!(!server.apply("m1", &parts, false).unwrap());
    assert_eq!(server.live, before);
}

#[test]
fn a_new_owner_of_an_unchanged_object_gets_no_time() {
    let mut server = Server::new();
    server.applies("m1", &json!({"data": {"a": "1"}}));
    assert!(server.apply("m2", &json!({"data": {"a": "1"}}), false).unwrap());
    assert_eq!(server.times(), json!({"m1": "1970-01-01T00:00:01Z", "m2": null}));
}

#[test]
fn what_was_there_before_the_first_apply_gets_a_manager_of_its_own() {
    let mut server = Server::new();
    server.update("creator", &json!({"data": {"a": "1", "b": "1"}}));
    server.update("u", &json!({"data": {"a": "1", "b": "1"}, "metadata": {"managedFields": [{}]}}));
    assert_eq!(server.owners(), json!({}));
    let error = server.apply("m1", &json!({"data": {"a": "2"}}), false).unwrap_err();
    assert_eq!(
        error.message,
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .data.a"
    );
    server.applies("m1", &json!({"data": {"a": "1", "c": "1"}}));
    assert_eq!(
        server.owners(),
        json!({
            "before-first-apply/Update": {"f:data": {".": {}, "f:a": {}, "f:b": {}}},
            "m1/Apply": {"f:data": {"f:a": {}, "f:c": {}}},
        })
    );
}

#[test]
fn an_apply_of_something_else_is_a_bad_request() {
    let mut server = Server::new();
    let mut refusal = |config: Value| {
        let error = server.request(|fields, live| fields.apply(live, &config, "m", false)).unwrap_err();
        (error.code, error.message)
    };
    for (config, message) in [
        (json!({"apiVersion": "v2", "kind": "Thing"}), "invalid object type: /v2, Kind=Thing"),
        (json!({"apiVersion": "g/v1", "kind": "Thing"}), "invalid object type: g/v1, Kind=Thing"),
        (json!({"apiVersion": "v1", "kind": "Other"}), "invalid object type: /v1, Kind=Other"),
        (json!({"apiVersion": "a/b/c", "kind": "Thing"}), "invalid object type: /, Kind="),
        (json!({}), "invalid object type: /, Kind="),
        (
            json!({"apiVersion": "v1", "kind": "Thing", "metadata": {"managedFields": []}}),
            "metadata.managedFields must be nil",
        ),
    ] {
        assert_eq!(refusal(config), (400, message.to_owned()));
    }
}

#[test]
fn a_configuration_that_does_not_fit_the_schema_fails_with_the_words_of_kubernetes() {
    let mut server = Server::new();
    for (parts, problem) in [
        (json!({"spec": {"x": 1}}), ".spec.x: field not declared in schema"),
        (json!({"data": {"a": 1}}), ".data.a: expected string, got &value.valueUnstructured{Value:1}"),
        (json!({"data": ["a"]}), ".data: expected map, got &{[a]}"),
        (json!({"spec": {"replicas": "1"}}), ".spec.replicas: expected numeric (int or float), got string"),
        (json!({"spec": {"ports": {"a": 1}}}), ".spec.ports: expected list, got &{map[a:1]}"),
        (
            json!({"spec": {"ports": [{"containerPort": 1}, {"containerPort": 1, "protocol": "TCP"}]}}),
            ".spec.ports: duplicate entries for key [containerPort=1,protocol=\"TCP\"]",
        ),
        (
            json!({"spec": {"containers": [{"image": "i"}]}}),
            ".spec.containers: element 0: associative list with keys has an element that omits all key fields \
             [\"name\"] (and doesn't have default values for any key fields)",
        ),
        (
            json!({"metadata": {"finalizers": ["a", {}]}}),
            ".metadata.finalizers: element 1: associative list without keys has an element that's a map type",
        ),
        (
            json!({"data": {"a": {"b": [1, null, "c"]}}}),
            ".data.a: expected string, got &value.valueUnstructured{Value:map[string]interface {}\
             {\"b\":[]interface {}{1, interface {}(nil), \"c\"}}}",
        ),
        (
            json!({"data": {"a": 1, "b": true}}),
            "errors:\n  .data.a: expected string, got &value.valueUnstructured{Value:1}\n  .data.b: expected \
             string, got &value.valueUnstructured{Value:true}",
        ),
    ] {
        let error = server.apply("m", &parts, true).unwrap_err();
        let message = format!("failed to create typed patch object (/x; /v1, Kind=Thing): {problem}");
        assert_eq!((error.code, error.reason, error.message), (500, "", message));
    }
}

fn in_two_versions() -> Server {
    let mut server = Server::new();
    server.versions.insert("v2", SchemaRef::new(kind()));
    server
}

#[test]
fn managers_of_different_versions_see_each_other() {
    let mut server = in_two_versions();
    server.applies("m1", &json!({"data": {"a": "1", "b": "1"}}));
    server.api_version = "v2";
    server.live["apiVersion"] = "v2".into();
    let error = server.apply("m2", &json!({"data": {"b": "2"}}), false).unwrap_err();
    assert_eq!(error.message, "Apply failed with 1 conflict: conflict with \"m1\": .data.b");
    server.applies("m2", &json!({"data": {"a": "1"}}));
    server.applies("m1", &json!({"data": {"a": "1"}}));
    assert_eq!(server.live["data"], json!({"a": "1"}), "dropped in another version than applied in");
    let versions: Vec<&Value> = server.live["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| &entry["apiVersion"])
        .collect();
    assert_eq!(versions, ["v2", "v2"], "an applier has one entry, whatever the version");
}

#[test]
fn entries_of_a_version_that_is_gone_are_dropped() {
    let mut server = in_two_versions();
    server.applies("m1", &json!({"data": {"a": "1"}}));
    server.versions.remove("v1");
    server.api_version = "v2";
    server.live["apiVersion"] = "v2".into();
    server.applies("m2", &json!({"data": {"a": "2"}}));
    assert_eq!(server.owners(), json!({"m2/Apply": {"f:data": {"f:a": {}}}}));
}

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

fn applied_by_a_client() -> Server {
    let mut server = Server::new();
    let config =
        json!({"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "x"}, "data": {"a": "1", "b": "1"}});
    let annotation = json!({"annotations": {LAST_APPLIED: config.to_string()}});
    server
        .update("kubectl-client-side-apply", &json!({"metadata": annotation, "data": {"a": "1", "b": "1"}}));
    server
}

#[test]
fn kubectl_takes_over_what_it_applied_as_a_client() {
    let mut server = applied_by_a_client();
    server.applies("kubectl", &json!({"data": {"a": "2"}}));
    assert_eq!(server.live["data"], json!({"a": "2", "b": "1"}));
    assert_eq!(
        server.live["metadata"]["annotations"][LAST_APPLIED],
        "{\"apiVersion\":\"v1\",\"data\":{\"a\":\"2\"},\"kind\":\"Thing\",\"metadata\":{\"name\":\"x\"}}\n"
    );
    let error = applied_by_a_client().apply("other", &json!({"data": {"a": "2"}}), false).unwrap_err();
    assert_eq!(error.code, 409, "only kubectl itself may");
}

#[test]
fn kubectl_does_not_take_over_what_others_changed_since() {
    let mut server = applied_by_a_client();
    let annotations = server.live["metadata"]["annotations"].clone();
    server.update("u", &json!({"metadata": {"annotations": annotations}, "data": {"a": "9", "b": "1"}}));
    let error = server.apply("kubectl", &json!({"data": {"a": "2", "b": "2"}}), false).unwrap_err();
    assert_eq!(error.message, "Apply failed with 1 conflict: conflict with \"u\" using v1: .data.a");
}
