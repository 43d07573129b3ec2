//! Functions on texts: those of standard CEL and of version 2 of the strings extension.

use crate::{
    eval::EvalError,
    value::{Evaluated, Val},
};

fn no_such_overload<'a>() -> Evaluated<'a> {
    Err(EvalError::no_such_overload())
}

fn out_of_range(index: i64) -> EvalError {
    EvalError::new(format!("index out of range: {index}"))
}

pub(super) fn contains<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::String(text), Val::String(part)] => Ok(Val::Bool(text.contains(&**part))),
        _ => no_such_overload(),
    }
}

pub(super) fn ends_with<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::String(text), Val::String(part)] => Ok(Val::Bool(text.ends_with(&**part))),
        _ => no_such_overload(),
    }
}

pub(super) fn starts_with<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::String(text), Val::String(part)] => Ok(Val::Bool(text.starts_with(&**part))),
        _ => no_such_overload(),
    }
}

pub(super) fn char_at<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    let [Val::String(text), Val::Int(index)] = args else { return no_such_overload() };
    let position = usize::try_from(*index).map_err(|_| out_of_range(*index))?;
    match text.chars().nth(position) {
        Some(c) => Ok(Val::from(c.to_string())),
        None if position == text.chars().count() => Ok(Val::from("")),
        None => Err(out_of_range(*index)),
    }
}

pub(super) fn index_of<'a>(text: &str, part: &str, offset: i64) -> Evaluated<'a> {
    if part.is_empty() {
        return Ok(Val::Int(offset));
    }
    let start = usize::try_from(offset).map_err(|_| out_of_range(offset))?;
    let Some((from, _)) = text.char_indices().nth(start) else { return Ok(Val::Int(-1)) };
    Ok(Val::Int(match text[from..].find(part) {
        Some(at) => (start + text[from..from + at].chars().count()) as i64,
        None => -1,
    }))
}

/// The last place of a part that begins at or before an offset, or anywhere.
pub(super) fn last_index_of<'a>(text: &str, part: &str, offset: Option<i64>) -> Evaluated<'a> {
    let length = text.chars().count();
    if part.is_empty() {
        return Ok(Val::Int(offset.unwrap_or(length as i64)));
    }
    if offset.is_none() && text.len() < part.len() {
        return Ok(Val::Int(-1));
    }
    let offset = offset.unwrap_or(length as i64 - 1);
    let last = usize::try_from(offset).map_err(|_| out_of_range(offset))?;
    if last >= length {
        return Ok(Val::Int(-1));
    }
    let end = text.char_indices().nth(last + part.chars().count()).map_or(text.len(), |(at, _)| at);
    Ok(Val::Int(text[..end].rfind(part).map_or(-1, |at| text[..at].chars().count() as i64)))
}

pub(super) fn lower_ascii<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::String(text)] => Ok(Val::from(text.to_ascii_lowercase())),
        _ => no_such_overload(),
    }
}

pub(super) fn upper_ascii<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::String(text)] => Ok(Val::from(text.to_ascii_uppercase())),
        _ => no_such_overload(),
    }
}

pub(super) fn trim<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::String(text)] => Ok(Val::from(text.trim().to_owned())),
        _ => no_such_overload(),
    }
}

pub(super) fn replace<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::String(text), Val::String(old), Val::String(new)] => Ok(Val::from(text.replace(&**old, new))),
        [Val::String(text), Val::String(old), Val::String(new), Val::Int(count)] => {
            Ok(Val::from(match usize::try_from(*count) {
                Ok(count) => text.replacen(&**old, new, count),
                Err(_) => text.replace(&**old, new),
            }))
        }
        _ => no_such_overload(),
    }
}

pub(super) fn split<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    let (text, separator, limit) = match args {
        [Val::String(text), Val::String(separator)] => (text, separator, -1),
        [Val::String(text), Val::String(separator), Val::Int(limit)] => (text, separator, *limit),
        _ => return no_such_overload(),
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let item = |part: &str| Val::from(part.to_owned());
    if limit == 0 {
        return Ok(Val::from(Vec::new()));
    }
    if separator.is_empty() {
        // Every character on its own; the last piece takes what is left.
        let mut parts = Vec::new();
        let mut rest = &**text;
        while let Some(c) = rest.chars().next() {
            if parts.len() + 1 == limit {
                break;
            }
            let (first, after) = rest.split_at(c.len_utf8());
            parts.push(item(first));
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(item(rest));
        }
        return Ok(Val::from(parts));
    }
    Ok(Val::from(text.splitn(limit, &**separator).map(item).collect::<Vec<_>>()))
}

pub(super) fn substring<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    let (text, start, end) = match args {
        [Val::String(text), Val::Int(start)] => (text, *start, None),
        [Val::String(text), Val::Int(start), Val::Int(end)] => (text, *start, Some(*end)),
        _ => return no_such_overload(),
    };
    if let Some(end) = end
        && start > end
    {
        return Err(EvalError::new(format!("invalid substring range. start: {start}, end: {end}")));
    }
    let offset = |index: i64| -> Result<usize, EvalError> {
        let position = usize::try_from(index).map_err(|_| out_of_range(index))?;
        match text.char_indices().nth(position) {
            Some((at, _)) => Ok(at),
            None if position == text.chars().count() => Ok(text.len()),
            None => Err(out_of_range(index)),
        }
    };
    let from = offset(start)?;
    let to = end.map_or(Ok(text.len()), offset)?;
    Ok(Val::from(text[from..to].to_owned()))
}

pub(super) fn join<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    let (list, separator) = match args {
        [Val::List(list)] => (list, ""),
        [Val::List(list), Val::String(separator)] => (list, &**separator),
        _ => return no_such_overload(),
    };
    let mut joined = String::new();
    for (position, item) in list.iter().enumerate() {
        if position > 0 {
            joined.push_str(separator);
        }
        match item? {
            Val::String(text) => joined.push_str(&text),
            other => return Err(EvalError::new(format!("join: invalid input: {}", other.shown()))),
        }
    }
    Ok(Val::from(joined))
}

pub(super) fn quote<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    let [Val::String(text)] = args else { return no_such_overload() };
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    Ok(Val::from(quoted))
}
