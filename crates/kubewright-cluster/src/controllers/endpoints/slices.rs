//! EndpointSlices: the endpoints of a service, in pieces that stay small.

use std::collections::{BTreeMap, VecDeque};

use k8s_openapi::api::{
    core::v1::{Node, ObjectReference, Pod, Service},
    discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice},
};
use kube::{ResourceExt as _, core::ObjectMeta};
use kubewright::{Context, Controller, Error, Next, Owners, Reconciler, Result, Seen, Watch};

use super::{addresses, families, hostname, is_reachable, of_services, pods_of, port_of};
use crate::pods::{self, is_ready, is_terminating};

/// How many endpoints a slice has at most.
const LIMIT: usize = 100;
pub(super) const SERVICE: &str = "kubernetes.io/service-name";
pub(super) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const MANAGER: &str = "endpointslice-controller.k8s.io";

struct Slices;

pub(super) fn controller() -> Controller {
    of_services("endpointslice")
        .owns_with(Watch::<EndpointSlice>::new(), Owners::Controller, [])
        .reads::<Node>()
        .reports_as("endpoint-slice-controller")
        .run(Slices)
}

/// The endpoints that have the same ports.
#[derive(Default)]
struct Group {
    ports: Vec<EndpointPort>,
    endpoints: VecDeque<Endpoint>,
}

/// Groups, by their ports.
type Groups = BTreeMap<String, Group>;

/// What is to be done about the slices of a service.
#[derive(Default)]
struct Plan {
    create: Vec<EndpointSlice>,
    update: Vec<EndpointSlice>,
    delete: Vec<Seen<EndpointSlice>>,
}

impl Reconciler<Service> for Slices {
    async fn reconcile(&self, service: &Service, cx: &Context<Service>) -> Result<Next> {
        let Some(selector) = super::selector(service) else { return Ok(Next::on_change()) };
        let pods = pods_of(cx, selector)?;
        let families = families(service);
        let own = cx.children::<EndpointSlice>()?.into_iter();
        let (own, foreign): (Vec<_>, Vec<_>) = own
            .filter(|slice| is_managed_by(slice, MANAGER))
            .partition(|slice| families.contains(&slice.address_type));
        let mut nowhere = None;
        for family in &families {
            let mut groups = Groups::new();
            for pod in pods.iter().filter(|pod| is_reachable(pod)) {
                match node_of(pod, cx)? {
                    None if !super::publishes_unready(service) => nowhere = Some(pod),
                    node => add(&mut groups, service, pod, node.as_deref(), family),
                }
            }
            let existing = own.iter().filter(|slice| slice.address_type == *family).cloned().collect();
            plan(service, existing, groups, family).carry_out(cx).await?;
        }
        for slice in &foreign {
            cx.delete(slice).await?;
        }
        match nowhere {
            None => Ok(Next::on_change()),
            Some(pod) => Err(Error::new(format!(
                "skipping Pod {} for Service {}: Node {} Not Found",
                pod.name_any(),
                cx.key(),
                pods::spec(pod).node_name.as_deref().unwrap_or_default()
            ))),
        }
    }
}

pub(super) fn is_managed_by(slice: &EndpointSlice, manager: &str) -> bool {
    slice.labels().get(MANAGED_BY).is_some_and(|own| own == manager)
}

fn node_of(pod: &Pod, cx: &Context<Service>) -> Result<Option<Seen<Node>>> {
    match &pods::spec(pod).node_name {
        Some(name) => cx.get::<Node>(name),
        None => Ok(None),
    }
}

fn key_of(ports: &[EndpointPort]) -> String {
    serde_json::to_string(ports).unwrap_or_default()
}

/// Puts the endpoint of a pod into the group of its ports.
fn add(groups: &mut Groups, service: &Service, pod: &Pod, node: Option<&Node>, family: &str) {
    let ports = super::spec(service).ports.iter().flatten();
    let mut ports: Vec<EndpointPort> = ports
        .filter_map(|port| {
            Some(EndpointPort {
                name: Some(port.name.clone().unwrap_or_default()),
                port: Some(port_of(pod, port)?),
                protocol: port.protocol.clone(),
                app_protocol: port.app_protocol.clone(),
            })
        })
        .collect();
    ports.sort_by_cached_key(|port| key_of(std::slice::from_ref(port)));
    let group = groups.entry(key_of(&ports)).or_insert_with(|| Group { ports, ..Group::default() });
    let addresses = addresses(pod, family);
    if !addresses.is_empty() {
        group.endpoints.push_back(endpoint(service, pod, node, addresses));
    }
}

fn endpoint(service: &Service, pod: &Pod, node: Option<&Node>, addresses: Vec<String>) -> Endpoint {
    let (serving, terminating) = (is_ready(pod), is_terminating(pod));
    Endpoint {
        addresses,
        conditions: Some(EndpointConditions {
            ready: Some(super::publishes_unready(service) || (serving && !terminating)),
            serving: Some(serving),
            terminating: Some(terminating),
        }),
        hostname: hostname(pod, service),
        node_name: pods::spec(pod).node_name.clone(),
        zone: node.and_then(|node| node.labels().get("topology.kubernetes.io/zone").cloned()),
        target_ref: Some(ObjectReference {
            kind: Some("Pod".to_owned()),
            namespace: pod.namespace(),
            name: pod.metadata.name.clone(),
            uid: pod.uid(),
            ..ObjectReference::default()
        }),
        ..Endpoint::default()
    }
}

fn is_same_place(one: &Endpoint, other: &Endpoint) -> bool {
    let pod = |endpoint: &Endpoint| endpoint.target_ref.as_ref().and_then(|target| target.name.clone());
    one.addresses == other.addresses && one.hostname == other.hostname && pod(one) == pod(other)
}

fn labels(service: &Service) -> BTreeMap<String, String> {
    super::labels(service, [(SERVICE, &service.name_any()), (MANAGED_BY, MANAGER)])
}

fn endpoints(slice: &EndpointSlice) -> &[Endpoint] {
    slice.endpoints.as_deref().unwrap_or_default()
}

fn new_slice(service: &Service, family: &str, ports: Vec<EndpointPort>) -> EndpointSlice {
    EndpointSlice {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", service.name_any())),
            labels: Some(labels(service)),
            ..ObjectMeta::default()
        },
        address_type: family.to_owned(),
        ports: Some(ports).filter(|ports| !ports.is_empty()),
        endpoints: None,
    }
}

/// How the slices of one family come to have the endpoints that are wanted, with as few changes as possible.
fn plan(service: &Service, existing: Vec<Seen<EndpointSlice>>, groups: Groups, family: &str) -> Plan {
    let count = existing.len();
    let mut by_ports: BTreeMap<String, Vec<Seen<EndpointSlice>>> = BTreeMap::new();
    for slice in existing {
        by_ports.entry(key_of(slice.ports.as_deref().unwrap_or_default())).or_default().push(slice);
    }
    let mut plan = Plan::default();
    for (key, group) in groups {
        plan.fit(service, by_ports.remove(&key).unwrap_or_default(), group, family);
    }
    plan.delete.extend(by_ports.into_values().flatten());
    if plan.delete.len() == count && plan.create.is_empty() {
        // A service without endpoints has an empty slice, so that its clients know there are none.
        let empty = new_slice(service, family, Vec::new());
        match plan.delete.as_slice() {
            [one] if is_empty(one) && one.metadata.labels == empty.metadata.labels => plan.delete.clear(),
            _ => plan.create.push(empty),
        }
    }
    plan.recycle();
    plan
}

fn is_empty(slice: &EndpointSlice) -> bool {
    endpoints(slice).is_empty() && slice.ports.as_ref().is_none_or(Vec::is_empty)
}

impl Plan {
    /// Fits the endpoints of a group into its slices: what is there stays where it is, then what has changed
    /// anyway is filled up, then one that has room for all the rest, and then come new ones.
    fn fit(&mut self, service: &Service, existing: Vec<Seen<EndpointSlice>>, group: Group, family: &str) {
        let Group { ports, endpoints: mut left } = group;
        let labels = labels(service);
        let (mut changed, mut unchanged) = (Vec::new(), Vec::new());
        for slice in existing {
            let mut kept = Vec::new();
            for endpoint in endpoints(&slice) {
                let found = left.iter().position(|wanted| is_same_place(wanted, endpoint));
                kept.extend(found.and_then(|index| left.remove(index)));
            }
            if kept == endpoints(&slice) && slice.metadata.labels.as_ref() == Some(&labels) {
                unchanged.push(slice);
            } else if kept.is_empty() && !endpoints(&slice).is_empty() {
                self.delete.push(slice);
            } else {
                let mut slice = EndpointSlice { endpoints: Some(kept), ..(*slice).clone() };
                slice.metadata.labels = Some(labels.clone());
                changed.push(slice);
            }
        }
        changed.sort_by_key(|slice| std::cmp::Reverse(endpoints(slice).len()));
        changed.iter_mut().for_each(|slice| fill(slice, &mut left));
        self.update.append(&mut changed);
        let has_room = |slice: &&Seen<EndpointSlice>| endpoints(slice).len() + left.len() <= LIMIT;
        if !left.is_empty()
            && let Some(fullest) =
                unchanged.iter().filter(has_room).max_by_key(|slice| endpoints(slice).len())
        {
            let mut slice = (**fullest).clone();
            fill(&mut slice, &mut left);
            self.update.push(slice);
        }
        while !left.is_empty() {
            let mut slice = new_slice(service, family, ports.clone());
            fill(&mut slice, &mut left);
            self.create.push(slice);
        }
    }

    /// Instead of deleting one slice and creating another, the one becomes the other.
    fn recycle(&mut self) {
        while let (Some(old), Some(new)) = (self.delete.last(), self.create.last()) {
            let mut slice = EndpointSlice { metadata: old.metadata.clone(), ..new.clone() };
            slice.metadata.labels.clone_from(&new.metadata.labels);
            self.update.push(slice);
            self.delete.pop();
            self.create.pop();
        }
    }

    async fn carry_out(self, cx: &Context<Service>) -> Result<()> {
        for slice in self.create {
            cx.create(slice).await?;
        }
        for slice in self.update {
            cx.replace(slice).await?;
        }
        for slice in &self.delete {
            cx.delete(slice).await?;
        }
        Ok(())
    }
}

fn fill(slice: &mut EndpointSlice, left: &mut VecDeque<Endpoint>) {
    let endpoints = slice.endpoints.get_or_insert_default();
    let room = LIMIT.saturating_sub(endpoints.len()).min(left.len());
    endpoints.extend(left.drain(..room));
}
