//! `kubewright up`: operators with their samples, in a cluster of their own.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::Value;

use crate::support::{error_of, kubewright};

fn up(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = kubewright();
    command.arg("up").args(arguments).arg("--kubeconfig").arg(dir.join("kubeconfig"));
    command
}

fn output(dir: &Path, arguments: &[&str]) -> Output {
    up(dir, arguments).output().expect("the command runs")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// All objects below a resource, as kinds.
fn kinds(resource: &Value) -> Vec<String> {
    let below = resource["children"].as_array().into_iter().flatten().flat_map(kinds);
    [resource["kind"].as_str().unwrap().to_owned()].into_iter().chain(below).collect()
}

#[test]
fn all_samples_converge_and_programs_can_read_how() {
    let dir = tempfile::tempdir().unwrap();
    let done = output(dir.path(), &["--once", "--output", "json"]);
    assert!(done.status.success(), "{}", error_of(&done));
    let summary: Value = serde_json::from_slice(&done.stdout).expect("one JSON document");
    assert_eq!(summary["converged"], true);
    let resources = summary["resources"].as_array().unwrap();
    assert!(resources.iter().all(|resource| resource["isWell"] == true), "{summary:#}");
    let memcached = resources.iter().find(|resource| resource["kind"] == "Memcached").expect("it is there");
    assert_eq!(kinds(memcached), ["Memcached", "Deployment", "ReplicaSet", "Pod", "Pod", "Pod"]);
}

#[test]
fn without_a_terminal_every_step_is_a_line() {
    let dir = tempfile::tempdir().unwrap();
    let done = output(dir.path(), &["memcached", "--once"]);
    assert!(done.status.success(), "{}", error_of(&done));
    let text = text(&done);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("The cluster is at https://127.0.0.1:"), "{text}");
    let said: Vec<&&str> =
        lines.iter().filter(|line| line.starts_with("Memcached default/memcached: ")).collect();
    assert_eq!(said.last().unwrap(), &&"Memcached default/memcached: Available: 3 of 3 pods are available");
    assert!(lines.last().unwrap().starts_with("Everything has converged after "), "{text}");
    assert!(!text.contains('\u{1b}'), "no colours");
}

#[test]
fn what_has_not_converged_in_time_is_told_with_its_state() {
    let dir = tempfile::tempdir().unwrap();
    let done = output(dir.path(), &["memcached", "--once", "--nodes", "0", "--timeout", "3s"]);
    assert_eq!(done.status.code(), Some(1));
    let error = error_of(&done);
    assert!(error.starts_with("error: not everything has converged within 3s:\n"), "{error}");
    assert!(error.contains("Memcached default/memcached: Unschedulable: pod memcached-"), "{error}");
    assert!(error.contains("FailedScheduling"), "the events are there, too: {error}");
}

#[test]
fn what_to_do_without_samples_can_be_done_anywhere() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = up(dir.path(), &["memcached", "--no-samples"]);
    let mut child = command.current_dir(dir.path()).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let said: Vec<String> =
        lines.map(Result::unwrap).take_while(|line| !line.starts_with("  kubectl explain")).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(said.last().map(String::as_str), Some("  kubectl get all"), "{said:#?}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (arguments, expected) in [
        (&["nonsense"][..], "invalid value 'nonsense' for '[OPERATOR]...'"),
        (&["--timeout", "soon"], "write it as 90s or 2m"),
        (&["--output", "xml"], "[possible values: text, json]"),
    ] {
        let refused = output(dir.path(), arguments);
        assert_eq!(refused.status.code(), Some(2));
        assert!(error_of(&refused).contains(expected), "{}", error_of(&refused));
    }
    assert!(!dir.path().join("kubeconfig").exists(), "nothing was started");
}

#[test]
fn it_stays_until_it_is_told_to_stop_and_goes_on_from_its_directory() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let arguments = ["memcached", "--output", "json", "--data-dir", data.to_str().unwrap()];
    let mut uids = Vec::new();
    for _ in 0..2 {
        let mut child = up(dir.path(), &arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let summary: Value = serde_json::from_str(&line).unwrap();
        uids.push(summary["resources"][0]["children"][0]["uid"].clone());
        assert!(child.try_wait().unwrap().is_none(), "it is still there");
        let told = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        assert!(told.success() && child.wait().unwrap().success(), "a clean end");
    }
    assert!(uids[0].is_string() && uids[0] == uids[1], "the same Deployment: {uids:?}");
}
