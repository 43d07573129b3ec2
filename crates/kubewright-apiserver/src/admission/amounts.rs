//! Amounts of resources by name, and what a pod asks for altogether.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{kinds::access, quantity::Quantity};

/// How much of each resource.
pub(super) type Amounts = BTreeMap<String, Quantity>;

/// The amounts that an object lists somewhere.
pub(super) fn listed(object: &Value, path: &[&str]) -> Amounts {
    access::entries(object, path)
        .filter_map(|(name, amount)| Some((name.to_owned(), Quantity::parse(amount.as_str()?).ok()?)))
        .collect()
}

pub(super) fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let total = sum.get(name).map_or_else(|| amount.clone(), |sum| sum.add(amount));
        sum.insert(name.clone(), total);
    }
}

fn raise(most: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        if most.get(name).is_none_or(|most| amount > most) {
            most.insert(name.clone(), amount.clone());
        }
    }
}

/// Whether a resource can be asked for by a pod as a whole.
fn is_of_pod(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

/// The `requests` or `limits` of a pod: of its containers together, or of one of those that run before them if
/// that is more; instead of those, what it says itself.
pub(super) fn of_pod(pod: &Value, list: &str) -> Amounts {
    let of = |container: &Value| listed(container, &["resources", list]);
    let mut total = Amounts::new();
    for container in access::items(pod, &["spec", "containers"]) {
        add(&mut total, &of(container));
    }
    let (mut beside, mut before) = (Amounts::new(), Amounts::new());
    for container in access::items(pod, &["spec", "initContainers"]) {
        let mut needed = of(container);
        if access::get_str(container, &["restartPolicy"]) == "Always" {
            add(&mut total, &needed);
            add(&mut beside, &needed);
            needed = beside.clone();
        } else {
            add(&mut needed, &beside);
        }
        raise(&mut before, &needed);
    }
    raise(&mut total, &before);
    let whole = listed(pod, &["spec", "resources", list]);
    total.extend(whole.into_iter().filter(|(name, _)| is_of_pod(name)));
    total
}

/// Whether a pod says itself what it asks for.
pub(super) fn is_told_by_pod(pod: &Value) -> bool {
    ["requests", "limits"].iter().any(|list| {
        let path = ["spec", "resources", list];
        access::entries(pod, &path).any(|(name, _)| is_of_pod(name))
    })
}

/// Amounts as messages show them.
pub(super) fn shown(amounts: &Amounts) -> String {
    amounts.iter().map(|(name, amount)| format!("{name}={amount}")).collect::<Vec<_>>().join(",")
}
