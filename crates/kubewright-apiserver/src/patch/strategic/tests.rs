use serde_json::json;

use super::*;
use crate::schema::{Field, SchemaRef};

fn text() -> SchemaRef {
    SchemaRef::new(Schema::scalar(Type::String))
}

fn list(items: SchemaRef) -> SchemaRef {
    SchemaRef::new(Schema { items: Some(items), ..Schema::scalar(Type::Array) })
}

fn structure(name: &'static str, fields: Vec<(&str, SchemaRef, Merge)>) -> SchemaRef {
    let properties = fields
        .into_iter()
        .map(|(name, schema, merge)| (name.to_owned(), Field { schema, merge, ..Field::default() }));
    SchemaRef::new(Schema {
        name: Some(name),
        properties: properties.collect(),
        ..Schema::scalar(Type::Object)
    })
}

fn by(key: &str) -> Merge {
    Merge { merge: true, key: Some(key.to_owned()), retain_keys: false }
}

/// A kind with lists of every sort.
fn schema() -> SchemaRef {
    let plain = Merge::default;
    let set = || Merge { merge: true, ..Merge::default() };
    let port = structure("v1.Port", vec![("port", SchemaRef::new(Schema::scalar(Type::Integer)), plain())]);
    let item = structure(
        "v1.Item",
        vec![
            ("name", text(), plain()),
            ("value", text(), plain()),
            ("other", text(), plain()),
            ("args", list(text()), plain()),
            ("ports", list(port), by("port")),
        ],
    );
    let labels = SchemaRef::new(Schema { values: Some(text()), ..Schema::scalar(Type::Object) });
    let nested = SchemaRef::new(Schema { values: Some(item.clone()), ..Schema::scalar(Type::Object) });
    structure(
        "v1.Thing",
        vec![
            ("items", list(item.clone()), by("name")),
            ("broken", list(item.clone()), set()),
            ("names", list(text()), set()),
            ("args", list(text()), plain()),
            ("labels", labels, plain()),
            ("nested", nested, plain()),
            ("one", item, plain()),
        ],
    )
}

fn run(object: Value, patch: &Value) -> Result<Value, (u16, String)> {
    let mut object = object;
    apply(&mut object, patch.clone(), &schema()).map_err(|error| (error.code, error.message))?;
    Ok(object)
}

fn items(names: &[&str]) -> Value {
    names.iter().map(|name| json!({"name": name})).collect()
}

fn live() -> Value {
    json!({"items": [{"name": "a", "value": "1", "args": ["x"]}, {"name": "b"}], "names": ["p", "q"], "args": ["1", "2"],
        "labels": {"k": "v", "l": "w"}, "one": {"name": "n", "value": "1"}})
}

#[test]
fn patches_merge_field_by_field() {
    for (patch, field, expected) in [
        (
            json!({"items": [{"name": "b", "value": "2"}]}),
            "items",
            json!([{"name": "a", "value": "1", "args": ["x"]}, {"name": "b", "value": "2"}]),
        ),
        (
            json!({"items": [{"name": "z"}]}),
            "items",
            json!([{"name": "z"}, {"name": "a", "value": "1", "args": ["x"]}, {"name": "b"}]),
        ),
        (json!({"items": [{"name": "a", "$patch": "delete"}]}), "items", items(&["b"])),
        (json!({"items": [{"name": "a", "$patch": "replace"}]}), "items", json!([])),
        (json!({"items": [{"name": "q"}, {"$patch": "replace"}]}), "items", items(&["q"])),
        (
            json!({"items": [{"name": "a", "args": ["y"], "value": null}]}),
            "items",
            json!([{"name": "a", "args": ["y"]}, {"name": "b"}]),
        ),
        (
            json!({"items": [{"name": "b", "ports": [{"port": 1}]}]}),
            "items",
            json!([{"name": "a", "value": "1", "args": ["x"]}, {"name": "b", "ports": [{"port": 1}]}]),
        ),
        (
            json!({"items": [{"name": "b", "$retainKeys": ["name", "other"], "other": "o"}]}),
            "items",
            json!([{"name": "a", "value": "1", "args": ["x"]}, {"name": "b", "other": "o"}]),
        ),
        (json!({"items": null}), "items", json!(null)),
        (json!({"names": ["r", "p"]}), "names", json!(["r", "p", "q"])),
        (json!({"$deleteFromPrimitiveList/names": ["p", "zz"]}), "names", json!(["q"])),
        (json!({"$setElementOrder/names": ["q", "p"]}), "names", json!(["q", "p"])),
        (json!({"$setElementOrder/names": ["n", "q"], "names": ["n"]}), "names", json!(["n", "p", "q"])),
        (json!({"args": ["9"]}), "args", json!(["9"])),
        (json!({"labels": {"k": null, "m": "n"}}), "labels", json!({"l": "w", "m": "n"})),
        (json!({"labels": {"$patch": "replace", "m": "n"}}), "labels", json!({"m": "n"})),
        (json!({"labels": {"$patch": "delete"}}), "labels", json!({})),
        (json!({"one": {"$retainKeys": ["value"], "value": "2"}}), "one", json!({"value": "2"})),
        (
            json!({"nested": {"a": {"value": null, "name": "n", "args": [{"$patch": "delete"}]}}}),
            "nested",
            json!({"a": {"name": "n", "args": []}}),
        ),
        (json!({"nested": {"$patch": "delete"}}), "nested", json!(null)),
        (json!({"one": "text"}), "one", json!("text")),
    ] {
        let result = run(live(), &patch).unwrap();
        assert_eq!(result.get(field).unwrap_or(&Value::Null), &expected, "{patch}");
        for (other, value) in live().as_object().unwrap() {
            assert!(other == field || result.get(other) == Some(value), "{patch} touched {other}");
        }
    }
}

#[test]
fn the_order_of_the_patch_is_kept_and_the_servers_fills_in() {
    let object = json!({"items": items(&["a", "b", "c", "d"])});
    for (order, added, expected) in [
        (vec!["n", "b", "a"], vec!["n"], vec!["n", "b", "a", "c", "d"]),
        (vec!["d", "a"], vec![], vec!["b", "c", "d", "a"]),
        (vec!["a", "x", "d"], vec!["x"], vec!["a", "x", "b", "c", "d"]),
    ] {
        let patch = json!({"$setElementOrder/items": items(&order), "items": items(&added)});
        assert_eq!(run(object.clone(), &patch).unwrap()["items"], items(&expected), "{patch}");
    }
}

#[test]
fn an_item_that_replaces_a_deleted_one_comes_after_those_that_stay() {
    let object = json!({"items": items(&["b", "c", "d"])});
    let patch = json!({"$setElementOrder/items": items(&["a", "b"]), "items": [{"name": "b", "$patch": "delete"}, {"name": "a"}]});
    assert_eq!(run(object, &patch).unwrap()["items"], items(&["c", "d", "a"]));
}

#[test]
fn a_patch_that_can_not_be_applied_is_refused_with_the_code_of_the_server() {
    let bad = |patch: Value| run(live(), &patch).unwrap_err();
    let other = |why: &str| (500, why.to_owned());
    assert_eq!(
        bad(json!({"items": [{"image": "zz"}]})),
        other("map: map[image:zz] does not contain declared merge key: name")
    );
    assert_eq!(
        bad(json!({"items": [{"$patch": "delete"}]})),
        other("map: map[$patch:delete] does not contain declared merge key: name")
    );
    assert_eq!(
        bad(json!({"one": {"$patch": "zork"}})),
        other("unknown patch type: zork in map: map[$patch:zork]")
    );
    assert_eq!(
        bad(json!({"items": [{"name": "a", "$patch": "merge"}]})),
        other("merging lists cannot yet be specified in the patch")
    );
    assert_eq!(
        bad(json!({"items": ["x"]})),
        other("list element types are not identical: [[map[args:[x] name:a value:1] map[name:b]] [x]]")
    );
    assert_eq!(bad(json!({"names": [["x"]]})), other("list element types are not identical: [[p q] [[x]]]"));
    assert_eq!(
        bad(json!({"one": {"$retainKeys": "x"}})),
        (400, "invalid patch format of retainKeys".to_owned())
    );
    assert_eq!(
        bad(json!({"one": {"$retainKeys": ["name"], "value": "2"}})),
        (400, "invalid patch format of retainKeys".to_owned())
    );
    assert_eq!(
        bad(json!({"$deleteFromPrimitiveList": ["p"]})),
        (400, "invalid patch format of primitive list".to_owned())
    );
    assert_eq!(
        bad(json!({"$setElementOrder/names": ["p"], "names": ["x"]})),
        other("The order in patch list:\n[x]\n doesn't match $setElementOrder list:\n[p]\n")
    );
    assert_eq!(
        bad(json!({"$setElementOrder/names": "p"})),
        other("expected a []interface {}, but received a string")
    );
    let two = |patch: Value| {
        run(json!({"zork": {"a": {}}, "nested": {"a": {"name": "n"}}, "broken": [{"name": "a"}]}), &patch)
            .unwrap_err()
    };
    assert_eq!(
        two(json!({"zork": {}})),
        other("unable to find api field in struct Thing for the json field \"zork\"")
    );
    assert_eq!(
        two(json!({"nested": {"a": {"name": "m"}}})),
        other("merging an object in json but data type is not struct, instead is: map")
    );
    assert_eq!(
        two(json!({"broken": [{"name": "b"}]})),
        other("cannot merge lists without merge key for struct")
    );
}

#[test]
fn a_body_that_is_no_object_is_refused() {
    for (body, why) in [
        ("[]", "json: cannot unmarshal array into Go value of type map[string]interface {}"),
        ("{", "unexpected end of JSON input"),
    ] {
        let error = read(body.as_bytes()).unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (400, why));
    }
}
