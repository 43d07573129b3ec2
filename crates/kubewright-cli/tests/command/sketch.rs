//! A crate that says what operators say on their command line, and needs nothing to be built.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use kubewright::{ManifestOptions, Operator};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::kubewright;

const MAIN: &str = r#"
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let asks = |text: &str| arguments.iter().any(|argument| argument == text);
    let answer = match () {
        () if asks("version") => "version.txt",
        () if asks("--output=files") => "files.json",
        () if asks("--only=crds") => "crds.json",
        () => "manifests.json",
    };
    print!("{}", std::fs::read_to_string(format!("{}/{answer}", env!("CARGO_MANIFEST_DIR"))).unwrap());
}
"#;

/// The crate, and what it says.
pub struct Sketch {
    dir: TempDir,
    pub documents: Vec<Value>,
}

impl Sketch {
    /// What the memcached operator says if it lives in a namespace; its pods are ready at once.
    pub fn memcached(namespace: &str) -> Self {
        let options = ManifestOptions { namespace: Some(namespace.to_owned()), ..ManifestOptions::default() };
        let mut sketch = Self::of(&memcached_operator::operator(), &options);
        sketch.annotate("ready-after", "0s");
        sketch
    }

    pub fn of(operator: &Operator, options: &ManifestOptions) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let manifest = "[package]\nname = \"sketch\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n";
        fs::write(dir.path().join("Cargo.toml"), manifest).unwrap();
        fs::create_dir(dir.path().join("src")).unwrap();
        fs::write(dir.path().join("src/main.rs"), MAIN).unwrap();
        fs::write(dir.path().join("version.txt"), format!("{} 1.2.3 (kubewright 0)\n", operator.name()))
            .unwrap();
        let files = operator.config(options).unwrap();
        fs::write(dir.path().join("files.json"), json!(files).to_string()).unwrap();
        let sketch = Self { dir, documents: operator.manifests(options) };
        sketch.write();
        sketch
    }

    /// Changes what it says.
    pub fn change(&mut self, change: impl FnOnce(&mut Vec<Value>)) {
        change(&mut self.documents);
        self.write();
    }

    /// Scripts its simulated pods.
    pub fn annotate(&mut self, name: &str, value: &str) {
        self.change(|documents| {
            let deployment = documents.iter_mut().find(|document| document["kind"] == "Deployment").unwrap();
            let pod = &mut deployment["spec"]["template"]["metadata"];
            pod["annotations"][format!("simulated.kubewright.dev/{name}")] = json!(value);
        });
    }

    /// The definition of its kind.
    pub fn definition(documents: &mut [Value]) -> &mut Value {
        documents.iter_mut().find(|document| document["kind"] == "CustomResourceDefinition").unwrap()
    }

    fn write(&self) {
        let list = |items: Vec<&Value>| json!({"kind": "List", "items": items}).to_string();
        let is_definition = |document: &&Value| document["kind"] == "CustomResourceDefinition";
        let write = |name: &str, text: String| fs::write(self.dir.path().join(name), text).unwrap();
        write("manifests.json", list(self.documents.iter().collect()));
        write("crds.json", list(self.documents.iter().filter(is_definition).collect()));
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// A command about it, which reaches no cluster unless it is told where one is.
    pub fn command(&self, command: &str) -> Command {
        let mut kubewright = kubewright();
        // The tests have a target directory of their own, which cargo would use for the crate, too.
        kubewright
            .arg(command)
            .arg(self.path())
            .env_remove("CARGO_TARGET_DIR")
            .env("CARGO_NET_OFFLINE", "true")
            // That it waits for another cargo is no news.
            .env("CARGO_TERM_QUIET", "true")
            .env("KUBECONFIG", "/nonexistent");
        kubewright
    }
}

/// What a command has printed, having succeeded.
pub fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The one line with which a command has failed, behind whatever cargo had to say.
pub fn refusal(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stdout));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let last = text.lines().last().unwrap_or_default();
    last.strip_prefix("error: ").unwrap_or_else(|| panic!("no error at the end of {text}")).to_owned()
}
