//! Random sequences of applies and updates with the answers of Kubernetes' own field manager
//! (`apimachinery/pkg/util/managedfields` over structured-merge-diff v6), replayed here step by step.

use std::cell::RefCell;

use serde_json::{Value, json};

use super::schema;
use crate::{
    fields::{FieldManager, ResetFields, Versions, folded::unfold},
    schema::SchemaRef,
};

/// A schema that changes while objects exist.
struct Changing<'a>(&'a RefCell<SchemaRef>);

impl Versions for Changing<'_> {
    fn schema(&self, api_version: &str) -> Option<SchemaRef> {
        (api_version == "g.io/v1").then(|| self.0.borrow().clone())
    }
}

/// Only whether an entry has a time is recorded.
fn without_times(mut object: Value) -> Value {
    unfold(&mut object);
    let entries = object.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut);
    for entry in entries.into_iter().flatten() {
        if let Some(time) = entry.get_mut("time") {
            *time = Value::Bool(true);
        }
    }
    object
}

fn replay(openapi: &Value, scenario: &Value) {
    let name = &scenario["name"];
    let current = RefCell::new(SchemaRef::new(schema(openapi)));
    let empty = json!({"apiVersion": "g.io/v1", "kind": "Foo"});
    let versions = Changing(&current);
    let manager = FieldManager {
        versions: &versions,
        api_version: "g.io/v1",
        kind: "Foo",
        subresource: "",
        reset: &ResetFields::None,
        empty: &empty,
        now: jiff::Timestamp::UNIX_EPOCH,
    };
    let mut live = empty.clone();
    let steps = scenario["ops"].as_array().unwrap().iter().zip(scenario["results"].as_array().unwrap());
    for (place, (step, expected)) in steps.enumerate() {
        if step["op"] == "schema" {
            current.replace(SchemaRef::new(schema(&step["object"])));
            continue;
        }
        let by = step["manager"].as_str().unwrap();
        let error = expected.get("error").and_then(Value::as_str);
        if step["op"] == "apply" {
            let force = step.get("force") == Some(&Value::Bool(true));
            match manager.apply(&live, &step["object"], by, force) {
                Ok(result) => {
                    assert_eq!(error, None, "{name}, step {place}: should have failed");
                    live = result.unwrap_or(live);
                }
                Err(found) => {
                    assert_eq!(found.code, expected["code"], "{name}, step {place}: {found}");
                    let several = error.is_some_and(|error| error.contains("errors:\n"));
                    if !several {
                        assert_eq!(Some(found.message.as_str()), error, "{name}, step {place}");
                    }
                    continue;
                }
            }
        } else {
            let mut new = step["object"].clone();
            manager.update(&live, &mut new, by);
            if error.is_some() {
                assert_eq!(new.pointer("/metadata/managedFields"), None, "{name}, step {place}");
                continue;
            }
            live = new;
        }
        let found = without_times(live.clone());
        assert!(
            found == expected["object"],
            "{name}, step {place} ({step}):\nexpected {}\nfound    {found}",
            expected["object"]
        );
    }
}

#[test]
fn ownership_follows_writes_as_in_kubernetes() {
    let mut lines =
        include_str!("replay.jsonl").lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let openapi = lines.next().unwrap();
    let mut replayed = 0;
    for scenario in lines {
        replay(&openapi["schema"], &scenario);
        replayed += 1;
    }
    assert!(replayed > 50);
}
