//! Operators, conversions and times of standard CEL.

use std::cmp::Ordering;

use crate::{
    eval::EvalError,
    library::Extension,
    literal::parse_float,
    time::{Civil, Span, Timestamp},
    value::{Evaluated, Val},
};

fn int_overflow() -> EvalError {
    EvalError::new("integer overflow")
}

fn uint_overflow() -> EvalError {
    EvalError::new("unsigned integer overflow")
}

fn duration_overflow() -> EvalError {
    EvalError::new("duration overflow")
}

fn timestamp_overflow() -> EvalError {
    EvalError::new("timestamp overflow")
}

fn int<'a>(value: Option<i64>) -> Evaluated<'a> {
    value.map(Val::Int).ok_or_else(int_overflow)
}

fn uint<'a>(value: Option<u64>) -> Evaluated<'a> {
    value.map(Val::Uint).ok_or_else(uint_overflow)
}

fn duration<'a>(nanos: Option<i64>) -> Evaluated<'a> {
    nanos.map(|nanos| Val::Duration(Span { nanos })).ok_or_else(duration_overflow)
}

fn timestamp<'a>(time: Option<Timestamp>) -> Evaluated<'a> {
    time.map(Val::Timestamp).ok_or_else(timestamp_overflow)
}

pub(super) fn not<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::Bool(value)] => Ok(Val::Bool(!value)),
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(super) fn add<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::Int(one), Val::Int(two)] => int(one.checked_add(*two)),
        [Val::Uint(one), Val::Uint(two)] => uint(one.checked_add(*two)),
        [Val::Double(one), Val::Double(two)] => Ok(Val::Double(one + two)),
        [Val::String(one), Val::String(two)] => Ok(Val::from([&**one, &**two].concat())),
        [Val::Bytes(one), Val::Bytes(two)] => Ok(Val::Bytes([&**one, &**two].concat().into())),
        [Val::List(one), Val::List(two)] => one.concat(two),
        [Val::Duration(one), Val::Duration(two)] => duration(one.nanos.checked_add(two.nanos)),
        [Val::Duration(span), Val::Timestamp(time)] | [Val::Timestamp(time), Val::Duration(span)] => {
            timestamp(time.add(span.nanos.into()))
        }
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(super) fn subtract<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::Int(one), Val::Int(two)] => int(one.checked_sub(*two)),
        [Val::Uint(one), Val::Uint(two)] => uint(one.checked_sub(*two)),
        [Val::Double(one), Val::Double(two)] => Ok(Val::Double(one - two)),
        [Val::Duration(one), Val::Duration(two)] => duration(one.nanos.checked_sub(two.nanos)),
        [Val::Timestamp(time), Val::Duration(span)] => timestamp(time.add(-i128::from(span.nanos))),
        [Val::Timestamp(one), Val::Timestamp(two)] => {
            one.since(*two).map(Val::Duration).ok_or_else(duration_overflow)
        }
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(super) fn multiply<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::Int(one), Val::Int(two)] => int(one.checked_mul(*two)),
        [Val::Uint(one), Val::Uint(two)] => uint(one.checked_mul(*two)),
        [Val::Double(one), Val::Double(two)] => Ok(Val::Double(one * two)),
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(super) fn divide<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::Int(_), Val::Int(0)] | [Val::Uint(_), Val::Uint(0)] => Err(EvalError::new("division by zero")),
        [Val::Int(one), Val::Int(two)] => int(one.checked_div(*two)),
        [Val::Uint(one), Val::Uint(two)] => uint(one.checked_div(*two)),
        [Val::Double(one), Val::Double(two)] => Ok(Val::Double(one / two)),
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(super) fn modulo<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::Int(_), Val::Int(0)] | [Val::Uint(_), Val::Uint(0)] => Err(EvalError::new("modulus by zero")),
        [Val::Int(one), Val::Int(two)] => int(one.checked_rem(*two)),
        [Val::Uint(one), Val::Uint(two)] => uint(one.checked_rem(*two)),
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(super) fn negate<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::Int(value)] => int(value.checked_neg()),
        [Val::Double(value)] => Ok(Val::Double(-value)),
        [Val::Duration(span)] => duration(span.nanos.checked_neg()),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn ordered<'a>(args: &[Val<'a>], holds: fn(Ordering) -> bool) -> Evaluated<'a> {
    match args {
        [one, two] => match one.compare(two)? {
            Some(order) => Ok(Val::Bool(holds(order))),
            None => Err(EvalError::new("NaN values cannot be ordered")),
        },
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(super) fn less<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    ordered(args, Ordering::is_lt)
}

pub(super) fn less_equals<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    ordered(args, Ordering::is_le)
}

pub(super) fn greater<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    ordered(args, Ordering::is_gt)
}

pub(super) fn greater_equals<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    ordered(args, Ordering::is_ge)
}

pub(super) fn contained_in<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [value, Val::List(list)] => list.contains(value).map(Val::Bool),
        [key, Val::Map(map)] => Ok(Val::Bool(map.get(key)?.is_some())),
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(super) fn size<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [value @ (Val::String(_) | Val::Bytes(_) | Val::List(_) | Val::Map(_))] => {
            Ok(Val::Int(value.size() as i64))
        }
        _ => Err(EvalError::new("no such overload: size")),
    }
}

pub(super) fn type_of<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    Ok(Val::Type(args[0].type_value()))
}

pub(super) fn dynamic<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    Ok(args[0].clone())
}

/// Whether a call of the function with a constant is a constant.
pub(crate) fn is_type_conversion(function: &str) -> bool {
    matches!(
        function,
        "bool" | "bytes" | "double" | "duration" | "dyn" | "int" | "string" | "timestamp" | "type" | "uint"
    )
}

fn no_conversion<'a>(value: &Val<'a>, to: &str) -> Evaluated<'a> {
    Err(EvalError::new(format!(
        "type conversion error from '{}' to '{to}'",
        value.type_value().runtime_name()
    )))
}

pub(super) fn to_bool<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::Bool(value)] => Ok(Val::Bool(*value)),
        [Val::String(text)] => match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Val::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Val::Bool(false)),
            _ => no_conversion(&args[0], "bool"),
        },
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(super) fn to_bytes<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::Bytes(bytes)] => Ok(Val::Bytes(bytes.clone())),
        [Val::String(text)] => Ok(Val::Bytes(text.as_bytes().into())),
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(super) fn to_double<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::Double(value)] => Ok(Val::Double(*value)),
        [Val::Int(value)] => Ok(Val::Double(*value as f64)),
        [Val::Uint(value)] => Ok(Val::Double(*value as f64)),
        [Val::String(text)] => match go_parse_float(text) {
            Some(number) => Ok(Val::Double(number)),
            None => no_conversion(&args[0], "double"),
        },
        _ => Err(EvalError::no_such_overload()),
    }
}

fn go_parse_float(text: &str) -> Option<f64> {
    let bare = text.trim_start_matches(['+', '-']);
    let is_word = matches!(bare.to_ascii_lowercase().as_str(), "inf" | "infinity" | "nan");
    if is_word && text.len() - bare.len() <= 1 {
        return text.parse().ok();
    }
    if text.contains(['n', 'N', 'f', 'F']) {
        return None;
    }
    parse_float(text)
}

/// A text in quotes, as Go's `%q` writes it.
pub(crate) fn go_quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            c if c.is_ascii_control() => quoted.push_str(&format!("\\x{:02x}", c as u32)),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04x}", c as u32)),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// A number as Go's `%g` writes it with as many digits as needed.
pub(crate) fn go_float(number: f64) -> String {
    if number.is_nan() {
        return "NaN".into();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.into();
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        return format!("{number}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

pub(super) fn to_int<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::Int(value)] => Ok(Val::Int(*value)),
        [Val::Uint(value)] => int(i64::try_from(*value).ok()),
        [Val::Double(value)] => {
            // The bounds themselves cannot be told from numbers beyond them.
            let fits = value.is_finite() && value.abs() < 9_223_372_036_854_775_807.0;
            int(fits.then_some(*value as i64))
        }
        [Val::Duration(span)] => Ok(Val::Int(span.nanos)),
        [Val::Timestamp(time)] => Ok(Val::Int(time.seconds)),
        [Val::String(text)] => match text.parse() {
            Ok(value) => Ok(Val::Int(value)),
            Err(_) => no_conversion(&args[0], "int"),
        },
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(super) fn to_uint<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::Uint(value)] => Ok(Val::Uint(*value)),
        [Val::Int(value)] => uint(u64::try_from(*value).ok()),
        [Val::Double(value)] => {
            let fits = *value >= 0.0 && *value < 18_446_744_073_709_551_615.0;
            uint(fits.then_some(*value as u64))
        }
        [Val::String(text)] => match text.parse() {
            Ok(value) if !text.starts_with('+') => Ok(Val::Uint(value)),
            _ => no_conversion(&args[0], "uint"),
        },
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(super) fn to_string<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::String(text)] => Ok(Val::String(text.clone())),
        [Val::Bytes(bytes)] => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Val::from(text.to_owned())),
            Err(_) => Err(EvalError::new("invalid UTF-8 in bytes, cannot convert to string")),
        },
        [Val::Extension(Extension::Ip(ip))] => Ok(Val::from(ip.to_string())),
        [Val::Extension(Extension::Cidr(cidr))] => Ok(Val::from(cidr.to_string())),
        [Val::Type(_)] => Err(EvalError::no_such_overload()),
        [value] => value.to_text().map(Val::from).ok_or_else(EvalError::no_such_overload),
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(super) fn to_duration<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::Duration(span)] => Ok(Val::Duration(*span)),
        [Val::Int(nanos)] => Ok(Val::Duration(Span { nanos: *nanos })),
        [Val::String(text)] => match Span::parse(text) {
            Some(span) => Ok(Val::Duration(span)),
            None => no_conversion(&args[0], "google.protobuf.Duration"),
        },
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(super) fn to_timestamp<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::Timestamp(time)] => Ok(Val::Timestamp(*time)),
        [Val::Int(seconds)] => timestamp(Timestamp::from_seconds(*seconds)),
        [Val::String(text)] => match Timestamp::parse(text) {
            Some(time) => Ok(Val::Timestamp(time)),
            None => no_conversion(&args[0], "google.protobuf.Timestamp"),
        },
        _ => Err(EvalError::no_such_overload()),
    }
}

fn part<'a>(args: &[Val<'a>], part: fn(Civil) -> i64) -> Evaluated<'a> {
    let (time, zone) = match args {
        [Val::Timestamp(time)] => (time, None),
        [Val::Timestamp(time), Val::String(zone)] => (time, Some(&**zone)),
        _ => return Err(EvalError::no_such_overload()),
    };
    match time.civil(zone) {
        Some(civil) => Ok(Val::Int(part(civil))),
        None => Err(EvalError::new(format!("unknown time zone {}", zone.unwrap_or_default()))),
    }
}

fn part_or_span<'a>(args: &[Val<'a>], of_time: fn(Civil) -> i64, nanos_per_unit: i64) -> Evaluated<'a> {
    match args {
        [Val::Duration(span)] => Ok(Val::Int(span.nanos / nanos_per_unit)),
        _ => part(args, of_time),
    }
}

pub(super) fn get_full_year<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    part(args, |civil| civil.year)
}

pub(super) fn get_month<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    part(args, |civil| civil.month - 1)
}

pub(super) fn get_day_of_year<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    part(args, |civil| civil.day_of_year)
}

pub(super) fn get_day_of_month<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    part(args, |civil| civil.day - 1)
}

pub(super) fn get_date<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    part(args, |civil| civil.day)
}

pub(super) fn get_day_of_week<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    part(args, |civil| civil.day_of_week)
}

pub(super) fn get_hours<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    part_or_span(args, |civil| civil.hour, 3_600_000_000_000)
}

pub(super) fn get_minutes<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    part_or_span(args, |civil| civil.minute, 60_000_000_000)
}

pub(super) fn get_seconds<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    part_or_span(args, |civil| civil.second, 1_000_000_000)
}

pub(super) fn get_milliseconds<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    part_or_span(args, |civil| civil.millisecond, 1_000_000)
}
