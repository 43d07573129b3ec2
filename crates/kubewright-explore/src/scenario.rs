//! What a user does with the resource: creates it, changes it, breaks it, undoes that, deletes it, creates it again.

use kube::api::DynamicObject;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The image whose containers are never ready.
pub(crate) const NEVER_READY: &str = "kubewright.invalid/never-ready:1";

/// One thing that a user does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// What it is called; no two steps of a scenario have the same name.
    pub name: String,
    /// The spec that is asked for; nothing to delete the resource.
    pub spec: Option<Value>,
}

impl Step {
    /// The user asks for a spec.
    pub fn apply(name: impl Into<String>, spec: Value) -> Self {
        Self { name: name.into(), spec: Some(spec) }
    }

    /// The user deletes the resource.
    pub fn delete(name: impl Into<String>) -> Self {
        Self { name: name.into(), spec: None }
    }
}

/// The steps that are tried with a sample: whatever of them the schema of its kind allows.
pub(crate) struct Draft {
    /// Changes that are made together if each is allowed: a name, and specs with just that change.
    pub(crate) changes: Vec<(&'static str, Vec<Value>)>,
}

impl Draft {
    /// What may be changed in a sample, as far as its schema says.
    pub(crate) fn of(spec: &Value, schema: &Value) -> Self {
        let mut found = Found::default();
        look(spec, schema, &mut String::new(), &mut found);
        let made = |pointers: Vec<(String, Value)>| {
            pointers.into_iter().filter_map(|(pointer, value)| with(spec, &pointer, value)).collect()
        };
        let Found { changes, scales, breaks } = found;
        Self { changes: vec![("change", made(changes)), ("scale", made(scales)), ("break", made(breaks))] }
    }

    /// Every change by itself.
    pub(crate) fn all(self) -> Vec<Value> {
        self.changes.into_iter().flat_map(|(_, specs)| specs).collect()
    }
}

/// A scenario of specs that are allowed.
pub(crate) fn steps(sample: &Value, changes: Vec<(&'static str, Value)>) -> Vec<Step> {
    let mut steps = vec![Step::apply("create", sample.clone())];
    steps.extend(changes.into_iter().map(|(name, spec)| Step::apply(name, spec)));
    if steps.len() > 1 {
        steps.push(Step::apply("undo", sample.clone()));
    }
    steps.push(Step::delete("delete"));
    steps.push(Step::apply("recreate", sample.clone()));
    steps.push(Step::delete("delete again"));
    steps
}

#[derive(Default)]
struct Found {
    changes: Vec<(String, Value)>,
    scales: Vec<(String, Value)>,
    breaks: Vec<(String, Value)>,
}

/// Finds what of a value can be changed.
fn look(value: &Value, schema: &Value, at: &mut String, found: &mut Found) {
    let field = at.rsplit('/').next().unwrap_or_default().to_lowercase();
    if names_another(&field) {
        return;
    }
    match value {
        Value::Bool(on) => found.changes.push((at.clone(), json!(!on))),
        Value::Number(number) => {
            if let Some(number) = number.as_i64() {
                let most = schema["maximum"].as_f64().unwrap_or(f64::MAX);
                let next = if ((number + 1) as f64) <= most { number + 1 } else { number - 1 };
                let is_size = ["replicas", "size", "count", "instances", "nodes", "members"];
                let into = match is_size.iter().any(|name| field.contains(name)) {
                    true => &mut found.scales,
                    false => &mut found.changes,
                };
                into.push((at.clone(), json!(next)));
            }
        }
        Value::String(text) => {
            if field.contains("image") {
                found.breaks.push((at.clone(), json!(NEVER_READY)));
            }
            if let Some(others) = schema["enum"].as_array() {
                found
                    .changes
                    .extend(others.iter().find(|one| *one != value).map(|one| (at.clone(), one.clone())));
            } else if let Some(more) = larger(text) {
                found.scales.push((at.clone(), json!(more)));
            } else {
                found.changes.push((at.clone(), json!(format!("{text}x"))));
            }
        }
        Value::Object(fields) => {
            let properties = schema["properties"].as_object();
            for (name, value) in fields {
                let of = properties.and_then(|properties| properties.get(name));
                let of = of.or_else(|| schema.get("additionalProperties")).unwrap_or(&Value::Null);
                let length = at.len();
                at.push('/');
                at.push_str(&name.replace('~', "~0").replace('/', "~1"));
                look(value, of, at, found);
                at.truncate(length);
            }
            if schema["additionalProperties"]["type"] == "string" {
                found.changes.push((format!("{at}/added"), json!("yes")));
            }
            let is_open = |(name, _): &(&String, &Value)| {
                !fields.contains_key(*name) && !names_another(&name.to_lowercase())
            };
            for (name, schema) in properties.into_iter().flatten().filter(is_open) {
                if let Some(value) = example(schema) {
                    found.changes.push((format!("{at}/{name}"), value));
                }
            }
        }
        _ => {}
    }
}

/// Whether a field is likely to name something else in the cluster, which would not be there under another name.
fn names_another(field: &str) -> bool {
    let of_others = ["namespace", "serviceaccount", "secretname", "configmapname", "classname", "nodename"];
    of_others.iter().any(|other| field.contains(other)) || field.ends_with("ref") || field.ends_with("refs")
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
fn example(schema: &Value) -> Option<Value> {
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
        "object" if schema["additionalProperties"]["type"] == "string" => Some(json!({"added": "yes"})),
        _ => None,
    }
}

/// A copy of a spec in which one value is another.
pub(crate) fn with(spec: &Value, pointer: &str, value: Value) -> Option<Value> {
    let mut spec = spec.clone();
    let (parent, field) = pointer.rsplit_once('/')?;
    let field = field.replace("~1", "/").replace("~0", "~");
    spec.pointer_mut(parent)?.as_object_mut()?.insert(field, value);
    Some(spec)
}

/// What several copies of a spec change, all at once.
pub(crate) fn together(sample: &Value, changed: &[Value]) -> Value {
    let mut all = sample.clone();
    for one in changed {
        merge(&mut all, sample, one);
    }
    all
}

fn merge(all: &mut Value, sample: &Value, changed: &Value) {
    let (Value::Object(changed), Some(all)) = (changed, all.as_object_mut()) else { return };
    let none = Map::new();
    let sample = sample.as_object().unwrap_or(&none);
    for (field, value) in changed {
        match sample.get(field) {
            Some(before) if before == value => {}
            Some(before @ Value::Object(_)) => {
                merge(all.entry(field.clone()).or_insert_with(|| before.clone()), before, value);
            }
            _ => drop(all.insert(field.clone(), value.clone())),
        }
    }
}

/// The sample with another spec.
pub(crate) fn asking(sample: &DynamicObject, spec: &Value) -> DynamicObject {
    let mut object = sample.clone();
    object.data["spec"] = spec.clone();
    object
}
