//! What a cluster comes to: its objects without what differs from run to run.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kubewright_apiserver::{
    Quantity,
    store::{ResourceId, Snapshot, Stored},
};
use serde_json::{Value, json};

use crate::trace::digest;

/// What is no part of what an operator brings about: told, measured or worked out by the cluster itself.
const LEFT_OUT: [&str; 14] = [
    "events",
    "events.events.k8s.io",
    "leases.coordination.k8s.io",
    "endpoints",
    "endpointslices.discovery.k8s.io",
    "replicasets.apps",
    "controllerrevisions.apps",
    "nodes",
    "persistentvolumes",
    "ipaddresses.networking.k8s.io",
    "customresourcedefinitions.apiextensions.k8s.io",
    "csinodes.storage.k8s.io",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
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

/// What has pods and Jobs made.
const WORKLOADS: [&str; 6] =
    ["ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob", "ReplicationController"];

/// What the names of things outside of the cluster begin with.
pub(crate) const OUTSIDE: &str = "outside: ";

/// The objects of a cluster that were written since its beginning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct State(BTreeMap<String, Arc<Normal>>);

/// An object as it is compared.
#[derive(Debug)]
pub(crate) struct Normal {
    digest: u64,
    pub(crate) value: Value,
}

impl PartialEq for Normal {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for Normal {}

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

/// What differs between two undisturbed runs with other seeds: pointers into objects.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Noise(BTreeMap<String, BTreeSet<String>>);

impl Reader {
    pub(crate) fn new(noise: Arc<Noise>, home: &str) -> Self {
        Self { since: 0, home: home.to_owned(), noise, read: BTreeMap::new() }
    }

    pub(crate) fn read(&mut self, snapshot: &Snapshot) -> State {
        let mut state = BTreeMap::new();
        for resource in snapshot.resources() {
            let called = resource_name(resource);
            if LEFT_OUT.contains(&&*called) {
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
                // Those with generated names are as good as each other.
                let others = (2..).map(|n| format!("{key} (no. {n})"));
                let free = std::iter::once(key.clone()).chain(others).find(|key| !state.contains_key(key));
                state.extend(free.map(|key| (key, normal)));
            }
        }
        State(state)
    }

    fn normal(&mut self, called: &str, stored: &Arc<Stored>) -> Arc<Normal> {
        let key = (called.to_owned(), stored.key.clone());
        if let Some((revision, known)) = self.read.get(&key)
            && *revision == stored.revision
        {
            return known.clone();
        }
        let mut value = serde_json::from_slice(&stored.bytes).unwrap_or(Value::Null);
        normalise(&mut value, called);
        let name = format!("{called} {}", shown(&value, stored));
        for pointer in self.noise.clone().of(&name) {
            if let Some(noisy) = value.pointer_mut(pointer) {
                *noisy = Value::Null;
            }
        }
        let digest = digest(&[value.to_string().as_bytes()]);
        let normal = Arc::new(Normal { digest, value });
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

fn normalise(object: &mut Value, resource: &str) {
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
            annotations.remove("deployment.kubernetes.io/revision");
        }
        for owner in metadata.get_mut("ownerReferences").and_then(Value::as_array_mut).into_iter().flatten() {
            owner.as_object_mut().map(|owner| owner.remove("uid"));
        }
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
        let missing = expected.0.keys().find(|key| !self.0.contains_key(*key) && is_of_interest(key));
        if let Some(missing) = missing {
            return Some(Difference::Missing(missing.clone()));
        }
        let too_much = self.0.iter().find(|(key, _)| !expected.0.contains_key(*key) && is_of_interest(key));
        if let Some((object, normal)) = too_much {
            let is_deleting = normal.value["metadata"]["deleting"] == true;
            return Some(Difference::TooMuch { object: object.clone(), is_deleting });
        }
        let is_other = |key: &str, found: &Arc<Normal>| {
            let expected = expected.0.get(key);
            let is_grown = |expected: &Arc<Normal>| {
                key.starts_with("persistentvolumeclaims ") && is_grown(&expected.value, &found.value)
            };
            expected != Some(found) && !expected.is_some_and(is_grown)
        };
        let differing = self.0.iter().find(|(key, found)| is_of_interest(key) && is_other(key, found));
        let (object, found) = differing?;
        let (pointer, expected, found) = first_difference(&expected.0[object].value, &found.value, "")?;
        Some(Difference::Other { object: object.clone(), pointer, expected, found })
    }

    /// Adds what is outside of the cluster.
    pub(crate) fn add(&mut self, others: BTreeMap<String, Value>) {
        self.0.extend(others.into_iter().map(|(name, value)| {
            let digest = digest(&[value.to_string().as_bytes()]);
            (name, Arc::new(Normal { digest, value }))
        }));
    }

    pub(crate) fn get(&self, object: &str) -> Option<&Value> {
        self.0.get(object).map(|normal| &normal.value)
    }

    /// How many there are of an object whose name may be generated.
    pub(crate) fn count(&self, object: &str) -> usize {
        let others = format!("{object} (no. ");
        self.0.keys().filter(|key| *key == object || key.starts_with(&others)).count()
    }

    pub(crate) fn objects(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(key, normal)| (&**key, &normal.value))
    }
}

impl Noise {
    /// What of an object differs by chance.
    pub(crate) fn of(&self, object: &str) -> impl Iterator<Item = &str> {
        self.0.get(object).into_iter().flatten().map(String::as_str)
    }

    /// Adds what differs between two undisturbed states.
    pub(crate) fn add(&mut self, one: &State, other: &State) {
        for (key, normal) in &one.0 {
            if let Some(other) = other.0.get(key) {
                let mut pointers = BTreeSet::new();
                differences(&normal.value, &other.value, "", &mut pointers);
                if !pointers.is_empty() {
                    self.0.entry(key.clone()).or_default().extend(pointers);
                }
            }
        }
    }
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
    let is_of_uid = |(at, byte): (usize, &u8)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    let mut text = name.to_owned();
    let mut at = 0;
    while let Some(part) = text.as_bytes().get(at..at + 36) {
        if part.iter().enumerate().all(is_of_uid) {
            text.replace_range(at..at + 36, "(a UID)");
        }
        at += 1;
    }
    text
}

fn escaped(field: &str) -> String {
    field.replace('~', "~0").replace('/', "~1")
}
