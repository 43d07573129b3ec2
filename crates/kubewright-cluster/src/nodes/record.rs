//! What a kubelet remembers of a pod, and how that goes on: containers that start, end and are restarted, and
//! what is said of them. Nothing here waits or writes; time is an argument.

use std::{collections::BTreeMap, time::Duration};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::core::v1::{
        Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
        ContainerStatus, Pod, PodCondition, PodStatus,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::ResourceExt as _;
use kubewright::Event;

use super::runtime::{Doing, Run, Runtime, Sight};
use crate::pods;

const FIRST_BACK_OFF: Duration = Duration::from_secs(10);
const LONGEST_BACK_OFF: Duration = Duration::from_secs(300);
/// A container that ran for so long is restarted as if it had never failed.
const FORGIVEN_AFTER: Duration = Duration::from_secs(600);

/// The containers of one pod.
#[derive(Debug, Default)]
pub(super) struct Record {
    containers: BTreeMap<String, Progress>,
}

/// How far a container has come.
#[derive(Debug, Clone)]
struct Progress {
    restarts: i32,
    asked: Timestamp,
    is_resumed: bool,
    /// How its last run ended.
    last: Option<ContainerStateTerminated>,
    /// Until when its next run waits, and how long that is in all.
    waits: Option<(Timestamp, Duration)>,
    back_off: Duration,
    /// It is not run again.
    is_over: bool,
    /// What was already told as events.
    told: Told,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Told {
    Nothing,
    Stuck,
    Started,
    BackOff,
}

/// What became of a pod when it was looked at.
pub(super) struct Step {
    pub(super) status: PodStatus,
    /// When to look again.
    pub(super) until: Option<Timestamp>,
    pub(super) events: Vec<Event>,
    /// Whether none of its containers runs any more.
    pub(super) is_over: bool,
}

/// What a container looks like.
struct Look {
    status: ContainerStatus,
    until: Option<Timestamp>,
    /// What lets the next init container begin: it is done, or, for one that stays, it has started.
    is_passed: bool,
    is_over: bool,
}

impl Record {
    /// What can be known of a pod that was running before this process was.
    pub(super) fn restored(pod: &Pod) -> Self {
        let status = pod.status.clone().unwrap_or_default();
        let all = status.init_container_statuses.into_iter().chain(status.container_statuses).flatten();
        let containers = all.filter_map(|container| {
            let state = container.state?;
            let last = container.last_state.and_then(|state| state.terminated);
            let progress = |asked: Timestamp| Progress {
                restarts: container.restart_count,
                asked,
                is_resumed: true,
                last,
                waits: None,
                back_off: Duration::ZERO,
                is_over: false,
                told: Told::Started,
            };
            let progress = match (state.running, state.terminated) {
                (Some(running), _) => progress(running.started_at?.0),
                (None, Some(ended)) => {
                    Progress { is_over: true, last: Some(ended.clone()), ..progress(ended.finished_at?.0) }
                }
                (None, None) => return None,
            };
            Some((container.name, progress))
        });
        Self { containers: containers.collect() }
    }

    /// Takes a pod as far as it can come by now.
    pub(super) fn step(&mut self, pod: &Pod, runtime: &dyn Runtime, now: Timestamp) -> Step {
        let spec = pods::spec(pod);
        let policy = spec.restart_policy.as_deref().unwrap_or("Always");
        let mut events = Vec::new();
        let (mut init, mut is_initialized, mut has_failed) = (Vec::new(), true, false);
        for container in spec.init_containers.iter().flatten() {
            let stays = container.restart_policy.as_deref() == Some("Always");
            let restarts = match (stays, policy) {
                (true, _) => Restarts::Always,
                (false, "Never") => Restarts::Never,
                (false, _) => Restarts::OnFailure,
            };
            let look = match is_initialized && !has_failed {
                true => self.look(pod, container, restarts, runtime, now, &mut events),
                false => waiting(container, "PodInitializing"),
            };
            has_failed |= look.is_over && !look.is_passed;
            is_initialized &= look.is_passed;
            init.push(look);
        }
        let restarts = match policy {
            "Never" => Restarts::Never,
            "OnFailure" => Restarts::OnFailure,
            _ => Restarts::Always,
        };
        let main: Vec<Look> = spec
            .containers
            .iter()
            .map(|container| match is_initialized {
                true => self.look(pod, container, restarts, runtime, now, &mut events),
                false => {
                    let has_init = spec.init_containers.as_ref().is_some_and(|init| !init.is_empty());
                    waiting(container, if has_init { "PodInitializing" } else { "ContainerCreating" })
                }
            })
            .collect();
        let until = init.iter().chain(&main).filter_map(|look| look.until).min();
        let is_over = match pods::is_terminating(pod) {
            true => init.iter().chain(&main).all(|look| !is_running(&look.status)),
            false => has_failed || main.iter().all(|look| look.is_over),
        };
        let mut status = pod.status.clone().unwrap_or_default();
        status.observed_generation = pod.metadata.generation;
        status.phase = Some(phase(&main, has_failed, is_initialized, restarts).to_owned());
        let statuses = |looks: Vec<Look>| looks.into_iter().map(|look| look.status).collect::<Vec<_>>();
        let (init, main) = (statuses(init), statuses(main));
        set_conditions(&mut status, &init, &main, is_initialized, now);
        status.start_time.get_or_insert_with(|| time(now));
        status.init_container_statuses = Some(init).filter(|init| !init.is_empty());
        status.container_statuses = Some(main);
        Step { status, until, events, is_over }
    }

    fn look(
        &mut self,
        pod: &Pod,
        container: &Container,
        restarts: Restarts,
        runtime: &dyn Runtime,
        now: Timestamp,
        events: &mut Vec<Event>,
    ) -> Look {
        let stopping = pods::is_terminating(pod).then(|| stop_of(pod));
        if stopping.is_some() && !self.containers.contains_key(&container.name) {
            return waiting(container, "ContainerCreating");
        }
        let progress = self.containers.entry(container.name.clone()).or_insert_with(|| Progress {
            restarts: 0,
            asked: now,
            is_resumed: false,
            last: None,
            waits: None,
            back_off: Duration::ZERO,
            is_over: false,
            told: Told::Nothing,
        });
        loop {
            if progress.is_over {
                let state = ContainerState { terminated: progress.last.clone(), ..ContainerState::default() };
                return progress.shown(container, state, false, false, None);
            }
            if let Some((until, pause)) = progress.waits {
                if now < until || stopping.is_some() {
                    let state = back_off(pod, container, pause);
                    return progress.shown(
                        container,
                        state,
                        false,
                        false,
                        Some(until).filter(|_| stopping.is_none()),
                    );
                }
                progress.begin(now);
            }
            let run = Run {
                pod,
                container,
                restarts: progress.restarts,
                asked: progress.asked,
                is_resumed: progress.is_resumed,
            };
            let Sight { doing, until } = match stopping {
                Some((since, grace)) => runtime.stop(&run, since, grace, now),
                None => runtime.run(&run, now),
            };
            match doing {
                Doing::Starting => {
                    let state = waiting_state("ContainerCreating", None);
                    return progress.shown(container, state, false, false, until);
                }
                Doing::Stuck { reason, message } => {
                    if progress.told < Told::Stuck {
                        progress.told = Told::Stuck;
                        events.push(Event::warning("Failed", "Pull", format!("Error: {reason}: {message}")));
                    }
                    let state = waiting_state(&reason, Some(message));
                    return progress.shown(container, state, false, false, until);
                }
                Doing::Running { since, is_started, is_ready } => {
                    progress.tell_start(container, events);
                    let running = ContainerStateRunning { started_at: Some(time(since)) };
                    let state = ContainerState { running: Some(running), ..ContainerState::default() };
                    return progress.shown(container, state, is_started, is_ready, until);
                }
                Doing::Exited { since, at, code, reason } => {
                    progress.tell_start(container, events);
                    progress.exit(container, pod, (since, at), code, reason);
                    let again = stopping.is_none() && restarts.after(code);
                    if !again {
                        progress.is_over = true;
                        continue;
                    }
                    progress.pause((since, at));
                    if progress.waits.is_some() && progress.told < Told::BackOff {
                        progress.told = Told::BackOff;
                        let name = &container.name;
                        let note =
                            format!("Back-off restarting failed container {name} in pod {}", full_name(pod));
                        events.push(Event::warning("BackOff", "Restart", note));
                    }
                }
            }
        }
    }
}

/// Whether a container is run again when it has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Restarts {
    Always,
    OnFailure,
    Never,
}

impl Restarts {
    fn after(self, code: i32) -> bool {
        match self {
            Self::Always => true,
            Self::OnFailure => code != 0,
            Self::Never => false,
        }
    }
}

impl Progress {
    fn begin(&mut self, now: Timestamp) {
        self.restarts += 1;
        self.asked = now;
        self.is_resumed = false;
        self.waits = None;
        self.told = Told::Nothing;
    }

    fn tell_start(&mut self, container: &Container, events: &mut Vec<Event>) {
        if self.told < Told::Started {
            self.told = Told::Started;
            let image = container.image.as_deref().unwrap_or_default();
            let pulled = format!(
                "Container image {image:?} already present on machine and can be accessed by the pod"
            );
            events.push(Event::normal("Pulled", "Pull", pulled));
            events.push(Event::normal("Created", "Create", "Container created"));
            events.push(Event::normal("Started", "Start", "Container started"));
        }
    }

    fn exit(
        &mut self,
        container: &Container,
        pod: &Pod,
        (since, at): (Timestamp, Timestamp),
        code: i32,
        reason: Option<String>,
    ) {
        let common = if code == 0 { "Completed" } else { "Error" };
        self.last = Some(ContainerStateTerminated {
            exit_code: code,
            reason: Some(reason.unwrap_or_else(|| common.to_owned())),
            started_at: Some(time(since)),
            finished_at: Some(time(at)),
            container_id: Some(id(pod, container, self.restarts)),
            ..ContainerStateTerminated::default()
        });
    }

    /// A restart follows: at once for the first time, then after growing pauses.
    fn pause(&mut self, (since, at): (Timestamp, Timestamp)) {
        let ran = Duration::try_from(at.duration_since(since)).unwrap_or_default();
        if ran >= FORGIVEN_AFTER {
            self.back_off = Duration::ZERO;
        }
        let pause = self.back_off;
        self.back_off = (pause * 2).clamp(FIRST_BACK_OFF, LONGEST_BACK_OFF);
        if pause.is_zero() {
            self.begin(at);
        } else {
            let until = at.saturating_add(SignedDuration::try_from(pause).unwrap_or_default());
            self.waits = Some((until.unwrap_or(Timestamp::MAX), pause));
        }
    }

    fn shown(
        &self,
        container: &Container,
        state: ContainerState,
        is_started: bool,
        is_ready: bool,
        until: Option<Timestamp>,
    ) -> Look {
        let is_done = state.terminated.as_ref().is_some_and(|ended| ended.exit_code == 0);
        let has_run = state.waiting.is_none();
        let last = if self.is_over { None } else { self.last.clone() };
        let image = container.image.clone().unwrap_or_default();
        Look {
            is_passed: (self.is_over && is_done) || (is_started && container.restart_policy.is_some()),
            is_over: self.is_over,
            until,
            status: ContainerStatus {
                name: container.name.clone(),
                image_id: if has_run { format!("simulated://{image}") } else { String::new() },
                image,
                container_id: has_run.then(|| format!("simulated://{}-{}", container.name, self.restarts)),
                ready: is_ready || (self.is_over && is_done),
                started: Some(is_started),
                restart_count: self.restarts,
                last_state: last
                    .map(|ended| ContainerState { terminated: Some(ended), ..ContainerState::default() }),
                state: Some(state),
                ..ContainerStatus::default()
            },
        }
    }
}

fn id(pod: &Pod, container: &Container, restarts: i32) -> String {
    format!("simulated://{}-{}-{restarts}", pod.uid().unwrap_or_default(), container.name)
}

fn full_name(pod: &Pod) -> String {
    let namespace = pod.namespace().unwrap_or_default();
    format!("{}_{namespace}({})", pod.name_any(), pod.uid().unwrap_or_default())
}

fn time(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).unwrap_or(at))
}

fn waiting_state(reason: &str, message: Option<String>) -> ContainerState {
    let waiting = ContainerStateWaiting { reason: Some(reason.to_owned()), message };
    ContainerState { waiting: Some(waiting), ..ContainerState::default() }
}

fn back_off(pod: &Pod, container: &Container, pause: Duration) -> ContainerState {
    let (name, pod) = (&container.name, full_name(pod));
    let message = format!("back-off {} restarting failed container={name} pod={pod}", go_duration(pause));
    waiting_state("CrashLoopBackOff", Some(message))
}

/// Whole seconds, as Go prints them.
fn go_duration(pause: Duration) -> String {
    match (pause.as_secs() / 60, pause.as_secs() % 60) {
        (0, seconds) => format!("{seconds}s"),
        (minutes, seconds) => format!("{minutes}m{seconds}s"),
    }
}

fn waiting(container: &Container, reason: &str) -> Look {
    Look {
        status: ContainerStatus {
            name: container.name.clone(),
            image: container.image.clone().unwrap_or_default(),
            started: Some(false),
            state: Some(waiting_state(reason, None)),
            ..ContainerStatus::default()
        },
        until: None,
        is_passed: false,
        is_over: false,
    }
}

fn is_running(status: &ContainerStatus) -> bool {
    status.state.as_ref().is_some_and(|state| state.running.is_some())
}

/// When a pod was asked to stop, and how long it may take.
fn stop_of(pod: &Pod) -> (Timestamp, Duration) {
    let grace = u64::try_from(pod.metadata.deletion_grace_period_seconds.unwrap_or(0)).unwrap_or(0);
    let end = pod.metadata.deletion_timestamp.as_ref().map_or(Timestamp::MIN, |time| time.0);
    let begin = end.saturating_sub(SignedDuration::from_secs(i64::try_from(grace).unwrap_or(0)));
    (begin.unwrap_or(Timestamp::MIN), Duration::from_secs(grace))
}

fn phase(main: &[Look], has_failed: bool, is_initialized: bool, restarts: Restarts) -> &'static str {
    if has_failed {
        return "Failed";
    }
    if !is_initialized {
        return "Pending";
    }
    let state = |look: &&Look| look.status.state.clone().unwrap_or_default();
    let is_new = |look: &&Look| state(look).waiting.is_some() && look.status.last_state.is_none();
    if main.iter().any(|look| is_new(&look)) {
        return "Pending";
    }
    if main.iter().all(|look| look.is_over) && restarts != Restarts::Always {
        let failed = |look: &Look| {
            look.status
                .state
                .as_ref()
                .is_some_and(|state| state.terminated.as_ref().is_some_and(|ended| ended.exit_code != 0))
        };
        return if main.iter().any(failed) { "Failed" } else { "Succeeded" };
    }
    "Running"
}

fn set_conditions(
    status: &mut PodStatus,
    init: &[ContainerStatus],
    main: &[ContainerStatus],
    is_initialized: bool,
    now: Timestamp,
) {
    let is_done = status.phase.as_deref() == Some("Succeeded");
    let names = |unready: Vec<&ContainerStatus>| {
        unready.iter().map(|container| container.name.as_str()).collect::<Vec<_>>().join(" ")
    };
    let initialized = match is_initialized {
        true if is_done => (true, Some("PodCompleted"), None),
        true => (true, None, None),
        false => {
            let left = names(init.iter().filter(|container| !container.ready).collect());
            (
                false,
                Some("ContainersNotInitialized"),
                Some(format!("containers with incomplete status: [{left}]")),
            )
        }
    };
    let unready: Vec<&ContainerStatus> = main.iter().filter(|container| !container.ready).collect();
    let ready = match (is_done, unready.is_empty()) {
        (true, _) => (false, Some("PodCompleted"), None),
        (false, true) => (true, None, None),
        (false, false) => (
            false,
            Some("ContainersNotReady"),
            Some(format!("containers with unready status: [{}]", names(unready))),
        ),
    };
    let conditions = status.conditions.get_or_insert_default();
    let mut set = |name: &str, (is_true, reason, message): (bool, Option<&str>, Option<String>)| {
        let wanted = if is_true { "True" } else { "False" };
        let found = conditions.iter_mut().find(|condition| condition.type_ == name);
        let since = match &found {
            Some(found) if found.status == wanted => found.last_transition_time.clone(),
            _ => Some(time(now)),
        };
        let condition = PodCondition {
            type_: name.to_owned(),
            status: wanted.to_owned(),
            reason: reason.map(str::to_owned),
            message,
            last_transition_time: since,
            observed_generation: status.observed_generation,
            ..PodCondition::default()
        };
        match found {
            Some(found) => *found = condition,
            None => conditions.push(condition),
        }
    };
    set("PodReadyToStartContainers", (true, None, None));
    set("Initialized", initialized);
    set("Ready", ready.clone());
    set("ContainersReady", ready);
}
