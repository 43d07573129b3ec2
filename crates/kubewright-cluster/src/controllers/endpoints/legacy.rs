//! Endpoints: the addresses of a service in one object, as clients read them before there were slices.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{
    EndpointAddress, EndpointPort, EndpointSubset, Endpoints, ObjectReference, Pod, Service,
};
use kube::{ResourceExt as _, core::ObjectMeta};
use kubewright::{Context, Controller, Key, Next, Predicate, Reconciler, Result, Seen, Watch};

use super::{
    addresses, families, hostname, is_headless, is_reachable, of_services, pods_of, port_of,
    publishes_unready,
};
use crate::pods::{self, is_ready, is_terminating};

/// How many addresses are told of.
const CAPACITY: usize = 1000;
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const MANAGER: &str = "endpoint-controller";

struct Writer;
struct Sweeper;

pub(super) fn controller() -> Controller {
    of_services("endpoints")
        .watches::<Endpoints, _, _>(async |endpoints, _| vec![Key::of(&*endpoints)])
        .reports_as(MANAGER)
        .run(Writer)
}

/// Deletes the Endpoints of services that have gone: those belong to nobody, and may be older than their service.
pub(super) fn sweeper() -> Controller {
    Controller::of_existing::<Endpoints>()
        .named("endpoints-sweeper")
        .when(Predicate::new(|change| change.is_initial))
        .watches_with(
            Watch::<Service>::new(),
            async |service, _| vec![Key::of(&*service)],
            [Predicate::new(|change| change.new.is_none())],
        )
        .reports_as(MANAGER)
        .run(Sweeper)
}

impl Reconciler<Endpoints> for Sweeper {
    async fn reconcile(&self, endpoints: &Endpoints, cx: &Context<Endpoints>) -> Result<Next> {
        let name = endpoints.name_any();
        if cx.get::<Service>(&name)?.is_none()
            && let Some(seen) = cx.get::<Endpoints>(&name)?
        {
            cx.delete(&seen).await?;
        }
        Ok(Next::on_change())
    }
}

impl Reconciler<Service> for Writer {
    async fn reconcile(&self, service: &Service, cx: &Context<Service>) -> Result<Next> {
        let Some(selector) = super::selector(service) else { return Ok(Next::on_change()) };
        let mut subsets = subsets(service, &pods_of(cx, selector)?);
        let is_cut = truncate(&mut subsets);
        let existing = cx.get::<Endpoints>(&service.name_any())?;
        let mut wanted = existing.as_deref().cloned().unwrap_or_else(|| Endpoints {
            metadata: ObjectMeta {
                name: service.metadata.name.clone(),
                namespace: service.metadata.namespace.clone(),
                ..ObjectMeta::default()
            },
            subsets: None,
        });
        wanted.subsets = Some(subsets).filter(|subsets| !subsets.is_empty());
        wanted.metadata.labels = Some(super::labels(service, [(MANAGED_BY, MANAGER)]));
        if is_cut {
            wanted.annotations_mut().insert(OVER_CAPACITY.to_owned(), "truncated".to_owned());
        } else if wanted.annotations().contains_key(OVER_CAPACITY) {
            wanted.annotations_mut().remove(OVER_CAPACITY);
        }
        match existing {
            None => drop(cx.create_free(wanted).await?),
            Some(existing) if *existing != wanted => drop(cx.replace(wanted).await?),
            Some(_) => {}
        }
        Ok(Next::on_change())
    }
}

/// Which pods there are under which ports: pods that have the same ports are together.
fn subsets(service: &Service, pods: &[Seen<Pod>]) -> Vec<EndpointSubset> {
    let family = families(service).into_iter().next().unwrap_or_default();
    let spec = super::spec(service);
    let ports: Vec<_> = spec.ports.iter().flatten().collect();
    // The pods, by their place in the list, that have a port; under nothing those of a service without ports.
    let mut by_port: BTreeMap<String, (Option<EndpointPort>, BTreeSet<usize>)> = BTreeMap::new();
    let listed: Vec<(&Seen<Pod>, EndpointAddress)> = pods
        .iter()
        .filter(|pod| is_reachable(pod) && (publishes_unready(service) || !is_terminating(pod)))
        .filter_map(|pod| Some((pod, address(service, pod, &family)?)))
        .collect();
    for (index, (pod, _)) in listed.iter().enumerate() {
        let open = ports.iter().filter_map(|port| {
            Some(EndpointPort {
                name: port.name.clone(),
                port: port_of(pod, port)?,
                protocol: port.protocol.clone(),
                app_protocol: port.app_protocol.clone(),
            })
        });
        let open: Vec<Option<EndpointPort>> = match ports.is_empty() && is_headless(service) {
            true => vec![None],
            false => open.map(Some).collect(),
        };
        for port in open {
            let key = serde_json::to_string(&port).unwrap_or_default();
            by_port.entry(key).or_insert_with(|| (port, BTreeSet::new())).1.insert(index);
        }
    }
    let mut by_pods: BTreeMap<BTreeSet<usize>, Vec<EndpointPort>> = BTreeMap::new();
    for (port, indexes) in by_port.into_values() {
        by_pods.entry(indexes).or_default().extend(port);
    }
    let some = |list: Vec<EndpointAddress>| Some(list).filter(|list| !list.is_empty());
    by_pods
        .into_iter()
        .map(|(indexes, ports)| {
            let mut members: Vec<_> = indexes.into_iter().map(|index| &listed[index]).collect();
            members.sort_by_key(|(_, address)| &address.ip);
            let (ready, unready): (Vec<_>, Vec<_>) =
                members.into_iter().partition(|(pod, _)| publishes_unready(service) || is_ready(pod));
            let only = |members: Vec<&(_, EndpointAddress)>| {
                some(members.into_iter().map(|(_, address)| address.clone()).collect())
            };
            EndpointSubset {
                addresses: only(ready),
                not_ready_addresses: only(unready),
                ports: Some(ports).filter(|ports| !ports.is_empty()),
            }
        })
        .collect()
}

fn address(service: &Service, pod: &Pod, family: &str) -> Option<EndpointAddress> {
    Some(EndpointAddress {
        ip: addresses(pod, family).into_iter().next()?,
        hostname: hostname(pod, service),
        node_name: pods::spec(pod).node_name.clone(),
        target_ref: Some(ObjectReference {
            kind: Some("Pod".to_owned()),
            namespace: pod.namespace(),
            name: pod.metadata.name.clone(),
            uid: pod.uid(),
            ..ObjectReference::default()
        }),
    })
}

/// Leaves out what is too much, and first what is not ready. Says whether it was.
fn truncate(subsets: &mut [EndpointSubset]) -> bool {
    let mut room = CAPACITY;
    let mut is_cut = false;
    let mut cut = |list: &mut Option<Vec<EndpointAddress>>| {
        let Some(list) = list else { return };
        is_cut |= list.len() > room;
        list.truncate(room);
        room -= list.len();
    };
    subsets.iter_mut().for_each(|subset| cut(&mut subset.addresses));
    subsets.iter_mut().for_each(|subset| cut(&mut subset.not_ready_addresses));
    is_cut
}
