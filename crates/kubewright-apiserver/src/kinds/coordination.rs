//! Leases: who leads, and until when.

use serde_json::Value;

use super::{Strategy, access::remove, report::Errors};
use crate::field::FieldError;

/// The kinds of the group `coordination.k8s.io`.
pub(crate) const STRATEGIES: &[(&str, &str, Strategy)] = &[("v1", "Lease", LEASE)];

const LEASE: Strategy = Strategy {
    prepare_create: drop_election,
    prepare_update: |object, _| drop_election(object),
    validate,
    validate_update: |object, _| validate(object),
    ..Strategy::PLAIN
};

/// Elections by the server are switched off, and so are the fields that ask for one.
fn drop_election(object: &mut Value) {
    remove(object, &["spec", "strategy"]);
    remove(object, &["spec", "preferredHolder"]);
}

fn validate(object: &Value) -> Vec<FieldError> {
    Errors::of(object, |object, errors| {
        let spec = object.field("spec");
        let duration = spec.field("leaseDurationSeconds");
        if duration.exists() && duration.int() <= 0 {
            errors.invalid(&duration, duration.int(), "must be greater than 0");
        }
        errors.non_negative(&spec.field("leaseTransitions"));
    })
}
