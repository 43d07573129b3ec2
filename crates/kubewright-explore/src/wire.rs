//! The line between an operator and the server, on which everything goes wrong that goes wrong.
//!
//! Every call of the operator and every event that it is told of passes here. Each is a point at which a fault may
//! strike: one of the plan, or one for which the run is [branched](crate::branch).

mod asks;
mod deliveries;
mod judge;
mod meddling;
mod rivals;

use std::{
    collections::{BTreeMap, BTreeSet},
    future::{Future, pending},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use kube::{Client, client::Body as RequestBody};
use kubewright_apiserver::{ApiServer, Body, auth::UserInfo};
use parking_lot::{Mutex, MutexGuard};
use serde_json::json;
use tokio::{
    sync::Notify,
    time::{Instant, sleep, sleep_until},
};
use tower_service::Service as _;

use self::{deliveries::WireBody, judge::Judge, rivals::Former};
pub(crate) use self::{judge::Expected, rivals::identity};
use crate::{
    branch::{Brancher, Dice},
    call::{Call, Class},
    oracle::{Oracle, Violation},
    plan::{Fault, Planned, Point},
    state::resource_id,
    subject::Demands,
    trace::{Entry, What, digest_of},
    world::World,
};

/// How long the server asks to be left alone.
const RETRY_AFTER: Duration = Duration::from_secs(7);
/// When a call counts as lost.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long it takes at least until what follows from a fault is to be seen.
const AFTERMATH: Duration = Duration::from_secs(1);
/// How late a delayed event is.
const LATE: Duration = Duration::from_secs(10);
/// How long an operator sees an older view.
const OLD_VIEW: Duration = Duration::from_secs(10);
/// How slow a slow call is.
const SLOW_CALL: Duration = Duration::from_secs(5);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

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
    /// Whether there is an election, which another replica may win.
    elects: bool,
    state: Mutex<State>,
    crashed: Notify,
    rivalled: Notify,
    changed: Notify,
}

pub(crate) struct State {
    /// Which start of the operator is connected, and whether it is.
    epoch: u64,
    is_connected: bool,
    /// The replica that led before, if another leads meanwhile.
    former: Option<Former>,
    /// What goes wrong with the answers of calls that are under way outside of the cluster.
    asked: BTreeMap<String, Fault>,
    view: Option<View>,
    /// What was seen of the resource: the server after each change.
    views: Vec<ApiServer>,
    seen: Option<Sight>,
    counts: BTreeMap<String, u32>,
    /// How often each fault could have struck.
    pub(crate) chances: BTreeMap<Fault, usize>,
    plan: Vec<Planned>,
    struck: Vec<(Planned, Instant)>,
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
    disturbed_until: Instant,
    /// How many events are held back until the next change.
    held: usize,
    pauses: BTreeMap<String, Instant>,
    pub(crate) writes: Vec<String>,
    /// The generation for which the resource was last said to be ready, and when that was.
    claimed: Option<(i64, Instant)>,
    /// The objects that the operator has written, apart from their status.
    pub(crate) touched: BTreeSet<String>,
    /// The objects that the operator has deleted, by step.
    pub(crate) deleted: BTreeSet<(usize, String)>,
    calls: usize,
    /// Those demands that are to be met at some time, and were.
    pub(crate) sometimes: BTreeSet<usize>,
}

/// What the operator sees instead of the present.
#[derive(Clone)]
struct View {
    server: ApiServer,
    /// Only this resource is old.
    only: Option<String>,
    until: Instant,
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
    pub(crate) expected: Option<Arc<Expected>>,
    pub(crate) brancher: Option<Brancher>,
    pub(crate) oracles: BTreeSet<Oracle>,
    pub(crate) demands: Demands,
    pub(crate) elects: bool,
}

impl Wire {
    pub(crate) fn new(setting: Setting) -> Self {
        let now = Instant::now();
        let state = State {
            epoch: 0,
            is_connected: false,
            former: None,
            asked: BTreeMap::new(),
            view: None,
            views: vec![setting.server.fork()],
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
            disturbed_until: now,
            held: 0,
            pauses: BTreeMap::new(),
            writes: Vec::new(),
            claimed: None,
            touched: BTreeSet::new(),
            deleted: BTreeSet::new(),
            calls: 0,
            sometimes: BTreeSet::new(),
        };
        let judge =
            Judge { primary: setting.primary.clone(), expected: setting.expected, oracles: setting.oracles };
        Self(Arc::new(Shared {
            server: setting.server,
            user: setting.user,
            admin: setting.admin,
            primary: setting.primary,
            others: setting.others,
            judge,
            demands: setting.demands,
            elects: setting.elects,
            state: Mutex::new(state),
            crashed: Notify::new(),
            rivalled: Notify::new(),
            changed: Notify::new(),
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
        state.note(What::Step, what, 0, 0, None);
    }

    /// The user has changed the resource.
    pub(crate) fn stepped(&self) {
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
            None => state.choose(&point, faults),
        };
        let planned = planned?;
        state.struck.push((planned.clone(), Instant::now()));
        state.disturb(Duration::ZERO);
        Some(planned.fault)
    }

    /// Nobody answers for so long that nobody waits for it any more.
    async fn time_out(&self) {
        self.state().disturb(TIMEOUT + AFTERMATH);
        sleep(TIMEOUT).await;
    }

    fn crash(&self, view: Option<View>) {
        let mut state = self.state();
        state.epoch += 1;
        state.is_connected = false;
        state.view = view;
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

    /// The server as it was some changes of the resource ago.
    fn before(&self, changes: usize) -> Option<ApiServer> {
        let state = self.state();
        let at = state.views.len().checked_sub(changes + 1)?;
        state.views.get(at).cloned()
    }
}

impl State {
    fn note(&mut self, what: What, text: impl Into<String>, code: u16, digest: u64, fault: Option<Fault>) {
        let (at, step) = (self.began.elapsed(), self.steps.len() - 1);
        self.trace.push(Entry { at, step, what, text: text.into(), code, digest, fault });
    }

    /// Whatever is done to the operator lasts for some more time.
    fn disturb(&mut self, time: Duration) {
        self.disturbed_until = self.disturbed_until.max(Instant::now() + time);
    }

    fn choose(&mut self, point: &Point, faults: &[Fault]) -> Option<Planned> {
        if let Some(dice) = &mut self.dice {
            let fault = dice.throw(faults)?;
            return Some(Planned { point: point.clone(), fault });
        }
        let brancher = self.brancher.as_mut()?;
        for fault in faults {
            let planned = Planned { point: point.clone(), fault: *fault };
            if brancher.branch(&planned) {
                return Some(planned);
            }
        }
        None
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

/// The client's end of the line.
#[derive(Clone)]
struct Line {
    wire: Wire,
    epoch: u64,
}

impl tower_service::Service<Request<RequestBody>> for Line {
    type Response = Response<WireBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody>) -> Self::Future {
        Box::pin(self.clone().send(request))
    }
}

impl Line {
    async fn send(self, request: Request<RequestBody>) -> Result<Response<WireBody>, BoxError> {
        let call = Call::of(&request);
        if self.is_cut() || !self.is_within_budget(&call) {
            return pending().await;
        }
        if let Some(until) = self.wire.parted_until(self.epoch) {
            sleep_until(until).await;
        }
        let slow = self.wire.state().slow_until.is_some_and(|until| Instant::now() < until);
        if slow && call.class != Class::Watch {
            sleep(SLOW_CALL).await;
        }
        match call.class {
            Class::Watch => self.watch(call, request).await,
            Class::Read => self.read(call, request).await,
            Class::Write => self.write(call, request).await,
            Class::Other => Ok(self.pass(&call, request, None).await?.map(WireBody::Whole)),
        }
    }

    fn is_cut(&self) -> bool {
        self.wire.is_cut(self.epoch)
    }

    /// A flood of calls is let run dry: in paused time it would never end.
    fn is_within_budget(&self, call: &Call) -> bool {
        let limit = self.wire.0.judge.most_calls();
        let mut state = self.wire.state();
        state.calls += 1;
        if state.calls > limit {
            state.violate(Oracle::Budget, format!("more than {limit} calls in one run, at last: {call}"));
        }
        if let Some(until) = state.pauses.remove(&call.to_string())
            && Instant::now() < until
        {
            let seen =
                format!("{call}: again {:?} before the time that Retry-After told", until - Instant::now());
            state.violate(Oracle::Budget, seen);
        }
        state.calls <= limit
    }

    /// Lets a call through.
    async fn pass(
        &self,
        call: &Call,
        request: Request<RequestBody>,
        fault: Option<Fault>,
    ) -> Result<Response<Body>, BoxError> {
        self.pass_to(&self.wire.0.server, call, request, fault).await
    }

    async fn pass_to(
        &self,
        server: &ApiServer,
        call: &Call,
        request: Request<RequestBody>,
        fault: Option<Fault>,
    ) -> Result<Response<Body>, BoxError> {
        let (parts, body) = request.into_parts();
        let sent = body.collect_bytes().await?;
        let stored = || {
            let key = call.key()?;
            server.snapshot().collection(&resource_id(&call.resource)).get(&key).cloned()
        };
        let before = if call.class == Class::Write { stored() } else { None };
        let request = Request::from_parts(parts, RequestBody::from(sent.clone()));
        let answer = server.service(self.wire.0.user.clone()).call(request).await?;
        let told = answer.body().whole().cloned().unwrap_or_default();
        let what = if call.class == Class::Write { What::Write } else { What::Read };
        let digest = digest_of(&call.resource, &[&sent, &told]);
        let mut state = self.wire.state();
        state.note(what, call.to_string(), answer.status().as_u16(), digest, fault);
        if call.class == Class::Write {
            self.wire.0.judge.write(&mut state, call, &sent, before.as_deref(), answer.status(), &told);
            self.wire.fence(&mut state, self.epoch, call, answer.status());
        }
        self.wire.0.judge.answer(&mut state, call, answer.status(), &told);
        drop(state);
        if call.class == Class::Write {
            self.wire.observe();
        }
        Ok(answer)
    }

    /// An answer that the server did not give.
    fn fail(
        &self,
        call: &Call,
        fault: Fault,
        code: StatusCode,
        reason: &str,
        message: &str,
    ) -> Response<WireBody> {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code.as_u16(),
            "reason": reason, "message": message,
        });
        let what = if call.class == Class::Write { What::Write } else { What::Read };
        self.wire.state().note(what, call.to_string(), code.as_u16(), 0, Some(fault));
        let mut answer = Response::new(WireBody::Whole(Body::from(Bytes::from(status.to_string()))));
        *answer.status_mut() = code;
        answer
    }

    /// The failures that calls of all kinds know.
    async fn failure(&self, call: &Call, fault: Fault) -> Option<Result<Response<WireBody>, BoxError>> {
        Some(match fault {
            Fault::TooManyRequests => {
                let mut answer = self.fail(
                    call,
                    fault,
                    StatusCode::TOO_MANY_REQUESTS,
                    "TooManyRequests",
                    "The server has received too many requests and has asked us to try again later",
                );
                answer.headers_mut().insert("retry-after", RETRY_AFTER.as_secs().into());
                let mut state = self.wire.state();
                state.disturb(RETRY_AFTER + AFTERMATH);
                state.pauses.insert(call.to_string(), Instant::now() + RETRY_AFTER);
                Ok(answer)
            }
            Fault::InternalError => {
                let message = "Internal error occurred: etcdserver: leader changed";
                Ok(self.fail(call, fault, StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message))
            }
            Fault::Unavailable => {
                let message = "The server is currently unable to handle the request";
                Ok(self.fail(call, fault, StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message))
            }
            Fault::TimeoutLost => {
                let what = if call.class == Class::Write { What::Write } else { What::Read };
                self.wire.state().note(what, call.to_string(), 0, 0, Some(fault));
                self.wire.time_out().await;
                Err(timed_out())
            }
            _ => return None,
        })
    }

    async fn read(self, call: Call, request: Request<RequestBody>) -> Result<Response<WireBody>, BoxError> {
        let fault = self.wire.decide(self.epoch, &call.to_string(), &self.faults_of_reads());
        match fault {
            Some(Fault::StaleRead) => {
                let Some(old) = self.wire.before(1) else { return pending().await };
                Ok(self.pass_to(&old, &call, request, fault).await?.map(WireBody::Whole))
            }
            Some(fault) => match self.failure(&call, fault).await {
                Some(answer) => answer,
                None => pending().await,
            },
            None => {
                let server = self.wire.view_of(&call).filter(|_| call.verb == "list");
                let server = server.map_or_else(|| self.wire.0.server.clone(), |view| view.server);
                Ok(self.pass_to(&server, &call, request, None).await?.map(WireBody::Whole))
            }
        }
    }

    fn faults_of_reads(&self) -> Vec<Fault> {
        let has_past = self.wire.before(1).is_some();
        Fault::OF_READS.into_iter().filter(|fault| *fault != Fault::StaleRead || has_past).collect()
    }

    async fn write(self, call: Call, request: Request<RequestBody>) -> Result<Response<WireBody>, BoxError> {
        let fault = match self.faults_of_write(&call) {
            faults if faults.is_empty() => None,
            faults => self.wire.decide(self.epoch, &call.to_string(), &faults),
        };
        let Some(fault) = fault else {
            return Ok(self.pass(&call, request, None).await?.map(WireBody::Whole));
        };
        match fault {
            Fault::CrashBefore => {
                self.wire.state().note(What::Write, call.to_string(), 0, 0, Some(fault));
                self.wire.crash(None);
                return pending().await;
            }
            Fault::CrashAfter => {
                self.pass(&call, request, Some(fault)).await?;
                self.wire.crash(None);
                return pending().await;
            }
            Fault::TimeoutApplied => {
                self.pass(&call, request, Some(fault)).await?;
                self.wire.time_out().await;
                return Err(timed_out());
            }
            Fault::TwoLeaders => {
                self.wire.part(self.epoch).await;
                return Ok(self.pass(&call, request, Some(fault)).await?.map(WireBody::Whole));
            }
            Fault::Conflict => {
                let message = "Operation cannot be fulfilled: the object has been modified; please apply your \
                               changes to the latest version and try again";
                return Ok(self.fail(&call, fault, StatusCode::CONFLICT, "Conflict", message));
            }
            Fault::Denied => {
                let message = "admission webhook \"policy.example.com\" denied the request: not now";
                return Ok(self.fail(&call, fault, StatusCode::FORBIDDEN, "Forbidden", message));
            }
            _ => {}
        }
        if let Some(answer) = self.failure(&call, fault).await {
            return answer;
        }
        let answer = self.pass(&call, request, Some(fault)).await?;
        self.meddle(&call, fault, answer.body().whole()).await;
        Ok(answer.map(WireBody::Whole))
    }

    /// What may befall a write.
    fn faults_of_write(&self, call: &Call) -> Vec<Fault> {
        if matches!(&*call.resource, "events" | "events.events.k8s.io" | "leases.coordination.k8s.io") {
            return Vec::new();
        }
        let is_child = call.resource != self.wire.0.primary && call.subresource.is_none();
        let makes = !matches!(call.verb, "delete" | "deletecollection");
        let may_befall = |fault: &Fault| match fault {
            Fault::Conflict => call.verb != "create",
            Fault::ChildDeleted => is_child && makes,
            Fault::PodLost => self.a_pod().is_some(),
            Fault::TwoLeaders => self.wire.0.elects,
            _ => true,
        };
        Fault::OF_WRITES.into_iter().filter(may_befall).collect()
    }
}

fn timed_out() -> BoxError {
    std::io::Error::new(std::io::ErrorKind::TimedOut, "the call was not answered in time").into()
}
