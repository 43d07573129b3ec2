//! What a job makes of pods that failed, and of indexes that succeeded.

use k8s_openapi::api::{
    batch::v1::{
        PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyOnPodConditionsPattern, PodFailurePolicyRule,
        SuccessPolicy,
    },
    core::v1::{ContainerStatus, Pod, PodCondition},
};
use kube::ResourceExt as _;

use super::{JobSpec, indexes::Indexes};

/// What a failed pod means for its job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// It counts.
    Counts,
    /// It is as if it had not happened.
    Ignored,
    /// Its index has failed.
    FailsIndex,
    /// The job has failed, for this reason.
    FailsJob(String),
}

impl Failure {
    /// What the failure policy of a job says of a pod that failed: the first rule that matches counts.
    pub(super) fn of(pod: &Pod, spec: &JobSpec) -> Self {
        let rules = spec.pod_failure_policy.iter().flat_map(|policy| &policy.rules);
        let matched = rules.enumerate().find_map(|(place, rule)| {
            let why = matches(rule, pod)?;
            Some((rule.action.as_str(), format!("{why} matching {} rule at index {place}", rule.action)))
        });
        match matched {
            Some(("Ignore", _)) => Self::Ignored,
            Some(("FailIndex", _)) => Self::FailsIndex,
            Some(("FailJob", why)) => Self::FailsJob(why),
            _ => Self::Counts,
        }
    }
}

/// What of a pod a rule matches, in words.
fn matches(rule: &PodFailurePolicyRule, pod: &Pod) -> Option<String> {
    let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
    if let Some(codes) = &rule.on_exit_codes {
        let (container, code) = exited(pod, codes)?;
        return Some(format!(
            "Container {} for pod {namespace}/{name} failed with exit code {code}",
            container.name
        ));
    }
    let condition = in_condition(pod, rule.on_pod_conditions.as_deref()?)?;
    Some(format!("Pod {namespace}/{name} has condition {}", condition.type_))
}

fn exited<'p>(
    pod: &'p Pod,
    wanted: &PodFailurePolicyOnExitCodesRequirement,
) -> Option<(&'p ContainerStatus, i32)> {
    let status = pod.status.as_ref()?;
    let all = status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
    all.filter(|container| wanted.container_name.as_ref().is_none_or(|name| *name == container.name))
        .find_map(|container| {
            let code = container.state.as_ref()?.terminated.as_ref()?.exit_code;
            let is_listed = wanted.values.contains(&code);
            let matches = match wanted.operator.as_str() {
                "In" => is_listed,
                "NotIn" => !is_listed,
                _ => false,
            };
            (code != 0 && matches).then_some((container, code))
        })
}

fn in_condition<'p>(
    pod: &'p Pod,
    patterns: &[PodFailurePolicyOnPodConditionsPattern],
) -> Option<&'p PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| {
        patterns.iter().any(|pattern| {
            let status = pattern.status.as_deref().unwrap_or("True");
            pattern.type_ == condition.type_ && status == condition.status
        })
    })
}

/// The message of the first rule by which a job succeeds early, if there is one.
pub(super) fn success(policy: &SuccessPolicy, completions: i32, succeeded: &Indexes) -> Option<String> {
    let is_met = |asked: Option<&str>, count: Option<i32>| match asked {
        Some(asked) => {
            let asked = Indexes::parse(asked, completions);
            asked.len() > 0 && succeeded.satisfies(&asked, count)
        }
        None => count.is_some_and(|count| succeeded.len() >= count),
    };
    let met =
        policy.rules.iter().position(|rule| is_met(rule.succeeded_indexes.as_deref(), rule.succeeded_count));
    met.filter(|_| succeeded.len() > 0).map(|place| format!("Matched rules at index {place}"))
}
