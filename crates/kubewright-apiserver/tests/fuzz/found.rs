//! What made-up requests have found once, each as the request it was.

use kubewright_apiserver::ApiServer;
use serde_json::{Value, json};

use super::{
    client::{self, Call},
    objects::samples,
};

/// A server that has the sample of a definition and of an object of it.
async fn with_things() -> ApiServer {
    let server = client::start().await;
    for plural in ["customresourcedefinitions", "things"] {
        let sample =
            samples().into_iter().find(|sample| sample.plural == plural).expect("a sample of each kind");
        let call = Call::new("POST", sample.collection("default")).json(&sample.object);
        assert_eq!(client::send(&server, &call).await.code, 201);
    }
    server
}

const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.fuzz.example.com";

#[tokio::test(start_paused = true)]
async fn a_deleted_definition_takes_its_objects_along() {
    let server = with_things().await;
    assert_eq!(client::send(&server, &Call::new("DELETE", DEFINITION)).await.code, 200);
    assert_eq!(client::send(&server, &Call::new("GET", DEFINITION)).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn a_definition_deleted_in_the_foreground_waits_for_whoever_removes_that_finalizer() {
    let server = with_things().await;
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground"});
    assert_eq!(client::send(&server, &Call::new("DELETE", DEFINITION).json(&options)).await.code, 200);
    let waiting = client::send(&server, &Call::new("GET", DEFINITION)).await.json();
    assert_eq!(waiting["metadata"]["finalizers"], json!(["foregroundDeletion"]));
}

#[tokio::test(start_paused = true)]
async fn a_watch_may_be_asked_to_last_for_ever() {
    let server = client::start().await;
    let watch = Call::new("GET", "/api/v1/nodes?watch=1&timeoutSeconds=9223372036854775807");
    assert_eq!(client::send(&server, &watch).await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn a_role_that_gathers_nothing_is_kept_as_it_is_written_back() {
    let server = client::start().await;
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "a"},
        "rules": [{"nonResourceURLs": ["/healthz"], "verbs": ["get"]}],
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"nobody": "has"}}]},
    });
    assert_eq!(client::send(&server, &Call::new("POST", roles).json(&role)).await.code, 201);
    let stored = client::send(&server, &Call::new("GET", format!("{roles}/a"))).await.json();
    assert_eq!(stored["rules"], Value::Null);
    let before = server.revision();
    assert_eq!(client::send(&server, &Call::new("PUT", format!("{roles}/a")).json(&stored)).await.code, 200);
    assert_eq!(server.revision(), before);
}

/// Creates an object with `create`, which is at `path` then, and has it changed by `change`. What is read
/// after that can be written back without a further change.
async fn comes_back(server: &ApiServer, create: &Call, change: Option<&Call>, path: &str) -> Value {
    for call in [Some(create), change].into_iter().flatten() {
        let reply = client::send(server, call).await;
        assert!(reply.code < 300, "{}", reply.text());
    }
    let stored = client::send(server, &Call::new("GET", path)).await.json();
    let before = server.revision();
    let reply = client::send(server, &Call::new("PUT", path).json(&stored)).await;
    assert_eq!((reply.code, server.revision()), (200, before), "{}", reply.text());
    stored
}

#[tokio::test(start_paused = true)]
async fn a_job_that_loses_its_labels_to_an_update_of_its_status_has_those_of_its_pods() {
    let server = client::start().await;
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a", "labels": {"b": "c"}},
        "spec": {"template": {"spec": {
            "containers": [{"name": "a", "image": "b"}], "restartPolicy": "Never",
        }}},
    });
    let status = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "status": {}});
    let create = Call::new("POST", jobs).json(&job);
    let change = Call::new("PUT", format!("{jobs}/a/status")).json(&status);
    let stored = comes_back(&server, &create, Some(&change), &format!("{jobs}/a")).await;
    assert_eq!(stored["metadata"]["labels"]["job-name"], "a");
    assert_eq!(stored["metadata"]["labels"], stored["spec"]["template"]["metadata"]["labels"]);
}

#[tokio::test(start_paused = true)]
async fn a_reference_to_a_secret_without_a_name_is_kept_as_it_is_written_back() {
    let server = client::start().await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"},
        "secrets": [{}, {"name": "b", "namespace": "c"}],
    });
    let create = Call::new("POST", accounts).json(&account);
    let stored = comes_back(&server, &create, None, &format!("{accounts}/a")).await;
    assert_eq!(stored["secrets"], json!([{}, {"name": "b"}]));
}

#[tokio::test(start_paused = true)]
async fn a_name_of_a_definition_that_is_too_long_is_counted_in_characters() {
    let server = client::start().await;
    let sample = samples().into_iter().find(|sample| sample.plural == "customresourcedefinitions");
    let sample = sample.expect("a sample of each kind");
    let mut definition = sample.object.clone();
    definition["spec"]["names"]["singular"] = "a".repeat(64).into();
    let reply = client::send(&server, &Call::new("POST", sample.collection("")).json(&definition)).await;
    let cause = &reply.json()["details"]["causes"][0];
    assert_eq!(cause["field"], "spec.names.singular");
    let message = format!("Invalid value: \"{}\": must be no more than 63 characters", "a".repeat(64));
    assert_eq!(cause["message"], message);
}
