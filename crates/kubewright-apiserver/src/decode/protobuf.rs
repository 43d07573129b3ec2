//! Bodies in the protobuf form that typed Go clients send for built-in kinds.
//!
//! A body is `k8s\0` and an envelope with the kind and the object's message. The message is read along the
//! schema of the kind, whose fields know their numbers, into the same value that JSON would give; typed
//! decoding does the rest. Whatever is not understood is an error, never a guess.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};

use super::time::format_duration;
use crate::schema::{Schema, Type};

/// How every body begins.
const MAGIC: &[u8] = b"k8s\0";
/// Types that contain themselves must end somewhere.
const MAX_DEPTH: usize = 64;

/// A body, opened: its kind, and the message of the object.
#[derive(Debug)]
pub(crate) struct Envelope<'a> {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    message: &'a [u8],
}

type Read<T> = Result<T, String>;

impl<'a> Envelope<'a> {
    /// Opens a body.
    pub(crate) fn open(body: &'a [u8]) -> Read<Self> {
        let body =
            body.strip_prefix(MAGIC).ok_or("provided data does not appear to be a protobuf message")?;
        let mut envelope = Self { api_version: String::new(), kind: String::new(), message: &[] };
        for field in fields(body) {
            match field? {
                (1, Wire::Bytes(meta)) => {
                    for field in fields(meta) {
                        match field? {
                            (1, Wire::Bytes(text)) => envelope.api_version = string(text)?,
                            (2, Wire::Bytes(text)) => envelope.kind = string(text)?,
                            _ => {}
                        }
                    }
                }
                (2, Wire::Bytes(raw)) => envelope.message = raw,
                _ => {}
            }
        }
        Ok(envelope)
    }

    /// The object as JSON would have given it.
    pub(crate) fn decode(&self, schema: &Schema) -> Read<Value> {
        let mut object = Map::new();
        structure(self.message, schema, &[], &mut object, 0)?;
        if !self.api_version.is_empty() {
            object.insert("apiVersion".to_owned(), self.api_version.as_str().into());
        }
        if !self.kind.is_empty() {
            object.insert("kind".to_owned(), self.kind.as_str().into());
        }
        Ok(Value::Object(object))
    }
}

/// A value as it stands on the wire.
#[derive(Clone, Copy)]
enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

/// The fields of a message, in order.
fn fields<'a>(mut message: &'a [u8]) -> impl Iterator<Item = Read<(u32, Wire<'a>)>> {
    std::iter::from_fn(move || {
        if message.is_empty() {
            return None;
        }
        let field = next_field(&mut message);
        if field.is_err() {
            message = &[];
        }
        Some(field)
    })
}

fn next_field<'a>(message: &mut &'a [u8]) -> Read<(u32, Wire<'a>)> {
    let key = varint(message)?;
    let number = u32::try_from(key >> 3).ok().filter(|number| *number > 0).ok_or("proto: illegal tag 0")?;
    let wire = match key & 7 {
        0 => Wire::Varint(varint(message)?),
        1 => Wire::Fixed64(u64::from_le_bytes(fixed(message)?)),
        2 => {
            let length = usize::try_from(varint(message)?)
                .map_err(|_| "proto: negative length found during unmarshaling")?;
            Wire::Bytes(take(message, length)?)
        }
        5 => Wire::Fixed32(u32::from_le_bytes(fixed(message)?)),
        other => return Err(format!("proto: illegal wireType {other}")),
    };
    Ok((number, wire))
}

fn take<'a>(message: &mut &'a [u8], length: usize) -> Read<&'a [u8]> {
    let (taken, rest) = message.split_at_checked(length).ok_or("unexpected EOF")?;
    *message = rest;
    Ok(taken)
}

fn fixed<const N: usize>(message: &mut &[u8]) -> Read<[u8; N]> {
    take(message, N)?.try_into().map_err(|_| "unexpected EOF".to_owned())
}

fn varint(message: &mut &[u8]) -> Read<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = message.split_first().ok_or("unexpected EOF")?;
        *message = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err("proto: integer overflow".to_owned())
}

fn string(bytes: &[u8]) -> Read<String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| "proto: invalid UTF-8 in string".to_owned())
}

/// Reads a message into the fields of an object. `within` is the path of the inlined struct it belongs to.
fn structure(
    message: &[u8],
    schema: &Schema,
    within: &[u32],
    object: &mut Map<String, Value>,
    depth: usize,
) -> Read<()> {
    if depth > MAX_DEPTH {
        return Err("exceeded max depth".to_owned());
    }
    for field in fields(message) {
        let (number, wire) = field?;
        let path: Vec<u32> = within.iter().copied().chain([number]).collect();
        if let Some((name, field)) = schema.properties.iter().find(|(_, field)| field.numbers == path) {
            add(object, name, wire, &field.schema, depth + 1)?;
        } else if let Wire::Bytes(inner) = wire
            && schema.properties.values().any(|field| field.numbers.starts_with(&path))
        {
            structure(inner, schema, &path, object, depth + 1)?;
        }
        // Fields of a newer version are skipped, as everywhere in protobuf.
    }
    Ok(())
}

/// Takes one occurrence of a field into the object.
fn add(
    object: &mut Map<String, Value>,
    name: &str,
    wire: Wire<'_>,
    schema: &Schema,
    depth: usize,
) -> Read<()> {
    match (schema.ty, &schema.values, &schema.items) {
        (Type::Object, Some(values), _) => {
            let Wire::Bytes(entry) = wire else { return Err(wrong_wire(name)) };
            let (mut key, mut value) = (String::new(), None);
            for field in fields(entry) {
                match field? {
                    (1, Wire::Bytes(text)) => key = string(text)?,
                    (2, wire) => value = Some(single(wire, values, name, depth)?),
                    _ => {}
                }
            }
            let value = match value {
                Some(value) => value,
                None => zero(values),
            };
            if let Value::Object(map) = object.entry(name).or_insert_with(|| Value::Object(Map::new())) {
                map.insert(key, value);
            }
        }
        (Type::Array, _, Some(items)) => {
            let Value::Array(list) = object.entry(name).or_insert_with(|| Value::Array(Vec::new())) else {
                return Ok(());
            };
            match (wire, items.ty) {
                // Numbers may come packed.
                (Wire::Bytes(mut packed), Type::Integer | Type::Boolean) => {
                    while !packed.is_empty() {
                        list.push(single(Wire::Varint(varint(&mut packed)?), items, name, depth)?);
                    }
                }
                (wire, _) => list.push(single(wire, items, name, depth)?),
            }
        }
        _ => {
            let value = single(wire, schema, name, depth)?;
            // A message given twice is merged; for us the later fields win.
            match (object.get_mut(name), value) {
                (Some(Value::Object(before)), Value::Object(after)) => before.extend(after),
                (_, value) => {
                    object.insert(name.to_owned(), value);
                }
            }
        }
    }
    Ok(())
}

/// One value that is not repeated.
fn single(wire: Wire<'_>, schema: &Schema, name: &str, depth: usize) -> Read<Value> {
    Ok(match (schema.ty, schema.format.as_deref(), wire) {
        (Type::String, Some("byte"), Wire::Bytes(bytes)) => {
            use base64::{Engine as _, engine::general_purpose::STANDARD};
            STANDARD.encode(bytes).into()
        }
        (Type::String, Some("date-time" | "micro-time"), Wire::Bytes(message)) => time(message)?,
        (Type::String, Some("duration"), Wire::Bytes(message)) => {
            format_duration(numbers(message)?.first().copied().unwrap_or_default()).into()
        }
        (Type::String, Some("quantity"), Wire::Bytes(message)) => {
            let mut text = "0".to_owned();
            for field in fields(message) {
                if let (1, Wire::Bytes(bytes)) = field? {
                    text = string(bytes)?;
                }
            }
            text.into()
        }
        (Type::String, _, Wire::Bytes(bytes)) => string(bytes)?.into(),
        (Type::Integer, _, Wire::Varint(number)) => number.cast_signed().into(),
        (Type::Boolean, _, Wire::Varint(number)) => (number != 0).into(),
        (Type::Number, _, Wire::Fixed64(bits)) => f64::from_bits(bits).into(),
        (Type::Number, _, Wire::Fixed32(bits)) => f64::from(f32::from_bits(bits)).into(),
        (Type::IntOrString, _, Wire::Bytes(message)) => int_or_string(message)?,
        (Type::Any, _, Wire::Bytes(message)) => raw(message)?,
        (Type::Object, _, Wire::Bytes(message)) => {
            let mut object = Map::new();
            structure(message, schema, &[], &mut object, depth)?;
            Value::Object(object)
        }
        // A list inside a list or map is a message of its own, with the items under 1.
        (Type::Array, _, Wire::Bytes(message)) => {
            let items = schema.items.as_ref().ok_or_else(|| wrong_wire(name))?;
            let mut list = Vec::new();
            for field in fields(message) {
                if let (1, wire) = field? {
                    list.push(single(wire, items, name, depth + 1)?);
                }
            }
            Value::Array(list)
        }
        _ => return Err(wrong_wire(name)),
    })
}

fn wrong_wire(name: &str) -> String {
    format!("proto: wrong wireType for field {name}")
}

fn zero(schema: &Schema) -> Value {
    match schema.ty {
        Type::String => "".into(),
        Type::Integer | Type::Number | Type::IntOrString => 0.into(),
        Type::Boolean => false.into(),
        Type::Array => Value::Array(Vec::new()),
        Type::Object => Value::Object(Map::new()),
        Type::Any => Value::Null,
    }
}

/// The numbers of a message that holds nothing else, in the order of their fields.
fn numbers(message: &[u8]) -> Read<Vec<i64>> {
    let mut found = Vec::new();
    for field in fields(message) {
        if let (number, Wire::Varint(value)) = field? {
            let place = usize::try_from(number).unwrap_or_default().saturating_sub(1);
            if place < 4 {
                found.resize(found.len().max(place + 1), 0);
                found[place] = value.cast_signed();
            }
        }
    }
    Ok(found)
}

fn time(message: &[u8]) -> Read<Value> {
    let parts = numbers(message)?;
    let (seconds, nanoseconds) =
        (parts.first().copied().unwrap_or_default(), parts.get(1).copied().unwrap_or_default());
    if seconds == 0 && nanoseconds == 0 {
        return Ok(Value::Null);
    }
    let nanoseconds = i32::try_from(nanoseconds).map_err(|_| "proto: time out of range".to_owned())?;
    let since = SignedDuration::new(seconds, nanoseconds);
    let time = Timestamp::from_duration(since).map_err(|_| "proto: time out of range".to_owned())?;
    Ok(time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string().into())
}

fn int_or_string(message: &[u8]) -> Read<Value> {
    let (mut is_string, mut number, mut text) = (false, 0, String::new());
    for field in fields(message) {
        match field? {
            (1, Wire::Varint(kind)) => is_string = kind == 1,
            (2, Wire::Varint(value)) => number = value.cast_signed(),
            (3, Wire::Bytes(bytes)) => text = string(bytes)?,
            _ => {}
        }
    }
    Ok(if is_string { text.into() } else { number.into() })
}

/// JSON inside a message.
fn raw(message: &[u8]) -> Read<Value> {
    for field in fields(message) {
        if let (1, Wire::Bytes(bytes)) = field? {
            return serde_json::from_slice(bytes).map_err(|error| error.to_string());
        }
    }
    Ok(Value::Null)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::registry::types::Types;

    fn message(parts: &[(u32, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        for (number, bytes) in parts {
            out.push(u8::try_from(number << 3 | 2).unwrap());
            out.push(u8::try_from(bytes.len()).unwrap());
            out.extend_from_slice(bytes);
        }
        out
    }

    fn body(api_version: &str, kind: &str, object: &[u8]) -> Vec<u8> {
        let meta = message(&[(1, api_version.as_bytes()), (2, kind.as_bytes())]);
        [MAGIC, &message(&[(1, &meta), (2, object)])].concat()
    }

    fn read(kind: &str, object: &[u8]) -> Value {
        let body = body("v1", kind, object);
        let schema = Types::get().kind("", "v1", kind).unwrap();
        Envelope::open(&body).unwrap().decode(&schema).unwrap()
    }

    #[test]
    fn maps_bytes_and_nested_messages_are_read_by_number() {
        let metadata = message(&[(1, b"s"), (11, &message(&[(1, b"a"), (2, b"b")]))]);
        let secret =
            message(&[(1, &metadata), (2, &message(&[(1, b"k"), (2, b"\x00\xff")])), (3, b"Opaque")]);
        assert_eq!(
            read("Secret", &secret),
            json!({
                "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": {"k": "AP8="},
                "metadata": {"name": "s", "labels": {"a": "b"}},
            })
        );
    }

    #[test]
    fn what_json_inlines_is_a_message_of_its_own() {
        let empty_dir = message(&[(2, &message(&[(2, b"")])), (1, b"v")]);
        let pod = message(&[(2, &message(&[(1, &empty_dir)]))]);
        assert_eq!(read("Pod", &pod)["spec"]["volumes"], json!([{"name": "v", "emptyDir": {}}]));
    }

    #[test]
    fn a_broken_body_is_refused() {
        assert!(Envelope::open(b"k8s\0zork").is_err());
        assert!(Envelope::open(b"{}").is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_object_or_an_error(object in proptest::collection::vec(any::<u8>(), 0..200)) {
            let schema = Types::get().kind("", "v1", "Pod").unwrap();
            let body = [MAGIC, &[0x12, 0xc8, 0x01], &object[..]].concat();
            let _ = Envelope::open(&body).and_then(|envelope| envelope.decode(&schema));
            let short = body.len().min(40);
            let _ = Envelope::open(&body[..short]).and_then(|envelope| envelope.decode(&schema));
        }
    }
}
