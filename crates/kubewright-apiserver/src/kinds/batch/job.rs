//! Jobs: pods that run to completion. Creation needs `metadata.uid` set, as the selector is made of it.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{
    super::{
        Strategy,
        access::{
            copy_from, default_to, get, get_bool, get_i64, get_mut, get_str, has, items, items_mut, remove,
            same, set,
        },
        checks,
        core::pod_spec,
        lifecycle::{keep_spec, keep_status, spec_changed},
        report::{At, Errors},
        workload,
    },
    job_status,
};
use crate::field::FieldError;

/// What a job does.
pub(crate) const STRATEGY: Strategy = Strategy {
    default,
    prepare_create,
    prepare_update: keep_status,
    prepare_status_update: |job, old| {
        keep_spec(job, old);
        copy_template_labels(job);
    },
    validate: |job| Errors::of(job, |job, errors| validate(job, true, errors)),
    validate_update,
    validate_status_update: job_status::validate_update,
    warnings: |job, old| {
        if old.is_some_and(|old| !spec_changed(job, old)) {
            return Vec::new();
        }
        let mut warnings = if old.is_none() { workload::name_warnings(job) } else { Vec::new() };
        warnings.extend(spec_warnings(&At::root(job).field("spec")));
        warnings
    },
    generation: Some(spec_changed),
};

const UID: &str = "batch.kubernetes.io/controller-uid";
const NAME: &str = "batch.kubernetes.io/job-name";
const OLD_UID: &str = "controller-uid";
const OLD_NAME: &str = "job-name";

fn default(job: &mut Value) {
    default_to(job, &["spec"], Map::new());
    if let Some(spec) = job.get_mut("spec") {
        default_spec(spec);
    }
    // On creation the labels of the template are not complete yet; they are copied when they are.
    if has(job, &["spec", "selector"]) {
        copy_template_labels(job);
    }
}

/// A job without labels has those of its pods.
fn copy_template_labels(job: &mut Value) {
    let labelled =
        get(job, &["metadata", "labels"]).and_then(Value::as_object).is_some_and(|all| !all.is_empty());
    if !labelled && let Some(labels) = get(job, &["spec", "template", "metadata", "labels"]).cloned() {
        set(job, &["metadata", "labels"], labels);
    }
}

fn default_spec(spec: &mut Value) {
    if !has(spec, &["completions"]) && !has(spec, &["parallelism"]) {
        set(spec, &["completions"], 1);
    }
    default_to(spec, &["parallelism"], 1);
    let backoff = if has(spec, &["backoffLimitPerIndex"]) { i32::MAX } else { 6 };
    default_to(spec, &["backoffLimit"], backoff);
    default_to(spec, &["completionMode"], "NonIndexed");
    default_to(spec, &["suspend"], false);
    let replacement = if has(spec, &["podFailurePolicy"]) { "Failed" } else { "TerminatingOrFailed" };
    default_to(spec, &["podReplacementPolicy"], replacement);
    default_to(spec, &["manualSelector"], false);
    default_job_template(spec);
}

/// What the job template of a cron job gets already, and what a job does, too.
pub(super) fn default_job_template(spec: &mut Value) {
    default_to(spec, &["template"], Map::new());
    if let Some(template) = get_mut(spec, &["template"]) {
        pod_spec::default_template(template);
    }
    for rule in items_mut(spec, &["podFailurePolicy", "rules"]) {
        for pattern in items_mut(rule, &["onPodConditions"]) {
            if get_str(pattern, &["status"]).is_empty() {
                set(pattern, &["status"], "True");
            }
        }
    }
}

fn prepare_create(job: &mut Value) {
    set(job, &["status"], json!({}));
    if !get_bool(job, &["spec", "manualSelector"]) {
        generate_selector(job);
    }
    copy_template_labels(job);
}

/// Labels the template with the job's name and uid and selects by the uid, which no other job has.
/// `metadata.name` and `metadata.uid` must be set. What the user has set stays, for validation to judge.
pub(crate) fn generate_selector(job: &mut Value) {
    let name = get_str(job, &["metadata", "name"]).to_owned();
    let uid = get_str(job, &["metadata", "uid"]).to_owned();
    for (label, value) in [(OLD_NAME, &name), (NAME, &name), (OLD_UID, &uid), (UID, &uid)] {
        default_to(job, &["spec", "template", "metadata", "labels", label], value.as_str());
    }
    default_to(job, &["spec", "selector", "matchLabels", UID], uid);
}

fn validate(job: &At<'_, '_>, prefixed_labels: bool, errors: &mut Errors) {
    let (metadata, spec) = (job.field("metadata"), job.field("spec"));
    generated_selector(job, prefixed_labels, errors);
    validate_job_spec(&spec, errors);
    let completions = spec.field("completions").int();
    if spec.field("completionMode").str() == "Indexed" && completions > 0 {
        let name = metadata.field("name");
        let last = format!("{}-{}", name.str(), completions - 1);
        if !checks::dns_label(&last).is_empty() {
            let text = format!("will not able to create pod with invalid DNS label: {last}");
            errors.invalid(&name, name.str(), text);
        }
    }
}

fn generated_selector(job: &At<'_, '_>, prefixed_labels: bool, errors: &mut Errors) {
    let (metadata, spec) = (job.field("metadata"), job.field("spec"));
    let selector = spec.field("selector");
    if spec.field("manualSelector").bool() || !selector.exists() {
        return;
    }
    let (name, uid) = (metadata.field("name").str(), metadata.field("uid"));
    if uid.str().is_empty() {
        errors.required(&uid, "");
    }
    let template = spec.field("template");
    let template = template.field("metadata");
    let labels = template.field("labels");
    let mut expected = Map::new();
    let all = [(OLD_UID, uid.str()), (OLD_NAME, name), (UID, uid.str()), (NAME, name)];
    for (label, value) in all.iter().take(if prefixed_labels { 4 } else { 2 }) {
        expected.insert((*label).to_owned(), (*value).into());
        let found = labels.key(label);
        let text = format!("must be '{value}'");
        if !found.exists() {
            errors.required(&found, text);
        } else if found.str() != *value {
            errors.invalid(&found, labels.shown(), text);
        }
    }
    let expected = Value::Object(expected);
    if checks::selects(&selector, &At::root(&expected)) == Some(false) {
        errors.invalid(&selector, selector.shown(), "`selector` not auto-generated");
    }
}

fn validate_job_spec(spec: &At<'_, '_>, errors: &mut Errors) {
    validate_template_spec(spec, errors);
    let (selector, template) = (spec.field("selector"), spec.field("template"));
    if !selector.exists() {
        errors.required(&selector, "");
    } else {
        checks::label_selector(&selector, errors);
    }
    let metadata = template.field("metadata");
    if checks::selects(&selector, &metadata.field("labels")) == Some(false) {
        workload::template_not_selected(&template, errors);
    }
}

/// What holds for the spec of a job and of the template of a cron job.
pub(super) fn validate_template_spec(spec: &At<'_, '_>, errors: &mut Errors) {
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        errors.non_negative(&spec.field(field));
    }
    let (per_index, max_failed) = (spec.field("backoffLimitPerIndex"), spec.field("maxFailedIndexes"));
    if max_failed.exists() && !per_index.exists() {
        errors.required(&per_index, "when maxFailedIndexes is specified");
    }
    managed_by(&spec.field("managedBy"), errors);
    completion_mode(spec, errors);
    if spec.field("podFailurePolicy").exists() {
        failure_policy(spec, errors);
    }
    success_policy(spec, errors);
    let replacement = spec.field("podReplacementPolicy");
    if spec.field("podFailurePolicy").exists() {
        errors.optional_one_of(&replacement, &["Failed"]);
    } else {
        errors.optional_one_of(&replacement, &["Failed", "TerminatingOrFailed"]);
    }
    let template = spec.field("template");
    pod_spec::validate_template(&template, errors);
    let pod = template.field("spec");
    let restart = pod.field("restartPolicy");
    match restart.str() {
        "" | "Always" => errors.required(&restart, "valid values: \"OnFailure\", \"Never\""),
        "OnFailure" if spec.field("podFailurePolicy").exists() => {
            let text = "only \"Never\" is supported when podFailurePolicy is specified";
            errors.invalid(&restart, restart.str(), text);
        }
        _ => errors.optional_one_of(&restart, &["OnFailure", "Never"]),
    }
}

fn managed_by(manager: &At<'_, '_>, errors: &mut Errors) {
    if !manager.exists() {
        return;
    }
    match manager.str().split_once('/') {
        _ if manager.str().is_empty() => errors.required(manager, ""),
        Some((domain, path)) if !domain.is_empty() && !path.is_empty() => {
            for reason in checks::dns_subdomain(domain) {
                errors.invalid(manager, domain, reason);
            }
            let inside = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
            if !path.bytes().all(inside) {
                let text = r"Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')";
                errors.invalid(manager, path, text);
            }
        }
        _ => {
            let text = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            errors.invalid(manager, manager.str(), text);
        }
    }
    if manager.str().len() > 63 {
        errors.too_long(manager, 63);
    }
}

fn completion_mode(spec: &At<'_, '_>, errors: &mut Errors) {
    const MANY: i64 = 100_000;
    let mode = spec.field("completionMode");
    errors.optional_one_of(&mode, &["NonIndexed", "Indexed"]);
    let (completions, parallelism) = (spec.field("completions"), spec.field("parallelism"));
    let (per_index, max_failed) = (spec.field("backoffLimitPerIndex"), spec.field("maxFailedIndexes"));
    if mode.str() == "Indexed" {
        let above = |at: &At<'_, '_>, max: i64, detail: &str, errors: &mut Errors| {
            if at.int() > max {
                errors.invalid(at, at.int(), format!("must be less than or equal to {max}{detail}"));
            }
        };
        if !completions.exists() {
            errors.required(&completions, "when completion mode is Indexed");
        }
        above(&parallelism, MANY, " when completion mode is Indexed", errors);
        if completions.exists() && max_failed.int() > completions.int() {
            errors.invalid(&max_failed, max_failed.int(), "must be less than or equal to completions");
        }
        above(&max_failed, MANY, "", errors);
        if completions.int() > MANY && per_index.exists() {
            if !max_failed.exists() {
                errors.required(&max_failed, format!("must be specified when completions is above {MANY}"));
            }
            let detail = format!(" when completions are above {MANY} and used with backoff limit per index");
            above(&parallelism, 10_000, &detail, errors);
            above(&max_failed, 10_000, &detail, errors);
        }
    }
    if matches!(mode.str(), "" | "NonIndexed") {
        for field in [per_index, max_failed].iter().filter(|field| field.exists()) {
            errors.invalid(field, field.int(), "requires indexed completion mode");
        }
    }
}

fn failure_policy(spec: &At<'_, '_>, errors: &mut Errors) {
    const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
    let policy = spec.field("podFailurePolicy");
    let rules = policy.field("rules");
    if rules.len() > 20 {
        errors.too_many(&rules, 20);
    }
    let mut containers = BTreeSet::new();
    let template = spec.field("template");
    pod_spec::each_container(&template.field("spec"), |container| {
        containers.insert(container.field("name").str());
    });
    for rule in rules.items() {
        let action = rule.field("action");
        match action.str() {
            "" => errors.required(&action, r#"valid values: ["Count" "FailIndex" "FailJob" "Ignore"]"#),
            "FailIndex" if !spec.field("backoffLimitPerIndex").exists() => {
                errors.invalid(&action, "FailIndex", "requires the backoffLimitPerIndex to be set");
            }
            _ => errors.optional_one_of(&action, &ACTIONS),
        }
        let (codes, conditions) = (rule.field("onExitCodes"), rule.field("onPodConditions"));
        if codes.exists() {
            exit_codes(&codes, &containers, errors);
        }
        if conditions.len() > 20 {
            errors.too_many(&conditions, 20);
        }
        for pattern in conditions.items() {
            let (kind, status) = (pattern.field("type"), pattern.field("status"));
            errors.each(&kind, checks::qualified_name(kind.str()));
            if status.str().is_empty() {
                errors.required(&status, r#"valid values: ["False" "True" "Unknown"]"#);
            } else {
                errors.optional_one_of(&status, &["False", "True", "Unknown"]);
            }
        }
        if codes.exists() && !conditions.is_empty() {
            errors.invalid_unshown(&rule, "specifying both OnExitCodes and OnPodConditions is not supported");
        }
        if !codes.exists() && conditions.is_empty() {
            errors.invalid_unshown(&rule, "specifying one of OnExitCodes and OnPodConditions is required");
        }
    }
}

fn exit_codes(codes: &At<'_, '_>, containers: &BTreeSet<&str>, errors: &mut Errors) {
    let (operator, name) = (codes.field("operator"), codes.field("containerName"));
    if operator.str().is_empty() {
        errors.required(&operator, r#"valid values: ["In" "NotIn"]"#);
    } else {
        errors.optional_one_of(&operator, &["In", "NotIn"]);
    }
    if name.exists() && !containers.contains(name.str()) {
        let text = "must be one of the container or initContainer names in the pod template";
        errors.invalid(&name, name.str(), text);
    }
    let values = codes.field("values");
    if values.is_empty() {
        errors.invalid(&values, values.shown(), "at least one value is required");
    } else if values.len() > 255 {
        errors.too_many(&values, 255);
    }
    let mut seen = BTreeSet::new();
    let mut ordered = true;
    let mut last = i64::MIN;
    for value in values.items() {
        if operator.str() == "In" && value.int() == 0 {
            errors.invalid(&value, 0, "must not be 0 for the In operator");
        }
        if !seen.insert(value.int()) {
            errors.duplicate(&value, value.int());
        }
        ordered &= last <= value.int();
        last = value.int();
    }
    if !ordered {
        errors.invalid(&values, values.shown(), "must be ordered");
    }
}

fn success_policy(spec: &At<'_, '_>, errors: &mut Errors) {
    let policy = spec.field("successPolicy");
    if !policy.exists() {
        return;
    }
    if spec.field("completionMode").str() != "Indexed" {
        return errors.invalid(&policy, policy.shown(), "requires indexed completion mode");
    }
    let completions = spec.field("completions").int();
    let rules = policy.field("rules");
    if rules.is_empty() {
        let text = "at least one rules must be specified when the successPolicy is specified";
        errors.required(&rules, text);
    }
    if rules.len() > 20 {
        errors.too_many(&rules, 20);
    }
    for rule in rules.items() {
        let (count, indexes) = (rule.field("succeededCount"), rule.field("succeededIndexes"));
        if !count.exists() && !indexes.exists() {
            errors.required(&rule, "at least one of succeededCount or succeededIndexes must be specified");
        }
        let mut listed = 0;
        if indexes.exists() {
            if indexes.str().len() > 64 * 1024 {
                errors.too_long(&indexes, 64 * 1024);
            }
            match job_status::count_indexes(indexes.str(), completions) {
                Ok(count) => listed = count,
                Err(why) => {
                    errors.invalid(&indexes, indexes.str(), format!("error parsing succeededIndexes: {why}"));
                }
            }
        }
        errors.non_negative(&count);
        let mut at_most = |max: i64, what: &str| {
            if count.int() > max {
                errors.invalid(&count, count.int(), format!("must be less than or equal to {max} ({what})"));
            }
        };
        at_most(completions, "the number of specified completions");
        if indexes.exists() {
            at_most(listed, "the number of indexes in the specified succeededIndexes field");
        }
    }
}

fn validate_update(job: &Value, old: &Value) -> Vec<FieldError> {
    let labelled = |label: &str| has(old, &["spec", "template", "metadata", "labels", label]);
    Errors::of(job, |at, errors| {
        validate(at, labelled(NAME) && labelled(UID), errors);
        let was = At::root(old);
        let (spec, was) = (at.field("spec"), was.field("spec"));
        completions_change(&spec, &was, errors);
        errors.immutable(&spec.field("selector"), &was.field("selector"));
        template_change(&spec, job, old, errors);
        for field in
            ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"]
        {
            errors.immutable(&spec.field(field), &was.field(field));
        }
    })
}

/// An indexed job may be scaled, by completions and parallelism together.
fn completions_change(spec: &At<'_, '_>, was: &At<'_, '_>, errors: &mut Errors) {
    let (now, before) = (spec.field("completions"), was.field("completions"));
    if spec.field("completionMode").str() != "Indexed" {
        errors.immutable(&now, &before);
    } else if now.exists() && now.value() != before.value() && now.int() != spec.field("parallelism").int() {
        errors.invalid(&now, now.int(), "can only be modified in tandem with spec.parallelism");
    }
}

/// While a job is suspended and has no pods, it may be told anew where they run and what they may use.
fn template_change(spec: &At<'_, '_>, job: &Value, old: &Value, errors: &mut Errors) {
    let template = spec.field("template");
    if same(job, old, &["spec", "template"]) {
        return;
    }
    let suspended = get_bool(old, &["spec", "suspend"]);
    let idle = !has(old, &["status", "startTime"]) || job_status::is_true(old, "Suspended");
    if !suspended || !idle || get_i64(old, &["status", "active"]).unwrap_or_default() != 0 {
        return errors.invalid(&template, template.shown(), "field is immutable");
    }
    let mut before = get(old, &["spec", "template"]).cloned().unwrap_or_default();
    let now = template.shown();
    for path in [
        &["spec", "nodeSelector"][..],
        &["spec", "tolerations"],
        &["spec", "schedulingGates"],
        &["spec", "affinity", "nodeAffinity"],
        &["metadata", "annotations"],
        &["metadata", "labels"],
    ] {
        copy_from(&mut before, &now, path);
    }
    if get(&before, &["spec", "affinity"]).and_then(Value::as_object).is_some_and(Map::is_empty) {
        remove(&mut before, &["spec", "affinity"]);
    }
    for list in ["containers", "initContainers"] {
        let wanted = items(&now, &["spec", list]).to_vec();
        if wanted.len() != items(&before, &["spec", list]).len() {
            continue;
        }
        for (container, wanted) in items_mut(&mut before, &["spec", list]).iter_mut().zip(&wanted) {
            if container.get("name") == wanted.get("name") {
                copy_from(container, wanted, &["resources"]);
            }
        }
    }
    if before.get("spec") != now.get("spec") {
        let place = spec.field("template.spec");
        errors.invalid(&place, now.get("spec").cloned().unwrap_or_default(), "field is immutable");
    }
}

/// Warnings of the spec of a job or of the template of a cron job.
pub(super) fn spec_warnings(spec: &At<'_, '_>) -> Vec<String> {
    let mut warnings = Vec::new();
    let many = spec.field("completions").int() > 100_000 && spec.field("parallelism").int() > 10_000;
    if many && spec.field("completionMode").str() == "Indexed" {
        warnings.push(format!("{}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail", spec.path()));
    }
    warnings.extend(pod_spec::pod_warnings(&spec.field("template")));
    warnings
}
