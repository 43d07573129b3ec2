//! Paths such as `.spec.ports['http']` that a CRD's rules and selectable fields name, resolved
//! against the schema they speak of.

use crate::field::Path;

use super::Schema;

/// The field that `text` names below `schema`, and that field's schema; or why there is none.
pub(crate) fn field_path<'a>(text: &str, schema: &'a Schema) -> Result<(Path, &'a Schema), String> {
    const NOT_A_FIELD: &str = "does not refer to a valid field";
    let mut path = Path::default();
    let mut schema = schema;
    let mut tokens = tokens(text).into_iter();
    while let Some(token) = tokens.next() {
        let end = || "unexpected end of JSON path".to_owned();
        let name = match token {
            "." => tokens.next().ok_or_else(end)?.to_owned(),
            "[" => {
                let quoted = tokens.next().ok_or_else(end)?;
                let inner = quoted.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
                unescape(inner.ok_or_else(|| format!("expected single quoted string but got {quoted}"))?)?
            }
            other => return Err(format!("expected [ or . but got: {other}")),
        };
        if !schema.properties.is_empty() {
            path = path.child(&name);
            schema = &schema.properties.get(&name).ok_or(NOT_A_FIELD)?.schema;
        } else {
            path = path.key(&name);
            schema = schema.values.as_ref().ok_or(NOT_A_FIELD)?;
        }
        if token == "[" {
            match tokens.next() {
                Some("]") => {}
                Some(other) => return Err(format!("expected ] but got {other}")),
                None => return Err(end()),
            }
        }
    }
    Ok((path, schema))
}

/// Cuts at `.`, `[` and `]`, which are tokens themselves, except inside a single-quoted string.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let bytes = rest.as_bytes();
        let length = match bytes[0] {
            b'.' | b'[' | b']' => 1,
            b'\'' => (1..bytes.len())
                .find(|&at| bytes[at] == b'\'' && bytes[at - 1] != b'\\')
                .map_or(bytes.len(), |at| at + 1),
            _ => rest.find(['.', '[', ']']).unwrap_or(rest.len()),
        };
        let (token, after) = rest.split_at(length);
        tokens.push(token);
        rest = after;
    }
    tokens
}

fn unescape(text: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            plain.push(character);
            continue;
        }
        plain.push(match characters.next() {
            Some('a') => '\x07',
            Some('b') => '\x08',
            Some('f') => '\x0c',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('v') => '\x0b',
            Some(same @ ('\'' | '\\')) => same,
            Some(other) => return Err(format!("invalid string literal: invalid escape char \\{other}")),
            None => '\\',
        });
    }
    Ok(plain)
}
