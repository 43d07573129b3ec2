//! What the queue knows, and how it changes: all of it under one lock, nothing that waits or asks for the time.
//! A key has a slot from when it is added until nothing more is to be done for it, and is in exactly one place:
//! the list of its level, the map of delays, or the list of those being worked on.

use std::{
    collections::{BTreeMap, hash_map::Entry as Place},
    hash::{BuildHasherDefault, DefaultHasher, Hash},
    time::Duration,
};

use slab::Slab;
use tokio::time::Instant;

use super::{
    Entry, Options, Outcome, Priority, Standing, Stats,
    levels::Levels,
    limit::Limit,
    list::{Links, List},
};
use crate::entropy::Entropy;

/// By how much of itself a pause is shortened at most. Less than half, so that pauses always grow.
const JITTER: f64 = 0.2;

/// A key that wants to come back sooner than this would keep its worker busy, and paused time from passing.
const SOON: Duration = Duration::from_millis(5);

/// An empty queue keeps the memory of this many keys, and gives back the rest.
const KEPT: usize = 1024;

/// Stands for all times nobody lives to see, which instants can't express.
const NEVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

#[allow(clippy::disallowed_types, reason = "never iterated, so that no order can show")]
type Index<K> = std::collections::HashMap<K, usize, BuildHasherDefault<DefaultHasher>>;

/// All that is known of a key.
pub(super) struct Slot<K> {
    pub(super) links: Links,
    key: K,
    stage: Stage,
    /// At which it waits, or was taken.
    priority: Priority,
    failures: u32,
    /// How often it went well and wanted to come back at once, since it last did not.
    hurries: u32,
    /// When the pause after the last failure, or the last hurry, is over.
    rested: Instant,
}

enum Stage {
    Ready { since: Instant },
    Delayed { until: Instant, number: u64 },
    Processing { since: Instant, again: Option<Wish> },
}

/// When, and how urgently, a key is wanted.
#[derive(Clone, Copy)]
pub(super) struct Wish {
    pub(super) at: Instant,
    pub(super) priority: Priority,
}

impl Wish {
    /// One that fulfils both.
    fn and(self, other: Self) -> Self {
        Self { at: self.at.min(other.at), priority: self.priority.max(other.priority) }
    }
}

/// What a getter is told.
pub(super) enum Turn<K> {
    Take(Handed<K>),
    /// There is nothing, before this time at least.
    Wait(Option<Instant>),
    End,
}

/// What is handed out.
pub(super) struct Handed<K> {
    pub(super) slot: usize,
    pub(super) key: K,
    pub(super) waited: Duration,
    pub(super) failures: u32,
    pub(super) priority: Priority,
}

pub(super) struct State<K> {
    options: Options,
    entropy: Entropy,
    limit: Option<Limit>,
    slots: Slab<Slot<K>>,
    index: Index<K>,
    ready: Levels,
    processing: List,
    /// By time, and for the same time in the order of the calls.
    delayed: BTreeMap<(Instant, u64), usize>,
    next_number: u64,
    failing: usize,
    adds: u64,
    retries: u64,
    is_shut_down: bool,
}

impl<K: Clone + Eq + Hash> State<K> {
    pub(super) fn new(options: Options, entropy: Entropy) -> Self {
        Self {
            limit: options.limit.map(Limit::new),
            options,
            entropy,
            slots: Slab::new(),
            index: Index::default(),
            ready: Levels::default(),
            processing: List::default(),
            delayed: BTreeMap::new(),
            next_number: 0,
            failing: 0,
            adds: 0,
            retries: 0,
            is_shut_down: false,
        }
    }

    /// Says whether a getter that waits should look again.
    pub(super) fn add(&mut self, key: K, wish: Wish, now: Instant) -> bool {
        if self.is_shut_down {
            return false;
        }
        self.wake_due(now);
        match self.index.entry(key) {
            Place::Occupied(place) => {
                let at = *place.get();
                self.add_again(at, wish, now)
            }
            Place::Vacant(place) => {
                let slot = Slot {
                    links: Links::default(),
                    key: place.key().clone(),
                    stage: Stage::Ready { since: now },
                    priority: wish.priority,
                    failures: 0,
                    hurries: 0,
                    rested: now,
                };
                let at = self.slots.insert(slot);
                place.insert(at);
                self.schedule(at, wish, now)
            }
        }
    }

    fn add_again(&mut self, at: usize, wish: Wish, now: Instant) -> bool {
        let slot = &mut self.slots[at];
        let old = slot.priority;
        match &mut slot.stage {
            Stage::Processing { again, .. } => {
                *again = Some(again.map_or(wish, |again| again.and(wish)));
                false
            }
            Stage::Ready { .. } if wish.priority > old => {
                slot.priority = wish.priority;
                self.ready.remove(&mut self.slots, at, old);
                self.ready.push(&mut self.slots, at, wish.priority);
                false
            }
            Stage::Ready { .. } => false,
            Stage::Delayed { until, number } => {
                let (until, number) = (*until, *number);
                let both = wish.and(Wish { at: until, priority: old });
                if both.at == until {
                    slot.priority = both.priority;
                    return false;
                }
                self.delayed.remove(&(until, number));
                self.schedule(at, both, now)
            }
        }
    }

    /// Puts a slot that is nowhere where its wish belongs, and says whether it is the next to be handed out.
    fn schedule(&mut self, at: usize, wish: Wish, now: Instant) -> bool {
        let slot = &mut self.slots[at];
        slot.priority = wish.priority;
        if wish.at <= now {
            slot.stage = Stage::Ready { since: wish.at };
            self.ready.push(&mut self.slots, at, wish.priority);
            self.adds += 1;
            return true;
        }
        let number = self.next_number;
        self.next_number += 1;
        slot.stage = Stage::Delayed { until: wish.at, number };
        self.delayed.insert((wish.at, number), at);
        self.first_delayed() == Some(wish.at)
    }

    fn first_delayed(&self) -> Option<Instant> {
        self.delayed.first_key_value().map(|((until, _), _)| *until)
    }

    /// Makes ready what was to come until now. Done before anything else is added, so that the order is that of
    /// time, no matter when somebody looks.
    fn wake_due(&mut self, now: Instant) {
        while let Some(first) = self.delayed.first_entry()
            && first.key().0 <= now
        {
            let ((until, _), at) = first.remove_entry();
            let priority = self.slots[at].priority;
            self.schedule(at, Wish { at: until, priority }, now);
        }
    }

    pub(super) fn take(&mut self, now: Instant) -> Turn<K> {
        if self.is_shut_down {
            return Turn::End;
        }
        self.wake_due(now);
        if self.ready.is_empty() {
            return Turn::Wait(self.first_delayed());
        }
        if let Some(Err(until)) = self.limit.as_mut().map(|limit| limit.take(now)) {
            return Turn::Wait(Some(until));
        }
        let Some(at) = self.ready.pop(&mut self.slots) else { return Turn::Wait(None) };
        self.processing.push(&mut self.slots, at);
        let slot = &mut self.slots[at];
        let waited = match slot.stage {
            Stage::Ready { since } => now - since,
            Stage::Delayed { .. } | Stage::Processing { .. } => Duration::ZERO,
        };
        slot.stage = Stage::Processing { since: now, again: None };
        Turn::Take(Handed {
            slot: at,
            key: slot.key.clone(),
            waited,
            failures: slot.failures,
            priority: slot.priority,
        })
    }

    /// Ends the work on a slot that was handed out; says whether a getter that waits should look again.
    pub(super) fn finish(&mut self, at: usize, outcome: Outcome, now: Instant) -> bool {
        self.wake_due(now);
        self.processing.remove(&mut self.slots, at);
        let Slot { stage, priority, failures, hurries, rested, .. } = &self.slots[at];
        let (priority, failures, hurries, rested) = (*priority, *failures, *hurries, *rested);
        let added = match stage {
            Stage::Processing { again, .. } => *again,
            Stage::Ready { .. } | Stage::Delayed { .. } => None,
        };
        let (failures, hurries, next) = match outcome {
            Outcome::Success | Outcome::Forget => (0, 0, None),
            Outcome::After(pause) if pause < SOON => {
                // The pause after a failure is over when the key goes well.
                let rested = if failures > 0 { now } else { rested };
                let (hurries, rested) = self.rest(hurries, rested, now);
                self.slots[at].rested = rested;
                (0, hurries, Some(rested.max(later(now, pause))))
            }
            Outcome::After(pause) => (0, 0, Some(later(now, pause))),
            Outcome::Retry { after } => {
                self.retries += 1;
                let (failures, rested) = self.rest(failures, rested, now);
                let rested = rested.max(later(now, after.unwrap_or_default()));
                self.slots[at].rested = rested;
                (failures, hurries, Some(rested))
            }
        };
        self.set_failures(at, failures);
        self.slots[at].hurries = hurries;
        let wanted = next.map(|at| Wish { at, priority });
        let wish = match (added, wanted) {
            (Some(added), Some(wanted)) => Some(added.and(wanted)),
            (added, wanted) => added.or(wanted),
        };
        match wish {
            Some(wish) if !self.is_shut_down => self.schedule(at, wish, now),
            _ => {
                self.remove(at);
                false
            }
        }
    }

    /// One time more, and until when the key rests for that. Events that come in the middle of a pause, one after the
    /// other, do not make it longer.
    fn rest(&self, times: u32, rested: Instant, now: Instant) -> (u32, Instant) {
        match times > 0 && now < rested {
            true => (times, rested),
            false => (times.saturating_add(1), later(now, self.back_off(times))),
        }
    }

    fn back_off(&self, times: u32) -> Duration {
        let pause = self.options.base.saturating_mul(2_u32.saturating_pow(times));
        self.entropy.jitter(pause.min(self.options.cap), JITTER)
    }

    fn set_failures(&mut self, at: usize, failures: u32) {
        let before = std::mem::replace(&mut self.slots[at].failures, failures);
        self.failing = self.failing + usize::from(failures > 0) - usize::from(before > 0);
    }

    /// Gives up a slot that is nowhere any more.
    fn remove(&mut self, at: usize) {
        self.set_failures(at, 0);
        let slot = self.slots.remove(at);
        self.index.remove(&slot.key);
        if self.slots.is_empty() && self.slots.capacity() > KEPT {
            self.slots = Slab::new();
            self.index = Index::default();
        }
    }

    pub(super) fn forget(&mut self, key: &K, now: Instant) {
        self.wake_due(now);
        let Some(&at) = self.index.get(key) else { return };
        self.set_failures(at, 0);
        self.slots[at].hurries = 0;
        match &mut self.slots[at].stage {
            Stage::Ready { .. } => {}
            Stage::Processing { again, .. } => *again = again.filter(|again| again.at <= now),
            Stage::Delayed { until, number } => {
                let place = (*until, *number);
                self.delayed.remove(&place);
                self.remove(at);
            }
        }
    }

    pub(super) fn shut_down(&mut self) {
        self.is_shut_down = true;
        while let Some(at) = self.ready.pop(&mut self.slots) {
            self.remove(at);
        }
        while let Some((_, at)) = self.delayed.pop_first() {
            self.remove(at);
        }
    }

    pub(super) fn stats(&mut self, now: Instant) -> Stats {
        self.wake_due(now);
        let running = || {
            self.processing.iter(&self.slots).map(|at| match self.slots[at].stage {
                Stage::Processing { since, .. } => now - since,
                Stage::Ready { .. } | Stage::Delayed { .. } => Duration::ZERO,
            })
        };
        Stats {
            ready: Priority::ALL.map(|priority| (priority, self.ready.list(priority).len())),
            delayed: self.delayed.len(),
            processing: self.processing.len(),
            failing: self.failing,
            adds: self.adds,
            retries: self.retries,
            longest_running: running().next().unwrap_or_default(),
            unfinished: running().sum(),
        }
    }

    pub(super) fn describe(&mut self, limit: usize, now: Instant) -> Vec<Entry<K>> {
        self.wake_due(now);
        let ready = Priority::ALL.into_iter().rev().map(|priority| self.ready.list(priority));
        let in_lists = std::iter::once(&self.processing).chain(ready);
        let in_lists = in_lists.flat_map(|list| list.iter(&self.slots));
        in_lists.chain(self.delayed.values().copied()).take(limit).map(|at| self.entry(at)).collect()
    }

    fn entry(&self, at: usize) -> Entry<K> {
        let slot = &self.slots[at];
        let standing = match slot.stage {
            Stage::Ready { since } => Standing::Ready { since },
            Stage::Delayed { until, .. } => Standing::Delayed { until },
            Stage::Processing { since, again } => {
                Standing::Processing { since, again: again.map(|again| again.at) }
            }
        };
        Entry { key: slot.key.clone(), standing, priority: slot.priority, failures: slot.failures }
    }
}

/// `now` and `delay` more, as far as instants go.
pub(super) fn later(now: Instant, delay: Duration) -> Instant {
    now + delay.min(NEVER)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn empty() -> State<u32> {
        State::new(Options::default(), Entropy::seeded(1))
    }

    fn normal(at: Instant) -> Wish {
        Wish { at, priority: Priority::Normal }
    }

    fn take(state: &mut State<u32>, now: Instant) -> usize {
        match state.take(now) {
            Turn::Take(handed) => handed.slot,
            Turn::Wait(_) | Turn::End => panic!("expected a key"),
        }
    }

    #[test]
    fn a_million_delays_of_a_key_leave_one() {
        let (mut state, start) = (empty(), Instant::now());
        for step in 0..1_000_000 {
            state.add(1, normal(start + Duration::from_micros(2_000_000 - step)), start);
        }
        assert_eq!((state.delayed.len(), state.slots.len(), state.index.len()), (1, 1, 1));
        assert!(state.slots.capacity() <= 4);
        take(&mut state, start + 2 * SECOND);
        assert!(state.delayed.is_empty());
    }

    #[test]
    fn raising_a_key_again_and_again_leaves_nothing_behind() {
        let (mut state, now) = (empty(), Instant::now());
        state.add(0, Wish { at: now, priority: Priority::Low }, now);
        for _ in 0..10_000 {
            for priority in Priority::ALL {
                state.add(1, Wish { at: now, priority }, now);
            }
            let Turn::Take(handed) = state.take(now) else { panic!("expected a key") };
            state.finish(handed.slot, Outcome::Success, now);
            state.add(0, Wish { at: now, priority: Priority::Low }, now);
        }
        let listed: usize = Priority::ALL.iter().map(|priority| state.ready.list(*priority).len()).sum();
        assert_eq!(listed, state.slots.len());
        assert!(state.slots.capacity() <= 4);
    }

    #[test]
    fn a_key_with_nothing_left_to_do_takes_no_space() {
        let (mut state, now) = (empty(), Instant::now());
        for outcome in [Outcome::Success, Outcome::Forget] {
            state.add(1, normal(now), now);
            let at = take(&mut state, now);
            state.finish(at, outcome, now);
            assert_eq!((state.slots.len(), state.index.len()), (0, 0));
        }
    }

    #[test]
    fn an_empty_queue_gives_back_the_memory_of_a_rush() {
        let (mut state, now) = (empty(), Instant::now());
        for key in 0..100_000 {
            state.add(key, normal(now), now);
        }
        for _ in 0..100_000 {
            let at = take(&mut state, now);
            state.finish(at, Outcome::Success, now);
        }
        assert!(state.slots.capacity() <= KEPT && state.index.capacity() <= 2 * KEPT);
    }

    #[test]
    fn a_delay_beyond_all_time_is_no_overflow() {
        let (mut state, now) = (empty(), Instant::now());
        state.add(1, normal(later(now, Duration::MAX)), now);
        assert!(matches!(state.take(now + 1000 * SECOND), Turn::Wait(Some(_))));
    }
}
