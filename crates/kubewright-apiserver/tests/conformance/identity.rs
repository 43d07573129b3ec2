//! Who asks, and what they may do.

use http::Method;
use serde_json::{Value, json};

use crate::{
    harness::{Server, media, on_a_server, over_the_network, with},
    manifests::{config_map, role, role_binding},
};

const REVIEW: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

fn self_review() -> Value {
    json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
}

/// A service account and a token for it.
async fn account(t: &Server, name: &str) -> String {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
    t.post(&t.path("serviceaccounts"), account).await.code(201);
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let issued = t.post(&t.path(&format!("serviceaccounts/{name}/token")), request).await.code(201);
    issued.text("/status/token").to_owned()
}

/// Gives rights in the test's namespace to a user of that name.
async fn grant(t: &Server, user: &str, rules: Value) {
    t.post(&t.path("rbac.authorization.k8s.io/v1/roles"), role(user, rules)).await.code(201);
    let subject = json!({"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"});
    t.post(&t.path("rbac.authorization.k8s.io/v1/rolebindings"), role_binding(user, "Role", user, subject))
        .await
        .code(201);
}

/// Sends a request as another user.
async fn as_user(t: &Server, user: &str, method: Method, path: &str, body: Value) -> crate::reply::Reply {
    let headers = [("impersonate-user", user), ("content-type", media::JSON)];
    if body.is_null() {
        t.send(method, path, &headers[..1], "").await
    } else {
        t.send(method, path, &headers, body).await
    }
}

/// Waits until a user may read a path: a real server learns of rights a moment later.
async fn allowed(t: &Server, user: &str, path: &str) {
    t.until("the rights are known", async || {
        (as_user(t, user, Method::GET, path, Value::Null).await.code == 200).then_some(())
    })
    .await;
}

fn rule(verbs: Value, resources: Value) -> Value {
    json!({"apiGroups": [""], "verbs": verbs, "resources": resources})
}

#[test]
fn a_bearer_token_tells_who_asks() {
    over_the_network(async |t| {
        let me = t.post(REVIEW, self_review()).await.code(201);
        assert_eq!(me.text("/status/userInfo/username"), t.username());
        assert!(
            me.at("/status/userInfo/groups").as_array().unwrap().contains(&json!("system:authenticated"))
        );
        t.with_token(Some("garbage")).get("/api/v1/namespaces").await.refused(401, "Unauthorized");
    });
}

#[test]
fn without_a_token_it_is_nobody_who_may_do_little() {
    over_the_network(async |t| {
        let nobody = t.with_token(None);
        assert_eq!(nobody.get_as("/healthz", "*/*").await.code(200).body(), "ok");
        nobody.get("/version").await.code(200);
        let refused = nobody.get("/api/v1/namespaces").await.refused(403, "Forbidden");
        assert_eq!(
            refused.text("/message"),
            "namespaces is forbidden: User \"system:anonymous\" cannot list resource \"namespaces\" in API group \"\" at the cluster scope"
        );
    });
}

#[test]
fn a_service_account_is_known_by_its_token_and_its_groups() {
    over_the_network(async |t| {
        let token = account(&t, "robot").await;
        let robot = t.with_token(Some(&token));
        let me = robot.post(REVIEW, self_review()).await.code(201);
        assert_eq!(
            me.text("/status/userInfo/username"),
            format!("system:serviceaccount:{}:robot", t.namespace)
        );
        let mut groups: Vec<&str> =
            me.at("/status/userInfo/groups").as_array().unwrap().iter().filter_map(Value::as_str).collect();
        groups.sort_unstable();
        let own = format!("system:serviceaccounts:{}", t.namespace);
        assert_eq!(groups, ["system:authenticated", "system:serviceaccounts", &own]);
        robot.get(&t.path("configmaps")).await.refused(403, "Forbidden");
    });
}

#[test]
fn a_token_dies_with_its_service_account() {
    over_the_network(async |t| {
        let token = account(&t, "robot").await;
        let robot = t.with_token(Some(&token));
        robot.post(REVIEW, self_review()).await.code(201);
        t.delete(&t.path("serviceaccounts/robot")).await.code(200);
        // A real server remembers a good token for ten seconds.
        t.until("the token is dead", async || {
            (robot.post(REVIEW, self_review()).await.code == 401).then_some(())
        })
        .await;
    });
}

#[test]
fn a_refusal_says_who_can_not_do_what_where() {
    on_a_server(async |t| {
        let user = format!("u-{}", t.unique);
        let path = t.path("apps/v1/deployments/a/scale");
        let refused = as_user(&t, &user, Method::GET, &path, Value::Null).await.refused(403, "Forbidden");
        assert_eq!(
            refused.text("/message"),
            format!(
                "deployments.apps \"a\" is forbidden: User \"{user}\" cannot get resource \"deployments/scale\" in API group \"apps\" in the namespace \"{}\"",
                t.namespace
            )
        );
        let refused =
            as_user(&t, &user, Method::GET, "/metrics", Value::Null).await.refused(403, "Forbidden");
        assert_eq!(
            refused.text("/message"),
            format!("forbidden: User \"{user}\" cannot get path \"/metrics\"")
        );
    });
}

#[test]
fn rights_add_up() {
    on_a_server(async |t| {
        let (reader, user) = (format!("r-{}", t.unique), format!("u-{}", t.unique));
        let path = t.path("configmaps");
        grant(&t, &user, json!([rule(json!(["get", "list"]), json!(["configmaps"]))])).await;
        grant(&t, &reader, json!([rule(json!(["create"]), json!(["configmaps"]))])).await;
        allowed(&t, &user, &path).await;
        as_user(&t, &user, Method::POST, &path, config_map("a", json!({}))).await.refused(403, "Forbidden");
        let subject = json!({"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"});
        let binding = role_binding("more", "Role", &reader, subject);
        t.post(&t.path("rbac.authorization.k8s.io/v1/rolebindings"), binding).await.code(201);
        t.until("the second role counts", async || {
            (as_user(&t, &user, Method::POST, &path, config_map("a", json!({}))).await.code == 201)
                .then_some(())
        })
        .await;
        as_user(&t, &user, Method::GET, &path, Value::Null).await.code(200);
        as_user(&t, &user, Method::DELETE, &t.path("configmaps/a"), Value::Null)
            .await
            .refused(403, "Forbidden");
        as_user(&t, &user, Method::GET, "/api/v1/configmaps", Value::Null).await.refused(403, "Forbidden");
    });
}

#[test]
fn a_role_may_name_the_objects_it_is_about() {
    on_a_server(async |t| {
        let user = format!("u-{}", t.unique);
        for name in ["a", "b"] {
            t.post(&t.path("configmaps"), config_map(name, json!({}))).await.code(201);
        }
        let mut named = rule(json!(["get", "list", "watch"]), json!(["configmaps"]));
        named["resourceNames"] = json!(["a"]);
        grant(&t, &user, json!([named])).await;
        allowed(&t, &user, &t.path("configmaps/a")).await;
        as_user(&t, &user, Method::GET, &t.path("configmaps/b"), Value::Null).await.refused(403, "Forbidden");
        as_user(&t, &user, Method::GET, &t.path("configmaps"), Value::Null).await.refused(403, "Forbidden");
        let one = with(&t.path("configmaps"), &[("fieldSelector", "metadata.name=a")]);
        as_user(&t, &user, Method::GET, &one, Value::Null).await.code(200);
    });
}

#[test]
fn nobody_grants_what_they_do_not_have() {
    on_a_server(async |t| {
        let user = format!("u-{}", t.unique);
        let roles = t.path("rbac.authorization.k8s.io/v1/roles");
        let manage = json!({"apiGroups": ["rbac.authorization.k8s.io"], "verbs": ["*"], "resources": ["rolebindings"]});
        let create = json!({"apiGroups": ["rbac.authorization.k8s.io"], "verbs": ["get", "list", "create", "update", "patch"], "resources": ["roles"]});
        grant(&t, &user, json!([rule(json!(["get"]), json!(["configmaps"])), manage, create])).await;
        allowed(&t, &user, &roles).await;
        let try_role = async |name: &str, rules: Value| {
            as_user(&t, &user, Method::POST, &roles, role(name, rules)).await
        };
        let refused = try_role("more", json!([rule(json!(["get", "delete"]), json!(["secrets"]))]))
            .await
            .refused(403, "Forbidden");
        refused.saying("is attempting to grant RBAC permissions not currently held");
        try_role("less", json!([rule(json!(["get"]), json!(["configmaps"]))])).await.code(201);
        let secrets = json!([rule(json!(["get"]), json!(["secrets"]))]);
        t.post(&roles, role("secrets", secrets)).await.code(201);
        let subject = json!({"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"});
        let bindings = t.path("rbac.authorization.k8s.io/v1/rolebindings");
        t.until("the role is known", async || {
            let reply = as_user(
                &t,
                &user,
                Method::POST,
                &bindings,
                role_binding("b", "Role", "secrets", subject.clone()),
            )
            .await;
            (reply.code == 403).then_some(())
        })
        .await;
        as_user(&t, &user, Method::POST, &bindings, role_binding("b", "Role", "less", subject.clone()))
            .await
            .code(201);
    });
}

#[test]
fn the_role_of_a_binding_never_changes() {
    on_a_server(async |t| {
        let subject = json!({"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"});
        let path = t.path("rbac.authorization.k8s.io/v1/rolebindings");
        t.post(&path, role_binding("b", "ClusterRole", "view", subject)).await.code(201);
        let refused =
            t.merge(&format!("{path}/b"), json!({"roleRef": {"name": "edit"}})).await.refused(422, "Invalid");
        refused.because("FieldValueInvalid", "roleRef").saying("cannot change roleRef");
    });
}

#[test]
fn access_reviews_answer_what_would_be_allowed() {
    on_a_server(async |t| {
        let user = format!("u-{}", t.unique);
        grant(&t, &user, json!([rule(json!(["get"]), json!(["configmaps"]))])).await;
        t.post(&t.path("configmaps"), config_map("a", json!({}))).await.code(201);
        allowed(&t, &user, &t.path("configmaps/a")).await;
        let attributes =
            |verb: &str| json!({"namespace": t.namespace, "verb": verb, "resource": "configmaps"});
        let review = |kind: &str, spec: Value| json!({"apiVersion": "authorization.k8s.io/v1", "kind": kind, "metadata": {}, "spec": spec});
        for (verb, expected) in [("get", true), ("delete", false)] {
            let spec = json!({"user": user, "resourceAttributes": attributes(verb)});
            let reply = t
                .post(
                    "/apis/authorization.k8s.io/v1/subjectaccessreviews",
                    review("SubjectAccessReview", spec.clone()),
                )
                .await
                .code(201);
            assert_eq!(reply.at("/status/allowed"), expected, "{verb}");
            let mut local = review("LocalSubjectAccessReview", spec);
            local["metadata"] = json!({"namespace": t.namespace});
            let reply =
                t.post(&t.path("authorization.k8s.io/v1/localsubjectaccessreviews"), local).await.code(201);
            assert_eq!(reply.at("/status/allowed"), expected, "{verb}");
            let own = review("SelfSubjectAccessReview", json!({"resourceAttributes": attributes(verb)}));
            let reply = as_user(
                &t,
                &user,
                Method::POST,
                "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                own,
            )
            .await
            .code(201);
            assert_eq!(reply.at("/status/allowed"), expected, "{verb}");
        }
        let rules = review("SelfSubjectRulesReview", json!({"namespace": t.namespace}));
        let reply =
            as_user(&t, &user, Method::POST, "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", rules)
                .await
                .code(201);
        let rules = reply.at("/status/resourceRules").as_array().unwrap();
        assert!(
            rules
                .iter()
                .any(|rule| rule["resources"] == json!(["configmaps"]) && rule["verbs"] == json!(["get"])),
            "{rules:?}"
        );
    });
}

#[test]
fn a_token_review_tells_whose_token_it_is() {
    on_a_server(async |t| {
        let token = account(&t, "robot").await;
        let review = |token: &str, audiences: Value| json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token, "audiences": audiences}});
        let path = "/apis/authentication.k8s.io/v1/tokenreviews";
        let reply = t.post(path, review(&token, json!([]))).await.code(201);
        assert_eq!(reply.at("/status/authenticated"), true);
        assert_eq!(
            reply.text("/status/user/username"),
            format!("system:serviceaccount:{}:robot", t.namespace)
        );
        let reply = t.post(path, review(&token, json!(["someone else"]))).await.code(201);
        assert_eq!(reply.at("/status/authenticated"), &Value::Null);
        let reply = t.post(path, review("garbage", json!([]))).await.code(201);
        assert_eq!(reply.at("/status/authenticated"), &Value::Null);
        assert!(reply.at("/status/error").is_string());
    });
}

#[test]
fn impersonation_takes_user_groups_and_extras() {
    on_a_server(async |t| {
        let headers = [
            ("content-type", media::JSON),
            ("impersonate-user", "bob"),
            ("impersonate-group", "g1"),
            ("impersonate-group", "g2"),
            ("impersonate-uid", "u1"),
            ("impersonate-extra-scopes", "x"),
        ];
        let me = t.send(Method::POST, REVIEW, &headers, self_review()).await.code(201);
        let expected = json!({"username": "bob", "uid": "u1", "groups": ["g1", "g2", "system:authenticated"], "extra": {"scopes": ["x"]}});
        assert_eq!(me.at("/status/userInfo"), &expected);
        let name = format!("system:serviceaccount:{}:x", t.namespace);
        let me = as_user(&t, &name, Method::POST, REVIEW, self_review()).await.code(201);
        let groups = json!([
            "system:serviceaccounts",
            format!("system:serviceaccounts:{}", t.namespace),
            "system:authenticated"
        ]);
        assert_eq!(me.at("/status/userInfo/groups"), &groups);
    });
}

#[test]
fn impersonation_needs_the_right_to_it() {
    over_the_network(async |t| {
        let token = account(&t, "robot").await;
        let robot = t.with_token(Some(&token));
        let refused =
            as_user(&robot, "bob", Method::GET, "/version", Value::Null).await.refused(403, "Forbidden");
        refused.saying("cannot impersonate");
        let refused = t.send(Method::GET, "/version", &[("impersonate-group", "g")], "").await;
        refused.refused(400, "BadRequest").saying("without impersonating a user name");
    });
}

#[test]
fn the_roles_of_every_cluster_are_there() {
    on_a_server(async |t| {
        for name in ["cluster-admin", "admin", "edit", "view", "system:discovery", "system:basic-user"] {
            let found =
                t.get(&format!("/apis/rbac.authorization.k8s.io/v1/clusterroles/{name}")).await.code(200);
            assert_eq!(found.at("/metadata/labels/kubernetes.io~1bootstrapping"), "rbac-defaults", "{name}");
        }
        let admin = t.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin").await;
        assert_eq!(admin.at("/rules/0"), &json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}));
    });
}
