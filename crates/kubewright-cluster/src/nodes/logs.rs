//! What containers have written, for the API server.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod};
use kubewright::clock::Clock;
use kubewright_apiserver::{LogLine, LogSource};
use serde::Deserialize as _;
use serde_json::Value;

use super::runtime::{Run, Runtime};
use crate::pods;

pub(crate) struct Logs {
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) clock: Clock,
}

impl LogSource for Logs {
    fn lines(&self, pod: &Value, container: &str, previous: bool) -> Vec<LogLine> {
        let Ok(pod) = Pod::deserialize(pod) else { return Vec::new() };
        let run = run_of(&pod, container, previous);
        run.map_or_else(Vec::new, |run| self.runtime.logs(&run, self.clock.now()))
    }
}

/// The run of a container that is there or was last, or the one before, as the status of its pod tells of it.
fn run_of<'p>(pod: &'p Pod, name: &str, previous: bool) -> Option<Run<'p>> {
    let (spec, status) = (pods::spec(pod), pod.status.as_ref()?);
    let container = spec
        .init_containers
        .iter()
        .flatten()
        .chain(&spec.containers)
        .find(|container| container.name == name)?;
    let statuses = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    let ContainerStatus { state, last_state, restart_count, .. } =
        statuses.into_iter().find(|status| status.name == name)?;
    let began = |state: &Option<ContainerState>| {
        let state = state.as_ref()?;
        let running = state.running.as_ref().map(|running| running.started_at.clone());
        running.or_else(|| Some(state.terminated.as_ref()?.started_at.clone()))?
    };
    // A container that waits to be restarted is not counted as restarted yet.
    let (asked, restarts) = match began(state) {
        Some(began) if !previous => (began, *restart_count),
        Some(_) => (began(last_state)?, restart_count - 1),
        None => (began(last_state)?, *restart_count),
    };
    Some(Run { pod, container, restarts, asked: asked.0, is_resumed: true })
}
