//! YAML bodies to values, by the rules of YAML 1.1 as go-yaml v2 knows them.
//!
//! `yes` is a boolean, `0777` is octal, keys become strings, aliases and merge keys are resolved, and only
//! the first document counts. What aliases may unfold into is limited, so that a small body can't become a
//! large value.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use granit_parser::{Event, Parser, ScalarStyle, Span, StrInput, Tag};
use serde_json::{Map, Value};

use super::{Parsed, Problem, go, json};

const MAX_DEPTH: usize = 128;
const MAX_COPIED_BYTES: usize = 16 << 20;
const TAG_PREFIX: &str = "tag:yaml.org,2002:";

/// Reads a YAML body. The error is as go-yaml words it, though not its details of syntax.
pub(crate) fn parse(body: &[u8]) -> Result<Parsed<'static>, String> {
    // JSON is YAML too, and most clients send it; what it has twice, YAML reports by the line.
    if body.trim_ascii_start().starts_with(b"{")
        && let Ok(Parsed { value, problems, .. }) = json::parse(body)
        && problems.is_empty()
    {
        return Ok(Parsed { value, problems, source: None });
    }
    let text = std::str::from_utf8(body).map_err(|_| "yaml: invalid leading UTF-8 octet".to_owned())?;
    let options = granit_parser::options! { emit_unresolved_aliases: true, emit_comments: false };
    let mut reader = Reader {
        text,
        parser: Parser::new_from_str_with_options(text, options),
        anchors: BTreeMap::new(),
        repeated: Vec::new(),
        nodes: 0,
        copied_nodes: 0,
        copied_bytes: 0,
    };
    let value = reader.document().map_err(|why| {
        // These two are found when the value becomes JSON.
        let from_json = why.starts_with("json: ") || why.starts_with("unsupported map key");
        if from_json { why } else { format!("yaml: {why}") }
    })?;
    let mut problems = Vec::new();
    if !reader.repeated.is_empty() {
        problems.push(Problem::Yaml(format!("yaml: unmarshal errors:\n  {}", reader.repeated.join("\n  "))));
    }
    Ok(Parsed { value, problems, source: None })
}

struct Anchored {
    value: Value,
    nodes: usize,
    bytes: usize,
}

struct Reader<'a> {
    text: &'a str,
    parser: Parser<'a, StrInput<'a>>,
    anchors: BTreeMap<usize, Anchored>,
    /// Keys that were set twice, as go-yaml reports them.
    repeated: Vec<String>,
    nodes: usize,
    copied_nodes: usize,
    copied_bytes: usize,
}

type Read<T> = Result<T, String>;

impl<'a> Reader<'a> {
    fn next(&mut self) -> Read<(Event<'a>, Span)> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(syntax(error.marker().line(), &error.info())),
            None => Ok((Event::StreamEnd, Span::empty(granit_parser::Marker::new(0, 1, 0)))),
        }
    }

    fn document(&mut self) -> Read<Value> {
        let mut value = Value::Null;
        loop {
            match self.next()? {
                (Event::StreamStart | Event::DocumentStart(..), _) => {}
                (Event::StreamEnd | Event::DocumentEnd, _) => return Ok(value),
                (event, span) => value = self.node(event, span, 0)?,
            }
        }
    }

    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Read<Value> {
        if depth > MAX_DEPTH {
            return Err("exceeded max depth".to_owned());
        }
        let before = self.nodes;
        self.nodes += 1;
        let (value, anchor) = match event {
            Event::Alias(id) => return self.alias(id, span),
            Event::UnresolvedAlias(name) => return Err(format!("unknown anchor '{name}' referenced")),
            Event::Scalar(text, style, anchor, tag) => (scalar(&text, style, tag.as_deref())?, anchor),
            Event::SequenceStart(_, anchor, _) => {
                let mut items = Vec::new();
                loop {
                    match self.next()? {
                        (Event::SequenceEnd, _) => break,
                        (event, span) => items.push(self.node(event, span, depth + 1)?),
                    }
                }
                (Value::Array(items), anchor)
            }
            Event::MappingStart(_, anchor, _) => (Value::Object(self.mapping(depth)?), anchor),
            _ => return Err("did not find expected node content".to_owned()),
        };
        if anchor != 0 {
            let anchored =
                Anchored { nodes: self.nodes - before, bytes: weight(&value), value: value.clone() };
            self.anchors.insert(anchor, anchored);
        }
        Ok(value)
    }

    fn mapping(&mut self, depth: usize) -> Read<Map<String, Value>> {
        let mut map = Map::new();
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::MappingEnd) {
                return Ok(map);
            }
            let merge = match &event {
                Event::Scalar(text, style, _, tag) if text == "<<" => {
                    (*style == ScalarStyle::Plain && tag.is_none())
                        || tag.as_ref().is_some_and(|tag| tag.suffix() == "merge")
                }
                _ => false,
            };
            let key = self.node(event, span, depth + 1)?;
            let (event, span) = self.next()?;
            let line = span.start.line();
            let value = self.node(event, span, depth + 1)?;
            if merge {
                self.merge(&mut map, value, line)?;
            } else {
                let shown = if key.is_string() {
                    go::quote(key.as_str().unwrap_or_default())
                } else {
                    key.to_string()
                };
                self.set(&mut map, key_text(key, &value)?, &shown, value, line);
            }
        }
    }

    fn set(&mut self, map: &mut Map<String, Value>, key: String, shown: &str, value: Value, line: usize) {
        if map.insert(key, value).is_some() {
            self.repeated.push(format!("line {line}: key {shown} already set in map"));
        }
    }

    fn merge(&mut self, map: &mut Map<String, Value>, value: Value, line: usize) -> Read<()> {
        let sources = match value {
            Value::Object(_) => vec![value],
            // Earlier ones win, so they are written last.
            Value::Array(items) => items.into_iter().rev().collect(),
            _ => Vec::from([Value::Null]),
        };
        for source in sources {
            let Value::Object(source) = source else {
                return Err("map merge requires map or sequence of maps as the value".to_owned());
            };
            for (key, value) in source {
                let shown = go::quote(&key);
                self.set(map, key, &shown, value, line);
            }
        }
        Ok(())
    }

    fn alias(&mut self, id: usize, span: Span) -> Read<Value> {
        let Some(anchored) = self.anchors.get(&id) else {
            let name = span.slice(self.text).unwrap_or_default().trim_start_matches('*');
            return Err(format!("anchor '{name}' value contains itself"));
        };
        self.nodes = self.nodes.saturating_add(anchored.nodes);
        self.copied_nodes = self.copied_nodes.saturating_add(anchored.nodes);
        self.copied_bytes = self.copied_bytes.saturating_add(anchored.bytes);
        if self.excessive() {
            return Err("document contains excessive aliasing".to_owned());
        }
        Ok(anchored.value.clone())
    }

    /// Small documents may consist of copies nearly wholly, large ones to a tenth.
    fn excessive(&self) -> bool {
        const LOW: usize = 400_000;
        const HIGH: usize = 4_000_000;
        if self.copied_bytes > MAX_COPIED_BYTES {
            return true;
        }
        if self.copied_nodes <= 100 || self.nodes <= 1000 {
            return false;
        }
        #[expect(clippy::cast_precision_loss, reason = "a ratio")]
        let (copied, all) = (self.copied_nodes as f64, self.nodes as f64);
        #[expect(clippy::cast_precision_loss, reason = "small constants")]
        let allowed = match self.nodes {
            ..=LOW => 0.99,
            HIGH.. => 0.10,
            _ => 0.99 - 0.89 * (all - LOW as f64) / (HIGH - LOW) as f64,
        };
        copied / all > allowed
    }
}

/// A syntax error, in the words of go-yaml where it has the same one. It counts lines from zero, and does not
/// mention that one.
fn syntax(line: usize, found: &str) -> String {
    let words = if found.starts_with("unexpected character") {
        "found character that cannot start any token"
    } else if found.starts_with("unclosed quote") {
        "found unexpected end of stream"
    } else {
        found
    };
    if line > 1 { format!("line {line}: {words}") } else { words.to_owned() }
}

/// About how many bytes a value holds.
fn weight(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 16,
        Value::Array(items) => items.iter().map(weight).sum::<usize>() + 16,
        Value::Object(map) => {
            map.iter().map(|(key, value)| key.len() + weight(value) + 16).sum::<usize>() + 16
        }
        _ => 16,
    }
}

fn key_text(key: Value, value: &Value) -> Read<String> {
    match key {
        Value::String(text) => Ok(text),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(flag) => Ok(flag.to_string()),
        Value::Null => {
            Err(format!("unsupported map key of type: %!s(<nil>), key: <nil>, value: {}", go::print(value)))
        }
        Value::Array(_) | Value::Object(_) => Err(format!("invalid map key: {}", go::print(&key))),
    }
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Read<Value> {
    let string = || Value::String(text.to_owned());
    let tag = match tag {
        None if style == ScalarStyle::Plain => "",
        None => return Ok(string()),
        Some(tag) if tag.handle() == TAG_PREFIX => tag.suffix(),
        Some(tag) => match tag.handle().strip_prefix(TAG_PREFIX) {
            Some(suffix) if tag.suffix().is_empty() => suffix,
            _ => return Ok(string()),
        },
    };
    match tag {
        "" | "null" | "bool" | "int" | "float" | "timestamp" => {}
        "binary" => {
            let bytes = STANDARD
                .decode(text.replace(['\n', '\r', ' '], ""))
                .map_err(|_| "!!binary value contains invalid base64 data".to_owned())?;
            return Ok(Value::String(String::from_utf8_lossy(&bytes).into_owned()));
        }
        _ => return Ok(string()),
    }
    let value = resolve(text)?;
    let found = match &value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float",
        Value::Number(_) => "int",
        _ => "str",
    };
    match tag {
        "timestamp" => Ok(string()),
        "" => Ok(value),
        "float" if found == "int" => Ok(value),
        tag if tag == found => Ok(value),
        tag => Err(format!("cannot decode !!{found} `{text}` as a !!{tag}")),
    }
}

/// What an untagged plain text stands for.
fn resolve(text: &str) -> Read<Value> {
    Ok(match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Value::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Value::Bool(false)
        }
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        ".nan" | ".NaN" | ".NAN" => return Err("json: unsupported value: NaN".to_owned()),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => {
            return Err("json: unsupported value: +Inf".to_owned());
        }
        "-.inf" | "-.Inf" | "-.INF" => return Err("json: unsupported value: -Inf".to_owned()),
        _ => {
            let number = match text.as_bytes()[0] {
                b'.' => float(text),
                b'+' | b'-' | b'0'..=b'9' => {
                    let plain = text.replace('_', "");
                    integer(&plain).or_else(|| float(&plain))
                }
                _ => None,
            };
            number.unwrap_or_else(|| Value::String(text.to_owned()))
        }
    })
}

fn integer(text: &str) -> Option<Value> {
    let (negative, signed, digits) = match text.as_bytes().first()? {
        b'-' => (true, true, &text[1..]),
        b'+' => (false, true, &text[1..]),
        _ => (false, false, text),
    };
    let (radix, digits) = match digits.get(..2) {
        Some("0x" | "0X") => (16, &digits[2..]),
        Some("0o" | "0O") => (8, &digits[2..]),
        Some("0b" | "0B") => (2, &digits[2..]),
        Some(octal) if octal.starts_with('0') => (8, &digits[1..]),
        _ => (10, digits),
    };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let size = u64::from_str_radix(digits, radix).ok()?;
    let value = if negative { -i128::from(size) } else { i128::from(size) };
    match i64::try_from(value) {
        Ok(value) => Some(Value::from(value)),
        #[expect(clippy::cast_precision_loss, reason = "as JSON numbers of this size do")]
        Err(_) if !signed => Some(Value::from(size as f64)),
        Err(_) => None,
    }
}

fn float(text: &str) -> Option<Value> {
    if !text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-')) {
        return None;
    }
    let value: f64 = text.parse().ok()?;
    value.is_finite().then(|| json::number(value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(body: &str) -> Value {
        parse(body.as_bytes()).unwrap_or_else(|why| panic!("{body}: {why}")).value
    }

    fn refused(body: &str) -> String {
        parse(body.as_bytes()).map(|parsed| parsed.value).unwrap_err()
    }

    #[test]
    fn plain_scalars_follow_yaml_1_1() {
        for (text, expected) in [
            ("y", json!(true)),
            ("Off", json!(false)),
            ("yEs", json!("yEs")),
            ("~", json!(null)),
            ("", json!(null)),
            ("0777", json!(511)),
            ("0o17", json!(15)),
            ("0x1F", json!(31)),
            ("0b101", json!(5)),
            ("-0b11", json!(-3)),
            ("1_000", json!(1000)),
            ("089", json!(89)),
            ("1e3", json!(1000)),
            ("1.50", json!(1.5)),
            (".5", json!(0.5)),
            ("1.2.3", json!("1.2.3")),
            ("12:30:45", json!("12:30:45")),
            ("2001-12-14", json!("2001-12-14")),
            ("'y'", json!("y")),
            ("\"1\"", json!("1")),
            ("!!str 1", json!("1")),
            ("!!int 5", json!(5)),
            ("!!float 5", json!(5)),
            ("!custom 5", json!("5")),
            ("!!binary aGk=", json!("hi")),
            ("1e400", json!("1e400")),
            ("-", json!([null])),
            ("+", json!("+")),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn structure_keys_anchors_and_merges_are_resolved() {
        assert_eq!(
            read(
                "a: &x {p: 1, q: 2}\nb:\n  <<: *x\n  q: 3\nc: [*x, two]\n1: one\ntrue: yes\n---\nnext: document\n"
            ),
            json!({"a": {"p": 1, "q": 2}, "b": {"p": 1, "q": 3}, "c": [{"p": 1, "q": 2}, "two"], "1": "one", "true": true})
        );
        assert_eq!(read("a: &x {p: 1}\nb: &y {p: 2, q: 2}\nc: {<<: [*x, *y]}")["c"], json!({"p": 1, "q": 2}));
        assert_eq!(read("# nothing"), json!(null));
        let commented = "# head\na: # of a\n  # of b\n  b: 1 # end\n  c: # list\n  # item\n  - x # x\n";
        assert_eq!(read(commented), json!({"a": {"b": 1, "c": ["x"]}}));
        assert_eq!(
            read("text: |\n  a\n  b\nfold: >\n  a\n  b\n"),
            json!({"text": "a\nb\n", "fold": "a b\n"})
        );
        assert_eq!(read(r#"{"a": [1, {"b": null}]}"#), json!({"a": [1, {"b": null}]}));
    }

    #[test]
    fn a_key_set_twice_is_a_strict_problem() {
        let parsed = parse(b"a: 1\nb:\n  c: 1\n  c: 2\na: 3\n").unwrap();
        assert_eq!(parsed.value, json!({"a": 3, "b": {"c": 2}}));
        assert_eq!(
            parsed.problems[0].to_string(),
            "yaml: unmarshal errors:\n  line 4: key \"c\" already set in map\n  line 5: key \"a\" already set in map"
        );
    }

    #[test]
    fn what_no_value_can_be_made_of_is_refused() {
        assert_eq!(refused("a: *x"), "yaml: unknown anchor 'x' referenced");
        assert_eq!(refused("a: &x [*x]"), "yaml: anchor 'x' value contains itself");
        assert_eq!(refused("!!int abc"), "yaml: cannot decode !!str `abc` as a !!int");
        assert_eq!(refused("<<: 5"), "yaml: map merge requires map or sequence of maps as the value");
        assert_eq!(refused("a: @x"), "yaml: found character that cannot start any token");
        assert_eq!(refused("b: 1\na: b: c"), "yaml: line 2: mapping values are not allowed in this context");
        assert_eq!(refused(".nan"), "json: unsupported value: NaN");
        assert!(refused("null: 1").starts_with("unsupported map key of type: "));
        assert!(refused("{[a]: b}").starts_with("yaml: invalid map key: "));
        assert!(refused(&"[".repeat(200)).starts_with("yaml: "));
    }

    #[test]
    fn aliases_may_not_unfold_into_a_bomb() {
        let mut body = "a: &a [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for (name, before) in ('b'..='j').zip('a'..) {
            body += &format!("{name}: &{name} [{}]\n", vec![format!("*{before}"); 9].join(", "));
        }
        assert_eq!(refused(&body), "yaml: document contains excessive aliasing");
        let long = format!("a: &a {}\nb: [{}]", "x".repeat(1 << 20), vec!["*a"; 50].join(", "));
        assert_eq!(refused(&long), "yaml: document contains excessive aliasing");
    }
}
