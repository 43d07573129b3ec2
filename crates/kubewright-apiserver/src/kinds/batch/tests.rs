use serde_json::{Value, json};

use super::{STRATEGIES, Strategy};
use crate::field::FieldError;

fn strategy(kind: &str) -> Strategy {
    STRATEGIES
        .iter()
        .find(|(name, _)| *name == kind)
        .map(|(_, strategy)| *strategy)
        .expect("a kind of batch/v1")
}

fn texts(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn overlaid(mut object: Value, spec: Value) -> Value {
    for (name, value) in spec.as_object().into_iter().flatten() {
        object["spec"][name.as_str()] = value.clone();
    }
    object
}

fn template() -> Value {
    json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}})
}

/// A job as it is after creation, with `spec` laid over what the user wrote.
fn job(spec: Value) -> Value {
    let mut job =
        overlaid(json!({"metadata": {"name": "j", "uid": "u-1"}, "spec": {"template": template()}}), spec);
    (strategy("Job").default)(&mut job);
    (strategy("Job").prepare_create)(&mut job);
    job
}

#[test]
fn a_job_is_selected_by_its_uid() {
    let job = job(json!({}));
    let labels = json!({
        "batch.kubernetes.io/controller-uid": "u-1", "batch.kubernetes.io/job-name": "j",
        "controller-uid": "u-1", "job-name": "j",
    });
    assert_eq!(job["metadata"]["labels"], labels);
    assert_eq!(job["spec"]["template"]["metadata"]["labels"], labels);
    assert_eq!(
        job["spec"]["selector"],
        json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u-1"}})
    );
    for (field, value) in [
        ("backoffLimit", json!(6)),
        ("completionMode", json!("NonIndexed")),
        ("completions", json!(1)),
        ("parallelism", json!(1)),
        ("manualSelector", json!(false)),
        ("podReplacementPolicy", json!("TerminatingOrFailed")),
        ("suspend", json!(false)),
    ] {
        assert_eq!(job["spec"][field], value, "{field}");
    }
    assert_eq!(texts(&(strategy("Job").validate)(&job)), Vec::<String>::new());
}

#[test]
fn own_labels_of_a_job_are_left_alone() {
    let mut template = template();
    template["metadata"] = json!({"labels": {"app": "x"}});
    let mut own = json!({"metadata": {"name": "j", "uid": "u", "labels": {"app": "x"}}, "spec": {"template": template}});
    (strategy("Job").default)(&mut own);
    (strategy("Job").prepare_create)(&mut own);
    assert_eq!(own["metadata"]["labels"], json!({"app": "x"}));
    assert_eq!(own["spec"]["template"]["metadata"]["labels"].as_object().map(serde_json::Map::len), Some(5));
}

#[test]
fn a_manual_selector_is_taken_as_it_is() {
    let mut template = template();
    template["metadata"] = json!({"labels": {"a": "b"}});
    let job =
        job(json!({"manualSelector": true, "selector": {"matchLabels": {"a": "b"}}, "template": template}));
    assert_eq!(job["spec"]["template"]["metadata"]["labels"], json!({"a": "b"}));
    assert_eq!(texts(&(strategy("Job").validate)(&job)), Vec::<String>::new());
}

#[test]
fn what_is_wrong_with_a_job_is_said_where_it_is() {
    let with = |policy: &str| {
        let mut template = template();
        template["spec"]["restartPolicy"] = policy.into();
        json!({"template": template})
    };
    let rule = |rule: Value| json!({"podFailurePolicy": {"rules": [rule]}});
    for (spec, expected) in [
        (
            with("Always"),
            vec!["spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\""],
        ),
        (
            json!({"parallelism": -1, "completions": -1, "backoffLimit": -1}),
            vec![
                "spec.parallelism: Invalid value: -1: must be greater than or equal to 0",
                "spec.completions: Invalid value: -1: must be greater than or equal to 0",
                "spec.backoffLimit: Invalid value: -1: must be greater than or equal to 0",
            ],
        ),
        (
            json!({"selector": {"matchLabels": {"a": "b"}}}),
            vec![
                "spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"b\",\"batch.kubernetes.io/controller-uid\":\"u-1\"}}: `selector` not auto-generated",
                "spec.template.metadata.labels: Invalid value: {\"batch.kubernetes.io/controller-uid\":\"u-1\",\"batch.kubernetes.io/job-name\":\"j\",\"controller-uid\":\"u-1\",\"job-name\":\"j\"}: `selector` does not match template `labels`",
            ],
        ),
        (
            json!({"completionMode": "Zork"}),
            vec![
                "spec.completionMode: Unsupported value: \"Zork\": supported values: \"NonIndexed\", \"Indexed\"",
            ],
        ),
        (
            json!({"completionMode": "Indexed", "parallelism": 2}),
            vec!["spec.completions: Required value: when completion mode is Indexed"],
        ),
        (
            json!({"backoffLimitPerIndex": 1}),
            vec!["spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode"],
        ),
        (
            json!({"managedBy": "zork"}),
            vec![
                "spec.managedBy: Invalid value: \"zork\": must be a domain-prefixed path (such as \"acme.io/foo\")",
            ],
        ),
        (
            rule(json!({"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [2, 1]}})),
            vec![
                "spec.podFailurePolicy.rules[0].action: Invalid value: \"FailIndex\": requires the backoffLimitPerIndex to be set",
                "spec.podFailurePolicy.rules[0].onExitCodes.values: Invalid value: [2,1]: must be ordered",
            ],
        ),
        (
            rule(json!({"action": "Ignore"})),
            vec![
                "spec.podFailurePolicy.rules[0]: Invalid value: specifying one of OnExitCodes and OnPodConditions is required",
            ],
        ),
        (
            json!({"completionMode": "Indexed", "completions": 3, "successPolicy": {"rules": [{"succeededIndexes": "0-9"}]}}),
            vec![
                "spec.successPolicy.rules[0].succeededIndexes: Invalid value: \"0-9\": error parsing succeededIndexes: too large index: \"9\"",
            ],
        ),
    ] {
        assert_eq!(texts(&(strategy("Job").validate)(&job(spec.clone()))), expected, "{spec}");
    }
}

#[test]
fn the_template_of_a_job_is_immutable_while_it_may_run() {
    let mut changed = template();
    changed["spec"]["containers"][0]["image"] = "other".into();
    let old = job(json!({}));
    let errors =
        (strategy("Job").validate_update)(&job(json!({"template": changed, "completions": 5})), &old);
    let fields: Vec<&str> = errors.iter().map(|error| error.path.as_str()).collect();
    assert_eq!(fields, ["spec.completions", "spec.template"]);

    let mut placed = template();
    placed["spec"]["nodeSelector"] = json!({"disk": "ssd"});
    let suspended = job(json!({"suspend": true}));
    let moved = job(json!({"suspend": true, "template": placed}));
    assert_eq!(texts(&(strategy("Job").validate_update)(&moved, &suspended)), Vec::<String>::new());
    assert_eq!((strategy("Job").validate_update)(&moved, &old).len(), 1);
}

#[test]
fn a_finished_job_stays_finished() {
    let status = |conditions: Value, failed: i64| {
        let mut job = job(json!({}));
        job["status"] =
            json!({"conditions": conditions, "failed": failed, "startTime": "2020-01-01T00:00:00Z"});
        job
    };
    let condition = |kind: &str| json!({"type": kind, "status": "True"});
    let old = status(json!([condition("FailureTarget"), condition("Failed")]), 3);
    let new = status(json!([]), 2);
    assert_eq!(
        texts(&(strategy("Job").validate_status_update)(&new, &old)),
        [
            "status.conditions: Invalid value: cannot disable the terminal Failed=True condition",
            "status.conditions: Invalid value: cannot disable the terminal FailureTarget=True condition",
            "status.failed: Invalid value: 2: cannot decrease the failed counter",
        ]
    );
    let running = status(json!([]), 3);
    let direct = status(json!([condition("Failed")]), 3);
    assert_eq!(
        texts(&(strategy("Job").validate_status_update)(&direct, &running)),
        [
            "status.conditions: Invalid value: cannot set Failed=True condition without the FailureTarget=true condition"
        ]
    );
    assert_eq!(texts(&(strategy("Job").validate_status_update)(&old, &running)), Vec::<String>::new());
}

fn cron(spec: Value) -> Value {
    let base = json!({"schedule": "*/5 * * * *", "jobTemplate": {"spec": {"template": template()}}});
    let mut cron = overlaid(json!({"metadata": {"name": "c"}, "spec": base}), spec);
    (strategy("CronJob").default)(&mut cron);
    cron
}

#[test]
fn a_cron_job_is_filled_in_without_touching_what_its_jobs_get_later() {
    let cron = cron(json!({}));
    let mut spec = cron["spec"].clone();
    let job = spec["jobTemplate"].take();
    assert_eq!(
        spec,
        json!({
            "schedule": "*/5 * * * *", "concurrencyPolicy": "Allow", "suspend": false, "jobTemplate": null,
            "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1,
        })
    );
    assert_eq!(job["spec"]["template"]["spec"]["dnsPolicy"], "ClusterFirst");
    assert!(job["spec"].get("completions").is_none());
}

#[test]
fn what_is_wrong_with_a_cron_job_is_said_where_it_is() {
    for (spec, expected) in [
        (json!({}), vec![]),
        (
            json!({"schedule": "zork"}),
            vec!["spec.schedule: Invalid value: \"zork\": expected exactly 5 fields, found 1: [zork]"],
        ),
        (json!({"schedule": ""}), vec!["spec.schedule: Required value"]),
        (
            json!({"timeZone": "Zork/Zork"}),
            vec!["spec.timeZone: Invalid value: \"Zork/Zork\": unknown time zone Zork/Zork"],
        ),
        (
            json!({"schedule": "TZ=UTC * * * * *"}),
            vec![
                "spec.schedule: Invalid value: \"TZ=UTC * * * * *\": cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
            ],
        ),
        (
            json!({"concurrencyPolicy": "Zork"}),
            vec![
                "spec.concurrencyPolicy: Unsupported value: \"Zork\": supported values: \"Allow\", \"Forbid\", \"Replace\"",
            ],
        ),
        (json!({"schedule": "@hourly", "timeZone": "Etc/UTC"}), vec![]),
    ] {
        assert_eq!(texts(&(strategy("CronJob").validate)(&cron(spec.clone()))), expected, "{spec}");
    }
    let mut long = cron(json!({}));
    long["metadata"]["name"] = "c".repeat(53).into();
    assert_eq!(
        texts(&(strategy("CronJob").validate)(&long)),
        [format!("metadata.name: Invalid value: \"{}\": must be no more than 52 characters", "c".repeat(53))]
    );
}
