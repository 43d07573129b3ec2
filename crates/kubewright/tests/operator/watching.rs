//! Watches: shared, resumed where they broke, and honest about what keeps them from working.

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use k8s_openapi::api::{
    core::v1::{ConfigMap, Service},
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use kube::{
    Api, ResourceExt as _,
    api::{ObjectMeta, PostParams},
};
use kubewright::{Controller, Next, Operator, Options, Owners, Phase, Watch};
use serde_json::json;
use tokio::time::Instant;

use crate::support::{Log, Site, World, create_namespace, doing, eventually, map, only, page, service, site};

/// Writes down which sites it is called for, and applies the page of each.
fn paging(log: &Log) -> Controller {
    let log = log.clone();
    Controller::of::<Site>().owns::<ConfigMap>().run(doing(move |site, cx| {
        let log = log.clone();
        async move {
            log.add(site.name_any());
            cx.apply(page(site)).await?;
            Ok(Next::on_change())
        }
        .boxed()
    }))
}

#[tokio::test(start_paused = true)]
async fn two_controllers_of_one_operator_share_one_watch_of_a_kind() {
    let world = World::new().await;
    let second = Controller::of::<Site>().named("second").owns::<ConfigMap>().reads::<Service>();
    let operator = Operator::new("site-operator")
        .controller(paging(&Log::default()))
        .controller(second.run(doing(|_, _| async { Ok(Next::on_change()) }.boxed())));
    let mut running = operator.start(world.recorded(), world.options());
    running.working().await.unwrap();
    world.create(&site("shop")).await;
    world.rest().await;
    assert_eq!(world.watches(), ["configmaps", "services", "sites"]);
}

#[tokio::test(start_paused = true)]
async fn two_controllers_of_one_name_are_refused() {
    let world = World::new().await;
    let operator = || Operator::new("site-operator").controller(paging(&Log::default()));
    let mut running = operator().controller(paging(&Log::default())).start(world.recorded(), world.options());
    let error = running.working().await.unwrap_err();
    assert!(error.to_string().contains("\"site\"") && error.to_string().contains(".named("), "{error}");
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn two_controllers_that_would_prune_each_others_children_are_refused() {
    let world = World::new().await;
    let pruning = || {
        let controller = Controller::of::<Site>().owns::<ConfigMap>().prunes().named("pruning");
        controller.run(doing(|_, _| async { Ok(Next::on_change()) }.boxed()))
    };
    let operator = Operator::new("site-operator").controller(paging(&Log::default())).controller(pruning());
    let error = operator.start(world.recorded(), world.options()).working().await.unwrap_err().to_string();
    assert!(error.contains("\"pruning\" and \"site\" both own configmaps"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_server_without_streaming_lists_is_read_page_by_page() {
    let world = World::new().await;
    let log = Log::default();
    for at in 0..1200 {
        world.create(&map(&format!("map-{at}"), "x")).await;
    }
    world.create(&site("shop")).await;
    let entries = log.clone();
    let controller = Controller::of::<Site>().reads::<ConfigMap>().run(doing(move |_, cx| {
        let log = entries.clone();
        async move {
            let maps = cx.list::<ConfigMap>()?;
            log.add(maps.iter().filter(|map| map.name_any().starts_with("map-")).count().to_string());
            Ok(Next::on_change())
        }
        .boxed()
    }));
    let mut running = only(controller).start(world.without_streaming(), world.options());
    running.working().await.unwrap();
    world.rest().await;
    assert_eq!(log.take(), ["1200"]);
    let pages = |resource: &str| {
        let requests = world.requests.lock();
        requests.iter().filter(|(_, uri)| uri.contains(resource) && uri.contains("limit=500")).count()
    };
    assert_eq!((pages("configmaps"), pages("sites")), (3, 1));
    world.merge::<Site>("shop", json!({"spec": {"page": "other"}})).await;
    world.create(&map("map-more", "x")).await;
    world.rest().await;
    world.merge::<Site>("shop", json!({"spec": {"page": "again"}})).await;
    world.rest().await;
    assert_eq!(log.take().last().unwrap(), "1201", "from the end of the list, the watch goes on");
}

#[tokio::test(start_paused = true)]
async fn a_broken_watch_goes_on_where_it_broke_and_tells_everything_once() {
    let world = World::new().await;
    let log = Log::default();
    let mut running = only(paging(&log)).start(world.recorded(), world.options());
    running.working().await.unwrap();
    for name in ["kept", "changed", "deleted"] {
        world.create(&site(name)).await;
    }
    world.rest().await;
    log.take();
    for round in 0..3 {
        world.line.cut();
        world.create(&site(&format!("new-{round}"))).await;
        world.merge::<Site>("changed", json!({"spec": {"page": format!("{round}")}})).await;
        world.delete::<ConfigMap>("kept").await;
        world.pass(Duration::from_secs(10)).await;
        assert_eq!(log.take(), Vec::<String>::new());
        world.line.open();
        world.rest().await;
        // The page of the changed site comes back by the watch; that it is news of an own write is known.
        assert_eq!(
            log.sorted(),
            ["changed", "changed", "kept", "kept", &format!("new-{round}"), &format!("new-{round}")]
                .map(String::from)
        );
    }
    assert_eq!(world.full_reads(), 2, "everything was only read at the start");
}

#[tokio::test(start_paused = true)]
async fn after_the_server_has_forgotten_where_a_watch_was_what_is_seen_is_what_is_there() {
    let world = World::new().await;
    let log = Log::default();
    let seen = log.clone();
    let controller = Controller::of::<Site>().owns::<ConfigMap>().owns::<Service>();
    let controller = controller.run(doing(move |site, cx| {
        let seen = seen.clone();
        async move {
            let names = |objects: Vec<kubewright::Seen<Site>>| {
                objects.iter().map(|site| site.name_any()).collect::<Vec<_>>().join(" ")
            };
            seen.add(format!("{} of {}", site.name_any(), names(cx.list::<Site>()?)));
            cx.apply(page(site)).await?;
            cx.apply(service(site)).await?;
            Ok(Next::on_change())
        }
        .boxed()
    }));
    let mut running = only(controller).start(world.recorded(), world.options());
    running.working().await.unwrap();
    for name in ["a", "b", "c"] {
        world.create(&site(name)).await;
    }
    world.rest().await;
    log.take();
    world.line.cut();
    world.delete::<Site>("b").await;
    world.delete::<ConfigMap>("a").await;
    world.create(&site("d")).await;
    world.create(&map("another", "x")).await;
    world.forget().await;
    world.pass(Duration::from_secs(10)).await;
    world.line.open();
    world.rest().await;
    let entries = log.take();
    let mut names: Vec<&str> = entries.iter().map(|entry| &entry[..1]).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names, ["a", "d"], "the untouched one is not told of again");
    assert_eq!(world.full_reads(), 6, "each kind was read at the start, and anew");
    world.merge::<Site>("d", json!({"spec": {"page": "other"}})).await;
    world.rest().await;
    assert_eq!(log.take()[0], "d of a c d");
    assert!(world.api::<ConfigMap>().get("a").await.is_ok(), "the owner of the lost child was reconciled");
}

/// Binds a role to the service account `robot` of the test.
async fn give_robot(world: &World, role: &str) {
    let bindings: Api<ClusterRoleBinding> = Api::all(world.client.clone());
    let binding = json!({"metadata": {"name": world.namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": world.namespace}]});
    bindings.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_watch_without_rights_says_which_are_missing_and_keeps_no_other_from_working() {
    let world = World::new().await;
    let roles: Api<ClusterRole> = Api::all(world.client.clone());
    let role = json!({"metadata": {"name": world.namespace}, "rules": [
        {"apiGroups": ["test.kubewright.dev"], "resources": ["sites"], "verbs": ["*"]}]});
    roles.create(&PostParams::default(), &serde_json::from_value(role).unwrap()).await.unwrap();
    give_robot(&world, &world.namespace).await;
    let robot = world.server.client_of_service_account(&world.namespace, "robot").await;
    let client = world.through(robot, Arc::new(|_| false));
    let options = Options { sync_timeout: Duration::from_secs(10), ..world.options() };
    let before = Instant::now();
    let mut running = only(paging(&Log::default())).start(client, options);
    let error = running.working().await.unwrap_err().to_string();
    assert_eq!(before.elapsed().as_secs(), 10);
    for part in [
        "controller site",
        "configmaps: ",
        "cannot watch resource \"configmaps\"",
        &format!("system:serviceaccount:{}:robot", world.namespace),
    ] {
        assert!(error.contains(part), "{part} is not in: {error}");
    }
    assert!(!error.contains("sites.test"), "that watch works: {error}");
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_watch_works_as_soon_as_its_rights_are_given() {
    let world = World::new().await;
    let robot = world.server.client_of_service_account(&world.namespace, "robot").await;
    let log = Log::default();
    let running = only(paging(&log)).start(world.through(robot, Arc::new(|_| false)), world.options());
    world.create(&site("shop")).await;
    world.pass(Duration::from_secs(20)).await;
    assert_eq!(running.phase(), Phase::Syncing);
    give_robot(&world, "cluster-admin").await;
    eventually("it works", async || running.phase() == Phase::Working).await;
    eventually("the site is handled", async || log.0.lock().contains(&"shop".to_owned())).await;
}

/// Which of two owners are told of a child that one of them controls.
async fn told_of_a_child(owners: Owners) -> Vec<String> {
    let world = World::new().await;
    let log = Log::default();
    let seen = log.clone();
    let controller = Controller::of::<Site>().owns_with(Watch::<ConfigMap>::new(), owners, []);
    let controller = controller.run(doing(move |site, _| {
        let seen = seen.clone();
        async move {
            seen.add(site.name_any());
            Ok(Next::on_change())
        }
        .boxed()
    }));
    let _running = only(controller).start(world.recorded(), world.options());
    let (one, other) = (world.create(&site("controls")).await, world.create(&site("owns")).await);
    world.rest().await;
    log.take();
    let reference = |site: &Site, controls: bool| {
        json!({"apiVersion": "test.kubewright.dev/v1", "kind": "Site", "name": site.name_any(),
               "uid": site.uid(), "controller": controls})
    };
    let mut child = map("child", "x");
    child.metadata.owner_references =
        serde_json::from_value(json!([reference(&one, true), reference(&other, false)])).unwrap();
    world.create(&child).await;
    world.rest().await;
    log.sorted()
}

#[tokio::test(start_paused = true)]
async fn every_owner_is_told_of_a_child() {
    assert_eq!(told_of_a_child(Owners::Every).await, ["controls", "owns"]);
}

#[tokio::test(start_paused = true)]
async fn only_the_controlling_owner_is_told_of_a_child() {
    assert_eq!(told_of_a_child(Owners::Controller).await, ["controls"]);
}

#[tokio::test(start_paused = true)]
async fn of_a_child_only_its_metadata_may_be_watched() {
    let world = World::new().await;
    let log = Log::default();
    let seen = log.clone();
    let controller = Controller::of::<Site>().owns_metadata::<ConfigMap>().prunes();
    let controller = controller.run(doing(move |site, cx| {
        let seen = seen.clone();
        async move {
            let applied = cx.apply(map(&site.spec.page, "x")).await?;
            let children = cx.children::<kube::core::PartialObjectMeta<ConfigMap>>()?;
            seen.add(format!("{} of {}", crate::support::value(&applied), children.len()));
            Ok(Next::on_change())
        }
        .boxed()
    }));
    let _running = only(controller).start(world.recorded(), world.options());
    world.create(&site("shop")).await;
    world.rest().await;
    let mut entries = log.take();
    entries.dedup();
    assert_eq!(entries, ["x of 1"], "an own write is seen at once here, too");
    world.delete::<ConfigMap>("hello").await;
    world.rest().await;
    assert!(world.api::<ConfigMap>().get("hello").await.is_ok(), "it comes back");
    world.merge::<Site>("shop", json!({"spec": {"page": "other"}})).await;
    world.rest().await;
    let left: Vec<String> = world
        .api::<ConfigMap>()
        .list(&Default::default())
        .await
        .unwrap()
        .iter()
        .map(|map| map.name_any())
        .filter(|name| name != "kube-root-ca.crt")
        .collect();
    assert_eq!(left, ["other"], "and goes when it is no longer applied");
}

#[tokio::test(start_paused = true)]
async fn only_the_namespaces_that_were_asked_for_are_watched() {
    let world = World::new().await;
    let log = Log::default();
    let options = Options { namespaces: vec![world.namespace.clone()], ..world.options() };
    let _running = only(paging(&log)).start(world.recorded(), options);
    let another = create_namespace(&world.client).await;
    let sites: Api<Site> = Api::namespaced(world.client.clone(), &another);
    let elsewhere = Site {
        metadata: ObjectMeta { name: Some("elsewhere".to_owned()), ..ObjectMeta::default() },
        ..site("elsewhere")
    };
    sites.create(&PostParams::default(), &elsewhere).await.unwrap();
    world.create(&site("here")).await;
    world.rest().await;
    let mut entries = log.take();
    entries.dedup();
    assert_eq!(entries, ["here"]);
}
