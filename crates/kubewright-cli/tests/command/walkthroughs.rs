//! The walk-throughs in the operators' READMEs, command by command, as a reader follows them.

use std::{
    env, fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use crate::support::{kubectl, kubewright};

/// Commands of a walk-through, and what they print; `...` stands for anything.
struct Step {
    commands: String,
    expected: String,
}

/// The steps of a README: each is a block of shell and, right after it, one of text.
fn steps(readme: &str) -> Vec<Step> {
    let mut blocks = Vec::new();
    let mut lines = readme.lines();
    while let Some(line) = lines.next() {
        if let Some(language @ ("sh" | "text")) = line.strip_prefix("```") {
            let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            blocks.push((language, block.join("\n")));
        }
    }
    let pairs = blocks.chunks(2).map(|pair| match pair {
        [("sh", commands), ("text", expected)] => {
            Step { commands: commands.clone(), expected: expected.clone() }
        }
        _ => panic!("a block of shell, and then what it prints: {pair:#?}"),
    });
    pairs.collect()
}

/// Whether a text is what was expected, with anything in place of each `...`.
fn is_as_expected(text: &str, expected: &str) -> bool {
    let mut parts = expected.trim().split("...");
    let mut rest = text.trim();
    let Some(stripped) = parts.next().and_then(|first| rest.strip_prefix(first)) else { return false };
    rest = stripped;
    let parts: Vec<&str> = parts.collect();
    let Some((last, between)) = parts.split_last() else { return rest.is_empty() };
    for part in between {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// A program that says something and then goes on; it ends with this.
struct Running(Child);

impl Running {
    /// Starts it, and gives the first line that it prints.
    fn start(command: &mut Command) -> (Self, String) {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        (Self(child), line.trim().to_owned())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The external system that an operator is tried out with, if it needs one: an example of the operator's crate. It is
/// there if all crates are tested, and else built.
fn system_of(directory: &Path) -> Option<Command> {
    if !directory.join("examples/system.rs").is_file() {
        return None;
    }
    let programs = Path::new(env!("CARGO_BIN_EXE_kubewright")).parent().unwrap();
    let program = programs.join("examples/system");
    if !program.is_file() {
        let mut build = Command::new(env!("CARGO"));
        build
            .args(["build", "--locked", "--example", "system", "--target-dir"])
            .arg(programs.parent().unwrap());
        assert!(build.current_dir(directory).status().unwrap().success(), "the system does not build");
    }
    Some(Command::new(program))
}

fn follow(directory: &Path, kubectl: &Path) {
    let name = directory.file_name().unwrap().to_str().unwrap();
    let place = tempfile::tempdir().unwrap();
    let kubeconfig = place.path().join("kubeconfig");
    let steps = steps(&fs::read_to_string(directory.join("README.md")).unwrap());
    assert!(steps.len() >= 4, "the walk-through of {name} is short");
    let (_system, address) =
        system_of(directory).map(|mut system| Running::start(system.arg("127.0.0.1:0"))).unzip();
    let mut up = kubewright();
    up.args(["up", name, "--no-samples", "--output", "json", "--kubeconfig"]).arg(&kubeconfig);
    up.envs(address.iter().map(|address| ("FOOBAR_SYSTEM", address)));
    let (_up, ready) = Running::start(&mut up);
    assert!(ready.starts_with("{\"converged\":true"), "{ready}");
    let path = env::var_os("PATH").unwrap_or_default();
    let path =
        env::join_paths([kubectl.parent().unwrap().to_owned()].into_iter().chain(env::split_paths(&path)));
    for Step { commands, expected } in steps {
        let done = Command::new("bash")
            .args(["-e", "-o", "pipefail", "-c", &format!("{{ {commands}\n}} 2>&1")])
            .current_dir(directory)
            .env("KUBECONFIG", &kubeconfig)
            .envs(address.iter().map(|address| ("FOOBAR_SYSTEM", address)))
            .env("PATH", path.as_ref().unwrap())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(done.status.success(), "{name}: these failed:\n{commands}\n\nThey printed:\n{text}");
        assert!(
            is_as_expected(&text, &expected),
            "{name}: these\n\n{commands}\n\nprinted\n\n{text}\n\ninstead of\n\n{expected}"
        );
    }
}

#[test]
fn what_the_readmes_say_happens() {
    let Some(kubectl) = kubectl() else {
        println!("skipped: there is no kubectl on the PATH and none was built with the reference");
        return;
    };
    let operators = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../operators"));
    let mut followed = 0;
    for entry in fs::read_dir(operators).unwrap() {
        follow(&entry.unwrap().path(), &kubectl);
        followed += 1;
    }
    assert!(followed >= 6, "only {followed} operators");
}

#[test]
fn what_differs_every_time_may_be_anything_and_nothing_else() {
    for (text, expected, holds) in [
        ("a b c\n", "a b c", true),
        ("a b c", "a ... c", true),
        ("a c", "a ... c", false),
        ("a 1\nb 2\nc", "a ...\nc", true),
        ("x a b", "a b", false),
        ("a b x", "a b", false),
        ("a b x", "a b...", true),
    ] {
        assert_eq!(is_as_expected(text, expected), holds, "{text:?} and {expected:?}");
    }
}
