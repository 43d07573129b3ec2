//! Numbers that may be given as a percentage of a whole.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// The number; of a percentage, the next larger one.
pub(super) fn rounded_up(value: &IntOrString, whole: i32) -> i32 {
    match value {
        IntOrString::Int(number) => *number,
        IntOrString::String(text) => narrowed((hundredths(text) * i64::from(whole) + 99).div_euclid(100)),
    }
}

/// What stands before the percent sign. The API server lets nothing else pass.
fn hundredths(text: &str) -> i64 {
    text.strip_suffix('%').and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn narrowed(number: i64) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
