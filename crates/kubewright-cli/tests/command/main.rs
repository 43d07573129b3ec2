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
mod deploy;
mod generate;
mod guide;
mod help;
mod image;
mod kubectl;
mod package;
mod registry;
mod run;
mod scaffold;
mod sketch;
mod support;
mod template;
mod up;
mod walkthroughs;
