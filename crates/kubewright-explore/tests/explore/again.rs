//! The same plan gives the same run.

use kubewright_explore::{Level, Report, explore};

use crate::gadget::{SAMPLE, keeper};

/// Runs with several faults by chance, each made a second time from its beginning.
fn twice(runs: usize) -> Report {
    explore(keeper).sample(SAMPLE).level(Level::Random).runs(runs).made_again(1).run()
}

#[test]
fn random_plans_give_the_same_run_twice() {
    let report = twice(60);
    report.assert_survived();
    assert_eq!(report.made_again, report.runs);
}

#[test]
#[ignore = "takes minutes: run with --release -- --ignored"]
fn ten_thousand_random_plans_give_the_same_run_twice() {
    let report = explore(keeper)
        .sample(SAMPLE)
        .level(Level::Random)
        .runs(10_000)
        .time(std::time::Duration::from_secs(60 * 60))
        .made_again(1)
        .run();
    report.assert_survived();
    assert_eq!((report.runs, report.made_again), (10_000, 10_000));
}
