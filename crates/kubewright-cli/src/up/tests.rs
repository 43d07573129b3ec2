//! What people see of objects, from the objects themselves.

#![allow(clippy::unwrap_used, reason = "a test that can't go on says so by panicking")]

use std::sync::Arc;

use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::{
    Picture, happenings,
    reconciles::Reconcile,
    screen::frame,
    state::{Mood, State},
    tree,
};

fn object(kind: &str, name: &str, owner: Option<&str>, content: Value) -> Arc<DynamicObject> {
    let owners = owner
        .map(|owner| json!([{"apiVersion": "v1", "kind": "", "name": "", "uid": owner, "controller": true}]));
    let mut object = json!({
        "apiVersion": "v1", "kind": kind,
        "metadata": {"name": name, "namespace": "default", "uid": name, "generation": 1, "ownerReferences": owners},
    });
    object.as_object_mut().unwrap().extend(content.as_object().unwrap().clone());
    Arc::new(serde_json::from_value(object).unwrap())
}

fn state(kind: &str, content: Value) -> String {
    let State { mood, text } = State::of(&object(kind, "it", None, content));
    let mood = match mood {
        Mood::Well => "well",
        Mood::Busy => "busy",
        Mood::Unwell => "unwell",
    };
    format!("{mood}: {text}")
}

fn condition(kind: &str, status: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "reason": "Reason", "message": message})
}

#[test]
fn the_resource_of_an_operator_is_what_its_conditions_say() {
    let with = |generation: i64, conditions: Value| {
        state("Shop", json!({"status": {"observedGeneration": generation, "conditions": conditions}}))
    };
    let (open, closed) =
        (condition("Available", "True", "it is open"), condition("Available", "False", "closed"));
    assert_eq!(state("Shop", json!({})), "busy: not looked at yet");
    assert_eq!(with(1, json!([open])), "well: Available: it is open");
    assert_eq!(with(0, json!([open])), "busy: Reason: it is open", "that was before the last change");
    assert_eq!(with(1, json!([closed])), "busy: Reason: closed");
    assert_eq!(with(1, json!([closed, condition("Progressing", "True", "soon")])), "busy: Reason: soon");
    assert_eq!(with(1, json!([open, condition("Degraded", "True", "fire")])), "unwell: Reason: fire");
    assert_eq!(with(1, json!([open, condition("Stalled", "True", "no port")])), "unwell: Reason: no port");
}

#[test]
fn pods_tell_where_they_are_and_what_is_in_the_way() {
    let pod = |phase: &str, status: Value| {
        let mut status = status;
        status["phase"] = phase.into();
        state("Pod", json!({"spec": {"nodeName": "node-1"}, "status": status}))
    };
    let container = |state: Value, restarts: i64| json!({"containerStatuses": [{"state": state, "restartCount": restarts}]});
    let waits = |reason: &str, restarts| container(json!({"waiting": {"reason": reason}}), restarts);
    let mut ready = container(json!({"running": {}}), 2);
    ready["conditions"] = json!([condition("Ready", "True", "")]);
    let unscheduled = json!({"conditions": [condition("PodScheduled", "False", "0/3 nodes are available")]});
    assert_eq!(pod("Pending", json!({})), "busy: Pending");
    assert_eq!(pod("Pending", unscheduled), "unwell: Reason: 0/3 nodes are available");
    assert_eq!(pod("Pending", waits("ContainerCreating", 0)), "busy: starting on node-1");
    assert_eq!(pod("Pending", waits("ImagePullBackOff", 0)), "unwell: ImagePullBackOff on node-1");
    assert_eq!(
        pod("Running", waits("CrashLoopBackOff", 4)),
        "unwell: CrashLoopBackOff on node-1, restarted 4×"
    );
    assert_eq!(pod("Running", container(json!({"running": {}}), 0)), "busy: Running on node-1, not ready");
    assert_eq!(pod("Running", ready), "well: Running on node-1, restarted 2×");
    assert_eq!(pod("Succeeded", json!({})), "well: Succeeded on node-1");
    assert_eq!(pod("Failed", json!({"reason": "Evicted"})), "unwell: Evicted on node-1");
}

#[test]
fn others_tell_what_matters_of_them() {
    let deployment = |ready: i64, updated: i64, observed: i64| {
        let status = json!({
            "replicas": 3, "readyReplicas": ready, "updatedReplicas": updated, "observedGeneration": observed,
        });
        state("Deployment", json!({"spec": {"replicas": 3}, "status": status}))
    };
    assert_eq!(deployment(3, 3, 1), "well: 3 of 3 ready");
    assert_eq!(deployment(3, 2, 1), "busy: 3 of 3 ready", "one of them is an old one");
    assert_eq!(deployment(3, 3, 0), "busy: 3 of 3 ready", "that was before the last change");
    assert_eq!(deployment(1, 3, 1), "busy: 1 of 3 ready");
    let job = |conditions: Value| {
        state("Job", json!({"status": {"active": 1, "succeeded": 2, "conditions": conditions}}))
    };
    assert_eq!(job(json!([])), "busy: 1 active, 2 succeeded");
    assert_eq!(job(json!([condition("Complete", "True", "")])), "well: Complete, 2 succeeded");
    assert_eq!(job(json!([condition("Failed", "True", "too often")])), "unwell: Reason: too often");
    let service = |spec: Value| state("Service", json!({"spec": spec}));
    let ports = json!([{"port": 80, "nodePort": 30100}, {"port": 443}]);
    assert_eq!(service(json!({"type": "NodePort", "ports": ports})), "well: NodePort 80:30100, 443");
    assert_eq!(
        service(json!({"type": "ClusterIP", "clusterIP": "None", "ports": ports})),
        "well: headless 80:30100, 443"
    );
    assert_eq!(
        state("Secret", json!({"data": {"password": "c2VjcmV0"}})),
        "well: password",
        "and no more of it"
    );
}

/// A shop with everything below it, an old ReplicaSet, and somebody else's pod.
fn picture() -> Picture {
    let available = json!({"status": {"observedGeneration": 1, "conditions": [condition("Available", "True", "it is open")]}});
    let pending = json!({"status": {"phase": "Pending"}});
    let none = json!({"spec": {"replicas": 0}, "status": {"replicas": 0}});
    let others = [
        object("Pod", "shop-1-b", Some("shop-1"), pending.clone()),
        object("Pod", "shop-1-a", Some("shop-1"), pending.clone()),
        object("ReplicaSet", "shop-0", Some("shop-deployment"), none),
        object("ReplicaSet", "shop-1", Some("shop-deployment"), json!({"spec": {"replicas": 2}})),
        object("Deployment", "shop-deployment", Some("shop"), json!({"spec": {"replicas": 2}})),
        object("ConfigMap", "shop-page", Some("shop"), json!({"data": {"index.html": ""}})),
        object("Pod", "stranger", None, pending),
    ];
    let event = |name: &str, time: &str, kind: &str, message: &str| {
        let about = json!({"kind": "Pod", "name": "shop-1-a"});
        object(
            "Event",
            name,
            None,
            json!({"type": kind, "reason": "Reason", "message": message, "involvedObject": about, "eventTime": time}),
        )
    };
    Picture {
        trees: tree::grow([object("Shop", "shop", None, available)], others),
        events: happenings(vec![
            event("b", "2026-01-01T00:00:02Z", "Warning", "later\nand longer"),
            event("a", "2026-01-01T00:00:01Z", "Normal", "sooner"),
        ]),
    }
}

/// A picture without its colours.
fn plain(lines: &[String]) -> String {
    let mut text = lines.join("\n");
    for colour in ["0", "1", "2", "31", "32", "33"] {
        text = text.replace(&format!("\u{1b}[{colour}m"), "");
    }
    text
}

#[test]
fn a_picture_has_trees_reconciles_events_and_what_to_do() {
    let reconciles = [
        Reconcile {
            controller: "shop".to_owned(),
            object: "default/shop".to_owned(),
            failure: None,
            times: 3,
        },
        Reconcile {
            controller: "shop".to_owned(),
            object: "default/other".to_owned(),
            failure: Some("no such image".to_owned()),
            times: 1,
        },
    ];
    let lines = frame(&picture(), &reconciles, &["Ctrl-C ends it.".to_owned()], 60, 40);
    assert_eq!(
        plain(&lines),
        "\
Shop default/shop              ● Available: it is open
├─ ConfigMap shop-page         ● index.html
└─ Deployment shop-deployment  ◌ 0 of 2 ready
   └─ ReplicaSet shop-1        ◌ 0 of 2 ready
      ├─ Pod shop-1-a          ◌ Pending
      └─ Pod shop-1-b          ◌ Pending

Reconciled
shop default/shop 3×
shop default/other: no such image

Events
Pod shop-1-a: Reason: sooner
Pod shop-1-a: Reason: later

Ctrl-C ends it."
    );
}

#[test]
fn a_picture_fits_on_the_terminal() {
    for (width, height) in [(60, 12), (30, 8), (10, 4), (1, 1), (200, 100)] {
        let lines = frame(&picture(), &[], &["what to do next".to_owned()], width, height);
        assert!(lines.len() < height.max(2), "{height} lines, and not {}", lines.len());
        if width >= 30 {
            let widest = plain(&lines).lines().map(|line| line.chars().count()).max().unwrap();
            assert!(widest <= width, "{width} columns, and not {widest}");
        }
    }
    let short = plain(&frame(&picture(), &[], &[], 60, 10));
    assert!(short.contains("… and 3 more"), "{short}");
}

#[test]
fn what_is_below_counts_too() {
    let picture = picture();
    assert!(!picture.is_at_rest(1), "the pods are pending");
    assert!(Picture::default().is_at_rest(0) && !Picture::default().is_at_rest(1));
}
