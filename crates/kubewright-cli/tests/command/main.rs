//! The `kubewright` command as people run it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    unreachable_pub,
    reason = "a test that can't go on says so by panicking"
)]

mod book;
mod cluster;
mod guide;
mod deploy;
mod generate;
mod kubectl;
mod package;
mod run;
mod sketch;
mod support;
mod template;
mod up;
mod walkthroughs;
