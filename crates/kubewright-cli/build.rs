//! Tells the command what it is built for: only a build script knows.

#![allow(clippy::print_stdout, reason = "cargo reads it")]

fn main() {
    let target = std::env::var("TARGET").expect("cargo says it");
    println!("cargo::rustc-env=KUBEWRIGHT_TARGET={target}");
    println!("cargo::rerun-if-changed=build.rs");
}
