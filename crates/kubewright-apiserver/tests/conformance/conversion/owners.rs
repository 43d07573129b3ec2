//! Who owns which field when it is called otherwise in another version.

use serde_json::{Value, json};

use super::gates::Gates;
use crate::harness::over_the_network;

#[test]
fn fields_that_are_owned_in_another_version_change_hands() {
    over_the_network(async |t| {
        let gates = Gates::defined(&t).await;
        let (v1, v2) = (gates.one(&t, "v1", "a"), gates.one(&t, "v2", "a"));
        let owned = |fields: &[&str]| {
            let fields = fields.iter().map(|field| (format!("f:{field}"), json!({})));
            json!({"f:spec": fields.collect::<serde_json::Map<_, _>>()})
        };
        let applied = t.apply(&v1, "one", gates.v1("a", "x", "1")).await.code(201);
        assert_eq!(applied.owned_by("one/Apply"), owned(&["host", "port"]));
        // Another value of what the first owns, though it is called otherwise here.
        let conflict = t.apply(&v2, "two", gates.v2("a", "y:1")).await.refused(409, "Conflict");
        assert_eq!(
            conflict.text("/message"),
            "Apply failed with 1 conflict: conflict with \"one\": .spec.host"
        );
        assert_eq!(conflict.causes(), [("FieldManagerConflict", ".spec.host")]);
        let shared = t.apply(&v2, "two", gates.v2("a", "x:1")).await.code(200);
        assert_eq!(shared.owned_by("one/Apply"), owned(&["host", "port"]));
        assert_eq!(shared.owned_by("two/Apply"), owned(&["hostPort"]));
        // One field of the other version is left.
        let taken = t.merge(&v2, json!({"spec": {"hostPort": "x:2"}})).await.code(200);
        assert_eq!(taken.owned_by("one/Apply"), owned(&["host"]));
        assert_eq!(taken.owned_by("two/Apply"), Value::Null);
        assert_eq!(taken.owned_by("conformance/Update"), owned(&["hostPort"]));
        let forced = t.apply(&v1, "three&force=true", gates.v1("a", "z", "3")).await.code(200);
        assert_eq!(forced.managers().len(), 1);
        assert_eq!(forced.owned_by("three/Apply"), owned(&["host", "port"]));
    });
}

#[test]
fn an_applier_may_go_on_in_another_version() {
    over_the_network(async |t| {
        let gates = Gates::defined(&t).await;
        let (v1, v2) = (gates.one(&t, "v1", "a"), gates.one(&t, "v2", "a"));
        let mut first = gates.v1("a", "x", "1");
        first["spec"]["note"] = json!("short");
        t.apply(&v1, "one", first).await.code(201);
        let moved = t.apply(&v2, "one", gates.v2("a", "x:1")).await.code(200);
        // What is no longer applied goes, whatever version it was applied in.
        assert_eq!(moved.at("/spec"), &json!({"hostPort": "x:1"}));
        assert_eq!(moved.managers(), [("one/Apply".to_owned(), json!({"f:spec": {"f:hostPort": {}}}))]);
        let changed = t.apply(&v2, "one", gates.v2("a", "y:1")).await.code(200);
        assert_eq!(changed.at("/metadata/generation"), 3);
    });
}

#[test]
fn owners_are_forgotten_where_a_version_can_not_be_compared() {
    over_the_network(async |t| {
        let gates = Gates::defined(&t).await;
        t.apply(&gates.one(&t, "v1", "a"), "one", gates.v1("a", "x", "1")).await.code(201);
        gates.keep_in(&t, "v2").await;
        // Not declared in v1.
        gates.trouble("", json!({"merge": {"spec": {"unknown": 1}}}));
        let path = gates.one(&t, "v2", "a");
        let changed = t.merge(&path, json!({"spec": {"hostPort": "y:1"}})).await.code(200);
        assert_eq!(changed.at("/spec/hostPort"), "y:1");
        assert_eq!(changed.managers(), []);
    });
}
