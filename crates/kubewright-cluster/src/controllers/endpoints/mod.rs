//! Where the pods behind services are reached: EndpointSlices, and the Endpoints that came before them.

mod legacy;
mod mirror;
mod slices;

use std::{collections::BTreeMap, net::IpAddr};

use k8s_openapi::{
    api::core::v1::{Pod, Service, ServicePort, ServiceSpec},
    apimachinery::pkg::util::intstr::IntOrString,
};
use kube::ResourceExt as _;
use kubewright::{Change, Context, Controller, Index, Key, Lookup, Predicate, Result, Seen, Watch};

use crate::pods::{self, is_finished, is_ready, is_terminating};

/// Marks what belongs to a service without an address of its own.
const HEADLESS: &str = "service.kubernetes.io/headless";

/// Pods by each of their labels, within a namespace.
const BY_LABEL: Index<Pod> = Index::new("label", |pod| labelled(pod.namespace(), pod.labels()));

/// Services by the first label that they select by, within a namespace.
const BY_SELECTOR: Index<Service> = Index::new("selector", |service| {
    let first = selector(service).and_then(|selector| selector.iter().next());
    first.map(|label| label_key(&service.namespace().unwrap_or_default(), label)).into_iter().collect()
});

pub(super) fn controllers() -> [Controller; 4] {
    [slices::controller(), legacy::controller(), legacy::sweeper(), mirror::controller()]
}

/// A controller of services that is told of their pods.
fn of_services(name: &str) -> kubewright::Builder<Service> {
    Controller::of_existing::<Service>()
        .named(name)
        .watching(Watch::new().index(BY_SELECTOR))
        .watches_with(Watch::<Pod>::new().index(BY_LABEL), services_of, [Predicate::new(matters)])
        .concurrency(5)
}

fn label_key(namespace: &str, (name, value): (&String, &String)) -> String {
    format!("{namespace}/{name}={value}")
}

fn labelled(namespace: Option<String>, labels: &BTreeMap<String, String>) -> Vec<String> {
    let namespace = namespace.unwrap_or_default();
    labels.iter().map(|label| label_key(&namespace, label)).collect()
}

/// The labels that pods of a service have; nothing if its addresses are not ours to tell.
fn selector(service: &Service) -> Option<&BTreeMap<String, String>> {
    let spec = service.spec.as_ref()?;
    let is_external = spec.type_.as_deref() == Some("ExternalName");
    spec.selector.as_ref().filter(|selector| !selector.is_empty() && !is_external)
}

/// The specification of a service; an empty one if it has none, which the API server does not let happen.
fn spec(service: &Service) -> &ServiceSpec {
    static EMPTY: std::sync::LazyLock<ServiceSpec> = std::sync::LazyLock::new(ServiceSpec::default);
    service.spec.as_ref().unwrap_or(&EMPTY)
}

fn has_all(labels: &BTreeMap<String, String>, selector: &BTreeMap<String, String>) -> bool {
    selector.iter().all(|(name, value)| labels.get(name) == Some(value))
}

/// The services that select a pod.
async fn services_of(pod: Seen<Pod>, lookup: Lookup) -> Vec<Key> {
    let candidates = labelled(pod.namespace(), pod.labels()).into_iter();
    let candidates = candidates.flat_map(|label| lookup.indexed(&BY_SELECTOR, &label).unwrap_or_default());
    candidates
        .filter(|service| selector(service).is_some_and(|selector| has_all(pod.labels(), selector)))
        .map(|service| Key::of(&*service))
        .collect()
}

/// The pods that a service selects, by name.
fn pods_of(cx: &Context<Service>, selector: &BTreeMap<String, String>) -> Result<Vec<Seen<Pod>>> {
    let mut fewest: Option<Vec<Seen<Pod>>> = None;
    for label in selector {
        let found = cx.indexed(&BY_LABEL, &label_key(cx.namespace(), label))?;
        if fewest.as_ref().is_none_or(|fewest| found.len() < fewest.len()) {
            fewest = Some(found);
        }
    }
    let mut pods = fewest.unwrap_or_default();
    pods.retain(|pod| has_all(pod.labels(), selector));
    Ok(pods)
}

/// Whether a change of a pod may change where it is reached, or for which services.
fn matters(change: &Change<Pod>) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else { return true };
    let facts = |pod: &Pod| (is_ready(pod), is_terminating(pod), is_finished(pod));
    let addresses = |pod: &Pod| pod.status.as_ref().and_then(|status| status.pod_ips.clone());
    let place = |pod: &Pod| {
        let spec = pods::spec(pod).clone();
        (spec.hostname, spec.subdomain, spec.node_name)
    };
    old.metadata.uid != new.metadata.uid
        || old.labels() != new.labels()
        || facts(old) != facts(new)
        || addresses(old) != addresses(new)
        || place(old) != place(new)
}

/// Whether a pod can be reached at all.
fn is_reachable(pod: &Pod) -> bool {
    let has_address = pod.status.as_ref().is_some_and(|status| status.pod_ip.is_some());
    !is_finished(pod) && has_address
}

/// The addresses of a pod that are of a family.
fn addresses(pod: &Pod, family: &str) -> Vec<String> {
    let all = pod.status.iter().flat_map(|status| status.pod_ips.iter().flatten());
    let parsed = all.filter_map(|address| address.ip.parse::<IpAddr>().ok());
    parsed
        .filter(|address| address.is_ipv6() == (family == "IPv6"))
        .map(|address| address.to_string())
        .collect()
}

/// The families of the addresses of a service.
fn families(service: &Service) -> Vec<String> {
    let spec = spec(service);
    match spec.ip_families.clone().unwrap_or_default() {
        families if !families.is_empty() => families,
        _ => match spec.cluster_ip.as_deref().and_then(|address| address.parse::<IpAddr>().ok()) {
            Some(IpAddr::V6(_)) => vec!["IPv6".to_owned()],
            _ => vec!["IPv4".to_owned()],
        },
    }
}

fn is_headless(service: &Service) -> bool {
    matches!(spec(service).cluster_ip.as_deref(), None | Some("" | "None"))
}

/// What tells of a service has its labels, and some that say whose it is.
fn labels<const N: usize>(service: &Service, own: [(&str, &str); N]) -> BTreeMap<String, String> {
    let mut labels = service.labels().clone();
    labels.remove(HEADLESS);
    let headless = is_headless(service).then_some((HEADLESS, ""));
    labels.extend(own.into_iter().chain(headless).map(|(name, value)| (name.to_owned(), value.to_owned())));
    labels
}

fn publishes_unready(service: &Service) -> bool {
    spec(service).publish_not_ready_addresses == Some(true)
}

/// Under which name of its own a pod is found in a headless service.
fn hostname(pod: &Pod, service: &Service) -> Option<String> {
    let spec = pods::spec(pod);
    let is_within = spec.subdomain.is_some() && spec.subdomain == service.metadata.name;
    spec.hostname.clone().filter(|name| is_within && !name.is_empty())
}

/// The port of a pod that a port of a service leads to; nothing if it has none of that name.
fn port_of(pod: &Pod, port: &ServicePort) -> Option<i32> {
    let name = match port.target_port.as_ref()? {
        IntOrString::Int(number) => return Some(*number),
        IntOrString::String(name) => name,
    };
    let spec = pods::spec(pod);
    let sidecars = spec.init_containers.iter().flatten();
    let sidecars = sidecars.filter(|container| container.restart_policy.as_deref() == Some("Always"));
    let protocol = port.protocol.as_deref().unwrap_or("TCP");
    spec.containers
        .iter()
        .chain(sidecars)
        .flat_map(|container| container.ports.iter().flatten())
        .find(|own| own.name.as_ref() == Some(name) && own.protocol.as_deref().unwrap_or("TCP") == protocol)
        .map(|own| own.container_port)
}
