//! What every node does with the pods that are assigned to it: runs them, says how they are doing, and lets them
//! go when they are deleted.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{HostIP, Node, Pod, PodIP, PodStatus};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Preconditions},
};
use kubewright::{Context, Controller, Index, Next, Reconciler, Result, Seen, Watch};
use parking_lot::Mutex;

use super::{
    record::{Record, Step},
    runtime::Runtime,
};
use crate::pods;

/// Pods by their addresses.
const BY_ADDRESS: Index<Pod> =
    Index::new("address", |pod| pod.status.iter().filter_map(|status| status.pod_ip.clone()).collect());

struct Kubelet {
    runtime: Arc<dyn Runtime>,
    /// By the UIDs of pods.
    records: Mutex<BTreeMap<String, Record>>,
}

pub(crate) fn controller(runtime: Arc<dyn Runtime>) -> Controller {
    let controller = Controller::of_existing::<Pod>().named("kubelet").reads::<Node>();
    let controller = match runtime.changes() {
        Some(changes) => controller.triggered_by(changes),
        None => controller,
    };
    controller
        .watching(Watch::new().index(BY_ADDRESS))
        .reconciles_deleted()
        .concurrency(16)
        .reports_as("kubelet")
        .run(Kubelet { runtime, records: Mutex::default() })
}

impl Reconciler<Pod> for Kubelet {
    async fn reconcile(&self, pod: &Pod, cx: &Context<Pod>) -> Result<Next> {
        let node = pods::spec(pod).node_name.as_deref().and_then(|name| cx.get::<Node>(name).transpose());
        let Some(node) = node.transpose()? else { return Ok(Next::on_change()) };
        if pods::is_finished(pod) && !pods::is_terminating(pod) {
            return Ok(Next::on_change());
        }
        let (uid, now) = (pod.uid().unwrap_or_default(), cx.clock().now());
        let Step { mut status, until, events, is_over } = {
            let mut records = self.records.lock();
            let record = records.entry(uid.clone()).or_insert_with(|| Record::restored(pod));
            record.step(pod, &*self.runtime, now)
        };
        place(&mut status, pod, &node, cx)?;
        if pod.status.as_ref() != Some(&status) {
            cx.replace_status(Pod { status: Some(status), ..pod.clone() }).await?;
        }
        for event in events {
            cx.event(event).await;
        }
        if is_over && pods::is_terminating(pod) {
            self.records.lock().remove(&uid);
            self.runtime.forget(pod);
            remove(pod, cx).await?;
            return Ok(Next::on_change());
        }
        Ok(until.map_or_else(Next::on_change, |until| Next::after(left(until, now))))
    }
}

fn left(until: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(until.duration_since(now)).unwrap_or_default()
}

/// Gives a pod the addresses it is reached at.
fn place(status: &mut PodStatus, pod: &Pod, node: &Seen<Node>, cx: &Context<Pod>) -> Result<()> {
    let addresses = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
    let host = addresses
        .filter(|address| address.type_ == "InternalIP")
        .map(|address| address.address.clone())
        .next();
    status.host_ip.clone_from(&host);
    status.host_ips = host.clone().map(|ip| vec![HostIP { ip }]);
    if status.pod_ip.is_none() && !pods::is_terminating(pod) {
        status.pod_ip = match pods::spec(pod).host_network {
            Some(true) => host,
            _ => free_address(node, cx)?,
        };
        status.pod_ips = status.pod_ip.clone().map(|ip| vec![PodIP { ip }]);
    }
    Ok(())
}

/// An address of a node's range that no pod has.
fn free_address(node: &Node, cx: &Context<Pod>) -> Result<Option<String>> {
    let range = node.spec.as_ref().and_then(|spec| spec.pod_cidr.as_deref());
    let Some(prefix) = range.and_then(|range| range.strip_suffix("0/24")) else { return Ok(None) };
    for last in 2..=254 {
        let address = format!("{prefix}{last}");
        if cx.indexed(&BY_ADDRESS, &address)?.is_empty() {
            return Ok(Some(address));
        }
    }
    Ok(None)
}

/// The last step of a deletion, which is the kubelet's to do.
async fn remove(pod: &Pod, cx: &Context<Pod>) -> Result<()> {
    let api: Api<Pod> = Api::namespaced(cx.client().clone(), cx.namespace());
    let parameters = DeleteParams {
        grace_period_seconds: Some(0),
        preconditions: Some(Preconditions { uid: pod.uid(), resource_version: None }),
        ..DeleteParams::default()
    };
    match api.delete(&pod.name_any(), &parameters).await {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        outcome => Ok(outcome.map(|_| ())?),
    }
}
