//! Cron jobs: jobs that are made by the clock.

use serde_json::{Map, Value, json};

use super::{
    super::{
        Strategy,
        access::{default_to, get_str, set},
        lifecycle::{keep_spec, keep_status, spec_changed},
        report::{At, Errors},
        workload,
    },
    job, schedule,
};
use crate::field::FieldError;

/// What a cron job does.
pub(crate) const STRATEGY: Strategy = Strategy {
    default,
    prepare_create: |cron| set(cron, &["status"], json!({})),
    prepare_update: keep_status,
    prepare_status_update: keep_spec,
    validate: |cron| {
        Errors::of(cron, |cron, errors| {
            validate(&cron.field("spec"), None, errors);
            let metadata = cron.field("metadata");
            let name = metadata.field("name");
            if name.str().len() > 52 {
                errors.invalid(&name, name.str(), "must be no more than 52 characters");
            }
        })
    },
    validate_update: |cron, old| -> Vec<FieldError> {
        let old = At::root(old);
        Errors::of(cron, |cron, errors| validate(&cron.field("spec"), Some(&old.field("spec")), errors))
    },
    warnings,
    generation: Some(spec_changed),
    ..Strategy::PLAIN
};

fn default(cron: &mut Value) {
    if get_str(cron, &["spec", "concurrencyPolicy"]).is_empty() {
        set(cron, &["spec", "concurrencyPolicy"], "Allow");
    }
    default_to(cron, &["spec", "suspend"], false);
    default_to(cron, &["spec", "successfulJobsHistoryLimit"], 3);
    default_to(cron, &["spec", "failedJobsHistoryLimit"], 1);
    default_to(cron, &["spec", "jobTemplate", "spec"], Map::new());
    if let Some(spec) = cron.pointer_mut("/spec/jobTemplate/spec") {
        job::default_job_template(spec);
    }
}

fn validate(spec: &At<'_, '_>, old: Option<&At<'_, '_>>, errors: &mut Errors) {
    let (when, zone) = (spec.field("schedule"), spec.field("timeZone"));
    if when.str().is_empty() {
        errors.required(&when, "");
    } else {
        if let Err(why) = schedule::check(when.str()) {
            errors.invalid(&when, when.str(), why);
        }
        let zoned = when.str().contains("TZ");
        if old.is_some_and(|old| old.field("schedule").str().contains("TZ")) {
            if zoned && zone.exists() {
                let text = "cannot use both timeZone field and TZ or CRON_TZ in schedule";
                errors.invalid(&when, when.str(), text);
            }
        } else if zoned {
            let text = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
            errors.invalid(&when, when.str(), text);
        }
    }
    errors.non_negative(&spec.field("startingDeadlineSeconds"));
    if old.is_none_or(|old| old.field("timeZone").value() != zone.value()) {
        time_zone(&zone, errors);
    }
    errors.one_of(&spec.field("concurrencyPolicy"), &["Allow", "Forbid", "Replace"]);
    let template = spec.field("jobTemplate");
    let job = template.field("spec");
    job::validate_template_spec(&job, errors);
    let (selector, manual) = (job.field("selector"), job.field("manualSelector"));
    if selector.exists() {
        errors.invalid(&selector, selector.shown(), "`selector` will be auto-generated");
    }
    if manual.bool() {
        errors.not_supported(&manual, true, &["nil", "false"]);
    }
    errors.non_negative(&spec.field("successfulJobsHistoryLimit"));
    errors.non_negative(&spec.field("failedJobsHistoryLimit"));
}

fn time_zone(zone: &At<'_, '_>, errors: &mut Errors) {
    let name = zone.str();
    if name.is_empty() {
        if zone.exists() {
            errors.invalid(zone, "", "timeZone must be nil or non-empty string");
        }
    } else {
        if name.eq_ignore_ascii_case("Local") {
            let text = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
            errors.invalid(zone, name, text);
        }
        if name != "Local" && !schedule::is_time_zone(name) {
            errors.invalid(zone, name, format!("unknown time zone {name}"));
        }
    }
}

fn warnings(cron: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = if old.is_none() { workload::name_warnings(cron) } else { Vec::new() };
    if old.is_none_or(|old| spec_changed(cron, old)) {
        let at = At::root(cron);
        let spec = at.field("spec");
        warnings.extend(job::spec_warnings(&spec.field("jobTemplate").field("spec")));
    }
    if old.is_some() && get_str(cron, &["spec", "schedule"]).contains("TZ") {
        warnings.push("cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details".to_owned());
    }
    warnings
}
