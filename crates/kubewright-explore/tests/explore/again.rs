//! The same plan gives the same run.

use std::time::Duration;

use kubewright_explore::{Fault, Level, explore};

use crate::gadget::{SAMPLE, keeper};

#[test]
fn random_plans_give_the_same_run_twice() {
    let report = explore(keeper).sample(SAMPLE).level(Level::Random).runs(60).made_again(1).run();
    report.assert_survived();
    assert_eq!((report.runs, report.made_again), (60, 60));
}

/// Runs that begin alike are made together, and each is told.
#[test]
fn runs_that_begin_alike_go_the_way_that_each_goes_alone() {
    let late = [Fault::Delay, Fault::Coalesce, Fault::DelayPastChange];
    let tried = |faults: &[Fault]| {
        let faults = faults.iter().copied();
        let report = explore(keeper).sample(SAMPLE).faults(faults).made_again(1).run();
        report.assert_survived();
        assert_eq!(report.made_again, report.runs);
        report.runs
    };
    let alone: usize = late.iter().map(|fault| tried(&[*fault])).sum();
    assert_eq!(tried(&late), alone);
}

#[test]
#[ignore = "takes minutes: run with --release -- --ignored"]
fn ten_thousand_random_plans_give_the_same_run_twice() {
    let all = explore(keeper).sample(SAMPLE).level(Level::Random).runs(10_000).made_again(1);
    let report = all.time(Duration::from_secs(60 * 60)).run();
    report.assert_survived();
    assert_eq!((report.runs, report.made_again), (10_000, 10_000));
}
