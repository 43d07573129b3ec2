//! Laws of sets of paths, their JSON form, and laws of applying.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::Server;
use crate::fields::{FieldSet, path::PathElement};

fn element() -> impl Strategy<Value = PathElement> {
    prop_oneof![
        4 => "[a-c]".prop_map(|name| PathElement::field(&name)),
        1 => "[a-b<&]".prop_map(|name| PathElement::Key([("k".into(), json!(name))].into())),
        1 => (0..3).prop_map(|n| PathElement::Key([("k".into(), json!(n)), ("l".into(), json!("x"))].into())),
        1 => prop_oneof![Just(json!(1)), Just(json!("1")), Just(json!(true)), Just(json!(1.5))]
            .prop_map(|value| PathElement::Value(Box::new(value))),
        1 => (0..3i64).prop_map(PathElement::Index),
    ]
}

type Paths = Vec<Vec<PathElement>>;

fn paths() -> impl Strategy<Value = Paths> {
    prop::collection::vec(prop::collection::vec(element(), 1..4), 0..12)
}

fn set(paths: &Paths) -> FieldSet {
    let mut set = FieldSet::default();
    for path in paths {
        set.insert(path.iter().cloned());
    }
    set
}

fn ports() -> impl Strategy<Value = Value> {
    prop::collection::btree_set((1..4u8, prop::bool::ANY), 1..4).prop_map(|ports| {
        ports
            .into_iter()
            .map(|(port, tcp)| {
                if tcp {
                    json!({"containerPort": port})
                } else {
                    json!({"containerPort": port, "protocol": "UDP"})
                }
            })
            .collect()
    })
}

fn parts() -> impl Strategy<Value = Value> {
    let texts = prop::collection::btree_map("[a-c]", "[12]", 1..4);
    let finalizers = prop::sample::subsequence(vec!["a", "b", "c", "d"], 1..=4).prop_shuffle();
    (texts, finalizers, ports(), prop::collection::vec("[12]", 1..3)).prop_map(
        |(data, finalizers, ports, list)| {
            json!({"data": data, "metadata": {"finalizers": finalizers},
                "spec": {"ports": ports, "anything": {"list": list, "map": {"x": list.len()}}}})
        },
    )
}

proptest! {
    #[test]
    fn a_set_survives_its_json_form(paths in paths()) {
        let set = set(&paths);
        let text = set.to_text();
        prop_assert_eq!(FieldSet::from_text(&text).unwrap(), set);
        // In the order in which all JSON is written here, so that equal sets are equal texts.
        prop_assert_eq!(serde_json::from_str::<Value>(&text).unwrap().to_string(), text);
    }

    #[test]
    fn sets_obey_their_laws(a in paths(), b in paths()) {
        let (set_a, set_b) = (set(&a), set(&b));
        let mut union = set_a.clone();
        union.union(set_b.clone());
        let mut other_way = set_b.clone();
        other_way.union(set_a.clone());
        prop_assert_eq!(&union, &other_way);
        let both = set_a.intersection(&set_b);
        prop_assert_eq!(&both, &set_b.intersection(&set_a));
        let mut only_a = set_a.clone();
        let changed = only_a.remove(&set_b);
        prop_assert_eq!(changed, !both.is_empty());
        let mut rest = set_a.clone();
        rest.remove_recursively(&set_b);
        for path in a.iter().chain(&b) {
            let (in_a, in_b) = (a.contains(path), b.contains(path));
            prop_assert!(union.has(path));
            prop_assert_eq!(both.has(path), in_a && in_b);
            prop_assert_eq!(only_a.has(path), in_a && !in_b);
            let covered = b.iter().any(|other| path.starts_with(other));
            prop_assert_eq!(rest.has(path), in_a && !covered);
        }
        prop_assert!(union.contains(&set_a) && union.contains(&set_b) && set_a.contains(&both));
        prop_assert_eq!(set_a.contains(&set_b), b.iter().all(|path| a.contains(path)));
        only_a.union(both);
        prop_assert_eq!(only_a, set_a);
    }

    #[test]
    fn applying_twice_is_applying_once(a in parts(), b in parts(), c in parts()) {
        let mut server = Server::new();
        server.apply("m1", &a, true).unwrap();
        server.update("u", &c);
        server.apply("m2", &b, true).unwrap();
        server.apply("m1", &a, true).unwrap();
        prop_assert!(!server.apply("m1", &a, false).unwrap());
    }

    #[test]
    fn what_is_applied_is_there_and_what_is_dropped_is_gone(a in parts(), b in parts()) {
        let mut server = Server::new();
        server.applies("m1", &a);
        server.applies("m1", &b);
        prop_assert_eq!(&server.live["data"], &b["data"]);
        prop_assert_eq!(&server.live["metadata"]["finalizers"], &b["metadata"]["finalizers"]);
        prop_assert_eq!(&server.live["spec"], &b["spec"]);
        server.applies("m1", &json!({}));
        prop_assert_eq!(server.live, json!({"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "x"}}));
    }
}

#[test]
fn fields_v1_is_written_as_kubernetes_writes_it() {
    let mut set = FieldSet::of(&[&["spec"], &["spec", "a.b/c"], &["metadata", "labels", "x"]]);
    let key = |value: Value| PathElement::Key([("name".into(), value), ("port".into(), json!(80))].into());
    set.insert([PathElement::field("l"), key(json!("a<b\"&")), PathElement::field("name")]);
    set.insert([PathElement::field("l"), PathElement::Value(Box::new(json!("v")))]);
    set.insert([PathElement::field("l"), PathElement::Index(3)]);
    assert_eq!(
        serde_json::from_str::<Value>(&set.to_text()).unwrap(),
        json!({
            "f:l": {
                "k:{\"name\":\"a\\u003cb\\\"\\u0026\",\"port\":80}": {"f:name": {}},
                "v:\"v\"": {}, "i:3": {},
            },
            "f:metadata": {"f:labels": {"f:x": {}}},
            "f:spec": {".": {}, "f:a.b/c": {}},
        })
    );
    assert_eq!(
        set.to_string(),
        ".spec\n.l[=\"v\"]\n.l[3]\n.l[name=\"a<b\\\"&\",port=80].name\n.metadata.labels.x\n.spec.a.b/c"
    );
}

#[test]
fn steps_of_kinds_unknown_are_left_out() {
    let set = FieldSet::from_text(r#"{"f:a": {"z:new": {}, "f:b": {}}, "q:x": {"f:c": {}}}"#).unwrap();
    assert_eq!(set, FieldSet::of(&[&["a", "b"]]));
}
