//! The source of an operator: building it, and seeing that it has changed.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::SystemTime,
};

use serde::Deserialize;
use serde_json::Value;
use tokio::process::Command;

/// A crate that is an operator.
pub(crate) struct Source {
    manifest: PathBuf,
    /// Which of its programs, if it has several.
    bin: Option<String>,
    /// The directories of the crate and of all that it is made of on this machine.
    directories: Vec<PathBuf>,
    about: About,
}

/// What a crate says of itself.
#[derive(Clone, Deserialize)]
pub(crate) struct About {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) description: Option<String>,
    pub(crate) license: Option<String>,
    pub(crate) repository: Option<String>,
    #[serde(default)]
    features: BTreeMap<String, Vec<String>>,
}

/// When each file was last written.
pub(crate) type Snapshot = BTreeMap<PathBuf, SystemTime>;

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    manifest_path: PathBuf,
    /// Nothing if it is on this machine.
    source: Option<String>,
    #[serde(flatten)]
    about: About,
}

#[derive(Deserialize)]
struct Resolve {
    root: Option<String>,
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    dependencies: Vec<String>,
}

pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    // If this ends, so does that.
    command.kill_on_drop(true).stdin(Stdio::null());
    command
}

/// Runs a program for what it says on stdout. What it says on stderr is for people, at once: `Command::output` of tokio
/// would keep that, too.
pub(crate) async fn output(command: &mut Command) -> io::Result<Output> {
    command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn()?.wait_with_output().await
}

pub(crate) fn no_cargo(why: &io::Error) -> String {
    match why.kind() {
        io::ErrorKind::NotFound => "cargo is not there: install Rust from https://rustup.rs".to_owned(),
        _ => format!("can't run cargo: {why}"),
    }
}

impl Source {
    /// The crate in a directory.
    pub(crate) async fn of(directory: &Path, bin: Option<String>) -> Result<Self, String> {
        let manifest = directory.join("Cargo.toml");
        if !manifest.is_file() {
            let directory = directory.display();
            return Err(format!(
                "{directory} is no crate: it has no Cargo.toml. Name the directory of an operator"
            ));
        }
        let mut command = cargo();
        command.args(["metadata", "--format-version", "1", "--manifest-path"]).arg(&manifest);
        let output = output(&mut command).await.map_err(|why| no_cargo(&why))?;
        if !output.status.success() {
            return Err(format!("{} can't be read by cargo", manifest.display()));
        }
        let metadata: Metadata = serde_json::from_slice(&output.stdout)
            .map_err(|why| format!("can't read what cargo says of the crate: {why}"))?;
        let root = metadata.root().ok_or_else(|| {
            format!("{} is a workspace: name the directory of one of its crates", directory.display())
        })?;
        let directories = metadata.directories(&root.id);
        Ok(Self { manifest, bin, directories, about: root.about.clone() })
    }

    pub(crate) fn about(&self) -> &About {
        &self.about
    }

    /// Whether it can be built with a feature of this name.
    pub(crate) fn has_feature(&self, name: &str) -> bool {
        self.about.features.contains_key(name)
    }

    /// Builds it, and gives the program.
    pub(crate) async fn build(&self) -> Result<PathBuf, String> {
        self.build_with(|_| {}).await
    }

    /// Builds it as cargo is told to, and gives the program.
    pub(crate) async fn build_with(&self, adjust: impl FnOnce(&mut Command)) -> Result<PathBuf, String> {
        let mut command = cargo();
        command.args(["build", "--message-format", "json-render-diagnostics", "--manifest-path"]);
        command.arg(&self.manifest);
        if let Some(bin) = &self.bin {
            command.args(["--bin", bin]);
        }
        adjust(&mut command);
        let output = output(&mut command).await.map_err(|why| no_cargo(&why))?;
        if !output.status.success() {
            return Err("the operator does not build".to_owned());
        }
        let messages = output.stdout.split(|byte| *byte == b'\n');
        let mut programs: Vec<PathBuf> = messages
            .filter_map(|line| serde_json::from_slice::<Value>(line).ok())
            .filter_map(|message| Some(message.get("executable")?.as_str()?.into()))
            .collect();
        match (programs.pop(), programs.as_slice()) {
            (Some(program), []) => Ok(program),
            (None, _) => Err("the crate has no program: it needs a src/main.rs".to_owned()),
            (Some(_), _) => Err("the crate has several programs: choose one with --bin".to_owned()),
        }
    }

    /// How its files are at the moment.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::new();
        for directory in &self.directories {
            collect(directory, &mut snapshot);
        }
        snapshot
    }
}

/// The files below a directory, but for hidden ones and what is built from them. What can't be read is left out: it may
/// just be going.
fn collect(directory: &Path, snapshot: &mut Snapshot) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let Ok(metadata) = entry.metadata() else { continue };
        let is_left_out = name.as_encoded_bytes().starts_with(b".") || name == "target";
        match (is_left_out, metadata.is_dir()) {
            (true, _) => {}
            (false, true) => collect(&path, snapshot),
            (false, false) => {
                let _ = metadata.modified().map(|time| snapshot.insert(path, time));
            }
        }
    }
}

impl Metadata {
    /// The crate itself.
    fn root(&self) -> Option<&Package> {
        let id = self.resolve.root.as_ref()?;
        self.packages.iter().find(|package| package.id == *id)
    }

    /// The directories of a crate and of what it depends on, as far as they are on this machine.
    fn directories(&self, root: &str) -> Vec<PathBuf> {
        let mut open = vec![root];
        let mut needed = BTreeSet::new();
        while let Some(id) = open.pop() {
            if needed.insert(id) {
                let node = self.resolve.nodes.iter().find(|node| node.id == id);
                open.extend(node.into_iter().flat_map(|node| node.dependencies.iter().map(String::as_str)));
            }
        }
        let local = |package: &&Package| package.source.is_none() && needed.contains(package.id.as_str());
        let packages = self.packages.iter().filter(local);
        packages.filter_map(|package| Some(package.manifest_path.parent()?.to_owned())).collect()
    }
}
