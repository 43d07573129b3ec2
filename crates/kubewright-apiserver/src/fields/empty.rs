//! The object of a built-in kind that nobody has touched: what Go makes of `{}`. Structs are there even when
//! they are empty, and so are fields without `omitempty`; a create therefore takes ownership of what it puts
//! into `spec`, but not of `spec` itself. Custom resources have nothing of the kind.

use serde_json::{Map, Value};

use crate::schema::{Field, Schema, Type};

/// How deep structs nest at most. Types that contain themselves do so through pointers, lists or maps, which
/// end the walk.
const DEEPEST: usize = 32;

/// The untouched object of a built-in kind, for [`FieldManager::empty`](super::FieldManager::empty).
pub(crate) fn empty_object(schema: &Schema, api_version: &str, kind: &str) -> Value {
    let mut object = empty_struct(schema, DEEPEST);
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    Value::Object(object)
}

fn empty_struct(schema: &Schema, depth: usize) -> Map<String, Value> {
    let fields = schema.properties.iter().filter(|(_, field)| !field.omit_empty);
    fields.map(|(name, field)| (name.clone(), empty_field(field, depth))).collect()
}

fn empty_field(field: &Field, depth: usize) -> Value {
    if field.pointer {
        return Value::Null;
    }
    match field.schema.ty {
        Type::Object if !field.schema.properties.is_empty() && depth > 0 => {
            Value::Object(empty_struct(&field.schema, depth - 1))
        }
        Type::Object | Type::Array | Type::Any => Value::Null,
        Type::String if field.schema.format.as_deref() == Some("date-time") => Value::Null,
        Type::String => "".into(),
        Type::Integer | Type::Number | Type::IntOrString => 0.into(),
        Type::Boolean => false.into(),
    }
}
