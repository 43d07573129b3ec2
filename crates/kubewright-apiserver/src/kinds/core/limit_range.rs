//! Limit ranges: what single pods, containers and claims of a namespace may ask for.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    super::{
        Strategy,
        access::{default_to, get, get_mut, get_str, items_mut},
        checks::{self, quantity},
        report::{At, Errors},
    },
    pod_spec,
};

/// What a limit range does.
pub(crate) const STRATEGY: Strategy = Strategy {
    default,
    validate: |range| Errors::of(range, validate),
    validate_update: |range, _| Errors::of(range, validate),
    ..Strategy::PLAIN
};

fn default(range: &mut Value) {
    for item in items_mut(range, &["spec", "limits"]) {
        for list in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
            pod_spec::round_amounts(get_mut(item, &[list]));
        }
        if get_str(item, &["type"]) != "Container" {
            continue;
        }
        for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
            let Some(Value::Object(amounts)) = get(item, &[from]).cloned() else { continue };
            for (name, amount) in amounts {
                default_to(item, &[to, &name], amount);
            }
        }
    }
}

fn validate(range: &At<'_, '_>, errors: &mut Errors) {
    let mut kinds = BTreeSet::new();
    let spec = range.field("spec");
    for item in spec.field("limits").items() {
        let kind = item.field("type");
        let reasons = checks::qualified_name(kind.str());
        let standard = matches!(kind.str(), "Pod" | "Container" | "PersistentVolumeClaim");
        if reasons.is_empty() && !kind.str().contains('/') && !standard {
            errors.invalid(&kind, kind.str(), "must be a standard limit type or fully qualified");
        }
        errors.each(&kind, reasons);
        if !kinds.insert(kind.str()) {
            errors.duplicate(&kind, kind.str());
        }
        limits(&item, kind.str(), errors);
    }
}

fn limits(item: &At<'_, '_>, kind: &str, errors: &mut Errors) {
    let (max, min) = (item.field("max"), item.field("min"));
    let (limit, request) = (item.field("default"), item.field("defaultRequest"));
    let ratio = item.field("maxLimitRequestRatio");
    let mut names: BTreeSet<&str> = BTreeSet::new();
    for list in [&max, &min, &limit, &request, &ratio] {
        if kind == "Pod" && list.path().as_str().contains("default") {
            if !list.is_empty() {
                errors.forbidden(list, "may not be specified when `type` is 'Pod'");
            }
            continue;
        }
        for (name, amount) in list.entries() {
            if matches!(kind, "Pod" | "Container") {
                pod_spec::container_resource_name(&amount, name, errors);
            } else {
                pod_spec::resource_name(&amount, name, errors);
            }
            names.insert(name);
        }
    }
    if kind == "PersistentVolumeClaim" && !min.field("storage").exists() && !max.field("storage").exists() {
        let text = "either minimum or maximum storage value is required, but neither was provided";
        errors.required(&item.field("limits"), text);
    }
    for name in names {
        order(name, [&min, &max, &limit, &request, &ratio], kind == "Pod", errors);
    }
}

/// How the amounts of one resource must relate.
fn order(name: &str, [min, max, limit, request, ratio]: [&At<'_, '_>; 5], pod: bool, errors: &mut Errors) {
    let (min, max, ratio) = (min.key(name), max.key(name), ratio.key(name));
    let (limit, request) = (limit.key(name), request.key(name));
    let exceeds = |one: &At<'_, '_>, other: &At<'_, '_>| {
        one.exists() && other.exists() && quantity(one.str()) > quantity(other.str())
    };
    let mut report = |wrong: bool, place: &At<'_, '_>, shown: &At<'_, '_>, text: String| {
        if wrong {
            errors.invalid(place, shown.str(), text);
        }
    };
    let greater = |what: &str, one: &At<'_, '_>, than: &str, other: &At<'_, '_>| {
        format!("{what} value {} is greater than {than} value {}", one.str(), other.str())
    };
    report(exceeds(&min, &max), &min, &min, greater("min", &min, "max", &max));
    if !pod {
        report(
            exceeds(&min, &request),
            &request,
            &request,
            greater("min", &min, "default request", &request),
        );
        report(
            exceeds(&request, &max),
            &request,
            &request,
            greater("default request", &request, "max", &max),
        );
        let text = greater("default request", &request, "default limit", &limit);
        report(exceeds(&request, &limit), &request, &request, text);
        report(exceeds(&min, &limit), &limit, &min, greater("min", &min, "default", &limit));
        report(exceeds(&limit, &max), &limit, &max, greater("default", &limit, "max", &max));
    }
    let times = quantity(ratio.str());
    let low = ratio.exists() && times < quantity("1");
    report(low, &ratio, &ratio, format!("ratio {} is less than 1", ratio.str()));
    if ratio.exists() && min.exists() && max.exists() {
        let most = quantity(max.str()).as_f64() / quantity(min.str()).as_f64();
        let text = format!("ratio {} is greater than max/min = {most:.6}", ratio.str());
        report(times.as_f64() > most, &ratio, &ratio, text);
    }
    let differ = limit.exists() && request.exists() && quantity(limit.str()) != quantity(request.str());
    if !pod && !pod_spec::is_overcommittable(name) {
        let text = format!(
            "default value {} must equal to defaultRequest value {} in {name}",
            limit.str(),
            request.str()
        );
        report(differ, &request, &request, text);
    }
}
