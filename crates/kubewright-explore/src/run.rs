//! One run: a cluster, an operator, and a user who goes through a scenario, with or without faults.

mod rest;

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DeleteParams, DynamicObject, ObjectMeta, Patch, PatchParams, PostParams},
};
use kubewright::{ManifestOptions, Operator, Part, external::Rehearsal};
use kubewright_apiserver::auth::UserInfo;
use kubewright_cluster::{Builder, TestCluster, nodes::Script};
use tokio::time::sleep;

use self::rest::Rest;
use crate::{
    branch::Brancher,
    logs::Logs,
    lookout::Lookout,
    oracle::{Oracle, Violation},
    plan::{Fault, Planned},
    scenario::{NEVER_READY, Step, asking},
    state::{Noise, OUTSIDE, Reader, State, resource_id, without_uids},
    subject::Subject,
    supervisor::Supervisor,
    trace::{Entry, What},
    wire::{Expected, Others, Setting, Wire},
};

/// How long an operator may take to come to rest, in virtual time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10 * 60);
/// How soon is looked again whether a disturbed run has come to where it should.
const LOOK: Duration = Duration::from_secs(1);
/// How soon a user tries again, and how long is waited after a resync and a restart.
const AFTERWARDS: Duration = Duration::from_secs(5);
/// How many nodes there are: what is lost with one is not made on another at once, as in a crowded cluster.
const NODES: usize = 1;
/// How often a user tries again what was refused.
const TRIES: usize = 60;
/// What the SDK says of a reconciler that panicked.
const PANICKED: &str = "the reconciler panicked";

/// What is to be run.
pub(crate) struct Attempt {
    pub(crate) steps: Arc<Vec<Step>>,
    pub(crate) plan: Vec<Planned>,
    pub(crate) seed: u64,
    pub(crate) noise: Arc<Noise>,
    /// What the undisturbed run came to, if that is known.
    pub(crate) expected: Option<Arc<Expected>>,
    pub(crate) brancher: Option<Brancher>,
    /// Whether the operator must stay at rest after every step, not only at the end.
    pub(crate) rests_often: bool,
    /// Whether its logs are part of the trace.
    pub(crate) logs: bool,
    /// Whether replicas elect a leader.
    pub(crate) elects: bool,
    /// Whether all revisions are others than usually.
    pub(crate) is_shifted: bool,
}

impl Attempt {
    /// One in which nothing goes wrong.
    pub(crate) fn undisturbed(steps: &Arc<Vec<Step>>, seed: u64, noise: &Arc<Noise>) -> Self {
        Self {
            steps: steps.clone(),
            plan: Vec::new(),
            seed,
            noise: noise.clone(),
            expected: None,
            brancher: None,
            rests_often: false,
            logs: false,
            elects: false,
            is_shifted: false,
        }
    }
}

/// What a run came to.
pub(crate) struct Outcome {
    pub(crate) trace: Vec<Entry>,
    pub(crate) expected: Expected,
    pub(crate) violations: Vec<Violation>,
    pub(crate) struck: Vec<Planned>,
    pub(crate) sometimes: Vec<usize>,
    /// The step that the cluster refused, and why.
    pub(crate) refused: Option<(String, String)>,
    /// How often each fault could have struck.
    pub(crate) chances: BTreeMap<Fault, usize>,
    pub(crate) brancher: Option<Brancher>,
    /// The moments of the run, as far as they can be told from others.
    pub(crate) passed: Vec<u64>,
    /// Whether it ended where it was known how it goes on.
    pub(crate) is_known: bool,
    /// Whether there was no end of calls.
    pub(crate) is_flooded: bool,
}

impl Outcome {
    /// What happened, apart from what was logged.
    fn happened(&self) -> impl Iterator<Item = &Entry> {
        self.trace.iter().filter(|entry| entry.what != What::Log)
    }

    /// How many things happened.
    pub(crate) fn length(&self) -> usize {
        self.happened().count()
    }

    /// Stands for the first things that happened.
    pub(crate) fn digest(&self, length: usize) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.happened().take(length).for_each(|entry| entry.hash(&mut hasher));
        hasher.finish()
    }
}

/// Runs on a runtime of its own, with time that takes no time.
pub(crate) fn run(subject: &Subject, attempt: Attempt) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O needs nothing of the system");
    let branches = attempt.brancher.is_some();
    let outcome = runtime.block_on(drive(subject, attempt));
    if branches {
        // The process ends, and nobody needs to tidy up before.
        std::mem::forget(runtime);
    }
    outcome
}

/// Has a pod made, so that the revisions and addresses of everything after it are others.
async fn shift(client: &Client) {
    let container =
        Container { name: "shift".to_owned(), image: Some("shift".to_owned()), ..Container::default() };
    let pod = Pod {
        metadata: ObjectMeta { name: Some("shift".to_owned()), ..ObjectMeta::default() },
        spec: Some(PodSpec { containers: vec![container], ..PodSpec::default() }),
        ..Pod::default()
    };
    // If it were not made, more would be compared than can be.
    let _ = Api::namespaced(client.clone(), "kube-public").create(&PostParams::default(), &pod).await;
}

struct Run<'a> {
    cluster: Arc<TestCluster>,
    wire: Wire,
    reader: Reader,
    operator: Supervisor,
    resource: Api<DynamicObject>,
    subject: &'a Subject,
    expected: Option<Arc<Expected>>,
    logs: Logs,
    states: Vec<State>,
    /// How many Deployments had missed their deadline when the last step came to its end.
    late: usize,
    rehearsal: Rehearsal,
    /// What was outside of the cluster before.
    outside: BTreeSet<String>,
    /// What was secret at the end of some step, with the name of its place.
    secrets: BTreeSet<(String, String)>,
    /// Whether it is known how it goes on.
    is_known: bool,
}

struct Nodes(Arc<TestCluster>);

impl Others for Nodes {
    fn lose_nodes(&self) {
        self.names().iter().for_each(|name| self.0.lose_node(name));
    }

    fn restore_nodes(&self) {
        self.names().iter().for_each(|name| self.0.restore_node(name));
    }
}

impl Nodes {
    fn names(&self) -> Vec<String> {
        let nodes = self.0.server().snapshot().collection(&resource_id("nodes"));
        nodes.range("", "").map(|node| node.name().to_owned()).collect()
    }
}

async fn drive(subject: &Subject, attempt: Attempt) -> Outcome {
    let logs = Logs::default();
    let _kept = logs.keep();
    let operator = (subject.operator)();
    let has_readers = reads_events(&operator);
    let set_up = |builder: Builder| builder.seed(attempt.seed).nodes(NODES).events(has_readers);
    let cluster = Arc::new(TestCluster::with(set_up).await);
    cluster.script(NEVER_READY, Script::default().never_ready());
    cluster.install(&operator).await;
    let namespace = format!("{}-system", operator.name());
    let wire = Wire::new(Setting {
        server: cluster.server().clone(),
        user: UserInfo::service_account(&namespace, operator.name()),
        admin: cluster.client(),
        primary: subject.resource_name(),
        others: Box::new(Nodes(cluster.clone())),
        plan: attempt.plan,
        noise: attempt.noise.clone(),
        expected: attempt.expected.clone(),
        brancher: attempt.brancher,
        oracles: subject.oracles.clone(),
        demands: subject.demands.clone(),
        unready: {
            let subject = subject.clone();
            Box::new(move |snapshot| subject.unready(snapshot))
        },
        elects: attempt.elects,
    });
    let rehearsal = Rehearsal::new(wire.clone());
    if attempt.logs {
        logs.tell(wire.clone());
    }
    if attempt.is_shifted {
        shift(&cluster.client()).await;
    }
    let operator = Supervisor::start(subject, &cluster, &wire, &rehearsal, attempt.seed, attempt.elects);
    let mut reader = Reader::new(attempt.noise, &namespace);
    if !operator.is_working().await {
        wire.state().violate(Oracle::Budget, format!("the operator does not work within {PATIENCE:?}"));
    }
    sleep(LOOK).await;
    reader.since = cluster.server().revision();
    let resource = subject.api(cluster.client());
    let expected = attempt.expected;
    let states = Vec::new();
    let outside = outside(&rehearsal).into_keys().collect();
    let mut lookout = Lookout {
        server: cluster.server().clone(),
        wire: wire.clone(),
        working: operator.at_work.clone(),
        rehearsal: rehearsal.clone(),
        remembers: (subject.operator)().remembers(),
        passed: Vec::new(),
        struck: 0,
    };
    let mut run = Run {
        cluster,
        wire,
        reader,
        operator,
        resource,
        subject,
        expected,
        logs,
        states,
        late: 0,
        rehearsal,
        outside,
        secrets: BTreeSet::new(),
        is_known: false,
    };
    run.wire.arm();
    let refused = run.scenario(&attempt.steps, attempt.rests_often, &mut lookout).await;
    if run.logs.contain(PANICKED) {
        run.violate(Oracle::Budget, "a reconciler panicked".to_owned());
    }
    let is_flooded = run.wire.is_flooded();
    let mut state = run.wire.state();
    let expected = Expected {
        states: std::mem::take(&mut run.states),
        deleted: std::mem::take(&mut state.deleted),
        touched: std::mem::take(&mut state.touched),
        smallest: std::mem::take(&mut state.smallest),
        renewed: std::mem::take(&mut state.renewed),
        calls: state.trace.len(),
        fresh: Vec::new(),
    };
    let (trace, mut violations) = (std::mem::take(&mut state.trace), state.violations());
    violations.retain(|violation| subject.oracles.contains(&violation.oracle));
    // Who asks the server itself has nobody else to ask, and what it tells is the present in Kubernetes. And whoever is not
    // answered any more can't come to where it should.
    let is_misled = state.struck.iter().any(|(planned, _)| planned.fault == Fault::StaleRead);
    if is_misled || is_flooded {
        violations.retain(|violation| !matches!(violation.oracle, Oracle::Leaks | Oracle::EndState));
    }
    let sometimes = state.sometimes.iter().copied().collect();
    let chances = std::mem::take(&mut state.chances);
    let brancher = state.take_brancher();
    drop(state);
    let (struck, passed, is_known) = (run.wire.struck(), lookout.passed, run.is_known);
    match &brancher {
        Some(_) => std::mem::forget(run),
        None => run.operator.end(),
    }
    Outcome {
        trace,
        expected,
        violations,
        struck,
        sometimes,
        refused,
        chances,
        brancher,
        passed,
        is_known,
        is_flooded,
    }
}

impl Run<'_> {
    /// Goes through the scenario; the step that is refused, and why.
    async fn scenario(
        &mut self,
        steps: &[Step],
        rests_often: bool,
        lookout: &mut Lookout,
    ) -> Option<(String, String)> {
        for (at, step) in steps.iter().enumerate() {
            let what = match &step.spec {
                Some(spec) => format!("{}: spec is {spec}", step.name),
                None => format!("{}: deletes {}", step.name, self.subject.name()),
            };
            if step.spec.is_some() {
                self.be_gone().await;
            }
            self.wire.step(&step.name, &what, at + 1 == steps.len());
            if let Err(why) = self.take(step).await {
                if self.expected.is_some() {
                    let seen = format!("step `{}` is refused, however often it is tried: {why}", step.name);
                    self.violate(Oracle::Converges, seen);
                }
                return Some((step.name.clone(), why));
            }
            self.wire.stepped();
            match self.rest(at, lookout).await {
                Rest::Reached => self.wire.recovered(),
                Rest::Known => {
                    self.is_known = true;
                    self.wire.recovered();
                    self.look_for_secrets();
                    return None;
                }
                Rest::Never => return None,
            }
            if rests_often {
                self.verify().await;
            }
            if self.is_done(at, steps) {
                break;
            }
        }
        self.verify().await;
        None
    }

    /// Whether a disturbed run has been followed far enough: through the step in which it was disturbed last, and the
    /// next one. Then it is where the undisturbed one was, and goes the same way.
    fn is_done(&self, at: usize, steps: &[Step]) -> bool {
        if self.expected.is_none() || self.wire.holds_back() {
            return false;
        }
        let struck = self.wire.struck();
        let last =
            struck.iter().filter_map(|one| steps.iter().position(|step| step.name == one.point.step)).max();
        // One that was started anew has nothing in mind of what went wrong.
        let is_forgotten = struck.iter().all(|one| one.fault.restarts());
        last.is_some_and(|last| at > last || at == last && is_forgotten)
    }

    /// What the user does. What is refused is tried again: the operator may be what refuses it, and be dead.
    async fn take(&self, step: &Step) -> Result<(), String> {
        let mut refused = String::new();
        for _ in 0..TRIES {
            let answer = match &step.spec {
                Some(spec) => {
                    let object = asking(&self.subject.sample, spec, &step.labels);
                    let parameters = PatchParams::apply("user").force();
                    self.resource
                        .patch(&object.name_any(), &parameters, &Patch::Apply(&object))
                        .await
                        .map(|_| ())
                }
                None => self.resource.delete(self.subject.name(), &DeleteParams::default()).await.map(|_| ()),
            };
            match answer {
                Ok(()) => return Ok(()),
                Err(kube::Error::Api(status)) if step.spec.is_none() && status.code == 404 => return Ok(()),
                Err(why) => refused = why.to_string(),
            }
            // It is said once more only where something may have changed.
            if self.wire.struck().is_empty() {
                break;
            }
            sleep(AFTERWARDS).await;
        }
        Err(refused)
    }

    /// Nobody asks again for what is still going: waits until it is gone, if that does not take too long.
    async fn be_gone(&self) {
        for _ in 0..TRIES {
            if !self.is_going() {
                break;
            }
            self.wire.stepped();
            sleep(AFTERWARDS).await;
        }
    }

    /// Whether the resource is being deleted.
    fn is_going(&self) -> bool {
        let all = self.cluster.server().snapshot().collection(&resource_id(&self.subject.resource_name()));
        all.get(&self.subject.key()).is_some_and(|stored| {
            let resource: serde_json::Value = serde_json::from_slice(&stored.bytes).unwrap_or_default();
            resource["metadata"]["deletionTimestamp"].is_string()
        })
    }
}

/// Whether an operator may read events: what nobody reads need not be told.
fn reads_events(operator: &Operator) -> bool {
    let rights = ManifestOptions { only: [Part::Rbac].into(), ..ManifestOptions::default() };
    let roles = operator.manifests(&rights);
    let mut rules = roles.iter().flat_map(|role| role["rules"].as_array().into_iter().flatten());
    let has = |list: &serde_json::Value, names: &[&str]| {
        list.as_array().is_some_and(|all| all.iter().any(|one| names.iter().any(|name| one == name)))
    };
    rules.any(|rule| {
        has(&rule["resources"], &["events", "*"]) && has(&rule["verbs"], &["get", "list", "watch", "*"])
    })
}

/// What stand-ins keep, by names in which no UID shows.
fn outside(rehearsal: &Rehearsal) -> BTreeMap<String, serde_json::Value> {
    let all = rehearsal.keeps().into_iter();
    all.flat_map(|(system, kept)| {
        kept.into_iter()
            .map(move |(name, value)| (format!("{OUTSIDE}{system} {}", without_uids(&name)), value))
    })
    .collect()
}

impl Subject {
    /// The API of the resource, for its user.
    pub(crate) fn api(&self, client: Client) -> Api<DynamicObject> {
        let resource: &ApiResource = &self.resource;
        match &self.namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, resource),
            None => Api::all_with(client, resource),
        }
    }

    /// Whether the resource is gone.
    fn is_deleted_at_end(&self, state: &State) -> bool {
        state.get(&self.object_name()).is_none()
    }
}
