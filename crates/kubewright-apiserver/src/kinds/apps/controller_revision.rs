//! Controller revisions: a state a controller may go back to.

use serde_json::Value;

use super::super::{
    Strategy,
    report::{At, Errors},
};

/// What a controller revision does.
pub(crate) const STRATEGY: Strategy = Strategy {
    validate: |revision| {
        Errors::of(revision, |revision, errors| {
            errors.non_negative(&revision.field("revision"));
            let data = revision.field("data");
            match data.value() {
                None => errors.required(&data, "data is mandatory"),
                Some(Value::Object(_)) => {}
                Some(_) => errors.required(&data, "data must be a valid JSON object"),
            }
        })
    },
    validate_update: |revision, old| {
        Errors::of(revision, |revision, errors| {
            errors.non_negative(&revision.field("revision"));
            errors.immutable(&revision.field("data"), &At::root(old).field("data"));
        })
    },
    ..Strategy::PLAIN
};
