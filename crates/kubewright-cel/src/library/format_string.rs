//! `format`: a text with clauses such as `%s` and `%.2f` filled in.
//!
//! The same parser serves the check of constant format strings at compile time and the formatting itself.

use super::standard::{go_float, go_quote};
use crate::{
    eval::EvalError,
    value::{Evaluated, Val},
};

const DEFAULT_PRECISION: usize = 6;
/// More digits than a number can have.
const MAX_PRECISION: usize = 1100;

/// A clause of a format string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clause {
    String,
    Decimal,
    Fixed(usize),
    Scientific,
    Binary,
    Hex { upper: bool },
    Octal,
}

impl Clause {
    /// Why a value of a type cannot be formatted so.
    pub(crate) fn refusal(self, type_name: &str) -> String {
        let rule = match self {
            Self::String => {
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
            }
            Self::Decimal => "decimal clause can only be used on integers",
            Self::Fixed(_) => "fixed-point clause can only be used on doubles",
            Self::Scientific => "scientific clause can only be used on doubles",
            Self::Binary => "only integers and bools can be formatted as binary",
            Self::Hex { .. } => "only integers, byte buffers, and strings can be formatted as hex",
            Self::Octal => "octal clause can only be used on integers",
        };
        format!("error during formatting: {rule}, was given {type_name}")
    }
}

/// Reads a format string; `fill` is asked for the text of each clause, by its position.
pub(crate) fn interpolate<Problem: From<String>>(
    format: &str,
    arguments: usize,
    mut fill: impl FnMut(usize, Clause) -> Result<String, Problem>,
) -> Result<String, Problem> {
    let mut out = String::with_capacity(format.len());
    let mut rest = format;
    let mut position = 0;
    while let Some(percent) = rest.find('%') {
        out.push_str(&rest[..percent]);
        rest = &rest[percent + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        if rest.is_empty() {
            return Err("unexpected end of string".to_owned().into());
        }
        if position >= arguments {
            return Err(format!("index {position} out of range").into());
        }
        let (clause, after) =
            clause(rest).map_err(|why| format!("could not parse formatting clause: {why}"))?;
        out.push_str(&fill(position, clause)?);
        position += 1;
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

fn clause(text: &str) -> Result<(Clause, &str), String> {
    let mut precision = DEFAULT_PRECISION;
    let mut rest = text;
    if let Some(after) = text.strip_prefix('.') {
        let length = after.bytes().take_while(u8::is_ascii_digit).count();
        if length == after.len() {
            return Err("error while parsing precision: could not find end of precision specifier".into());
        }
        precision = after[..length].parse().map_err(|_| {
            format!(
                "error while parsing precision: error while converting precision to integer: strconv.Atoi: parsing {}: invalid syntax",
                go_quote(&after[..length])
            )
        })?;
        rest = &after[length..];
    }
    let letter = rest.chars().next().unwrap_or('%');
    let clause = match letter {
        's' => Clause::String,
        'd' => Clause::Decimal,
        'f' => Clause::Fixed(precision.min(MAX_PRECISION)),
        'e' => Clause::Scientific,
        'b' => Clause::Binary,
        'x' => Clause::Hex { upper: false },
        'X' => Clause::Hex { upper: true },
        'o' => Clause::Octal,
        other => return Err(format!("unrecognized formatting clause \"{other}\"")),
    };
    Ok((clause, &rest[letter.len_utf8()..]))
}

impl From<String> for EvalError {
    fn from(message: String) -> Self {
        Self::new(message)
    }
}

pub(super) fn format<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    let [Val::String(text), Val::List(list)] = args else { return Err(EvalError::no_such_overload()) };
    interpolate(text, list.len(), |position, clause| filled(clause, &list.get(position)?)).map(Val::from)
}

fn filled(clause: Clause, value: &Val<'_>) -> Result<String, EvalError> {
    let hex = |bytes: &[u8], upper: bool| -> String {
        bytes.iter().map(|b| if upper { format!("{b:02X}") } else { format!("{b:02x}") }).collect()
    };
    Ok(match (clause, value) {
        (Clause::String, value) => return in_full(value),
        (Clause::Decimal, Val::Int(number)) => number.to_string(),
        (Clause::Decimal, Val::Uint(number)) => number.to_string(),
        (Clause::Fixed(precision), value) => match number(value) {
            Some(number) => grouped(number, precision),
            None => return Err(refused(clause, value)),
        },
        (Clause::Scientific, value) => match number(value) {
            Some(number) => scientific(number),
            None => return Err(refused(clause, value)),
        },
        (Clause::Binary, Val::Bool(value)) => u8::from(*value).to_string(),
        (Clause::Binary, Val::Uint(number)) => format!("{number:b}"),
        (Clause::Binary, Val::Int(number)) => signed(*number, format!("{:b}", number.unsigned_abs())),
        (Clause::Octal, Val::Uint(number)) => format!("{number:o}"),
        (Clause::Octal, Val::Int(number)) => signed(*number, format!("{:o}", number.unsigned_abs())),
        (Clause::Hex { upper }, Val::String(text)) => hex(text.as_bytes(), upper),
        (Clause::Hex { upper }, Val::Bytes(bytes)) => hex(bytes, upper),
        (Clause::Hex { upper }, Val::Uint(number)) => hex_number(*number, upper),
        (Clause::Hex { upper }, Val::Int(number)) => {
            signed(*number, hex_number(number.unsigned_abs(), upper))
        }
        (clause, value) => return Err(refused(clause, value)),
    })
}

fn refused(clause: Clause, value: &Val<'_>) -> EvalError {
    EvalError::new(clause.refusal(value.type_value().runtime_name()))
}

fn hex_number(number: u64, upper: bool) -> String {
    if upper { format!("{number:X}") } else { format!("{number:x}") }
}

fn signed(number: i64, digits: String) -> String {
    if number < 0 { format!("-{digits}") } else { digits }
}

fn number(value: &Val<'_>) -> Option<f64> {
    match value {
        Val::Double(number) => Some(*number),
        Val::String(text) => match &**text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

fn not_finite(number: f64) -> &'static str {
    if number.is_nan() {
        "NaN"
    } else if number > 0.0 {
        "∞"
    } else {
        "-∞"
    }
}

/// With a comma between each three digits.
fn grouped(number: f64, precision: usize) -> String {
    if !number.is_finite() {
        return not_finite(number).into();
    }
    let plain = format!("{:.precision$}", number.abs());
    let (whole, fraction) = plain.split_once('.').map_or((plain.as_str(), None), |(w, f)| (w, Some(f)));
    let mut text = if number.is_sign_negative() { "-".to_owned() } else { String::new() };
    for (position, digit) in whole.chars().enumerate() {
        if position > 0 && (whole.len() - position) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    if let Some(fraction) = fraction {
        text.push('.');
        text.push_str(fraction);
    }
    text
}

fn scientific(number: f64) -> String {
    if !number.is_finite() {
        return not_finite(number).into();
    }
    let plain = format!("{number:.6e}");
    let (digits, exponent) = plain.split_once('e').unwrap_or((&plain, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(("", exponent), |exponent| ("⁻", exponent));
    let raised: String = format!("{exponent:0>2}")
        .chars()
        .map(|digit| match digit {
            '1' => '¹',
            '2' => '²',
            '3' => '³',
            '4' => '⁴',
            '5' => '⁵',
            '6' => '⁶',
            '7' => '⁷',
            '8' => '⁸',
            '9' => '⁹',
            _ => '⁰',
        })
        .collect();
    format!("{digits}×10{sign}{raised}")
}

/// What `%s` writes.
fn in_full(value: &Val<'_>) -> Result<String, EvalError> {
    Ok(match value {
        Val::Null => "null".into(),
        Val::Bytes(bytes) => String::from_utf8(bytes.to_vec())
            .map_err(|_| EvalError::new("invalid UTF-8 in bytes, cannot convert to string"))?,
        Val::List(list) => {
            let mut items = Vec::with_capacity(list.len());
            for item in list.iter() {
                items.push(inside(&item?)?);
            }
            format!("[{}]", items.join(", "))
        }
        Val::Map(map) => {
            let mut entries = Vec::with_capacity(map.len());
            for key in map.keys() {
                if let Some(value) = map.get(&key)? {
                    let key = match &key {
                        Val::String(text) => go_quote(text),
                        Val::Bool(_) | Val::Int(_) | Val::Uint(_) => key.shown(),
                        other => {
                            return Err(EvalError::new(format!(
                                "error during formatting: no formatting function for map key of type {}",
                                other.type_value().runtime_name()
                            )));
                        }
                    };
                    entries.push((key, inside(&value)?));
                }
            }
            entries.sort();
            let entries: Vec<String> =
                entries.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
            format!("{{{}}}", entries.join(", "))
        }
        other => other.to_text().ok_or_else(|| refused(Clause::String, other))?,
    })
}

/// A value within a list or map, quoted so that its type shows.
fn inside(value: &Val<'_>) -> Result<String, EvalError> {
    Ok(match value {
        Val::String(text) => go_quote(text),
        Val::Bytes(_) => format!("b{}", go_quote(&in_full(value)?)),
        Val::Double(number) if number.is_finite() => format!("{number:.6}"),
        Val::Double(number) => go_quote(&go_float(*number)),
        Val::Timestamp(time) => format!("timestamp({})", go_quote(&time.to_string())),
        Val::Duration(span) => format!("duration({})", go_quote(&span.to_string())),
        Val::Extension(_) | Val::Optional(_) | Val::Lazy(_) => {
            return Err(EvalError::new(format!(
                "error during formatting: no formatting function for {}",
                value.type_value().runtime_name()
            )));
        }
        other => in_full(other)?,
    })
}
