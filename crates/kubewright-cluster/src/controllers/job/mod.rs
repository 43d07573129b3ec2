//! Jobs: pods that are to come to an end, as often as wanted.
//!
//! [`state`] works out what is to be done; here it is done. Each pod carries a finalizer until the job has counted
//! it ([`tracking`]): first the status says which pods are about to be counted, then these are let go, then they
//! are counted. Whatever stops in between, each counts once.

mod backoff;
mod expiry;
mod indexes;
mod policy;
mod state;
mod tracking;
mod verdict;

use std::{collections::BTreeMap, time::Duration};

use futures_util::future::join_all;
use k8s_openapi::api::{
    batch::v1::{Job, JobCondition, JobSpec, JobStatus},
    core::v1::{Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod},
};
use kube::ResourceExt as _;
use kubewright::{Context, Controller, Event, Key, Next, Owners, Reconciler, Result, Seen, Watch};
use parking_lot::Mutex;

use self::{
    backoff::BackOff,
    state::{FAILURES, IGNORED_FAILURES, INDEX, Plan, State, is_settled, number, settle, some},
    tracking::{FINALIZER, release},
    verdict::{Verdict, set_condition},
};
use super::{
    claim::{self, ORPHANED_PODS, claim_matching},
    pod_batches,
};
use crate::pods::{self, is_ready};

/// The longest that a generated name may be before its random end.
const PREFIX_MAX: usize = 58;

/// A job's own controller, and those that clean up after it.
pub(super) fn controllers() -> [Controller; 3] {
    [controller(), tracking::controller(), expiry::controller()]
}

#[derive(Default)]
struct Jobs {
    back_offs: Mutex<BTreeMap<Key, BackOff>>,
}

fn controller() -> Controller {
    Controller::of_existing::<Job>()
        .owns_with(Watch::<Pod>::new().index(ORPHANED_PODS), Owners::Controller, [])
        .watches::<Pod, _, _>(|pod, lookup| {
            claim::adopters::<Job, _>(pod, lookup, |job| job.spec.as_ref()?.selector.as_ref())
        })
        .reconciles_deleted()
        .concurrency(5)
        .reports_as("job-controller")
        .run(Jobs::default())
}

impl Reconciler<Job> for Jobs {
    async fn reconcile(&self, job: &Job, cx: &Context<Job>) -> Result<Next> {
        let Some(spec) = job.spec.as_ref().filter(|_| !is_managed_elsewhere(job)) else {
            return Ok(Next::on_change());
        };
        if is_finished(job) {
            self.forget(&cx.key());
            return Ok(Next::on_change());
        }
        let Some(selector) = &spec.selector else { return Ok(Next::on_change()) };
        let pods =
            claim_matching(job, cx, |pod| pods::selects(selector, pod), &ORPHANED_PODS, Some(FINALIZER))
                .await?;
        let back_off = self.back_offs.lock().get(&cx.key()).copied().unwrap_or_default();
        let state = State::of(job, spec, &pods, back_off, cx.clock().now());
        let mut status = job.status.clone().unwrap_or_default();
        if status.start_time.is_none() && !state.is_suspended() {
            status.start_time = Some(cx.clock().time());
        }
        let deadline = state.deadline(status.start_time.as_ref());
        let mut verdict = state.verdict(deadline);
        let Managed { counts, outcome, wait } = match &verdict {
            Some(_) => end(&state, cx).await,
            None if job.metadata.deletion_timestamp.is_some() => Managed::nothing(&state),
            None => manage(job, &state, cx).await,
        };
        if verdict.is_some() {
            // Not before all of its pods have been told to end.
            verdict = verdict.filter(|_| outcome.is_ok());
        } else if state.is_complete(counts.active) {
            verdict = Some(Verdict::completed());
        } else if job.metadata.deletion_timestamp.is_none() {
            suspend_or_resume(&state, &mut status, cx).await;
        }
        status.active = some(number(counts.active));
        status.ready = Some(number(counts.ready));
        status.terminating = Some(number(counts.terminating));
        self.count(&state, status, verdict.as_ref(), cx).await?;
        outcome?;
        let next = [wait, deadline.filter(|_| verdict.is_none())].into_iter().flatten().min();
        Ok(next.map_or_else(Next::on_change, Next::after))
    }

    fn forget(&self, key: &Key) {
        self.back_offs.lock().remove(key);
    }
}

impl Jobs {
    /// Counts the pods that have ended, each once, and says so of the job when it has.
    async fn count(
        &self,
        state: &State<'_>,
        mut status: JobStatus,
        verdict: Option<&Verdict>,
        cx: &Context<Job>,
    ) -> Result<()> {
        let now = cx.clock().time();
        let released = state.track(&mut status, verdict);
        if let Some(verdict) = verdict {
            set_condition(&mut status, verdict.intent(), true, verdict.words(), &now);
        }
        write(&status, cx).await?;
        self.back_offs.lock().insert(cx.key(), state.back_off);
        let outcomes = join_all(released.iter().map(|pod| release(cx, pod))).await;
        outcomes.into_iter().collect::<Result<()>>()?;
        let left = state.tracked_besides(&released);
        settle(&mut status, &|uid| left.contains(uid));
        let ended = verdict
            .filter(|_| left.is_empty() && is_settled(&status) && status.terminating.unwrap_or(0) == 0);
        if let Some(verdict) = ended {
            set_condition(&mut status, verdict.end(), true, verdict.words(), &now);
            status.completion_time = Some(now).filter(|_| verdict.is_success);
        }
        write(&status, cx).await?;
        if let Some(verdict) = ended {
            self.forget(&cx.key());
            tell_end(state.spec, &status, verdict, cx).await;
        }
        Ok(())
    }
}

/// Writes a status as a whole, if it differs from what is there.
async fn write(status: &JobStatus, cx: &Context<Job>) -> Result<()> {
    let Some(job) = cx.get::<Job>(cx.key().name())?.filter(|job| job.status.as_ref() != Some(status)) else {
        return Ok(());
    };
    cx.replace_status(Job { status: Some(status.clone()), ..Job::clone(&job) }).await.map(|_| ())
}

/// How many pods there are.
#[derive(Clone, Copy)]
struct Counts {
    active: usize,
    ready: usize,
    terminating: usize,
}

/// What was done about the pods.
struct Managed {
    counts: Counts,
    outcome: Result<()>,
    /// How long a new pod has to wait.
    wait: Option<Duration>,
}

impl Managed {
    fn nothing(state: &State<'_>) -> Self {
        let (active, ready) = (state.active(), state.ready());
        let counts = Counts { active: active.len(), ready, terminating: state.terminating() };
        Self { counts, outcome: Ok(()), wait: None }
    }

    /// Notes how a deletion of active pods went.
    fn deleted(mut self, pods: &[Seen<Pod>], outcome: Result<()>) -> Self {
        if outcome.is_ok() {
            self.counts.active -= pods.len();
            self.counts.ready -= pods.iter().filter(|pod| is_ready(pod)).count();
            self.counts.terminating += pods.len();
        }
        self.outcome = outcome;
        self
    }
}

/// Deletes what is still active. These pods count as failed, or not at all if the job has succeeded.
async fn end(state: &State<'_>, cx: &Context<Job>) -> Managed {
    let active = state.active();
    let outcome = pod_batches::delete(cx, &active).await;
    Managed::nothing(state).deleted(&active, outcome)
}

/// Makes there be as many pods as there should.
async fn manage(job: &Job, state: &State<'_>, cx: &Context<Job>) -> Managed {
    let mut managed = Managed::nothing(state);
    match state.plan() {
        Plan::Nothing => {}
        Plan::Wait(left) => managed.wait = Some(left),
        Plan::Delete(surplus) => {
            let outcome = remove(&surplus, cx).await;
            managed = managed.deleted(&surplus, outcome);
        }
        Plan::Create(indexes) => {
            let pods = indexes.into_iter().map(|index| pod(job, state, index)).collect();
            let (created, outcome) = pod_batches::create(cx, pods).await;
            managed.counts.active += created;
            managed.outcome = outcome;
        }
    }
    managed
}

/// Deletes pods that are not to be counted.
async fn remove(pods: &[Seen<Pod>], cx: &Context<Job>) -> Result<()> {
    let outcomes = join_all(pods.iter().map(|pod| release(cx, pod))).await;
    outcomes.into_iter().collect::<Result<()>>()?;
    pod_batches::delete(cx, pods).await
}

/// A new pod, with an index if the job has them.
fn pod(job: &Job, state: &State<'_>, index: Option<i32>) -> Pod {
    let name = job.name_any();
    let mut pod = pods::from_template(&state.spec.template, &name);
    let meta = &mut pod.metadata;
    let finalizers = meta.finalizers.get_or_insert_default();
    if !finalizers.iter().any(|name| name == FINALIZER) {
        finalizers.push(FINALIZER.to_owned());
    }
    let Some(index) = index else { return pod };
    let end = format!("-{index}-");
    let start = name.get(..PREFIX_MAX - end.len()).unwrap_or(&name);
    meta.generate_name = Some(format!("{start}{end}"));
    meta.labels.get_or_insert_default().insert(INDEX.to_owned(), index.to_string());
    let annotations = meta.annotations.get_or_insert_default();
    annotations.insert(INDEX.to_owned(), index.to_string());
    if let Some((failures, ignored)) = state.failures_before(index) {
        annotations.insert(FAILURES.to_owned(), failures.to_string());
        if ignored > 0 {
            annotations.insert(IGNORED_FAILURES.to_owned(), ignored.to_string());
        }
    }
    let spec = pod.spec.get_or_insert_default();
    spec.hostname = Some(format!("{name}-{index}"));
    spec.init_containers.iter_mut().flatten().chain(&mut spec.containers).for_each(tell_index);
    pod
}

/// Containers find their index in their environment.
fn tell_index(container: &mut Container) {
    let variables = container.env.get_or_insert_default();
    if variables.iter().any(|variable| variable.name == "JOB_COMPLETION_INDEX") {
        return;
    }
    let field = ObjectFieldSelector { field_path: format!("metadata.labels['{INDEX}']"), api_version: None };
    variables.push(EnvVar {
        name: "JOB_COMPLETION_INDEX".to_owned(),
        value: None,
        value_from: Some(EnvVarSource { field_ref: Some(field), ..EnvVarSource::default() }),
    });
}

/// Says whether a job is suspended. The time it may take begins anew when it is resumed.
async fn suspend_or_resume(state: &State<'_>, status: &mut JobStatus, cx: &Context<Job>) {
    let now = cx.clock().time();
    let (event, reason, message) = match state.is_suspended() {
        true => ("Suspended", "JobSuspended", "Job suspended"),
        false => ("Resumed", "JobResumed", "Job resumed"),
    };
    if set_condition(status, "Suspended", state.is_suspended(), (reason, message), &now) {
        status.start_time = Some(now).filter(|_| !state.is_suspended());
        cx.event(Event::normal(event, event, message)).await;
    }
}

async fn tell_end(spec: &JobSpec, status: &JobStatus, verdict: &Verdict, cx: &Context<Job>) {
    if !verdict.is_success {
        let (reason, message) = verdict.words();
        cx.event(Event::warning(reason, "Fail", message)).await;
        return;
    }
    if spec.completions.is_some_and(|completions| status.succeeded.unwrap_or(0) > completions) {
        let note = "Too many succeeded pods running after completion count reached";
        cx.event(Event::warning("TooManySucceededPods", "Complete", note)).await;
    }
    cx.event(Event::normal("Completed", "Complete", "Job completed")).await;
}

/// Whether a condition of this name holds.
fn is_true(condition: &JobCondition, name: &str) -> bool {
    condition.type_ == name && condition.status == "True"
}

/// The condition by which a job has ended.
pub(super) fn terminal_condition(job: &Job) -> Option<&JobCondition> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| is_true(condition, "Complete") || is_true(condition, "Failed"))
}

/// Whether a job has ended.
pub(super) fn is_finished(job: &Job) -> bool {
    terminal_condition(job).is_some()
}

/// Whether somebody else cares for a job.
fn is_managed_elsewhere(job: &Job) -> bool {
    let manager = job.spec.as_ref().and_then(|spec| spec.managed_by.as_deref());
    manager.is_some_and(|manager| manager != "kubernetes.io/job-controller")
}
