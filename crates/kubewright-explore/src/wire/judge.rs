//! What can be said of a single call: whether it destroys, tells what is not so, or lacks a right.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bytes::Bytes;
use http::StatusCode;
use kubewright_apiserver::{
    ApiServer, Quantity,
    store::{Snapshot, Stored},
};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use super::{LATENCY, State};
use crate::{
    call::Call,
    oracle::Oracle,
    readiness::WELL,
    state::{Noise, State as World, content_of, normalise, resource_id, shown_as, uids_in},
    trace::find,
};

/// How many more calls a disturbed run may take than the undisturbed one, and how many it may take anyway.
const FLOOD: (usize, usize) = (20, 5_000);

/// What the undisturbed run came to.
#[derive(Debug, Default)]
pub(crate) struct Expected {
    /// At the end of each step.
    pub(crate) states: Vec<World>,
    /// The objects that were deleted in each step, and what was in them.
    pub(crate) deleted: BTreeMap<(usize, String), BTreeSet<u64>>,
    /// The objects that the operator wrote.
    pub(crate) touched: BTreeSet<String>,
    /// How small what was made in each step.
    pub(crate) smallest: BTreeMap<(usize, String), f64>,
    /// Values made by chance that were made anew, in an object that stayed.
    pub(crate) renewed: BTreeSet<String>,
    pub(crate) calls: usize,
    /// What each step comes to if there is none before it, as far as that is known.
    pub(crate) fresh: Vec<Option<World>>,
}

pub(super) struct Judge {
    pub(super) server: ApiServer,
    /// Plural and group of the resource that the operator looks after.
    pub(super) primary: String,
    pub(super) noise: Arc<Noise>,
    pub(super) expected: Option<Arc<Expected>>,
    pub(super) oracles: BTreeSet<Oracle>,
}

/// What of an object tells how big it is.
#[derive(Deserialize, Default)]
struct Sized {
    #[serde(default)]
    spec: Size,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Size {
    replicas: Option<i64>,
    resources: Requests,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Requests {
    requests: BTreeMap<String, Value>,
}

/// Tells how big something is, in one way of several.
type SizeOf = fn(&Size) -> Option<f64>;

impl Judge {
    pub(super) fn most_calls(&self) -> usize {
        let undisturbed = self.expected.as_ref().map_or(0, |expected| expected.calls);
        FLOOD.1.max(undisturbed * FLOOD.0)
    }

    /// A write that was let through.
    pub(super) fn write(
        &self,
        state: &mut State,
        call: &Call,
        sent: &Bytes,
        before: Option<&Stored>,
        code: StatusCode,
        told: &Bytes,
    ) {
        if call.is_told() {
            return;
        }
        state.undone.remove(&call.to_string());
        // What changes nothing is as good as nothing, also to find out in this way that something is there already.
        let is_there_already = call.verb == "create" && code == StatusCode::CONFLICT;
        if !code.is_success() && !is_there_already || code.is_success() && changes(before, told) {
            let refused =
                if code.is_success() { String::new() } else { format!(", which was refused: {code}") };
            state.writes.push(format!("{call}{refused}"));
        }
        if !code.is_success() {
            return;
        }
        let named = Named::of(before.map_or(told, |before| &before.bytes));
        let object = call.key().or_else(|| named.key()).map(|key| shown_as(&key, named.generated_from()));
        let object = object.map_or_else(|| call.resource.clone(), |key| format!("{} {key}", call.resource));
        let step = state.steps.len() - 1;
        match call.verb {
            "delete" | "deletecollection" => {
                let content = before.map(|before| self.noise.content(&call.resource, &object, &before.bytes));
                self.deletion(state, call, sent, content, &object, step);
                state.deleted.entry((step, object)).or_default().extend(content);
            }
            _ => {
                if call.subresource.is_none() {
                    self.shrinking(state, before, told, &object, step);
                    self.renewal(state, before, told, &object);
                    self.belated(state, before, told, call);
                    state.touched.insert(object.clone());
                    if before.is_none() {
                        state.made.insert(object.clone());
                    }
                }
                self.status(state, before, told, &object);
                self.claim(state, call, told);
            }
        }
    }

    fn judges(&self, oracle: Oracle) -> bool {
        self.oracles.contains(&oracle)
    }

    fn deletion(
        &self,
        state: &mut State,
        call: &Call,
        sent: &Bytes,
        content: Option<u64>,
        object: &str,
        step: usize,
    ) {
        if !self.judges(Oracle::Destruction) || content.is_none() && call.verb == "delete" {
            return;
        }
        let options: Value = serde_json::from_slice(sent).unwrap_or_default();
        let is_exact = options["preconditions"]["uid"].is_string() || call.selects_by_uid;
        if !is_exact {
            state.violate(Oracle::Destruction, format!("{object} was deleted without the UID that was seen"));
        }
        let Some(expected) = self.expected.as_ref().filter(|_| !self.is_of_who_is_gone(call)) else { return };
        let end = step.checked_sub(1).and_then(|at| expected.states.get(at));
        let wanted = end.map_or(0, |end| end.count(object));
        let is_wanted = self.count(call, object) < wanted;
        // One of that name may go undisturbed, too, but not as it is in the end if that is not what went.
        let is_usual = expected.deleted.get(&(step, object.to_owned())).is_some_and(|usual| {
            let wanted = end.and_then(|end| end.get(object)).map(content_of);
            content.is_none_or(|content| usual.contains(&content) || wanted != Some(content))
        });
        if is_wanted && !is_usual {
            let step = &state.steps[step];
            let seen =
                format!("{object} was deleted in step `{step}`, at the end of which it should be there");
            state.violate(Oracle::Destruction, seen);
        }
    }

    /// Whether an object is called after the UID of a resource that is not there any more.
    fn is_of_who_is_gone(&self, call: &Call) -> bool {
        let all = self.server.snapshot().collection(&resource_id(&self.primary));
        let is_there =
            |uid: &str| all.range("", "").any(|stored| find(&stored.bytes, uid.as_bytes()).is_some());
        call.key().is_some_and(|key| uids_in(&key).any(|uid| !is_there(uid)))
    }

    /// How many objects there are that are called like this, and stay.
    fn count(&self, call: &Call, object: &str) -> usize {
        let all = self.server.snapshot().collection(&resource_id(&call.resource));
        let is_like = |stored: &&Arc<Stored>| {
            let one = Named::of(&stored.bytes);
            let called = one.key().map(|key| shown_as(&key, one.generated_from()));
            !one.is_going() && called.is_some_and(|key| format!("{} {key}", call.resource) == object)
        };
        all.range("", "").filter(is_like).count()
    }

    fn shrinking(&self, state: &mut State, before: Option<&Stored>, told: &Bytes, object: &str, step: usize) {
        let Some(before) = before else { return };
        let sizes = |bytes: &[u8]| serde_json::from_slice::<Sized>(bytes).unwrap_or_default().spec;
        let (before, after) = (sizes(&before.bytes), sizes(told));
        let measures: [(&str, SizeOf); 2] = [
            ("replicas", |size| size.replicas.map(|replicas| replicas as f64)),
            ("storage", |size| {
                let text = size.resources.requests.get("storage")?.as_str()?;
                text.parse::<Quantity>().ok().map(|quantity| quantity.as_f64())
            }),
        ];
        for (what, size) in measures {
            let (Some(before), Some(after)) = (size(&before), size(&after)) else { continue };
            if after >= before {
                continue;
            }
            let what = format!("{what} of {object}");
            if let Some(wanted) = self.wanted(object, step, &what, size)
                && after < wanted
                && self.judges(Oracle::Destruction)
            {
                let seen = format!("{what} went from {before} to {after}, below the {wanted} asked for");
                state.violate(Oracle::Destruction, seen);
            }
            let smallest = state.smallest.entry((step, what)).or_insert(after);
            *smallest = smallest.min(after);
        }
    }

    /// How big something has to be at least in a step: as before it, after it, or meanwhile where nothing goes wrong.
    fn wanted(&self, object: &str, step: usize, what: &str, size: SizeOf) -> Option<f64> {
        let expected = self.expected.as_ref()?;
        let end = |step: usize| {
            let object = expected.states.get(step)?.get(object)?;
            size(&Sized::deserialize(object).ok()?.spec)
        };
        let ends = end(step.checked_sub(2)?)?.min(end(step - 1)?);
        let meanwhile = expected.smallest.get(&(step, what.to_owned()));
        Some(meanwhile.map_or(ends, |meanwhile| ends.min(*meanwhile)))
    }

    /// A password or the like that is made anew is lost to all who have it.
    fn renewal(&self, state: &mut State, before: Option<&Stored>, told: &Bytes, object: &str) {
        if !matches!(object.split(' ').next(), Some("secrets" | "configmaps")) {
            return;
        }
        let read = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap_or_default();
        let Some(before) = before.map(|before| read(&before.bytes)) else { return };
        let after = read(told);
        let is_new = |pointer: &&str| match (before.pointer(pointer), after.pointer(pointer)) {
            (Some(before), Some(after)) => pointer.starts_with("/data/") && before != after,
            _ => false,
        };
        let Some(pointer) = self.noise.of(object).find(is_new) else { return };
        let value = format!("{pointer} of {object}");
        let snapshot = self.server.snapshot();
        let is_usual = self.expected.as_ref().is_none_or(|expected| expected.renewed.contains(&value))
            || after.pointer(pointer).and_then(Value::as_str).is_some_and(|text| is_made_up(text, &snapshot))
            || self.noise.follows(object, pointer, &after, &snapshot);
        if !is_usual && self.judges(Oracle::Destruction) {
            let seen =
                format!("{value} was made anew: it is random, and whoever knows the old one is locked out");
            state.violate(Oracle::Destruction, seen);
        }
        state.renewed.insert(value);
    }

    fn status(&self, state: &mut State, before: Option<&Stored>, told: &Bytes, object: &str) {
        if !self.judges(Oracle::Status) {
            return;
        }
        let Ok(after) = serde_json::from_slice::<Value>(told) else { return };
        let (observed, generation) =
            (after["status"]["observedGeneration"].as_i64(), after["metadata"]["generation"].as_i64());
        if observed > generation && generation.is_some() {
            let seen = format!("{object} says it has observed generation {observed:?} of {generation:?}");
            state.violate(Oracle::Status, seen);
        }
        // What sees the past can't know since when something is so.
        if Instant::now() < state.disturbed_until {
            return;
        }
        let Some(before) = before.and_then(|stored| serde_json::from_slice::<Value>(&stored.bytes).ok())
        else {
            return;
        };
        let conditions = |object: &Value| -> BTreeMap<String, (String, String)> {
            let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            conditions
                .iter()
                .map(|one| (text(&one["type"]), (text(&one["status"]), text(&one["lastTransitionTime"]))))
                .collect()
        };
        let (before, after) = (conditions(&before), conditions(&after));
        for (name, (status, since)) in &after {
            if let Some((was, was_since)) = before.get(name)
                && was == status
                && was_since != since
            {
                let seen = format!(
                    "{object}: condition {name} is {status} as before, but its transition time has moved"
                );
                state.violate(Oracle::Status, seen);
            }
        }
    }

    /// Remembers that the resource says it is as it is now asked for.
    fn claim(&self, state: &mut State, call: &Call, told: &Bytes) {
        let (is_blind, has_failed) = (state.is_blind(&self.primary), !state.undone.is_empty());
        // After several faults it can't be told which of them something was said in spite of.
        let is_judged = self.expected.is_none() || (is_blind || has_failed) && state.struck.len() == 1;
        if !self.judges(Oracle::Status) || !is_judged || call.resource != self.primary {
            return;
        }
        let Ok(resource) = serde_json::from_slice::<Value>(told) else { return };
        let generation = resource["metadata"]["generation"].as_i64();
        let is_said =
            resource["status"]["observedGeneration"].as_i64() == generation && !is_under_way(&resource);
        if let Some(undone) = state.undone.first().cloned() {
            if is_said && self.is_as_at_end(state, call, &resource) {
                let seen = format!("the resource is said to be as asked for, but this has failed: {undone}");
                state.violate(Oracle::Status, seen);
            }
            return;
        }
        let is_news = state.claimed.is_none_or(|(claimed, _)| Some(claimed) != generation);
        if let Some(generation) = generation.filter(|_| is_said && is_news) {
            state.claimed = Some((generation, Instant::now()));
            state.claimed_blindly = is_blind.then_some(generation);
        }
    }

    /// Whether a resource has the status that it has when all is done.
    fn is_as_at_end(&self, state: &State, call: &Call, resource: &Value) -> bool {
        let end = || {
            let end = self.expected.as_ref()?.states.get(state.steps.len().checked_sub(2)?)?;
            end.get(&format!("{} {}", call.resource, call.key()?))
        };
        let mut resource = resource.clone();
        normalise(&mut resource, &call.resource);
        end().is_some_and(|end| end["status"] == resource["status"])
    }

    /// A child that is changed after the resource said it was as asked for, in one go, or by who could not see what was asked
    /// for: the status was ahead of what was done.
    fn belated(&self, state: &mut State, before: Option<&Stored>, told: &Bytes, call: &Call) {
        let is_in_one_go = state.claimed.is_some_and(|(_, at)| Instant::now() <= at + 2 * LATENCY)
            && self.expected.is_none();
        let is_found_out = state.claimed_blindly.is_some() && before.is_some() && state.struck.len() == 1;
        if !is_in_one_go && !is_found_out || call.resource == self.primary || is_of_machinery(&call.resource)
        {
            return;
        }
        // What belongs to somebody else is for its own status to tell of.
        let owners = Named::of(told).metadata.owner_references;
        let is_of_primary = |owner: &Owner| state.seen.as_ref().is_some_and(|(uid, ..)| owner.uid == *uid);
        if !owners.is_empty() && !owners.iter().any(is_of_primary) {
            return;
        }
        if changes(before, told) {
            let seen = format!("the resource was said to be as asked for, and only then came: {call}");
            state.violate(Oracle::Status, seen);
        }
    }

    /// An answer of the server.
    pub(super) fn answer(&self, state: &mut State, call: &Call, code: StatusCode, told: &Bytes) {
        if code != StatusCode::FORBIDDEN || !self.judges(Oracle::Rights) {
            return;
        }
        let status: Value = serde_json::from_slice(told).unwrap_or_default();
        let message = status["message"].as_str().unwrap_or_default();
        // Others may refuse things, too, for reasons of their own.
        if message.contains("cannot") || message.contains("is attempting to grant") {
            state.violate(Oracle::Rights, format!("{call}: {message}"));
        }
    }
}

/// Whether objects are how a cluster gets to an operator, and not what that is for.
pub(super) fn is_of_machinery(resource: &str) -> bool {
    resource.ends_with(".apiextensions.k8s.io") || resource.ends_with(".admissionregistration.k8s.io")
}

/// Whether a resource says that something is still to be done.
fn is_under_way(resource: &Value) -> bool {
    let conditions = resource["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|one| match one["type"].as_str() {
        Some("Progressing" | "Reconciling") => one["status"] == "True",
        Some(condition) if WELL.contains(&condition) => one["status"] != "True",
        _ => false,
    })
}

/// What of an object tells how it is called.
#[derive(Deserialize, Default)]
struct Named {
    #[serde(default)]
    metadata: Name,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Name {
    name: String,
    namespace: String,
    generate_name: String,
    deletion_timestamp: Option<String>,
    owner_references: Vec<Owner>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Owner {
    uid: String,
}

impl Named {
    fn of(object: &[u8]) -> Self {
        serde_json::from_slice(object).unwrap_or_default()
    }

    fn key(&self) -> Option<String> {
        let Name { name, namespace, .. } = &self.metadata;
        match (&**namespace, &**name) {
            (_, "") => None,
            ("", name) => Some(name.to_owned()),
            (namespace, name) => Some(format!("{namespace}/{name}")),
        }
    }

    fn generated_from(&self) -> Option<&str> {
        Some(&*self.metadata.generate_name).filter(|prefix| !prefix.is_empty())
    }

    fn is_going(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}

/// Whether a text is a name that the server has made up: that is no secret.
fn is_made_up(text: &str, snapshot: &Snapshot) -> bool {
    let is_called_so =
        |stored: &Arc<Stored>| stored.name() == text && Named::of(&stored.bytes).generated_from().is_some();
    snapshot.resources().any(|resource| snapshot.collection(resource).range("", "").any(is_called_so))
}

/// Whether a write has changed more than who is said to own what, and since when.
fn changes(before: Option<&Stored>, told: &Bytes) -> bool {
    let Some(before) = before.filter(|before| Some(before.revision) != revision(told)) else {
        return before.is_none();
    };
    let content = |bytes: &[u8]| {
        let mut object: Value = serde_json::from_slice(bytes).unwrap_or_default();
        let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
        metadata.map(|fields| (fields.remove("managedFields"), fields.remove("resourceVersion")));
        object
    };
    content(&before.bytes) != content(told)
}

/// The revision of an object that was answered.
fn revision(told: &Bytes) -> Option<u64> {
    #[derive(Deserialize, Default)]
    #[serde(rename_all = "camelCase", default)]
    struct Metadata {
        resource_version: String,
    }
    #[derive(Deserialize)]
    struct Answer {
        #[serde(default)]
        metadata: Metadata,
    }
    serde_json::from_slice::<Answer>(told).ok()?.metadata.resource_version.parse().ok()
}
