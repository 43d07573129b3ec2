//! The three patches that change an object field by field; of the fourth, apply, only the body is read here.
//!
//! Each takes the object as it is, in the version of the request, and the patch, and leaves the object as
//! it should become: not yet decoded, defaulted or validated. A failed patch may leave the object half
//! changed, so callers patch a copy.

pub(crate) mod apply;
pub(crate) mod json;
pub(crate) mod merge;
pub(crate) mod strategic;

use serde_json::Value;

use crate::{
    decode::{Parsed, go},
    error::{ApiError, Details},
};

/// 422, as the server answers what it has no words for.
fn unprocessable() -> ApiError {
    ApiError::new(422, "Invalid", "the server rejected our request due to an error in our request")
        .with_details(Details::default())
}

/// The patch of a merge, which has to be an object; Go says so in these words.
fn require_object(parsed: &Parsed<'_>) -> Result<(), String> {
    match &parsed.value {
        Value::Object(_) | Value::Null => Ok(()),
        other => Err(format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            go::json_kind(other)
        )),
    }
}
