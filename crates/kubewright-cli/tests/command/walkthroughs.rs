//! The walk-throughs in the operators' READMEs, command by command, as a reader follows them.

use std::{
    env,
    ffi::OsString,
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use crate::{
    guide::{Reader, Step, steps},
    support::{kubectl, kubewright},
};

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

/// Follows a README. Its programs in other terminals are started here: built already, and on free ports.
fn follow(directory: &Path, kubectl: &Path) {
    let name = directory.file_name().unwrap().to_str().unwrap();
    let place = tempfile::tempdir().unwrap();
    let kubeconfig = place.path().join("kubeconfig");
    let mut steps = steps(&fs::read_to_string(directory.join("README.md")).unwrap());
    steps.retain(|step| matches!(step, Step::Run { .. }));
    assert!(steps.len() >= 4, "the walk-through of {name} is short");
    let (_system, address) =
        system_of(directory).map(|mut system| Running::start(system.arg("127.0.0.1:0"))).unzip();
    let mut environment: Vec<(&str, OsString)> = vec![("KUBECONFIG", kubeconfig.clone().into())];
    environment.extend(address.map(|address| ("FOOBAR_SYSTEM", address.into())));
    let mut up = kubewright();
    up.args(["up", name, "--no-samples", "--output", "json", "--kubeconfig"]).arg(&kubeconfig);
    let (_up, ready) = Running::start(up.envs(environment.iter().cloned()));
    assert!(ready.starts_with("{\"converged\":true"), "{ready}");
    let mut reader = Reader::new(directory, &[kubectl], &environment);
    steps.into_iter().for_each(|step| reader.follow(name, step));
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
