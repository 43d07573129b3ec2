//! The pages of the book that have commands, as a reader follows them.

use std::{ffi::OsString, fs, path::Path};

use crate::{
    guide::{Reader, steps},
    support::kubectl,
};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Follows a page in an empty directory.
fn follow(page: &str) {
    let Some(kubectl) = kubectl() else {
        println!("skipped: there is no kubectl on the PATH and none was built with the reference");
        return;
    };
    let place = tempfile::tempdir().unwrap();
    let kubewright = Path::new(env!("CARGO_BIN_EXE_kubewright"));
    // What is built here is for the most part what was built for the tests.
    let target = kubewright.ancestors().nth(2).unwrap();
    let environment: [(&str, OsString); 3] = [
        ("KUBEWRIGHT_SDK_PATH", fs::canonicalize(ROOT).unwrap().into()),
        ("CARGO_TARGET_DIR", target.into()),
        ("CARGO_NET_OFFLINE", "true".into()),
    ];
    let text = fs::read_to_string(Path::new(ROOT).join("docs").join(page)).unwrap();
    Reader::new(place.path(), &[kubewright, &kubectl], &environment).follow(page, steps(&text));
}

#[test]
#[ignore = "the commands that it begins with are not there yet"]
fn the_quick_start_leads_to_an_operator() {
    follow("quick-start.md");
}

#[test]
fn a_local_cluster_is_a_command() {
    follow("cluster.md");
}
