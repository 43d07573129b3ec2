//! What one version of an object has and another one has no place for: found, written down, and put back. JSON in, JSON
//! out; no type is known here. As in Kubernetes, a field that is null is a field that is not there.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What is carried from version to version as it is, and so is never lost.
const CARRIED: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Everything that a conversion lost or changed.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Kept(Vec<Difference>);

/// One place at which an object was something, and the way to another version and back made something else of it.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Difference {
    at: Vec<Step>,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    was: Value,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    made: Value,
}

/// From an object to a field of it, or from a list to an item.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Step {
    Field(String),
    /// The item of this name, and where in the list it was.
    Named {
        name: String,
        index: usize,
    },
    /// The item at this place in a list of so many.
    Item {
        index: usize,
        of: usize,
    },
}

impl Kept {
    /// What of `was` is missing or different in `made`, and what is only there.
    pub(super) fn of(was: &Value, made: &Value) -> Self {
        let mut kept = Self::default();
        kept.compare(was, made, &mut Vec::new());
        kept.0.retain(|difference| !difference.is_carried());
        kept
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The places, as people write them.
    pub(super) fn places(&self) -> Vec<String> {
        self.0.iter().map(|difference| difference.at.iter().map(ToString::to_string).collect()).collect()
    }

    /// Puts everything back, apart from what is no longer as the conversion had made it: somebody changed that since.
    pub(super) fn put_back(self, object: &mut Value) {
        for Difference { at, was, made } in self.0.into_iter().filter(|difference| !difference.is_carried()) {
            put_back(object, &at, was, &made);
        }
    }

    fn compare(&mut self, was: &Value, made: &Value, at: &mut Vec<Step>) {
        let parts = match (was, made) {
            (Value::Object(was), Value::Object(made)) => {
                let added = made.iter().filter(|(field, _)| !was.contains_key(*field));
                let fields = was.iter().map(|(field, value)| (field, value, made.get(field)));
                let part = |field: &String, was, made: Option<_>| {
                    (Step::Field(field.clone()), was, made.unwrap_or(&Value::Null))
                };
                let fields = fields.map(|(field, was, made)| part(field, was, made));
                Some(fields.chain(added.map(|(field, made)| part(field, &Value::Null, Some(made)))).collect())
            }
            (Value::Array(was), Value::Array(made)) => pairs(was, made),
            _ => None,
        };
        let Some(parts) = parts else {
            if !same(was, made) {
                self.0.push(Difference { at: at.clone(), was: was.clone(), made: made.clone() });
            }
            return;
        };
        for (step, was, made) in parts {
            at.push(step);
            self.compare(was, made, at);
            at.pop();
        }
    }
}

impl Difference {
    fn is_carried(&self) -> bool {
        matches!(self.at.first(), Some(Step::Field(field)) if CARRIED.contains(&field.as_str()))
    }
}

/// Which items of two lists are the same one: those of the same name, if all have one and none is new or moved; those at
/// the same place, if the lists are equally long. Otherwise the lists only compare as a whole.
fn pairs<'a>(was: &'a [Value], made: &'a [Value]) -> Option<Vec<(Step, &'a Value, &'a Value)>> {
    if let (Some(names), Some(left)) = (names(was), names(made)) {
        let mut made = left.iter().zip(made).peekable();
        let mut pairs = Vec::new();
        for (index, (name, was)) in names.iter().zip(was).enumerate() {
            let made = made.next_if(|(left, _)| *left == name).map_or(&Value::Null, |(_, item)| item);
            pairs.push((Step::Named { name: (*name).to_owned(), index }, was, made));
        }
        if made.peek().is_none() {
            return Some(pairs);
        }
    }
    let of = was.len();
    let item = |(index, (was, made))| (Step::Item { index, of }, was, made);
    (made.len() == of).then(|| was.iter().zip(made).enumerate().map(item).collect())
}

/// The names of all items, if each has one that no other has.
fn names(items: &[Value]) -> Option<Vec<&str>> {
    let names: Vec<&str> =
        items.iter().map(|item| item.get("name").and_then(Value::as_str)).collect::<Option<_>>()?;
    let are_unique = names.iter().enumerate().all(|(at, name)| !names[..at].contains(name));
    are_unique.then_some(names)
}

fn put_back(value: &mut Value, at: &[Step], was: Value, made: &Value) {
    let Some((step, rest)) = at.split_first() else {
        if same(value, made) {
            *value = was;
        }
        return;
    };
    match (step, value) {
        (Step::Field(field), Value::Object(fields)) => {
            let mut inner = fields.remove(field).unwrap_or_default();
            put_back(&mut inner, rest, was, made);
            if !inner.is_null() {
                fields.insert(field.clone(), inner);
            }
        }
        (Step::Item { index, of }, Value::Array(items)) if items.len() == *of && index < of => {
            put_back(&mut items[*index], rest, was, made);
        }
        (Step::Named { name, index }, Value::Array(items)) => {
            let Some(names) = names(items) else { return };
            match names.iter().position(|other| other == name) {
                Some(at) => put_back(&mut items[at], rest, was, made),
                None if rest.is_empty() && made.is_null() => items.insert(items.len().min(*index), was),
                None => {}
            }
        }
        // What it was part of is gone.
        _ => {}
    }
}

/// What was written, and what reading it as its type has filled in.
pub(super) fn completed(written: &Value, read: Value) -> Value {
    match (written, read) {
        (Value::Null, read) => read,
        (Value::Object(written), Value::Object(mut read)) => {
            for (field, value) in written {
                let inner = read.remove(field).unwrap_or_default();
                read.insert(field.clone(), completed(value, inner));
            }
            Value::Object(read)
        }
        (Value::Array(written), Value::Array(read)) if written.len() == read.len() => {
            written.iter().zip(read).map(|(written, read)| completed(written, read)).collect()
        }
        (written, _) => written.clone(),
    }
}

/// Whether two values mean the same: `1` is `1.0`, and a field that is null is none.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let covers = |one: &serde_json::Map<_, _>, other: &serde_json::Map<_, _>| {
                one.iter().all(|(field, value)| same(value, other.get(field).unwrap_or(&Value::Null)))
            };
            covers(one, other) && covers(other, one)
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Number(one), Value::Number(other)) if one.is_f64() != other.is_f64() => {
            one.as_f64() == other.as_f64()
        }
        _ => one == other,
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(field) => write!(f, ".{field}"),
            Self::Named { name, .. } => write!(f, "[{name}]"),
            Self::Item { index, .. } => write!(f, "[{index}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Keeps what is different between the first two, and puts it back into the third.
    fn put_back_into(was: &Value, made: &Value, mut now: Value) -> Value {
        let written = serde_json::to_string(&Kept::of(was, made)).unwrap();
        serde_json::from_str::<Kept>(&written).unwrap().put_back(&mut now);
        now
    }

    #[test]
    fn what_was_lost_or_changed_or_added_is_as_it_was() {
        for (was, made) in [
            (json!({"size": 3, "note": "x"}), json!({"size": 3})),
            (json!({"millis": 1500}), json!({"millis": 1000})),
            (json!({"size": 3}), json!({"size": 3, "mode": "fast"})),
            (json!({"tls": {"key": "k", "extra": {"deep": true}}}), json!({"tls": {"key": "k"}})),
            (json!({"tls": {"key": "k"}}), json!({"tls": null})),
            (json!({"list": [1, 2, 3]}), json!({"list": [1, 3]})),
            (json!({"list": [1, 2, 3]}), json!({"list": [3, 2, 1]})),
            (json!({"list": [{"port": 1, "extra": 1}]}), json!({"list": [{"port": 1}]})),
            (json!({"list": []}), json!({"list": [1]})),
            (json!({"list": [[1], [2, 3]]}), json!({"list": [[1], [2]]})),
            (json!({"list": [{"name": "a"}, {"name": "b"}]}), json!({"list": [{"name": "b"}]})),
            (
                json!({"list": [{"name": "a"}, {"name": "b", "x": 1}, {"name": "c"}]}),
                json!({"list": [{"name": "b"}]}),
            ),
            (
                json!({"list": [{"name": "a", "x": 1}, {"name": "b"}]}),
                json!({"list": [{"name": "b"}, {"name": "a"}]}),
            ),
            (json!({"list": [{"name": "a"}]}), json!({"list": [{"name": "a"}, {"name": "b"}]})),
            (
                json!({"list": [{"name": "a", "x": 1}, {"name": "a"}]}),
                json!({"list": [{"name": "a"}, {"name": "a"}]}),
            ),
        ] {
            assert_eq!(put_back_into(&was, &made, made.clone()), was, "{made}");
        }
    }

    #[test]
    fn what_means_what_it_meant_was_not_changed() {
        let (was, made) = (json!({"ratio": 1.5, "tls": {"key": "k"}}), json!({"ratio": 1.0, "tls": [{}]}));
        let now = json!({"ratio": 1, "tls": [{"key": null}]});
        assert_eq!(put_back_into(&was, &made, now), was);
    }

    #[test]
    fn what_somebody_changed_since_wins() {
        for (was, made, now, expected) in [
            (
                json!({"millis": 1500, "note": "x"}),
                json!({"millis": 1000}),
                json!({"millis": 2000}),
                json!({"millis": 2000, "note": "x"}),
            ),
            (json!({"size": 3}), json!({"size": 3, "mode": 1}), json!({"mode": 2}), json!({"mode": 2})),
            (json!({"tls": {"key": "k", "x": 1}}), json!({"tls": {"key": "k"}}), json!({}), json!({})),
            (json!({"list": [1, 2, 3]}), json!({"list": [1, 3]}), json!({"list": [3]}), json!({"list": [3]})),
            (
                json!({"list": [{"port": 1, "x": 1}]}),
                json!({"list": [{"port": 1}]}),
                json!({"list": [{"port": 1}, {"port": 2}]}),
                json!({"list": [{"port": 1}, {"port": 2}]}),
            ),
        ] {
            assert_eq!(put_back_into(&was, &made, now.clone()), expected, "{now}");
        }
    }

    #[test]
    fn items_with_names_are_found_wherever_they_are() {
        let was =
            json!({"list": [{"name": "a", "x": 1}, {"name": "b", "x": 2}, {"name": "c"}, {"name": "d"}]});
        let made = json!({"list": [{"name": "a"}, {"name": "b"}, {"name": "d"}]});
        let now = json!({"list": [{"name": "new"}, {"name": "b"}, {"name": "d"}]});
        let expected =
            json!({"list": [{"name": "new"}, {"name": "b", "x": 2}, {"name": "c"}, {"name": "d"}]});
        assert_eq!(put_back_into(&was, &made, now), expected);
    }

    #[test]
    fn what_means_the_same_is_not_kept() {
        let was = json!({"ratio": 1, "none": null, "apiVersion": "v1", "metadata": {"name": "a"}});
        let made = json!({"ratio": 1.0, "other": null, "apiVersion": "v2"});
        assert_eq!(Kept::of(&was, &made), Kept::default());
    }

    #[test]
    fn what_a_type_fills_in_is_not_lost_by_a_conversion() {
        let written = json!({"size": 3, "unknown": 1, "list": [{"port": 1}]});
        let read = json!({"size": 3, "image": "i", "list": [{"port": 1, "protocol": "TCP"}]});
        assert_eq!(
            completed(&written, read),
            json!({"size": 3, "unknown": 1, "image": "i", "list": [{"port": 1, "protocol": "TCP"}]})
        );
    }

    #[test]
    fn nothing_that_is_carried_can_be_put_into_an_annotation_by_hand() {
        let forged = r#"[{"at": ["metadata", "name"], "was": "b", "made": "a"}]"#;
        let mut object = json!({"metadata": {"name": "a"}});
        serde_json::from_str::<Kept>(forged).unwrap().put_back(&mut object);
        assert_eq!(object, json!({"metadata": {"name": "a"}}));
    }
}
