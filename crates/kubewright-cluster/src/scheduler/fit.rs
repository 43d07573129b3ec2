//! Whether a pod may be on a node, and if not, why: in the words of the real scheduler.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod, PodAffinityTerm, Taint};
use kube::ResourceExt as _;

use super::requests::Resources;
use crate::{fit, pods};

/// Why a pod can't be on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unfit {
    pub(super) reasons: Vec<String>,
    /// Whether it would help if other pods left.
    pub(super) is_crowded: bool,
}

impl Unfit {
    fn never(reason: &str) -> Self {
        Self { reasons: vec![reason.to_owned()], is_crowded: false }
    }

    fn now(reason: &str) -> Self {
        Self { reasons: vec![reason.to_owned()], is_crowded: true }
    }
}

/// What a node asks of pods by itself, whoever else is there.
pub(super) fn admits(node: &Node, pod: &Pod) -> Result<(), Unfit> {
    let spec = pods::spec(pod);
    let unschedulable = Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    let is_cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
    if is_cordoned && fit::tolerating(spec, &unschedulable).is_none() {
        return Err(Unfit::never("node(s) were unschedulable"));
    }
    if !fit::admits(spec, node) {
        return Err(Unfit::never("node(s) had untolerated taint(s)"));
    }
    if !fit::attracts(spec, node) {
        return Err(Unfit::never("node(s) didn't match Pod's node affinity/selector"));
    }
    Ok(())
}

/// Whether there is enough left on a node with these pods.
pub(super) fn has_room(node: &Node, used: &Resources, wanted: &Resources) -> Result<(), Unfit> {
    let all = Resources::of(node.status.as_ref().and_then(|status| status.allocatable.as_ref()));
    let lacking = all.lacking(used, wanted);
    if lacking.is_empty() {
        return Ok(());
    }
    let mut reasons: Vec<String> = lacking
        .iter()
        .map(|name| match *name {
            "pods" => "Too many pods".to_owned(),
            name => format!("Insufficient {name}"),
        })
        .collect();
    reasons.sort();
    // A node that could never hold the pod is not crowded.
    let is_crowded = all.lacking(&Resources::default(), wanted).is_empty();
    Err(Unfit { reasons, is_crowded })
}

/// Whether the ports that a pod wants of its host are free.
pub(super) fn has_ports<'p>(others: impl Iterator<Item = &'p Pod>, pod: &Pod) -> Result<(), Unfit> {
    let wanted = host_ports(pod);
    if wanted.is_empty() {
        return Ok(());
    }
    let any = |address: &str| address.is_empty() || address == "0.0.0.0";
    let clashes = |(address, protocol, port): &(String, String, i32)| {
        wanted.iter().any(|(wanted_address, wanted_protocol, wanted_port)| {
            (port, protocol) == (wanted_port, wanted_protocol)
                && (any(address) || any(wanted_address) || address == wanted_address)
        })
    };
    match others.flat_map(host_ports).any(|used| clashes(&used)) {
        true => Err(Unfit::now("node(s) didn't have free ports for the requested pod ports")),
        false => Ok(()),
    }
}

fn host_ports(pod: &Pod) -> Vec<(String, String, i32)> {
    let ports = pods::spec(pod).containers.iter().flat_map(|container| container.ports.iter().flatten());
    ports
        .filter_map(|port| {
            let number = port.host_port.filter(|number| *number > 0)?;
            let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".to_owned());
            Some((port.host_ip.clone().unwrap_or_default(), protocol, number))
        })
        .collect()
}

/// A pod that is on a node already, with the labels of that node.
pub(super) struct Placed<'p> {
    pub(super) pod: &'p Pod,
    pub(super) node: &'p Node,
}

/// The labels of namespaces.
pub(super) type Namespaces = BTreeMap<String, BTreeMap<String, String>>;

/// Whether a pod gets on with those that are there, as its and their required affinities want.
pub(super) fn gets_on(
    pod: &Pod,
    node: &Node,
    placed: &[Placed<'_>],
    namespaces: &Namespaces,
) -> Result<(), Unfit> {
    let affinity = pods::spec(pod).affinity.as_ref();
    let wanted = affinity
        .and_then(|affinity| {
            affinity.pod_affinity.as_ref()?.required_during_scheduling_ignored_during_execution.as_deref()
        })
        .unwrap_or_default();
    let together = |term: &PodAffinityTerm, other: &Placed<'_>| {
        let place = node.labels().get(&term.topology_key);
        place.is_some() && place == other.node.labels().get(&term.topology_key)
    };
    let is_met = wanted.iter().all(|term| {
        placed.iter().any(|other| together(term, other) && concerns(term, pod, other.pod, namespaces))
    });
    if !wanted.is_empty() && !is_met {
        // The first of a group that wants to be together must be somewhere.
        let is_first = wanted.iter().all(|term| {
            concerns(term, pod, pod, namespaces)
                && node.labels().contains_key(&term.topology_key)
                && !placed.iter().any(|other| concerns(term, pod, other.pod, namespaces))
        });
        if !is_first {
            return Err(Unfit::never("node(s) didn't match pod affinity rules"));
        }
    }
    let is_avoided = avoided(pod).iter().any(|term| {
        placed.iter().any(|other| together(term, other) && concerns(term, pod, other.pod, namespaces))
    });
    if is_avoided {
        return Err(Unfit::now("node(s) didn't match pod anti-affinity rules"));
    }
    let is_unwelcome = placed.iter().any(|other| {
        avoided(other.pod)
            .iter()
            .any(|term| together(term, other) && concerns(term, other.pod, pod, namespaces))
    });
    match is_unwelcome {
        true => Err(Unfit::now("node(s) didn't satisfy existing pods anti-affinity rules")),
        false => Ok(()),
    }
}

/// The pods that a pod does not want to be with.
pub(super) fn avoided(pod: &Pod) -> &[PodAffinityTerm] {
    let affinity = pods::spec(pod).affinity.as_ref().and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    let required =
        affinity.and_then(|one| one.required_during_scheduling_ignored_during_execution.as_deref());
    required.unwrap_or_default()
}

/// Whether a term of one pod is about another.
fn concerns(term: &PodAffinityTerm, of: &Pod, other: &Pod, namespaces: &Namespaces) -> bool {
    let (home, there) = (of.namespace().unwrap_or_default(), other.namespace().unwrap_or_default());
    let named = term.namespaces.as_deref().unwrap_or_default();
    let in_namespace = match &term.namespace_selector {
        None if named.is_empty() => home == there,
        None => named.contains(&there),
        Some(selector) => {
            let empty = BTreeMap::new();
            named.contains(&there) || pods::matches(selector, namespaces.get(&there).unwrap_or(&empty))
        }
    };
    in_namespace
        && term.label_selector.as_ref().is_some_and(|selector| pods::matches(selector, other.labels()))
}
