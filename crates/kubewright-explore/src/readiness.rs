//! Whether a resource that says it is ready is: its own workloads have to be.

use kubewright_apiserver::store::Snapshot;
use serde_json::Value;

use crate::{state::resource_id, subject::Subject};

/// The conditions by which a resource says that all is well; some say so in one word.
pub(crate) const WELL: [&str; 2] = ["Ready", "Available"];
/// Where such a word is.
const WORDS: [&str; 2] = ["phase", "state"];
/// Where it is only yes or no.
const FLAGS: [&str; 2] = ["ready", "Ready"];

impl Subject {
    /// What is not ready although the resource says so, if it does.
    pub(crate) fn unready(&self, snapshot: &Snapshot) -> Option<String> {
        let resource = snapshot.collection(&resource_id(&self.resource_name())).get(&self.key()).cloned()?;
        let resource: Value = serde_json::from_slice(&resource.bytes).ok()?;
        let condition = said_to_be_well(&resource)?;
        let owner = resource["metadata"]["uid"].as_str()?;
        for kind in ["deployments.apps", "statefulsets.apps", "daemonsets.apps", "pods"] {
            for stored in snapshot.collection(&resource_id(kind)).range("", "") {
                let child: Value = serde_json::from_slice(&stored.bytes).unwrap_or_default();
                let owners = child["metadata"]["ownerReferences"].as_array();
                if owners.into_iter().flatten().any(|one| one["uid"] == owner) && !is_ready(kind, &child) {
                    let name = self.object_name();
                    return Some(format!(
                        "{name} says {condition}, but its {kind} {} is not ready",
                        stored.key
                    ));
                }
            }
        }
        None
    }
}

/// How a resource says that all is well, if it does.
fn said_to_be_well(resource: &Value) -> Option<String> {
    let status = &resource["status"];
    let condition = WELL.into_iter().find(|name| is_true(resource, name)).map(str::to_owned);
    let word = || {
        let mut words = WORDS.into_iter().filter_map(|field| Some((field, status[field].as_str()?)));
        words.find(|(_, word)| WELL.contains(word)).map(|(field, word)| format!("{field} {word}"))
    };
    let flag = || FLAGS.into_iter().find(|field| status[field] == true).map(str::to_owned);
    condition.or_else(word).or_else(flag)
}

/// Whether a workload has what it needs at least.
fn is_ready(kind: &str, child: &Value) -> bool {
    let (spec, status) = (&child["spec"], &child["status"]);
    let at_least = |there: &Value, wanted: i64| there.as_i64().unwrap_or(0) >= wanted;
    match kind {
        "deployments.apps" => {
            is_true(child, "Available") && status["observedGeneration"] == child["metadata"]["generation"]
        }
        "statefulsets.apps" => at_least(&status["readyReplicas"], spec["replicas"].as_i64().unwrap_or(1)),
        "daemonsets.apps" => {
            at_least(&status["numberReady"], status["desiredNumberScheduled"].as_i64().unwrap_or(0))
        }
        _ => is_true(child, "Ready") || status["phase"] == "Succeeded",
    }
}

/// Whether a condition of an object is true.
pub(crate) fn is_true(object: &Value, condition: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|one| one["type"] == condition && one["status"] == "True")
}
