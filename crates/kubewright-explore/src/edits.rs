//! What may be changed in a spec, by its schema: values, optional fields, entries of lists, sizes, images.

use serde_json::{Map, Value, json};

use crate::scenario::{NEVER_READY, Step};

/// The step in which something is changed, and the label that the resource has only there.
const CHANGE: &str = "change";
const LABEL: &str = "explored.kubewright.dev/label";

/// How deep an example goes.
const DEPTH: usize = 4;
/// How many fields an example has that needs none.
const SOME: usize = 3;
/// How many names are tried for one that is not taken.
const TRIES: usize = 10;

/// What may be changed in a spec, as far as its schema says.
#[derive(Default)]
pub(crate) struct Edits {
    changes: Vec<Edit>,
    drops: Vec<Edit>,
    scales: Vec<Edit>,
    breaks: Vec<Edit>,
}

impl Edits {
    pub(crate) fn of(spec: &Value, schema: &Value) -> Self {
        let mut edits = Self::default();
        edits.look(spec, schema, &mut String::new());
        edits
    }

    /// Every change of the spec by itself.
    pub(crate) fn all(self, spec: &Value) -> Vec<Value> {
        let Self { changes, drops, scales, breaks } = self;
        [changes, drops, scales, breaks].iter().flatten().filter_map(|edit| edit.of(spec)).collect()
    }

    /// A scenario in which all changes of a sort are made together, but for those that are not allowed with the ones
    /// before. What grows comes last, as it often may not shrink again.
    pub(crate) async fn steps(self, sample: &Value, allows: impl AsyncFn(&Value) -> bool) -> Vec<Step> {
        let Self { changes, drops, scales, breaks } = self;
        let mut steps = vec![Step::apply("create", sample.clone())];
        for (name, edits) in [(CHANGE, changes), ("without", drops), ("scale", scales), ("break", breaks)] {
            let mut spec = sample.clone();
            for edit in edits {
                if let Some(edited) = edit.of(&spec)
                    && allows(&edited).await
                {
                    spec = edited;
                }
            }
            if spec != *sample {
                let step = Step::apply(name, spec);
                steps.push(if name == CHANGE { step.labelled(LABEL, "added") } else { step });
            }
        }
        if steps.len() > 1 {
            steps.push(Step::apply("undo", sample.clone()));
        }
        steps.push(Step::delete("delete"));
        steps.push(Step::apply("recreate", sample.clone()));
        steps.push(Step::delete("delete again"));
        steps
    }

    /// Finds what of a value can be changed.
    fn look(&mut self, value: &Value, schema: &Value, at: &mut String) {
        let field = at.rsplit('/').next().unwrap_or_default().to_lowercase();
        if is_let_be(&field) {
            // Who is named need not be named any more.
            if names_another(&field) && value.as_array().is_some_and(|entries| !entries.is_empty()) {
                self.drops.push(Edit::drop(format!("{at}/0")));
            }
            return;
        }
        match value {
            Value::Bool(on) => self.changes.push(Edit::set(at.clone(), json!(!on))),
            Value::Number(number) => {
                if let Some(next) = number.as_i64().map(|number| next(number, schema)) {
                    let is_size = ["replicas", "size", "count", "instances", "nodes", "members"];
                    let into = match is_size.iter().any(|name| field.contains(name)) {
                        true => &mut self.scales,
                        false => &mut self.changes,
                    };
                    into.push(Edit::set(at.clone(), json!(next)));
                }
            }
            Value::String(text) => {
                if field.contains("image") {
                    self.breaks.push(Edit::set(at.clone(), json!(NEVER_READY)));
                }
                if let Some(others) = schema["enum"].as_array() {
                    let other = others.iter().find(|one| *one != value);
                    self.changes.extend(other.map(|one| Edit::set(at.clone(), one.clone())));
                } else if let Some(more) = larger(text) {
                    self.scales.push(Edit::set(at.clone(), json!(more)));
                } else {
                    self.changes.push(Edit::set(at.clone(), json!(format!("{text}x"))));
                }
            }
            Value::Object(fields) => self.look_at_fields(fields, schema, &[], at),
            Value::Array(entries) => self.look_at_entries(entries, schema, at),
            Value::Null => {}
        }
    }

    /// Finds what of an object can be changed, but for some of its fields.
    fn look_at_fields(
        &mut self,
        fields: &Map<String, Value>,
        schema: &Value,
        kept: &[&String],
        at: &mut String,
    ) {
        let properties = schema["properties"].as_object();
        let others = &schema["additionalProperties"];
        let is_required = |name: &String| {
            schema["required"].as_array().is_some_and(|required| required.iter().any(|one| one == name))
        };
        let is_property = |name: &String| properties.is_some_and(|properties| properties.contains_key(name));
        for (name, value) in fields.iter().filter(|(name, _)| !kept.contains(name)) {
            let of = properties.and_then(|properties| properties.get(name)).unwrap_or(others);
            let length = at.len();
            at.push_str(&segment(name));
            // The whole before its parts, which are only dropped where it is not.
            if is_property(name) && !is_required(name) && !is_kept(&name.to_lowercase()) {
                self.drops.push(Edit::drop(at.clone()));
            }
            self.look(value, of, at);
            at.truncate(length);
        }
        if others.is_object() {
            let entries = || fields.iter().filter(|(name, _)| !is_property(name));
            self.drops.extend(entries().next().map(|(name, _)| Edit::drop(format!("{at}{}", segment(name)))));
            let values: Vec<&Value> = entries().map(|(_, value)| value).collect();
            let added = match others["type"] == "string" && others["enum"].is_null() {
                true => Some(json!("yes")),
                false => another(&values, others, &[]).or_else(|| values.last().copied().cloned()),
            };
            let added = added.filter(|_| !fields.contains_key("added"));
            self.changes.extend(added.map(|added| Edit::set(format!("{at}/added"), added)));
        }
        let is_open = |(name, _): &(&String, &Value)| {
            let field = name.to_lowercase();
            !fields.contains_key(*name) && !is_let_be(&field)
        };
        for (name, schema) in properties.into_iter().flatten().filter(is_open) {
            if let Some(value) = example(schema, DEPTH) {
                self.changes.push(Edit::set(format!("{at}{}", segment(name)), value));
            }
        }
    }

    /// Finds what of a list can be changed: not what its entries are told apart by, but how many there are.
    fn look_at_entries(&mut self, entries: &[Value], schema: &Value, at: &mut String) {
        let items = &schema["items"];
        if !items.is_object() {
            return;
        }
        let keys: Vec<&str> = schema["x-kubernetes-list-map-keys"]
            .as_array()
            .into_iter()
            .flatten()
            .flat_map(Value::as_str)
            .collect();
        for (index, entry) in entries.iter().enumerate() {
            if let Some(fields) = entry.as_object() {
                let length = at.len();
                at.push_str(&format!("/{index}"));
                self.look_at_fields(fields, items, &identity(fields, &keys), at);
                at.truncate(length);
            }
        }
        let added = another(&entries.iter().collect::<Vec<_>>(), items, &keys);
        self.changes.extend(added.map(|added| Edit::set(format!("{at}/-"), added)));
        // The first, as it is the last one that comes and goes; after its parts, as the others move up.
        if !entries.is_empty() {
            self.drops.push(Edit::drop(format!("{at}/0")));
        }
    }
}

/// One change of a spec.
#[derive(Debug, Clone, PartialEq)]
struct Edit {
    /// Where, as a JSON pointer; `-` is after the last entry of a list.
    at: String,
    /// What is there then, if anything.
    value: Option<Value>,
}

impl Edit {
    fn set(at: String, value: Value) -> Self {
        Self { at, value: Some(value) }
    }

    fn drop(at: String) -> Self {
        Self { at, value: None }
    }

    /// A copy of a spec with this change, if it has the place.
    fn of(&self, spec: &Value) -> Option<Value> {
        let mut spec = spec.clone();
        let (parent, field) = self.at.rsplit_once('/')?;
        match (spec.pointer_mut(parent)?, &self.value) {
            (Value::Object(fields), value) => {
                let field = field.replace("~1", "/").replace("~0", "~");
                match value {
                    Some(value) => drop(fields.insert(field, value.clone())),
                    None => drop(fields.remove(&field)?),
                }
            }
            (Value::Array(entries), Some(value)) => entries.push(value.clone()),
            (Value::Array(entries), None) => {
                let index = field.parse().ok().filter(|index| *index < entries.len())?;
                entries.remove(index);
            }
            _ => return None,
        }
        Some(spec)
    }
}

/// A field, as a part of a JSON pointer.
fn segment(field: &str) -> String {
    format!("/{}", field.replace('~', "~0").replace('/', "~1"))
}

/// The fields by which an entry of a list is told from the others.
fn identity<'f>(entry: &'f Map<String, Value>, keys: &[&str]) -> Vec<&'f String> {
    let of_names = ["name", "id", "key", "user", "host", "domain", "path", "port"];
    let is_plain = |(name, value): &(&String, &Value)| {
        (value.is_string() || value.is_i64()) && !names_another(&name.to_lowercase())
    };
    let is_name = |(name, _): &(&'f String, &Value)| {
        let field = name.to_lowercase();
        keys.contains(&name.as_str()) || of_names.iter().any(|one| field.ends_with(one))
    };
    let plain = || entry.iter().filter(is_plain);
    let names: Vec<&String> = plain().filter(is_name).map(|(name, _)| name).collect();
    if !names.is_empty() {
        return names;
    }
    // Without a name, it is the first text that makes the difference, or else the first number.
    let first = plain().find(|(_, value)| value.is_string()).or_else(|| plain().next());
    first.map(|(name, _)| name).into_iter().collect()
}

/// One more entry, like the last, but not the same as any.
fn another(entries: &[&Value], items: &Value, keys: &[&str]) -> Option<Value> {
    let Some(last) = entries.last() else { return example(items, DEPTH) };
    let Value::Object(fields) = last else { return unlike(last, items, |one| entries.contains(&one)) };
    let mut copy = fields.clone();
    for name in identity(fields, keys) {
        let is_taken = |one: &Value| entries.iter().any(|entry| entry[name] == *one);
        if let Some(value) = unlike(&fields[name], &items["properties"][name], is_taken) {
            copy.insert(name.clone(), value);
        }
    }
    (copy != *fields).then_some(Value::Object(copy))
}

/// A text or number like another, but not taken.
fn unlike(value: &Value, schema: &Value, is_taken: impl Fn(&Value) -> bool) -> Option<Value> {
    if let Some(all) = schema["enum"].as_array() {
        return all.iter().find(|one| !is_taken(one)).cloned();
    }
    let mut value = value.clone();
    for _ in 0..TRIES {
        value = match &value {
            Value::String(text) => json!(format!("{text}x")),
            Value::Number(number) => json!(next(number.as_i64()?, schema)),
            _ => return None,
        };
        if !is_taken(&value) {
            return Some(value);
        }
    }
    None
}

/// The number after another, or the one before it if there is none.
fn next(number: i64, schema: &Value) -> i64 {
    let most = schema["maximum"].as_f64().unwrap_or(f64::MAX);
    match number.checked_add(1) {
        Some(more) if more as f64 <= most => more,
        _ => number.saturating_sub(1),
    }
}

/// Whether a field is not changed.
fn is_let_be(field: &str) -> bool {
    is_kept(field) || is_of_pods(field)
}

/// Whether a field is neither changed nor dropped: who is told to do nothing leaves things as they happen to be.
fn is_kept(field: &str) -> bool {
    ["pause", "paused", "suspend", "suspended"].contains(&field) || names_another(field)
}

/// Whether a field is likely to name something else in the cluster, which would not be there under another name.
fn names_another(field: &str) -> bool {
    let of_others = ["namespace", "serviceaccount", "secretname", "configmapname", "classname", "nodename"];
    of_others.iter().any(|other| field.contains(other)) || field.ends_with("ref") || field.ends_with("refs")
}

/// Whether a field is likely to go into pods as it is, where not just any value will do.
fn is_of_pods(field: &str) -> bool {
    let of_pods = [
        "affinity",
        "tolerations",
        "topologyspreadconstraints",
        "securitycontext",
        "volumes",
        "volumemounts",
    ];
    of_pods.iter().any(|one| field.ends_with(one)) || field.ends_with("probe")
}

/// Twice a quantity such as `1Gi`, if it is one.
fn larger(text: &str) -> Option<String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let is_unit = matches!(unit, "m" | "k" | "M" | "G" | "T" | "Ki" | "Mi" | "Gi" | "Ti");
    is_unit.then(|| format!("{}{unit}", number.saturating_mul(2)))
}

/// Some value for a field that the sample leaves open.
fn example(schema: &Value, depth: usize) -> Option<Value> {
    if let Some(one) = schema["enum"].as_array().and_then(|all| all.first()) {
        return Some(one.clone());
    }
    match schema["type"].as_str()? {
        "boolean" => Some(json!(true)),
        "integer" => {
            let least = schema["minimum"].as_f64().unwrap_or(1.0).max(1.0);
            Some(json!(least as i64))
        }
        "string" => Some(json!("explored")),
        "array" if depth > 0 => Some(json!([example(&schema["items"], depth - 1)?])),
        "object" if schema["additionalProperties"]["type"] == "string" => Some(json!({"added": "yes"})),
        "object" if depth > 0 => example_of_fields(schema, depth - 1),
        _ => None,
    }
}

/// An object with all that it must have, or with some of what it may have.
fn example_of_fields(schema: &Value, depth: usize) -> Option<Value> {
    let properties = schema["properties"].as_object()?;
    let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_free = |name: &str| !names_another(&name.to_lowercase());
    if required.is_empty() {
        let simple = |(name, schema): (&String, &Value)| {
            let value = example(schema, 0).filter(|_| is_free(name))?;
            Some((name.clone(), value))
        };
        let fields: Map<String, Value> = properties.iter().filter_map(simple).take(SOME).collect();
        return (!fields.is_empty()).then_some(Value::Object(fields));
    }
    let needed = |name: &Value| {
        let name = name.as_str().filter(|name| is_free(name))?;
        Some((name.to_owned(), example(properties.get(name)?, depth)?))
    };
    required.iter().map(needed).collect::<Option<Map<_, _>>>().map(Value::Object)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The specs that come between the first and its return, by their names.
    async fn drafted(sample: &Value, schema: &Value, allows: impl Fn(&Value) -> bool) -> Value {
        let steps = Edits::of(sample, schema).steps(sample, async |spec| allows(spec)).await;
        let between = steps.into_iter().skip(1).take_while(|step| step.name != "undo");
        between
            .filter_map(|step| Some((step.name, step.spec?)))
            .filter(|(name, _)| name != "recreate")
            .collect()
    }

    #[tokio::test]
    async fn fields_are_changed_scaled_and_broken() {
        let schema = json!({
            "properties": {
                "image": {"type": "string"},
                "replicas": {"type": "integer"},
                "mode": {"type": "string", "enum": ["slow", "fast"]},
                "secretName": {"type": "string"},
            },
            "required": ["image", "replicas", "mode"],
        });
        let sample = json!({"image": "nginx", "replicas": 2, "mode": "slow", "secretName": "mine"});
        let with = |image: &str, replicas: i64, mode: &str| json!({"image": image, "replicas": replicas, "mode": mode, "secretName": "mine"});
        let expected = json!({
            "change": with("nginxx", 2, "fast"),
            "scale": with("nginx", 3, "slow"),
            "break": with(NEVER_READY, 2, "slow"),
        });
        assert_eq!(drafted(&sample, &schema, |_| true).await, expected);
    }

    #[tokio::test]
    async fn the_largest_number_has_none_after_it() {
        let schema = json!({"properties": {"limit": {"type": "integer"}}, "required": ["limit"]});
        let expected = json!({"change": {"limit": i64::MAX - 1}});
        assert_eq!(drafted(&json!({"limit": i64::MAX}), &schema, |_| true).await, expected);
    }

    #[tokio::test]
    async fn a_scenario_begins_and_ends_with_the_sample() {
        let schema = json!({"properties": {"text": {"type": "string"}}});
        let sample = json!({"text": "a"});
        let steps = Edits::of(&sample, &schema).steps(&sample, async |_| true).await;
        let names: Vec<&str> = steps.iter().map(|step| &*step.name).collect();
        assert_eq!(names, ["create", "change", "without", "undo", "delete", "recreate", "delete again"]);
        assert_eq!(steps[2].spec, Some(json!({})));
    }

    #[tokio::test]
    async fn a_list_grows_at_its_end_and_loses_its_first() {
        let schema = json!({
            "properties": {
                "people": {"type": "array", "items": {"type": "string"}},
                "ports": {"type": "array", "items": {"type": "integer", "maximum": 82}},
                "roles": {"type": "array", "items": {"type": "string", "enum": ["reader", "writer"]}},
            },
            "required": ["people", "ports", "roles"],
        });
        let sample = json!({"people": ["annx", "ann"], "ports": [81, 82], "roles": ["reader"]});
        let expected = json!({
            "change": {"people": ["annx", "ann", "annxx"], "ports": [81, 82], "roles": ["reader", "writer"]},
            "without": {"people": ["ann"], "ports": [82], "roles": []},
        });
        assert_eq!(drafted(&sample, &schema, |_| true).await, expected);
    }

    #[tokio::test]
    async fn an_entry_is_copied_under_another_name_and_changed_under_its_own() {
        let user = json!({
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "port": {"type": "integer"},
                "role": {"type": "string"},
                "secretRef": {"type": "string"},
            },
            "required": ["name"],
        });
        let schema =
            json!({"properties": {"users": {"type": "array", "items": user}}, "required": ["users"]});
        let ann = json!({"name": "ann", "port": 1, "role": "reader", "secretRef": "ann"});
        let bob = json!({"name": "bob", "port": 2});
        let sample = json!({"users": [ann, bob]});
        let expected = json!({
            "change": {"users": [
                {"name": "ann", "port": 1, "role": "readerx", "secretRef": "ann"},
                {"name": "bob", "port": 2, "role": "explored"},
                {"name": "bobx", "port": 3},
            ]},
            "without": {"users": [{"name": "bob", "port": 2}]},
        });
        assert_eq!(drafted(&sample, &schema, |_| true).await, expected);
    }

    #[tokio::test]
    async fn entries_are_told_apart_by_the_keys_of_their_list_or_by_their_first_text() {
        let entry = json!({"properties": {"day": {"type": "integer"}, "text": {"type": "string"}}, "required": ["day", "text"]});
        let of = |keys: Value| {
            json!({
                "properties": {"days": {"items": entry, "x-kubernetes-list-map-keys": keys}},
                "required": ["days"],
            })
        };
        let sample = json!({"days": [{"day": 1, "text": "a"}]});
        let by_key = json!({
            "change": {"days": [{"day": 1, "text": "ax"}, {"day": 2, "text": "a"}]},
            "without": {"days": []},
        });
        assert_eq!(drafted(&sample, &of(json!(["day"])), |_| true).await, by_key);
        let by_text = json!({
            "change": {"days": [{"day": 2, "text": "a"}, {"day": 1, "text": "ax"}]},
            "without": {"days": []},
        });
        assert_eq!(drafted(&sample, &of(Value::Null), |_| true).await, by_text);
    }

    #[tokio::test]
    async fn what_is_not_required_is_dropped() {
        let schema = json!({
            "properties": {
                "ingress": {"properties": {"host": {"type": "string"}}, "required": ["host"]},
                "metricsPort": {"type": "integer"},
                "labels": {"additionalProperties": {"type": "string"}},
                "storage": {
                    "properties": {"className": {"type": "string"}, "size": {"type": "string"}, "wipe": {"type": "boolean"}},
                    "required": ["size"],
                },
                "tolerations": {"type": "array", "items": {"properties": {"key": {"type": "string"}}}},
            },
            "required": ["labels", "storage"],
        });
        let sample = json!({
            "ingress": {"host": "a.example.com"},
            "metricsPort": 9090,
            "labels": {"a": "1", "b/c": "2"},
            "storage": {"className": "fast", "size": "1Gi", "wipe": true},
            "tolerations": [{"key": "a"}],
        });
        let expected = json!({
            "change": {
                "ingress": {"host": "a.example.comx"},
                "metricsPort": 9091,
                "labels": {"a": "1x", "added": "yes", "b/c": "2x"},
                "storage": {"className": "fast", "size": "1Gi", "wipe": false},
                "tolerations": [{"key": "a"}],
            },
            "without": {"labels": {"b/c": "2"}, "storage": {"className": "fast", "size": "1Gi"}},
            "scale": {
                "ingress": {"host": "a.example.com"},
                "metricsPort": 9090,
                "labels": {"a": "1", "b/c": "2"},
                "storage": {"className": "fast", "size": "2Gi", "wipe": true},
                "tolerations": [{"key": "a"}],
            },
        });
        assert_eq!(drafted(&sample, &schema, |_| true).await, expected);
    }

    #[tokio::test]
    async fn what_is_left_open_is_given_with_all_that_it_must_have() {
        let part = |required: Value| {
            json!({
                "type": "object",
                "properties": {
                    "classRef": {"type": "string"},
                    "deep": {"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"]},
                    "port": {"type": "integer", "minimum": 1000},
                    "text": {"type": "string"},
                },
                "required": required,
            })
        };
        let schema = json!({"properties": {
            "free": part(json!([])),
            "list": {"type": "array", "items": part(json!(["text"]))},
            "needy": part(json!(["deep", "port"])),
            "pointing": part(json!(["classRef"])),
        }});
        let expected = json!({"change": {
            "free": {"port": 1000, "text": "explored"},
            "list": [{"text": "explored"}],
            "needy": {"deep": {"on": true}, "port": 1000},
        }});
        assert_eq!(drafted(&json!({}), &schema, |_| true).await, expected);
        let endless = (0..10).fold(
            json!({"type": "string"}),
            |inner, _| json!({"type": "object", "properties": {"inner": inner}, "required": ["inner"]}),
        );
        assert_eq!(drafted(&json!({}), &endless, |_| true).await, json!({}));
    }

    #[tokio::test]
    async fn what_is_refused_does_not_keep_the_others_back() {
        let schema = json!({"properties": {
            "list": {"type": "array", "items": {"type": "string"}},
            "one": {"properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}},
            "two": {"type": "integer"},
        }});
        let sample = json!({"list": ["a", "b"], "one": {"x": 1, "y": 1}, "two": 1});
        let allows = |spec: &Value| {
            let list = spec["list"].as_array().map_or(0, Vec::len);
            (1..=2).contains(&list) && spec["one"]["x"].as_i64().is_some_and(|x| x <= 1)
        };
        let expected = json!({
            "change": {"list": ["a", "b"], "one": {"x": 1, "y": 2}, "two": 2},
            "without": {"list": ["b"], "one": {"x": 1}},
        });
        assert_eq!(drafted(&sample, &schema, allows).await, expected);
    }

    #[tokio::test]
    async fn who_is_named_need_not_be_named_any_more() {
        let schema = json!({
            "properties": {"namespaces": {"type": "array", "items": {"type": "string"}}},
            "required": ["namespaces"],
        });
        let expected = json!({"without": {"namespaces": ["b"]}});
        assert_eq!(drafted(&json!({"namespaces": ["a", "b"]}), &schema, |_| true).await, expected);
    }

    #[test]
    fn each_change_is_there_by_itself() {
        let schema = json!({"properties": {"list": {"type": "array", "items": {"type": "string"}}}});
        let sample = json!({"list": ["a", "b"]});
        let expected = [json!({"list": ["a", "b", "bx"]}), json!({}), json!({"list": ["b"]})];
        assert_eq!(Edits::of(&sample, &schema).all(&sample), expected);
    }
}
