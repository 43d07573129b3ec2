//! Requests to a whole server whose webhooks are real ones: another task behind TLS.

use std::time::Duration;

use ::http::Method;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::{
    ApiServer, Route,
    webhook::tests::{Hooks, call},
};

/// A webhook for ConfigMaps, changed as `change` says.
fn webhook(hooks: &Hooks, name: &str, change: Value) -> Value {
    let mut webhook = json!({
        "name": format!("{name}.example.com"), "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": hooks.client_config(name),
        "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
    });
    crate::patch::merge::apply(&mut webhook, change);
    webhook
}

fn allow() -> Value {
    json!({"allowed": true})
}

fn patch(operations: &Value) -> Value {
    json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(operations.to_string())})
}

async fn configure(server: &ApiServer, kind: &str, name: &str, webhooks: Vec<Value>) {
    let object = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{kind}WebhookConfiguration"),
        "metadata": {"name": name}, "webhooks": webhooks,
    });
    let path = format!("/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations", kind.to_lowercase());
    let (code, answer, _) = call(server, Method::POST, &path, &object).await;
    assert_eq!(code, 201, "{answer}");
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}})
}

#[tokio::test]
async fn validating_webhooks_see_what_mutating_ones_have_made_of_an_object() {
    let hooks = Hooks::start(|name, _| match name {
        "mutate" => patch(&json!([{"op": "add", "path": "/data/m", "value": "1"}])),
        _ => json!({"allowed": true, "warnings": ["careful"]}),
    })
    .await;
    let server = ApiServer::start().await.unwrap();
    configure(&server, "Validating", "v", vec![webhook(&hooks, "validate", json!({}))]).await;
    configure(&server, "Mutating", "m", vec![webhook(&hooks, "mutate", json!({}))]).await;
    let (code, created, warnings) = call(&server, Method::POST, MAPS, &map("x")).await;
    assert_eq!((code, &created["data"]), (201, &json!({"a": "1", "m": "1"})));
    assert_eq!(warnings, ["299 - \"careful\""]);
    let reviews = hooks.reviews.lock();
    let [(_, first), (_, second)] = reviews.as_slice() else { panic!("two calls, not {}", reviews.len()) };
    assert_eq!(first["object"]["data"], json!({"a": "1"}));
    assert!(first["object"]["metadata"].get("uid").is_none());
    assert_eq!(second["object"]["data"], json!({"a": "1", "m": "1"}));
    assert_eq!(second["object"]["metadata"]["uid"], created["metadata"]["uid"]);
    assert_eq!(second["name"], "x");
    assert_eq!(second["operation"], "CREATE");
    assert_eq!(second["oldObject"], Value::Null);
    assert_eq!(second["userInfo"]["username"], "alice");
    assert_eq!(second["options"], json!({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}));
}

#[tokio::test]
async fn a_denial_carries_the_code_and_reason_of_the_webhook() {
    let hooks = Hooks::start(|_, request| match request["operation"].as_str() {
        Some("DELETE") => {
            json!({"allowed": false, "status": {"message": "keep it", "code": 409, "reason": "Precious"}})
        }
        _ => allow(),
    })
    .await;
    let server = ApiServer::start().await.unwrap();
    configure(&server, "Validating", "v", vec![webhook(&hooks, "check", json!({}))]).await;
    assert_eq!(call(&server, Method::POST, MAPS, &map("x")).await.0, 201);
    let (code, status, _) = call(&server, Method::DELETE, &format!("{MAPS}/x"), &Value::Null).await;
    assert_eq!((code, &status["reason"]), (409, &json!("Precious")));
    assert_eq!(status["message"], "admission webhook \"check.example.com\" denied the request: keep it");
    assert_eq!(call(&server, Method::GET, &format!("{MAPS}/x"), &Value::Null).await.0, 200);
    let (code, _, _) = call(&server, Method::DELETE, MAPS, &Value::Null).await;
    assert_eq!(code, 409);
    let reviews = hooks.reviews.lock();
    let (_, last) = reviews.last().unwrap();
    assert!(last.get("name").is_none(), "one of a collection is not asked about by name");
    assert_eq!(last["oldObject"]["kind"], "ConfigMap");
}

#[tokio::test]
async fn webhooks_are_asked_by_configuration_name_and_again_if_the_object_changed_since() {
    let hooks = Hooks::start(|name, _| match name {
        "one" | "three" => patch(&json!([{"op": "add", "path": format!("/data/{name}"), "value": "1"}])),
        _ => allow(),
    })
    .await;
    let server = ApiServer::start().await.unwrap();
    let again = || json!({"reinvocationPolicy": "IfNeeded"});
    configure(
        &server,
        "Mutating",
        "b",
        vec![webhook(&hooks, "three", again()), webhook(&hooks, "four", again())],
    )
    .await;
    configure(
        &server,
        "Mutating",
        "a",
        vec![webhook(&hooks, "one", again()), webhook(&hooks, "two", json!({}))],
    )
    .await;
    assert_eq!(call(&server, Method::POST, MAPS, &map("x")).await.0, 201);
    assert_eq!(hooks.asked(), ["one", "two", "three", "four", "one"]);
}

#[tokio::test]
async fn only_requests_that_rules_and_selectors_and_conditions_match_are_asked_about() {
    let hooks = Hooks::start(|_, _| json!({"allowed": false})).await;
    let server = ApiServer::start().await.unwrap();
    let webhooks = vec![
        webhook(&hooks, "label", json!({"objectSelector": {"matchLabels": {"checked": "yes"}}})),
        webhook(
            &hooks,
            "space",
            json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "other"}}}),
        ),
        webhook(
            &hooks,
            "name",
            json!({"matchConditions": [{"name": "n", "expression": "object.metadata.name == 'named'"}]}),
        ),
        webhook(
            &hooks,
            "status",
            json!({"rules": [{
            "operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/status"]}]}),
        ),
        webhook(
            &hooks,
            "cluster",
            json!({"rules": [{
            "operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "scope": "Cluster"}]}),
        ),
    ];
    configure(&server, "Validating", "v", webhooks).await;
    assert_eq!(call(&server, Method::POST, MAPS, &map("x")).await.0, 201);
    let mut labelled = map("y");
    labelled["metadata"]["labels"] = json!({"checked": "yes"});
    assert_eq!(call(&server, Method::POST, MAPS, &labelled).await.0, 400);
    assert_eq!(call(&server, Method::POST, MAPS, &map("named")).await.0, 400);
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
    assert_eq!(call(&server, Method::POST, "/api/v1/namespaces", &namespace).await.0, 400);
    assert_eq!(hooks.asked(), ["label", "name", "cluster"]);
}

#[tokio::test]
async fn a_webhook_that_is_not_there_is_fatal_or_passed_over_as_it_says_itself() {
    let hooks = Hooks::start(|_, _| allow()).await;
    let server = ApiServer::start().await.unwrap();
    let dead = json!({"clientConfig": {"url": "https://127.0.0.1:1/x"}, "failurePolicy": "Ignore"});
    configure(&server, "Validating", "ignored", vec![webhook(&hooks, "ignored", dead.clone())]).await;
    assert_eq!(call(&server, Method::POST, MAPS, &map("x")).await.0, 201);
    let mut fatal = dead;
    fatal["failurePolicy"] = "Fail".into();
    configure(&server, "Validating", "fatal", vec![webhook(&hooks, "fatal", fatal)]).await;
    let (code, status, _) = call(&server, Method::POST, MAPS, &map("y")).await;
    assert_eq!((code, &status["reason"]), (500, &json!("InternalError")));
    assert_eq!(
        status["message"],
        "Internal error occurred: failed calling webhook \"fatal.example.com\": failed to call webhook: Post \
         \"https://127.0.0.1:1/x?timeout=10s\": dial tcp 127.0.0.1:1: connect: connection refused"
    );
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_never_answers_is_given_up_after_its_timeout() {
    let hooks = Hooks::start(|_, _| Value::Null).await;
    let server = ApiServer::start().await.unwrap();
    configure(&server, "Validating", "v", vec![webhook(&hooks, "slow", json!({"timeoutSeconds": 3}))]).await;
    let begin = tokio::time::Instant::now();
    let (code, status, _) = call(&server, Method::POST, MAPS, &map("x")).await;
    assert_eq!(code, 500);
    assert!(
        status["message"].as_str().unwrap().ends_with("?timeout=3s\": context deadline exceeded"),
        "{status}"
    );
    assert!(begin.elapsed() >= Duration::from_secs(3));
}

#[tokio::test]
async fn a_service_is_where_the_resolver_says() {
    let hooks = Hooks::start(|_, _| json!({"allowed": false})).await;
    let address = hooks.address;
    let resolver = move |namespace: &str, name: &str, port: u16| {
        ((namespace, name, port) == ("default", "checks", 443)).then_some(Route::Address(address))
    };
    let server = ApiServer::builder().service_resolver(resolver).start().await.unwrap();
    let service = |name: &str| json!({"clientConfig": {"url": null, "service": {"namespace": "default", "name": name, "path": "/svc"}}});
    configure(&server, "Validating", "v", vec![webhook(&hooks, "svc", service("unknown"))]).await;
    let (code, status, _) = call(&server, Method::POST, MAPS, &map("x")).await;
    assert_eq!(code, 500);
    let expected = "Post \"https://unknown.default.svc:443/svc?timeout=10s\": service \"unknown\" not found";
    assert!(status["message"].as_str().unwrap().ends_with(expected), "{status}");
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/v";
    assert_eq!(call(&server, Method::DELETE, path, &Value::Null).await.0, 200);
    configure(&server, "Validating", "v", vec![webhook(&hooks, "svc", service("checks"))]).await;
    assert_eq!(call(&server, Method::POST, MAPS, &map("x")).await.0, 400);
    assert_eq!(hooks.asked(), ["svc"]);
}

#[tokio::test]
async fn broken_managed_fields_are_put_back_and_owners_counted_once() {
    let hooks = Hooks::start(|_, _| {
        let owner = json!({"apiVersion": "v1", "kind": "X", "name": "n", "uid": "u"});
        patch(&json!([
            {"op": "replace", "path": "/metadata/managedFields", "value": [{"manager": "x"}]},
            {"op": "add", "path": "/metadata/ownerReferences", "value": [owner, owner]},
        ]))
    })
    .await;
    let server = ApiServer::start().await.unwrap();
    configure(&server, "Mutating", "m", vec![webhook(&hooks, "m", json!({}))]).await;
    let (code, created, warnings) = call(&server, Method::POST, MAPS, &map("x")).await;
    assert_eq!(code, 201, "{created}");
    assert_eq!(created["metadata"]["managedFields"][0]["operation"], "Update");
    assert_eq!(created["metadata"]["ownerReferences"].as_array().unwrap().len(), 1);
    assert!(
        warnings[0].contains(".metadata.managedFields was in an invalid state after admission"),
        "{warnings:?}"
    );
    assert!(warnings[1].contains("duplicate entries after mutating admission happens"), "{warnings:?}");
}

#[tokio::test]
async fn a_fork_goes_its_own_way_with_its_webhooks() {
    let hooks = Hooks::start(|_, _| json!({"allowed": false})).await;
    let server = ApiServer::start().await.unwrap();
    configure(&server, "Validating", "v", vec![webhook(&hooks, "v", json!({}))]).await;
    let fork = server.fork();
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/v";
    assert_eq!(call(&fork, Method::DELETE, path, &Value::Null).await.0, 200);
    assert_eq!(call(&fork, Method::POST, MAPS, &map("x")).await.0, 201);
    assert_eq!(call(&server, Method::POST, MAPS, &map("x")).await.0, 400);
}

async fn policy(server: &ApiServer, name: &str, mut spec: Value, binding: Value) {
    if spec.get("matchConstraints").is_none() {
        spec["matchConstraints"] = json!({"resourceRules": [{
            "operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]});
    }
    let base = "/apis/admissionregistration.k8s.io/v1";
    let object = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name}, "spec": spec,
    });
    let (code, answer, _) =
        call(server, Method::POST, &format!("{base}/validatingadmissionpolicies"), &object).await;
    assert_eq!(code, 201, "{answer}");
    let mut bound = json!({"policyName": name, "validationActions": ["Deny"]});
    crate::patch::merge::apply(&mut bound, binding);
    let object = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name}, "spec": bound,
    });
    let (code, answer, _) =
        call(server, Method::POST, &format!("{base}/validatingadmissionpolicybindings"), &object).await;
    assert_eq!(code, 201, "{answer}");
}

#[tokio::test]
async fn a_policy_denies_with_its_message_its_expression_or_its_rule() {
    let server = ApiServer::start().await.unwrap();
    let validations = json!([
        {"expression": "object.metadata.name != 'a'", "message": "no a"},
        {"expression": "variables.name != 'b'", "messageExpression": "'no ' + variables.name + ' for ' + request.userInfo.username"},
        {"expression": "object.metadata.name != 'c'", "reason": "Forbidden"},
        {"expression": "object.metadata.name != 'd' || object.data.missing == 'x'"},
    ]);
    let variables = json!([{"name": "name", "expression": "string(object.metadata.name)"}]);
    policy(&server, "p", json!({"variables": variables, "validations": validations}), json!({})).await;
    for (name, code, message) in [
        ("a", 422, "no a"),
        ("b", 422, "no b for alice"),
        ("c", 403, "failed expression: object.metadata.name != 'c'"),
        (
            "d",
            422,
            "expression 'object.metadata.name != 'd' || object.data.missing == 'x'' resulted in error: no such key: missing",
        ),
    ] {
        let (found, status, _) = call(&server, Method::POST, MAPS, &map(name)).await;
        assert_eq!(found, code);
        let denied = "ValidatingAdmissionPolicy 'p' with binding 'p' denied request";
        assert_eq!(status["message"], format!("configmaps \"{name}\" is forbidden: {denied}: {message}"));
        assert_eq!(status["details"]["causes"], json!([{"message": format!("{denied}: {message}")}]));
    }
    assert_eq!(call(&server, Method::POST, MAPS, &map("e")).await.0, 201);
}

#[tokio::test]
async fn a_policy_may_only_warn() {
    let server = ApiServer::start().await.unwrap();
    let spec = json!({"validations": [{"expression": "false", "message": "hm"}]});
    policy(&server, "p", spec, json!({"validationActions": ["Warn"]})).await;
    let (code, _, warnings) = call(&server, Method::POST, MAPS, &map("x")).await;
    assert_eq!(code, 201);
    assert_eq!(
        warnings,
        ["299 - \"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'p': hm\""]
    );
}

#[tokio::test]
async fn parameters_come_from_the_objects_a_binding_chooses() {
    let server = ApiServer::start().await.unwrap();
    let kind = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    for (name, most) in [("two", "2"), ("one", "1")] {
        let mut limit = map(name);
        limit["metadata"]["labels"] = json!({"limit": "yes"});
        limit["data"] = json!({"max": most});
        assert_eq!(call(&server, Method::POST, MAPS, &limit).await.0, 201);
    }
    let spec = || {
        json!({"paramKind": kind, "validations": [{
            "expression": "size(object.data) <= int(params.data.max)", "messageExpression": "'at most ' + params.data.max"}]})
    };
    let action = |mut reference: Value| {
        reference["parameterNotFoundAction"] = "Deny".into();
        json!({"paramRef": reference, "matchResources": {"objectSelector": {"matchLabels": {"by": "name"}}}})
    };
    policy(&server, "named", spec(), action(json!({"name": "two", "namespace": "default"}))).await;
    let mut chosen = action(json!({"selector": {"matchLabels": {"limit": "yes"}}}));
    chosen["matchResources"]["objectSelector"]["matchLabels"]["by"] = "selector".into();
    policy(&server, "chosen", spec(), chosen).await;
    let mut missing = action(json!({"name": "nowhere"}));
    missing["matchResources"]["objectSelector"]["matchLabels"]["by"] = "nothing".into();
    policy(&server, "missing", spec(), missing).await;
    let sized = |by: &str, size: usize| {
        let mut object = map("x");
        object["metadata"]["labels"] = json!({"by": by});
        object["data"] = (0..size).map(|index| (index.to_string(), json!("1"))).collect();
        object
    };
    let dry = format!("{MAPS}?dryRun=All");
    let denial = async |object: Value| {
        call(&server, Method::POST, &dry, &object).await.1["message"].as_str().map(str::to_owned)
    };
    assert_eq!(denial(sized("name", 2)).await, None);
    assert!(denial(sized("name", 3)).await.unwrap().ends_with("at most 2"));
    assert!(denial(sized("selector", 2)).await.unwrap().ends_with("at most 1"));
    assert!(denial(sized("nothing", 0)).await.unwrap().ends_with(
        "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
    ));
}

#[tokio::test]
async fn a_policy_whose_parameters_have_no_kind_denies_all_it_matches_until_there_is_one() {
    let server = ApiServer::start().await.unwrap();
    let spec = json!({
        "paramKind": {"apiVersion": "example.com/v1", "kind": "Limit"}, "validations": [{"expression": "true"}],
    });
    policy(&server, "p", spec, json!({})).await;
    let (code, status, _) = call(&server, Method::POST, MAPS, &map("x")).await;
    assert_eq!(code, 422);
    assert_eq!(
        status["message"],
        "configmaps \"x\" is forbidden: ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: \
         failed to find resource referenced by paramKind: 'example.com/v1, Kind=Limit'"
    );
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "limits.example.com"},
        "spec": {"group": "example.com", "scope": "Cluster", "names": {"plural": "limits", "kind": "Limit"}, "versions": [{
            "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]},
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(call(&server, Method::POST, path, &definition).await.0, 201);
    assert_eq!(call(&server, Method::POST, MAPS, &map("x")).await.0, 201);
}

#[tokio::test]
async fn variables_cost_once_and_too_much_is_too_much() {
    let server = ApiServer::start().await.unwrap();
    let digits = "[0,1,2,3,4,5,6,7,8,9]";
    let nested = (0..5).fold("true".to_owned(), |inner, level| format!("{digits}.all(x{level}, {inner})"));
    let once = "variables.heavy && ".repeat(30) + "true";
    let spec = json!({"variables": [{"name": "heavy", "expression": nested}], "validations": [{"expression": once}]});
    policy(&server, "p", spec, json!({})).await;
    assert_eq!(call(&server, Method::POST, MAPS, &map("x")).await.0, 201);
    let validations: Vec<Value> = (0..60).map(|_| json!({"expression": nested})).collect();
    policy(&server, "q", json!({"validations": validations}), json!({})).await;
    let (code, status, _) = call(&server, Method::POST, MAPS, &map("y")).await;
    assert_eq!(code, 422);
    let expected =
        "validation failed due to running out of cost budget, no further validation rules will be run";
    assert!(status["message"].as_str().unwrap().ends_with(expected), "{status}");
}

#[tokio::test]
async fn expressions_that_do_not_compile_are_refused_with_their_policy() {
    let server = ApiServer::start().await.unwrap();
    let spec = json!({
        "matchConstraints": {"resourceRules": [{
            "operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]},
        "matchConditions": [{"name": "m", "expression": "variables.n == 1"}],
        "variables": [{"name": "n", "expression": "1"}],
        "validations": [{"expression": "variables.n"}, {"expression": "params.x", "messageExpression": "1"}],
    });
    let object = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "p"}, "spec": spec,
    });
    let path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    let (code, status, _) = call(&server, Method::POST, path, &object).await;
    assert_eq!(code, 422);
    let causes: Vec<(&str, &str)> = status["details"]["causes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cause| {
            (cause["field"].as_str().unwrap(), cause["message"].as_str().unwrap().lines().next().unwrap())
        })
        .collect();
    assert_eq!(causes[0].0, "spec.matchConditions[0].expression");
    assert!(causes[0].1.contains("undeclared reference to 'variables'"), "{}", causes[0].1);
    assert_eq!(
        causes[1],
        (
            "spec.validations[0].expression",
            "Invalid value: \"variables.n\": must evaluate to bool but got int"
        )
    );
    assert!(causes[2].1.contains("undeclared reference to 'params'"), "{}", causes[2].1);
    assert_eq!(
        causes[3],
        (
            "spec.validations[1].messageExpression",
            "Invalid value: \"1\": must evaluate to string but got int"
        )
    );
}
