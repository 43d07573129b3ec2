//! Whole operators against an API server: what is promised of the SDK, by behaviour.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    unreachable_pub,
    missing_docs,
    reason = "tests say what is wrong by panicking"
)]

mod applying;
mod asking;
mod finalizing;
mod installing;
mod leading;
mod reading;
mod reconciling;
mod serving;
mod stopping;
mod support;
mod tasks;
mod watching;
mod writing;
