//! What kube-rs does with a server: typed access, watchers, apply, discovery.

use futures_util::TryStreamExt as _;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, DynamicObject, ListParams, ObjectMeta, Patch, PatchParams, PostParams},
    core::PartialObjectMeta,
    discovery::{self, Discovery, Scope},
    runtime::watcher::{self, Event, InitialListStrategy},
};
use serde_json::json;

use crate::{
    harness::{Server, on_a_server},
    manifests::deployment,
};

fn config_map(name: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        data: Some([("n".to_owned(), value.to_owned())].into()),
        ..ConfigMap::default()
    }
}

fn api(t: &Server) -> Api<ConfigMap> {
    Api::namespaced(t.client(), &t.namespace)
}

#[test]
fn objects_are_created_read_replaced_patched_and_deleted() {
    on_a_server(async |t| {
        let maps = api(&t);
        let created = maps.create(&PostParams::default(), &config_map("a", "1")).await.unwrap();
        let mut found = maps.get("a").await.unwrap();
        assert_eq!(found.uid(), created.uid());
        found.data.get_or_insert_default().insert("n".to_owned(), "2".to_owned());
        let replaced = maps.replace("a", &PostParams::default(), &found).await.unwrap();
        assert_ne!(replaced.resource_version(), created.resource_version());
        let stale = maps.replace("a", &PostParams::default(), &created).await.unwrap_err();
        assert!(matches!(stale, kube::Error::Api(status) if status.is_conflict()));
        let patch = Patch::Merge(json!({"data": {"n": "3"}}));
        assert_eq!(maps.patch("a", &PatchParams::default(), &patch).await.unwrap().data.unwrap()["n"], "3");
        assert!(maps.delete("a", &DeleteParams::default()).await.unwrap().is_right());
        assert!(maps.get_opt("a").await.unwrap().is_none());
    });
}

#[test]
fn a_typed_apply_owns_what_it_names() {
    on_a_server(async |t| {
        let deployments: Api<Deployment> = Api::namespaced(t.client(), &t.namespace);
        let applied =
            deployments.patch("a", &PatchParams::apply("me"), &Patch::Apply(deployment("a"))).await.unwrap();
        assert_eq!(applied.spec.unwrap().replicas, Some(1));
        let mut other = deployment("a");
        other["spec"]["replicas"] = json!(2);
        let refused =
            deployments.patch("a", &PatchParams::apply("other"), &Patch::Apply(&other)).await.unwrap_err();
        assert!(matches!(refused, kube::Error::Api(status) if status.is_conflict()));
        let forced = PatchParams::apply("other").force();
        let applied = deployments.patch("a", &forced, &Patch::Apply(&other)).await.unwrap();
        assert_eq!(applied.spec.unwrap().replicas, Some(2));
    });
}

async fn a_watcher_sees_everything(t: &Server, strategy: InitialListStrategy) {
    let maps = api(t);
    maps.create(&PostParams::default(), &config_map("before", "1")).await.unwrap();
    let selector = "metadata.name!=kube-root-ca.crt";
    let config =
        watcher::Config { initial_list_strategy: strategy, ..watcher::Config::default() }.fields(selector);
    let mut events = Box::pin(watcher::watcher(maps.clone(), config));
    let mut seen = Vec::new();
    let mut note = |event: Event<ConfigMap>| {
        seen.push(match event {
            Event::Init => "init".to_owned(),
            Event::InitApply(object) => format!("initial {}", object.name_any()),
            Event::InitDone => "done".to_owned(),
            Event::Apply(object) => format!("applied {}", object.name_any()),
            Event::Delete(object) => format!("deleted {}", object.name_any()),
        });
        seen.last() == Some(&"done".to_owned())
    };
    while !note(events.try_next().await.unwrap().unwrap()) {}
    maps.create(&PostParams::default(), &config_map("after", "1")).await.unwrap();
    note(events.try_next().await.unwrap().unwrap());
    maps.delete("before", &DeleteParams::default()).await.unwrap();
    note(events.try_next().await.unwrap().unwrap());
    assert_eq!(seen, ["init", "initial before", "done", "applied after", "deleted before"]);
}

#[test]
fn a_watcher_lists_and_then_watches() {
    on_a_server(async |t| a_watcher_sees_everything(&t, InitialListStrategy::ListWatch).await);
}

#[test]
fn a_watcher_streams_its_initial_list() {
    on_a_server(async |t| a_watcher_sees_everything(&t, InitialListStrategy::StreamingList).await);
}

#[test]
fn discovery_finds_kinds_by_their_names() {
    on_a_server(async |t| {
        let discovery = Discovery::new(t.client()).run().await.unwrap();
        let group = discovery.get("apps").expect("the group is there");
        let (resource, capabilities) = group.recommended_kind("Deployment").expect("the kind is there");
        assert_eq!(
            (resource.plural.as_str(), capabilities.scope == Scope::Namespaced),
            ("deployments", true)
        );
        let aggregated = Discovery::new(t.client()).run_aggregated().await.unwrap();
        assert!(aggregated.get("apps").is_some_and(|group| group.recommended_kind("StatefulSet").is_some()));
        let kind = kube::core::GroupVersionKind::gvk("batch", "v1", "CronJob");
        let (resource, _) = discovery::pinned_kind(&t.client(), &kind).await.unwrap();
        let jobs: Api<DynamicObject> = Api::namespaced_with(t.client(), &t.namespace, &resource);
        assert!(jobs.list(&ListParams::default()).await.unwrap().items.is_empty());
    });
}

#[test]
fn an_entry_is_created_or_changed() {
    on_a_server(async |t| {
        let maps = api(&t);
        let mut entry = maps.entry("a").await.unwrap().or_insert(|| config_map("a", "1"));
        entry.commit(&PostParams::default()).await.unwrap();
        let mut entry = maps
            .entry("a")
            .await
            .unwrap()
            .and_modify(|map| {
                map.data.get_or_insert_default().insert("n".to_owned(), "2".to_owned());
            })
            .or_insert(|| config_map("a", "3"));
        entry.commit(&PostParams::default()).await.unwrap();
        assert_eq!(maps.get("a").await.unwrap().data.unwrap()["n"], "2");
    });
}

#[test]
fn metadata_alone_is_read_and_listed() {
    on_a_server(async |t| {
        let maps = api(&t);
        maps.create(&PostParams::default(), &config_map("a", "1")).await.unwrap();
        let one: PartialObjectMeta<ConfigMap> = maps.get_metadata("a").await.unwrap();
        assert_eq!(one.name_any(), "a");
        let all = maps.list_metadata(&ListParams::default().fields("metadata.name=a")).await.unwrap();
        assert_eq!(all.items.len(), 1);
    });
}

#[test]
fn an_error_of_the_server_reaches_the_caller_as_its_status() {
    on_a_server(async |t| {
        let error = api(&t).get("none").await.unwrap_err();
        assert!(matches!(error, kube::Error::Api(status) if status.is_not_found() && status.code == 404));
    });
}
