//! Requests about who somebody is. Nothing here is stored.

use super::{Strategy, access::default_to, report::Errors};

/// The kinds of the group `authentication.k8s.io`.
pub(crate) const STRATEGIES: &[(&str, &str, Strategy)] = &[
    ("v1", "SelfSubjectReview", Strategy::PLAIN),
    ("v1", "TokenRequest", TOKEN_REQUEST),
    ("v1", "TokenReview", Strategy::PLAIN),
];

const TOKEN_REQUEST: Strategy = Strategy {
    default: |object| default_to(object, &["spec", "expirationSeconds"], 3600),
    validate: |object| {
        Errors::of(object, |request, errors| {
            let spec = request.field("spec");
            let expiration = spec.field("expirationSeconds");
            if expiration.int() < 600 {
                let why = "may not specify a duration less than 10 minutes";
                errors.invalid(&expiration, expiration.int(), why);
            }
            if expiration.int() > 1 << 32 {
                let why = "may not specify a duration larger than 2^32 seconds";
                errors.invalid(&expiration, expiration.int(), why);
            }
        })
    },
    ..Strategy::PLAIN
};
