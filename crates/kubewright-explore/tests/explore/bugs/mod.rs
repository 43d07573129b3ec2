//! Bugs that popular operators had, each in a small operator in which it is found, with a twin that does it right and
//! survives.

mod additions;
mod additive_labels;
mod after_finalizer;
mod copies;
mod delete_by_name;
mod farewell;
mod gadgets;
mod guard;
mod hot_status;
mod insisting;
mod labelled;
mod lists;
mod originals;
mod outlying;
mod phase;
mod readiness;
mod remade;
mod resize;
mod right;
mod scale_down;
mod shrink;
mod stable_gate;
mod styles;
mod surplus;
mod sweep;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

pub(crate) use gadgets::{is_present, pod};
use kubewright::Operator;
use kubewright_explore::{Oracle, explore};

/// How many runs the right ones have to survive: all there are, where they are optimised.
pub(crate) const SOME: usize = if cfg!(debug_assertions) { 60 } else { usize::MAX };

/// Whether it is done wrong, or right.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Done {
    Wrong,
    Right,
}

/// The wrong operator is found out by one of the oracles, the right one survives.
fn is_found(
    operator: impl Fn(Done) -> Operator + Clone + Send + Sync + 'static,
    sample: &str,
    oracles: &[Oracle],
) {
    let right = operator.clone();
    explore(move || right(Done::Right)).sample(sample).runs(SOME).run().assert_survived();
    // The first finding will do.
    let is_found = Arc::new(AtomicBool::new(false));
    let found = is_found.clone();
    let report = explore(move || operator(Done::Wrong))
        .sample(sample)
        .oracles(oracles.iter().copied())
        .until(move || found.load(Ordering::Relaxed))
        .try_run(|progress| is_found.store(progress.findings > 0, Ordering::Relaxed))
        .unwrap();
    assert!(!report.findings.is_empty(), "not found by {oracles:?}:\n{report}");
}
