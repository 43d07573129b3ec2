use serde_json::{Value, json};

use super::{STRATEGIES, Strategy};
use crate::field::FieldError;

fn strategy(kind: &str) -> Strategy {
    STRATEGIES
        .iter()
        .find(|(name, _)| *name == kind)
        .map(|(_, strategy)| *strategy)
        .expect("a kind of apps/v1")
}

fn texts(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// An object as simple as the kind allows, with `spec` laid over it.
fn workload(kind: &str, spec: Value) -> Value {
    let mut object = json!({
        "metadata": {"name": "x"},
        "spec": {
            "selector": {"matchLabels": {"app": "x"}},
            "template": {
                "metadata": {"labels": {"app": "x"}},
                "spec": {"containers": [{"name": "c", "image": "img:1"}]},
            },
        },
    });
    for (name, value) in spec.as_object().into_iter().flatten() {
        object["spec"][name.as_str()] = value.clone();
    }
    (strategy(kind).default)(&mut object);
    object
}

#[test]
fn a_deployment_is_filled_in() {
    let deployment = workload("Deployment", json!({}));
    let mut spec = deployment["spec"].clone();
    let template = spec["template"].take();
    assert_eq!(
        spec,
        json!({
            "replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
            "selector": {"matchLabels": {"app": "x"}}, "template": null,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
        })
    );
    assert_eq!(template["spec"]["restartPolicy"], "Always");
    assert!(template["spec"].get("enableServiceLinks").is_none(), "that is for pods only");
    assert_eq!(texts(&(strategy("Deployment").validate)(&deployment)), Vec::<String>::new());
}

#[test]
fn a_stateful_set_is_filled_in() {
    let claims = json!([{"metadata": {"name": "data"}, "spec":
        {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]);
    let template = json!({
        "metadata": {"labels": {"app": "x"}},
        "spec": {"containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}]},
    });
    let stateful = workload("StatefulSet", json!({"volumeClaimTemplates": claims, "template": template}));
    assert_eq!(stateful["spec"]["podManagementPolicy"], "OrderedReady");
    assert_eq!(
        stateful["spec"]["updateStrategy"],
        json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}})
    );
    assert_eq!(
        stateful["spec"]["persistentVolumeClaimRetentionPolicy"],
        json!({"whenDeleted": "Retain", "whenScaled": "Retain"})
    );
    assert_eq!(
        stateful["spec"]["volumeClaimTemplates"][0]["spec"]["volumeMode"], "Filesystem",
        "templates of claims are filled in like claims"
    );
    assert_eq!(texts(&(strategy("StatefulSet").validate)(&stateful)), Vec::<String>::new());
}

#[test]
fn what_is_wrong_is_said_where_it_is() {
    let other =
        json!({"metadata": {"labels": {"app": "y"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let never = json!({
        "metadata": {"labels": {"app": "x"}},
        "spec": {"restartPolicy": "Never", "activeDeadlineSeconds": 5, "containers": [{"name": "c", "image": "i"}]},
    });
    for (kind, spec, expected) in [
        (
            "Deployment",
            json!({"replicas": -1}),
            vec!["spec.replicas: Invalid value: -1: must be greater than or equal to 0"],
        ),
        (
            "Deployment",
            json!({"selector": null}),
            vec![
                "spec.selector: Required value",
                "spec.template.metadata.labels: Invalid value: {\"app\":\"x\"}: `selector` does not match template `labels`",
            ],
        ),
        (
            "Deployment",
            json!({"selector": {}}),
            vec!["spec.selector: Invalid value: {}: empty selector is invalid for deployment"],
        ),
        (
            "Deployment",
            json!({"template": other.clone()}),
            vec![
                "spec.template.metadata.labels: Invalid value: {\"app\":\"y\"}: `selector` does not match template `labels`",
            ],
        ),
        (
            "Deployment",
            json!({"template": never}),
            vec![
                "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"",
                "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported",
            ],
        ),
        (
            "Deployment",
            json!({"strategy": {"type": "Zork"}}),
            vec![
                "spec.strategy: Unsupported value: {\"Type\":\"Zork\",\"RollingUpdate\":null}: supported values: \"Recreate\", \"RollingUpdate\"",
            ],
        ),
        (
            "Deployment",
            json!({"strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}}),
            vec![
                "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
            ],
        ),
        (
            "Deployment",
            json!({"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}}),
            vec![
                "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"0%\": may not be 0 when `maxSurge` is 0",
            ],
        ),
        (
            "Deployment",
            json!({"strategy": {"rollingUpdate": {"maxUnavailable": "101%"}}}),
            vec![
                "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"101%\": must not be greater than 100%",
            ],
        ),
        (
            "Deployment",
            json!({"minReadySeconds": 600}),
            vec!["spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds"],
        ),
        (
            "ReplicaSet",
            json!({"selector": {}}),
            vec!["spec.selector: Invalid value: {}: empty selector is invalid for deployment"],
        ),
        (
            "StatefulSet",
            json!({"podManagementPolicy": "Zork"}),
            vec!["spec.podManagementPolicy: Invalid value: \"Zork\": must be 'OrderedReady' or 'Parallel'"],
        ),
        (
            "StatefulSet",
            json!({"updateStrategy": {"type": "OnDelete", "rollingUpdate": {"partition": 1}}}),
            vec![
                "spec.updateStrategy.rollingUpdate: Invalid value: {\"Partition\":1,\"MaxUnavailable\":null}: only allowed for updateStrategy 'RollingUpdate'",
            ],
        ),
        (
            "DaemonSet",
            json!({"template": other}),
            vec![
                "spec.template.metadata.labels: Invalid value: {\"app\":\"y\"}: `selector` does not match template `labels`",
            ],
        ),
        (
            "DaemonSet",
            json!({"updateStrategy": {"rollingUpdate": {"maxSurge": 1}}}),
            vec![
                "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero",
            ],
        ),
        (
            "DaemonSet",
            json!({"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0}}}),
            vec![
                "spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0",
            ],
        ),
    ] {
        let object = workload(kind, spec);
        assert_eq!(texts(&(strategy(kind).validate)(&object)), expected, "{kind}");
    }
}

#[test]
fn selectors_are_immutable() {
    let changed = json!({
        "selector": {"matchLabels": {"app": "y"}},
        "template": {"metadata": {"labels": {"app": "y"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    });
    for kind in ["Deployment", "ReplicaSet", "DaemonSet"] {
        let (old, new) = (workload(kind, json!({})), workload(kind, changed.clone()));
        assert_eq!(
            texts(&(strategy(kind).validate_update)(&new, &old)),
            ["spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"y\"}}: field is immutable"],
            "{kind}"
        );
    }
}

#[test]
fn a_stateful_set_changes_in_few_fields() {
    let kind = strategy("StatefulSet");
    let old = workload("StatefulSet", json!({"serviceName": "a"}));
    let scaled = workload("StatefulSet", json!({"serviceName": "a", "replicas": 5, "minReadySeconds": 3}));
    assert_eq!(texts(&(kind.validate_update)(&scaled, &old)), Vec::<String>::new());
    let moved = workload("StatefulSet", json!({"serviceName": "b"}));
    assert_eq!(
        texts(&(kind.validate_update)(&moved, &old)),
        [
            "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
        ]
    );
}

#[test]
fn the_generation_of_a_deployment_rises_with_spec_and_annotations() {
    let rises = strategy("Deployment").generation.expect("deployments have a generation");
    let old = json!({"metadata": {"labels": {"a": "1"}}, "spec": {"replicas": 1}});
    let cases = [
        (json!({"metadata": {"labels": {"a": "2"}}, "spec": {"replicas": 1}}), false),
        (json!({"metadata": {"annotations": {"a": "2"}}, "spec": {"replicas": 1}}), true),
        (json!({"metadata": {}, "spec": {"replicas": 2}}), true),
        (json!({"metadata": {"annotations": {}}, "spec": {"replicas": 1}, "status": {"replicas": 1}}), false),
    ];
    for (new, expected) in cases {
        assert_eq!(rises(&new, &old), expected, "{new}");
    }
}

#[test]
fn counts_of_a_status_must_fit_together() {
    let kind = strategy("Deployment");
    let old = json!({"status": {"collisionCount": 2}});
    let new =
        json!({"status": {"replicas": 1, "readyReplicas": 2, "availableReplicas": 3, "collisionCount": 1}});
    assert_eq!(
        texts(&(kind.validate_status_update)(&new, &old)),
        [
            "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas",
            "status.availableReplicas: Invalid value: 3: cannot be greater than status.replicas",
            "status.availableReplicas: Invalid value: 3: cannot be greater than readyReplicas",
            "status.collisionCount: Invalid value: 1: cannot be decremented",
        ]
    );
}
