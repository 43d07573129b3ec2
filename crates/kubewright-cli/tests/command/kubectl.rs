//! Stock kubectl against `kubewright cluster`: everything people do with it all day, in `conformance/kubectl`.

use std::process::Command;

use crate::support::{Cluster, kubectl};

#[test]
fn stock_kubectl_does_its_daily_work() {
    let Some(kubectl) = kubectl() else {
        println!("skipped: there is no kubectl on the PATH and none was built with the reference");
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let server = Cluster::start(dir.path(), &[]);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conformance/kubectl");
    let checks = Command::new(script).env("KUBECTL", &kubectl).env("KUBECONFIG", &server.kubeconfig).output();
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
