//! The condition `Stalled`: that an object does not get on, because of a terminal error, after which nothing is done
//! before it changes, or because of one that comes again and again. It is kept beside the conditions that the
//! reconciler writes, none of which it touches.

use serde_json::{Value, json};

use super::{Shared, condition, request};
use crate::{
    error::{Error, Result},
    kind::{Key, Kind, Seen, revision, uid},
};

const TYPE: &str = "Stalled";
/// Tells it from a condition of the same type that a reconciler writes.
const REASONS: [&str; 2] = ["TerminalError", "RetriedError"];
/// How many times in a row a reconcile fails until it is told: what passes by itself is not worth a word.
const PATIENCE: u32 = 3;
/// The longest message the API takes, in bytes.
const LONGEST_MESSAGE: usize = 32768;

/// Says why an object is stalled, or that it is not any more; `failures` is how often it has failed in a row. Fails
/// if that has to be tried again: nothing else would bring it up once more.
pub(crate) async fn stall<K: Kind>(
    shared: &Shared,
    object: &Seen<K>,
    why: Option<&Error>,
    failures: u32,
) -> Result<()> {
    let is_passing = why.is_some_and(|why| !why.is_terminal() && failures < PATIENCE);
    if !shared.status.tells_stalled || is_passing {
        return Ok(());
    }
    let key = Key::of(&**object);
    // With what this reconcile has written.
    let Some(current) = shared.views.get::<K>()?.get(&key).filter(|newer| uid(&**newer) == uid(&**object))
    else {
        return Ok(());
    };
    let status = serde_json::to_value(&*current)?.get_mut("status").map(Value::take).unwrap_or_default();
    let wanted = why.map(|why| shared.stalled(why, &status, object.meta().generation)).transpose()?;
    let Some(change) = change(&status, wanted) else { return Ok(()) };
    let unchanged = json!({"op": "replace", "path": "/metadata/resourceVersion", "value": current.meta().resource_version});
    let expected = shared.echoes.expect(&shared.queue, &key, revision(&*current));
    let steps = json!([unchanged, change]);
    match request::steps::<K>(&shared.client, &key, Some("status"), &steps, &shared.operator).await {
        Ok(answer) => {
            shared.cache.wrote(&answer);
            expected.written(revision(&*answer.object));
            Ok(())
        }
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) if is_overtaken(&error) || why.is_none() => Err(error.into()),
        // What is tried again anyway is told then, and what may not be said never is.
        Err(error) if why.is_some_and(Error::is_terminal) && passes(&error) => Err(error.into()),
        Err(error) => {
            tracing::warn!(%error, "the condition {TYPE} was not written");
            Ok(())
        }
    }
}

/// Whether the object is no longer as it was last seen.
fn is_overtaken(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

/// Whether something that is in the way may not be any more when it is tried again.
fn passes(error: &kube::Error) -> bool {
    !matches!(error, kube::Error::Api(status) if status.code < 500 && status.code != 429)
}

impl Shared {
    fn stalled(&self, why: &Error, status: &Value, generation: Option<i64>) -> Result<Value> {
        let [terminal, retried] = REASONS;
        let (reason, mut why) = (if why.is_terminal() { terminal } else { retried }, why.to_string());
        why.truncate(why.floor_char_boundary(LONGEST_MESSAGE));
        let mut wanted = [serde_json::to_value(condition::condition(TYPE, true, reason, why))?];
        let generation = generation.filter(|_| self.status.conditions_have_generation);
        condition::stamp(&mut wanted, conditions(status), &format!("{:.0}", self.clock.now()), generation);
        let [wanted] = wanted;
        Ok(wanted)
    }
}

/// The step from a status to one with the wanted condition, or without any; nothing if that is what it is.
fn change(status: &Value, wanted: Option<Value>) -> Option<Value> {
    let present = conditions(status);
    match (present.iter().position(|one| one["type"] == TYPE), wanted) {
        // A reconciler that says it itself would say it again: neither would ever come to rest.
        (Some(at), _) if !is_ours(&present[at]) => None,
        (Some(at), Some(wanted)) => (present[at] != wanted)
            .then(|| json!({"op": "replace", "path": format!("/status/conditions/{at}"), "value": wanted})),
        (Some(at), None) => Some(json!({"op": "remove", "path": format!("/status/conditions/{at}")})),
        (None, None) => None,
        (None, Some(wanted)) => Some(match (status, status.get("conditions")) {
            (Value::Null, _) => json!({"op": "add", "path": "/status", "value": {"conditions": [wanted]}}),
            (_, None) => json!({"op": "add", "path": "/status/conditions", "value": [wanted]}),
            (_, Some(_)) => json!({"op": "add", "path": "/status/conditions/-", "value": wanted}),
        }),
    }
}

fn is_ours(condition: &Value) -> bool {
    condition["type"] == TYPE && REASONS.iter().any(|reason| condition["reason"] == *reason)
}

fn conditions(status: &Value) -> &[Value] {
    status.get("conditions").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// A status as the reconciler left it: whether the object is stalled is not for it to say, unless it does.
pub(super) fn leave_out(status: &mut Value, wanted: &Value) {
    if conditions(wanted).iter().any(|one| one["type"] == TYPE) {
        return;
    }
    let Some(Value::Array(present)) = status.get_mut("conditions") else { return };
    let before = present.len();
    present.retain(|one| !is_ours(one));
    if present.is_empty() && before > 0 && wanted.get("conditions").is_none() {
        status.as_object_mut().map(|status| status.remove("conditions"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_reconciler_says_itself_is_left_to_it() {
        let ours = json!({"type": TYPE, "status": "True", "reason": REASONS[0]});
        let theirs = json!({"conditions": [{"type": TYPE, "status": "False", "reason": "Fine"}]});
        assert_eq!(change(&theirs, Some(ours.clone())), None);
        assert_eq!(change(&theirs, None), None);
        assert_eq!(change(&json!({"conditions": [ours.clone()]}), Some(ours)), None, "nothing to say anew");
    }
}
