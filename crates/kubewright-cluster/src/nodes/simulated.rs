//! Containers that are only simulated: a script says what becomes of each.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::ResourceExt as _;
use parking_lot::RwLock;

use super::runtime::{Doing, Run, Runtime, Sight};

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
    ready_after: Option<Duration>,
    exits: Option<(Duration, i32)>,
    stuck: Option<(String, String)>,
    stops_after: Duration,
    logs: String,
}

impl Default for Script {
    /// It starts within a moment, is ready, and runs until it is stopped.
    fn default() -> Self {
        Self {
            starts_after: Duration::from_millis(100),
            ready_after: Some(Duration::ZERO),
            exits: None,
            stuck: None,
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
        self.ready_after = Some(pause);
        self
    }

    /// Its readiness probe always fails.
    #[must_use]
    pub fn never_ready(mut self) -> Self {
        self.ready_after = None;
        self
    }

    /// How long it runs, and with which code it ends then. If it is restarted, it does the same again.
    #[must_use]
    pub fn exits_after(mut self, pause: Duration, code: i32) -> Self {
        self.exits = Some((pause, code));
        self
    }

    /// It is never started: its image can't be pulled.
    #[must_use]
    pub fn cannot_be_pulled(mut self, why: impl Into<String>) -> Self {
        self.stuck = Some(("ErrImagePull".to_owned(), why.into()));
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
    /// All containers of an image follow this script from now on.
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

/// The script that the annotations of a pod tell: `simulated.kubewright.dev/ready-after: 5s` and so on.
fn annotated(pod: &Pod) -> Script {
    let value = |name: &str| pod.annotations().get(&format!("simulated.kubewright.dev/{name}"));
    let duration = |name: &str| {
        let parsed: SignedDuration = value(name)?.parse().ok()?;
        Duration::try_from(parsed).ok()
    };
    let mut script = Script::default();
    if let Some(pause) = duration("starts-after") {
        script.starts_after = pause;
    }
    if let Some(pause) = duration("ready-after") {
        script.ready_after = Some(pause);
    }
    if let Some(pause) = duration("stops-after") {
        script.stops_after = pause;
    }
    if value("never-ready").is_some_and(|value| value == "true") {
        script.ready_after = None;
    }
    let code = value("exit-code").and_then(|code| code.parse().ok());
    // What is not to be restarted at once is expected to end.
    let ends = pod.spec.as_ref().is_some_and(|spec| spec.restart_policy.as_deref() != Some("Always"));
    let pause = duration("runs-for").or_else(|| (ends || code.is_some()).then_some(Duration::from_secs(1)));
    script.exits = pause.map(|pause| (pause, code.unwrap_or(0)));
    if let Some(why) = value("pull-error") {
        script.stuck = Some(("ErrImagePull".to_owned(), why.clone()));
    }
    if let Some(text) = value("logs") {
        script.logs.clone_from(text);
    }
    script
}

fn later(time: Timestamp, pause: Duration) -> Timestamp {
    let pause = SignedDuration::try_from(pause).unwrap_or(SignedDuration::MAX);
    time.saturating_add(pause).unwrap_or(Timestamp::MAX)
}

impl Runtime for Simulated {
    fn run(&self, run: &Run<'_>, now: Timestamp) -> Sight {
        let script = self.script_of(run);
        if let Some((reason, message)) = script.stuck.filter(|_| !run.is_resumed) {
            return Sight { doing: Doing::Stuck { reason, message }, until: None };
        }
        let since = if run.is_resumed { run.asked } else { later(run.asked, script.starts_after) };
        if now < since {
            return Sight { doing: Doing::Starting, until: Some(since) };
        }
        let end = script.exits.map(|(pause, code)| (later(since, pause), code));
        if let Some((at, code)) = end.filter(|(at, _)| *at <= now) {
            return Sight { doing: Doing::Exited { since, at, code, reason: None }, until: None };
        }
        let ready = script.ready_after.map(|pause| later(since, pause));
        let is_ready = ready.is_some_and(|at| at <= now);
        let next = [ready.filter(|_| !is_ready), end.map(|(at, _)| at)];
        Sight {
            doing: Doing::Running { since, is_started: true, is_ready },
            until: next.into_iter().flatten().min(),
        }
    }

    fn stop(&self, run: &Run<'_>, since: Timestamp, grace: Duration, now: Timestamp) -> Sight {
        let seen = self.run(run, since);
        let Doing::Running { since: began, .. } = seen.doing else { return seen };
        let script = self.script_of(run);
        // A container that does not end by itself is killed.
        let is_killed = script.stops_after > grace;
        let at = later(since, script.stops_after.min(grace));
        if now < at {
            return Sight {
                doing: Doing::Running { since: began, is_started: true, is_ready: false },
                until: Some(at),
            };
        }
        let code = if is_killed { 137 } else { 0 };
        Sight { doing: Doing::Exited { since: began, at, code, reason: None }, until: None }
    }

    fn logs(&self, run: &Run<'_>, _: Timestamp) -> String {
        self.script_of(run).logs
    }
}
