//! One run: a cluster, an operator, and a user who goes through a scenario, with or without faults.

use std::{sync::Arc, time::Duration};

use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams},
};
use kubewright::{Options, Running, clock::Clock, entropy::Entropy};
use kubewright_apiserver::auth::UserInfo;
use kubewright_cluster::{TestCluster, nodes::Script};
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use crate::{
    branch::Brancher,
    logs::Logs,
    oracle::{Oracle, Violation},
    plan::Planned,
    scenario::{NEVER_READY, Step, asking},
    secrets,
    state::{Difference, Noise, Reader, State, resource_id},
    subject::Subject,
    trace::{Entry, What, digest},
    wire::{Expected, Others, Setting, Wire},
    world::World,
};

/// How long an operator may take to come to rest, in virtual time.
const PATIENCE: Duration = Duration::from_secs(10 * 60);
/// How long nothing must happen for an undisturbed run to have come to rest.
const REST: Duration = Duration::from_secs(15);
/// How soon is looked again whether a disturbed run has come to where it should.
const LOOK: Duration = Duration::from_secs(1);
/// How long nothing may be written once all is well, and how long after a resync and a restart.
const QUIET: Duration = Duration::from_secs(60);
const AFTERWARDS: Duration = Duration::from_secs(5);
/// How soon an operator is started again.
const RESTART: Duration = Duration::from_secs(1);
/// How often a user tries again what was refused.
const TRIES: usize = 60;

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
    pub(crate) brancher: Option<Brancher>,
}

impl Outcome {
    /// Stands for everything that happened.
    pub(crate) fn digest(&self) -> u64 {
        let happened = self.trace.iter().filter(|entry| entry.what != What::Log);
        let text: String = happened.map(|entry| format!("{entry} {}\n", entry.digest)).collect();
        digest(&[text.as_bytes()])
    }
}

/// Runs on a runtime of its own, with time that takes no time.
pub(crate) fn run(subject: &Subject, attempt: Attempt) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O needs nothing of the system");
    let local = runtime.block_on(drive(subject, attempt));
    runtime.shutdown_background();
    local
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
    let cluster = Arc::new(TestCluster::with(|builder| builder.seed(attempt.seed)).await);
    cluster.script(NEVER_READY, Script::default().never_ready());
    let operator = (subject.operator)();
    cluster.install(&operator).await;
    let namespace = format!("{}-system", operator.name());
    let wire = Wire::new(Setting {
        server: cluster.server().clone(),
        user: UserInfo::service_account(&namespace, operator.name()),
        admin: cluster.client(),
        primary: subject.resource_name(),
        others: Box::new(Nodes(cluster.clone())),
        plan: attempt.plan,
        expected: attempt.expected.clone(),
        brancher: attempt.brancher,
        oracles: subject.oracles.clone(),
        demands: subject.demands.clone(),
    });
    if attempt.logs {
        logs.tell(wire.clone());
    }
    let operator = Supervisor::start(subject, &cluster, &wire, attempt.seed);
    let mut reader = Reader::new(attempt.noise);
    operator.is_working().await;
    sleep(LOOK).await;
    reader.since = cluster.server().revision();
    let resource = subject.api(cluster.client());
    let expected = attempt.expected;
    let mut run =
        Run { cluster, wire, reader, operator, resource, subject, expected, logs, states: Vec::new() };
    run.wire.arm();
    let refused = run.scenario(&attempt.steps, attempt.rests_often).await;
    let mut state = run.wire.state();
    let expected = Expected {
        states: std::mem::take(&mut run.states),
        deleted: std::mem::take(&mut state.deleted),
        touched: std::mem::take(&mut state.touched),
        calls: state.trace.len(),
    };
    let (trace, violations) = (std::mem::take(&mut state.trace), state.violations());
    let sometimes = state.sometimes.iter().copied().collect();
    let brancher = state.take_brancher();
    drop(state);
    let struck = run.wire.struck();
    run.operator.end();
    Outcome { trace, expected, violations, struck, sometimes, refused, brancher }
}

impl Run<'_> {
    /// Goes through the scenario; the step that is refused, and why.
    async fn scenario(&mut self, steps: &[Step], rests_often: bool) -> Option<(String, String)> {
        for (at, step) in steps.iter().enumerate() {
            let what = match &step.spec {
                Some(spec) => format!("{}: spec is {spec}", step.name),
                None => format!("{}: deletes {}", step.name, self.subject.name()),
            };
            self.wire.step(&step.name, &what);
            if let Err(why) = self.take(step).await {
                return Some((step.name.clone(), why));
            }
            self.wire.stepped();
            if !self.rest(at).await {
                return None;
            }
            self.wire.recovered();
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
        last.is_some_and(|last| at > last)
    }

    /// What the user does. What is refused is tried again: the operator may be what refuses it, and be dead.
    async fn take(&self, step: &Step) -> Result<(), String> {
        let mut refused = String::new();
        for _ in 0..TRIES {
            let answer = match &step.spec {
                Some(spec) => {
                    let object = asking(&self.subject.sample, spec);
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

    fn read(&mut self) -> State {
        self.reader.read(&self.cluster.server().snapshot())
    }

    /// Waits until the step has come to its end; whether it has.
    async fn rest(&mut self, at: usize) -> bool {
        let expected = self.expected.clone();
        let state = match expected.as_ref().and_then(|expected| expected.states.get(at)) {
            Some(wanted) => self.arrive(wanted, at).await,
            None => self.come_to_rest().await,
        };
        let Some(state) = state else { return false };
        self.look(&state, at);
        self.states.push(state);
        true
    }

    /// Waits until nothing happens any more.
    async fn come_to_rest(&mut self) -> Option<State> {
        let began = Instant::now();
        loop {
            let before = self.read();
            let writes = self.wire.state().writes.len();
            sleep(REST).await;
            let after = self.read();
            if self.wire.state().writes.len() == writes && before == after {
                return Some(after);
            }
            if began.elapsed() > PATIENCE {
                let last = self.wire.state().writes.last().cloned().unwrap_or_default();
                self.violate(
                    Oracle::Converges,
                    format!("no rest within {PATIENCE:?}, the last write is: {last}"),
                );
                return None;
            }
        }
    }

    /// Waits until everything is as in the undisturbed run.
    async fn arrive(&mut self, wanted: &State, at: usize) -> Option<State> {
        let began = Instant::now();
        let mut pause = LOOK;
        loop {
            sleep(pause).await;
            let state = self.read();
            let is_left_alone = self.wire.is_left_alone();
            let difference = state.difference_to(wanted, |_| true);
            if difference.is_none() && is_left_alone {
                return Some(state);
            }
            // What is held back until the next change can't be waited for.
            if self.wire.holds_back() && began.elapsed() > QUIET {
                return Some(state);
            }
            if began.elapsed() > PATIENCE + Duration::from_secs(60 * 60)
                || is_left_alone && began.elapsed() > PATIENCE
            {
                if let Some(difference) = difference {
                    self.accuse(at, &difference).await;
                }
                return None;
            }
            pause = (began.elapsed() / 10).max(LOOK);
        }
    }

    /// Says which oracle it is that does not hold.
    async fn accuse(&mut self, at: usize, difference: &Difference) {
        let before = (self.wire.state().writes.len(), self.operator.failures().await);
        sleep(PATIENCE).await;
        let step = self.step_name(at);
        let is_restless = (self.wire.state().writes.len(), self.operator.failures().await) != before;
        let oracle = match difference {
            _ if is_restless => Oracle::Converges,
            Difference::TooMuch { .. } => Oracle::Leaks,
            _ => Oracle::EndState,
        };
        let so = if is_restless { ", and the operator still tries" } else { "" };
        self.violate(oracle, format!("at the end of step `{step}`, {difference}{so}"));
    }

    fn step_name(&self, at: usize) -> String {
        self.wire.state().step_name(at + 1)
    }

    fn violate(&self, oracle: Oracle, seen: String) {
        if self.subject.oracles.contains(&oracle) {
            self.wire.state().violate(oracle, seen);
        }
    }

    /// What must hold at the end of every step.
    fn look(&mut self, state: &State, at: usize) {
        self.wire.observe();
        let demands = &self.subject.demands;
        let world = World::new(self.cluster.server().snapshot(), &demands.namespace);
        if let Some(demand) = demands.eventually.iter().find(|demand| !(demand.holds)(&world)) {
            let step = self.step_name(at);
            self.violate(Oracle::Eventually, format!("not at the end of step `{step}`: {}", demand.name));
        }
        if let Some(told) = secrets::told(&self.cluster.server().snapshot(), self.reader.since, &self.logs) {
            self.violate(Oracle::Rights, told);
        }
        let is_gone = self.subject.is_deleted_at_end(state);
        if is_gone {
            let touched = self.wire.state().touched.clone();
            let left = state.objects().map(|(key, _)| key.to_owned()).find(|key| touched.contains(key));
            if let Some(left) = left {
                let step = self.step_name(at);
                self.violate(Oracle::Leaks, format!("at the end of step `{step}`, {left} is left"));
            }
        }
    }

    /// Whether the operator stays at rest: with time, at a resync, and after a restart.
    async fn verify(&mut self) {
        for (what, time) in
            [("with time", QUIET), ("at a resync", AFTERWARDS), ("after a restart", AFTERWARDS)]
        {
            match what {
                "at a resync" => self.operator.resync(),
                "after a restart" => self.operator.restart().await,
                _ => {}
            }
            let before = self.wire.state().writes.len();
            sleep(time).await;
            let written = self.wire.state().writes.get(before).cloned();
            if let Some(written) = written {
                self.violate(
                    Oracle::Converges,
                    format!("all was well, but {what} the operator wrote: {written}"),
                );
                return;
            }
        }
        let (state, at) = (self.read(), self.states.len() - 1);
        if let Some(difference) = state.difference_to(&self.states[at], |_| true) {
            let step = self.step_name(at);
            self.violate(
                Oracle::EndState,
                format!("all was well after step `{step}`, but then {difference}"),
            );
        }
    }
}

/// Keeps the operator running: what dies is started again.
struct Supervisor {
    task: JoinHandle<()>,
    orders: mpsc::UnboundedSender<Order>,
    working: watch::Receiver<u64>,
}

enum Order {
    Resync,
    /// How many reconciles have failed.
    Failures(oneshot::Sender<f64>),
    Restart,
}

impl Supervisor {
    fn start(subject: &Subject, cluster: &Arc<TestCluster>, wire: &Wire, seed: u64) -> Self {
        let (orders, mut taken) = mpsc::unbounded_channel();
        let (tell, working) = watch::channel(0);
        let (make, cluster, wire) = (subject.operator.clone(), cluster.clone(), wire.clone());
        let task = tokio::spawn(async move {
            for start in 1.. {
                let operator = make();
                let (namespace, service) =
                    (format!("{}-system", operator.name()), operator.webhook_service());
                let options = Options {
                    clock: Clock::starting_at(cluster.clock().now()),
                    entropy: Entropy::seeded(seed ^ start),
                    ..Options::default()
                };
                let mut running = operator.start(wire.connect(&namespace), options);
                cluster.lead_service(&namespace, &service, running.webhooks());
                tokio::select! {
                    biased;
                    () = wire.crashed() => {}
                    () = serve(&mut running, &mut taken, &tell, start) => {}
                }
                drop(running);
                sleep(RESTART).await;
            }
        });
        Self { task, orders, working }
    }

    /// Waits until the operator works.
    async fn is_working(&self) {
        let _ = self.working.clone().wait_for(|starts| *starts > 0).await;
    }

    fn resync(&self) {
        let _ = self.orders.send(Order::Resync);
    }

    /// How many reconciles of this start have failed; as many as there are if it does not work.
    async fn failures(&self) -> f64 {
        let (ask, answer) = oneshot::channel();
        let _ = self.orders.send(Order::Failures(ask));
        timeout(RESTART, answer).await.ok().and_then(Result::ok).unwrap_or(f64::INFINITY)
    }

    async fn restart(&mut self) {
        let starts = *self.working.borrow();
        let _ = self.orders.send(Order::Restart);
        let _ = self.working.wait_for(|now| *now > starts).await;
    }

    fn end(self) {
        self.task.abort();
    }
}

/// How many reconciles have failed, by the metrics.
fn failures(metrics: &str) -> f64 {
    let lines = metrics.lines().filter(|line| line.starts_with("controller_runtime_reconcile_errors_total"));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// Until the operator ends, or is to be started again.
async fn serve(
    running: &mut Running,
    orders: &mut mpsc::UnboundedReceiver<Order>,
    working: &watch::Sender<u64>,
    start: u64,
) {
    if running.working().await.is_err() {
        return;
    }
    running.trusted().await;
    working.send_replace(start);
    loop {
        tokio::select! {
            biased;
            order = orders.recv() => match order {
                Some(Order::Resync) => running.resync(),
                Some(Order::Failures(answer)) => drop(answer.send(failures(&running.metrics()))),
                Some(Order::Restart) | None => return,
            },
            _ = running.ended() => return,
        }
    }
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
