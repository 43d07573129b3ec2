//! What a cluster looks like, for those who wonder why a test fails.

use std::fmt::{self, Write as _};

use k8s_openapi::api::{core::v1::Pod, events::v1::Event};
use kube::{
    Api, ResourceExt as _,
    api::{DynamicObject, ListParams, LogParams},
};

use super::TestCluster;

/// How many lines of a log are shown.
const LOG_LINES: i64 = 10;

impl TestCluster {
    /// What the cluster looks like, in words: the objects in the namespace of the test with their status, all pods, the
    /// ends of their logs, and all events.
    ///
    /// # Panics
    /// If it can't be asked for.
    pub async fn describe(&self) -> String {
        let mut text = String::new();
        self.write_description(&mut text).await.expect("a string takes everything");
        text
    }

    async fn write_description(&self, text: &mut String) -> fmt::Result {
        writeln!(text, "objects:")?;
        for object in self.objects().await {
            let kind = object.types.as_ref().map(|types| types.kind.as_str()).unwrap_or_default();
            // Pods have a place of their own.
            if let Some(status) = object.data.get("status").filter(|_| kind != "Pod") {
                let DynamicObject { metadata, .. } = &object;
                let generation = metadata.generation.map(|number| format!(" generation={number}"));
                let leaving = metadata.deletion_timestamp.as_ref().map_or("", |_| " is being deleted");
                let generation = generation.unwrap_or_default();
                writeln!(text, "  {kind} {}{generation}{leaving} {status}", object.name_any())?;
            }
        }
        let pods = self.everywhere::<Pod>().list(&ListParams::default()).await;
        let pods: Vec<Pod> = pods.into_iter().flatten().collect();
        writeln!(text, "pods:")?;
        for pod in &pods {
            let status = pod.status.clone().unwrap_or_default();
            let containers = status.container_statuses.iter().flatten().map(|container| {
                let state = serde_json::to_string(&container.state).unwrap_or_default();
                format!("{} restarts={} {state}", container.name, container.restart_count)
            });
            let containers: Vec<String> = containers.collect();
            let (namespace, phase) = (pod.namespace().unwrap_or_default(), status.phase.unwrap_or_default());
            writeln!(text, "  {namespace}/{} {phase} {}", pod.name_any(), containers.join(", "))?;
        }
        writeln!(text, "logs:")?;
        for pod in &pods {
            for container in pod.spec.iter().flat_map(|spec| &spec.containers) {
                for line in self.log(pod, &container.name).await.lines() {
                    writeln!(text, "  {} {}: {line}", pod.name_any(), container.name)?;
                }
            }
        }
        writeln!(text, "events:")?;
        let events = self.everywhere::<Event>().list(&ListParams::default()).await;
        for event in events.into_iter().flatten() {
            let about = event.regarding.unwrap_or_default();
            let (kind, name) = (about.kind.unwrap_or_default(), about.name.unwrap_or_default());
            let (type_, reason) = (event.type_.unwrap_or_default(), event.reason.unwrap_or_default());
            writeln!(text, "  {type_} {kind} {name} {reason}: {}", event.note.unwrap_or_default())?;
        }
        Ok(())
    }

    /// The end of what a container has written; nothing where nobody knows.
    async fn log(&self, pod: &Pod, container: &str) -> String {
        let pods: Api<Pod> = Api::namespaced(self.client(), &pod.namespace().unwrap_or_default());
        let parameters = LogParams {
            container: Some(container.to_owned()),
            tail_lines: Some(LOG_LINES),
            ..LogParams::default()
        };
        pods.logs(&pod.name_any(), &parameters).await.unwrap_or_default()
    }
}
