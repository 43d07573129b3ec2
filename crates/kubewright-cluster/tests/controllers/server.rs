//! Whichever cluster the tests run on: the embedded one, or, where `KUBEWRIGHT_SERVER` names it, any other that has
//! the built-in controllers, but neither nodes nor a scheduler.
//!
//! In the embedded cluster time is paused, and waiting takes none. Any other is shared by all tests, each with a
//! namespace of its own, and time is real there. This process is its nodes; what containers do is up to each test in
//! its namespace.

use std::{
    collections::BTreeMap,
    env,
    sync::{Arc, OnceLock, mpsc},
    thread,
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::api::{
    core::v1::{ConfigMap, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod},
    storage::v1::StorageClass,
};
use kube::{
    Api, Client, Config, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use kubewright::{Context, Controller, Next, Operator, Reconciler, Result};
use kubewright_cluster::{
    TestCluster,
    nodes::{LogLine, Run, Runtime, Sight, Simulated},
};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const NODES: usize = 3;
const PROVISIONER: &str = "kubewright.dev/simulated";

fn url() -> Option<String> {
    env::var("KUBEWRIGHT_SERVER").ok()
}

/// Whether the tests run on the embedded cluster.
pub fn is_embedded() -> bool {
    url().is_none()
}

/// Whether a test is left out because the cluster is not the embedded one. The comparison of both reads why.
pub fn is_left_out(why: &str) -> bool {
    if !is_embedded() {
        println!("only on the embedded server: {why}");
    }
    !is_embedded()
}

/// A cluster for a test, with one node, or with three if it is not the embedded one.
pub async fn start() -> TestCluster {
    start_with(1).await
}

/// A cluster for a test that needs three nodes.
pub async fn start_with_three_nodes() -> TestCluster {
    start_with(NODES).await
}

/// A cluster, and a namespace that the test may delete.
pub async fn start_with_namespace() -> (TestCluster, String) {
    let cluster = start().await;
    if !is_embedded() {
        let own = cluster.namespace().to_owned();
        return (cluster, own);
    }
    cluster.apply("{apiVersion: v1, kind: Namespace, metadata: {name: shop}}").await;
    (cluster, "shop".to_owned())
}

/// A cluster in which there is no volume but those that were made for the claims of other tests.
pub async fn start_without_volumes() -> TestCluster {
    let cluster = start().await;
    let volumes = cluster.list::<PersistentVolume>().await.into_iter().map(|volume| volume.name_any());
    let api: Api<PersistentVolume> = Api::all(cluster.client());
    for name in volumes.filter(|name| !name.starts_with("pvc-")) {
        // One that is on its way already may be gone at any time.
        let released = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        let _ = api.delete(&name, &DeleteParams::default()).await;
        let _ = api.patch(&name, &PatchParams::default(), &released).await;
    }
    cluster
}

async fn start_with(nodes: usize) -> TestCluster {
    if is_embedded() {
        return TestCluster::with(|builder| builder.nodes(nodes)).await;
    }
    let namespaces: Api<Namespace> = Api::all(connect("default"));
    let namespace = object(json!({"metadata": {"generateName": "test-"}}));
    let namespace = namespaces.create(&PostParams::default(), &namespace).await.unwrap().name_any();
    let simulated = Simulated::default();
    simulations().0.lock().insert(namespace.clone(), simulated.clone());
    let cluster = TestCluster::elsewhere(connect(&namespace), simulated);
    let is_furnished =
        async |cluster: &TestCluster| cluster.find::<ConfigMap>("kube-root-ca.crt").await.is_some();
    cluster.eventually("the namespace is furnished", is_furnished).await;
    cluster
}

/// A client of the administrator of the server that is named, whose certificate is taken as it is.
fn connect(namespace: &str) -> Client {
    let mut config = Config::new(url().unwrap().parse().unwrap());
    config.accept_invalid_certs = true;
    config.default_retry = false; // A refusal is an answer.
    config.auth_info.token = Some(env::var("KUBEWRIGHT_TOKEN").unwrap_or_default().into());
    namespace.clone_into(&mut config.default_namespace);
    Client::try_from(config).unwrap()
}

fn object<K: DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).unwrap()
}

/// What containers do, by the namespaces of their pods.
#[derive(Clone, Default)]
struct Simulations(Arc<Mutex<BTreeMap<String, Simulated>>>);

impl Simulations {
    fn of(&self, pod: &Pod) -> Simulated {
        self.0.lock().entry(pod.namespace().unwrap()).or_default().clone()
    }
}

impl Runtime for Simulations {
    fn run(&self, run: &Run<'_>, now: Timestamp) -> Sight {
        self.of(run.pod).run(run, now)
    }

    fn stop(&self, run: &Run<'_>, since: Timestamp, grace: Duration, now: Timestamp) -> Sight {
        self.of(run.pod).stop(run, since, grace, now)
    }

    fn logs(&self, run: &Run<'_>, now: Timestamp) -> Vec<LogLine> {
        self.of(run.pod).logs(run, now)
    }
}

/// The simulations behind the nodes, which are started by whoever asks first and outlive every test.
fn simulations() -> &'static Simulations {
    static SIMULATIONS: OnceLock<Simulations> = OnceLock::new();
    SIMULATIONS.get_or_init(|| {
        let simulations = Simulations::default();
        let (runtime, (working, is_working)) = (simulations.clone(), mpsc::channel());
        thread::spawn(move || {
            let threads =
                tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            threads.block_on(async {
                let client = connect("default");
                let provisioner = Controller::of_existing::<PersistentVolumeClaim>()
                    .reads::<PersistentVolume>()
                    .run(Provisioner);
                let operator = Operator::new("nodes").controller(provisioner);
                let mut running = TestCluster::run_nodes(client.clone(), NODES, runtime, operator).await;
                make_room(&client).await;
                working.send(()).unwrap();
                running.ended().await.unwrap();
            });
        });
        is_working.recv().unwrap();
        simulations
    })
}

/// Makes the nodes large enough for the pods of all tests, and puts the default class in place.
async fn make_room(client: &Client) {
    let nodes: Api<Node> = Api::all(client.clone());
    for number in 1..=NODES {
        let room = json!({"status": {"allocatable": {"cpu": "1000", "pods": "200"}}});
        let name = format!("node-{number}");
        nodes.patch_status(&name, &PatchParams::default(), &Patch::Merge(room)).await.unwrap();
    }
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {
            "name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": PROVISIONER,
    });
    let classes: Api<StorageClass> = Api::all(client.clone());
    classes.patch("standard", &PatchParams::apply("test"), &Patch::Apply(class)).await.unwrap();
}

/// Makes the volumes that the controllers ask for.
struct Provisioner;

impl Reconciler<PersistentVolumeClaim> for Provisioner {
    async fn reconcile(
        &self,
        claim: &PersistentVolumeClaim,
        cx: &Context<PersistentVolumeClaim>,
    ) -> Result<Next> {
        let asked = claim.annotations().get("volume.kubernetes.io/storage-provisioner");
        let spec = claim.spec.clone().unwrap();
        let name = format!("pvc-{}", claim.uid().unwrap());
        let is_made = spec.volume_name.is_some() || cx.get::<PersistentVolume>(&name)?.is_some();
        if is_made || asked.is_none_or(|asked| asked != PROVISIONER) {
            return Ok(Next::on_change());
        }
        let reference = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "uid": claim.uid(),
            "namespace": claim.namespace(), "name": claim.name_any(),
        });
        let volume = json!({
            "metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": PROVISIONER}},
            "spec": {
                "accessModes": spec.access_modes, "capacity": spec.resources.unwrap().requests,
                "claimRef": reference, "storageClassName": spec.storage_class_name,
                "csi": {"driver": "simulated.kubewright.dev", "volumeHandle": name},
            },
        });
        cx.create_free(object::<PersistentVolume>(volume)).await?;
        Ok(Next::on_change())
    }
}
