//! What single functions can cost, and how large their results can be.

use super::{
    CostRange, PATTERN, TRAVERSAL,
    runtime::selector_cost,
    statics::{CallCost, Estimator, Operand},
};
use crate::{
    ast::{Expr, Kind, Literal, operator},
    types::Type,
};

impl Estimator<'_> {
    /// What cel-go says about its standard functions.
    pub(super) fn standard(
        &mut self,
        expr: &Expr,
        overload: &str,
        target: Option<&Operand<'_>>,
        args: &[Operand<'_>],
    ) -> Option<CallCost> {
        let arg = |position: usize| args.get(position).map(|operand| or_unknown(operand.size));
        let receiver = target.map(|operand| or_unknown(operand.size));
        match overload {
            "string_format" => CallCost::of(receiver?.times(TRAVERSAL)),
            "string_to_bytes" => {
                let size = arg(0)?;
                let result = CostRange { min: size.min, max: size.max.wrapping_mul(4) };
                CallCost::sized(size.times(TRAVERSAL), result)
            }
            "bytes_to_string" => {
                let size = arg(0)?;
                CallCost::sized(size.times(TRAVERSAL), CostRange { min: size.min / 4, max: size.max })
            }
            "strings_quote" => {
                let size = arg(0)?;
                let result = CostRange {
                    min: size.min.wrapping_add(2),
                    max: size.max.wrapping_mul(2).wrapping_add(2),
                };
                CallCost::sized(size.times(TRAVERSAL), result)
            }
            "starts_with_string" | "ends_with_string" => CallCost::of(arg(0)?.times(TRAVERSAL)),
            "in_list" => CallCost::of(arg(1)?.times(1.0)),
            "matches_string" => CallCost::of(pattern_cost(receiver?, arg(0)?)),
            "contains_string" => CallCost::of(receiver?.times(TRAVERSAL).multiply(arg(0)?.times(TRAVERSAL))),
            "add_string" | "add_bytes" | "add_list" => {
                let size = arg(0)?.add(arg(1)?);
                if let (Some(one), Some(two)) =
                    (self.entry_sizes(args[0].expr), self.entry_sizes(args[1].expr))
                {
                    self.entries.insert(expr.id, one.union(two));
                }
                let cost = if overload == "add_list" { CostRange::fixed(1) } else { size.times(TRAVERSAL) };
                CallCost::sized(cost, size)
            }
            "less_string"
            | "less_bytes"
            | "less_equals_string"
            | "less_equals_bytes"
            | "greater_string"
            | "greater_bytes"
            | "greater_equals_string"
            | "greater_equals_bytes"
            | "equals"
            | "not_equals" => {
                let smaller = arg(0)?.max.min(arg(1)?.max);
                CallCost::of(CostRange { min: u64::from(smaller > 0), max: smaller }.times(TRAVERSAL))
            }
            _ => None,
        }
    }

    /// The size of an operand for functions of Kubernetes.
    pub(super) fn operand_size(&self, operand: &Operand<'_>) -> CostRange {
        operand.size.or_else(|| self.declared(&operand.path)).unwrap_or(CostRange::UNKNOWN)
    }

    /// Type and size of the items of a list.
    pub(super) fn items(&self, list: &Operand<'_>) -> Option<(Type, CostRange)> {
        let item = list.ty.parameters().first().map(|ty| (*ty).clone())?;
        let mut path = list.path.clone();
        let size = if path.is_empty() {
            None
        } else {
            path.push("@items".into());
            self.declared(&path)
        };
        Some((item, size.unwrap_or(CostRange::UNKNOWN)))
    }

    /// What Kubernetes says about its own libraries, and about some others.
    pub(super) fn kubernetes(
        &self,
        function: &str,
        overload: &str,
        target: Option<&Operand<'_>>,
        args: &[Operand<'_>],
    ) -> Option<CallCost> {
        let arg = |position: usize| args.get(position).map(|operand| self.operand_size(operand));
        let receiver = target.map(|operand| self.operand_size(operand));
        match function {
            "check" => CallCost::of(CostRange::fixed(350_000)),
            "serviceAccount"
            | "path"
            | "group"
            | "resource"
            | "subresource"
            | "namespace"
            | "name"
            | "allowed"
            | "reason"
            | "error"
            | "errored"
            | "masked"
            | "prefixLength"
            | "family"
            | "isUnspecified"
            | "isLoopback"
            | "isLinkLocalMulticast"
            | "isLinkLocalUnicast"
            | "isGlobalUnicast"
            | "format.named"
            | "sign"
            | "asInteger"
            | "isInteger"
            | "asApproximateFloat"
            | "isGreaterThan"
            | "isLessThan"
            | "compareTo"
            | "add"
            | "sub"
            | "major"
            | "minor"
            | "patch"
            | "getScheme"
            | "getHostname"
            | "getHost"
            | "getPort"
            | "getEscapedPath"
            | "getQuery" => CallCost::of(CostRange::fixed(1)),
            "fieldSelector" | "labelSelector" => CallCost::of(selector_cost(arg(0)?)),
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => {
                let size = receiver?;
                let Some((ty, item_size)) = self.items(target?) else {
                    return CallCost::of(size.times(TRAVERSAL));
                };
                let mut each = CostRange::fixed(1);
                if matches!(ty, Type::String | Type::Bytes) {
                    each = each.add(item_size.times(TRAVERSAL));
                }
                CallCost::of(size.multiply(each))
            }
            "url" => CallCost::sized(arg(0)?.times(TRAVERSAL), arg(0)?),
            "lowerAscii" | "upperAscii" | "substring" | "trim" => {
                CallCost::sized(receiver?.times(TRAVERSAL), receiver?)
            }
            "replace" => {
                let size = receiver?;
                CallCost::sized(size.times(2.0 * TRAVERSAL), replaced_size(size, arg(0)?, arg(1)?))
            }
            "split" => {
                let size = receiver?;
                let most = match args.get(1).map(|limit| &limit.expr.kind) {
                    Some(Kind::Literal(Literal::Int(limit))) => *limit as u64,
                    _ => size.max,
                };
                CallCost::sized(size.times(2.0 * TRAVERSAL), CostRange { min: 0, max: most })
            }
            "join" => {
                let list = receiver?;
                let mut size = self.items(target?).map_or(CostRange::ZERO, |(_, item)| list.multiply(item));
                if let Some(separator) = arg(0) {
                    let between =
                        CostRange { min: list.min.saturating_sub(1), max: list.max.saturating_sub(1) };
                    size = size.add(separator.multiply(between));
                }
                CallCost::sized(size.times(TRAVERSAL), size)
            }
            "find" | "findAll" => {
                let size = receiver?;
                CallCost::sized(pattern_cost(size, arg(0)?), CostRange { min: 0, max: size.max })
            }
            "ip" if overload == "cidr_ip" => CallCost::of(CostRange::fixed(1)),
            "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver" => {
                CallCost::of(arg(0)?.times(TRAVERSAL))
            }
            "ip.isCanonical" => CallCost::of(arg(0)?.times(2.0 * TRAVERSAL)),
            "containsIP" | "containsCIDR" => {
                let address = CostRange { min: 4, max: 16 };
                let mut cost = address.add(address).times(TRAVERSAL);
                if function == "containsCIDR" {
                    cost = cost.add(address.times(TRAVERSAL)).add(CostRange::fixed(1));
                }
                if matches!(overload, "cidr_contains_ip_string" | "cidr_contains_cidr_string") {
                    cost = cost.add(arg(0)?.times(TRAVERSAL));
                }
                CallCost::of(cost)
            }
            "validate" => CallCost::of(arg(0)?.times(TRAVERSAL).times(128.0 * PATTERN)),
            operator::EQUALS => equality(args),
            _ => None,
        }
    }
}

pub(super) fn or_unknown(size: Option<CostRange>) -> CostRange {
    size.unwrap_or(CostRange::UNKNOWN)
}

fn pattern_cost(text: CostRange, pattern: CostRange) -> CostRange {
    text.add(CostRange::fixed(1)).times(TRAVERSAL).multiply(pattern.times(PATTERN))
}

/// How large a text can be after replacements.
fn replaced_size(size: CostRange, old: CostRange, new: CostRange) -> CostRange {
    let (mut count, mut kept) = (CostRange::ZERO, CostRange::ZERO);
    if old.min == 0 {
        count.max = size.max.saturating_add(1);
        kept.max = size.max;
    } else if new.max <= old.min {
        kept.max = size.max;
    } else {
        count.max = (size.max as f64 / old.min as f64).ceil() as u64;
    }
    if old.max == 0 {
        count.min = size.min.saturating_add(1);
        kept.min = size.min;
    } else if old.max <= new.min {
        kept.min = size.min;
    } else {
        count.min = (size.min as f64 / old.max as f64).ceil() as u64;
    }
    count.multiply(new).add(kept)
}

/// Equality of library values, which do not have the size of what they were made of.
fn equality(args: &[Operand<'_>]) -> Option<CallCost> {
    let [one, two] = args else { return None };
    if one.ty != two.ty {
        return None;
    }
    match &one.ty {
        Type::Opaque(_) => CallCost::of(CostRange::fixed(1)),
        Type::Object(name) => match name.as_ref() {
            "kubernetes.Quantity" | "kubernetes.Semver" => CallCost::of(CostRange::fixed(1)),
            "kubernetes.NamedFormat" => CallCost::of(CostRange { min: 1, max: 64 }.times(TRAVERSAL)),
            "kubernetes.URL" => {
                let most = two.size.map_or(1, |size| size.max);
                CallCost::of(CostRange { min: 1, max: most }.times(TRAVERSAL))
            }
            name if name.starts_with("kubernetes.authorization.") => CallCost::of(CostRange::fixed(1)),
            _ => None,
        },
        _ => None,
    }
}

/// What the sets and lists extensions say about their overloads.
pub(super) fn extension(
    overload: &str,
    target: Option<&Operand<'_>>,
    args: &[Operand<'_>],
) -> Option<CallCost> {
    let size = |operand: &Operand<'_>| or_unknown(operand.size);
    let allocating =
        |factor: f64, size: CostRange| CallCost::sized(size.times(factor).add(CostRange::fixed(11)), size);
    let whole = |position: usize, default: u64| match args.get(position).map(|arg| &arg.expr.kind) {
        Some(Kind::Literal(Literal::Int(number))) => u64::try_from(*number).unwrap_or(0),
        _ => default,
    };
    match overload {
        "list_sets_contains_list" | "list_sets_intersects_list" => {
            CallCost::of(size(args.first()?).multiply(size(args.get(1)?)).times(1.0).add(CostRange::fixed(1)))
        }
        "list_sets_equivalent_list" => {
            CallCost::of(size(args.first()?).multiply(size(args.get(1)?)).times(2.0).add(CostRange::fixed(1)))
        }
        "list_slice" => {
            let end = whole(1, size(target?).max);
            allocating(1.0, CostRange::fixed(end.wrapping_sub(whole(0, 0))))
        }
        "lists_range" => allocating(1.0, CostRange::fixed(whole(0, u64::MAX))),
        "list_reverse" | "list_flatten" => allocating(1.0, size(target?)),
        "list_flatten_int" => allocating(whole(0, u64::MAX) as f64, size(target?)),
        "list_distinct" | "list_sort" => allocating(2.0, size(target?).multiply(size(target?))),
        "list_text_sort" => allocating(2.0 + TRAVERSAL, size(target?).multiply(size(target?))),
        "list_sort_by" | "list_text_sort_by" => {
            let keys = size(args.first()?);
            let factor = if overload == "list_sort_by" { 2.0 } else { 2.0 + TRAVERSAL };
            allocating(factor, keys.multiply(keys))
        }
        _ => None,
    }
}
