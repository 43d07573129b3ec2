//! Whole operators against an API server: what is promised of the SDK, by behaviour.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    unreachable_pub,
    missing_docs,
    reason = "tests say what is wrong by panicking"
)]

mod applying;
mod installing;
mod serving;
mod support;
