//! Any text as the YAML of an object and as the configuration of an apply.

#![no_main]

#[allow(dead_code)]
mod server;

use server::client::Call;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let collection = "/apis/fuzz.example.com/v1/namespaces/n/things";
    server::send(&Call::new("POST", collection).content("application/yaml", bytes));
    let apply = Call::new("PATCH", format!("{collection}/a?fieldManager=m&force=true"));
    server::send(&apply.content("application/apply-patch+yaml", bytes));
});
