//! The built-in controllers, by what anyone sees of them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    unreachable_pub,
    missing_docs,
    reason = "tests say what is wrong by panicking"
)]

mod deployment;
mod endpoints;
mod event_expiry;
mod garbage;
mod logs;
mod namespaces;
mod nodes;
mod pods;
mod replicaset;
mod resource_quota;
mod scheduling;
mod statefulset;
mod volumes;
