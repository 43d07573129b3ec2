//! Whole operators against an API server: what is promised of the SDK, by behaviour.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    unreachable_pub,
    missing_docs,
    reason = "tests say what is wrong by panicking, and why they are left out by printing"
)]

mod applying;
mod asking;
mod finalizing;
mod installing;
mod leading;
mod line;
mod migrating;
mod reading;
mod reconciling;
mod server;
mod serving;
mod stopping;
mod support;
mod tasks;
mod watching;
mod workloads;
mod writing;
