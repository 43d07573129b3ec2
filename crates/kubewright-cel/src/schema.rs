//! What a caller declares about data: the shape of JSON values, how they read as CEL values, and how
//! large they can get.
//!
//! A [`DeclType`] is built once from a schema. The checker takes types from it, the cost estimate takes
//! sizes, and evaluation reads JSON along it. It never holds data.

use std::{collections::BTreeMap, sync::Arc};

use crate::{parser::RESERVED, types::Type};

/// The largest request the API server accepts; what is not bounded otherwise is bounded by it.
const MAX_REQUEST_BYTES: u64 = 3 * 1024 * 1024;

/// The shape of a JSON value.
#[derive(Debug, Clone)]
pub struct DeclType {
    pub(crate) shape: Shape,
    pub(crate) nullable: bool,
    pub(crate) max_elements: u64,
    pub(crate) min_serialized_size: u64,
}

#[derive(Debug, Clone)]
pub(crate) enum Shape {
    /// Whatever the JSON says.
    Dyn,
    IntOrString,
    Bool,
    Int,
    Double,
    String,
    Bytes,
    Duration,
    Date,
    DateTime,
    List {
        items: Arc<DeclType>,
        identity: ListIdentity,
    },
    Map {
        values: Arc<DeclType>,
    },
    Object(Arc<ObjectShape>),
}

/// How the items of a list are told apart (`x-kubernetes-list-type`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ListIdentity {
    /// By position.
    #[default]
    Atomic,
    /// By value; equality ignores order and `+` keeps items unique.
    Set,
    /// By these keys; equality ignores order and `+` replaces items of the same keys.
    Map(Vec<String>),
}

/// The declared fields of an object.
#[derive(Debug)]
pub struct ObjectShape {
    name: Option<Arc<str>>,
    /// By escaped name.
    pub(crate) fields: BTreeMap<String, FieldShape>,
    /// Escaped names by the names in the JSON.
    pub(crate) by_property: BTreeMap<String, String>,
}

#[derive(Debug)]
pub(crate) struct FieldShape {
    pub(crate) property: String,
    pub(crate) ty: DeclType,
}

/// A property of an object.
#[derive(Debug, Clone)]
pub struct Property {
    /// Its name in the JSON.
    pub name: String,
    /// What its value looks like.
    pub ty: DeclType,
    /// It is required and has no default, so it takes part in the smallest size of the object.
    pub always_given: bool,
}

impl Property {
    /// An optional property.
    pub fn new(name: impl Into<String>, ty: DeclType) -> Self {
        Self { name: name.into(), ty, always_given: false }
    }
}

impl DeclType {
    /// Any JSON value, read as what it is.
    pub const DYN: Self = Self::simple(Shape::Dyn, 1);

    const fn simple(shape: Shape, min_serialized_size: u64) -> Self {
        Self { shape, nullable: false, max_elements: 0, min_serialized_size }
    }

    /// A truth value.
    pub const fn bool() -> Self {
        Self::simple(Shape::Bool, 4)
    }

    /// A whole number.
    pub const fn int() -> Self {
        Self::simple(Shape::Int, 1)
    }

    /// A number.
    pub const fn double() -> Self {
        Self::simple(Shape::Double, 1)
    }

    /// A string. `max_length` counts characters; a list of allowed values bounds it otherwise.
    pub fn string(max_length: Option<u64>, longest_allowed: Option<u64>) -> Self {
        let max_elements = max_length
            .map(|characters| characters.saturating_mul(4))
            .or(longest_allowed)
            .unwrap_or(MAX_REQUEST_BYTES - 2);
        Self { max_elements, ..Self::simple(Shape::String, 2) }
    }

    /// A string of format `byte`.
    pub fn bytes(max_length: Option<u64>) -> Self {
        let max_elements = max_length.unwrap_or(MAX_REQUEST_BYTES - 2);
        Self { max_elements, ..Self::simple(Shape::Bytes, 2) }
    }

    /// A string of format `duration`.
    pub fn duration() -> Self {
        Self { max_elements: 32, ..Self::simple(Shape::Duration, 3) }
    }

    /// A string of format `date`.
    pub fn date() -> Self {
        Self { max_elements: 12, ..Self::simple(Shape::Date, 12) }
    }

    /// A string of format `date-time`.
    pub fn date_time() -> Self {
        Self { max_elements: 32, ..Self::simple(Shape::DateTime, 21) }
    }

    /// A whole number or a string.
    pub fn int_or_string(max_length: Option<u64>) -> Self {
        let max_elements =
            max_length.map_or(MAX_REQUEST_BYTES - 2, |characters| characters.saturating_mul(4));
        Self { max_elements, ..Self::simple(Shape::IntOrString, 1) }
    }

    /// A list of items.
    pub fn list(items: Self, max_items: Option<u64>, identity: ListIdentity) -> Self {
        let max_elements =
            max_items.unwrap_or((MAX_REQUEST_BYTES - 2) / items.min_serialized_size.saturating_add(1));
        let shape = Shape::List { items: Arc::new(items), identity };
        Self { max_elements, ..Self::simple(shape, 2) }
    }

    /// A map from names to values.
    pub fn map(values: Self, max_properties: Option<u64>) -> Self {
        let max_elements =
            max_properties.unwrap_or((MAX_REQUEST_BYTES - 2) / values.min_serialized_size.saturating_add(6));
        let shape = Shape::Map { values: Arc::new(values) };
        Self { max_elements, ..Self::simple(shape, 2) }
    }

    /// An object with declared properties. Those whose name cannot be written in CEL are left out.
    /// Its type is named after the place where it is declared.
    pub fn object(properties: impl IntoIterator<Item = Property>) -> Self {
        Self::object_shape(None, properties)
    }

    /// An object whose type has a name of its own.
    pub fn named_object(name: &str, properties: impl IntoIterator<Item = Property>) -> Self {
        Self::object_shape(Some(name.into()), properties)
    }

    fn object_shape(name: Option<Arc<str>>, properties: impl IntoIterator<Item = Property>) -> Self {
        let mut fields = BTreeMap::new();
        let mut by_property = BTreeMap::new();
        let mut size = 2_u64;
        for property in properties {
            if property.always_given {
                size = size
                    .saturating_add(property.name.len() as u64 + 4)
                    .saturating_add(property.ty.min_serialized_size);
            }
            if let Some(escaped) = escape_identifier(&property.name) {
                by_property.insert(property.name.clone(), escaped.clone());
                fields.insert(escaped, FieldShape { property: property.name, ty: property.ty });
            }
        }
        Self::simple(Shape::Object(Arc::new(ObjectShape { name, fields, by_property })), size)
    }

    /// The same shape, where `null` is a value too.
    pub fn nullable(mut self) -> Self {
        self.nullable = true;
        self
    }

    /// The shape of a declared property, by its name in the JSON. There is none for a name that cannot be
    /// written in CEL.
    pub fn property(&self, name: &str) -> Option<&Self> {
        match &self.shape {
            Shape::Object(object) => Some(&object.fields.get(object.by_property.get(name)?)?.ty),
            _ => None,
        }
    }

    /// The shape of the items of a list, or of the values of a map.
    pub fn element(&self) -> Option<&Self> {
        match &self.shape {
            Shape::List { items: element, .. } | Shape::Map { values: element } => Some(element),
            _ => None,
        }
    }

    /// How often a value of this shape fits into one request.
    pub fn max_cardinality(&self) -> u64 {
        MAX_REQUEST_BYTES / self.min_serialized_size.saturating_add(1)
    }

    /// The largest number of items, entries or bytes a value can have.
    pub fn max_elements(&self) -> u64 {
        self.max_elements
    }

    /// The type of values of this shape; object types on the way are added to `objects`, named after
    /// where they are.
    pub(crate) fn cel_type(&self, path: &str, objects: &mut BTreeMap<Arc<str>, Arc<ObjectTypes>>) -> Type {
        match &self.shape {
            Shape::Dyn | Shape::IntOrString => Type::Dyn,
            Shape::Bool => Type::Bool,
            Shape::Int => Type::Int,
            Shape::Double => Type::Double,
            Shape::String => Type::String,
            Shape::Bytes => Type::Bytes,
            Shape::Duration => Type::Duration,
            Shape::Date | Shape::DateTime => Type::Timestamp,
            Shape::List { items, .. } => Type::list(items.cel_type(&format!("{path}.@idx"), objects)),
            Shape::Map { values } => {
                Type::map(Type::String, values.cel_type(&format!("{path}.@elem"), objects))
            }
            Shape::Object(object) => {
                let name: Arc<str> = object.name.clone().unwrap_or_else(|| path.into());
                let fields = object
                    .fields
                    .iter()
                    .map(|(field, shape)| {
                        (field.clone(), shape.ty.cel_type(&format!("{name}.{field}"), objects))
                    })
                    .collect();
                objects.insert(name.clone(), Arc::new(fields));
                Type::Object(name)
            }
        }
    }
}

/// Types of the fields of an object type.
pub(crate) type ObjectTypes = BTreeMap<String, Type>;

/// The field that an expression selects by a name; a reserved word need not be escaped.
pub(crate) fn field_named<'f, Field>(fields: &'f BTreeMap<String, Field>, name: &str) -> Option<&'f Field> {
    fields.get(name).or_else(|| if is_reserved(name) { fields.get(&format!("__{name}__")) } else { None })
}

/// Whether a name means something else in an expression: a reserved word or a literal.
pub fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name) || ["true", "false", "null"].contains(&name)
}

/// The name by which an expression selects a property, or nothing if it cannot: `__`, `.`, `-` and `/`
/// become words between double underscores, and so does a reserved word.
pub fn escape_identifier(name: &str) -> Option<String> {
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if is_reserved(name) {
        return Some(format!("__{name}__"));
    }
    let mut escaped = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("__") {
            escaped.push_str("__underscores__");
            rest = after;
            continue;
        }
        match c {
            '.' => escaped.push_str("__dot__"),
            '-' => escaped.push_str("__dash__"),
            '/' => escaped.push_str("__slash__"),
            _ if c.is_ascii_alphanumeric() || c == '_' => escaped.push(c),
            _ => return None,
        }
        rest = &rest[c.len_utf8()..];
    }
    Some(escaped)
}

#[cfg(test)]
mod tests {
    use super::escape_identifier;

    #[test]
    fn names_that_cel_cannot_write_are_escaped() {
        for (name, escaped) in [
            ("a_b", Some("a_b")),
            ("x-y.z/w", Some("x__dash__y__dot__z__slash__w")),
            ("a__b", Some("a__underscores__b")),
            ("namespace", Some("__namespace__")),
            ("namespaces", Some("namespaces")),
            ("1a", None),
            ("", None),
            ("a$", None),
        ] {
            assert_eq!(escape_identifier(name).as_deref(), escaped, "{name}");
        }
    }
}
