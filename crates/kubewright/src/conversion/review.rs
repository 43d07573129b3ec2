//! What the API server asks a conversion webhook, and what it is answered.

use kube::core::{
    Status,
    conversion::{ConversionRequest, ConversionResponse, ConversionReview},
};
use serde_json::{Value, json};

use super::Conversions;
use crate::error::{Error, Result};

impl Conversions {
    /// Answers a `ConversionReview` by one. If one object can't be converted, none is, and the answer says which and why.
    pub(crate) fn review(&self, review: Value) -> Value {
        let uid = review["request"]["uid"].clone();
        let review: ConversionReview = match serde_json::from_value(review) {
            Ok(review) => review,
            Err(why) => return refusal(uid, &format!("it is no ConversionReview: {why}")),
        };
        let request = match ConversionRequest::from_review(review) {
            Ok(request) => request,
            Err(why) => return refusal(uid, &why.to_string()),
        };
        let converted: Result<Vec<Value>> = request
            .objects
            .iter()
            .map(|object| {
                let named = |why| Error::new(format!("{}: {why}", called(object)));
                self.convert(object, &request.desired_api_version).map_err(named)
            })
            .collect();
        let response = ConversionResponse::for_request(request);
        let response = match converted {
            Ok(objects) => response.success(objects),
            Err(why) => response.failure(failure(&why.to_string())),
        };
        json!(response.into_review())
    }
}

fn refusal(uid: Value, why: &str) -> Value {
    let mut review = json!(ConversionResponse::invalid(failure(why)).into_review());
    if uid.is_string() {
        review["response"]["uid"] = uid;
    }
    review
}

fn failure(why: &str) -> Status {
    Status::failure(why, "BadRequest")
}

/// An object as people call it.
fn called(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    match (text("/kind"), text("/metadata/namespace"), text("/metadata/name")) {
        (kind, "", name) => format!("{kind} {name}"),
        (kind, namespace, name) => format!("{kind} {namespace}/{name}"),
    }
}
