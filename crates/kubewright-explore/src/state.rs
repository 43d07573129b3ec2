//! What a cluster comes to: its objects without what differs from run to run.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use kubewright_apiserver::{
    Quantity,
    store::{ResourceId, Snapshot, Stored},
};
use serde_json::{Value, json};

use crate::trace::digest;

/// What is no part of what an operator brings about: told, measured or worked out by the cluster itself.
const LEFT_OUT: [&str; 9] = [
    "events",
    "events.events.k8s.io",
    "leases.coordination.k8s.io",
    "nodes",
    "ipaddresses.networking.k8s.io",
    "customresourcedefinitions.apiextensions.k8s.io",
    "csinodes.storage.k8s.io",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
];
/// What the cluster works out of something else, unless the operator makes it itself.
const WORKED_OUT: [&str; 5] = [
    "endpoints",
    "endpointslices.discovery.k8s.io",
    "replicasets.apps",
    "controllerrevisions.apps",
    "persistentvolumes",
];
/// What of the metadata differs from run to run.
const FLEETING: [&str; 8] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "selfLink",
    "deletionGracePeriodSeconds",
];

/// Annotations by which the cluster counts changes.
const COUNTERS: [&str; 2] = ["deployment.kubernetes.io/revision", "deprecated.daemonset.template.generation"];

/// What has pods and Jobs made.
const WORKLOADS: [&str; 6] =
    ["ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob", "ReplicationController"];

/// What the names of things outside of the cluster begin with.
pub(crate) const OUTSIDE: &str = "outside: ";

/// The objects of a cluster that were written since its beginning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct State {
    objects: BTreeMap<String, Arc<Normal>>,
    /// A copy of a value made by chance that is none any more, and what it should be one of.
    torn: Option<(Place, Place)>,
}

/// An object as it is compared.
#[derive(Debug)]
pub(crate) struct Normal {
    digest: u64,
    value: Value,
    generation: Option<i64>,
    /// Values made by chance that others are copies of, or that are copies of others, by pointer.
    chances: Vec<(String, String)>,
}

/// An object, and a pointer into it.
type Place = (String, String);

impl PartialEq for Normal {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for Normal {}

impl Normal {
    fn of(value: Value) -> Self {
        let digest = digest(&[value.to_string().as_bytes()]);
        Self { digest, value, generation: None, chances: Vec::new() }
    }
}

/// Reads states, and remembers what it has read.
#[derive(Default)]
pub(crate) struct Reader {
    /// What was written before is not looked at.
    pub(crate) since: u64,
    /// Where the operator itself lives: what it has there is its own affair.
    home: String,
    pub(crate) noise: Arc<Noise>,
    read: BTreeMap<(String, Arc<str>), (u64, Arc<Normal>)>,
}

/// What differs between two undisturbed runs with other seeds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Noise {
    /// Pointers into objects.
    pointers: BTreeMap<String, BTreeSet<String>>,
    /// Where the same is found as in another place, or as a part of it, in both runs: a password in two Secrets, or in an
    /// address. The copy is the second.
    copies: BTreeSet<(Place, Place)>,
}

impl Reader {
    pub(crate) fn new(noise: Arc<Noise>, home: &str) -> Self {
        Self { since: 0, home: home.to_owned(), noise, read: BTreeMap::new() }
    }

    /// Reads what is there, in the cluster and outside of it; `own` is what the operator has written.
    pub(crate) fn read(
        &mut self,
        snapshot: &Snapshot,
        outside: BTreeMap<String, Value>,
        own: &[&BTreeSet<String>],
    ) -> State {
        let (mut objects, mut alike) = (BTreeMap::new(), BTreeMap::new());
        for resource in snapshot.resources() {
            if snapshot.changed(resource) <= self.since {
                continue;
            }
            let called = resource_name(resource);
            let is_worked_out = WORKED_OUT.contains(&&*called);
            let is_own =
                || own.iter().any(|own| own.iter().any(|own| own.split(' ').next() == Some(&called)));
            if LEFT_OUT.contains(&&*called) || is_worked_out && !is_own() {
                continue;
            }
            for stored in snapshot.collection(resource).range("", "") {
                if stored.revision <= self.since || stored.namespace() == self.home {
                    continue;
                }
                let normal = self.normal(&called, stored);
                // What the cluster makes of a workload is not the operator's doing.
                if is_of_workload(&called, &normal.value) {
                    continue;
                }
                let key = format!("{called} {}", shown(&normal.value, stored));
                if is_worked_out && !own.iter().any(|own| own.contains(&key)) {
                    continue;
                }
                // Those with generated names are as good as each other.
                let count = alike.entry(key.clone()).and_modify(|count| *count += 1).or_insert(1);
                let key = if *count == 1 { key } else { format!("{key} (no. {count})") };
                objects.insert(key, normal);
            }
        }
        objects.extend(outside.into_iter().map(|(name, value)| {
            let normal = Arc::new(self.noise.taken_from(&name, value));
            (name, normal)
        }));
        let torn = self.noise.torn(&objects);
        State { objects, torn }
    }

    fn normal(&mut self, called: &str, stored: &Arc<Stored>) -> Arc<Normal> {
        let key = (called.to_owned(), stored.key.clone());
        if let Some((revision, known)) = self.read.get(&key)
            && *revision == stored.revision
        {
            return known.clone();
        }
        let mut value: Value = serde_json::from_slice(&stored.bytes).unwrap_or(Value::Null);
        let generation = value.pointer("/metadata/generation").and_then(Value::as_i64);
        normalise(&mut value, called);
        let name = format!("{called} {}", shown(&value, stored));
        let normal = Arc::new(Normal { generation, ..self.noise.taken_from(&name, value) });
        self.read.insert(key, (stored.revision, normal.clone()));
        normal
    }
}

/// Plural and group, as everywhere here.
pub(crate) fn resource_name(resource: &ResourceId) -> String {
    match resource.group() {
        "" => resource.plural().to_owned(),
        group => format!("{}.{group}", resource.plural()),
    }
}

/// The resource of a name.
pub(crate) fn resource_id(name: &str) -> ResourceId {
    let (plural, group) = name.split_once('.').unwrap_or((name, ""));
    ResourceId::new(group, plural)
}

/// The key of an object, or what its name was generated from.
fn shown(value: &Value, stored: &Stored) -> String {
    shown_as(&stored.key, value.pointer("/metadata/generateName").and_then(Value::as_str))
}

/// How an object is called whose name may be generated, or have a UID in it.
pub(crate) fn shown_as(key: &str, generated_from: Option<&str>) -> String {
    without_uids(&match (generated_from, key.split_once('/')) {
        (Some(prefix), Some((namespace, _))) => format!("{namespace}/{prefix}*"),
        (Some(prefix), None) => format!("{prefix}*"),
        (None, _) => key.to_owned(),
    })
}

/// Whether a controller of the cluster has made an object.
fn is_of_workload(called: &str, value: &Value) -> bool {
    let metadata = &value["metadata"];
    let owners = metadata["owners"].as_array().into_iter().flatten();
    let controllers = metadata["ownerReferences"].as_array().into_iter().flatten();
    let controllers = controllers.filter(|owner| owner["controller"] == true).map(|owner| &owner["kind"]);
    let mut kinds = owners.chain(controllers).filter_map(Value::as_str);
    matches!(called, "pods" | "jobs.batch") && kinds.any(|kind| WORKLOADS.contains(&kind))
}

/// Takes from an object what differs from run to run.
pub(crate) fn normalise(object: &mut Value, resource: &str) {
    let is_defined = object["apiVersion"].as_str().is_some_and(|version| {
        version.split('/').next().is_some_and(|group| group.contains('.') && !group.ends_with(".k8s.io"))
    });
    if resource == "pods" {
        *object = pod(object);
    } else if !is_defined && let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        if metadata.contains_key("generateName") {
            metadata.remove("name");
        }
        if metadata.contains_key("deletionTimestamp") {
            metadata.insert("deleting".to_owned(), Value::Bool(true));
        }
        FLEETING.iter().for_each(|field| drop(metadata.remove(*field)));
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            COUNTERS.iter().for_each(|counter| drop(annotations.remove(*counter)));
        }
        if let Some(owners) = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut) {
            owners.iter_mut().filter_map(Value::as_object_mut).for_each(|owner| drop(owner.remove("uid")));
            owners.sort_by_cached_key(Value::to_string);
        }
        if let Some(finalizers) = metadata.get_mut("finalizers").and_then(Value::as_array_mut) {
            finalizers.sort_by_cached_key(Value::to_string);
        }
    }
    if let Some(subjects) = object.get_mut("subjects").and_then(Value::as_array_mut) {
        subjects.sort_by_cached_key(Value::to_string);
    }
    if let Some(conditions) = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut) {
        conditions.sort_by_key(|one| one["type"].as_str().unwrap_or_default().to_owned());
        for condition in conditions.iter_mut().filter_map(Value::as_object_mut) {
            condition.remove("observedGeneration");
        }
    }
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        status.remove("observedGeneration");
        // No conditions any more are as good as none yet.
        if status.get("conditions").is_some_and(|conditions| *conditions == json!([])) {
            status.remove("conditions");
        }
        if status.is_empty()
            && let Some(fields) = object.as_object_mut()
        {
            fields.remove("status");
        }
    }
    fleeting(object);
}

/// What of a pod is of interest to whoever asked for it.
fn pod(object: &Value) -> Value {
    let container = |one: &Value| {
        let mut one = one.clone();
        one.as_object_mut().map(|fields| fields.remove("volumeMounts"));
        one
    };
    let containers: Vec<Value> =
        object["spec"]["containers"].as_array().into_iter().flatten().map(container).collect();
    let conditions = object["status"]["conditions"].as_array();
    let is_ready =
        conditions.into_iter().flatten().any(|one| one["type"] == "Ready" && one["status"] == "True");
    let owners = object["metadata"]["ownerReferences"].as_array();
    let owners: Vec<Value> = owners.into_iter().flatten().map(|owner| owner["kind"].clone()).collect();
    let mut labels = object["metadata"]["labels"].clone();
    labels.as_object_mut().map(|labels| labels.remove("pod-template-hash"));
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": object["metadata"]["name"], "namespace": object["metadata"]["namespace"], "labels": labels,
            "generateName": object["metadata"]["generateName"].as_str().map(without_hash),
            "owners": owners,
        },
        "spec": {"containers": containers},
        "status": {"phase": object["status"]["phase"], "ready": is_ready},
    })
}

/// The prefix of a pod's name without what a ReplicaSet has put there.
fn without_hash(prefix: &str) -> String {
    let prefix = prefix.trim_end_matches('-');
    prefix.rsplit_once('-').map_or(prefix, |(name, _)| name).to_owned()
}

/// Takes away what is so by chance or by the past: times, and the default that goes back to the first tag of an image.
fn fleeting(value: &mut Value) {
    match value {
        Value::String(text) if is_time(text) => "(a time)".clone_into(text),
        Value::Array(items) => items.iter_mut().for_each(fleeting),
        Value::Object(fields) => {
            fields.remove("imagePullPolicy");
            fields.values_mut().for_each(fleeting);
        }
        _ => {}
    }
}

fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 20 && bytes[4] == b'-' && bytes[10] == b'T' && text.parse::<jiff::Timestamp>().is_ok()
}

/// A difference between what is expected and what is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Difference {
    Missing(String),
    TooMuch { object: String, is_deleting: bool },
    Other { object: String, pointer: String, expected: String, found: String },
    Torn { copy: Place, source: Place },
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing(object) => write!(f, "{object} is missing"),
            Self::TooMuch { object, is_deleting: true } => write!(f, "{object} is still being deleted"),
            Self::TooMuch { object, .. } => write!(f, "{object} should not be there"),
            Self::Other { object, pointer, expected, found } => {
                write!(f, "{object}: {pointer} is {found}, not {expected}")
            }
            Self::Torn { copy: (copy, at), source: (source, source_at) } => {
                write!(f, "{copy}: {at} is not what is in {source_at} of {source} any more")
            }
        }
    }
}

impl State {
    /// The first difference to what is expected, if there is one, among those objects that are of interest.
    pub(crate) fn difference_to(
        &self,
        expected: &Self,
        is_of_interest: impl Fn(&str) -> bool,
    ) -> Option<Difference> {
        let missing =
            expected.objects.keys().find(|key| !self.objects.contains_key(*key) && is_of_interest(key));
        if let Some(missing) = missing {
            return Some(Difference::Missing(missing.clone()));
        }
        let too_much =
            self.objects.iter().find(|(key, _)| !expected.objects.contains_key(*key) && is_of_interest(key));
        if let Some((object, normal)) = too_much {
            let is_deleting = normal.value["metadata"]["deleting"] == true;
            return Some(Difference::TooMuch { object: object.clone(), is_deleting });
        }
        let is_other = |key: &str, found: &Arc<Normal>| {
            let expected = expected.objects.get(key);
            let is_grown = |expected: &Arc<Normal>| {
                key.starts_with("persistentvolumeclaims ") && is_grown(&expected.value, &found.value)
            };
            expected != Some(found) && !expected.is_some_and(is_grown)
        };
        let differing = self.objects.iter().find(|(key, found)| is_of_interest(key) && is_other(key, found));
        let Some((object, found)) = differing else {
            let (source, copy) = self.torn.clone().filter(|_| expected.torn.is_none())?;
            return Some(Difference::Torn { copy, source });
        };
        let (pointer, expected, found) = first_difference(&expected.objects[object].value, &found.value, "")?;
        Some(Difference::Other { object: object.clone(), pointer, expected, found })
    }

    /// What differs from what was expected, but for the objects that are as in another state that is as good.
    pub(crate) fn difference_to_one_of(&self, expected: &Self, other: Option<&Self>) -> Option<Difference> {
        let is_as_good =
            |object: &str| other.is_some_and(|other| self.objects.get(object) == other.objects.get(object));
        self.difference_to(expected, |object| !is_as_good(object))
    }

    /// The same without the generation of an object, which others may have in their names or values.
    pub(crate) fn without_generation_of(&self, object: &str) -> Self {
        let Some(generation) = self.objects.get(object).and_then(|normal| normal.generation) else {
            return self.clone();
        };
        let nameless = |(key, normal): (&String, &Arc<Normal>)| {
            let mut value = normal.value.clone();
            without_generation(&mut value, generation, "");
            (numberless(key, generation).unwrap_or_else(|| key.clone()), Arc::new(Normal::of(value)))
        };
        Self { objects: self.objects.iter().map(nameless).collect(), torn: None }
    }

    /// Whether something is not the copy any more that it should be.
    pub(crate) fn is_torn(&self) -> bool {
        self.torn.is_some()
    }

    pub(crate) fn get(&self, object: &str) -> Option<&Value> {
        self.objects.get(object).map(|normal| &normal.value)
    }

    /// How many there are of an object whose name may be generated.
    pub(crate) fn count(&self, object: &str) -> usize {
        let others = format!("{object} (no. ");
        self.objects.keys().filter(|key| *key == object || key.starts_with(&others)).count()
    }

    pub(crate) fn objects(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.objects.iter().map(|(key, normal)| (&**key, &normal.value))
    }
}

impl Noise {
    /// What of an object differs by chance.
    pub(crate) fn of(&self, object: &str) -> impl Iterator<Item = &str> {
        self.pointers.get(object).into_iter().flatten().map(String::as_str)
    }

    /// An object without what of it differs by chance.
    fn taken_from(&self, name: &str, mut value: Value) -> Normal {
        let mut chances = Vec::new();
        for pointer in self.of(name) {
            chances.extend(text_at(name, &value, pointer).map(|text| (pointer.to_owned(), text)));
            if let Some(noisy) = value.pointer_mut(pointer) {
                *noisy = Value::Null;
            }
        }
        Normal { chances, ..Normal::of(value) }
    }

    /// What stands for what is in an object, apart from its status.
    pub(crate) fn content(&self, resource: &str, object: &str, stored: &[u8]) -> u64 {
        let mut value = serde_json::from_slice(stored).unwrap_or_default();
        normalise(&mut value, resource);
        content_of(&self.taken_from(object, value).value)
    }

    /// Learns from two undisturbed runs, by what each step of them came to.
    pub(crate) fn of_runs(one: &[State], other: &[State]) -> Self {
        let mut noise = Self::default();
        one.iter().zip(other).for_each(|(one, other)| noise.add(one, other));
        let states: Vec<BTreeMap<Place, String>> =
            one.iter().chain(other).map(|state| noise.texts(&state.objects)).collect();
        let places: BTreeSet<&Place> = states.iter().flat_map(BTreeMap::keys).collect();
        let is_copy = |source: &Place, copy: &Place| {
            let mut met = states.iter().filter_map(|texts| Some((texts.get(source)?, texts.get(copy)?)));
            met.clone().next().is_some() && met.all(|(source, copy)| has_word(copy, source))
        };
        let pairs = places.iter().flat_map(|source| places.iter().map(move |copy| (*source, *copy)));
        let copies = pairs.filter(|(source, copy)| source != copy && is_copy(source, copy));
        noise.copies = copies.map(|(source, copy)| (source.clone(), copy.clone())).collect();
        noise
    }

    /// Adds what differs between two undisturbed states.
    fn add(&mut self, one: &State, other: &State) {
        for (key, normal) in &one.objects {
            if let Some(other) = other.objects.get(key) {
                let mut pointers = BTreeSet::new();
                differences(&normal.value, &other.value, "", &mut pointers);
                if !pointers.is_empty() {
                    self.pointers.entry(key.clone()).or_default().extend(pointers);
                }
            }
        }
    }

    /// The texts of some objects that are made by chance.
    fn texts(&self, objects: &BTreeMap<String, Arc<Normal>>) -> BTreeMap<Place, String> {
        let of_object = |(key, normal): (&String, &Arc<Normal>)| -> Vec<(Place, String)> {
            let text = |pointer: &str| {
                let text = text_at(key, &normal.value, pointer)?;
                Some(((key.clone(), pointer.to_owned()), text))
            };
            self.of(key).filter_map(text).collect()
        };
        objects.iter().flat_map(of_object).collect()
    }

    /// The first copy that is none.
    fn torn(&self, objects: &BTreeMap<String, Arc<Normal>>) -> Option<(Place, Place)> {
        let text = |(object, pointer): &Place| {
            let mut chances = objects.get(object)?.chances.iter();
            chances.find(|(at, _)| at == pointer).map(|(_, text)| text)
        };
        let is_torn = |(source, copy): &&(Place, Place)| match (text(source), text(copy)) {
            (Some(source), Some(copy)) => !has_word(copy, source),
            _ => false,
        };
        self.copies.iter().find(is_torn).cloned()
    }

    /// Whether anything is a copy of something that is made by chance.
    pub(crate) fn has_copies(&self) -> bool {
        !self.copies.is_empty()
    }

    /// Whether what is now in a place is what it is a copy of, as that is stored.
    pub(crate) fn follows(&self, object: &str, pointer: &str, value: &Value, snapshot: &Snapshot) -> bool {
        let Some(text) = text_at(object, value, pointer) else { return false };
        let is_this = |(_, (copy, at)): &&(Place, Place)| copy == object && at == pointer;
        self.copies.iter().filter(is_this).any(|((source, at), _)| {
            let source_text = source.split_once(' ').and_then(|(resource, key)| {
                let stored = snapshot.collection(&resource_id(resource)).get(key).cloned()?;
                text_at(source, &serde_json::from_slice(&stored.bytes).ok()?, at)
            });
            source_text.is_some_and(|source| has_word(&text, &source))
        })
    }
}

/// What stands for what is in an object that is as it is compared, apart from its status.
pub(crate) fn content_of(value: &Value) -> u64 {
    let mut content = value.clone();
    content.as_object_mut().map(|fields| fields.remove("status"));
    digest(&[content.to_string().as_bytes()])
}

/// What is shorter may be the same by chance.
const SHORTEST: usize = 8;

/// The text in a place of an object; what a Secret or a ConfigMap holds as bytes is decoded.
fn text_at(object: &str, value: &Value, pointer: &str) -> Option<String> {
    let text = value.pointer(pointer)?.as_str()?;
    let decoded = || String::from_utf8(STANDARD.decode(text).ok()?).ok();
    let is_encoded = object.starts_with("secrets ") && pointer.starts_with("/data/")
        || object.starts_with("configmaps ") && pointer.starts_with("/binaryData/");
    let text = if is_encoded { decoded()? } else { text.to_owned() };
    (text.len() >= SHORTEST).then_some(text)
}

/// Whether a word stands in a text by itself.
fn has_word(text: &str, word: &str) -> bool {
    let is_apart = |(at, _): (usize, &str)| {
        let (before, after) = (&text[..at], &text[at + word.len()..]);
        !before.ends_with(char::is_alphanumeric) && !after.starts_with(char::is_alphanumeric)
    };
    text.match_indices(word).any(is_apart)
}

/// Takes a generation away wherever it stands by itself, or at the end of a name.
fn without_generation(value: &mut Value, generation: i64, field: &str) {
    match value {
        Value::String(text) => {
            if let Some(nameless) = numberless(text, generation) {
                *text = nameless;
            }
        }
        Value::Number(number) => {
            let field = field.to_lowercase();
            if number.as_i64() == Some(generation)
                && (field.contains("generation") || field.contains("revision"))
            {
                *value = Value::Null;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| without_generation(item, generation, field)),
        Value::Object(fields) => {
            fields.iter_mut().for_each(|(field, value)| without_generation(value, generation, field));
        }
        _ => {}
    }
}

/// A text that is a number, or a name that ends with it, without the number.
fn numberless(text: &str, number: i64) -> Option<String> {
    let rest = text.strip_suffix(&number.to_string())?;
    (rest.is_empty() || rest.ends_with('-')).then(|| format!("{rest}(the generation)"))
}

/// Whether a claim is as expected, but larger: no claim can shrink.
fn is_grown(expected: &Value, found: &Value) -> bool {
    const STORAGE: &str = "/spec/resources/requests/storage";
    let size = |claim: &Value| claim.pointer(STORAGE)?.as_str()?.parse::<Quantity>().ok();
    let (Some(asked), Some(has)) = (size(expected), size(found)) else { return false };
    let mut same = found.clone();
    if let Some(storage) = same.pointer_mut(STORAGE) {
        *storage = expected.pointer(STORAGE).cloned().unwrap_or_default();
    }
    has.as_f64() > asked.as_f64() && same == *expected
}

/// Pointers to the smallest parts that differ.
fn differences(one: &Value, other: &Value, at: &str, pointers: &mut BTreeSet<String>) {
    match (one, other) {
        _ if one == other => {}
        (Value::Object(one), Value::Object(other)) if one.keys().eq(other.keys()) => {
            for (field, value) in one {
                differences(value, &other[field], &format!("{at}/{}", escaped(field)), pointers);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (index, (one, other)) in one.iter().zip(other).enumerate() {
                differences(one, other, &format!("{at}/{index}"), pointers);
            }
        }
        _ => drop(pointers.insert(at.to_owned())),
    }
}

/// Where two values differ first, and how.
fn first_difference(expected: &Value, found: &Value, at: &str) -> Option<(String, String, String)> {
    let missing = Value::Null;
    match (expected, found) {
        _ if expected == found => None,
        (Value::Object(expected), Value::Object(found)) => {
            let fields: BTreeSet<&String> = expected.keys().chain(found.keys()).collect();
            fields.into_iter().find_map(|field| {
                let (expected, found) =
                    (expected.get(field).unwrap_or(&missing), found.get(field).unwrap_or(&missing));
                first_difference(expected, found, &format!("{at}/{}", escaped(field)))
            })
        }
        (Value::Array(expected), Value::Array(found)) if expected.len() == found.len() => {
            let mut pairs = expected.iter().zip(found).enumerate();
            pairs.find_map(|(index, (expected, found))| {
                first_difference(expected, found, &format!("{at}/{index}"))
            })
        }
        _ => Some((at.to_owned(), expected.to_string(), found.to_string())),
    }
}

/// A name in which every UID is the same: they differ from run to run.
pub(crate) fn without_uids(name: &str) -> String {
    let mut text = name.to_owned();
    uids_in(name).for_each(|uid| text = text.replace(uid, "(a UID)"));
    text
}

/// The UIDs in a text.
pub(crate) fn uids_in(text: &str) -> impl Iterator<Item = &str> {
    const LENGTH: usize = 36;
    let is_of_uid = |(at, byte): (usize, &u8)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    let parts = text.as_bytes().windows(LENGTH).enumerate();
    let begins = parts.filter(move |(_, part)| part.iter().enumerate().all(is_of_uid)).map(|(at, _)| at);
    begins.filter_map(move |at| text.get(at..at + LENGTH))
}

fn escaped(field: &str) -> String {
    field.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_holds_an_object_and_who_owns_it_is_in_no_order() {
        let normal = |finalizers: [&str; 2], owners: [&str; 2]| {
            let owners = owners.map(|name| json!({"kind": "Gadget", "name": name, "uid": "by chance"}));
            let metadata = json!({"name": "a", "finalizers": finalizers, "ownerReferences": owners});
            let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
            normalise(&mut object, "configmaps");
            object
        };
        assert_eq!(normal(["a/b", "c/d"], ["x", "y"]), normal(["c/d", "a/b"], ["y", "x"]));
        assert_ne!(normal(["a/b", "c/d"], ["x", "y"]), normal(["a/b", "c/e"], ["x", "y"]));
    }
}
