//! What can be said of a single call: whether it destroys, tells what is not so, or lacks a right.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bytes::Bytes;
use http::StatusCode;
use kubewright_apiserver::{Quantity, store::Stored};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use super::State;
use crate::{
    call::Call,
    oracle::Oracle,
    readiness::{WELL, is_true},
    state::State as World,
};

/// How many more calls a disturbed run may take than the undisturbed one, and how many it may take anyway.
const FLOOD: (usize, usize) = (20, 5_000);

/// What the undisturbed run came to.
#[derive(Debug, Default)]
pub(crate) struct Expected {
    /// At the end of each step.
    pub(crate) states: Vec<World>,
    /// The objects that were deleted in each step.
    pub(crate) deleted: BTreeSet<(usize, String)>,
    /// The objects that the operator wrote.
    pub(crate) touched: BTreeSet<String>,
    pub(crate) calls: usize,
}

pub(super) struct Judge {
    /// Plural and group of the resource that the operator looks after.
    pub(super) primary: String,
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
        if matches!(&*call.resource, "events" | "events.events.k8s.io" | "leases.coordination.k8s.io") {
            return;
        }
        // What changes nothing is as good as nothing.
        if !code.is_success() || before.is_none_or(|before| Some(before.revision) != revision(told)) {
            state.writes.push(call.to_string());
        }
        if !code.is_success() {
            return;
        }
        let written: Value = match call.verb {
            "create" => serde_json::from_slice(told).unwrap_or_default(),
            _ => Value::Null,
        };
        let created = || {
            let name = written["metadata"]["name"].as_str()?;
            let namespace = written["metadata"]["namespace"].as_str();
            Some(namespace.map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}")))
        };
        let object = call.key().or_else(created).map(|key| format!("{} {key}", call.resource));
        let object = object.unwrap_or_else(|| call.resource.clone());
        let step = state.steps.len() - 1;
        match call.verb {
            "delete" | "deletecollection" => {
                self.deletion(state, call, sent, before.is_some(), &object, step);
                state.deleted.insert((step, object));
            }
            _ => {
                if call.subresource.is_none() {
                    self.shrinking(state, before, told, &object, step);
                    self.belated(state, before, told, call);
                    state.touched.insert(object.clone());
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
        was_there: bool,
        object: &str,
        step: usize,
    ) {
        if !self.judges(Oracle::Destruction) || !was_there && call.verb == "delete" {
            return;
        }
        let options: Value = serde_json::from_slice(sent).unwrap_or_default();
        if options["preconditions"]["uid"].as_str().is_none() {
            state.violate(Oracle::Destruction, format!("{object} was deleted without the UID that was seen"));
        }
        let Some(expected) = &self.expected else { return };
        let is_wanted = step
            .checked_sub(1)
            .and_then(|at| expected.states.get(at))
            .is_some_and(|end| end.get(object).is_some());
        if is_wanted && !expected.deleted.contains(&(step, object.to_owned())) {
            let step = &state.steps[step];
            let seen =
                format!("{object} was deleted in step `{step}`, at the end of which it should be there");
            state.violate(Oracle::Destruction, seen);
        }
    }

    fn shrinking(&self, state: &mut State, before: Option<&Stored>, told: &Bytes, object: &str, step: usize) {
        let (Some(before), Some(expected)) = (before, &self.expected) else { return };
        if !self.judges(Oracle::Destruction) || step < 2 {
            return;
        }
        let sizes = |bytes: &[u8]| serde_json::from_slice::<Sized>(bytes).unwrap_or_default().spec;
        let (before, after) = (sizes(&before.bytes), sizes(told));
        let ends = [expected.states.get(step - 2), expected.states.get(step - 1)];
        let ends: Option<Vec<Size>> = ends
            .into_iter()
            .map(|end| end?.get(object).and_then(|one| Sized::deserialize(one).ok()).map(|sized| sized.spec))
            .collect();
        let Some(ends) = ends else { return };
        let least = |size: SizeOf| {
            let wanted = ends.iter().filter_map(size).reduce(f64::min)?;
            let (before, after) = (size(&before)?, size(&after)?);
            (after < before && after < wanted).then_some((before, after, wanted))
        };
        let sizes: [(&str, SizeOf); 2] = [
            ("replicas", |size| size.replicas.map(|replicas| replicas as f64)),
            ("storage", |size| {
                let text = size.resources.requests.get("storage")?.as_str()?;
                text.parse::<Quantity>().ok().map(|quantity| quantity.as_f64())
            }),
        ];
        for (what, size) in sizes {
            if let Some((before, after, wanted)) = least(size) {
                let seen =
                    format!("{what} of {object} went from {before} to {after}, below the {wanted} asked for");
                state.violate(Oracle::Destruction, seen);
            }
        }
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

    /// Remembers that the resource says it is ready as it is now asked for.
    fn claim(&self, state: &mut State, call: &Call, told: &Bytes) {
        if !self.judges(Oracle::Status) || self.expected.is_some() || call.resource != self.primary {
            return;
        }
        let Ok(resource) = serde_json::from_slice::<Value>(told) else { return };
        let generation = resource["metadata"]["generation"].as_i64();
        let is_said = resource["status"]["observedGeneration"].as_i64() == generation
            && WELL.into_iter().any(|condition| is_true(&resource, condition));
        let is_news = state.claimed.is_none_or(|(claimed, _)| Some(claimed) != generation);
        if let Some(generation) = generation.filter(|_| is_said && is_news) {
            state.claimed = Some((generation, Instant::now()));
        }
    }

    /// A child that is changed after the resource said it was ready, in one go: the status was ahead of what was done.
    fn belated(&self, state: &mut State, before: Option<&Stored>, told: &Bytes, call: &Call) {
        let is_in_one_go = state.claimed.is_some_and(|(_, at)| at == Instant::now());
        if !is_in_one_go || call.resource == self.primary {
            return;
        }
        let generation = |bytes: &[u8]| {
            let object: Value = serde_json::from_slice(bytes).unwrap_or_default();
            object["metadata"]["generation"].clone()
        };
        if before.is_none_or(|before| generation(&before.bytes) != generation(told)) {
            let seen = format!("the resource was said to be ready, and only then came: {call}");
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
        if message.contains("cannot") {
            state.violate(Oracle::Rights, format!("{call}: {message}"));
        }
    }
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
