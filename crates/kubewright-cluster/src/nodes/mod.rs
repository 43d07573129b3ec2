//! Nodes: what a kubelet does for the pods on them, with the containers behind one trait.

mod agent;
mod container;
mod kubelet;
mod logs;
mod record;
mod runtime;
mod simulated;
mod status;

use std::{collections::BTreeSet, io, pin::pin, sync::Arc, time::Duration};

use futures_util::TryStreamExt as _;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client, ResourceExt as _,
    api::{ObjectMeta, WatchEvent, WatchParams},
};
use parking_lot::RwLock;
use tokio::time::timeout;

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
use crate::cluster::{StartError, create_if_missing};

/// What a new node has against pods until it says that it is ready.
pub(crate) const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// How long nodes may take to be ready.
const PATIENCE: Duration = Duration::from_secs(120);

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
        let name = Some(format!("node-{number}"));
        let node = Node { metadata: ObjectMeta { name, ..ObjectMeta::default() }, ..Node::default() };
        create_if_missing(&nodes, &node).await?;
    }
    Ok(())
}

/// Waits until all nodes may be used. If some can't be for too long, says which.
pub(crate) async fn ready(client: &Client) -> Result<(), StartError> {
    let mut waiting = BTreeSet::new();
    match timeout(PATIENCE, settled(client, &mut waiting)).await {
        Ok(outcome) => outcome.map_err(StartError::Nodes),
        Err(_) => Err(StartError::NotReady(waiting.into_iter().collect())),
    }
}

/// Follows the nodes until none is `waiting` any more.
async fn settled(client: &Client, waiting: &mut BTreeSet<String>) -> kube::Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let mut events = pin!(nodes.watch(&WatchParams::default().initial_events(), "").await?);
    let mut are_all_seen = false;
    while let Some(event) = events.try_next().await? {
        match event {
            WatchEvent::Added(node) | WatchEvent::Modified(node) if is_new(&node) => {
                waiting.insert(node.name_any());
            }
            WatchEvent::Added(node) | WatchEvent::Modified(node) | WatchEvent::Deleted(node) => {
                waiting.remove(&node.name_any());
            }
            WatchEvent::Bookmark(_) => are_all_seen = true,
            WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
        }
        if are_all_seen && waiting.is_empty() {
            return Ok(());
        }
    }
    Err(kube::Error::ReadEvents(io::ErrorKind::UnexpectedEof.into()))
}

/// Whether a node has not yet said that it is ready.
fn is_new(node: &Node) -> bool {
    let mut taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.any(|taint| taint.key == NOT_READY)
}
