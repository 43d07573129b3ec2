//! What a value may look like: one tree of [`Schema`] nodes for built-in kinds and custom resources.
//!
//! Built-in schemas come from the type table ([`crate::registry`]), custom ones from a CRD. Everything
//! that walks an object walks it along such a tree: pruning, defaulting, validation, server-side apply,
//! strategic merge. A node never looks at the store or at other objects.

use std::{
    collections::BTreeMap,
    ops::Deref,
    sync::{Arc, OnceLock},
};

use serde_json::Value;

/// A schema that may be shared, and that may contain itself (as `JSONSchemaProps` does).
#[derive(Clone, Default)]
pub struct SchemaRef(Arc<OnceLock<Schema>>);

impl SchemaRef {
    /// A reference to a schema that is complete.
    pub fn new(schema: Schema) -> Self {
        Self(Arc::new(OnceLock::from(schema)))
    }

    /// Completes a reference that was made by `default()` so that a schema can mention it before it is
    /// known. The first completion counts.
    pub fn complete(&self, schema: Schema) {
        let _ = self.0.set(schema);
    }

    /// Whether both are the very same node, which makes recursion visible.
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Deref for SchemaRef {
    type Target = Schema;

    fn deref(&self) -> &Schema {
        static ANY: Schema = Schema::any();
        self.0.get().unwrap_or(&ANY)
    }
}

impl std::fmt::Debug for SchemaRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SchemaRef") // may be cyclic
    }
}

/// The JSON type of a value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Type {
    /// Anything; also what a CRD leaves untyped.
    #[default]
    Any,
    /// An object: with declared [`Schema::properties`], or a map with [`Schema::values`].
    Object,
    /// A list of [`Schema::items`].
    Array,
    /// A string.
    String,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// True or false.
    Boolean,
    /// A whole number or a string (`x-kubernetes-int-or-string`).
    IntOrString,
}

/// How the items of a list are told apart (`x-kubernetes-list-type`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ListType {
    /// The list is one value.
    #[default]
    Atomic,
    /// Items are scalars and appear once.
    Set,
    /// Items are objects, told apart by these keys.
    Map(Vec<String>),
}

/// How a strategic merge patch treats a field (the `patchStrategy` and `patchMergeKey` of the Go types).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Merge {
    /// The list is merged rather than replaced.
    pub merge: bool,
    /// Key by which items of a merged list are matched; none for lists of scalars.
    pub key: Option<String>,
    /// `retainKeys`: keys the patch does not mention are dropped.
    pub retain_keys: bool,
}

/// A declared field of an object.
#[derive(Debug, Clone, Default)]
pub struct Field {
    /// What its value looks like.
    pub schema: SchemaRef,
    /// Built-in kinds: the field is left out of the JSON when its value is empty. For a pointer that is
    /// only `null`; otherwise also `""`, `0`, `false`, `[]` and `{}`.
    pub omit_empty: bool,
    /// Built-in kinds: the Go field is a pointer, so that a zero is told from nothing.
    pub pointer: bool,
    /// How a strategic merge patch treats it.
    pub merge: Merge,
}

/// One node: what a value at this place may look like.
#[derive(Debug, Clone, Default)]
pub struct Schema {
    /// The JSON type.
    pub ty: Type,
    /// `null` is a value of its own here.
    pub nullable: bool,
    /// Fields that are not declared are kept (`x-kubernetes-preserve-unknown-fields`).
    pub preserve_unknown: bool,
    /// The value is a whole object with apiVersion, kind and metadata (`x-kubernetes-embedded-resource`).
    pub embedded: bool,
    /// Declared fields of an object.
    pub properties: BTreeMap<String, Field>,
    /// Values of a map (`additionalProperties`).
    pub values: Option<SchemaRef>,
    /// Items of a list.
    pub items: Option<SchemaRef>,
    /// How items of a list are told apart.
    pub list: ListType,
    /// The object or map is one value (`x-kubernetes-map-type: atomic`).
    pub atomic: bool,
    /// Value of an absent field.
    pub default: Option<Value>,
    /// Fields that must be there.
    pub required: Vec<String>,
    /// Format of a string or number, such as `int32`, `byte` or `date-time`.
    pub format: Option<String>,
    /// The values there are; empty for any.
    pub one_of_values: Vec<Value>,
}

impl Schema {
    /// The schema that allows everything and tells nothing apart.
    pub const fn any() -> Self {
        Self {
            ty: Type::Any,
            nullable: true,
            preserve_unknown: true,
            embedded: false,
            properties: BTreeMap::new(),
            values: None,
            items: None,
            list: ListType::Atomic,
            atomic: false,
            default: None,
            required: Vec::new(),
            format: None,
            one_of_values: Vec::new(),
        }
    }

    /// A schema of a scalar type.
    pub fn scalar(ty: Type) -> Self {
        Self { ty, ..Self::default() }
    }
}
