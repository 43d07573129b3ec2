//! API services: which groups and versions there are, and who serves them.

use serde_json::Value;

use super::{
    Strategy,
    access::{default_to, has},
    checks,
    lifecycle::keep_status,
    report::{At, Errors},
    status::{drop_status, keep_spec_and_metadata},
};
use crate::{field::FieldError, names};

/// The kinds of the group `apiregistration.k8s.io`.
pub(crate) const STRATEGIES: &[(&str, &str, Strategy)] = &[("v1", "APIService", API_SERVICE)];

const API_SERVICE: Strategy = Strategy {
    default: |object| {
        if has(object, &["spec", "service"]) {
            default_to(object, &["spec", "service", "port"], 443);
        }
    },
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_status_update: keep_spec_and_metadata,
    validate: |object| Errors::of(object, api_service),
    validate_update: |object, _| Errors::of(object, api_service),
    validate_status_update,
    ..Strategy::PLAIN
};

fn api_service(object: &At<'_, '_>, errors: &mut Errors) {
    let spec = object.field("spec");
    let (group, version) = (spec.field("group"), spec.field("version"));
    let metadata = object.field("metadata");
    let name = metadata.field("name");
    let expected = format!("{}.{}", version.str(), group.str());
    if name.str() != expected {
        errors.invalid(&name, name.str(), format!("must be `spec.version+\".\"+spec.group`: \"{expected}\""));
    }
    if group.str().is_empty() {
        if version.str() != "v1" {
            errors.required(&group, "only v1 may have an empty group and it better be legacy kube");
        }
    } else {
        errors.each(&group, checks::dns_subdomain(group.str()));
    }
    errors.each(&version, names::dns1035_label(version.str()));
    for (field, limit) in [("groupPriorityMinimum", 20000), ("versionPriority", 1000)] {
        let priority = spec.field(field);
        if !(1..=limit).contains(&priority.int()) {
            errors.invalid(&priority, priority.int(), format!("must be positive and less than {limit}"));
        }
    }
    let (insecure, bundle) = (spec.field("insecureSkipTLSVerify"), spec.field("caBundle"));
    let service = spec.field("service");
    if !service.exists() {
        if !bundle.str().is_empty() {
            let size = decoded_len(bundle.str());
            errors.invalid(&bundle, format!("{size} bytes"), "local APIServices may not have a caBundle");
        }
        if insecure.bool() {
            errors.invalid(&insecure, true, "local APIServices may not have insecureSkipTLSVerify");
        }
        return;
    }
    for field in ["namespace", "name"] {
        let part = service.field(field);
        if part.str().is_empty() {
            errors.required(&part, "");
        }
    }
    let port = service.field("port");
    if !(1..=65535).contains(&port.int()) {
        let why = format!("port is not valid: {}", checks::out_of_range(1, 65535));
        errors.invalid(&port, port.int(), why);
    }
    if insecure.bool() && !bundle.str().is_empty() {
        errors.invalid(&insecure, true, "may not be true if caBundle is present");
    }
}

/// Number of bytes that a text in base64 stands for.
fn decoded_len(text: &str) -> usize {
    text.trim_end_matches('=').len() * 3 / 4
}

fn validate_status_update(object: &Value, _: &Value) -> Vec<FieldError> {
    Errors::of(object, |object, errors| {
        let status = object.field("status");
        let conditions = status.field("conditions");
        for condition in conditions.items() {
            let status = condition.field("status");
            if !matches!(status.str(), "True" | "False" | "Unknown") {
                errors.not_supported(&status, status.str(), &["True", "False", "Unknown"]);
            }
        }
    })
}
