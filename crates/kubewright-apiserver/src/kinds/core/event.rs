//! Events, as core/v1 takes them. Those of events.k8s.io have stricter rules on top.

use super::super::{
    Strategy, checks,
    report::{At, Errors},
};

/// What an event does.
pub(crate) const STRATEGY: Strategy = Strategy {
    validate: |event| Errors::of(event, |event, errors| validate(event, "reportingComponent", errors)),
    validate_update: |event, _| {
        Errors::of(event, |event, errors| validate(event, "reportingComponent", errors))
    },
    ..Strategy::PLAIN
};

/// What holds for events of either group. `reporter` is the name of the field with the reporting controller
/// in that group; the value is read from `reportingComponent`.
pub(crate) fn validate(event: &At<'_, '_>, reporter: &str, errors: &mut Errors) {
    let namespace = event.field("metadata").field("namespace").str();
    let involved = event.field("involvedObject");
    let of = involved.field("namespace");
    let mut mismatch = |matches: bool| {
        if !matches {
            errors.invalid(&of, of.str(), "does not match event.namespace");
        }
    };
    if !event.field("eventTime").exists() {
        mismatch(match of.str() {
            "" => matches!(namespace, "" | "default"),
            of => of == namespace,
        });
    } else {
        mismatch(!of.str().is_empty() || matches!(namespace, "default" | "kube-system"));
        let controller = event.field(reporter).holding(event.field("reportingComponent").value());
        if controller.str().is_empty() {
            errors.required(&controller, "");
        }
        errors.each(&controller, checks::qualified_name(controller.str()));
        for field in ["reportingInstance", "action", "reason"] {
            let field = event.field(field);
            if field.str().is_empty() {
                errors.required(&field, "");
            }
            if field.str().len() > 128 {
                errors.invalid(&field, "", "can have at most 128 characters");
            }
        }
        let message = event.field("message");
        if message.str().len() > 1024 {
            errors.invalid(&message, "", "can have at most 1024 characters");
        }
    }
    for reason in checks::dns_subdomain(namespace) {
        errors.invalid(&event.field("namespace"), namespace, reason);
    }
}
