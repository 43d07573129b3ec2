//! Configurations of webhooks.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    rules::{FAILURE_POLICIES, default_matching, default_rules, match_conditions, match_policy, rule},
    warn_of_reserved_name,
};
use crate::{
    kinds::{
        Strategy,
        access::{default_to, has, items_mut, same},
        checks,
        report::{At, Errors},
    },
    names,
};

pub(super) const VALIDATING: Strategy = Strategy {
    default,
    validate: |object| Errors::of(object, configuration),
    validate_update: |object, _| Errors::of(object, configuration),
    warnings: warn_of_reserved_name,
    generation: Some(|object, old| !same(object, old, &["webhooks"])),
    ..Strategy::PLAIN
};

pub(super) const MUTATING: Strategy = Strategy {
    default: |object| {
        default(object);
        for webhook in items_mut(object, &["webhooks"]) {
            default_to(webhook, &["reinvocationPolicy"], "Never");
        }
    },
    ..VALIDATING
};

fn default(object: &mut Value) {
    for webhook in items_mut(object, &["webhooks"]) {
        default_to(webhook, &["failurePolicy"], "Fail");
        default_matching(webhook);
        default_to(webhook, &["timeoutSeconds"], 10);
        default_rules(webhook, "rules");
        if has(webhook, &["clientConfig", "service"]) {
            default_to(webhook, &["clientConfig", "service", "port"], 443);
        }
    }
}

fn configuration(object: &At<'_, '_>, errors: &mut Errors) {
    let webhooks = object.field("webhooks");
    let mut names = BTreeSet::new();
    for one in webhooks.items() {
        webhook(&one, errors);
        review_versions(&one.field("admissionReviewVersions"), errors);
        let name = one.field("name");
        if !name.str().is_empty() && !names.insert(name.str()) {
            errors.duplicate(&name, name.str());
        }
    }
}

fn webhook(webhook: &At<'_, '_>, errors: &mut Errors) {
    const SIDE_EFFECTS: &[&str] = &["None", "NoneOnDryRun"];
    qualified(&webhook.field("name"), errors);
    let rules = webhook.field("rules");
    for one in rules.items() {
        rule(&one, errors);
    }
    errors.optional_one_of(&webhook.field("failurePolicy"), FAILURE_POLICIES);
    match_policy(&webhook.field("matchPolicy"), errors);
    let effects = webhook.field("sideEffects");
    if effects.exists() {
        errors.optional_one_of(&effects, SIDE_EFFECTS);
    } else {
        errors.required(&effects, "must specify one of None, NoneOnDryRun");
    }
    let timeout = webhook.field("timeoutSeconds");
    if timeout.number().is_some_and(|seconds| !(1..=30).contains(&seconds)) {
        errors.invalid(&timeout, timeout.int(), "the timeout value must be between 1 and 30 seconds");
    }
    checks::label_selector(&webhook.field("namespaceSelector"), errors);
    checks::label_selector(&webhook.field("objectSelector"), errors);
    errors.optional_one_of(&webhook.field("reinvocationPolicy"), &["IfNeeded", "Never"]);
    client(&webhook.field("clientConfig"), errors);
    match_conditions(&webhook.field("matchConditions"), false, errors);
}

/// A name with at least three parts, such as `check.example.com`.
fn qualified(name: &At<'_, '_>, errors: &mut Errors) {
    if name.str().is_empty() {
        errors.required(name, "");
        return;
    }
    let reasons = checks::dns_subdomain(name.str());
    if !reasons.is_empty() {
        errors.invalid(name, name.str(), reasons.join(","));
    } else if name.str().split('.').count() < 3 {
        errors.invalid(name, name.str(), "should be a domain with at least three segments separated by dots");
    }
}

fn client(client: &At<'_, '_>, errors: &mut Errors) {
    let (url, service) = (client.field("url"), client.field("service"));
    match (url.exists(), service.exists()) {
        (true, false) => self::url(&url, errors),
        (false, true) => self::service(&service, errors),
        _ => errors.required(client, "exactly one of url or service is required"),
    }
}

fn url(at: &At<'_, '_>, errors: &mut Errors) {
    const FORM: &str = "; desired format: https://host[/path]";
    let text = at.str();
    if text.bytes().any(|byte| byte.is_ascii_control()) {
        let why = format!("parse {text:?}: net/url: invalid control character in URL");
        errors.required(at, format!("url must be a valid URL: {why}{FORM}"));
        return;
    }
    let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (scheme, rest) = match rest.split_once(':') {
        Some((scheme, rest)) if scheme.starts_with(|first: char| first.is_ascii_alphabetic()) => {
            (scheme.to_ascii_lowercase(), rest)
        }
        _ => (String::new(), rest),
    };
    let authority = rest.strip_prefix("//").map_or("", |rest| rest.split('/').next().unwrap_or_default());
    let (user, host) =
        authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    if scheme != "https" {
        errors.invalid(at, scheme, format!("'https' is the only allowed URL scheme{FORM}"));
    }
    if host.is_empty() {
        errors.invalid(at, "", format!("host must be specified{FORM}"));
    }
    if let Some(user) = user {
        errors.invalid(at, user, "user information is not permitted in the URL");
    }
    if !fragment.is_empty() {
        errors.invalid(at, fragment, "fragments are not permitted in the URL");
    }
    if !query.is_empty() {
        errors.invalid(at, query, "query parameters are not permitted in the URL");
    }
}

fn service(service: &At<'_, '_>, errors: &mut Errors) {
    // kube-apiserver mixes the two up: the one that is missing is reported as the other.
    for (missing, reported) in [("namespace", "name"), ("name", "namespace")] {
        if service.field(missing).str().is_empty() {
            errors.required(&service.field(reported), "");
        }
    }
    let port = service.field("port");
    if !(1..=65535).contains(&port.int()) {
        let why = format!("port is not valid: {}", checks::out_of_range(1, 65535));
        errors.invalid(&port, port.int(), why);
    }
    let path = service.field("path");
    match path.str() {
        "" | "/" => return,
        "//" => {
            errors.invalid(&path, path.str(), "segment[0] may not be empty");
            return;
        }
        text if !text.starts_with('/') => errors.invalid(&path, text, "must start with a '/'"),
        _ => {}
    }
    // The first character is taken for the slash, whatever it is.
    let below = path.str().chars().skip(1).collect::<String>();
    for (index, segment) in below.strip_suffix('/').unwrap_or(&below).split('/').enumerate() {
        if segment.is_empty() {
            errors.invalid(&path, path.str(), format!("segment[{index}] may not be empty"));
            continue;
        }
        for reason in checks::dns_subdomain(segment) {
            errors.invalid(&path, path.str(), format!("segment[{index}]: {reason}"));
        }
    }
}

fn review_versions(versions: &At<'_, '_>, errors: &mut Errors) {
    if versions.is_empty() {
        errors.required(versions, "must specify one of v1, v1beta1");
        return;
    }
    let mut seen = BTreeSet::new();
    for version in versions.items() {
        if !seen.insert(version.str()) {
            errors.invalid(&version, version.str(), "duplicate version");
            continue;
        }
        errors.each(&version, names::dns1035_label(version.str()));
    }
    if !seen.iter().any(|version| matches!(*version, "v1" | "v1beta1")) {
        errors.invalid(versions, versions.shown(), "must include at least one of v1, v1beta1");
    }
}
