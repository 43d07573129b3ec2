//! Any text as a strategic merge patch, of the kinds with the most merge keys.

#![no_main]

#[allow(dead_code)]
mod server;

use server::client::Call;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for path in ["/apis/apps/v1/namespaces/n/deployments/a", "/api/v1/namespaces/n/services/a"] {
        server::send(&Call::new("PATCH", path).content("application/strategic-merge-patch+json", bytes));
    }
});
