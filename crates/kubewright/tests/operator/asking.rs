//! Watches that an object asks for while the operator runs, and that end when it no longer does.

use futures_util::FutureExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    ResourceExt as _,
    core::{DynamicObject, ObjectMeta, PartialObjectMeta},
};
use kubewright::{Controller, Key, KindName, Next, Verb, Watch};
use serde_json::json;

use crate::support::{Log, Site, World, doing, map, only, site, value};

/// Reads the config map that a site names as its page, wherever that is, and writes down what it says.
fn following(log: &Log) -> Controller {
    let log = log.clone();
    let controller = Controller::of::<Site>().needs::<ConfigMap>(Verb::WATCHING);
    controller.run(doing(move |site, cx| {
        let log = log.clone();
        async move {
            let name = &site.spec.page;
            if name == "nothing" {
                log.add(format!("{}: nothing", site.name_any()));
                return Ok(Next::on_change());
            }
            let one = Watch::<ConfigMap>::new()
                .namespaces([cx.namespace()])
                .fields(format!("metadata.name={name}"));
            let maps = cx.watch(one).await?;
            let found = maps.get(&Key::new(cx.namespace(), name));
            let said = found.map_or_else(|| "missing".to_owned(), |map| value(&map).to_owned());
            assert_eq!(maps.list(None).len(), usize::from(said != "missing"), "only what was selected");
            log.add(format!("{}: {said}", site.name_any()));
            Ok(Next::on_change())
        }
        .boxed()
    }))
}

fn showing(name: &str, page: &str) -> Site {
    let mut site = site(name);
    site.spec.page = page.to_owned();
    site
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_an_object_asks_for_reconciles_it_and_ends_when_it_asks_for_another() {
    let world = World::new().await;
    let log = Log::default();
    world.create(&map("one", "1")).await;
    world.create(&map("two", "2")).await;
    let mut running = only(following(&log)).start(world.recorded(), world.options());
    running.working().await.unwrap();
    world.create(&showing("shop", "one")).await;
    world.rest().await;
    assert_eq!(log.take(), ["shop: 1"]);
    assert_eq!(world.open_watches(), ["configmaps", "sites"]);

    world.merge::<ConfigMap>("one", json!({"data": {"value": "1b"}})).await;
    world.merge::<ConfigMap>("two", json!({"data": {"value": "2b"}})).await;
    world.rest().await;
    assert_eq!(log.take(), ["shop: 1b"]);

    world.merge::<Site>("shop", json!({"spec": {"page": "two"}})).await;
    world.rest().await;
    assert_eq!(log.take(), ["shop: 2b"]);
    assert_eq!(world.open_watches(), ["configmaps", "sites"], "the other one has ended");

    world.merge::<ConfigMap>("one", json!({"data": {"value": "1c"}})).await;
    world.delete::<ConfigMap>("two").await;
    world.rest().await;
    assert_eq!(log.take(), ["shop: missing"]);

    world.merge::<Site>("shop", json!({"spec": {"page": "nothing"}})).await;
    world.rest().await;
    assert_eq!(world.open_watches(), ["sites"]);
    running.stop().await.unwrap();
    assert_eq!(world.open_watches(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn objects_that_ask_for_the_same_share_it_until_the_last_of_them_is_gone() {
    let world = World::new().await;
    let log = Log::default();
    world.create(&map("one", "1")).await;
    let mut running = only(following(&log)).start(world.recorded(), world.options());
    running.working().await.unwrap();
    for name in ["first", "second"] {
        world.create(&showing(name, "one")).await;
    }
    world.rest().await;
    log.take();
    assert_eq!(world.open_watches(), ["configmaps", "sites"]);
    world.merge::<ConfigMap>("one", json!({"data": {"value": "2"}})).await;
    world.rest().await;
    assert_eq!(log.sorted(), ["first: 2", "second: 2"]);
    world.delete::<Site>("first").await;
    world.rest().await;
    assert_eq!(world.open_watches(), ["configmaps", "sites"]);
    world.delete::<Site>("second").await;
    world.rest().await;
    assert_eq!(world.open_watches(), ["sites"]);
}

#[tokio::test(start_paused = true)]
async fn a_kind_may_be_known_only_at_run_time() {
    let world = World::new().await;
    let log = Log::default();
    let entries = log.clone();
    let controller = Controller::of::<Site>().run(doing(move |site, cx| {
        let log = entries.clone();
        async move {
            let plural = site.spec.page.clone();
            let kind = KindName {
                group: String::new(),
                version: "v1".to_owned(),
                kind: site.spec.image.clone(),
                plural,
                is_namespaced: true,
            };
            let here = Watch::<DynamicObject>::of(kind.clone()).namespaces([cx.namespace()]);
            let objects = cx.watch(here.labels("mine=yes")).await?;
            let names = Watch::<PartialObjectMeta<DynamicObject>>::of(kind).namespaces([cx.namespace()]);
            let names = cx.watch(names.labels("mine=yes")).await?;
            for (whole, slim) in objects.list(None).iter().zip(names.list(None)) {
                log.add(format!("{} {} {}", whole.name_any(), slim.name_any(), whole.data["type"]));
            }
            Ok(Next::on_change())
        }
        .boxed()
    }));
    let mut running = only(controller).start(world.recorded(), world.options());
    running.working().await.unwrap();
    let mut secrets = showing("shop", "secrets");
    secrets.spec.image = "Secret".to_owned();
    world.create(&secrets).await;
    world.rest().await;
    assert_eq!(log.take(), Vec::<String>::new());
    let labels = Some([("mine".to_owned(), "yes".to_owned())].into());
    world
        .create(&Secret {
            metadata: ObjectMeta { name: Some("key".to_owned()), labels, ..ObjectMeta::default() },
            ..Secret::default()
        })
        .await;
    world.rest().await;
    assert_eq!(log.take().last().unwrap(), "key key \"Opaque\"");
    assert_eq!(world.open_watches(), ["secrets", "secrets", "sites"]);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_the_server_does_not_have_fails_the_reconcile_and_says_so() {
    let world = World::new().await;
    let log = Log::default();
    let entries = log.clone();
    let controller = Controller::of::<Site>().run(doing(move |_, cx| {
        let log = entries.clone();
        async move {
            let kind = KindName {
                group: "example.com".to_owned(),
                version: "v1".to_owned(),
                kind: "Gadget".to_owned(),
                plural: "gadgets".to_owned(),
                is_namespaced: true,
            };
            let failure = cx.watch(Watch::<DynamicObject>::of(kind)).await.err().unwrap();
            log.add(failure.to_string());
            Ok(Next::on_change())
        }
        .boxed()
    }));
    let mut running = only(controller).start(world.recorded(), world.options());
    running.working().await.unwrap();
    world.create(&site("shop")).await;
    world.rest().await;
    let told = log.take();
    assert_eq!(
        told,
        ["can't watch gadgets.example.com: the server has no gadgets.example.com: is its definition \
              installed?"]
    );
}
