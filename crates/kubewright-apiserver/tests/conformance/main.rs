//! How an API server behaves, written once and run on two: the embedded one by default, and on any other that
//! `KUBEWRIGHT_SERVER` and `KUBEWRIGHT_TOKEN` name. `conformance/run` compares them.
//!
//! Names are sentences about behaviour; `docs/conformance.md` has them by chapter.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    unreachable_pub,
    reason = "a test that can't go on says so by panicking"
)]

mod definition;
mod harness;
mod known_gaps;
mod manifests;
mod network;
mod reply;
mod watch;

mod admission;
mod apply;
mod clients;
mod conversion;
mod definitions;
mod deletion;
mod discovery;
mod errors;
mod identity;
mod lists;
mod metadata;
mod namespaces;
mod patches;
mod subresources;
mod watches;
mod writing;
