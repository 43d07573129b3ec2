//! What holds whatever happens: random sequences of writes through the front door, and the promises a client
//! of Kubernetes relies on. More cases with `PROPTEST_CASES=1000`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    unreachable_pub,
    reason = "a test that can't go on says so by panicking"
)]

#[path = "../fuzz/client.rs"]
#[allow(dead_code, reason = "shared with the fuzzer, which uses all of it")]
mod client;
mod managed;
mod operations;
mod world;

use proptest::{
    prelude::*,
    test_runner::{Config, TestCaseResult},
};

use self::{
    operations::{Step, steps},
    world::World,
};

/// Runs the steps with virtual time.
fn run<T>(steps: &[Step], then: impl AsyncFnOnce(World) -> Result<T, String>) -> Result<T, TestCaseError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    let outcome = runtime.expect("a runtime").block_on(async {
        let mut world = World::new().await;
        for (index, step) in steps.iter().enumerate() {
            world.step(step).await.map_err(|why| format!("step {index}, {step:?}: {why}"))?;
        }
        then(world).await
    });
    outcome.map_err(TestCaseError::fail)
}

fn few() -> Config {
    // Enough to notice what breaks often; `PROPTEST_CASES` for the rest.
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(10);
    Config { cases, failure_persistence: None, max_shrink_iters: 400, ..Config::default() }
}

proptest! {
    #![proptest_config(few())]

    /// Revisions, no-op writes, generations, managed fields, refusals, pages, forks: checked at each step.
    /// At the end, a watch from any revision that was seen leads to what is there.
    #[test]
    fn every_write_keeps_the_promises_and_every_watch_leads_to_the_present(steps in steps()) {
        run(&steps, async |world| world.watches_lead_here().await)?;
    }

    #[test]
    fn the_same_steps_give_the_same_answers_to_the_byte(steps in steps()) {
        let transcript = |steps: &[Step]| run(steps, async |world| Ok(world.transcript()));
        let (one, other) = (transcript(&steps)?, transcript(&steps)?);
        same(&one, &other)?;
    }
}

fn same(one: &[String], other: &[String]) -> TestCaseResult {
    for (a, b) in one.iter().zip(other) {
        prop_assert_eq!(a, b);
    }
    prop_assert_eq!(one.len(), other.len());
    Ok(())
}
