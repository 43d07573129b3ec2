//! The work queue of a controller: keys of changed objects go in, and each comes out to one worker at a time.
//! A key waits at most once, however often it is added; what failed comes back after growing pauses.
//! It knows nothing of objects or reconcilers, and the same calls with the same seed give the same order.
//!
//! ```
//! use kubewright::{
//!     Key,
//!     entropy::Entropy,
//!     queue::{Options, Outcome, Priority, Queue},
//! };
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let queue = Queue::new(Options::default(), Entropy::seeded(1));
//! queue.add(Key::new("default", "web"), Priority::Normal);
//! queue.add(Key::new("default", "web"), Priority::Normal); // still waits only once
//!
//! let taken = queue.get().await.expect("the queue is open");
//! assert_eq!(taken.key().name(), "web");
//! taken.done(Outcome::Retry { after: None });
//!
//! let again = queue.get().await.expect("the queue is open"); // some milliseconds later
//! assert!(again.is_retry());
//! again.done(Outcome::Success);
//! assert_eq!(queue.stats().depth(), 0);
//! # }
//! ```

mod levels;
mod limit;
mod list;
mod state;
mod stats;

use std::{fmt, future::Future, hash::Hash, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    task::coop::consume_budget,
    time::{Instant, timeout_at},
};

use self::state::{State, Turn, Wish, later};
pub use self::stats::{Entry, Standing, Stats};
use crate::{Key, entropy::Entropy};

/// How much a key matters. Higher levels go first, but of ten hand-outs one is for a lower level that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Priority {
    /// What is there already: the first list, a resync.
    Low,
    /// What has just changed.
    #[default]
    Normal,
    /// What somebody is waiting for.
    High,
}

impl Priority {
    /// All of them, lowest first.
    pub const ALL: [Self; 3] = [Self::Low, Self::Normal, Self::High];
}

/// How a queue behaves.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The pause after the first failure of a key; it doubles with each further one.
    pub base: Duration,
    /// The longest pause after a failure.
    pub cap: Duration,
    /// How many keys may be handed out over time; without it, as many as there are.
    pub limit: Option<RateLimit>,
}

impl Default for Options {
    fn default() -> Self {
        Self { base: Duration::from_millis(5), cap: Duration::from_secs(1000), limit: None }
    }
}

/// A token bucket: `burst` keys at once, and `per_second` over time. Zero counts as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    /// How many tokens come back in a second.
    pub per_second: u32,
    /// How many tokens there are at most.
    pub burst: u32,
}

/// How the work on a key ended. Whatever it says, a key that was added meanwhile is ready again at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It went well; earlier failures are forgotten.
    Success,
    /// It went well, and the key comes back after this time. If that is less than five milliseconds, it comes back after
    /// a pause that grows each time in a row, as after failures, but does not count as failed.
    After(Duration),
    /// It failed; the key comes back after a pause that grows with each failure in a row. Of those before the pause is
    /// over, because the key was added meanwhile, none counts: the pause stays as it is.
    Retry {
        /// The pause is at least this long: what a server asks for with `Retry-After`.
        after: Option<Duration>,
    },
    /// It failed for good: the key does not come back by itself, and earlier failures are forgotten.
    Forget,
}

/// The work queue of one controller. Clones are handles of the same queue.
pub struct Queue<K = Key>(Arc<Shared<K>>);

struct Shared<K> {
    state: Mutex<State<K>>,
    /// Tells one waiting getter to look again. Of all that wait, one at least knows when the next key is due:
    /// whoever stops waiting tells another.
    changed: Notify,
}

impl<K: Clone + Eq + Hash> Queue<K> {
    /// A queue without keys. Pauses after failures are shortened by up to a fifth, drawn from `entropy`.
    pub fn new(options: Options, entropy: Entropy) -> Self {
        Self(Arc::new(Shared { state: Mutex::new(State::new(options, entropy)), changed: Notify::new() }))
    }

    /// Makes `key` ready. If it waits already, it waits on, at the higher priority of the two; if it was to come
    /// later, it comes now; if it is being worked on, it is ready again when that is done.
    pub fn add(&self, key: K, priority: Priority) {
        self.add_after(key, Duration::ZERO, priority);
    }

    /// Makes `key` ready after `delay`, unless it is ready earlier anyway.
    pub fn add_after(&self, key: K, delay: Duration, priority: Priority) {
        let now = Instant::now();
        let wish = Wish { at: later(now, delay), priority };
        let is_next = self.0.state.lock().add(key, wish, now);
        if is_next {
            self.0.changed.notify_one();
        }
    }

    /// Waits for a key and takes it; `None` once the queue is shut down. A call that is dropped takes nothing.
    pub async fn get(&self) -> Option<Taken<K>> {
        // Workers that never wait for anything else must still let others run.
        consume_budget().await;
        let mut baton = None;
        loop {
            // Made before looking, so that a shutdown in between is not missed.
            let changed = self.0.changed.notified();
            let turn = self.0.state.lock().take(Instant::now());
            match turn {
                Turn::Take(handed) => {
                    return Some(Taken {
                        shared: self.0.clone(),
                        slot: handed.slot,
                        key: handed.key,
                        waited: handed.waited,
                        failures: handed.failures,
                        priority: handed.priority,
                        outcome: Outcome::Retry { after: None },
                    });
                }
                Turn::Wait(until) => {
                    baton.get_or_insert_with(|| Baton(&self.0.changed));
                    wait(changed, until).await;
                }
                Turn::End => return None,
            }
        }
    }

    /// Forgets the failures of `key`, and that it was to come later. If it is ready, or being worked on, it stays.
    pub fn forget(&self, key: &K) {
        self.0.state.lock().forget(key, Instant::now());
    }

    /// Drops all keys that wait and takes no more; every [`get`](Queue::get) ends with `None`. What is being
    /// worked on may still be ended.
    pub fn shut_down(&self) {
        self.0.state.lock().shut_down();
        self.0.changed.notify_waiters();
    }

    /// How much there is to do, for metrics.
    pub fn stats(&self) -> Stats {
        self.0.state.lock().stats(Instant::now())
    }

    /// Up to `limit` keys and where they stand, for people: those being worked on, then those that are ready, then
    /// those to come, each in the order of time.
    pub fn describe(&self, limit: usize) -> Vec<Entry<K>> {
        self.0.state.lock().describe(limit, Instant::now())
    }
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K> fmt::Debug for Queue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").finish_non_exhaustive()
    }
}

async fn wait(changed: impl Future<Output = ()>, until: Option<Instant>) {
    match until {
        // Either way it is time to look again.
        Some(until) => drop(timeout_at(until, changed).await),
        None => changed.await,
    }
}

/// Held by a getter that waits. However it stops, by a key or by being dropped, another takes over its watch.
struct Baton<'a>(&'a Notify);

impl Drop for Baton<'_> {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// A key that was taken: nobody else gets it until this is [done](Taken::done). Dropped without an outcome, as
/// when its task panics or is aborted, it is tried again like a failure.
#[must_use = "what is dropped counts as failed"]
pub struct Taken<K: Clone + Eq + Hash = Key> {
    shared: Arc<Shared<K>>,
    slot: usize,
    key: K,
    waited: Duration,
    failures: u32,
    priority: Priority,
    outcome: Outcome,
}

impl<K: Clone + Eq + Hash> Taken<K> {
    /// The key.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// How long it was ready, or added anew while it was worked on, before it was taken.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// How often it failed in a row.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Whether it failed the last time.
    pub fn is_retry(&self) -> bool {
        self.failures > 0
    }

    /// The priority at which it waited.
    pub fn priority(&self) -> Priority {
        self.priority
    }

    /// Ends the work on the key.
    pub fn done(mut self, outcome: Outcome) {
        self.outcome = outcome;
    }
}

impl<K: Clone + Eq + Hash> Drop for Taken<K> {
    fn drop(&mut self) {
        let is_next = self.shared.state.lock().finish(self.slot, self.outcome, Instant::now());
        if is_next {
            self.shared.changed.notify_one();
        }
    }
}

impl<K: Clone + Eq + Hash + fmt::Debug> fmt::Debug for Taken<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Taken")
            .field("key", &self.key)
            .field("waited", &self.waited)
            .field("failures", &self.failures)
            .field("priority", &self.priority)
            .finish_non_exhaustive()
    }
}
