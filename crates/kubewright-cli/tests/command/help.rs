//! What the command says of itself: without a command, in its help, in its reference, to shells and to kubectl.

use std::{
    env, fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;

use crate::support::{error_of, kubectl, kubewright, run};

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn text_of(output: &Output) -> String {
    assert!(output.status.success(), "{}", error_of(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What `kubewright` alone says in a directory.
fn next_in(dir: &Path) -> String {
    text_of(&kubewright().current_dir(dir).output().expect("the command runs"))
}

fn assert_all_in(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing:\n{text}");
    }
}

#[test]
fn where_there_is_nothing_it_starts_with_init() {
    let dir = tempfile::tempdir().expect("a directory");
    assert_all_in(&next_in(dir.path()), &["nothing here yet", "  kubewright init --domain example.com "]);
    fs::write(dir.path().join("notes.txt"), "").unwrap();
    assert_all_in(&next_in(dir.path()), &["no operator here", "  mkdir my-operator && cd my-operator "]);
}

#[test]
fn a_project_goes_on_with_what_it_lacks() {
    let dir = tempfile::tempdir().expect("a directory");
    let does = |arguments: &str| {
        let done = kubewright().args(arguments.split(' ')).current_dir(dir.path()).output().unwrap();
        assert!(done.status.success(), "{arguments}: {}", error_of(&done));
    };
    does("init --domain example.com --project-name web-operator");
    assert_all_in(
        &next_in(dir.path()),
        &["web-operator is an operator without a kind", "kubewright create api "],
    );

    does("create api --group web --version v1 --kind Site");
    does("create api --external --group apps --version v1 --kind Deployment");
    let said = next_in(dir.path());
    assert_all_in(&said, &["Site of web.example.com/v1, Deployment of apps/v1"]);
    assert_all_in(
        &said,
        &["kubewright run --local ", "kubewright test ", "kubewright build ", "kubewright deploy "],
    );
    assert!(!said.contains("create api"), "{said}");

    let root = dir.path().canonicalize().unwrap();
    assert_all_in(&next_in(&dir.path().join("src/api")), &[&format!("  cd {} ", root.display())]);
}

#[test]
fn a_project_file_that_can_t_be_read_is_an_error() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("PROJECT"), "domain: [").unwrap();
    let output = kubewright().current_dir(dir.path()).output().expect("the command runs");
    assert_eq!(output.status.code(), Some(1));
    assert_all_in(&error_of(&output), &["error: ", "PROJECT can't be read: "]);
    assert_eq!(error_of(&output).lines().count(), 1, "{}", error_of(&output));
}

#[test]
fn operators_without_a_project_are_found_by_what_they_depend_on() {
    let said = next_in(Path::new(REPOSITORY));
    assert_all_in(&said, &["There are operators in operators/foobar, operators/memcached, "]);
    assert_all_in(
        &said,
        &["  kubewright run operators/foobar --local ", "  kubewright test operators/foobar "],
    );
    assert!(!said.contains("crates/kubewright-cli"), "{said}");
    let said = next_in(&Path::new(REPOSITORY).join("operators/myapp"));
    assert_all_in(&said, &["myapp-operator is an operator", "  kubewright run --local "]);
    let said = next_in(&Path::new(REPOSITORY).join("crates/kubewright-cel"));
    assert_all_in(&said, &["Nothing here is an operator", "kubewright init "]);
}

#[test]
fn every_help_can_be_had() {
    for arguments in [["--help", "--help"], ["build", "--help"], ["help", "completion"]] {
        assert_all_in(&text_of(&run(&arguments)), &["Usage: kubewright", "Examples:\n"]);
    }
}

#[test]
fn the_version_tells_of_kubernetes_and_of_the_target() {
    let version: Value =
        serde_json::from_str(&text_of(&run(&["version", "--output", "json"]))).expect("JSON");
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    assert!(version["kubernetes"].as_str().is_some_and(|version| version.starts_with("v1.")), "{version}");
    assert!(version["target"].as_str().is_some_and(|target| target.contains(env::consts::ARCH)), "{version}");
    let target = version["target"].as_str().unwrap();
    assert_all_in(&text_of(&run(&["version"])), &["kubewright  0.", "Kubernetes  v1.", target]);
}

#[test]
fn every_shell_gets_a_script() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert_all_in(&text_of(&run(&["completion", shell])), &["kubewright", "completion", "build"]);
    }
    assert_eq!(run(&["completion", "csh"]).status.code(), Some(2));
}

/// Run it with `KUBEWRIGHT_REWRITE=1` to write the page anew.
#[test]
fn the_reference_is_up_to_date() {
    let page = Path::new(REPOSITORY).join("docs/reference/cli.md");
    let now = text_of(&run(&["reference"]));
    assert_all_in(
        &now,
        &["\n## kubewright build\n", "`--image <NAME:TAG>`", "`--push`", "`KUBEWRIGHT_LISTEN`"],
    );
    assert!(!now.contains("kubewright reference"), "what is hidden stays so");
    if env::var_os("KUBEWRIGHT_REWRITE").is_some() {
        fs::create_dir_all(page.parent().unwrap()).unwrap();
        fs::write(&page, &now).unwrap();
    }
    let written = fs::read_to_string(&page).unwrap_or_default();
    let differs = written.lines().zip(now.lines()).find(|(written, now)| written != now);
    assert!(
        written == now,
        "docs/reference/cli.md is out of date, first at {differs:?}: run this test with KUBEWRIGHT_REWRITE=1"
    );
}

#[test]
fn tests_are_cargo_s_and_so_is_the_exit_code() {
    let dir = tempfile::tempdir().expect("a directory");
    let nothing = kubewright().arg("test").current_dir(dir.path()).output().expect("the command runs");
    assert_eq!(nothing.status.code(), Some(1));
    assert_all_in(&error_of(&nothing), &[". is no project", "kubewright init"]);

    fs::write(dir.path().join("Cargo.toml"), "").unwrap();
    let cargo = dir.path().join("cargo");
    fs::write(&cargo, "#!/bin/sh\necho \"$*\"\nexit $CODE\n").unwrap();
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
    for code in [0, 101] {
        let mut command = kubewright();
        command.args(["test", "--", "a_pod", "--", "--nocapture"]).current_dir(dir.path());
        let output =
            command.env("CARGO", &cargo).env("CODE", code.to_string()).output().expect("the command runs");
        assert_eq!(output.status.code(), Some(code));
        let called = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(called, "test --manifest-path ./Cargo.toml a_pod -- --nocapture\n");
    }
}

/// A directory with the links that make the command a plugin.
fn plugins() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    for name in ["kubectl-wright", "kubectl_complete-wright"] {
        symlink(env!("CARGO_BIN_EXE_kubewright"), dir.path().join(name)).unwrap();
    }
    let plugin = dir.path().join("kubectl-wright");
    (dir, plugin)
}

#[test]
fn as_a_plugin_it_speaks_of_itself_as_one() {
    let (dir, plugin) = plugins();
    let said = |arguments: &[&str]| {
        text_of(
            &Command::new(&plugin).args(arguments).current_dir(dir.path()).output().expect("the plugin runs"),
        )
    };
    let help = said(&["build", "--help"]);
    assert_all_in(&help, &["Usage: kubectl wright build", "\n  kubectl wright build --image "]);
    assert!(!help.contains("  kubewright "), "{help}");
    assert_all_in(&said(&[]), &["  kubectl wright init "]);
}

#[test]
fn kubectl_runs_the_plugin_and_completes_it() {
    let Some(kubectl) = kubectl() else {
        println!("skipped: there is no kubectl on the PATH and none was built with the reference");
        return;
    };
    let (dir, _) = plugins();
    let path = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths([dir.path().to_owned()].into_iter().chain(env::split_paths(&path))).unwrap();
    let said = |arguments: &[&str]| {
        let mut command = Command::new(&kubectl);
        text_of(
            &command
                .args(arguments)
                .env("PATH", &path)
                .env("HOME", dir.path())
                .output()
                .expect("kubectl runs"),
        )
    };
    assert_all_in(&said(&["wright", "version"]), &["Kubernetes  v1."]);
    assert_eq!(said(&["__complete", "wright", "clu"]), "cluster\tRun a local cluster\n:4\n");
    assert_all_in(&said(&["__complete", "wright", "build", "--pl"]), &["--platform\t"]);
    assert_all_in(&said(&["__complete", "wright", "completion", ""]), &["\nfish\n", "\n:4\n"]);
}
