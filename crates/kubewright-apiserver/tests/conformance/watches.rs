//! Watches: what is replayed, what follows, and how a stream ends.

use serde_json::{Value, json};

use crate::{
    definition::Definition,
    harness::{media, on_a_server, with},
    manifests::{config_map, secret},
    watch::assert_events,
};

#[test]
fn a_watch_is_a_chunked_stream_of_one_object_a_line() {
    on_a_server(async |t| {
        let path = t.path("secrets");
        let revision = t.revision_of(&path).await;
        let mut watch = t.watch(&with(&path, &[("resourceVersion", &revision)])).await;
        assert_eq!(watch.headers["content-type"], media::JSON);
        assert!(!watch.headers.contains_key("content-length"));
        t.post(&path, secret("a", json!({}))).await.code(201);
        t.merge(&format!("{path}/a"), json!({"metadata": {"labels": {"n": "1"}}})).await.code(200);
        t.delete(&format!("{path}/a")).await.code(200);
        let (_, first) = watch.event().await;
        assert_eq!((&first["kind"], &first["apiVersion"]), (&json!("Secret"), &json!("v1")));
        assert_events(&watch.events(2).await, &["MODIFIED a", "DELETED a"]);
    });
}

#[test]
fn a_watch_without_a_revision_replays_the_current_state() {
    on_a_server(async |t| {
        let path = t.path("secrets");
        t.post(&path, secret("a", json!({}))).await.code(201);
        t.post(&path, secret("b", json!({}))).await.code(201);
        t.merge(&format!("{path}/a"), json!({"metadata": {"labels": {"n": "1"}}})).await.code(200);
        t.until("the cache has caught up", async || {
            let list = t.get(&with(&path, &[("resourceVersion", "0")])).await;
            (list.names().len() == 2 && list.at("/items/0/metadata/labels/n") == "1").then_some(())
        })
        .await;
        for parameters in [&[("timeoutSeconds", "60")][..], &[("resourceVersion", "0")]] {
            let mut watch = t.watch(&with(&path, parameters)).await;
            let mut events = watch.events(2).await;
            events.sort();
            assert_events(&events, &["ADDED a", "ADDED b"]);
            let name = format!("later{}", parameters.len() + parameters[0].0.len());
            t.post(&path, secret(&name, json!({}))).await.code(201);
            assert_events(&watch.events(1).await, &[&format!("ADDED {name}")]);
            t.delete(&format!("{path}/{name}")).await.code(200);
            assert_events(&watch.events(1).await, &[&format!("DELETED {name}")]);
            t.until("the cache has seen the deletion", async || {
                let list = t.get(&with(&path, &[("resourceVersion", "0")])).await;
                (list.names().len() == 2).then_some(())
            })
            .await;
        }
    });
}

#[test]
fn a_watch_resumes_after_a_revision() {
    on_a_server(async |t| {
        let path = t.path("secrets");
        let mut revisions = Vec::new();
        for name in ["a", "b", "c", "d"] {
            revisions.push(t.post(&path, secret(name, json!({}))).await.code(201).revision().to_owned());
        }
        t.delete(&format!("{path}/c")).await.code(200);
        let mut watch = t.watch(&with(&path, &[("resourceVersion", &revisions[1])])).await;
        assert_events(&watch.events(3).await, &["ADDED c", "ADDED d", "DELETED c"]);
        t.post(&path, secret("e", json!({}))).await.code(201);
        assert_events(&watch.events(1).await, &["ADDED e"]);
    });
}

#[test]
fn a_deletion_carries_its_own_revision_and_the_last_state() {
    on_a_server(async |t| {
        let path = t.path("configmaps");
        let created = t.post(&path, config_map("a", json!({"n": "1"}))).await.code(201);
        let mut watch = t.watch(&with(&path, &[("resourceVersion", created.revision())])).await;
        t.delete(&format!("{path}/a")).await.code(200);
        let (kind, object) = watch.event().await;
        assert_eq!((kind.as_str(), &object["data"]["n"]), ("DELETED", &json!("1")));
        let revision: u64 = object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        assert!(revision > created.revision().parse().unwrap());
    });
}

#[test]
fn leaving_a_selector_is_a_deletion_and_entering_it_an_addition() {
    on_a_server(async |t| {
        let path = t.path("secrets");
        t.post(&path, secret("in", json!({"k": "v"}))).await.code(201);
        t.post(&path, secret("out", json!({"k": "z"}))).await.code(201);
        let revision = t.revision_of(&path).await;
        let mut watch =
            t.watch(&with(&path, &[("resourceVersion", &revision), ("labelSelector", "k=v")])).await;
        let label = async |name: &str, labels: Value| {
            let patch = json!({"metadata": {"labels": labels}});
            t.merge(&format!("{path}/{name}"), patch).await.code(200).revision().to_owned()
        };
        label("out", json!({"more": "1"})).await;
        label("in", json!({"more": "1"})).await;
        let left = label("in", json!({"k": "z"})).await;
        label("in", json!({"more": "2"})).await;
        label("in", json!({"k": "v"})).await;
        t.delete(&format!("{path}/out")).await.code(200);
        t.delete(&format!("{path}/in")).await.code(200);
        assert_events(&watch.events(1).await, &["MODIFIED in"]);
        let (kind, object) = watch.event().await;
        assert_eq!(kind, "DELETED");
        assert_eq!(object["metadata"]["labels"]["k"], "v", "the state before it left");
        assert_eq!(object["metadata"]["resourceVersion"], json!(left), "the revision of the change");
        assert_events(&watch.events(2).await, &["ADDED in", "DELETED in"]);
    });
}

#[test]
fn field_selectors_hold_for_watches_too() {
    on_a_server(async |t| {
        let path = t.path("secrets");
        let revision = t.revision_of(&path).await;
        let parameters = [("resourceVersion", revision.as_str()), ("fieldSelector", "metadata.name=b")];
        let mut watch = t.watch(&with(&path, &parameters)).await;
        t.post(&path, secret("a", json!({}))).await.code(201);
        t.post(&path, secret("b", json!({}))).await.code(201);
        assert_events(&watch.events(1).await, &["ADDED b"]);
    });
}

#[test]
fn bookmarks_come_shortly_before_the_end() {
    on_a_server(async |t| {
        let path = t.path("secrets");
        let revision = t.revision_of(&path).await;
        let parameters = [
            ("resourceVersion", revision.as_str()),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", "4"),
        ];
        let mut watch = t.watch(&with(&path, &parameters)).await;
        let written = t.post(&path, secret("a", json!({}))).await.code(201);
        assert_events(&watch.events(1).await, &["ADDED a"]);
        let (kind, object) = watch.event().await;
        assert_eq!((kind.as_str(), &object["kind"]), ("BOOKMARK", &json!("Secret")));
        let seen: u64 = object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        assert!(seen >= written.revision().parse().unwrap());
        assert_eq!(object["metadata"]["name"], Value::Null);
        while let Some(event) = watch.next().await {
            assert_eq!(event["type"], "BOOKMARK");
        }
    });
}

#[test]
fn initial_events_end_with_an_annotated_bookmark() {
    on_a_server(async |t| {
        let path = t.path("secrets");
        t.post(&path, secret("a", json!({}))).await.code(201);
        t.post(&path, secret("b", json!({}))).await.code(201);
        let parameters = [
            ("sendInitialEvents", "true"),
            ("resourceVersionMatch", "NotOlderThan"),
            ("allowWatchBookmarks", "true"),
        ];
        let mut watch = t.watch(&with(&path, &parameters)).await;
        let mut initial = watch.events(2).await;
        initial.sort();
        assert_events(&initial, &["ADDED a", "ADDED b"]);
        let (kind, object) = watch.event().await;
        assert_eq!(kind, "BOOKMARK");
        assert_eq!(object["metadata"]["annotations"], json!({"k8s.io/initial-events-end": "true"}));
        t.post(&path, secret("c", json!({}))).await.code(201);
        assert_events(&watch.events(1).await, &["ADDED c"]);
    });
}

#[test]
fn initial_events_need_a_revision_match() {
    on_a_server(async |t| {
        let path = t.path("secrets?watch=true");
        t.get(&format!("{path}&sendInitialEvents=true"))
            .await
            .refused(422, "Invalid")
            .because("FieldValueForbidden", "resourceVersionMatch");
        let exact = format!("{path}&sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=1");
        t.get(&exact).await.refused(422, "Invalid");
        t.get(&format!("{path}&resourceVersionMatch=NotOlderThan&resourceVersion=0"))
            .await
            .refused(422, "Invalid");
        t.get(&t.path("secrets?sendInitialEvents=true&resourceVersionMatch=NotOlderThan"))
            .await
            .refused(422, "Invalid");
    });
}

#[test]
fn an_expired_revision_is_an_error_inside_the_stream() {
    on_a_server(async |t| {
        let path = t.path("secrets");
        t.post(&path, secret("a", json!({}))).await.code(201);
        let revision = t.expired_revision();
        let mut watch = t.watch(&with(&path, &[("resourceVersion", &revision)])).await;
        let (kind, object) = watch.event().await;
        assert_eq!(kind, "ERROR");
        assert_eq!(
            (&object["kind"], &object["code"], &object["reason"]),
            (&json!("Status"), &json!(410), &json!("Expired"))
        );
        assert!(object["message"].as_str().unwrap().starts_with("too old resource version: "), "{object}");
        assert_eq!(watch.next().await, None);
    });
}

#[test]
fn a_garbage_revision_is_an_internal_error_for_a_watch() {
    on_a_server(async |t| {
        t.get(&t.path("secrets?watch=true&resourceVersion=garbage")).await.refused(500, "");
    });
}

#[test]
fn a_watch_ends_after_its_timeout() {
    on_a_server(async |t| {
        let path = t.path("secrets");
        let revision = t.revision_of(&path).await;
        let started = tokio::time::Instant::now();
        let mut watch =
            t.watch(&with(&path, &[("resourceVersion", &revision), ("timeoutSeconds", "2")])).await;
        assert_eq!(watch.next().await, None);
        let took = started.elapsed().as_secs_f64();
        assert!((1.5..10.0).contains(&took), "{took}");
    });
}

#[test]
fn what_changes_nothing_is_not_an_event() {
    on_a_server(async |t| {
        let path = t.path("configmaps");
        let created = t.post(&path, config_map("a", json!({"n": "1"}))).await.code(201);
        let mut watch = t.watch(&with(&path, &[("resourceVersion", created.revision())])).await;
        t.put(&format!("{path}/a"), &created.json).await.code(200);
        t.merge(&format!("{path}/a"), json!({"data": {"n": "1"}})).await.code(200);
        t.post(&t.path("configmaps?dryRun=All"), config_map("b", json!({}))).await.code(201);
        t.post(&path, config_map("c", json!({}))).await.code(201);
        assert_events(&watch.events(1).await, &["ADDED c"]);
    });
}

#[test]
fn soft_deletion_is_a_modification_and_release_a_deletion() {
    on_a_server(async |t| {
        let path = t.path("configmaps");
        let held = crate::manifests::config_map_with("a", json!({"finalizers": ["example.com/hold"]}));
        let created = t.post(&path, held).await.code(201);
        let mut watch = t.watch(&with(&path, &[("resourceVersion", created.revision())])).await;
        t.delete(&format!("{path}/a")).await.code(200);
        t.merge(&format!("{path}/a"), json!({"metadata": {"finalizers": null}})).await.code(200);
        let (kind, object) = watch.event().await;
        assert_eq!((kind.as_str(), object["metadata"]["deletionTimestamp"].is_string()), ("MODIFIED", true));
        let (kind, object) = watch.event().await;
        assert_eq!((kind.as_str(), object["metadata"]["deletionTimestamp"].is_string()), ("DELETED", true));
    });
}

#[test]
fn updates_are_seen_in_order_and_none_is_lost() {
    on_a_server(async |t| {
        let path = t.path("configmaps");
        let created = t.post(&path, config_map("a", json!({}))).await.code(201);
        let mut watch = t.watch(&with(&path, &[("resourceVersion", created.revision())])).await;
        for index in 0..20 {
            t.merge(&format!("{path}/a"), json!({"data": {"n": index.to_string()}})).await.code(200);
        }
        for index in 0..20 {
            let (_, object) = watch.event().await;
            assert_eq!(object["data"]["n"], json!(index.to_string()));
        }
    });
}

#[test]
fn a_watch_over_all_namespaces_sees_them_all() {
    on_a_server(async |t| {
        let other = format!("{}-b", t.namespace);
        t.create_namespace(&other).await;
        let revision = t.revision_of("/api/v1/secrets?limit=1").await;
        let selector = format!("run={}", t.unique);
        let parameters = [("resourceVersion", revision.as_str()), ("labelSelector", &selector)];
        let mut watch = t.watch(&with("/api/v1/secrets", &parameters)).await;
        for namespace in [&t.namespace, &other] {
            let path = crate::harness::in_namespace(namespace, "secrets");
            t.post(&path, secret("a", json!({"run": t.unique}))).await.code(201);
        }
        for namespace in [&t.namespace, &other] {
            assert_eq!(watch.event().await.1["metadata"]["namespace"], json!(namespace));
        }
    });
}

#[test]
fn a_watch_can_ask_for_tables_and_for_metadata() {
    on_a_server(async |t| {
        let path = t.path("secrets");
        let revision = t.revision_of(&path).await;
        let path = with(&path, &[("resourceVersion", &revision)]);
        let mut tables = t.watch_as(&path, media::TABLE).await;
        let metadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        let mut partial = t.watch_as(&path, metadata).await;
        t.post(&t.path("secrets"), secret("a", json!({}))).await.code(201);
        t.post(&t.path("secrets"), secret("b", json!({}))).await.code(201);
        let (_, first) = tables.event().await;
        assert_eq!((&first["kind"], &first["rows"][0]["cells"][0]), (&json!("Table"), &json!("a")));
        assert!(first["columnDefinitions"].as_array().is_some_and(|columns| !columns.is_empty()));
        let (_, second) = tables.event().await;
        assert!(second["columnDefinitions"].as_array().is_none_or(Vec::is_empty), "columns are told once");
        let (_, object) = partial.event().await;
        assert_eq!((&object["kind"], &object["type"]), (&json!("PartialObjectMetadata"), &Value::Null));
    });
}

#[test]
fn custom_resources_are_watched_like_any_other() {
    on_a_server(async |t| {
        let widgets = t.define(Definition::free_form()).await;
        let path = widgets.within(&t.namespace);
        let revision = t.revision_of(&path).await;
        let mut watch = t.watch(&with(&path, &[("resourceVersion", &revision)])).await;
        t.post(&path, widgets.object("a", json!({"n": 1}))).await.code(201);
        t.merge(&format!("{path}/a/status"), json!({"status": {"n": 1}})).await.code(200);
        t.delete(&format!("{path}/a")).await.code(200);
        assert_events(&watch.events(3).await, &["ADDED a", "MODIFIED a", "DELETED a"]);
    });
}
