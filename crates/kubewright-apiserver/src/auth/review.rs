//! Reviews: who am I, whose token is this, may somebody do something. Each takes the object that was posted and
//! gives the object to answer with (201).

#[cfg(test)]
mod tests;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Authenticator;
use super::rbac::{Attributes, GROUP as RBAC_GROUP, ResourceTarget, Rule, Rules, Target, aggregate};
use super::token::Lookup;
use super::user::UserInfo;
use crate::error::{ApiError, Subject};
use crate::field::{FieldError, Path};

const AUTHENTICATION: &str = "authentication.k8s.io/v1";
const AUTHORIZATION: &str = "authorization.k8s.io/v1";

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn strings(object: &Value, field: &str) -> Vec<String> {
    let list = object.get(field).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn present<'a>(object: &'a Value, field: &str) -> Option<&'a Value> {
    object.get(field).filter(|value| !value.is_null())
}

/// The posted object with its type, metadata and spec where it lacks them, and `status`.
fn answer(review: &Value, api_version: &str, kind: &str, status: Value) -> Value {
    let or_empty = |field: &str| match review.get(field) {
        Some(value @ Value::Object(_)) => value.clone(),
        _ => json!({}),
    };
    json!({
        "kind": kind, "apiVersion": api_version,
        "metadata": or_empty("metadata"), "spec": or_empty("spec"), "status": status,
    })
}

/// SelfSubjectReview: who the server takes the user for.
pub fn self_subject(user: &UserInfo, now: Timestamp) -> Value {
    let time = Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
    json!({
        "kind": "SelfSubjectReview", "apiVersion": AUTHENTICATION,
        "metadata": {"creationTimestamp": time},
        "status": {"userInfo": user},
    })
}

/// TokenReview: whose token it is.
pub fn token(
    review: &Value,
    authenticator: &Authenticator,
    now: Timestamp,
    lookup: &Lookup<'_>,
) -> Result<Value, ApiError> {
    let spec = review.get("spec").unwrap_or(&Value::Null);
    let token = text(spec, "token");
    if token.is_empty() {
        return Err(ApiError::bad_request("token is required for TokenReview in authentication"));
    }
    let mut audiences = strings(spec, "audiences");
    if audiences.is_empty() {
        audiences.clone_from(&authenticator.audiences);
    }
    let status = match authenticator.authenticate_token(token, &audiences, now, lookup) {
        Ok((user, audiences)) => json!({"authenticated": true, "user": *user, "audiences": audiences}),
        Err(error) => json!({"user": {}, "error": error}),
    };
    Ok(answer(review, AUTHENTICATION, "TokenReview", status))
}

/// SelfSubjectAccessReview: may `user` do it?
pub fn self_subject_access(review: &Value, rules: &Rules, user: &UserInfo) -> Result<Value, ApiError> {
    let spec = review.get("spec").unwrap_or(&Value::Null);
    let mut errors = check_attributes(spec, None);
    errors.extend(check_metadata(review, &[], "must be empty"));
    refuse(&errors)?;
    Ok(answer(review, AUTHORIZATION, "SelfSubjectAccessReview", access_status(spec, rules, user)))
}

/// SubjectAccessReview: may the user that the review names do it?
pub fn subject_access(review: &Value, rules: &Rules) -> Result<Value, ApiError> {
    let spec = review.get("spec").unwrap_or(&Value::Null);
    let user = reviewed_user(spec);
    let mut errors = check_attributes(spec, Some(&user));
    errors.extend(check_metadata(review, &[], "must be empty"));
    refuse(&errors)?;
    Ok(answer(review, AUTHORIZATION, "SubjectAccessReview", access_status(spec, rules, &user)))
}

/// LocalSubjectAccessReview: the same within the namespace of the request.
pub fn local_subject_access(review: &Value, rules: &Rules, namespace: &str) -> Result<Value, ApiError> {
    let spec = review.get("spec").unwrap_or(&Value::Null);
    let user = reviewed_user(spec);
    let mut errors = check_attributes(spec, Some(&user));
    errors.extend(check_metadata(review, &["namespace"], "must be empty except for namespace"));
    let own = review.get("metadata").map(|metadata| text(metadata, "namespace")).unwrap_or_default();
    if let Some(attributes) = present(spec, "resourceAttributes") {
        let asked = text(attributes, "namespace");
        if asked != own {
            let path = Path::new("spec.resourceAttributes.namespace");
            errors.push(FieldError::invalid(&path, asked, "must match metadata.namespace"));
        }
    }
    if let Some(attributes) = present(spec, "nonResourceAttributes") {
        let path = Path::new("spec.nonResourceAttributes");
        errors.push(FieldError::invalid(&path, as_shown(attributes), "disallowed on this kind of request"));
    }
    refuse(&errors)?;
    if own != namespace {
        let message = format!("spec.resourceAttributes.namespace must match namespace: {namespace}");
        return Err(ApiError::bad_request(message));
    }
    Ok(answer(review, AUTHORIZATION, "LocalSubjectAccessReview", access_status(spec, rules, &user)))
}

/// SelfSubjectRulesReview: all that `user` may do in a namespace.
pub fn self_subject_rules(review: &Value, rules: &Rules, user: &UserInfo) -> Result<Value, ApiError> {
    let namespace = review.get("spec").map(|spec| text(spec, "namespace")).unwrap_or_default();
    if namespace.is_empty() {
        return Err(ApiError::bad_request("no namespace on request"));
    }
    let (held, missing) = rules.rules_of(user, namespace);
    let part = |rule: &Rule, fields: &[&str]| -> Value {
        let whole = serde_json::to_value(rule).expect("rules are strings, which always serialise");
        let whole = whole.as_object().into_iter().flatten();
        let kept = whole.filter(|(field, _)| fields.contains(&field.as_str()));
        Value::Object(kept.map(|(field, list)| (field.clone(), list.clone())).collect())
    };
    let resources: Vec<Value> = held
        .iter()
        .filter(|rule| !rule.resources.is_empty())
        .map(|rule| part(rule, &["verbs", "apiGroups", "resources", "resourceNames"]))
        .collect();
    let paths: Vec<Value> = held
        .iter()
        .filter(|rule| !rule.non_resource_urls.is_empty())
        .map(|rule| part(rule, &["verbs", "nonResourceURLs"]))
        .collect();
    let mut status = json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false});
    if !missing.is_empty() {
        let errors = missing
            .iter()
            .map(|role| format!("{}.{RBAC_GROUP} {:?} not found", role.kind.to_lowercase(), role.name));
        status["evaluationError"] = aggregate(errors).into();
    }
    Ok(answer(&Value::Null, AUTHORIZATION, "SelfSubjectRulesReview", status))
}

fn refuse(errors: &[FieldError]) -> Result<(), ApiError> {
    if errors.is_empty() {
        return Ok(());
    }
    // The real server names no kind here: it has forgotten it when it decoded the object.
    Err(ApiError::invalid(&Subject { group: "authorization.k8s.io", ..Subject::default() }, "", errors))
}

fn reviewed_user(spec: &Value) -> UserInfo {
    let extra = spec.get("extra").and_then(Value::as_object).into_iter().flatten();
    UserInfo {
        name: text(spec, "user").to_owned(),
        uid: text(spec, "uid").to_owned(),
        groups: strings(spec, "groups"),
        extra: extra.map(|(key, _)| (key.clone(), strings(&spec["extra"], key))).collect(),
    }
}

/// `nonResourceAttributes` in the words of the real server's messages: its internal type has no JSON names.
fn as_shown(attributes: &Value) -> Value {
    json!({"Path": text(attributes, "path"), "Verb": text(attributes, "verb")})
}

fn check_attributes(spec: &Value, user: Option<&UserInfo>) -> Vec<FieldError> {
    let path = Path::new("spec");
    let mut errors = Vec::new();
    let resource = present(spec, "resourceAttributes");
    match (resource, present(spec, "nonResourceAttributes")) {
        (Some(_), Some(other)) => {
            let detail = "cannot be specified in combination with resourceAttributes";
            errors.push(FieldError::invalid(&path.child("nonResourceAttributes"), as_shown(other), detail));
        }
        (None, None) => {
            let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            errors.push(FieldError::invalid(&path.child("resourceAttributes"), Value::Null, detail));
        }
        _ => {}
    }
    if user.is_some_and(|user| user.name.is_empty() && user.groups.is_empty()) {
        let detail = "at least one of user or group must be specified";
        errors.push(FieldError::invalid(&path.child("user"), "", detail));
    }
    if let Some(resource) = resource {
        for field in ["fieldSelector", "labelSelector"] {
            if let Some(selector) = present(resource, field) {
                check_selector(selector, &Path::new("spec.resourceAttributes").child(field), &mut errors);
            }
        }
    }
    errors
}

fn check_selector(selector: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    let raw = text(selector, "rawSelector");
    let requirements = requirements(selector);
    match (raw.is_empty(), requirements.is_empty()) {
        (false, false) => {
            let detail = "may not specified at the same time as requirements";
            errors.push(FieldError::invalid(&path.child("rawSelector"), raw, detail));
        }
        (true, true) => {
            let detail = format!("when {path} is specified, requirements or rawSelector is required");
            errors.push(FieldError::required(&path.child("requirements"), detail));
        }
        _ => {}
    }
    for (index, requirement) in requirements.iter().enumerate() {
        let path = path.child("requirements").index(index);
        if text(requirement, "key").is_empty() {
            errors.push(FieldError::required(&path.child("key"), "must be specified"));
        }
        let values = strings(requirement, "values");
        match text(requirement, "operator") {
            "In" | "NotIn" if values.is_empty() => {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(FieldError::required(&path.child("values"), detail));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(FieldError::forbidden(&path.child("values"), detail));
            }
            _ => {}
        }
    }
}

fn requirements(selector: &Value) -> &[Value] {
    selector.get("requirements").and_then(Value::as_array).map_or(&[][..], Vec::as_slice)
}

/// What the server says of requirements it can't weigh; RBAC knows no selectors, so it changes no answer.
fn ignored_requirements(asked: &Value) -> Vec<String> {
    let mut ignored = Vec::new();
    for field in ["fieldSelector", "labelSelector"] {
        let Some(selector) = present(asked, field) else { continue };
        let understood = |requirement: &&Value| match (field, text(requirement, "operator")) {
            ("fieldSelector", "In" | "NotIn") => strings(requirement, "values").len() == 1,
            ("labelSelector", "In" | "NotIn" | "Exists" | "DoesNotExist") => true,
            _ => false,
        };
        let requirements = requirements(selector);
        let good = requirements.iter().filter(understood).count();
        if good < requirements.len() {
            let how = if good > 0 { "partially ignored" } else { "ignored" };
            ignored.push(format!("spec.resourceAttributes.{field} {how} due to parse error"));
        }
    }
    ignored
}

fn check_metadata(review: &Value, allowed: &[&str], detail: &str) -> Option<FieldError> {
    let metadata = review.get("metadata").and_then(Value::as_object)?;
    let empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    };
    metadata
        .iter()
        .any(|(field, value)| field != "managedFields" && !allowed.contains(&field.as_str()) && !empty(value))
        .then(|| FieldError::invalid(&Path::new("metadata"), Value::Object(metadata.clone()), detail))
}

fn access_status(spec: &Value, rules: &Rules, user: &UserInfo) -> Value {
    let (verb, target) = match (present(spec, "resourceAttributes"), spec.get("nonResourceAttributes")) {
        (Some(asked), _) => {
            let target = ResourceTarget {
                group: text(asked, "group"),
                resource: text(asked, "resource"),
                subresource: text(asked, "subresource"),
                namespace: text(asked, "namespace"),
                name: text(asked, "name"),
            };
            (text(asked, "verb"), Target::Resource(target))
        }
        (None, asked) => {
            let asked = asked.unwrap_or(&Value::Null);
            (text(asked, "verb"), Target::Path(text(asked, "path")))
        }
    };
    let decision = rules.authorize(&Attributes { user, verb, target });
    let mut status = json!({"allowed": decision.is_allowed()});
    let reason = decision.reason();
    if !reason.is_empty() {
        status["reason"] = reason.into();
    }
    let ignored = present(spec, "resourceAttributes").map(ignored_requirements).unwrap_or_default();
    if !ignored.is_empty() {
        status["evaluationError"] = ignored.join("; ").into();
    }
    status
}
