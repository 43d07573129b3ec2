//! Deletion: what is answered, what holds an object back, and who goes along.

use serde_json::{Value, json};

use crate::{
    definition::Definition,
    harness::{on_a_server, with},
    manifests::{config_map, config_map_with, job, pod, pod_on, pod_template, secret, service},
};

#[test]
fn a_deletion_answers_with_a_status_that_names_what_went() {
    on_a_server(async |t| {
        let created = t.post(&t.path("configmaps"), config_map("a", json!({}))).await.code(201);
        let deleted = t.delete(&t.path("configmaps/a")).await.code(200);
        assert_eq!((deleted.text("/kind"), deleted.text("/status")), ("Status", "Success"));
        assert_eq!(deleted.at("/details"), &json!({"name": "a", "kind": "configmaps", "uid": created.uid()}));
        t.get(&t.path("configmaps/a")).await.refused(404, "NotFound");
        let widgets = t.define(Definition::free_form()).await;
        t.post(&widgets.within(&t.namespace), widgets.object("a", json!({}))).await.code(201);
        let deleted = t.delete(&format!("{}/a", widgets.within(&t.namespace))).await.code(200);
        assert_eq!(
            (deleted.text("/details/kind"), deleted.text("/details/group")),
            ("widgets", widgets.group.as_str())
        );
    });
}

#[test]
fn some_kinds_answer_with_the_object() {
    on_a_server(async |t| {
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}});
        let template = json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "a"}, "template": pod_template("a")});
        let quota =
            json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "a"}, "spec": {}});
        for (resource, body) in [
            ("serviceaccounts", account),
            ("pods", pod("a")),
            ("services", service("a")),
            ("resourcequotas", quota),
            ("podtemplates", template),
        ] {
            t.post(&t.path(resource), &body).await.code(201);
            let deleted = t.delete(&t.path(&format!("{resource}/a"))).await.code(200);
            assert_eq!(deleted.at("/kind"), &body["kind"], "{resource}");
        }
    });
}

#[test]
fn a_finalizer_holds_an_object_until_it_is_taken_away() {
    on_a_server(async |t| {
        let path = t.path("configmaps/a");
        t.post(
            &t.path("configmaps"),
            config_map_with("a", json!({"finalizers": ["example.com/a", "example.com/b"]})),
        )
        .await
        .code(201);
        let deleted = t.delete(&path).await.code(200);
        assert_eq!(deleted.text("/kind"), "ConfigMap");
        assert_eq!(deleted.at("/metadata/deletionGracePeriodSeconds"), 0);
        let timestamp = deleted.text("/metadata/deletionTimestamp");
        let again = t.delete(&path).await.code(200);
        assert_eq!(
            (again.revision(), again.text("/metadata/deletionTimestamp")),
            (deleted.revision(), timestamp)
        );
        let undo = t.merge(&path, json!({"metadata": {"deletionTimestamp": null}})).await.code(200);
        assert_eq!(undo.text("/metadata/deletionTimestamp"), timestamp, "there is no way back");
        t.merge(&path, json!({"metadata": {"finalizers": ["example.com/b"]}})).await.code(200);
        t.get(&path).await.code(200);
        let released = t.merge(&path, json!({"metadata": {"finalizers": []}})).await.code(200);
        assert_eq!(released.text("/kind"), "ConfigMap");
        t.get(&path).await.refused(404, "NotFound");
    });
}

#[test]
fn preconditions_of_a_deletion_must_hold() {
    on_a_server(async |t| {
        let path = t.path("configmaps/a");
        let created = t.post(&t.path("configmaps"), config_map("a", json!({}))).await.code(201);
        let wrong = "00000000-0000-0000-0000-000000000000";
        t.delete_with(&path, json!({"preconditions": {"uid": wrong}})).await.refused(409, "Conflict");
        t.delete_with(&path, json!({"preconditions": {"resourceVersion": "1"}}))
            .await
            .refused(409, "Conflict");
        let preconditions = json!({"uid": created.uid(), "resourceVersion": created.revision()});
        t.delete_with(&path, json!({"preconditions": preconditions})).await.code(200);
    });
}

#[test]
fn a_collection_is_deleted_by_selector_and_answers_with_the_list() {
    on_a_server(async |t| {
        let path = t.path("secrets");
        for (name, value) in [("a", "x"), ("b", "x"), ("c", "y")] {
            t.post(&path, secret(name, json!({"k": value}))).await.code(201);
        }
        let deleted = t.delete(&with(&path, &[("labelSelector", "k=x")])).await.code(200);
        assert_eq!((deleted.text("/kind"), deleted.names()), ("SecretList", vec!["a", "b"]));
        assert_eq!(t.get(&path).await.names(), ["c"]);
        let nothing = t.delete(&with(&path, &[("fieldSelector", "metadata.name=none")])).await.code(200);
        assert_eq!(nothing.at("/items"), &json!([]));
    });
}

#[test]
fn foreground_and_orphan_leave_a_finalizer_and_background_none() {
    on_a_server(async |t| {
        let path = t.path("configmaps/a");
        let delete = async |options: Value| {
            t.post(&t.path("configmaps"), config_map("a", json!({}))).await.code(201);
            let deleted = t.delete_with(&path, options).await.code(200);
            t.merge(&path, json!({"metadata": {"finalizers": null}})).await;
            deleted.at("/metadata/finalizers").clone()
        };
        assert_eq!(delete(json!({"propagationPolicy": "Foreground"})).await, json!(["foregroundDeletion"]));
        assert_eq!(delete(json!({"propagationPolicy": "Orphan"})).await, json!(["orphan"]));
        assert_eq!(delete(json!({"orphanDependents": true})).await, json!(["orphan"]));
        assert_eq!(delete(json!({"propagationPolicy": "Background"})).await, Value::Null);
        t.post(&t.path("configmaps"), config_map("a", json!({}))).await.code(201);
        t.delete_with(&path, json!({"propagationPolicy": "Sideways"})).await.refused(422, "Invalid");
        let both = json!({"propagationPolicy": "Orphan", "orphanDependents": true});
        t.delete_with(&path, both).await.refused(422, "Invalid");
        let by_parameter = t.delete(&format!("{path}?propagationPolicy=Orphan")).await.code(200);
        assert_eq!(by_parameter.at("/metadata/finalizers"), &json!(["orphan"]));
    });
}

#[test]
fn jobs_and_replication_controllers_orphan_by_default() {
    on_a_server(async |t| {
        t.post(&t.path("batch/v1/jobs"), job("a")).await.code(201);
        let deleted = t.delete(&t.path("batch/v1/jobs/a")).await.code(200);
        let finalizers = deleted.at("/metadata/finalizers").as_array().cloned().unwrap_or_default();
        assert!(finalizers.contains(&json!("orphan")), "{}", deleted.json);
        let warnings = deleted.warnings();
        assert!(
            warnings.len() == 1
                && warnings[0].contains("child pods are preserved by default when jobs are deleted"),
            "{warnings:?}"
        );
        let controller = json!({"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "a"},
            "spec": {"replicas": 0, "selector": {"app": "a"}, "template": pod_template("a")}});
        t.post(&t.path("replicationcontrollers"), controller).await.code(201);
        let deleted = t.delete(&t.path("replicationcontrollers/a")).await.code(200);
        assert_eq!(deleted.at("/metadata/finalizers"), &json!(["orphan"]));
        t.post(&t.path("batch/v1/jobs"), job("b")).await.code(201);
        let deleted = t
            .delete_with(&t.path("batch/v1/jobs/b"), json!({"propagationPolicy": "Background"}))
            .await
            .code(200);
        assert!(deleted.warnings().is_empty());
    });
}

#[test]
fn a_scheduled_pod_has_its_grace_period_which_only_shrinks() {
    on_a_server(async |t| {
        let path = t.path("pods/a");
        let mut pod = pod_on("a", "node");
        pod["spec"]["terminationGracePeriodSeconds"] = json!(20);
        t.post(&t.path("pods"), pod).await.code(201);
        let deleted = t.delete(&path).await.code(200);
        assert_eq!(
            (deleted.text("/kind"), deleted.at("/metadata/deletionGracePeriodSeconds")),
            ("Pod", &json!(20))
        );
        assert!(deleted.at("/metadata/deletionTimestamp").is_string());
        assert_eq!(deleted.at("/metadata/finalizers"), &Value::Null, "no finalizer holds it, only its node");
        let longer = t.delete_with(&path, json!({"gracePeriodSeconds": 60})).await.code(200);
        assert_eq!(longer.at("/metadata/deletionGracePeriodSeconds"), 20);
        let shorter = t.delete_with(&path, json!({"gracePeriodSeconds": 5})).await.code(200);
        assert_eq!(shorter.at("/metadata/deletionGracePeriodSeconds"), 5);
        t.delete_with(&path, json!({"gracePeriodSeconds": 0})).await.code(200);
        t.get(&path).await.refused(404, "NotFound");
    });
}

#[test]
fn a_pod_that_no_node_runs_goes_at_once() {
    on_a_server(async |t| {
        t.post(&t.path("pods"), pod("unscheduled")).await.code(201);
        t.delete(&t.path("pods/unscheduled")).await.code(200);
        t.get(&t.path("pods/unscheduled")).await.refused(404, "NotFound");
        t.post(&t.path("pods"), pod_on("finished", "node")).await.code(201);
        t.merge(&t.path("pods/finished/status"), json!({"status": {"phase": "Succeeded"}})).await.code(200);
        t.delete(&t.path("pods/finished")).await.code(200);
        t.get(&t.path("pods/finished")).await.refused(404, "NotFound");
    });
}

#[test]
fn options_of_a_deletion_may_come_in_the_body_or_the_query() {
    on_a_server(async |t| {
        let path = t.path("configmaps/a");
        t.post(&t.path("configmaps"), config_map("a", json!({}))).await.code(201);
        t.delete(&format!("{path}?dryRun=All")).await.code(200);
        t.delete_with(&path, json!({"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]}))
            .await
            .code(200);
        t.get(&path).await.code(200);
        t.delete_with(&path, json!({"dryRun": ["Some"]})).await.refused(422, "Invalid");
        t.get(&path).await.code(200);
    });
}

#[test]
fn a_recreated_object_has_another_uid() {
    on_a_server(async |t| {
        let first = t.post(&t.path("configmaps"), config_map("a", json!({}))).await.code(201);
        t.delete(&t.path("configmaps/a")).await.code(200);
        let second = t.post(&t.path("configmaps"), config_map("a", json!({}))).await.code(201);
        assert_ne!(first.uid(), second.uid());
    });
}
