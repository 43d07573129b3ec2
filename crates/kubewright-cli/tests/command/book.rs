//! The pages of the book that have commands, as a reader follows them.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use crate::{
    guide::{Reader, Step, steps},
    support::kubectl,
};

fn root() -> PathBuf {
    fs::canonicalize(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).unwrap()
}

fn steps_of(page: &str) -> Vec<Step> {
    steps(&fs::read_to_string(root().join("docs").join(page)).unwrap())
}

/// Follows a page in an empty directory.
fn follow(page: &str, steps: Vec<Step>) {
    let Some(kubectl) = kubectl() else {
        println!("skipped: there is no kubectl on the PATH and none was built with the reference");
        return;
    };
    let place = tempfile::tempdir().unwrap();
    let kubewright = Path::new(env!("CARGO_BIN_EXE_kubewright"));
    let environment: [(&str, OsString); 3] = [
        ("KUBEWRIGHT_SDK_PATH", root().into()),
        ("CARGO_TARGET_DIR", kubewright.ancestors().nth(2).unwrap().into()),
        ("CARGO_NET_OFFLINE", "true".into()),
    ];
    Reader::new(place.path(), &[kubewright, &kubectl], &environment).follow(page, steps);
}

#[test]
fn the_quick_start_leads_to_an_operator() {
    let page = "quick-start.md";
    let mut steps = steps_of(page);
    // Most of what is built then was built for the tests.
    let commands = format!("cp {}/Cargo.lock .", root().display());
    steps.insert(1, Step::Run { commands, printed: None });
    follow(page, steps);
}

#[test]
fn a_local_cluster_is_a_command() {
    let page = "cluster.md";
    follow(page, steps_of(page));
}
