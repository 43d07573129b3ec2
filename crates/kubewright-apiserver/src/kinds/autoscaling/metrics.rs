//! Whether the metrics of an autoscaler make sense.

use super::{Group, reference};
use crate::{
    kinds::{
        checks,
        core::pod_spec::container_resource_name,
        report::{At, Errors},
    },
    names,
};

/// The types of metrics, each with the field that describes it.
const SOURCES: [(&str, &str); 5] = [
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];
const TYPES: &[&str] = &["ContainerResource", "External", "Object", "Pods", "Resource"];

pub(super) fn metrics(metrics: &At<'_, '_>, minimum: Option<i64>, errors: &mut Errors) {
    let mut scales_to_zero = false;
    for one in metrics.items() {
        metric(&one, errors);
        scales_to_zero |= matches!(one.field("type").str(), "Object" | "External");
    }
    if minimum == Some(0) && !scales_to_zero {
        errors.forbidden(
            metrics,
            "must specify at least one Object or External metric to support scaling to zero replicas",
        );
    }
}

fn metric(metric: &At<'_, '_>, errors: &mut Errors) {
    let kind = metric.field("type");
    let expected = SOURCES.iter().find(|(name, _)| *name == kind.str()).map(|(_, field)| *field);
    if kind.str().is_empty() {
        errors.required(&kind, "must specify a metric source type");
    }
    if expected.is_none() {
        errors.not_supported(&kind, kind.str(), TYPES);
    }
    let present: Vec<&str> =
        SOURCES.iter().map(|(_, field)| *field).filter(|field| metric.field(field).exists()).collect();
    if let Some(first) = present.first() {
        source(&metric.field(first), first, errors);
    }
    match expected {
        Some(field) if !metric.field(field).exists() => {
            errors.required(&metric.field(field), "must populate information for the given metric source");
        }
        Some(_) => {}
        // Said twice by kube-apiserver, too.
        None => errors.not_supported(&kind, kind.str(), TYPES),
    }
    if present.len() != 1 {
        for field in present.iter().filter(|field| Some(**field) != expected) {
            errors.forbidden(&metric.field(field), "must populate the given metric source only");
        }
    }
}

fn source(source: &At<'_, '_>, kind: &str, errors: &mut Errors) {
    let target = source.field("target");
    let (value, average) = (target.field("value"), target.field("averageValue"));
    let utilization = target.field("averageUtilization");
    match kind {
        "object" => {
            reference(&source.field("describedObject"), Group::Optional, errors);
            identifier(&source.field("metric"), errors);
            metric_target(&target, errors);
            if !value.exists() && !average.exists() {
                errors.required(&average, "must set either a target value or averageValue");
            }
        }
        "external" => {
            identifier(&source.field("metric"), errors);
            metric_target(&target, errors);
            if !value.exists() && !average.exists() {
                errors.required(&average, "must set either a target value for metric or a per-pod target");
            }
            if value.exists() && average.exists() {
                errors.forbidden(&value, "may not set both a target value for metric and a per-pod target");
            }
        }
        "pods" => {
            identifier(&source.field("metric"), errors);
            metric_target(&target, errors);
            if !average.exists() {
                errors.required(&average, "must specify a positive target averageValue");
            }
        }
        _ => {
            resource(source, kind, errors);
            metric_target(&target, errors);
            if !utilization.exists() && !average.exists() {
                errors.required(&utilization, "must set either a target raw value or a target utilization");
            }
            if utilization.exists() && average.exists() {
                errors.forbidden(&average, "may not set both a target raw value and a target utilization");
            }
        }
    }
}

fn resource(source: &At<'_, '_>, kind: &str, errors: &mut Errors) {
    let name = source.field("name");
    if name.str().is_empty() {
        errors.required(&name, "must specify a resource name");
    } else if kind == "containerResource" {
        container_resource_name(&name, name.str(), errors);
    }
    if kind == "containerResource" {
        let container = source.field("container");
        if container.str().is_empty() {
            errors.required(&container, "must specify a container");
        } else {
            errors.each(&container, checks::dns_label(container.str()));
        }
    }
}

fn metric_target(target: &At<'_, '_>, errors: &mut Errors) {
    let kind = target.field("type");
    if kind.str().is_empty() {
        errors.required(&kind, "must specify a metric target type");
    }
    if !matches!(kind.str(), "Utilization" | "Value" | "AverageValue") {
        errors.invalid(&kind, kind.str(), "must be either Utilization, Value, or AverageValue");
    }
    for field in ["value", "averageValue"] {
        let quantity = target.field(field);
        if quantity.exists() && checks::quantity(quantity.str()).sign() <= 0 {
            errors.invalid(&quantity, quantity.shown(), "must be positive");
        }
    }
    let utilization = target.field("averageUtilization");
    if utilization.exists() && utilization.int() < 1 {
        errors.invalid(&utilization, utilization.int(), "must be greater than 0");
    }
}

fn identifier(metric: &At<'_, '_>, errors: &mut Errors) {
    let name = metric.field("name");
    if name.str().is_empty() {
        errors.required(&name, "must specify a metric name");
    } else {
        errors.each(&name, names::path_segment(name.str()));
    }
}
