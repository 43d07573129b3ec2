use super::super::token::{BoundKind, BoundObject, DEFAULT_ISSUER, ServiceAccountTokens};
use super::*;

fn rules() -> Rules {
    Rules::new(&[
        json!({"kind": "ClusterRole", "metadata": {"name": "r"}, "rules": [
            {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]},
            {"verbs": ["get"], "nonResourceURLs": ["/metrics"]},
        ]}),
        json!({"kind": "ClusterRoleBinding", "metadata": {"name": "b"},
            "roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": [{"kind": "User", "name": "bob"}]}),
        json!({"kind": "RoleBinding", "metadata": {"name": "c", "namespace": "ns"},
            "roleRef": {"kind": "Role", "name": "gone"}, "subjects": [{"kind": "User", "name": "bob"}]}),
    ])
}

#[test]
fn an_access_review_answers_with_the_reason() {
    let bob = UserInfo::new("bob", ["g"]);
    let pods = json!({"verb": "get", "resource": "pods", "name": "a"});
    let review = json!({"metadata": {}, "spec": {"resourceAttributes": pods}});
    assert_eq!(
        self_subject_access(&review, &rules(), &bob).unwrap(),
        json!({
            "kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {},
            "spec": {"resourceAttributes": pods},
            "status": {
                "allowed": true,
                "reason": "RBAC: allowed by ClusterRoleBinding \"b\" of ClusterRole \"r\" to User \"bob\"",
            },
        })
    );
    for (spec, status) in [
        (json!({"user": "eve", "resourceAttributes": pods}), json!({"allowed": false})),
        (
            json!({"user": "eve", "groups": ["system:masters"], "resourceAttributes": pods}),
            json!({"allowed": true}),
        ),
        (
            json!({"user": "bob", "resourceAttributes": {"verb": "list", "resource": "pods", "namespace": "ns"}}),
            json!({"allowed": false, "reason": "RBAC: role.rbac.authorization.k8s.io \"gone\" not found"}),
        ),
        (
            json!({"user": "eve", "resourceAttributes": {
                "labelSelector": {"requirements": [{"key": "a", "operator": "Exists"}, {"key": "a", "operator": "Zork"}]},
                "fieldSelector": {"requirements": [{"key": "a", "operator": "In", "values": ["x", "y"]}]},
            }}),
            json!({"allowed": false, "evaluationError": "spec.resourceAttributes.fieldSelector ignored due to parse \
                error; spec.resourceAttributes.labelSelector partially ignored due to parse error"}),
        ),
        (
            json!({"groups": ["g"], "nonResourceAttributes": {"verb": "get", "path": "/x"}}),
            json!({"allowed": false}),
        ),
    ] {
        let review = json!({"spec": spec});
        assert_eq!(subject_access(&review, &rules()).unwrap()["status"], status, "{review}");
    }
}

#[test]
fn a_review_must_ask_one_thing_about_somebody() {
    let pods = json!({"verb": "get", "resource": "pods", "namespace": "ns"});
    let path = json!({"verb": "get", "path": "/x"});
    let prefix = ".authorization.k8s.io \"\" is invalid: ";
    let selector = |selector: Value| json!({"user": "u", "resourceAttributes": {"labelSelector": selector}});
    for (review, message) in [
        (
            json!({"spec": {"user": "u"}}),
            "spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified",
        ),
        (
            json!({"spec": {"resourceAttributes": pods}}),
            "spec.user: Invalid value: \"\": at least one of user or group must be specified",
        ),
        (
            json!({"spec": {"user": "u", "resourceAttributes": pods, "nonResourceAttributes": {"path": "/x"}}}),
            "spec.nonResourceAttributes: Invalid value: {\"Path\":\"/x\",\"Verb\":\"\"}: cannot be specified in combination with resourceAttributes",
        ),
        (
            json!({"metadata": {"name": "n", "managedFields": []}, "spec": {"user": "u", "nonResourceAttributes": path}}),
            "metadata: Invalid value: {\"managedFields\":[],\"name\":\"n\"}: must be empty",
        ),
        (
            json!({"spec": selector(json!({}))}),
            "spec.resourceAttributes.labelSelector.requirements: Required value: when spec.resourceAttributes.labelSelector is specified, requirements or rawSelector is required",
        ),
        (
            json!({"spec": selector(json!({"requirements": [{"key": "a", "operator": "In"}]}))}),
            "spec.resourceAttributes.labelSelector.requirements[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
        ),
    ] {
        let error = subject_access(&review, &rules()).unwrap_err();
        assert_eq!((error.code, error.message), (422, format!("{prefix}{message}")));
    }
    let local = |namespace: &str, asked: &str| {
        let review = json!({"metadata": {"namespace": namespace}, "spec": {"user": "bob",
            "resourceAttributes": {"verb": "get", "resource": "pods", "name": "a", "namespace": asked}}});
        local_subject_access(&review, &rules(), "ns")
    };
    assert_eq!(local("ns", "ns").unwrap()["status"]["allowed"], true);
    let error = local("ns", "default").unwrap_err();
    let message =
        "spec.resourceAttributes.namespace: Invalid value: \"default\": must match metadata.namespace";
    assert_eq!((error.code, error.message), (422, format!("{prefix}{message}")));
    let error = local("other", "other").unwrap_err();
    let message = "spec.resourceAttributes.namespace must match namespace: ns";
    assert_eq!((error.code, error.message.as_str()), (400, message));
}

#[test]
fn a_rules_review_lists_resources_and_paths() {
    let review = json!({"spec": {"namespace": "ns"}});
    let answer = self_subject_rules(&review, &rules(), &UserInfo::new("bob", ["g"])).unwrap();
    assert_eq!(
        answer,
        json!({
            "kind": "SelfSubjectRulesReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {}, "spec": {},
            "status": {
                "resourceRules": [
                    {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]},
                ],
                "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/metrics"]}],
                "incomplete": false,
                "evaluationError": "role.rbac.authorization.k8s.io \"gone\" not found",
            },
        })
    );
    let error = self_subject_rules(&json!({}), &rules(), &UserInfo::anonymous()).unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (400, "no namespace on request"));
}

#[test]
fn a_token_review_says_whose_it_is_or_why_not() {
    let lookup =
        |_: BoundKind, _: &str, _: &str| Some(BoundObject { uid: "u".into(), ..BoundObject::default() });
    let now: Timestamp = "2026-06-01T12:00:00Z".parse().unwrap();
    let tokens = ServiceAccountTokens::generate(DEFAULT_ISSUER).unwrap();
    let request = json!({"spec": {"audiences": ["api"]}});
    let issued = tokens.request("ns", "s", &request, now, "id", &lookup).unwrap().object;
    let good = issued["status"]["token"].as_str().unwrap();
    let authenticator = Authenticator::new(tokens).with_token("secret", UserInfo::new("admin", ["g"]));
    let wrong = |target: &str| {
        format!(
            "[invalid bearer token, token audiences [\"api\"] is invalid for the target audiences [\"{target}\"]]"
        )
    };
    let account = json!({
        "username": "system:serviceaccount:ns:s", "uid": "u",
        "groups": ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"],
        "extra": {"authentication.kubernetes.io/credential-id": ["JTI=id"]},
    });
    for (token, audiences, status) in [
        (good, json!(["x", "api"]), json!({"authenticated": true, "user": account, "audiences": ["api"]})),
        (good, json!(null), json!({"user": {}, "error": wrong(DEFAULT_ISSUER)})),
        (good, json!(["other"]), json!({"user": {}, "error": wrong("other")})),
        ("garbage", json!(null), json!({"user": {}, "error": "invalid bearer token"})),
        (
            "secret",
            json!(null),
            json!({"authenticated": true, "audiences": [DEFAULT_ISSUER],
            "user": {"username": "admin", "groups": ["g", "system:authenticated"]}}),
        ),
        ("secret", json!(["other"]), json!({"user": {}, "error": "invalid bearer token"})),
    ] {
        let review = json!({"spec": {"token": token, "audiences": audiences}});
        let answer = super::token(&review, &authenticator, now, &lookup).unwrap();
        assert_eq!(answer["status"], status, "{review}");
        assert_eq!(answer["spec"], review["spec"]);
    }
    let error = super::token(&json!({}), &authenticator, now, &lookup).unwrap_err();
    assert_eq!(
        (error.code, error.message.as_str()),
        (400, "token is required for TokenReview in authentication")
    );
}

#[test]
fn a_self_review_shows_the_user() {
    let now: Timestamp = "2026-06-01T12:00:00.5Z".parse().unwrap();
    let mut bob = UserInfo::new("bob", ["g1"]);
    bob.extra.insert("scopes".to_owned(), vec!["x".to_owned()]);
    assert_eq!(
        self_subject(&bob, now),
        json!({
            "kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1",
            "metadata": {"creationTimestamp": "2026-06-01T12:00:00Z"},
            "status": {"userInfo": {"username": "bob", "groups": ["g1", "system:authenticated"],
                "extra": {"scopes": ["x"]}}},
        })
    );
}
