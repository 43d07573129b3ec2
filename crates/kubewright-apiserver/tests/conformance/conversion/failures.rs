//! What becomes of a request when a webhook does not convert.

use std::time::Duration;

use jiff::SignedDuration;
use kubewright_apiserver::Clock;
use serde_json::{Value, json};

use super::gates::{Gates, conversion, convert, failed};
use crate::{
    harness::{media, over_the_network},
    network::Webhook,
    reply::Reply,
    watch::assert_events,
};

#[test]
fn an_answer_that_is_no_conversion_is_refused() {
    over_the_network(async |t| {
        let gates = Gates::defined(&t).await;
        let created = t.post(&gates.at(&t, "v1"), gates.v1("a", "x", "1")).await.code(201);
        let group = &gates.definition.group;
        let kind = format!("conversion webhook for {group}/v1, Kind=Gate");
        let merge = |change: Value| json!({"merge": change});
        let success = |objects: Value| json!({"convertedObjects": objects, "result": {"status": "Success"}});
        let labels = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                      alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                      '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
        let cases = [
            (failed("no way"), "failed: no way".to_owned()),
            (
                json!({"result": {"status": "Failed"}}),
                "failed: response.result.status was 'Failed', not 'Success'".to_owned(),
            ),
            (json!({}), "failed: response.result.status was '', not 'Success'".to_owned()),
            (success(json!([])), "returned 0 objects, expected 1".to_owned()),
            (
                merge(json!({"metadata": {"name": "b"}})),
                "returned invalid object: must have the same name: a != b".to_owned(),
            ),
            (
                merge(json!({"metadata": {"namespace": "b"}})),
                format!("returned invalid object: must have the same namespace: {} != b", t.namespace),
            ),
            (
                merge(json!({"metadata": {"uid": "b"}})),
                format!("returned invalid object: must have the same UID: {} != b", created.uid()),
            ),
            (
                merge(json!({"kind": "Other"})),
                "returned invalid object at index 0: invalid kind (expected Gate, received Other)".to_owned(),
            ),
            (
                merge(json!({"apiVersion": "example.com/v3"})),
                format!(
                    "returned invalid object at index 0: invalid groupVersion (expected {group}/v2, received example.com/v3)"
                ),
            ),
            (
                merge(json!({"metadata": null})),
                "returned invalid object: must have the same name: a != ".to_owned(),
            ),
            (
                merge(json!({"metadata": {"labels": {"a b": "x"}}})),
                format!("returned invalid metadata: metadata.labels: Invalid value: \"a b\": {labels}"),
            ),
            (
                merge(json!({"metadata": {"labels": {"a": 1}}})),
                "returned invalid metadata: metadata.labels[a] must be a string, but is int64 in converted object"
                    .to_owned(),
            ),
            (
                merge(json!({"metadata": {"annotations": "x"}})),
                "returned invalid metadata: invalid metadata.annotations of type string in converted object".to_owned(),
            ),
            (
                json!({"body": json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"}).to_string()}),
                "failed: no response provided".to_owned(),
            ),
            (
                json!({"body": json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "AdmissionReview"}).to_string()}),
                "failed: no kind \"AdmissionReview\" is registered for version \"apiextensions.k8s.io/v1\" in scheme \
                 \"pkg/runtime/scheme.go:111\""
                    .to_owned(),
            ),
            (
                json!({"body": json!({"apiVersion": "apiextensions.k8s.io/v1beta1", "kind": "ConversionReview"}).to_string()}),
                "failed: converting (v1beta1.ConversionReview) to (v1.ConversionReview): unknown conversion".to_owned(),
            ),
            (
                json!({"body": "{}"}),
                "failed: expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got /, Kind=".to_owned(),
            ),
            (
                json!({"body": "<html>"}),
                "failed: couldn't get version/kind; json parse error: json: cannot unmarshal string into Go value of type \
                 struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }"
                    .to_owned(),
            ),
            (
                json!({"body": ""}),
                "failed: 0-length response with status code: 200 and content type: application/json".to_owned(),
            ),
            (json!({"http": 404}), "failed: the server could not find the requested resource".to_owned()),
        ];
        for (answer, expected) in cases {
            gates.trouble("", answer);
            let refused = t.get(&gates.one(&t, "v2", "a")).await.refused(500, "");
            assert_eq!(refused.text("/message"), format!("{kind} {expected}"));
        }
        gates.trouble("", json!({"uid": "other", "result": {"status": "Success"}}));
        let refused = t.get(&gates.one(&t, "v2", "a")).await.refused(500, "");
        let message = refused.text("/message");
        assert!(message.starts_with(&format!("{kind} failed: expected response.uid=\"")), "{message}");
        assert!(message.ends_with("\", got \"other\""), "{message}");
        gates.trouble("", success(json!([[1]])));
        let refused = t.get(&gates.one(&t, "v2", "a")).await.refused(500, "");
        let message = "json: cannot unmarshal array into Go value of type map[string]interface {}";
        assert_eq!(refused.text("/message"), message);
    });
}

#[test]
fn no_verb_gets_by_a_webhook_that_fails() {
    over_the_network(async |t| {
        let gates = Gates::defined(&t).await;
        t.post(&gates.at(&t, "v1"), gates.v1("a", "x", "1")).await.code(201);
        gates.trouble("", failed("no way"));
        let path = gates.one(&t, "v2", "a");
        let mut replacement = gates.v2("a", "y:1");
        replacement["metadata"]["resourceVersion"] = t.get(&gates.one(&t, "v1", "a")).await.revision().into();
        let refused = |reply: Reply, version: &str| {
            let message = format!(
                "conversion webhook for {}/{version}, Kind=Gate failed: no way",
                gates.definition.group
            );
            assert_eq!(reply.refused(500, "").text("/message"), message);
        };
        refused(t.get(&path).await, "v1");
        refused(t.get(&format!("{}?limit=5", gates.at(&t, "v2"))).await, "v1");
        refused(t.post(&gates.at(&t, "v2"), gates.v2("b", "x:1")).await, "v2");
        refused(t.post(&format!("{}?dryRun=All", gates.at(&t, "v2")), gates.v2("b", "x:1")).await, "v2");
        refused(t.delete(&path).await, "v1");
        refused(t.delete(&gates.at(&t, "v2")).await, "v1");
        refused(t.get(&format!("{path}/scale")).await, "v1");
        // Whether the stored object or the new one is converted first is not the same in all servers.
        for reply in [
            t.put(&path, &replacement).await,
            t.merge(&path, json!({"spec": {"hostPort": "y:1"}})).await,
            t.apply(&path, "me&force=true", gates.v2("a", "y:1")).await,
            t.merge(&format!("{path}/status"), json!({"status": {"a": 1}})).await,
        ] {
            reply.refused(500, "").saying("Kind=Gate failed: no way");
        }
        gates.no_trouble();
        assert_eq!(t.get(&path).await.code(200).at("/spec/hostPort"), "x:1");
    });
}

#[test]
fn a_list_waits_for_all_of_its_objects_to_be_convertible() {
    over_the_network(async |t| {
        let gates = Gates::defined(&t).await;
        for name in ["a", "b", "c"] {
            t.post(&gates.at(&t, "v1"), gates.v1(name, name, "1")).await.code(201);
        }
        gates.trouble("b", failed("no way"));
        gates.redefine(&t, json!({"names": {"shortNames": ["gt"]}})).await;
        for path in [gates.at(&t, "v2"), format!("{}?watch=true", gates.at(&t, "v2"))] {
            let refused = t.get(&path).await.refused(429, "TooManyRequests");
            assert!(refused.text("/message").starts_with("storage is (re)initializing"));
            assert_eq!(refused.header("retry-after"), "1");
        }
        assert_eq!(t.get(&format!("{}?limit=1", gates.at(&t, "v2"))).await.code(200).names(), ["a"]);
        t.get(&gates.one(&t, "v2", "c")).await.code(200);
        assert_eq!(t.get(&gates.at(&t, "v1")).await.code(200).names(), ["a", "b", "c"]);
        gates.no_trouble();
        let listed = t.until("the list is complete", async || {
            let list = t.get(&gates.at(&t, "v2")).await;
            (list.code == 200).then(|| list.names().len())
        });
        assert_eq!(listed.await, 3);
    });
}

#[test]
fn a_watch_waits_for_an_object_that_can_not_be_converted() {
    over_the_network(async |t| {
        let gates = Gates::defined(&t).await;
        let from = t.revision_of(&gates.at(&t, "v2")).await;
        let mut watch = t.watch(&format!("{}?resourceVersion={from}", gates.at(&t, "v2"))).await;
        t.post(&gates.at(&t, "v1"), gates.v1("a", "a", "1")).await.code(201);
        assert_events(&watch.events(1).await, &["ADDED a"]);
        gates.trouble("b", failed("no way"));
        for name in ["b", "c"] {
            t.post(&gates.at(&t, "v1"), gates.v1(name, name, "1")).await.code(201);
        }
        let asked = async || {
            let asked = gates.webhook.asked();
            asked.iter().any(|request| request["objects"][0]["metadata"]["name"] == "b").then_some(())
        };
        while asked().await.is_none() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        gates.no_trouble();
        assert_events(&watch.events(2).await, &["ADDED b", "ADDED c"]);
    });
}

#[test]
fn a_webhook_is_asked_in_the_first_review_version_it_understands() {
    over_the_network(async |t| {
        let gates = Gates::defined(&t).await;
        t.post(&gates.at(&t, "v1"), gates.v1("a", "x", "1")).await.code(201);
        let versions = ["v9", "v1beta1", "v1"];
        gates.redefine(&t, json!({"conversion": conversion(gates.webhook.client_config(), &versions)})).await;
        // Whose answer it is was not checked then.
        let mut answer = convert(&json!({
            "desiredAPIVersion": format!("{}/v2", gates.definition.group),
            "objects": [t.get(&gates.one(&t, "v1", "a")).await.json],
        }));
        answer["uid"] = json!("other");
        gates.trouble("a", answer);
        assert_eq!(t.get(&gates.one(&t, "v2", "a")).await.code(200).at("/spec/hostPort"), "x:1");
    });
}

#[test]
fn a_webhook_that_can_not_be_reached_is_named_with_the_reason() {
    over_the_network(async |t| {
        let gates = Gates::defined(&t).await;
        t.post(&gates.at(&t, "v1"), gates.v1("a", "x", "1")).await.code(201);
        let other = Webhook::start(async |request| convert(&request)).await;
        let past = Clock::system().now() - SignedDuration::from_hours(24 * 800);
        let expired = Webhook::certified_at(past, async |request| convert(&request)).await;
        let good = gates.webhook.client_config();
        let with_ca = |ca: Value| json!({"url": good["url"], "caBundle": ca});
        let service = json!({"service": {"namespace": t.namespace, "name": "none", "path": "/c"}, "caBundle": good["caBundle"]});
        let url = good["url"].as_str().expect("a url");
        for (client_config, url, why) in [
            (
                json!({"url": "https://127.0.0.1:1/convert", "caBundle": good["caBundle"]}),
                "https://127.0.0.1:1/convert",
                "dial tcp 127.0.0.1:1: connect: connection refused",
            ),
            (
                with_ca(other.client_config()["caBundle"].clone()),
                url,
                "tls: failed to verify certificate: x509: certificate signed by unknown authority",
            ),
            (
                expired.client_config(),
                expired.client_config()["url"].as_str().expect("a url"),
                "tls: failed to verify certificate: x509: certificate has expired or is not yet valid: current time ",
            ),
            (service, &format!("https://none.{}.svc:443/c", t.namespace), "service \"none\" not found"),
        ] {
            t.patch(
                &gates.definition.path(),
                media::JSON_PATCH,
                json!([{"op": "replace", "path": "/spec/conversion/webhook/clientConfig", "value": client_config}]),
            )
            .await
            .code(200);
            let beginning = format!(
                "conversion webhook for {}/v1, Kind=Gate failed: Post \"{url}?timeout=30s\": {why}",
                gates.definition.group
            );
            t.until(&beginning, async || {
                let refused = t.get(&gates.one(&t, "v2", "a")).await;
                let message = refused.at("/message").as_str().unwrap_or_default();
                (refused.code == 500 && message.starts_with(&beginning)).then_some(())
            })
            .await;
        }
    });
}
