//! Bugs that popular operators had, each in a small operator in which it is found, with a twin that does it right and
//! survives.

mod additive_labels;
mod after_finalizer;
mod delete_by_name;
mod guard;
mod hot_status;
mod phase;
mod resize;
mod scale_down;
mod stable_gate;
mod sweep;

use kubewright::Operator;
use kubewright_explore::{Oracle, explore};

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
    explore(move || right(Done::Right)).sample(sample).run().assert_survived();
    let report = explore(move || operator(Done::Wrong)).sample(sample).run();
    let found = report.findings.iter().any(|finding| oracles.contains(&finding.violation.oracle));
    assert!(found, "not found by {oracles:?}:\n{report}");
}
