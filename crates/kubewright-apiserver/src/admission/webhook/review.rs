//! AdmissionReview: what a webhook is sent, and what it has to send back.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::{super::matching::Objects, Kind};
use crate::{
    decode::{
        self,
        go::{json_kind, quote},
    },
    error::ApiError,
    http::answer,
};

/// What a webhook has answered.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) allowed: bool,
    pub(super) status: Value,
    pub(super) warnings: Vec<String>,
    /// The patch and its type.
    pub(super) patch: Option<(Vec<u8>, String)>,
}

/// The review that asks about a request.
pub(super) fn request(
    version: &str,
    uid: &str,
    mut request: Map<String, Value>,
    objects: Objects<'_>,
) -> Bytes {
    let mut out = format!(
        "{{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/{version}\",\"request\":{{\"uid\":\"{uid}\""
    )
    .into_bytes();
    let mut put = |name: &str, value: &Value| {
        out.extend_from_slice(format!(",\"{name}\":").as_bytes());
        answer::write_json(&mut out, value);
    };
    // The objects are written from where they are, and not copied into the request first.
    let options = request.remove("options").unwrap_or_default();
    for (name, value) in &request {
        put(name, value);
    }
    put("object", objects.object.unwrap_or(&Value::Null));
    put("oldObject", objects.old.unwrap_or(&Value::Null));
    put("options", &options);
    out.extend_from_slice(b"}}\n");
    out.into()
}

/// Reads and checks the review that came back.
pub(super) fn response(version: &str, uid: &str, kind: Kind, review: Value) -> Result<Response, String> {
    let undecodable = |what: &str, value: &Value, wanted: &str| {
        format!(
            "failed to call webhook: json: cannot unmarshal {} into Go struct field {what} of type {wanted}",
            json_kind(value)
        )
    };
    let invalid = |why: String| format!("received invalid webhook response: {why}");
    let (api_version, review_kind) = decode::type_meta(&review)?;
    let (group, of_version) = api_version.split_once('/').unwrap_or(("", api_version));
    if !api_version.is_empty()
        && !review_kind.is_empty()
        && api_version != format!("admission.k8s.io/{version}")
    {
        let known = (group, of_version, review_kind);
        if !matches!(known, ("admission.k8s.io", "v1" | "v1beta1", "AdmissionReview") | ("", "v1", "Status"))
        {
            return Err(unregistered(api_version, review_kind));
        }
        return Err(format!(
            "failed to call webhook: converting ({of_version}.{review_kind}) to ({version}.AdmissionReview): unknown conversion"
        ));
    }
    if !review_kind.is_empty() && !api_version.is_empty() && review_kind != "AdmissionReview" {
        return Err(unregistered(api_version, review_kind));
    }
    let is_v1 = (api_version, review_kind) == ("admission.k8s.io/v1", "AdmissionReview");
    let claimed = format!("{group}/{of_version}, Kind={review_kind}");
    let Value::Object(mut review) = review else {
        return Err(invalid("webhook response was absent".to_owned()));
    };
    let mut response = match review.remove("response") {
        None | Some(Value::Null) => return Err(invalid("webhook response was absent".to_owned())),
        Some(Value::Object(response)) => response,
        Some(other) => return Err(undecodable("AdmissionReview.response", &other, "v1.AdmissionResponse")),
    };
    let mut text = |name: &str| match response.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => {
            let wanted = match name {
                "uid" => "types.UID",
                "patch" => "[]uint8",
                _ => "v1.PatchType",
            };
            Err(undecodable(&format!("AdmissionResponse.response.{name}"), &other, wanted))
        }
    };
    let (answered, patch, patch_type) =
        (text("uid")?.unwrap_or_default(), text("patch")?, text("patchType")?);
    let allowed = match response.remove("allowed") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(allowed)) => allowed,
        Some(other) => return Err(undecodable("AdmissionResponse.response.allowed", &other, "bool")),
    };
    let patch = match patch {
        None => Vec::new(),
        Some(text) => STANDARD
            .decode(text.replace(['\r', '\n'], ""))
            .map_err(|_| "failed to call webhook: illegal base64 data at input byte 0".to_owned())?,
    };
    if version == "v1" {
        if answered != uid {
            return Err(invalid(format!("expected response.uid={}, got {}", quote(uid), quote(&answered))));
        }
        if !is_v1 {
            return Err(invalid(format!(
                "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {claimed}"
            )));
        }
    }
    let patch = match (version, kind) {
        ("v1", Kind::Mutating) => match patch_type {
            None if patch.is_empty() => None,
            None => {
                return Err(invalid("webhook returned response.patch but not response.patchType".to_owned()));
            }
            Some(_) if patch.is_empty() => {
                return Err(invalid("webhook returned response.patchType but not response.patch".to_owned()));
            }
            Some(kind) if kind.is_empty() => {
                return Err(invalid("webhook returned invalid response.patchType of \"\"".to_owned()));
            }
            Some(kind) => Some((patch, kind)),
        },
        ("v1", Kind::Validating) if !patch.is_empty() => {
            return Err(invalid("validating webhook may not return response.patch".to_owned()));
        }
        ("v1", Kind::Validating) if patch_type.is_some() => {
            return Err(invalid("validating webhook may not return response.patchType".to_owned()));
        }
        (_, Kind::Validating) => None,
        // In v1beta1 there was only one type of patches.
        (_, Kind::Mutating) => (!patch.is_empty()).then(|| (patch, "JSONPatch".to_owned())),
    };
    let warnings = match response.remove("warnings") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Some(other) => return Err(undecodable("AdmissionResponse.response.warnings", &other, "[]string")),
    };
    Ok(Response { allowed, status: response.remove("status").unwrap_or_default(), warnings, patch })
}

fn unregistered(api_version: &str, kind: &str) -> String {
    format!(
        "failed to call webhook: no kind {} is registered for version {} in scheme \"pkg/runtime/scheme.go:111\"",
        quote(kind),
        quote(api_version)
    )
}

/// The answer to a request that the webhook `name` has denied with `status`.
pub(super) fn denial(name: &str, status: Value) -> ApiError {
    let mut status = match status {
        Value::Object(status) => status,
        _ => Map::new(),
    };
    let code = status.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
    let code = code.filter(|code| (400..1000).contains(code)).unwrap_or(400);
    let denied = format!("admission webhook {} denied the request", quote(name));
    let text = |field: &str| status.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
    let message = match text("message").or_else(|| text("reason")) {
        Some(why) => format!("{denied}: {why}"),
        None => format!("{denied} without explanation"),
    };
    if matches!(text("status"), None | Some("Success")) {
        status.insert("status".to_owned(), "Failure".into());
    }
    status.retain(|name, value| {
        matches!(name.as_str(), "metadata" | "status" | "reason" | "details") && !value.is_null()
    });
    status.entry("metadata").or_insert_with(|| json!({}));
    status.insert("kind".to_owned(), "Status".into());
    status.insert("apiVersion".to_owned(), "v1".into());
    status.insert("message".to_owned(), message.as_str().into());
    status.insert("code".to_owned(), code.into());
    ApiError::new(code, "", message).verbatim(Value::Object(status))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(version: &str, kind: Kind, response: Value) -> Result<Response, String> {
        let review = json!({"apiVersion": format!("admission.k8s.io/{version}"), "kind": "AdmissionReview", "response": response});
        super::response(version, "u1", kind, review)
    }

    #[test]
    fn an_answer_must_be_to_the_question_and_patch_only_where_it_may() {
        let invalid = |kind, response| answer("v1", kind, response).expect_err("the answer makes no sense");
        assert_eq!(
            invalid(Kind::Validating, json!({"uid": "u2", "allowed": true})),
            "received invalid webhook response: expected response.uid=\"u1\", got \"u2\""
        );
        assert_eq!(
            invalid(Kind::Validating, json!({"uid": "u1", "allowed": true, "patch": "W10="})),
            "received invalid webhook response: validating webhook may not return response.patch"
        );
        assert_eq!(
            invalid(Kind::Mutating, json!({"uid": "u1", "allowed": true, "patchType": "JSONPatch"})),
            "received invalid webhook response: webhook returned response.patchType but not response.patch"
        );
        assert_eq!(
            invalid(Kind::Mutating, Value::Null),
            "received invalid webhook response: webhook response was absent"
        );
        let patched = json!({"uid": "u1", "allowed": true, "patchType": "JSONPatch", "patch": "W10="});
        let patched = answer("v1", Kind::Mutating, patched).expect("a patch with its type is in order");
        assert_eq!(patched.patch, Some((b"[]".to_vec(), "JSONPatch".to_owned())));
    }

    #[test]
    fn the_old_review_names_neither_question_nor_type_of_patch() {
        let old = super::response(
            "v1beta1",
            "u1",
            Kind::Mutating,
            json!({"response": {"allowed": true, "patch": "W10="}}),
        );
        assert_eq!(old.expect("that was enough once").patch, Some((b"[]".to_vec(), "JSONPatch".to_owned())));
    }

    #[test]
    fn a_denial_is_told_by_the_status_of_the_webhook_and_is_never_a_success() {
        let denied = |status: Value| denial("w.example.com", status).to_status();
        let plain = denied(Value::Null);
        assert_eq!((&plain["code"], &plain["status"]), (&json!(400), &json!("Failure")));
        assert_eq!(
            plain["message"],
            "admission webhook \"w.example.com\" denied the request without explanation"
        );
        let told =
            denied(json!({"code": 200, "status": "Success", "reason": "Zork", "details": {"name": "n"}}));
        assert_eq!(
            (&told["code"], &told["status"], &told["reason"]),
            (&json!(400), &json!("Failure"), &json!("Zork"))
        );
        assert_eq!(told["message"], "admission webhook \"w.example.com\" denied the request: Zork");
        assert_eq!(told["details"], json!({"name": "n"}));
    }
}
