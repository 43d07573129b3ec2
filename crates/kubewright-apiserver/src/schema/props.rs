//! A `JSONSchemaProps` as it stands in a CustomResourceDefinition, read without copying.
//!
//! Whatever is absent, or has the wrong JSON type, reads as its zero value: that is what the Go type
//! does with absent fields, and decoding has already refused the rest.

use serde_json::{Map, Value};

/// One schema node of a CustomResourceDefinition.
#[derive(Clone, Copy)]
pub(crate) struct Props<'a>(&'a Map<String, Value>);

/// `additionalProperties` and `additionalItems`.
#[derive(Clone, Copy)]
pub(crate) enum Additional<'a> {
    Allowed(bool),
    Schema(Props<'a>),
}

/// `items`: one schema, or the list of schemas that CRDs may not use.
#[derive(Clone, Copy)]
pub(crate) enum Items<'a> {
    One(Props<'a>),
    Many(&'a [Value]),
}

impl<'a> Props<'a> {
    pub(crate) fn of(value: &'a Value) -> Option<Self> {
        value.as_object().map(Self)
    }

    pub(crate) fn fields(self) -> &'a Map<String, Value> {
        self.0
    }

    /// The value of a field; `null` counts as absent.
    pub(crate) fn get(self, key: &str) -> Option<&'a Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    pub(crate) fn text(self, key: &str) -> &'a str {
        self.get(key).and_then(Value::as_str).unwrap_or_default()
    }

    pub(crate) fn flag(self, key: &str) -> bool {
        self.get(key).and_then(Value::as_bool).unwrap_or_default()
    }

    pub(crate) fn number(self, key: &str) -> Option<f64> {
        self.get(key).and_then(Value::as_f64)
    }

    pub(crate) fn integer(self, key: &str) -> Option<i64> {
        self.get(key).and_then(Value::as_i64)
    }

    pub(crate) fn array(self, key: &str) -> &'a [Value] {
        self.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }

    pub(crate) fn strings(self, key: &str) -> impl Iterator<Item = &'a str> {
        self.array(key).iter().filter_map(Value::as_str)
    }

    /// The schema a field holds.
    pub(crate) fn schema(self, key: &str) -> Option<Self> {
        self.get(key).and_then(Self::of)
    }

    /// The schemas a field lists.
    pub(crate) fn schemas(self, key: &str) -> impl Iterator<Item = Self> {
        self.array(key).iter().filter_map(Self::of)
    }

    /// The named schemas of a field such as `properties`.
    pub(crate) fn named(self, key: &str) -> impl Iterator<Item = (&'a str, Self)> {
        let map = self.get(key).and_then(Value::as_object);
        map.into_iter().flatten().filter_map(|(name, value)| Some((name.as_str(), Self::of(value)?)))
    }

    pub(crate) fn property(self, name: &str) -> Option<Self> {
        self.get("properties")?.get(name).and_then(Self::of)
    }

    /// Whether a field holds a map, list or string with something in it.
    pub(crate) fn filled(self, key: &str) -> bool {
        match self.get(key) {
            Some(Value::Object(map)) => !map.is_empty(),
            Some(Value::Array(list)) => !list.is_empty(),
            Some(Value::String(text)) => !text.is_empty(),
            _ => false,
        }
    }

    pub(crate) fn additional(self, key: &str) -> Option<Additional<'a>> {
        match self.get(key)? {
            Value::Bool(allowed) => Some(Additional::Allowed(*allowed)),
            other => Self::of(other).map(Additional::Schema),
        }
    }

    pub(crate) fn items(self) -> Option<Items<'a>> {
        match self.get("items")? {
            Value::Array(list) => Some(Items::Many(list)),
            other => Self::of(other).map(Items::One),
        }
    }

    /// The single schema of `items`.
    pub(crate) fn item(self) -> Option<Self> {
        match self.items()? {
            Items::One(item) => Some(item),
            Items::Many(_) => None,
        }
    }

    /// Shows this node and all below it to `visit`.
    pub(crate) fn each(self, visit: &mut dyn FnMut(Self)) {
        visit(self);
        self.children().into_iter().for_each(|child| child.each(visit));
    }

    fn children(self) -> Vec<Self> {
        let mut children: Vec<Self> = Vec::new();
        match self.items() {
            Some(Items::One(item)) => children.push(item),
            Some(Items::Many(list)) => children.extend(list.iter().filter_map(Self::of)),
            None => {}
        }
        for key in ["allOf", "anyOf", "oneOf"] {
            children.extend(self.schemas(key));
        }
        children.extend(self.schema("not"));
        children.extend(self.named("properties").map(|(_, child)| child));
        for key in ["additionalProperties", "additionalItems"] {
            if let Some(Additional::Schema(child)) = self.additional(key) {
                children.push(child);
            }
        }
        for key in ["patternProperties", "definitions", "dependencies"] {
            children.extend(self.named(key).map(|(_, child)| child));
        }
        children
    }
}
