//! How a job ends, and how its conditions say so: first that it is to end, then, when its pods are gone, that it has.

use k8s_openapi::{
    api::batch::v1::{JobCondition, JobStatus},
    apimachinery::pkg::apis::meta::v1::Time,
};

use super::is_true;

/// How a job ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) is_success: bool,
    reason: String,
    message: String,
}

impl Verdict {
    pub(super) fn failure(reason: &str, message: impl Into<String>) -> Self {
        Self { is_success: false, reason: reason.to_owned(), message: message.into() }
    }

    pub(super) fn success(reason: &str, message: impl Into<String>) -> Self {
        Self { is_success: true, reason: reason.to_owned(), message: message.into() }
    }

    /// What all completions together mean.
    pub(super) fn completed() -> Self {
        Self::success("CompletionsReached", "Reached expected number of succeeded pods")
    }

    /// The condition of a job whose end is certain, but whose pods are not gone yet.
    pub(super) fn intent(&self) -> &'static str {
        if self.is_success { "SuccessCriteriaMet" } else { "FailureTarget" }
    }

    /// The condition of a job that has ended.
    pub(super) fn end(&self) -> &'static str {
        if self.is_success { "Complete" } else { "Failed" }
    }

    /// Reason and message.
    pub(super) fn words(&self) -> (&str, &str) {
        (&self.reason, &self.message)
    }

    /// What was decided before.
    pub(super) fn before(status: &JobStatus) -> Option<Self> {
        ["SuccessCriteriaMet", "FailureTarget"].into_iter().find_map(|name| {
            let condition = status.conditions.iter().flatten().find(|one| is_true(one, name))?;
            Some(Self {
                is_success: name == "SuccessCriteriaMet",
                reason: condition.reason.clone().unwrap_or_default(),
                message: condition.message.clone().unwrap_or_default(),
            })
        })
    }
}

/// Makes a condition hold or not; nothing that does not hold is added. Says whether that is new.
pub(super) fn set_condition(
    status: &mut JobStatus,
    name: &str,
    holds: bool,
    (reason, message): (&str, &str),
    now: &Time,
) -> bool {
    let wanted = JobCondition {
        type_: name.to_owned(),
        status: if holds { "True" } else { "False" }.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_probe_time: Some(now.clone()),
        last_transition_time: Some(now.clone()),
    };
    let conditions = status.conditions.get_or_insert_default();
    match conditions.iter_mut().find(|condition| condition.type_ == name) {
        Some(before)
            if (&before.status, &before.reason, &before.message)
                == (&wanted.status, &wanted.reason, &wanted.message) =>
        {
            false
        }
        Some(before) => {
            *before = wanted;
            true
        }
        None if holds => {
            conditions.push(wanted);
            true
        }
        None => false,
    }
}
