//! Laying an applied configuration over the live object, and taking fields out of an object, along a schema.
//! Merging never removes anything; where both sides have a leaf, the applied one wins.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{
    node::{Form, Items, Node},
    path::PathElement,
    set::FieldSet,
};

/// The live value with the applied one laid over it; `None` if that is the live value.
pub(super) fn merge(node: Node<'_>, live: &Value, applied: &Value) -> Option<Value> {
    match (node.form(applied).0, live, applied) {
        (Form::Map, Value::Object(live), Value::Object(applied))
            if !live.is_empty() && !applied.is_empty() && !node.is_atomic_map() =>
        {
            merge_fields(node, live, applied).map(Value::Object)
        }
        (Form::List, Value::Array(live), Value::Array(applied))
            if !live.is_empty() && !applied.is_empty() && !matches!(node.items(), Items::Atomic) =>
        {
            merge_items(node, live, applied).map(Value::Array)
        }
        // Something empty over something full changes nothing, unless the whole is one value.
        (Form::Map, Value::Object(live), _)
            if !live.is_empty() && !node.is_atomic_map() && is_nothing(applied) =>
        {
            None
        }
        (Form::List, Value::Array(live), _)
            if !live.is_empty() && !matches!(node.items(), Items::Atomic) && is_nothing(applied) =>
        {
            None
        }
        _ => (live != applied).then(|| applied.clone()),
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

fn merge_fields(
    node: Node<'_>,
    live: &Map<String, Value>,
    applied: &Map<String, Value>,
) -> Option<Map<String, Value>> {
    let mut changes: BTreeMap<&String, Value> = BTreeMap::new();
    for (name, applied) in applied {
        let merged = match live.get(name) {
            Some(live) => merge(node.child(name), live, applied),
            None => Some(applied.clone()),
        };
        changes.extend(merged.map(|merged| (name, merged)));
    }
    if changes.is_empty() {
        return None;
    }
    let mut out = Map::new();
    for (name, live) in live {
        out.insert(name.clone(), changes.remove(name).unwrap_or_else(|| live.clone()));
    }
    out.extend(changes.into_iter().map(|(name, value)| (name.clone(), value)));
    Some(out)
}

/// An item of a merged list.
enum Piece {
    /// The live item of this place, as it is.
    Live(usize),
    New(Value),
}

/// Items that both lists have take the order of the applied list; each other item stays behind the shared
/// item it followed.
fn merge_items(node: Node<'_>, live: &[Value], applied: &[Value]) -> Option<Vec<Value>> {
    let steps = |items: &[Value]| -> Vec<PathElement> {
        items.iter().map(|item| node.step_to(item).unwrap_or(PathElement::Index(0))).collect()
    };
    let (live_steps, applied_steps) = (steps(live), steps(applied));
    // A live item of a repeated key is nobody's counterpart.
    let mut counterpart: BTreeMap<&PathElement, Option<usize>> = BTreeMap::new();
    for (place, step) in live_steps.iter().enumerate() {
        counterpart.entry(step).and_modify(|known| *known = None).or_insert(Some(place));
    }
    let is_applied: BTreeSet<&PathElement> = applied_steps.iter().collect();
    let mut shared = applied_steps.iter().filter(|step| counterpart.contains_key(step));
    let combined = |place: usize| match counterpart.get(&applied_steps[place]) {
        Some(Some(twin)) => {
            merge(node.item(), &live[*twin], &applied[place]).map_or(Piece::Live(*twin), Piece::New)
        }
        _ => Piece::New(applied[place].clone()),
    };

    let mut out = Vec::with_capacity(live.len().max(applied.len()));
    let mut done: BTreeSet<&PathElement> = BTreeSet::new();
    let mut next_shared = shared.next();
    let (mut l, mut r) = (0, 0);
    // Each turn moves on: once the applied list is used up, every one of its steps is done.
    while l < live.len() || r < applied.len() {
        if l < live.len() && r < applied.len() {
            let step = &live_steps[l];
            if *step == applied_steps[r] {
                done.insert(step);
                out.push(combined(r));
                l += 1;
                r += 1;
                next_shared = shared.next();
                continue;
            }
            if is_applied.contains(step) && next_shared.is_some_and(|next| next != step) {
                l += 1; // shared, but its turn comes later
                continue;
            }
        }
        if l < live.len() {
            let step = &live_steps[l];
            if !is_applied.contains(step) {
                out.push(Piece::Live(l));
                l += 1;
                continue;
            }
            if done.contains(step) {
                l += 1;
            }
        }
        if r < applied.len() {
            let step = &applied_steps[r];
            done.insert(step);
            out.push(combined(r));
            r += 1;
            if next_shared == Some(step) {
                next_shared = shared.next();
            }
        }
    }
    let is_live = out.len() == live.len()
        && out.iter().enumerate().all(|(place, piece)| matches!(piece, Piece::Live(from) if *from == place));
    (!is_live).then(|| {
        out.into_iter()
            .map(|piece| match piece {
                Piece::Live(place) => live[place].clone(),
                Piece::New(value) => value,
            })
            .collect()
    })
}

/// Takes the paths of the set out of a value. A container that loses its last part becomes `null`.
pub(super) fn remove(node: Node<'_>, value: &mut Value, set: &FieldSet) {
    match node.form(value).0 {
        Form::Scalar => return,
        Form::Map => {
            if let Value::Object(fields) = value
                && !node.is_atomic_map()
            {
                fields.retain(|name, value| match set.at(&PathElement::field(name)) {
                    Some((true, _)) => false,
                    Some((false, below)) => {
                        remove(node.child(name), value, below);
                        true
                    }
                    None => true,
                });
                if !fields.is_empty() {
                    return;
                }
            }
        }
        Form::List => {
            if let Value::Array(items) = value
                && !matches!(node.items(), Items::Atomic)
            {
                items.retain_mut(|item| match node.step_to(item).and_then(|step| set.at(&step)) {
                    Some((true, _)) => false,
                    Some((false, below)) => {
                        remove(node.item(), item, below);
                        true
                    }
                    None => true,
                });
                if !items.is_empty() {
                    return;
                }
            }
        }
    }
    *value = Value::Null;
}
