//! The pods of a DaemonSet: which nodes they may be on, and how they are tied to one.

use k8s_openapi::api::{
    apps::v1::DaemonSet,
    core::v1::{Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, Toleration},
};
use kube::ResourceExt as _;

use crate::{controllers::revisions::REVISION_LABEL, fit, pods};

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// What a node is to a DaemonSet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// It should have a pod.
    Wanted,
    /// A pod that is there may stay.
    Tolerated,
    /// It should have none.
    Unwanted,
}

impl Place {
    pub(super) fn of(set: &DaemonSet, node: &Node) -> Self {
        let mut spec = template_spec(set);
        tolerate(&mut spec);
        let is_named = spec.node_name.as_ref().is_none_or(|name| name.is_empty() || *name == node.name_any());
        if !is_named || !fit::attracts(&spec, node) {
            Self::Unwanted
        } else if fit::admits(&spec, node) {
            Self::Wanted
        } else if fit::tolerates(&spec, node, &["NoExecute"]) {
            Self::Tolerated
        } else {
            Self::Unwanted
        }
    }
}

fn template_spec(set: &DaemonSet) -> PodSpec {
    set.spec.as_ref().and_then(|spec| spec.template.spec.clone()).unwrap_or_default()
}

/// Daemons stay on nodes in trouble: what drives other pods away is tolerated.
fn tolerate(spec: &mut PodSpec) {
    let taints = [
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
        ("network-unavailable", "NoSchedule"),
    ];
    let count = if spec.host_network == Some(true) { taints.len() } else { taints.len() - 1 };
    let tolerations = spec.tolerations.get_or_insert_default();
    for (name, effect) in taints.into_iter().take(count) {
        let toleration = Toleration {
            key: Some(format!("node.kubernetes.io/{name}")),
            operator: Some("Exists".to_owned()),
            effect: Some(effect.to_owned()),
            ..Toleration::default()
        };
        if !tolerations.contains(&toleration) {
            tolerations.push(toleration);
        }
    }
}

/// A new pod for a node. It is the scheduler who puts it there, as nowhere else would do.
pub(super) fn new(set: &DaemonSet, node: &str, hash: &str) -> Pod {
    let template = set.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
    let mut pod = pods::from_template(&template, &set.name_any());
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(REVISION_LABEL.to_owned(), hash.to_owned());
    if let Some(generation) = set.annotations().get(TEMPLATE_GENERATION) {
        labels.insert("pod-template-generation".to_owned(), generation.clone());
    }
    let spec = pod.spec.get_or_insert_default();
    tolerate(spec);
    let affinity = spec.affinity.get_or_insert_default().node_affinity.get_or_insert_default();
    let name = NodeSelectorRequirement {
        key: "metadata.name".to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![node.to_owned()]),
    };
    affinity.required_during_scheduling_ignored_during_execution = Some(NodeSelector {
        node_selector_terms: vec![NodeSelectorTerm {
            match_fields: Some(vec![name]),
            match_expressions: None,
        }],
    });
    pod
}

/// The node that a pod is on, or for.
pub(super) fn node_of(pod: &Pod) -> Option<&str> {
    let spec = pods::spec(pod);
    if let Some(node) = spec.node_name.as_deref().filter(|name| !name.is_empty()) {
        return Some(node);
    }
    let affinity = spec.affinity.as_ref()?.node_affinity.as_ref()?;
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
    let mut fields = required.node_selector_terms.iter().flat_map(|term| term.match_fields.iter().flatten());
    match fields.find(|field| field.key == "metadata.name" && field.operator == "In")?.values.as_deref()? {
        [node] => Some(node),
        _ => None,
    }
}

/// Whether a pod is made from the current template.
pub(super) fn is_current(pod: &Pod, hash: &str) -> bool {
    pod.labels().get(REVISION_LABEL).is_some_and(|label| label == hash)
}
