//! The status of a job: which states may follow each other.
//!
//! Controllers other than the built-in one may write it, so that a finished job must stay finished and
//! counters may not run backwards. Most rules hold only once what they speak of has changed.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::{
    access::{get, get_bool, get_i64, get_str, items, same},
    report::{At, Errors},
};
use crate::field::FieldError;

/// Whether the condition `kind` of a job is true.
pub(super) fn is_true(job: &Value, kind: &str) -> bool {
    has_status(job, kind, "True")
}

fn has_status(job: &Value, kind: &str, status: &str) -> bool {
    items(job, &["status", "conditions"])
        .iter()
        .any(|one| get_str(one, &["type"]) == kind && get_str(one, &["status"]) == status)
}

fn count(job: &Value, field: &str) -> i64 {
    get_i64(job, &["status", field]).unwrap_or_default()
}

/// What is wrong with the status of `job` as the successor of that of `old`.
pub(super) fn validate_update(job: &Value, old: &Value) -> Vec<FieldError> {
    Errors::of(job, |at, errors| {
        let status = at.field("status");
        counters(&status, errors);
        uncounted(&status, errors);
        finishing(job, old, &status, errors);
        indexes(job, old, &status, errors);
        only_forward(job, old, &status, errors);
    })
}

fn counters(status: &At<'_, '_>, errors: &mut Errors) {
    for field in ["active", "succeeded", "failed", "ready", "terminating"] {
        errors.non_negative(&status.field(field));
    }
}

fn uncounted(status: &At<'_, '_>, errors: &mut Errors) {
    let pods = status.field("uncountedTerminatedPods");
    let mut seen = BTreeSet::new();
    for list in ["succeeded", "failed"] {
        for uid in pods.field(list).items() {
            if uid.str().is_empty() {
                errors.invalid(&uid, "", "must not be empty");
            } else if !seen.insert(uid.str()) {
                errors.duplicate(&uid, uid.str());
            }
        }
    }
}

fn finishing(job: &Value, old: &Value, status: &At<'_, '_>, errors: &mut Errors) {
    let changed = |kind: &str| is_true(job, kind) != is_true(old, kind);
    let moved = |field: &str| !same(job, old, &["status", field]);
    let (complete, failed) = (is_true(job, "Complete"), is_true(job, "Failed"));
    let (target, met) = (is_true(job, "FailureTarget"), is_true(job, "SuccessCriteriaMet"));
    let finished = complete || failed;
    let finish_changed = finished != (is_true(old, "Complete") || is_true(old, "Failed"));
    let conditions = status.field("conditions");
    let (completion, start) = (status.field("completionTime"), status.field("startTime"));
    if (changed("Complete") || changed("Failed")) && complete && failed {
        errors.invalid_unshown(&conditions, "cannot set Complete=True and Failed=true conditions");
    }
    if (changed("Complete") || changed("FailureTarget")) && complete && target {
        errors.invalid_unshown(&conditions, "cannot set Complete=True and FailureTarget=true conditions");
    }
    if changed("Complete") || moved("completionTime") {
        if completion.exists() && !complete {
            let text = "cannot set completionTime when there is no Complete=True condition";
            errors.invalid(&completion, completion.shown(), text);
        } else if !completion.exists() && complete {
            errors.required(&completion, "completionTime is required for Complete jobs");
        }
    }
    let times = start.exists() && completion.exists();
    if (moved("startTime") || moved("completionTime")) && times && completion.str() < start.str() {
        errors.invalid(&completion, completion.shown(), "must be equal to or after `startTime`");
    }
    if (changed("Failed") || moved("failedIndexes")) && failed && !target {
        let text = "cannot set Failed=True condition without the FailureTarget=true condition";
        errors.invalid_unshown(&conditions, text);
    }
    if (changed("Complete") || changed("SuccessCriteriaMet")) && complete && !met {
        let text = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
        errors.invalid_unshown(&conditions, text);
    }
    if (finish_changed || moved("active")) && finished && count(job, "active") > 0 {
        errors.invalid(&status.field("active"), count(job, "active"), "active>0 is invalid for finished job");
    }
    let never_ran = get_bool(job, &["spec", "suspend"]) && get_i64(job, &["spec", "completions"]) == Some(0);
    if (finish_changed || moved("startTime")) && !never_ran && finished && !start.exists() {
        errors.required(&start, "startTime is required for finished job");
    }
    let pods = status.field("uncountedTerminatedPods");
    let left = !pods.field("failed").is_empty() || !pods.field("succeeded").is_empty();
    if (finish_changed || moved("uncountedTerminatedPods")) && finished && left {
        errors.invalid(&pods, pods.shown(), "must be empty for finished job");
    }
    if (finish_changed || moved("terminating")) && finished && count(job, "terminating") > 0 {
        let terminating = status.field("terminating");
        errors.invalid(&terminating, terminating.int(), "terminating>0 is invalid for finished job");
    }
    let ready = status.field("ready");
    if (moved("ready") || moved("active")) && ready.exists() && ready.int() > count(job, "active") {
        errors.invalid(&ready, ready.int(), "cannot set more ready pods than active");
    }
    if met && failed {
        errors.invalid_unshown(&conditions, "cannot set SuccessCriteriaMet=True and Failed=true conditions");
    }
    if met && target {
        let text = "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions";
        errors.invalid_unshown(&conditions, text);
    }
    if get(job, &["spec", "successPolicy"]).is_some() && !met && complete {
        let text = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True";
        errors.invalid_unshown(&conditions, text);
    }
}

fn indexes(job: &Value, old: &Value, status: &At<'_, '_>, errors: &mut Errors) {
    let moved = |field: &str| !same(job, old, &["status", field]);
    let (completed, failed) = (status.field("completedIndexes"), status.field("failedIndexes"));
    let completions = get_i64(job, &["spec", "completions"]);
    let per_index = get(job, &["spec", "backoffLimitPerIndex"]).is_some();
    let check = |at: &At<'_, '_>, name: &str, errors: &mut Errors| {
        if let Some(Err(why)) = completions.map(|completions| count_indexes(at.str(), completions)) {
            errors.invalid(at, at.str(), format!("error parsing {name}: {why}"));
        }
    };
    if moved("completedIndexes") {
        check(&completed, "completedIndexes", errors);
        if !completed.str().is_empty() && get_str(job, &["spec", "completionMode"]) != "Indexed" {
            let text = "cannot set non-empty completedIndexes when non-indexed completion mode";
            errors.invalid(&completed, completed.str(), text);
        }
    }
    if moved("failedIndexes") && failed.exists() {
        if per_index {
            check(&failed, "failedIndexes", errors);
        } else {
            let text = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
            errors.invalid(&failed, failed.str(), text);
        }
    }
    if (moved("failedIndexes") || moved("completedIndexes"))
        && let Some(index) = completions.and_then(|all| overlap(completed.str(), failed.str(), all))
    {
        let text = format!("failedIndexes and completedIndexes overlap at index: {index}");
        errors.invalid(&failed, failed.str(), text);
    }
}

fn only_forward(job: &Value, old: &Value, status: &At<'_, '_>, errors: &mut Errors) {
    let conditions = status.field("conditions");
    for kind in ["Failed", "Complete", "FailureTarget"] {
        if is_true(old, kind) && !is_true(job, kind) {
            errors.invalid_unshown(&conditions, format!("cannot disable the terminal {kind}=True condition"));
        }
    }
    let scalable = get_str(job, &["spec", "completionMode"]) == "Indexed"
        && get(job, &["spec", "completions"]) == get(job, &["spec", "parallelism"]);
    for (field, fixed) in [("failed", true), ("succeeded", !scalable)] {
        if fixed && count(job, field) < count(old, field) {
            let text = format!("cannot decrease the {field} counter");
            errors.invalid(&status.field(field), count(job, field), text);
        }
    }
    let time = |object: &Value, field: &str| get(object, &["status", field]).cloned();
    let completion = time(old, "completionTime");
    if completion.is_some() && time(job, "completionTime").is_some_and(|now| Some(now) != completion) {
        let now = status.field("completionTime");
        errors.invalid(&now, now.shown(), "field is immutable");
    }
    let resuming = is_true(old, "Suspended") && has_status(job, "Suspended", "False");
    let start = time(old, "startTime");
    if start.is_some() && start != time(job, "startTime") && !resuming && !get_bool(job, &["spec", "suspend"])
    {
        let now = status.field("startTime");
        errors.invalid(&now, now.shown(), "field is immutable for unsuspended job once set");
    }
    let met = |object: &Value| is_true(object, "SuccessCriteriaMet");
    if met(old) && !met(job) {
        errors.invalid_unshown(&conditions, "cannot disable the SuccessCriteriaMet=True condition");
    }
    if is_true(old, "Complete") && !met(old) && met(job) {
        let text = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions";
        errors.invalid_unshown(&conditions, text);
    }
}

/// How many indexes a list such as `1,3-5` names, or why it is none.
pub(super) fn count_indexes(text: &str, completions: i64) -> Result<i64, String> {
    let mut last: Option<i64> = None;
    let mut total: i64 = 0;
    for interval in text.split(',').filter(|_| !text.is_empty()) {
        let (first, end) = interval_of(interval, completions)?;
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(format!("non-increasing order, previous: {last}, current: {first}"));
        }
        total = total.saturating_add(end.saturating_sub(first).saturating_add(1));
        last = Some(end);
    }
    Ok(total)
}

fn interval_of(text: &str, completions: i64) -> Result<(i64, i64), String> {
    let index = |text: &str| {
        let index: i64 =
            text.parse().map_err(|_| format!("cannot convert string to integer for index: \"{text}\""))?;
        if index >= completions { Err(format!("too large index: \"{text}\"")) } else { Ok(index) }
    };
    match text.split('-').collect::<Vec<_>>().as_slice() {
        [one] => index(one).map(|one| (one, one)),
        [first, last] => match (index(first)?, index(last)?) {
            (first, last) if first >= last => {
                Err(format!("non-increasing order, previous: {first}, current: {last}"))
            }
            pair => Ok(pair),
        },
        _ => Err(format!(
            "the fragment \"{text}\" violates the requirement that an index interval can have at most two parts separated by '-'"
        )),
    }
}

/// The first index that both lists name.
fn overlap(completed: &str, failed: &str, completions: i64) -> Option<i64> {
    let intervals = |text: &str| -> Vec<(i64, i64)> {
        let parsed = text.split(',').filter_map(|one| interval_of(one, completions).ok());
        parsed.collect()
    };
    let (completed, failed) = (intervals(completed), intervals(failed));
    let (mut left, mut right) = (completed.iter().peekable(), failed.iter().peekable());
    while let (Some(one), Some(other)) = (left.peek(), right.peek()) {
        if one.0 <= other.1 && other.0 <= one.1 {
            return Some(one.0.max(other.0));
        }
        if one.0 <= other.0 {
            left.next();
        } else {
            right.next();
        }
    }
    None
}
