//! The Job that an object owns.

use std::fmt;

use k8s_openapi::{
    api::{
        batch::v1::{Job, JobCondition, JobSpec},
        core::v1::{Pod, PodSpec},
    },
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{Resource, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Trouble, child_meta, degraded, digest, labels, template};
use crate::{
    context::condition,
    error::Result,
    kind::{Seen, uid},
};

/// A Job whose pods have the owner's [`labels`]. The pods of a Job can't be changed, so it is named after its pod and
/// what that `reads`: if one of them changes, this is another Job. The one before it goes if the controller
/// [prunes](crate::Builder::prunes).
///
/// ```
/// use k8s_openapi::api::core::v1::{ConfigMap, Container, PodSpec};
/// use kubewright::workload;
///
/// let mut owner = ConfigMap::default();
/// owner.metadata.name = Some("report".to_owned());
/// let job = |image: &str| {
///     let container = Container { name: "report".to_owned(), image: Some(image.to_owned()), ..Container::default() };
///     workload::job(&owner, PodSpec { containers: vec![container], ..PodSpec::default() }, &()).unwrap()
/// };
/// assert_eq!(job("report:1"), job("report:1"));
/// assert_ne!(job("report:1").metadata.name, job("report:2").metadata.name);
/// ```
pub fn job<K: Resource<DynamicType = ()>>(owner: &K, pod: PodSpec, reads: &impl Serialize) -> Result<Job> {
    let digest = digest(&serde_json::to_string(&(&pod, reads))?);
    Ok(Job {
        metadata: child_meta(owner, &digest[..8]),
        spec: Some(JobSpec { template: template(labels(owner), pod), ..JobSpec::default() }),
        ..Job::default()
    })
}

const FAILED: [&str; 2] = ["FailureTarget", "Failed"];

/// How far a Job is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum JobState {
    /// No pod of it runs: not yet, or not any more until the next attempt.
    #[default]
    Pending,
    /// A pod runs.
    Running,
    /// It has done its work.
    Succeeded,
    /// It has given up.
    Failed,
}

impl JobState {
    /// How far this Job is.
    pub fn of(job: &Job) -> Self {
        if says(job, ["SuccessCriteriaMet", "Complete"]).is_some() {
            Self::Succeeded
        } else if says(job, FAILED).is_some() {
            Self::Failed
        } else if job.status.as_ref().and_then(|status| status.ready).unwrap_or(0) > 0 {
            Self::Running
        } else {
            Self::Pending
        }
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What a Job and its pods tell, as the conditions `Available`, `Progressing` and `Degraded`: whether its work is done,
/// whether it is still at it, and what is in the way, such as `ImagePullBackOff` or, in the end,
/// `BackoffLimitExceeded`.
pub fn job_conditions(job: &Job, pods: &[Seen<Pod>]) -> Vec<Condition> {
    let state = JobState::of(job);
    let reason = format!("Job{state}");
    let message = format!(
        "job {} {}",
        job.name_any(),
        match state {
            JobState::Pending => "waits for a pod that runs",
            JobState::Running => "is running",
            JobState::Succeeded => "has succeeded",
            JobState::Failed => "has failed",
        }
    );
    let is_on_its_way = matches!(state, JobState::Pending | JobState::Running);
    // Those of a Job that was pruned are not gone at once.
    let is_its_own = |pod: &&Seen<Pod>| pod.owner_references().iter().any(|owner| owner.uid == uid(job));
    let failed = says(job, FAILED).map(|failed| Trouble {
        reason: failed.reason.clone().unwrap_or_else(|| reason.clone()),
        message: failed.message.clone().unwrap_or_default(),
    });
    let trouble = || pods.iter().filter(is_its_own).find_map(|pod| Trouble::of(pod));
    vec![
        condition("Available", state == JobState::Succeeded, &reason, &message),
        condition("Progressing", is_on_its_way, &reason, &message),
        degraded(failed.or_else(|| trouble().filter(|_| is_on_its_way))),
    ]
}

/// A condition that holds: the first tells what is decided, the second that the last pod has ended, too, for which a
/// lost node may keep everybody waiting.
fn says<'j>(job: &'j Job, names: [&str; 2]) -> Option<&'j JobCondition> {
    let mut conditions = job.status.as_ref()?.conditions.iter().flatten();
    conditions.find(|condition| names.contains(&condition.type_.as_str()) && condition.status == "True")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    fn job(status: Value) -> Job {
        let json = json!({"metadata": {"name": "report-1", "uid": "1"}, "status": status});
        serde_json::from_value(json).unwrap()
    }

    /// A pod whose image can't be pulled.
    fn stuck(owner: &str) -> Seen<Pod> {
        let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "report-1", "uid": owner});
        let waiting = json!({"waiting": {"reason": "ErrImagePull", "message": "no such image"}});
        let container = json!({
            "name": "report", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": waiting,
        });
        let json = json!({
            "metadata": {"name": "report-1-x", "ownerReferences": [owner]},
            "status": {"containerStatuses": [container]},
        });
        Seen::new(Arc::new(serde_json::from_value(json).unwrap()))
    }

    fn words(job: &Job, pods: &[Seen<Pod>]) -> Vec<String> {
        let conditions = job_conditions(job, pods).into_iter();
        conditions
            .map(|one| format!("{} {} {}: {}", one.type_, one.status, one.reason, one.message))
            .collect()
    }

    #[test]
    fn a_job_is_on_its_way_until_it_ends() {
        for (status, state, expected) in [
            (json!({}), JobState::Pending, ["Available False", "Progressing True", "Degraded False"]),
            (
                json!({"active": 1}),
                JobState::Pending,
                ["Available False", "Progressing True", "Degraded False"],
            ),
            (
                json!({"active": 1, "ready": 1}),
                JobState::Running,
                ["Available False", "Progressing True", "Degraded False"],
            ),
            (
                json!({"conditions": [{"type": "SuccessCriteriaMet", "status": "True"}]}),
                JobState::Succeeded,
                ["Available True", "Progressing False", "Degraded False"],
            ),
            (
                json!({"conditions": [{"type": "Complete", "status": "True"}]}),
                JobState::Succeeded,
                ["Available True", "Progressing False", "Degraded False"],
            ),
            (
                json!({"conditions": [{"type": "Complete", "status": "False"}, {"type": "Failed", "status": "True"}]}),
                JobState::Failed,
                ["Available False", "Progressing False", "Degraded True"],
            ),
        ] {
            let job = job(status);
            assert_eq!(JobState::of(&job), state);
            for (word, expected) in words(&job, &[]).iter().zip(expected) {
                assert!(word.starts_with(&format!("{expected} ")), "{state}: {word}");
            }
        }
    }

    #[test]
    fn what_is_in_the_way_of_a_job_is_told() {
        let failed =
            json!({"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "too long"});
        let failed = job(json!({"conditions": [failed]}));
        assert_eq!(words(&failed, &[stuck("1")])[2], "Degraded True DeadlineExceeded: too long");
        assert_eq!(
            words(&job(json!({})), &[stuck("1")])[2],
            "Degraded True ErrImagePull: pod report-1-x: container report: no such image"
        );
        let of_another = words(&job(json!({})), &[stuck("2")]);
        assert_eq!(of_another[2], "Degraded False AsExpected: nothing is in the way");
    }
}
