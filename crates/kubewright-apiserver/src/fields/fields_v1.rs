//! FieldsV1: the JSON text of a [`FieldSet`], written and read without a tree of values in between.

use std::fmt;

use serde::{
    Deserializer, Serialize, Serializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor},
    ser::SerializeMap as _,
};

use serde_json::Map;

use super::{path::PathElement, set::FieldSet};

/// Stands in FieldsV1 for the path that leads there.
const HERE: &str = ".";

impl FieldSet {
    /// The set as FieldsV1.
    pub(crate) fn to_text(&self) -> String {
        let fields = Fields { member: false, below: self };
        serde_json::to_string(&fields).expect("maps with string keys always serialise into memory")
    }

    /// Reads FieldsV1. Kinds of steps that do not exist (yet) are left out.
    pub(crate) fn from_text(text: &str) -> Result<Self, String> {
        let mut why = None;
        let mut json = serde_json::Deserializer::from_str(text);
        let read = Read { why: &mut why }.deserialize(&mut json);
        let set = read.and_then(|(_, set)| json.end().map(|()| set));
        set.map_err(|error| why.unwrap_or_else(|| error.to_string()))
    }
}

struct Fields<'s> {
    /// The path up to here is in the set. Where nothing is behind it, that goes without saying.
    member: bool,
    below: &'s FieldSet,
}

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut steps: Vec<_> = self
            .below
            .steps()
            .map(|(element, member, below)| (element.serialise(), Self { member, below }))
            .collect();
        // By their texts, like all JSON objects here: numbers among the keys of items are in another order.
        steps.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let mut map = serializer.serialize_map(None)?;
        if self.member && !steps.is_empty() {
            map.serialize_entry(HERE, &Map::new())?;
        }
        for (step, fields) in &steps {
            map.serialize_entry(step, fields)?;
        }
        map.end()
    }
}

/// Reads whether the path up to here is in the set, and what is behind it.
struct Read<'a> {
    /// What is wrong with a step.
    why: &'a mut Option<String>,
}

impl<'de> DeserializeSeed<'de> for Read<'_> {
    type Value = (bool, FieldSet);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Read<'_> {
    type Value = (bool, FieldSet);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object of fields")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok((true, FieldSet::default()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let mut here = false;
        let mut set = FieldSet::default();
        while let Some(step) = fields.next_key_seed(ReadStep { why: self.why })? {
            match step {
                Step::To(element) => {
                    let (member, below) = fields.next_value_seed(Read { why: self.why })?;
                    set.push(element, member, below);
                }
                Step::Here => {
                    here = true;
                    fields.next_value::<IgnoredAny>()?;
                }
                Step::Unknown => drop(fields.next_value::<IgnoredAny>()?),
            }
        }
        Ok((here || set.is_empty(), set))
    }
}

enum Step {
    Here,
    To(PathElement),
    Unknown,
}

struct ReadStep<'a> {
    why: &'a mut Option<String>,
}

impl<'de> DeserializeSeed<'de> for ReadStep<'_> {
    type Value = Step;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Step, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for ReadStep<'_> {
    type Value = Step;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a step of a path")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Step, E> {
        if text == HERE {
            return Ok(Step::Here);
        }
        match PathElement::parse(text) {
            Ok(element) => Ok(element.map_or(Step::Unknown, Step::To)),
            Err(why) => {
                *self.why = Some(why);
                Err(E::custom("not a step"))
            }
        }
    }
}
