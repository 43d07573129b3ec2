//! The command line of an operator, as a stranger uses it: the example operator, in a process of its own.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests say what is wrong by panicking")]

use std::{
    io::{BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::LazyLock,
    time::SystemTime,
};

use hyper::body::Bytes;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams},
};
use kubewright_apiserver::{Answer, ApiServer, BoxFuture, Cut, Hook, Listening, Next};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::mpsc;

/// The example operator. `cargo test` builds it; `cargo test --test command` alone leaves it as it was.
static OPERATOR: LazyLock<PathBuf> = LazyLock::new(|| {
    let tests = std::env::current_exe().unwrap();
    let example = tests.parent().unwrap().parent().unwrap().join("examples/page");
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sources = changed(&crate_dir.join("src")).max(changed(&crate_dir.join("examples")));
    if !example.exists() || changed(&example) < sources {
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--package", "kubewright", "--example", "page"])
            .status()
            .unwrap();
        assert!(built.success());
    }
    example
});

/// When a file, or the newest one in a directory, was last changed.
fn changed(path: &Path) -> SystemTime {
    if path.is_dir() {
        let within = std::fs::read_dir(path).unwrap().map(|entry| changed(&entry.unwrap().path()));
        return within.max().unwrap();
    }
    path.metadata().unwrap().modified().unwrap()
}

/// The operator with arguments, and with nothing of the environment that could lead it to a cluster.
fn operator(arguments: &[&str]) -> Command {
    let mut command = Command::new(&*OPERATOR);
    command.args(arguments).env_clear().env("HOME", "/nonexistent").stdin(Stdio::null());
    command
}

fn output(arguments: &[&str]) -> Output {
    operator(arguments).output().unwrap()
}

fn stdout(arguments: &[&str]) -> String {
    let output = output(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What it says on stderr, having failed with a code.
fn refusal(arguments: &[&str], code: i32) -> String {
    let output = output(arguments);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert!(output.stdout.is_empty());
    text
}

#[test]
fn one_without_the_explorer_says_how_to_have_it() {
    for arguments in [&["explore"][..], &["explore", "--level", "pairs"], &["explore", "--help"]] {
        let said = refusal(arguments, 2);
        assert!(said.starts_with("error: this program was built without the explorer"), "{said}");
        assert!(said.contains("--features explore"), "{said}");
    }
}

#[test]
fn help_tells_a_stranger_what_to_do() {
    insta::assert_snapshot!(stdout(&["--help"]));
}

#[test]
fn the_version_is_that_of_the_operator() {
    let version = env!("CARGO_PKG_VERSION");
    let expected = format!("page-operator {version} (kubewright {version})\n");
    assert_eq!(stdout(&["version"]), expected);
    assert_eq!(stdout(&["--version"]), expected);
}

#[test]
fn manifests_can_be_written_as_files() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(stdout(&["manifests", "--into", directory.path().to_str().unwrap()]), "");
    let role = std::fs::read_to_string(directory.path().join("rbac/role.yaml")).unwrap();
    assert!(role.contains("\nkind: ClusterRole\n"), "{role}");
    let files: Value = serde_json::from_str(&stdout(&["manifests", "--output", "files"])).unwrap();
    assert_eq!(files["rbac/role.yaml"], role);
    let old = directory.path().join("rbac/old_role.yaml");
    std::fs::write(&old, &role).unwrap();
    std::fs::write(directory.path().join("rbac/own_role.yaml"), "mine").unwrap();
    stdout(&["manifests", "--into", directory.path().to_str().unwrap()]);
    assert!(!old.exists(), "it was generated, and is no longer");
    assert!(directory.path().join("rbac/own_role.yaml").exists());
}

#[test]
fn manifests_can_be_printed_in_part_and_as_json() {
    let yaml = stdout(&["manifests", "--namespace", "pages", "--image", "registry.example/page:1"]);
    assert!(
        yaml.starts_with("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n"),
        "{yaml}"
    );
    assert!(
        yaml.contains("image: \"registry.example/page:1\"\n")
            || yaml.contains("image: registry.example/page:1\n")
    );
    assert_eq!(stdout(&["manifests"]), stdout(&["manifests"]), "the same every time");
    let list: Value =
        serde_json::from_str(&stdout(&["manifests", "--only", "rbac,metrics", "-o", "json"])).unwrap();
    let kinds: Vec<&str> =
        list["items"].as_array().unwrap().iter().map(|item| item["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds.first(), Some(&"ServiceAccount"));
    assert_eq!(kinds.last(), Some(&"NetworkPolicy"));
    assert!(!kinds.contains(&"Deployment"));
    let role = &list["items"][1];
    assert!(!role.to_string().contains("pages/status"), "pages have no status: {role}");
}

#[test]
fn completions_are_those_of_the_operator() {
    for shell in ["bash", "zsh", "fish"] {
        let script = stdout(&["completion", shell]);
        assert!(script.contains("page-operator") && script.contains("leader-elect"), "{shell}: {script}");
    }
}

#[test]
fn a_wrong_flag_is_explained() {
    let text = refusal(&["run", "--leader-elekt"], 2);
    assert!(text.contains("--leader-elect"), "{text}");
    let text = refusal(&["run", "--metrics-bind-address", "8080"], 2);
    assert!(text.contains("write it as \":8080\""), "{text}");
}

#[test]
fn what_is_set_for_running_does_not_disturb_other_commands() {
    let mut command = operator(&["version"]);
    command.env("LEADER_ELECT", "true").env("WATCH_NAMESPACE", "").env("LOG_LEVEL", "debug");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = operator(&["run"]).env("METRICS_BIND_ADDRESS", "nowhere").output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("\"nowhere\" is no address"), "the environment counts as the flag does: {text}");
}

#[test]
fn without_a_cluster_one_line_says_what_was_tried() {
    let text = refusal(&["run"], 1);
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.starts_with("error: there is no cluster to work with: tried --kubeconfig, "), "{text}");
    assert!(text.contains("kubewright cluster"), "{text}");
}

#[test]
fn a_cluster_that_does_not_answer_is_named() {
    let home = TempDir::new().unwrap();
    let path = home.path().join("config");
    let kubeconfig = json!({
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {"token": "very-secret"}}],
        "current-context": "c",
    });
    std::fs::write(&path, kubeconfig.to_string()).unwrap();
    let text = refusal(&["--kubeconfig", path.to_str().unwrap(), "--log-level", "trace"], 1);
    assert!(text.contains("tried http://127.0.0.1:1/ (from "), "{text}");
    assert!(text.contains("Connection refused"), "{text}");
    assert!(!text.contains("very-secret"), "{text}");
    std::fs::write(&path, "users: [very-secret").unwrap();
    let text = refusal(&["--kubeconfig", path.to_str().unwrap()], 1);
    assert!(text.contains("it is not the YAML of a kubeconfig") && !text.contains("very-secret"), "{text}");
}

/// A server on a port, with the definition that the operator brings along.
struct Cluster {
    server: ApiServer,
    _listening: Listening,
    home: TempDir,
}

impl Cluster {
    async fn new() -> Self {
        Self::with(ApiServer::start().await.unwrap()).await
    }

    async fn with(server: ApiServer) -> Self {
        let list: Value =
            serde_json::from_str(&stdout(&["manifests", "--only", "crds", "-o", "json"])).unwrap();
        let definition = &list["items"][0];
        let api: Api<CustomResourceDefinition> = Api::all(server.client());
        let name = definition["metadata"]["name"].as_str().unwrap();
        api.patch(name, &PatchParams::apply("test"), &Patch::Apply(definition)).await.unwrap();
        let listening = server.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let home = TempDir::new().unwrap();
        std::fs::write(home.path().join("config"), listening.kubeconfig()).unwrap();
        Self { server, _listening: listening, home }
    }

    /// Runs the operator, with ports of its own, until it has said that it is working.
    async fn run(&self, arguments: &[&str]) -> (Child, BufReader<std::process::ChildStderr>) {
        let kubeconfig = self.home.path().join("config");
        let mut command = operator(&["run", "--kubeconfig", kubeconfig.to_str().unwrap()]);
        command.args(["--metrics-bind-address", "127.0.0.1:0", "--health-probe-bind-address", "127.0.0.1:0"]);
        let mut child = command.args(arguments).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        tokio::task::spawn_blocking(move || {
            let mut all = String::new();
            while !all.contains("working") {
                assert_ne!(lines.read_line(&mut all).unwrap(), 0, "it ended: {all}");
            }
            (child, lines)
        })
        .await
        .unwrap()
    }
}

fn send(signal: &str, child: &Child) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_brings_it_to_a_clean_end() {
    let cluster = Cluster::new().await;
    for signal in ["-TERM", "-INT"] {
        let (mut child, mut lines) =
            cluster.run(&["--leader-elect", "--leader-election-namespace", "default"]).await;
        send(signal, &child);
        let status = tokio::task::spawn_blocking(move || child.wait().unwrap()).await.unwrap();
        let mut rest = String::new();
        lines.read_to_string(&mut rest).unwrap();
        assert_eq!(status.code(), Some(0), "{signal}: {rest}");
        assert!(rest.contains("stopping"), "{rest}");
    }
}

/// Never answers to what is written to ConfigMaps, and says that it was asked.
struct Silent(mpsc::UnboundedSender<()>);

impl Hook for Silent {
    fn call<'a>(
        &'a self,
        request: http::Request<Bytes>,
        next: Next<'a>,
    ) -> BoxFuture<'a, std::result::Result<Answer, Cut>> {
        Box::pin(async move {
            if request.method() == http::Method::PATCH && request.uri().path().contains("configmaps") {
                self.0.send(()).unwrap();
                std::future::pending::<()>().await;
            }
            next.run(request).await
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_ends_it_at_once() {
    let (asked, mut is_asked) = mpsc::unbounded_channel();
    let cluster = Cluster::with(ApiServer::builder().hook(Silent(asked)).start().await.unwrap()).await;
    let (mut child, mut lines) = cluster.run(&[]).await;
    let kind = GroupVersionKind::gvk("example.kubewright.dev", "v1", "Page");
    let pages: Api<DynamicObject> =
        Api::namespaced_with(cluster.server.client(), "default", &ApiResource::from_gvk(&kind));
    let page = json!({
        "apiVersion": "example.kubewright.dev/v1", "kind": "Page",
        "metadata": {"name": "home"}, "spec": {"text": "hello"},
    });
    pages.create(&PostParams::default(), &serde_json::from_value(page).unwrap()).await.unwrap();
    is_asked.recv().await.unwrap();
    send("-TERM", &child);
    let status = tokio::task::spawn_blocking(move || {
        let mut said = String::new();
        while !said.contains("stopping") {
            assert_ne!(lines.read_line(&mut said).unwrap(), 0, "it ended: {said}");
        }
        send("-INT", &child);
        child.wait().unwrap()
    })
    .await
    .unwrap();
    assert_eq!(status.code(), Some(130));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_in_use_ends_it_with_the_cause() {
    let cluster = Cluster::new().await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let kubeconfig = cluster.home.path().join("config").to_str().unwrap().to_owned();
    let text = tokio::task::spawn_blocking(move || {
        refusal(&["--kubeconfig", &kubeconfig, "--health-probe-bind-address", &address], 1)
    })
    .await
    .unwrap();
    assert!(text.contains("error: the health server can't listen on 127.0.0.1:"), "{text}");
}
