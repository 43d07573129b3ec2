//! Writes other than apply: what they take from managers, and what becomes of the entries.

use serde_json::{Value, json};

use super::{Server, kind};
use crate::{
    fields::{
        FieldSet, Match, ResetFields, check_managed_fields, empty_object, folded::fold,
        keep_times_of_unchanged, manager_of_user_agent,
    },
    schema::{Field, Schema, SchemaRef},
};

#[test]
fn a_create_owns_every_field_but_the_identity() {
    let mut server = Server::new();
    server.update(
        "kubectl",
        &json!({
            "metadata": {"namespace": "n", "labels": {"l": "1"}},
            "spec": {"ports": [{"containerPort": 80, "protocol": "TCP"}], "selector": {"a": "b"}},
        }),
    );
    assert_eq!(
        server.live["metadata"]["managedFields"],
        json!([{
            "manager": "kubectl", "operation": "Update", "apiVersion": "v1", "time": "1970-01-01T00:00:01Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:metadata": {"f:labels": {".": {}, "f:l": {}}},
                "f:spec": {
                    ".": {},
                    "f:ports": {".": {}, "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {
                        ".": {}, "f:containerPort": {}, "f:protocol": {},
                    }},
                    "f:selector": {},
                },
            },
        }])
    );
}

#[test]
fn the_creator_of_a_built_in_object_does_not_own_what_is_always_there() {
    let mut schema = kind();
    let field = |schema: Schema| Field { schema: SchemaRef::new(schema), ..Field::default() };
    let pointer = |schema: Schema| Field { pointer: true, omit_empty: true, ..field(schema) };
    let mut spec: Schema = (*schema.properties["spec"].schema).clone();
    for (name, part) in &mut spec.properties {
        part.omit_empty = name != "containers";
    }
    spec.properties.insert("security".to_owned(), pointer(kind()));
    schema.properties.insert("spec".to_owned(), field(spec));
    for name in ["data", "status"] {
        schema.properties.get_mut(name).unwrap().omit_empty = true;
    }
    let mut metadata: Schema = (*schema.properties["metadata"].schema).clone();
    metadata.properties.values_mut().for_each(|part| part.omit_empty = true);
    schema.properties.insert("metadata".to_owned(), field(metadata));

    let mut server = Server::new();
    server.live = empty_object(&schema, "v1", "Thing");
    assert_eq!(
        server.live,
        json!({"apiVersion": "v1", "kind": "Thing", "metadata": {}, "spec": {"containers": null}})
    );
    server.versions.insert("v1", SchemaRef::new(schema));
    let container = json!({"name": "c", "resources": {}});
    server.update("u", &json!({"spec": {"containers": [container], "security": {}, "selector": {}}}));
    assert_eq!(
        server.owners(),
        json!({"u/Update": {"f:spec": {
            "f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:name": {}, "f:resources": {}}},
            "f:security": {}, "f:selector": {},
        }}})
    );
}

#[test]
fn an_update_takes_what_it_changes_and_forgets_what_it_removes() {
    let mut server = Server::new();
    server.applies("m1", &json!({"data": {"a": "1", "b": "1", "c": "1"}}));
    server.update("u", &json!({"data": {"a": "2", "c": "1"}}));
    assert_eq!(
        server.owners(),
        json!({"m1/Apply": {"f:data": {"f:c": {}}}, "u/Update": {"f:data": {"f:a": {}}}})
    );
}

#[test]
fn only_a_manager_that_takes_something_gets_a_new_time() {
    let mut server = Server::new();
    server.update("u1", &json!({"data": {"a": "1", "b": "1"}}));
    server.update("u2", &json!({"data": {"a": "1", "b": "2"}}));
    server.update("u1", &json!({"data": {"b": "2"}})); // only removes
    assert_eq!(server.times(), json!({"u1": "1970-01-01T00:00:01Z", "u2": "1970-01-01T00:00:02Z"}));
    server.update("u1", &json!({"data": {"b": "3"}}));
    assert_eq!(server.times(), json!({"u1": "1970-01-01T00:00:04Z"}), "a manager without fields is gone");
}

#[test]
fn an_update_that_changes_nothing_leaves_the_entries_as_they_are() {
    let mut server = Server::new();
    server.applies("m1", &json!({"data": {"a": "1"}}));
    server.update("u", &json!({"data": {"a": "1", "b": "1"}}));
    let entries = server.live["metadata"]["managedFields"].clone();
    server.update("other", &json!({"data": {"a": "1", "b": "1"}, "metadata": {"managedFields": entries}}));
    assert_eq!(server.live["metadata"]["managedFields"], entries);
}

#[test]
fn entries_are_ordered_by_operation_then_time_then_manager() {
    let mut server = Server::new();
    server.update("z", &json!({"data": {"a": "1"}}));
    server.update("b", &json!({"data": {"a": "1", "b": "1"}}));
    server.applies("m2", &json!({"data": {"c": "1"}}));
    server.applies("m1", &json!({"data": {"d": "1"}}));
    let managers: Vec<&str> = server.live["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["manager"].as_str().unwrap())
        .collect();
    assert_eq!(managers, ["m2", "m1", "z", "b"]);
}

#[test]
fn the_eleventh_updater_sends_the_oldest_two_to_ancient_changes() {
    let mut server = Server::new();
    let mut data = json!({});
    for number in 0..13 {
        data[format!("k{number}")] = "1".into();
        server.update(&format!("u{number}"), &json!({"data": data}));
    }
    server.applies("applier", &json!({"data": {"k12": "1"}}));
    let owners = server.owners();
    let owners = owners.as_object().unwrap();
    assert_eq!(owners.len(), 11, "ten updaters and an applier: {owners:?}");
    assert_eq!(
        owners["ancient-changes/Update"],
        json!({"f:data": {".": {}, "f:k0": {}, "f:k1": {}, "f:k2": {}, "f:k3": {}}})
    );
    assert_eq!(server.times()["ancient-changes"], "1970-01-01T00:00:04Z", "the newest of what it holds");
    assert!(owners.contains_key("u4/Update"));
}

#[test]
fn a_request_may_reset_the_entries_and_they_stay_away_until_the_next_apply() {
    for reset in [json!([]), json!([{}])] {
        let mut server = Server::new();
        server.update("u", &json!({"data": {"a": "1"}}));
        server.update("u", &json!({"data": {"a": "2"}, "metadata": {"managedFields": reset}}));
        assert_eq!(server.live["metadata"].get("managedFields"), None);
        server.update("u", &json!({"data": {"a": "3"}}));
        assert_eq!(server.live["metadata"].get("managedFields"), None);
    }
}

#[test]
fn entries_that_make_no_sense_are_passed_over_for_the_live_ones() {
    let entry = |part: &str, value: Value| {
        let mut entry = json!({"manager": "evil", "operation": "Update", "apiVersion": "v1",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {}}});
        entry[part] = value;
        json!([entry])
    };
    for (managed, why) in [
        (entry("operation", json!("Zork")), "operation must be `Apply` or `Update`"),
        (entry("apiVersion", json!("")), "apiVersion must not be empty"),
        (entry("fieldsType", json!("")), "missing fieldsType in managed fields entry 0"),
        (entry("fieldsType", json!("Zork")), "invalid fieldsType \"Zork\" in managed fields entry 0"),
        (entry("fieldsV1", json!({"x": {}})), "key must be 2 characters long:"),
        (entry("fieldsV1", json!({"k:5": {}})), "expected a JSON object of keys"),
        (entry("fieldsV1", json!({"v:{": {}})), "EOF"),
        (entry("fieldsV1", json!("text")), "expected a JSON object of fields"),
    ] {
        let mut object = json!({"metadata": {"managedFields": managed}});
        fold(&mut object);
        let problem = check_managed_fields(&object).unwrap_err();
        assert!(problem.contains(why), "{problem}");
        let mut server = Server::new();
        server.update("u", &json!({"data": {"a": "1"}}));
        server.update("u", &json!({"data": {"a": "1"}, "metadata": {"managedFields": managed}}));
        assert_eq!(server.owners(), json!({"u/Update": {"f:data": {".": {}, "f:a": {}}}}));
    }
}

#[test]
fn entries_of_a_request_count_except_through_a_subresource() {
    let managed = json!([{"manager": "moved", "operation": "Apply", "apiVersion": "v1",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:a": {}}}, "time": "2024-05-01T02:00:00+02:00"}]);
    let mut server = Server::new();
    server.update("u", &json!({"data": {"a": "1"}}));
    let mut other = Server::new();
    other.live = server.live.clone();
    server.update("u", &json!({"data": {"a": "1"}, "metadata": {"managedFields": managed}}));
    assert_eq!(server.owners(), json!({"moved/Apply": {"f:data": {"f:a": {}}}}));
    assert_eq!(server.times(), json!({"moved": "2024-05-01T00:00:00Z"}));
    other.subresource = "status";
    other.update("u", &json!({"data": {"a": "1"}, "metadata": {"managedFields": managed}}));
    assert_eq!(other.owners(), json!({"u/Update": {"f:data": {".": {}, "f:a": {}}}}));
}

#[test]
fn what_a_request_can_not_change_it_does_not_own() {
    let mut server = Server::new();
    server.reset = ResetFields::Except(FieldSet::of(&[&["status"]]));
    let parts = json!({"data": {"a": "1"}, "status": {"deep": {"er": 1}}});
    server.update("u", &parts);
    server.applies("m", &parts);
    assert_eq!(
        server.owners(),
        json!({"u/Update": {"f:data": {".": {}, "f:a": {}}}, "m/Apply": {"f:data": {"f:a": {}}}})
    );
}

#[test]
fn a_subresource_may_own_only_some_fields() {
    let mut server = Server::new();
    server.subresource = "resize";
    server.reset = ResetFields::Only(vec![vec![
        Match::Field("spec"),
        Match::Field("containers"),
        Match::Any,
        Match::Field("resources"),
    ]]);
    server.applies(
        "m",
        &json!({"data": {"a": "1"}, "spec": {"replicas": 1, "containers": [
            {"name": "c", "image": "i", "resources": {"cpu": "1"}}
        ]}}),
    );
    assert_eq!(
        server.owners(),
        json!({"m/Apply/resize": {"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {
            ".": {}, "f:resources": {"f:cpu": {}},
        }}}}})
    );
}

#[test]
fn an_object_that_does_not_fit_its_schema_has_no_managers() {
    let mut server = Server::new();
    server.update("u", &json!({"data": {"a": "1"}}));
    server.update("u", &json!({"data": {"a": 1}}));
    assert_eq!(server.live["metadata"].get("managedFields"), None);
}

#[test]
fn times_alone_are_no_change() {
    let entry = |time: &str, field: &str| {
        json!({"metadata": {"name": "x", "managedFields": [
            {"manager": "m", "operation": "Apply", "time": time, "fieldsV1": {field: {}}}
        ]}, "data": {}})
    };
    let old = entry("2024-01-01T00:00:00Z", "f:a");
    let mut new = entry("2025-01-01T00:00:00Z", "f:a");
    keep_times_of_unchanged(&old, &mut new);
    assert_eq!(new, old);

    let mut other_field = entry("2025-01-01T00:00:00Z", "f:b");
    let mut other_data = entry("2025-01-01T00:00:00Z", "f:a");
    other_data["data"]["a"] = 1.into();
    let mut untimed = entry("2025-01-01T00:00:00Z", "f:a");
    untimed["metadata"]["managedFields"][0]["subresource"] = "status".into();
    for changed in [&mut other_field, &mut other_data, &mut untimed] {
        let before = changed.clone();
        keep_times_of_unchanged(&old, changed);
        assert_eq!(*changed, before);
    }
}

#[test]
fn a_user_agent_names_a_manager() {
    for (user_agent, manager) in [
        ("kubectl/v1.36 (linux/amd64)", "kubectl"),
        ("plain", "plain"),
        ("", ""),
        ("a\tb\u{7f}c d/1", "abc d"),
    ] {
        assert_eq!(manager_of_user_agent(user_agent), manager);
    }
    assert_eq!(manager_of_user_agent(&"ä".repeat(100)), "ä".repeat(64));
}
