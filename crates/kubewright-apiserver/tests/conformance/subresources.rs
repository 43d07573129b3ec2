//! Subresources: scale, binding, eviction, tokens, approval and the like.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use crate::{
    definition::Definition,
    harness::{media, on_a_server},
    manifests::{deployment, pod, pod_on},
};

#[test]
fn a_workload_is_read_and_changed_through_its_scale() {
    on_a_server(async |t| {
        t.post(&t.path("apps/v1/deployments"), deployment("a")).await.code(201);
        let path = t.path("apps/v1/deployments/a/scale");
        let scale = t.get(&path).await.code(200);
        assert_eq!((scale.text("/kind"), scale.text("/apiVersion")), ("Scale", "autoscaling/v1"));
        assert_eq!((scale.at("/spec/replicas"), scale.text("/status/selector")), (&json!(1), "app=a"));
        let scaled = t.merge(&path, json!({"spec": {"replicas": 3}})).await.code(200);
        assert_eq!(scaled.at("/spec/replicas"), 3);
        let mut scale = scaled.json.clone();
        scale["spec"]["replicas"] = json!(4);
        t.put(&path, &scale).await.code(200);
        assert_eq!(t.get(&t.path("apps/v1/deployments/a")).await.at("/spec/replicas"), 4);
        scale["spec"]["replicas"] = json!(5);
        t.put(&path, &scale).await.refused(409, "Conflict");
        t.merge(&path, json!({"spec": {"replicas": -1}})).await.refused(422, "Invalid");
    });
}

#[test]
fn a_scale_of_zero_has_an_empty_spec() {
    on_a_server(async |t| {
        let mut set = deployment("a");
        set["kind"] = json!("ReplicaSet");
        set["spec"]["replicas"] = json!(0);
        t.post(&t.path("apps/v1/replicasets"), set).await.code(201);
        let scale = t.get(&t.path("apps/v1/replicasets/a/scale")).await.code(200);
        assert_eq!((scale.at("/spec"), scale.at("/status/replicas")), (&json!({}), &json!(0)));
    });
}

#[test]
fn a_custom_resource_is_scaled_along_the_paths_of_its_definition() {
    on_a_server(async |t| {
        let scale = json!({"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size", "labelSelectorPath": ".status.selector"});
        let definition = Definition::of_properties(json!({"size": {"type": "integer"}}))
            .version("subresources", json!({"status": {}, "scale": scale}));
        let widgets = t.define(definition).await;
        let path = format!("{}/a", widgets.within(&t.namespace));
        t.post(&widgets.within(&t.namespace), widgets.object("a", json!({"size": 2}))).await.code(201);
        t.merge(&format!("{path}/status"), json!({"status": {"size": 1, "selector": "app=a"}}))
            .await
            .code(200);
        let scale = t.get(&format!("{path}/scale")).await.code(200);
        assert_eq!(
            (scale.at("/spec"), scale.at("/status")),
            (&json!({"replicas": 2}), &json!({"replicas": 1, "selector": "app=a"}))
        );
        t.merge(&format!("{path}/scale"), json!({"spec": {"replicas": 5}})).await.code(200);
        assert_eq!(t.get(&path).await.at("/spec/size"), 5);
        t.post(&widgets.within(&t.namespace), widgets.object("b", json!({}))).await.code(201);
        let refused =
            t.get(&format!("{}/b/scale", widgets.within(&t.namespace))).await.refused(500, "InternalError");
        refused.saying("the spec replicas field \".spec.size\" does not exist");
    });
}

#[test]
fn a_pod_is_bound_once() {
    on_a_server(async |t| {
        t.post(&t.path("pods"), pod("a")).await.code(201);
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": {"kind": "Node", "name": "node"}});
        let bound = t.post(&t.path("pods/a/binding"), &binding).await.code(201);
        assert_eq!((bound.text("/kind"), bound.text("/status")), ("Status", "Success"));
        let found = t.get(&t.path("pods/a")).await;
        assert_eq!(found.at("/spec/nodeName"), "node");
        assert_eq!(
            found.condition("PodScheduled").map(|condition| &condition["status"]),
            Some(&json!("True"))
        );
        t.post(&t.path("pods/a/binding"), &binding).await.refused(409, "Conflict");
    });
}

#[test]
fn an_eviction_deletes_a_pod_and_tells_why() {
    on_a_server(async |t| {
        t.post(&t.path("pods"), pod_on("a", "node")).await.code(201);
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}});
        let evicted = t.post(&t.path("pods/a/eviction"), eviction).await.code(201);
        assert_eq!((evicted.text("/kind"), evicted.text("/status")), ("Status", "Success"));
        let found = t.get(&t.path("pods/a")).await.code(200);
        assert!(found.at("/metadata/deletionTimestamp").is_string());
        let condition = found.condition("DisruptionTarget").expect("the condition");
        assert_eq!(
            (&condition["status"], &condition["reason"]),
            (&json!("True"), &json!("EvictionByEvictionAPI"))
        );
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "none"}});
        t.post(&t.path("pods/none/eviction"), eviction).await.refused(404, "NotFound");
    });
}

#[test]
fn an_ephemeral_container_is_added_by_its_subresource_only() {
    on_a_server(async |t| {
        t.post(&t.path("pods"), pod_on("a", "node")).await.code(201);
        let patch = json!({"spec": {"ephemeralContainers": [{"name": "debug", "image": "image"}]}});
        t.patch(&t.path("pods/a"), media::STRATEGIC_MERGE_PATCH, &patch).await.refused(422, "Invalid");
        let patched = t
            .patch(&t.path("pods/a/ephemeralcontainers"), media::STRATEGIC_MERGE_PATCH, &patch)
            .await
            .code(200);
        assert_eq!(patched.at("/spec/ephemeralContainers/0/name"), "debug");
    });
}

/// The claims of a token.
fn claims(token: &str) -> Value {
    let payload = token.split('.').nth(1).expect("a JWT has three parts");
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).expect("base64")).expect("JSON")
}

#[test]
fn a_service_account_gets_a_token_for_an_hour() {
    on_a_server(async |t| {
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}});
        let created = t.post(&t.path("serviceaccounts"), account).await.code(201);
        let request = |spec: Value| json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec});
        let path = t.path("serviceaccounts/a/token");
        let issued = t.post(&path, request(json!({}))).await.code(201);
        assert_eq!(issued.at("/spec/expirationSeconds"), 3600);
        let claims = claims(issued.text("/status/token"));
        assert_eq!(claims["sub"], json!(format!("system:serviceaccount:{}:a", t.namespace)));
        assert_eq!(claims["kubernetes.io"]["serviceaccount"], json!({"name": "a", "uid": created.uid()}));
        assert_eq!(claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap(), 3600);
        t.post(&path, request(json!({"expirationSeconds": 60}))).await.refused(422, "Invalid");
        t.post(&t.path("serviceaccounts/none/token"), request(json!({}))).await.refused(404, "NotFound");
    });
}

#[test]
fn a_signing_request_is_approved_by_its_subresource_only() {
    on_a_server(async |t| {
        let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
        let body = |request: &str| {
            json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": t.unique},
            "spec": {"request": request, "signerName": "example.com/mine", "usages": ["client auth"]}})
        };
        t.post(path, body("bm90IGEgcmVxdWVzdA=="))
            .await
            .refused(422, "Invalid")
            .because("FieldValueInvalid", "spec.request");
        let created = t.post(path, body(SIGNING_REQUEST)).await.code(201);
        assert_eq!(created.text("/spec/username"), t.username());
        let condition =
            json!({"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "Because"}]}});
        let item = format!("{path}/{}", t.unique);
        let patched = t.merge(&format!("{item}/status"), &condition).await;
        assert!(patched.code != 200 || patched.condition("Approved").is_none(), "{}", patched.json);
        let approved = t.merge(&format!("{item}/approval"), &condition).await.code(200);
        assert!(approved.condition("Approved").is_some());
        let selector = format!("metadata.name={},spec.signerName=example.com/mine", t.unique);
        let list = t.get(&crate::harness::with(path, &[("fieldSelector", &selector)])).await.code(200);
        assert_eq!(list.names().len(), 1);
    });
}

/// For CN=jane, made once with openssl.
const SIGNING_REQUEST: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlISk1IRUNBUUF3RHpFTk1Bc0dBMVVFQXd3RWFtRnVaVEJaTUJNR0J5cUdTTTQ5QWdFR0NDcUdTTTQ5QXdFSApBMElBQlArNGVSc1Nqc0JOMnZqWkFGRVN4ZmRyWnV4dGcvbTJQRllBRjVFMVE3TURSZ0ZmcENOTDZTRk1Fb0ZuCjc3cS9UY2RNN05uRk5ZU0JYWGwrb2VuS2xoMmdBREFLQmdncWhrak9QUVFEQWdOSUFEQkZBaUVBbmxnekVpcXQKVytDNit3RjcxRW1ySUVkVnVPT2ZWQWJmTWNxVE1ZeVN1bmdDSURvVFE2WE1ZTmZqeWs1eFdscEp1RFBjelgwMwpyNnhuekVOOGtEMmFRdW1YCi0tLS0tRU5EIENFUlRJRklDQVRFIFJFUVVFU1QtLS0tLQo=";

#[test]
fn a_namespace_is_finalized_by_its_subresource_only() {
    on_a_server(async |t| {
        let name = format!("{}-f", t.unique);
        t.create_namespace(&name).await;
        let path = format!("/api/v1/namespaces/{name}");
        let patched = t.merge(&path, json!({"spec": {"finalizers": ["example.com/other"]}})).await.code(200);
        assert_eq!(patched.at("/spec/finalizers"), &json!(["kubernetes"]));
        let mut namespace = patched.json.clone();
        namespace["spec"]["finalizers"] = json!(["kubernetes", "example.com/mine"]);
        let finalized = t.put(&format!("{path}/finalize"), namespace).await.code(200);
        assert_eq!(finalized.at("/spec/finalizers"), &json!(["kubernetes", "example.com/mine"]));
    });
}

#[test]
fn the_status_of_a_built_in_is_changed_by_its_subresource_only() {
    on_a_server(async |t| {
        t.post(&t.path("apps/v1/deployments"), deployment("a")).await.code(201);
        let path = t.path("apps/v1/deployments/a");
        let patch = json!({"status": {"replicas": 2}, "spec": {"replicas": 7}});
        let patched = t.merge(&format!("{path}/status"), &patch).await.code(200);
        assert_eq!((patched.at("/status/replicas"), patched.at("/spec/replicas")), (&json!(2), &json!(1)));
        let patched =
            t.merge(&path, json!({"status": {"replicas": 3}, "spec": {"replicas": 7}})).await.code(200);
        assert_eq!((patched.at("/status/replicas"), patched.at("/spec/replicas")), (&json!(2), &json!(7)));
        assert_eq!(t.get(&format!("{path}/status")).await.code(200).text("/kind"), "Deployment");
    });
}

#[test]
fn the_log_of_an_unscheduled_pod_is_empty() {
    on_a_server(async |t| {
        t.post(&t.path("pods"), pod("a")).await.code(201);
        let log = t.get_as(&t.path("pods/a/log"), "*/*").await.code(204);
        assert!(log.body.is_empty());
        t.get(&t.path("pods/none/log")).await.refused(404, "NotFound");
    });
}
