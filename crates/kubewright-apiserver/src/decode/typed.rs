//! A value held against the schema of a built-in kind, as Go's decoder and encoder would treat it.
//!
//! What comes out has the right type everywhere, no unknown and no empty optional fields, and the zeros
//! that Go writes for fields it never leaves out. Wrong types are refused in Go's words. The value is
//! changed in place; paths are only put together once there is something to report.

use serde_json::{Map, Value};

use super::{MAX_PROBLEMS, Parsed, Problem, base64, go, json, time};
use crate::{
    quantity::Quantity,
    schema::{Field, Schema, Type},
};

impl<'a> Parsed<'a> {
    /// The body as an object of a built-in kind, or why it can't be one.
    pub(crate) fn typed(mut self, schema: &Schema) -> Result<Parsed<'a>, String> {
        let raw = (!self.problems.is_empty()).then(Vec::new);
        let mut walk = Walk { words: Words::Json, unknown: Vec::new(), raw, mistakes: Vec::new() };
        walk.root(&mut self.value, schema);
        let mut mistakes = walk.mistakes;
        if mistakes.len() > 1
            && let Some(body) = self.source
        {
            let order = json::positions(body, mistakes.iter().map(|mistake| mistake.path.as_str()));
            mistakes.sort_by_key(|mistake| order.get(&mistake.path).copied());
        }
        if let Some(mistake) = first(mistakes) {
            return Err(mistake);
        }
        let (unknown, raw) = (walk.unknown, walk.raw.unwrap_or_default());
        // A decoder does not look into what it skips, nor into what it keeps as it is.
        self.problems.retain(|problem| match problem {
            Problem::Duplicate(path) => {
                !unknown.iter().any(|unknown| path == unknown || is_below(path, unknown))
                    && !raw.iter().any(|raw| is_below(path, raw))
            }
            _ => true,
        });
        self.problems.extend(unknown.into_iter().map(Problem::Unknown));
        self.sort_problems();
        Ok(self)
    }

    /// Puts problems into the order of the document, each once.
    fn sort_problems(&mut self) {
        if self.problems.len() > 1
            && let Some(body) = self.source
        {
            let path = |problem: &Problem| match problem {
                Problem::Unknown(path) | Problem::Duplicate(path) => path.clone(),
                Problem::Yaml(_) => String::new(),
            };
            let paths: Vec<String> = self.problems.iter().map(path).collect();
            let order = json::positions(body, paths.iter().map(String::as_str));
            self.problems.sort_by_key(|problem| {
                let (first, again) = order.get(&path(problem)).copied().unwrap_or_default();
                if matches!(problem, Problem::Duplicate(_)) { again.unwrap_or(first) } else { first }
            });
            self.problems.dedup();
        }
        self.problems.truncate(MAX_PROBLEMS);
    }
}

/// A value of any origin, or a part of one, as a value of a built-in type: what [`Parsed::typed`] does for a
/// body, with problems in the order of their paths.
pub(crate) fn typed(value: Value, schema: &Schema) -> Result<(Value, Vec<Problem>), String> {
    check(value, schema, Words::Json)
}

/// The value that a strategic merge patch made, as an object of a built-in kind: the same as [`typed`], but
/// through Go's converter, which has other words for wrong types.
pub(crate) fn convert(value: Value, schema: &Schema) -> Result<(Value, Vec<Problem>), String> {
    check(value, schema, Words::Converter)
}

fn check(mut value: Value, schema: &Schema, words: Words) -> Result<(Value, Vec<Problem>), String> {
    let mut walk = Walk { words, unknown: Vec::new(), raw: None, mistakes: Vec::new() };
    walk.root(&mut value, schema);
    if let Some(mistake) = first(walk.mistakes) {
        return Err(mistake);
    }
    walk.unknown.sort_unstable();
    Ok((value, walk.unknown.into_iter().map(Problem::Unknown).collect()))
}

fn is_below(path: &str, ancestor: &str) -> bool {
    path.strip_prefix(ancestor).is_some_and(|rest| rest.starts_with(['.', '[']))
}

/// Of all mistakes, the one that Go reports: what ends decoding comes before what it remembers.
fn first(mistakes: Vec<Mistake>) -> Option<String> {
    let is_final =
        |mistake: &Mistake| matches!(mistake.what, What::Final(_) | What::WrongType { last: true, .. });
    let fatal = mistakes.iter().position(is_final);
    let mistake = mistakes.into_iter().nth(fatal.unwrap_or(0))?;
    Some(match mistake.what {
        What::Final(why) | What::Plain(why) => why,
        What::WrongType { found, expected, .. } => match mistake.structure {
            Some(structure) => {
                let fields: Vec<&str> = mistake.fields.iter().rev().map(String::as_str).collect();
                let fields = fields.join(".");
                format!(
                    "json: cannot unmarshal {found} into Go struct field {structure}.{fields} of type {expected}"
                )
            }
            None => format!("json: cannot unmarshal {found} into Go value of type {expected}"),
        },
    })
}

/// Whose words a mistake is reported in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Words {
    Json,
    Converter,
}

struct Mistake {
    what: What,
    /// Name of the innermost struct around it.
    structure: Option<String>,
    /// Names of the struct fields that lead to it, innermost first.
    fields: Vec<String>,
    /// Where it is.
    path: String,
}

enum What {
    /// A type's own decoder refused: nothing after it is looked at.
    Final(String),
    /// Remembered, with its own words.
    Plain(String),
    /// The place is part of the message. Remembered, unless it is the last thing that is looked at.
    WrongType { found: String, expected: String, last: bool },
}

struct Walk {
    words: Words,
    /// Paths of unknown fields.
    unknown: Vec<String>,
    /// Paths of raw values, which nobody looks into; only if something was found twice.
    raw: Option<Vec<String>>,
    mistakes: Vec<Mistake>,
}

/// How a step shows in paths.
enum Step<'a> {
    Field(&'a str),
    Key(&'a str),
    Index(usize),
}

impl Walk {
    fn root(&mut self, value: &mut Value, schema: &Schema) {
        if value.is_null() {
            *value = zero(schema);
        } else {
            self.node(value, schema);
        }
    }

    /// Runs `visit`, then puts `step` before every path that it reported.
    fn below<T>(&mut self, step: &Step<'_>, visit: impl FnOnce(&mut Self) -> T) -> T {
        let raw = |walk: &Self| walk.raw.as_ref().map_or(0, Vec::len);
        let before = (self.unknown.len(), raw(self), self.mistakes.len());
        let result = visit(self);
        if before == (self.unknown.len(), raw(self), self.mistakes.len()) {
            return result;
        }
        let (unknown, raw, mistakes) = before;
        let text = match step {
            Step::Field(name) | Step::Key(name) => (*name).to_owned(),
            Step::Index(index) => format!("[{index}]"),
        };
        let join = |path: &str| match path {
            "" => text.clone(),
            path if path.starts_with('[') => format!("{text}{path}"),
            path => format!("{text}.{path}"),
        };
        let raw = self.raw.iter_mut().flat_map(|paths| &mut paths[raw..]);
        for path in self.unknown[unknown..].iter_mut().chain(raw) {
            *path = join(path);
        }
        for mistake in &mut self.mistakes[mistakes..] {
            mistake.path = join(&mistake.path);
            if matches!(step, Step::Field(_)) {
                mistake.fields.push(text.clone());
            }
        }
        result
    }

    fn refuse(&mut self, what: What) {
        // The converter knows no places.
        let what = match what {
            What::WrongType { found, expected, .. } if self.words == Words::Converter => {
                What::Final(format!("json: cannot unmarshal {found} into Go value of type {expected}"))
            }
            other => other,
        };
        self.mistakes.push(Mistake { what, structure: None, fields: Vec::new(), path: String::new() });
    }

    fn wrong_type(&mut self, value: &Value, schema: &Schema) {
        let what = match self.words {
            Words::Json => What::WrongType {
                found: match (value, schema.ty) {
                    (Value::Number(number), Type::Integer | Type::Number) => format!("number {number}"),
                    _ => go::json_kind(value).to_owned(),
                },
                expected: type_name(schema),
                last: false,
            },
            Words::Converter => {
                let kind = go::kind_of(value);
                What::Final(match schema.ty {
                    Type::Object if schema.values.is_some() => format!("cannot restore map from {kind}"),
                    Type::Object => format!("cannot restore struct from: {kind}"),
                    Type::Array => format!("cannot restore slice from {kind}"),
                    Type::String if schema.format.as_deref() == Some("byte") => {
                        format!("cannot restore slice from {kind}")
                    }
                    // Go can make a string of an integer, and an integer of a float, but does not here.
                    Type::String if kind == "int64" => {
                        format!("cannot convert int64 to {}", type_name(schema))
                    }
                    Type::Integer if kind == "float64" => {
                        format!("cannot convert float64 to {}", type_name(schema))
                    }
                    _ => format!("unrecognized type: {}", basic_kind(schema)),
                })
            }
        };
        self.refuse(what);
    }

    /// A value that is there and not `null`.
    fn node(&mut self, value: &mut Value, schema: &Schema) {
        match schema.ty {
            Type::Any => {
                if let Some(raw) = &mut self.raw {
                    raw.push(String::new());
                }
            }
            Type::Object => match (value, &schema.values) {
                (Value::Object(map), None) => self.structure(map, schema),
                (Value::Object(map), Some(values)) => {
                    for (key, value) in map.iter_mut() {
                        self.below(&Step::Key(key), |walk| walk.item(value, values));
                    }
                }
                (other, _) => self.wrong_type(other, schema),
            },
            Type::Array => match (value, &schema.items) {
                (Value::Array(items), Some(item)) => {
                    for (index, value) in items.iter_mut().enumerate() {
                        self.below(&Step::Index(index), |walk| walk.item(value, item));
                    }
                }
                (Value::Array(_), None) => {}
                (other, _) => self.wrong_type(other, schema),
            },
            Type::String => self.string(value, schema),
            Type::Integer => self.integer(value, schema),
            Type::Number => {
                if !value.is_number() {
                    self.wrong_type(value, schema);
                }
            }
            Type::Boolean => {
                if !value.is_boolean() {
                    self.wrong_type(value, schema);
                }
            }
            Type::IntOrString => match value {
                Value::String(_) => {}
                Value::Number(number) if number.as_i64().is_some_and(|it| i32::try_from(it).is_ok()) => {}
                other => {
                    let found = match other {
                        Value::Number(number) => format!("number {number}"),
                        other => go::json_kind(other).to_owned(),
                    };
                    self.refuse(What::WrongType { found, expected: "int32".to_owned(), last: true });
                }
            },
        }
    }

    /// An item of a list or a value of a map. Unless it is a pointer, `null` leaves the zero.
    fn item(&mut self, value: &mut Value, schema: &Schema) {
        match value {
            Value::Null if schema.nullable && schema.ty != Type::Any => {}
            Value::Null => *value = zero(schema),
            _ => self.node(value, schema),
        }
    }

    fn structure(&mut self, map: &mut Map<String, Value>, schema: &Schema) {
        let before = self.mistakes.len();
        map.retain(|key, value| match schema.properties.get(key) {
            Some(field) => self.below(&Step::Field(key), |walk| walk.field(value, field)),
            None if schema.preserve_unknown => true,
            None => {
                self.unknown.push(key.clone());
                false
            }
        });
        if self.mistakes.len() > before {
            let name = struct_name(schema);
            for mistake in &mut self.mistakes[before..] {
                mistake.structure.get_or_insert_with(|| name.to_owned());
            }
        }
        fill(map, schema);
    }

    /// Whether the field stays.
    fn field(&mut self, value: &mut Value, field: &Field) -> bool {
        let schema = &*field.schema;
        if value.is_null() {
            if field.pointer {
                return !field.omit_empty;
            }
            if schema.format.as_deref() == Some("duration") {
                self.refuse(What::Final("time: invalid duration \"\"".to_owned()));
            }
            *value = zero(schema);
        } else {
            self.node(value, schema);
        }
        if field.pointer || !is_empty(value) || is_structure(schema) {
            return true;
        }
        // Stored objects have no empty lists and maps, only absent ones.
        if matches!(value, Value::Array(_) | Value::Object(_)) {
            *value = Value::Null;
        }
        !field.omit_empty
    }

    fn string(&mut self, value: &mut Value, schema: &Schema) {
        let format = schema.format.as_deref().unwrap_or_default();
        let replaced = match (&*value, format) {
            (Value::String(text), "quantity") => {
                quantity(text.trim()).map(|written| (written != *text).then_some(written))
            }
            (other, "quantity") => quantity(&other.to_string()).map(Some),
            (Value::String(text), "byte") => match base64::canonical(text) {
                Ok(written) => Ok((written != text.as_str()).then(|| written.into_owned())),
                Err(why) => {
                    let what = match self.words {
                        Words::Json => What::Plain(why),
                        Words::Converter => What::Final(format!("error decoding from json: {why}")),
                    };
                    return self.refuse(what);
                }
            },
            (Value::String(text), "date-time" | "micro-time") => {
                let read = if format == "date-time" { time::seconds(text) } else { time::microseconds(text) };
                match read {
                    Ok(Some(written)) => Ok((written != *text).then_some(written)),
                    Ok(None) => {
                        *value = Value::Null;
                        return;
                    }
                    Err(why) => Err(why),
                }
            }
            (Value::String(text), "duration") => time::parse_duration(text).map(|nanoseconds| {
                let written = time::format_duration(nanoseconds);
                (written != *text).then_some(written)
            }),
            (Value::String(_), _) => Ok(None),
            (other, "date-time" | "micro-time" | "duration") => {
                let found = go::json_kind(other).to_owned();
                return self.refuse(What::WrongType { found, expected: "string".to_owned(), last: true });
            }
            (other, _) => return self.wrong_type(other, schema),
        };
        match replaced {
            Ok(None) => {}
            Ok(Some(written)) => *value = Value::String(written),
            Err(why) => self.refuse(What::Final(why)),
        }
    }

    fn integer(&mut self, value: &mut Value, schema: &Schema) {
        let fits = |number: i64| match schema.format.as_deref() {
            Some("int32") => i32::try_from(number).is_ok(),
            Some("uint32") => u32::try_from(number).is_ok(),
            Some("uint64") => number >= 0,
            _ => true,
        };
        match value.as_i64() {
            Some(number) if fits(number) => {}
            // The converter cuts what does not fit, as Go's conversions do.
            #[expect(clippy::cast_possible_truncation, reason = "wrapping is what is wanted")]
            Some(number) if self.words == Words::Converter => *value = Value::from(number as i32),
            _ => self.wrong_type(value, schema),
        }
    }
}

fn quantity(text: &str) -> Result<String, String> {
    Quantity::parse(text).map(|quantity| quantity.to_string()).map_err(|error| error.to_string())
}

/// Go leaves a struct in its JSON even when it is empty; so for everything that is a struct there.
fn is_structure(schema: &Schema) -> bool {
    match schema.ty {
        Type::Object => schema.values.is_none(),
        Type::Any | Type::IntOrString => true,
        Type::String => {
            matches!(schema.format.as_deref(), Some("date-time" | "micro-time" | "quantity" | "duration"))
        }
        _ => false,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

/// Adds what Go writes for the fields that are not there.
fn fill(map: &mut Map<String, Value>, schema: &Schema) {
    for (name, field) in &schema.properties {
        let left_out = field.omit_empty && (field.pointer || !is_structure(&field.schema));
        if !left_out && !map.contains_key(name) {
            let value = if field.pointer { Value::Null } else { zero(&field.schema) };
            map.insert(name.clone(), value);
        }
    }
}

/// What Go writes for a value that was never set.
fn zero(schema: &Schema) -> Value {
    match schema.ty {
        Type::Object if schema.values.is_none() => {
            let mut map = Map::new();
            fill(&mut map, schema);
            Value::Object(map)
        }
        Type::Any | Type::Object | Type::Array => Value::Null,
        Type::String => match schema.format.as_deref() {
            Some("quantity") => Value::from("0"),
            Some("duration") => Value::from("0s"),
            Some("date-time" | "micro-time" | "byte") => Value::Null,
            _ => Value::from(""),
        },
        Type::Integer | Type::Number | Type::IntOrString => Value::from(0),
        Type::Boolean => Value::Bool(false),
    }
}

/// The Go type of a node, as messages name it.
fn type_name(schema: &Schema) -> String {
    if let Some(name) = schema.name {
        return go_name(name);
    }
    match schema.ty {
        Type::Any => "interface {}".to_owned(),
        Type::Object => match &schema.values {
            Some(values) => format!("map[string]{}", type_name(values)),
            None => "struct {}".to_owned(),
        },
        Type::Array => {
            let item =
                schema.items.as_ref().map_or_else(|| "interface {}".to_owned(), |item| type_name(item));
            format!("[]{item}")
        }
        Type::IntOrString => "intstr.IntOrString".to_owned(),
        Type::String if is_structure(schema) => match schema.format.as_deref() {
            Some("quantity") => "resource.Quantity".to_owned(),
            Some("micro-time") => "v1.MicroTime".to_owned(),
            Some("duration") => "v1.Duration".to_owned(),
            _ => "v1.Time".to_owned(),
        },
        _ => basic_kind(schema).to_owned(),
    }
}

/// The Go kind of a scalar.
fn basic_kind(schema: &Schema) -> &str {
    match (schema.ty, schema.format.as_deref()) {
        (Type::Integer, Some(format @ ("int32" | "uint32" | "uint64"))) => format,
        (Type::Integer, _) => "int64",
        (Type::Number, _) => "float64",
        (Type::Boolean, _) => "bool",
        (_, Some("byte")) => "[]uint8",
        _ => "string",
    }
}

/// The Go type of a definition: its package and name, such as `v1.ObjectMeta`.
fn go_name(definition: &str) -> String {
    let mut parts = definition.rsplitn(3, '.');
    let (name, package) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    format!("{package}.{name}")
}

/// The name of a struct without its package.
fn struct_name(schema: &Schema) -> &str {
    let name = schema.name.unwrap_or_default();
    name.rsplit('.').next().unwrap_or_default()
}
