//! Made-up requests: whatever is sent, the server answers, keeps what it has, and goes on.
//!
//! The same requests in every run. More of them, or others: `KUBEWRIGHT_FUZZ_CASES=10000
//! KUBEWRIGHT_FUZZ_SEED=5 cargo test --release --test fuzz -- --nocapture`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    unreachable_pub,
    reason = "a test that can't go on says so by panicking"
)]

mod choices;
mod client;
mod driver;
mod found;
mod large;
mod mutate;
mod objects;
mod requests;
mod watchdog;

use std::{collections::BTreeMap, panic::AssertUnwindSafe, time::Duration};

use client::{Call, Reply};
use driver::Driver;
use futures_util::FutureExt as _;

/// How many slow requests are told of.
const SLOWEST: usize = 8;
/// The bytes that decide on the requests of one case.
const CASE: std::ops::Range<usize> = 64..4096;

fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[tokio::test(start_paused = true)]
async fn whatever_is_sent_the_server_answers_and_keeps_what_it_has() {
    let driver = Driver::new().await;
    let seed = setting("KUBEWRIGHT_FUZZ_SEED", 0);
    let mut slowest: Vec<(Duration, String)> = Vec::new();
    let mut failed = Vec::new();
    let mut codes: BTreeMap<u16, usize> = BTreeMap::new();
    for case in seed..seed.saturating_add(setting("KUBEWRIGHT_FUZZ_CASES", 12)) {
        let mut random = fastrand::Rng::with_seed(case);
        let bytes: Vec<u8> = (0..random.usize(CASE)).map(|_| random.u8(..)).collect();
        #[allow(clippy::disallowed_methods, reason = "what is measured is the machine, not virtual time")]
        let now = std::time::Instant::now;
        let mut last = now();
        let mut note = |call: &Call, reply: &Reply| {
            *codes.entry(reply.code).or_default() += 1;
            slowest.push((last.elapsed(), call.shown().chars().take(300).collect()));
            last = now();
        };
        let run = driver.run(&bytes, &mut note);
        if AssertUnwindSafe(run).catch_unwind().await.is_err() {
            println!("in case {case}");
            failed.push(case);
        }
        slowest.sort_by_key(|(took, _)| std::cmp::Reverse(*took));
        slowest.truncate(SLOWEST);
    }
    println!("{codes:?}");
    for (took, call) in slowest {
        println!("{took:?} {call}");
    }
    assert!(failed.is_empty(), "these cases failed, each with its own words above: {failed:?}");
}
