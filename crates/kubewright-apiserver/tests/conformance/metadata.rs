//! Metadata: what the server writes itself, generations, revisions of updates, owners and finalizers.

use serde_json::{Value, json};

use crate::{
    definition::Definition,
    harness::on_a_server,
    manifests::{config_map, config_map_with, deployment, lease, role, secret, service},
};

#[test]
fn a_create_writes_the_systems_own_fields() {
    on_a_server(async |t| {
        let body = config_map_with(
            "a",
            json!({"uid": "11111111-1111-1111-1111-111111111111", "creationTimestamp": "2001-01-01T00:00:00Z",
                "selfLink": "/x", "deletionTimestamp": "2030-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5}),
        );
        let created = t.post(&t.path("configmaps"), body).await.code(201);
        assert!(!created.uid().starts_with("1111"));
        assert!(!created.text("/metadata/creationTimestamp").starts_with("2001"));
        for field in ["selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"] {
            assert_eq!(created.at(&format!("/metadata/{field}")), &Value::Null, "{field}");
        }
        assert_eq!(created.text("/metadata/namespace"), t.namespace);
        let mut aged = deployment("a");
        aged["metadata"]["generation"] = json!(7);
        assert_eq!(
            t.post(&t.path("apps/v1/deployments"), aged).await.code(201).at("/metadata/generation"),
            1
        );
    });
}

#[test]
fn a_deletion_timestamp_can_not_be_set_by_an_update() {
    on_a_server(async |t| {
        t.post(&t.path("configmaps"), config_map("a", json!({}))).await.code(201);
        let body = config_map_with("a", json!({"deletionTimestamp": "2030-01-01T00:00:00Z"}));
        let refused = t.put(&t.path("configmaps/a"), body).await.refused(422, "Invalid");
        refused.because("FieldValueInvalid", "metadata.deletionTimestamp").saying("field is immutable");
    });
}

#[test]
fn a_generated_name_is_its_base_and_five_characters() {
    on_a_server(async |t| {
        let generate = async |base: &str| {
            let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": base}});
            t.post(&t.path("configmaps"), body).await.code(201).text("/metadata/name").to_owned()
        };
        let name = generate("g-").await;
        assert!(name.starts_with("g-") && name.len() == 7, "{name}");
        assert!(name[2..].chars().all(|c| "bcdfghjklmnpqrstvwxz2456789".contains(c)), "{name}");
        let long = generate(&"h".repeat(70)).await;
        assert!(long.starts_with(&"h".repeat(58)) && long.len() == 63, "{long}");
        let both = config_map_with("given", json!({"generateName": "g-"}));
        assert_eq!(t.post(&t.path("configmaps"), both).await.code(201).text("/metadata/name"), "given");
    });
}

#[test]
fn the_generation_of_a_custom_resource_rises_with_what_is_outside_its_metadata() {
    on_a_server(async |t| {
        let widgets = t.define(Definition::free_form()).await;
        let path = format!("{}/a", widgets.within(&t.namespace));
        let created =
            t.post(&widgets.within(&t.namespace), widgets.object("a", json!({"n": 1}))).await.code(201);
        assert_eq!(created.at("/metadata/generation"), 1);
        for (target, patch, expected) in [
            ("", json!({"metadata": {"labels": {"a": "b"}}}), 1),
            ("", json!({"metadata": {"annotations": {"a": "b"}}}), 1),
            ("/status", json!({"status": {"n": 1}}), 1),
            ("", json!({"spec": {"n": 2}}), 2),
            ("", json!({"spec": {"n": 2}}), 2),
            ("", json!({"spec": {"n": 3}, "status": {"n": 9}}), 3),
            ("", json!({"status": {"n": 8}}), 3),
        ] {
            let patched = t.merge(&format!("{path}{target}"), &patch).await.code(200);
            assert_eq!(patched.at("/metadata/generation"), expected, "{target} {patch}");
        }
    });
}

#[test]
fn a_custom_resource_without_a_status_subresource_counts_its_status_as_content() {
    on_a_server(async |t| {
        let widgets = t.define(Definition::free_form().version("subresources", json!({}))).await;
        let path = format!("{}/a", widgets.within(&t.namespace));
        let mut object = widgets.object("a", json!({}));
        object["status"] = json!({"n": 1});
        let created = t.post(&widgets.within(&t.namespace), object).await.code(201);
        assert_eq!(created.at("/status/n"), 1);
        let patched = t.merge(&path, json!({"status": {"n": 2}})).await.code(200);
        assert_eq!((patched.at("/metadata/generation"), patched.at("/status/n")), (&json!(2), &json!(2)));
        t.get(&format!("{path}/status")).await.refused(404, "NotFound");
    });
}

#[test]
fn the_generation_of_a_deployment_rises_with_spec_and_annotations() {
    on_a_server(async |t| {
        let path = t.path("apps/v1/deployments/a");
        let created = t.post(&t.path("apps/v1/deployments"), deployment("a")).await.code(201);
        assert_eq!(created.at("/metadata/generation"), 1);
        for (target, patch, expected) in [
            ("", json!({"metadata": {"labels": {"x": "y"}}}), 1),
            ("", json!({"metadata": {"annotations": {"x": "y"}}}), 2),
            ("", json!({"spec": {"minReadySeconds": 3}}), 3),
            ("", json!({"spec": {"minReadySeconds": 3}}), 3),
            ("/status", json!({"status": {"observedGeneration": 1}}), 3),
            ("/scale", json!({"spec": {"replicas": 2}}), 4),
        ] {
            t.merge(&format!("{path}{target}"), &patch).await.code(200);
            assert_eq!(t.get(&path).await.at("/metadata/generation"), expected, "{target} {patch}");
        }
    });
}

#[test]
fn some_kinds_have_no_generation() {
    on_a_server(async |t| {
        let autoscaler = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"},
            "spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}}});
        for (path, body) in [
            (t.path("configmaps"), config_map("a", json!({}))),
            (t.path("secrets"), secret("a", json!({}))),
            (t.path("services"), service("a")),
            (t.path("coordination.k8s.io/v1/leases"), lease("a")),
            (t.path("autoscaling/v2/horizontalpodautoscalers"), autoscaler),
            (
                "/api/v1/nodes".to_owned(),
                json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": t.unique}}),
            ),
        ] {
            assert_eq!(
                t.post(&path, body).await.code(201).at("/metadata/generation"),
                &Value::Null,
                "{path}"
            );
        }
        assert_eq!(
            t.get(&format!("/api/v1/namespaces/{}", t.namespace)).await.at("/metadata/generation"),
            &Value::Null
        );
    });
}

#[test]
fn the_first_soft_deletion_raises_the_generation() {
    on_a_server(async |t| {
        let widgets = t.define(Definition::free_form()).await;
        let mut held = widgets.object("a", json!({}));
        held["metadata"]["finalizers"] = json!(["example.com/hold"]);
        t.post(&widgets.within(&t.namespace), held).await.code(201);
        let path = format!("{}/a", widgets.within(&t.namespace));
        assert_eq!(t.delete(&path).await.code(200).at("/metadata/generation"), 2);
        assert_eq!(t.delete(&path).await.code(200).at("/metadata/generation"), 2);
    });
}

#[test]
fn an_update_that_changes_nothing_keeps_the_revision() {
    on_a_server(async |t| {
        let path = t.path("configmaps/a");
        let created = t.post(&t.path("configmaps"), config_map("a", json!({"n": "1"}))).await.code(201);
        assert_eq!(t.put(&path, &created.json).await.code(200).revision(), created.revision());
        assert_eq!(
            t.put(&path, config_map("a", json!({"n": "1"}))).await.code(200).revision(),
            created.revision()
        );
        assert_eq!(
            t.merge(&path, json!({"data": {"n": "1"}})).await.code(200).revision(),
            created.revision()
        );
        assert_ne!(
            t.merge(&path, json!({"data": {"n": "2"}})).await.code(200).revision(),
            created.revision()
        );
    });
}

#[test]
fn most_built_in_kinds_are_updated_without_a_revision() {
    on_a_server(async |t| {
        t.post(&t.path("configmaps"), config_map("a", json!({"n": "1"}))).await.code(201);
        t.post(&t.path("apps/v1/deployments"), deployment("a")).await.code(201);
        let updated = t.put(&t.path("configmaps/a"), config_map("a", json!({"n": "2"}))).await.code(200);
        assert_eq!(updated.at("/data/n"), "2");
        t.put(&t.path("apps/v1/deployments/a"), deployment("a")).await.code(200);
    });
}

#[test]
fn some_kinds_are_not_updated_without_a_revision() {
    on_a_server(async |t| {
        let widgets = t.define(Definition::free_form()).await;
        let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "a"},
            "spec": {"minAvailable": 1, "selector": {}}});
        let webhooks = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": t.unique}});
        let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": t.unique}, "spec": {"validations": [{"expression": "true"}], "matchConstraints": {
                "resourceRules": [{"apiGroups": ["none.example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nones"]}]}}});
        let registration = "/apis/admissionregistration.k8s.io/v1";
        for (path, body) in [
            (widgets.within(&t.namespace), widgets.object("a", json!({}))),
            (t.path("coordination.k8s.io/v1/leases"), lease("a")),
            (t.path("policy/v1/poddisruptionbudgets"), budget),
            (format!("{registration}/validatingwebhookconfigurations"), webhooks),
            (format!("{registration}/validatingadmissionpolicies"), policy),
        ] {
            t.post(&path, &body).await.code(201);
            let path = format!("{path}/{}", body["metadata"]["name"].as_str().unwrap());
            let refused = t.put(&path, &body).await.refused(422, "Invalid");
            refused
                .because("FieldValueInvalid", "metadata.resourceVersion")
                .saying("must be specified for an update");
        }
        let refused = t.put(&widgets.path(), widgets.manifest()).await.refused(422, "Invalid");
        refused.because("FieldValueInvalid", "metadata.resourceVersion");
    });
}

#[test]
fn an_update_creates_what_is_missing_of_some_kinds() {
    on_a_server(async |t| {
        let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "a"},
            "involvedObject": {"kind": "Pod", "name": "p", "namespace": t.namespace}, "reason": "R"});
        let endpoints = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "a"}});
        let limits = json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "a"}, "spec": {"limits": []}});
        let subject = json!({"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"});
        let cluster = |kind: &str| {
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
            "metadata": {"name": t.unique}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}})
        };
        let runtime = json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": t.unique}, "handler": "h"});
        let rbac = "/apis/rbac.authorization.k8s.io/v1";
        for (path, body) in [
            (t.path("rbac.authorization.k8s.io/v1/roles/a"), role("a", json!([]))),
            (
                t.path("rbac.authorization.k8s.io/v1/rolebindings/a"),
                crate::manifests::role_binding("a", "ClusterRole", "view", subject),
            ),
            (
                format!("{rbac}/clusterroles/{}", t.unique),
                json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": t.unique}, "rules": []}),
            ),
            (format!("{rbac}/clusterrolebindings/{}", t.unique), cluster("ClusterRoleBinding")),
            (t.path("coordination.k8s.io/v1/leases/a"), lease("a")),
            (t.path("services/a"), service("a")),
            (t.path("endpoints/a"), endpoints),
            (t.path("events/a"), event),
            (t.path("limitranges/a"), limits),
            (format!("/apis/node.k8s.io/v1/runtimeclasses/{}", t.unique), runtime),
        ] {
            let created = t.put(&path, body).await;
            assert_eq!(created.code, 201, "{path} {}", created.json);
            assert!(!created.uid().is_empty());
        }
        t.put(&t.path("configmaps/a"), config_map("a", json!({}))).await.refused(404, "NotFound");
        t.put(&t.path("apps/v1/deployments/a"), deployment("a")).await.refused(404, "NotFound");
    });
}

fn owner(name: &str, uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid})
}

#[test]
fn an_owner_needs_a_uid_and_only_one_may_control() {
    on_a_server(async |t| {
        let create = async |owners: Value| {
            t.post(&t.path("configmaps"), config_map_with("a", json!({"ownerReferences": owners}))).await
        };
        create(json!([owner("o", "")]))
            .await
            .refused(422, "Invalid")
            .because("FieldValueInvalid", "metadata.ownerReferences.uid");
        let controller = |uid: &str| {
            let mut owner = owner("o", uid);
            owner["controller"] = json!(true);
            owner
        };
        let refused = create(json!([controller("1"), controller("2")])).await.refused(422, "Invalid");
        refused
            .because("FieldValueInvalid", "metadata.ownerReferences")
            .saying("Only one reference can have Controller set to true");
        create(json!([controller("1"), owner("p", "2")])).await.code(201);
    });
}

#[test]
fn a_repeated_owner_is_warned_of() {
    on_a_server(async |t| {
        let owners = json!({"ownerReferences": [owner("o", "1"), owner("o", "1")]});
        let created = t.post(&t.path("configmaps"), config_map_with("a", owners)).await.code(201);
        assert_eq!(created.warnings().len(), 1, "{:?}", created.warnings());
        assert!(
            created.warnings()[0].contains(".metadata.ownerReferences contains duplicate entries"),
            "{:?}",
            created.warnings()
        );
        assert_eq!(created.at("/metadata/ownerReferences").as_array().map(Vec::len), Some(1));
    });
}

#[test]
fn a_finalizer_needs_a_domain() {
    on_a_server(async |t| {
        let create = async |name: &str, finalizers: Value| {
            t.post(&t.path("configmaps"), config_map_with(name, json!({"finalizers": finalizers}))).await
        };
        create("a", json!(["plain"]))
            .await
            .refused(422, "Invalid")
            .because("FieldValueInvalid", "metadata.finalizers[0]");
        create("a", json!(["example.com/a", "orphan"])).await.code(201);
    });
}

#[test]
fn no_finalizer_is_added_to_what_is_being_deleted() {
    on_a_server(async |t| {
        let path = t.path("configmaps/a");
        t.post(&t.path("configmaps"), config_map_with("a", json!({"finalizers": ["example.com/a"]})))
            .await
            .code(201);
        t.delete(&path).await.code(200);
        let more = json!({"metadata": {"finalizers": ["example.com/a", "example.com/b"]}});
        t.merge(&path, more)
            .await
            .refused(422, "Invalid")
            .because("FieldValueForbidden", "metadata.finalizers");
        t.merge(&path, json!({"data": {"n": "1"}})).await.code(200);
    });
}

#[test]
fn an_update_of_the_spec_leaves_the_status_and_the_other_way_round() {
    on_a_server(async |t| {
        let widgets = t.define(Definition::free_form()).await;
        let path = format!("{}/a", widgets.within(&t.namespace));
        let mut object = widgets.object("a", json!({"n": 1}));
        object["status"] = json!({"n": 1});
        let created = t.post(&widgets.within(&t.namespace), &object).await.code(201);
        assert_eq!(created.at("/status"), &Value::Null, "a create has no status");
        let mut object = created.json.clone();
        (object["spec"], object["status"]) = (json!({"n": 2}), json!({"n": 2}));
        object["metadata"]["labels"] = json!({"of": "status"});
        let updated = t.put(&format!("{path}/status"), &object).await.code(200);
        assert_eq!((updated.at("/spec/n"), updated.at("/status/n")), (&json!(1), &json!(2)));
        assert_eq!(updated.at("/metadata/labels"), &Value::Null);
        let mut object = updated.json.clone();
        (object["spec"], object["status"]) = (json!({"n": 3}), json!({"n": 3}));
        let updated = t.put(&path, &object).await.code(200);
        assert_eq!((updated.at("/spec/n"), updated.at("/status/n")), (&json!(3), &json!(2)));
    });
}

#[test]
fn status_patches_change_labels_of_pods_and_namespaces_only() {
    on_a_server(async |t| {
        let widgets = t.define(Definition::free_form()).await;
        t.post(&t.path("pods"), crate::manifests::pod("a")).await.code(201);
        t.post(&t.path("apps/v1/deployments"), deployment("a")).await.code(201);
        t.post(&widgets.within(&t.namespace), widgets.object("a", json!({}))).await.code(201);
        for (path, changes) in [
            (t.path("pods/a"), true),
            (format!("/api/v1/namespaces/{}", t.namespace), true),
            (t.path("apps/v1/deployments/a"), false),
            (format!("{}/a", widgets.within(&t.namespace)), false),
        ] {
            let patch = json!({"metadata": {"labels": {"by": "status"}}});
            t.merge(&format!("{path}/status"), patch).await.code(200);
            let label = t.get(&path).await.at("/metadata/labels/by").clone();
            assert_eq!(label == "status", changes, "{path}");
        }
    });
}

#[test]
fn typed_and_untyped_clients_see_one_state() {
    on_a_server(async |t| {
        use k8s_openapi::api::core::v1::ConfigMap;
        use kube::api::{Api, ApiResource, DynamicObject, PostParams};
        let typed: Api<ConfigMap> = Api::namespaced(t.client(), &t.namespace);
        let untyped: Api<DynamicObject> =
            Api::namespaced_with(t.client(), &t.namespace, &ApiResource::erase::<ConfigMap>(&()));
        let body = serde_json::from_value(config_map("a", json!({"n": "1"}))).unwrap();
        let created = typed.create(&PostParams::default(), &body).await.unwrap();
        let found = untyped.get("a").await.unwrap();
        assert_eq!(found.metadata.uid, created.metadata.uid);
        assert_eq!(found.data["data"]["n"], "1");
    });
}

#[test]
fn an_update_without_names_of_labels_takes_them_away() {
    on_a_server(async |t| {
        let created = config_map_with("a", json!({"labels": {"a": "b"}, "annotations": {"c": "d"}}));
        t.post(&t.path("configmaps"), created).await.code(201);
        let updated = t.put(&t.path("configmaps/a"), config_map("a", json!({}))).await.code(200);
        assert_eq!(
            (updated.at("/metadata/labels"), updated.at("/metadata/annotations")),
            (&Value::Null, &Value::Null)
        );
    });
}

#[test]
fn labels_and_annotations_are_validated() {
    on_a_server(async |t| {
        for (metadata, reason, field) in [
            (json!({"labels": {"a": "-"}}), "FieldValueInvalid", "metadata.labels"),
            (json!({"labels": {"a b": "c"}}), "FieldValueInvalid", "metadata.labels"),
            (json!({"annotations": {"a b": "c"}}), "FieldValueInvalid", "metadata.annotations"),
            (json!({"annotations": {"a": "x".repeat(262_144)}}), "FieldValueTooLong", "metadata.annotations"),
        ] {
            t.post(&t.path("configmaps"), config_map_with("a", metadata))
                .await
                .refused(422, "Invalid")
                .because(reason, field);
        }
    });
}

#[test]
fn a_revision_that_is_garbage_is_an_internal_error_for_an_update() {
    on_a_server(async |t| {
        t.post(&t.path("configmaps"), config_map("a", json!({}))).await.code(201);
        t.put(&t.path("configmaps/a"), config_map_with("a", json!({"resourceVersion": "garbage"})))
            .await
            .refused(500, "");
    });
}

#[test]
fn partial_metadata_is_served_on_request() {
    on_a_server(async |t| {
        t.post(&t.path("configmaps"), config_map("a", json!({"n": "1"}))).await.code(201);
        let one = t
            .get_as(&t.path("configmaps/a"), "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
            .await
            .code(200);
        assert_eq!((one.text("/kind"), one.text("/apiVersion")), ("PartialObjectMetadata", "meta.k8s.io/v1"));
        assert_eq!((one.text("/metadata/name"), one.at("/data")), ("a", &Value::Null));
        let all = t
            .get_as(&t.path("configmaps"), "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
            .await
            .code(200);
        assert_eq!((all.text("/kind"), all.names()), ("PartialObjectMetadataList", vec!["a"]));
        assert_eq!(all.at("/items/0/data"), &Value::Null);
    });
}
