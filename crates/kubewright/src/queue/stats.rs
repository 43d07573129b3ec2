//! What a queue tells of itself: figures for metrics, and single keys for people who look for one.

use std::time::Duration;

use tokio::time::Instant;

use super::Priority;

/// How much a queue has to do, and has had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stats {
    /// How many keys are ready, by priority, lowest first.
    pub ready: [(Priority, usize); 3],
    /// How many keys are to come later.
    pub delayed: usize,
    /// How many keys are being worked on.
    pub processing: usize,
    /// How many keys failed the last time.
    pub failing: usize,
    /// How often a key became ready. Adding one that waits already does not count.
    pub adds: u64,
    /// How often the work on a key failed and was to be tried again.
    pub retries: u64,
    /// For how long the key that was taken first has been worked on; zero if there is none.
    pub longest_running: Duration,
    /// For how long all keys that are being worked on have been so, added up.
    pub unfinished: Duration,
}

impl Stats {
    /// How many keys are ready.
    pub fn depth(&self) -> usize {
        self.ready.iter().map(|(_, count)| count).sum()
    }
}

/// A key of a queue, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry<K> {
    /// The key.
    pub key: K,
    /// Where it stands.
    pub standing: Standing,
    /// The priority at which it waits, or was taken.
    pub priority: Priority,
    /// How often it failed in a row.
    pub failures: u32,
}

/// Where a key stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It is being worked on.
    Processing {
        /// When it was taken.
        since: Instant,
        /// From when on it is wanted again; in the past if it was added meanwhile.
        again: Option<Instant>,
    },
    /// It can be taken.
    Ready {
        /// Since when.
        since: Instant,
    },
    /// It comes later.
    Delayed {
        /// When.
        until: Instant,
    },
}
