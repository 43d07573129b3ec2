//! Amounts of resources, such as `100m` or `2Gi`.

use std::cmp::Ordering;

use super::Extension;
use crate::{
    eval::EvalError,
    value::{Evaluated, Val},
};

const NANOS: i128 = 1_000_000_000;

/// An amount, exact to a billionth.
#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    nanos: i128,
    /// The amount as a number and a power of ten, as long as that is how Kubernetes keeps it. Only then
    /// it can be asked for as an integer.
    scaled: Option<(i64, i32)>,
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

enum Suffix {
    Decimal(i32),
    Binary(u32),
}

const FORMAT: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const SUFFIX: &str = "unable to parse quantity's suffix";
const NUMERIC: &str = "unable to parse numeric part of quantity";

impl Quantity {
    fn parse(text: &str) -> Result<Self, &'static str> {
        if text.is_empty() {
            return Err(FORMAT);
        }
        let (negative, unsigned) = match text.as_bytes()[0] {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let (whole, rest) = unsigned.split_at(digits(unsigned));
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(after) => after.split_at(digits(after)),
            None => ("", rest),
        };
        let has_digits = !whole.is_empty() || !fraction.is_empty();
        let letters = suffix.bytes().take_while(|b| b"eEinumkKMGTP".contains(b)).count();
        let exponent = suffix[letters..].strip_prefix(['-', '+']).unwrap_or(&suffix[letters..]);
        if digits(exponent) != exponent.len() {
            return Err(FORMAT);
        }
        let suffix = Self::suffix(suffix).ok_or(SUFFIX)?;
        if !has_digits && !unsigned.is_empty() {
            return Err(NUMERIC);
        }
        let whole = whole.trim_start_matches('0');
        let sign: i128 = if negative { -1 } else { 1 };
        let scaled = Self::scaled(whole, fraction, &suffix)
            .map(|(value, scale)| (if negative { -value } else { value }, scale));
        Ok(Self { nanos: sign * Self::nanos(whole, fraction, &suffix), scaled })
    }

    fn suffix(text: &str) -> Option<Suffix> {
        Some(match text {
            "" => Suffix::Decimal(0),
            "n" => Suffix::Decimal(-9),
            "u" => Suffix::Decimal(-6),
            "m" => Suffix::Decimal(-3),
            "k" => Suffix::Decimal(3),
            "M" => Suffix::Decimal(6),
            "G" => Suffix::Decimal(9),
            "T" => Suffix::Decimal(12),
            "P" => Suffix::Decimal(15),
            "E" => Suffix::Decimal(18),
            "Ki" => Suffix::Binary(10),
            "Mi" => Suffix::Binary(20),
            "Gi" => Suffix::Binary(30),
            "Ti" => Suffix::Binary(40),
            "Pi" => Suffix::Binary(50),
            "Ei" => Suffix::Binary(60),
            _ => Suffix::Decimal(text.strip_prefix(['e', 'E'])?.parse().ok()?),
        })
    }

    /// The compact form, where Kubernetes uses it.
    fn scaled(whole: &str, fraction: &str, suffix: &Suffix) -> Option<(i64, i32)> {
        let whole = if whole.is_empty() { "0" } else { whole };
        let (precision, scale, factor) = match suffix {
            Suffix::Decimal(exponent) => (18 - (whole.len() + fraction.len()) as i64, *exponent, 1_i64),
            Suffix::Binary(exponent) if fraction.is_empty() => {
                (15 - whole.len() as i64 - i64::from(exponent * 3 / 10) - 1, 0, 1_i64 << exponent)
            }
            Suffix::Binary(_) => return None,
        };
        let scale = scale.checked_sub(fraction.len() as i32)?;
        if precision < 0 || scale < -9 {
            return None;
        }
        let value: i64 = format!("{whole}{fraction}").parse().ok()?;
        Some((value.checked_mul(factor)?, scale))
    }

    /// Rounds away from zero, and holds what is too large at the largest amount.
    fn nanos(whole: &str, fraction: &str, suffix: &Suffix) -> i128 {
        let number = |digits: &str| digits.parse::<i128>().unwrap_or(i128::MAX);
        let digits = format!("{whole}{fraction}");
        if digits.bytes().all(|b| b == b'0') {
            return 0;
        }
        let (exponent, factor) = match suffix {
            Suffix::Decimal(exponent) => (i64::from(*exponent), 1),
            Suffix::Binary(exponent) => (0, 1_i128 << exponent),
        };
        let power = exponent + 9 - fraction.len() as i64;
        let amount = number(&digits).saturating_mul(factor);
        let nanos = match u32::try_from(power) {
            Ok(power) => 10_i128.checked_pow(power).map_or(i128::MAX, |scale| amount.saturating_mul(scale)),
            Err(_) => match 10_i128.checked_pow((-power).try_into().unwrap_or(u32::MAX)) {
                Some(scale) => amount / scale + i128::from(amount % scale != 0),
                None => 1,
            },
        };
        if matches!(suffix, Suffix::Binary(_)) { nanos.min(i128::from(i64::MAX) * NANOS) } else { nanos }
    }

    fn integer(self) -> Option<i64> {
        let (value, scale) = self.scaled?;
        value.checked_mul(10_i64.checked_pow(u32::try_from(scale).ok()?)?)
    }

    fn plus(self, other: Self) -> Self {
        let scaled = match (self.scaled, other.scaled) {
            (Some((0, _)), other) => other,
            (this, Some((0, _))) => this,
            (Some((one, one_scale)), Some((two, two_scale))) => {
                let scale = one_scale.min(two_scale);
                let at_scale = |value: i64, from: i32| {
                    value.checked_mul(10_i64.checked_pow((from - scale).unsigned_abs())?)
                };
                at_scale(one, one_scale)
                    .zip(at_scale(two, two_scale))
                    .and_then(|(one, two)| one.checked_add(two))
                    .map(|value| (value, scale))
            }
            _ => None,
        };
        Self { nanos: self.nanos.saturating_add(other.nanos), scaled }
    }

    fn negated(self) -> Self {
        Self {
            nanos: self.nanos.saturating_neg(),
            scaled: self.scaled.and_then(|(value, scale)| Some((value.checked_neg()?, scale))),
        }
    }

    fn whole(value: i64) -> Self {
        Self { nanos: i128::from(value) * NANOS, scaled: Some((value, 0)) }
    }

    fn approximate(self) -> f64 {
        match self.scaled {
            Some((value, scale)) => value as f64 * 10_f64.powi(scale),
            None => self.nanos as f64 / NANOS as f64,
        }
    }
}

fn no_such_overload<'a>() -> Evaluated<'a> {
    Err(EvalError::no_such_overload())
}

pub(super) fn quantity<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::String(text)] => Quantity::parse(text)
            .map(|quantity| Val::Extension(Extension::Quantity(quantity)))
            .map_err(EvalError::new),
        _ => no_such_overload(),
    }
}

pub(super) fn is_quantity<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::String(text)] => Ok(Val::Bool(Quantity::parse(text).is_ok())),
        _ => no_such_overload(),
    }
}

pub(super) fn sign<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::Extension(Extension::Quantity(quantity))] => Ok(Val::Int(quantity.nanos.signum() as i64)),
        _ => no_such_overload(),
    }
}

pub(super) fn as_integer<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::Extension(Extension::Quantity(quantity))] => {
            quantity.integer().map(Val::Int).ok_or_else(|| EvalError::new("cannot convert value to integer"))
        }
        _ => no_such_overload(),
    }
}

pub(super) fn is_integer<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::Extension(Extension::Quantity(quantity))] => Ok(Val::Bool(quantity.integer().is_some())),
        _ => no_such_overload(),
    }
}

pub(super) fn as_approximate_float<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::Extension(Extension::Quantity(quantity))] => Ok(Val::Double(quantity.approximate())),
        _ => no_such_overload(),
    }
}

fn operands(args: &[Val<'_>]) -> Result<(Quantity, Quantity), EvalError> {
    match args {
        [Val::Extension(Extension::Quantity(one)), Val::Extension(Extension::Quantity(two))] => {
            Ok((*one, *two))
        }
        [Val::Extension(Extension::Quantity(one)), Val::Int(two)] => Ok((*one, Quantity::whole(*two))),
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(super) fn add<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    let (one, two) = operands(args)?;
    Ok(Val::Extension(Extension::Quantity(one.plus(two))))
}

pub(super) fn sub<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    let (one, two) = operands(args)?;
    Ok(Val::Extension(Extension::Quantity(one.plus(two.negated()))))
}
