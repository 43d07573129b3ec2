//! What a defaulter has changed, as a JSON patch of the object as it was sent. A type may know less of an object than
//! its sender: what it doesn't know stays.

use serde_json::{Map, Value, json};

/// The operations that make `sent` what it would be if `before` had become `after`, where `before` is all that the
/// type understood of it.
pub(super) fn patch(sent: &Value, before: &Value, after: &Value) -> Vec<Value> {
    let mut operations = Vec::new();
    walk(&mut String::new(), sent, before, after, &mut operations);
    operations
}

fn walk(path: &mut String, sent: &Value, before: &Value, after: &Value, operations: &mut Vec<Value>) {
    if before == after {
        return;
    }
    match (sent, before, after) {
        (Value::Object(sent), Value::Object(before), Value::Object(after)) => {
            fields(path, sent, before, after, operations);
        }
        (Value::Array(sent), Value::Array(before), Value::Array(after))
            if sent.len() == before.len() && before.len() == after.len() =>
        {
            for (at, ((sent, before), after)) in sent.iter().zip(before).zip(after).enumerate() {
                within(path, &at.to_string(), |path| walk(path, sent, before, after, operations));
            }
        }
        _ => operations.push(json!({"op": "replace", "path": path, "value": carried(sent, before, after)})),
    }
}

fn fields(
    path: &mut String,
    sent: &Map<String, Value>,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    operations: &mut Vec<Value>,
) {
    for name in before.keys().filter(|name| !after.contains_key(*name) && sent.contains_key(*name)) {
        within(path, name, |path| operations.push(json!({"op": "remove", "path": path})));
    }
    for (name, after) in after {
        let before = before.get(name).unwrap_or(&Value::Null);
        within(path, name, |path| match sent.get(name) {
            Some(sent) => walk(path, sent, before, after, operations),
            // The type has filled it in by itself, or the defaulter has.
            None if before != after => operations.push(json!({"op": "add", "path": path, "value": after})),
            None => {}
        });
    }
}

/// A list whose length has changed: items that stayed what they were keep what only their sender knows of them.
fn carried(sent: &Value, before: &Value, after: &Value) -> Value {
    let (Value::Array(sent), Value::Array(before), Value::Array(after)) = (sent, before, after) else {
        return after.clone();
    };
    if sent.len() != before.len() {
        return json!(after);
    }
    let as_sent = |item: &Value| {
        let at = before.iter().position(|before| before == item);
        at.map_or_else(|| item.clone(), |at| sent[at].clone())
    };
    after.iter().map(as_sent).collect()
}

fn within(path: &mut String, name: &str, then: impl FnOnce(&mut String)) {
    let length = path.len();
    path.push('/');
    path.push_str(&name.replace('~', "~0").replace('/', "~1"));
    then(path);
    path.truncate(length);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_type_does_not_know_stays() {
        let sent =
            json!({"spec": {"size": 1, "new": true, "items": [{"name": "a", "new": 1}, {"name": "b"}]}});
        let before = json!({"spec": {"size": 1, "items": [{"name": "a"}, {"name": "b"}], "image": null}});
        let after = json!({"spec": {"size": 2, "items": [{"name": "a"}, {"name": "c"}], "image": "x"}});
        assert_eq!(
            patch(&sent, &before, &after),
            [
                json!({"op": "add", "path": "/spec/image", "value": "x"}),
                json!({"op": "replace", "path": "/spec/items/1/name", "value": "c"}),
                json!({"op": "replace", "path": "/spec/size", "value": 2}),
            ]
        );
    }

    #[test]
    fn an_item_that_stays_keeps_what_only_its_sender_knows() {
        let sent = json!({"items": [{"name": "a", "new": 1}]});
        let before = json!({"items": [{"name": "a"}]});
        let after = json!({"items": [{"name": "z"}, {"name": "a"}]});
        assert_eq!(
            patch(&sent, &before, &after),
            [json!({"op": "replace", "path": "/items", "value": [{"name": "z"}, {"name": "a", "new": 1}]})]
        );
    }

    #[test]
    fn what_goes_is_removed_and_names_are_escaped() {
        let sent = json!({"metadata": {"annotations": {"a/b~c": "1", "kept": "2"}}});
        let after = json!({"metadata": {"annotations": {"kept": "2"}}});
        assert_eq!(
            patch(&sent, &sent, &after),
            [json!({"op": "remove", "path": "/metadata/annotations/a~1b~0c"})]
        );
        assert!(patch(&sent, &sent, &sent).is_empty());
    }

    #[test]
    fn what_the_type_fills_in_by_itself_is_not_sent() {
        let (sent, typed) = (json!({"spec": {}}), json!({"spec": {"size": 1}, "status": null}));
        assert!(patch(&sent, &typed, &typed).is_empty());
    }
}
