//! Conditions: what is true of an object, since when, and why.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde_json::{Map, Value};

/// A condition for a status. When it last changed, and for which generation it holds, is filled in when the
/// status is written.
///
/// ```
/// use kubewright::condition;
///
/// let ready = condition("Ready", true, "AllPodsReady", "3 of 3 pods are ready");
/// assert_eq!(ready.status, "True");
/// ```
pub fn condition(kind: &str, holds: bool, reason: &str, message: impl Into<String>) -> Condition {
    Condition {
        type_: kind.to_owned(),
        status: if holds { "True" } else { "False" }.to_owned(),
        reason: reason.to_owned(),
        message: message.into(),
        last_transition_time: Time(Timestamp::UNIX_EPOCH),
        observed_generation: None,
    }
}

/// Fills in since when each condition is what it is: as before if it has not changed, else from now.
pub(super) fn stamp(new: &mut [Value], old: &[Value], now: &str, generation: Option<i64>) {
    for condition in new.iter_mut().filter_map(Value::as_object_mut) {
        let before = old
            .iter()
            .filter_map(Value::as_object)
            .find(|before| before.get("type") == condition.get("type"));
        let since = before
            .filter(|before| before.get("status") == condition.get("status"))
            .and_then(|before| before.get("lastTransitionTime"))
            .cloned();
        put(condition, "lastTransitionTime", since.unwrap_or_else(|| now.into()));
        if let Some(generation) = generation {
            put(condition, "observedGeneration", generation.into());
        }
    }
}

fn put(map: &mut Map<String, Value>, field: &str, value: Value) {
    map.insert(field.to_owned(), value);
}
