//! Resource quotas: what a namespace may use altogether.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    super::{
        Strategy,
        access::{get, get_mut, get_str, items, set},
        checks::quantity,
        lifecycle::{keep_spec, keep_status},
        report::{At, Errors},
    },
    pod_spec,
};

/// What a resource quota does.
pub(crate) const STRATEGY: Strategy = Strategy {
    default: |quota| {
        pod_spec::round_amounts(get_mut(quota, &["spec", "hard"]));
        for list in ["hard", "used"] {
            pod_spec::round_amounts(get_mut(quota, &["status", list]));
        }
    },
    prepare_create: |quota| set(quota, &["status"], json!({})),
    prepare_update: keep_status,
    prepare_status_update: keep_spec,
    validate: |quota| Errors::of(quota, |quota, errors| validate_spec(&quota.field("spec"), errors)),
    validate_update: |quota, old| {
        Errors::of(quota, |at, errors| {
            let spec = at.field("spec");
            validate_spec(&spec, errors);
            let scopes = |object: &Value| -> BTreeSet<String> {
                items(object, &["spec", "scopes"]).iter().map(Value::to_string).collect()
            };
            if scopes(quota) != scopes(old) {
                errors.invalid(&spec.field("scopes"), spec.field("scopes").shown(), "field is immutable");
            }
        })
    },
    validate_status_update: |quota, _| {
        Errors::of(quota, |quota, errors| {
            let status = quota.field("status");
            for list in ["hard", "used"] {
                amounts(&status.field(list), errors);
            }
        })
    },
    warnings: |quota, old| if old.is_none() { warnings(quota) } else { Vec::new() },
    generation: None,
};

const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "VolumeAttributesClass",
    "CrossNamespacePodAffinity",
];

fn amounts(list: &At<'_, '_>, errors: &mut Errors) {
    for (name, amount) in list.entries() {
        pod_spec::quota_resource_name(&amount, name, errors);
        pod_spec::resource_amount(&amount, name, errors);
    }
}

/// Whether a scope can tell apart what a resource counts.
fn scope_applies(scope: &str, resource: &str) -> bool {
    const COMPUTE: [&str; 6] =
        ["cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];
    match scope {
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => matches!(resource, "persistentvolumeclaims" | "requests.storage"),
        scope if SCOPES.contains(&scope) => resource == "pods" || COMPUTE.contains(&resource),
        _ => true,
    }
}

fn validate_spec(spec: &At<'_, '_>, errors: &mut Errors) {
    let hard = spec.field("hard");
    amounts(&hard, errors);
    let misapplied = |scope: &str| {
        hard.entries()
            .filter(|(name, _)| pod_spec::is_standard_quota(name) && !scope_applies(scope, name))
            .count()
    };
    let scopes = spec.field("scopes");
    for scope in scopes.strings() {
        if !SCOPES.contains(&scope) {
            errors.invalid(&scopes, scopes.shown(), "unsupported scope");
        }
        for _ in 0..misapplied(scope) {
            errors.invalid(&scopes, scopes.shown(), "unsupported scope applied to resource");
        }
    }
    conflicts(&scopes, &scopes, &scopes.strings().collect::<Vec<_>>(), errors);
    let selector = spec.field("scopeSelector");
    let expressions = selector.field("matchExpressions");
    for expression in expressions.items() {
        let scope = expression.field("scopeName").str();
        if !SCOPES.contains(&scope) {
            errors.invalid(&expressions.field("scopeName"), scope, "unsupported scope");
        }
        for _ in 0..misapplied(scope) {
            errors.invalid(&expressions, selector.shown(), "unsupported scope applied to resource");
        }
        selector_operator(&expressions, &expression, errors);
    }
    let named: Vec<&str> = expressions.items().map(|one| one.field("scopeName").str()).collect();
    conflicts(&expressions, &scopes, &named, errors);
}

fn conflicts(place: &At<'_, '_>, shown: &At<'_, '_>, scopes: &[&str], errors: &mut Errors) {
    for pair in [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]] {
        if pair.iter().all(|scope| scopes.contains(scope)) {
            errors.invalid(place, shown.shown(), "conflicting scopes");
        }
    }
}

fn selector_operator(place: &At<'_, '_>, expression: &At<'_, '_>, errors: &mut Errors) {
    let (operator, values) = (expression.field("operator").str(), expression.field("values"));
    let only_exists =
        !matches!(expression.field("scopeName").str(), "PriorityClass" | "VolumeAttributesClass");
    if only_exists && SCOPES.contains(&expression.field("scopeName").str()) && operator != "Exists" {
        let text = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
        errors.invalid(&place.field("operator"), operator, text);
    }
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            let text = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
            errors.required(&place.field("values"), text);
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let text = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
            errors.invalid(&place.field("values"), values.shown(), text);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => errors.invalid(&place.field("operator"), other, "not a valid selector operator"),
    }
}

fn warnings(quota: &Value) -> Vec<String> {
    let amount =
        |name: &str| get(quota, &["spec", "hard", name]).map(|_| get_str(quota, &["spec", "hard", name]));
    let mut warnings = Vec::new();
    for resource in ["cpu", "memory", "storage", "ephemeral-storage"] {
        let (asked, limited) = (format!("requests.{resource}"), format!("limits.{resource}"));
        let request = match (amount(&asked), resource) {
            (Some(request), _) => Some((asked, request)),
            (None, "cpu" | "memory") => amount(resource).map(|request| (resource.to_owned(), request)),
            _ => None,
        };
        if let (Some((name, request)), Some(limit)) = (request, amount(&limited))
            && quantity(request) > quantity(limit)
        {
            warnings
                .push(format!("ResourceQuota {name} ({request}) should be less than {limited} ({limit})"));
        }
    }
    warnings
}
