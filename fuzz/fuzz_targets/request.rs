//! Whole sequences of requests, as the bounded run in `cargo test` makes them up.

#![no_main]

#[allow(dead_code)]
mod server;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| server::run(bytes));
