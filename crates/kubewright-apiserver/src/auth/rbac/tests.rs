use serde_json::{Value, json};

use super::*;

fn role(namespace: &str, name: &str, rules: Value) -> Value {
    let kind = if namespace.is_empty() { "ClusterRole" } else { "Role" };
    json!({"kind": kind, "metadata": {"namespace": namespace, "name": name}, "rules": rules})
}

fn binding(namespace: &str, name: &str, role: (&str, &str), subject: Value) -> Value {
    let kind = if namespace.is_empty() { "ClusterRoleBinding" } else { "RoleBinding" };
    json!({"kind": kind, "metadata": {"namespace": namespace, "name": name},
        "roleRef": {"apiGroup": GROUP, "kind": role.0, "name": role.1}, "subjects": [subject]})
}

fn user(name: &str) -> Value {
    json!({"kind": "User", "name": name})
}

fn target<'a>(group: &'a str, resource: &'a str, namespace: &'a str, name: &'a str) -> Target<'a> {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    Target::Resource(ResourceTarget { group, resource, subresource, namespace, name })
}

#[test]
fn a_rule_allows_by_verb_group_resource_and_name() {
    let rule = |rule: Value| Rule::from_value(&rule);
    let pods = json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "pods/log"]});
    let scale = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*/scale"]});
    let named =
        json!({"verbs": ["get", "list"], "apiGroups": ["*"], "resources": ["*"], "resourceNames": ["a"]});
    let paths = json!({"verbs": ["get"], "nonResourceURLs": ["/api", "/api/*", "/metrics"]});
    let person = UserInfo::new("bob", ["g"]);
    for (rule, verb, target, expected) in [
        (rule(pods.clone()), "get", target("", "pods", "ns", "x"), true),
        (rule(pods.clone()), "delete", target("", "pods", "ns", "x"), false),
        (rule(pods.clone()), "get", target("apps", "pods", "ns", "x"), false),
        (rule(pods.clone()), "get", target("", "pods/log", "ns", "x"), true),
        (rule(pods.clone()), "get", target("", "pods/exec", "ns", "x"), false),
        (rule(pods), "get", Target::Path("/api"), false),
        (rule(scale.clone()), "patch", target("apps", "deployments/scale", "ns", "x"), true),
        (rule(scale.clone()), "patch", target("apps", "deployments", "ns", "x"), false),
        (rule(scale), "patch", target("apps", "deployments/upscale", "ns", "x"), false),
        (rule(named.clone()), "get", target("", "pods", "ns", "a"), true),
        (rule(named.clone()), "get", target("", "pods", "ns", "b"), false),
        (rule(named), "list", target("", "pods", "ns", ""), false),
        (rule(paths.clone()), "get", Target::Path("/api/v1"), true),
        (rule(paths.clone()), "get", Target::Path("/apis"), false),
        (rule(paths.clone()), "get", Target::Path("/metrics/x"), false),
        (rule(paths), "get", target("", "pods", "ns", "a"), false),
    ] {
        let attributes = Attributes { user: &person, verb, target };
        assert_eq!(rule.allows(&attributes), expected, "{rule} {attributes:?}");
    }
}

#[test]
fn a_decision_names_the_binding_that_grants_it() {
    let rules = json!([{"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}]);
    let rules = Rules::new(&[
        role("", "reader", rules.clone()),
        role("ns", "reader", rules),
        binding("", "all", ("ClusterRole", "reader"), json!({"kind": "Group", "name": "watchers"})),
        binding("ns", "some", ("Role", "reader"), json!({"kind": "ServiceAccount", "name": "s"})),
        binding("ns", "more", ("ClusterRole", "reader"), user("bob")),
        binding("ns", "broken", ("Role", "gone"), user("eve")),
        binding("", "broken", ("ClusterRole", "gone"), user("eve")),
        binding(
            "",
            "no-namespace",
            ("ClusterRole", "reader"),
            json!({"kind": "ServiceAccount", "name": "s"}),
        ),
    ]);
    for (name, group, namespace, allowed, reason) in [
        (
            "ann",
            "watchers",
            "",
            true,
            r#"RBAC: allowed by ClusterRoleBinding "all" of ClusterRole "reader" to Group "watchers""#,
        ),
        (
            "system:serviceaccount:ns:s",
            "g",
            "ns",
            true,
            r#"RBAC: allowed by RoleBinding "some/ns" of Role "reader" to ServiceAccount "s/ns""#,
        ),
        ("system:serviceaccount:ns:s", "g", "", false, ""),
        ("system:serviceaccount:other:s", "g", "ns", false, ""),
        (
            "bob",
            "g",
            "ns",
            true,
            r#"RBAC: allowed by RoleBinding "more/ns" of ClusterRole "reader" to User "bob""#,
        ),
        ("bob", "g", "other", false, ""),
        (
            "eve",
            "g",
            "ns",
            false,
            r#"RBAC: [clusterrole.rbac.authorization.k8s.io "gone" not found, role.rbac.authorization.k8s.io "gone" not found]"#,
        ),
        ("eve", "g", "", false, r#"RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found"#),
        ("root", MASTERS, "", true, ""),
    ] {
        let user = UserInfo::new(name, [group]);
        let attributes = Attributes { user: &user, verb: "list", target: target("", "pods", namespace, "") };
        let decision = rules.authorize(&attributes);
        assert_eq!(
            (decision.is_allowed(), decision.reason().as_str()),
            (allowed, reason),
            "{name} {namespace}"
        );
    }
}

#[test]
fn one_changed_object_changes_just_its_rights() {
    let everything = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
    let mut rules = Rules::new(&[
        role("ns", "r", everything.clone()),
        binding("ns", "b", ("Role", "r"), user("ann")),
        binding("ns", "c", ("Role", "r"), user("ann")),
    ]);
    let before = rules.clone();
    let may = |rules: &Rules, name: &str| {
        let user = UserInfo::new(name, ["g"]);
        let attributes = Attributes { user: &user, verb: "get", target: target("", "pods", "ns", "x") };
        rules.authorize(&attributes).is_allowed()
    };
    rules.upsert(&binding("ns", "b", ("Role", "r"), user("bob")));
    assert!(may(&rules, "ann") && may(&rules, "bob"));
    rules.remove("RoleBinding", "ns", "c");
    assert!(!may(&rules, "ann") && may(&rules, "bob"));
    rules.remove("Role", "ns", "r");
    assert!(!may(&rules, "bob"));
    rules.upsert(&role("ns", "r", everything));
    assert!(may(&rules, "bob"));
    rules.remove("RoleBinding", "ns", "b");
    assert!(!may(&rules, "bob"));
    assert!(rules.bindings.is_empty());
    assert!(may(&before, "ann") && !may(&before, "bob"), "a clone must not see later changes");
}

#[test]
fn a_refusal_reads_like_the_real_one() {
    let person = UserInfo::new("bob", ["g"]);
    for (verb, target, message) in [
        (
            "list",
            target("", "pods", "ns", ""),
            r#"pods is forbidden: User "bob" cannot list resource "pods" in API group "" in the namespace "ns""#,
        ),
        (
            "get",
            target("apps", "deployments/scale", "ns", "d"),
            r#"deployments.apps "d" is forbidden: User "bob" cannot get resource "deployments/scale" in API group "apps" in the namespace "ns""#,
        ),
        (
            "list",
            target("", "nodes", "", ""),
            r#"nodes is forbidden: User "bob" cannot list resource "nodes" in API group "" at the cluster scope"#,
        ),
        ("get", Target::Path("/metrics"), r#"forbidden: User "bob" cannot get path "/metrics""#),
        ("get", Target::Path("/<b>"), r#"forbidden: User "bob" cannot get path "/&lt;b&gt;""#),
    ] {
        let error = Rules::default().check(&Attributes { user: &person, verb, target }).unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (403, message));
    }
    let attributes =
        Attributes { user: &person, verb: "get", target: target("apps", "deployments", "ns", "d") };
    let details = attributes.forbidden("").details.unwrap();
    assert_eq!(
        (details.group.as_str(), details.kind.as_str(), details.name.as_str()),
        ("apps", "deployments", "d")
    );
}

fn escalation(held: Value, object: &Value, old: Option<&Value>) -> Result<(), (u16, String)> {
    let rules = Rules::new(&[
        role("", "held", held),
        binding("", "held", ("ClusterRole", "held"), user("bob")),
        role("ns", "reader", json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}])),
    ]);
    let user = UserInfo::new("bob", ["g"]);
    let metadata = object.get("metadata").unwrap();
    let name = if old.is_some() { text(metadata, "name") } else { "" };
    let write = Write { user: &user, namespace: text(metadata, "namespace"), name, object, old };
    rules.check_escalation(&write).map_err(|error| (error.code, error.message))
}

#[test]
fn nobody_grants_what_they_do_not_hold() {
    let prefix = "is forbidden: user \"bob\" (groups=[\"g\" \"system:authenticated\"]) is attempting to grant RBAC \
                  permissions not currently held:\n";
    let pods = json!([{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "*/status"]}]);
    for (asked, missing) in [
        (json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods", "nodes/status"]}]), ""),
        (json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]}]), ""),
        (
            json!([{"verbs": ["get", "delete", "create"], "apiGroups": ["", "apps"], "resources": ["pods"]}]),
            "{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"delete\" \"create\"]}\n\
             {APIGroups:[\"apps\"], Resources:[\"pods\"], Verbs:[\"get\" \"delete\" \"create\"]}",
        ),
        (
            json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]),
            "{APIGroups:[\"*\"], Resources:[\"*\"], Verbs:[\"*\"]}",
        ),
        (
            json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["b", "a"]}]),
            "{APIGroups:[\"\"], Resources:[\"secrets\"], ResourceNames:[\"a\"], Verbs:[\"get\"]}\n\
             {APIGroups:[\"\"], Resources:[\"secrets\"], ResourceNames:[\"b\"], Verbs:[\"get\"]}",
        ),
        (
            json!([{"verbs": ["get"], "nonResourceURLs": ["/x"]}]),
            "{NonResourceURLs:[\"/x\"], Verbs:[\"get\"]}",
        ),
    ] {
        let result = escalation(pods.clone(), &role("ns", "new", asked), None);
        let expected = format!("roles.rbac.authorization.k8s.io \"new\" {prefix}{missing}");
        assert_eq!(result, if missing.is_empty() { Ok(()) } else { Err((403, expected)) });
    }
    let named = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]}]);
    let unnamed = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]);
    assert!(escalation(named, &role("ns", "new", unnamed), None).is_err());
}

#[test]
fn the_verbs_escalate_and_bind_lift_the_check() {
    let all = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
    let allow = |verb: &str, resource: &str| json!([{"verbs": [verb], "apiGroups": [GROUP], "resources": [resource]}]);
    let (big, bind) = (role("ns", "big", all), binding("ns", "b", ("Role", "reader"), user("eve")));
    for (held, object, expected) in [
        (allow("escalate", "roles"), &big, None),
        (allow("escalate", "clusterroles"), &big, Some(403)),
        (allow("bind", "roles"), &bind, None),
        (allow("bind", "clusterroles"), &bind, Some(403)),
        (json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]), &bind, None),
    ] {
        assert_eq!(escalation(held.clone(), object, None).err().map(|error| error.0), expected, "{held}");
    }
    let dangling = binding("ns", "b", ("ClusterRole", "none"), user("eve"));
    let missing = "rolebindings.rbac.authorization.k8s.io \"none\" not found".to_owned();
    assert_eq!(escalation(json!([]), &dangling, None), Err((404, missing)));
}

#[test]
fn the_garbage_collector_needs_no_rights_it_frees() {
    let mut old = role("ns", "big", json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]));
    old["metadata"]["finalizers"] = json!(["x.io/y"]);
    let mut new = old.clone();
    new["metadata"]["finalizers"] = json!([]);
    assert_eq!(escalation(json!([]), &new, Some(&old)), Ok(()));
    new["metadata"]["labels"] = json!({"a": "b"});
    assert!(escalation(json!([]), &new, Some(&old)).is_err());
}

#[test]
fn only_a_cluster_admin_may_aggregate() {
    let mut object = role("", "agg", json!([]));
    object["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]});
    let resources = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "resourceNames": ["x"]});
    let message = "clusterroles.rbac.authorization.k8s.io \"agg\" is forbidden: must have cluster-admin privileges \
                   to use the aggregationRule";
    assert_eq!(escalation(json!([resources]), &object, None), Err((403, message.to_owned())));
    let paths = json!({"verbs": ["*"], "nonResourceURLs": ["*"]});
    let resources = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
    assert_eq!(escalation(json!([resources, paths]), &object, None), Ok(()));
}

#[test]
fn an_aggregating_role_gathers_by_label_in_name_order_without_repetition() {
    let rule = |verb: &str| json!({"verbs": [verb], "apiGroups": [""], "resources": ["pods"]});
    let labelled = |name: &str, labels: Value, rules: Value| {
        let mut object = role("", name, rules);
        object["metadata"]["labels"] = labels;
        object
    };
    for (selector, expected) in [
        (json!({"matchLabels": {"to": "x"}}), vec!["get", "list"]),
        (json!({"matchExpressions": [{"key": "to", "operator": "In", "values": ["y"]}]}), vec!["watch"]),
        (json!({"matchExpressions": [{"key": "to", "operator": "Exists"}]}), vec!["get", "list", "watch"]),
        (json!({"matchExpressions": [{"key": "to", "operator": "DoesNotExist"}]}), vec!["delete"]),
        (
            json!({"matchLabels": {"to": "x"}, "matchExpressions": [{"key": "to", "operator": "NotIn", "values": ["x"]}]}),
            vec![],
        ),
        (json!({"matchExpressions": [{"key": "to", "operator": "Zork"}]}), vec![]),
    ] {
        let mut own = labelled("agg", json!({"to": "x"}), json!([rule("deletecollection")]));
        own["aggregationRule"] = json!({"clusterRoleSelectors": [selector]});
        let rules = Rules::new(&[
            own,
            labelled("c", json!({"to": "y"}), json!([rule("watch")])),
            labelled("b", json!({"to": "x"}), json!([rule("get"), rule("list")])),
            labelled("a", json!({"to": "x"}), json!([rule("get")])),
            labelled("d", json!({}), json!([rule("delete")])),
        ]);
        let stale = rules.stale_aggregates();
        assert_eq!(stale[0].0, "agg");
        let verbs: Vec<&str> = stale[0].1.iter().map(|rule| rule.verbs[0].as_str()).collect();
        assert_eq!(verbs, expected, "{selector}");
    }
}

#[test]
fn objects_of_any_shape_are_taken_without_harm() {
    for object in [
        json!(null),
        json!({"kind": "Role", "metadata": 1, "rules": {"a": 1}}),
        json!({"kind": "ClusterRole", "metadata": {"name": 1}, "rules": [1, {"verbs": "x"}], "aggregationRule": []}),
        json!({"kind": "RoleBinding", "roleRef": [], "subjects": [1, {"kind": "Zork"}, {}]}),
    ] {
        let mut rules = Rules::default();
        rules.upsert(&object);
        let user = UserInfo::new("bob", ["g"]);
        let write = Write { user: &user, namespace: "", name: "", object: &object, old: Some(&object) };
        let _ = rules.check_escalation(&write);
    }
}
