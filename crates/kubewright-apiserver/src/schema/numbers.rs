//! Numbers as kube-openapi sees them: what fits a format, what is a multiple, what counts as whole.

use serde_json::Value;

use crate::field::float;

use super::{Schema, Type};

/// The format that limits the range of a number.
pub(super) fn number_format(schema: &Schema) -> Option<&str> {
    schema.format.as_deref().filter(|_| matches!(schema.ty, Type::Integer | Type::Number))
}

/// Whether a number can be held by the type and format of the schema.
pub(super) fn in_range(whole: Option<i64>, float: f64, schema: &Schema) -> bool {
    match (schema.ty, number_format(schema)) {
        (Type::Integer, format) => {
            let whole = whole.or_else(|| (float.fract() == 0.0 && fits(float)).then(|| truncated(float)));
            whole.is_some_and(|whole| format != Some("int32") || i32::try_from(whole).is_ok())
        }
        (Type::Number, Some("float")) => float.abs() <= f64::from(f32::MAX),
        _ => true,
    }
}

/// The whole part, as Go's conversion gives it: what does not fit becomes the smallest number.
#[expect(clippy::cast_possible_truncation, reason = "what is too large has been sorted out")]
pub(crate) fn truncated(float: f64) -> i64 {
    if fits(float) { float as i64 } else { i64::MIN }
}

fn fits(float: f64) -> bool {
    (-9.223_372_036_854_776e18..9.223_372_036_854_776e18).contains(&float)
}

/// Rewrites floats that are whole as integers, which is how the real server writes and stores them. To be
/// called once an object is valid: validation still tells `1.0` from `1`.
pub(crate) fn normalise_numbers(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            if let Some(float) = number.as_f64().filter(|float| float.fract() == 0.0 && fits(*float)) {
                *value = truncated(float).into();
            }
        }
        Value::Array(list) => list.iter_mut().for_each(normalise_numbers),
        Value::Object(map) => map.values_mut().for_each(normalise_numbers),
        _ => {}
    }
}

/// A number as an error shows it.
pub(super) fn shown(whole: Option<i64>, float: f64) -> Value {
    whole.map_or_else(|| float.into(), Value::from)
}

/// A number as an error's words name it.
pub(super) fn named(number: &Value) -> String {
    match number.as_i64() {
        Some(whole) => whole.to_string(),
        None => float(number.as_f64().unwrap_or_default()),
    }
}

pub(super) fn is_multiple(float: f64, factor: f64) -> bool {
    is_json_integer(if factor < 1.0 { 1.0 / factor * float } else { float / factor })
}

/// Whether a float is meant as a whole number, to a relative error of 1e-9, within what JSON can say.
pub(super) fn is_json_integer(float: f64) -> bool {
    const LARGEST: f64 = 9_007_199_254_740_991.0;
    if !float.is_finite() || float.abs() > LARGEST {
        return false;
    }
    let whole = float.trunc();
    let difference = (float - whole).abs();
    difference == 0.0 || (whole != 0.0 && difference / (float.abs() + whole.abs()) < 1e-9)
}

/// Equality of an enum: numbers are compared as the allowed value's type.
pub(super) fn same_value(value: &Value, allowed: &Value) -> bool {
    match (value, allowed) {
        (Value::Number(value), Value::Number(allowed)) => match (value.as_i64(), allowed.as_i64()) {
            (Some(value), Some(allowed)) => value == allowed,
            (None, Some(allowed)) => value.as_f64().map(truncated) == Some(allowed),
            _ => value.as_f64() == allowed.as_f64(),
        },
        _ => value == allowed,
    }
}
