//! Where a pod may run: affinities, tolerations, spreading, gates.

use std::collections::{BTreeMap, BTreeSet};

use super::super::super::{
    checks,
    report::{At, Errors},
};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// `affinity` of a pod spec.
pub(super) fn affinity(affinity: &At<'_, '_>, errors: &mut Errors) {
    let node = affinity.field("nodeAffinity");
    let required = node.field(REQUIRED);
    if required.exists() {
        node_selector(&required, errors);
    }
    for term in node.field(PREFERRED).items() {
        weight(&term, errors);
        node_selector_term(&term.field("preference"), false, errors);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let pods = affinity.field(kind);
        for term in pods.field(REQUIRED).items() {
            pod_term(&term, errors);
        }
        for term in pods.field(PREFERRED).items() {
            weight(&term, errors);
            pod_term(&term.field("podAffinityTerm"), errors);
        }
    }
}

fn weight(term: &At<'_, '_>, errors: &mut Errors) {
    let weight = term.field("weight");
    if !(1..=100).contains(&weight.int()) {
        errors.invalid(&weight, weight.int(), "must be in the range 1-100");
    }
}

/// A selector of nodes: any of its terms.
pub(crate) fn node_selector(selector: &At<'_, '_>, errors: &mut Errors) {
    let terms = selector.field("nodeSelectorTerms");
    if terms.is_empty() {
        errors.required(&terms, "must have at least one node selector term");
    }
    for term in terms.items() {
        node_selector_term(&term, true, errors);
    }
}

fn node_selector_term(term: &At<'_, '_>, check_values: bool, errors: &mut Errors) {
    for requirement in term.field("matchExpressions").items() {
        let (operator, values) = (requirement.field("operator"), requirement.field("values"));
        match operator.str() {
            "In" | "NotIn" if values.is_empty() => {
                errors.required(&values, "must be specified when `operator` is 'In' or 'NotIn'");
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.forbidden(&values, text);
            }
            "Gt" | "Lt" if values.len() != 1 => {
                errors.required(&values, "must be specified single value when `operator` is 'Lt' or 'Gt'");
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            other => errors.invalid(&operator, other, "not a valid selector operator"),
        }
        let key = requirement.field("key");
        errors.each(&key, checks::qualified_name(key.str()));
        if check_values {
            for value in values.items() {
                errors.each(&value, checks::label_value(value.str()));
            }
        }
    }
    for requirement in term.field("matchFields").items() {
        let (operator, values) = (requirement.field("operator"), requirement.field("values"));
        match operator.str() {
            "In" | "NotIn" if values.len() != 1 => {
                let text =
                    "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
                errors.required(&values, text);
            }
            "In" | "NotIn" => {}
            other => errors.invalid(&operator, other, "not a valid selector operator"),
        }
        let key = requirement.field("key");
        if key.str() != "metadata.name" {
            errors.invalid(&key, key.str(), "not a valid field selector key");
            continue;
        }
        for value in values.items() {
            errors.each(&value, checks::dns_subdomain(value.str()));
        }
    }
}

fn pod_term(term: &At<'_, '_>, errors: &mut Errors) {
    let selector = term.field("labelSelector");
    checks::label_selector(&selector, errors);
    checks::label_selector(&term.field("namespaceSelector"), errors);
    for name in term.field("namespaces").strings() {
        for reason in checks::dns_label(name) {
            errors.invalid(&term.field("namespace"), name, reason);
        }
    }
    label_keys(term, &selector, errors);
    let topology = term.field("topologyKey");
    if topology.str().is_empty() {
        errors.required(&topology, "can not be empty");
    }
    errors.each(&topology, checks::qualified_name(topology.str()));
}

/// `matchLabelKeys` and `mismatchLabelKeys`, which add to a label selector.
fn label_keys(term: &At<'_, '_>, selector: &At<'_, '_>, errors: &mut Errors) {
    let (matching, mismatching) = (term.field("matchLabelKeys"), term.field("mismatchLabelKeys"));
    for keys in [&matching, &mismatching] {
        if keys.is_empty() {
            continue;
        }
        if !selector.exists() {
            errors.forbidden(keys, "must not be specified when labelSelector is not set");
            continue;
        }
        for key in keys.items() {
            errors.each(&key, checks::qualified_name(key.str()));
        }
    }
    let mut first: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, key) in matching.strings().enumerate() {
        first.entry(key).or_insert(index);
    }
    let mut selected: BTreeSet<&str> = selector.field("matchLabels").entries().map(|(key, _)| key).collect();
    for expression in selector.field("matchExpressions").items() {
        let key = expression.field("key").str();
        if let Some(index) = first.get(key).filter(|_| selected.contains(key)) {
            errors.invalid(&term.index(*index), key, "exists in both matchLabelKeys and labelSelector");
        }
        selected.insert(key);
    }
    let mismatching: BTreeSet<&str> = mismatching.strings().collect();
    for key in matching.items() {
        if mismatching.contains(key.str()) {
            errors.invalid(&key, key.str(), "exists in both matchLabelKeys and mismatchLabelKeys");
        }
    }
}

/// The effect of a taint.
pub(crate) fn taint_effect(effect: &At<'_, '_>, errors: &mut Errors) {
    errors.one_of(effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"]);
}

/// Tolerations of a pod.
pub(crate) fn tolerations(tolerations: &At<'_, '_>, errors: &mut Errors) {
    for toleration in tolerations.items() {
        let (key, operator) = (toleration.field("key"), toleration.field("operator"));
        let (value, effect) = (toleration.field("value").str(), toleration.field("effect"));
        if !key.str().is_empty() {
            errors.each(&key, checks::qualified_name(key.str()));
        } else if operator.str() != "Exists" {
            let text =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.invalid(&operator, operator.str(), text);
        }
        if toleration.field("tolerationSeconds").exists() && effect.str() != "NoExecute" {
            let text = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.invalid(&effect, effect.str(), text);
        }
        match operator.str() {
            "" | "Equal" => {
                let reasons = checks::label_value(value);
                if !reasons.is_empty() {
                    errors.invalid(&operator, value, reasons.join(";"));
                }
            }
            "Exists" if !value.is_empty() => {
                errors.invalid(&operator, value, "value must be empty when `operator` is 'Exists'");
            }
            "Exists" => {}
            "Lt" | "Gt" => errors.not_supported(&operator, operator.str(), &["Equal", "Exists", "Lt", "Gt"]),
            other => errors.not_supported(&operator, other, &["Equal", "Exists"]),
        }
        if !effect.str().is_empty() {
            taint_effect(&effect, errors);
        }
    }
}

/// How evenly pods are spread.
pub(super) fn spread(constraints: &At<'_, '_>, errors: &mut Errors) {
    for (index, constraint) in constraints.items().enumerate() {
        let skew = constraint.field("maxSkew");
        if skew.int() <= 0 {
            errors.invalid(&skew, skew.int(), "must be greater than zero");
        }
        let (topology, action) = (constraint.field("topologyKey"), constraint.field("whenUnsatisfiable"));
        if topology.str().is_empty() {
            errors.required(&topology, "can not be empty");
        }
        if !matches!(action.str(), "DoNotSchedule" | "ScheduleAnyway") {
            errors.not_supported(&action, action.str(), &["DoNotSchedule", "ScheduleAnyway"]);
        }
        let same = |other: At<'_, '_>| {
            other.field("topologyKey").str() == topology.str()
                && other.field("whenUnsatisfiable").str() == action.str()
        };
        if constraints.items().skip(index + 1).any(same) {
            let pair = format!("{{{}, {}}}", topology.str(), action.str());
            errors.duplicate(&constraint.field("{topologyKey, whenUnsatisfiable}"), pair);
        }
        let domains = constraint.field("minDomains");
        if domains.exists() {
            if domains.int() <= 0 {
                errors.invalid(&domains, domains.int(), "must be greater than zero");
            }
            if action.str() != "DoNotSchedule" {
                let text = format!(
                    "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {}",
                    action.str()
                );
                errors.invalid(&domains, domains.int(), text);
            }
        }
        for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            errors.optional_one_of(&constraint.field(policy), &["Honor", "Ignore"]);
        }
        let selector = constraint.field("labelSelector");
        label_keys(&constraint, &selector, errors);
        checks::label_selector(&selector, errors);
    }
}

/// What must be lifted before a pod is scheduled.
pub(super) fn gates(gates: &At<'_, '_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for gate in gates.items() {
        let name = gate.field("name").str();
        for reason in checks::qualified_name(name) {
            errors.invalid(&gate, name, reason);
        }
        if !seen.insert(name) {
            errors.duplicate(&gate, name);
        }
    }
}
