//! Whether a pod may be on a node: what the pod asks of it, and what the node asks of pods.

use k8s_openapi::api::core::v1::{
    Node, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Taint, Toleration,
};
use kube::ResourceExt as _;

/// Whether a node is as the node selector and the required node affinity of a pod want it.
pub(crate) fn attracts(spec: &PodSpec, node: &Node) -> bool {
    let labels = node.labels();
    let selected = spec.node_selector.iter().flatten().all(|(name, value)| labels.get(name) == Some(value));
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required =
        affinity.and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    selected
        && required.is_none_or(|required| required.node_selector_terms.iter().any(|term| is_met(term, node)))
}

/// Whether a pod tolerates what keeps new pods off a node.
pub(crate) fn admits(spec: &PodSpec, node: &Node) -> bool {
    tolerates(spec, node, &["NoSchedule", "NoExecute"])
}

/// Whether a pod tolerates all taints of a node with these effects.
pub(crate) fn tolerates(spec: &PodSpec, node: &Node, effects: &[&str]) -> bool {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    let mut counting = taints.filter(|taint| effects.contains(&taint.effect.as_str()));
    counting.all(|taint| tolerating(spec, taint).is_some())
}

/// The first of a pod's tolerations that is for a taint.
pub(crate) fn tolerating<'s>(spec: &'s PodSpec, taint: &Taint) -> Option<&'s Toleration> {
    spec.tolerations.iter().flatten().find(|toleration| covers(toleration, taint))
}

fn covers(toleration: &Toleration, taint: &Taint) -> bool {
    let is_any = |given: &Option<String>, is: &str| {
        given.as_deref().is_none_or(|given| given.is_empty() || given == is)
    };
    is_any(&toleration.effect, &taint.effect)
        && is_any(&toleration.key, &taint.key)
        && match toleration.operator.as_deref().unwrap_or_default() {
            "" | "Equal" => {
                toleration.value.as_deref().unwrap_or_default() == taint.value.as_deref().unwrap_or_default()
            }
            "Exists" => true,
            _ => false,
        }
}

/// A term that asks for nothing is met by no node.
fn is_met(term: &NodeSelectorTerm, node: &Node) -> bool {
    let label = |one: &&NodeSelectorRequirement| node.labels().get(&one.key).cloned();
    let field = |one: &&NodeSelectorRequirement| (one.key == "metadata.name").then(|| node.name_any());
    let mut labels = term.match_expressions.iter().flatten().map(|one| (one, label(&one))).peekable();
    let mut fields = term.match_fields.iter().flatten().map(|one| (one, field(&one))).peekable();
    (labels.peek().is_some() || fields.peek().is_some())
        && labels.chain(fields).all(|(requirement, value)| holds(requirement, value.as_deref()))
}

fn holds(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let is_listed = value.is_some_and(|value| values.iter().any(|one| one == value));
    let numbers = || -> Option<(i64, i64)> { Some((value?.parse().ok()?, values.first()?.parse().ok()?)) };
    match requirement.operator.as_str() {
        "In" => is_listed,
        "NotIn" => !is_listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => numbers().is_some_and(|(is, bound)| is > bound),
        "Lt" => numbers().is_some_and(|(is, bound)| is < bound),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn node(taints: Value) -> Node {
        let labels = json!({"disk": "ssd", "cores": "8"});
        serde_json::from_value(
            json!({"metadata": {"name": "one", "labels": labels}, "spec": {"taints": taints}}),
        )
        .unwrap()
    }

    fn spec(fields: Value) -> PodSpec {
        let mut spec = json!({"containers": []});
        spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        serde_json::from_value(spec).unwrap()
    }

    #[test]
    fn a_pod_says_which_nodes_it_wants() {
        let node = node(json!([]));
        assert!(attracts(&spec(json!({"nodeSelector": {"disk": "ssd"}})), &node));
        assert!(!attracts(&spec(json!({"nodeSelector": {"disk": "hdd"}})), &node));
        let expression = |key: &str, operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        let name = |name: &str| json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]});
        for (terms, wanted) in [
            (json!([expression("disk", "In", &["ssd", "nvme"])]), true),
            (json!([expression("disk", "NotIn", &["ssd"])]), false),
            (json!([expression("gpu", "NotIn", &["none"])]), true),
            (json!([expression("cores", "Gt", &["4"])]), true),
            (json!([expression("cores", "Lt", &["4"])]), false),
            (json!([expression("gpu", "Exists", &[]), expression("gpu", "DoesNotExist", &[])]), true),
            (json!([name("one")]), true),
            (json!([name("two")]), false),
            (json!([{}]), false),
        ] {
            let required =
                json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
            let spec = spec(json!({"affinity": {"nodeAffinity": required}}));
            assert_eq!(attracts(&spec, &node), wanted, "{terms}");
        }
    }

    #[test]
    fn a_node_says_which_pods_it_wants() {
        let node = node(json!([
            {"key": "own", "value": "team", "effect": "NoSchedule"}, {"key": "soft", "effect": "PreferNoSchedule"},
        ]));
        for (tolerations, wanted) in [
            (json!([]), false),
            (json!([{"key": "own", "operator": "Exists"}]), true),
            (json!([{"key": "own", "value": "team"}]), true),
            (json!([{"key": "own", "value": "other"}]), false),
            (json!([{"key": "own", "operator": "Exists", "effect": "NoExecute"}]), false),
            (json!([{"operator": "Exists"}]), true),
        ] {
            assert_eq!(admits(&spec(json!({"tolerations": tolerations})), &node), wanted, "{tolerations}");
        }
    }
}
