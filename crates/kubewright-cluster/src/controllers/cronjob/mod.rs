//! Cron jobs: jobs that are made by the clock.

mod due;
mod schedule;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{Timestamp, tz::TimeZone};
use k8s_openapi::{
    api::{
        batch::v1::{CronJob, CronJobSpec, CronJobStatus, Job},
        core::v1::ObjectReference,
    },
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::ResourceExt as _;
use kubewright::{Context, Controller, Event, Key, Next, Reconciler, Result, Seen};
use parking_lot::Mutex;

use self::{
    due::{Due, next_in},
    schedule::Schedule,
};
use super::job::terminal_condition;
use crate::pods::is_controlled_by;

#[derive(Default)]
struct CronJobs {
    /// The schedules and time zones that were seen last.
    schedules: Mutex<BTreeMap<Key, (String, Option<String>)>>,
}

pub(super) fn controller() -> Controller {
    Controller::of_existing::<CronJob>()
        .owns::<Job>()
        .reconciles_deleted()
        .concurrency(5)
        .reports_as("cronjob-controller")
        .run(CronJobs::default())
}

impl Reconciler<CronJob> for CronJobs {
    async fn reconcile(&self, cron: &CronJob, cx: &Context<CronJob>) -> Result<Next> {
        let spec = &cron.spec;
        let jobs = cx.children::<Job>()?;
        let mut status = cron.status.clone().unwrap_or_default();
        remove_old(spec, &jobs, &mut status, cx).await?;
        follow(&jobs, &mut status, cx).await?;
        let outcome = match cron.metadata.deletion_timestamp {
            None if spec.suspend != Some(true) => self.start_due(cron, spec, &mut status, cx).await,
            _ => Ok(Next::on_change()),
        };
        cx.apply_status(status).await?;
        outcome
    }

    fn forget(&self, key: &Key) {
        self.schedules.lock().remove(key);
    }
}

impl CronJobs {
    /// Starts a job if one is due and may be started, and says when to look again.
    async fn start_due(
        &self,
        cron: &CronJob,
        spec: &CronJobSpec,
        status: &mut CronJobStatus,
        cx: &Context<CronJob>,
    ) -> Result<Next> {
        let name = spec.time_zone.as_deref().unwrap_or("UTC");
        let Ok(zone) = TimeZone::get(name) else {
            warn(cx, "UnknownTimeZone", format!("invalid timeZone: {name:?}: unknown time zone {name}"))
                .await;
            return Ok(Next::on_change());
        };
        let text = &spec.schedule;
        let Some(schedule) = Schedule::parse(text, zone) else {
            warn(cx, "UnparseableSchedule", format!("unparseable schedule: {text:?}")).await;
            return Ok(Next::on_change());
        };
        let now = cx.clock().now();
        let later = |cron: &CronJob| next_in(cron, &schedule, now).map_or_else(Next::on_change, Next::after);
        let seen = (text.clone(), spec.time_zone.clone());
        let before = self.schedules.lock().insert(cx.key(), seen.clone());
        if before.is_some_and(|before| before != seen) {
            // A new schedule counts from now on: what it would have been before is not made up for.
            return Ok(later(cron));
        }
        let due = match Due::of(cron, &schedule, now) {
            Ok(due) => due,
            Err(why) => {
                warn(cx, "InvalidSchedule", format!("invalid schedule: {text} : {why}")).await;
                return Ok(Next::on_change());
            }
        };
        let Some(at) = due.at else { return Ok(later(cron)) };
        if due.has_missed_many() {
            let note = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
            warn(cx, "TooManyMissedTimes", note).await;
        }
        if may_start(cron, spec, status, at, cx).await {
            start(cron, spec, status, at, &schedule, cx).await?;
        }
        Ok(later(&CronJob { status: Some(status.clone()), ..cron.clone() }))
    }
}

/// Whether nothing stands in the way of a start that is due.
async fn may_start(
    cron: &CronJob,
    spec: &CronJobSpec,
    status: &CronJobStatus,
    at: Timestamp,
    cx: &Context<CronJob>,
) -> bool {
    let name = job_name(cron, at);
    let active = status.active.as_deref().unwrap_or_default();
    if active.iter().any(|one| one.name.as_ref() == Some(&name))
        || status.last_schedule_time.as_ref().is_some_and(|last| last.0 == at)
    {
        return false;
    }
    if spec.concurrency_policy.as_deref() == Some("Forbid") && !active.is_empty() {
        let note = "Not starting job because prior execution is running and concurrency policy is Forbid";
        cx.event(Event::normal("JobAlreadyActive", "Start", note)).await;
        return false;
    }
    true
}

async fn start(
    cron: &CronJob,
    spec: &CronJobSpec,
    status: &mut CronJobStatus,
    at: Timestamp,
    schedule: &Schedule,
    cx: &Context<CronJob>,
) -> Result<()> {
    if spec.concurrency_policy.as_deref() == Some("Replace") {
        for reference in status.active.clone().unwrap_or_default() {
            if let Some(job) = cx.get::<Job>(reference.name.as_deref().unwrap_or_default())? {
                delete(&job, status, cx).await?;
            }
        }
    }
    let job = match cx.create(job(cron, spec, at, schedule)).await {
        Ok(job) => {
            let note = format!("Created job {}", job.name_any());
            cx.event(Event::normal("SuccessfulCreate", "Create", note)).await;
            job
        }
        // It was created before, but that was not noted.
        Err(error) if error.status().is_some_and(|status| status.reason == "AlreadyExists") => {
            let found = cx.live().get::<Job>(&job_name(cron, at)).await?;
            let uid = cron.uid().unwrap_or_default();
            let Some(job) = found.filter(|job| is_controlled_by(&**job, &uid)) else { return Ok(()) };
            job
        }
        Err(error) => {
            warn(cx, "FailedCreate", format!("Error creating job: {error}")).await;
            return Err(error);
        }
    };
    status.active.get_or_insert_default().push(reference(&job));
    status.last_schedule_time = Some(Time(at));
    Ok(())
}

fn job_name(cron: &CronJob, at: Timestamp) -> String {
    format!("{}-{}", cron.name_any(), at.as_second() / 60)
}

fn job(cron: &CronJob, spec: &CronJobSpec, at: Timestamp, schedule: &Schedule) -> Job {
    let meta = spec.job_template.metadata.clone().unwrap_or_default();
    let mut annotations = meta.annotations.unwrap_or_default();
    let local = at.to_zoned(schedule.zone().clone());
    let form = if local.offset().is_zero() { "%Y-%m-%dT%H:%M:%SZ" } else { "%Y-%m-%dT%H:%M:%S%:z" };
    let time = local.strftime(form).to_string();
    annotations.insert("batch.kubernetes.io/cronjob-scheduled-timestamp".to_owned(), time);
    Job {
        metadata: ObjectMeta {
            name: Some(job_name(cron, at)),
            labels: meta.labels,
            annotations: Some(annotations),
            ..ObjectMeta::default()
        },
        spec: spec.job_template.spec.clone(),
        status: None,
    }
}

fn reference(job: &Job) -> ObjectReference {
    ObjectReference {
        api_version: Some("batch/v1".to_owned()),
        kind: Some("Job".to_owned()),
        name: Some(job.name_any()),
        namespace: job.namespace(),
        uid: job.uid(),
        resource_version: job.resource_version(),
        field_path: None,
    }
}

/// Notes which jobs have ended or are gone since.
async fn follow(jobs: &[Seen<Job>], status: &mut CronJobStatus, cx: &Context<CronJob>) -> Result<()> {
    let there: BTreeSet<Option<String>> = jobs.iter().map(|job| job.uid()).collect();
    for job in jobs {
        let is_listed = status.active.iter().flatten().any(|one| one.uid == job.uid());
        let Some(end) = terminal_condition(job) else {
            if !is_listed {
                let note =
                    format!("Saw a job that the controller did not create or forgot: {}", job.name_any());
                warn(cx, "UnexpectedJob", note).await;
            }
            continue;
        };
        if is_listed {
            strike(status, job.uid().as_ref());
            let note = format!("Saw completed job: {}, condition: {}", job.name_any(), end.type_);
            cx.event(Event::normal("SawCompletedJob", "Follow", note)).await;
        }
        let success = job.status.as_ref().and_then(|status| status.completion_time.clone());
        let success = success.filter(|_| end.type_ == "Complete");
        status.last_successful_time = status.last_successful_time.take().max(success);
    }
    for missing in status.active.clone().into_iter().flatten().filter(|one| !there.contains(&one.uid)) {
        let name = missing.name.as_deref().unwrap_or_default();
        if cx.live().get::<Job>(name).await?.is_none_or(|job| job.uid() != missing.uid) {
            let note = format!("Active job went missing: {name}");
            cx.event(Event::normal("MissingJob", "Follow", note)).await;
            strike(status, missing.uid.as_ref());
        }
    }
    Ok(())
}

/// Deletes jobs that have ended, the oldest first, until no more are left than are to be kept.
async fn remove_old(
    spec: &CronJobSpec,
    jobs: &[Seen<Job>],
    status: &mut CronJobStatus,
    cx: &Context<CronJob>,
) -> Result<()> {
    let limits =
        [("Complete", spec.successful_jobs_history_limit), ("Failed", spec.failed_jobs_history_limit)];
    for (end, limit) in limits {
        let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else { continue };
        let has_ended = |job: &&Seen<Job>| {
            terminal_condition(job).is_some_and(|condition| condition.type_ == end)
                && job.metadata.deletion_timestamp.is_none()
        };
        let mut ended: Vec<&Seen<Job>> = jobs.iter().filter(has_ended).collect();
        ended.sort_by_key(|job| {
            let start = job.status.as_ref().and_then(|status| status.start_time.clone());
            (start.is_none(), start, job.name_any())
        });
        for job in ended.iter().take(ended.len().saturating_sub(limit)) {
            delete(job, status, cx).await?;
        }
    }
    Ok(())
}

async fn delete(job: &Seen<Job>, status: &mut CronJobStatus, cx: &Context<CronJob>) -> Result<()> {
    if let Err(error) = cx.delete(job).await {
        warn(cx, "FailedDelete", format!("Deleted job: {error}")).await;
        return Err(error);
    }
    strike(status, job.uid().as_ref());
    cx.event(Event::normal("SuccessfulDelete", "Delete", format!("Deleted job {}", job.name_any()))).await;
    Ok(())
}

/// Takes a job off the list of those that are active.
fn strike(status: &mut CronJobStatus, uid: Option<&String>) {
    if let Some(active) = &mut status.active {
        active.retain(|one| one.uid.as_ref() != uid);
    }
    status.active = status.active.take().filter(|active| !active.is_empty());
}

async fn warn(cx: &Context<CronJob>, reason: &str, note: impl Into<String>) {
    cx.event(Event::warning(reason, "Schedule", note)).await;
}
