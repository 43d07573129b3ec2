//! The pages of the book that have commands, as a reader follows them.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use parking_lot::Mutex;

use crate::{
    guide::{Reader, Step, steps},
    image::{AMD64, ARM64, program},
    support::{Cluster, kubectl, share, workspace},
};

/// Held by whoever follows pages.
static READING: Mutex<()> = Mutex::new(());

/// The pages of the commands, in the order in which a project meets them.
const COMMANDS: [&str; 11] = [
    "commands/init.md",
    "commands/create.md",
    "commands/generate.md",
    "commands/test.md",
    "commands/explore.md",
    "commands/build.md",
    "commands/install.md",
    "commands/deploy.md",
    "commands/package.md",
    "commands/doctor.md",
    "commands/plugin.md",
];

fn steps_of(page: &str) -> Vec<Step> {
    steps(&fs::read_to_string(workspace().join("docs").join(page)).unwrap())
}

fn makes_project(step: &Step) -> bool {
    matches!(step, Step::Run { commands, .. } if commands.contains("kubewright init"))
}

/// Follows pages in a directory, one after the other.
fn follow(place: &Path, pages: &[&str], environment: &[(&str, OsString)]) {
    let Some(kubectl) = kubectl() else {
        println!("skipped: there is no kubectl on the PATH and none was built with the reference");
        return;
    };
    // Readers make projects of the same name, and share what was built for them.
    let _alone = READING.lock();
    let kubewright = Path::new(env!("CARGO_BIN_EXE_kubewright"));
    let shared: [(&str, OsString); 4] = [
        ("KUBEWRIGHT_SDK_PATH", workspace().into()),
        ("CARGO_BUILD_BUILD_DIR", kubewright.ancestors().nth(2).unwrap().into()),
        // Operators of the same name are built elsewhere at the same time.
        ("CARGO_TARGET_DIR", place.join("target").into()),
        ("CARGO_NET_OFFLINE", "true".into()),
    ];
    let plugins = place.join(".local/bin/kubectl-wright");
    let environment = [&shared, environment].concat();
    let mut reader = Reader::new(place, &[kubewright, &kubectl, &plugins], &environment);
    for page in pages {
        for step in steps_of(page) {
            let is_new = makes_project(&step);
            reader.follow(page, step);
            if is_new {
                share(&reader.place());
            }
        }
    }
}

#[test]
fn the_quick_start_leads_to_an_operator() {
    follow(tempfile::tempdir().unwrap().path(), &["quick-start.md"], &[]);
}

#[test]
fn a_local_cluster_is_a_command() {
    follow(tempfile::tempdir().unwrap().path(), &["cluster.md"], &[]);
}

/// Where something is that is usually in the home directory.
fn usual(variable: &str, name: &str) -> OsString {
    let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    env::var_os(variable).unwrap_or_else(|| home.join(name).into())
}

#[test]
fn the_commands_do_what_their_pages_say() {
    let place = tempfile::tempdir().unwrap();
    let cluster = Cluster::run(place.path(), &[]);
    // What the pages take for granted.
    for (folder, machine) in [("amd64", AMD64), ("arm64", ARM64)] {
        let folder = place.path().join("out").join(folder);
        fs::create_dir_all(&folder).unwrap();
        fs::rename(program(&folder, machine), folder.join("operator")).unwrap();
    }
    for file in ["certificates.yaml", "pipelines.yaml"] {
        let definitions = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/command/definitions");
        fs::copy(Path::new(definitions).join(file), place.path().join(file)).unwrap();
    }
    let environment = [
        ("CARGO_HOME", usual("CARGO_HOME", ".cargo")),
        ("RUSTUP_HOME", usual("RUSTUP_HOME", ".rustup")),
        ("HOME", place.path().into()),
        ("KUBECONFIG", cluster.kubeconfig.clone().into()),
        ("CARGO_TERM_QUIET", "true".into()),
    ];
    follow(place.path(), &COMMANDS, &environment);
}
