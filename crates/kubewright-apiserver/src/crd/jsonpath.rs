//! JSONPath as printer columns and selectable fields use it: client-go's dialect, missing keys allowed.
//!
//! Only the first expression of a template matters to a column, so that is all there is.

use std::{borrow::Cow, cmp::Ordering};

use serde_json::{Number, Value};

/// A parsed path.
#[derive(Debug, Clone)]
pub(crate) struct JsonPath {
    nodes: Vec<Node>,
}

#[derive(Debug, Clone)]
enum Node {
    Field(String),
    Wildcard,
    Recursive,
    Slice { from: Option<i64>, to: To, step: Option<i64> },
    Filter { left: Vec<Node>, operator: String, right: Vec<Node> },
    Exists(Vec<Node>),
    Union(Vec<Vec<Node>>),
    Literal(Value),
    Identifier(String),
}

/// Where a slice ends.
#[derive(Debug, Clone, Copy)]
enum To {
    End,
    At(i64),
    /// One after the start: a plain index.
    Next(i64),
}

type Found<'a> = Vec<Cow<'a, Value>>;

impl JsonPath {
    /// Parses a path such as `.status.conditions[?(@.type=="Ready")].status`, without braces.
    pub(crate) fn parse(path: &str) -> Result<Self, String> {
        Ok(Self { nodes: parse_action(path)? })
    }

    /// The values at the path, in order.
    pub(crate) fn find<'a>(&self, object: &'a Value) -> Result<Found<'a>, String> {
        walk_all(vec![Cow::Borrowed(object)], &self.nodes)
    }
}

struct Parser<'a> {
    input: &'a str,
    position: usize,
}

fn parse_action(text: &str) -> Result<Vec<Node>, String> {
    let input = format!("{text}}}");
    let mut parser = Parser { input: &input, position: 0 };
    let mut nodes = Vec::new();
    while !parser.rest().starts_with('}') {
        parser.node(&mut nodes)?;
    }
    Ok(nodes)
}

fn is_terminator(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.input[self.position..]
    }

    fn next(&mut self) -> Option<char> {
        let character = self.rest().chars().next()?;
        self.position += character.len_utf8();
        Some(character)
    }

    fn take_while(&mut self, keep: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let length = rest.find(|character| !keep(character)).unwrap_or(rest.len());
        self.position += length;
        &rest[..length]
    }

    fn node(&mut self, nodes: &mut Vec<Node>) -> Result<(), String> {
        if self.rest().starts_with("[?(") {
            self.position += 3;
            nodes.push(self.filter()?);
            return Ok(());
        }
        if self.rest().starts_with("..") {
            if matches!(nodes.last(), Some(Node::Recursive)) {
                return Err("invalid multiple recursive descent".to_owned());
            }
            self.position += 2;
            nodes.push(Node::Recursive);
            if self.rest().starts_with(|next: char| next == '_' || next.is_alphanumeric()) {
                nodes.push(self.field());
            }
            return Ok(());
        }
        let start = self.position;
        match self.next() {
            None | Some('\r' | '\n') => return Err("unclosed action".to_owned()),
            Some(' ' | '@' | '$') => {}
            Some('[') => self.array(nodes)?,
            Some(quote @ ('"' | '\'')) => nodes.push(Node::Literal(self.quoted(quote)?.into())),
            Some('.') => nodes.push(self.field()),
            Some(digit) if matches!(digit, '+' | '-') || digit.is_numeric() => {
                self.take_while(|next| next == '.' || next.is_numeric());
                let text = &self.input[start..self.position];
                let whole = text.parse::<i64>().ok().map(Value::from);
                let number = whole.or_else(|| text.parse::<f64>().ok().map(Value::from));
                nodes.push(Node::Literal(number.ok_or_else(|| format!("cannot parse number {text}"))?));
            }
            Some(letter) if letter == '_' || letter.is_alphanumeric() => {
                self.take_while(|next| !is_terminator(next));
                nodes.push(match &self.input[start..self.position] {
                    "true" => Node::Literal(true.into()),
                    "false" => Node::Literal(false.into()),
                    other => Node::Identifier(other.to_owned()),
                });
            }
            Some(other) => return Err(format!("unrecognized character in action: {other:?}")),
        }
        Ok(())
    }

    /// The name after a dot; a backslash takes the next character as it is.
    fn field(&mut self) -> Node {
        let mut name = String::new();
        while let Some(character) = self.rest().chars().next().filter(|next| !is_terminator(*next)) {
            self.position += character.len_utf8();
            if character == '\\' {
                name.extend(self.next().filter(|escaped| *escaped != '\\'));
            } else {
                name.push(character);
            }
        }
        if name == "*" { Node::Wildcard } else { Node::Field(name) }
    }

    fn quoted(&mut self, quote: char) -> Result<String, String> {
        let mut text = String::new();
        loop {
            match self.next() {
                None | Some('\n') => return Err("unterminated quoted string".to_owned()),
                Some('\\') => match self.next() {
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some('r') => text.push('\r'),
                    Some(other) => text.push(other),
                    None => return Err("unterminated quoted string".to_owned()),
                },
                Some(end) if end == quote => return Ok(text),
                Some(other) => text.push(other),
            }
        }
    }

    /// Behind a `[`.
    fn array(&mut self, nodes: &mut Vec<Node>) -> Result<(), String> {
        let end = self.rest().find([']', '\n']).filter(|end| self.rest().as_bytes()[*end] == b']');
        let end = end.ok_or("unterminated array")?;
        let text = &self.rest()[..end];
        self.position += end + 1;
        if text.contains(',') {
            let parts = text.split(',').map(|part| parse_action(&format!("[{}]", part.trim_matches(' '))));
            nodes.push(Node::Union(parts.collect::<Result<_, _>>()?));
            return Ok(());
        }
        if let Some(key) = text.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''))
            && !key.contains('\'')
        {
            nodes.extend(parse_action(&format!(".{key}"))?);
            return Ok(());
        }
        nodes.push(slice(if text == "*" { ":" } else { text })?);
        Ok(())
    }

    /// Behind a `[?(`.
    fn filter(&mut self) -> Result<Node, String> {
        let start = self.position;
        let mut quote: Option<char> = None;
        let mut previous = ' ';
        loop {
            match self.next() {
                None | Some('\n') => return Err("unterminated filter".to_owned()),
                Some(mark @ ('"' | '\'')) => match quote {
                    None => quote = Some(mark),
                    Some(open) if open == mark && previous != '\\' => quote = None,
                    Some(_) => {}
                },
                Some(')') if quote.is_none() => break,
                Some(other) => {
                    previous = other;
                    continue;
                }
            }
            previous = ' ';
        }
        let text = &self.input[start..self.position - 1];
        if self.next() != Some(']') {
            return Err("unclosed array expect ]".to_owned());
        }
        let is_operator = |character: char| matches!(character, '!' | '<' | '>' | '=');
        let left = text.find(is_operator).filter(|at| *at > 0);
        let Some(left) = left else { return Ok(Node::Exists(parse_action(text)?)) };
        let (left, rest) = text.split_at(left);
        let length = rest.find(|character| !is_operator(character)).unwrap_or(rest.len());
        let (operator, right) = rest.split_at(length);
        if right.is_empty() {
            return Ok(Node::Exists(parse_action(text)?));
        }
        let operator = operator.to_owned();
        Ok(Node::Filter { left: parse_action(left)?, operator, right: parse_action(right)? })
    }
}

fn slice(text: &str) -> Result<Node, String> {
    let parts: Vec<&str> = text.split(':').collect();
    let number = |part: &str| match part {
        "" => Ok(None),
        "-" => Err(format!("array index {part} is not a number")),
        part => {
            let digits = part.strip_prefix('-').unwrap_or(part);
            let known = digits.bytes().all(|byte| byte.is_ascii_digit());
            let number = part.parse::<i64>().ok().filter(|_| known);
            number.map(Some).ok_or_else(|| format!("invalid array index {text}"))
        }
    };
    if parts.len() > 3 {
        return Err(format!("invalid array index {text}"));
    }
    let from = number(parts[0])?;
    let to = match parts.get(1) {
        None => To::Next(from.unwrap_or_default().saturating_add(1)),
        Some(part) => number(part)?.map_or(To::End, To::At),
    };
    let step = parts.get(2).map_or(Ok(None), |part| number(part))?;
    Ok(Node::Slice { from, to, step })
}

fn walk_all<'a>(found: Found<'a>, nodes: &[Node]) -> Result<Found<'a>, String> {
    nodes.iter().try_fold(found, walk)
}

fn walk<'a>(input: Found<'a>, node: &Node) -> Result<Found<'a>, String> {
    match node {
        Node::Field(name) => Ok(input.into_iter().filter_map(|value| field(value, name)).collect()),
        Node::Wildcard => Ok(input.into_iter().flat_map(children).collect()),
        Node::Recursive => {
            let mut found = Vec::new();
            input.into_iter().for_each(|value| descend(value, &mut found));
            Ok(found)
        }
        Node::Slice { from, to, step } => {
            let mut found = Vec::new();
            for value in input.into_iter().filter(|value| !value.is_null()) {
                let items = items(value).map_err(|value| format!("{value} is not array or slice"))?;
                found.extend(slice_of(items, *from, *to, *step)?);
            }
            Ok(found)
        }
        Node::Exists(path) => filter(input, |item| {
            Ok(walk_all(vec![Cow::Borrowed(item)], path).is_ok_and(|found| !found.is_empty()))
        }),
        Node::Filter { left, operator, right } => filter(input, |item| {
            let side = |nodes| -> Result<Option<Value>, String> {
                let mut found = walk_all(vec![Cow::Borrowed(item)], nodes)?;
                match found.len() {
                    0 => Ok(None),
                    1 => Ok(found.pop().map(Cow::into_owned)),
                    _ => Err("can only compare one element at a time".to_owned()),
                }
            };
            match side(left)?.zip(side(right)?) {
                Some((left, right)) => compare(&left, operator, &right),
                None => Ok(false),
            }
        }),
        Node::Union(parts) => {
            let mut found = Vec::new();
            for part in parts {
                found.extend(walk_all(input.clone(), part)?);
            }
            Ok(found)
        }
        Node::Literal(Value::String(text)) => Ok(vec![Cow::Owned(text.as_str().into())]),
        Node::Literal(value) => Ok(input.iter().map(|_| Cow::Owned(value.clone())).collect()),
        Node::Identifier(name) => Err(format!("unrecognized identifier {name}")),
    }
}

fn field<'a>(value: Cow<'a, Value>, name: &str) -> Option<Cow<'a, Value>> {
    match value {
        Cow::Borrowed(value) => value.as_object()?.get(name).map(Cow::Borrowed),
        Cow::Owned(mut value) => value.as_object_mut()?.remove(name).map(Cow::Owned),
    }
}

fn children(value: Cow<'_, Value>) -> Found<'_> {
    match value {
        Cow::Borrowed(Value::Object(map)) => map.values().map(Cow::Borrowed).collect(),
        Cow::Borrowed(Value::Array(list)) => list.iter().map(Cow::Borrowed).collect(),
        Cow::Owned(Value::Object(map)) => map.into_iter().map(|(_, value)| Cow::Owned(value)).collect(),
        Cow::Owned(Value::Array(list)) => list.into_iter().map(Cow::Owned).collect(),
        _ => Vec::new(),
    }
}

fn descend<'a>(value: Cow<'a, Value>, found: &mut Found<'a>) {
    let below = children(value.clone());
    if !below.is_empty() {
        found.push(value);
        below.into_iter().for_each(|child| descend(child, found));
    }
}

fn items(value: Cow<'_, Value>) -> Result<Found<'_>, Cow<'_, Value>> {
    if value.is_array() { Ok(children(value)) } else { Err(value) }
}

fn slice_of<'a>(items: Found<'a>, from: Option<i64>, to: To, step: Option<i64>) -> Result<Found<'a>, String> {
    let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
    let from = from.unwrap_or_default();
    let from = if from < 0 { from.saturating_add(length) } else { from };
    let to = match to {
        To::End => length,
        To::At(to) if to < 0 => to.saturating_add(length),
        To::Next(to) if to <= 0 => to.saturating_add(length),
        To::At(to) | To::Next(to) => to,
    };
    if from == to {
        return Ok(Vec::new());
    }
    let out_of_bounds = |index| Err(format!("array index out of bounds: index {index}, length {length}"));
    if from >= length || from < 0 {
        return out_of_bounds(from);
    }
    if to > length || to < 0 {
        return out_of_bounds(to.saturating_sub(1));
    }
    if from > to {
        return Err(format!("starting index {from} is greater than ending index {to}"));
    }
    let step = match step {
        Some(step) if step <= 0 => return Err("step must be > 0".to_owned()),
        step => usize::try_from(step.unwrap_or(1)).unwrap_or(usize::MAX),
    };
    let position = |index: i64| usize::try_from(index).unwrap_or_default();
    Ok(items.into_iter().take(position(to)).skip(position(from)).step_by(step).collect())
}

fn filter<'a>(input: Found<'a>, keep: impl Fn(&Value) -> Result<bool, String>) -> Result<Found<'a>, String> {
    let mut found = Vec::new();
    for value in input {
        let items =
            items(value).map_err(|value| format!("{value} is not array or slice and cannot be filtered"))?;
        for item in items {
            if keep(&item)? {
                found.push(item);
            }
        }
    }
    Ok(found)
}

fn compare(left: &Value, operator: &str, right: &Value) -> Result<bool, String> {
    let numbers = |left: &Number, right: &Number| match (left.as_i64(), right.as_i64()) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        (None, None) => left.as_f64()?.partial_cmp(&right.as_f64()?),
        _ => None,
    };
    let order = match (left, right) {
        (Value::Bool(left), Value::Bool(right)) if matches!(operator, "==" | "!=") => Some(left.cmp(right)),
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Number(left), Value::Number(right)) => numbers(left, right),
        _ => None,
    };
    let order = order.ok_or("incompatible types for comparison")?;
    Ok(match operator {
        "==" => order == Ordering::Equal,
        "!=" => order != Ordering::Equal,
        "<" => order == Ordering::Less,
        "<=" => order != Ordering::Greater,
        ">" => order == Ordering::Greater,
        ">=" => order != Ordering::Less,
        other => return Err(format!("unrecognized filter operator {other}")),
    })
}
