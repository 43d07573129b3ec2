//! Endpoints that people write for services without a selector, told in slices for those who read only these.

use std::net::IpAddr;

use k8s_openapi::api::{
    core::v1::{EndpointAddress, EndpointSubset, Endpoints, Service},
    discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice},
};
use kube::{ResourceExt as _, core::ObjectMeta};
use kubewright::{Context, Controller, Event, Key, Next, Owners, Reconciler, Result, Watch};

use super::slices::{MANAGED_BY, SERVICE, is_managed_by};

/// How many addresses of a subset are told of.
const LIMIT: usize = 1000;
const MANAGER: &str = "endpointslicemirroring-controller.k8s.io";
const SKIPPED: &str = "endpointslice.kubernetes.io/skip-mirror";
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
/// Annotations that are about the Endpoints themselves.
const OWN: [&str; 2] =
    ["endpoints.kubernetes.io/last-change-trigger-time", "kubectl.kubernetes.io/last-applied-configuration"];

struct Mirror;

pub(super) fn controller() -> Controller {
    Controller::of_existing::<Endpoints>()
        .named("endpointslice-mirroring")
        .owns_with(Watch::<EndpointSlice>::new(), Owners::Controller, [])
        .watches::<Service, _, _>(async |service, _| vec![Key::of(&*service)])
        .reports_as("endpoint-slice-mirroring-controller")
        .run(Mirror)
}

impl Reconciler<Endpoints> for Mirror {
    async fn reconcile(&self, endpoints: &Endpoints, cx: &Context<Endpoints>) -> Result<Next> {
        let mut existing = cx.children::<EndpointSlice>()?;
        existing.retain(|slice| is_managed_by(slice, MANAGER));
        let service = cx.get::<Service>(&endpoints.name_any())?;
        let has_none = |service: &Service| super::spec(service).selector.is_none();
        let subsets = match service.is_some_and(|service| has_none(&service)) && is_meant(endpoints) {
            true => endpoints.subsets.as_deref().unwrap_or_default(),
            false => &[],
        };
        let mut skipped = 0;
        for subset in subsets {
            skipped += addresses(subset).count().saturating_sub(LIMIT);
            for family in ["IPv4", "IPv6"] {
                let Some(wanted) = slice(endpoints, subset, family) else { continue };
                let is_it = |seen: &EndpointSlice| seen.address_type == family && seen.ports == wanted.ports;
                match existing.iter().position(|seen| is_it(seen)).map(|index| existing.remove(index)) {
                    None => drop(cx.create(wanted).await?),
                    Some(seen) => {
                        let mut next = EndpointSlice { metadata: seen.metadata.clone(), ..wanted };
                        next.metadata.labels = wanted.metadata.labels;
                        next.metadata.annotations = wanted.metadata.annotations;
                        if next != *seen {
                            cx.replace(next).await?;
                        }
                    }
                }
            }
        }
        for slice in &existing {
            cx.delete(slice).await?;
        }
        if skipped > 0 {
            let note = format!(
                "A max of {LIMIT} addresses can be mirrored to EndpointSlices per Endpoints subset. {skipped} \
                 addresses were skipped"
            );
            cx.event(Event::warning("TooManyAddressesToMirror", "Mirror", note)).await;
        }
        Ok(Next::on_change())
    }
}

/// Whether Endpoints are for others to read: they may also be the lease of a leader of old.
fn is_meant(endpoints: &Endpoints) -> bool {
    endpoints.labels().get(SKIPPED).is_none_or(|value| value != "true")
        && !endpoints.annotations().contains_key(LEADER)
}

/// The addresses of a subset, and whether they are ready.
fn addresses(subset: &EndpointSubset) -> impl Iterator<Item = (&EndpointAddress, bool)> {
    let ready = subset.addresses.iter().flatten().map(|address| (address, true));
    ready.chain(subset.not_ready_addresses.iter().flatten().map(|address| (address, false)))
}

/// The addresses of a family in a subset, as a slice; nothing if there are none.
fn slice(endpoints: &Endpoints, subset: &EndpointSubset, family: &str) -> Option<EndpointSlice> {
    let told = addresses(subset).take(LIMIT).filter_map(|(address, ready)| {
        let ip: IpAddr = address.ip.parse().ok()?;
        (ip.is_ipv6() == (family == "IPv6")).then(|| Endpoint {
            addresses: vec![ip.to_string()],
            conditions: Some(EndpointConditions { ready: Some(ready), ..EndpointConditions::default() }),
            hostname: address.hostname.clone(),
            node_name: address.node_name.clone(),
            target_ref: address.target_ref.clone(),
            ..Endpoint::default()
        })
    });
    let told: Vec<Endpoint> = told.collect();
    let ports = subset.ports.iter().flatten().map(|port| EndpointPort {
        name: Some(port.name.clone().unwrap_or_default()),
        port: Some(port.port),
        protocol: port.protocol.clone(),
        app_protocol: port.app_protocol.clone(),
    });
    let mut labels = endpoints.labels().clone();
    labels.insert(SERVICE.to_owned(), endpoints.name_any());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    let mut annotations = endpoints.annotations().clone();
    annotations.retain(|name, _| !OWN.contains(&name.as_str()));
    (!told.is_empty()).then(|| EndpointSlice {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", endpoints.name_any())),
            labels: Some(labels),
            annotations: Some(annotations).filter(|annotations| !annotations.is_empty()),
            ..ObjectMeta::default()
        },
        address_type: family.to_owned(),
        ports: Some(ports.collect::<Vec<_>>()).filter(|ports| !ports.is_empty()),
        endpoints: Some(told),
    })
}
