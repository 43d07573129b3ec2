//! A cluster for a test: its own, in the process, with time that takes no time.

use std::{fmt::Write as _, ops::Deref, time::Duration};

use k8s_openapi::api::{core::v1::Pod, events::v1::Event};
use kube::{
    Api, ResourceExt as _,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, TypeMeta},
    core::GroupVersionKind,
    discovery,
};
use kubewright::{Kind, KindName, Operator, Options, Running, clock::Clock, entropy::Entropy};
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    time::sleep,
};

use crate::{
    cluster::{Builder, Cluster},
    nodes::{Script, Simulated},
};

/// How long something may take, in the time of the cluster.
const PATIENCE: Duration = Duration::from_secs(30 * 60);
/// How soon is looked again at first; then less and less often.
const FIRST_LOOK: Duration = Duration::from_millis(10);
/// How long nothing must be written for a cluster to count as quiet.
const QUIET: Duration = Duration::from_secs(3);
/// When every test begins.
const ORIGIN: &str = "2026-01-01T00:00:00Z";

/// A cluster for one test. Time is paused: whatever waits, waits for nothing, and an hour passes in a moment.
/// Helpers panic with what the cluster looked like, so that a test reads as what should be so.
///
/// ```
/// use kubewright_cluster::TestCluster;
/// use k8s_openapi::api::apps::v1::ReplicaSet;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let cluster = TestCluster::start().await;
/// cluster.apply("
///     apiVersion: apps/v1
///     kind: ReplicaSet
///     metadata: {name: web}
///     spec:
///       replicas: 3
///       selector: {matchLabels: {app: web}}
///       template:
///         metadata: {labels: {app: web}}
///         spec: {containers: [{name: web, image: nginx}]}
/// ").await;
/// cluster.eventually("three replicas are ready", async |cluster| {
///     cluster.get::<ReplicaSet>("web").await.status.unwrap().ready_replicas == Some(3)
/// }).await;
/// # });
/// ```
pub struct TestCluster {
    cluster: Cluster,
    simulated: Simulated,
    namespace: String,
}

impl Deref for TestCluster {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

#[allow(clippy::panic, reason = "a test says what is wrong by panicking")]
impl TestCluster {
    /// A cluster with one node. Pauses the time of a single-threaded runtime.
    pub async fn start() -> Self {
        Self::with(|builder| builder).await
    }

    /// A cluster that is set up in some way of its own.
    ///
    /// # Panics
    /// If the cluster does not start.
    pub async fn with(set_up: impl FnOnce(Builder) -> Builder) -> Self {
        pause_time();
        let simulated = Simulated::default();
        let origin = ORIGIN.parse().expect("it is a time");
        let builder = Cluster::builder().seed(1).starting_at(origin).runtime(simulated.clone());
        let cluster = set_up(builder).start().await.unwrap_or_else(|why| panic!("no cluster: {why}"));
        Self { cluster, simulated, namespace: "default".to_owned() }
    }

    /// The cluster after a restart of everything but the API server and what is stored there.
    ///
    /// # Panics
    /// If it does not stop or start.
    #[must_use]
    pub async fn restarted(self) -> Self {
        let Self { cluster, simulated, namespace } = self;
        let (server, now) = (cluster.server().clone(), cluster.clock().now());
        cluster.stop().await.unwrap_or_else(|why| panic!("the cluster did not stop: {why}"));
        let builder = Cluster::builder().seed(2).starting_at(now).nodes(0).runtime(simulated.clone());
        let cluster = builder.start_on(server).await.unwrap_or_else(|why| panic!("no cluster: {why}"));
        Self { cluster, simulated, namespace }
    }

    /// All containers of an image follow a script from now on.
    pub fn script(&self, image: &str, script: Script) {
        self.simulated.script(image, script);
    }

    /// The simulation behind the nodes.
    pub fn simulated(&self) -> &Simulated {
        &self.simulated
    }

    /// The API of a kind, in the namespace of the test or outside of namespaces.
    fn api<K: Kind>(&self) -> Api<DynamicObject> {
        let resource = ApiResource::erase::<K>(&());
        match KindName::of::<K>().is_namespaced {
            true => Api::namespaced_with(self.client(), &self.namespace, &resource),
            false => Api::all_with(self.client(), &resource),
        }
    }

    /// Applies one or more objects, given as YAML. Those without a namespace are in `default`.
    ///
    /// # Panics
    /// If it is no YAML, the cluster does not know a kind, or refuses an object.
    pub async fn apply(&self, yaml: &str) {
        let objects: Vec<DynamicObject> = serde_saphyr::from_multiple(&unindented(yaml))
            .unwrap_or_else(|why| panic!("this is no YAML of objects: {why}\n{yaml}"));
        for object in objects {
            let name = object.name_any();
            let api = self.dynamic(&object).await;
            let parameters = PatchParams::apply("test").force();
            if let Err(why) = api.patch(&name, &parameters, &Patch::Apply(&object)).await {
                panic!("{name} was not applied: {why}");
            }
        }
    }

    /// An object by its name.
    ///
    /// # Panics
    /// If it is not there.
    pub async fn get<K: Kind>(&self, name: &str) -> K {
        self.find(name).await.unwrap_or_else(|| panic!("there is no {} {name}", K::kind(&())))
    }

    /// An object by its name, if it is there.
    ///
    /// # Panics
    /// If it can't be asked for.
    pub async fn find<K: Kind>(&self, name: &str) -> Option<K> {
        let found = self.api::<K>().get_opt(name).await;
        found.unwrap_or_else(|why| panic!("{} {name} can't be read: {why}", K::kind(&()))).map(typed)
    }

    /// All objects of a kind, by name.
    ///
    /// # Panics
    /// If they can't be asked for.
    pub async fn list<K: Kind>(&self) -> Vec<K> {
        let list = self.api::<K>().list(&ListParams::default()).await;
        let list = list.unwrap_or_else(|why| panic!("{} can't be listed: {why}", K::kind(&())));
        list.into_iter().map(typed).collect()
    }

    /// Changes an object by a merge patch.
    ///
    /// # Panics
    /// If that is refused.
    pub async fn patch<K: Kind>(&self, name: &str, change: serde_json::Value) -> K {
        let patched = self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(change)).await;
        typed(patched.unwrap_or_else(|why| panic!("{} {name} was not changed: {why}", K::kind(&()))))
    }

    /// Changes the status of an object by a merge patch.
    ///
    /// # Panics
    /// If that is refused.
    pub async fn patch_status<K: Kind>(&self, name: &str, status: serde_json::Value) -> K {
        let change = Patch::Merge(serde_json::json!({"status": status}));
        let patched = self.api::<K>().patch_status(name, &PatchParams::default(), &change).await;
        typed(patched.unwrap_or_else(|why| panic!("{} {name} was not changed: {why}", K::kind(&()))))
    }

    /// Deletes an object.
    ///
    /// # Panics
    /// If that is refused.
    pub async fn delete<K: Kind>(&self, name: &str) {
        let deleted = self.api::<K>().delete(name, &DeleteParams::default()).await;
        deleted.unwrap_or_else(|why| panic!("{} {name} was not deleted: {why}", K::kind(&())));
    }

    /// A pod goes at once, without a goodbye.
    ///
    /// # Panics
    /// If there is no such pod.
    pub async fn lose_pod(&self, name: &str) {
        let deleted = self.api::<Pod>().delete(name, &DeleteParams::default().grace_period(0)).await;
        deleted.unwrap_or_else(|why| panic!("pod {name} was not lost: {why}"));
    }

    /// Runs an operator in the cluster until the answer is dropped.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn run(&self, operator: Operator) -> Running {
        let options = Options {
            clock: Clock::starting_at(self.cluster.clock().now()),
            entropy: Entropy::seeded(2),
            ..Options::default()
        };
        let mut running = operator.start(self.client(), options);
        running.working().await.unwrap_or_else(|why| panic!("the operator does not work: {why}"));
        running
    }

    /// Waits until something is so.
    ///
    /// # Panics
    /// If it is not so within half an hour of the cluster's time, with what the cluster looks like.
    pub async fn eventually<F: AsyncFnMut(&Self) -> bool>(&self, what: &str, mut holds: F) {
        let (mut waited, mut pause) = (Duration::ZERO, FIRST_LOOK);
        while waited < PATIENCE {
            if holds(self).await {
                return;
            }
            sleep(pause).await;
            waited += pause;
            pause = (waited / 20).max(FIRST_LOOK);
        }
        panic!("not within {PATIENCE:?}: {what}\n\n{}", self.describe().await);
    }

    /// Lets time pass.
    pub async fn advance(&self, time: Duration) {
        sleep(time).await;
    }

    /// Waits until nothing is written for a while: everything has come to rest.
    ///
    /// # Panics
    /// If it does not within half an hour of the cluster's time, with what the cluster looks like.
    pub async fn quiet(&self) {
        let mut waited = Duration::ZERO;
        while waited < PATIENCE {
            let before = self.server().revision();
            sleep(QUIET).await;
            if self.server().revision() == before {
                return;
            }
            waited += QUIET;
        }
        panic!("no rest within {PATIENCE:?}\n\n{}", self.describe().await);
    }

    /// What the pods and the events of the cluster are, in words.
    pub async fn describe(&self) -> String {
        let mut text = String::from("pods:\n");
        let pods = Api::<Pod>::all(self.client()).list(&ListParams::default()).await;
        for pod in pods.iter().flatten() {
            let status = pod.status.clone().unwrap_or_default();
            let states: Vec<String> = status
                .container_statuses
                .iter()
                .flatten()
                .map(|container| {
                    let state = serde_json::to_string(&container.state).unwrap_or_default();
                    format!("{} restarts={} {state}", container.name, container.restart_count)
                })
                .collect();
            let (name, phase) = (pod.name_any(), status.phase.unwrap_or_default());
            let _ = writeln!(
                text,
                "  {}/{name} {phase} {}",
                pod.namespace().unwrap_or_default(),
                states.join(", ")
            );
        }
        text.push_str("events:\n");
        let events = Api::<Event>::all(self.client()).list(&ListParams::default()).await;
        for event in events.iter().flatten() {
            let about = event.regarding.clone().unwrap_or_default();
            let _ = writeln!(
                text,
                "  {} {} {} {}: {}",
                event.type_.as_deref().unwrap_or_default(),
                about.kind.unwrap_or_default(),
                about.name.unwrap_or_default(),
                event.reason.as_deref().unwrap_or_default(),
                event.note.as_deref().unwrap_or_default(),
            );
        }
        text
    }

    async fn dynamic(&self, object: &DynamicObject) -> Api<DynamicObject> {
        let TypeMeta { api_version, kind } = object.types.clone().unwrap_or_default();
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let gvk = GroupVersionKind::gvk(group, version, &kind);
        let found = discovery::pinned_kind(&self.client(), &gvk).await;
        let (resource, capabilities): (ApiResource, _) =
            found.unwrap_or_else(|why| panic!("the cluster has no {kind} of {api_version}: {why}"));
        match capabilities.scope {
            discovery::Scope::Cluster => Api::all_with(self.client(), &resource),
            discovery::Scope::Namespaced => {
                let namespace = object.namespace().unwrap_or_else(|| self.namespace.clone());
                Api::namespaced_with(self.client(), &namespace, &resource)
            }
        }
    }
}

/// An object as its type.
#[allow(clippy::panic, reason = "a test says what is wrong by panicking")]
fn typed<K: Kind>(object: DynamicObject) -> K {
    object.try_parse().unwrap_or_else(|why| panic!("this is no {}: {why}", K::kind(&())))
}

/// YAML that is indented as a whole, as in the source of a test.
fn unindented(yaml: &str) -> String {
    let lines = || yaml.lines().filter(|line| !line.trim().is_empty());
    let indent = lines().map(|line| line.len() - line.trim_start().len()).min().unwrap_or(0);
    yaml.lines().map(|line| line.get(indent..).unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// Pauses tokio's time, if that is possible and it runs.
fn pause_time() {
    if Handle::current().runtime_flavor() != RuntimeFlavor::CurrentThread {
        return;
    }
    let before = tokio::time::Instant::now();
    #[allow(clippy::disallowed_methods, reason = "only whether time runs is asked")]
    let machine = std::time::Instant::now();
    while machine.elapsed() < Duration::from_micros(2) {}
    if tokio::time::Instant::now() != before {
        tokio::time::pause();
    }
}
