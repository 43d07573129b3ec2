//! The `kubewright` command as people run it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    unreachable_pub,
    reason = "a test that can't go on says so by panicking"
)]

mod cluster;
mod kubectl;
mod run;
mod scaffold;
mod support;
mod up;
mod walkthroughs;
