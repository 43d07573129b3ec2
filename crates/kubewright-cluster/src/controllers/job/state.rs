//! What a job and its pods are at one moment, and what follows from it. Nothing here waits or writes.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{
        batch::v1::{Job, JobSpec, JobStatus},
        core::v1::Pod,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::ResourceExt as _;
use kubewright::Seen;

use super::{
    backoff::{BackOff, finish},
    indexes::Indexes,
    policy::{self, Failure},
    tracking::is_tracked,
    verdict::Verdict,
};
use crate::{
    controllers::pod_batches::BURST,
    pods::{DeletionRank, is_active, is_finished, is_ready, is_terminating, phase},
};

/// The index of a pod's completion, as a label and as an annotation.
pub(super) const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// How often the index of a pod has failed before.
pub(super) const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
/// How often it has failed before without counting.
pub(super) const IGNORED_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";
/// How many pods wait in a status to be counted.
const UNCOUNTED_MAX: usize = 500;

/// What is to be done about the pods of a job that goes on.
#[derive(Debug)]
pub(super) enum Plan {
    Nothing,
    /// Pods are missing, but others have failed not long ago.
    Wait(Duration),
    /// Pods with these indexes, or with none.
    Create(Vec<Option<i32>>),
    /// These pods no longer count.
    Delete(Vec<Seen<Pod>>),
}

/// A job and its pods.
pub(super) struct State<'j> {
    job: &'j Job,
    pub(super) spec: &'j JobSpec,
    pods: &'j [Seen<Pod>],
    now: Timestamp,
    /// Pods that have succeeded, counted or not; for a job with indexes, indexes that have.
    succeeded: i32,
    failed: i32,
    pub(super) back_off: BackOff,
    /// Indexes that have succeeded, as the status says, and as the pods do.
    counted_indexes: Indexes,
    succeeded_indexes: Indexes,
    /// Only with a limit for each index.
    failed_indexes: Option<Indexes>,
    /// Failed pods by their index, which stay until there is another to remember how often the index failed.
    kept: BTreeMap<i32, &'j Seen<Pod>>,
}

impl<'j> State<'j> {
    pub(super) fn of(
        job: &'j Job,
        spec: &'j JobSpec,
        pods: &'j [Seen<Pod>],
        back_off: BackOff,
        now: Timestamp,
    ) -> Self {
        let status = job.status.clone().unwrap_or_default();
        let mut state = Self {
            job,
            spec,
            pods,
            now,
            succeeded: 0,
            failed: 0,
            back_off,
            counted_indexes: Indexes::default(),
            succeeded_indexes: Indexes::default(),
            failed_indexes: None,
            kept: BTreeMap::new(),
        };
        let uncounted = status.uncounted_terminated_pods.unwrap_or_default();
        let (counted_well, counted_badly) =
            (uncounted.succeeded.unwrap_or_default(), uncounted.failed.unwrap_or_default());
        let is_new = |pod: &Pod, counted: &[String]| {
            is_tracked(pod) && state.has_place(pod) && !pod.uid().is_some_and(|uid| counted.contains(&uid))
        };
        let pods = || pods.iter().map(|pod| &**pod);
        let succeeded: Vec<&Pod> =
            pods().filter(|pod| phase(pod) == "Succeeded" && is_new(pod, &counted_well)).collect();
        let failed: Vec<&Pod> =
            pods().filter(|pod| state.is_failed(pod) && is_new(pod, &counted_badly)).collect();
        let counts = failed.iter().filter(|pod| Failure::of(pod, spec) != Failure::Ignored).count();
        let back_off = back_off.with(&succeeded, &failed);
        let succeeded = status.succeeded.unwrap_or(0) + number(succeeded.len() + counted_well.len());
        let failed = status.failed.unwrap_or(0) + number(counts + counted_badly.len());
        (state.back_off, state.succeeded, state.failed) = (back_off, succeeded, failed);
        if state.is_indexed() {
            state.read_indexes(status.completed_indexes.as_deref(), status.failed_indexes.as_deref());
        }
        state
    }

    fn read_indexes(&mut self, completed: Option<&str>, failed: Option<&str>) {
        let completions = self.completions();
        self.counted_indexes = Indexes::parse(completed.unwrap_or_default(), completions);
        let tracked = || self.pods.iter().filter(|pod| is_tracked(pod));
        let new =
            tracked().filter(|pod| phase(pod) == "Succeeded").filter_map(|pod| self.index(pod)).collect();
        self.succeeded_indexes = self.counted_indexes.union(&new);
        self.succeeded = self.succeeded_indexes.len();
        let Some(limit) = self.spec.backoff_limit_per_index else { return };
        let new =
            tracked().filter(|pod| self.fails_index(pod, limit)).filter_map(|pod| self.index(pod)).collect();
        let failed_indexes = Indexes::parse(failed.unwrap_or_default(), completions).union(&new);
        let over = self.succeeded_indexes.union(&failed_indexes).union(&self.indexes_of(is_active));
        let mut kept: BTreeMap<i32, &Seen<Pod>> = BTreeMap::new();
        for pod in self.pods.iter().filter(|pod| is_tracked(pod) && self.is_failed(pod)) {
            let Some(index) = self.index(pod).filter(|index| !over.contains(*index)) else { continue };
            let is_later =
                |other: &&Seen<Pod>| failures(other) <= failures(pod) && finish(pod) >= finish(other);
            if kept.get(&index).is_none_or(is_later) {
                kept.insert(index, pod);
            }
        }
        (self.failed_indexes, self.kept) = (Some(failed_indexes), kept);
    }

    fn is_indexed(&self) -> bool {
        self.spec.completion_mode.as_deref() == Some("Indexed")
    }

    fn completions(&self) -> i32 {
        self.spec.completions.unwrap_or(0)
    }

    pub(super) fn is_suspended(&self) -> bool {
        self.spec.suspend == Some(true)
    }

    /// The index of a pod, if the job has it.
    fn index(&self, pod: &Pod) -> Option<i32> {
        let index: i32 = pod.annotations().get(INDEX)?.parse().ok()?;
        (0..self.completions()).contains(&index).then_some(index)
    }

    fn indexes_of(&self, which: impl Fn(&Pod) -> bool) -> Indexes {
        self.pods.iter().filter(|pod| which(pod)).filter_map(|pod| self.index(pod)).collect()
    }

    /// Whether a pod can count: where there are indexes, it has one.
    fn has_place(&self, pod: &Pod) -> bool {
        !self.is_indexed() || self.index(pod).is_some()
    }

    /// Whether pods are only replaced once they have failed, not while they still end.
    fn waits_for_the_end(&self) -> bool {
        self.spec.pod_replacement_policy.as_deref() == Some("Failed")
            || self.spec.pod_failure_policy.is_some()
    }

    fn is_failed(&self, pod: &Pod) -> bool {
        let is_going = is_terminating(pod) && phase(pod) != "Succeeded";
        phase(pod) == "Failed" || (is_going && !self.waits_for_the_end())
    }

    fn fails_index(&self, pod: &Pod, limit: i32) -> bool {
        self.is_failed(pod)
            && match Failure::of(pod, self.spec) {
                Failure::FailsIndex => true,
                Failure::Ignored => false,
                Failure::Counts | Failure::FailsJob(_) => annotated(pod, FAILURES) >= limit,
            }
    }

    /// The pods that may still succeed.
    pub(super) fn active(&self) -> Vec<Seen<Pod>> {
        self.pods.iter().filter(|pod| is_active(pod)).cloned().collect()
    }

    /// Whether the job is to end, as far as that does not depend on what is done about its pods now.
    pub(super) fn verdict(&self, deadline: Option<Duration>) -> Option<Verdict> {
        let spec = self.spec;
        if let Some(before) = self.job.status.as_ref().and_then(Verdict::before) {
            return Some(before);
        }
        let failed = self.pods.iter().filter(|pod| spec.pod_failure_policy.is_some() && self.is_failed(pod));
        let fatal = failed.map(|pod| Failure::of(pod, spec)).find_map(|failure| match failure {
            Failure::FailsJob(message) => Some(message),
            _ => None,
        });
        if let Some(message) = fatal {
            return Some(Verdict::failure("PodFailurePolicy", message));
        }
        if self.failed > spec.backoff_limit.unwrap_or(6) || self.has_restarted_too_often() {
            return Some(Verdict::failure(
                "BackoffLimitExceeded",
                "Job has reached the specified backoff limit",
            ));
        }
        if deadline.is_some_and(|left| left.is_zero()) {
            return Some(Verdict::failure(
                "DeadlineExceeded",
                "Job was active longer than specified deadline",
            ));
        }
        if let Some(failed) = self.failed_indexes.as_ref().map(Indexes::len) {
            if spec.max_failed_indexes.is_some_and(|most| failed > most) {
                let message = "Job has exceeded the specified maximal number of failed indexes";
                return Some(Verdict::failure("MaxFailedIndexesExceeded", message));
            }
            if failed > 0 && failed + self.succeeded >= self.completions() {
                return Some(Verdict::failure("FailedIndexes", "Job has failed indexes"));
            }
        }
        let policy = spec.success_policy.as_ref().filter(|_| self.is_indexed())?;
        let message = policy::success(policy, self.completions(), &self.succeeded_indexes)?;
        Some(Verdict::success("SuccessPolicy", message))
    }

    /// How long the job may still take, if that is limited and it runs.
    pub(super) fn deadline(&self, start: Option<&Time>) -> Option<Duration> {
        let limit = self.spec.active_deadline_seconds.filter(|_| !self.is_suspended())?;
        let until = start?.0.saturating_add(SignedDuration::from_secs(limit)).unwrap_or(Timestamp::MAX);
        Some(Duration::try_from(until.duration_since(self.now)).unwrap_or_default())
    }

    /// Whether containers that are restarted in their pods have failed too often.
    fn has_restarted_too_often(&self) -> bool {
        let template = self.spec.template.spec.as_ref();
        if template.and_then(|spec| spec.restart_policy.as_deref()) != Some("OnFailure") {
            return false;
        }
        let unfinished =
            self.pods.iter().filter(|pod| !is_finished(pod)).filter_map(|pod| pod.status.as_ref());
        let containers = unfinished.flat_map(|status| {
            status.init_container_statuses.iter().chain(&status.container_statuses).flatten()
        });
        let restarts: i32 = containers.map(|container| container.restart_count).sum();
        restarts >= self.spec.backoff_limit.unwrap_or(6).max(1)
    }

    /// What is to be done about the pods.
    pub(super) fn plan(&self) -> Plan {
        let mut active = self.active();
        if self.is_suspended() {
            return if active.is_empty() { Plan::Nothing } else { Plan::Delete(active) };
        }
        let wanted = usize::try_from(self.wanted(number(active.len()))).unwrap_or(0);
        let surplus = self.surplus(&mut active, wanted);
        if !surplus.is_empty() {
            return Plan::Delete(surplus);
        }
        let going = match self.waits_for_the_end() {
            true => self.terminating(),
            false => 0,
        };
        let missing = wanted.saturating_sub(active.len() + going).min(BURST);
        if missing == 0 {
            return Plan::Nothing;
        }
        if self.failed_indexes.is_none() {
            let left = self.back_off.left(self.now);
            if !left.is_zero() {
                return Plan::Wait(left);
            }
        }
        match self.is_indexed() {
            true => self.plan_indexes(missing),
            false => Plan::Create(vec![None; missing]),
        }
    }

    /// How many pods should be active.
    fn wanted(&self, active: i32) -> i32 {
        let parallelism = self.spec.parallelism.unwrap_or(1);
        match self.spec.completions {
            Some(completions) => (completions - self.succeeded).clamp(0, parallelism.max(0)),
            // When one of its pods has succeeded, such a job waits for the others, and starts no more.
            None if self.succeeded > 0 => active,
            None => parallelism,
        }
    }

    /// Pods without an index of their own, and those that are too many; what is left is active.
    fn surplus(&self, active: &mut Vec<Seen<Pod>>, wanted: usize) -> Vec<Seen<Pod>> {
        active.sort_by_cached_key(|pod| DeletionRank::of(pod, 0, self.now));
        let mut surplus = Vec::new();
        if self.is_indexed() {
            let mut taken = BTreeSet::new();
            // Of two with the same index, the one that would be missed more stays.
            for at in (0..active.len()).rev() {
                if !self.index(&active[at]).is_some_and(|index| taken.insert(index)) {
                    surplus.push(active.remove(at));
                }
            }
        }
        let more = active.len().saturating_sub(wanted);
        surplus.extend(active.drain(..more));
        surplus.truncate(BURST);
        surplus
    }

    fn plan_indexes(&self, missing: usize) -> Plan {
        let mut taken = self.succeeded_indexes.union(&self.indexes_of(is_active));
        if self.waits_for_the_end() {
            taken = taken.union(&self.indexes_of(|pod| is_terminating(pod) && !is_finished(pod)));
        }
        if let Some(failed) = &self.failed_indexes {
            taken = taken.union(failed);
        }
        let indexes = taken.missing(self.completions(), missing);
        let left = |index: i32| {
            let failed = self.kept.get(&index);
            failed.map_or(Duration::ZERO, |pod| BackOff::after(failures(pod) + 1, finish(pod)).left(self.now))
        };
        let (now, later): (Vec<i32>, Vec<i32>) =
            indexes.into_iter().partition(|index| left(*index).is_zero());
        match later.into_iter().map(left).min() {
            Some(soonest) if now.is_empty() => Plan::Wait(soonest),
            _ if now.is_empty() => Plan::Nothing,
            _ => Plan::Create(now.into_iter().map(Some).collect()),
        }
    }

    /// How often a new pod's index has failed before, and how often without counting.
    pub(super) fn failures_before(&self, index: i32) -> Option<(i32, i32)> {
        self.failed_indexes.as_ref()?;
        let Some(pod) = self.kept.get(&index) else { return Some((0, 0)) };
        let (failures, ignored) = (annotated(pod, FAILURES), annotated(pod, IGNORED_FAILURES));
        Some(match Failure::of(pod, self.spec) {
            Failure::Ignored => (failures, ignored + 1),
            _ => (failures + 1, ignored),
        })
    }

    pub(super) fn terminating(&self) -> usize {
        self.pods.iter().filter(|pod| is_terminating(pod) && !is_finished(pod)).count()
    }

    pub(super) fn ready(&self) -> usize {
        self.pods.iter().filter(|pod| is_active(pod) && is_ready(pod)).count()
    }

    /// Whether all has succeeded that should, with so many pods active.
    pub(super) fn is_complete(&self, active: usize) -> bool {
        active == 0 && self.succeeded >= self.spec.completions.unwrap_or(1)
    }

    /// Notes in a status which pods have ended since, and gives those that can be let go once that is written.
    pub(super) fn track(&self, status: &mut JobStatus, verdict: Option<&Verdict>) -> Vec<Seen<Pod>> {
        let tracked = self.tracked_besides(&[]);
        settle(status, &|uid| tracked.contains(uid));
        let uncounted = status.uncounted_terminated_pods.get_or_insert_default();
        let mut pods: Vec<&Seen<Pod>> = self.pods.iter().filter(|pod| is_tracked(pod)).collect();
        pods.sort_by_key(|pod| self.index(pod));
        let (mut released, mut indexes) = (Vec::new(), Vec::new());
        for pod in pods.into_iter().filter(|pod| self.may_go(pod, verdict.is_some())) {
            released.push(pod.clone());
            let is_listed = |list: &Option<Vec<String>>| list.iter().flatten().any(|one| one == uid(pod));
            if phase(pod) == "Succeeded" && !is_listed(&uncounted.failed) {
                match self.index(pod) {
                    Some(index) => indexes.push(index),
                    None if self.is_indexed() || is_listed(&uncounted.succeeded) => {}
                    None => uncounted.succeeded.get_or_insert_default().push(uid(pod).to_owned()),
                }
            } else if (self.is_failed(pod) || verdict.is_some_and(|verdict| !verdict.is_success))
                && !is_listed(&uncounted.failed)
                && self.has_place(pod)
                && Failure::of(pod, self.spec) != Failure::Ignored
            {
                uncounted.failed.get_or_insert_default().push(uid(pod).to_owned());
            }
            let lists = [&uncounted.succeeded, &uncounted.failed];
            if indexes.len() + lists.into_iter().flatten().map(Vec::len).sum::<usize>() >= UNCOUNTED_MAX {
                break;
            }
        }
        if self.is_indexed() {
            let counted = self.counted_indexes.union(&indexes.into_iter().collect());
            status.succeeded = some(counted.len());
            status.completed_indexes = Some(counted.to_string()).filter(|text| !text.is_empty());
            status.failed_indexes = self.failed_indexes.as_ref().map(ToString::to_string);
        }
        released
    }

    /// The UIDs of pods that wait to be counted, without those that were let go.
    pub(super) fn tracked_besides(&self, released: &[Seen<Pod>]) -> BTreeSet<&str> {
        let released: BTreeSet<&str> = released.iter().map(|pod| uid(pod)).collect();
        let tracked = self.pods.iter().filter(|pod| is_tracked(pod)).map(|pod| uid(pod));
        tracked.filter(|uid| !released.contains(uid)).collect()
    }

    /// Whether a pod need not wait to be counted.
    fn may_go(&self, pod: &Seen<Pod>, has_verdict: bool) -> bool {
        let is_kept = || {
            let kept = self.index(pod).and_then(|index| self.kept.get(&index));
            kept.is_some_and(|kept| uid(kept) == uid(pod))
        };
        self.job.metadata.deletion_timestamp.is_some()
            || has_verdict
            || phase(pod) == "Succeeded"
            || (self.is_failed(pod) && !is_kept())
    }
}

/// Counts the pods that have been let go.
pub(super) fn settle(status: &mut JobStatus, is_tracked: &dyn Fn(&str) -> bool) {
    let uncounted = status.uncounted_terminated_pods.get_or_insert_default();
    for (list, count) in
        [(&mut uncounted.succeeded, &mut status.succeeded), (&mut uncounted.failed, &mut status.failed)]
    {
        let waiting = list.take().unwrap_or_default();
        let all = waiting.len();
        let left: Vec<String> = waiting.into_iter().filter(|uid| is_tracked(uid)).collect();
        *count = some(count.unwrap_or(0) + number(all - left.len()));
        *list = Some(left).filter(|left| !left.is_empty());
    }
}

/// Whether a status has counted all that has ended.
pub(super) fn is_settled(status: &JobStatus) -> bool {
    status
        .uncounted_terminated_pods
        .as_ref()
        .is_none_or(|pods| pods.succeeded.is_none() && pods.failed.is_none())
}

fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

fn annotated(pod: &Pod, name: &str) -> i32 {
    pod.annotations().get(name).and_then(|value| value.parse().ok()).filter(|count| *count >= 0).unwrap_or(0)
}

/// How often the index of a pod had failed before it, in all.
fn failures(pod: &Pod) -> i32 {
    annotated(pod, FAILURES) + annotated(pod, IGNORED_FAILURES)
}

pub(super) fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// A count as a status has it: zero is not written.
pub(super) fn some(count: i32) -> Option<i32> {
    Some(count).filter(|count| *count != 0)
}
