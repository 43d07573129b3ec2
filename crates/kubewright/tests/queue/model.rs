//! Any sequence of calls, against a model that is too simple to be wrong.

use std::{collections::BTreeMap, time::Duration};

use kubewright::{
    entropy::Entropy,
    queue::{Options, Outcome, Priority, Queue, Taken},
};
use proptest::prelude::*;
use tokio::time::advance;

use super::{FAILED, millis, take};

#[derive(Debug, Clone)]
enum Step {
    Add { key: u32, delay: u64, priority: Priority },
    Take,
    Done { which: usize, outcome: Outcome },
    Drop { which: usize },
    Forget { key: u32 },
    Pass { time: u64 },
    DropGetter,
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..6_u32;
    let priority = prop::sample::select(&Priority::ALL[..]);
    let delay = prop_oneof![Just(0), 1..20_u64];
    let outcome = prop_oneof![
        Just(Outcome::Success),
        Just(Outcome::Forget),
        (0..20_u64).prop_map(|time| Outcome::After(millis(time))),
        (0..20_u64).prop_map(|time| Outcome::Retry { after: Some(millis(time)) }),
    ];
    prop_oneof![
        6 => (key.clone(), delay, priority)
            .prop_map(|(key, delay, priority)| Step::Add { key, delay, priority }),
        5 => Just(Step::Take),
        4 => (0..6_usize, outcome).prop_map(|(which, outcome)| Step::Done { which, outcome }),
        1 => (0..6_usize).prop_map(|which| Step::Drop { which }),
        1 => key.prop_map(|key| Step::Forget { key }),
        3 => (1..15_u64).prop_map(|time| Step::Pass { time }),
        1 => Just(Step::DropGetter),
    ]
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Where {
    /// Ready once `at` is reached; of the same level, the lower `turn` goes first.
    Waits {
        at: u64,
        turn: u64,
        priority: Priority,
    },
    Busy {
        again: Option<(u64, Priority)>,
        priority: Priority,
    },
}

#[derive(Default)]
struct Model {
    now: u64,
    turns: u64,
    keys: BTreeMap<u32, Where>,
    /// With the time until which they rest.
    failing: BTreeMap<u32, u64>,
}

impl Model {
    fn waits(&mut self, at: u64, priority: Priority) -> Where {
        self.turns += 1;
        // What is due earlier goes first, no matter when that was decided.
        Where::Waits { at, turn: at.max(self.now) * 1_000_000 + self.turns, priority }
    }

    fn add(&mut self, key: u32, delay: u64, priority: Priority) {
        let wanted = self.now + delay;
        let place = match self.keys.get(&key).copied() {
            None => self.waits(wanted, priority),
            Some(Where::Busy { again, priority: taken }) => {
                let (at, level) = again.unwrap_or((wanted, priority));
                Where::Busy { again: Some((at.min(wanted), level.max(priority))), priority: taken }
            }
            Some(Where::Waits { at, turn, priority: old }) if at <= self.now => {
                if priority > old {
                    let Where::Waits { turn, .. } = self.waits(self.now, priority) else { unreachable!() };
                    Where::Waits { at, turn, priority }
                } else {
                    Where::Waits { at, turn, priority: old }
                }
            }
            Some(Where::Waits { at, turn, priority: old }) => {
                let priority = priority.max(old);
                if wanted < at { self.waits(wanted, priority) } else { Where::Waits { at, turn, priority } }
            }
        };
        self.keys.insert(key, place);
    }

    /// What may be taken: the first of each level.
    fn firsts(&self) -> Vec<u32> {
        let first = |level: Priority| {
            let ready = self.keys.iter().filter_map(move |(key, place)| match place {
                Where::Waits { at, turn, priority } if *at <= self.now && *priority == level => {
                    Some((*turn, *key))
                }
                _ => None,
            });
            ready.min().map(|(_, key)| key)
        };
        Priority::ALL.into_iter().filter_map(first).collect()
    }

    fn done(&mut self, key: u32, outcome: Outcome) {
        let Some(Where::Busy { again, priority }) = self.keys.remove(&key) else { unreachable!() };
        let rested = self.failing.remove(&key);
        let after = |pause: Duration| self.now + pause.as_millis() as u64;
        let next = match outcome {
            Outcome::Success | Outcome::Forget => None,
            Outcome::After(pause) => Some(after(pause)),
            Outcome::Retry { after: pause } => {
                let next = after(pause.unwrap_or_default()).max(rested.unwrap_or_default());
                self.failing.insert(key, next);
                Some(next)
            }
        };
        let wanted = next.map(|at| (at, priority));
        let wish = match (again, wanted) {
            (Some(one), Some(other)) => Some((one.0.min(other.0), one.1.max(other.1))),
            (one, other) => one.or(other),
        };
        if let Some((at, priority)) = wish {
            let place = self.waits(at, priority);
            self.keys.insert(key, place);
        }
    }

    fn forget(&mut self, key: u32) {
        self.failing.remove(&key);
        match self.keys.get_mut(&key) {
            Some(Where::Waits { at, .. }) if *at > self.now => drop(self.keys.remove(&key)),
            Some(Where::Busy { again, .. }) => *again = again.filter(|(at, _)| *at <= self.now),
            _ => {}
        }
    }
}

async fn run(steps: Vec<Step>) {
    // Without a pause of its own, a retry comes exactly when it is asked to.
    let options = Options { base: Duration::ZERO, ..Options::default() };
    let queue = Queue::new(options, Entropy::seeded(1));
    let mut model = Model::default();
    let mut busy: Vec<Taken<u32>> = Vec::new();
    for step in steps {
        match step {
            Step::Add { key, delay, priority } => {
                queue.add_after(key, millis(delay), priority);
                model.add(key, delay, priority);
            }
            Step::Take => {
                let taken = take(&queue);
                let firsts = model.firsts();
                assert_eq!(taken.is_some(), !firsts.is_empty());
                let Some(taken) = taken else { continue };
                assert!(firsts.contains(taken.key()), "{} is not of {firsts:?}", taken.key());
                assert_eq!(taken.is_retry(), model.failing.contains_key(taken.key()));
                let place = Where::Busy { again: None, priority: taken.priority() };
                let Some(Where::Waits { priority, .. }) = model.keys.insert(*taken.key(), place) else {
                    panic!("{} is handed out twice", taken.key());
                };
                assert_eq!(taken.priority(), priority);
                busy.push(taken);
            }
            Step::Done { which, outcome } if which < busy.len() => {
                let taken = busy.remove(which);
                model.done(*taken.key(), outcome);
                taken.done(outcome);
            }
            Step::Drop { which } if which < busy.len() => {
                let taken = busy.remove(which);
                model.done(*taken.key(), FAILED);
            }
            Step::Done { .. } | Step::Drop { .. } => {}
            Step::Forget { key } => {
                queue.forget(&key);
                model.forget(key);
            }
            Step::Pass { time } => {
                advance(millis(time)).await;
                model.now += time;
            }
            Step::DropGetter => drop(queue.get()),
        }
        let stats = queue.stats();
        assert_eq!(stats.depth() + stats.delayed + stats.processing, model.keys.len());
        assert_eq!((stats.processing, stats.failing), (busy.len(), model.failing.len()));
        assert_eq!(queue.describe(100).len(), model.keys.len());
    }
}

proptest! {
    #[test]
    fn any_calls_in_any_order_do_as_the_model_does(steps in prop::collection::vec(step(), 0..200)) {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(run(steps));
    }
}
