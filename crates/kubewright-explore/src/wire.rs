//! The line between an operator and the server, on which everything goes wrong that goes wrong.
//!
//! Every call of the operator and every event that it is told of passes here. Each is a point at which a fault may
//! strike: one of the plan, or one for which the run is [branched](crate::branch).

mod asks;
mod deliveries;
mod judge;
mod line;
mod meddling;
mod rivals;
mod standing;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use kube::Client;
use kubewright_apiserver::{
    ApiServer,
    auth::UserInfo,
    store::{Snapshot, Stored},
};
use parking_lot::{Mutex, MutexGuard};
use tokio::{
    sync::Notify,
    time::{Instant, sleep, timeout},
};

use self::{deliveries::Watching, judge::Judge, line::Line, rivals::Former};
pub(crate) use self::{judge::Expected, rivals::identity};
use crate::{
    branch::{Brancher, Dice},
    call::Call,
    moment::Moments,
    oracle::{Oracle, Violation},
    plan::{Beginning, Fault, Planned, Point},
    readiness::{Unready, ready_workloads},
    state::{Noise, resource_id},
    subject::Demands,
    trace::{Entry, What},
    world::World,
};

/// How long it takes until the operator hears of what has happened: longer than a cluster takes for what it does at once,
/// and so long that who insists on something in vain for seconds makes no flood of calls.
pub(crate) const LATENCY: Duration = Duration::from_millis(20);
/// When a call counts as lost.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long it takes at least until what follows from a fault is to be seen.
const AFTERMATH: Duration = Duration::from_secs(1);
/// How late a delayed event is.
const LATE: Duration = Duration::from_secs(10);
/// How long an operator is down at most that waits for the next change.
const DOWN: Duration = Duration::from_secs(2 * 60);
/// How soon it has to be true that a resource is ready: who hears that it is not any more has to be able to say so.
const SOON: Duration = LATENCY.saturating_mul(5);
/// Where what befalls an operator that has come to rest does so.
const REST: &str = "all is at rest";
/// How long an operator sees an older view.
const OLD_VIEW: Duration = Duration::from_secs(10);

type BoxError = Box<dyn std::error::Error + Send + Sync>;
/// Tells what is not ready although the resource says so.
type Doubt = Box<dyn Fn(&Snapshot) -> Option<Unready> + Send + Sync>;

/// What happens to the cluster around a write, at the hands of others.
pub(crate) trait Others: Send + Sync {
    fn lose_nodes(&self);
    fn restore_nodes(&self);
}

/// The line of a run. Clones are the same one.
#[derive(Clone)]
pub(crate) struct Wire(Arc<Shared>);

struct Shared {
    server: ApiServer,
    user: UserInfo,
    admin: Client,
    /// Plural and group of the resource that the operator looks after.
    primary: String,
    others: Box<dyn Others>,
    judge: Judge,
    demands: Demands,
    unready: Doubt,
    /// Whether there is an election, which another replica may win.
    elects: bool,
    state: Mutex<State>,
    crashed: Notify,
    rivalled: Notify,
    changed: Notify,
    stirred: Arc<Notify>,
}

pub(crate) struct State {
    /// Which start of the operator is connected, and whether it is.
    epoch: u64,
    is_connected: bool,
    /// The replica that led before, if another leads meanwhile.
    former: Option<Former>,
    /// What goes wrong with the answers of calls that are under way outside of the cluster.
    asked: BTreeMap<String, Fault>,
    /// The faults that begin like the one that has struck: which of them it was is still open.
    open: Vec<Planned>,
    view: Option<View>,
    /// What was seen of the resource: the server after each change, and whether a fault had struck before.
    views: Vec<(ApiServer, bool)>,
    /// Tells what is stored from what was.
    moments: Moments,
    /// The watches that are open, by start of the operator, and how many there were.
    watching: BTreeMap<(u64, usize), Watching>,
    watched: usize,
    /// Something has happened on the line.
    stirred: Arc<Notify>,
    seen: Option<Sight>,
    counts: BTreeMap<String, u32>,
    /// How often each fault could have struck.
    pub(crate) chances: BTreeMap<Fault, usize>,
    plan: Vec<Planned>,
    pub(crate) struck: Vec<(Planned, Instant)>,
    brancher: Option<Brancher>,
    dice: Option<Dice>,
    /// Whether faults may strike.
    is_armed: bool,
    steps: Vec<String>,
    /// Whether no other step comes after this one.
    is_last: bool,
    began: Instant,
    pub(crate) trace: Vec<Entry>,
    /// What must not be, by the first sight of it.
    violations: BTreeMap<Oracle, String>,
    slow_until: Option<Instant>,
    /// Until when something is done to the operator, and until when that may be to be seen.
    acting_until: Instant,
    disturbed_until: Instant,
    /// How many events are held back until the next change.
    held: usize,
    /// How often the user has changed something.
    changes: usize,
    /// How often that was when the operator went down, if it stays down until the next change.
    down_since: Option<usize>,
    /// The calls that come to nothing for a while: until when, and how often they did since.
    outages: BTreeMap<String, Outage>,
    pauses: BTreeMap<String, Instant>,
    pub(crate) writes: Vec<String>,
    /// The generation for which the resource was last said to be ready, and when that was.
    claimed: Option<(i64, Instant)>,
    /// The generation for which it was in this step by an operator that could not know of it.
    claimed_blindly: Option<i64>,
    /// The UIDs of all workloads that were ready at some time.
    ready: BTreeSet<String>,
    /// The writes that came to nothing in this step, and were not done since.
    pub(crate) undone: BTreeSet<String>,
    /// The objects that the operator has written, apart from their status.
    pub(crate) touched: BTreeSet<String>,
    /// Those among them that were not there before.
    pub(crate) made: BTreeSet<String>,
    /// The objects that the operator has deleted, by step, and what was in them.
    pub(crate) deleted: BTreeMap<(usize, String), BTreeSet<u64>>,
    /// How small the operator has made what, by step.
    pub(crate) smallest: BTreeMap<(usize, String), f64>,
    /// Values made by chance that the operator has made anew, in an object that stayed.
    pub(crate) renewed: BTreeSet<String>,
    calls: usize,
    /// Those demands that are to be met at some time, and were.
    pub(crate) sometimes: BTreeSet<usize>,
}

/// A call that comes to nothing for a while.
struct Outage {
    fault: Fault,
    until: Instant,
    tries: usize,
}

/// What the operator sees instead of the present.
#[derive(Clone)]
struct View {
    server: ApiServer,
    /// Only this resource is old.
    only: Option<String>,
    until: Instant,
    /// Whether it is of the time before any fault.
    is_undisturbed: bool,
}

/// What of the resource tells whether it was changed: its UID and generation, and whether it is being deleted.
type Sight = (String, i64, bool, bool);

/// What a run on the line knows beforehand.
pub(crate) struct Setting {
    pub(crate) server: ApiServer,
    pub(crate) user: UserInfo,
    pub(crate) admin: Client,
    pub(crate) primary: String,
    pub(crate) others: Box<dyn Others>,
    pub(crate) plan: Vec<Planned>,
    pub(crate) noise: Arc<Noise>,
    pub(crate) expected: Option<Arc<Expected>>,
    pub(crate) brancher: Option<Brancher>,
    pub(crate) oracles: BTreeSet<Oracle>,
    pub(crate) demands: Demands,
    pub(crate) unready: Doubt,
    pub(crate) elects: bool,
}

impl Wire {
    pub(crate) fn new(setting: Setting) -> Self {
        let (now, stirred) = (Instant::now(), Arc::new(Notify::new()));
        let state = State {
            epoch: 0,
            is_connected: false,
            former: None,
            asked: BTreeMap::new(),
            open: Vec::new(),
            view: None,
            views: vec![(setting.server.fork(), false)],
            moments: Moments::default(),
            watching: BTreeMap::new(),
            watched: 0,
            stirred: stirred.clone(),
            seen: None,
            counts: BTreeMap::new(),
            chances: BTreeMap::new(),
            plan: setting.plan,
            struck: Vec::new(),
            brancher: setting.brancher,
            dice: None,
            is_armed: false,
            steps: vec!["start".to_owned()],
            is_last: false,
            began: now,
            trace: Vec::new(),
            violations: BTreeMap::new(),
            slow_until: None,
            acting_until: now,
            disturbed_until: now,
            held: 0,
            changes: 0,
            down_since: None,
            outages: BTreeMap::new(),
            pauses: BTreeMap::new(),
            writes: Vec::new(),
            claimed: None,
            claimed_blindly: None,
            ready: BTreeSet::new(),
            undone: BTreeSet::new(),
            touched: BTreeSet::new(),
            made: BTreeSet::new(),
            deleted: BTreeMap::new(),
            smallest: BTreeMap::new(),
            renewed: BTreeSet::new(),
            calls: 0,
            sometimes: BTreeSet::new(),
        };
        let judge = Judge {
            server: setting.server.clone(),
            primary: setting.primary.clone(),
            noise: setting.noise,
            expected: setting.expected,
            oracles: setting.oracles,
        };
        Self(Arc::new(Shared {
            server: setting.server,
            user: setting.user,
            admin: setting.admin,
            primary: setting.primary,
            others: setting.others,
            judge,
            demands: setting.demands,
            unready: setting.unready,
            elects: setting.elects,
            state: Mutex::new(state),
            crashed: Notify::new(),
            rivalled: Notify::new(),
            changed: Notify::new(),
            stirred,
        }))
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }

    /// A client for the next start of the operator: the one before has no connection any more.
    pub(crate) fn connect(&self, namespace: &str) -> Client {
        let mut state = self.state();
        state.epoch += 1;
        state.is_connected = true;
        let epoch = state.epoch;
        state.note(What::Operator, "the operator starts", 0, 0, None);
        drop(state);
        Client::new(Line { wire: self.clone(), epoch }, namespace)
    }

    /// The operator logs something.
    pub(crate) fn log(&self, line: &str) {
        // While the line is busy with itself, nothing is logged.
        if let Some(mut state) = self.0.state.try_lock() {
            state.note(What::Log, line, 0, 0, None);
        }
    }

    /// Waits until the operator has to die.
    pub(crate) async fn crashed(&self) {
        self.0.crashed.notified().await;
    }

    /// The operator dies, and is down until the next change.
    fn crash_past_change(&self) {
        let mut state = self.state();
        state.held += 1;
        state.down_since = Some(state.changes);
        drop(state);
        self.crash(None);
    }

    /// Waits until an operator that has died may be started again.
    pub(crate) async fn may_start(&self) {
        self.decide_on_view();
        let Some(since) = self.state().down_since else { return };
        // The change may have come while it was still dying.
        if self.state().changes == since {
            let _ = timeout(DOWN, self.0.changed.notified()).await;
        }
        sleep(AFTERMATH).await;
        let mut state = self.state();
        state.held -= 1;
        state.down_since = None;
        state.disturb(Duration::ZERO);
    }

    /// Looks whether the resource says that it is ready before it is, where nothing goes wrong.
    fn doubt_readiness(&self, call: &Call) {
        let is_said = |wire: &Self| (wire.0.unready)(&wire.0.server.snapshot());
        if self.0.judge.expected.is_some() || call.resource != self.0.primary {
            return;
        }
        let Some(unready) = is_said(self) else { return };
        let mut state = self.state();
        // What has never been ready can't have been seen to be.
        if !state.ready.contains(&unready.workload) {
            return state.violate(Oracle::Status, unready.seen);
        }
        drop(state);
        let wire = self.clone();
        tokio::spawn(async move {
            sleep(SOON).await;
            if let Some(unready) = is_said(&wire) {
                wire.state().violate(Oracle::Status, unready.seen);
            }
        });
    }

    /// Remembers what is ready, where readiness is judged.
    pub(crate) fn look_for_ready(&self) {
        if self.0.judge.expected.is_none() {
            let ready = ready_workloads(&self.0.server.snapshot());
            self.state().ready.extend(ready);
        }
    }

    /// From now on faults strike.
    pub(crate) fn arm(&self) {
        let mut state = self.state();
        state.is_armed = true;
        if let Some(brancher) = &state.brancher {
            brancher.begin();
        }
        state.dice = state.brancher.as_mut().and_then(Brancher::sow);
    }

    /// Nothing branches off any more once this run was disturbed and has recovered.
    pub(crate) fn recovered(&self) {
        let mut state = self.state();
        if !state.struck.is_empty()
            && let Some(brancher) = &mut state.brancher
        {
            brancher.close();
        }
    }

    /// From now on no fault strikes any more.
    pub(crate) fn disarm(&self) {
        self.state().is_armed = false;
    }

    /// The user begins a step, after which others may come.
    pub(crate) fn step(&self, name: &str, what: &str, is_last: bool) {
        let mut state = self.state();
        state.is_last = is_last;
        state.steps.push(name.to_owned());
        state.counts.clear();
        state.claimed_blindly = None;
        state.undone.clear();
        state.note(What::Step, what, 0, 0, None);
    }

    /// The user has changed the resource.
    pub(crate) fn stepped(&self) {
        self.state().changes += 1;
        self.0.changed.notify_waiters();
    }

    /// Whether what was done to the operator is over.
    pub(crate) fn is_left_alone(&self) -> bool {
        let state = self.state();
        state.disturbed_until <= Instant::now() && state.view.is_none()
    }

    /// Whether an event is held back that only the next change lets go.
    pub(crate) fn holds_back(&self) -> bool {
        self.state().held > 0
    }

    /// The steps in which faults have struck.
    pub(crate) fn struck(&self) -> Vec<Planned> {
        self.state().struck.iter().map(|(planned, _)| planned.clone()).collect()
    }

    /// Looks at what the author of the operator demands of every moment.
    pub(crate) fn observe(&self) {
        let demands = &self.0.demands;
        if demands.always.is_empty() && demands.sometimes.is_empty() {
            return;
        }
        let world = World::new(self.0.server.snapshot(), &demands.namespace);
        let broken = demands.always.iter().find(|demand| !(demand.holds)(&world));
        let met = demands.sometimes.iter().enumerate().filter(|(_, demand)| (demand.holds)(&world));
        let met: Vec<usize> = met.map(|(at, _)| at).collect();
        let mut state = self.state();
        state.sometimes.extend(met);
        if let Some(broken) = broken {
            state.violate(Oracle::Always, format!("not at every moment: {}", broken.name));
        }
    }

    /// The fault that strikes here, if one does.
    fn decide(&self, epoch: u64, call: &str, faults: &[Fault]) -> Option<Fault> {
        let mut state = self.state();
        if !state.is_armed || state.epoch != epoch {
            return None;
        }
        for fault in faults {
            *state.chances.entry(*fault).or_default() += 1;
        }
        let count = state.counts.entry(call.to_owned()).or_default();
        *count += 1;
        let step = state.steps.last().cloned().unwrap_or_default();
        let point = Point { step, call: call.to_owned(), occurrence: state.counts[call] };
        let planned = state.plan.iter().find(|planned| planned.point == point).cloned();
        let planned = match planned {
            Some(planned) => faults.contains(&planned.fault).then_some(planned),
            None => state.choose(&self.0.server, &point, faults),
        };
        let planned = planned?;
        state.struck.push((planned.clone(), Instant::now()));
        Some(planned.fault)
    }

    /// Nobody answers for so long that nobody waits for it any more.
    async fn time_out(&self) {
        self.state().disturb(TIMEOUT);
        sleep(TIMEOUT).await;
    }

    /// How the operator sees the past that it is to see after a fault.
    fn past(&self, fault: Fault, until: Instant) -> Option<View> {
        let (changes, only_resource) = fault.past()?;
        let (server, is_disturbed) = self.before(changes)?;
        let only = only_resource.then(|| self.0.primary.clone());
        Some(View { server, only, until, is_undisturbed: !is_disturbed })
    }

    /// An operator is restarted on what was before, if that is the fault.
    fn travel(&self, fault: Fault) -> bool {
        let Some(view) = self.past(fault, Instant::now() + OLD_VIEW) else { return false };
        self.state().disturb(OLD_VIEW);
        self.crash(Some(view));
        true
    }

    /// All has come to rest: whether something befalls the operator even so.
    pub(crate) fn strike_at_rest(&self) -> bool {
        let epoch = self.state().epoch;
        let may_befall = |fault: &Fault| self.past(*fault, Instant::now()).is_some();
        let faults: Vec<Fault> = Fault::OF_REST.into_iter().filter(may_befall).collect();
        let Some(fault) = self.decide(epoch, REST, &faults) else { return false };
        self.state().note(What::Operator, REST, 0, 0, Some(fault));
        self.travel(fault)
    }

    /// An operator that has died is to see the past: if it is open which one, it is decided now.
    fn decide_on_view(&self) {
        let struck = self.state().struck.last().map(|(planned, _)| planned.fault);
        let Some(fault) = struck.filter(|fault| fault.beginning() == Some(Beginning::Death)) else { return };
        let decided = self.state().decide_between(fault);
        let until = self.state().view.as_ref().map(|view| view.until);
        if decided != fault
            && let Some(view) = until.and_then(|until| self.past(decided, until))
        {
            self.state().view = Some(view);
        }
    }

    fn crash(&self, view: Option<View>) {
        let mut state = self.state();
        state.epoch += 1;
        state.is_connected = false;
        state.view = view;
        // Whoever is started anew knows of neither.
        state.undone.clear();
        state.pauses.clear();
        state.note(What::Operator, "the operator dies", 0, 0, None);
        drop(state);
        self.0.crashed.notify_one();
    }

    /// What the operator sees instead of the present.
    fn view_of(&self, call: &Call) -> Option<View> {
        let mut state = self.state();
        let view = state.view.clone()?;
        if view.until <= Instant::now() {
            state.view = None;
            return None;
        }
        view.only.as_ref().is_none_or(|only| *only == call.resource).then_some(view)
    }

    /// The server as it was some changes of the resource ago, and whether a fault had struck by then.
    fn before(&self, changes: usize) -> Option<(ApiServer, bool)> {
        let state = self.state();
        let at = state.views.len().checked_sub(changes + 1)?;
        state.views.get(at).cloned()
    }

    /// An object as it was before the operator was there, if it was.
    pub(crate) fn original(&self, resource: &str, key: &str) -> Option<Arc<Stored>> {
        let (server, _) = self.state().views.first()?.clone();
        server.snapshot().collection(&resource_id(resource)).get(key).cloned()
    }

    /// Whether there was no end of calls.
    pub(crate) fn is_flooded(&self) -> bool {
        self.state().calls > self.0.judge.most_calls()
    }

    /// How much has happened on the line.
    pub(crate) fn length(&self) -> usize {
        self.state().trace.len()
    }

    /// Waits until something happens on the line.
    pub(crate) async fn stirred(&self) {
        self.0.stirred.notified().await;
    }

    /// Until when something is done to the operator.
    pub(crate) fn acting_until(&self) -> Instant {
        self.state().acting_until
    }
}

impl State {
    fn note(&mut self, what: What, text: impl Into<String>, code: u16, digest: u64, fault: Option<Fault>) {
        let (at, step) = (self.began.elapsed(), self.steps.len() - 1);
        self.trace.push(Entry { at, step, what, text: text.into(), code, digest, fault });
        self.stirred.notify_one();
    }

    /// Whether the operator may not have heard of the newest change of the resource.
    fn is_blind(&self, primary: &str) -> bool {
        let of_resource = format!("watch {primary}:");
        let is_late = |(planned, _): &(Planned, Instant)| {
            planned.fault.beginning() == Some(Beginning::Late) && planned.point.call.starts_with(&of_resource)
        };
        let is_acting = self.held > 0 || Instant::now() < self.acting_until;
        self.view.is_some() || is_acting && self.struck.iter().any(is_late)
    }

    /// Whatever is done to the operator lasts for some more time.
    fn disturb(&mut self, time: Duration) {
        self.disturb_for(time, AFTERMATH);
    }

    /// The same, and it may take some more until what follows from it is to be seen.
    fn disturb_for(&mut self, time: Duration, aftermath: Duration) {
        let until = Instant::now() + time;
        self.acting_until = self.acting_until.max(until);
        self.disturbed_until = self.disturbed_until.max(until + aftermath);
    }

    fn choose(&mut self, server: &ApiServer, point: &Point, faults: &[Fault]) -> Option<Planned> {
        if let Some(dice) = &mut self.dice {
            let fault = dice.throw(faults)?;
            return Some(Planned { point: point.clone(), fault });
        }
        let mut brancher = self.brancher.take()?;
        let plan = |fault: &Fault| Planned { point: point.clone(), fault: *fault };
        let together = |fault: &Fault| fault.beginning().filter(|_| !brancher.makes_pairs());
        let alone = faults.iter().filter(|fault| together(fault).is_none());
        let mut runs: Vec<Vec<Planned>> = alone.map(|fault| vec![plan(fault)]).collect();
        for beginning in [Beginning::Late, Beginning::Death] {
            runs.push(faults.iter().filter(|fault| together(fault) == Some(beginning)).map(plan).collect());
        }
        let chosen = runs.into_iter().find_map(|run| {
            let mut begun = brancher.branch(run, |fault| fault.kills().then(|| self.death(server, fault)));
            let chosen = begun.pop()?;
            self.open = begun;
            Some(chosen)
        });
        self.brancher = Some(brancher);
        chosen
    }

    /// Which of the faults it is that has struck, if several began like it: goes a way of its own with each.
    fn decide_between(&mut self, fault: Fault) -> Fault {
        let Some(brancher) = &mut self.brancher else { return fault };
        let others = std::mem::take(&mut self.open);
        let Some(way) = others.into_iter().find(|other| brancher.go_apart(other)) else { return fault };
        let told = self.trace.iter_mut().rev().find(|entry| entry.fault == Some(fault));
        told.into_iter().for_each(|entry| entry.fault = Some(way.fault));
        let fault = way.fault;
        self.struck.iter_mut().for_each(|(struck, _)| struck.clone_from(&way));
        fault
    }

    /// It makes no difference any more which of the faults it was that has struck.
    fn leave_open(&mut self) {
        for other in std::mem::take(&mut self.open) {
            self.brancher.iter().for_each(|brancher| brancher.tell_known(&other));
        }
    }

    pub(crate) fn violations(&self) -> Vec<Violation> {
        self.violations.iter().map(|(oracle, seen)| Violation::new(*oracle, seen)).collect()
    }

    /// What still branches, if this run is the undisturbed one.
    pub(crate) fn take_brancher(&mut self) -> Option<Brancher> {
        self.brancher.take()
    }

    pub(crate) fn step_name(&self, step: usize) -> String {
        self.steps.get(step).cloned().unwrap_or_default()
    }

    pub(crate) fn violate(&mut self, oracle: Oracle, seen: impl Into<String>) {
        self.violations.entry(oracle).or_insert_with(|| seen.into());
    }
}
