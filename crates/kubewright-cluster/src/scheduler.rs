//! The scheduler: finds a node for each pod.

use k8s_openapi::api::core::v1::{Binding, Node, ObjectReference, Pod};
use kube::{Api, ResourceExt as _, api::PostParams};
use kubewright::{Context, Controller, Event, Index, Next, Reconciler, Result, Watch};

use crate::{fit, pods};

/// Pods by the node they are on.
const BY_NODE: Index<Pod> =
    Index::new("node", |pod| pod.spec.iter().filter_map(|spec| spec.node_name.clone()).collect());

struct Scheduler;

pub(crate) fn controller() -> Controller {
    Controller::of_existing::<Pod>()
        .named("scheduler")
        .watching(Watch::new().index(BY_NODE))
        .reads::<Node>()
        .reports_as("default-scheduler")
        .run(Scheduler)
}

impl Reconciler<Pod> for Scheduler {
    async fn reconcile(&self, pod: &Pod, cx: &Context<Pod>) -> Result<Next> {
        if pods::spec(pod).node_name.is_some() || pods::is_terminating(pod) {
            return Ok(Next::on_change());
        }
        let nodes = cx.list::<Node>()?;
        let mut best: Option<(usize, String)> = None;
        let spec = pods::spec(pod);
        for node in nodes.iter().filter(|node| fit::attracts(spec, node) && fit::admits(spec, node)) {
            let load = cx.indexed(&BY_NODE, &node.name_any())?.len();
            if best.as_ref().is_none_or(|(least, _)| load < *least) {
                best = Some((load, node.name_any()));
            }
        }
        let Some((_, node)) = best else { return Ok(Next::on_change()) };
        bind(pod, &node, cx).await?;
        let note = format!("Successfully assigned {} to {node}", cx.key());
        cx.event(Event::normal("Scheduled", "Binding", note)).await;
        Ok(Next::on_change())
    }
}

async fn bind(pod: &Pod, node: &str, cx: &Context<Pod>) -> Result<()> {
    let api: Api<Pod> = Api::namespaced(cx.client().clone(), cx.namespace());
    let binding = Binding {
        metadata: kube::core::ObjectMeta {
            name: pod.metadata.name.clone(),
            uid: pod.uid(),
            ..Default::default()
        },
        target: ObjectReference {
            kind: Some("Node".to_owned()),
            name: Some(node.to_owned()),
            ..Default::default()
        },
    };
    let _: serde_json::Value =
        api.create_subresource("binding", &pod.name_any(), &PostParams::default(), &binding).await?;
    Ok(())
}
