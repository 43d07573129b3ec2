//! Manifests and definitions: that what is generated installs, and that it is enough, and no more.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures_util::future::BoxFuture;
use http::{Method, Request, Response};
use k8s_openapi::{
    api::events::v1::Event, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, CustomResource, CustomResourceExt as _,
    api::{Patch, PatchParams},
    client::Body,
    core::{DynamicObject, GroupVersionKind},
    discovery,
};
use kubewright::{
    Context, Controller, ManifestOptions, Next, Operator, Options, Part, Reach, Reconciler, Result,
    install_crds, install_crds_at, leader::LeaderElection, to_yaml,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    server::is_left_out,
    support::{Site, World, eventually, operator, site},
};

/// A kind whose definition changes: no other test knows it.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(group = "changing.kubewright.dev", version = "v1", kind = "Door", namespaced)]
pub struct DoorSpec {}

struct Idle;

impl Reconciler<Door> for Idle {
    async fn reconcile(&self, _: &Door, _: &Context<Door>) -> Result<Next> {
        Ok(Next::on_change())
    }
}

/// Applies one document, as kubectl would: to whatever its kind is.
pub async fn apply(client: &Client, document: &Value, params: &PatchParams) {
    let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (group, version) = text("/apiVersion").split_once('/').unwrap_or(("", text("/apiVersion")));
    let kind = GroupVersionKind::gvk(group, version, text("/kind"));
    let (resource, capabilities) = discovery::pinned_kind(client, &kind).await.unwrap();
    let api: Api<DynamicObject> = match capabilities.scope {
        discovery::Scope::Namespaced => {
            Api::namespaced_with(client.clone(), text("/metadata/namespace"), &resource)
        }
        discovery::Scope::Cluster => Api::all_with(client.clone(), &resource),
    };
    let applied = api.patch(text("/metadata/name"), params, &Patch::Apply(document)).await;
    applied.unwrap_or_else(|why| panic!("{} {}: {why}", text("/kind"), text("/metadata/name")));
}

pub async fn install(client: &Client, options: &ManifestOptions) {
    let strict = PatchParams {
        field_validation: Some(kube::api::ValidationDirective::Strict),
        ..PatchParams::apply("admin")
    };
    for document in operator().manifests(options) {
        apply(client, &document, &strict.clone().dry_run()).await;
        apply(client, &document, &strict).await;
    }
}

async fn converges(world: &World, options: Options) {
    let client = world.server.client_of_service_account("site-operator-system", "site-operator").await;
    let mut running = operator().start(client, options);
    running.working().await.unwrap();
    world.create(&site("shop")).await;
    let sites = world.api::<Site>();
    eventually("the site is published", async || {
        sites.get("shop").await.unwrap().status.is_some_and(|status| status.published)
    })
    .await;
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_generated_rights_are_enough() {
    if is_left_out("an operator of all namespaces would look after those of other tests, too") {
        return;
    }
    let world = World::new().await;
    install(&world.client, &ManifestOptions::default()).await;
    let election = Some(LeaderElection::new("site-operator"));
    converges(&world, Options { leader_election: election, ..world.options() }).await;
}

#[tokio::test(start_paused = true)]
async fn rights_in_the_watched_namespaces_are_enough_there() {
    let world = World::new().await;
    let namespaces = vec![world.namespace.clone()];
    install(&world.client, &ManifestOptions { namespaces: namespaces.clone(), ..Default::default() }).await;
    let election = LeaderElection {
        identity: Some("one".to_owned()),
        namespace: Some("site-operator-system".to_owned()),
        ..LeaderElection::new("site-operator")
    };
    converges(&world, Options { namespaces, leader_election: Some(election), ..world.options() }).await;
    let events: Api<Event> = Api::namespaced(world.client.clone(), "site-operator-system");
    let told = events.list(&Default::default()).await.unwrap().items;
    let notes: Vec<&str> = told.iter().filter_map(|event| event.note.as_deref()).collect();
    assert_eq!(notes.len(), 2, "who leads is told in the operator's own namespace: {notes:?}");
}

#[test]
fn the_manifests_are_these() {
    if is_left_out("no server takes part") {
        return;
    }
    let yaml = to_yaml(&operator().version("1.2.3").manifests(&ManifestOptions::default())).unwrap();
    insta::assert_snapshot!(yaml);
}

#[test]
fn secure_metrics_are_an_option_of_the_manifests() {
    let manifests = |secure_metrics| {
        let options = ManifestOptions { secure_metrics, ..Default::default() };
        to_yaml(&operator().version("1.2.3").manifests(&options)).unwrap()
    };
    let (plain, secure) = (manifests(false), manifests(true));
    let lines: Vec<&str> = plain.lines().collect();
    let added: Vec<&str> = secure.lines().filter(|line| !lines.contains(line)).collect();
    insta::assert_snapshot!(added.join("\n"));
}

#[test]
fn manifests_are_laid_out_as_kubebuilder_does_it() {
    let files = operator().config(&ManifestOptions::default()).unwrap();
    assert_eq!(
        files.keys().collect::<Vec<_>>(),
        [
            "crd/bases/test.kubewright.dev_sites.yaml",
            "crd/kustomization.yaml",
            "default/kustomization.yaml",
            "default/metrics_service.yaml",
            "manager/kustomization.yaml",
            "manager/manager.yaml",
            "network-policy/allow-metrics-traffic.yaml",
            "network-policy/kustomization.yaml",
            "rbac/kustomization.yaml",
            "rbac/leader_election_role.yaml",
            "rbac/leader_election_role_binding.yaml",
            "rbac/role.yaml",
            "rbac/role_binding.yaml",
            "rbac/service_account.yaml",
            "rbac/site_admin_role.yaml",
            "rbac/site_editor_role.yaml",
            "rbac/site_viewer_role.yaml",
        ]
    );
    insta::assert_snapshot!(files["default/kustomization.yaml"]);
    let documents: usize = files
        .iter()
        .filter(|(path, _)| !path.ends_with("kustomization.yaml"))
        .map(|(_, content)| content.split("\n---\n").count())
        .sum();
    assert_eq!(documents, operator().manifests(&ManifestOptions::default()).len(), "nothing is left out");
}

#[test]
fn files_that_are_outdated_are_named() {
    let (options, directory) = (ManifestOptions::default(), tempfile::tempdir().unwrap());
    let files = operator().config(&options).unwrap();
    for (path, content) in &files {
        let path = directory.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    let outdated = || operator().outdated_config(&options, directory.path()).unwrap();
    assert_eq!(outdated(), [""; 0]);
    let write = |path: &str, content: &str| std::fs::write(directory.path().join(path), content).unwrap();
    write("rbac/role.yaml", "changed");
    write("rbac/old_role.yaml", &files["rbac/role.yaml"]);
    write("rbac/own_role.yaml", "the author's");
    std::fs::remove_file(directory.path().join("manager/manager.yaml")).unwrap();
    assert_eq!(outdated(), ["manager/manager.yaml", "rbac/old_role.yaml", "rbac/role.yaml"]);
}

#[test]
fn people_get_no_further_than_a_kind_lets_them() {
    let roles = |controller: Controller| -> Vec<String> {
        let files = Operator::new("door-operator").controller(controller).config(&ManifestOptions::default());
        files.unwrap().into_keys().filter(|path| path.starts_with("rbac/door_")).collect()
    };
    let open = roles(Controller::of::<Door>().run(Idle));
    assert_eq!(
        open,
        ["rbac/door_admin_role.yaml", "rbac/door_editor_role.yaml", "rbac/door_viewer_role.yaml"]
    );
    assert_eq!(roles(Controller::of::<Door>().confidential().run(Idle)), open[..2]);
    assert_eq!(roles(Controller::of::<Door>().internal().run(Idle)), [""; 0]);
    assert_eq!(roles(Controller::of::<Door>().internal().confidential().run(Idle)), [""; 0]);
}

#[test]
fn with_namespaces_there_are_no_rights_beyond_them() {
    if is_left_out("no server takes part") {
        return;
    }
    let options = ManifestOptions {
        namespaces: vec!["blue".to_owned(), "green".to_owned()],
        only: [Part::Rbac].into(),
        ..Default::default()
    };
    let documents = operator().manifests(&options);
    let bindings: Vec<String> = documents
        .iter()
        .filter(|document| document["kind"].as_str().unwrap().ends_with("Binding"))
        .map(|document| {
            format!("{} {}", document["kind"], document["metadata"]["namespace"]).replace('"', "")
        })
        .collect();
    assert_eq!(bindings, ["RoleBinding blue", "RoleBinding green", "RoleBinding site-operator-system"]);
}

#[tokio::test(start_paused = true)]
async fn definitions_are_installed_and_later_only_widened() {
    let world = World::new().await;
    let client = world.client.clone();
    let operator = || Operator::new("door-operator").controller(Controller::of::<Door>().run(Idle));
    install_crds(&client, &operator()).await.unwrap();
    world.create(&Door::new("front", DoorSpec {})).await;
    install_crds(&client, &operator()).await.unwrap();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = Door::crd_name();
    let mut newer = definitions.get(name).await.unwrap();
    let mut next = newer.spec.versions[0].clone();
    newer.spec.versions[0].storage = false;
    next.name = "v2".to_owned();
    newer.spec.versions.push(next);
    let newer = definitions.replace(name, &Default::default(), &newer).await.unwrap();
    let why = install_crds(&client, &operator()).await.unwrap_err();
    assert!(why.to_string().contains("version v2 can't be removed"), "{why}");
    assert_eq!(
        definitions.get(name).await.unwrap().metadata.resource_version,
        newer.metadata.resource_version
    );
    definitions.delete(name, &Default::default()).await.unwrap();
}

/// A kind whose definition is written by several at once: no other test knows it.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(group = "changing.kubewright.dev", version = "v1", kind = "Window", namespaced)]
pub struct WindowSpec {}

impl Reconciler<Window> for Idle {
    async fn reconcile(&self, _: &Window, _: &Context<Window>) -> Result<Next> {
        Ok(Next::on_change())
    }
}

/// A client that is overtaken by another change so many times, whenever it is about to write a definition.
#[derive(Clone)]
struct Overtaken(Client, Arc<AtomicUsize>);

impl tower_service::Service<Request<Body>> for Overtaken {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = BoxFuture<'static, kube::Result<Response<Body>>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> Poll<kube::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self(client, times) = self.clone();
        Box::pin(async move {
            let left = times.load(Ordering::Relaxed);
            if request.method() == Method::PATCH && left > 0 {
                times.store(left - 1, Ordering::Relaxed);
                let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
                let change = Patch::Merge(json!({"metadata": {"labels": {"change": left.to_string()}}}));
                definitions.patch(Window::crd_name(), &PatchParams::default(), &change).await?;
            }
            client.send(request).await
        })
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_is_overtaken_while_installing_tries_again() {
    let world = World::new().await;
    let operator = || Operator::new("window-operator").controller(Controller::of::<Window>().run(Idle));
    install_crds(&world.client, &operator()).await.unwrap();
    for (times, outcome) in [(3, true), (1_000, false)] {
        let overtaken = Overtaken(world.client.clone(), Arc::new(AtomicUsize::new(times)));
        let client = Client::new(overtaken, world.namespace.clone());
        assert_eq!(install_crds(&client, &operator()).await.is_ok(), outcome, "{times} times");
    }
    let definitions: Api<CustomResourceDefinition> = Api::all(world.client.clone());
    definitions.delete(Window::crd_name(), &Default::default()).await.unwrap();
}

mod newer {
    use super::*;

    /// The same kind in another version, which is not stored yet.
    #[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
    #[kube(group = "changing.kubewright.dev", version = "v2", kind = "Door", namespaced, storage = false)]
    pub struct DoorSpec {}
}

mod elsewhere {
    use super::*;

    /// A kind of the same name in another group.
    #[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
    #[kube(group = "elsewhere.kubewright.dev", version = "v1", kind = "Door", namespaced)]
    pub struct DoorSpec {}
}

/// A kind that was called otherwise once.
mod gates {
    use super::*;

    pub mod old {
        use super::*;

        #[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
        #[kube(group = "changing.kubewright.dev", version = "v1", kind = "Gate", namespaced)]
        #[kube(deprecated = "use v2")]
        pub struct GateSpec {}
    }

    pub mod new {
        use super::*;

        #[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
        #[kube(group = "changing.kubewright.dev", version = "v2", kind = "Gate", namespaced)]
        pub struct GateSpec {}
    }

    impl From<old::Gate> for new::Gate {
        fn from(gate: old::Gate) -> Self {
            Self { metadata: gate.metadata, spec: new::GateSpec {} }
        }
    }

    impl From<new::Gate> for old::Gate {
        fn from(gate: new::Gate) -> Self {
            Self { metadata: gate.metadata, spec: old::GateSpec {} }
        }
    }
}

impl From<newer::Door> for Door {
    fn from(door: newer::Door) -> Self {
        Self { metadata: door.metadata, spec: DoorSpec {} }
    }
}

impl From<Door> for newer::Door {
    fn from(door: Door) -> Self {
        Self { metadata: door.metadata, spec: newer::DoorSpec {} }
    }
}

fn gate_operator() -> Operator {
    Operator::new("gate-operator").converts::<gates::old::Gate, gates::new::Gate>()
}

#[test]
fn the_hub_is_stored_unless_it_is_told_otherwise() {
    if is_left_out("no server takes part") {
        return;
    }
    let (old, new) = ("v1".to_owned(), "v2".to_owned());
    assert_eq!(versions(&gate_operator()), [(old.clone(), false), (new.clone(), true)]);
    let told = Operator::new("door-operator").converts::<Door, newer::Door>();
    assert_eq!(versions(&told), [(old.clone(), true), (new.clone(), false)]);
    let back = Operator::new("gate-operator").converts::<gates::new::Gate, gates::old::Gate>();
    assert_eq!(versions(&back), [(new, false), (old, true)]);
}

#[test]
fn a_kind_with_conversions_says_where_they_are() {
    if is_left_out("no server takes part") {
        return;
    }
    let options = ManifestOptions {
        namespace: Some("elsewhere".to_owned()),
        only: [Part::Crds].into(),
        ..ManifestOptions::default()
    };
    let definition = gate_operator().manifests(&options).remove(0);
    let service =
        json!({"namespace": "elsewhere", "name": "gate-operator-webhook", "path": "/convert", "port": 443});
    let webhook = json!({"conversionReviewVersions": ["v1"], "clientConfig": {"service": service}});
    assert_eq!(definition["spec"]["conversion"], json!({"strategy": "Webhook", "webhook": webhook}));
    let old = &definition["spec"]["versions"][0];
    assert_eq!((&old["deprecated"], &old["deprecationWarning"]), (&json!(true), &json!("use v2")));
}

#[tokio::test(start_paused = true)]
async fn the_certificate_of_conversions_is_left_to_whoever_brings_it() {
    let world = World::new().await;
    let definitions: Api<CustomResourceDefinition> = Api::all(world.client.clone());
    let name = gates::new::Gate::crd_name();
    let client_config = async || {
        let definition = json!(definitions.get(name).await.unwrap());
        definition["spec"]["conversion"]["webhook"]["clientConfig"].clone()
    };
    install_crds(&world.client, &gate_operator()).await.unwrap();
    let service = client_config().await["service"].clone();
    assert_eq!(service["namespace"], "gate-operator-system");
    let certificate = rcgen::generate_simple_self_signed(vec!["gate".to_owned()]).unwrap().cert;
    let text = STANDARD.encode(certificate.der());
    let bundle = STANDARD.encode(format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n"));
    let webhook = json!({"clientConfig": {"caBundle": bundle}});
    let change = Patch::Merge(json!({"spec": {"conversion": {"webhook": webhook}}}));
    definitions.patch(name, &PatchParams::default(), &change).await.unwrap();
    install_crds(&world.client, &gate_operator()).await.unwrap();
    assert_eq!(client_config().await, json!({"service": service, "caBundle": bundle}));
    let reach = Reach::Url("https://192.0.2.1:9443".to_owned());
    install_crds_at(&world.client, &gate_operator(), &reach).await.unwrap();
    assert_eq!(client_config().await, json!({"url": "https://192.0.2.1:9443/convert", "caBundle": bundle}));
    definitions.delete(name, &Default::default()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_operator_whose_conversions_lead_nowhere_does_not_start() {
    let world = World::new().await;
    let operator = gate_operator().converts::<gates::new::Gate, gates::old::Gate>();
    let why = operator.start(world.recorded(), world.options()).working().await.unwrap_err();
    assert!(why.to_string().contains("are converted to v2 and to v1"), "{why}");
    assert_eq!(*world.requests.lock(), []);
}

fn versions(operator: &Operator) -> Vec<(String, bool)> {
    let definitions =
        operator.manifests(&ManifestOptions { only: [Part::Crds].into(), ..ManifestOptions::default() });
    assert_eq!(definitions.len(), 1, "one for all versions");
    let versions = definitions[0]["spec"]["versions"].as_array().unwrap();
    let told = |one: &Value| (one["name"].as_str().unwrap().to_owned(), one["storage"] == true);
    versions.iter().map(told).collect()
}

#[test]
fn versions_share_a_definition_and_the_first_that_says_so_is_stored() {
    if is_left_out("no server takes part") {
        return;
    }
    let (first, second) = (("v1".to_owned(), true), ("v2".to_owned(), false));
    let controller = || Operator::new("door-operator").controller(Controller::of::<Door>().run(Idle));
    assert_eq!(versions(&controller().defines::<newer::Door>()), [first.clone(), second.clone()]);
    let neither = Operator::new("door-operator").defines::<newer::Door>();
    assert_eq!(versions(&neither), [("v2".to_owned(), true)], "somewhere they must be");
    assert_eq!(versions(&neither.defines::<Door>()), [second, first]);
    let twice = controller().defines::<Door>();
    assert_eq!(versions(&twice), [("v1".to_owned(), true)]);
}

#[test]
fn kinds_of_one_name_in_two_groups_have_roles_of_their_own() {
    if is_left_out("no server takes part") {
        return;
    }
    let operator = Operator::new("door-operator").defines::<Door>().defines::<elsewhere::Door>();
    let config = operator.config(&ManifestOptions::default()).unwrap();
    let viewers: Vec<&String> = config.keys().filter(|path| path.ends_with("viewer_role.yaml")).collect();
    assert_eq!(
        viewers,
        [
            "rbac/door_changing_kubewright_dev_viewer_role.yaml",
            "rbac/door_elsewhere_kubewright_dev_viewer_role.yaml"
        ]
    );
}
