//! Conversion webhooks: one object in several versions, kept in any of them.

mod failures;
mod gates;
mod owners;

use serde_json::json;

use self::gates::{Gates, failed, string, version, versions};
use crate::{
    definition::Definition,
    harness::{media, over_the_network},
    network::Webhook,
    watch::assert_events,
};

#[test]
fn an_object_is_there_in_every_version() {
    over_the_network(async |t| {
        let gates = Gates::defined(&t).await;
        let a = t.post(&gates.at(&t, "v1"), gates.v1("a", "x", "1")).await.code(201);
        let b = t.post(&gates.at(&t, "v2"), gates.v2("b", "y:2")).await.code(201);
        assert_eq!(b.at("/spec"), &json!({"hostPort": "y:2"}));
        let a2 = t.get(&gates.one(&t, "v2", "a")).await.code(200);
        assert_eq!(a2.at("/spec"), &json!({"hostPort": "x:1"}));
        assert_eq!((a2.at("/metadata"), a2.text("/kind")), (a.at("/metadata"), "Gate"));
        let b1 = t.get(&gates.one(&t, "v1", "b")).await.code(200);
        assert_eq!(b1.at("/spec"), &json!({"host": "y", "port": "2"}));
        assert_eq!(b1.at("/metadata"), b.at("/metadata"));
        let status = t.get(&gates.one(&t, "v2", "a/status")).await.code(200);
        assert_eq!(status.at("/spec"), &json!({"hostPort": "x:1"}));
        let table = t.get_as(&gates.one(&t, "v2", "a"), media::TABLE).await.code(200);
        assert_eq!(table.at("/rows/0/cells"), &json!(["a", "x:1"]));
        let partial = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
        let partial = t.get_as(&gates.one(&t, "v2", "a"), partial).await.code(200);
        assert_eq!(partial.at("/metadata/uid"), a.at("/metadata/uid"));
    });
}

#[test]
fn a_list_holds_objects_that_are_kept_in_different_versions() {
    over_the_network(async |t| {
        let gates = Gates::defined(&t).await;
        for name in ["a", "c"] {
            t.post(&gates.at(&t, "v1"), gates.v1(name, name, "1")).await.code(201);
        }
        gates.keep_in(&t, "v2").await;
        for name in ["b", "d"] {
            t.post(&gates.at(&t, "v1"), gates.v1(name, name, "1")).await.code(201);
        }
        let stored = t.get(&gates.definition.path()).await;
        assert_eq!(stored.at("/status/storedVersions"), &json!(["v1", "v2"]));
        for (version, spec) in [("v1", json!({"host": "b", "port": "1"})), ("v2", json!({"hostPort": "b:1"}))]
        {
            let list = t.get(&gates.at(&t, version)).await.code(200);
            assert_eq!(list.names(), ["a", "b", "c", "d"]);
            assert_eq!(list.at("/items/1/spec"), &spec);
            let api_version = format!("{}/{version}", gates.definition.group);
            assert!((0..4).all(|at| list.at(&format!("/items/{at}/apiVersion")) == &json!(api_version)));
            let page = t.get(&format!("{}?limit=3", gates.at(&t, version))).await.code(200);
            assert_eq!(page.at("/items/1/spec"), &spec);
            let table = t.get_as(&gates.at(&t, version), media::TABLE).await.code(200);
            let cell = if version == "v1" { "b" } else { "b:1" };
            assert_eq!(table.at("/rows/1/cells/1"), cell);
        }
    });
}

#[test]
fn a_write_without_a_change_brings_an_object_into_the_storage_version() {
    over_the_network(async |t| {
        let gates = Gates::defined(&t).await;
        for name in ["a", "b"] {
            t.post(&gates.at(&t, "v1"), gates.v1(name, "x", "1")).await.code(201);
        }
        gates.keep_in(&t, "v2").await;
        for (name, version) in [("a", "v2"), ("b", "v1")] {
            let path = gates.one(&t, version, name);
            let before = t.get(&path).await.code(200);
            let moved = t.put(&path, &before.json).await.code(200);
            assert_ne!(moved.revision(), before.revision(), "it was written");
            assert_eq!(moved.at("/spec"), before.at("/spec"));
            assert_eq!(moved.at("/metadata/generation"), 1);
            assert_eq!(moved.at("/metadata/managedFields"), before.at("/metadata/managedFields"));
            let again = t.put(&path, &moved.json).await.code(200);
            assert_eq!(again.revision(), moved.revision(), "it was not written");
        }
        // Nothing is left to convert for whoever reads the storage version.
        gates.trouble("", failed("never asked"));
        assert_eq!(t.get(&gates.at(&t, "v2")).await.code(200).names(), ["a", "b"]);
    });
}

#[test]
fn a_definition_without_a_webhook_rewrites_objects_as_well() {
    over_the_network(async |t| {
        let definition = t.define(Definition::free_form().versions(&["v1", "v2"])).await;
        let object = definition.object("a", json!({"n": 1}));
        let before = t.post(&definition.within(&t.namespace), object).await.code(201);
        let storage = |version: &str| {
            let change = |at: usize, name: &str| json!({"op": "replace", "path": format!("/spec/versions/{at}/storage"), "value": name == version});
            json!([change(0, "v1"), change(1, "v2")])
        };
        t.patch(&definition.path(), media::JSON_PATCH, storage("v2")).await.code(200);
        let path = format!("{}/a", definition.at("v2", &t.namespace));
        let moved = t
            .until("it is written", async || {
                let found = t.get(&path).await.code(200);
                let moved = t.put(&path, &found.json).await.code(200);
                (moved.revision() != before.revision()).then_some(moved)
            })
            .await;
        assert_eq!(t.put(&path, &moved.json).await.code(200).revision(), moved.revision());
    });
}

#[test]
fn patches_are_made_to_the_version_of_the_request() {
    over_the_network(async |t| {
        let gates = Gates::defined(&t).await;
        t.post(&gates.at(&t, "v1"), gates.v1("a", "x", "1")).await.code(201);
        let path = gates.one(&t, "v2", "a");
        let merged = t.merge(&path, json!({"spec": {"hostPort": "y:1"}})).await.code(200);
        assert_eq!(
            (merged.at("/spec"), merged.at("/metadata/generation")),
            (&json!({"hostPort": "y:1"}), &json!(2))
        );
        let operations = json!([{"op": "replace", "path": "/spec/hostPort", "value": "y:2"}]);
        t.patch(&path, media::JSON_PATCH, operations).await.code(200);
        t.apply(&path, "me&force=true", gates.v2("a", "z:2")).await.code(200);
        let status = t.merge(&format!("{path}/status"), json!({"status": {"open": true}})).await.code(200);
        assert_eq!((status.at("/status/open"), status.at("/spec/hostPort")), (&json!(true), &json!("z:2")));
        let found = t.get(&gates.one(&t, "v1", "a")).await.code(200);
        assert_eq!(found.at("/spec"), &json!({"host": "z", "port": "2"}));
        assert_eq!(found.at("/metadata/generation"), 4);
        let mut replacement = found.json.clone();
        replacement["spec"]["host"] = json!("w");
        t.put(&gates.one(&t, "v1", "a"), &replacement).await.code(200);
        assert_eq!(t.get(&path).await.at("/spec/hostPort"), "w:2");
        let dry =
            t.merge(&format!("{path}?dryRun=All"), json!({"spec": {"hostPort": "d:1"}})).await.code(200);
        assert_eq!(dry.at("/spec/hostPort"), "d:1");
        assert_eq!(t.get(&path).await.at("/spec/hostPort"), "w:2");
    });
}

#[test]
fn the_scale_of_an_object_is_where_the_version_has_it() {
    over_the_network(async |t| {
        let gates = Gates::defined(&t).await;
        let object = gates.definition.object_in("v1", "a", json!({"replicas": 2}));
        t.post(&gates.at(&t, "v1"), object).await.code(201);
        let path = gates.one(&t, "v2", "a/scale");
        let scale = t.get(&path).await.code(200);
        assert_eq!(scale.at("/spec/replicas"), 2);
        let scaled = t.merge(&path, json!({"spec": {"replicas": 5}})).await.code(200);
        assert_eq!(scaled.at("/spec/replicas"), 5);
        let found = t.get(&gates.one(&t, "v1", "a")).await.code(200);
        assert_eq!(found.at("/spec/replicas"), 5);
        assert_eq!(found.owned_by("conformance/Update/scale"), json!({"f:spec": {"f:size": {}}}));
    });
}

#[test]
fn a_watch_tells_of_all_objects_in_its_version() {
    over_the_network(async |t| {
        let gates = Gates::defined(&t).await;
        t.post(&gates.at(&t, "v1"), gates.v1("a", "a", "1")).await.code(201);
        t.post(&gates.at(&t, "v2"), gates.v2("b", "b:1")).await.code(201);
        let parameters = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
        for version in ["v1", "v2"] {
            let mut watch = t.watch(&format!("{}?{parameters}", gates.at(&t, version))).await;
            let spec = |name: &str, port: u8| match version {
                "v1" => json!({"host": name, "port": port.to_string()}),
                _ => json!({"hostPort": format!("{name}:{port}")}),
            };
            for name in ["a", "b"] {
                let (kind, object) = watch.event().await;
                assert_eq!((kind.as_str(), &object["spec"]), ("ADDED", &spec(name, 1)));
                assert_eq!(object["apiVersion"], format!("{}/{version}", gates.definition.group));
            }
            let (kind, bookmark) = watch.event().await;
            assert_eq!(kind, "BOOKMARK");
            assert_eq!(bookmark["apiVersion"], format!("{}/{version}", gates.definition.group));
            t.post(&gates.at(&t, "v1"), gates.v1("c", "c", "1")).await.code(201);
            t.merge(&gates.one(&t, "v2", "c"), json!({"spec": {"hostPort": "c:2"}})).await.code(200);
            t.delete(&gates.one(&t, "v1", "c")).await.code(200);
            for (kind, port) in [("ADDED", 1), ("MODIFIED", 2), ("DELETED", 2)] {
                let (found, object) = watch.event().await;
                assert_eq!((found.as_str(), &object["spec"]), (kind, &spec("c", port)));
            }
        }
    });
}

#[test]
fn selectors_ask_for_what_the_version_of_the_request_shows() {
    over_the_network(async |t| {
        let mut versions = versions("v1");
        versions[0]["selectableFields"] = json!([{"jsonPath": ".spec.host"}]);
        versions[1]["selectableFields"] = json!([{"jsonPath": ".spec.hostPort"}]);
        let gates = Gates::with_versions(&t, versions).await;
        // An object is labelled once it is converted.
        gates.trouble("b", json!({"merge": {"metadata": {"labels": {"converted": "yes"}}}}));
        for name in ["a", "b"] {
            t.post(&gates.at(&t, "v1"), gates.v1(name, name, "1")).await.code(201);
        }
        let selected = async |version: &str, selector: &str| {
            let list = t.get(&format!("{}?{selector}", gates.at(&t, version))).await.code(200);
            list.names().join(" ")
        };
        assert_eq!(selected("v1", "fieldSelector=spec.host%3Db").await, "b");
        assert_eq!(selected("v2", "fieldSelector=spec.hostPort%3Db:1").await, "b");
        assert_eq!(selected("v1", "labelSelector=converted").await, "");
        assert_eq!(selected("v2", "labelSelector=converted").await, "b");
        let from = t.revision_of(&gates.at(&t, "v2")).await;
        let path = format!("{}?resourceVersion={from}&fieldSelector=spec.hostPort%3Dx:1", gates.at(&t, "v2"));
        let mut watch = t.watch(&path).await;
        for host in ["x", "y"] {
            t.merge(&gates.one(&t, "v1", "a"), json!({"spec": {"host": host}})).await.code(200);
        }
        assert_events(&watch.events(2).await, &["ADDED a", "DELETED a"]);
    });
}

#[test]
fn objects_are_deleted_through_any_version() {
    over_the_network(async |t| {
        let gates = Gates::defined(&t).await;
        let mut held = gates.v1("held", "x", "1");
        held["metadata"]["finalizers"] = json!(["example.com/held"]);
        t.post(&gates.at(&t, "v1"), held).await.code(201);
        let marked = t.delete(&gates.one(&t, "v2", "held")).await.code(200);
        assert_eq!(marked.at("/spec"), &json!({"hostPort": "x:1"}));
        assert!(marked.at("/metadata/deletionTimestamp").is_string());
        t.merge(&gates.one(&t, "v2", "held"), json!({"metadata": {"finalizers": null}})).await.code(200);
        t.get(&gates.one(&t, "v1", "held")).await.refused(404, "NotFound");
        for name in ["a", "b"] {
            t.post(&gates.at(&t, "v1"), gates.v1(name, name, "1")).await.code(201);
        }
        let deleted = t.delete(&gates.at(&t, "v2")).await.code(200);
        assert_eq!(deleted.at("/items/0/spec"), &json!({"hostPort": "a:1"}));
        assert!(t.get(&gates.at(&t, "v1")).await.names().is_empty());
    });
}

#[test]
fn an_object_is_validated_in_the_version_of_the_request() {
    over_the_network(async |t| {
        let gates = Gates::defined(&t).await;
        let long = json!({"hostPort": "a:1", "note": "longer than nine"});
        let object = gates.definition.object_in("v2", "a", long);
        t.post(&gates.at(&t, "v2"), object).await.code(201);
        let path = gates.one(&t, "v1", "a");
        assert_eq!(t.get(&path).await.code(200).at("/spec/note"), "longer than nine");
        // What was wrong before may stay so.
        t.merge(&path, json!({"spec": {"host": "b"}})).await.code(200);
        let refused = t.merge(&path, json!({"spec": {"note": "also longer than nine"}})).await;
        refused.refused(422, "Invalid").because("FieldValueTooLong", "spec.note");
    });
}

#[test]
fn defaults_are_those_of_the_stored_version_and_the_version_of_the_body() {
    over_the_network(async |t| {
        let with_default = |name: &str, default: &str, storage: bool| {
            let spec = json!({name: {"type": "string", "default": default}, "both": string()});
            let mut version = version(default, storage, ".spec.replicas", &spec);
            version["schema"]["openAPIV3Schema"]["properties"]["spec"]["default"] = json!({});
            version
        };
        let versions = json!([with_default("one", "v1", true), with_default("two", "v2", false)]);
        let gates = Gates::with_versions(&t, versions).await;
        let object =
            |version: &str, name: &str| gates.definition.object_in(version, name, json!({"both": "b"}));
        let a = t.post(&gates.at(&t, "v1"), object("v1", "a")).await.code(201);
        assert_eq!(a.at("/spec"), &json!({"both": "b", "one": "v1"}));
        // The default of v2 has no place in v1, in which it is kept.
        let b = t.post(&gates.at(&t, "v2"), object("v2", "b")).await.code(201);
        assert_eq!(b.at("/spec"), &json!({"both": "b"}));
        assert_eq!(t.get(&gates.one(&t, "v1", "b")).await.at("/spec"), &json!({"both": "b", "one": "v1"}));
        assert_eq!(t.get(&gates.one(&t, "v2", "a")).await.at("/spec"), &json!({"both": "b"}));
    });
}

#[test]
fn of_metadata_a_webhook_changes_labels_and_annotations_only() {
    over_the_network(async |t| {
        let gates = Gates::defined(&t).await;
        let mut object = gates.v1("a", "x", "1");
        object["metadata"]["labels"] = json!({"mine": "1"});
        object["metadata"]["annotations"] = json!({"mine": "1"});
        let created = t.post(&gates.at(&t, "v1"), object).await.code(201);
        let change = json!({"metadata": {
            "labels": {"mine": null, "added": "2"}, "annotations": null, "generation": 7, "resourceVersion": "1",
            "finalizers": ["a/b"], "managedFields": null, "creationTimestamp": null,
        }});
        gates.trouble("", json!({"merge": change}));
        let found = t.get(&gates.one(&t, "v2", "a")).await.code(200);
        let mut expected = created.at("/metadata").clone();
        expected["labels"] = json!({"added": "2"});
        expected.as_object_mut().expect("metadata").remove("annotations");
        assert_eq!(found.at("/metadata"), &expected);
    });
}

#[test]
fn an_admission_webhook_sees_objects_in_the_version_it_asks_for() {
    over_the_network(async |t| {
        let gates = Gates::defined(&t).await;
        let admission = Webhook::allowing().await;
        let hook = json!({
            "name": "gates.example.com", "clientConfig": admission.client_config(), "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "matchPolicy": "Equivalent",
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": t.namespace}},
            "rules": [{"apiGroups": [gates.definition.group], "apiVersions": ["v2"], "operations": ["CREATE"], "resources": ["gates"]}],
        });
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": format!("{}-gates", t.unique)}, "webhooks": [hook],
        });
        let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
        t.post(path, configuration).await.code(201);
        let mut number = 0;
        t.until("the webhook is asked", async || {
            number += 1;
            let name = format!("a{number}");
            t.post(&gates.at(&t, "v1"), gates.v1(&name, "x", "1")).await.code(201);
            (!admission.asked().is_empty()).then_some(())
        })
        .await;
        let asked = admission.asked();
        assert_eq!(asked[0]["object"]["spec"], json!({"hostPort": "x:1"}));
        assert_eq!(asked[0]["requestKind"]["version"], "v1");
    });
}
