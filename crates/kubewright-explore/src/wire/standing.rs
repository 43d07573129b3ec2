//! What is the case at a moment, besides what is stored: by that it is known how a run goes on.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    time::Duration,
};

use kubewright_apiserver::ApiServer;
use tokio::time::Instant;

use super::{State, Wire, deliveries::Watching};
use crate::{
    branch::Brancher,
    plan::{Beginning, Fault, Planned},
    state::resource_id,
    trace::What,
};

/// What is the case on the line besides what is stored: what an operator is told, and what is still being done to it.
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct Standing {
    /// Whether it runs.
    pub(crate) is_alive: bool,
    /// The watches that it has open, what each has still to tell, and how soon.
    watches: Vec<(String, Vec<u64>, Option<Duration>)>,
    /// What it sees instead of the present.
    view: Option<(u64, bool)>,
    /// Whether it is started again only after the next change.
    is_down: bool,
    is_slow: bool,
    /// The calls that come to nothing for a while, and those that it was told to make later.
    refused: Vec<(String, Fault)>,
    later: Vec<String>,
    /// The faults that are not over yet, and what they have struck where that matters.
    faults: Vec<(Fault, Option<String>)>,
    /// The writes that came to nothing, and what the resource was said to be by who could not know.
    undone: Vec<String>,
    claimed_blindly: Option<i64>,
}

impl Wire {
    /// What stands for everything that is stored.
    pub(crate) fn stored(&self) -> u64 {
        self.state().moments.read(&self.0.server.snapshot())
    }

    /// Whether it is known how a disturbed run goes on from a moment, and nothing more is to be done to it.
    pub(crate) fn knows(&self, moment: u64) -> bool {
        let state = self.state();
        let knows = |brancher: &Brancher| brancher.knows(moment);
        !state.struck.is_empty() && state.dice.is_none() && state.brancher.as_ref().is_some_and(knows)
    }

    /// What is the case on the line, if that can be told: not while events are held back or not listened to, somebody else
    /// leads, or it is open what has struck.
    pub(crate) fn standing(&self) -> Option<Standing> {
        let (state, now) = (self.state(), Instant::now());
        let is_down = state.down_since.is_some();
        let is_undisturbed = state.view.as_ref().is_none_or(|view| view.is_undisturbed);
        let is_parted = state.former.is_some_and(|former| now < former.until);
        if state.held > usize::from(is_down) || !is_undisturbed || is_parted || !state.open.is_empty() {
            return None;
        }
        let own =
            || state.watching.iter().filter(|((epoch, _), _)| *epoch == state.epoch).map(|(_, one)| one);
        let snapshot = self.0.server.snapshot();
        let is_behind = |one: &Watching| {
            let newest = || snapshot.changed(&resource_id(&one.resource));
            one.until.is_some() && !one.is_old && one.read_to < newest()
        };
        if own().any(is_behind) {
            return None;
        }
        let watch = |one: &Watching| {
            let untold = one.untold.iter().map(|line| state.moments.event(&one.resource, line)).collect();
            (one.resource.clone(), untold, one.until.map(|until| until.saturating_duration_since(now)))
        };
        let mut watches: Vec<_> = own().map(watch).collect();
        watches.sort();
        let refused = state.outages.iter().filter(|(_, outage)| now < outage.until);
        let later = state.pauses.iter().filter(|(_, until)| now < **until);
        let is_acting = |_: &&(Planned, Instant)| now < state.acting_until;
        Some(Standing {
            is_alive: state.is_connected,
            watches,
            view: state.view.as_ref().map(|view| (view.server.revision(), view.only.is_some())),
            is_down,
            is_slow: state.slow_until.is_some_and(|until| now < until),
            refused: refused.map(|(call, outage)| (call.clone(), outage.fault)).collect(),
            later: later.map(|(call, _)| call.clone()).collect(),
            faults: state.struck.iter().filter(is_acting).map(|(planned, _)| acting(planned)).collect(),
            undone: state.undone.iter().cloned().collect(),
            claimed_blindly: state.claimed_blindly,
        })
    }
}

impl State {
    /// The moment at which an operator that nothing was done to before dies of a fault: what is there, and what it will see.
    pub(super) fn death(&mut self, server: &ApiServer, fault: Fault) -> u64 {
        let asked = self.trace.iter().filter(|entry| entry.what == What::Ask).count();
        let mut hasher = DefaultHasher::new();
        let stored = self.moments.read(&server.snapshot());
        (fault, self.steps.len(), self.views.len(), asked, stored).hash(&mut hasher);
        hasher.finish()
    }
}

/// What a fault goes on doing.
fn acting(planned: &Planned) -> (Fault, Option<String>) {
    let strikes_one =
        planned.fault.beginning() == Some(Beginning::Late) || planned.fault == Fault::ChildDeletedLater;
    (planned.fault, strikes_one.then(|| planned.point.call.clone()))
}
