//! What webhooks and policies share: which requests they are about.

use std::collections::BTreeSet;

use kubewright_cel::Type;
use serde_json::{Value, json};

use crate::{
    admission::expressions::{Available, Compiler},
    kinds::{
        access::{default_to, items_mut},
        checks,
        report::{At, Errors},
    },
    names,
};

pub(super) const FAILURE_POLICIES: &[&str] = &["Fail", "Ignore"];
const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];

pub(super) fn default_rules(holder: &mut Value, field: &str) {
    for rule in items_mut(holder, &[field]) {
        default_to(rule, &["scope"], "*");
    }
}

/// Fills what limits the requests that are looked at: equivalent versions, any namespace and object.
pub(super) fn default_matching(holder: &mut Value) {
    default_to(holder, &["matchPolicy"], "Equivalent");
    default_to(holder, &["namespaceSelector"], json!({}));
    default_to(holder, &["objectSelector"], json!({}));
}

pub(super) fn match_policy(at: &At<'_, '_>, errors: &mut Errors) {
    errors.optional_one_of(at, &["Equivalent", "Exact"]);
}

pub(super) fn rule(rule: &At<'_, '_>, errors: &mut Errors) {
    let operations = rule.field("operations");
    list(&operations, "operations", errors);
    for operation in operations.items() {
        errors.optional_one_of(&operation, OPERATIONS);
    }
    list(&rule.field("apiGroups"), "API groups", errors);
    let versions = rule.field("apiVersions");
    list(&versions, "API versions", errors);
    for version in versions.items() {
        if version.str().is_empty() {
            errors.required(&version, "");
        }
    }
    resources(&rule.field("resources"), errors);
    errors.optional_one_of(&rule.field("scope"), &["*", "Cluster", "Namespaced"]);
}

/// A list that is not empty, and in which `*` stands alone.
fn list(at: &At<'_, '_>, things: &str, errors: &mut Errors) {
    if at.is_empty() {
        errors.required(at, "");
    }
    if at.len() > 1 && at.strings().any(|one| one == "*") {
        errors.invalid(at, at.shown(), format!("if '*' is present, must not specify other {things}"));
    }
}

fn resources(at: &At<'_, '_>, errors: &mut Errors) {
    if at.is_empty() {
        errors.required(at, "");
    }
    let (mut all_of, mut in_all) = (BTreeSet::new(), BTreeSet::new());
    let (mut everything, mut any_resource, mut plain) = (false, false, false);
    for one in at.items() {
        let text = one.str();
        if text.is_empty() {
            errors.required(&one, "");
            continue;
        }
        everything |= text == "*/*";
        any_resource |= text == "*";
        let Some((resource, subresource)) = text.split_once('/') else {
            plain = text != "*";
            continue;
        };
        if all_of.contains(resource) {
            errors.invalid(&one, text, format!("if '{resource}/*' is present, must not specify {text}"));
        }
        if in_all.contains(subresource) {
            errors.invalid(&one, text, format!("if '*/{subresource}' is present, must not specify {text}"));
        }
        if subresource == "*" {
            all_of.insert(resource);
        }
        if resource == "*" {
            in_all.insert(subresource);
        }
    }
    if at.len() > 1 && everything {
        errors.invalid(at, at.shown(), "if '*/*' is present, must not specify other resources");
    }
    if any_resource && plain {
        let why = "if '*' is present, must not specify other resources without subresources";
        errors.invalid(at, at.shown(), why);
    }
}

/// The `matchConstraints` or `matchResources` of a policy or its binding.
pub(super) fn match_resources(at: &At<'_, '_>, errors: &mut Errors) {
    if !at.exists() {
        return;
    }
    let policy = at.field("matchPolicy");
    if policy.exists() {
        match_policy(&policy, errors);
    } else {
        errors.required(&policy, "");
    }
    for field in ["namespaceSelector", "objectSelector"] {
        let selector = at.field(field);
        if selector.exists() {
            checks::label_selector(&selector, errors);
        } else {
            errors.required(&selector, "");
        }
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        let rules = at.field(field);
        for one in rules.items() {
            named_rule(&one, errors);
        }
    }
}

fn named_rule(at: &At<'_, '_>, errors: &mut Errors) {
    let resource_names = at.field("resourceNames");
    let mut seen = BTreeSet::new();
    for name in resource_names.items() {
        errors.each(&name, names::path_segment(name.str()));
        if !seen.insert(name.str()) {
            errors.duplicate(&name, name.str());
        }
    }
    rule(at, errors);
}

/// `params` says whether the conditions may use parameters.
pub(super) fn match_conditions(at: &At<'_, '_>, params: bool, errors: &mut Errors) {
    let available = Available { params, authorizer: true };
    if at.len() > 64 {
        errors.too_many(at, 64);
    }
    let mut seen = BTreeSet::new();
    for condition in at.items() {
        let (expression, name) = (condition.field("expression"), condition.field("name"));
        let text = expression.str().trim();
        if text.is_empty() {
            errors.required(&expression, "");
        } else if let Err(why) = Compiler::default().compile(text, available, &[Type::Bool]) {
            errors.push(why.at(&expression.path(), text));
        }
        if name.str().is_empty() {
            errors.required(&name, "");
            continue;
        }
        errors.each(&name, checks::qualified_name(name.str()));
        if !seen.insert(name.str()) {
            errors.duplicate(&name, name.str());
        }
    }
}
