//! What happens to a cluster around a write, at the hands of others.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::line::Line;
use crate::{call::Call, oracle::Oracle, plan::Fault, state::resource_id};

/// When somebody deletes what has been there for a while.
const LATER: Duration = Duration::from_secs(30);
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
        match fault {
            Fault::ChildDeleted | Fault::ChildDeletedLater => {
                let written: Value =
                    answer.and_then(|told| serde_json::from_slice(told).ok()).unwrap_or_default();
                // What was refused is not there.
                let Some(name) = written["metadata"]["name"].as_str() else { return };
                let key = match written["metadata"]["namespace"].as_str() {
                    Some(namespace) => format!("{namespace}/{name}"),
                    None => name.to_owned(),
                };
                let path = path_of(&call.resource, &call.version, &key);
                let body = json!({"propagationPolicy": "Background"});
                if fault == Fault::ChildDeleted {
                    return self.delete(path, body).await;
                }
                self.wire.state().disturb(LATER);
                let line = self.clone();
                tokio::spawn(async move {
                    sleep(LATER).await;
                    line.delete(path, body).await;
                });
            }
            Fault::PodLost => {
                if let Some(pod) = self.a_pod() {
                    self.delete(path_of("pods", "v1", &pod), json!({"gracePeriodSeconds": 0})).await;
                }
            }
            Fault::NodeLost => {
                self.wire.state().disturb_for(NODE_LOST, Duration::from_secs(30));
                shared.others.lose_nodes();
                let wire = self.wire.clone();
                tokio::spawn(async move {
                    sleep(NODE_LOST).await;
                    wire.0.others.restore_nodes();
                });
            }
            Fault::ClockJump => {
                self.wire.state().disturb_for(Duration::ZERO, NAP + Duration::from_secs(60));
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

    /// Somebody else deletes something.
    async fn delete(&self, path: String, options: Value) {
        let request = Request::delete(path).header("content-type", "application/json");
        self.carry_out(request.body(options.to_string().into_bytes())).await;
    }

    /// Adds an optional field to the definition of the resource.
    async fn change_schema(&self) {
        let shared = &self.wire.0;
        let path = path_of("customresourcedefinitions.apiextensions.k8s.io", "v1", &shared.primary);
        let definitions = resource_id("customresourcedefinitions.apiextensions.k8s.io");
        let stored = shared.server.snapshot().collection(&definitions).get(&shared.primary).cloned();
        let definition = stored.and_then(|stored| serde_json::from_slice::<Value>(&stored.bytes).ok());
        let Some(mut definition) = definition else { return };
        for version in definition["spec"]["versions"].as_array_mut().into_iter().flatten() {
            if let Some(fields) = version.pointer_mut("/schema/openAPIV3Schema/properties/spec/properties") {
                fields["addedWhileRunning"] = json!({"type": "string"});
            }
        }
        let request = Request::put(path).header("content-type", "application/json");
        self.carry_out(request.body(definition.to_string().into_bytes())).await;
    }

    /// What others do is done, or it is no fault. What is gone already need not go.
    async fn carry_out(&self, request: http::Result<Request<Vec<u8>>>) {
        let Ok(request) = request else { return };
        match self.wire.0.admin.request_text(request).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(why) => {
                let seen = format!("what others were to do could not be done: {why}");
                self.wire.state().violate(Oracle::Budget, seen);
            }
            Ok(_) => {}
        }
    }
}

/// The path of an object in a version.
fn path_of(resource: &str, version: &str, key: &str) -> String {
    let (plural, root) = match resource.split_once('.') {
        Some((plural, group)) => (plural, format!("/apis/{group}/{version}")),
        None => (resource, format!("/api/{version}")),
    };
    match key.split_once('/') {
        Some((namespace, name)) => format!("{root}/namespaces/{namespace}/{plural}/{name}"),
        None => format!("{root}/{plural}/{key}"),
    }
}
