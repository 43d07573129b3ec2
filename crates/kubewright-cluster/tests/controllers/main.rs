//! The built-in controllers, by what anyone sees of them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    unreachable_pub,
    missing_docs,
    reason = "tests say what is wrong by panicking, and why they are left out by printing"
)]

mod cronjob;
mod daemonset;
mod deployment;
mod disruption;
mod endpoints;
mod event_expiry;
mod events;
mod gadgets;
mod garbage;
mod job;
mod logs;
mod namespaces;
mod nodes;
mod pods;
mod replicaset;
mod requests;
mod resource_quota;
mod scheduling;
mod server;
mod statefulset;
mod volumes;
