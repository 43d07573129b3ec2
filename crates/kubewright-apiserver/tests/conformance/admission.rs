//! Admission: webhooks and policies between a request and the store.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tokio::sync::Barrier;

use crate::{
    harness::{Server, on_a_server, over_the_network},
    manifests::{config_map, config_map_with},
    network::{PROBE, Webhook},
};

const REGISTRATION: &str = "/apis/admissionregistration.k8s.io/v1";

/// One webhook for ConfigMaps in the test's namespace.
fn hook(t: &Server, name: &str, webhook: &Webhook) -> Value {
    json!({
        "name": format!("{name}.example.com"), "clientConfig": webhook.client_config(), "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": t.namespace}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE", "DELETE"], "resources": ["configmaps"]}],
    })
}

async fn configure(t: &Server, kind: &str, name: &str, hooks: &[Value]) -> crate::reply::Reply {
    let body = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{kind}WebhookConfiguration"),
        "metadata": {"name": format!("{}-{name}", t.unique)}, "webhooks": hooks});
    let path = format!("{REGISTRATION}/{}webhookconfigurations", kind.to_lowercase());
    t.post(&path, body).await.code(201)
}

/// A JSON patch, as a webhook answers it.
fn patch(operations: Value) -> Value {
    json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(operations.to_string())})
}

/// Adds a letter to the data's `seen`.
fn append(request: &Value, letter: &str) -> Value {
    let Some(seen) = request["object"]["data"]["seen"].as_str() else { return json!({"allowed": true}) };
    patch(json!([{"op": "add", "path": "/data/seen", "value": format!("{seen}{letter}")}]))
}

#[test]
fn a_webhook_has_defaults() {
    over_the_network(async |t| {
        let webhook = Webhook::allowing().await;
        let created = configure(&t, "Mutating", "defaults", &[hook(&t, "a", &webhook)]).await;
        let hook = created.at("/webhooks/0");
        let fields =
            ["failurePolicy", "matchPolicy", "timeoutSeconds", "reinvocationPolicy", "objectSelector"];
        let expected = [json!("Fail"), json!("Equivalent"), json!(10), json!("Never"), json!({})];
        assert_eq!(fields.map(|field| hook[field].clone()), expected);
        assert_eq!(hook["rules"][0]["scope"], "*");
    });
}

#[test]
fn a_webhook_is_asked_with_the_whole_request() {
    over_the_network(async |t| {
        let webhook = Webhook::allowing().await;
        configure(&t, "Validating", "asked", &[hook(&t, "a", &webhook)]).await;
        webhook.known_to(&t).await;
        t.post(&t.path("configmaps?fieldManager=me"), config_map("a", json!({"n": "1"}))).await.code(201);
        t.merge(&t.path("configmaps/a?fieldManager=me"), json!({"data": {"n": "2"}})).await.code(200);
        t.delete(&t.path("configmaps/a")).await.code(200);
        let asked: Vec<Value> =
            webhook.asked().into_iter().filter(|request| request["name"] == "a").collect();
        let operations: Vec<&Value> = asked.iter().map(|request| &request["operation"]).collect();
        assert_eq!(operations, ["CREATE", "UPDATE", "DELETE"]);
        let create = &asked[0];
        let owned = json!({"f:data": {".": {}, "f:n": {}}});
        for object in [&create["object"], &asked[1]["object"], &asked[1]["oldObject"], &asked[2]["oldObject"]]
        {
            assert_eq!(object["metadata"]["managedFields"][0]["fieldsV1"], owned);
        }
        assert_eq!(create["kind"], json!({"group": "", "version": "v1", "kind": "ConfigMap"}));
        assert_eq!(create["resource"], json!({"group": "", "version": "v1", "resource": "configmaps"}));
        assert_eq!((&create["namespace"], &create["dryRun"]), (&json!(t.namespace), &json!(false)));
        assert_eq!(create["userInfo"]["username"], t.username());
        assert_eq!((&create["object"]["data"]["n"], &create["oldObject"]), (&json!("1"), &Value::Null));
        assert_eq!(create["options"]["fieldManager"], "me");
        assert_eq!(
            (&asked[1]["object"]["data"]["n"], &asked[1]["oldObject"]["data"]["n"]),
            (&json!("2"), &json!("1"))
        );
        assert_eq!((&asked[2]["object"], &asked[2]["oldObject"]["data"]["n"]), (&Value::Null, &json!("2")));
    });
}

#[test]
fn mutating_webhooks_run_one_after_the_other_in_order_of_their_configurations() {
    over_the_network(async |t| {
        let mut webhooks = Vec::new();
        for letter in ["a", "b", "c"] {
            webhooks.push(Webhook::start(move |request| async move { append(&request, letter) }).await);
        }
        // In another order than their names.
        configure(&t, "Mutating", "2", &[hook(&t, "c", &webhooks[2])]).await;
        configure(&t, "Mutating", "1", &[hook(&t, "a", &webhooks[0]), hook(&t, "b", &webhooks[1])]).await;
        for webhook in &webhooks {
            webhook.known_to(&t).await;
        }
        let created = t.post(&t.path("configmaps"), config_map("x", json!({"seen": ""}))).await.code(201);
        assert_eq!(created.at("/data/seen"), "abc");
    });
}

#[test]
fn a_webhook_that_asks_for_it_is_called_once_more_after_a_later_change() {
    over_the_network(async |t| {
        let first = Webhook::start(async |request| append(&request, "1")).await;
        let second = Webhook::start(async |request| append(&request, "2")).await;
        let mut again = hook(&t, "again", &first);
        again["reinvocationPolicy"] = json!("IfNeeded");
        configure(&t, "Mutating", "1", &[again, hook(&t, "once", &second)]).await;
        second.known_to(&t).await;
        let created = t.post(&t.path("configmaps"), config_map("x", json!({"seen": ""}))).await.code(201);
        assert_eq!(created.at("/data/seen"), "121");
    });
}

#[test]
fn validating_webhooks_run_at_the_same_time() {
    over_the_network(async |t| {
        // Each answers only once both were asked.
        let barrier = Arc::new(Barrier::new(2));
        let meet = move |request: Value| {
            let barrier = barrier.clone();
            async move {
                if request["name"] != PROBE {
                    barrier.wait().await;
                }
                json!({"allowed": true})
            }
        };
        let (first, second) = (Webhook::start(meet.clone()).await, Webhook::start(meet).await);
        configure(&t, "Validating", "1", &[hook(&t, "a", &first), hook(&t, "b", &second)]).await;
        second.known_to(&t).await;
        t.post(&t.path("configmaps"), config_map("x", json!({}))).await.code(201);
    });
}

#[test]
fn a_denial_without_a_code_is_a_bad_request() {
    over_the_network(async |t| {
        let webhook = Webhook::start(async |request| match request["name"].as_str() {
            Some("coded") => json!({"allowed": false, "status": {"code": 418, "reason": "Teapot", "message": "short and stout"}}),
            Some("bare") => json!({"allowed": false}),
            _ => json!({"allowed": request["name"] == PROBE, "status": {"message": "no"}}),
        })
        .await;
        configure(&t, "Validating", "deny", &[hook(&t, "deny", &webhook)]).await;
        webhook.known_to(&t).await;
        let refused = t.post(&t.path("configmaps"), config_map("plain", json!({}))).await.refused(400, "");
        assert_eq!(refused.text("/message"), "admission webhook \"deny.example.com\" denied the request: no");
        let refused = t.post(&t.path("configmaps"), config_map("bare", json!({}))).await.refused(400, "");
        assert_eq!(
            refused.text("/message"),
            "admission webhook \"deny.example.com\" denied the request without explanation"
        );
        let refused =
            t.post(&t.path("configmaps"), config_map("coded", json!({}))).await.refused(418, "Teapot");
        refused.saying("short and stout");
        assert!(t.get(&t.path("configmaps")).await.names().iter().all(|name| *name == "kube-root-ca.crt"));
    });
}

#[test]
fn a_failed_call_is_an_internal_error_unless_it_is_ignored() {
    over_the_network(async |t| {
        let broken = async |request: Value| {
            if request["name"] == PROBE { json!({"allowed": true}) } else { json!({"http": 503}) }
        };
        let webhook = Webhook::start(broken).await;
        configure(&t, "Validating", "fail", &[hook(&t, "fail", &webhook)]).await;
        webhook.known_to(&t).await;
        let refused =
            t.post(&t.path("configmaps"), config_map("x", json!({}))).await.refused(500, "InternalError");
        refused.saying("failed calling webhook \"fail.example.com\": failed to call webhook");
        let path = format!("{REGISTRATION}/validatingwebhookconfigurations/{}-fail", t.unique);
        let ignore = json!([{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]);
        t.patch(&path, crate::harness::media::JSON_PATCH, ignore).await.code(200);
        t.until("failures are ignored", async || {
            (t.post(&t.path("configmaps?dryRun=All"), config_map("x", json!({}))).await.code == 201)
                .then_some(())
        })
        .await;
    });
}

#[test]
fn a_dry_run_is_refused_by_a_webhook_with_side_effects() {
    over_the_network(async |t| {
        let (effects, none) = (Webhook::allowing().await, Webhook::allowing().await);
        let mut some = hook(&t, "effects", &effects);
        some["sideEffects"] = json!("NoneOnDryRun");
        configure(&t, "Validating", "1", &[hook(&t, "none", &none), some]).await;
        none.known_to(&t).await;
        t.post(&t.path("configmaps?dryRun=All"), config_map("x", json!({}))).await.code(201);
        assert_eq!(effects.asked().last().map(|request| request["dryRun"].clone()), Some(json!(true)));
        let unknown = json!([{"op": "replace", "path": "/webhooks/1/sideEffects", "value": "Unknown"}]);
        let path = format!("{REGISTRATION}/validatingwebhookconfigurations/{}-1", t.unique);
        // v1 takes no unknown side effects, so none can refuse a dry run any more.
        t.patch(&path, crate::harness::media::JSON_PATCH, unknown)
            .await
            .refused(422, "Invalid")
            .because("FieldValueNotSupported", "webhooks[1].sideEffects");
    });
}

#[test]
fn selectors_conditions_and_rules_choose_what_a_webhook_sees() {
    over_the_network(async |t| {
        let all = Webhook::allowing().await;
        let mut hooks = vec![hook(&t, "all", &all)];
        let mut chosen = Vec::new();
        for (name, field, value) in [
            ("object", "objectSelector", json!({"matchLabels": {"matched": "yes"}})),
            (
                "namespace",
                "namespaceSelector",
                json!({"matchLabels": {"kubernetes.io/metadata.name": "elsewhere"}}),
            ),
            (
                "condition",
                "matchConditions",
                json!([{"name": "labelled", "expression": "has(object.metadata.labels) && object.metadata.labels['matched'] == 'yes'"}]),
            ),
            (
                "scope",
                "rules",
                json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"], "scope": "Cluster"}]),
            ),
            (
                "operation",
                "rules",
                json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["configmaps"]}]),
            ),
            (
                "group",
                "rules",
                json!([{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}]),
            ),
            (
                "wildcard",
                "rules",
                json!([{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"], "scope": "Namespaced"}]),
            ),
        ] {
            let webhook = Webhook::allowing().await;
            let mut one = hook(&t, name, &webhook);
            one[field] = value;
            hooks.push(one);
            chosen.push((name, webhook));
        }
        configure(&t, "Validating", "1", &hooks).await;
        all.known_to(&t).await;
        t.post(&t.path("configmaps"), config_map("plain", json!({}))).await.code(201);
        t.post(&t.path("configmaps"), config_map_with("labelled", json!({"labels": {"matched": "yes"}})))
            .await
            .code(201);
        assert_eq!(all.names(), ["plain", "labelled"]);
        for (name, webhook) in chosen {
            let expected: &[&str] = match name {
                "object" | "condition" => &["labelled"],
                "wildcard" => &["plain", "labelled"],
                _ => &[],
            };
            assert_eq!(webhook.names(), expected, "{name}");
        }
    });
}

#[test]
fn a_webhook_sees_equivalent_versions_of_what_it_asked_for() {
    over_the_network(async |t| {
        let webhook = Webhook::allowing().await;
        let mut equivalent = hook(&t, "equivalent", &webhook);
        let rule = |group: &str, version: &str, resource: &str| json!({"apiGroups": [group], "apiVersions": [version], "operations": ["CREATE"], "resources": [resource]});
        equivalent["rules"] =
            json!([rule("autoscaling", "v2", "horizontalpodautoscalers"), rule("", "v1", "configmaps")]);
        configure(&t, "Validating", "1", &[equivalent]).await;
        webhook.known_to(&t).await;
        let body = json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"},
            "spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}}});
        t.post(&t.path("autoscaling/v1/horizontalpodautoscalers"), body).await.code(201);
        let asked = webhook.asked().into_iter().find(|request| request["name"] == "a").expect("it was asked");
        assert_eq!(
            (&asked["kind"]["version"], &asked["requestKind"]["version"]),
            (&json!("v2"), &json!("v1"))
        );
        assert_eq!(asked["object"]["apiVersion"], "autoscaling/v2");
    });
}

#[test]
fn warnings_of_webhooks_reach_the_client() {
    over_the_network(async |t| {
        let webhook = Webhook::start(async |_| json!({"allowed": true, "warnings": ["think again"]})).await;
        configure(&t, "Validating", "1", &[hook(&t, "warn", &webhook)]).await;
        webhook.known_to(&t).await;
        let created = t.post(&t.path("configmaps"), config_map("x", json!({}))).await.code(201);
        assert_eq!(created.warnings(), ["299 - \"think again\""]);
    });
}

#[test]
fn a_mutation_is_validated_like_any_write() {
    over_the_network(async |t| {
        let webhook = Webhook::start(async |request| match request["name"].as_str() {
            Some("invalid") => patch(json!([{"op": "add", "path": "/data/not a key", "value": "1"}])),
            Some("broken") => patch(json!([{"op": "remove", "path": "/data/none"}])),
            _ => json!({"allowed": true}),
        })
        .await;
        configure(&t, "Mutating", "1", &[hook(&t, "mutate", &webhook)]).await;
        webhook.known_to(&t).await;
        t.post(&t.path("configmaps"), config_map("invalid", json!({"n": "1"}))).await.refused(422, "Invalid");
        t.post(&t.path("configmaps"), config_map("broken", json!({"n": "1"})))
            .await
            .refused(500, "InternalError");
    });
}

#[test]
fn configurations_of_webhooks_are_exempt_from_webhooks() {
    over_the_network(async |t| {
        let webhook =
            Webhook::start(async |request| json!({"allowed": request["kind"]["kind"] == "ConfigMap"})).await;
        let mut greedy = hook(&t, "greedy", &webhook);
        greedy["rules"] = json!([
            {"apiGroups": ["admissionregistration.k8s.io"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]},
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]},
        ]);
        configure(&t, "Validating", "1", &[greedy]).await;
        webhook.known_to(&t).await;
        configure(&t, "Validating", "2", &[]).await;
        configure(&t, "Mutating", "2", &[]).await;
        assert!(webhook.asked().iter().all(|request| request["kind"]["kind"] == "ConfigMap"));
    });
}

/// A policy for ConfigMaps and its binding to the test's namespace.
async fn policy(t: &Server, name: &str, spec: Value) {
    let name = format!("{}-{name}", t.unique);
    let mut policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": spec});
    policy["spec"]["matchConstraints"] = json!({
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": t.namespace}}, "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}]});
    t.post(&format!("{REGISTRATION}/validatingadmissionpolicies"), policy).await.code(201);
    let mut binding = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": t.namespace}}}}});
    if !spec["paramKind"].is_null() {
        binding["spec"]["paramRef"] = json!({"name": "none", "parameterNotFoundAction": "Deny"});
    }
    t.post(&format!("{REGISTRATION}/validatingadmissionpolicybindings"), binding).await.code(201);
}

#[test]
fn a_policy_denies_with_invalid_and_says_forbidden() {
    on_a_server(async |t| {
        let spec = json!({"failurePolicy": "Fail", "validations": [
            {"expression": "object.data.n != 'bad'", "message": "n is bad"},
            {"expression": "object.data.n != 'worse'", "messageExpression": "'n is ' + object.data.n", "reason": "Forbidden"},
        ]});
        policy(&t, "p", spec).await;
        let name = format!("{}-p", t.unique);
        let refused = t
            .until("the policy is in force", async || {
                Some(t.post(&t.path("configmaps?dryRun=All"), config_map("x", json!({"n": "bad"}))).await)
                    .filter(|reply| reply.code != 201)
            })
            .await
            .refused(422, "Invalid");
        let expected = format!(
            "configmaps \"x\" is forbidden: ValidatingAdmissionPolicy '{name}' with binding '{name}' denied request: n is bad"
        );
        assert_eq!(refused.text("/message"), expected);
        t.post(&t.path("configmaps"), config_map("x", json!({"n": "worse"})))
            .await
            .refused(403, "Forbidden")
            .saying("n is worse");
        t.post(&t.path("configmaps"), config_map("x", json!({"n": "good"}))).await.code(201);
    });
}

#[test]
fn a_policy_whose_parameters_do_not_exist_denies_all_it_matches() {
    on_a_server(async |t| {
        let kind = json!({"apiVersion": format!("{}.example.com/v1", t.unique), "kind": "None"});
        policy(&t, "p", json!({"paramKind": kind, "validations": [{"expression": "true"}]})).await;
        let refused = t
            .until("the policy is in force", async || {
                Some(t.post(&t.path("configmaps?dryRun=All"), config_map("x", json!({}))).await)
                    .filter(|reply| reply.code != 201)
            })
            .await;
        assert!(
            refused
                .text("/message")
                .contains("failed to configure policy: failed to find resource referenced by paramKind"),
            "{}",
            refused.json
        );
    });
}

#[test]
fn policies_are_exempt_from_policies() {
    on_a_server(async |t| {
        let spec = json!({"validations": [{"expression": "false"}], "matchConstraints": {"resourceRules": [
            {"apiGroups": ["admissionregistration.k8s.io"], "apiVersions": ["v1"], "operations": ["*"],
                "resources": ["validatingadmissionpolicies", "validatingadmissionpolicybindings"]}]}});
        let name = format!("{}-p", t.unique);
        let body = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": spec});
        t.post(&format!("{REGISTRATION}/validatingadmissionpolicies"), body).await.code(201);
        let binding = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]}});
        t.post(&format!("{REGISTRATION}/validatingadmissionpolicybindings"), binding).await.code(201);
        // Nothing tells when a policy that matches nothing is in force; this must hold before and after.
        policy(&t, "marker", json!({"validations": [{"expression": "false"}]})).await;
        t.until("policies are in force", async || {
            (t.post(&t.path("configmaps?dryRun=All"), config_map("x", json!({}))).await.code == 422)
                .then_some(())
        })
        .await;
        t.merge(
            &format!("{REGISTRATION}/validatingadmissionpolicies/{name}"),
            json!({"metadata": {"labels": {"a": "b"}}}),
        )
        .await
        .code(200);
        t.delete(&format!("{REGISTRATION}/validatingadmissionpolicybindings/{name}")).await.code(200);
        t.delete(&format!("{REGISTRATION}/validatingadmissionpolicies/{name}")).await.code(200);
    });
}
