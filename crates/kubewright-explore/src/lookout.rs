//! Looks out for moments of a run from which on it is known how it goes on: another run has been there before, and came to
//! nothing that must not be. Then this one need not be followed any further.
//!
//! A moment is looked at when nothing moves any more until time passes. What counts is everything that is stored, what is
//! still being done to the operator, and what that has in mind. If it has died, that is nothing. If it runs, its caches are
//! as the store is, provided that all its watches are open and nothing is held back from it, and its queues say what it is
//! about to do; the rest is known only if its code remembers nothing.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
    time::Duration,
};

use kubewright::{Backlog, external::Rehearsal};
use kubewright_apiserver::ApiServer;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, sleep_until};

use crate::wire::{LATENCY, Wire};

/// When nothing moves any more until time passes: what has happened was heard of, and nothing came of that.
const SETTLED: Duration = LATENCY.saturating_mul(2);

/// What the operator that works has to do; nothing while none works.
pub(crate) type Working = Arc<Mutex<Option<Backlog>>>;

pub(crate) struct Lookout {
    pub(crate) server: ApiServer,
    pub(crate) wire: Wire,
    pub(crate) working: Working,
    pub(crate) rehearsal: Rehearsal,
    /// Whether the operator may have something in mind that can't be seen.
    pub(crate) remembers: bool,
    /// The moments of this run.
    pub(crate) passed: Vec<u64>,
}

impl Lookout {
    /// Waits until the run has come to a moment of a step from which on it is known how it goes on.
    pub(crate) async fn meet(&mut self, step: usize) {
        loop {
            self.settle().await;
            self.wire.look_for_ready();
            let Some(moment) = self.moment(step) else { continue };
            if self.wire.knows(moment) {
                return;
            }
            if self.passed.last() != Some(&moment) {
                self.passed.push(moment);
            }
        }
    }

    /// Waits until something has moved, and then until nothing does.
    async fn settle(&self) {
        let seen = self.server.revision();
        tokio::select! {
            biased;
            () = self.wire.stirred() => {}
            () = self.server.reached(seen + 1) => {}
            () = until(self.wire.acting_until()) => {}
        }
        loop {
            let before = (self.server.revision(), self.wire.length());
            sleep(SETTLED).await;
            if before == (self.server.revision(), self.wire.length()) {
                return;
            }
        }
    }

    /// The moment of now, if it can be told from all others.
    fn moment(&mut self, step: usize) -> Option<u64> {
        let standing = self.wire.standing()?;
        let mut hasher = DefaultHasher::new();
        (step, &standing).hash(&mut hasher);
        if standing.is_alive {
            if self.remembers {
                return None;
            }
            for stats in self.working.lock().as_ref()?.stats() {
                if stats.processing > 0 || stats.depth() > 0 {
                    return None;
                }
                (stats.delayed, stats.failing).hash(&mut hasher);
            }
        }
        self.wire.stored().hash(&mut hasher);
        for (system, kept) in self.rehearsal.keeps() {
            system.hash(&mut hasher);
            kept.iter().for_each(|(name, value)| (name, value.to_string()).hash(&mut hasher));
        }
        Some(hasher.finish())
    }
}

/// Until a time that is still to come; for ever, if it is over.
async fn until(time: Instant) {
    match time > Instant::now() {
        true => sleep_until(time).await,
        false => std::future::pending().await,
    }
}
