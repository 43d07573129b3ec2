//! The explorer: what goes wrong in it, what it finds, and what it says.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    unreachable_pub,
    reason = "a test that can't go on says so by panicking"
)]

mod again;
mod bugs;
mod ending;
mod faults;
mod gadget;
mod oracles;
mod outside;
mod telling;
