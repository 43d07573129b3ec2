//! How a step ends, and what must hold then: all is where it should be, or where it is known how it goes on, and stays there.

use std::{sync::Arc, time::Duration};

use kubewright_apiserver::store::Stored;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::{AFTERWARDS, LOOK, PATIENCE, Run, outside};
use crate::{
    lookout::Lookout,
    oracle::Oracle,
    secrets,
    state::{Difference, OUTSIDE, State, normalise, resource_id},
    trace::find,
    wire::LATENCY,
    world::World,
};

/// How long anything may be done to it meanwhile.
const LONGEST: Duration = Duration::from_secs(6 * 60 * 60);
/// How long nothing must happen for an undisturbed run to have come to rest: who looks again every minute has done so.
const REST: Duration = Duration::from_secs(65);
/// How long nothing may be written once all is well, in a disturbed run and in one that was not.
const QUIET: Duration = Duration::from_secs(60);
const LONG_QUIET: Duration = Duration::from_secs(3 * 60);
/// What a Deployment says that has missed the deadline of its progress.
const MISSED: &[u8] = br#""reason":"ProgressDeadlineExceeded""#;

/// How a step ends.
pub(super) enum Rest {
    /// Where it should.
    Reached,
    /// Where it is known how it goes on.
    Known,
    /// Not at all.
    Never,
}

impl Run<'_> {
    fn read(&mut self) -> State {
        let (snapshot, outside) = (self.cluster.server().snapshot(), outside(&self.rehearsal));
        let state = self.wire.state();
        let expected = self.expected.iter().map(|expected| &expected.touched);
        let own: Vec<_> = expected.chain([&state.touched]).collect();
        self.reader.read(&snapshot, outside, &own)
    }

    /// Waits until the step has come to its end, or to where it is known how it goes on.
    pub(super) async fn rest(&mut self, at: usize, lookout: &mut Lookout) -> Rest {
        tokio::select! {
            biased;
            () = lookout.meet(at) => {}
            rested = self.reach(at) => return rested,
        }
        // A moment does not tell one address from another: whether a copy of one is the right one has to be waited for.
        match self.reader.noise.has_copies() && self.read().is_torn() {
            true => self.reach(at).await,
            false => Rest::Known,
        }
    }

    /// Waits until the step has come to its end.
    async fn reach(&mut self, at: usize) -> Rest {
        let expected = self.expected.clone();
        let state = loop {
            let state = match expected.as_ref().and_then(|expected| expected.states.get(at)) {
                Some(wanted) => {
                    let fresh = expected.as_ref().and_then(|expected| expected.fresh.get(at)?.as_ref());
                    self.arrive(wanted, fresh, at).await
                }
                None => self.come_to_rest().await,
            };
            let Some(state) = state else { return Rest::Never };
            if !self.wire.strike_at_rest() {
                break state;
            }
        };
        // What is asked for first is what works.
        if expected.is_none() && at == 0 && self.operator.is_failing() {
            let seen = format!("at the end of step `{}`, reconciles still fail", self.step_name(at));
            self.violate(Oracle::Converges, seen);
        }
        // While something is held back, the step has not come to its end.
        if !self.wire.holds_back() {
            self.look(&state, at);
        }
        self.states.push(state);
        self.late = self.late();
        Rest::Reached
    }

    /// Waits until nothing happens any more.
    async fn come_to_rest(&mut self) -> Option<State> {
        let began = Instant::now();
        loop {
            let before = self.read();
            let writes = self.writes();
            sleep(REST).await;
            let after = self.read();
            if self.writes() == writes && before == after {
                return Some(after);
            }
            if began.elapsed() > PATIENCE {
                let last = self.wire.state().writes.last().cloned().unwrap_or_default();
                self.violate(
                    Oracle::Converges,
                    format!("no rest within {PATIENCE:?}, the last write is: {last}"),
                );
                return None;
            }
        }
    }

    /// Waits until everything is as in the undisturbed run, or as if this step were the first.
    async fn arrive(&mut self, wanted: &State, fresh: Option<&State>, at: usize) -> Option<State> {
        let began = Instant::now();
        let (mut pause, mut alone_since) = (LOOK, None);
        loop {
            sleep(pause).await;
            let state = self.read();
            let is_left_alone = self.wire.is_left_alone();
            alone_since = alone_since.or_else(|| is_left_alone.then(Instant::now));
            let difference = state.difference_to_one_of(wanted, fresh);
            if difference.is_none() && is_left_alone {
                // If it is known how it goes on, that is seen now.
                sleep(4 * LATENCY).await;
                return Some(state);
            }
            // What is held back until the next change can't be waited for.
            if self.wire.holds_back() && began.elapsed() > QUIET {
                return Some(state);
            }
            let is_over = |since: Option<Instant>| since.is_some_and(|since| since.elapsed() > PATIENCE);
            if began.elapsed() > LONGEST || is_left_alone && is_over(alone_since) {
                if let Some(difference) = difference {
                    self.accuse(at, &difference).await;
                }
                return None;
            }
            pause = (began.elapsed() / 10).max(LOOK);
        }
    }

    /// Says which oracle it is that does not hold.
    async fn accuse(&mut self, at: usize, difference: &Difference) {
        let before = self.unrest().await;
        sleep(PATIENCE).await;
        let step = self.step_name(at);
        let is_restless = self.unrest().await != before;
        let oracle = match difference {
            _ if is_restless => Oracle::Converges,
            Difference::TooMuch { .. } => Oracle::Leaks,
            _ => Oracle::EndState,
        };
        let so = if is_restless { ", and the operator still tries" } else { "" };
        self.violate(oracle, format!("at the end of step `{step}`, {difference}{so}"));
    }

    /// What counts up as long as the operator tries.
    async fn unrest(&self) -> (usize, f64) {
        let failures = self.operator.failures().await;
        (self.writes(), failures)
    }

    fn step_name(&self, at: usize) -> String {
        self.wire.state().step_name(at + 1)
    }

    pub(super) fn violate(&self, oracle: Oracle, seen: String) {
        if self.subject.oracles.contains(&oracle) {
            self.wire.state().violate(oracle, seen);
        }
    }

    /// What must hold at the end of every step.
    fn look(&mut self, state: &State, at: usize) {
        self.wire.observe();
        let demands = &self.subject.demands;
        let world = World::new(self.cluster.server().snapshot(), &demands.namespace);
        if let Some(demand) = demands.eventually.iter().find(|demand| !(demand.holds)(&world)) {
            let step = self.step_name(at);
            self.violate(Oracle::Eventually, format!("not at the end of step `{step}`: {}", demand.name));
        }
        self.look_for_secrets();
        if let Some(unready) = self.subject.unready(&self.cluster.server().snapshot()) {
            let step = self.step_name(at);
            self.violate(Oracle::Status, format!("at the end of step `{step}`, {}", unready.seen));
        }
        let is_gone = self.subject.is_deleted_at_end(state);
        if is_gone {
            let (made, touched) = {
                let state = self.wire.state();
                (state.made.clone(), state.touched.clone())
            };
            let is_outside = |key: &str| key.starts_with(OUTSIDE) && !self.outside.contains(key);
            let is_left = |key: &str, now: &Value| match self.before(key) {
                Some(before) => touched.contains(key) && before != *now,
                // What others have made is theirs, though the operator may have changed it.
                None => made.contains(key) || is_outside(key),
            };
            let left = state.objects().find(|(key, now)| is_left(key, now));
            if let Some((left, _)) = left {
                let step = self.step_name(at);
                self.violate(Oracle::Leaks, format!("at the end of step `{step}`, {left} is left"));
            }
        }
    }

    /// An object as it was before the operator, if it was there.
    fn before(&self, name: &str) -> Option<Value> {
        let (resource, key) = name.split_once(' ')?;
        let original = self.wire.original(resource, key)?;
        let mut original = serde_json::from_slice(&original.bytes).ok()?;
        normalise(&mut original, resource);
        Some(original)
    }

    pub(super) fn look_for_secrets(&mut self) {
        let (snapshot, since) = (self.cluster.server().snapshot(), self.reader.since);
        self.secrets.extend(secrets::of(&snapshot, since));
        if let Some(told) = secrets::told(&self.secrets, &snapshot, since, &self.logs) {
            self.violate(Oracle::Rights, told);
        }
    }

    /// Waits until the operator writes nothing for some time; after faults, what is left to do may take a while.
    async fn fall_silent(&self) {
        let began = Instant::now();
        let quiet = if self.expected.is_some() { QUIET } else { LONG_QUIET };
        loop {
            let (before, late) = (self.writes(), self.late());
            sleep(quiet).await;
            if self.writes() == before {
                return;
            }
            if self.late() != late && began.elapsed() <= PATIENCE {
                continue;
            }
            if self.expected.is_none() || began.elapsed() > PATIENCE {
                return self.has_written_since(before, "with time");
            }
        }
    }

    /// Whether the operator stays at rest: with time, at a resync, and after a restart.
    pub(super) async fn verify(&mut self) {
        self.wire.disarm();
        self.fall_silent().await;
        let before = self.writes();
        self.operator.resync();
        sleep(AFTERWARDS).await;
        self.has_written_since(before, "at a resync");
        let (before, tasks) = (self.writes(), alive_tasks());
        if !self.operator.restart().await {
            let seen = format!("started anew, the operator does not work within {PATIENCE:?}");
            return self.violate(Oracle::Budget, seen);
        }
        sleep(AFTERWARDS).await;
        self.has_written_since(before, "after a restart");
        // After faults others have tasks that they did not have before.
        let left = alive_tasks().saturating_sub(tasks);
        if self.expected.is_none() && left > 0 {
            self.violate(Oracle::Budget, format!("a restart leaves {left} of the operator's tasks behind"));
        }
        if self.late() != self.late {
            return;
        }
        let (state, at) = (self.read(), self.states.len() - 1);
        let expected = self.expected.as_ref();
        let wanted = expected.and_then(|expected| expected.states.get(at)).unwrap_or(&self.states[at]);
        let fresh = expected.and_then(|expected| expected.fresh.get(at)?.as_ref());
        if let Some(difference) = state.difference_to_one_of(wanted, fresh) {
            let step = self.step_name(at);
            self.violate(
                Oracle::EndState,
                format!("all was well after step `{step}`, but then {difference}"),
            );
        }
    }

    /// How many Deployments have missed the deadline of their progress: that is minutes after all has come to rest, and whoever
    /// tells of it does so of his own accord.
    fn late(&self) -> usize {
        let all = self.cluster.server().snapshot().collection(&resource_id("deployments.apps"));
        let is_late = |stored: &&Arc<Stored>| find(&stored.bytes, MISSED).is_some();
        all.range("", "").filter(is_late).count()
    }

    /// How often the operator has changed something, or failed to.
    fn writes(&self) -> usize {
        self.wire.state().writes.len()
    }

    /// Nothing may have been written since all was well.
    fn has_written_since(&self, before: usize, when: &str) {
        let written = self.wire.state().writes.get(before).cloned();
        if let Some(written) = written {
            let seen = format!("all was well, but {when} the operator wrote: {written}");
            self.violate(Oracle::Converges, seen);
        }
    }
}

/// How many tasks there are.
fn alive_tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}
