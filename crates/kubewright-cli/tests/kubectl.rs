//! Stock kubectl against `kubewright cluster`: everything people do with it all day, in `conformance/kubectl`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    unreachable_pub,
    reason = "a test that can't go on says so by panicking"
)]

use std::{
    env,
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Command, Stdio},
};

/// The newest kubectl there is: of the reference, or on the path.
fn kubectl() -> Option<PathBuf> {
    let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let cache = env::var_os("XDG_CACHE_HOME").map_or_else(|| home.join(".cache"), PathBuf::from);
    let reference = env::var_os("KUBEWRIGHT_REFERENCE_CACHE")
        .map_or_else(|| cache.join("kubewright/reference"), PathBuf::from);
    let built = std::fs::read_dir(reference)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join("kubectl"));
    let on_path =
        env::var_os("PATH").into_iter().flat_map(|path| env::split_paths(&path).collect::<Vec<_>>());
    built.chain(on_path.map(|dir| dir.join("kubectl"))).find(|candidate| candidate.is_file())
}

#[test]
fn stock_kubectl_does_its_daily_work() {
    let Some(kubectl) = kubectl() else {
        println!("skipped: there is no kubectl on the PATH and none was built with the reference");
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let kubeconfig = dir.path().join("kubeconfig");
    let mut server = Command::new(env!("CARGO_BIN_EXE_kubewright"))
        .args(["cluster", "--api-only", "--output", "json", "--listen", "127.0.0.1:0", "--kubeconfig"])
        .arg(&kubeconfig)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the server starts");
    let mut line = String::new();
    BufReader::new(server.stdout.as_mut().expect("it is piped")).read_line(&mut line).expect("a line");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conformance/kubectl");
    let checks = Command::new(script).env("KUBECTL", &kubectl).env("KUBECONFIG", &kubeconfig).output();
    let _ = server.kill();
    let _ = server.wait();
    let checks = checks.expect("the script runs");
    let text = String::from_utf8_lossy(&checks.stdout).into_owned();
    let failed: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("FAIL  ")).collect();
    assert!(
        failed.is_empty(),
        "with {}:\n{text}{}",
        kubectl.display(),
        String::from_utf8_lossy(&checks.stderr)
    );
    assert!(text.lines().filter(|line| line.starts_with("ok")).count() > 80, "{text}");
}
