//! The same plan gives the same run.

use std::time::Duration;

use kubewright_explore::{Level, explore};

use crate::gadget::{SAMPLE, keeper};

#[test]
fn random_plans_give_the_same_run_twice() {
    let report = explore(keeper).sample(SAMPLE).level(Level::Random).runs(60).made_again(1).run();
    report.assert_survived();
    assert_eq!((report.runs, report.made_again), (60, 60));
}

#[test]
#[ignore = "takes minutes: run with --release -- --ignored"]
fn ten_thousand_random_plans_give_the_same_run_twice() {
    let all = explore(keeper).sample(SAMPLE).level(Level::Random).runs(10_000).made_again(1);
    let report = all.time(Duration::from_secs(60 * 60)).run();
    report.assert_survived();
    assert_eq!((report.runs, report.made_again), (10_000, 10_000));
}
