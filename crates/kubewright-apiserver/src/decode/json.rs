//! JSON bodies to values: as quick as serde_json, but it notices fields that are given twice.
//!
//! A body that serde_json refuses is read once more, slowly, to say what is wrong in the words of Go, or to
//! accept what Go accepts: broken UTF-8 and lone surrogates become U+FFFD.

use std::{collections::BTreeMap, fmt};

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::{Parsed, Problem, go::quote};
use crate::fields::folded::{self, Place};

/// Reads a JSON body. The error is what Go would say.
pub(crate) fn parse(body: &[u8]) -> Result<Parsed<'_>, String> {
    parse_at(body, Place::Elsewhere)
}

/// Reads an object [folded](crate::fields::folded).
pub(crate) fn parse_folded(body: &[u8]) -> Result<Parsed<'_>, String> {
    parse_at(body, Place::Object)
}

fn parse_at(body: &[u8], place: Place) -> Result<Parsed<'_>, String> {
    let mut duplicates = Vec::new();
    let value = match read(body, place, &mut duplicates) {
        Ok(value) => value,
        Err(_) => {
            if let Some(why) = syntax_error(body) {
                return Err(why);
            }
            duplicates.clear();
            read(repaired(body).as_bytes(), place, &mut duplicates).map_err(|error| {
                if error.to_string().starts_with("number out of range") {
                    "json: cannot unmarshal number into Go value of type float64".to_owned()
                } else {
                    "exceeded max depth".to_owned()
                }
            })?
        }
    };
    let problems = duplicates.into_iter().map(Problem::Duplicate).collect();
    Ok(Parsed { value, problems, source: Some(body) })
}

fn read(body: &[u8], place: Place, duplicates: &mut Vec<String>) -> serde_json::Result<Value> {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let value = Builder { duplicates, place }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// A number as the server keeps it: whole ones are integers however they were written.
pub(super) fn number(float: f64) -> Value {
    const EDGE: f64 = 9_223_372_036_854_775_808.0; // 2^63, which is exact
    if float.fract() == 0.0 && (-EDGE..EDGE).contains(&float) {
        #[expect(clippy::cast_possible_truncation, reason = "whole and within i64, as just checked")]
        return Value::from(float as i64);
    }
    Number::from_f64(float).map_or(Value::Null, Value::Number)
}

/// Adds the step to the paths that were found below it.
fn prefix(paths: &mut [String], step: &str) {
    for path in paths {
        let dot = if path.starts_with('[') { "" } else { "." };
        *path = format!("{step}{dot}{path}");
    }
}

struct Builder<'a> {
    duplicates: &'a mut Vec<String>,
    place: Place,
}

impl Builder<'_> {
    fn at(&mut self, place: Place) -> Builder<'_> {
        Builder { duplicates: self.duplicates, place }
    }
}

impl<'de> DeserializeSeed<'de> for Builder<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        if self.place == Place::Fields {
            return folded::read(deserializer);
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Builder<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        #[expect(clippy::cast_precision_loss, reason = "Go loses it as well")]
        Ok(i64::try_from(value).map_or_else(|_| Value::from(value as f64), Value::from))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(number(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut sequence: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        let place = self.place.item();
        loop {
            let known = self.duplicates.len();
            let Some(item) = sequence.next_element_seed(self.at(place))? else {
                return Ok(Value::Array(items));
            };
            if self.duplicates.len() > known {
                prefix(&mut self.duplicates[known..], &format!("[{}]", items.len()));
            }
            items.push(item);
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut fields: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = fields.next_key::<String>()? {
            let known = self.duplicates.len();
            let place = self.place.field(&key);
            let value = fields.next_value_seed(self.at(place))?;
            if self.duplicates.len() > known {
                prefix(&mut self.duplicates[known..], &key);
            }
            match map.entry(key) {
                serde_json::map::Entry::Vacant(entry) => {
                    entry.insert(value);
                }
                serde_json::map::Entry::Occupied(mut entry) => {
                    let path = entry.key().clone();
                    entry.insert(value);
                    // Before whatever was found twice within it.
                    self.duplicates.insert(known, path);
                }
            }
        }
        Ok(Value::Object(map))
    }
}

/// When each of the paths comes up in the body: first, and once more if it does. Values lost their order
/// on the way, and only several problems at once need it back.
pub(super) fn positions<'p>(
    body: &[u8],
    paths: impl Iterator<Item = &'p str>,
) -> BTreeMap<String, (usize, Option<usize>)> {
    let mut walk =
        Walk { path: String::new(), count: 0, found: paths.map(|path| (path.to_owned(), None)).collect() };
    // What can't be read has been refused before.
    let _ = Position(&mut walk).deserialize(&mut serde_json::Deserializer::from_slice(body));
    walk.found.into_iter().map(|(path, found)| (path, found.unwrap_or((usize::MAX, None)))).collect()
}

struct Walk {
    path: String,
    count: usize,
    found: BTreeMap<String, Option<(usize, Option<usize>)>>,
}

impl Walk {
    fn arrive(&mut self) {
        self.count += 1;
        if let Some(found) = self.found.get_mut(&self.path) {
            match found {
                None => *found = Some((self.count, None)),
                Some((_, again @ None)) => *again = Some(self.count),
                Some(_) => {}
            }
        }
    }
}

struct Position<'a>(&'a mut Walk);

impl<'de> DeserializeSeed<'de> for Position<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.0.arrive();
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Position<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<(), A::Error> {
        let length = self.0.path.len();
        let mut index = 0;
        loop {
            self.0.path.push_str(&format!("[{index}]"));
            let item = sequence.next_element_seed(Position(self.0))?;
            self.0.path.truncate(length);
            if item.is_none() {
                return Ok(());
            }
            index += 1;
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let length = self.0.path.len();
        while let Some(key) = fields.next_key::<String>()? {
            if length > 0 {
                self.0.path.push('.');
            }
            self.0.path.push_str(&key);
            fields.next_value_seed(Position(self.0))?;
            self.0.path.truncate(length);
        }
        Ok(())
    }
}

/// The body with everything replaced that Go would replace: broken UTF-8 and lone surrogates.
fn repaired(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let unit = |text: &str| {
        let digits = text.strip_prefix("\\u")?.get(..4)?;
        u32::from_str_radix(digits, 16).ok()
    };
    let mut whole = String::with_capacity(text.len());
    let mut rest = text.as_ref();
    while let Some(at) = rest.find('\\') {
        let (plain, escape) = rest.split_at(at);
        whole.push_str(plain);
        let (written, used) = match unit(escape) {
            Some(0xD800..=0xDBFF)
                if escape.get(6..).and_then(unit).is_some_and(|low| (0xDC00..=0xDFFF).contains(&low)) =>
            {
                (&escape[..12], 12)
            }
            Some(0xD800..=0xDFFF) => ("\\ufffd", 6),
            // A backslash and what it escapes belong together, so that an escaped backslash starts nothing.
            _ => {
                let used = escape.char_indices().nth(2).map_or(escape.len(), |(index, _)| index);
                (&escape[..used], used)
            }
        };
        whole.push_str(written);
        rest = &escape[used..];
    }
    whole.push_str(rest);
    whole
}

#[derive(Clone, Copy)]
enum State {
    Value,
    ValueOrEnd,
    Key,
    KeyOrEnd,
    AfterValue,
    InString,
    Escape,
    Hex(u8),
    Minus,
    Digits,
    Zero,
    Point,
    Fraction,
    Exponent,
    ExponentSign,
    ExponentDigits,
    Word(&'static str, usize),
}

#[derive(Clone, Copy)]
enum Inside {
    Key,
    FieldValue,
    Array,
}

/// Go's JSON scanner: what it has to say against a text, if anything.
fn syntax_error(body: &[u8]) -> Option<String> {
    let blank = |byte: u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let mut inside: Vec<Inside> = Vec::new();
    let mut state = State::Value;
    // The end is tried with a blank, so that it shows what it cuts short.
    for &byte in body.iter().chain(b" ") {
        let next = match (state, byte) {
            (State::Value | State::ValueOrEnd | State::Key | State::KeyOrEnd, byte) if blank(byte) => {
                Ok(state)
            }
            (State::ValueOrEnd, b']') | (State::KeyOrEnd, b'}') => {
                inside.pop();
                Ok(State::AfterValue)
            }
            (State::Value | State::ValueOrEnd, _) => match byte {
                b'{' => {
                    inside.push(Inside::Key);
                    Ok(State::KeyOrEnd)
                }
                b'[' => {
                    inside.push(Inside::Array);
                    Ok(State::ValueOrEnd)
                }
                b'"' => Ok(State::InString),
                b'-' => Ok(State::Minus),
                b'0' => Ok(State::Zero),
                b'1'..=b'9' => Ok(State::Digits),
                b't' => Ok(State::Word("true", 1)),
                b'f' => Ok(State::Word("false", 1)),
                b'n' => Ok(State::Word("null", 1)),
                _ => Err("looking for beginning of value".to_owned()),
            },
            (State::Key | State::KeyOrEnd, b'"') => Ok(State::InString),
            (State::Key | State::KeyOrEnd, _) => Err("looking for beginning of object key string".to_owned()),
            (State::InString, b'"') => Ok(State::AfterValue),
            (State::InString, b'\\') => Ok(State::Escape),
            (State::InString, 0..0x20) => Err("in string literal".to_owned()),
            (State::InString, _) => Ok(State::InString),
            (State::Escape, b'u') => Ok(State::Hex(4)),
            (State::Escape, b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"') => Ok(State::InString),
            (State::Escape, _) => Err("in string escape code".to_owned()),
            (State::Hex(left), byte) if byte.is_ascii_hexdigit() => {
                Ok(if left == 1 { State::InString } else { State::Hex(left - 1) })
            }
            (State::Hex(_), _) => Err("in \\u hexadecimal character escape".to_owned()),
            (State::Minus, b'0') => Ok(State::Zero),
            (State::Minus, b'1'..=b'9') => Ok(State::Digits),
            (State::Minus, _) => Err("in numeric literal".to_owned()),
            (State::Digits, b'0'..=b'9') => Ok(State::Digits),
            (State::Digits | State::Zero, b'.') => Ok(State::Point),
            (State::Digits | State::Zero | State::Fraction, b'e' | b'E') => Ok(State::Exponent),
            (State::Point | State::Fraction, b'0'..=b'9') => Ok(State::Fraction),
            (State::Point, _) => Err("after decimal point in numeric literal".to_owned()),
            (State::Exponent, b'+' | b'-') => Ok(State::ExponentSign),
            (State::Exponent | State::ExponentSign | State::ExponentDigits, b'0'..=b'9') => {
                Ok(State::ExponentDigits)
            }
            (State::Exponent | State::ExponentSign, _) => Err("in exponent of numeric literal".to_owned()),
            (State::Word(word, at), _) => {
                let expected = word.as_bytes()[at];
                if byte == expected {
                    Ok(if at + 1 == word.len() { State::AfterValue } else { State::Word(word, at + 1) })
                } else {
                    Err(format!("in literal {word} (expecting '{}')", char::from(expected)))
                }
            }
            // A number ends where something else begins.
            (
                State::AfterValue | State::Digits | State::Zero | State::Fraction | State::ExponentDigits,
                _,
            ) => match (inside.last_mut(), byte) {
                (_, byte) if blank(byte) => Ok(State::AfterValue),
                (None, _) => Err("after top-level value".to_owned()),
                (Some(place @ Inside::Key), b':') => {
                    *place = Inside::FieldValue;
                    Ok(State::Value)
                }
                (Some(Inside::Key), _) => Err("after object key".to_owned()),
                (Some(place @ Inside::FieldValue), b',') => {
                    *place = Inside::Key;
                    Ok(State::Key)
                }
                (Some(Inside::FieldValue), b'}') | (Some(Inside::Array), b']') => {
                    inside.pop();
                    Ok(State::AfterValue)
                }
                (Some(Inside::FieldValue), _) => Err("after object key:value pair".to_owned()),
                (Some(Inside::Array), b',') => Ok(State::Value),
                (Some(Inside::Array), _) => Err("after array element".to_owned()),
            },
        };
        match next {
            Ok(next) => state = next,
            Err(context) => {
                let shown = match byte {
                    b'\'' => "'\\''".to_owned(),
                    b'"' => "'\"'".to_owned(),
                    other => format!("'{}'", quote(&char::from(other).to_string()).trim_matches('"')),
                };
                return Some(format!("invalid character {shown} {context}"));
            }
        }
    }
    let complete = inside.is_empty() && matches!(state, State::AfterValue);
    (!complete).then(|| "unexpected end of JSON input".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(body: &str) -> (Value, Vec<String>) {
        let parsed = super::parse(body.as_bytes()).unwrap();
        (parsed.value, parsed.problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_field_given_twice_keeps_its_last_value_and_is_reported_with_its_path() {
        let (value, problems) = parse(r#"{"a":{"b":1,"b":2},"c":[{"d":[{"e":1,"e":2}]}],"a":{"b":4,"b":3}}"#);
        assert_eq!(value, json!({"a": {"b": 3}, "c": [{"d": [{"e": 2}]}]}));
        assert_eq!(
            problems,
            [
                "duplicate field \"a.b\"",
                "duplicate field \"c[0].d[0].e\"",
                "duplicate field \"a\"",
                "duplicate field \"a.b\""
            ]
        );
    }

    #[test]
    fn numbers_keep_their_kind() {
        let (value, _) = parse("[1, -1, 9223372036854775807, 1.5, 2.0, 1e3, 18446744073709551615, -0.0]");
        assert_eq!(value.to_string(), "[1,-1,9223372036854775807,1.5,2,1000,1.8446744073709552e+19,0]");
    }

    #[test]
    fn broken_text_becomes_a_replacement_character() {
        assert_eq!(super::parse(b"[\"a\xffb\"]").unwrap().value, json!(["a\u{fffd}b"]));
        assert_eq!(parse(r#"["\ud800x\\ud800\ud83d\ude00"]"#).0, json!(["\u{fffd}x\\ud800😀"]));
    }

    #[test]
    fn malformed_bodies_are_refused_in_the_words_of_go() {
        for (body, why) in [
            ("", "unexpected end of JSON input"),
            ("{", "unexpected end of JSON input"),
            (r#"{"a":1"#, "unexpected end of JSON input"),
            ("data: x", "invalid character 'd' looking for beginning of value"),
            ("{a", "invalid character 'a' looking for beginning of object key string"),
            (r#"{"a" 1}"#, "invalid character '1' after object key"),
            (r#"{"a":1 2}"#, "invalid character '2' after object key:value pair"),
            (r#"{"a":1,}"#, "invalid character '}' looking for beginning of object key string"),
            ("[1 2]", "invalid character '2' after array element"),
            ("[1,]", "invalid character ']' looking for beginning of value"),
            ("{} x", "invalid character 'x' after top-level value"),
            ("tru!", "invalid character '!' in literal true (expecting 'e')"),
            ("[01]", "invalid character '1' after array element"),
            ("-", "invalid character ' ' in numeric literal"),
            ("nul", "invalid character ' ' in literal null (expecting 'l')"),
            ("[-x]", "invalid character 'x' in numeric literal"),
            ("[1.]", "invalid character ']' after decimal point in numeric literal"),
            ("[1e]", "invalid character ']' in exponent of numeric literal"),
            ("[\"\n\"]", "invalid character '\\n' in string literal"),
            (r#"["\x"]"#, "invalid character 'x' in string escape code"),
            (r#"["\u12x4"]"#, "invalid character 'x' in \\u hexadecimal character escape"),
            ("\0", "invalid character '\\x00' looking for beginning of value"),
            ("'", "invalid character '\\'' looking for beginning of value"),
        ] {
            assert_eq!(super::parse(body.as_bytes()).unwrap_err(), why, "{body}");
        }
        let deep = "[".repeat(200_000) + &"]".repeat(200_000);
        assert_eq!(super::parse(deep.as_bytes()).unwrap_err(), "exceeded max depth");
    }

    #[test]
    fn positions_follow_the_document() {
        let found = positions(br#"{"z":{"a":[1]},"b":1,"z":2}"#, ["z.a[0]", "b", "z", "no"].into_iter());
        assert!(found["z"].0 < found["z.a[0]"].0 && found["z.a[0]"].0 < found["b"].0);
        assert!(found["z"].1 > Some(found["b"].0));
        assert_eq!(found["no"], (usize::MAX, None));
    }
}
