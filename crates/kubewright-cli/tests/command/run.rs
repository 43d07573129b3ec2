//! `kubewright run`: a crate that is built and run, and again when it changes. The crates here do what operators do
//! on their command line, and need nothing to be built.

use std::{
    fs,
    io::{BufRead as _, BufReader, Lines},
    path::Path,
    process::{Child, ChildStdout, Command, Output, Stdio},
};

use tempfile::TempDir;

use crate::support::{error_of, kubewright};

/// A crate whose program is `main`.
fn crate_with(main: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let manifest = "[package]\nname = \"sketch\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n";
    fs::write(dir.path().join("Cargo.toml"), manifest).unwrap();
    fs::create_dir(dir.path().join("src")).unwrap();
    write_main(dir.path(), main);
    dir
}

fn write_main(dir: &Path, main: &str) {
    fs::write(dir.join("src/main.rs"), main).unwrap();
}

/// A program that logs a line and then waits.
fn says(line: &str) -> String {
    format!(
        "fn main() {{ eprintln!(\"{{}}\", {line:?}); std::thread::sleep(std::time::Duration::from_secs(600)); }}"
    )
}

fn command(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = kubewright();
    // The tests have a target directory of their own, which cargo would use for the crates, too.
    command
        .arg("run")
        .arg(dir)
        .args(arguments)
        .env_remove("CARGO_TARGET_DIR")
        .env("CARGO_NET_OFFLINE", "true");
    command
}

/// A running command, and what it prints.
struct Run {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Run {
    fn start(dir: &Path, arguments: &[&str]) -> Self {
        let mut child = command(dir, arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Reads until a line that contains this.
    fn until(&mut self, expected: &str) -> String {
        let mut read = Vec::new();
        for line in self.lines.by_ref() {
            let line = line.unwrap();
            if line.contains(expected) {
                return line;
            }
            read.push(line);
        }
        panic!("no line with {expected:?} in {read:#?}");
    }

    fn stop(mut self) {
        let told = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap();
        assert!(told.success());
        assert!(self.child.wait().unwrap().success(), "a clean end");
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn logs_are_lines_for_people() {
    let entry = r#"{"timestamp":"2026-01-02T03:04:05.678Z","level":"WARN","message":"failed: tried again later","error":"no such host","failures":2,"target":"kubewright","span":{"controller":"site","id":7,"object":"default/shop","name":"reconcile"},"spans":[]}"#;
    let dir = crate_with(&says(entry));
    let mut run = Run::start(dir.path(), &["--once"]);
    assert_eq!(
        run.until("WARN"),
        "03:04:05 WARN  site default/shop failed: tried again later error=no such host failures=2"
    );
    run.stop();
}

#[test]
fn a_changed_source_is_built_and_run_again_and_a_broken_one_is_not() {
    let dir = crate_with(&says("the first"));
    let mut run = Run::start(dir.path(), &[]);
    run.until("the first");
    write_main(dir.path(), "fn main() { this is no Rust }");
    run.until("the source has changed");
    run.until("the operator does not build; what ran before goes on");
    write_main(dir.path(), &says("the second"));
    run.until("the second");
    run.stop();
}

#[test]
fn one_that_never_stops_talking_is_run_again_all_the_same() {
    let talk = "fn main() { loop { eprintln!(\"talk\"); std::thread::sleep(std::time::Duration::from_millis(5)); } }";
    let dir = crate_with(talk);
    let mut run = Run::start(dir.path(), &[]);
    run.until("talk");
    write_main(dir.path(), &says("the second"));
    run.until("the second");
    run.stop();
}

#[test]
fn one_that_ends_waits_for_a_change() {
    let dir = crate_with("fn main() { std::process::exit(3) }");
    let mut run = Run::start(dir.path(), &[]);
    run.until("the operator has ended: exit status: 3; waiting for a change");
    write_main(dir.path(), &says("mended"));
    run.until("mended");
    run.stop();
}

#[test]
fn once_ends_as_the_operator_does_and_arguments_reach_it() {
    let dir = crate_with(
        "fn main() { let all: Vec<String> = std::env::args().skip(1).collect(); \
         eprintln!(\"{}\", all.join(\" \")); std::process::exit(4) }",
    );
    let done = command(dir.path(), &["--once", "--", "--log-level", "debug"]).output().unwrap();
    assert!(String::from_utf8_lossy(&done.stdout).contains("\nrun --log-level debug\n"));
    assert_eq!(done.status.code(), Some(1));
    assert!(
        error_of(&done).ends_with("error: the operator has ended: exit status: 4\n"),
        "{}",
        error_of(&done)
    );
}

/// What the operator is told of where its webhooks are.
fn told_of_webhooks(arguments: &[&str]) -> Output {
    let dir = crate_with(
        "fn main() { for name in [\"WEBHOOK_URL\", \"WEBHOOK_BIND_ADDRESS\"] { \
         eprintln!(\"{name}={}\", std::env::var(name).unwrap_or_default()) } }",
    );
    let mut command = command(dir.path(), &[&["--once"], arguments].concat());
    command.env_remove("WEBHOOK_URL").env_remove("WEBHOOK_BIND_ADDRESS").output().unwrap()
}

#[test]
fn a_cluster_that_is_not_its_own_is_led_to_the_operator_if_it_can_be() {
    for (arguments, expected) in [
        (&[][..], "\nWEBHOOK_URL=auto\nWEBHOOK_BIND_ADDRESS=\n"),
        (
            &["--webhook-url", "https://192.0.2.1:9443"],
            "\nWEBHOOK_URL=https://192.0.2.1:9443\nWEBHOOK_BIND_ADDRESS=\n",
        ),
    ] {
        let done = told_of_webhooks(arguments);
        let said = String::from_utf8_lossy(&done.stdout);
        assert!(said.contains(expected), "{said}{}", error_of(&done));
    }
    for (arguments, expected) in [
        (&["--webhook-url", "http://192.0.2.1:9443"][..], "webhooks are called over https only: write it as"),
        (&["--webhook-url", "https://192.0.2.1:9443", "--local"], "cannot be used with"),
    ] {
        let refused = told_of_webhooks(arguments);
        assert_eq!(refused.status.code(), Some(2));
        assert!(error_of(&refused).contains(expected), "{}", error_of(&refused));
    }
}

#[test]
fn what_is_no_operator_is_told() {
    let empty = tempfile::tempdir().unwrap();
    let library = crate_with("");
    fs::rename(library.path().join("src/main.rs"), library.path().join("src/lib.rs")).unwrap();
    let stranger = crate_with("fn main() { println!(\"hello\") }");
    for (dir, arguments, expected) in [
        (&empty, &[][..], "is no crate: it has no Cargo.toml"),
        (&library, &["--once"], "the crate has no program: it needs a src/main.rs"),
        (&stranger, &["--once", "--local"], "has no manifests: does it call kubewright::main?"),
    ] {
        let kubeconfig = dir.path().join("kubeconfig");
        let refused = command(dir.path(), arguments).arg("--kubeconfig").arg(kubeconfig).output().unwrap();
        assert_eq!(refused.status.code(), Some(1));
        assert!(error_of(&refused).contains(expected), "{}", error_of(&refused));
    }
}
