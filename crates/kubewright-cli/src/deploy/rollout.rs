//! Waiting until a Deployment is available, with a line whenever something has come about; and if it never is, why.

use std::{fmt::Write as _, time::Duration};

use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{ContainerStatus, Event, Pod, PodStatus},
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ListParams, LogParams},
};
use tokio::time::{Instant, sleep};

use crate::{
    apply::{GLANCE, reason},
    terminal::note,
};

/// How many of the latest events are told.
const EVENTS: usize = 10;
/// How many of the latest lines of each container.
const LINES: i64 = 20;

/// A Deployment that is rolled out.
pub(super) struct Rollout {
    client: Client,
    namespace: String,
    name: String,
}

impl Rollout {
    pub(super) fn of(client: &Client, namespace: &str, name: &str) -> Self {
        Self { client: client.clone(), namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// Waits until all of its pods are new and available. If that takes too long, tells on standard error what its
    /// pods, their events and their logs say.
    pub(super) async fn available(&self, timeout: Duration) -> Result<(), String> {
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), &self.namespace);
        let (started, mut told) = (Instant::now(), String::new());
        loop {
            let deployment = deployments.get(&self.name).await;
            let deployment =
                deployment.map_err(|why| format!("deployment.apps/{}: {}", self.name, reason(&why)))?;
            let pods = self.pods(&deployment).await;
            let state = state(&deployment, &pods);
            if state != told {
                note(&format!("deployment.apps/{}: {state}", self.name));
                told = state;
            }
            if is_available(&deployment) {
                return Ok(());
            }
            let has_stalled = condition(&deployment, "Progressing")
                .is_some_and(|(_, reason)| reason == "ProgressDeadlineExceeded");
            if started.elapsed() >= timeout || has_stalled {
                note(self.report(&deployment, &pods).await.trim_end());
                return Err(format!(
                    "the Deployment {} in namespace {} is not available after {timeout:?}: {told}",
                    self.name, self.namespace
                ));
            }
            sleep(GLANCE).await;
        }
    }

    /// Its pods, as far as they may be read.
    async fn pods(&self, deployment: &Deployment) -> Vec<Pod> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let selector = deployment.spec.as_ref().map(|spec| labels(&spec.selector)).unwrap_or_default();
        pods.list(&ListParams::default().labels(&selector)).await.map(|list| list.items).unwrap_or_default()
    }

    async fn report(&self, deployment: &Deployment, pods: &[Pod]) -> String {
        let mut text = String::new();
        let conditions = deployment.status.iter().flat_map(|status| status.conditions.iter().flatten());
        for condition in conditions.filter(|condition| is_trouble(&condition.type_, &condition.status)) {
            let (reason, message) = (condition.reason.as_deref(), condition.message.as_deref());
            let _ =
                writeln!(text, "{}", told_condition(&condition.type_, &condition.status, reason, message));
        }
        for pod in pods {
            let status = pod.status.clone().unwrap_or_default();
            let phase = status.phase.as_deref().unwrap_or("Unknown");
            let _ = writeln!(text, "\npod {} ({phase})", pod.name_any());
            for condition in status.conditions.iter().flatten().filter(|condition| condition.status != "True")
            {
                let (reason, message) = (condition.reason.as_deref(), condition.message.as_deref());
                let told = told_condition(&condition.type_, &condition.status, reason, message);
                let _ = writeln!(text, "  {told}");
            }
            let all = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
            for container in all {
                if let Some(trouble) = trouble(container) {
                    let _ = writeln!(text, "  container {}: {trouble}", container.name);
                }
                text += &self.log(pod, container).await;
            }
        }
        text + &self.events().await
    }

    /// What a container has written last.
    async fn log(&self, pod: &Pod, container: &ContainerStatus) -> String {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let parameters = LogParams {
            container: Some(container.name.clone()),
            tail_lines: Some(LINES),
            ..LogParams::default()
        };
        // One that has never run has none.
        let log = pods.logs(&pod.name_any(), &parameters).await.unwrap_or_default();
        if log.trim().is_empty() {
            return String::new();
        }
        let lines: String = log.lines().map(|line| format!("    {line}\n")).collect();
        format!("  its last lines:\n{lines}")
    }

    /// The latest events of the Deployment and of what was made for it.
    async fn events(&self) -> String {
        let events: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let events = events.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
        let is_of_it = |event: &&Event| {
            let about = event.involved_object.name.as_deref().unwrap_or_default();
            about == self.name || about.strip_prefix(&self.name).is_some_and(|rest| rest.starts_with('-'))
        };
        let mut own: Vec<&Event> = events.iter().filter(is_of_it).collect();
        own.sort_by_key(|event| {
            let last = event.last_timestamp.as_ref().map(|time| time.0);
            last.or(event.event_time.as_ref().map(|time| time.0))
                .or(event.creation_timestamp().map(|time| time.0))
        });
        let latest: String = own.iter().rev().take(EVENTS).rev().map(|event| told_event(event)).collect();
        if latest.is_empty() { latest } else { format!("\nevents:\n{latest}") }
    }
}

fn told_event(event: &Event) -> String {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let about = text(&event.involved_object.name);
    let (kind, reason, message) = (text(&event.type_), text(&event.reason), text(&event.message));
    format!("  {kind:<7} {reason}  {about}: {}\n", message.trim())
}

fn told_condition(kind: &str, status: &str, reason: Option<&str>, message: Option<&str>) -> String {
    let why = [reason, message].into_iter().flatten().filter(|part| !part.is_empty());
    let why: Vec<&str> = why.collect();
    format!("{kind}={status} {}", why.join(": ")).trim_end().to_owned()
}

/// Of the conditions of a Deployment, `ReplicaFailure` is bad if it holds, and the others if they don't.
fn is_trouble(kind: &str, status: &str) -> bool {
    (kind == "ReplicaFailure") == (status == "True")
}

/// All labels that are asked for, as a selector.
fn labels(selector: &LabelSelector) -> String {
    let labels = selector.match_labels.iter().flatten().map(|(name, value)| format!("{name}={value}"));
    labels.collect::<Vec<_>>().join(",")
}

fn condition(deployment: &Deployment, kind: &str) -> Option<(String, String)> {
    let conditions = deployment.status.as_ref()?.conditions.as_ref()?;
    let found = conditions.iter().find(|condition| condition.type_ == kind)?;
    Some((found.status.clone(), found.reason.clone().unwrap_or_default()))
}

/// Whether all that is wanted is there, new, and available, and nothing old is left; as `kubectl rollout status` has it.
fn is_available(deployment: &Deployment) -> bool {
    let wanted = wanted(deployment);
    let Some(status) = &deployment.status else { return false };
    let is_seen = status.observed_generation >= deployment.metadata.generation;
    let count = |number: Option<i32>| number.unwrap_or_default();
    is_seen
        && count(status.updated_replicas) >= wanted
        && count(status.replicas) <= count(status.updated_replicas)
        && count(status.available_replicas) >= wanted
}

fn wanted(deployment: &Deployment) -> i32 {
    deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

/// How far it has come, and what holds it up.
fn state(deployment: &Deployment, pods: &[Pod]) -> String {
    if is_available(deployment) {
        return "available".to_owned();
    }
    let available =
        deployment.status.as_ref().and_then(|status| status.available_replicas).unwrap_or_default();
    let statuses = || pods.iter().filter_map(|pod| pod.status.as_ref());
    let containers = statuses().filter_map(|status| status.container_statuses.as_ref()).flatten();
    let trouble = containers.filter_map(trouble).chain(statuses().filter_map(homeless)).next();
    let trouble = trouble.map(|trouble| format!("; {trouble}"));
    format!("{available} of {} available{}", wanted(deployment), trouble.unwrap_or_default())
}

/// Why a pod has no node, if that is told.
fn homeless(status: &PodStatus) -> Option<String> {
    let mut conditions = status.conditions.iter().flatten();
    let refusal = conditions.find(|one| one.type_ == "PodScheduled" && one.status == "False")?;
    Some(joined(&refusal.reason, &refusal.message))
}

fn joined(reason: &Option<String>, message: &Option<String>) -> String {
    [reason, message].into_iter().flatten().map(|part| part.trim()).collect::<Vec<_>>().join(": ")
}

/// Why a container does not run, if that is told and more than its beginning.
fn trouble(container: &ContainerStatus) -> Option<String> {
    let state = container.state.as_ref()?;
    if let Some(waiting) = &state.waiting {
        let is_beginning =
            matches!(waiting.reason.as_deref(), Some("ContainerCreating" | "PodInitializing") | None);
        return (!is_beginning).then(|| joined(&waiting.reason, &waiting.message));
    }
    let ended = state.terminated.as_ref()?;
    Some(format!("exit code {} {}", ended.exit_code, joined(&ended.reason, &ended.message)).trim().to_owned())
}
