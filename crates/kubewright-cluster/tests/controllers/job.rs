//! Jobs.

use std::time::Duration;

use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::{Api, ResourceExt, api::DeleteParams};
use kubewright_cluster::{TestCluster, nodes::Script};
use serde_json::{Value, json};

use crate::{events::events, server};

const FINALIZER: &str = "batch.kubernetes.io/job-tracking";

/// Applies a job with these fields, and an image that is to run once.
async fn job(cluster: &TestCluster, image: &str, spec: Value) {
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "work"},
        "spec": {"template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "main", "image": image}],
        }}},
    });
    for (name, value) in spec.as_object().unwrap() {
        job["spec"][name] = value.clone();
    }
    cluster.apply(&job.to_string()).await;
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The status of the job, without times.
async fn status(cluster: &TestCluster) -> Value {
    let job = cluster.get::<Job>("work").await;
    let mut status = serde_json::to_value(job.status.unwrap_or_default()).unwrap();
    for field in ["startTime", "completionTime"] {
        status.as_object_mut().unwrap().remove(field);
    }
    for condition in status.get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten() {
        for field in ["lastProbeTime", "lastTransitionTime"] {
            condition.as_object_mut().unwrap().remove(field).unwrap();
        }
    }
    status
}

fn condition(kind: &str, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": "True", "reason": reason, "message": message})
}

/// Both conditions of a job that has ended.
fn ended(kinds: [&str; 2], reason: &str, message: &str) -> Value {
    kinds.map(|kind| condition(kind, reason, message)).into()
}

const SUCCEEDED: [&str; 2] = ["SuccessCriteriaMet", "Complete"];
const FAILED: [&str; 2] = ["FailureTarget", "Failed"];

/// Waits until the job has ended, and gives its status.
async fn finished(cluster: &TestCluster) -> Value {
    cluster
        .eventually("the job has ended", async |cluster| {
            let job = cluster.get::<Job>("work").await;
            let conditions = job.status.and_then(|status| status.conditions).unwrap_or_default();
            conditions.iter().any(|one| matches!(one.type_.as_str(), "Complete" | "Failed"))
        })
        .await;
    status(cluster).await
}

async fn phases(cluster: &TestCluster, phase: &str) -> usize {
    let pods = cluster.list::<Pod>().await;
    pods.iter().filter(|pod| pod.status.as_ref().unwrap().phase.as_deref() == Some(phase)).count()
}

#[tokio::test]
async fn a_job_runs_its_pods_to_completion_and_counts_them() {
    let cluster = server::start().await;
    job(&cluster, "once", json!({"completions": 5, "parallelism": 2})).await;
    cluster.eventually("two run at first", async |cluster| phases(cluster, "Running").await == 2).await;
    assert_eq!(status(&cluster).await["active"], 2);
    let status = finished(&cluster).await;
    assert_eq!(
        status,
        json!({
            "succeeded": 5, "ready": 0, "terminating": 0, "uncountedTerminatedPods": {},
            "conditions": ended(SUCCEEDED, "CompletionsReached", "Reached expected number of succeeded pods"),
        })
    );
    let pods = cluster.list::<Pod>().await;
    assert_eq!(pods.len(), 5);
    for pod in &pods {
        assert!(pod.finalizers().is_empty(), "{} was counted", pod.name_any());
        assert_eq!(pod.labels()["batch.kubernetes.io/job-name"], "work");
        assert_eq!(pod.owner_references()[0].kind, "Job");
    }
    let told = events(&cluster, "Job", "work").await;
    assert_eq!(told.len(), 6, "{told:?}");
    assert!(told.contains(&format!("SuccessfulCreate: Created pod: {}", pods[0].name_any())));
    assert_eq!(told[5], "Completed: Job completed");
    let status = cluster.get::<Job>("work").await.status.unwrap();
    assert!(status.completion_time.unwrap().0 > status.start_time.unwrap().0);
}

#[tokio::test]
async fn pods_that_fail_are_replaced_after_growing_pauses_until_there_are_too_many() {
    let cluster = server::start().await;
    cluster.script("fails", Script::default().exits_after(seconds(1), 3));
    job(&cluster, "fails", json!({"backoffLimit": 3})).await;
    let status = finished(&cluster).await;
    assert_eq!(status["failed"], 4);
    assert_eq!(
        status["conditions"],
        ended(FAILED, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    );
    let mut created: Vec<i64> = cluster
        .list::<Pod>()
        .await
        .iter()
        .map(|pod| pod.creation_timestamp().unwrap().0.as_second())
        .collect();
    created.sort_unstable();
    let pauses: Vec<i64> = created.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // Each pod runs for a second before it fails.
    for (pause, expected) in pauses.iter().zip([10, 20, 40]) {
        assert!((expected..expected + 3).contains(pause), "{pauses:?}");
    }
    let told = events(&cluster, "Job", "work").await;
    assert_eq!(told.last().unwrap(), "BackoffLimitExceeded: Job has reached the specified backoff limit");
    assert!(cluster.get::<Job>("work").await.status.unwrap().completion_time.is_none());
}

#[tokio::test]
async fn restarts_within_a_pod_count_towards_the_limit() {
    let cluster = server::start().await;
    cluster.script("fails", Script::default().exits_after(seconds(1), 3));
    let template = json!({"spec": {
        "restartPolicy": "OnFailure", "containers": [{"name": "main", "image": "fails"}],
    }});
    job(&cluster, "fails", json!({"backoffLimit": 2, "template": template})).await;
    let status = finished(&cluster).await;
    assert_eq!(status["conditions"][1]["reason"], "BackoffLimitExceeded");
    assert_eq!(status["failed"], 1);
    cluster.quiet().await;
    assert!(cluster.list::<Pod>().await.is_empty(), "the pod that would go on is deleted");
}

#[tokio::test]
async fn indexed_pods_know_their_index_and_completed_ones_are_listed() {
    let cluster = server::start().await;
    cluster.simulated().decide(|pod, _| {
        let runs = if pod.labels()["batch.kubernetes.io/job-completion-index"] == "1" { 60 } else { 1 };
        Some(Script::default().exits_after(seconds(runs), 0))
    });
    job(&cluster, "once", json!({"completions": 4, "parallelism": 4, "completionMode": "Indexed"})).await;
    cluster.eventually("all but one are done", async |cluster| status(cluster).await["succeeded"] == 3).await;
    assert_eq!(status(&cluster).await["completedIndexes"], "0,2,3");
    let pods = cluster.list::<Pod>().await;
    for (index, pod) in pods.iter().enumerate() {
        assert!(pod.name_any().starts_with(&format!("work-{index}-")), "{}", pod.name_any());
        assert_eq!(pod.annotations()["batch.kubernetes.io/job-completion-index"], index.to_string());
        let spec = pod.spec.as_ref().unwrap();
        assert_eq!(spec.hostname, Some(format!("work-{index}")));
        let variable = &spec.containers[0].env.as_ref().unwrap()[0];
        assert_eq!(variable.name, "JOB_COMPLETION_INDEX");
    }
    assert_eq!(finished(&cluster).await["completedIndexes"], "0-3");
}

#[tokio::test]
async fn an_index_that_fails_too_often_is_given_up_and_the_others_go_on() {
    let cluster = server::start().await;
    cluster.simulated().decide(|pod, _| {
        let code = i32::from(pod.labels()["batch.kubernetes.io/job-completion-index"] == "1");
        Some(Script::default().exits_after(seconds(1), code))
    });
    let spec = json!({
        "completions": 3, "parallelism": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 1,
    });
    job(&cluster, "some", spec).await;
    let status = finished(&cluster).await;
    assert_eq!(
        status,
        json!({
            "succeeded": 2, "failed": 2, "completedIndexes": "0,2", "failedIndexes": "1", "ready": 0,
            "terminating": 0, "uncountedTerminatedPods": {},
            "conditions": ended(FAILED, "FailedIndexes", "Job has failed indexes"),
        })
    );
    let pods = cluster.list::<Pod>().await;
    let mut failures: Vec<_> = pods
        .iter()
        .filter(|pod| pod.name_any().starts_with("work-1-"))
        .map(|pod| pod.annotations()["batch.kubernetes.io/job-index-failure-count"].as_str())
        .collect();
    failures.sort_unstable();
    assert_eq!(failures, ["0", "1"]);
}

#[tokio::test]
async fn too_many_failed_indexes_end_the_job_at_once() {
    let cluster = server::start().await;
    cluster.simulated().decide(|pod, _| {
        Some(match pod.labels()["batch.kubernetes.io/job-completion-index"].as_str() {
            "0" => Script::default(),
            _ => Script::default().exits_after(seconds(1), 1),
        })
    });
    let spec = json!({
        "completions": 3, "parallelism": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 0,
        "maxFailedIndexes": 1,
    });
    job(&cluster, "some", spec).await;
    let status = finished(&cluster).await;
    assert_eq!(status["conditions"][1]["reason"], "MaxFailedIndexesExceeded");
    assert_eq!((&status["failed"], &status["failedIndexes"]), (&json!(3), &json!("1,2")));
}

#[tokio::test]
async fn a_failure_policy_ends_the_job_or_looks_away() {
    for (action, reason, failed) in [("FailJob", "PodFailurePolicy", 1), ("Count", "BackoffLimitExceeded", 2)]
    {
        let cluster = server::start().await;
        cluster.script("fails", Script::default().exits_after(seconds(1), 42));
        let rule = json!({
            "action": action, "onExitCodes": {"containerName": "main", "operator": "In", "values": [42]},
        });
        job(&cluster, "fails", json!({"backoffLimit": 1, "podFailurePolicy": {"rules": [rule]}})).await;
        let status = finished(&cluster).await;
        assert_eq!((&status["conditions"][1]["reason"], &status["failed"]), (&json!(reason), &json!(failed)));
        if action == "FailJob" {
            let pod = cluster.list::<Pod>().await[0].name_any();
            let message = format!(
                "Container main for pod {}/{pod} failed with exit code 42 matching FailJob rule at index 0",
                cluster.namespace()
            );
            assert_eq!(status["conditions"][0]["message"], message);
        }
    }
    let cluster = server::start().await;
    cluster.script("fails", Script::default().exits_after(seconds(1), 42));
    let rule = json!({"action": "Ignore", "onExitCodes": {"operator": "NotIn", "values": [1]}});
    job(&cluster, "fails", json!({"backoffLimit": 1, "podFailurePolicy": {"rules": [rule]}})).await;
    cluster.eventually("many have failed", async |cluster| phases(cluster, "Failed").await == 4).await;
    assert_eq!(status(&cluster).await["failed"], Value::Null, "none of them counts");
}

#[tokio::test]
async fn a_failure_policy_gives_up_an_index() {
    let cluster = server::start().await;
    cluster.simulated().decide(|pod, _| {
        let code = i32::from(pod.labels()["batch.kubernetes.io/job-completion-index"] == "0");
        Some(Script::default().exits_after(seconds(1), code))
    });
    let rule = json!({"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [1]}});
    let spec = json!({
        "completions": 2, "parallelism": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 5,
        "podFailurePolicy": {"rules": [rule]},
    });
    job(&cluster, "some", spec).await;
    let status = finished(&cluster).await;
    assert_eq!((&status["failedIndexes"], &status["failed"]), (&json!("0"), &json!(1)));
}

#[tokio::test]
async fn a_success_policy_ends_the_job_before_all_is_done() {
    let cluster = server::start().await;
    cluster.simulated().decide(|pod, _| {
        Some(match pod.labels()["batch.kubernetes.io/job-completion-index"].as_str() {
            "0" => Script::default().exits_after(seconds(5), 0),
            _ => Script::default(),
        })
    });
    let spec = json!({
        "completions": 3, "parallelism": 3, "completionMode": "Indexed",
        "successPolicy": {"rules": [{"succeededIndexes": "0"}]},
    });
    job(&cluster, "some", spec).await;
    let status = finished(&cluster).await;
    assert_eq!(status["conditions"], ended(SUCCEEDED, "SuccessPolicy", "Matched rules at index 0"));
    assert_eq!((&status["succeeded"], &status["failed"]), (&json!(1), &Value::Null));
    cluster.quiet().await;
    assert_eq!(cluster.list::<Pod>().await.len(), 1, "the others are deleted");
}

#[tokio::test]
async fn a_job_that_takes_too_long_is_ended() {
    let cluster = server::start().await;
    cluster.script("runs", Script::default());
    job(&cluster, "runs", json!({"activeDeadlineSeconds": 30, "parallelism": 2})).await;
    cluster.eventually("both run", async |cluster| status(cluster).await["ready"] == 2).await;
    let status = finished(&cluster).await;
    assert_eq!(
        status,
        json!({
            "failed": 2, "ready": 0, "terminating": 0, "uncountedTerminatedPods": {},
            "conditions": ended(FAILED, "DeadlineExceeded", "Job was active longer than specified deadline"),
        })
    );
    let job = cluster.get::<Job>("work").await.status.unwrap();
    let ran = job.conditions.unwrap()[0].last_transition_time.as_ref().unwrap().0 - job.start_time.unwrap().0;
    assert!((30..33).contains(&ran.get_seconds()), "{ran}");
}

#[tokio::test]
async fn a_suspended_job_has_no_pods_until_it_is_resumed() {
    let cluster = server::start().await;
    cluster.script("runs", Script::default().exits_after(seconds(60), 0));
    job(&cluster, "runs", json!({"parallelism": 2, "completions": 2})).await;
    cluster.eventually("both run", async |cluster| status(cluster).await["ready"] == 2).await;
    cluster.patch::<Job>("work", json!({"spec": {"suspend": true}})).await;
    cluster.quiet().await;
    assert!(cluster.list::<Pod>().await.is_empty());
    let suspended = condition("Suspended", "JobSuspended", "Job suspended");
    assert_eq!(
        status(&cluster).await,
        json!({"ready": 0, "terminating": 0, "uncountedTerminatedPods": {}, "conditions": [suspended]}),
        "pods that were taken away have not failed"
    );
    assert!(cluster.get::<Job>("work").await.status.unwrap().start_time.is_none());
    cluster.patch::<Job>("work", json!({"spec": {"suspend": false}})).await;
    cluster.eventually("both run again", async |cluster| status(cluster).await["ready"] == 2).await;
    let resumed =
        json!({"type": "Suspended", "status": "False", "reason": "JobResumed", "message": "Job resumed"});
    assert_eq!(status(&cluster).await["conditions"], json!([resumed]));
    assert_eq!(finished(&cluster).await["succeeded"], 2);
    let told = events(&cluster, "Job", "work").await;
    assert!(told.contains(&"Suspended: Job suspended".to_owned()), "{told:?}");
    assert!(told.contains(&"Resumed: Job resumed".to_owned()), "{told:?}");
}

#[tokio::test]
async fn a_pod_that_is_deleted_counts_as_failed_and_is_replaced() {
    for (policy, waits) in [("TerminatingOrFailed", false), ("Failed", true)] {
        let cluster = server::start().await;
        cluster.script("slow", Script::default().stops_after(seconds(60)));
        job(&cluster, "slow", json!({"podReplacementPolicy": policy})).await;
        cluster.eventually("it runs", async |cluster| status(cluster).await["ready"] == 1).await;
        cluster.quiet().await;
        let first = cluster.list::<Pod>().await[0].name_any();
        cluster.delete::<Pod>(&first).await;
        cluster.advance(seconds(20)).await;
        let names: Vec<String> = cluster.list::<Pod>().await.iter().map(ResourceExt::name_any).collect();
        assert!(names.contains(&first), "it still ends");
        assert_eq!(names.len() == 1, waits, "{policy}: {names:?}");
        assert_eq!(status(&cluster).await["terminating"], 1);
        cluster.advance(seconds(30)).await;
        let pods = cluster.list::<Pod>().await;
        assert!(pods.len() == 1 && pods[0].name_any() != first, "{policy}: another has its place");
        assert_eq!(status(&cluster).await["failed"], 1);
    }
}

#[tokio::test]
async fn a_job_without_completions_is_done_when_one_pod_has_succeeded_and_the_rest_have_ended() {
    let cluster = server::start().await;
    job(&cluster, "once", json!({"parallelism": 3})).await;
    cluster.patch::<Job>("work", json!({"spec": {"parallelism": 2}})).await;
    let status = finished(&cluster).await;
    assert_eq!(status["conditions"][1]["type"], "Complete");
}

#[tokio::test]
async fn fewer_pods_run_when_parallelism_is_lowered() {
    let cluster = server::start().await;
    cluster.script("runs", Script::default().exits_after(seconds(30), 0));
    job(&cluster, "runs", json!({"parallelism": 4, "completions": 4})).await;
    cluster.eventually("four run", async |cluster| status(cluster).await["ready"] == 4).await;
    cluster.patch::<Job>("work", json!({"spec": {"parallelism": 1}})).await;
    cluster.eventually("one runs", async |cluster| cluster.list::<Pod>().await.len() == 1).await;
    cluster.quiet().await;
    assert_eq!(status(&cluster).await["failed"], Value::Null, "what is scaled down has not failed");
    assert_eq!(finished(&cluster).await["succeeded"], 4);
}

#[tokio::test]
async fn pods_of_a_job_that_is_gone_are_let_go() {
    let cluster = server::start().await;
    cluster.script("runs", Script::default());
    job(&cluster, "runs", json!({})).await;
    cluster.eventually("it runs", async |cluster| status(cluster).await["ready"] == 1).await;
    assert_eq!(cluster.list::<Pod>().await[0].finalizers(), [FINALIZER]);
    // Not as by default, which would wait for the pods to be orphaned.
    let jobs: Api<Job> = Api::default_namespaced(cluster.client());
    jobs.delete("work", &DeleteParams::background()).await.unwrap();
    assert!(cluster.find::<Job>("work").await.is_none());
    cluster
        .eventually("nothing holds the pod", async |cluster| {
            cluster.list::<Pod>().await.iter().all(|pod| pod.finalizers().is_empty())
        })
        .await;
}

#[tokio::test]
async fn a_job_that_has_ended_goes_when_its_time_is_over() {
    let cluster = server::start().await;
    job(&cluster, "once", json!({"ttlSecondsAfterFinished": 100})).await;
    finished(&cluster).await;
    let is_going = async |cluster: &TestCluster| {
        cluster.find::<Job>("work").await.is_none_or(|job| job.metadata.deletion_timestamp.is_some())
    };
    cluster.advance(seconds(90)).await;
    assert!(!is_going(&cluster).await);
    cluster.advance(seconds(15)).await;
    assert!(is_going(&cluster).await);
}

#[tokio::test]
async fn a_job_of_another_controller_is_left_alone() {
    let cluster = server::start().await;
    job(&cluster, "once", json!({"managedBy": "example.com/queue"})).await;
    cluster.quiet().await;
    assert!(cluster.list::<Pod>().await.is_empty());
    assert_eq!(status(&cluster).await, json!({}));
}

#[tokio::test]
async fn a_job_with_its_own_selector_adopts_and_tracks() {
    let cluster = server::start().await;
    let orphan = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "orphan", "labels": {"app": "work"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "once"}]},
    });
    cluster.script("once", Script::default().exits_after(seconds(30), 0));
    cluster.apply(&orphan.to_string()).await;
    let template = json!({"metadata": {"labels": {"app": "work"}}, "spec": {
        "restartPolicy": "Never", "containers": [{"name": "main", "image": "once"}],
    }});
    let selector = json!({"matchLabels": {"app": "work"}});
    job(&cluster, "once", json!({"manualSelector": true, "selector": selector, "template": template})).await;
    cluster.quiet().await;
    assert_eq!(cluster.get::<Pod>("orphan").await.finalizers(), [FINALIZER]);
    assert_eq!(finished(&cluster).await["succeeded"], 1);
    assert_eq!(cluster.list::<Pod>().await.len(), 1, "no other was needed");
}
