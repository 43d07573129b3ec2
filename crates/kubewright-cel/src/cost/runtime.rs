//! What a step costs when it runs, given its arguments and its result.

use super::{CostRange, PATTERN, TRAVERSAL, scaled};
use crate::{library::Extension, value::Val};

/// The cost of comparing two values for (in)equality.
pub(crate) fn equality_cost(one: &Val<'_>, two: &Val<'_>, negated: bool) -> u64 {
    if !negated && matches!(one, Val::Extension(_)) {
        return 1;
    }
    scaled(size(one).min(size(two)), TRAVERSAL)
}

/// The size of a value, or of what is in an optional.
fn size(value: &Val<'_>) -> u64 {
    match value {
        Val::Optional(Some(value)) => size(value),
        value => value.size(),
    }
}

/// The cost of a selector, parsed into requirements.
pub(super) fn selector_cost(length: CostRange) -> CostRange {
    CostRange::fixed(10).add(length.times(TRAVERSAL)).add(length.times(0.5).times(50.0))
}

/// The cost of a call. The overload is empty if more than one fits.
pub(crate) fn call_cost(function: &str, overload: &str, args: &[Val<'_>], result: Option<&Val<'_>>) -> u64 {
    let arg = |position: usize| args.get(position).map_or(1, Val::size);
    let walk = |factor: f64| scaled(arg(0), factor);
    if let Some(cost) = extension_cost(overload, args, result) {
        return cost;
    }
    match function {
        "check" => return 350_000,
        "fieldSelector" | "labelSelector" => return selector_cost(CostRange::fixed(arg(1))).max,
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => {
            return args.first().map_or(0, traversal);
        }
        "url" | "lowerAscii" | "upperAscii" | "substring" | "trim" | "cidr" | "isIP" | "isCIDR"
        | "quantity" | "isQuantity" | "semver" | "isSemver" => return walk(TRAVERSAL),
        "replace" | "split" | "ip.isCanonical" => return walk(2.0 * TRAVERSAL),
        "ip" => return if overload == "cidr_ip" { 1 } else { walk(TRAVERSAL) },
        "join" => return scaled(result.map_or(1, Val::size), 2.0 * TRAVERSAL),
        "find" | "findAll" => return pattern_cost(arg(0), arg(1)),
        "containsIP" => {
            let other = if overload == "cidr_contains_ip_string" { scaled(arg(1), TRAVERSAL) } else { 0 };
            return walk(2.0 * TRAVERSAL) + other;
        }
        "containsCIDR" => {
            let other = if overload == "cidr_contains_cidr_string" { scaled(arg(1), TRAVERSAL) } else { 0 };
            return walk(2.0 * TRAVERSAL) + walk(TRAVERSAL) + 1 + other;
        }
        "validate" => {
            if let Some(Val::Extension(Extension::Format(format))) = args.first() {
                return pattern_cost(arg(1), format.pattern_size);
            }
        }
        _ => {}
    }
    match overload {
        "starts_with_string" | "ends_with_string" | "string_to_bytes" | "bytes_to_string"
        | "strings_quote" | "string_format" => walk(TRAVERSAL),
        "in_list" => arg(1),
        "less_string"
        | "less_bytes"
        | "less_equals_string"
        | "less_equals_bytes"
        | "greater_string"
        | "greater_bytes"
        | "greater_equals_string"
        | "greater_equals_bytes" => scaled(arg(0).min(arg(1)), TRAVERSAL),
        "add_string" | "add_bytes" => scaled(arg(0).saturating_add(arg(1)), TRAVERSAL),
        "matches_string" => pattern_cost(arg(0), arg(1)),
        "contains_string" => walk(TRAVERSAL).saturating_mul(scaled(arg(1), TRAVERSAL)),
        _ => 1,
    }
}

fn pattern_cost(text: u64, pattern: u64) -> u64 {
    scaled(text.saturating_add(1), TRAVERSAL).saturating_mul(scaled(pattern, PATTERN))
}

/// Costs that the sets and lists extensions declare for their overloads.
fn extension_cost(overload: &str, args: &[Val<'_>], result: Option<&Val<'_>>) -> Option<u64> {
    let arg = |position: usize| args.get(position).map_or(1, Val::size);
    let allocating = |factor: f64, size: u64| (size as f64 * factor) as u64 + 11;
    Some(match overload {
        "list_sets_contains_list" | "list_sets_intersects_list" => 1 + arg(0).saturating_mul(arg(1)),
        "list_sets_equivalent_list" => 1 + arg(0).saturating_mul(arg(1)).saturating_mul(2),
        "list_slice" | "lists_range" | "list_reverse" => allocating(1.0, result.map_or(1, Val::size)),
        "list_flatten" => allocating(1.0, arg(0)),
        "list_flatten_int" => {
            let depth = match args.get(1) {
                Some(Val::Int(depth)) => *depth as f64,
                _ => 1.0,
            };
            allocating(depth, arg(0))
        }
        "list_distinct" | "list_sort" | "list_text_sort" => self_comparison(args.first()?),
        "list_sort_by" | "list_text_sort_by" => self_comparison(args.get(1)?),
        _ => return None,
    })
}

fn self_comparison(list: &Val<'_>) -> u64 {
    let Val::List(list) = list else { return 1 };
    let size = list.len() as u64;
    let is_text = size > 0 && matches!(list.get(0), Ok(Val::String(_) | Val::Bytes(_)));
    let factor = if is_text { 2.0 + TRAVERSAL } else { 2.0 };
    (size.saturating_mul(size) as f64 * factor) as u64 + 11
}

/// The cost of walking all of a value.
fn traversal(value: &Val<'_>) -> u64 {
    match value {
        Val::String(text) => (text.len() as f64 * TRAVERSAL) as u64,
        Val::Bytes(bytes) => (bytes.len() as f64 * TRAVERSAL) as u64,
        Val::List(list) => list.iter().map(|item| item.as_ref().map_or(1, traversal)).sum(),
        Val::Map(map) => map
            .keys()
            .iter()
            .map(|key| {
                let value = map.get(key).ok().flatten();
                traversal(key) + value.as_ref().map_or(1, traversal)
            })
            .sum(),
        _ => 1,
    }
}
