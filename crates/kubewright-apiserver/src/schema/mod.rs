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

pub(crate) mod correlate;
mod default;
pub(crate) mod embedded;
mod field_path;
pub(crate) mod formats;
mod lists;
pub(crate) mod numbers;
mod object_meta;
mod parse;
mod pattern;
pub(crate) mod props;
pub(crate) mod prune;
mod rules;
mod validate;

pub(crate) use default::default;
pub(crate) use embedded::validate_embedded;
pub(crate) use field_path::field_path;
pub(crate) use lists::validate_lists;
pub(crate) use numbers::normalise_numbers;
pub(crate) use pattern::Pattern;
pub(crate) use prune::coerce;
pub(crate) use rules::{Evaluation, OldSelf, Programs, blocking, check_rules, skipped_rules};
pub(crate) use validate::{validate, validate_update};

pub(crate) use formats::recognised as recognised_format;

/// A schema that may be shared, and that may contain itself (as `JSONSchemaProps` does).
#[derive(Clone, Default)]
pub(crate) struct SchemaRef(Arc<OnceLock<Schema>>);

impl SchemaRef {
    /// A reference to a schema that is complete.
    pub(crate) fn new(schema: Schema) -> Self {
        Self(Arc::new(OnceLock::from(schema)))
    }

    /// Completes a reference that was made by `default()` so that a schema can mention it before it is
    /// known. The first completion counts.
    pub(crate) fn complete(&self, schema: Schema) {
        let _ = self.0.set(schema);
    }

    /// Whether both are the very same node, which makes recursion visible.
    pub(crate) fn same(&self, other: &Self) -> bool {
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
pub(crate) enum Type {
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
pub(crate) enum ListType {
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
pub(crate) struct Merge {
    /// The list is merged rather than replaced.
    pub merge: bool,
    /// Key by which items of a merged list are matched; none for lists of scalars.
    pub key: Option<String>,
    /// `retainKeys`: keys the patch does not mention are dropped.
    pub retain_keys: bool,
}

/// A declared field of an object.
#[derive(Debug, Clone, Default)]
pub(crate) struct Field {
    /// What its value looks like.
    pub schema: SchemaRef,
    /// Built-in kinds: the field is left out of the JSON when its value is empty. For a pointer that is
    /// only `null`; otherwise also `""`, `0`, `false`, `[]` and `{}`.
    pub omit_empty: bool,
    /// Built-in kinds: the Go field is a pointer, so that a zero is told from nothing.
    pub pointer: bool,
    /// How a strategic merge patch treats it.
    pub merge: Merge,
    /// Built-in kinds: its number in the protobuf form, within those of structs that JSON inlines.
    pub(crate) numbers: Vec<u32>,
}

/// One node: what a value at this place may look like.
#[derive(Debug, Clone, Default)]
pub(crate) struct Schema {
    /// Name of a built-in type as OpenAPI documents spell it, such as `io.k8s.api.core.v1.PodSpec`.
    pub name: Option<&'static str>,
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
    /// What else a value must fulfil.
    pub checks: Option<Box<Checks>>,
    /// Expressions a value must fulfil (`x-kubernetes-validations`).
    pub rules: Option<Box<RuleSet>>,
    /// What the nodes from here on down contain, so that a walk can leave out whole branches.
    pub below: Below,
}

/// The value validations of a custom resource's schema.
#[derive(Debug, Clone, Default)]
pub(crate) struct Checks {
    /// Smallest number.
    pub minimum: Option<Bound>,
    /// Largest number.
    pub maximum: Option<Bound>,
    /// The number is a multiple of this.
    pub multiple_of: Option<f64>,
    /// Least characters of a string.
    pub min_length: Option<i64>,
    /// Most characters of a string.
    pub max_length: Option<i64>,
    /// What a string looks like.
    pub pattern: Option<Pattern>,
    /// Whether a string has the format the schema names.
    pub format: Option<fn(&str) -> bool>,
    /// Least items of a list.
    pub min_items: Option<i64>,
    /// Most items of a list.
    pub max_items: Option<i64>,
    /// No two items of a list are equal.
    pub unique_items: bool,
    /// Least fields of an object.
    pub min_properties: Option<i64>,
    /// Most fields of an object.
    pub max_properties: Option<i64>,
    /// Only declared fields are allowed (`additionalProperties: false`).
    pub closed: bool,
    /// The value fulfils each of these.
    pub all_of: Vec<Schema>,
    /// The value fulfils one of these, or several.
    pub any_of: Vec<Schema>,
    /// The value fulfils exactly one of these.
    pub one_of: Vec<Schema>,
    /// The value does not fulfil this.
    pub not: Option<Schema>,
}

/// A limit of a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bound {
    /// The limit.
    pub limit: f64,
    /// The limit itself is out.
    pub exclusive: bool,
}

/// The rules of one node, and the programs they were compiled to.
#[derive(Debug, Clone, Default)]
pub(crate) struct RuleSet {
    /// The rules as they were written.
    pub rules: Vec<Rule>,
    /// Where each rule's error is reported, relative to the node; empty for the node itself.
    pub error_paths: Vec<String>,
    /// The compiled rules. Put in once by whoever knows the expression language.
    pub programs: OnceLock<Arc<dyn Programs>>,
}

/// One rule of `x-kubernetes-validations`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rule {
    /// The expression that must be true.
    pub rule: String,
    /// What to say if it is not.
    pub message: String,
    /// An expression that says it better.
    pub message_expression: String,
    /// The machine-readable reason of the error.
    pub reason: Option<String>,
    /// The field the error is reported on.
    pub field_path: String,
    /// The rule is evaluated even without an old value, `oldSelf` being an optional.
    pub optional_old_self: Option<bool>,
}

/// What a branch of a schema contains.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Below {
    /// A default value.
    pub defaults: bool,
    /// An embedded resource.
    pub embedded: bool,
    /// A list whose items are told apart.
    pub keyed_lists: bool,
    /// A rule.
    pub rules: bool,
}

impl std::ops::BitOrAssign for Below {
    fn bitor_assign(&mut self, other: Self) {
        self.defaults |= other.defaults;
        self.embedded |= other.embedded;
        self.keyed_lists |= other.keyed_lists;
        self.rules |= other.rules;
    }
}

impl Schema {
    /// The schema that allows everything and tells nothing apart.
    pub(crate) const fn any() -> Self {
        Self {
            name: None,
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
            checks: None,
            rules: None,
            below: Below { defaults: false, embedded: false, keyed_lists: false, rules: false },
        }
    }

    /// A schema of a scalar type.
    pub(crate) fn scalar(ty: Type) -> Self {
        Self { ty, ..Self::default() }
    }

    /// The schema of a field of this object, or of a value of this map.
    pub(crate) fn field(&self, name: &str) -> Option<&SchemaRef> {
        self.properties.get(name).map(|field| &field.schema).or(self.values.as_ref())
    }

    /// The type as OpenAPI names it; empty where the schema leaves it open.
    pub(crate) fn type_name(&self) -> &'static str {
        match self.ty {
            Type::Any | Type::IntOrString => "",
            Type::Object => "object",
            Type::Array => "array",
            Type::String => "string",
            Type::Integer => "integer",
            Type::Number => "number",
            Type::Boolean => "boolean",
        }
    }
}

#[cfg(test)]
mod tests;
