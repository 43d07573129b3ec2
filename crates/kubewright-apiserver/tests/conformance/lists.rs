//! Lists: revisions, pages and selectors.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use crate::{
    definition::Definition,
    harness::{Server, on_a_server, with},
    manifests::{config_map, job, lease, pod_on, secret, service},
};

/// Secrets `s0` to `s4`.
async fn five_secrets(t: &Server) -> String {
    for index in 0..5 {
        t.post(&t.path("secrets"), secret(&format!("s{index}"), json!({}))).await.code(201);
    }
    t.path("secrets")
}

#[test]
fn one_revision_rises_over_all_resources() {
    on_a_server(async |t| {
        let widgets = t.define(Definition::free_form()).await;
        let mut revisions = Vec::new();
        for (path, body) in [
            (t.path("configmaps"), config_map("a", json!({}))),
            (t.path("coordination.k8s.io/v1/leases"), lease("a")),
            (widgets.within(&t.namespace), widgets.object("a", json!({}))),
            (t.path("secrets"), secret("a", json!({}))),
        ] {
            revisions.push(t.post(&path, body).await.code(201).revision().parse::<u64>().expect("a number"));
        }
        assert!(revisions.is_sorted_by(|a, b| a < b), "{revisions:?}");
        let list = t.get(&t.path("configmaps")).await.revision().parse::<u64>().expect("a number");
        assert!(list >= revisions[3]);
    });
}

#[test]
fn items_of_a_built_in_list_do_not_repeat_their_kind_and_custom_ones_do() {
    on_a_server(async |t| {
        t.post(&t.path("configmaps"), config_map("a", json!({}))).await.code(201);
        let list = t.get(&t.path("configmaps")).await.code(200);
        assert_eq!((list.text("/kind"), list.text("/apiVersion")), ("ConfigMapList", "v1"));
        assert_eq!((list.at("/items/0/kind"), list.at("/items/0/apiVersion")), (&Value::Null, &Value::Null));
        let widgets = t.define(Definition::free_form()).await;
        t.post(&widgets.within(&t.namespace), widgets.object("a", json!({}))).await.code(201);
        let list = t.get(&widgets.within(&t.namespace)).await.code(200);
        assert_eq!((list.text("/kind"), list.text("/items/0/kind")), ("WidgetList", "Widget"));
    });
}

#[test]
fn any_revision_will_do_for_zero_and_the_limit_is_ignored() {
    on_a_server(async |t| {
        let path = five_secrets(&t).await;
        let list = t
            .until("the cache has caught up", async || {
                let list = t.get(&with(&path, &[("resourceVersion", "0"), ("limit", "2")])).await;
                (list.names().len() == 5).then_some(list)
            })
            .await;
        assert_eq!(list.at("/metadata/continue"), &Value::Null);
    });
}

#[test]
fn a_revision_means_not_older_than_it() {
    on_a_server(async |t| {
        let path = five_secrets(&t).await;
        let old = t.get(&format!("{path}/s0")).await.revision().to_owned();
        let list = t.get(&with(&path, &[("resourceVersion", &old)])).await.code(200);
        assert!(list.revision().parse::<u64>().unwrap() >= old.parse::<u64>().unwrap());
        let newest = t.get(&format!("{path}/s4")).await.revision().to_owned();
        let parameters = [("resourceVersion", newest.as_str()), ("resourceVersionMatch", "NotOlderThan")];
        assert_eq!(t.get(&with(&path, &parameters)).await.code(200).names().len(), 5);
    });
}

#[test]
fn an_exact_revision_shows_what_was() {
    on_a_server(async |t| {
        let path = five_secrets(&t).await;
        let then = t.revision_of(&path).await;
        t.post(&path, secret("later", json!({}))).await.code(201);
        t.delete(&format!("{path}/s0")).await.code(200);
        let list = t
            .get(&with(&path, &[("resourceVersion", &then), ("resourceVersionMatch", "Exact")]))
            .await
            .code(200);
        assert_eq!(list.names(), ["s0", "s1", "s2", "s3", "s4"]);
        assert_eq!(list.revision(), then);
    });
}

#[test]
fn a_revision_match_needs_a_revision_it_can_match() {
    on_a_server(async |t| {
        let path = five_secrets(&t).await;
        for parameters in [
            &[("resourceVersionMatch", "Exact")][..],
            &[("resourceVersionMatch", "NotOlderThan")],
            &[("resourceVersionMatch", "Exact"), ("resourceVersion", "0")],
            &[("resourceVersionMatch", "Some"), ("resourceVersion", "5")],
            &[("resourceVersionMatch", "NotOlderThan"), ("resourceVersion", "5"), ("continue", "abc")],
        ] {
            t.get(&with(&path, parameters)).await.refused(422, "Invalid");
        }
    });
}

#[test]
fn a_garbage_revision_is_a_bad_request_for_a_list() {
    on_a_server(async |t| {
        t.get(&with(&t.path("secrets"), &[("resourceVersion", "garbage")])).await.refused(400, "BadRequest");
    });
}

#[test]
fn pages_are_cut_by_the_limit_and_count_what_remains() {
    on_a_server(async |t| {
        let path = five_secrets(&t).await;
        let first = t.get(&with(&path, &[("limit", "2")])).await.code(200);
        assert_eq!((first.names(), first.at("/metadata/remainingItemCount")), (vec!["s0", "s1"], &json!(3)));
        let token = first.text("/metadata/continue");
        let second = t.get(&with(&path, &[("limit", "2"), ("continue", token)])).await.code(200);
        assert_eq!(
            (second.names(), second.at("/metadata/remainingItemCount")),
            (vec!["s2", "s3"], &json!(1))
        );
        let token = second.text("/metadata/continue");
        let third = t.get(&with(&path, &[("limit", "2"), ("continue", token)])).await.code(200);
        assert_eq!(third.names(), ["s4"]);
        assert_eq!(
            (third.at("/metadata/continue"), third.at("/metadata/remainingItemCount")),
            (&Value::Null, &Value::Null)
        );
    });
}

#[test]
fn later_pages_show_the_revision_of_the_first() {
    on_a_server(async |t| {
        let path = five_secrets(&t).await;
        let first = t.get(&with(&path, &[("limit", "2")])).await.code(200);
        t.post(&path, secret("s2b", json!({}))).await.code(201);
        t.delete(&format!("{path}/s3")).await.code(200);
        t.merge(&format!("{path}/s4"), json!({"metadata": {"labels": {"new": "yes"}}})).await.code(200);
        let rest = t.get(&with(&path, &[("continue", first.text("/metadata/continue"))])).await.code(200);
        assert_eq!(rest.names(), ["s2", "s3", "s4"]);
        assert_eq!(rest.at("/items/2/metadata/labels"), &Value::Null);
        assert_eq!(rest.revision(), first.revision());
    });
}

#[test]
fn nothing_is_counted_under_a_selector() {
    on_a_server(async |t| {
        let path = t.path("secrets");
        for index in 0..4 {
            t.post(&path, secret(&format!("s{index}"), json!({"k": "v"}))).await.code(201);
        }
        let first = t.get(&with(&path, &[("limit", "1"), ("labelSelector", "k=v")])).await.code(200);
        assert_eq!((first.names(), first.at("/metadata/remainingItemCount")), (vec!["s0"], &Value::Null));
        let token = first.text("/metadata/continue");
        let rest = t.get(&with(&path, &[("labelSelector", "k=v"), ("continue", token)])).await.code(200);
        assert_eq!(rest.names(), ["s1", "s2", "s3"]);
    });
}

#[test]
fn an_expired_token_is_gone_and_offers_a_fresh_one() {
    on_a_server(async |t| {
        let path = five_secrets(&t).await;
        let first = t.get(&with(&path, &[("limit", "2")])).await.code(200);
        // The same place at a revision that is long gone: what a client has in hand that paused for too long.
        let bytes = URL_SAFE_NO_PAD.decode(first.text("/metadata/continue")).expect("base64");
        let mut token: Value = serde_json::from_slice(&bytes).expect("JSON");
        token["rv"] = t.expired_revision().parse::<u64>().expect("a number").into();
        let token = URL_SAFE_NO_PAD.encode(token.to_string());
        let gone = t.get(&with(&path, &[("limit", "2"), ("continue", &token)])).await.refused(410, "Expired");
        let fresh = gone.text("/metadata/continue");
        let rest = t.get(&with(&path, &[("continue", fresh)])).await.code(200);
        assert_eq!(rest.names(), ["s2", "s3", "s4"]);
    });
}

#[test]
fn a_token_must_not_come_with_a_revision() {
    on_a_server(async |t| {
        let path = five_secrets(&t).await;
        let first = t.get(&with(&path, &[("limit", "2")])).await.code(200);
        let parameters =
            [("continue", first.text("/metadata/continue")), ("resourceVersion", first.revision())];
        t.get(&with(&path, &parameters)).await.refused(400, "BadRequest");
    });
}

#[test]
fn label_selectors_are_understood_in_full() {
    on_a_server(async |t| {
        let path = t.path("secrets");
        for (name, labels) in [
            ("o1", json!({"a": "1", "b": "x"})),
            ("o2", json!({"a": "2"})),
            ("o3", json!({"a": "3", "b": "x"})),
            ("o4", json!({"b": "y", "e": ""})),
            ("o5", json!({"example.com/q": "1"})),
        ] {
            t.post(&path, secret(name, labels)).await.code(201);
        }
        for (selector, expected) in [
            ("", &["o1", "o2", "o3", "o4", "o5"][..]),
            ("a=1", &["o1"]),
            ("a==1", &["o1"]),
            ("a!=1", &["o2", "o3", "o4", "o5"]),
            ("a in (1,2)", &["o1", "o2"]),
            ("a notin (1,2)", &["o3", "o4", "o5"]),
            ("a", &["o1", "o2", "o3"]),
            ("!a", &["o4", "o5"]),
            ("a=1,b=x", &["o1"]),
            ("a>1", &["o2", "o3"]),
            ("a<3", &["o1", "o2"]),
            ("e=", &["o4"]),
            ("e in (,z)", &["o4"]),
            (" a  in ( 1 , 3 ) , b ", &["o1", "o3"]),
            ("example.com/q=1", &["o5"]),
        ] {
            let list = t.get(&with(&path, &[("labelSelector", selector)])).await.code(200);
            assert_eq!(list.names(), expected, "{selector}");
        }
        for selector in ["a in", "a=1=2", "a b", "-a", "a in (1", "=1", "a>x"] {
            t.get(&with(&path, &[("labelSelector", selector)])).await.refused(400, "BadRequest");
        }
    });
}

#[test]
fn every_resource_is_selected_by_name_and_namespace() {
    on_a_server(async |t| {
        let path = five_secrets(&t).await;
        for (selector, expected) in [
            ("metadata.name=s1", &["s1"][..]),
            ("metadata.name==s1", &["s1"]),
            ("metadata.name!=s1,metadata.name!=s0", &["s2", "s3", "s4"]),
            ("metadata.namespace=elsewhere", &[]),
            ("metadata.name=none", &[]),
        ] {
            let list = t.get(&with(&path, &[("fieldSelector", selector)])).await.code(200);
            assert_eq!(list.names(), expected, "{selector}");
        }
        let selector = format!("metadata.namespace={},metadata.name=s2", t.namespace);
        assert_eq!(
            t.get(&with("/api/v1/secrets", &[("fieldSelector", &selector)])).await.code(200).names(),
            ["s2"]
        );
        let widgets = t.define(Definition::free_form()).await;
        t.post(&widgets.within(&t.namespace), widgets.object("a", json!({}))).await.code(201);
        t.post(&widgets.within(&t.namespace), widgets.object("b", json!({}))).await.code(201);
        let list =
            t.get(&with(&widgets.everywhere(), &[("fieldSelector", "metadata.name=b")])).await.code(200);
        assert_eq!(list.names(), ["b"]);
    });
}

#[test]
fn built_in_kinds_are_selected_by_their_own_fields() {
    on_a_server(async |t| {
        let mut pod = pod_on("p", "node-1");
        pod["spec"]["restartPolicy"] = json!("Never");
        pod["spec"]["serviceAccountName"] = json!("builder");
        pod["spec"]["schedulerName"] = json!("mine");
        pod["spec"]["hostNetwork"] = json!(true);
        t.post(&t.path("pods"), pod).await.code(201);
        let status = json!({"status": {"phase": "Running", "podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}],
            "hostIP": "10.1.2.1"}});
        t.merge(&t.path("pods/p/status"), status).await.code(200);
        t.post(&t.path("services"), service("s")).await.code(201);
        let mut typed = secret("s", json!({}));
        typed["type"] = json!("example.com/mine");
        t.post(&t.path("secrets"), typed).await.code(201);
        t.post(&t.path("batch/v1/jobs"), job("j")).await.code(201);
        let cluster_ip = t.get(&t.path("services/s")).await.text("/spec/clusterIP").to_owned();
        let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "reason": "Because", "type": "Warning",
            "involvedObject": {"kind": "Pod", "name": "p", "namespace": t.namespace, "uid": "1", "apiVersion": "v1",
                "resourceVersion": "7", "fieldPath": "spec"},
            "source": {"component": "me"}, "reportingComponent": "reporter", "reportingInstance": "one"});
        t.post(&t.path("events"), event).await.code(201);
        let controller = json!({"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "r"},
            "spec": {"replicas": 0, "selector": {"app": "r"}, "template": crate::manifests::pod_template("r")}});
        t.post(&t.path("replicationcontrollers"), controller).await.code(201);
        let cluster_ip = format!("spec.clusterIP={cluster_ip}");
        for (resource, selector, no_match) in [
            ("pods", "spec.nodeName=node-1", "spec.nodeName=node-2"),
            ("pods", "spec.restartPolicy=Never", "spec.restartPolicy=Always"),
            ("pods", "spec.schedulerName=mine", "spec.schedulerName=default-scheduler"),
            ("pods", "spec.serviceAccountName=builder", "spec.serviceAccountName=default"),
            ("pods", "spec.hostNetwork=true", "spec.hostNetwork=false"),
            ("pods", "status.phase=Running", "status.phase!=Running"),
            ("pods", "status.podIP=10.1.2.3", "status.podIP=10.1.2.4"),
            ("secrets", "type=example.com/mine", "type=Opaque"),
            ("services", "spec.type=ClusterIP", "spec.type=NodePort"),
            ("services", &cluster_ip, "spec.clusterIP=None"),
            ("batch/v1/jobs", "status.successful=0", "status.successful=1"),
            ("replicationcontrollers", "status.replicas=0", "status.replicas=1"),
            ("events", "involvedObject.kind=Pod", "involvedObject.kind=Service"),
            ("events", "involvedObject.name=p", "involvedObject.name=q"),
            ("events", "involvedObject.uid=1", "involvedObject.uid=2"),
            ("events", "involvedObject.apiVersion=v1", "involvedObject.apiVersion=v2"),
            ("events", "involvedObject.resourceVersion=7", "involvedObject.resourceVersion=8"),
            ("events", "involvedObject.fieldPath=spec", "involvedObject.fieldPath=status"),
            ("events", "reason=Because", "reason=Why"),
            ("events", "reportingComponent=reporter", "reportingComponent=me"),
            ("events", "source=me", "source=reporter"),
            ("events", "type=Warning", "type=Normal"),
        ] {
            let list = async |selector: &str| {
                t.get(&with(&t.path(resource), &[("fieldSelector", selector)])).await.code(200)
            };
            assert_eq!(list(selector).await.names().len(), 1, "{resource} {selector}");
            assert_eq!(list(no_match).await.names().len(), 0, "{resource} {no_match}");
        }
        // Known as a field, though no pod has a value in it.
        t.get(&with(&t.path("pods"), &[("fieldSelector", "status.podIPs=10.1.2.3")])).await.code(200);
        t.post(&t.path("pods"), crate::manifests::pod("nominated")).await.code(201);
        t.merge(&t.path("pods/nominated/status"), json!({"status": {"nominatedNodeName": "node-2"}}))
            .await
            .code(200);
        let nominated = with(&t.path("pods"), &[("fieldSelector", "status.nominatedNodeName=node-2")]);
        assert_eq!(t.get(&nominated).await.code(200).names(), ["nominated"]);
    });
}

#[test]
fn cluster_scoped_kinds_are_selected_by_their_own_fields() {
    on_a_server(async |t| {
        let by = async |path: &str, field: &str| {
            let selector = format!("metadata.name={},{field}", t.unique);
            t.get(&with(path, &[("fieldSelector", &selector)])).await.code(200).names().len()
        };
        assert_eq!(by("/api/v1/namespaces", "status.phase=Active").await, 1);
        assert_eq!(by("/api/v1/namespaces", "status.phase=Terminating").await, 0);
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": t.unique}, "spec": {"unschedulable": true}});
        t.post("/api/v1/nodes", node).await.code(201);
        assert_eq!(by("/api/v1/nodes", "spec.unschedulable=true").await, 1);
        assert_eq!(by("/api/v1/nodes", "spec.unschedulable=false").await, 0);
    });
}

#[test]
fn custom_resources_are_selected_by_the_fields_they_declare() {
    on_a_server(async |t| {
        let properties = json!({"color": {"type": "string"}, "size": {"type": "integer"}});
        let definition = Definition::of_properties(properties)
            .version("selectableFields", json!([{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.size"}]));
        let widgets = t.define(definition).await;
        let path = widgets.within(&t.namespace);
        t.post(&path, widgets.object("a", json!({"color": "red", "size": 1}))).await.code(201);
        t.post(&path, widgets.object("b", json!({"color": "blue", "size": 2}))).await.code(201);
        t.post(&path, widgets.object("c", json!({}))).await.code(201);
        for (selector, expected) in [
            ("spec.color=red", &["a"][..]),
            ("spec.color!=red", &["b", "c"]),
            ("spec.size=2", &["b"]),
            ("spec.color=", &["c"]),
        ] {
            let list = t.get(&with(&path, &[("fieldSelector", selector)])).await.code(200);
            assert_eq!(list.names(), expected, "{selector}");
        }
    });
}

#[test]
fn a_field_that_is_not_selectable_is_refused_and_never_ignored() {
    on_a_server(async |t| {
        let widgets = t.define(Definition::free_form()).await;
        for (path, selector) in [
            (t.path("configmaps"), "data.a=1"),
            (t.path("pods"), "spec.image=x"),
            (t.path("secrets"), "metadata.labels=x"),
            (t.path("events"), "message=x"),
            (widgets.within(&t.namespace), "spec.color=red"),
        ] {
            t.get(&with(&path, &[("fieldSelector", selector)]))
                .await
                .refused(400, "BadRequest")
                .saying("field");
        }
    });
}

#[test]
fn a_list_over_all_namespaces_is_in_order_of_namespace_and_name() {
    on_a_server(async |t| {
        let other = format!("{}b", t.namespace);
        t.create_namespace(&other).await;
        for namespace in [&other, &t.namespace] {
            for name in ["y", "x"] {
                let path = crate::harness::in_namespace(namespace, "secrets");
                t.post(&path, secret(name, json!({"run": t.unique}))).await.code(201);
            }
        }
        let list = t
            .get(&with("/api/v1/secrets", &[("labelSelector", &format!("run={}", t.unique))]))
            .await
            .code(200);
        let items = list.json["items"].as_array().expect("items");
        let order: Vec<_> =
            items.iter().map(|i| (&i["metadata"]["namespace"], &i["metadata"]["name"])).collect();
        let (a, b) = (json!(t.namespace), json!(other));
        assert_eq!(order, [(&a, &json!("x")), (&a, &json!("y")), (&b, &json!("x")), (&b, &json!("y"))]);
    });
}
