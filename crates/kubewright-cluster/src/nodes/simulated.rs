//! Containers that are only simulated: a script says what becomes of each.
//!
//! A script comes from a function of the test ([`Simulated::decide`]), from the image ([`Simulated::script`]), or
//! from annotations of the pod, in this order. All annotations begin with `simulated.kubewright.dev/`; pauses are
//! written as `500ms`, `5s` or `1m30s`.
//!
//! | annotation | [`Script`] | what happens |
//! |---|---|---|
//! | `starts-after` | [`starts_after`](Script::starts_after) | so long it is created; `100ms` by default |
//! | `ready-after` | [`ready_after`](Script::ready_after) | so long it runs until it is ready; by default the `initialDelaySeconds` of its readiness probe |
//! | `never-ready: "true"` | [`never_ready`](Script::never_ready) | it runs, but is never ready |
//! | `unready-after` | [`unready_after`](Script::unready_after) | so long it runs until it is not ready any more |
//! | `runs-for` | [`exits_after`](Script::exits_after) | so long it runs until it ends; `1s` by default where it is not always restarted or `exit-code` is given |
//! | `exit-code` | [`exits_after`](Script::exits_after) | how it ends then; `0` by default |
//! | `liveness-fails-after` | [`liveness_fails_after`](Script::liveness_fails_after) | so long it runs until it is killed for its liveness probe |
//! | `fails-times` | [`only`](Script::only) | so many times it ends or is killed like this; then it runs on |
//! | `stops-after` | [`stops_after`](Script::stops_after) | so long it takes to end when it is stopped |
//! | `pull-error` | [`cannot_be_pulled`](Script::cannot_be_pulled) | its image can't be pulled, for this reason |
//! | `logs` | [`logs`](Script::logs) | what it writes |

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Container, Pod, Probe as ProbeSpec};
use kube::ResourceExt as _;
use kubewright_apiserver::LogLine;
use parking_lot::RwLock;

use super::{
    container::later,
    runtime::{Doing, Failure, Probe, Run, Runtime, Sight},
};

/// What probes of a simulation say when they fail.
const REFUSED: &str = "the simulation says so";

/// What becomes of a container.
///
/// ```
/// use std::time::Duration;
/// use kubewright_cluster::nodes::Script;
///
/// let crashing = Script::default().exits_after(Duration::from_secs(2), 1).logs("no such file\n");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    starts_after: Duration,
    ready: Ready,
    unready_after: Option<Duration>,
    end: Option<(Duration, End)>,
    ends: Option<u32>,
    pull_error: Option<String>,
    stops_after: Duration,
    logs: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ready {
    /// As soon as its probe asks.
    Probed,
    After(Duration),
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Exit(i32),
    Unalive,
}

impl Default for Script {
    /// It starts within a moment, is ready as soon as it is asked, and runs until it is stopped.
    fn default() -> Self {
        Self {
            starts_after: Duration::from_millis(100),
            ready: Ready::Probed,
            unready_after: None,
            end: None,
            ends: None,
            pull_error: None,
            stops_after: Duration::ZERO,
            logs: String::new(),
        }
    }
}

impl Script {
    /// How long it takes until it runs.
    #[must_use]
    pub fn starts_after(mut self, pause: Duration) -> Self {
        self.starts_after = pause;
        self
    }

    /// How long it runs until it is ready.
    #[must_use]
    pub fn ready_after(mut self, pause: Duration) -> Self {
        self.ready = Ready::After(pause);
        self
    }

    /// Its readiness probe always fails.
    #[must_use]
    pub fn never_ready(mut self) -> Self {
        self.ready = Ready::Never;
        self
    }

    /// How long it runs until its readiness probe fails, from then on.
    #[must_use]
    pub fn unready_after(mut self, pause: Duration) -> Self {
        self.unready_after = Some(pause);
        self
    }

    /// How long it runs, and with which code it ends then. If it is restarted, it does the same again.
    #[must_use]
    pub fn exits_after(mut self, pause: Duration, code: i32) -> Self {
        self.end = Some((pause, End::Exit(code)));
        self
    }

    /// How long it runs until its liveness probe fails and it is killed. If it is restarted, it does the same again.
    #[must_use]
    pub fn liveness_fails_after(mut self, pause: Duration) -> Self {
        self.end = Some((pause, End::Unalive));
        self
    }

    /// It ends only so many times; the run after that goes on.
    #[must_use]
    pub fn only(mut self, times: u32) -> Self {
        self.ends = Some(times);
        self
    }

    /// It is never started: its image can't be pulled.
    #[must_use]
    pub fn cannot_be_pulled(mut self, why: impl Into<String>) -> Self {
        self.pull_error = Some(why.into());
        self
    }

    /// How long it takes to end when it is stopped.
    #[must_use]
    pub fn stops_after(mut self, pause: Duration) -> Self {
        self.stops_after = pause;
        self
    }

    /// What it writes.
    #[must_use]
    pub fn logs(mut self, text: impl Into<String>) -> Self {
        self.logs = text.into();
        self
    }

    /// When a run begins.
    fn began(&self, run: &Run<'_>) -> Timestamp {
        if run.is_resumed { run.asked } else { later(run.asked, self.starts_after) }
    }

    /// When and how a run that began at `since` ends by itself.
    fn end_of(&self, restarts: i32, since: Timestamp) -> Option<(Timestamp, End)> {
        let (pause, end) = self.end?;
        let is_last =
            self.ends.is_some_and(|times| u32::try_from(restarts).is_ok_and(|restarts| times <= restarts));
        (!is_last).then(|| (later(since, pause), end))
    }
}

/// Decides what becomes of a container, if it wants to.
type Decide = Arc<dyn Fn(&Pod, &Container) -> Option<Script> + Send + Sync>;

/// Simulates containers. Clones share their scripts.
#[derive(Clone, Default)]
pub struct Simulated {
    images: Arc<RwLock<BTreeMap<String, Script>>>,
    decide: Arc<RwLock<Option<Decide>>>,
}

impl Simulated {
    /// All containers of an image follow this script from now on; those that run, when they are looked at next.
    pub fn script(&self, image: impl Into<String>, script: Script) {
        self.images.write().insert(image.into(), script);
    }

    /// A function decides about each container; where it does not, everything else counts.
    pub fn decide(&self, decide: impl Fn(&Pod, &Container) -> Option<Script> + Send + Sync + 'static) {
        *self.decide.write() = Some(Arc::new(decide));
    }

    /// What becomes of a container: as a function says, or its image, or the annotations of its pod.
    fn script_of(&self, run: &Run<'_>) -> Script {
        let decided = self.decide.read().clone().and_then(|decide| decide(run.pod, run.container));
        let image = run.container.image.as_deref().unwrap_or_default();
        let scripted = decided.or_else(|| self.images.read().get(image).cloned());
        scripted.unwrap_or_else(|| annotated(run.pod))
    }
}

/// The script that the annotations of a pod tell.
fn annotated(pod: &Pod) -> Script {
    let value = |name: &str| pod.annotations().get(&format!("simulated.kubewright.dev/{name}"));
    let duration = |name: &str| {
        let parsed: SignedDuration = value(name)?.parse().ok()?;
        Duration::try_from(parsed).ok()
    };
    let ready = match duration("ready-after") {
        _ if value("never-ready").is_some_and(|value| value == "true") => Ready::Never,
        Some(pause) => Ready::After(pause),
        None => Ready::Probed,
    };
    let code = value("exit-code").and_then(|code| code.parse().ok());
    // What is not to be restarted at once is expected to end.
    let ends = pod.spec.as_ref().is_some_and(|spec| spec.restart_policy.as_deref() != Some("Always"));
    let runs = duration("runs-for").or_else(|| (ends || code.is_some()).then_some(Duration::from_secs(1)));
    let exit = runs.map(|pause| (pause, End::Exit(code.unwrap_or(0))));
    let default = Script::default();
    Script {
        starts_after: duration("starts-after").unwrap_or(default.starts_after),
        ready,
        unready_after: duration("unready-after"),
        end: duration("liveness-fails-after").map(|pause| (pause, End::Unalive)).or(exit),
        ends: value("fails-times").and_then(|times| times.parse().ok()),
        pull_error: value("pull-error").cloned(),
        stops_after: duration("stops-after").unwrap_or(default.stops_after),
        logs: value("logs").cloned().unwrap_or_default(),
    }
}

/// How long a probe waits before it asks.
fn delay(probe: Option<&ProbeSpec>) -> Duration {
    let seconds = probe.and_then(|probe| probe.initial_delay_seconds).unwrap_or(0);
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

impl Runtime for Simulated {
    fn run(&self, run: &Run<'_>, now: Timestamp) -> Sight {
        let script = self.script_of(run);
        if let Some(message) = script.pull_error.clone().filter(|_| !run.is_resumed) {
            return Sight { doing: Doing::Stuck { reason: "ErrImagePull".to_owned(), message }, until: None };
        }
        let since = script.began(run);
        if now < since {
            return Sight { doing: Doing::Starting, until: Some(since) };
        }
        let end = script.end_of(run.restarts, since);
        if let Some((at, end)) = end.filter(|(at, _)| *at <= now) {
            let (code, killed_for) = match end {
                End::Exit(code) => (code, None),
                End::Unalive => (137, Some(Failure { probe: Probe::Liveness, output: REFUSED.to_owned() })),
            };
            return Sight { doing: Doing::Exited { since, at, code, reason: None, killed_for }, until: None };
        }
        let started = later(since, delay(run.container.startup_probe.as_ref()));
        let first_probe = later(started, delay(run.container.readiness_probe.as_ref()));
        let ready = match script.ready {
            Ready::Probed => Some(first_probe),
            Ready::After(pause) => Some(started.max(later(since, pause))),
            Ready::Never => None,
        };
        let unready = script.unready_after.map(|pause| later(since, pause));
        let is_ready = ready.is_some_and(|at| at <= now) && unready.is_none_or(|at| now < at);
        let is_asked = run.container.readiness_probe.is_some() && first_probe <= now;
        let failing =
            (is_asked && !is_ready).then(|| Failure { probe: Probe::Readiness, output: REFUSED.to_owned() });
        let changes = [Some(started), Some(first_probe), ready, unready, end.map(|(at, _)| at)];
        Sight {
            doing: Doing::Running { since, is_started: started <= now, is_ready, failing },
            until: changes.into_iter().flatten().filter(|at| now < *at).min(),
        }
    }

    fn stop(&self, run: &Run<'_>, since: Timestamp, grace: Duration, now: Timestamp) -> Sight {
        let seen = self.run(run, since);
        let Doing::Running { since: began, is_started, .. } = seen.doing else { return seen };
        let script = self.script_of(run);
        // A container that does not end by itself is killed.
        let is_killed = script.stops_after > grace;
        let at = later(since, script.stops_after.min(grace));
        if now < at {
            let doing = Doing::Running { since: began, is_started, is_ready: false, failing: None };
            return Sight { doing, until: Some(at) };
        }
        let code = if is_killed { 137 } else { 0 };
        Sight { doing: Doing::Exited { since: began, at, code, reason: None, killed_for: None }, until: None }
    }

    fn logs(&self, run: &Run<'_>, now: Timestamp) -> Vec<LogLine> {
        let script = self.script_of(run);
        let at = script.began(run);
        let lines = script.logs.lines().filter(|_| at <= now);
        lines.map(|text| LogLine { at, text: text.to_owned() }).collect()
    }
}
