//! A cluster for a test: its own, in the process, with time that takes no time.

mod describe;
mod elsewhere;
mod operator;
mod table;

use std::{ops::Deref, time::Duration};

use k8s_openapi::{
    api::{
        apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet},
        batch::v1::{CronJob, Job},
        core::v1::{
            ConfigMap, Endpoints, PersistentVolumeClaim, Pod, ResourceQuota, Secret, Service, ServiceAccount,
        },
        discovery::v1::EndpointSlice,
        events::v1::Event,
        policy::v1::PodDisruptionBudget,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, TypeMeta},
    core::{GroupVersionKind, object::HasStatus},
    discovery,
};
use kubewright::{Kind, KindName, clock::Clock};
use serde_json::{Value, json};
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    time::sleep,
};

pub use self::operator::{Outage, TestOperator};
use self::table::Table;
use crate::{
    cluster::{Builder, Cluster},
    nodes::{Script, Simulated},
};

/// How long something may take, in the time of the cluster.
const PATIENCE: Duration = Duration::from_secs(30 * 60);
/// How long something may take where time is real.
const REAL_PATIENCE: Duration = Duration::from_secs(2 * 60);
/// How soon is looked again at first; then less and less often.
const FIRST_LOOK: Duration = Duration::from_millis(10);
/// How long nothing must be written for a cluster to count as quiet.
const QUIET: Duration = Duration::from_secs(3);
/// And where time is real, and others work, too.
const REAL_QUIET: Duration = Duration::from_secs(5);
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
    /// Nothing if the cluster is not in the process.
    cluster: Option<Cluster>,
    client: Client,
    clock: Clock,
    simulated: Simulated,
    namespace: String,
}

impl Deref for TestCluster {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        self.cluster.as_ref().expect("the cluster is in the process")
    }
}

#[allow(clippy::panic, reason = "a test says what is wrong by panicking")]
impl TestCluster {
    /// A cluster with one node. Pauses the time of a single-threaded runtime.
    ///
    /// Where `KUBEWRIGHT_SERVER` names the address of another cluster, and `KUBEWRIGHT_TOKEN` has the token of its
    /// administrator, it is a namespace there, and time is real: so tests are compared. That cluster has controllers,
    /// but no nodes.
    pub async fn start() -> Self {
        if elsewhere::is_wanted() {
            return elsewhere::start().await;
        }
        Self::with(|builder| builder).await
    }

    /// A cluster in the process that is set up in some way of its own.
    ///
    /// # Panics
    /// If the cluster does not start.
    pub async fn with(set_up: impl FnOnce(Builder) -> Builder) -> Self {
        pause_time();
        let simulated = Simulated::default();
        let origin = ORIGIN.parse().expect("it is a time");
        let builder = Cluster::builder().seed(1).starting_at(origin).runtime(simulated.clone());
        let cluster = set_up(builder).start().await.unwrap_or_else(|why| panic!("no cluster: {why}"));
        let (client, clock, namespace) = (cluster.client(), cluster.clock(), "default".to_owned());
        Self { cluster: Some(cluster), client, clock, simulated, namespace }
    }

    /// Whether the cluster is in the process, as it is unless `KUBEWRIGHT_SERVER` names another one.
    #[doc(hidden)]
    pub fn is_embedded() -> bool {
        !elsewhere::is_wanted()
    }

    /// Whether a test is left out because the cluster is not in the process. The comparison of both reads why.
    #[doc(hidden)]
    #[allow(clippy::print_stdout, reason = "it is read")]
    pub fn is_left_out(why: &str) -> bool {
        if !Self::is_embedded() {
            println!("only on the embedded server: {why}");
        }
        !Self::is_embedded()
    }

    /// A client of the administrator.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The time it is in the cluster.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// The namespace of the test.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    fn patience(&self) -> Duration {
        if self.cluster.is_some() { PATIENCE } else { REAL_PATIENCE }
    }

    /// The cluster after a restart of everything but the API server and what is stored there.
    ///
    /// # Panics
    /// If it does not stop or start.
    #[must_use]
    pub async fn restarted(self) -> Self {
        let Self { cluster, simulated, namespace, .. } = self;
        let cluster = cluster.expect("the cluster is in the process");
        let (server, services, now) = (cluster.server().clone(), cluster.services(), cluster.clock().now());
        cluster.stop().await.unwrap_or_else(|why| panic!("the cluster did not stop: {why}"));
        let builder = Cluster::builder().seed(2).starting_at(now).nodes(0).runtime(simulated.clone());
        let builder = builder.services(services);
        let cluster = builder.start_on(server).await.unwrap_or_else(|why| panic!("no cluster: {why}"));
        let (client, clock) = (cluster.client(), cluster.clock());
        Self { cluster: Some(cluster), client, clock, simulated, namespace }
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

    /// Applies one or more objects, given as YAML. Those without a namespace are in that of the test.
    ///
    /// # Panics
    /// If it is no YAML, the cluster does not know a kind, or refuses an object.
    pub async fn apply(&self, yaml: &str) {
        let objects: Vec<DynamicObject> = serde_saphyr::from_multiple(&unindented(yaml))
            .unwrap_or_else(|why| panic!("this is no YAML of objects: {why}\n{yaml}"));
        for object in objects {
            if let Err(why) = self.apply_one(&object).await {
                panic!("{} was not applied: {why}", object.name_any());
            }
        }
    }

    /// Applies an object that asks for something.
    ///
    /// # Panics
    /// If the cluster refuses it.
    pub async fn apply_spec<K: Kind>(&self, name: &str, spec: Value) {
        let applied = self.apply_one(&asking::<K>(name, spec)).await;
        applied.unwrap_or_else(|why| panic!("{name} was not applied: {why}"));
    }

    /// Why the cluster refuses an object that asks for something.
    ///
    /// # Panics
    /// If it takes it.
    pub async fn refusal<K: Kind>(&self, name: &str, spec: Value) -> String {
        match self.apply_one(&asking::<K>(name, spec)).await {
            Err(kube::Error::Api(status)) => status.message.clone(),
            Err(why) => panic!("this is no answer: {why}"),
            Ok(()) => panic!("{name} was not refused"),
        }
    }

    async fn apply_one(&self, object: &DynamicObject) -> kube::Result<()> {
        let parameters = PatchParams::apply("test").force();
        self.dynamic(object)
            .await
            .patch(&object.name_any(), &parameters, &Patch::Apply(object))
            .await
            .map(|_| ())
    }

    async fn delete_one(&self, object: &DynamicObject) -> kube::Result<()> {
        self.dynamic(object).await.delete(&object.name_any(), &DeleteParams::default()).await.map(|_| ())
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

    /// The status of an object; the default if it has none.
    ///
    /// # Panics
    /// If it is not there.
    pub async fn status<K: Kind + HasStatus<Status: Clone + Default>>(&self, name: &str) -> K::Status {
        self.get::<K>(name).await.status().cloned().unwrap_or_default()
    }

    /// The conditions of an object, one a line: `Available=True PodsAvailable: 3 of 3 pods are available`.
    ///
    /// # Panics
    /// If it is not there.
    pub async fn conditions<K: Kind>(&self, name: &str) -> String {
        let object = json!(self.get::<K>(name).await);
        let conditions = object["status"]["conditions"].as_array();
        let line = |one: &Value| {
            let text = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
            format!("{}={} {}: {}", text("type"), text("status"), text("reason"), text("message"))
        };
        conditions.into_iter().flatten().map(line).collect::<Vec<_>>().join("\n")
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
    pub async fn patch<K: Kind>(&self, name: &str, change: Value) -> K {
        let patched = self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(change)).await;
        typed(patched.unwrap_or_else(|why| panic!("{} {name} was not changed: {why}", K::kind(&()))))
    }

    /// Changes the status of an object by a merge patch.
    ///
    /// # Panics
    /// If that is refused.
    pub async fn patch_status<K: Kind>(&self, name: &str, status: Value) -> K {
        let change = Patch::Merge(json!({"status": status}));
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

    /// Waits until something is so.
    ///
    /// # Panics
    /// If it is not so within half an hour of the cluster's time, with what the cluster looks like.
    pub async fn eventually<F: AsyncFnMut(&Self) -> bool>(&self, what: &str, mut holds: F) {
        let (mut waited, mut pause) = (Duration::ZERO, FIRST_LOOK);
        while waited < self.patience() {
            if holds(self).await {
                return;
            }
            sleep(pause).await;
            waited += pause;
            pause = (waited / 20).max(FIRST_LOOK);
        }
        panic!("not within {:?}: {what}\n\n{}", self.patience(), self.describe().await);
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
        let quiet = if self.cluster.is_some() { QUIET } else { REAL_QUIET };
        let mut waited = Duration::ZERO;
        while waited < self.patience() {
            let before = self.state().await;
            sleep(quiet).await;
            if self.state().await == before && !self.awaits_nodes().await {
                return;
            }
            waited += quiet;
        }
        panic!("no rest within {:?}\n\n{}", self.patience(), self.describe().await);
    }

    /// Whether the nodes of a cluster elsewhere are too busy to have looked at every pod.
    async fn awaits_nodes(&self) -> bool {
        let is_judged = |pod: &Pod| {
            let status = pod.status.clone().unwrap_or_default();
            let mut conditions = status.conditions.into_iter().flatten();
            status.start_time.is_some()
                || conditions.any(|one| one.type_ == "PodScheduled" && one.status == "False")
        };
        self.cluster.is_none() && !self.list::<Pod>().await.iter().all(is_judged)
    }

    /// What changes with every write: to the cluster, or, of one elsewhere, to what tests look at in their namespace.
    async fn state(&self) -> Vec<String> {
        if let Some(cluster) = &self.cluster {
            return vec![cluster.server().revision().to_string()];
        }
        let mut state = Vec::new();
        for resource in watched() {
            let api: Api<DynamicObject> = Api::namespaced_with(self.client(), &self.namespace, &resource);
            let list = api.list_metadata(&ListParams::default()).await;
            let list = list.unwrap_or_else(|why| panic!("{} can't be listed: {why}", resource.plural));
            state.extend(list.iter().filter_map(|object| object.uid().zip(object.resource_version())));
        }
        state.into_iter().map(|(uid, version)| format!("{uid} {version}")).collect()
    }

    /// All objects of a kind as `kubectl get` prints them.
    ///
    /// # Panics
    /// If they can't be asked for.
    pub async fn table<K: Kind>(&self) -> String {
        const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let request = http::Request::get(self.api::<K>().resource_url()).header("accept", TABLE);
        let request = request.body(Vec::new()).expect("it is a request");
        let table: Table =
            self.client().request(request).await.unwrap_or_else(|why| panic!("no table: {why}"));
        table.printed()
    }

    /// The objects in the namespace of the test, of all kinds that come to rest and all that are defined, apart from
    /// events.
    ///
    /// # Panics
    /// If they can't be asked for.
    pub async fn objects(&self) -> Vec<DynamicObject> {
        let mut objects = Vec::new();
        let resources = watched().into_iter().filter(|resource| resource.kind != "Event");
        for resource in resources.chain(self.defined().await) {
            let api: Api<DynamicObject> = Api::namespaced_with(self.client(), &self.namespace, &resource);
            let list = api.list(&ListParams::default()).await;
            let list = list.unwrap_or_else(|why| panic!("{} can't be listed: {why}", resource.plural));
            let types = TypeMeta { api_version: resource.api_version, kind: resource.kind };
            objects.extend(
                list.into_iter().map(|object| DynamicObject { types: Some(types.clone()), ..object }),
            );
        }
        objects
    }

    /// The kinds in namespaces that are defined, each in the version in which its objects are stored.
    async fn defined(&self) -> Vec<ApiResource> {
        let api: Api<CustomResourceDefinition> = Api::all(self.client());
        let definitions = api.list(&ListParams::default()).await;
        let definitions = definitions.unwrap_or_else(|why| panic!("no definitions: {why}"));
        let resource = |CustomResourceDefinition { spec, .. }: CustomResourceDefinition| {
            let version = spec.versions.into_iter().find(|version| version.storage)?.name;
            let kind = GroupVersionKind::gvk(&spec.group, &version, &spec.names.kind);
            (spec.scope == "Namespaced").then(|| ApiResource::from_gvk_with_plural(&kind, &spec.names.plural))
        };
        definitions.into_iter().filter_map(resource).collect()
    }

    /// The objects of a kind in all namespaces, as far as they are this test's.
    fn everywhere<K>(&self) -> Api<K>
    where
        K: Kind + kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        match self.cluster {
            Some(_) => Api::all(self.client()),
            None => Api::namespaced(self.client(), &self.namespace),
        }
    }

    /// The API of an object's kind, where the object is.
    pub(crate) async fn dynamic(&self, object: &DynamicObject) -> Api<DynamicObject> {
        let (resource, scope) = self.discovered(object).await;
        match scope {
            discovery::Scope::Cluster => Api::all_with(self.client(), &resource),
            discovery::Scope::Namespaced => {
                let namespace = object.namespace().unwrap_or_else(|| self.namespace.clone());
                Api::namespaced_with(self.client(), &namespace, &resource)
            }
        }
    }

    /// The resource that an object is one of.
    pub(crate) async fn resource(&self, object: &DynamicObject) -> ApiResource {
        self.discovered(object).await.0
    }

    async fn discovered(&self, object: &DynamicObject) -> (ApiResource, discovery::Scope) {
        let TypeMeta { api_version, kind } = object.types.clone().unwrap_or_default();
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let gvk = GroupVersionKind::gvk(group, version, &kind);
        let found = discovery::pinned_kind(&self.client(), &gvk).await;
        let (resource, capabilities) =
            found.unwrap_or_else(|why| panic!("the cluster has no {kind} of {api_version}: {why}"));
        (resource, capabilities.scope)
    }
}

/// The kinds whose objects come to rest.
fn watched() -> [ApiResource; 18] {
    fn of<K: Kind>() -> ApiResource {
        ApiResource::erase::<K>(&())
    }
    [
        of::<ConfigMap>(),
        of::<ControllerRevision>(),
        of::<CronJob>(),
        of::<DaemonSet>(),
        of::<Deployment>(),
        of::<EndpointSlice>(),
        of::<Endpoints>(),
        of::<Event>(),
        of::<Job>(),
        of::<PersistentVolumeClaim>(),
        of::<Pod>(),
        of::<PodDisruptionBudget>(),
        of::<ReplicaSet>(),
        of::<ResourceQuota>(),
        of::<Secret>(),
        of::<Service>(),
        of::<ServiceAccount>(),
        of::<StatefulSet>(),
    ]
}

/// An object of a kind that asks for something.
fn asking<K: Kind>(name: &str, spec: Value) -> DynamicObject {
    DynamicObject::new(name, &ApiResource::erase::<K>(&())).data(json!({"spec": spec}))
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
