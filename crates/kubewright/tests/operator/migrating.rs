//! Stored objects, on their way to the version that is stored now.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use http::{Method, Request};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, CustomResource, CustomResourceExt as _,
    api::{DeleteParams, Patch, PatchParams},
    client::Body,
};
use kubewright::{ManifestOptions, Operator, Options, Part};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    installing::apply,
    support::{World, eventually},
};

/// A kind whose objects are migrated: no other test knows it.
mod crates {
    use super::*;

    pub mod v1 {
        use super::*;

        #[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
        #[kube(group = "migrating.kubewright.dev", version = "v1", kind = "Crate", namespaced)]
        pub struct CrateSpec {}
    }

    pub mod v2 {
        use super::*;

        #[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
        #[kube(group = "migrating.kubewright.dev", version = "v2", kind = "Crate", namespaced)]
        pub struct CrateSpec {}
    }

    impl From<v1::Crate> for v2::Crate {
        fn from(old: v1::Crate) -> Self {
            Self { metadata: old.metadata, spec: v2::CrateSpec {} }
        }
    }

    impl From<v2::Crate> for v1::Crate {
        fn from(new: v2::Crate) -> Self {
            Self { metadata: new.metadata, spec: v1::CrateSpec {} }
        }
    }
}

/// Another one.
mod barrels {
    use super::*;

    pub mod v1 {
        use super::*;

        #[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
        #[kube(group = "migrating.kubewright.dev", version = "v1", kind = "Barrel", namespaced)]
        pub struct BarrelSpec {}
    }

    pub mod v2 {
        use super::*;

        #[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
        #[kube(group = "migrating.kubewright.dev", version = "v2", kind = "Barrel", namespaced)]
        pub struct BarrelSpec {}
    }

    impl From<v1::Barrel> for v2::Barrel {
        fn from(old: v1::Barrel) -> Self {
            Self { metadata: old.metadata, spec: v2::BarrelSpec {} }
        }
    }

    impl From<v2::Barrel> for v1::Barrel {
        fn from(new: v2::Barrel) -> Self {
            Self { metadata: new.metadata, spec: v1::BarrelSpec {} }
        }
    }
}

use barrels::v1::{Barrel, BarrelSpec};
use crates::v1::{Crate, CrateSpec};

fn crate_operator() -> Operator {
    Operator::new("crate-operator").converts::<Crate, crates::v2::Crate>()
}

fn barrel_operator() -> Operator {
    Operator::new("barrel-operator").converts::<Barrel, barrels::v2::Barrel>()
}

/// The definition of the operator's kind, with `stored` as the version that is stored, and without a webhook.
async fn define(world: &World, operator: &Operator, stored: &str) {
    let only = |part| ManifestOptions { only: [part].into(), ..ManifestOptions::default() };
    let mut definition = operator.manifests(&only(Part::Crds)).remove(0);
    definition["spec"]["conversion"] = json!({"strategy": "None"});
    for version in definition["spec"]["versions"].as_array_mut().unwrap() {
        version["storage"] = json!(version["name"] == stored);
    }
    apply(&world.client, &definition, &PatchParams::apply("test").force()).await;
    let definitions: Api<CustomResourceDefinition> = Api::all(world.client.clone());
    let name = definition["metadata"]["name"].as_str().unwrap();
    eventually("the definition is served", async || {
        let conditions = definitions.get(name).await.unwrap().status.and_then(|status| status.conditions);
        conditions.into_iter().flatten().any(|one| one.type_ == "Established" && one.status == "True")
    })
    .await;
}

struct Definition(Api<CustomResourceDefinition>, &'static str);

impl Definition {
    async fn get(&self) -> CustomResourceDefinition {
        self.0.get(self.1).await.unwrap()
    }

    async fn stored(&self) -> Vec<String> {
        self.get().await.status.unwrap().stored_versions.unwrap()
    }

    /// How far the migration is.
    async fn mark(&self) -> Option<Value> {
        let annotations = self.get().await.metadata.annotations?;
        serde_json::from_str(annotations.get("kubewright.dev/migration")?).unwrap()
    }

    async fn set_mark(&self, mark: &Value) {
        let change = json!({"metadata": {"annotations": {"kubewright.dev/migration": mark.to_string()}}});
        self.0.patch(self.1, &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
    }

    async fn remove(self) {
        self.0.delete(self.1, &DeleteParams::default()).await.unwrap();
    }
}

/// A client with the rights that the manifests give.
async fn account(world: &World, operator: &Operator) -> Client {
    let only = [Part::Namespace, Part::Rbac].into();
    for document in operator.manifests(&ManifestOptions { only, ..ManifestOptions::default() }) {
        apply(&world.client, &document, &PatchParams::apply("test").force()).await;
    }
    let namespace = format!("{}-system", operator.name());
    world.server.client_of_service_account(&namespace, operator.name()).await
}

fn everywhere(world: &World) -> Options {
    Options { namespaces: Vec::new(), ..world.options() }
}

fn is_write_of(request: &Request<Body>, plural: &str) -> bool {
    request.method() == Method::PATCH && request.uri().path().contains(&format!("/{plural}/"))
}

#[tokio::test(start_paused = true)]
async fn a_migration_goes_on_where_it_was_when_it_died() {
    let world = World::new().await;
    define(&world, &crate_operator(), "v1").await;
    for number in 0..520 {
        world.create(&Crate::new(&format!("crate-{number:03}"), CrateSpec {})).await;
    }
    define(&world, &crate_operator(), "v2").await;
    let definition = Definition(Api::all(world.client.clone()), Crate::crd_name());
    assert_eq!(definition.stored().await, ["v1", "v2"]);
    // Of another time: since then, objects may have been stored in any version.
    let generation = definition.get().await.metadata.generation.unwrap();
    definition
        .set_mark(&json!({"to": "v2", "generation": generation - 1, "after": "zzz/zzz", "done": 9}))
        .await;

    let account = account(&world, &crate_operator()).await;
    let written = AtomicUsize::new(0);
    let dies = move |request: &Request<Body>| {
        is_write_of(request, "crates") && written.fetch_add(1, Ordering::Relaxed) >= 500
    };
    let running = crate_operator().start(world.through(account.clone(), Arc::new(dies)), everywhere(&world));
    eventually("a page is done", async || {
        definition.mark().await.is_some_and(|mark| mark["generation"] == generation)
    })
    .await;
    drop(running);
    let after = format!("{}/crate-499", world.namespace);
    assert_eq!(
        definition.mark().await,
        Some(json!({"to": "v2", "generation": generation, "after": after, "done": 500}))
    );
    assert_eq!(definition.stored().await, ["v1", "v2"]);

    world.requests.lock().clear();
    let running = crate_operator().start(world.through(account, Arc::new(|_| false)), everywhere(&world));
    eventually("nothing is left", async || definition.mark().await.is_none()).await;
    assert_eq!(definition.stored().await, ["v2"]);
    running.stop().await.unwrap();
    let requests = world.requests.lock().clone();
    let mut written: Vec<&str> = requests
        .iter()
        .filter(|(method, _)| method == Method::PATCH)
        .filter_map(|(_, uri)| uri.split_once("/v2/namespaces/")?.1.split(['/', '?']).nth(2))
        .collect();
    written.sort_unstable();
    assert_eq!(written, (500..520).map(|number| format!("crate-{number}")).collect::<Vec<_>>());
    definition.remove().await;
}

#[tokio::test(start_paused = true)]
async fn an_old_version_stays_listed_as_long_as_one_object_may_be_stored_in_it() {
    let world = World::new().await;
    define(&world, &barrel_operator(), "v1").await;
    for name in ["one", "three", "two"] {
        world.create(&Barrel::new(name, BarrelSpec {})).await;
    }
    define(&world, &barrel_operator(), "v2").await;
    let definition = Definition(Api::all(world.client.clone()), Barrel::crd_name());
    let is_in_the_way = Arc::new(AtomicBool::new(true));
    let (seen, tried) = (is_in_the_way.clone(), Arc::new(AtomicUsize::new(0)));
    let counted = tried.clone();
    let meddled = world.meddled(Arc::new(move |request| {
        let is_bad = is_write_of(request, "barrels") && request.uri().path().ends_with("/three");
        if is_bad {
            counted.fetch_add(1, Ordering::Relaxed);
        }
        is_bad && seen.load(Ordering::Relaxed)
    }));
    let running = barrel_operator().start(meddled, everywhere(&world));
    eventually("it is tried again", async || tried.load(Ordering::Relaxed) >= 3).await;
    assert_eq!(definition.stored().await, ["v1", "v2"]);
    assert_eq!(definition.mark().await, None, "who comes next must try it, too");
    is_in_the_way.store(false, Ordering::Relaxed);
    eventually("nothing is left", async || definition.stored().await == ["v2"]).await;
    running.stop().await.unwrap();
    definition.remove().await;
}

#[tokio::test(start_paused = true)]
async fn whoever_must_not_migrate_does_not_look() {
    let world = World::new().await;
    let somewhere = Options { namespaces: vec![world.namespace.clone()], ..world.options() };
    for (operator, options) in
        [(barrel_operator(), somewhere), (barrel_operator().without_migration(), everywhere(&world))]
    {
        let mut running = operator.start(world.recorded(), options);
        running.working().await.unwrap();
        world.rest().await;
        running.stop().await.unwrap();
        // It looks after its certificates, and nothing else.
        let is_about_webhooks =
            |path: &str| path.contains("webhook-certificates") || path.contains("watch=true");
        let requests = world.requests.lock();
        let others: Vec<_> = requests.iter().filter(|(_, path)| !is_about_webhooks(path)).collect();
        assert_eq!(others, Vec::<&(Method, String)>::new());
    }
}

#[test]
fn migrating_takes_rights_to_single_definitions_and_only_where_it_is_done() {
    let rules = |operator: Operator, namespaces: Vec<String>| {
        let options = ManifestOptions { only: [Part::Rbac].into(), namespaces, ..ManifestOptions::default() };
        let documents = operator.manifests(&options);
        let role = documents
            .iter()
            .find(|one| one["kind"] == "ClusterRole" && one["metadata"]["name"] == "crate-operator");
        role.map(|role| role["rules"].clone())
    };
    let named = |resource: &str, verbs: &[&str]| {
        json!({
            "apiGroups": ["apiextensions.k8s.io"], "resources": [resource],
            "resourceNames": ["crates.migrating.kubewright.dev"], "verbs": verbs,
        })
    };
    let events =
        json!({"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]});
    let objects = json!({
        "apiGroups": ["migrating.kubewright.dev"], "resources": ["crates"], "verbs": ["list", "patch"],
    });
    // This is what it takes to make its certificates known.
    let trusting = named("customresourcedefinitions", &["get", "list", "watch", "patch"]);
    assert_eq!(
        rules(crate_operator(), Vec::new()),
        Some(json!([events, objects, trusting, named("customresourcedefinitions/status", &["patch"])]))
    );
    assert_eq!(rules(crate_operator().without_migration(), Vec::new()), Some(json!([events, trusting])));
    assert_eq!(rules(crate_operator(), vec!["blue".to_owned()]), Some(json!([trusting])));
}
