//! `kubewright init` and `kubewright create`: what they make, what they refuse, and that what they make works.

use std::{
    collections::BTreeMap,
    env,
    fmt::Debug,
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    pin::pin,
    process::{Child, Command, Output, Stdio},
};

use futures_util::StreamExt as _;
use k8s_openapi::{
    api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Config, ResourceExt as _,
    api::{DynamicObject, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
    config::{KubeConfigOptions, Kubeconfig},
    core::{ClusterResourceScope, GroupVersionKind},
    discovery,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Cluster, error_of, kubewright, share, workspace};

/// The name of every project here: that of the directory it is in.
const NAME: &str = "shop-operator";

/// A directory for a project, which goes with this.
struct Project {
    _parent: TempDir,
    root: PathBuf,
}

impl Project {
    /// An empty one.
    fn empty() -> Self {
        let parent = tempfile::tempdir().unwrap();
        let root = parent.path().join(NAME);
        fs::create_dir(&root).unwrap();
        Self { _parent: parent, root }
    }

    fn new() -> Self {
        let project = Self::empty();
        project.does("init --domain example.com --owner Somebody");
        project
    }

    fn run(&self, arguments: &str) -> Output {
        building(kubewright()).args(arguments.split(' ')).current_dir(&self.root).output().unwrap()
    }

    /// Runs the command in it, and gives what it says.
    fn does(&self, arguments: &str) -> String {
        let done = self.run(arguments);
        assert!(done.status.success(), "{arguments}: {}", error_of(&done));
        String::from_utf8(done.stdout).unwrap()
    }

    /// Runs the command in it, and gives why it refuses. Nothing must have changed.
    fn refuses(&self, arguments: &str) -> String {
        let before = self.files();
        let refused = self.run(arguments);
        assert_eq!(refused.status.code(), Some(1), "{arguments}: {}", error_of(&refused));
        assert_eq!(self.files(), before, "{arguments}");
        let why = error_of(&refused);
        why.strip_prefix("error: ").unwrap_or_else(|| panic!("no error: {why}")).trim_end().to_owned()
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    fn write(&self, path: &str, text: &str) {
        fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
        fs::write(self.path(path), text).unwrap();
    }

    fn edit(&self, path: &str, old: &str, new: &str) {
        let text = self.read(path);
        assert!(text.contains(old), "{path} has no {old:?}");
        self.write(path, &text.replace(old, new));
    }

    /// All files, by path.
    fn files(&self) -> BTreeMap<String, String> {
        let mut files = BTreeMap::new();
        let mut open = vec![self.root.clone()];
        while let Some(directory) = open.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    open.push(path);
                } else {
                    let name = path.strip_prefix(&self.root).unwrap().to_str().unwrap().to_owned();
                    files.insert(name, fs::read_to_string(path).unwrap());
                }
            }
        }
        files
    }

    /// What differs from what was there before, as one text.
    fn news(&self, before: &BTreeMap<String, String>) -> String {
        let files = self.files();
        let news = files.iter().filter(|(path, text)| before.get(*path) != Some(*text));
        let shown = news.map(|(path, text)| match path.as_str() {
            "LICENSE" => format!("==> {path}\n{}\n...\n", text.lines().next().unwrap_or_default()),
            "PROJECT" => format!("==> {path}\n{}\n", without_checksums(text)),
            _ => format!("==> {path}\n{text}\n"),
        });
        shown.collect()
    }
}

/// They say nothing to people, and the texts are there.
fn without_checksums(project: &str) -> String {
    let is_checksum =
        |line: &&str| line.len() > 64 && line.chars().rev().take(64).all(|one| one.is_ascii_hexdigit());
    project.lines().filter(|line| !is_checksum(line)).map(|line| format!("{line}\n")).collect()
}

fn definitions(file: &str) -> String {
    format!("{}/tests/command/definitions/{file}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_new_project_is_this() {
    let project = Project::empty();
    let said = project.does("init --domain example.com --owner Somebody");
    insta::assert_snapshot!("init", project.news(&BTreeMap::new()));
    insta::assert_snapshot!("init_says", said);
}

#[test]
fn kinds_are_added_like_this() {
    let project = Project::new();
    for (name, arguments) in [
        ("first_kind", "create api --group cache --version v1alpha1 --kind Memcached --shortname mc"),
        ("second_version", "create api --group cache --version v1 --kind Memcached"),
        (
            "cluster_scoped_kind",
            "create api --group infra --version v1 --kind Policy --namespaced=false --resource",
        ),
        (
            "controller_later",
            "create api --group infra --version v1 --kind Policy --namespaced=false --controller",
        ),
        ("same_kind_of_another_group", "create api --group infra --version v1 --kind Memcached"),
        ("built_in_kind", "create api --external --group apps --version v1 --kind Deployment"),
        (
            "webhooks",
            "create webhook --group cache --version v1alpha1 --kind Memcached --defaulting --validation",
        ),
        (
            "conversion",
            "create webhook --group cache --version v1 --kind Memcached --conversion --spoke v1alpha1",
        ),
        ("converted_version", "create api --group cache --version v2 --kind Memcached"),
    ] {
        let before = project.files();
        let said = project.does(arguments);
        insta::assert_snapshot!(name, format!("{said}\n{}", project.news(&before)));
    }
}

#[test]
fn types_of_others_are_made_like_this() {
    let project = Project::new();
    for (name, arguments) in [
        ("certificate", format!("create types Certificate --from {}", definitions("certificates.yaml"))),
        (
            "pipeline",
            format!("create types pipelines.flows.example.org --from {}", definitions("pipelines.yaml")),
        ),
        ("switch", format!("create types switch --from {}", definitions("pipelines.yaml"))),
        ("bag", format!("create types Bag --from {}", definitions("pipelines.yaml"))),
        (
            "controller_of_another",
            "create api --external --group certs.example.org --version v1 --kind Certificate".to_owned(),
        ),
    ] {
        let before = project.files();
        project.does(&arguments);
        insta::assert_snapshot!(name, project.news(&before));
    }
}

#[test]
fn wrong_input_changes_nothing() {
    let project = Project::new();
    project.does("create api --group cache --version v1alpha1 --kind Memcached");
    project.does("create api --group cache --version v1 --kind Region --namespaced=false --resource");
    let types = format!("create types --from {}", definitions("pipelines.yaml"));
    for (arguments, expected) in [
        ("init --domain example.com", ". is a project already: add to it with `kubewright create api`"),
        ("init --domain example.com --force", ". is a project already"),
        (
            "create api --group Foo! --version v1 --kind Web",
            "the group \"Foo!\" is no DNS name: it takes small letters, digits and \"-\", up to 63 between dots. Try --group foo",
        ),
        ("create api --group web --version 1 --kind Web", "Try --version v1"),
        ("create api --group web --version v1 --kind web-site", "Try --kind WebSite"),
        ("create api --group web --version v1 --kind Type", "Try --kind WebType"),
        ("create api --group web --version v1 --kind Site --plural Sites", "Try --plural sites"),
        ("create api --group web --version v1 --kind Site --shortname S_T", "Try --shortname s-t"),
        (
            "create api --group cache --version v1alpha1 --kind Memcached",
            "Memcached cache.example.com/v1alpha1 exists already",
        ),
        (
            "create api --group cache --version v1 --kind Memcached --controller --resource",
            "Memcached has a controller already, of version v1alpha1: extend that one",
        ),
        (
            "create api --group cache --version v1 --kind Memcached --namespaced=false",
            "say --namespaced=true",
        ),
        (
            "create api --group cache --version v1 --kind Memcached --plural caches",
            "the plural of Memcached is memcacheds in v1alpha1",
        ),
        (
            "create api --group cache --version v1 --kind MEMcached",
            "cache.example.com has Memcached, with the plural memcacheds, already",
        ),
        (
            "create api --group cache --version v1 --kind MemcachedSpec",
            "MemcachedSpec and Memcached can't both be in cache.example.com",
        ),
        ("create api --group cache --version v1 --kind Main", "Try --kind CacheMain"),
        (
            "create api --group cache --version v1 --kind Region --namespaced=false",
            "exists already: --controller alone adds a controller to it",
        ),
        (
            "create api --group web --version v1 --kind Site --controller",
            "there is no Site web.example.com/v1 to look after: add --resource to make it, or --external",
        ),
        (
            "create api --external --group certs.example.org --version v1 --kind Certificate",
            "is not built into Kubernetes: make its types with `kubewright create types --from FILE Certificate` first",
        ),
        ("create api --external --group core --version v1 --kind Binding", "can't be watched"),
        (
            &format!("{types} Nothing"),
            "has no definition of Nothing: there is pipelines.flows.example.org, switches.flows.example.org, bags.flows.example.org",
        ),
        (&format!("{types} Bag --version v9"), "Bag has no such version, but v1"),
        ("create types --from nowhere.yaml Bag", "can't read nowhere.yaml"),
        ("create types --from PROJECT Bag", "PROJECT has no definition of Bag: there is none at all"),
        ("create types --from Makefile Bag", "Makefile is no YAML"),
        ("create api --group web --version v1 --kind Site --templates nowhere", "the templates in nowhere"),
        (
            "create webhook --group web --version v1 --kind Site --validation",
            "the project has no Site of web in version v1: `kubewright create api --group web --version v1 --kind Site` makes",
        ),
        (
            "create webhook --group apps --version v1 --kind Deployment --validation",
            "for a kind of somebody else, add .defaults::<Deployment>(..) or .validates::<Deployment>(..) to src/lib.rs",
        ),
        (
            "create webhook --group cache --version v2 --kind Memcached --validation",
            "the project has no Memcached of cache in version v2: there is v1alpha1",
        ),
        (
            "create webhook --group cache --version v1alpha1 --kind Memcached --conversion --spoke v1alpha1",
            "v1alpha1 can't be converted to itself: --spoke names another version",
        ),
        (
            "create webhook --group cache --version v1alpha1 --kind Memcached --conversion --spoke v1",
            "the project has no Memcached of cache in version v1: there is v1alpha1",
        ),
        (
            "create api nowhere --group web --version v1 --kind Site",
            "nowhere is no project: it has no PROJECT. `kubewright init` makes one",
        ),
    ] {
        let why = project.refuses(arguments);
        assert!(why.contains(expected), "{arguments}: {why}");
        assert_eq!(why.lines().count(), 1, "{why}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn types_come_from_a_cluster_if_it_is_there_and_does_not_refuse() {
    let (project, dir) = (Project::new(), tempfile::tempdir().unwrap());
    let cluster = Cluster::start(dir.path(), &[]);
    let api: Api<CustomResourceDefinition> = Api::all(cluster.client().await);
    let texts = fs::read_to_string(definitions("pipelines.yaml")).unwrap();
    for definition in serde_saphyr::from_multiple::<CustomResourceDefinition>(&texts).unwrap() {
        api.create(&PostParams::default(), &definition).await.unwrap();
    }
    let mut stranger: Value =
        serde_saphyr::from_str(&fs::read_to_string(&cluster.kubeconfig).unwrap()).unwrap();
    stranger["users"][0]["user"] = json!({"token": "of nobody"});
    let strangers = dir.path().join("stranger");
    fs::write(&strangers, stranger.to_string()).unwrap();

    let ask = |kubeconfig: &Path| {
        let mut command = kubewright();
        command.args(["create", "types", "--from", "cluster", "Bag"]).env("KUBECONFIG", kubeconfig);
        command.current_dir(&project.root).output().unwrap()
    };
    let is_told = |refused: &Output, why: &str| {
        assert_eq!(refused.status.code(), Some(1));
        let told = error_of(refused);
        assert!(told.starts_with("error: the cluster can't be asked for its definitions: "), "{told}");
        assert!(told.contains(why), "{told}");
        assert!(!project.path("src/api/flows_example_org").exists());
    };
    is_told(&ask(&strangers), "Unauthorized");
    let kubeconfig = cluster.kubeconfig.clone();
    let found = ask(&kubeconfig);
    assert!(found.status.success(), "{}", error_of(&found));
    assert!(project.read("src/api/flows_example_org/v1/bag.rs").contains("pub struct BagSpec"));
    drop(cluster);
    fs::remove_dir_all(project.path("src/api/flows_example_org")).unwrap();
    is_told(&ask(&kubeconfig), "");
    is_told(&ask(Path::new("/nowhere")), "");
}

#[test]
fn a_new_project_needs_good_names_and_an_empty_directory() {
    let project = Project::empty();
    for (arguments, expected) in [
        ("init --domain Example.com", "Try --domain example.com"),
        ("init --domain k8s.io", "need the approval of the Kubernetes project"),
        ("init --domain example.com --project-name Shop_Operator", "Try --project-name shop-operator"),
        ("init --domain example.com --project-name kube", "Try --project-name kube-operator"),
        ("init --domain example.com --sdk-path .", ". is no checkout of Kubewright"),
    ] {
        let why = project.refuses(arguments);
        assert!(why.contains(expected), "{arguments}: {why}");
    }
    fs::create_dir(project.path(".git")).unwrap();
    project.write("README.md", "mine");
    let why = project.refuses("init --domain example.com");
    assert_eq!(
        why,
        ". is not empty, there is README.md: name another directory, or use --force, which overwrites nothing"
    );
    fs::remove_file(project.path("README.md")).unwrap();
    project.write("kubewright.kubeconfig", "of a cluster that was tried out from here");
    project.does("init --domain example.com");
}

#[test]
fn force_overwrites_nothing_and_says_what_it_kept() {
    let project = Project::empty();
    project.write("README.md", "mine");
    project.write("src/main.rs", "fn main() {}");
    let said = project.does("init --domain example.com --force --output json");
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["kept"].to_string(), r#"["README.md","src/main.rs"]"#);
    assert_eq!(
        (project.read("README.md"), project.read("src/main.rs")),
        ("mine".into(), "fn main() {}".into())
    );
    assert!(!project.read("PROJECT").contains("README.md"), "it was not scaffolded");
    assert!(project.path("src/lib.rs").exists());
}

#[test]
fn nothing_of_the_author_is_overwritten() {
    let project = Project::new();
    project.write("src/controllers/memcached.rs", "// mine");
    let why = project.refuses("create api --group cache --version v1 --kind Memcached");
    assert_eq!(why, "src/controllers/memcached.rs would be overwritten: move what is there away first");
}

#[test]
fn without_its_marker_a_file_is_the_authors_to_extend() {
    let project = Project::new();
    project.edit("src/lib.rs", "        // +kubewright:scaffold:operator\n", "");
    let create = "create api --group cache --version v1 --kind Memcached";
    let why = project.refuses(create);
    let line = ".controller(controllers::memcached::controller())";
    assert!(why.starts_with("src/lib.rs has no comment \"+kubewright:scaffold:operator\" any more"), "{why}");
    assert!(why.ends_with(line), "{why}");
    project.edit("src/lib.rs", "        .version", &format!("        {line}\n        .version"));
    let by_hand = project.read("src/lib.rs");
    project.does(create);
    assert_eq!(project.read("src/lib.rs"), by_hand);
}

#[test]
fn a_version_begins_as_a_copy_of_what_the_author_made_of_the_last() {
    let project = Project::new();
    project.does("create api --group cache --version v1alpha1 --kind Memcached --resource");
    let types = "src/api/cache/v1alpha1/memcached.rs";
    project.edit(types, "pub replicas: i32", "pub size: i32");
    project.does("create api --group cache --version v1 --kind Memcached");
    let copy = project.read("src/api/cache/v1/memcached.rs");
    let old = "version = \"v1alpha1\",";
    let expected = project.read(types).replace(old, "version = \"v1\",\n    storage = false,");
    assert_eq!(copy, expected);
    assert!(
        !project.read("src/controllers/memcached.rs").contains("replicas"),
        "it knows nothing of the types"
    );
}

#[test]
fn templates_can_be_replaced() {
    let project = Project::empty();
    let templates = tempfile::tempdir().unwrap();
    fs::create_dir(templates.path().join("init")).unwrap();
    fs::write(templates.path().join("init/README.md.j2"), "# {{ name }} of {{ domain }}\n").unwrap();
    let init = format!("init --domain example.com --templates {}", templates.path().display());
    project.does(&init);
    assert_eq!(project.read("README.md"), "# shop-operator of example.com\n");
    assert!(project.path("Makefile").exists());

    let other = Project::empty();
    fs::write(templates.path().join("init/README.md.j2"), "{{ nmae }}").unwrap();
    let why = other.refuses(&init);
    assert!(why.starts_with("template init/README.md.j2: undefined value"), "{why}");
    fs::rename(templates.path().join("init/README.md.j2"), templates.path().join("init/REDME.md.j2"))
        .unwrap();
    let why = other.refuses(&init);
    assert!(why.contains("REDME.md.j2: it replaces no template: there are api/controller.rs.j2"), "{why}");
}

/// A command that builds where this workspace is built, so that little is built twice.
fn building(mut command: Command) -> Command {
    // What cargo tells a test, build scripts would hear, too, and run again.
    for (name, _) in env::vars().filter(|(name, _)| name.starts_with("CARGO_") && name != "CARGO_HOME") {
        command.env_remove(name);
    }
    let target = Path::new(env!("CARGO_BIN_EXE_kubewright")).ancestors().nth(2).unwrap();
    command.env("CARGO_TARGET_DIR", target).env("CARGO_NET_OFFLINE", "true");
    // Lints while it builds, with what `cargo clippy -- -D warnings` says to the linter: for a check of its own, all
    // dependencies would have to be checked, too.
    command
        .env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver")
        .env("CLIPPY_ARGS", "-Dwarnings__CLIPPY_HACKERY__");
    command
}

impl Project {
    fn cargo(&self, arguments: &str) -> String {
        let mut command = building(Command::new("cargo"));
        let done = command.args(arguments.split(' ')).current_dir(&self.root).output().unwrap();
        let said = format!("{}{}", String::from_utf8_lossy(&done.stdout), error_of(&done));
        assert!(done.status.success(), "cargo {arguments}: {}: {said}", done.status);
        said
    }

    /// Writes what follows from the code.
    fn generate(&self) {
        self.does("generate");
        self.does("generate --check");
    }

    /// Whether it is well formatted, has nothing that a linter would say something of, and passes its tests.
    fn passes(&self) {
        self.cargo("fmt --check");
        let said = self.cargo("test");
        let mut results = said.lines().filter(|line| line.starts_with("test result"));
        assert!(results.all(|line| line.contains(" 0 ignored;")), "{said}");
    }
}

/// A running operator with a cluster of its own.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status();
        let _ = self.0.wait();
    }
}

impl Project {
    /// Runs the operator on a cluster, and gives both.
    async fn start(&self) -> (Running, Client) {
        let kubeconfig = self.path("kubewright.kubeconfig");
        let mut command = building(kubewright());
        command.args(["run", "--local", "--once", "--kubeconfig"]).arg(&kubeconfig);
        let mut child = command.current_dir(&self.root).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let running = Running(child);
        assert!(lines.any(|line| line.unwrap().contains("running ")), "it runs");
        // What else it says must find a reader.
        std::thread::spawn(move || lines.for_each(drop));
        let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        (running, Client::try_from(config.unwrap()).unwrap())
    }

    /// Applies a sample, and waits until the resource says of itself that it is available.
    async fn converges(&self, client: &Client, sample: &str) {
        let object: DynamicObject = serde_saphyr::from_str(&self.read(sample)).unwrap();
        let api = apply(client, &object).await;
        let this = WatchParams::default().fields(&format!("metadata.name={}", object.name_any()));
        let mut changes = pin!(api.watch(&this, "0").await.unwrap());
        while let Some(change) = changes.next().await {
            let (WatchEvent::Added(now) | WatchEvent::Modified(now)) = change.unwrap() else { continue };
            let conditions = now.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
            if conditions.iter().any(|one| one["type"] == "Available" && one["status"] == "True") {
                return;
            }
        }
        panic!("{sample} did not become available");
    }
}

/// Applies an object of any kind, and gives where it is.
async fn apply(client: &Client, object: &DynamicObject) -> Api<DynamicObject> {
    let types = object.types.clone().unwrap();
    let (group, version) = types.api_version.split_once('/').unwrap_or(("", &types.api_version));
    let kind = GroupVersionKind::gvk(group, version, &types.kind);
    let (resource, capabilities) = discovery::pinned_kind(client, &kind).await.unwrap();
    let api: Api<DynamicObject> = match (capabilities.scope, object.namespace()) {
        (discovery::Scope::Cluster, _) => Api::all_with(client.clone(), &resource),
        (_, Some(namespace)) => Api::namespaced_with(client.clone(), &namespace, &resource),
        (_, None) => Api::default_namespaced_with(client.clone(), &resource),
    };
    let parameters = PatchParams::apply("test").force();
    api.patch(&object.name_any(), &parameters, &Patch::Apply(object)).await.unwrap();
    api
}

/// Waits until the API server trusts the webhooks of the operator.
async fn trusted<K>(client: &Client, name: &str, bundle: &str)
where
    K: kube::Resource<DynamicType = (), Scope = ClusterResourceScope>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned,
{
    let api: Api<K> = Api::all(client.clone());
    let this = WatchParams::default().fields(&format!("metadata.name={name}"));
    let mut changes = pin!(api.watch(&this, "0").await.unwrap());
    while let Some(change) = changes.next().await {
        let (WatchEvent::Added(now) | WatchEvent::Modified(now)) = change.unwrap() else { continue };
        if json!(now).pointer(bundle).is_some() {
            return;
        }
    }
    panic!("{name} is not trusted");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_project_goes_all_the_way() {
    let project = Project::empty();
    project.does(&format!("init --domain example.com --sdk-path {}", workspace().display()));
    share(&project.root);
    project.passes();

    project.does("create api --group cache --version v1alpha1 --kind Memcached --shortname mc");
    project.does("create api --group cache --version v1 --kind Memcached");
    project.does("create api --group infra --version v1 --kind Region --namespaced=false");
    project.generate();
    project.passes();
    let (running, client) = project.start().await;
    for sample in ["cache_v1alpha1_memcached", "cache_v1_memcached", "infra_v1_region"] {
        project.converges(&client, &format!("config/samples/{sample}.yaml")).await;
    }
    project.does("package --image registry.example/shop-operator:1.0");
    let package = project.read("dist/install.yaml");
    let documents: Vec<DynamicObject> = serde_saphyr::from_multiple(&package).unwrap();
    assert!(documents.iter().any(|one| one.types.as_ref().unwrap().kind == "Deployment"), "{package}");
    for document in documents {
        apply(&client, &document).await;
    }
    drop(running);

    let (certificates, pipelines) = (definitions("certificates.yaml"), definitions("pipelines.yaml"));
    for arguments in [
        "create api --external --group apps --version v1 --kind Deployment",
        "create api --external --group core --version v1 --kind Namespace",
        "create api --group infra --version v1 --kind PolicyWithSuchALongNameThatLinesAreBroken --plural rules",
        "create api --group infra --version v1 --kind Memcached",
        "create api --group web-sites --version v1beta1 --kind HTTPRoute --resource",
        &format!("create types Certificate --from {certificates}"),
        &format!("create types Pipeline --from {pipelines}"),
        &format!("create types Switch --from {pipelines}"),
        &format!("create types Bag --from {pipelines}"),
        "create api --external --group certs.example.org --version v1 --kind Certificate",
        "create api --external --group flows.example.org --version v1beta1 --kind Pipeline",
        "create api --external --group flows.example.org --version v1 --kind Switch",
        "create api --group web-sites --version v1 --kind HTTPRoute",
        "create api --group web-sites --version v1 --kind Page --resource",
    ] {
        project.does(arguments);
    }
    // Types that their author has changed are copied as they are, and a controller that comes later knows nothing of them.
    project.edit("src/api/web_sites/v1/page.rs", "pub replicas: i32", "pub copies: i32");
    project.edit("tests/operator/page_v1.rs", "replicas", "copies");
    project.edit("config/samples/web-sites_v1_page.yaml", "replicas", "copies");
    project.does("create api --group web-sites --version v2 --kind Page --resource");
    project.does("create api --group web-sites --version v1 --kind Page --controller");
    for arguments in [
        "create webhook --group cache --version v1 --kind Memcached --conversion --spoke v1alpha1",
        "create webhook --group cache --version v1alpha1 --kind Memcached --defaulting --validation",
        "create webhook --group infra --version v1 --kind Region --defaulting",
        "create webhook --group web-sites --version v1 --kind Page --validation",
    ] {
        project.does(arguments);
    }
    let why = project
        .refuses("create webhook --group cache --version v1alpha1 --kind Memcached --conversion --spoke v1");
    assert!(why.contains("versions of Memcached are converted to v1 already: say --version v1"), "{why}");
    project.does("create api --group cache --version v2 --kind Memcached");
    let why = project.refuses("create webhook --group infra --version v1 --kind Region --validation");
    let extend = "Region has webhooks already: extend src/webhooks/region.rs, and add \
                  .validates::<api::infra::v1::Region>(webhooks::region::check) to src/lib.rs";
    assert!(why.contains(extend), "{why}");
    project.generate();
    project.passes();
    // A local cluster has the kinds of others, too: without them the operator would not begin to work.
    let (_running, client) = project.start().await;
    const WEBHOOK: &str = "/webhooks/0/clientConfig/caBundle";
    const CONVERSION: &str = "/spec/conversion/webhook/clientConfig/caBundle";
    trusted::<MutatingWebhookConfiguration>(&client, NAME, WEBHOOK).await;
    trusted::<ValidatingWebhookConfiguration>(&client, NAME, WEBHOOK).await;
    trusted::<CustomResourceDefinition>(&client, "memcacheds.cache.example.com", CONVERSION).await;
    project.converges(&client, "config/samples/cache_v1_memcached.yaml").await;
    // It was asked about over a socket of this machine, and converted there from the version that is stored.
    let definition: DynamicObject =
        serde_saphyr::from_str(&project.read("config/samples/cache_v1_memcached.yaml")).unwrap();
    let api = apply(&client, &definition).await;
    let memcached = api.get("memcached-sample-v1").await.unwrap();
    assert!(memcached.annotations().contains_key("example.com/created-by"), "{memcached:?}");
}
