//! Namespaces, and what the built-in kinds do on their own.

use std::io::Read as _;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::Method;
use serde_json::{Value, json};

use crate::{
    harness::{in_namespace, media, on_a_server, over_the_network},
    manifests::{config_map, deployment, pod, secret, service},
};

#[test]
fn a_namespace_is_labelled_with_its_name_and_held_by_a_finalizer() {
    on_a_server(async |t| {
        let found = t.get(&format!("/api/v1/namespaces/{}", t.namespace)).await.code(200);
        assert_eq!(found.at("/metadata/labels"), &json!({"kubernetes.io/metadata.name": t.namespace}));
        assert_eq!(
            (found.at("/spec/finalizers"), found.text("/status/phase")),
            (&json!(["kubernetes"]), "Active")
        );
    });
}

#[test]
fn nothing_is_created_in_a_terminating_namespace() {
    on_a_server(async |t| {
        let name = format!("{}-t", t.unique);
        t.create_namespace(&name).await;
        // Something in it holds it back, on a server that finishes namespaces, too.
        let held = crate::manifests::config_map_with("held", json!({"finalizers": ["example.com/hold"]}));
        t.post(&in_namespace(&name, "configmaps"), held).await.code(201);
        let deleted = t.delete(&format!("/api/v1/namespaces/{name}")).await.code(200);
        assert_eq!((deleted.text("/kind"), deleted.text("/status/phase")), ("Namespace", "Terminating"));
        let refused = t
            .post(&in_namespace(&name, "configmaps"), config_map("a", json!({})))
            .await
            .refused(403, "Forbidden");
        assert_eq!(refused.causes(), [("NamespaceTerminating", "metadata.namespace")]);
        refused.saying(&format!(
            "unable to create new content in namespace {name} because it is being terminated"
        ));
    });
}

#[test]
fn the_namespaces_of_the_system_can_not_be_deleted() {
    on_a_server(async |t| {
        for name in ["default", "kube-system", "kube-public"] {
            let refused = t.delete(&format!("/api/v1/namespaces/{name}")).await.refused(403, "Forbidden");
            refused.saying("this namespace may not be deleted");
        }
    });
}

#[test]
fn a_service_gets_a_cluster_address() {
    on_a_server(async |t| {
        let created = t.post(&t.path("services"), service("a")).await.code(201);
        let address = created.text("/spec/clusterIP").to_owned();
        assert!(address.starts_with("10.96."), "{address}");
        assert_eq!(created.at("/spec/clusterIPs"), &json!([address]));
        for (pointer, value) in [
            ("/spec/type", json!("ClusterIP")),
            ("/spec/sessionAffinity", json!("None")),
            ("/spec/ipFamilies", json!(["IPv4"])),
            ("/spec/ipFamilyPolicy", json!("SingleStack")),
            ("/spec/ports/0", json!({"port": 80, "protocol": "TCP", "targetPort": 80})),
        ] {
            assert_eq!(created.at(pointer), &value, "{pointer}");
        }
        let mut second = service("b");
        second["spec"]["clusterIP"] = json!(address);
        t.post(&t.path("services"), second)
            .await
            .refused(422, "Invalid")
            .because("FieldValueInvalid", "spec.clusterIPs");
        let mut headless = service("c");
        headless["spec"]["clusterIP"] = json!("None");
        assert_eq!(
            t.post(&t.path("services"), headless).await.code(201).at("/spec/clusterIPs"),
            &json!(["None"])
        );
        let moved = t
            .merge(
                &t.path("services/a"),
                json!({"spec": {"clusterIP": "10.96.250.1", "clusterIPs": ["10.96.250.1"]}}),
            )
            .await;
        moved.refused(422, "Invalid").saying("may not change once set");
    });
}

#[test]
fn an_address_that_is_given_back_can_be_taken_again() {
    on_a_server(async |t| {
        let address =
            t.post(&t.path("services"), service("a")).await.code(201).text("/spec/clusterIP").to_owned();
        t.delete(&t.path("services/a")).await.code(200);
        let mut again = service("b");
        again["spec"]["clusterIP"] = json!(address);
        t.post(&t.path("services"), again).await.code(201);
    });
}

#[test]
fn a_node_port_is_allocated_and_kept() {
    on_a_server(async |t| {
        let mut exposed = service("a");
        exposed["spec"]["type"] = json!("NodePort");
        let created = t.post(&t.path("services"), exposed).await.code(201);
        let port = created.at("/spec/ports/0/nodePort").as_u64().expect("a port");
        assert!((30000..=32767).contains(&port), "{port}");
        let mut second = service("b");
        second["spec"]["type"] = json!("NodePort");
        second["spec"]["ports"][0]["nodePort"] = json!(port);
        t.post(&t.path("services"), second)
            .await
            .refused(422, "Invalid")
            .because("FieldValueInvalid", "spec.ports[0].nodePort");
        let hidden = t
            .merge(&t.path("services/a"), json!({"spec": {"type": "ClusterIP", "ports": [{"port": 80}]}}))
            .await
            .code(200);
        assert_eq!(hidden.at("/spec/ports/0/nodePort"), &Value::Null);
    });
}

#[test]
fn string_data_folds_into_data() {
    on_a_server(async |t| {
        let body = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"},
            "data": {"a": STANDARD.encode("old"), "b": STANDARD.encode("b")}, "stringData": {"a": "new"}});
        let created = t.post(&t.path("secrets"), body).await.code(201);
        assert_eq!(created.at("/data"), &json!({"a": STANDARD.encode("new"), "b": STANDARD.encode("b")}));
        assert_eq!((created.at("/stringData"), created.text("/type")), (&Value::Null, "Opaque"));
        let patched = t.merge(&t.path("secrets/a"), json!({"stringData": {"c": "c"}})).await.code(200);
        assert_eq!(patched.at("/data/c"), &json!(STANDARD.encode("c")));
    });
}

#[test]
fn the_service_of_the_server_itself_exists() {
    on_a_server(async |t| {
        let found = t
            .until("the service is there", async || {
                Some(t.get("/api/v1/namespaces/default/services/kubernetes").await).filter(|r| r.code == 200)
            })
            .await;
        assert_eq!(
            found.at("/metadata/labels"),
            &json!({"component": "apiserver", "provider": "kubernetes"})
        );
        assert_eq!(
            (found.at("/spec/ports/0/name"), found.at("/spec/ports/0/port")),
            (&json!("https"), &json!(443))
        );
    });
}

#[test]
fn large_answers_are_compressed_for_who_accepts_it() {
    on_a_server(async |t| {
        let path = t.path("configmaps/a");
        t.post(&t.path("configmaps"), config_map("a", json!({"n": "x".repeat(200 * 1024)}))).await.code(201);
        t.post(&t.path("configmaps"), config_map("small", json!({}))).await.code(201);
        let gzip = [("accept-encoding", "gzip")];
        let large = t.send(Method::GET, &path, &gzip, "").await.code(200);
        assert_eq!(large.header("content-encoding"), "gzip");
        let mut text = String::new();
        flate2::read::GzDecoder::new(&large.body[..]).read_to_string(&mut text).expect("it is gzip");
        assert!(serde_json::from_str::<Value>(&text).is_ok_and(|object| object["kind"] == "ConfigMap"));
        assert_eq!(t.get(&path).await.header("content-encoding"), "");
        let small = t.send(Method::GET, &t.path("configmaps/small"), &gzip, "").await.code(200);
        assert_eq!(small.header("content-encoding"), "");
    });
}

#[test]
fn both_versions_of_http_are_spoken() {
    over_the_network(async |t| {
        for version in [http::Version::HTTP_11, http::Version::HTTP_2] {
            assert_eq!(t.get_in(version, "/version").await, (200, version));
        }
    });
}

#[test]
fn built_in_kinds_print_as_tables() {
    on_a_server(async |t| {
        t.post(&t.path("pods"), pod("a")).await.code(201);
        t.post(&t.path("apps/v1/deployments"), deployment("a")).await.code(201);
        t.post(&t.path("secrets"), secret("a", json!({}))).await.code(201);
        for (resource, columns, cells) in [
            ("pods", &["Name", "Ready", "Status", "Restarts", "Age"][..], json!(["a", "0/1", "Pending", 0])),
            (
                "apps/v1/deployments",
                &["Name", "Ready", "Up-to-date", "Available", "Age"],
                json!(["a", "0/1", 0, 0]),
            ),
            ("secrets", &["Name", "Type", "Data", "Age"], json!(["a", "Opaque", 0])),
        ] {
            let table = t.get_as(&t.path(resource), media::TABLE).await.code(200);
            let definitions = table.at("/columnDefinitions").as_array().unwrap();
            let shown: Vec<&str> = definitions
                .iter()
                .filter(|c| c["priority"] == 0)
                .map(|c| c["name"].as_str().unwrap())
                .collect();
            assert_eq!(shown, columns);
            let row = table.at("/rows/0/cells").as_array().unwrap();
            let expected = cells.as_array().unwrap();
            let row: Vec<Value> = row[..expected.len()]
                .iter()
                .map(|cell| if cell == "0" { json!(0) } else { cell.clone() })
                .collect();
            assert_eq!(&row, expected);
        }
    });
}

#[test]
fn an_event_of_one_group_is_read_in_the_other() {
    on_a_server(async |t| {
        let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "reason": "Because", "message": "text", "type": "Normal",
            "involvedObject": {"kind": "Pod", "name": "p", "namespace": t.namespace}});
        t.post(&t.path("events"), event).await.code(201);
        let found = t.get(&t.path("events.k8s.io/v1/events/e")).await.code(200);
        assert_eq!((found.at("/note"), found.at("/regarding/kind")), (&json!("text"), &json!("Pod")));
    });
}

#[test]
fn an_autoscaler_is_converted_between_its_versions() {
    on_a_server(async |t| {
        let body = json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"},
            "spec": {"maxReplicas": 3, "targetCPUUtilizationPercentage": 50, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}}});
        t.post(&t.path("autoscaling/v1/horizontalpodautoscalers"), body).await.code(201);
        let found = t.get(&t.path("autoscaling/v2/horizontalpodautoscalers/a")).await.code(200);
        let metric = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}});
        assert_eq!(found.at("/spec/metrics"), &json!([metric]));
    });
}

#[test]
fn a_custom_resource_answers_no_protobuf() {
    on_a_server(async |t| {
        let widgets = t.define(crate::definition::Definition::free_form()).await;
        t.get_as(&widgets.within(&t.namespace), "application/vnd.kubernetes.protobuf").await.code(406);
        let both = "application/vnd.kubernetes.protobuf,application/json";
        assert_eq!(
            t.get_as(&widgets.within(&t.namespace), both).await.code(200).header("content-type"),
            media::JSON
        );
    });
}
