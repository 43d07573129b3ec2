//! Webhooks of operators, as the API server calls them: what is promised of them, by behaviour.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests say what is wrong by panicking, and why they are left out by printing"
)]

mod answering;
mod casks;
mod converting;
mod failing;
mod leading;
mod trusting;
