//! A cluster that is not in the process, to see that tests hold there as they do here: where `KUBEWRIGHT_SERVER` names
//! one that has the built-in controllers, but neither nodes nor a scheduler, tests run there.
//!
//! It is shared by all tests, each with a namespace of its own, and time is real there. This process is its nodes; what
//! containers do is up to each test in its namespace.

#![allow(clippy::unwrap_used, reason = "a test that can't go on says so by panicking")]

use std::{
    collections::BTreeMap,
    env,
    sync::{Arc, OnceLock, mpsc},
    thread,
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::api::{
    authentication::v1::TokenRequest,
    core::v1::{ConfigMap, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, ServiceAccount},
    storage::v1::StorageClass,
};
use kube::{
    Api, Client, Config, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use kubewright::{Context, Controller, Next, Operator, Options, Reconciler, Result, Running, clock::Clock};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::TestCluster;
use crate::{
    nodes::{self, LogLine, Run, Runtime, Sight, Simulated},
    scheduler,
};

const NODES: usize = 3;
const PROVISIONER: &str = "kubewright.dev/simulated";

/// Whether tests run somewhere else.
pub(super) fn is_wanted() -> bool {
    env::var_os("KUBEWRIGHT_SERVER").is_some()
}

/// A namespace of the cluster that is named.
pub(super) async fn start() -> TestCluster {
    let namespaces: Api<Namespace> = Api::all(connect(None, "default"));
    let namespace = object(json!({"metadata": {"generateName": "test-"}}));
    let namespace = namespaces.create(&PostParams::default(), &namespace).await.unwrap().name_any();
    let simulated = Simulated::default();
    simulations().0.lock().insert(namespace.clone(), simulated.clone());
    let client = connect(None, &namespace);
    let cluster = TestCluster { cluster: None, client, clock: Clock::system(), simulated, namespace };
    let is_furnished =
        async |cluster: &TestCluster| cluster.find::<ConfigMap>("kube-root-ca.crt").await.is_some();
    cluster.eventually("the namespace is furnished", is_furnished).await;
    cluster
}

/// A client of a service account.
pub(super) async fn client_of_service_account(client: Client, namespace: &str, name: &str) -> Client {
    let accounts: Api<ServiceAccount> = Api::namespaced(client, namespace);
    let request = TokenRequest::default();
    let token = accounts.create_token_request(name, &PostParams::default(), &request).await.unwrap();
    connect(token.status.and_then(|status| status.token), namespace)
}

/// A client of the server that is named, whose certificate is taken as it is; that of the administrator without a
/// token.
fn connect(token: Option<String>, namespace: &str) -> Client {
    let mut config = Config::new(env::var("KUBEWRIGHT_SERVER").unwrap().parse().unwrap());
    config.accept_invalid_certs = true;
    config.default_retry = false; // A refusal is an answer.
    let token = token.unwrap_or_else(|| env::var("KUBEWRIGHT_TOKEN").unwrap_or_default());
    config.auth_info.token = Some(token.into());
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
                let client = connect(None, "default");
                let provisioner = Controller::of_existing::<PersistentVolumeClaim>()
                    .reads::<PersistentVolume>()
                    .run(Provisioner);
                let operator = Operator::new("nodes").controller(provisioner);
                let mut running = run_nodes(client.clone(), runtime, operator).await;
                make_room(&client).await;
                working.send(()).unwrap();
                running.ended().await.unwrap();
            });
        });
        is_working.recv().unwrap();
        simulations
    })
}

/// Adds nodes and a scheduler to a cluster that has neither, and runs them with an operator.
async fn run_nodes(client: Client, runtime: impl Runtime, operator: Operator) -> Running {
    nodes::register(&client, NODES).await.unwrap();
    let lost = nodes::Lost::default();
    let operator = operator
        .controller(scheduler::controller())
        .controller(nodes::agent(lost.clone()))
        .controller(nodes::controller(Arc::new(runtime), lost));
    let mut running = operator.start(client, Options::default());
    running.working().await.unwrap();
    running
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
