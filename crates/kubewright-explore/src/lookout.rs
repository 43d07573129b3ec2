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
use tokio::time::{Instant, sleep_until, timeout};

use crate::wire::{LATENCY, Wire};

/// When is looked after something has happened: when all has that happens at once, when calls that were under way are
/// answered, and when what has happened was heard of, and nothing came of that.
const LOOKS: [Duration; 3] = [Duration::from_millis(1), LATENCY, LATENCY];

/// What the operator that works has to do; nothing while none works.
pub(crate) type Working = Arc<Mutex<Option<Backlog>>>;

pub(crate) struct Lookout {
    pub(crate) server: ApiServer,
    pub(crate) wire: Wire,
    pub(crate) working: Working,
    pub(crate) rehearsal: Rehearsal,
    /// Whether the operator may have something in mind that can't be seen.
    pub(crate) remembers: bool,
    /// The moments of this run since something went wrong last.
    pub(crate) passed: Vec<u64>,
    /// How often something had gone wrong by then.
    pub(crate) struck: usize,
}

impl Lookout {
    /// Waits until the run has come to a moment of a step from which on it is known how it goes on.
    pub(crate) async fn meet(&mut self, step: usize) {
        loop {
            self.stir(self.so_far()).await;
            let mut looks = LOOKS.into_iter();
            while let Some(pause) = looks.next() {
                let seen = self.so_far();
                if timeout(pause, self.stir(seen)).await.is_ok() {
                    looks = LOOKS.into_iter();
                    continue;
                }
                if self.is_known(step) {
                    return;
                }
            }
            self.wire.look_for_ready();
        }
    }

    /// What moves whenever something happens.
    fn so_far(&self) -> (u64, usize) {
        (self.server.revision(), self.wire.length())
    }

    /// Waits until more has happened than was seen, or what was done to the operator is over.
    async fn stir(&self, seen: (u64, usize)) {
        while self.so_far() == seen {
            tokio::select! {
                biased;
                () = self.wire.stirred() => {}
                () = self.server.reached(seen.0 + 1) => {}
                () = until(self.wire.acting_until()) => return,
            }
        }
    }

    /// Whether it is known how it goes on from now; if not, this moment is remembered.
    fn is_known(&mut self, step: usize) -> bool {
        let Some(moment) = self.moment(step) else { return false };
        // What comes of the moments before is for runs to say in which no more went wrong.
        let struck = self.wire.struck().len();
        if std::mem::replace(&mut self.struck, struck) != struck {
            self.passed.clear();
        }
        if self.wire.knows(moment) {
            return true;
        }
        if self.passed.last() != Some(&moment) {
            self.passed.push(moment);
        }
        false
    }

    /// The moment of now, if it can be told from all others.
    fn moment(&mut self, step: usize) -> Option<u64> {
        let stored = self.wire.stored();
        let standing = self.wire.standing()?;
        let mut hasher = DefaultHasher::new();
        (step, &standing, stored).hash(&mut hasher);
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
