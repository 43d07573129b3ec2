//! Resources with everything that was made for them, as trees.

use std::{collections::BTreeMap, sync::Arc};

use kube::{ResourceExt as _, api::DynamicObject};
use serde_json::{Value, json};

use super::state::{Mood, State, called, is_past, kind};

/// An object, how it is doing, and what it owns.
pub(super) struct Branch {
    pub(super) object: Arc<DynamicObject>,
    pub(super) state: State,
    pub(super) children: Vec<Branch>,
}

/// A line of a tree: what leads to the object, the object, and how it is doing.
pub(super) struct Line<'b> {
    pub(super) lead: String,
    pub(super) name: String,
    pub(super) state: &'b State,
}

/// The trees of the objects that nobody owns, in the order in which they are given.
pub(super) fn grow(
    resources: impl IntoIterator<Item = Arc<DynamicObject>>,
    others: impl IntoIterator<Item = Arc<DynamicObject>>,
) -> Vec<Branch> {
    let mut owned: BTreeMap<String, Vec<Arc<DynamicObject>>> = BTreeMap::new();
    let mut roots = Vec::new();
    for object in resources {
        match owner(&object) {
            Some(owner) => owned.entry(owner).or_default().push(object),
            None => roots.push(object),
        }
    }
    for object in others {
        if let Some(owner) = owner(&object).filter(|_| !is_past(&object)) {
            owned.entry(owner).or_default().push(object);
        }
    }
    roots.into_iter().map(|root| Branch::grow(root, &mut owned)).collect()
}

/// The UID of the controller of an object.
fn owner(object: &DynamicObject) -> Option<String> {
    let owners = object.owner_references();
    owners.iter().find(|owner| owner.controller == Some(true)).map(|owner| owner.uid.clone())
}

impl Branch {
    fn grow(object: Arc<DynamicObject>, owned: &mut BTreeMap<String, Vec<Arc<DynamicObject>>>) -> Self {
        let mut children = owned.remove(&object.uid().unwrap_or_default()).unwrap_or_default();
        children.sort_by_key(|child| (kind(child).to_owned(), child.name_any()));
        let children = children.into_iter().map(|child| Self::grow(child, owned)).collect();
        Self { state: State::of(&object), object, children }
    }

    /// Whether it and all that it owns are well.
    pub(super) fn is_at_rest(&self) -> bool {
        self.state.mood == Mood::Well && self.children.iter().all(Self::is_at_rest)
    }

    /// What people call the resource at its root.
    pub(super) fn name(&self) -> String {
        match self.object.namespace() {
            Some(namespace) => format!("{} {namespace}/{}", kind(&self.object), self.object.name_any()),
            None => called(&self.object),
        }
    }

    pub(super) fn lines(&self) -> Vec<Line<'_>> {
        let mut lines = vec![Line { lead: String::new(), name: self.name(), state: &self.state }];
        self.lines_below("", &mut lines);
        lines
    }

    fn lines_below<'b>(&'b self, lead: &str, lines: &mut Vec<Line<'b>>) {
        for (at, child) in self.children.iter().enumerate() {
            let is_last = at + 1 == self.children.len();
            let (turn, beside) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            lines.push(Line {
                lead: format!("{lead}{turn}"),
                name: called(&child.object),
                state: &child.state,
            });
            child.lines_below(&format!("{lead}{beside}"), lines);
        }
    }

    /// The same for programs.
    pub(super) fn summary(&self) -> Value {
        let mut summary = json!({
            "apiVersion": self.object.types.as_ref().map(|types| &types.api_version),
            "kind": kind(&self.object),
            "name": self.object.name_any(),
            "uid": self.object.uid(),
            "isWell": self.state.mood == Mood::Well,
            "state": self.state.text,
        });
        if let Some(namespace) = self.object.namespace() {
            summary["namespace"] = namespace.into();
        }
        if !self.children.is_empty() {
            summary["children"] = self.children.iter().map(Self::summary).collect();
        }
        summary
    }
}
