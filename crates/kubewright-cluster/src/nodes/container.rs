//! What a kubelet remembers of one container, and how that goes on: it is pulled, started, probed, restarted after
//! pauses, and stopped. Nothing here waits or writes; time is an argument.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::core::v1::{
        Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
        ContainerStatus, Pod,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::ResourceExt as _;
use kubewright::Event;

use super::runtime::{Doing, Failure, Run, Runtime, Sight};

const FIRST_BACK_OFF: Duration = Duration::from_secs(10);
const LONGEST_BACK_OFF: Duration = Duration::from_secs(300);
/// A container that ran for so long is restarted as if it had never failed.
const FORGIVEN_AFTER: Duration = Duration::from_secs(600);
/// How long the failure of a pull is shown before the pause that follows it.
const PULL_ERROR_SHOWN: Duration = Duration::from_secs(2);
const PULL_ERROR: &str = "ErrImagePull";

/// What is wanted of a container.
#[derive(Debug, Clone, Copy)]
pub(super) enum Wish {
    /// It runs, and is run again when it ends.
    Run(Restarts),
    /// It may go on, but does not begin again.
    Finish,
    Stop(Stop),
}

/// Whether a container is run again when it has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Restarts {
    Always,
    OnFailure,
    Never,
}

impl Restarts {
    pub(super) fn after(self, code: i32) -> bool {
        match self {
            Self::Always => true,
            Self::OnFailure => code != 0,
            Self::Never => false,
        }
    }
}

/// Since when a container is to end, and until when it may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stop {
    pub(super) since: Timestamp,
    pub(super) until: Timestamp,
}

/// What looking at a container needs and yields besides the container.
pub(super) struct Moment<'a> {
    pub(super) pod: &'a Pod,
    pub(super) runtime: &'a dyn Runtime,
    pub(super) now: Timestamp,
    pub(super) events: Vec<Event>,
}

/// What a container looks like.
pub(super) struct Look {
    pub(super) status: ContainerStatus,
    /// When to look again.
    pub(super) until: Option<Timestamp>,
    /// It has ended, and is not run again.
    pub(super) is_over: bool,
}

impl Look {
    /// A container whose turn has not come.
    pub(super) fn waiting(container: &Container, reason: &str) -> Self {
        let status = ContainerStatus {
            name: container.name.clone(),
            image: container.image.clone().unwrap_or_default(),
            started: Some(false),
            state: Some(waiting(reason, None)),
            last_state: Some(ContainerState::default()),
            ..ContainerStatus::default()
        };
        Self { status, until: None, is_over: false }
    }

    pub(super) fn is_running(&self) -> bool {
        is_running(&self.status)
    }

    /// It waits to run for the first time.
    pub(super) fn is_new(&self) -> bool {
        let has_ended = self.status.last_state.as_ref().is_some_and(|last| last.terminated.is_some());
        !has_ended && self.status.state.as_ref().is_some_and(|state| state.waiting.is_some())
    }

    /// Nothing was done for it yet.
    pub(super) fn is_untouched(&self) -> bool {
        let waiting = self.status.state.as_ref().and_then(|state| state.waiting.as_ref());
        let reason = waiting.and_then(|waiting| waiting.reason.as_deref());
        self.is_new() && matches!(reason, Some("ContainerCreating" | "PodInitializing"))
    }

    pub(super) fn ended(&self) -> Option<&ContainerStateTerminated> {
        self.status.state.as_ref()?.terminated.as_ref()
    }
}

pub(super) fn is_running(status: &ContainerStatus) -> bool {
    status.state.as_ref().is_some_and(|state| state.running.is_some())
}

/// How far a container has come.
#[derive(Debug, Clone)]
pub(super) struct Progress {
    restarts: i32,
    /// When its present run was asked for.
    asked: Timestamp,
    is_resumed: bool,
    stage: Stage,
    /// How its last run ended.
    last: Option<ContainerStateTerminated>,
    /// How long the next restart waits.
    back_off: Duration,
    /// How long the next pull waits, if this one fails.
    pull_back_off: Duration,
    told: Told,
}

#[derive(Debug, Clone)]
enum Stage {
    /// It runs, or will.
    Asked,
    /// Its image could not be pulled.
    Unpulled {
        failed: Timestamp,
        again: Timestamp,
        why: String,
    },
    /// It has crashed and waits to be restarted.
    Crashed {
        until: Timestamp,
        pause: Duration,
    },
    Over,
}

/// What events have told of the present run.
#[derive(Debug, Clone, Default)]
struct Told {
    start: bool,
    stop: bool,
    back_off: bool,
    trouble: Option<String>,
}

impl Progress {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            restarts: 0,
            asked: now,
            is_resumed: false,
            stage: Stage::Asked,
            last: None,
            back_off: Duration::ZERO,
            pull_back_off: FIRST_BACK_OFF,
            told: Told::default(),
        }
    }

    /// What can be known of a container that was there before this process was; nothing if it has never run.
    pub(super) fn restored(status: ContainerStatus, now: Timestamp) -> Option<Self> {
        let state = status.state?;
        let last = status.last_state.and_then(|state| state.terminated);
        let restarts = status.restart_count;
        let back_off = back_off_after(restarts);
        let progress = Self { restarts, last, back_off, is_resumed: true, ..Self::new(now) };
        let told = Told { start: true, ..Told::default() };
        if let Some(running) = state.running {
            return Some(Self { asked: running.started_at?.0, told, ..progress });
        }
        if let Some(ended) = state.terminated {
            return Some(Self { stage: Stage::Over, last: Some(ended), told, ..progress });
        }
        let crashed = progress.last.as_ref()?.finished_at.as_ref()?.0;
        let stage = Stage::Crashed { until: later(crashed, back_off), pause: back_off };
        Some(Self { stage, back_off: doubled(back_off), ..progress })
    }

    /// Takes a container as far as it can come by now.
    pub(super) fn look(&mut self, container: &Container, wish: Wish, at: &mut Moment<'_>) -> Look {
        loop {
            match self.stage.clone() {
                Stage::Over => {
                    let state = ContainerState { terminated: self.last.clone(), ..ContainerState::default() };
                    return self.shown(container, at.pod, state, None);
                }
                Stage::Crashed { until, pause } => match wish {
                    Wish::Run(_) if at.now < until => {
                        let message = format!(
                            "back-off {} restarting failed container={} pod={}",
                            go_duration(pause),
                            container.name,
                            full_name(at.pod)
                        );
                        let state = waiting("CrashLoopBackOff", Some(message));
                        return self.shown(container, at.pod, state, Some(until));
                    }
                    Wish::Run(_) => self.begin(at.now),
                    Wish::Finish | Wish::Stop(_) => self.stage = Stage::Over,
                },
                Stage::Unpulled { failed, again, why } => {
                    if matches!(wish, Wish::Run(_)) && again <= at.now {
                        self.stage = Stage::Asked;
                        self.asked = at.now;
                        continue;
                    }
                    let shown = later(failed, PULL_ERROR_SHOWN);
                    let (state, until) = match at.now < shown {
                        true => (waiting(PULL_ERROR, Some(why)), shown),
                        false => (self.pull_pauses(container, &why, at), again),
                    };
                    return self.shown(container, at.pod, state, Some(until));
                }
                Stage::Asked => {
                    if let Some(look) = self.ask(container, wish, at) {
                        return look;
                    }
                }
            }
        }
    }

    /// Asks the runtime; nothing if that has led to another stage.
    fn ask(&mut self, container: &Container, wish: Wish, at: &mut Moment<'_>) -> Option<Look> {
        let run = self.run(at.pod, container);
        let Sight { doing, until } = match wish {
            Wish::Stop(stop) => at.runtime.stop(&run, stop.since, between(stop.since, stop.until), at.now),
            Wish::Run(_) | Wish::Finish => at.runtime.run(&run, at.now),
        };
        match doing {
            Doing::Starting => Some(self.shown(container, at.pod, waiting("ContainerCreating", None), until)),
            Doing::Stuck { reason, message } if reason == PULL_ERROR => {
                self.pull_failed(container, message, at);
                None
            }
            Doing::Stuck { reason, message } => {
                self.tell_trouble(
                    Event::warning("Failed", "Create", format!("Error: {message}")),
                    &message,
                    at,
                );
                Some(self.shown(container, at.pod, waiting(&reason, Some(message)), until))
            }
            Doing::Running { since, is_started, is_ready, failing } => {
                self.tell_start(container, at);
                match failing {
                    Some(failure) => self.tell_trouble(unhealthy(&failure), &failure.to_string(), at),
                    None => self.told.trouble = None,
                }
                if let Wish::Stop(_) = wish {
                    self.tell_stop(container, at);
                }
                let running = ContainerStateRunning { started_at: Some(time(since)) };
                let state = ContainerState { running: Some(running), ..ContainerState::default() };
                let mut look = self.shown(container, at.pod, state, until);
                look.status.started = Some(is_started);
                look.status.ready = is_ready;
                Some(look)
            }
            Doing::Exited { since, at: ended, code, reason, killed_for } => {
                self.tell_start(container, at);
                if let Some(failure) = killed_for {
                    self.tell_trouble(unhealthy(&failure), &failure.to_string(), at);
                    let (name, probe) = (&container.name, failure.probe.name().to_lowercase());
                    let note = format!("Container {name} failed {probe} probe, will be restarted");
                    at.events.push(Event::normal("Killing", "Kill", note));
                }
                if matches!(wish, Wish::Stop(stop) if stop.since <= ended) {
                    self.tell_stop(container, at);
                }
                let common = if code == 0 { "Completed" } else { "Error" };
                self.last = Some(ContainerStateTerminated {
                    exit_code: code,
                    reason: Some(reason.unwrap_or_else(|| common.to_owned())),
                    started_at: Some(time(since)),
                    finished_at: Some(time(ended)),
                    container_id: Some(self.id(at.pod, container)),
                    ..ContainerStateTerminated::default()
                });
                match wish {
                    Wish::Run(restarts) if restarts.after(code) => {
                        self.crashed(container, (since, ended), at)
                    }
                    _ => self.stage = Stage::Over,
                }
                None
            }
        }
    }

    fn run<'a>(&self, pod: &'a Pod, container: &'a Container) -> Run<'a> {
        Run { pod, container, restarts: self.restarts, asked: self.asked, is_resumed: self.is_resumed }
    }

    fn begin(&mut self, now: Timestamp) {
        self.restarts += 1;
        self.asked = now;
        self.is_resumed = false;
        self.stage = Stage::Asked;
        self.told = Told::default();
    }

    /// A restart follows: at once for the first time, then after growing pauses.
    fn crashed(
        &mut self,
        container: &Container,
        (since, ended): (Timestamp, Timestamp),
        at: &mut Moment<'_>,
    ) {
        if between(since, ended) >= FORGIVEN_AFTER {
            self.back_off = Duration::ZERO;
        }
        let pause = self.back_off;
        self.back_off = doubled(pause);
        if pause.is_zero() {
            return self.begin(ended);
        }
        self.stage = Stage::Crashed { until: later(ended, pause), pause };
        let (name, pod) = (&container.name, full_name(at.pod));
        let note = format!("Back-off restarting failed container {name} in pod {pod}");
        at.events.push(Event::warning("BackOff", "Restart", note));
    }

    fn pull_failed(&mut self, container: &Container, why: String, at: &mut Moment<'_>) {
        let image = container.image.as_deref().unwrap_or_default();
        at.events.push(Event::normal("Pulling", "Pull", format!("Pulling image {image:?}")));
        at.events.push(Event::warning("Failed", "Pull", format!("Failed to pull image {image:?}: {why}")));
        at.events.push(Event::warning("Failed", "Pull", format!("Error: {PULL_ERROR}")));
        let again = later(at.now, self.pull_back_off);
        self.pull_back_off = doubled(self.pull_back_off);
        self.told.back_off = false;
        self.stage = Stage::Unpulled { failed: at.now, again, why };
    }

    fn pull_pauses(&mut self, container: &Container, why: &str, at: &mut Moment<'_>) -> ContainerState {
        let note = format!("Back-off pulling image {:?}", container.image.as_deref().unwrap_or_default());
        if !std::mem::replace(&mut self.told.back_off, true) {
            at.events.push(Event::normal("BackOff", "Pull", note.clone()));
            at.events.push(Event::warning("Failed", "Pull", "Error: ImagePullBackOff"));
        }
        waiting("ImagePullBackOff", Some(format!("{note}: {PULL_ERROR}: {why}")))
    }

    fn tell_start(&mut self, container: &Container, at: &mut Moment<'_>) {
        if std::mem::replace(&mut self.told.start, true) {
            return;
        }
        let image = container.image.as_deref().unwrap_or_default();
        let pulled =
            format!("Container image {image:?} already present on machine and can be accessed by the pod");
        at.events.push(Event::normal("Pulled", "Pull", pulled));
        at.events.push(Event::normal("Created", "Create", "Container created"));
        at.events.push(Event::normal("Started", "Start", "Container started"));
    }

    fn tell_stop(&mut self, container: &Container, at: &mut Moment<'_>) {
        if !std::mem::replace(&mut self.told.stop, true) {
            let note = format!("Stopping container {}", container.name);
            at.events.push(Event::normal("Killing", "Kill", note));
        }
    }

    /// Tells of trouble once, as long as it is the same.
    fn tell_trouble(&mut self, event: Event, trouble: &str, at: &mut Moment<'_>) {
        if self.told.trouble.as_deref() != Some(trouble) {
            self.told.trouble = Some(trouble.to_owned());
            at.events.push(event);
        }
    }

    fn id(&self, pod: &Pod, container: &Container) -> String {
        format!("simulated://{}-{}-{}", pod.uid().unwrap_or_default(), container.name, self.restarts)
    }

    fn shown(
        &self,
        container: &Container,
        pod: &Pod,
        state: ContainerState,
        until: Option<Timestamp>,
    ) -> Look {
        let is_over = matches!(self.stage, Stage::Over);
        let image = container.image.clone().unwrap_or_default();
        let last = self.last.clone().filter(|_| !is_over);
        let id = match state.waiting {
            None => Some(self.id(pod, container)),
            Some(_) => last.as_ref().and_then(|last| last.container_id.clone()),
        };
        let status = ContainerStatus {
            name: container.name.clone(),
            image_id: id.as_ref().map(|_| format!("simulated://{image}")).unwrap_or_default(),
            image,
            container_id: id,
            started: Some(false),
            restart_count: self.restarts,
            // Always there, as the server has it: what is said again must not differ from what was said.
            last_state: Some(ContainerState { terminated: last, ..ContainerState::default() }),
            state: Some(state),
            ..ContainerStatus::default()
        };
        Look { status, until, is_over }
    }
}

fn unhealthy(failure: &Failure) -> Event {
    Event::warning("Unhealthy", "Probe", failure.to_string())
}

/// How long the restart after so many waits, if nothing was forgiven.
fn back_off_after(restarts: i32) -> Duration {
    (0..restarts.min(10)).fold(Duration::ZERO, |pause, _| doubled(pause))
}

fn doubled(pause: Duration) -> Duration {
    (pause * 2).clamp(FIRST_BACK_OFF, LONGEST_BACK_OFF)
}

pub(super) fn later(time: Timestamp, pause: Duration) -> Timestamp {
    let pause = SignedDuration::try_from(pause).unwrap_or(SignedDuration::MAX);
    time.saturating_add(pause).unwrap_or(Timestamp::MAX)
}

/// How long it is from one time to another; nothing if that has passed.
pub(super) fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

/// A time as statuses carry it: to the second.
pub(super) fn time(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).unwrap_or(at))
}

fn full_name(pod: &Pod) -> String {
    let namespace = pod.namespace().unwrap_or_default();
    format!("{}_{namespace}({})", pod.name_any(), pod.uid().unwrap_or_default())
}

fn waiting(reason: &str, message: Option<String>) -> ContainerState {
    let waiting = ContainerStateWaiting { reason: Some(reason.to_owned()), message };
    ContainerState { waiting: Some(waiting), ..ContainerState::default() }
}

/// Whole seconds, as Go prints them.
fn go_duration(pause: Duration) -> String {
    match (pause.as_secs() / 60, pause.as_secs() % 60) {
        (0, seconds) => format!("{seconds}s"),
        (minutes, seconds) => format!("{minutes}m{seconds}s"),
    }
}
