//! A set of paths: who owns what. A trie whose nodes are ordered, so that set operations are one walk over
//! two lists. No node is kept that neither is a member nor leads to one.

use std::{cmp::Ordering, fmt};

use super::{node::Node, path::PathElement};

/// A set of field paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldSet {
    nodes: Vec<Branch>,
}

/// What a set holds at and below one step.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Branch {
    element: PathElement,
    /// The path that ends here is in the set.
    member: bool,
    below: FieldSet,
}

impl Branch {
    fn is_needed(&self) -> bool {
        self.member || !self.below.is_empty()
    }
}

impl FieldSet {
    /// The set of these paths, each given by its field names.
    pub(crate) fn of(paths: &[&[&str]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            set.insert(path.iter().map(|name| PathElement::field(name)));
        }
        set
    }

    /// Whether nothing is in the set.
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Adds one path. The path without steps, the whole object, is nobody's.
    pub(crate) fn insert(&mut self, path: impl IntoIterator<Item = PathElement>) {
        self.graft(path, Self::default());
    }

    /// Adds a path and everything of `below` behind it.
    pub(super) fn graft(&mut self, path: impl IntoIterator<Item = PathElement>, below: Self) {
        let mut steps = path.into_iter().peekable();
        let mut set = self;
        while let Some(element) = steps.next() {
            let place = match set.find(&element) {
                Ok(place) => place,
                Err(place) => {
                    set.nodes.insert(place, Branch { element, member: false, below: Self::default() });
                    place
                }
            };
            let branch = &mut set.nodes[place];
            if steps.peek().is_none() {
                branch.member = true;
                branch.below.union(below);
                return;
            }
            set = &mut branch.below;
        }
    }

    /// Adds what is known about one step. Cheap when steps arrive in order.
    pub(super) fn push(&mut self, element: PathElement, member: bool, below: Self) {
        let branch = Branch { element, member, below };
        if !branch.is_needed() {
            return;
        }
        if self.nodes.last().is_none_or(|last| last.element < branch.element) {
            self.nodes.push(branch);
        } else {
            self.union(Self { nodes: vec![branch] });
        }
    }

    /// Where the step is (or would be). Sets are often built in order, so the end is tried first.
    fn find(&self, element: &PathElement) -> Result<usize, usize> {
        match self.nodes.last().map(|last| last.element.cmp(element)) {
            None => Err(0),
            Some(Ordering::Less) => Err(self.nodes.len()),
            Some(Ordering::Equal) => Ok(self.nodes.len() - 1),
            Some(Ordering::Greater) => self.nodes.binary_search_by(|branch| branch.element.cmp(element)),
        }
    }

    fn branch(&self, element: &PathElement) -> Option<&Branch> {
        self.find(element).ok().map(|place| &self.nodes[place])
    }

    /// Whether the path of this one step is in the set, and what is behind it.
    pub(super) fn at(&self, element: &PathElement) -> Option<(bool, &Self)> {
        self.branch(element).map(|branch| (branch.member, &branch.below))
    }

    /// Whether the path is in the set.
    pub(crate) fn has(&self, path: &[PathElement]) -> bool {
        match path {
            [] => false,
            [last] => self.branch(last).is_some_and(|branch| branch.member),
            [first, rest @ ..] => self.branch(first).is_some_and(|branch| branch.below.has(rest)),
        }
    }

    /// Adds everything of the other set.
    pub(crate) fn union(&mut self, other: Self) {
        if self.is_empty() {
            *self = other;
            return;
        }
        if other.is_empty() {
            return;
        }
        let mine = std::mem::take(&mut self.nodes);
        self.nodes.reserve(mine.len() + other.nodes.len());
        let mut mine = mine.into_iter().peekable();
        let mut others = other.nodes.into_iter().peekable();
        loop {
            let order = match (mine.peek(), others.peek()) {
                (Some(a), Some(b)) => a.element.cmp(&b.element),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return,
            };
            let next = match order {
                Ordering::Less => mine.next(),
                Ordering::Greater => others.next(),
                Ordering::Equal => mine.next().map(|mut branch| {
                    if let Some(twin) = others.next() {
                        branch.member |= twin.member;
                        branch.below.union(twin.below);
                    }
                    branch
                }),
            };
            self.nodes.extend(next);
        }
    }

    /// What is in both sets.
    #[must_use]
    pub(crate) fn intersection(&self, other: &Self) -> Self {
        let mut out = Self::default();
        for (branch, twin) in self.nodes.iter().filter_map(|b| other.branch(&b.element).map(|t| (b, t))) {
            let below = branch.below.intersection(&twin.below);
            let member = branch.member && twin.member;
            if member || !below.is_empty() {
                out.nodes.push(Branch { element: branch.element.clone(), member, below });
            }
        }
        out
    }

    /// Takes the other set's paths out; what lies behind them stays. Tells whether anything changed.
    pub(crate) fn remove(&mut self, other: &Self) -> bool {
        if self.is_empty() || other.is_empty() {
            return false;
        }
        let mut changed = false;
        self.nodes.retain_mut(|branch| {
            let Some(twin) = other.branch(&branch.element) else { return true };
            changed |= branch.member && twin.member;
            branch.member &= !twin.member;
            changed |= branch.below.remove(&twin.below);
            branch.is_needed()
        });
        changed
    }

    /// Takes the other set's paths out, with everything behind them.
    pub(crate) fn remove_recursively(&mut self, other: &Self) {
        self.nodes.retain_mut(|branch| {
            let Some(twin) = other.branch(&branch.element) else { return true };
            if twin.member {
                return false;
            }
            branch.below.remove_recursively(&twin.below);
            branch.is_needed()
        });
    }

    /// Whether the other set has nothing that this one lacks.
    pub(crate) fn contains(&self, other: &Self) -> bool {
        other.nodes.iter().all(|theirs| {
            self.branch(&theirs.element)
                .is_some_and(|mine| (mine.member || !theirs.member) && mine.below.contains(&theirs.below))
        })
    }

    /// Calls `visit` with every path: first those that end at a step, then those behind each step.
    pub(super) fn for_each(&self, visit: &mut impl FnMut(&[&PathElement])) {
        fn walk<'s>(
            set: &'s FieldSet,
            path: &mut Vec<&'s PathElement>,
            visit: &mut impl FnMut(&[&PathElement]),
        ) {
            for branch in set.nodes.iter().filter(|branch| branch.member) {
                path.push(&branch.element);
                visit(path);
                path.pop();
            }
            for branch in &set.nodes {
                path.push(&branch.element);
                walk(&branch.below, path, visit);
                path.pop();
            }
        }
        walk(self, &mut Vec::new(), visit);
    }

    /// Keeps what lies on or behind one of the patterns.
    pub(super) fn keep_only(&mut self, patterns: &[&[Match]]) {
        if patterns.iter().any(|pattern| pattern.is_empty()) {
            return;
        }
        self.nodes.retain_mut(|branch| {
            let behind: Vec<&[Match]> = patterns
                .iter()
                .filter_map(|pattern| pattern.split_first())
                .filter(|(first, _)| first.matches(&branch.element))
                .map(|(_, rest)| rest)
                .collect();
            if behind.is_empty() {
                return false;
            }
            branch.below.keep_only(&behind);
            branch.is_needed()
        });
    }

    /// The same set with every declared field on the way to a member as a member too.
    #[must_use]
    pub(super) fn with_named_fields(&self, node: Node<'_>) -> Self {
        let nodes = self.nodes.iter().map(|branch| {
            let (child, declared) = match &branch.element {
                PathElement::Field(name) => node.field(name).unwrap_or((Node::Deduced, false)),
                PathElement::Key(_) => (node.item(), false),
                PathElement::Value(_) | PathElement::Index(_) => (Node::Untyped, false),
            };
            Branch {
                element: branch.element.clone(),
                member: branch.member || (declared && !branch.below.is_empty()),
                below: branch.below.with_named_fields(child),
            }
        });
        Self { nodes: nodes.collect() }
    }

    /// Brings a set in line with a schema that has meanwhile made lists or maps atomic: their owner owns
    /// the whole. Tells whether anything changed.
    pub(super) fn follow_schema(&mut self, node: Node<'_>) -> bool {
        let mut changed = false;
        for branch in &mut self.nodes {
            let child = if node.is_map() {
                match &branch.element {
                    PathElement::Field(name) => node.field(name).map(|(child, _)| child),
                    _ => None,
                }
            } else if node.is_list() {
                Some(node.item())
            } else {
                None
            };
            let Some(child) = child else { continue };
            if child.is_atomic() && !branch.below.is_empty() {
                branch.below = Self::default();
                branch.member = true;
                changed = true;
            } else {
                changed |= branch.below.follow_schema(child);
            }
        }
        changed
    }

    /// The first steps, each with whether its path is in the set, and what is behind it.
    pub(super) fn steps(&self) -> impl Iterator<Item = (&PathElement, bool, &Self)> {
        self.nodes.iter().map(|branch| (&branch.element, branch.member, &branch.below))
    }
}

impl fmt::Display for FieldSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = Vec::new();
        self.for_each(&mut |path| lines.push(path.iter().map(ToString::to_string).collect::<String>()));
        f.write_str(&lines.join("\n"))
    }
}

/// One step of a pattern of paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Match {
    /// This field.
    Field(&'static str),
    /// Any step.
    Any,
}

impl Match {
    fn matches(self, element: &PathElement) -> bool {
        match (self, element) {
            (Self::Any, _) => true,
            (Self::Field(name), PathElement::Field(found)) => name == &**found,
            (Self::Field(_), _) => false,
        }
    }
}
