//! Nodes: what a kubelet does for the pods on them, with the containers behind one trait.

mod agent;
mod container;
mod kubelet;
mod logs;
mod record;
mod runtime;
mod simulated;
mod status;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{Node, Taint};
use kube::{
    Api, Client,
    api::{ListParams, ObjectMeta, PostParams},
};
use parking_lot::RwLock;
use tokio::time::sleep;

pub(crate) use self::{
    agent::{LEASES, condition, controller as agent},
    kubelet::controller,
    logs::Logs,
};
pub use kubewright_apiserver::LogLine;

pub use self::{
    runtime::{Doing, Failure, Probe, Run, Runtime, Sight},
    simulated::{Script, Simulated},
};

/// What a new node has against pods until it says that it is ready.
pub(crate) const NOT_READY: &str = "node.kubernetes.io/not-ready";
const LOOK: Duration = Duration::from_millis(10);
const LOOKS: usize = 1000;

/// The nodes that are cut off: nothing is heard of them or done on them. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Lost(Arc<RwLock<BTreeSet<String>>>);

impl Lost {
    pub(crate) fn lose(&self, node: &str) {
        self.0.write().insert(node.to_owned());
    }

    pub(crate) fn restore(&self, node: &str) {
        self.0.write().remove(node);
    }

    fn contains(&self, node: &str) -> bool {
        self.0.read().contains(node)
    }
}

/// Puts nodes into the cluster, as far as they are not there yet.
pub(crate) async fn register(client: &Client, count: usize) -> kube::Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    for number in 1..=count {
        let name = format!("node-{number}");
        if nodes.get_metadata_opt(&name).await?.is_none() {
            let node = Node {
                metadata: ObjectMeta { name: Some(name), ..ObjectMeta::default() },
                ..Node::default()
            };
            nodes.create(&PostParams::default(), &node).await?;
        }
    }
    Ok(())
}

/// Waits until new nodes may be used, though not for ever.
pub(crate) async fn ready(client: &Client) -> kube::Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    for _ in 0..LOOKS {
        let is_new = |taint: &Taint| taint.key == NOT_READY;
        let all = nodes.list(&ListParams::default()).await?;
        if !all.iter().any(|node| node.spec.iter().flat_map(|spec| spec.taints.iter().flatten()).any(is_new))
        {
            break;
        }
        sleep(LOOK).await;
    }
    Ok(())
}
