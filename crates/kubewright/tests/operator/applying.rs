//! Children and status: how they come to be, and that nothing more is written than must be.

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Service},
};
use kube::ResourceExt as _;
use serde_json::json;

use crate::support::{Site, World, eventually, operator, options, rest, site};

#[tokio::test(start_paused = true)]
async fn children_appear_with_owner_and_labels_and_the_status_tells() {
    let world = World::new().await;
    let mut running = operator().start(world.recorded(), options());
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
    let mut running = operator().start(world.recorded(), options());
    running.working().await.unwrap();
    for number in 0..20 {
        world.create(&site(&format!("site-{number}"))).await;
    }
    rest().await;
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
    tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
    assert_eq!(world.writes(), Vec::<String>::new(), "nothing is written in an hour of rest");
}

#[tokio::test(start_paused = true)]
async fn a_restarted_operator_finds_everything_as_it_should_be_and_writes_nothing() {
    let world = World::new().await;
    let running = operator().start(world.recorded(), options());
    world.create(&site("shop")).await;
    rest().await;
    running.stop().await.unwrap();
    assert_eq!(world.writes().len(), 4);
    let _running = operator().start(world.recorded(), options());
    rest().await;
    assert_eq!(world.writes(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_changed_spec_writes_just_what_it_changes() {
    let world = World::new().await;
    let _running = operator().start(world.recorded(), options());
    world.create(&site("shop")).await;
    rest().await;
    world.writes();
    world.merge::<Site>("shop", json!({"spec": {"page": "changed"}})).await;
    rest().await;
    assert_eq!(world.writes(), ["PATCH configmaps/shop", "PATCH sites/shop/status"]);
    let page = world.api::<ConfigMap>().get("shop").await.unwrap();
    assert_eq!(page.data.unwrap()["index.html"], "changed");
    let status = world.api::<Site>().get("shop").await.unwrap().status.unwrap();
    assert_eq!(status.observed_generation, Some(2));
}

#[tokio::test(start_paused = true)]
async fn a_field_that_is_no_longer_applied_is_removed() {
    let world = World::new().await;
    let _running = operator().start(world.recorded(), options());
    world.create(&site("shop")).await;
    rest().await;
    world.merge::<Site>("shop", json!({"spec": {"replicas": null}})).await;
    rest().await;
    let replicas = world.api::<Deployment>().get("shop").await.unwrap().spec.unwrap().replicas;
    assert_eq!(replicas, Some(1), "the server's default");
}

#[tokio::test(start_paused = true)]
async fn a_hand_made_change_of_an_owned_field_is_put_right_and_another_is_left_alone() {
    let world = World::new().await;
    let _running = operator().start(world.recorded(), options());
    world.create(&site("shop")).await;
    rest().await;
    world.writes();
    world.merge::<Deployment>("shop", json!({"spec": {"replicas": 5}})).await;
    rest().await;
    assert_eq!(world.api::<Deployment>().get("shop").await.unwrap().spec.unwrap().replicas, Some(2));
    assert_eq!(world.writes(), ["PATCH deployments/shop"]);
    world
        .merge::<Deployment>(
            "shop",
            json!({"spec": {"paused": true}, "metadata": {"annotations": {"a": "b"}}}),
        )
        .await;
    rest().await;
    let child = world.api::<Deployment>().get("shop").await.unwrap();
    assert_eq!(child.spec.as_ref().unwrap().paused, Some(true));
    assert_eq!(child.annotations()["a"], "b");
    assert_eq!(world.writes(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_child_comes_back() {
    let world = World::new().await;
    let _running = operator().start(world.recorded(), options());
    world.create(&site("shop")).await;
    rest().await;
    let services = world.api::<Service>();
    let before = services.get("shop").await.unwrap();
    services.delete("shop", &Default::default()).await.unwrap();
    rest().await;
    assert_ne!(services.get("shop").await.unwrap().uid(), before.uid());
}
