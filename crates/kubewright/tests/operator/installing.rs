//! Manifests and definitions: that what is generated installs, and that it is enough, and no more.

use k8s_openapi::{
    api::{core::v1::Namespace, events::v1::Event},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
    core::{DynamicObject, GroupVersionKind},
    discovery,
};
use kubewright::{ManifestOptions, Options, Part, install_crds, leader::LeaderElection, to_yaml};
use kubewright_apiserver::ApiServer;
use serde_json::{Value, json};

use crate::support::{Site, eventually, operator, options, site};

/// Applies one document, as kubectl would: to whatever its kind is.
async fn apply(client: &Client, document: &Value, params: &PatchParams) {
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

async fn create_namespace(client: &Client, name: &str) {
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    Api::<Namespace>::all(client.clone()).create(&Default::default(), &namespace).await.unwrap();
}

async fn converges(server: &ApiServer, namespace: &str, options: Options) {
    let client = server.client_of_service_account("site-operator-system", "site-operator");
    let mut running = operator().start(client, options);
    running.working().await.unwrap();
    let sites: Api<Site> = Api::namespaced(server.client(), namespace);
    sites.create(&Default::default(), &site("shop")).await.unwrap();
    eventually("the site is published", async || {
        sites.get("shop").await.unwrap().status.is_some_and(|status| status.published)
    })
    .await;
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_generated_rights_are_enough() {
    let server = ApiServer::start().await.unwrap();
    install(&server.client(), &ManifestOptions::default()).await;
    create_namespace(&server.client(), "team").await;
    let election = Some(LeaderElection::new("site-operator"));
    converges(&server, "team", Options { leader_election: election, ..options() }).await;
}

#[tokio::test(start_paused = true)]
async fn rights_in_the_watched_namespaces_are_enough_there() {
    let server = ApiServer::start().await.unwrap();
    create_namespace(&server.client(), "team").await;
    let namespaces = vec!["team".to_owned()];
    install(&server.client(), &ManifestOptions { namespaces: namespaces.clone(), ..Default::default() })
        .await;
    let election = LeaderElection {
        identity: Some("one".to_owned()),
        namespace: Some("site-operator-system".to_owned()),
        ..LeaderElection::new("site-operator")
    };
    converges(&server, "team", Options { namespaces, leader_election: Some(election), ..options() }).await;
    let events: Api<Event> = Api::namespaced(server.client(), "site-operator-system");
    let told = events.list(&Default::default()).await.unwrap().items;
    let notes: Vec<&str> = told.iter().filter_map(|event| event.note.as_deref()).collect();
    assert_eq!(notes.len(), 2, "who leads is told in the operator's own namespace: {notes:?}");
}

#[test]
fn the_manifests_are_these() {
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
fn with_namespaces_there_are_no_rights_beyond_them() {
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
    let server = ApiServer::start().await.unwrap();
    let client = server.client();
    install_crds(&client, &operator()).await.unwrap();
    Api::<Site>::namespaced(client.clone(), "default")
        .create(&Default::default(), &site("shop"))
        .await
        .unwrap();
    install_crds(&client, &operator()).await.unwrap();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = "sites.test.kubewright.dev";
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
}
