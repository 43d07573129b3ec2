//! A place in a schema as ownership sees it: is the value there a leaf, a map whose values are owned one by
//! one, or a list whose items are told apart? What the schema leaves untyped is deduced from the value: maps
//! are granular, lists are one value. Also checks that a value can be walked along its schema, with the
//! wording of kube-apiserver.

use std::{collections::BTreeSet, fmt::Write as _};

use serde_json::Value;

use super::path::{PathElement, quoted};
use crate::schema::{ListType, Schema, Type};

/// A place in a schema.
#[derive(Debug, Clone, Copy)]
pub(super) enum Node<'s> {
    /// A declared place. `open` says that a place above keeps undeclared fields, which then holds here too.
    Typed { schema: &'s Schema, open: bool },
    /// Untyped: maps are granular, lists are one value.
    Deduced,
    /// Untyped, and every container is one value.
    Untyped,
}

/// The three shapes ownership knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Map,
    List,
    Scalar,
}

/// How the items of a list are told apart.
#[derive(Debug, Clone, Copy)]
pub(super) enum Items<'s> {
    Atomic,
    Set,
    Keyed(&'s [String]),
}

impl<'s> Node<'s> {
    pub(super) fn root(schema: &'s Schema) -> Self {
        Self::Typed { schema, open: false }
    }

    /// The form a value has here, and whether that is settled: `null` in an untyped place could be any.
    pub(super) fn form(self, value: &Value) -> (Form, bool) {
        let ty = match self {
            Self::Typed { schema, .. } => schema.ty,
            Self::Deduced | Self::Untyped => Type::Any,
        };
        match ty {
            Type::Object => (Form::Map, true),
            Type::Array => (Form::List, true),
            Type::Any => match value {
                Value::Null => (Form::Map, false),
                Value::Object(_) => (Form::Map, true),
                Value::Array(_) => (Form::List, true),
                _ => (Form::Scalar, true),
            },
            _ => (Form::Scalar, true),
        }
    }

    /// Whether ownership takes this place for a map when it sees no value.
    pub(super) fn is_map(self) -> bool {
        match self {
            Self::Typed { schema, .. } => matches!(schema.ty, Type::Object | Type::Any),
            Self::Deduced | Self::Untyped => true,
        }
    }

    /// Whether ownership takes this place for a list when it sees no value.
    pub(super) fn is_list(self) -> bool {
        matches!(self, Self::Typed { schema, .. } if schema.ty == Type::Array)
    }

    /// Whether the map or list here is one value, seen without a value.
    pub(super) fn is_atomic(self) -> bool {
        if self.is_list() {
            matches!(self.items(), Items::Atomic)
        } else {
            self.is_map() && self.is_atomic_map()
        }
    }

    /// Whether a map here is one value.
    pub(super) fn is_atomic_map(self) -> bool {
        match self {
            Self::Typed { schema, .. } => schema.atomic,
            Self::Deduced => false,
            Self::Untyped => true,
        }
    }

    /// The place of a field, and whether it is declared. `None` where the schema allows no such field.
    pub(super) fn field(self, name: &str) -> Option<(Self, bool)> {
        let Self::Typed { schema, open } = self else { return Some((self, false)) };
        let open = open || schema.preserve_unknown;
        if let Some(field) = schema.properties.get(name) {
            return Some((Self::Typed { schema: &field.schema, open }, true));
        }
        match &schema.values {
            Some(values) => Some((Self::Typed { schema: values, open }, false)),
            None if open || schema.properties.is_empty() => Some((Self::Deduced, false)),
            None => None,
        }
    }

    /// The place of a field of a value that fits the schema.
    pub(super) fn child(self, name: &str) -> Self {
        self.field(name).map_or(Self::Deduced, |(child, _)| child)
    }

    /// The place of a list's item.
    pub(super) fn item(self) -> Self {
        match self {
            Self::Typed { schema, open } => match &schema.items {
                Some(items) => Self::Typed { schema: items, open: open || schema.preserve_unknown },
                None => Self::Untyped,
            },
            Self::Deduced | Self::Untyped => Self::Untyped,
        }
    }

    pub(super) fn items(self) -> Items<'s> {
        match self {
            Self::Typed { schema, .. } => match &schema.list {
                ListType::Atomic => Items::Atomic,
                ListType::Set => Items::Set,
                ListType::Map(keys) => Items::Keyed(keys),
            },
            Self::Deduced | Self::Untyped => Items::Atomic,
        }
    }

    /// Whether an item of this list can be told from the others.
    fn check_item(self, item: &Value) -> Result<(), String> {
        let problem = match (self.items(), item) {
            (Items::Atomic, _) => "invalid indexing of non-associative list",
            (Items::Set, Value::Object(_)) => {
                "associative list without keys has an element that's a map type"
            }
            (Items::Set, Value::Array(_)) => "not supported: associative list with lists as elements",
            (Items::Set, Value::Null) => {
                "associative list without keys has an element that's an explicit null"
            }
            (Items::Set, _) => return Ok(()),
            (Items::Keyed(names), Value::Object(fields)) => {
                let has = |name: &String| fields.contains_key(name) || self.default_of_key(name).is_some();
                if names.is_empty() || names.iter().any(has) {
                    return Ok(());
                }
                let names: Vec<String> = names.iter().map(|name| quoted(name)).collect();
                return Err(format!(
                    "associative list with keys has an element that omits all key fields [{}] (and doesn't \
                     have default values for any key fields)",
                    names.join(" ")
                ));
            }
            (Items::Keyed(_), Value::Null) => "associative list with keys may not have a null element",
            (Items::Keyed(_), _) => "associative list with keys may not have non-map elements",
        };
        Err(problem.to_owned())
    }

    /// The step to an item of this list; `None` if it can't be told from the others.
    pub(super) fn step_to(self, item: &Value) -> Option<PathElement> {
        self.check_item(item).ok()?;
        let Items::Keyed(names) = self.items() else {
            return Some(PathElement::Value(Box::new(item.clone())));
        };
        let mut keys: Vec<(Box<str>, Value)> = names
            .iter()
            .filter_map(|name| {
                let value = item.get(name).or_else(|| self.default_of_key(name))?;
                Some((name.as_str().into(), value.clone()))
            })
            .collect();
        keys.sort_by(|a, b| a.0.cmp(&b.0));
        Some(PathElement::Key(keys.into()))
    }

    fn default_of_key(self, name: &str) -> Option<&'s Value> {
        let Self::Typed { schema, .. } = self.item() else { return None };
        let key: &Schema = &schema.properties.get(name)?.schema;
        key.default.as_ref().filter(|default| !default.is_null())
    }

    /// Checks that a value can be walked along the schema.
    pub(super) fn validate(self, value: &Value, duplicates: Duplicates) -> Result<(), Misfit> {
        let mut misfit = Misfit::default();
        self.check(value, duplicates, &mut Vec::new(), &mut misfit);
        if misfit.problems.is_empty() { Ok(()) } else { Err(misfit) }
    }

    fn check<'v>(
        self,
        value: &'v Value,
        duplicates: Duplicates,
        path: &mut Vec<Step<'s, 'v>>,
        misfit: &mut Misfit,
    ) {
        let Self::Typed { schema, .. } = self else { return };
        if value.is_null() {
            return;
        }
        match (self.form(value).0, value) {
            (Form::Map, Value::Object(fields)) => {
                for (name, value) in fields {
                    path.push(Step::Field(name));
                    match self.field(name) {
                        Some((child, _)) => child.check(value, duplicates, path, misfit),
                        None => misfit.add(path, "field not declared in schema"),
                    }
                    path.pop();
                }
            }
            (Form::Map, other) => misfit.add(path, format!("expected map, got &{{{}}}", plain(other))),
            (Form::List, Value::Array(items)) => {
                let is_atomic = matches!(self.items(), Items::Atomic);
                let mut seen = BTreeSet::new();
                for (place, item) in items.iter().enumerate() {
                    if !is_atomic && let Err(why) = self.check_item(item) {
                        return misfit.add(path, format!("element {place}: {why}"));
                    }
                    let step = if is_atomic { Step::Index(place) } else { Step::ItemOf(self, item) };
                    if !is_atomic && duplicates == Duplicates::Refused {
                        let key = step.to_element();
                        if seen.contains(&key) {
                            misfit.add(path, format!("duplicate entries for key {key}"));
                        }
                        seen.insert(key);
                    }
                    path.push(step);
                    self.item().check(item, duplicates, path, misfit);
                    path.pop();
                }
            }
            (Form::List, other) => misfit.add(path, format!("expected list, got &{{{}}}", plain(other))),
            (Form::Scalar, value) => {
                if let Some(problem) = scalar_problem(schema, value) {
                    misfit.add(path, problem);
                }
            }
        }
    }
}

fn scalar_problem(schema: &Schema, value: &Value) -> Option<String> {
    match schema.ty {
        Type::Integer | Type::Number => {
            (!value.is_number()).then(|| format!("expected numeric (int or float), got {}", go_type(value)))
        }
        Type::String if matches!(schema.format.as_deref(), None | Some("" | "byte")) => (!value.is_string())
            .then(|| format!("expected string, got &value.valueUnstructured{{Value:{}}}", as_source(value))),
        Type::Boolean => {
            (!value.is_boolean()).then(|| format!("expected boolean, got &{{{}}}", plain(value)))
        }
        _ => (value.is_object() || value.is_array())
            .then(|| format!("expected any scalar, got &{{{}}}", plain(value))),
    }
}

/// Whether a list may hold two items of the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Duplicates {
    Allowed,
    Refused,
}

/// A step of a path that is being walked; turned into an owned one only when it is needed.
#[derive(Debug, Clone)]
pub(super) enum Step<'s, 'v> {
    Field(&'v str),
    Item(PathElement),
    ItemOf(Node<'s>, &'v Value),
    Index(usize),
}

impl Step<'_, '_> {
    pub(super) fn to_element(&self) -> PathElement {
        let index = |place: usize| PathElement::Index(i64::try_from(place).unwrap_or(i64::MAX));
        match self {
            Self::Field(name) => PathElement::field(name),
            Self::Item(element) => element.clone(),
            Self::ItemOf(list, item) => list.step_to(item).unwrap_or_else(|| index(0)),
            Self::Index(place) => index(*place),
        }
    }
}

/// Why a value does not fit its schema.
#[derive(Debug, Clone, Default)]
pub(super) struct Misfit {
    problems: Vec<String>,
}

impl Misfit {
    fn add(&mut self, path: &[Step<'_, '_>], what: impl Into<String>) {
        let mut text = String::new();
        for step in path {
            let _ = write!(text, "{}", step.to_element());
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&what.into());
        self.problems.push(text);
    }
}

impl std::fmt::Display for Misfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.problems.as_slice() {
            [one] => f.write_str(one),
            many => write!(f, "errors:\n  {}", many.join("\n  ")),
        }
    }
}

/// The Go type a decoded value has.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// The value as Go prints it with `%v`.
fn plain(value: &Value) -> String {
    let list = |parts: Vec<String>| parts.join(" ");
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", list(items.iter().map(plain).collect())),
        Value::Object(fields) => format!(
            "map[{}]",
            list(fields.iter().map(|(name, value)| format!("{name}:{}", plain(value))).collect())
        ),
        scalar => scalar.to_string(),
    }
}

/// The value as Go prints it with `%#v`.
fn as_source(value: &Value) -> String {
    let list = |parts: Vec<String>| parts.join(", ");
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::String(text) => quoted(text),
        Value::Array(items) => {
            format!("{}{{{}}}", go_type(value), list(items.iter().map(as_source).collect()))
        }
        Value::Object(fields) => format!(
            "{}{{{}}}",
            go_type(value),
            list(
                fields.iter().map(|(name, value)| format!("{}:{}", quoted(name), as_source(value))).collect()
            )
        ),
        scalar => scalar.to_string(),
    }
}
