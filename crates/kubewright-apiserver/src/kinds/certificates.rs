//! Certificate signing requests: who asks for which certificate, and what became of it.
//!
//! Who asks is written in by the registry, and so are the times of conditions ([`stamp_conditions`]): a
//! strategy knows neither the user nor the time.

use std::collections::BTreeSet;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use serde_json::Value;

use super::{
    Strategy,
    access::{copy_from, get, get_str, items, items_mut, remove, set},
    checks,
    lifecycle::keep_spec,
    report::{At, Errors},
};
use crate::{auth::UserInfo, clock, field::FieldError};

/// The kinds of the group `certificates.k8s.io`.
pub(crate) const STRATEGIES: &[(&str, &str, Strategy)] =
    &[("v1", "CertificateSigningRequest", SIGNING_REQUEST)];

const SIGNING_REQUEST: Strategy = Strategy {
    prepare_create: |object| {
        for field in ["username", "uid", "groups", "extra"] {
            remove(object, &["spec", field]);
        }
        remove(object, &["status"]);
    },
    prepare_update: |object, old| {
        copy_from(object, old, &["spec"]);
        copy_from(object, old, &["status"]);
    },
    prepare_status_update: |object, old| {
        keep_spec(object, old);
        keep_decision(object, old);
    },
    validate: |object| Errors::of(object, signing_request),
    validate_update: |object, old| update(object, old, Touch::Nothing),
    validate_status_update: |object, old| update(object, old, Touch::Certificate),
    ..Strategy::PLAIN
};

/// Carries over from `old` what an update of `/approval` may not touch: all but the conditions.
pub(crate) fn prepare_approval_update(object: &mut Value, old: &Value) {
    let conditions = remove(object, &["status", "conditions"]);
    copy_from(object, old, &["spec"]);
    copy_from(object, old, &["status"]);
    match conditions {
        Some(conditions) => set(object, &["status", "conditions"], conditions),
        None => {
            remove(object, &["status", "conditions"]);
        }
    }
}

/// What is wrong with `object` as an `/approval` successor of `old`.
pub(crate) fn validate_approval_update(object: &Value, old: &Value) -> Vec<FieldError> {
    update(object, old, Touch::Decision)
}

/// Writes into a new request who made it: what they say of themselves does not count.
pub(crate) fn stamp_requester(object: &mut Value, user: &UserInfo) {
    let Ok(Value::Object(user)) = serde_json::to_value(user) else { return };
    for (field, value) in user {
        set(object, &["spec", &field], value);
    }
}

/// Writes into each condition of an update of `/status` or `/approval` when it was set, unless it says so.
pub(crate) fn stamp_conditions(object: &mut Value, old: &Value, now: Timestamp) {
    let now = clock::seconds(now);
    for condition in items_mut(object, &["status", "conditions"]) {
        if get_str(condition, &["lastUpdateTime"]).is_empty() {
            set(condition, &["lastUpdateTime"], now.as_str());
        }
        if get_str(condition, &["lastTransitionTime"]).is_empty() {
            let before = items(old, &["status", "conditions"]).iter().find(|before| {
                ["type", "status"].iter().all(|field| get(before, &[field]) == get(condition, &[field]))
                    && !get_str(before, &["lastTransitionTime"]).is_empty()
            });
            let time =
                before.map_or(now.as_str(), |before| get_str(before, &["lastTransitionTime"])).to_owned();
            set(condition, &["lastTransitionTime"], time);
        }
    }
}

/// What an update may change.
#[derive(Clone, Copy, PartialEq)]
enum Touch {
    Nothing,
    Certificate,
    Decision,
}

const DECISIONS: [&str; 2] = ["Approved", "Denied"];

fn of_type<'a>(object: &'a Value, kind: &str) -> Vec<&'a Value> {
    let conditions = items(object, &["status", "conditions"]).iter();
    conditions.filter(|condition| get_str(condition, &["type"]) == kind).collect()
}

/// Approval and denial stay as they are, unless one came or went, which validation refuses.
fn keep_decision(object: &mut Value, old: &Value) {
    for kind in DECISIONS {
        let before = of_type(old, kind);
        if before.len() != of_type(object, kind).len() {
            continue;
        }
        let mut before = before.into_iter();
        for condition in items_mut(object, &["status", "conditions"]) {
            if get_str(condition, &["type"]) == kind
                && let Some(kept) = before.next()
            {
                condition.clone_from(kept);
            }
        }
    }
}

const USAGES: &[&str] = &[
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

fn signing_request(object: &At<'_, '_>, errors: &mut Errors) {
    let spec = object.field("spec");
    let request = spec.field("request");
    if pem_type(request.str()).as_deref() != Some("CERTIFICATE REQUEST") {
        errors.invalid(&request, request.shown(), "PEM block type must be CERTIFICATE REQUEST");
    }
    let usages = spec.field("usages");
    if usages.is_empty() {
        errors.required(&usages, "");
    }
    for usage in usages.items() {
        errors.optional_one_of(&usage, USAGES);
    }
    let mut seen = BTreeSet::new();
    for usage in usages.items() {
        if !seen.insert(usage.str()) {
            errors.duplicate(&usage, usage.str());
        }
    }
    let signer = spec.field("signerName");
    if signer.str() == "kubernetes.io/legacy-unknown" {
        errors.invalid(&signer, signer.str(), "the legacy signerName is not allowed via this API version");
    } else {
        signer_name(&signer, errors);
    }
    let expiration = spec.field("expirationSeconds");
    if expiration.number().is_some_and(|seconds| seconds < 600) {
        let why = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.invalid(&expiration, expiration.int(), why);
    }
    let status = object.field("status");
    conditions(&status.field("conditions"), errors);
    let certificate = status.field("certificate");
    if !certificate.str().is_empty() {
        let why = match pem_type(certificate.str()).as_deref() {
            Some("CERTIFICATE") => None,
            Some(other) => Some(format!("only CERTIFICATE PEM blocks are allowed, found \"{other}\"")),
            None => Some("must contain at least one CERTIFICATE PEM block".to_owned()),
        };
        if let Some(why) = why {
            errors.invalid(&certificate, "<certificate data>", why);
        }
    }
}

/// The type of the first PEM block in bytes that are given as base64.
fn pem_type(encoded: &str) -> Option<String> {
    let text = String::from_utf8(STANDARD.decode(encoded).ok()?).ok()?;
    let (_, rest) = text.split_once("-----BEGIN ")?;
    let (kind, rest) = rest.split_once("-----")?;
    let (body, _) = rest.split_once(&format!("-----END {kind}-----"))?;
    let body: String = body.split_whitespace().collect();
    STANDARD.decode(body).ok().map(|_| kind.to_owned())
}

/// A signer's path fits a label, a dot and a subdomain.
const LONGEST_PATH: usize = 253 + 63 + 1;

/// Says what is wrong with the first label that is.
fn each_label(at: &At<'_, '_>, text: &str, check: fn(&str) -> Vec<String>, errors: &mut Errors) {
    let wrong = text.split('.').find(|label| !check(label).is_empty());
    if let Some(label) = wrong {
        for reason in check(label) {
            errors.invalid(at, text, format!("validating label \"{label}\": {reason}"));
        }
    }
}

fn signer_name(at: &At<'_, '_>, errors: &mut Errors) {
    if at.str().is_empty() {
        errors.required(at, "");
        return;
    }
    let Some((domain, path)) = at.str().split_once('/').filter(|(_, path)| !path.contains('/')) else {
        let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        errors.invalid(at, at.str(), why);
        return;
    };
    if domain.len() > 253 {
        errors.too_long(at, 253);
    }
    each_label(at, domain, checks::dns_label, errors);
    if !domain.contains('.') {
        errors.invalid(at, domain, "should be a domain with at least two segments separated by dots");
    }
    each_label(at, path, checks::dns_subdomain, errors);
    if path.len() > LONGEST_PATH {
        errors.too_long(at, LONGEST_PATH);
    }
}

fn conditions(at: &At<'_, '_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for condition in at.items() {
        let (kind, status) = (condition.field("type"), condition.field("status"));
        if kind.str().is_empty() {
            errors.required(&kind, "");
        }
        let statuses: &[&str] = match kind.str() {
            "Approved" | "Denied" | "Failed" => &["True"],
            _ => &["False", "True", "Unknown"],
        };
        errors.one_of(&status, statuses);
        let opposite = match kind.str() {
            "Approved" => Some("Denied"),
            "Denied" => Some("Approved"),
            _ => None,
        };
        if opposite.is_some_and(|opposite| seen.contains(opposite)) {
            errors.invalid(at, kind.str(), "Approved and Denied conditions are mutually exclusive");
        }
        if !seen.insert(kind.str()) {
            errors.duplicate(&kind, kind.str());
        }
    }
}

fn update(object: &Value, old: &Value, touch: Touch) -> Vec<FieldError> {
    Errors::of(object, |request, errors| {
        signing_request(request, errors);
        let status = request.field("status");
        let conditions = status.field("conditions");
        for kind in ["Approved", "Denied", "Failed"] {
            if of_type(object, kind).len() < of_type(old, kind).len() {
                errors
                    .forbidden(&conditions, format!("updates may not remove a condition of type \"{kind}\""));
            }
        }
        if touch != Touch::Decision {
            for kind in DECISIONS {
                let (now, before) = (of_type(object, kind), of_type(old, kind));
                if now.len() > before.len() {
                    errors.forbidden(
                        &conditions,
                        format!("updates may not add a condition of type \"{kind}\""),
                    );
                } else if now.len() == before.len() && now != before {
                    errors.forbidden(
                        &conditions,
                        format!("updates may not modify a condition of type \"{kind}\""),
                    );
                }
            }
        }
        let certificate = status.field("certificate");
        let before = get_str(old, &["status", "certificate"]);
        if certificate.str() != before {
            if touch != Touch::Certificate {
                errors.forbidden(&certificate, "updates may not set certificate content");
            } else if !before.is_empty() {
                errors.forbidden(&certificate, "updates may not modify existing certificate content");
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request() -> Value {
        let pem = "-----BEGIN CERTIFICATE REQUEST-----\nMAA=\n-----END CERTIFICATE REQUEST-----\n";
        json!({"spec": {
            "request": STANDARD.encode(pem), "signerName": "example.com/signer", "usages": ["client auth"],
        }})
    }

    fn texts(errors: &[FieldError]) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_request_names_its_signer_and_usages() {
        assert!((SIGNING_REQUEST.validate)(&request()).is_empty());
        let mut odd = request();
        odd["spec"] = json!({
            "request": "bm8=", "signerName": "signer", "usages": ["client auth", "client auth", "fun"],
            "expirationSeconds": 1,
        });
        let found = texts(&(SIGNING_REQUEST.validate)(&odd));
        assert_eq!(
            found[0],
            "spec.request: Invalid value: \"bm8=\": PEM block type must be CERTIFICATE REQUEST"
        );
        assert!(
            found[1].starts_with("spec.usages[2]: Unsupported value: \"fun\": supported values: \"any\", ")
        );
        assert_eq!(
            found[2..],
            [
                "spec.usages[1]: Duplicate value: \"client auth\"",
                "spec.signerName: Invalid value: \"signer\": must be a fully qualified domain and path of the form 'example.com/signer-name'",
                "spec.expirationSeconds: Invalid value: 1: may not specify a duration less than 600 seconds (10 minutes)",
            ]
        );
    }

    #[test]
    fn only_an_approval_decides_and_only_the_status_brings_the_certificate() {
        let old = request();
        let mut approved = request();
        approved["status"] = json!({"conditions": [{"type": "Approved", "status": "True"}]});
        assert!(validate_approval_update(&approved, &old).is_empty());
        assert_eq!(
            texts(&(SIGNING_REQUEST.validate_status_update)(&approved, &old)),
            ["status.conditions: Forbidden: updates may not add a condition of type \"Approved\""]
        );
        let mut issued = approved.clone();
        let pem = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
        issued["status"]["certificate"] = STANDARD.encode(pem).into();
        assert!((SIGNING_REQUEST.validate_status_update)(&issued, &approved).is_empty());
        assert_eq!(
            texts(&validate_approval_update(&issued, &approved)),
            ["status.certificate: Forbidden: updates may not set certificate content"]
        );
    }

    #[test]
    fn a_condition_that_stays_keeps_the_time_of_its_transition() {
        let now: Timestamp = "2026-02-03T04:05:06.7Z".parse().unwrap();
        let old = json!({"status": {"conditions": [
            {"type": "Approved", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
        ]}});
        let mut new = json!({"status": {"conditions": [
            {"type": "Approved", "status": "True"}, {"type": "Failed", "status": "True"},
        ]}});
        stamp_conditions(&mut new, &old, now);
        let now = "2026-02-03T04:05:06Z";
        assert_eq!(
            new["status"]["conditions"],
            json!([
                {"type": "Approved", "status": "True", "lastUpdateTime": now, "lastTransitionTime": "2026-01-01T00:00:00Z"},
                {"type": "Failed", "status": "True", "lastUpdateTime": now, "lastTransitionTime": now},
            ])
        );
    }
}
