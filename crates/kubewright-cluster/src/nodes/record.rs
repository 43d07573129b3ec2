//! What a kubelet remembers of a pod, and how that goes on: which of its containers run, in which order they begin
//! and end, and what is said of them. Nothing here waits or writes; time is an argument.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, PodStatus};
use kubewright::Event;

use super::{
    container::{Look, Moment, Progress, Restarts, Stop, Wish, later, time},
    runtime::Runtime,
    status::{has_failed, is_passed, phase, set_conditions},
};
use crate::pods;

const DEADLINE_REASON: &str = "DeadlineExceeded";
const DEADLINE_MESSAGE: &str = "Pod was active on the node longer than the specified deadline";

/// The containers of one pod.
#[derive(Debug, Default)]
pub(super) struct Record {
    containers: BTreeMap<String, Progress>,
    /// Since when it is known that the pod is being deleted.
    stopping: Option<Timestamp>,
}

/// What became of a pod when it was looked at.
pub(super) struct Step {
    pub(super) status: PodStatus,
    /// When to look again.
    pub(super) until: Option<Timestamp>,
    pub(super) events: Vec<Event>,
    /// Whether it has a place of its own in the network.
    pub(super) has_sandbox: bool,
    /// It has ended, and none of its containers runs any more.
    pub(super) is_over: bool,
}

/// What the containers of a pod look like, in their order.
#[derive(Default)]
pub(super) struct Looks {
    pub(super) init: Vec<Look>,
    pub(super) main: Vec<Look>,
}

impl Looks {
    /// Whether anything was done for any of them yet.
    pub(super) fn have_begun(&self) -> bool {
        self.all().any(|look| !look.is_untouched())
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Look> {
        self.init.iter().chain(&self.main)
    }
}

/// Whether an init container stays while the others run.
pub(super) fn stays(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// Which containers of a pod are run again.
pub(super) fn restarts(spec: &PodSpec) -> Restarts {
    match spec.restart_policy.as_deref() {
        Some("Never") => Restarts::Never,
        Some("OnFailure") => Restarts::OnFailure,
        _ => Restarts::Always,
    }
}

fn init_containers(pod: &Pod) -> &[Container] {
    pods::spec(pod).init_containers.as_deref().unwrap_or_default()
}

impl Record {
    /// What can be known of a pod that was running before this process was.
    pub(super) fn restored(pod: &Pod, now: Timestamp) -> Self {
        let status = pod.status.clone().unwrap_or_default();
        let all = status.init_container_statuses.into_iter().chain(status.container_statuses).flatten();
        let containers = all.filter_map(|container| {
            let name = container.name.clone();
            Some((name, Progress::restored(container, now)?))
        });
        Self { containers: containers.collect(), stopping: None }
    }

    /// Takes a pod as far as it can come by now.
    pub(super) fn step(&mut self, pod: &Pod, runtime: &dyn Runtime, now: Timestamp) -> Step {
        let mut status = pod.status.clone().unwrap_or_default();
        let start = status.start_time.get_or_insert_with(|| time(now)).0;
        let deadline = deadline(pod, start);
        let is_late = deadline.is_some_and(|deadline| deadline <= now);
        let stop = match pods::is_terminating(pod) {
            true => Some(self.stop_of(pod, now)),
            false => {
                deadline.filter(|_| is_late).map(|since| Stop { since, until: later(since, grace(pod)) })
            }
        };
        let mut at = Moment { pod, runtime, now, events: Vec::new() };
        let looks = match stop {
            Some(stop) => self.stopped(stop, &mut at),
            None => self.running(&mut at),
        };
        let is_terminal = |phase: &str| matches!(phase, "Succeeded" | "Failed");
        let phase = match phase(pod, &looks, stop.is_some()) {
            _ if pods::is_finished(pod) => pods::phase(pod).to_owned(),
            _ if is_late && !pods::is_terminating(pod) => {
                at.events.push(Event::normal(DEADLINE_REASON, "Stop", DEADLINE_MESSAGE));
                status.reason = Some(DEADLINE_REASON.to_owned());
                status.message = Some(DEADLINE_MESSAGE.to_owned());
                "Failed".to_owned()
            }
            phase if stop.is_some() && !is_terminal(phase) && !looks.all().any(Look::is_running) => {
                "Failed".to_owned()
            }
            phase => phase.to_owned(),
        };
        let is_over = is_terminal(&phase) && !looks.all().any(Look::is_running);
        let until = looks.all().filter_map(|look| look.until).chain(deadline.filter(|_| !is_late)).min();
        status.observed_generation = pod.metadata.generation;
        status.phase = Some(phase);
        let has_sandbox = looks.have_begun() && !is_over;
        set_conditions(&mut status, pod, &looks, has_sandbox, now);
        let events = at.events;
        let statuses = |looks: Vec<Look>| looks.into_iter().map(|look| look.status).collect::<Vec<_>>();
        let mut init = statuses(looks.init);
        for (container, status) in init_containers(pod).iter().zip(&mut init) {
            let ended = status.state.as_ref().and_then(|state| state.terminated.as_ref());
            status.ready |= !stays(container) && ended.is_some_and(|ended| ended.exit_code == 0);
        }
        status.init_container_statuses = Some(init).filter(|init| !init.is_empty());
        status.container_statuses = Some(statuses(looks.main));
        Step { status, until: until.filter(|_| !is_over), events, has_sandbox, is_over }
    }

    fn stop_of(&mut self, pod: &Pod, now: Timestamp) -> Stop {
        let since = *self.stopping.get_or_insert(now);
        let until = pod.metadata.deletion_timestamp.as_ref().map_or(since, |time| time.0.max(since));
        Stop { since, until }
    }

    /// Runs the init containers one after another and then the others; when those are done, ends those that stay.
    fn running(&mut self, at: &mut Moment<'_>) -> Looks {
        let (pod, spec) = (at.pod, pods::spec(at.pod));
        let policy = restarts(spec);
        let (mut looks, mut is_next) = (Looks::default(), true);
        for container in init_containers(pod) {
            let wish = match (stays(container), policy) {
                (true, _) => Restarts::Always,
                (false, Restarts::Never) => Restarts::Never,
                (false, _) => Restarts::OnFailure,
            };
            let look = self.look(container, is_next, Wish::Run(wish), at);
            is_next &= is_passed(container, &look);
            looks.init.push(look);
        }
        for container in &spec.containers {
            looks.main.push(self.look(container, is_next, Wish::Run(policy), at));
        }
        let mut init = init_containers(pod).iter().zip(&looks.init);
        let is_done = init.any(|(container, look)| has_failed(pod, container, look))
            || looks.main.iter().all(|look| look.is_over);
        if is_done && init_containers(pod).iter().any(stays) {
            let ends = looks.all().filter_map(|look| Some(look.ended()?.finished_at.as_ref()?.0));
            let since = ends.max().unwrap_or(at.now);
            self.stop_init(&mut looks, Stop { since, until: later(since, grace(pod)) }, at);
        }
        looks
    }

    /// Ends all containers: those that came first end last.
    fn stopped(&mut self, stop: Stop, at: &mut Moment<'_>) -> Looks {
        let (pod, mut looks) = (at.pod, Looks::default());
        for container in &pods::spec(pod).containers {
            looks.main.push(self.look(container, false, Wish::Stop(stop), at));
        }
        looks.init = init_containers(pod)
            .iter()
            .map(|container| Look::waiting(container, "PodInitializing"))
            .collect();
        self.stop_init(&mut looks, stop, at);
        looks
    }

    /// Ends the init containers, from the last to the first, each when those after it have ended.
    fn stop_init(&mut self, looks: &mut Looks, stop: Stop, at: &mut Moment<'_>) {
        let mut is_next = !looks.main.iter().any(Look::is_running);
        let end = |look: &Look| Some(look.ended()?.finished_at.as_ref()?.0);
        let mut since = looks.main.iter().filter_map(end).chain([stop.since]).max().unwrap_or(stop.since);
        for (container, slot) in init_containers(at.pod).iter().zip(&mut looks.init).rev() {
            let wish = match is_next {
                true => Wish::Stop(Stop { since, until: stop.until.max(since) }),
                false => Wish::Finish,
            };
            *slot = self.look(container, false, wish, at);
            is_next &= !slot.is_running();
            since = since.max(end(slot).unwrap_or(since));
        }
    }

    /// Looks at a container, which begins if it is its turn.
    fn look(&mut self, container: &Container, is_next: bool, wish: Wish, at: &mut Moment<'_>) -> Look {
        if is_next && !self.containers.contains_key(&container.name) {
            self.containers.insert(container.name.clone(), Progress::new(at.now));
        }
        match self.containers.get_mut(&container.name) {
            Some(progress) => progress.look(container, wish, at),
            None if init_containers(at.pod).is_empty() => Look::waiting(container, "ContainerCreating"),
            None => Look::waiting(container, "PodInitializing"),
        }
    }
}

/// When a pod has been active for too long.
fn deadline(pod: &Pod, start: Timestamp) -> Option<Timestamp> {
    let seconds = pods::spec(pod).active_deadline_seconds?;
    Some(later(start, Duration::from_secs(u64::try_from(seconds).unwrap_or(0))))
}

/// How long containers may take to end when nobody asks for less.
fn grace(pod: &Pod) -> Duration {
    let seconds = pods::spec(pod).termination_grace_period_seconds.unwrap_or(30);
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}
