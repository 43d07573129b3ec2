//! Flow schemas and priority levels: whose requests wait for whose.
//!
//! The embedded server does not queue requests; it keeps these objects for those who read and write them.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    Strategy,
    access::{default_to, get_i64, get_mut, has, set},
    checks,
    lifecycle::{keep_status, spec_changed},
    report::{At, Errors},
    status::{drop_status, keep_spec_and_metadata},
};
use crate::field::FieldError;

/// The kinds of the group `flowcontrol.apiserver.k8s.io`.
pub(crate) const STRATEGIES: &[(&str, &str, Strategy)] =
    &[("v1", "FlowSchema", FLOW_SCHEMA), ("v1", "PriorityLevelConfiguration", PRIORITY_LEVEL)];

const FLOW_SCHEMA: Strategy = Strategy {
    default: |object| default_number(object, &["spec", "matchingPrecedence"], 1000),
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_status_update: keep_spec_and_metadata,
    validate: |object| Errors::of(object, flow_schema),
    validate_update: |object, _| Errors::of(object, flow_schema),
    validate_status_update,
    generation: Some(spec_changed),
    ..Strategy::PLAIN
};

const PRIORITY_LEVEL: Strategy = Strategy {
    default: default_priority_level,
    validate: |object| Errors::of(object, priority_level),
    validate_update: |object, _| Errors::of(object, priority_level),
    ..FLOW_SCHEMA
};

const VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];

/// For numbers that mean nothing as 0.
fn default_number(object: &mut Value, path: &[&str], value: i64) {
    if get_i64(object, path).unwrap_or_default() == 0 {
        set(object, path, value);
    }
}

fn default_priority_level(object: &mut Value) {
    for (kind, shares) in [("exempt", 0), ("limited", 30)] {
        if has(object, &["spec", kind]) {
            default_to(object, &["spec", kind, "nominalConcurrencyShares"], shares);
            default_to(object, &["spec", kind, "lendablePercent"], 0);
        }
    }
    if let Some(queuing) = get_mut(object, &["spec", "limited", "limitResponse", "queuing"]) {
        for (field, value) in [("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)] {
            default_number(queuing, &[field], value);
        }
    }
}

fn flow_schema(schema: &At<'_, '_>, errors: &mut Errors) {
    let spec = schema.field("spec");
    let precedence = spec.field("matchingPrecedence");
    let name = schema.field("metadata").field("name").str();
    if precedence.int() <= 0 {
        errors.invalid(&precedence, precedence.int(), "must be a positive value");
    }
    if precedence.int() > 10000 {
        errors.invalid(&precedence, precedence.int(), "must not be greater than 10000");
    }
    if precedence.int() == 1 && name != "exempt" {
        let why = "only the schema named 'exempt' may have matchingPrecedence 1";
        errors.invalid(&precedence, precedence.int(), why);
    }
    let method = spec.field("distinguisherMethod");
    if method.exists() && !matches!(method.field("type").str(), "ByNamespace" | "ByUser") {
        let shown = serde_json::json!({"Type": method.field("type").str()});
        errors.not_supported(&method.field("type"), shown, &["ByNamespace", "ByUser"]);
    }
    let level = spec.field("priorityLevelConfiguration");
    let level = level.field("name");
    if level.str().is_empty() {
        errors.required(&level, "must reference a priority level");
    } else {
        errors.each(&level, checks::dns_subdomain(level.str()));
    }
    let rules = spec.field("rules");
    for one in rules.items() {
        rule(&one, errors);
    }
    status(schema, errors);
}

fn rule(rule: &At<'_, '_>, errors: &mut Errors) {
    let subjects = rule.field("subjects");
    if subjects.is_empty() {
        errors.required(&subjects, "subjects must contain at least one value");
    }
    for one in subjects.items() {
        subject(&one, errors);
    }
    let (resources, others) = (rule.field("resourceRules"), rule.field("nonResourceRules"));
    if resources.is_empty() && others.is_empty() {
        errors.required(rule, "at least one of resourceRules and nonResourceRules has to be non-empty");
    }
    for one in resources.items() {
        resource_rule(&one, errors);
    }
    for one in others.items() {
        non_resource_rule(&one, errors);
    }
}

fn subject(subject: &At<'_, '_>, errors: &mut Errors) {
    const KINDS: [(&str, &str); 3] =
        [("ServiceAccount", "serviceAccount"), ("User", "user"), ("Group", "group")];
    let kind = subject.field("kind");
    let Some((_, expected)) = KINDS.iter().find(|(name, _)| *name == kind.str()) else {
        errors.not_supported(&kind, kind.str(), &["Group", "ServiceAccount", "User"]);
        return;
    };
    let described = subject.field(expected);
    let name = described.field("name");
    if !described.exists() {
        errors.required(&described, format!("{expected} is required when subject kind is '{}'", kind.str()));
    } else if name.str().is_empty() {
        errors.required(&name, "");
    } else if *expected == "serviceAccount" && name.str() != "*" {
        errors.each(&name, checks::dns_subdomain(name.str()));
    }
    if described.exists() && *expected == "serviceAccount" {
        let namespace = described.field("namespace");
        if namespace.str().is_empty() {
            errors.required(&namespace, "must specify namespace for service account");
        } else {
            errors.each(&namespace, checks::dns_label(namespace.str()));
        }
    }
    for (name, field) in KINDS.iter().filter(|(_, field)| field != expected) {
        if subject.field(field).exists() {
            errors.forbidden(
                &subject.field(field),
                format!("{field} is forbidden when subject kind is not '{name}'"),
            );
        }
    }
}

/// A list that is not empty, and in which `*` stands alone. Answers whether there is one.
fn list(at: &At<'_, '_>, missing: &str, things: &str, errors: &mut Errors) -> bool {
    let wildcard = at.strings().any(|one| one == "*");
    if at.is_empty() {
        errors.required(at, missing);
    } else if wildcard && at.len() > 1 {
        errors.invalid(at, at.shown(), format!("if '*' is present, must not specify other {things}"));
    }
    wildcard
}

fn verbs(at: &At<'_, '_>, errors: &mut Errors) {
    let wildcard = list(at, "verbs must contain at least one value", "verbs", errors);
    if !wildcard && at.strings().any(|verb| !VERBS.contains(&verb)) {
        errors.not_supported(at, at.shown(), VERBS);
    }
}

fn resource_rule(rule: &At<'_, '_>, errors: &mut Errors) {
    verbs(&rule.field("verbs"), errors);
    list(&rule.field("apiGroups"), "resource rules must supply at least one api group", "api groups", errors);
    list(&rule.field("resources"), "resource rules must supply at least one resource", "resources", errors);
    let namespaces = rule.field("namespaces");
    if namespaces.is_empty() && rule.field("clusterScope").bool() {
        return;
    }
    let missing = "resource rules that are not cluster scoped must supply at least one namespace";
    if list(&namespaces, missing, "namespaces", errors) {
        return;
    }
    for namespace in namespaces.items() {
        for reason in checks::dns_label(namespace.str()) {
            let why = format!("each member of this list must be '*' or a DNS-1123 label; {reason}");
            errors.invalid(&namespace, namespace.str(), why);
        }
    }
}

fn non_resource_rule(rule: &At<'_, '_>, errors: &mut Errors) {
    verbs(&rule.field("verbs"), errors);
    let urls = rule.field("nonResourceURLs");
    if list(&urls, "nonResourceURLs must contain at least one value", "non-resource URLs", errors) {
        return;
    }
    for url in urls.items() {
        let text = url.str();
        let globs = text.matches('*').count();
        let why = if text.is_empty() {
            "must not be empty"
        } else if text == "/" {
            continue;
        } else if !text.starts_with('/') {
            "must start with slash"
        } else if text.contains(' ') {
            "must not contain white-space"
        } else if text.contains("//") {
            "must not contain double slash"
        } else if globs > 1 || (globs == 1 && !text.ends_with("/*")) {
            "wildcard can only do suffix matching"
        } else {
            continue;
        };
        errors.invalid(&url, text, why);
    }
}

fn priority_level(level: &At<'_, '_>, errors: &mut Errors) {
    let spec = level.field("spec");
    let kind = spec.field("type");
    let exempt_name = level.field("metadata").field("name").str() == "exempt";
    if exempt_name != (kind.str() == "Exempt") {
        errors.invalid(&kind, kind.str(), "must be 'Exempt' if and only if `name` is 'exempt'");
    }
    let (limited, exempt) = (spec.field("limited"), spec.field("exempt"));
    match kind.str() {
        "Exempt" => {
            if limited.exists() {
                errors.forbidden(&limited, "must be nil if the type is not Limited");
            }
            shares(&exempt, errors);
        }
        "Limited" => {
            if exempt.exists() {
                errors.forbidden(&exempt, "must be nil if the type is Limited");
            }
            if limited.exists() {
                shares(&limited, errors);
                limit_response(&limited.field("limitResponse"), errors);
                let borrowing = limited.field("borrowingLimitPercent");
                if borrowing.int() < 0 {
                    let why = "if specified, must be a non-negative integer";
                    errors.invalid(&borrowing, borrowing.int(), why);
                }
            } else {
                errors.required(&limited, "must not be empty when type is Limited");
            }
        }
        _ => errors.one_of(&kind, &["Exempt", "Limited"]),
    }
    status(level, errors);
}

fn shares(at: &At<'_, '_>, errors: &mut Errors) {
    let (shares, lendable) = (at.field("nominalConcurrencyShares"), at.field("lendablePercent"));
    if shares.int() < 0 {
        errors.invalid(&shares, shares.int(), "must be a non-negative integer");
    }
    if !(0..=100).contains(&lendable.int()) {
        errors.invalid(&lendable, lendable.int(), checks::out_of_range(0, 100));
    }
}

fn limit_response(at: &At<'_, '_>, errors: &mut Errors) {
    let (kind, queuing) = (at.field("type"), at.field("queuing"));
    match kind.str() {
        "Reject" if queuing.exists() => {
            errors.forbidden(&queuing, "must be nil if limited.limitResponse.type is not Limited");
        }
        "Queue" if !queuing.exists() => {
            errors.required(&queuing, "must not be empty if limited.limitResponse.type is Limited");
        }
        "Reject" => {}
        "Queue" => queues(&queuing, errors),
        _ => errors.one_of(&kind, &["Queue", "Reject"]),
    }
}

fn queues(at: &At<'_, '_>, errors: &mut Errors) {
    const MOST: i64 = 10_000_000;
    let (length, queues, hand) = (at.field("queueLengthLimit"), at.field("queues"), at.field("handSize"));
    if length.int() <= 0 {
        errors.invalid(&length, length.int(), "must be positive");
    }
    if queues.int() <= 0 {
        errors.invalid(&queues, queues.int(), "must be positive");
    } else if queues.int() > MOST {
        errors.invalid(&queues, queues.int(), format!("must not be greater than {MOST}"));
    }
    if hand.int() <= 0 {
        errors.invalid(&hand, hand.int(), "must be positive");
    } else if hand.int() > queues.int() {
        errors.invalid(&hand, hand.int(), format!("should not be greater than queues ({})", queues.int()));
    } else if !hands_fit_hash(queues.int(), hand.int()) {
        let why = format!(
            "required entropy bits of deckSize {} and handSize {} should not be greater than 60",
            queues.int(),
            hand.int()
        );
        errors.invalid(&hand, hand.int(), why);
    }
}

/// Whether a hash of 60 bits can deal every hand: `queues * (queues - 1) * …` of them.
fn hands_fit_hash(queues: i64, hand: i64) -> bool {
    let mut hands: u64 = 1;
    for taken in 0..hand {
        match u64::try_from(queues - taken).ok().and_then(|left| hands.checked_mul(left)) {
            Some(more) if more <= 1 << 60 => hands = more,
            _ => return false,
        }
    }
    true
}

fn status(object: &At<'_, '_>, errors: &mut Errors) {
    let status = object.field("status");
    let conditions = status.field("conditions");
    let mut seen = BTreeSet::new();
    for condition in conditions.items() {
        let kind = condition.field("type");
        if !seen.insert(kind.str()) {
            errors.duplicate(&kind, kind.str());
        }
        if kind.str().is_empty() {
            errors.required(&kind, "");
        }
    }
}

fn validate_status_update(object: &Value, _: &Value) -> Vec<FieldError> {
    Errors::of(object, status)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_limited_level_gets_shares_and_queues() {
        let mut level = json!({
            "metadata": {"name": "l"},
            "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": {}}}},
        });
        default_priority_level(&mut level);
        assert_eq!(
            level["spec"]["limited"],
            json!({
                "lendablePercent": 0, "nominalConcurrencyShares": 30,
                "limitResponse": {"type": "Queue", "queuing": {"handSize": 8, "queues": 64, "queueLengthLimit": 50}},
            })
        );
        assert!((PRIORITY_LEVEL.validate)(&level).is_empty());
        level["spec"]["limited"]["limitResponse"]["queuing"] =
            json!({"handSize": 20, "queues": 64, "queueLengthLimit": 0});
        let texts: Vec<String> = (PRIORITY_LEVEL.validate)(&level).iter().map(ToString::to_string).collect();
        let at = "spec.limited.limitResponse.queuing";
        assert_eq!(
            texts,
            [
                format!("{at}.queueLengthLimit: Invalid value: 0: must be positive"),
                format!(
                    "{at}.handSize: Invalid value: 20: required entropy bits of deckSize 64 and handSize 20 should not be greater than 60"
                ),
            ]
        );
    }

    #[test]
    fn a_flow_schema_says_whose_requests_go_where() {
        let mut schema =
            json!({"metadata": {"name": "f"}, "spec": {"rules": [{"subjects": [{"kind": "User"}]}]}});
        (FLOW_SCHEMA.default)(&mut schema);
        let texts: Vec<String> = (FLOW_SCHEMA.validate)(&schema).iter().map(ToString::to_string).collect();
        assert_eq!(schema["spec"]["matchingPrecedence"], 1000);
        assert_eq!(
            texts,
            [
                "spec.priorityLevelConfiguration.name: Required value: must reference a priority level",
                "spec.rules[0].subjects[0].user: Required value: user is required when subject kind is 'User'",
                "spec.rules[0]: Required value: at least one of resourceRules and nonResourceRules has to be non-empty",
            ]
        );
    }
}
