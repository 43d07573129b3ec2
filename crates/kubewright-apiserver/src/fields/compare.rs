//! What an object owns, and what differs between two objects, as sets of paths along a schema. Equal parts
//! cost no memory. Objects must fit the schema ([`Node::validate`]); what does not is passed over.

use serde_json::{Map, Value};

use super::{
    node::{Form, Items, Node, Step},
    path::{PathElement, equal},
    set::FieldSet,
};

/// What differs between two objects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Comparison {
    /// Paths that are new or have another value.
    pub(super) changed: FieldSet,
    /// Paths that are gone.
    pub(super) removed: FieldSet,
}

/// Compares two objects of one schema.
pub(super) fn compare(node: Node<'_>, old: &Value, new: &Value) -> Comparison {
    let mut walk = Walk { path: Vec::new(), found: Comparison::default() };
    walk.both(node, old, new);
    walk.found
}

/// Every path that an applied configuration lays claim to.
pub(super) fn claims(node: Node<'_>, value: &Value) -> FieldSet {
    claims_below(node, value).1
}

/// Whether the value itself is claimed, and what is claimed below it.
fn claims_below(node: Node<'_>, value: &Value) -> (bool, FieldSet) {
    let mut set = FieldSet::default();
    match (node.form(value).0, value) {
        (Form::Scalar, _) => return (true, set),
        (Form::Map, _) if node.is_atomic_map() => return (true, set),
        (Form::Map, Value::Object(fields)) => {
            for (name, value) in fields {
                let Some((child, declared)) = node.field(name) else { continue };
                let (claimed, below) = claims_below(child, value);
                let is_empty = match value {
                    Value::Null => true,
                    Value::Object(fields) => fields.is_empty(),
                    _ => false,
                };
                set.push(PathElement::field(name), claimed || is_empty || !declared, below);
            }
        }
        (Form::List, _) if matches!(node.items(), Items::Atomic) => return (true, set),
        (Form::List, Value::Array(items)) => {
            for group in Groups::new(node, items) {
                let below = match group.items.as_slice() {
                    [only] => claims_below(node.item(), only).1,
                    _ => FieldSet::default(),
                };
                set.push(group.step, true, below);
            }
        }
        _ => {}
    }
    (false, set)
}

/// Every path below a value that came or went as a whole.
fn whole(node: Node<'_>, value: &Value) -> FieldSet {
    let mut set = FieldSet::default();
    match (node.form(value).0, value) {
        (Form::Map, Value::Object(fields)) if !node.is_atomic_map() => {
            for (name, value) in fields {
                set.push(PathElement::field(name), true, whole(node.child(name), value));
            }
        }
        (Form::List, Value::Array(items)) if !matches!(node.items(), Items::Atomic) => {
            for group in Groups::new(node, items) {
                let below = match group.items.as_slice() {
                    [only] => whole(node.item(), only),
                    _ => FieldSet::default(),
                };
                set.push(group.step, true, below);
            }
        }
        _ => {}
    }
    set
}

struct Walk<'v> {
    path: Vec<Step<'static, 'v>>,
    found: Comparison,
}

impl<'v> Walk<'v> {
    fn steps(&self) -> impl Iterator<Item = PathElement> {
        self.path.iter().map(Step::to_element)
    }

    fn at(
        &mut self,
        step: Step<'static, 'v>,
        node: Node<'_>,
        old: Option<&'v Value>,
        new: Option<&'v Value>,
    ) {
        self.path.push(step);
        match (old, new) {
            (Some(old), Some(new)) => self.both(node, old, new),
            (None, Some(new)) => {
                let below = whole(node, new);
                self.found.changed.graft(self.path.iter().map(Step::to_element), below);
            }
            (Some(old), None) => {
                let below = whole(node, old);
                self.found.removed.graft(self.path.iter().map(Step::to_element), below);
            }
            (None, None) => {}
        }
        self.path.pop();
    }

    fn both(&mut self, node: Node<'_>, old: &'v Value, new: &'v Value) {
        let (before, after) = (node.form(old), node.form(new));
        if before != after {
            self.both_as(before.0, node, old, new);
        }
        self.both_as(after.0, node, old, new);
    }

    fn both_as(&mut self, form: Form, node: Node<'_>, old: &'v Value, new: &'v Value) {
        match form {
            Form::Map if !node.is_atomic_map() => {
                let old_fields = old.as_object().filter(|fields| !fields.is_empty());
                let new_fields = new.as_object().filter(|fields| !fields.is_empty());
                if old_fields.is_some() || new_fields.is_some() {
                    return self.fields(node, old_fields, new_fields);
                }
            }
            Form::List if !matches!(node.items(), Items::Atomic) => {
                let old_items = old.as_array().map_or(&[][..], Vec::as_slice);
                let new_items = new.as_array().map_or(&[][..], Vec::as_slice);
                if !old_items.is_empty() || !new_items.is_empty() {
                    return self.items(node, old_items, new_items);
                }
            }
            _ => {}
        }
        if !equal(old, new) {
            let path: Vec<PathElement> = self.steps().collect();
            self.found.changed.insert(path);
        }
    }

    fn fields(
        &mut self,
        node: Node<'_>,
        old: Option<&'v Map<String, Value>>,
        new: Option<&'v Map<String, Value>>,
    ) {
        for (name, before) in old.into_iter().flatten() {
            let after = new.and_then(|fields| fields.get(name));
            self.at(Step::Field(name), node.child(name), Some(before), after);
        }
        for (name, after) in new.into_iter().flatten() {
            if old.is_none_or(|fields| !fields.contains_key(name)) {
                self.at(Step::Field(name), node.child(name), None, Some(after));
            }
        }
    }

    fn items(&mut self, node: Node<'_>, old: &'v [Value], new: &'v [Value]) {
        if old == new {
            return;
        }
        let mut before = Groups::new(node, old).peekable();
        let mut after = Groups::new(node, new).peekable();
        loop {
            let order = match (before.peek(), after.peek()) {
                (Some(a), Some(b)) => a.step.cmp(&b.step),
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (None, None) => return,
            };
            let (before, after) = match order {
                std::cmp::Ordering::Less => (before.next(), None),
                std::cmp::Ordering::Greater => (None, after.next()),
                std::cmp::Ordering::Equal => (before.next(), after.next()),
            };
            let Some(step) = before.as_ref().or(after.as_ref()).map(|group| group.step.clone()) else {
                return;
            };
            let old = before.map(|group| group.items).unwrap_or_default();
            let new = after.map(|group| group.items).unwrap_or_default();
            self.group(node, step, &old, &new);
        }
    }

    /// Items of one key. Duplicates are compared as if they were one value.
    fn group(&mut self, node: Node<'_>, step: PathElement, old: &[&'v Value], new: &[&'v Value]) {
        let here: Vec<PathElement> = if old.len() > 1 || new.len() > 1 {
            self.steps().chain([step.clone()]).collect()
        } else {
            Vec::new()
        };
        let step = Step::Item(step);
        match (old, new) {
            ([] | [_], [] | [_]) => self.at(step, node.item(), old.first().copied(), new.first().copied()),
            ([_, _, ..], [_, _, ..]) => {
                if old.len() != new.len() || old.iter().zip(new).any(|(old, new)| !equal(old, new)) {
                    self.found.changed.insert(here);
                }
            }
            ([_, _, ..], _) => {
                self.at(step, node.item(), None, new.first().copied());
                self.found.removed.insert(here);
            }
            _ => {
                self.at(step, node.item(), old.first().copied(), None);
                self.found.changed.insert(here);
            }
        }
    }
}

/// The items of a list that share a key, in the order of the keys.
struct Group<'v> {
    step: PathElement,
    items: Vec<&'v Value>,
}

struct Groups<'v> {
    items: std::iter::Peekable<std::vec::IntoIter<(PathElement, &'v Value)>>,
}

impl<'v> Groups<'v> {
    fn new(node: Node<'_>, items: &'v [Value]) -> Self {
        let mut items: Vec<(PathElement, &Value)> =
            items.iter().filter_map(|item| Some((node.step_to(item)?, item))).collect();
        items.sort_by(|a, b| a.0.cmp(&b.0));
        Self { items: items.into_iter().peekable() }
    }
}

impl<'v> Iterator for Groups<'v> {
    type Item = Group<'v>;

    fn next(&mut self) -> Option<Group<'v>> {
        let (step, first) = self.items.next()?;
        let mut items = vec![first];
        while let Some((_, item)) = self.items.next_if(|(other, _)| *other == step) {
            items.push(item);
        }
        Some(Group { step, items })
    }
}
