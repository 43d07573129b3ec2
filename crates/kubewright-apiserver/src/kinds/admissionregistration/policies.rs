//! Policies written in CEL, and the bindings that put them into force.

use std::collections::BTreeSet;

use kubewright_cel::{Type, is_reserved};
use serde_json::Value;

use super::{
    rules::{FAILURE_POLICIES, default_matching, default_rules, match_conditions, match_resources},
    warn_of_reserved_name,
};
use crate::{
    admission::expressions::{Available, Compiler},
    field::FieldError,
    kinds::{
        Strategy,
        access::{default_to, get_mut},
        checks,
        lifecycle::{keep_status, spec_changed},
        report::{At, Errors},
        status::{conditions, drop_status, keep_spec_and_metadata},
    },
    names,
};

pub(super) const VALIDATING_POLICY: Strategy = Strategy {
    default: default_policy,
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_status_update: keep_spec_and_metadata,
    validate: |object| Errors::of(object, validating_policy),
    validate_update: |object, _| Errors::of(object, validating_policy),
    validate_status_update,
    warnings: warn_of_reserved_name,
    generation: Some(spec_changed),
};

pub(super) const MUTATING_POLICY: Strategy = Strategy {
    default: default_policy,
    validate: |object| Errors::of(object, mutating_policy),
    validate_update: |object, _| Errors::of(object, mutating_policy),
    warnings: warn_of_reserved_name,
    generation: Some(spec_changed),
    ..Strategy::PLAIN
};

pub(super) const VALIDATING_BINDING: Strategy = Strategy {
    default: default_binding,
    validate: |object| Errors::of(object, validating_binding),
    validate_update: |object, _| Errors::of(object, validating_binding),
    warnings: warn_of_reserved_name,
    generation: Some(spec_changed),
    ..Strategy::PLAIN
};

pub(super) const MUTATING_BINDING: Strategy = Strategy {
    validate: |object| Errors::of(object, mutating_binding),
    validate_update: |object, _| Errors::of(object, mutating_binding),
    ..VALIDATING_BINDING
};

fn default_policy(object: &mut Value) {
    default_to(object, &["spec", "failurePolicy"], "Fail");
    default_match_resources(object, "matchConstraints");
}

fn default_binding(object: &mut Value) {
    default_match_resources(object, "matchResources");
}

fn default_match_resources(object: &mut Value, field: &str) {
    if let Some(resources) = get_mut(object, &["spec", field]) {
        default_matching(resources);
        default_rules(resources, "resourceRules");
        default_rules(resources, "excludeResourceRules");
    }
}

/// What both kinds of policies have in common, up to their rules.
fn policy(spec: &At<'_, '_>, errors: &mut Errors) {
    errors.one_of(&spec.field("failurePolicy"), FAILURE_POLICIES);
    param_kind(&spec.field("paramKind"), errors);
    let constraints = spec.field("matchConstraints");
    if constraints.exists() {
        match_resources(&constraints, errors);
        let rules = constraints.field("resourceRules");
        if rules.is_empty() {
            errors.required(&rules, "");
        }
    } else {
        errors.required(&constraints, "");
    }
}

fn validating_policy(object: &At<'_, '_>, errors: &mut Errors) {
    const NEITHER: &str = "validations or auditAnnotations must contain at least one item";
    let spec = object.field("spec");
    policy(&spec, errors);
    let available = Available { params: spec.field("paramKind").exists(), authorizer: true };
    match_conditions(&spec.field("matchConditions"), available.params, errors);
    let compiler = variables(&spec.field("variables"), available, errors);
    let (validations, annotations) = (spec.field("validations"), spec.field("auditAnnotations"));
    if validations.is_empty() && annotations.is_empty() {
        errors.required(&validations, NEITHER);
        errors.required(&annotations, NEITHER);
    }
    for one in validations.items() {
        validation(&one, &compiler, available, errors);
    }
    let name = object.field("metadata").field("name").str();
    audit_annotations(&annotations, name, &compiler, available, errors);
}

fn param_kind(at: &At<'_, '_>, errors: &mut Errors) {
    if !at.exists() {
        return;
    }
    let (api_version, kind) = (at.field("apiVersion"), at.field("kind"));
    let mut parts = api_version.str().split('/');
    match (parts.next(), parts.next(), parts.next()) {
        _ if api_version.str().is_empty() => errors.required(&api_version, ""),
        (Some(version), None, _) => group_version(&api_version, "", version, errors),
        (Some(group), Some(version), None) => group_version(&api_version, group, version, errors),
        _ => {
            let why = format!("unexpected GroupVersion string: {}", api_version.str());
            errors.invalid(&api_version, api_version.str(), why);
        }
    }
    if kind.str().is_empty() {
        errors.required(&kind, "");
        return;
    }
    let reasons = names::dns1035_label(&kind.str().to_lowercase());
    if !reasons.is_empty() {
        let why = format!("may have mixed case, but should otherwise match: {}", reasons.join(","));
        errors.invalid(&kind, kind.str(), why);
    }
}

fn group_version(at: &At<'_, '_>, group: &str, version: &str, errors: &mut Errors) {
    if !group.is_empty() {
        let reasons = checks::dns_subdomain(group);
        if !reasons.is_empty() {
            errors.invalid(at, group, reasons.join(","));
        }
    }
    if version.is_empty() {
        errors.invalid(at, at.str(), "version must be specified");
        return;
    }
    let reasons = names::dns1035_label(version);
    if !reasons.is_empty() {
        errors.invalid(at, version, reasons.join(","));
    }
}

/// Checks the variables of a policy; what comes back compiles expressions that use them.
fn variables(at: &At<'_, '_>, available: Available, errors: &mut Errors) -> Compiler {
    let mut compiler = if at.is_empty() { Compiler::default() } else { Compiler::composing() };
    for variable in at.items() {
        let (name, expression) = (variable.field("name"), variable.field("expression"));
        if name.str().trim().is_empty() {
            errors.required(&name, "name is not specified");
        } else if !is_identifier(name.str()) {
            errors.invalid(&name, name.str(), "must be a valid CEL identifier");
        }
        if expression.str().trim().is_empty() {
            errors.required(&expression, "expression is not specified");
        } else if let Err(why) = compiler.define(name.str(), expression.str(), available) {
            errors.push(why.at(&expression.path(), expression.str()));
        }
    }
    compiler
}

fn is_identifier(name: &str) -> bool {
    let first = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    name.bytes().next().is_some_and(first)
        && name.bytes().all(|byte| first(byte) || byte.is_ascii_digit())
        && !is_reserved(name)
}

fn validation(at: &At<'_, '_>, compiler: &Compiler, available: Available, errors: &mut Errors) {
    const NOT_BLANK: &str = "must be non-empty if specified";
    let blank = |at: &At<'_, '_>| !at.str().is_empty() && at.str().trim().is_empty();
    let expression = at.field("expression");
    if expression.str().trim().is_empty() {
        errors.required(&expression, "expression is not specified");
    } else if let Err(why) = compiler.compile(expression.str(), available, &[Type::Bool]) {
        errors.push(why.at(&expression.path(), expression.str()));
    }
    let message_expression = at.field("messageExpression");
    let text = message_expression.str();
    if blank(&message_expression) {
        errors.invalid(&message_expression, text, NOT_BLANK);
    } else if !text.is_empty()
        && let Err(why) =
            compiler.compile(text, Available { authorizer: false, ..available }, &[Type::String])
    {
        errors.push(why.at(&message_expression.path(), text));
    }
    let message = at.field("message");
    if blank(&message) {
        errors.invalid(&message, message.str(), NOT_BLANK);
    } else if message.str().trim().contains(['\n', '\r']) {
        errors.invalid(&message, message.str(), "must not contain line breaks");
    }
    errors.optional_one_of(&at.field("reason"), &["Forbidden", "Invalid", "RequestEntityTooLarge"]);
}

fn audit_annotations(
    at: &At<'_, '_>,
    policy: &str,
    compiler: &Compiler,
    available: Available,
    errors: &mut Errors,
) {
    const LONGEST: usize = 5 * 1024;
    if at.len() > 20 {
        errors.invalid(at, at.shown(), "must not have more than 20 auditAnnotations");
    }
    let mut seen = BTreeSet::new();
    for annotation in at.items() {
        let (key, value) = (annotation.field("key"), annotation.field("valueExpression"));
        if policy.is_empty() {
            errors.invalid(&key, key.str(), "requires metadata.name be non-empty");
        } else {
            let full = format!("{policy}/{}", key.str());
            for reason in checks::qualified_name(&full) {
                errors.invalid(&key, full.as_str(), reason);
            }
        }
        let text = value.str().trim();
        if text.is_empty() {
            errors.required(&value, "valueExpression is not specified");
        } else if text.len() > LONGEST {
            errors.required(&value, format!("must not exceed {LONGEST} bytes in length"));
        } else if let Err(why) = compiler.compile(text, available, &[Type::String, Type::Null]) {
            errors.push(why.at(&value.path(), value.str()));
        }
        if !seen.insert(key.str()) {
            errors.duplicate(&key, key.str());
        }
    }
}

fn mutating_policy(object: &At<'_, '_>, errors: &mut Errors) {
    let spec = object.field("spec");
    policy(&spec, errors);
    only_mutable(&spec.field("matchConstraints"), errors);
    let available = Available { params: spec.field("paramKind").exists(), authorizer: true };
    match_conditions(&spec.field("matchConditions"), available.params, errors);
    variables(&spec.field("variables"), available, errors);
    let mutations = spec.field("mutations");
    if mutations.is_empty() {
        errors.required(&mutations, "mutations must contain at least one item");
    }
    for one in mutations.items() {
        mutation(&one, errors);
    }
    errors.one_of(&spec.field("reinvocationPolicy"), &["IfNeeded", "Never"]);
}

/// A request to delete has nothing that could be changed.
fn only_mutable(resources: &At<'_, '_>, errors: &mut Errors) {
    const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "UPDATE"];
    let rules = resources.field("resourceRules");
    for rule in rules.items() {
        for operation in rule.field("operations").strings().filter(|one| !OPERATIONS.contains(one)) {
            errors.not_supported(&rules.field("operations"), operation, OPERATIONS);
        }
    }
}

fn mutation(at: &At<'_, '_>, errors: &mut Errors) {
    let kind = at.field("patchType");
    let (expected, other) = match kind.str() {
        "JSONPatch" => ("jsonPatch", "applyConfiguration"),
        "ApplyConfiguration" => ("applyConfiguration", "jsonPatch"),
        _ => {
            errors.one_of(&kind, &["ApplyConfiguration", "JSONPatch"]);
            return;
        }
    };
    let patch = at.field(expected);
    let expression = patch.field("expression");
    if !patch.exists() {
        errors.required(&patch, format!("must be specified when patchType is {}", kind.str()));
    } else if expression.str().trim().is_empty() {
        errors.required(&expression, "");
    }
    if at.field(other).exists() {
        let why = format!("must not be specified when patchType is {}", kind.str());
        errors.invalid(&at.field(other), format!("{{{other}}}"), why);
    }
}

fn binding(spec: &At<'_, '_>, errors: &mut Errors) {
    let name = spec.field("policyName");
    if name.str().is_empty() {
        errors.required(&name, "");
    } else {
        errors.each(&name, checks::dns_subdomain(name.str()));
    }
    param_ref(&spec.field("paramRef"), errors);
    match_resources(&spec.field("matchResources"), errors);
}

fn param_ref(at: &At<'_, '_>, errors: &mut Errors) {
    const EXCLUSIVE: &str = "name and selector are mutually exclusive";
    if !at.exists() {
        return;
    }
    let (name, selector) = (at.field("name"), at.field("selector"));
    let named = !name.str().is_empty();
    if named {
        errors.each(&name, names::path_segment(name.str()));
        if selector.exists() {
            errors.forbidden(&name, EXCLUSIVE);
        }
    }
    if selector.exists() {
        checks::label_selector(&selector, errors);
        if named {
            errors.forbidden(&selector, EXCLUSIVE);
        }
    }
    if !named && !selector.exists() {
        errors.required(at, "one of name or selector must be specified");
    }
    errors.one_of(&at.field("parameterNotFoundAction"), &["Deny", "Allow"]);
}

fn validating_binding(object: &At<'_, '_>, errors: &mut Errors) {
    let spec = object.field("spec");
    binding(&spec, errors);
    let actions = spec.field("validationActions");
    let mut seen = BTreeSet::new();
    for action in actions.items() {
        errors.optional_one_of(&action, &["Audit", "Deny", "Warn"]);
        if !seen.insert(action.str()) {
            errors.duplicate(&action, action.str());
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        errors.invalid(&actions, actions.shown(), why);
    }
    if seen.is_empty() {
        errors.required(&actions, "at least one validation action is required");
    }
}

fn mutating_binding(object: &At<'_, '_>, errors: &mut Errors) {
    let spec = object.field("spec");
    binding(&spec, errors);
    only_mutable(&spec.field("matchResources"), errors);
}

fn validate_status_update(object: &Value, _: &Value) -> Vec<FieldError> {
    Errors::of(object, |object, errors| {
        let status = object.field("status");
        let checking = status.field("typeChecking");
        let warnings = checking.field("expressionWarnings");
        for warning in warnings.items() {
            for field in ["warning", "fieldRef"] {
                let text = warning.field(field);
                if text.str().trim().is_empty() {
                    errors.required(&text, "");
                }
            }
        }
        conditions(&status.field("conditions"), errors);
    })
}
