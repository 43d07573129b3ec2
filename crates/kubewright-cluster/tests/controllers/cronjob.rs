//! Cron jobs. Every test begins at midnight, the first of January 2026, in UTC.

use std::time::Duration;

use k8s_openapi::api::batch::v1::{CronJob, Job};
use kube::{Api, ResourceExt as _, api::DeleteParams};
use kubewright_cluster::{TestCluster, nodes::Script};
use serde_json::{Value, json};

use crate::{events::events, server};

/// Applies a cron job with these fields, whose jobs run an image once.
async fn cron_job(cluster: &TestCluster, image: &str, spec: Value) {
    let mut cron = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "tick"},
        "spec": {"jobTemplate": {
            "metadata": {"labels": {"app": "tick"}},
            "spec": {"backoffLimit": 0, "template": {"spec": {
                "restartPolicy": "Never", "containers": [{"name": "main", "image": image}],
            }}},
        }},
    });
    for (name, value) in spec.as_object().unwrap() {
        cron["spec"][name] = value.clone();
    }
    cluster.apply(&cron.to_string()).await;
}

const MINUTE: Duration = Duration::from_secs(60);

/// Minutes since the epoch at the beginning of a test.
const ORIGIN: i64 = 29_453_760;

/// The minutes for which there are jobs.
async fn minutes(cluster: &TestCluster) -> Vec<i64> {
    let jobs = cluster.list::<Job>().await;
    jobs.iter()
        .map(|job| job.name_any().strip_prefix("tick-").unwrap().parse::<i64>().unwrap() - ORIGIN)
        .collect()
}

async fn active(cluster: &TestCluster) -> Vec<String> {
    let status = cluster.get::<CronJob>("tick").await.status.unwrap_or_default();
    status.active.unwrap_or_default().into_iter().map(|one| one.name.unwrap()).collect()
}

#[tokio::test]
async fn jobs_are_made_when_they_are_due_and_followed_to_their_end() {
    if server::is_left_out("minutes of waiting, to the minute") {
        return;
    }
    let cluster = server::start().await;
    cluster.script("once", Script::default().exits_after(Duration::from_secs(10), 0));
    cron_job(&cluster, "once", json!({"schedule": "*/5 * * * *"})).await;
    cluster.advance(5 * MINUTE + Duration::from_secs(5)).await;
    assert_eq!(minutes(&cluster).await, [5]);
    let name = format!("tick-{}", ORIGIN + 5);
    assert_eq!(active(&cluster).await, [name.as_str()]);
    let job = cluster.get::<Job>(&name).await;
    assert_eq!(job.labels()["app"], "tick");
    assert_eq!(job.annotations()["batch.kubernetes.io/cronjob-scheduled-timestamp"], "2026-01-01T00:05:00Z");
    assert_eq!(job.owner_references()[0].name, "tick");
    cluster.advance(MINUTE).await;
    let status = cluster.get::<CronJob>("tick").await.status.unwrap();
    assert_eq!(status.active, None);
    assert_eq!(status.last_schedule_time.unwrap().0.to_string(), "2026-01-01T00:05:00Z");
    let job = cluster.get::<Job>(&name).await;
    assert_eq!(status.last_successful_time, job.status.unwrap().completion_time);
    assert_eq!(
        events(&cluster, "CronJob", "tick").await,
        [
            format!("SuccessfulCreate: Created job {name}"),
            format!("SawCompletedJob: Saw completed job: {name}, condition: Complete"),
        ]
    );
}

#[tokio::test]
async fn a_time_zone_says_when_midnight_is() {
    if server::is_left_out("minutes of waiting, to the minute") {
        return;
    }
    let cluster = server::start().await;
    cron_job(&cluster, "once", json!({"schedule": "@daily", "timeZone": "America/New_York"})).await;
    cluster.advance(5 * 60 * MINUTE + MINUTE).await;
    assert_eq!(minutes(&cluster).await, [300]);
    let job = &cluster.list::<Job>().await[0];
    assert_eq!(
        job.annotations()["batch.kubernetes.io/cronjob-scheduled-timestamp"],
        "2026-01-01T00:00:00-05:00"
    );
}

#[tokio::test]
async fn jobs_that_overlap_are_allowed_forbidden_or_replaced() {
    if server::is_left_out("minutes of waiting, to the minute") {
        return;
    }
    for (policy, jobs, told) in [
        ("Allow", vec![1, 2, 3], "SuccessfulCreate"),
        ("Forbid", vec![1], "JobAlreadyActive"),
        ("Replace", vec![3], "SuccessfulDelete"),
    ] {
        let cluster = server::start().await;
        cluster.script("runs", Script::default());
        cron_job(&cluster, "runs", json!({"schedule": "* * * * *", "concurrencyPolicy": policy})).await;
        cluster.advance(3 * MINUTE + Duration::from_secs(5)).await;
        assert_eq!(minutes(&cluster).await, jobs, "{policy}");
        assert_eq!(active(&cluster).await.len(), jobs.len(), "{policy}");
        let all = events(&cluster, "CronJob", "tick").await;
        assert!(all.iter().any(|event| event.starts_with(told)), "{policy}: {all:?}");
    }
}

#[tokio::test]
async fn only_some_of_the_jobs_that_have_ended_are_kept() {
    if server::is_left_out("minutes of waiting, to the minute") {
        return;
    }
    let cluster = server::start().await;
    cluster.simulated().decide(|pod, _| {
        let minute: i64 = pod.labels()["batch.kubernetes.io/job-name"].strip_prefix("tick-")?.parse().ok()?;
        Some(Script::default().exits_after(Duration::from_secs(1), i32::from(minute % 2 == 0)))
    });
    let limits =
        json!({"schedule": "* * * * *", "successfulJobsHistoryLimit": 2, "failedJobsHistoryLimit": 1});
    cron_job(&cluster, "some", limits).await;
    cluster.advance(7 * MINUTE + MINUTE / 2).await;
    assert_eq!(minutes(&cluster).await, [5, 6, 7]);
    let told = events(&cluster, "CronJob", "tick").await;
    assert!(told.contains(&format!("SuccessfulDelete: Deleted job tick-{}", ORIGIN + 1)), "{told:?}");
    assert!(
        told.contains(&format!("SawCompletedJob: Saw completed job: tick-{}, condition: Failed", ORIGIN + 2))
    );
}

#[tokio::test]
async fn a_suspended_cron_job_starts_nothing_and_makes_up_for_one_afterwards() {
    if server::is_left_out("minutes of waiting, to the minute") {
        return;
    }
    let cluster = server::start().await;
    cron_job(&cluster, "once", json!({"schedule": "*/10 * * * *", "suspend": true})).await;
    cluster.advance(35 * MINUTE).await;
    assert!(minutes(&cluster).await.is_empty());
    cluster.patch::<CronJob>("tick", json!({"spec": {"suspend": false}})).await;
    cluster.quiet().await;
    assert_eq!(minutes(&cluster).await, [30], "the latest that was missed");
    cluster.advance(6 * MINUTE).await;
    assert_eq!(minutes(&cluster).await, [30, 40]);
}

#[tokio::test]
async fn what_would_be_too_late_is_not_started() {
    if server::is_left_out("minutes of waiting, to the minute") {
        return;
    }
    let cluster = server::start().await;
    let spec = json!({"schedule": "0 * * * *", "suspend": true, "startingDeadlineSeconds": 60});
    cron_job(&cluster, "once", spec).await;
    cluster.advance(70 * MINUTE).await;
    cluster.patch::<CronJob>("tick", json!({"spec": {"suspend": false}})).await;
    cluster.quiet().await;
    assert!(minutes(&cluster).await.is_empty());
    cluster.advance(51 * MINUTE).await;
    assert_eq!(minutes(&cluster).await, [120], "the next one is");
}

#[tokio::test]
async fn many_missed_starts_are_warned_of_and_the_latest_is_made_up_for() {
    if server::is_left_out("minutes of waiting, to the minute") {
        return;
    }
    let cluster = server::start().await;
    cron_job(&cluster, "once", json!({"schedule": "* * * * *", "suspend": true})).await;
    cluster.advance(150 * MINUTE).await;
    cluster.patch::<CronJob>("tick", json!({"spec": {"suspend": false}})).await;
    cluster.quiet().await;
    assert_eq!(minutes(&cluster).await, [150]);
    let told = events(&cluster, "CronJob", "tick").await;
    let warning = "TooManyMissedTimes: too many missed start times. Set or decrease .spec.startingDeadlineSeconds or \
                   check clock skew";
    assert!(told.iter().any(|event| event == warning), "{told:?}");
}

#[tokio::test]
async fn a_new_schedule_counts_from_now_on() {
    if server::is_left_out("minutes of waiting, to the minute") {
        return;
    }
    let cluster = server::start().await;
    cron_job(&cluster, "once", json!({"schedule": "0 0 1 1 *"})).await;
    cluster.advance(30 * MINUTE + Duration::from_secs(10)).await;
    cluster.patch::<CronJob>("tick", json!({"spec": {"schedule": "*/5 * * * *"}})).await;
    cluster.quiet().await;
    assert!(minutes(&cluster).await.is_empty());
    cluster.advance(5 * MINUTE).await;
    assert_eq!(minutes(&cluster).await, [35]);
}

#[tokio::test]
async fn a_day_that_never_comes_is_told_of() {
    let cluster = server::start().await;
    cron_job(&cluster, "once", json!({"schedule": "0 0 31 2 *"})).await;
    cluster.quiet().await;
    assert_eq!(
        events(&cluster, "CronJob", "tick").await,
        [
            "InvalidSchedule: invalid schedule: 0 0 31 2 * : time difference between two schedules is less than 1 second"
        ]
    );
}

#[tokio::test]
async fn a_job_that_goes_missing_is_no_longer_active() {
    if server::is_left_out("minutes of waiting, to the minute") {
        return;
    }
    let cluster = server::start().await;
    cluster.script("runs", Script::default());
    cron_job(&cluster, "runs", json!({"schedule": "@hourly"})).await;
    cluster.advance(61 * MINUTE).await;
    let name = active(&cluster).await.pop().unwrap();
    // Not as by default, which would keep its pods and wait for that.
    let jobs: Api<Job> = Api::default_namespaced(cluster.client());
    jobs.delete(&name, &DeleteParams::background()).await.unwrap();
    cluster.quiet().await;
    assert!(active(&cluster).await.is_empty());
    let told = events(&cluster, "CronJob", "tick").await;
    assert_eq!(told.last().unwrap(), &format!("MissingJob: Active job went missing: {name}"));
}
