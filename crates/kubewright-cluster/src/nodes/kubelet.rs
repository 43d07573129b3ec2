//! What every node does with the pods that are assigned to it: runs them, says how they are doing, and lets them
//! go when they are deleted.

use std::{collections::BTreeMap, future::ready, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{HostIP, Node, Pod, PodIP, PodStatus};
use kube::ResourceExt as _;
use kubewright::{Change, Context, Controller, Index, Next, Predicate, Reconciler, Result, Seen, Watch};
use parking_lot::Mutex;

use super::{
    Lost,
    container::{between, is_running},
    record::{Record, Step},
    runtime::Runtime,
};
use crate::pods;

/// Pods by their addresses, as long as they need them.
const BY_ADDRESS: Index<Pod> = Index::new("address", |pod| match pods::is_finished(pod) {
    true => Vec::new(),
    false => pod.status.iter().filter_map(|status| status.pod_ip.clone()).collect(),
});

/// How often a node that is lost is asked for.
const ASKED_AGAIN: Duration = Duration::from_secs(5);

struct Kubelet {
    pods: Arc<Pods>,
    lost: Lost,
    /// By the names of nodes, the last part of the address that was given to a pod last.
    given: Mutex<BTreeMap<String, u8>>,
}

/// The pods that run here.
struct Pods {
    runtime: Arc<dyn Runtime>,
    /// By the UIDs of pods.
    records: Mutex<BTreeMap<String, Record>>,
}

impl Pods {
    fn forget(&self, pod: &Pod) {
        self.records.lock().remove(&pod.uid().unwrap_or_default());
        self.runtime.forget(pod);
    }
}

pub(crate) fn controller(runtime: Arc<dyn Runtime>, lost: Lost) -> Controller {
    let controller = Controller::of_existing::<Pod>().named("kubelet").reads::<Node>();
    let controller = match runtime.changes() {
        Some(changes) => controller.triggered_by(changes),
        None => controller,
    };
    let pods = Arc::new(Pods { runtime, records: Mutex::default() });
    let here = pods.clone();
    // A pod may go without a goodbye.
    let forget = move |pod: Seen<Pod>, _| {
        here.forget(&pod);
        ready(Vec::new())
    };
    let has_gone = Predicate::new(|change: &Change<Pod>| change.new.is_none());
    controller
        .watches_with(Watch::<Pod>::new(), forget, [has_gone])
        .watching(Watch::new().index(BY_ADDRESS))
        .reconciles_deleted()
        .concurrency(16)
        .reports_as("kubelet")
        .run(Kubelet { pods, lost, given: Mutex::default() })
}

impl Reconciler<Pod> for Kubelet {
    async fn reconcile(&self, pod: &Pod, cx: &Context<Pod>) -> Result<Next> {
        let node = pods::spec(pod).node_name.as_deref().and_then(|name| cx.get::<Node>(name).transpose());
        let Some(node) = node.transpose()? else { return Ok(Next::on_change()) };
        if self.lost.contains(&node.name_any()) {
            return Ok(Next::after(ASKED_AGAIN));
        }
        if pods::is_finished(pod) && !pods::is_terminating(pod) && !runs(pod) {
            self.pods.records.lock().remove(&pod.uid().unwrap_or_default());
            return Ok(Next::on_change());
        }
        let (uid, now) = (pod.uid().unwrap_or_default(), cx.clock().now());
        let Step { mut status, until, events, has_sandbox, is_over } = {
            let mut records = self.pods.records.lock();
            let record = records.entry(uid).or_insert_with(|| Record::restored(pod, now));
            record.step(pod, &*self.pods.runtime, now)
        };
        // First, because what was told once is not told again if the write fails.
        for event in events {
            cx.event(event).await;
        }
        self.place(&mut status, pod, &node, has_sandbox, cx)?;
        if pod.status.as_ref() != Some(&status) {
            cx.replace_status(Pod { status: Some(status), ..pod.clone() }).await?;
        }
        if is_over && pods::is_terminating(pod) {
            pods::remove(pod, cx.client()).await?;
            return Ok(Next::on_change());
        }
        Ok(until.map_or_else(Next::on_change, |until| Next::after(between(now, until))))
    }
}

/// Whether a container of a pod runs.
fn runs(pod: &Pod) -> bool {
    let status = pod.status.iter();
    let mut all = status.flat_map(|status| {
        status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten())
    });
    all.any(is_running)
}

impl Kubelet {
    /// Gives a pod the addresses it is reached at.
    fn place(
        &self,
        status: &mut PodStatus,
        pod: &Pod,
        node: &Seen<Node>,
        has_sandbox: bool,
        cx: &Context<Pod>,
    ) -> Result<()> {
        let mut addresses = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
        let host =
            addresses.find(|address| address.type_ == "InternalIP").map(|address| address.address.clone());
        status.host_ip.clone_from(&host);
        status.host_ips = host.clone().map(|ip| vec![HostIP { ip }]);
        if status.pod_ip.is_none() && has_sandbox {
            status.pod_ip = match pods::spec(pod).host_network {
                Some(true) => host,
                _ => self.free_address(node, cx)?,
            };
            status.pod_ips = status.pod_ip.clone().map(|ip| vec![PodIP { ip }]);
        }
        Ok(())
    }

    /// An address of a node's range that no pod has: the one after that which was given last, if it can be.
    fn free_address(&self, node: &Node, cx: &Context<Pod>) -> Result<Option<String>> {
        let range = node.spec.as_ref().and_then(|spec| spec.pod_cidr.as_deref());
        let Some(prefix) = range.and_then(|range| range.strip_suffix("0/24")) else { return Ok(None) };
        let mut given = self.given.lock();
        let last = given.entry(node.name_any()).or_insert(1);
        for _ in 2..=254 {
            *last = if *last == 254 { 2 } else { *last + 1 };
            let address = format!("{prefix}{last}");
            if cx.indexed(&BY_ADDRESS, &address)?.is_empty() {
                return Ok(Some(address));
            }
        }
        Ok(None)
    }
}
