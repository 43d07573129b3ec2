//! The command as a process, and what it started.

use std::{
    env, fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::Value;

pub fn kubewright() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubewright"));
    for variable in ["LISTEN", "DATA_DIR", "TOKEN", "KUBECONFIG", "NODES", "SDK_PATH", "TEMPLATES"] {
        command.env_remove(format!("KUBEWRIGHT_{variable}"));
    }
    command
}

pub fn run(arguments: &[&str]) -> Output {
    kubewright().args(arguments).output().expect("the command runs")
}

pub fn error_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A running cluster; it ends with this.
pub struct Cluster {
    pub child: Child,
    pub ready: Value,
    pub kubeconfig: PathBuf,
}

impl Cluster {
    /// Starts an API server with its kubeconfig in `dir`, and waits until it is ready.
    pub fn start(dir: &Path, arguments: &[&str]) -> Self {
        Self::run(dir, &[&["--api-only"], arguments].concat())
    }

    /// Starts a cluster with its kubeconfig in `dir`, and waits until it is ready.
    pub fn run(dir: &Path, arguments: &[&str]) -> Self {
        let kubeconfig = dir.join("kubeconfig");
        let mut child = kubewright()
            .args(["cluster", "--output", "json", "--kubeconfig"])
            .arg(&kubeconfig)
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let mut line = String::new();
        let stdout = child.stdout.as_mut().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let ready = serde_json::from_str(&line).unwrap_or_else(|_| panic!("one line of JSON, not {line:?}"));
        Self { child, ready, kubeconfig }
    }

    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(status.expect("kill runs").success());
    }

    pub async fn client(&self) -> Client {
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig).expect("a kubeconfig");
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        Client::try_from(config.expect("a usable kubeconfig")).expect("a client")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The newest kubectl there is: of the reference, or on the path.
pub fn kubectl() -> Option<PathBuf> {
    let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let cache = env::var_os("XDG_CACHE_HOME").map_or_else(|| home.join(".cache"), PathBuf::from);
    let reference = env::var_os("KUBEWRIGHT_REFERENCE_CACHE")
        .map_or_else(|| cache.join("kubewright/reference"), PathBuf::from);
    let built =
        fs::read_dir(reference).into_iter().flatten().flatten().map(|entry| entry.path().join("kubectl"));
    let on_path =
        env::var_os("PATH").into_iter().flat_map(|path| env::split_paths(&path).collect::<Vec<_>>());
    built.chain(on_path.map(|dir| dir.join("kubectl"))).find(|candidate| candidate.is_file())
}

/// This workspace.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

/// What this workspace as a whole asks of the crates that a project has, too, beyond what the project does: they would be
/// built again for any difference. `cargo tree --workspace --edges features` tells.
const SHARED: &str = r#"
jiff = { version = "0.2", default-features = false, features = ["std", "tzdb-bundle-always"] }
rustix = { version = "1", features = ["fs", "process"] }
tokio = { version = "1", features = ["io-util", "macros", "net", "process", "rt-multi-thread", "signal", "test-util"] }
"#;

/// Makes a project build with just the dependencies of this workspace.
pub fn share(project: &Path) {
    fs::copy(workspace().join("Cargo.lock"), project.join("Cargo.lock")).unwrap();
    let manifest = project.join("Cargo.toml");
    let mut text = fs::read_to_string(&manifest).unwrap();
    for (old, new) in [
        ("[\"client\", \"derive\"]", "[\"client\", \"derive\", \"runtime\"]".to_owned()),
        ("\n[dev-dependencies]", format!("{}\n[dev-dependencies]", SHARED.trim_start())),
    ] {
        assert!(text.contains(old), "Cargo.toml has no {old:?}");
        text = text.replace(old, &new);
    }
    fs::write(manifest, text).unwrap();
}
