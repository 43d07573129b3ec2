//! What the reconciles of one controller were like, as far as people want to know: the slowest objects and the last
//! failures. It never grows beyond a screenful.

use std::{cmp::Reverse, collections::VecDeque, time::Duration};

use jiff::Timestamp;
use parking_lot::Mutex;

use crate::kind::Key;

const SLOWEST: usize = 10;
const FAILURES: usize = 20;
/// How much is kept of a message, in bytes.
const LONGEST_MESSAGE: usize = 1024;

/// Filled by the runner, read by whoever looks.
#[derive(Default)]
pub(crate) struct History(Mutex<Lines>);

#[derive(Default)]
struct Lines {
    /// The longest first.
    slowest: Vec<Slow>,
    /// The latest last.
    failures: VecDeque<Failure>,
}

/// An object whose reconcile once took long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Slow {
    pub(crate) key: Key,
    pub(crate) longest: Duration,
    pub(crate) last: Duration,
    /// When the last one ended.
    pub(crate) time: Timestamp,
}

/// What went wrong with an object. The same again is counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) key: Key,
    pub(crate) message: String,
    pub(crate) count: u64,
    /// When it was last so.
    pub(crate) time: Timestamp,
}

impl History {
    /// A reconcile has ended.
    pub(crate) fn ended(&self, key: &Key, took: Duration, time: Timestamp) {
        let slowest = &mut self.0.lock().slowest;
        let before = slowest.iter().position(|slow| slow.key == *key).map(|at| slowest.remove(at));
        let longest = before.map_or(took, |slow| slow.longest.max(took));
        slowest.push(Slow { key: key.clone(), longest, last: took, time });
        slowest.sort_by_key(|slow| Reverse(slow.longest));
        slowest.truncate(SLOWEST);
    }

    /// A reconcile has failed.
    pub(crate) fn failed(&self, key: &Key, mut message: String, time: Timestamp) {
        message.truncate(message.floor_char_boundary(LONGEST_MESSAGE));
        let failures = &mut self.0.lock().failures;
        let same = failures.iter().position(|failure| failure.key == *key && failure.message == message);
        let before = same.and_then(|at| failures.remove(at)).map_or(0, |failure| failure.count);
        if failures.len() == FAILURES {
            failures.pop_front();
        }
        failures.push_back(Failure { key: key.clone(), message, count: before + 1, time });
    }

    /// The objects that took longest, the longest first.
    pub(crate) fn slowest(&self) -> Vec<Slow> {
        self.0.lock().slowest.clone()
    }

    /// The last failures, the latest first.
    pub(crate) fn failures(&self) -> Vec<Failure> {
        self.0.lock().failures.iter().rev().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u64) -> Key {
        Key::cluster(&format!("object-{number}"))
    }

    #[test]
    fn the_slowest_stay_and_others_make_room() {
        let history = History::default();
        let seconds = Duration::from_secs;
        for number in 0..1000 {
            history.ended(&key(number), seconds(number), Timestamp::UNIX_EPOCH);
        }
        history.ended(&key(995), seconds(1), Timestamp::UNIX_EPOCH);
        history.ended(&key(7), seconds(7), Timestamp::UNIX_EPOCH);
        let slowest = history.slowest();
        let longest: Vec<u64> = slowest.iter().map(|slow| slow.longest.as_secs()).collect();
        assert_eq!(longest, (990..1000).rev().collect::<Vec<_>>());
        assert_eq!((&slowest[4].key, slowest[4].last), (&key(995), seconds(1)));
    }

    #[test]
    fn the_last_failures_stay_and_the_same_again_is_counted() {
        let history = History::default();
        let at = |second| Timestamp::from_second(second).unwrap();
        for number in 0..1000 {
            history.failed(&key(number), "lost".repeat(1000), at(0));
        }
        history.failed(&key(990), "lost".repeat(1000), at(5));
        let failures = history.failures();
        assert_eq!(failures.len(), FAILURES);
        let message = "lost".repeat(LONGEST_MESSAGE / 4);
        assert_eq!(failures[0], Failure { key: key(990), message, count: 2, time: at(5) });
        assert_eq!((&failures[1].key, failures[1].count), (&key(999), 1));
    }
}
