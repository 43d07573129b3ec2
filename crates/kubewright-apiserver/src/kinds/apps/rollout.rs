//! How many pods a rollout may have too few or too many: a number or a percentage.

use serde_json::Value;

use super::super::{
    checks,
    report::{At, Errors},
};

/// The fields of an update strategy as Go has them.
pub(super) const STRATEGY: &[(&str, &str)] = &[("Type", "type"), ("RollingUpdate", "rollingUpdate")];

/// A number that is not negative, or a percentage.
pub(super) fn amount(at: &At<'_, '_>, errors: &mut Errors) {
    match at.value() {
        Some(Value::String(text)) => {
            for reason in checks::percent(text) {
                errors.invalid(at, text.as_str(), reason);
            }
        }
        _ => errors.non_negative(at),
    }
}

fn percentage(at: &At<'_, '_>) -> Option<i64> {
    let text = at.value()?.as_str()?;
    let digits = text.strip_suffix('%').filter(|_| checks::percent(text).is_empty())?;
    Some(digits.parse().unwrap_or(i64::MAX))
}

/// Whether it is nothing, be it `0` or `0%`. A text that is neither is.
pub(super) fn is_nothing(at: &At<'_, '_>) -> bool {
    percentage(at).unwrap_or_else(|| at.int()) == 0
}

/// A percentage can't be more than all.
pub(super) fn at_most_all(at: &At<'_, '_>, errors: &mut Errors) {
    if percentage(at).is_some_and(|percent| percent > 100) {
        errors.invalid(at, at.shown(), "must not be greater than 100%");
    }
}
