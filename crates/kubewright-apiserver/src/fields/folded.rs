//! FieldsV1 as text. What managers own is often half of an object, and a write looks into little of it: so on
//! its way through a write it stays the JSON it is, in one string for each entry, as Go keeps it in raw bytes.
//!
//! An object is *folded* while `metadata.managedFields[*].fieldsV1` is such a text. Bodies and stored objects come
//! folded into a write ([`json::parse_folded`](crate::decode::json::parse_folded)) and are stored as [`Unfolded`];
//! whoever shows an object to others, or lets them change it, unfolds it first.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, value::RawValue};

/// A place on the way to FieldsV1, or besides it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Object,
    Metadata,
    Entries,
    Entry,
    Fields,
    Elsewhere,
}

impl Place {
    /// The place of a field.
    pub(crate) fn field(self, name: &str) -> Self {
        match (self, name) {
            (Self::Object, "metadata") => Self::Metadata,
            (Self::Metadata, "managedFields") => Self::Entries,
            (Self::Entry, "fieldsV1") => Self::Fields,
            _ => Self::Elsewhere,
        }
    }

    /// The place of an item.
    pub(crate) fn item(self) -> Self {
        if self == Self::Entries { Self::Entry } else { Self::Elsewhere }
    }
}

/// Reads FieldsV1 as text.
pub(crate) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
    let text = <&RawValue>::deserialize(deserializer)?.get();
    Ok(if text == "null" { Value::Null } else { text.into() })
}

/// Puts FieldsV1 of an object into texts.
pub(crate) fn fold(object: &mut Value) {
    for fields in fields_of(object).filter(|fields| !fields.is_null()) {
        *fields = fields.to_string().into();
    }
}

/// Makes FieldsV1 of a folded object JSON again.
pub(crate) fn unfold(object: &mut Value) {
    for fields in fields_of(object) {
        if let Some(json) = fields.as_str().and_then(|text| serde_json::from_str(text).ok()) {
            *fields = json;
        }
    }
}

/// A folded object, unfolded.
pub(crate) fn unfolded(object: &Value) -> Value {
    let mut object = object.clone();
    unfold(&mut object);
    object
}

fn fields_of(object: &mut Value) -> impl Iterator<Item = &mut Value> {
    let entries = object.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut);
    entries.into_iter().flatten().filter_map(|entry| entry.get_mut("fieldsV1"))
}

/// A folded object as the JSON it stands for.
pub(crate) struct Unfolded<'a> {
    value: &'a Value,
    place: Place,
}

impl<'a> Unfolded<'a> {
    pub(crate) fn new(object: &'a Value) -> Self {
        Self { value: object, place: Place::Object }
    }
}

impl Serialize for Unfolded<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let place = self.place;
        match (place, self.value) {
            (Place::Elsewhere, value) => value.serialize(serializer),
            (Place::Fields, Value::String(text)) => match serde_json::from_str::<&RawValue>(text) {
                Ok(json) => json.serialize(serializer),
                Err(_) => text.serialize(serializer),
            },
            (_, Value::Object(fields)) => serializer.collect_map(
                fields.iter().map(|(name, value)| (name, Self { value, place: place.field(name) })),
            ),
            (_, Value::Array(items)) => {
                serializer.collect_seq(items.iter().map(|value| Self { value, place: place.item() }))
            }
            (_, value) => value.serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{decode::json::parse_folded, http::answer::write_json};

    #[test]
    fn an_object_goes_through_its_folded_form_unchanged() {
        let entry = json!({"manager": "m", "fieldsV1": {"f:spec": {"k:{\"name\":\"a\"}": {}}}});
        let template = json!({"metadata": {"managedFields": [entry]}});
        for object in [
            json!({"metadata": {"managedFields": [entry, {"fieldsV1": null}, {"fieldsV1": "text"}, {}, 1]}, "spec": {"template": template}}),
            json!({"metadata": {"managedFields": {"fieldsV1": {}}}, "fieldsV1": {}}),
            json!({"metadata": []}),
            json!(null),
        ] {
            let text = object.to_string();
            let read = parse_folded(text.as_bytes()).unwrap().value;
            let mut folded = object.clone();
            fold(&mut folded);
            assert_eq!(read, folded);
            assert_eq!(unfolded(&read), object);
            let mut written = Vec::new();
            write_json(&mut written, &Unfolded::new(&read));
            assert_eq!(String::from_utf8(written).unwrap(), text);
        }
    }
}
