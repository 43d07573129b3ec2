//! Whether a resource that says it is ready is: its own workloads have to be, and its own custom resources must not say that
//! they are not.

use std::collections::BTreeSet;

use kubewright_apiserver::store::Snapshot;
use serde_json::Value;

use crate::{state::resource_id, subject::Subject};

/// The conditions by which a resource says that all is well.
pub(crate) const WELL: [&str; 2] = ["Ready", "Available"];
/// Some say so in one of these words,
const IN_A_WORD: [&str; 5] = ["Ready", "Available", "Running", "Healthy", "Online"];
/// which is in one of these fields.
const WORDS: [&str; 2] = ["phase", "state"];
/// Where it is only yes or no.
const FLAGS: [&str; 2] = ["ready", "Ready"];
/// What goes on for as long as the resource is there.
const WORKLOADS: [&str; 4] = ["deployments.apps", "statefulsets.apps", "daemonsets.apps", "pods"];
/// What comes to an end: only who has nothing else is ready with it, and it may well be running until then.
const TASKS: &str = "jobs.batch";
const RUNNING: &str = "Running";
/// Where custom resources are defined: the names of these are those of their resources.
const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// A workload that is not ready although its resource says so.
pub(crate) struct Unready {
    /// What is seen of it.
    pub(crate) seen: String,
    /// The UID of the workload.
    pub(crate) workload: String,
}

impl Subject {
    /// What is not ready although the resource says so, if it does.
    pub(crate) fn unready(&self, snapshot: &Snapshot) -> Option<Unready> {
        let resource = snapshot.collection(&resource_id(&self.resource_name())).get(&self.key()).cloned()?;
        let resource: Value = serde_json::from_slice(&resource.bytes).ok()?;
        let said = said_to_be_well(&resource)?;
        let owner = resource["metadata"]["uid"].as_str()?;
        let mut workloads = owned(snapshot, owner, WORKLOADS.map(str::to_owned));
        if workloads.is_empty() && !said.ends_with(RUNNING) {
            workloads = owned(snapshot, owner, [TASKS.to_owned()]);
        }
        workloads.extend(owned(snapshot, owner, custom(snapshot)));
        let (kind, key, child) = workloads.into_iter().find(|(kind, _, child)| !is_ready(kind, child))?;
        Some(Unready {
            seen: format!("{} says {said}, but its {kind} {key} is not ready", self.object_name()),
            workload: child["metadata"]["uid"].as_str().unwrap_or_default().to_owned(),
        })
    }
}

/// The UIDs of all workloads that are ready.
pub(crate) fn ready_workloads(snapshot: &Snapshot) -> BTreeSet<String> {
    let mut ready = BTreeSet::new();
    for kind in WORKLOADS.into_iter().chain([TASKS]).map(str::to_owned).chain(custom(snapshot)) {
        for stored in snapshot.collection(&resource_id(&kind)).range("", "") {
            let child: Value = serde_json::from_slice(&stored.bytes).unwrap_or_default();
            let uid = child["metadata"]["uid"].as_str().map(str::to_owned);
            ready.extend(uid.filter(|_| is_ready(&kind, &child)));
        }
    }
    ready
}

/// The objects of some kinds that belong to an owner, with their kinds and keys.
fn owned(
    snapshot: &Snapshot,
    owner: &str,
    kinds: impl IntoIterator<Item = String>,
) -> Vec<(String, String, Value)> {
    let mut owned = Vec::new();
    for kind in kinds {
        for stored in snapshot.collection(&resource_id(&kind)).range("", "") {
            let child: Value = serde_json::from_slice(&stored.bytes).unwrap_or_default();
            let owners = child["metadata"]["ownerReferences"].as_array();
            if owners.into_iter().flatten().any(|one| one["uid"] == owner) {
                owned.push((kind.clone(), stored.key.to_string(), child));
            }
        }
    }
    owned
}

/// The kinds of custom resources.
fn custom(snapshot: &Snapshot) -> Vec<String> {
    let definitions = snapshot.collection(&resource_id(DEFINITIONS));
    definitions.range("", "").map(|definition| definition.name().to_owned()).collect()
}

/// How a resource says that all is well, if it does.
fn said_to_be_well(resource: &Value) -> Option<String> {
    let status = &resource["status"];
    let condition = WELL.into_iter().find(|name| is_true(resource, name)).map(str::to_owned);
    let word = || {
        let mut words = WORDS.into_iter().filter_map(|field| Some((field, status[field].as_str()?)));
        words.find(|(_, word)| IN_A_WORD.contains(word)).map(|(field, word)| format!("{field} {word}"))
    };
    let flag = || FLAGS.into_iter().find(|field| status[field] == true).map(str::to_owned);
    condition.or_else(word).or_else(flag)
}

/// Whether a workload has what it needs at least.
fn is_ready(kind: &str, child: &Value) -> bool {
    let (spec, status) = (&child["spec"], &child["status"]);
    let at_least = |there: &Value, wanted: i64| there.as_i64().unwrap_or(0) >= wanted;
    let is_observed = || status["observedGeneration"] == child["metadata"]["generation"];
    match kind {
        "deployments.apps" => is_true(child, "Available") && is_observed(),
        "statefulsets.apps" => {
            at_least(&status["readyReplicas"], spec["replicas"].as_i64().unwrap_or(1)) && is_observed()
        }
        "daemonsets.apps" => {
            at_least(&status["numberReady"], status["desiredNumberScheduled"].as_i64().unwrap_or(0))
                && is_observed()
        }
        TASKS => is_true(child, "Complete"),
        "pods" => is_true(child, "Ready") || status["phase"] == "Succeeded",
        // Of a custom resource only what it says itself is known.
        _ => {
            WELL.into_iter().any(|name| is_true(child, name))
                || !WELL.into_iter().any(|name| has(child, name))
        }
    }
}

/// Whether an object has a condition, whichever way it is.
fn has(object: &Value, condition: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|one| one["type"] == condition)
}

/// Whether a condition of an object is true.
pub(crate) fn is_true(object: &Value, condition: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|one| one["type"] == condition && one["status"] == "True")
}
