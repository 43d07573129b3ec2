//! Children and status: how they come to be, and that nothing more is written than must be.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt as _;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Service},
};
use kube::{
    ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use kubewright::{Controller, Next, child_name};
use serde_json::json;

use crate::support::{Log, Site, World, deployment, doing, eventually, map, only, operator, site};

#[tokio::test(start_paused = true)]
async fn children_appear_with_owner_and_labels_and_the_status_tells() {
    let world = World::new().await;
    let mut running = operator().start(world.recorded(), world.options());
    running.working().await.unwrap();
    let created = world.create(&site("shop")).await;
    let sites = world.api::<Site>();
    eventually("the status is written", async || {
        sites.get("shop").await.unwrap().status.is_some_and(|status| status.published)
    })
    .await;
    let child = world.api::<Deployment>().get("shop").await.unwrap();
    let owner = &child.owner_references()[0];
    assert_eq!((owner.uid.as_str(), owner.controller), (created.uid().unwrap().as_str(), Some(true)));
    assert_eq!(child.labels()["app.kubernetes.io/managed-by"], "site-operator");
    assert_eq!(child.labels()["app.kubernetes.io/instance"], "shop");
    let status = sites.get("shop").await.unwrap().status.unwrap();
    assert_eq!(status.observed_generation, Some(1));
    assert_eq!(status.conditions[0].observed_generation, Some(1));
    assert!(status.conditions[0].last_transition_time.0.to_string().starts_with("2026-01-01T00:00:"));
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn four_writes_bring_a_site_to_rest_and_none_follows() {
    let world = World::new().await;
    let mut running = operator().start(world.recorded(), world.options());
    running.working().await.unwrap();
    for number in 0..20 {
        world.create(&site(&format!("site-{number}"))).await;
    }
    world.rest().await;
    let mut writes = world.writes();
    writes.sort();
    let mut expected: Vec<String> = (0..20)
        .flat_map(|number| {
            ["configmaps", "deployments", "services"]
                .map(|kind| format!("PATCH {kind}/site-{number}"))
                .into_iter()
                .chain([format!("PATCH sites/site-{number}/status")])
        })
        .collect();
    expected.sort();
    assert_eq!(writes, expected);
    world.pass(Duration::from_secs(3600)).await;
    assert_eq!(world.writes(), Vec::<String>::new(), "nothing is written in an hour of rest");
}

#[tokio::test(start_paused = true)]
async fn a_restarted_operator_finds_everything_as_it_should_be_and_writes_nothing() {
    let world = World::new().await;
    let running = operator().start(world.recorded(), world.options());
    world.create(&site("shop")).await;
    world.rest().await;
    running.stop().await.unwrap();
    assert_eq!(world.writes().len(), 4);
    let _running = operator().start(world.recorded(), world.options());
    world.rest().await;
    assert_eq!(world.writes(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_changed_spec_writes_just_what_it_changes() {
    let world = World::new().await;
    let _running = operator().start(world.recorded(), world.options());
    world.create(&site("shop")).await;
    world.rest().await;
    world.writes();
    world.merge::<Site>("shop", json!({"spec": {"page": "changed"}})).await;
    world.rest().await;
    assert_eq!(world.writes(), ["PATCH configmaps/shop", "PATCH sites/shop/status"]);
    let page = world.api::<ConfigMap>().get("shop").await.unwrap();
    assert_eq!(page.data.unwrap()["index.html"], "changed");
    let status = world.api::<Site>().get("shop").await.unwrap().status.unwrap();
    assert_eq!(status.observed_generation, Some(2));
}

/// As it is after an apply of which the answer was lost, and that is not wanted any more.
#[tokio::test(start_paused = true)]
async fn what_was_changed_in_the_name_of_the_operator_is_put_right() {
    let world = World::new().await;
    let _running = operator().start(world.recorded(), world.options());
    world.create(&site("shop")).await;
    world.rest().await;
    let maps = world.api::<ConfigMap>();
    let mut page = maps.get("shop").await.unwrap();
    page.metadata.managed_fields = None;
    page.metadata.resource_version = None;
    page.data.as_mut().unwrap().insert("index.html".to_owned(), "lost".to_owned());
    maps.patch("shop", &PatchParams::apply("site-operator").force(), &Patch::Apply(&page)).await.unwrap();
    world.rest().await;
    let page = maps.get("shop").await.unwrap();
    assert_ne!(page.data.unwrap()["index.html"], "lost");
}

#[tokio::test(start_paused = true)]
async fn a_field_that_is_no_longer_applied_is_removed() {
    let world = World::new().await;
    let _running = operator().start(world.recorded(), world.options());
    world.create(&site("shop")).await;
    world.rest().await;
    world.merge::<Site>("shop", json!({"spec": {"replicas": null}})).await;
    world.rest().await;
    let replicas = world.api::<Deployment>().get("shop").await.unwrap().spec.unwrap().replicas;
    assert_eq!(replicas, Some(1), "the server's default");
}

#[tokio::test(start_paused = true)]
async fn a_hand_made_change_of_an_owned_field_is_put_right_and_another_is_left_alone() {
    let world = World::new().await;
    let _running = operator().start(world.recorded(), world.options());
    world.create(&site("shop")).await;
    world.rest().await;
    world.writes();
    world.merge::<Deployment>("shop", json!({"spec": {"replicas": 5}})).await;
    world.rest().await;
    assert_eq!(world.api::<Deployment>().get("shop").await.unwrap().spec.unwrap().replicas, Some(2));
    assert_eq!(world.writes(), ["PATCH deployments/shop"]);
    world
        .merge::<Deployment>(
            "shop",
            json!({"spec": {"paused": true}, "metadata": {"annotations": {"a": "b"}}}),
        )
        .await;
    world.rest().await;
    let child = world.api::<Deployment>().get("shop").await.unwrap();
    assert_eq!(child.spec.as_ref().unwrap().paused, Some(true));
    assert_eq!(child.annotations()["a"], "b");
    assert_eq!(world.writes(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_child_comes_back() {
    let world = World::new().await;
    let _running = operator().start(world.recorded(), world.options());
    world.create(&site("shop")).await;
    world.rest().await;
    let services = world.api::<Service>();
    let before = services.get("shop").await.unwrap();
    services.delete("shop", &Default::default()).await.unwrap();
    world.rest().await;
    assert_ne!(services.get("shop").await.unwrap().uid(), before.uid());
}

#[tokio::test(start_paused = true)]
async fn an_apply_that_takes_nothing_over_says_who_owns_what() {
    let world = World::new().await;
    let log = Log::default();
    let seen = log.clone();
    world.create(&map("taken", "theirs")).await;
    let controller = Controller::of::<Site>().owns::<ConfigMap>().run(doing(move |_, cx| {
        let seen = seen.clone();
        async move {
            let error = cx.apply_unforced(map("taken", "ours")).await.unwrap_err();
            seen.add(error.to_string());
            cx.apply_unforced(map("free", "ours")).await?;
            Ok(Next::on_change())
        }
        .boxed()
    }));
    let _running = only(controller).start(world.recorded(), world.options());
    world.create(&site("shop")).await;
    world.rest().await;
    let message = log.take().remove(0);
    for part in ["ConfigMap", "taken", ".data.value", "conflict with", "take them over with apply"] {
        assert!(message.contains(part), "{part} is not in: {message}");
    }
    let maps = world.api::<ConfigMap>();
    assert_eq!(maps.get("taken").await.unwrap().data.unwrap()["value"], "theirs");
    assert_eq!(maps.get("free").await.unwrap().data.unwrap()["value"], "ours");
}

#[tokio::test(start_paused = true)]
async fn a_child_in_another_namespace_or_without_a_name_is_refused() {
    let world = World::new().await;
    let log = Log::default();
    let seen = log.clone();
    let controller = Controller::of::<Site>().owns::<ConfigMap>().run(doing(move |_, cx| {
        let seen = seen.clone();
        async move {
            let mut child = map("child", "x");
            child.metadata.namespace = Some("default".to_owned());
            seen.add(cx.apply(child).await.unwrap_err().to_string());
            seen.add(cx.apply(map("", "x")).await.unwrap_err().to_string());
            Ok(Next::on_change())
        }
        .boxed()
    }));
    let _running = only(controller).start(world.recorded(), world.options());
    world.create(&site("shop")).await;
    world.rest().await;
    let messages = log.take();
    let namespaces = format!("in namespace default, its owner in {}", world.namespace);
    assert!(messages[0].contains(&namespaces), "{}", messages[0]);
    assert!(messages[1].contains("child_name"), "{}", messages[1]);
    assert_eq!(world.writes(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn children_of_owners_with_long_names_stay_apart() {
    let world = World::new().await;
    let controller = Controller::of::<Site>().owns::<ConfigMap>().run(doing(move |site, cx| {
        async move {
            cx.apply(map(&child_name(site, "page"), "x")).await?;
            Ok(Next::on_change())
        }
        .boxed()
    }));
    let _running = only(controller).start(world.recorded(), world.options());
    let names = ["short".to_owned(), format!("{}-a", "x".repeat(80)), format!("{}-b", "x".repeat(80))];
    for name in &names {
        world.create(&site(name)).await;
    }
    world.rest().await;
    let maps = world.api::<ConfigMap>().list(&Default::default()).await.unwrap();
    let mut owners: Vec<String> =
        maps.iter().flat_map(|map| map.owner_references()).map(|owner| owner.name.clone()).collect();
    owners.sort();
    assert_eq!(owners, names);
    assert!(world.api::<ConfigMap>().get("short-page").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_made_smaller_by_who_has_not_seen_the_newest_specification() {
    let world = World::new().await;
    let (sites, line) = (world.api::<Site>(), world.line.clone());
    let controller = Controller::of::<Site>().owns::<Deployment>().run(doing(move |site, cx| {
        let (sites, line) = (sites.clone(), line.clone());
        async move {
            if site.spec.replicas == Some(1) {
                // It is to be larger again, but no watch tells of that.
                line.hold();
                let grown = Patch::Merge(json!({"spec": {"replicas": 3}}));
                sites.patch("shop", &PatchParams::default(), &grown).await?;
            }
            cx.apply(deployment(site)).await?;
            Ok(Next::on_change())
        }
        .boxed()
    }));
    let _running = only(controller).start(world.recorded(), world.options());
    let mut shop = site("shop");
    shop.spec.replicas = Some(3);
    world.create(&shop).await;
    world.rest().await;
    assert_eq!(world.writes(), ["PATCH deployments/shop"]);
    world.merge::<Site>("shop", json!({"spec": {"replicas": 1}})).await;
    world.rest().await;
    world.line.open();
    world.rest().await;
    assert_eq!(world.writes(), [""; 0], "three were there, and three are wanted");
    // By who has seen it, they are made fewer.
    world.merge::<Site>("shop", json!({"spec": {"replicas": 2}})).await;
    world.rest().await;
    let child = world.api::<Deployment>().get("shop").await.unwrap();
    assert_eq!(child.spec.unwrap().replicas, Some(2));
}

#[tokio::test(start_paused = true)]
async fn a_child_that_was_made_anew_is_not_taken_by_who_has_not_seen_that() {
    let world = World::new().await;
    let (children, line) = (world.api::<Deployment>(), world.line.clone());
    let is_made_anew = Arc::new(AtomicBool::new(false));
    let controller = Controller::of::<Site>().owns::<Deployment>().run(doing(move |site, cx| {
        let (children, line, is_made_anew) = (children.clone(), line.clone(), is_made_anew.clone());
        async move {
            if site.spec.replicas == Some(5) && !is_made_anew.swap(true, Ordering::Relaxed) {
                // Somebody makes it anew, but no watch tells of that.
                line.hold();
                let mut another = deployment(site);
                children.delete("shop", &DeleteParams::background()).await?;
                another.metadata.namespace = site.namespace();
                children.create(&PostParams::default(), &another).await?;
                let refused = cx.apply(deployment(site)).await.unwrap_err();
                assert!(refused.status().is_some(), "{refused}");
                let child = children.get("shop").await?;
                assert!(child.owner_references().is_empty(), "{:?}", child.metadata);
                line.open();
                return Err(refused);
            }
            cx.apply(deployment(site)).await?;
            Ok(Next::on_change())
        }
        .boxed()
    }));
    let _running = only(controller).start(world.recorded(), world.options());
    world.create(&site("shop")).await;
    world.rest().await;
    world.merge::<Site>("shop", json!({"spec": {"replicas": 5}})).await;
    world.rest().await;
    // Once it is seen, it is looked after.
    let child = world.api::<Deployment>().get("shop").await.unwrap();
    assert_eq!((child.owner_references().len(), child.spec.unwrap().replicas), (1, Some(5)));
}
