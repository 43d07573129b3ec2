//! `kubewright deploy`, `undeploy`, `install` and `uninstall`, against `kubewright cluster`.

use std::process::Output;

use futures_util::TryStreamExt as _;
use k8s_openapi::{
    api::{
        admissionregistration::v1::ValidatingWebhookConfiguration,
        apps::v1::Deployment,
        core::v1::{ConfigMap, Namespace, Pod, ServiceAccount},
        networking::v1::NetworkPolicy,
        rbac::v1::{ClusterRole, ClusterRoleBinding},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ListParams, PostParams, WatchEvent, WatchParams},
};
use memcached_operator::Memcached;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    sketch::{Sketch, printed, refusal},
    support::{Cluster, error_of},
};

const NAMESPACE: &str = "memcached-operator-system";
const DEFINITION: &str = "memcacheds.cache.example.com";
const PART_OF: &str = "applyset.kubernetes.io/part-of";

/// A cluster, and an operator for it.
struct World {
    dir: TempDir,
    cluster: Cluster,
    client: Client,
    sketch: Sketch,
}

impl World {
    async fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let cluster = Cluster::run(dir.path(), &[]);
        let client = cluster.client().await;
        Self { dir, cluster, client, sketch: Sketch::memcached(NAMESPACE) }
    }

    /// Runs a command as the administrator.
    fn run(&self, command: &str, arguments: &[&str]) -> Output {
        let kubeconfig = ["--kubeconfig", self.cluster.kubeconfig.to_str().unwrap()];
        self.sketch.command(command).args(kubeconfig).args(arguments).output().unwrap()
    }

    fn all<K: kube::Resource<DynamicType = ()>>(&self) -> Api<K> {
        Api::all(self.client.clone())
    }

    async fn deployment(&self) -> Option<Deployment> {
        Api::namespaced(self.client.clone(), NAMESPACE).get_opt("memcached-operator").await.unwrap()
    }

    async fn namespace(&self, name: &str) -> Option<Namespace> {
        self.all().get_opt(name).await.unwrap()
    }

    async fn definition(&self) -> Option<CustomResourceDefinition> {
        self.all().get_opt(DEFINITION).await.unwrap()
    }

    /// The ConfigMap that stands for all that was deployed.
    async fn parent(&self) -> ConfigMap {
        Api::namespaced(self.client.clone(), NAMESPACE).get("memcached-operator").await.unwrap()
    }

    /// Creates something that anybody could have.
    async fn create<K>(&self, api: Api<K>, object: Value)
    where
        K: Clone + serde::de::DeserializeOwned + serde::Serialize + std::fmt::Debug,
    {
        api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    }

    /// A resource of the operator, which somebody needs.
    async fn resource(&self) {
        let api: Api<Memcached> = Api::namespaced(self.client.clone(), "default");
        let memcached = json!({
            "apiVersion": "cache.example.com/v1beta1", "kind": "Memcached",
            "metadata": {"name": "precious"}, "spec": {"replicas": 1},
        });
        self.create(api, memcached).await;
    }

    /// Waits until the operator's pod or its container waits for something itself, and gives the reason.
    async fn stuck(&self) -> String {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), NAMESPACE);
        let mut events = Box::pin(pods.watch(&WatchParams::default(), "0").await.unwrap());
        while let Some(event) = events.try_next().await.unwrap() {
            let (WatchEvent::Added(pod) | WatchEvent::Modified(pod)) = event else { continue };
            let status = pod.status.unwrap_or_default();
            let conditions = status.conditions.unwrap_or_default();
            let homeless =
                conditions.into_iter().find(|one| one.type_ == "PodScheduled" && one.status == "False");
            let containers = status.container_statuses.unwrap_or_default();
            let waiting = containers.into_iter().find_map(|container| container.state?.waiting?.reason);
            let waiting = waiting.filter(|reason| reason != "ContainerCreating");
            if let Some(reason) = waiting.or(homeless.and_then(|one| one.reason)) {
                return reason;
            }
        }
        panic!("the watch has ended");
    }
}

#[tokio::test]
async fn what_was_deployed_goes_without_a_trace() {
    let world = World::new().await;
    let roles = async || {
        let list = world.all::<ClusterRole>().list(&ListParams::default()).await.unwrap();
        list.items.into_iter().map(|role| role.name_any()).collect::<Vec<_>>()
    };
    let before = roles().await;

    let deployed = world.run("deploy", &[]);
    let told = printed(&deployed);
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines[0], "namespace/memcached-operator-system created");
    assert_eq!(
        lines[1],
        "customresourcedefinition.apiextensions.k8s.io/memcacheds.cache.example.com created"
    );
    assert!(lines.contains(&"deployment.apps/memcached-operator created"), "{told}");
    assert!(error_of(&deployed).ends_with("deployment.apps/memcached-operator: available\n"));
    let again = printed(&world.run("deploy", &[]));
    assert!(again.lines().all(|line| line.ends_with(" unchanged")), "{again}");

    let gone = printed(&world.run("undeploy", &[]));
    assert_eq!(gone.lines().count(), lines.len(), "all that came goes: {gone}");
    assert_eq!(gone.lines().last(), Some("namespace/memcached-operator-system deleted"));
    assert!(world.namespace(NAMESPACE).await.is_none() && world.definition().await.is_none());
    assert_eq!(roles().await, before);
    let again = refusal(&world.run("undeploy", &[]));
    assert!(
        again.starts_with("memcached-operator is not deployed in namespace memcached-operator-system"),
        "{again}"
    );
}

#[tokio::test]
async fn what_is_deployed_is_an_apply_set_as_kubectl_has_it() {
    let mut world = World::new().await;
    printed(&world.run("deploy", &["--no-wait"]));
    let parent = world.parent().await;
    let id = &parent.labels()["applyset.kubernetes.io/id"];
    let annotation = |parent: &ConfigMap, name: &str| {
        parent.annotations()[&format!("applyset.kubernetes.io/{name}")].clone()
    };
    assert!(annotation(&parent, "tooling").starts_with("kubewright/v"));
    assert_eq!(annotation(&parent, "additional-namespaces"), "");
    assert_eq!(
        annotation(&parent, "contains-group-kinds"),
        "ClusterRole.rbac.authorization.k8s.io,ClusterRoleBinding.rbac.authorization.k8s.io,\
         CustomResourceDefinition.apiextensions.k8s.io,Deployment.apps,\
         MutatingWebhookConfiguration.admissionregistration.k8s.io,Namespace,NetworkPolicy.networking.k8s.io,\
         Role.rbac.authorization.k8s.io,RoleBinding.rbac.authorization.k8s.io,Service,ServiceAccount,\
         ValidatingWebhookConfiguration.admissionregistration.k8s.io"
    );
    assert_eq!(&world.deployment().await.unwrap().labels()[PART_OF], id);

    world.sketch.change(|documents| documents.retain(|document| document["kind"] != "NetworkPolicy"));
    let policies = ["metrics", "webhook"]
        .map(|what| format!("networkpolicy.networking.k8s.io/memcached-operator-{what}"));
    let told = printed(&world.run("deploy", &["--no-wait", "--dry-run"]));
    for policy in &policies {
        assert!(told.contains(&format!("\n{policy} pruned (dry run)\n")), "{told}");
    }
    let told = printed(&world.run("deploy", &["--no-wait"]));
    for policy in &policies {
        assert!(told.contains(&format!("\n{policy} pruned\n")), "{told}");
    }
    assert!(world.all::<NetworkPolicy>().list(&ListParams::default()).await.unwrap().items.is_empty());
    assert!(!annotation(&world.parent().await, "contains-group-kinds").contains("NetworkPolicy"));
}

#[tokio::test]
async fn resources_do_not_go_by_surprise() {
    let mut world = World::new().await;
    // In a simulated pod nobody would answer.
    let is_webhook = |document: &Value| {
        document["kind"].as_str().is_some_and(|kind| kind.ends_with("WebhookConfiguration"))
    };
    world.sketch.change(|documents| documents.retain(|document| !is_webhook(document)));
    printed(&world.run("deploy", &["--no-wait"]));
    world.resource().await;
    let why = refusal(&world.run("undeploy", &[]));
    assert_eq!(
        why,
        "there are resources that would go with their definitions: Memcached default/precious; --keep-crds keeps them, \
         --yes deletes them"
    );
    assert!(world.deployment().await.is_some(), "nothing has changed");

    let mut definition = Vec::new();
    world.sketch.change(|documents| {
        let is_definition = |document: &mut Value| document["kind"] == "CustomResourceDefinition";
        definition = documents.extract_if(.., is_definition).collect();
    });
    let deployed = world.run("deploy", &["--no-wait"]);
    printed(&deployed);
    assert!(
        error_of(&deployed).contains("it stays, as there are resources of it: Memcached default/precious")
    );
    world.sketch.change(|documents| documents.append(&mut definition));

    let told = printed(&world.run("undeploy", &["--keep-crds"]));
    assert!(
        told.starts_with(&format!("customresourcedefinition.apiextensions.k8s.io/{DEFINITION} kept\n")),
        "{told}"
    );
    assert!(world.namespace(NAMESPACE).await.is_none());
    assert_eq!(world.definition().await.unwrap().labels().get(PART_OF), None);
    let why = refusal(&world.run("uninstall", &[]));
    assert!(why.contains("Memcached default/precious; --yes deletes them"), "{why}");
    printed(&world.run("uninstall", &["--yes"]));
    assert!(world.definition().await.is_none());
}

#[tokio::test]
async fn a_definition_that_would_take_less_is_not_installed_unless_that_is_meant() {
    let mut world = World::new().await;
    let created = format!("customresourcedefinition.apiextensions.k8s.io/{DEFINITION} created\n");
    assert_eq!(printed(&world.run("install", &[])), created);
    assert!(world.deployment().await.is_none(), "the definitions alone");
    world.sketch.change(|documents| {
        let version = &mut Sketch::definition(documents)["spec"]["versions"][0];
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["replicas"]["maximum"] =
            json!(3);
    });
    for command in ["install", "deploy"] {
        let why = refusal(&world.run(command, &[]));
        assert!(why.contains(".spec.replicas would have a maximum of 3"), "{command}: {why}");
        assert!(world.namespace(NAMESPACE).await.is_none(), "nothing has changed");
    }
    assert_eq!(printed(&world.run("install", &["--force"])), created.replace("created", "configured"));
}

#[tokio::test]
async fn an_operator_that_does_not_come_up_is_told_of() {
    let mut world = World::new().await;
    world.sketch.annotate("pull-error", "no such image: typo");
    printed(&world.run("deploy", &["--no-wait"]));
    world.stuck().await;
    let failed = world.run("deploy", &["--timeout", "0s"]);
    let (why, told) = (refusal(&failed), error_of(&failed));
    assert!(
        why.starts_with(
            "the Deployment memcached-operator in namespace memcached-operator-system is not available"
        ),
        "{why}"
    );
    assert!(why.contains("no such image: typo"), "{why}");
    for part in [
        "\npod memcached-operator-",
        "(Pending)",
        "ContainersNotReady",
        "container operator: ",
        "\nevents:\n",
        "Failed",
    ] {
        assert!(told.contains(part), "{part:?} is not in {told}");
    }
}

#[tokio::test]
async fn one_that_has_no_room_is_told_of() {
    let mut world = World::new().await;
    world.sketch.change(|documents| {
        let deployment = documents.iter_mut().find(|document| document["kind"] == "Deployment").unwrap();
        let container = &mut deployment["spec"]["template"]["spec"]["containers"][0];
        container["resources"] = json!({"requests": {"memory": "1Pi"}});
    });
    printed(&world.run("deploy", &["--no-wait"]));
    assert_eq!(world.stuck().await, "Unschedulable");
    let why = refusal(&world.run("deploy", &["--timeout", "0s"]));
    let room = "0 of 1 available; Unschedulable: 0/1 nodes are available: 1 Insufficient memory.";
    assert!(why.contains(room), "{why}");
}

#[tokio::test]
async fn the_last_words_of_one_that_crashes_are_told() {
    let mut world = World::new().await;
    for (name, value) in [("runs-for", "10ms"), ("exit-code", "3"), ("logs", "out of\ncheese")] {
        world.sketch.annotate(name, value);
    }
    printed(&world.run("deploy", &["--no-wait"]));
    assert_eq!(world.stuck().await, "CrashLoopBackOff");
    let failed = world.run("deploy", &["--timeout", "0s"]);
    assert!(refusal(&failed).contains("CrashLoopBackOff"));
    let told = error_of(&failed);
    assert!(told.contains("  its last lines:\n    out of\n    cheese\n"), "{told}");
}

#[tokio::test]
async fn a_dry_run_changes_nothing() {
    let world = World::new().await;
    let told = printed(&world.run("deploy", &["--dry-run"]));
    assert!(told.lines().all(|line| line.ends_with(" created (dry run)")), "{told}");
    let yaml = printed(&world.run("deploy", &["--dry-run", "--output", "yaml"]));
    let documents: Vec<Value> = serde_saphyr::from_multiple(&yaml).unwrap();
    assert_eq!(documents.len(), world.sketch.documents.len());
    assert!(documents.iter().all(|document| document["metadata"]["labels"][PART_OF].is_string()));
    assert!(world.namespace(NAMESPACE).await.is_none() && world.definition().await.is_none());

    printed(&world.run("deploy", &["--no-wait"]));
    let told = printed(&world.run("deploy", &["--dry-run"]));
    assert!(told.lines().all(|line| line.ends_with(" unchanged (dry run)")), "{told}");
    let gone = printed(&world.run("undeploy", &["--dry-run"]));
    assert_eq!(gone.lines().count(), documents.len());
    assert!(world.deployment().await.is_some());
}

#[tokio::test]
async fn a_namespace_of_somebody_else_stays_as_it_is() {
    let mut world = World::new().await;
    world.create(world.all::<Namespace>(), json!({"metadata": {"name": "shared"}})).await;
    let before = world.namespace("shared").await.unwrap();
    world.sketch = Sketch::memcached("shared");
    let deployed = world.run("deploy", &[]);
    printed(&deployed);
    assert!(error_of(&deployed).contains("namespace/shared is there already: it is left as it is\n"));
    let elsewhere = World { sketch: Sketch::memcached(NAMESPACE), ..world };
    let why = refusal(&elsewhere.run("deploy", &[]));
    assert!(why.contains("belongs to another deployment"), "{why}");
    assert!(elsewhere.namespace(NAMESPACE).await.is_none(), "nothing has changed");
    let world = World { sketch: Sketch::memcached("shared"), ..elsewhere };
    printed(&world.run("undeploy", &[]));
    assert_eq!(world.namespace("shared").await.unwrap().metadata, before.metadata);
    let left: Api<ConfigMap> = Api::namespaced(world.client.clone(), "shared");
    assert!(left.get_opt("memcached-operator").await.unwrap().is_none());
}

#[tokio::test]
async fn a_namespace_in_which_there_is_more_is_kept() {
    let world = World::new().await;
    printed(&world.run("deploy", &["--no-wait"]));
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), NAMESPACE);
    world.create(maps, json!({"metadata": {"name": "mine"}})).await;
    let undeployed = world.run("undeploy", &[]);
    printed(&undeployed);
    let told = error_of(&undeployed);
    assert!(
        told.contains(
            "namespace/memcached-operator-system is kept, as there is more in it: configmap/mine\n"
        ),
        "{told}"
    );
    assert_eq!(world.namespace(NAMESPACE).await.unwrap().labels().get(PART_OF), None);
    assert!(world.deployment().await.is_none());
}

#[tokio::test]
async fn a_cluster_that_refuses_is_not_changed() {
    let world = World::new().await;
    let accounts: Api<ServiceAccount> = Api::namespaced(world.client.clone(), "default");
    world.create(accounts.clone(), json!({"metadata": {"name": "limited"}})).await;
    let rules = json!([{
        "apiGroups": ["", "apiextensions.k8s.io"], "verbs": ["*"],
        "resources": ["namespaces", "customresourcedefinitions", "serviceaccounts", "configmaps"],
    }, {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]}]);
    world.create(world.all::<ClusterRole>(), json!({"metadata": {"name": "limited"}, "rules": rules})).await;
    let binding = json!({
        "metadata": {"name": "limited"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "limited"},
        "subjects": [{"kind": "ServiceAccount", "name": "limited", "namespace": "default"}],
    });
    world.create(world.all::<ClusterRoleBinding>(), binding).await;
    let request = serde_json::from_value(json!({"spec": {"audiences": []}})).unwrap();
    let token = accounts.create_token_request("limited", &PostParams::default(), &request).await.unwrap();

    let text = std::fs::read_to_string(&world.cluster.kubeconfig).unwrap();
    let mut config: Value = serde_saphyr::from_str(&text).unwrap();
    config["users"][0]["user"] = json!({"token": token.status.unwrap().token});
    let kubeconfig = world.dir.path().join("limited");
    std::fs::write(&kubeconfig, config.to_string()).unwrap();
    let as_limited = |command: &str| {
        let mut command = world.sketch.command(command);
        command.arg("--kubeconfig").arg(&kubeconfig).output().unwrap()
    };
    let why = refusal(&as_limited("deploy"));
    assert!(why.contains("forbidden") && why.contains("clusterroles"), "{why}");
    assert!(world.namespace(NAMESPACE).await.is_none() && world.definition().await.is_none());

    let examined = as_limited("doctor");
    let told = printed(&examined);
    assert!(told.contains("warn  rights      to deploy it you lack: "), "{told}");
    assert!(told.contains("create, patch, delete clusterroles.rbac.authorization.k8s.io"), "{told}");
}

#[tokio::test]
async fn an_operator_that_runs_outside_is_to_end_first() {
    let world = World::new().await;
    let configuration = json!({
        "metadata": {"name": "memcached-operator", "annotations": {"kubewright.dev/found": "null"}},
        "webhooks": [{
            "name": "memcached.cache.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://127.0.0.1:9443/validate"},
        }],
    });
    world.create(world.all::<ValidatingWebhookConfiguration>(), configuration).await;
    let why = refusal(&world.run("deploy", &[]));
    assert!(why.contains("outside of the cluster: end `kubewright run` first"), "{why}");
    assert!(world.namespace(NAMESPACE).await.is_none() && world.definition().await.is_none());
}

#[test]
fn without_a_cluster_one_line_says_so() {
    let sketch = Sketch::memcached(NAMESPACE);
    for command in ["install", "uninstall", "deploy", "undeploy"] {
        let refused = sketch.command(command).env("HOME", "/nonexistent").output().unwrap();
        let why = refusal(&refused);
        assert!(why.starts_with("there is no cluster to work with: tried "), "{command}: {why}");
        assert_eq!(error_of(&refused).lines().count(), 1, "{}", error_of(&refused));
    }
    let empty = TempDir::new().unwrap();
    for command in ["generate", "install", "uninstall", "deploy", "undeploy", "package"] {
        let refused = crate::support::run(&[command, empty.path().to_str().unwrap()]);
        assert!(refusal(&refused).contains("is no crate: it has no Cargo.toml"), "{command}");
    }
}

#[tokio::test]
async fn a_doctor_finds_what_is_in_the_way_and_says_what_to_do() {
    let mut world = World::new().await;
    let told = printed(&world.run("doctor", &[]));
    assert!(told.starts_with("ok    toolchain   rustc "), "{told}");
    for line in [
        "ok    operator    it builds",
        "warn  config      in config/ 23 of the generated files are not up to date",
        "ok    cluster     Kubernetes v1.",
        "ok    rights      you may deploy it",
        "warn  definitions memcacheds.cache.example.com is not installed",
        "                  -> kubewright install, or kubewright deploy",
    ] {
        assert!(told.contains(line), "{line:?} is not in {told}");
    }
    printed(&world.sketch.command("generate").output().unwrap());
    printed(&world.run("install", &[]));
    let told = printed(&world.run("doctor", &["--output", "json"]));
    let findings: Value = serde_json::from_str(&told).unwrap();
    assert!(
        findings["findings"].as_array().unwrap().iter().all(|finding| finding["level"] == "ok"),
        "{told}"
    );

    world.sketch.change(|documents| {
        let version = &mut Sketch::definition(documents)["spec"]["versions"][0];
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["replicas"]["maximum"] =
            json!(3);
    });
    let ill = world.run("doctor", &[]);
    assert_eq!(refusal(&ill), "one thing is in the way");
    let told = String::from_utf8_lossy(&ill.stdout);
    assert!(
        told.contains(
            "fail  definitions memcacheds.cache.example.com: in v1beta1, .spec.replicas would have"
        ),
        "{told}"
    );
}

#[test]
fn a_doctor_knows_a_scaffold_that_has_lost_a_file() {
    let sketch = Sketch::memcached(NAMESPACE);
    let sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"; // of "abc"
    std::fs::write(sketch.path().join("abc"), "abc").unwrap();
    std::fs::write(sketch.path().join("abd"), "abd").unwrap();
    let project = json!({
        "version": "1", "domain": "example.com", "projectName": "abc", "license": "none", "cliVersion": "0.1.0",
        "sdk": {"version": "0.1"}, "files": {"abc": sum, "abd": sum, "gone": sum},
    });
    std::fs::write(sketch.path().join("PROJECT"), project.to_string()).unwrap();
    let examined = sketch.command("doctor").env("HOME", "/nonexistent").output().unwrap();
    assert_eq!(refusal(&examined), "one thing is in the way");
    let told = String::from_utf8_lossy(&examined.stdout);
    let expected =
        "warn  project     of its scaffold 1 files are as they were, and 1 are yours; there is no gone\n";
    assert!(told.contains(expected), "{told}");
    assert!(told.contains("fail  cluster     there is no cluster to work with"), "{told}");
}
