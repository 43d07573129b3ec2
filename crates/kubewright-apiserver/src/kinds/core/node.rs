//! Nodes: taints, addresses, what they offer.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    super::{
        Strategy,
        access::{get, get_mut, get_str, has, items, remove, set},
        checks,
        lifecycle::{keep_spec, keep_status},
        report::{At, Errors},
    },
    pod_spec,
};

/// What a node does.
pub(crate) const STRATEGY: Strategy = Strategy {
    default,
    prepare_create: |node| {
        remove(node, &["spec", "configSource"]);
        remove(node, &["status", "config"]);
    },
    prepare_update: |node, old| {
        keep_status(node, old);
        if !has(old, &["spec", "configSource"]) {
            remove(node, &["spec", "configSource"]);
        }
    },
    prepare_status_update: |node, old| {
        keep_spec(node, old);
        if !has(old, &["status", "config"]) {
            remove(node, &["status", "config"]);
        }
    },
    validate: |node| Errors::of(node, validate),
    validate_update: |node, old| {
        Errors::of(node, |node, errors| {
            validate(node, errors);
            changes(node, &At::root(old), errors);
        })
    },
    validate_status_update: |node, old| {
        Errors::of(node, |node, errors| changes(node, &At::root(old), errors))
    },
    warnings: |node, _| {
        let mut warnings = Vec::new();
        if has(node, &["spec", "configSource"]) {
            warnings.push("spec.configSource: the feature is removed".to_owned());
        }
        if !get_str(node, &["spec", "externalID"]).is_empty() {
            let text = "spec.externalID: this field is deprecated, and is unused by Kubernetes";
            warnings.push(text.to_owned());
        }
        warnings
    },
    ..Strategy::PLAIN
};

fn default(node: &mut Value) {
    one_pod_cidr(node);
    for list in ["capacity", "allocatable"] {
        pod_spec::round_amounts(get_mut(node, &["status", list]));
    }
    if !has(node, &["status", "allocatable"])
        && let Some(capacity) = get(node, &["status", "capacity"]).cloned()
    {
        set(node, &["status", "allocatable"], capacity);
    }
}

/// `podCIDR` is the first of `podCIDRs`; whoever writes one writes both.
fn one_pod_cidr(node: &mut Value) {
    let first = items(node, &["spec", "podCIDRs"]).first().and_then(Value::as_str).map(str::to_owned);
    match (get_str(node, &["spec", "podCIDR"]).to_owned(), first) {
        (cidr, Some(first)) if cidr.is_empty() => set(node, &["spec", "podCIDR"], first),
        (cidr, first) if !cidr.is_empty() && first.as_ref() != Some(&cidr) => {
            set(node, &["spec", "podCIDRs"], json!([cidr]));
        }
        _ => {}
    }
}

fn validate(node: &At<'_, '_>, errors: &mut Errors) {
    let spec = node.field("spec");
    taints(node, errors);
    amounts(node, errors);
    let cidrs = spec.field("podCIDRs");
    for cidr in cidrs.items() {
        checks::cidr(&cidr, cidr.str(), errors);
    }
    let families: BTreeSet<bool> = cidrs.strings().map(|cidr| cidr.contains(':')).collect();
    if cidrs.len() > 2 || (cidrs.len() == 2 && families.len() != 2) {
        errors.invalid(&cidrs, cidrs.shown(), "may specify no more than one CIDR for each IP family");
    }
}

fn taints(node: &At<'_, '_>, errors: &mut Errors) {
    let (spec, metadata) = (node.field("spec"), node.field("metadata"));
    let taints = metadata.field("taints").holding(spec.field("taints").value());
    let mut seen = BTreeSet::new();
    for taint in taints.items() {
        let (key, effect) = (taint.field("key"), taint.field("effect"));
        errors.each(&key, checks::qualified_name(key.str()));
        let reasons = checks::label_value(taint.field("value").str());
        if !reasons.is_empty() {
            errors.invalid(&taint.field("value"), taint.field("value").str(), reasons.join(";"));
        }
        pod_spec::taint_effect(&effect, errors);
        if !seen.insert((key.str(), effect.str())) {
            let shown = format!(
                r#"{{"Key":{},"Value":{},"Effect":{},"TimeAdded":{}}}: taints must be unique by key and effect pair"#,
                json!(key.str()),
                json!(taint.field("value").str()),
                json!(effect.str()),
                taint.field("timeAdded").shown(),
            );
            errors.duplicate_text(&taint, shown);
        }
    }
}

fn amounts(node: &At<'_, '_>, errors: &mut Errors) {
    let status = node.field("status");
    for list in ["capacity", "allocatable"] {
        let list = status.field(list);
        for (name, amount) in list.entries() {
            pod_spec::resource_amount(&list.field(name).holding(amount.value()), name, errors);
        }
    }
}

fn changes(node: &At<'_, '_>, old: &At<'_, '_>, errors: &mut Errors) {
    amounts(node, errors);
    let (spec, was) = (node.field("spec"), old.field("spec"));
    let addresses = node.field("status");
    let addresses = addresses.field("addresses");
    let mut seen = BTreeSet::new();
    for address in addresses.items() {
        if !seen.insert((address.field("type").str(), address.field("address").str())) {
            errors.duplicate_text(&address, address.as_go(&[("Type", "type"), ("Address", "address")]));
        }
    }
    let (cidrs, old_cidrs) = (spec.field("podCIDRs"), was.field("podCIDRs"));
    if !old_cidrs.is_empty() && cidrs.value() != old_cidrs.value() {
        errors.forbidden(&cidrs, "node updates may not change podCIDR except from \"\" to valid");
    }
    let (provider, old_provider) = (spec.field("providerID"), was.field("providerID"));
    if !old_provider.str().is_empty() && provider.str() != old_provider.str() {
        errors.forbidden(&provider, "node updates may not change providerID except from \"\" to valid");
    }
    taints(node, errors);
    if spec.field("externalID").value() != was.field("externalID").value() {
        errors.forbidden(&spec.field("externalID"), "may not be updated");
    }
}
