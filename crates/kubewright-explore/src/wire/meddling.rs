//! What happens to a cluster around a write, at the hands of others.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use kubewright_apiserver::ApiServer;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::Line;
use crate::{call::Call, plan::Fault, state::resource_id};

/// How long calls are slow.
const SLOW: Duration = Duration::from_secs(60);
/// How long nodes are cut off: longer than pods tolerate it.
const NODE_LOST: Duration = Duration::from_secs(400);
const NAP: Duration = Duration::from_secs(60 * 60);

impl Line {
    /// The first pod there is.
    pub(super) fn a_pod(&self) -> Option<String> {
        let pods = self.wire.0.server.snapshot().collection(&resource_id("pods"));
        pods.range("", "").next().map(|pod| pod.key.to_string())
    }

    /// Somebody or something else changes the cluster.
    pub(super) async fn meddle(&self, call: &Call, fault: Fault, answer: Option<&Bytes>) {
        let shared = &self.wire.0;
        let delete = async |resource: &str, key: &str, now: bool| {
            let Some(path) = path_of(resource, key, &shared.server) else { return };
            let body = if now { json!({"gracePeriodSeconds": 0}) } else { json!({}) };
            let request = Request::delete(path).body(body.to_string().into_bytes());
            if let Ok(request) = request {
                // What is gone already need not go.
                let _ = shared.admin.request_text(request).await;
            }
        };
        match fault {
            Fault::ChildDeleted => {
                let written: Value =
                    answer.and_then(|told| serde_json::from_slice(told).ok()).unwrap_or_default();
                let name = written["metadata"]["name"].as_str().unwrap_or_default();
                let key = match written["metadata"]["namespace"].as_str() {
                    Some(namespace) => format!("{namespace}/{name}"),
                    None => name.to_owned(),
                };
                delete(&call.resource, &key, false).await;
            }
            Fault::PodLost => {
                if let Some(pod) = self.a_pod() {
                    delete("pods", &pod, true).await;
                }
            }
            Fault::NodeLost => {
                self.wire.state().disturb(NODE_LOST + Duration::from_secs(30));
                shared.others.lose_nodes();
                let wire = self.wire.clone();
                tokio::spawn(async move {
                    sleep(NODE_LOST).await;
                    wire.0.others.restore_nodes();
                });
            }
            Fault::ClockJump => {
                self.wire.state().disturb(NAP + Duration::from_secs(60));
                tokio::time::advance(NAP).await;
            }
            Fault::SlowApi => {
                let mut state = self.wire.state();
                state.disturb(SLOW);
                state.slow_until = Some(Instant::now() + SLOW);
            }
            Fault::SchemaChange => self.change_schema().await,
            _ => {}
        }
    }

    /// Adds an optional field to the definition of the resource.
    async fn change_schema(&self) {
        let shared = &self.wire.0;
        let Some(path) =
            path_of("customresourcedefinitions.apiextensions.k8s.io", &shared.primary, &shared.server)
        else {
            return;
        };
        let definitions = resource_id("customresourcedefinitions.apiextensions.k8s.io");
        let stored = shared.server.snapshot().collection(&definitions).get(&shared.primary).cloned();
        let definition = stored.and_then(|stored| serde_json::from_slice::<Value>(&stored.bytes).ok());
        let Some(mut definition) = definition else { return };
        for version in definition["spec"]["versions"].as_array_mut().into_iter().flatten() {
            if let Some(fields) = version.pointer_mut("/schema/openAPIV3Schema/properties/spec/properties") {
                fields["addedWhileRunning"] = json!({"type": "string"});
            }
        }
        let request = Request::put(path)
            .header("content-type", "application/json")
            .body(definition.to_string().into_bytes());
        if let Ok(request) = request {
            let _ = shared.admin.request_text(request).await;
        }
    }
}

/// The path of an object, in a version in which it is served.
fn path_of(resource: &str, key: &str, server: &ApiServer) -> Option<String> {
    let stored = server.snapshot().collection(&resource_id(resource)).get(key).cloned()?;
    let object: Value = serde_json::from_slice(&stored.bytes).ok()?;
    let version = object["apiVersion"].as_str()?;
    let root = if version.contains('/') { "apis" } else { "api" };
    let (plural, name) = (resource.split('.').next()?, stored.name());
    Some(match stored.namespace() {
        "" => format!("/{root}/{version}/{plural}/{name}"),
        namespace => format!("/{root}/{version}/namespaces/{namespace}/{plural}/{name}"),
    })
}
