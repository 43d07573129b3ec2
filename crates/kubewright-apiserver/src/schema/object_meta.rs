//! The metadata every object has: as a schema node, and decoded as the Go `ObjectMeta` would be.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::{Field, ListType, Schema, SchemaRef, Type};

/// The schema of `metadata`: one shared node.
pub(crate) fn object_meta() -> &'static SchemaRef {
    static NODE: LazyLock<SchemaRef> = LazyLock::new(|| SchemaRef::new(struct_schema(OBJECT_META)));
    &NODE
}

/// What a field of metadata holds, named as Go's decoder names it in its complaints.
#[derive(Clone, Copy)]
enum Kind {
    /// A string of the given Go type.
    Text(&'static str),
    /// A string that is there even when empty.
    RequiredText(&'static str),
    Integer,
    /// A pointer, so that zero is told from nothing.
    OptionalInteger,
    Boolean,
    Time,
    Strings,
    Texts,
    Structs(&'static str, &'static [(&'static str, Kind)]),
    Raw,
}

const OBJECT_META: &[(&str, Kind)] = &[
    ("name", Kind::Text("string")),
    ("generateName", Kind::Text("string")),
    ("namespace", Kind::Text("string")),
    ("selfLink", Kind::Text("string")),
    ("uid", Kind::Text("types.UID")),
    ("resourceVersion", Kind::Text("string")),
    ("generation", Kind::Integer),
    ("creationTimestamp", Kind::Time),
    ("deletionTimestamp", Kind::Time),
    ("deletionGracePeriodSeconds", Kind::OptionalInteger),
    ("labels", Kind::Texts),
    ("annotations", Kind::Texts),
    ("ownerReferences", Kind::Structs("OwnerReference", OWNER_REFERENCE)),
    ("finalizers", Kind::Strings),
    ("managedFields", Kind::Structs("ManagedFieldsEntry", MANAGED_FIELDS)),
];

const OWNER_REFERENCE: &[(&str, Kind)] = &[
    ("apiVersion", Kind::RequiredText("string")),
    ("kind", Kind::RequiredText("string")),
    ("name", Kind::RequiredText("string")),
    ("uid", Kind::RequiredText("types.UID")),
    ("controller", Kind::Boolean),
    ("blockOwnerDeletion", Kind::Boolean),
];

const MANAGED_FIELDS: &[(&str, Kind)] = &[
    ("manager", Kind::Text("string")),
    ("operation", Kind::Text("v1.ManagedFieldsOperationType")),
    ("apiVersion", Kind::Text("string")),
    ("time", Kind::Time),
    ("fieldsType", Kind::Text("string")),
    ("fieldsV1", Kind::Raw),
    ("subresource", Kind::Text("string")),
];

fn struct_schema(fields: &[(&str, Kind)]) -> Schema {
    let field = |&(name, kind): &(&str, Kind)| {
        let schema = SchemaRef::new(kind_schema(name, kind));
        (name.to_owned(), Field { schema, omit_empty: true, ..Field::default() })
    };
    Schema { ty: Type::Object, properties: fields.iter().map(field).collect(), ..Schema::default() }
}

fn kind_schema(name: &str, kind: Kind) -> Schema {
    let text = || Some(SchemaRef::new(Schema::scalar(Type::String)));
    match kind {
        Kind::Text(_) | Kind::RequiredText(_) | Kind::Time => Schema::scalar(Type::String),
        Kind::Integer | Kind::OptionalInteger => Schema::scalar(Type::Integer),
        Kind::Boolean => Schema::scalar(Type::Boolean),
        Kind::Strings => Schema { ty: Type::Array, items: text(), list: ListType::Set, ..Schema::default() },
        Kind::Texts => Schema { ty: Type::Object, values: text(), ..Schema::default() },
        Kind::Structs(_, fields) => Schema {
            ty: Type::Array,
            items: Some(SchemaRef::new(Schema {
                atomic: name == "ownerReferences",
                ..struct_schema(fields)
            })),
            list: match name {
                "ownerReferences" => ListType::Map(vec!["uid".to_owned()]),
                _ => ListType::Atomic,
            },
            ..Schema::default()
        },
        Kind::Raw => Schema::any(),
    }
}

/// Decodes the metadata of `object`, in place, as Go would: unknown fields go (and are answered as
/// paths below `prefix`), empty ones too, times are normalised. The error is the decoder's.
pub(crate) fn coerce_metadata(object: &mut Value, prefix: &str) -> Result<Vec<String>, String> {
    let mut unknown = Vec::new();
    let Some(metadata) = object.get_mut("metadata") else { return Ok(unknown) };
    match metadata {
        Value::Object(map) => {
            let root = Place { structure: "ObjectMeta", parent: None, step: Step::Field(prefix) };
            decode_struct(map, OBJECT_META, &root, &mut unknown)?;
        }
        Value::Null => *metadata = Value::Object(Map::new()),
        other => {
            return Err(format!(
                "json: cannot unmarshal {} into Go value of type v1.ObjectMeta",
                word(other)
            ));
        }
    }
    Ok(unknown)
}

/// Where the decoder stands. Only spelled out when there is something to say.
#[derive(Clone, Copy)]
struct Place<'a> {
    /// The innermost struct.
    structure: &'static str,
    parent: Option<&'a Place<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Field(&'a str),
    Item(usize),
}

impl Place<'_> {
    fn below<'a>(&'a self, step: Step<'a>) -> Place<'a> {
        Place { structure: self.structure, parent: Some(self), step }
    }

    /// The path as it is reported: `metadata.ownerReferences[0].uid`.
    fn path(&self) -> String {
        let parent = self.parent.map(Place::path).unwrap_or_default();
        match self.step {
            Step::Field(name) if parent.is_empty() => name.to_owned(),
            Step::Field(name) => format!("{parent}.{name}"),
            Step::Item(index) => format!("{parent}[{index}]"),
        }
    }

    /// The fields from the outermost struct on, as Go names them: `ownerReferences.uid`.
    fn fields(&self) -> String {
        let Some(parent) = self.parent else { return String::new() };
        let parent = parent.fields();
        match self.step {
            Step::Field(name) if parent.is_empty() => name.to_owned(),
            Step::Field(name) => format!("{parent}.{name}"),
            Step::Item(_) => parent,
        }
    }

    fn mismatch(&self, value: &Value, go_type: &str) -> String {
        let found = match value {
            Value::Number(number) if go_type == "int64" => format!("number {number}"),
            other => word(other).to_owned(),
        };
        let (structure, field) = (self.structure, self.fields());
        format!("json: cannot unmarshal {found} into Go struct field {structure}.{field} of type {go_type}")
    }
}

fn word(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn decode_struct(
    map: &mut Map<String, Value>,
    fields: &'static [(&'static str, Kind)],
    at: &Place<'_>,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    let mut failure = None;
    map.retain(|name, value| {
        let place = at.below(Step::Field(name));
        let Some((_, kind)) = fields.iter().find(|(known, _)| known == name) else {
            unknown.push(place.path());
            return false;
        };
        match decode_field(value, *kind, &place, unknown) {
            Ok(keep) => keep,
            Err(why) => {
                failure.get_or_insert(why);
                false
            }
        }
    });
    for (name, kind) in fields {
        if matches!(kind, Kind::RequiredText(_)) && !map.contains_key(*name) {
            map.insert((*name).to_owned(), Value::String(String::new()));
        }
    }
    failure.map_or(Ok(()), Err)
}

/// Whether the decoded field stays, or is as good as absent.
fn decode_field(
    value: &mut Value,
    kind: Kind,
    place: &Place<'_>,
    unknown: &mut Vec<String>,
) -> Result<bool, String> {
    if value.is_null() {
        return Ok(false);
    }
    match (kind, &mut *value) {
        (Kind::Text(_), Value::String(text)) => Ok(!text.is_empty()),
        (Kind::RequiredText(_), Value::String(_)) | (Kind::Boolean, Value::Bool(_)) | (Kind::Raw, _) => {
            Ok(true)
        }
        (Kind::Integer, Value::Number(number)) if number.is_i64() => Ok(number.as_i64() != Some(0)),
        (Kind::OptionalInteger, Value::Number(number)) if number.is_i64() => Ok(true),
        (Kind::Time, Value::String(text)) => {
            *text = normalised_time(text)?;
            Ok(true)
        }
        (Kind::Time, other) => Err(place.mismatch(other, "string")),
        (Kind::Strings, Value::Array(list)) => {
            list.iter_mut().try_for_each(|text| decode_text(text, place))?;
            Ok(!list.is_empty())
        }
        (Kind::Texts, Value::Object(map)) => {
            map.values_mut().try_for_each(|text| decode_text(text, place))?;
            Ok(!map.is_empty())
        }
        (Kind::Structs(name, fields), Value::Array(list)) => {
            for (index, item) in list.iter_mut().enumerate() {
                let place = Place { structure: name, ..place.below(Step::Item(index)) };
                if item.is_null() {
                    *item = Value::Object(Map::new());
                }
                match item {
                    Value::Object(map) => decode_struct(map, fields, &place, unknown)?,
                    other => {
                        let outer = Place { structure: "ObjectMeta", ..place };
                        return Err(outer.mismatch(other, &format!("v1.{name}")));
                    }
                }
            }
            Ok(!list.is_empty())
        }
        (Kind::Text(go_type) | Kind::RequiredText(go_type), other) => Err(place.mismatch(other, go_type)),
        (Kind::Integer | Kind::OptionalInteger, other) => Err(place.mismatch(other, "int64")),
        (Kind::Boolean, other) => Err(place.mismatch(other, "bool")),
        (Kind::Strings, other) => Err(place.mismatch(other, "[]string")),
        (Kind::Texts, other) => Err(place.mismatch(other, "map[string]string")),
        (Kind::Structs(name, _), other) => Err(place.mismatch(other, &format!("[]v1.{name}"))),
    }
}

fn decode_text(text: &mut Value, place: &Place<'_>) -> Result<(), String> {
    match text {
        Value::String(_) => Ok(()),
        Value::Null => {
            *text = Value::String(String::new());
            Ok(())
        }
        other => Err(place.mismatch(other, "string")),
    }
}

/// An RFC 3339 time as Kubernetes writes it: in UTC, to the second.
fn normalised_time(text: &str) -> Result<String, String> {
    let bytes = text.as_bytes();
    let date = bytes.get(10).is_some_and(|separator| *separator == b'T');
    match text.parse::<jiff::Timestamp>() {
        Ok(time) if date => Ok(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
        _ => Err(format!(
            "parsing time \"{text}\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"{text}\" as \"2006\""
        )),
    }
}
