//! Probes and lifecycle hooks: what is run, and how often.

use super::super::super::{
    checks,
    report::{At, Errors},
};

/// The three probes and the hooks of a container that keeps running.
pub(super) fn of_container(container: &At<'_, '_>, grace: Option<i64>, errors: &mut Errors) {
    let lifecycle = container.field("lifecycle");
    for name in ["postStart", "preStop"] {
        let hook = lifecycle.field(name);
        if hook.exists() {
            handler(&hook, grace, &["exec", "httpGet", "tcpSocket", "sleep"], errors);
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = container.field(name);
        if !probe.exists() {
            continue;
        }
        timing(&probe, grace, errors);
        if name == "readinessProbe" {
            let grace = probe.field("terminationGracePeriodSeconds");
            if grace.exists() {
                errors.invalid(&grace, grace.int(), "must not be set for readinessProbes");
            }
        } else if probe.field("successThreshold").int() != 1 {
            let threshold = probe.field("successThreshold");
            errors.invalid(&threshold, threshold.int(), "must be 1");
        }
    }
}

fn timing(probe: &At<'_, '_>, grace: Option<i64>, errors: &mut Errors) {
    handler(probe, grace, &["exec", "httpGet", "tcpSocket", "grpc"], errors);
    for name in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        errors.non_negative(&probe.field(name));
    }
    let own_grace = probe.field("terminationGracePeriodSeconds");
    if own_grace.number().is_some_and(|seconds| seconds <= 0) {
        errors.invalid(&own_grace, own_grace.int(), "must be greater than 0");
    }
}

fn handler(handler: &At<'_, '_>, grace: Option<i64>, kinds: &[&str], errors: &mut Errors) {
    let mut found = false;
    for kind in kinds {
        let action = handler.field(kind);
        if !action.exists() {
            continue;
        }
        if found {
            errors.forbidden(&action, "may not specify more than 1 handler type");
            continue;
        }
        found = true;
        match *kind {
            "exec" if action.field("command").is_empty() => errors.required(&action.field("command"), ""),
            "httpGet" => http_get(&action, errors),
            "tcpSocket" => checks::port(&action.field("port"), errors),
            "grpc" => checks::port_number(&action.field("port"), errors),
            "sleep" => sleep(&action, grace, errors),
            _ => {}
        }
    }
    if !found {
        errors.required(handler, "must specify a handler type");
    }
}

fn http_get(action: &At<'_, '_>, errors: &mut Errors) {
    if action.field("path").str().is_empty() {
        errors.required(&action.field("path"), "");
    }
    checks::port(&action.field("port"), errors);
    let scheme = action.field("scheme");
    if !matches!(scheme.str(), "HTTP" | "HTTPS") {
        errors.not_supported(&scheme, scheme.str(), &["HTTP", "HTTPS"]);
    }
    let headers = action.field("httpHeaders");
    for header in headers.items() {
        let name = header.field("name").str();
        for reason in checks::header_name(name) {
            errors.invalid(&headers, name, reason);
        }
    }
}

fn sleep(action: &At<'_, '_>, grace: Option<i64>, errors: &mut Errors) {
    let seconds = action.field("seconds").int();
    if let Some(grace) = grace.filter(|grace| seconds < 0 || seconds > *grace) {
        let text = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        errors.invalid(action, seconds, text);
    }
}
