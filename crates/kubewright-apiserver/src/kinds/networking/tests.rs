use serde_json::{Value, json};

use super::STRATEGIES;
use crate::{field::FieldError, kinds::Strategy};

fn strategy(kind: &str) -> Strategy {
    STRATEGIES.iter().find(|(_, name, _)| *name == kind).unwrap().2
}

fn texts(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn path(path: &Value) -> Value {
    let mut path = path.clone();
    if path.get("backend").is_none() {
        path["backend"] = json!({"service": {"name": "s", "port": {"number": 80}}});
    }
    json!({"spec": {"rules": [{"http": {"paths": [path]}}]}})
}

#[test]
fn paths_of_an_ingress_are_absolute_and_lead_somewhere() {
    const AT: &str = "spec.rules[0].http.paths[0]";
    let cases = [
        (json!({"path": "/", "pathType": "Prefix"}), vec![]),
        (json!({"path": "/"}), vec![format!("{AT}.pathType: Required value: pathType must be specified")]),
        (
            json!({"path": "x", "pathType": "Prefix"}),
            vec![format!("{AT}.path: Invalid value: \"x\": must be an absolute path")],
        ),
        (
            json!({"path": "/a//..", "pathType": "Exact"}),
            vec![
                format!("{AT}.path: Invalid value: \"/a//..\": must not contain '//'"),
                format!("{AT}.path: Invalid value: \"/a//..\": cannot end with '/..'"),
            ],
        ),
        (
            json!({"path": "/", "pathType": "Odd"}),
            vec![format!(
                "{AT}.pathType: Unsupported value: \"Odd\": supported values: \"Exact\", \"ImplementationSpecific\", \"Prefix\""
            )],
        ),
        (
            json!({"pathType": "ImplementationSpecific", "backend": {}}),
            vec![format!("{AT}.backend: Invalid value: \"\": resource or service backend is required")],
        ),
        (
            json!({"path": "/", "pathType": "Exact", "backend": {"service": {"name": "1s", "port": {}}}}),
            vec![format!("{AT}.backend: Required value: port name or number is required")],
        ),
    ];
    for (one, expected) in cases {
        assert_eq!(texts(&(strategy("Ingress").validate)(&path(&one))), expected, "{one}");
    }
    assert_eq!(
        texts(&(strategy("Ingress").validate)(&json!({"spec": {}}))),
        ["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"]
    );
}

#[test]
fn the_class_annotation_of_old_is_warned_of_and_must_agree() {
    let mut ingress = path(&json!({"path": "/", "pathType": "Prefix"}));
    ingress["metadata"] = json!({"annotations": {"kubernetes.io/ingress.class": "a"}});
    assert_eq!(
        (strategy("Ingress").warnings)(&ingress, None),
        [
            "annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead"
        ]
    );
    ingress["spec"]["ingressClassName"] = "b".into();
    assert!((strategy("Ingress").warnings)(&ingress, None).is_empty());
    assert_eq!(
        texts(&(strategy("Ingress").validate)(&ingress)),
        [
            "annotations.kubernetes.io/ingress.class: Invalid value: \"a\": must match `ingressClassName` when both are specified"
        ]
    );
}

#[test]
fn a_policy_says_what_it_restricts() {
    let mut policy = json!({"spec": {"podSelector": {}, "egress": [{"ports": [{"port": 1}]}]}});
    (strategy("NetworkPolicy").default)(&mut policy);
    assert_eq!(
        policy["spec"],
        json!({
            "podSelector": {}, "policyTypes": ["Ingress", "Egress"],
            "egress": [{"ports": [{"port": 1, "protocol": "TCP"}]}],
        })
    );
    let block = |block: Value| json!({"spec": {"ingress": [{"from": [{"ipBlock": block}]}]}});
    let at = "spec.ingress[0].from[0]";
    let check = |policy: &Value| texts(&(strategy("NetworkPolicy").validate)(policy));
    assert!(check(&block(json!({"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}))).is_empty());
    assert_eq!(
        check(&block(json!({"cidr": "zork"}))),
        [format!(
            "{at}.ipBlock.cidr: Invalid value: \"zork\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
        )]
    );
    assert_eq!(
        check(&block(json!({"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16", "10.0.0.0/8"]}))),
        [
            format!(
                "{at}.ipBlock.except[0]: Invalid value: \"11.0.0.0/16\": must be a strict subset of `cidr`"
            ),
            format!(
                "{at}.ipBlock.except[1]: Invalid value: \"10.0.0.0/8\": must be a strict subset of `cidr`"
            ),
        ]
    );
    let mixed =
        json!({"spec": {"ingress": [{"from": [{"ipBlock": {"cidr": "::/0"}, "podSelector": {}}, {}]}]}});
    assert_eq!(
        check(&mixed),
        [
            "spec.ingress[0].from[0]: Forbidden: may not specify both ipBlock and another peer",
            "spec.ingress[0].from[1]: Required value: must specify a peer",
        ]
    );
}

#[test]
fn service_ranges_may_gain_a_second_family_only() {
    let cidr = |cidrs: &[&str]| json!({"spec": {"cidrs": cidrs}});
    let update = |new: &[&str], old: &[&str]| {
        texts(&(strategy("ServiceCIDR").validate_update)(&cidr(new), &cidr(old)))
    };
    assert!(update(&["10.0.0.0/24", "fd00::/64"], &["10.0.0.0/24"]).is_empty());
    assert_eq!(
        update(&["10.0.0.0/24", "10.0.1.0/24"], &["10.0.0.0/24"]),
        [
            "spec.cidrs: Invalid value: [\"10.0.0.0/24\",\"10.0.1.0/24\"]: may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
        ]
    );
    assert_eq!(
        update(&["10.0.2.0/24"], &["10.0.0.0/24"]),
        ["spec.cidrs[0]: Invalid value: \"10.0.2.0/24\": field is immutable"]
    );
    assert_eq!(
        texts(&(strategy("ServiceCIDR").validate)(&cidr(&["FD00::/64"]))),
        ["spec.cidrs[0]: Invalid value: \"FD00::/64\": must be in canonical form (\"fd00::/64\")"]
    );
}
