//! The built-in controllers, by what anyone sees of them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    unreachable_pub,
    missing_docs,
    reason = "tests say what is wrong by panicking"
)]

mod cronjob;
mod daemonset;
mod disruption;
mod events;
mod job;
mod replicaset;
