//! Where a conversion webhook is, and whether that can be a place at all.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;

use crate::{
    field::{FieldError, Path},
    names,
    schema::formats::split_scheme,
};

use super::Definition;

/// What is wrong with `spec.conversion`. The CA bundle is not looked at where the definition is
/// `trusted` with it, that is before it is established, or when it was wrong already.
pub(super) fn validate_conversion(conversion: &Value, at: &Path, trusted: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if conversion.is_null() {
        return errors;
    }
    let strategy = conversion["strategy"].as_str().unwrap_or_default();
    match strategy {
        "" => errors.push(FieldError::required(&at.child("strategy"), "")),
        "None" | "Webhook" => {}
        other => errors.push(FieldError::not_supported(&at.child("strategy"), other, &["None", "Webhook"])),
    }
    let at_client = at.child("webhookClientConfig");
    let at_versions = at.child("conversionReviewVersions");
    let client = &conversion["webhook"]["clientConfig"];
    let versions = conversion["webhook"]["conversionReviewVersions"].as_array();
    let versions: Vec<&str> = versions.into_iter().flatten().filter_map(Value::as_str).collect();
    if strategy != "Webhook" {
        let detail = "should not be set when strategy is not set to Webhook";
        if !client.is_null() {
            errors.push(FieldError::forbidden(&at_client, detail));
        }
        if !versions.is_empty() {
            errors.push(FieldError::forbidden(&at_versions, detail));
        }
        return errors;
    }
    if client.is_null() {
        errors.push(FieldError::required(&at_client, "required when strategy is set to Webhook"));
    } else {
        validate_client(client, &at_client, trusted, &mut errors);
    }
    if versions.is_empty() {
        errors.push(FieldError::required(&at_versions, ""));
        return errors;
    }
    for (index, version) in versions.iter().enumerate() {
        let at = at_versions.index(index);
        if versions[..index].contains(version) {
            errors.push(FieldError::invalid(&at, *version, "duplicate version"));
            continue;
        }
        errors.extend(
            names::dns1035_label(version).into_iter().map(|why| FieldError::invalid(&at, *version, why)),
        );
    }
    if !versions.iter().any(|version| matches!(*version, "v1" | "v1beta1")) {
        errors.push(FieldError::invalid(&at_versions, versions, "must include at least one of v1, v1beta1"));
    }
    errors
}

fn validate_client(client: &Value, at: &Path, trusted: bool, errors: &mut Vec<FieldError>) {
    match (client["url"].as_str(), &client["service"]) {
        (Some(url), Value::Null) => validate_url(url, &at.child("url"), errors),
        (None, service @ Value::Object(_)) => validate_service(service, &at.child("service"), errors),
        _ => errors.push(FieldError::required(at, "exactly one of url or service is required")),
    }
    if let Some(bundle) = client["caBundle"].as_str().filter(|bundle| !trusted && !bundle.is_empty())
        && !is_ca_bundle(bundle)
    {
        let detail = "unable to load root certificates: unable to parse bytes as PEM block";
        errors.push(FieldError::invalid(&at.child("caBundle"), bundle, detail));
    }
}

fn validate_url(url: &str, at: &Path, errors: &mut Vec<FieldError>) {
    const FORM: &str = "; desired format: https://host[/path]";
    let (rest, fragment) = url.split_once('#').unwrap_or((url, ""));
    let Ok((scheme, rest)) = split_scheme(rest) else {
        let detail = format!("url must be a valid URL: parse {url:?}: missing protocol scheme{FORM}");
        errors.push(FieldError::required(at, detail));
        return;
    };
    let scheme = scheme.to_lowercase();
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = rest.strip_prefix("//").map(|rest| rest.split('/').next().unwrap_or_default());
    let (user, host) = match authority.unwrap_or_default().rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority.unwrap_or_default()),
    };
    if scheme != "https" {
        let detail = format!("'https' is the only allowed URL scheme{FORM}");
        errors.push(FieldError::invalid(at, scheme, detail));
    }
    if host.is_empty() {
        errors.push(FieldError::invalid(at, host, format!("host must be specified{FORM}")));
    }
    if let Some(user) = user {
        errors.push(FieldError::invalid(at, user, "user information is not permitted in the URL"));
    }
    if !fragment.is_empty() {
        errors.push(FieldError::invalid(at, fragment, "fragments are not permitted in the URL"));
    }
    if !query.is_empty() {
        errors.push(FieldError::invalid(at, query, "query parameters are not permitted in the URL"));
    }
}

/// The real server confuses name and namespace here, and reports a missing one at the other's place.
fn validate_service(service: &Value, at: &Path, errors: &mut Vec<FieldError>) {
    let text = |key: &str| service[key].as_str().unwrap_or_default();
    for (missing, reported) in [("namespace", "name"), ("name", "namespace")] {
        if text(missing).is_empty() {
            errors.push(FieldError::required(&at.child(reported), ""));
        }
    }
    let port = service["port"].as_i64().unwrap_or_default();
    if !(1..=65535).contains(&port) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid(&at.child("port"), port, detail));
    }
    let path = text("path");
    let at = at.child("path");
    if matches!(path, "" | "/") {
        return;
    }
    if path == "//" {
        errors.push(FieldError::invalid(&at, path, "segment[0] may not be empty"));
        return;
    }
    if !path.starts_with('/') {
        errors.push(FieldError::invalid(&at, path, "must start with a '/'"));
    }
    let mut characters = path.chars();
    characters.next();
    let inner = characters.as_str();
    for (index, step) in inner.strip_suffix('/').unwrap_or(inner).split('/').enumerate() {
        if step.is_empty() {
            errors.push(FieldError::invalid(&at, path, format!("segment[{index}] may not be empty")));
            continue;
        }
        for why in names::dns1123_subdomain(step) {
            errors.push(FieldError::invalid(&at, path, format!("segment[{index}]: {why}")));
        }
    }
}

/// Whether the definition has a CA bundle for its webhook, and the bundle is none.
pub(super) fn has_invalid_ca_bundle(definition: Definition<'_>) -> bool {
    let bundle = definition.spec()["conversion"]["webhook"]["clientConfig"]["caBundle"].as_str();
    bundle.is_some_and(|bundle| !bundle.is_empty() && !is_ca_bundle(bundle))
}

/// Whether the text, base64 as in JSON, holds a PEM block with a certificate.
fn is_ca_bundle(bundle: &str) -> bool {
    let Some(pem) = STANDARD.decode(bundle).ok().and_then(|bytes| String::from_utf8(bytes).ok()) else {
        return false;
    };
    let Some((_, rest)) = pem.split_once("-----BEGIN CERTIFICATE-----") else { return false };
    let Some((body, _)) = rest.split_once("-----END CERTIFICATE-----") else { return false };
    let body: String = body.split_whitespace().collect();
    STANDARD.decode(body).is_ok_and(|der| der.first() == Some(&0x30))
}
