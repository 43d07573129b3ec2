use serde_json::{Value, json};

use super::STRATEGIES;
use crate::{field::FieldError, kinds::Strategy};

fn strategy(kind: &str) -> Strategy {
    STRATEGIES.iter().find(|(_, name, _)| *name == kind).unwrap().2
}

fn texts(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn configuration() -> Value {
    json!({"webhooks": [{
        "name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {"namespace": "n", "name": "s"}},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
    }]})
}

#[test]
fn webhooks_fail_closed_match_equivalent_versions_and_wait_ten_seconds() {
    let mut object = configuration();
    (strategy("MutatingWebhookConfiguration").default)(&mut object);
    assert_eq!(
        object["webhooks"][0],
        json!({
            "name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"service": {"namespace": "n", "name": "s", "port": 443}},
            "failurePolicy": "Fail", "matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {},
            "reinvocationPolicy": "Never", "timeoutSeconds": 10,
            "rules": [{
                "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "scope": "*",
            }],
        })
    );
    assert!((strategy("MutatingWebhookConfiguration").validate)(&object).is_empty());
}

#[test]
fn what_is_wrong_with_a_webhook_is_said_in_the_known_words() {
    let check = |change: fn(&mut Value)| {
        let mut object = configuration();
        change(&mut object["webhooks"][0]);
        let strategy = strategy("ValidatingWebhookConfiguration");
        (strategy.default)(&mut object);
        texts(&(strategy.validate)(&object))
    };
    assert_eq!(
        check(|hook| hook["name"] = "noqual".into()),
        [
            "webhooks[0].name: Invalid value: \"noqual\": should be a domain with at least three segments separated by dots"
        ]
    );
    assert_eq!(
        check(|hook| hook["sideEffects"] = "Some".into()),
        [
            "webhooks[0].sideEffects: Unsupported value: \"Some\": supported values: \"None\", \"NoneOnDryRun\""
        ]
    );
    assert_eq!(
        check(|hook| hook["clientConfig"] = json!({})),
        ["webhooks[0].clientConfig: Required value: exactly one of url or service is required"]
    );
    assert_eq!(
        check(|hook| hook["clientConfig"] = json!({"url": "http://u@/p?q#f"})),
        [
            "webhooks[0].clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: https://host[/path]",
            "webhooks[0].clientConfig.url: Invalid value: \"\": host must be specified; desired format: https://host[/path]",
            "webhooks[0].clientConfig.url: Invalid value: \"u\": user information is not permitted in the URL",
            "webhooks[0].clientConfig.url: Invalid value: \"f\": fragments are not permitted in the URL",
            "webhooks[0].clientConfig.url: Invalid value: \"q\": query parameters are not permitted in the URL",
        ]
    );
    assert_eq!(
        check(|hook| {
            hook["rules"][0]["resources"] = json!(["*", "pods", "pods/*", "pods/status"]);
            hook["rules"][0]["apiGroups"] = json!(["*", "apps"]);
            hook["timeoutSeconds"] = 31.into();
            hook["admissionReviewVersions"] = json!(["v9"]);
        }),
        [
            "webhooks[0].rules[0].apiGroups: Invalid value: [\"*\",\"apps\"]: if '*' is present, must not specify other API groups",
            "webhooks[0].rules[0].resources[3]: Invalid value: \"pods/status\": if 'pods/*' is present, must not specify pods/status",
            "webhooks[0].rules[0].resources: Invalid value: [\"*\",\"pods\",\"pods/*\",\"pods/status\"]: if '*' is present, must not specify other resources without subresources",
            "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds",
            "webhooks[0].admissionReviewVersions: Invalid value: [\"v9\"]: must include at least one of v1, v1beta1",
        ]
    );
}

#[test]
fn a_policy_needs_something_to_match_and_to_say() {
    let strategy = strategy("ValidatingAdmissionPolicy");
    let mut policy =
        json!({"metadata": {"name": "p"}, "spec": {"variables": [{"name": "in", "expression": "1"}]}});
    (strategy.default)(&mut policy);
    assert_eq!(
        texts(&(strategy.validate)(&policy)),
        [
            "spec.matchConstraints: Required value",
            "spec.variables[0].name: Invalid value: \"in\": must be a valid CEL identifier",
            "spec.validations: Required value: validations or auditAnnotations must contain at least one item",
            "spec.auditAnnotations: Required value: validations or auditAnnotations must contain at least one item",
        ]
    );
    let rule =
        json!({"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]});
    policy["spec"] = json!({
        "matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "true"}],
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
    });
    (strategy.default)(&mut policy);
    assert!((strategy.validate)(&policy).is_empty());
    assert_eq!(policy["spec"]["matchConstraints"]["resourceRules"][0]["scope"], "*");
    assert_eq!(policy["spec"]["failurePolicy"], "Fail");
}

#[test]
fn a_binding_acts_in_a_way_that_makes_sense() {
    let check =
        |spec: Value| texts(&(strategy("ValidatingAdmissionPolicyBinding").validate)(&json!({"spec": spec})));
    assert!(check(json!({"policyName": "p", "validationActions": ["Deny", "Audit"]})).is_empty());
    assert_eq!(
        check(json!({"policyName": "p", "validationActions": ["Deny", "Warn"]})),
        [
            "spec.validationActions: Invalid value: [\"Deny\",\"Warn\"]: must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)"
        ]
    );
    assert_eq!(
        check(json!({"policyName": "p", "paramRef": {}})),
        [
            "spec.paramRef: Required value: one of name or selector must be specified",
            "spec.paramRef.parameterNotFoundAction: Required value",
            "spec.validationActions: Required value: at least one validation action is required",
        ]
    );
}
