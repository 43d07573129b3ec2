//! What a reconciler reads: the newest known state, its own writes at once, and never an older one again.

use std::{sync::Arc, time::Duration};

use futures_util::{FutureExt as _, future::BoxFuture};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, CustomResource, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use kubewright::{Context, Controller, Index, Next, Reconciler, Result, Seen, Watch};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::sleep;

use crate::{
    line::{is_watch, resource},
    support::{Log, Site, World, doing, eventually, map, only, site, value},
};

const BY_VALUE: Index<ConfigMap> =
    Index::new("value", |map| map.data.iter().flat_map(|data| data.get("value").cloned()).collect());

/// The config maps that the owner of a context can see, in each way there is.
fn seen(cx: &Context<Site>) -> Result<String> {
    let names = |maps: Vec<Seen<ConfigMap>>| {
        maps.iter().map(|map| format!("{}={}", map.name_any(), value(map))).collect::<Vec<_>>().join(",")
    };
    let got =
        cx.get::<ConfigMap>("child")?.map_or_else(|| "nothing".to_owned(), |map| value(&map).to_owned());
    Ok(format!(
        "{got} {} {} {}",
        names(cx.children()?),
        names(
            cx.list()?
                .into_iter()
                .filter(|map: &Seen<ConfigMap>| map
                    .data
                    .as_ref()
                    .is_some_and(|data| data.contains_key("value")))
                .collect()
        ),
        names(cx.indexed(&BY_VALUE, "new")?)
    ))
}

#[tokio::test(start_paused = true)]
async fn an_own_write_is_read_back_at_once_however_late_the_watch_is() {
    let world = World::new().await;
    let log = Log::default();
    let (entries, line) = (log.clone(), world.line.clone());
    let watch = Watch::<ConfigMap>::new().index(BY_VALUE);
    let controller = Controller::of::<Site>().owns_with(watch, kubewright::Owners::Controller, []);
    let controller = controller.run(doing(move |site, cx| {
        let (log, line) = (entries.clone(), line.clone());
        async move {
            if site.spec.page != "now" || !log.0.lock().is_empty() {
                return Ok(Next::on_change());
            }
            line.hold();
            cx.apply(map("child", "old")).await?;
            log.add(seen(cx)?);
            cx.apply(map("child", "new")).await?;
            log.add(seen(cx)?);
            let child = cx.get::<ConfigMap>("child")?.unwrap();
            cx.delete(&child).await?;
            log.add(seen(cx)?);
            let again = cx.apply(map("child", "new")).await?;
            assert_ne!(again.uid(), child.uid());
            log.add(seen(cx)?);
            line.open();
            // Now the watch tells of the old states, one after the other.
            for _ in 0..1000 {
                let now = seen(cx)?;
                assert_eq!(now, "new child=new child=new child=new");
                tokio::task::yield_now().await;
            }
            sleep(Duration::from_secs(1)).await;
            log.add(seen(cx)?);
            cx.delete(&again).await?;
            for _ in 0..1000 {
                assert!(cx.get::<ConfigMap>("child")?.is_none());
                tokio::task::yield_now().await;
            }
            log.add("gone");
            Ok(Next::on_change())
        }
        .boxed()
    }));
    let mut running = only(controller).start(world.recorded(), world.options());
    running.working().await.unwrap();
    world.create(&site("shop")).await;
    world.rest().await;
    world.merge::<Site>("shop", json!({"spec": {"page": "now"}})).await;
    eventually("the reconcile has begun", async || !log.0.lock().is_empty()).await;
    world.merge::<Site>("shop", json!({"spec": {"page": "later"}})).await;
    world.rest().await;
    let new = "new child=new child=new child=new";
    assert_eq!(log.take(), ["old child=old child=old ", new, "nothing   ", new, new, "gone"]);
}

#[tokio::test(start_paused = true)]
async fn an_own_write_is_read_back_also_while_the_watch_is_cut_and_read_anew() {
    let world = World::new().await;
    let log = Log::default();
    let (entries, line) = (log.clone(), world.line.clone());
    let controller = Controller::of::<Site>().owns::<ConfigMap>().run(doing(move |site, cx| {
        let (log, line) = (entries.clone(), line.clone());
        async move {
            if site.spec.page != "now" || !log.0.lock().is_empty() {
                return Ok(Next::on_change());
            }
            line.cut();
            cx.apply(map("child", "old")).await?;
            cx.apply(map("brief", "old")).await?;
            let brief = cx.get::<ConfigMap>("brief")?.unwrap();
            cx.delete(&brief).await?;
            line.open();
            log.add("open");
            for _ in 0..20 {
                assert_eq!(cx.get::<ConfigMap>("child")?.as_deref().map(value), Some("old"));
                assert!(cx.get::<ConfigMap>("brief")?.is_none());
                sleep(Duration::from_secs(1)).await;
            }
            log.add("well");
            Ok(Next::on_change())
        }
        .boxed()
    }));
    let mut running = only(controller).start(world.recorded(), world.options());
    running.working().await.unwrap();
    let mut now = site("shop");
    now.spec.page = "now".to_owned();
    world.create(&now).await;
    eventually("the line is open again", async || log.0.lock().contains(&"open".to_owned())).await;
    world.create(&map("another", "x")).await;
    world.forget().await;
    eventually("all is well", async || log.0.lock().contains(&"well".to_owned())).await;
}

#[tokio::test(start_paused = true)]
async fn objects_are_kept_without_managed_fields_and_as_they_are_transformed() {
    let world = World::new().await;
    let log = Log::default();
    let entries = log.clone();
    let watch = Watch::<ConfigMap>::new().transform(|map| map.data = None);
    let controller = Controller::of::<Site>().owns_with(watch, kubewright::Owners::Controller, []);
    let controller = controller.run(doing(move |site, cx| {
        let log = entries.clone();
        async move {
            assert!(site.metadata.managed_fields.is_none());
            let applied = cx.apply(map("child", "x")).await?;
            assert!(applied.metadata.managed_fields.is_none());
            let read = cx.get::<ConfigMap>("child")?.unwrap();
            log.add(format!("{:?} {:?}", applied.data, read.data));
            Ok(Next::on_change())
        }
        .boxed()
    }));
    let _running = only(controller).start(world.recorded(), world.options());
    world.create(&site("shop")).await;
    world.rest().await;
    let mut entries = log.take();
    entries.dedup();
    assert_eq!(entries, ["None None"]);
    world.merge::<Site>("shop", json!({"spec": {"page": "again"}})).await;
    world.rest().await;
    assert_eq!(world.writes(), ["PATCH configmaps/child"], "what was dropped is not taken for a change");
}

#[tokio::test(start_paused = true)]
async fn managed_fields_are_kept_for_those_who_ask_for_them() {
    let world = World::new().await;
    let log = Log::default();
    let entries = log.clone();
    let watch = Watch::<ConfigMap>::new().keep_managed_fields();
    let controller = Controller::of::<Site>().owns_with(watch, kubewright::Owners::Every, []);
    let controller = controller.run(doing(move |_, cx| {
        let log = entries.clone();
        async move {
            cx.apply(map("child", "x")).await?;
            for map in cx.list::<ConfigMap>()?.iter().filter(|map| map.name_any() != "kube-root-ca.crt") {
                let managers = map.managed_fields().iter().flat_map(|entry| entry.manager.clone());
                log.add(format!("{} {}", map.name_any(), managers.collect::<Vec<_>>().join(" ")));
            }
            Ok(Next::on_change())
        }
        .boxed()
    }));
    let parameters = PostParams { field_manager: Some("somebody".to_owned()), ..PostParams::default() };
    world.api().create(&parameters, &map("another", "x")).await.unwrap();
    let _running = only(controller).start(world.recorded(), world.options());
    world.create(&site("shop")).await;
    world.rest().await;
    let mut entries = log.sorted();
    entries.dedup();
    assert_eq!(entries, ["another somebody", "child site-operator"]);
}

/// Sites, as an operator sees them that knows only one kind of page.
mod strict {
    use super::*;

    #[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
    #[kube(group = "test.kubewright.dev", version = "v1", kind = "Site", namespaced)]
    pub struct SiteSpec {
        pub page: Page,
    }

    #[derive(Serialize, Deserialize, Clone, Debug, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    pub enum Page {
        Plain,
    }

    pub struct Note(pub Log);

    impl Reconciler<Site> for Note {
        async fn reconcile(&self, site: &Site, _: &Context<Site>) -> Result<Next> {
            self.0.add(site.name_any());
            Ok(Next::on_change())
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cant_be_read_is_left_out_until_it_can() {
    let world = World::new().await;
    let plain = json!({"spec": {"page": "plain"}});
    for name in ["fancy", "first"] {
        world.create(&site(name)).await;
    }
    world.merge::<Site>("first", plain.clone()).await;
    let log = Log::default();
    let controller = Controller::of::<strict::Site>().run(strict::Note(log.clone()));
    let _running = only(controller).start(world.recorded(), world.options());
    world.rest().await;
    assert_eq!(log.take(), ["first"]);
    world.create(&site("second")).await;
    world.merge::<Site>("second", plain.clone()).await;
    world.rest().await;
    assert_eq!(log.take(), ["second"]);
    world.merge::<Site>("fancy", plain).await;
    world.rest().await;
    assert_eq!(log.take(), ["fancy"]);
    assert_eq!(world.full_reads(), 1, "nothing was read anew");
}

#[tokio::test(start_paused = true)]
async fn an_own_write_enters_and_leaves_what_is_selected_by_labels() {
    let world = World::new().await;
    let log = Log::default();
    let (entries, line) = (log.clone(), world.line.clone());
    let watch = Watch::<ConfigMap>::new().labels("colour=red");
    let controller = Controller::of::<Site>().owns_with(watch, kubewright::Owners::Controller, []);
    let controller = controller.run(doing(move |_, cx| {
        let (log, line) = (entries.clone(), line.clone());
        async move {
            if !log.0.lock().is_empty() {
                return Ok(Next::on_change()); // once is enough
            }
            line.hold();
            for colour in ["red", "blue", "red", "blue"] {
                let mut child = map("child", "x");
                child.labels_mut().insert("colour".to_owned(), colour.to_owned());
                cx.apply(child).await?;
                log.add(format!("{colour} {}", cx.list::<ConfigMap>()?.len()));
            }
            line.open();
            for _ in 0..1000 {
                assert_eq!(cx.list::<ConfigMap>()?.len(), 0);
                tokio::task::yield_now().await;
            }
            log.add("well");
            sleep(Duration::from_secs(100)).await;
            Ok(Next::on_change())
        }
        .boxed()
    }));
    let mut running = only(controller).start(world.recorded(), world.options());
    running.working().await.unwrap();
    world.create(&site("shop")).await;
    world.rest().await;
    assert_eq!(log.take(), ["red 1", "blue 0", "red 1", "blue 0", "well"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_no_longer_applied_is_pruned_but_only_if_it_was_applied() {
    let world = World::new().await;
    let controller = Controller::of::<Site>().owns::<ConfigMap>().prunes();
    let controller = controller.run(doing(|site, cx| {
        async move {
            for name in site.spec.page.split(' ') {
                cx.apply(map(name, "x")).await?;
            }
            Ok(Next::on_change())
        }
        .boxed()
    }));
    let _running = only(controller).start(world.recorded(), world.options());
    let mut shop = site("shop");
    shop.spec.page = "a b c".to_owned();
    let shop = world.create(&shop).await;
    let mut other = site("other");
    other.spec.page = "d".to_owned();
    world.create(&other).await;
    // Somebody wants this one to go along with the site, but it is theirs.
    let mut theirs = map("theirs", "x");
    theirs.metadata.owner_references = serde_json::from_value(json!([
        {"apiVersion": "test.kubewright.dev/v1", "kind": "Site", "name": "shop", "uid": shop.uid()}]))
    .unwrap();
    world.create(&theirs).await;
    world.rest().await;
    world.merge::<Site>("shop", json!({"spec": {"page": "b"}})).await;
    world.rest().await;
    let maps = world.api::<ConfigMap>().list(&Default::default()).await.unwrap();
    let names: Vec<String> = maps
        .iter()
        .filter(|map| map.data.as_ref().is_some_and(|data| data.contains_key("value")))
        .map(|map| map.name_any())
        .collect();
    assert_eq!(names, ["b", "d", "theirs"]);
}

/// What an operator asks the server for, but for watches, as it sees that a site wants "b" no longer. Before it prunes,
/// something happens to the site of which no watch tells; then the watches tell it, and the operator asks for the rest.
async fn asked_for_by_pruning(meanwhile: fn(Api<Site>) -> BoxFuture<'static, ()>) -> [Vec<String>; 2] {
    let world = World::new().await;
    let (sites, line, has_happened) = (world.api::<Site>(), world.line.clone(), Arc::new(Mutex::new(false)));
    let controller = Controller::of::<Site>().owns::<ConfigMap>().prunes();
    let controller = controller.run(doing(move |site, cx| {
        let (sites, line, has_happened) = (sites.clone(), line.clone(), has_happened.clone());
        async move {
            for name in site.spec.page.split(' ') {
                cx.apply(map(name, "x")).await?;
            }
            if site.spec.page == "a" && !std::mem::replace(&mut *has_happened.lock(), true) {
                line.hold();
                meanwhile(sites).await;
            }
            Ok(Next::on_change())
        }
        .boxed()
    }));
    let _running = only(controller).start(world.recorded(), world.options());
    let asked = || {
        let requests = std::mem::take(&mut *world.requests.lock());
        let requests = requests.into_iter().filter(|(_, uri)| !is_watch(uri));
        requests.map(|(method, uri)| format!("{method} {}", resource(&uri))).collect::<Vec<_>>()
    };
    let mut shop = site("shop");
    shop.spec.page = "a b".to_owned();
    world.create(&shop).await;
    world.rest().await;
    assert_eq!(asked(), ["PATCH a", "PATCH b"], "nothing to prune, nothing to ask for");
    world.merge::<Site>("shop", json!({"spec": {"page": "a"}})).await;
    world.rest().await;
    let unaware = asked();
    world.line.open();
    world.rest().await;
    [unaware, asked()]
}

async fn change(sites: &Api<Site>, change: serde_json::Value) {
    sites.patch("shop", &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_child_that_the_newest_specification_wants_is_not_pruned_by_who_has_not_seen_it() {
    let asked = asked_for_by_pruning(|sites| {
        async move { change(&sites, json!({"spec": {"page": "a b"}})).await }.boxed()
    });
    assert_eq!(asked.await, [vec!["GET shop"], vec![]]);
}

#[tokio::test(start_paused = true)]
async fn what_is_no_longer_applied_is_pruned_also_if_something_else_about_its_owner_has_changed() {
    let asked = asked_for_by_pruning(|sites| {
        async move { change(&sites, json!({"metadata": {"labels": {"colour": "red"}}})).await }.boxed()
    });
    assert_eq!(asked.await, [vec!["GET shop", "DELETE b"], vec![]]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_pruned_for_an_object_that_is_gone() {
    let asked = asked_for_by_pruning(|sites| {
        async move { drop(sites.delete("shop", &Default::default()).await.unwrap()) }.boxed()
    });
    assert_eq!(asked.await, [vec!["GET shop"], vec![]]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_pruned_for_an_object_that_another_of_its_name_has_replaced() {
    let asked = asked_for_by_pruning(|sites| {
        async move {
            let before = sites.get("shop").await.unwrap();
            sites.delete("shop", &Default::default()).await.unwrap();
            sites.create(&PostParams::default(), &site("shop")).await.unwrap();
            change(&sites, json!({"spec": {"page": "a b"}})).await;
            let after = sites.get("shop").await.unwrap();
            assert_eq!(before.metadata.generation, after.metadata.generation);
        }
        .boxed()
    });
    assert_eq!(asked.await[0], ["GET shop"]);
}
