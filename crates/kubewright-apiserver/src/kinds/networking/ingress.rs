//! Ingresses and their classes.

use serde_json::Value;

use crate::{
    field::{FieldError, Path},
    kinds::{
        Strategy,
        access::{default_to, get, get_str, has},
        checks,
        lifecycle::{keep_spec, keep_status, spec_changed},
        report::{At, Errors},
        status::drop_status,
    },
    names,
};

const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

pub(super) const INGRESS: Strategy = Strategy {
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_status_update: keep_spec,
    validate,
    validate_update: |object, _| Errors::of(object, |ingress, errors| spec(&ingress.field("spec"), errors)),
    validate_status_update,
    warnings,
    generation: Some(spec_changed),
    ..Strategy::PLAIN
};

pub(super) const INGRESS_CLASS: Strategy = Strategy {
    default: |object| {
        if has(object, &["spec", "parameters"]) {
            default_to(object, &["spec", "parameters", "scope"], "Cluster");
        }
    },
    validate: |object| Errors::of(object, |class, errors| class_spec(&class.field("spec"), errors)),
    validate_update: |object, old| {
        Errors::of(object, |class, errors| {
            let (class, old) = (class.field("spec"), At::root(old));
            errors.immutable(&class.field("controller"), &old.field("spec").field("controller"));
            class_spec(&class, errors);
        })
    },
    generation: Some(spec_changed),
    ..Strategy::PLAIN
};

fn validate(object: &Value) -> Vec<FieldError> {
    let mut errors = Errors::of(object, |ingress, errors| spec(&ingress.field("spec"), errors));
    let annotated = get(object, &["metadata", "annotations", CLASS_ANNOTATION]).and_then(Value::as_str);
    let named = get(object, &["spec", "ingressClassName"]).and_then(Value::as_str);
    if let (Some(annotated), Some(named)) = (annotated, named)
        && annotated != named
    {
        let path = Path::new("annotations").child(CLASS_ANNOTATION);
        let why = "must match `ingressClassName` when both are specified";
        errors.push(FieldError::invalid(&path, annotated, why));
    }
    errors
}

fn warnings(object: &Value, old: Option<&Value>) -> Vec<String> {
    let annotated = has(object, &["metadata", "annotations", CLASS_ANNOTATION]);
    if old.is_none() && annotated && !has(object, &["spec", "ingressClassName"]) {
        vec![format!(
            "annotation \"{CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead"
        )]
    } else {
        Vec::new()
    }
}

fn spec(spec: &At<'_, '_>, errors: &mut Errors) {
    let (rules, fallback) = (spec.field("rules"), spec.field("defaultBackend"));
    if rules.is_empty() && !fallback.exists() {
        errors.invalid(spec, rules.shown(), "either `defaultBackend` or `rules` must be specified");
    }
    if fallback.exists() {
        backend(&fallback, errors);
    }
    for one in rules.items() {
        rule(&one, errors);
    }
    let tls = spec.field("tls");
    for one in tls.items() {
        let hosts = one.field("hosts");
        for name in hosts.items() {
            host(&name, errors);
        }
        let secret = one.field("secretName");
        if !secret.str().is_empty() {
            errors.each(&secret, checks::dns_subdomain(secret.str()));
        }
    }
    let class = spec.field("ingressClassName");
    if class.exists() {
        errors.each(&class, checks::dns_subdomain(class.str()));
    }
}

fn host(at: &At<'_, '_>, errors: &mut Errors) {
    if at.str().contains('*') {
        errors.each(at, names::wildcard_dns1123_subdomain(at.str()));
    } else {
        errors.each(at, checks::dns_subdomain(at.str()));
    }
}

fn rule(rule: &At<'_, '_>, errors: &mut Errors) {
    let name = rule.field("host");
    if !name.str().is_empty() {
        if checks::parse_ip(name.str()).is_some() {
            errors.invalid(&name, name.str(), "must be a DNS name, not an IP address");
        }
        host(&name, errors);
    }
    let http = rule.field("http");
    if !http.exists() {
        return;
    }
    let paths = http.field("paths");
    if paths.is_empty() {
        errors.required(&paths, "");
    }
    for one in paths.items() {
        path(&one, errors);
    }
}

fn path(at: &At<'_, '_>, errors: &mut Errors) {
    let (kind, path) = (at.field("pathType"), at.field("path"));
    if !kind.exists() {
        errors.required(&kind, "pathType must be specified");
        return;
    }
    match kind.str() {
        "Exact" | "Prefix" => {
            if !path.str().starts_with('/') {
                errors.invalid(&path, path.str(), "must be an absolute path");
            }
            for sequence in ["//", "/./", "/../", "%2f", "%2F"] {
                if path.str().contains(sequence) {
                    errors.invalid(&path, path.str(), format!("must not contain '{sequence}'"));
                }
            }
            for suffix in ["/..", "/."] {
                if path.str().ends_with(suffix) {
                    errors.invalid(&path, path.str(), format!("cannot end with '{suffix}'"));
                }
            }
        }
        "ImplementationSpecific" => {
            if !path.str().is_empty() && !path.str().starts_with('/') {
                errors.invalid(&path, path.str(), "must be an absolute path");
            }
        }
        other => errors.not_supported(&kind, other, &["Exact", "ImplementationSpecific", "Prefix"]),
    }
    backend(&at.field("backend"), errors);
}

fn backend(backend: &At<'_, '_>, errors: &mut Errors) {
    let (resource, service) = (backend.field("resource"), backend.field("service"));
    match (resource.exists(), service.exists()) {
        (true, true) => errors.invalid(backend, "", "cannot set both resource and service backends"),
        (true, false) => reference(&resource, errors),
        (false, true) => service_backend(backend, &service, errors),
        (false, false) => errors.invalid(backend, "", "resource or service backend is required"),
    }
}

fn service_backend(backend: &At<'_, '_>, service: &At<'_, '_>, errors: &mut Errors) {
    let name = service.field("name");
    if name.str().is_empty() {
        errors.required(&name, "");
    } else {
        errors.each(&name, checks::dns_label(name.str()));
    }
    let port = service.field("port");
    let (name, number) = (port.field("name"), port.field("number"));
    match (name.str().is_empty(), number.int() == 0) {
        (false, false) => errors.invalid(backend, "", "cannot set both port name & port number"),
        (false, true) => errors.each(&name, checks::port_name(name.str())),
        (true, false) => checks::port_number(&number, errors),
        (true, true) => errors.required(backend, "port name or number is required"),
    }
}

/// A reference to an object of another kind.
fn reference(at: &At<'_, '_>, errors: &mut Errors) {
    let group = at.field("apiGroup");
    if group.exists() {
        errors.each(&group, checks::dns_subdomain(group.str()));
    }
    for field in ["kind", "name"] {
        let part = at.field(field);
        if part.str().is_empty() {
            errors.required(&part, "");
        } else {
            errors.each(&part, names::path_segment(part.str()));
        }
    }
}

fn class_spec(spec: &At<'_, '_>, errors: &mut Errors) {
    let controller = spec.field("controller");
    if controller.str().len() > 250 {
        errors.too_long(&controller, 250);
    }
    domain_prefixed_path(&controller, errors);
    let parameters = spec.field("parameters");
    if !parameters.exists() {
        return;
    }
    reference(&parameters, errors);
    let (scope, namespace) = (parameters.field("scope"), parameters.field("namespace"));
    match scope.str() {
        _ if !scope.exists() => errors.required(&scope, ""),
        "Namespace" if !namespace.exists() => {
            errors.required(&namespace, "`parameters.scope` is set to 'Namespace'");
        }
        "Namespace" => errors.each(&namespace, checks::dns_label(namespace.str())),
        "Cluster" if namespace.exists() => {
            errors.forbidden(&namespace, "`parameters.scope` is set to 'Cluster'");
        }
        "Cluster" => {}
        other => errors.not_supported(&scope, other, &["Cluster", "Namespace"]),
    }
}

fn domain_prefixed_path(at: &At<'_, '_>, errors: &mut Errors) {
    if at.str().is_empty() {
        errors.required(at, "");
        return;
    }
    let Some((domain, path)) =
        at.str().split_once('/').filter(|(domain, path)| !domain.is_empty() && !path.is_empty())
    else {
        errors.invalid(at, at.str(), "must be a domain-prefixed path (such as \"acme.io/foo\")");
        return;
    };
    for reason in checks::dns_subdomain(domain) {
        errors.invalid(at, domain, reason);
    }
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
    if !path.bytes().all(inside) {
        let why = r"Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')";
        errors.invalid(at, path, why);
    }
}

fn validate_status_update(object: &Value, old: &Value) -> Vec<FieldError> {
    let known = |address: &str| {
        let old = At::root(old);
        let status = old.field("status");
        let balancer = status.field("loadBalancer");
        let points = balancer.field("ingress");
        points
            .value()
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .any(|one| get_str(one, &["ip"]) == address)
    };
    Errors::of(object, |object, errors| {
        let status = object.field("status");
        let balancer = status.field("loadBalancer");
        let points = balancer.field("ingress");
        for point in points.items() {
            let (ip, hostname) = (point.field("ip"), point.field("hostname"));
            if !ip.str().is_empty() && !known(ip.str()) {
                checks::ip(&ip, errors);
            }
            if !hostname.str().is_empty() {
                errors.each(&hostname, checks::dns_subdomain(hostname.str()));
                if checks::parse_ip(hostname.str()).is_some() {
                    errors.invalid(&hostname, hostname.str(), "must be a DNS name, not an IP address");
                }
            }
        }
    })
}
