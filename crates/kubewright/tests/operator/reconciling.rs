//! When a reconcile is run, how often, and what becomes of those that fail.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};

use futures_util::{FutureExt as _, future::BoxFuture};
use http::{Request, Response};
use k8s_openapi::{
    api::core::v1::{ConfigMap, Secret, Service},
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams},
    client::Body,
};
use kubewright::{
    Change, Context, Controller, Error, Event, Key, Next, Operator, Predicate, Reconciler, Result, Watch,
    condition,
};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::{
    server::is_left_out,
    support::{Log, Site, SiteStatus, World, doing, eventually, map, only, site},
};

#[tokio::test(start_paused = true)]
async fn a_panic_costs_its_object_a_pause_and_nothing_else() {
    let world = World::new().await;
    let log = Log::default();
    let seen = log.clone();
    let _running = only(Controller::of::<Site>().run(doing(move |site, _| {
        let seen = seen.clone();
        async move {
            seen.add(format!("{} {}", site.name_any(), site.spec.page));
            assert!(site.spec.page != "broken", "a mistake");
            Ok(Next::on_change())
        }
        .boxed()
    })))
    .start(world.recorded(), world.options());
    let mut broken = site("broken");
    broken.spec.page = "broken".to_owned();
    world.create(&broken).await;
    world.rest().await;
    let tries = log.take().len();
    assert!((5..20).contains(&tries), "with growing pauses: {tries}");
    world.create(&site("fine")).await;
    let before = Instant::now();
    eventually("another is handled", async || log.0.lock().contains(&"fine hello".to_owned())).await;
    assert!(before.elapsed() < world.soon());
    world.merge::<Site>("broken", json!({"spec": {"page": "whole"}})).await;
    world.rest().await;
    let mut entries = log.take();
    entries.retain(|entry| entry == "broken whole");
    assert_eq!(entries.len(), 1, "once, and well");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_always_fails_delays_no_other() {
    let world = World::new().await;
    let log = Log::default();
    let seen = log.clone();
    let _running = only(Controller::of::<Site>().run(doing(move |site, _| {
        let seen = seen.clone();
        async move {
            if site.name_any() == "bad" {
                return Err(Error::new("never"));
            }
            seen.add(site.name_any());
            Ok(Next::on_change())
        }
        .boxed()
    })))
    .start(world.recorded(), world.options());
    world.create(&site("bad")).await;
    world.rest().await;
    for number in 0..20 {
        world.create(&site(&format!("good-{number}"))).await;
        let before = Instant::now();
        while log.take().is_empty() {
            sleep(Duration::from_millis(1)).await;
        }
        assert!(before.elapsed() < world.soon());
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_objects_are_handled_eight_at_a_time_and_none_of_them_twice() {
    let world = World::new().await;
    let (log, active, most) = (Log::default(), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let busy: Arc<parking_lot::Mutex<Vec<String>>> = Arc::default();
    let state = (log.clone(), active.clone(), most.clone());
    for number in 0..1000 {
        world.create(&site(&format!("site-{number}"))).await;
    }
    let _running = only(Controller::of::<Site>().concurrency(8).run(doing(move |site, cx| {
        let ((log, active, most), busy) = (state.clone(), busy.clone());
        async move {
            let name = site.name_any();
            assert!(!busy.lock().contains(&name), "{name} is being worked on");
            busy.lock().push(name.clone());
            most.fetch_max(active.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            if site.status.is_none() {
                cx.requeue(cx.key()); // while it is being worked on
                cx.status(SiteStatus { published: true, ..SiteStatus::default() }).await?;
            }
            sleep(Duration::from_millis(10)).await;
            active.fetch_sub(1, Ordering::Relaxed);
            busy.lock().retain(|other| *other != name);
            log.add(name);
            Ok(Next::on_change())
        }
        .boxed()
    })))
    .start(world.recorded(), world.options());
    world.rest().await;
    let mut handled = log.sorted();
    assert!(handled.len() > 1000, "also again: {}", handled.len());
    handled.dedup();
    assert_eq!(handled.len(), 1000);
    assert_eq!(most.load(Ordering::Relaxed), 8);
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_that_takes_too_long_is_ended_and_tried_again() {
    struct Ended(Log);
    impl Drop for Ended {
        fn drop(&mut self) {
            self.0.add("ended");
        }
    }
    let world = World::new().await;
    let log = Log::default();
    let seen = log.clone();
    let controller = Controller::of::<Site>().timeout(Duration::from_secs(10));
    let _running = only(controller.run(doing(move |_, _| {
        let seen = seen.clone();
        async move {
            seen.add("started");
            let _ended = Ended(seen.clone());
            std::future::pending().await
        }
        .boxed()
    })))
    .start(world.recorded(), world.options());
    world.create(&site("slow")).await;
    sleep(Duration::from_secs(25)).await;
    assert_eq!(log.take(), ["started", "ended", "started", "ended", "started"]);
}

/// Somebody who is at work until this is dropped.
struct Working(Arc<AtomicUsize>);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn a_reconcile_that_is_busy_when_its_time_is_up_still_ends_before_the_next() {
    let world = World::in_real_time().await;
    let busy = Arc::new(AtomicUsize::new(0));
    let log = Log::default();
    let state = (busy.clone(), log.clone());
    let controller = Controller::of::<Site>().timeout(Duration::from_millis(20));
    let controller = controller.run(doing(move |_, _| {
        let (busy, log) = state.clone();
        async move {
            log.add(format!("{} at work", busy.fetch_add(1, Ordering::SeqCst)));
            // Also where its time is up before it is busy.
            let _working = Working(busy);
            let work = tokio::task::spawn_blocking(|| ());
            let _ = work.await;
            let until = Instant::now() + Duration::from_millis(60);
            while Instant::now() < until {
                std::hint::spin_loop();
            }
            std::future::pending().await
        }
        .boxed()
    }));
    // Threads of its own, or the busy reconcile would keep its own time from running out.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_all().build().unwrap();
    let (client, options) = (world.recorded(), world.options());
    let running = runtime.spawn(async move { only(controller).start(client, options) }).await.unwrap();
    world.create(&site("busy")).await;
    for _ in 0..1000 {
        sleep(Duration::from_millis(10)).await;
        if log.0.lock().len() >= 3 {
            break;
        }
    }
    drop(running);
    runtime.shutdown_background();
    let log = log.take();
    assert!(log.len() >= 2 && log.iter().all(|entry| entry == "0 at work"), "{log:?}");
}

#[tokio::test(start_paused = true)]
async fn a_terminal_failure_is_not_tried_again_until_the_object_changes() {
    let world = World::new().await;
    let log = Log::default();
    let seen = log.clone();
    let _running = only(Controller::of::<Site>().run(doing(move |site, _| {
        let seen = seen.clone();
        async move {
            seen.add(site.spec.page.clone());
            Err(Error::terminal("impossible"))
        }
        .boxed()
    })))
    .start(world.recorded(), world.options());
    world.create(&site("shop")).await;
    world.pass(Duration::from_secs(3600)).await;
    assert_eq!(log.take(), ["hello"]);
    world.merge::<Site>("shop", json!({"spec": {"page": "other"}})).await;
    world.pass(Duration::from_secs(3600)).await;
    assert_eq!(log.take(), ["other"]);
}

#[tokio::test(start_paused = true)]
async fn what_asks_to_come_back_comes_back_after_that_time() {
    if is_left_out("it takes half an hour") {
        return;
    }
    let world = World::new().await;
    let log = Log::default();
    let (seen, start) = (log.clone(), Instant::now());
    let _running = only(Controller::of::<Site>().run(doing(move |_, _| {
        let seen = seen.clone();
        async move {
            seen.add(start.elapsed().as_secs().to_string());
            Ok(Next::after(Duration::from_secs(600)))
        }
        .boxed()
    })))
    .start(world.recorded(), world.options());
    world.create(&site("shop")).await;
    sleep(Duration::from_secs(1900)).await;
    assert_eq!(log.take(), ["0", "600", "1200", "1800"]);
}

#[tokio::test(start_paused = true)]
async fn what_asks_to_come_back_at_once_comes_back_with_growing_pauses_until_it_no_longer_asks() {
    let world = World::new().await;
    let log = Log::default();
    let seen = log.clone();
    let _running = only(Controller::of::<Site>().run(doing(move |site, _| {
        let seen = seen.clone();
        async move {
            seen.add(site.spec.page.clone());
            // Enough is enough: a loop would keep time from passing.
            let is_over = site.spec.page == "calm" || seen.0.lock().len() > 100;
            Ok(if is_over { Next::on_change() } else { Next::after(Duration::ZERO) })
        }
        .boxed()
    })))
    .start(world.recorded(), world.options());
    world.create(&site("shop")).await;
    for (page, times) in [("hello", 5..20), ("calm", 1..2), ("again", 5..20)] {
        world.merge::<Site>("shop", json!({"spec": {"page": page}})).await;
        let before = Instant::now();
        eventually("a change is handled", async || log.0.lock().iter().any(|seen| seen == page)).await;
        assert!(before.elapsed() < world.soon(), "{page} does not wait for a pause");
        world.rest().await;
        let seen = log.take().iter().filter(|seen| *seen == page).count();
        assert!(times.contains(&seen), "{page}: {seen}");
    }
}

#[tokio::test(start_paused = true)]
async fn reading_a_kind_that_nobody_declared_says_what_to_do() {
    let world = World::new().await;
    let log = Log::default();
    let seen = log.clone();
    let _running = only(Controller::of::<Site>().owns::<ConfigMap>().run(doing(move |_, cx| {
        let seen = seen.clone();
        async move {
            seen.add(cx.get::<Secret>("key").unwrap_err().to_string());
            cx.get::<ConfigMap>("page").unwrap();
            Ok(Next::on_change())
        }
        .boxed()
    })))
    .start(world.recorded(), world.options());
    world.create(&site("shop")).await;
    world.rest().await;
    let message = log.take().remove(0);
    for part in
        ["controller site", "secrets", ".owns::<Secret>()", ".watches::<Secret>(", ".reads::<Secret>()"]
    {
        assert!(message.contains(part), "{part} is not in: {message}");
    }
}

#[tokio::test(start_paused = true)]
async fn keys_come_from_channels_and_timers_too() {
    if is_left_out("it takes half an hour") {
        return;
    }
    let world = World::new().await;
    let log = Log::default();
    let (seen, start) = (log.clone(), Instant::now());
    let (keys, receiver) = tokio::sync::mpsc::channel(8);
    let controller = Controller::of::<Site>()
        .every(Duration::from_secs(1000))
        .watching(kubewright::Watch::new().labels("a=b"))
        .triggered_by(receiver);
    let _running = only(controller.run(doing(move |site, _| {
        let seen = seen.clone();
        async move {
            seen.add(format!("{} {}", site.name_any(), start.elapsed().as_secs()));
            Ok(Next::on_change())
        }
        .boxed()
    })))
    .start(world.recorded(), world.options());
    let mut shop = site("shop");
    shop.labels_mut().insert("a".to_owned(), "b".to_owned());
    world.create(&shop).await;
    world.create(&site("other")).await;
    sleep(Duration::from_secs(100)).await;
    keys.send(Key::new(&world.namespace, "shop")).await.unwrap();
    sleep(Duration::from_secs(2000)).await;
    assert_eq!(log.take(), ["shop 0", "shop 100", "shop 1000", "shop 2000"]);
    assert_eq!(world.watches().len(), 1 + 2100 / 290, "the timer has no watch of its own");
}

#[tokio::test(start_paused = true)]
async fn what_does_not_change_is_looked_at_again_twice_a_day() {
    if is_left_out("it takes a day") {
        return;
    }
    let world = World::new().await;
    let (log, start) = (Log::default(), Instant::now());
    let seen = log.clone();
    let mut running = only(Controller::of::<Site>().run(doing(move |_, _| {
        let hours = start.elapsed().as_secs() / 3600;
        seen.add(hours.to_string());
        async move { Ok(Next::on_change()) }.boxed()
    })))
    .start(world.recorded(), world.options());
    running.working().await.unwrap();
    world.create(&site("shop")).await;
    sleep(Duration::from_secs(21 * 3600)).await;
    assert_eq!(log.take(), ["0", "9", "18"], "ten hours, or up to a tenth less");
}

#[tokio::test(start_paused = true)]
async fn an_object_of_another_controller_can_be_reconciled_by_its_key() {
    let world = World::new().await;
    let log = Log::default();
    let entries = log.clone();
    let sites = Controller::of::<Site>().run(doing(move |site, cx| {
        let log = entries.clone();
        async move {
            if site.spec.page == "now" {
                cx.requeue_of::<ConfigMap>(&Key::new(cx.namespace(), "settings"))?;
                log.add(cx.requeue_of::<Service>(&Key::cluster("none")).unwrap_err().to_string());
            }
            Ok(Next::on_change())
        }
        .boxed()
    }));
    let entries = log.clone();
    let watch = Watch::new().namespaces([world.namespace.as_str()]).fields("metadata.name=settings");
    let maps = Controller::of_existing::<ConfigMap>().watching(watch).run(Counting(entries));
    let operator = Operator::new("site-operator").controller(sites).controller(maps);
    let mut running = operator.start(world.recorded(), world.options());
    running.working().await.unwrap();
    world.create(&map("settings", "1")).await;
    world.create(&map("others", "1")).await;
    world.create(&site("shop")).await;
    world.rest().await;
    assert_eq!(log.take(), ["settings"]);
    world.merge::<Site>("shop", json!({"spec": {"page": "now"}})).await;
    world.rest().await;
    assert_eq!(log.take(), ["this operator has no controller of services", "settings"]);
}

/// Writes down which config maps it is called for.
struct Counting(Log);

impl Reconciler<ConfigMap> for Counting {
    async fn reconcile(&self, map: &ConfigMap, _: &Context<ConfigMap>) -> Result<Next> {
        self.0.add(map.name_any());
        Ok(Next::on_change())
    }
}

#[tokio::test(start_paused = true)]
async fn only_changes_that_the_predicates_let_pass_count() {
    let world = World::new().await;
    let log = Log::default();
    let seen = log.clone();
    let controller = Controller::of::<Site>()
        .when(Predicate::generation_changed().or(Predicate::labels_changed()))
        .when(Predicate::new(|change: &Change<Site>| {
            assert!(change.object().annotations().is_empty(), "a predicate with a mistake");
            true
        }));
    let _running = only(controller.run(doing(move |site, _| {
        let seen = seen.clone();
        async move {
            seen.add(site.spec.page.clone());
            Ok(Next::on_change())
        }
        .boxed()
    })))
    .start(world.recorded(), world.options());
    world.create(&site("shop")).await;
    world.rest().await;
    assert_eq!(log.take(), ["hello"]);
    world.merge::<Site>("shop", json!({"metadata": {"finalizers": ["x.y/z"]}})).await;
    world.rest().await;
    assert_eq!(log.take(), Vec::<String>::new());
    world
        .merge::<Site>("shop", json!({"metadata": {"annotations": {"a": "b"}}, "spec": {"page": "x"}}))
        .await;
    world.rest().await;
    assert_eq!(log.take(), Vec::<String>::new(), "it panicked");
    world.merge::<Site>("shop", json!({"metadata": {"annotations": null}, "spec": {"page": "new"}})).await;
    world.rest().await;
    assert_eq!(log.take(), ["new"], "the watch has survived the panic");
}

#[tokio::test(start_paused = true)]
async fn what_a_watched_object_mattered_to_before_and_what_it_matters_to_now_are_both_reconciled() {
    let world = World::new().await;
    let log = Log::default();
    let seen = log.clone();
    let controller = Controller::of::<Site>().watches::<ConfigMap, _, _>(|map, lookup| async move {
        sleep(Duration::from_millis(300)).await;
        let name = crate::support::value(&map).to_owned();
        assert!(name != "mistake", "a map function with a mistake");
        let key = Key::new(map.metadata.namespace.as_deref().unwrap(), &name);
        lookup.get::<Site>(&key).unwrap().map(|site| Key::of(&*site)).into_iter().collect()
    });
    let _running = only(controller.run(doing(move |site, _| {
        let seen = seen.clone();
        async move {
            seen.add(site.name_any());
            Ok(Next::on_change())
        }
        .boxed()
    })))
    .start(world.recorded(), world.options());
    for name in ["one", "two", "three"] {
        world.create(&site(name)).await;
    }
    world.rest().await;
    log.take();
    world.create(&map("pointer", "one")).await;
    world.rest().await;
    assert_eq!(log.take(), ["one"]);
    world.merge::<ConfigMap>("pointer", json!({"data": {"value": "two"}})).await;
    world.rest().await;
    assert_eq!(log.sorted(), ["one", "two"]);
    world.merge::<ConfigMap>("pointer", json!({"data": {"value": "mistake"}})).await;
    world.rest().await;
    assert_eq!(log.take(), ["two"], "a panic leaves out just what it was about");
    world.create(&map("brief", "three")).await;
    sleep(Duration::from_millis(1)).await;
    world.create(&map("briefer", "one")).await;
    sleep(Duration::from_millis(1)).await;
    world.delete::<ConfigMap>("briefer").await;
    world.rest().await;
    assert_eq!(log.sorted(), ["one", "three"], "also what came and went while another was mapped");
}

#[tokio::test(start_paused = true)]
async fn events_are_told_and_the_same_one_again_is_counted() {
    struct Teller;
    impl Reconciler<Site> for Teller {
        async fn reconcile(&self, site: &Site, cx: &Context<Site>) -> Result<Next> {
            cx.event(Event::normal("Looked", "Reconcile", "all is well")).await;
            if site.spec.page == "wrong" {
                return Err(Error::terminal("spec.page: can't be this"));
            }
            Ok(Next::after(Duration::from_secs(1)))
        }
    }
    let world = World::new().await;
    let operator = Operator::new("teller").controller(Controller::of::<Site>().run(Teller));
    let _running = operator.start(world.recorded(), world.options());
    world.create(&site("shop")).await;
    let events = world.api::<k8s_openapi::api::events::v1::Event>();
    let mut told = Vec::new();
    eventually("it is counted", async || {
        told = events.list(&Default::default()).await.unwrap().items;
        told.iter().any(|event| event.series.as_ref().is_some_and(|series| series.count == 3))
    })
    .await;
    let [event] = told.as_slice() else { panic!("one event, counted: {told:?}") };
    assert_eq!(event.reason.as_deref(), Some("Looked"));
    assert_eq!(event.reporting_controller.as_deref(), Some("teller"));
    assert_eq!(event.regarding.as_ref().unwrap().name.as_deref(), Some("shop"));

    world.merge::<Site>("shop", serde_json::json!({"spec": {"page": "wrong"}})).await;
    world.rest().await;
    let told = events.list(&Default::default()).await.unwrap().items;
    let failed = told.iter().find(|event| event.reason.as_deref() == Some("ReconcileFailed")).unwrap();
    assert_eq!(failed.type_.as_deref(), Some("Warning"));
    assert_eq!(failed.note.as_deref(), Some("spec.page: can't be this"));
}

/// A controller that fails for good on a page named after what is wrong with it, and writes its status if asked to.
fn strict(log: &Log, writes_status: bool) -> Controller {
    let log = log.clone();
    Controller::of::<Site>().run(doing(move |site, cx| {
        let log = log.clone();
        async move {
            let page = site.spec.page.as_str();
            log.add(page);
            let ready = condition("Ready", page == "good", "Looked", "");
            if writes_status {
                cx.status(SiteStatus { conditions: vec![ready], ..SiteStatus::default() }).await?;
            }
            if page == "good" { Ok(Next::on_change()) } else { Err(Error::terminal(page)) }
        }
        .boxed()
    }))
}

async fn conditions(world: &World) -> Vec<Condition> {
    world.api::<Site>().get("shop").await.unwrap().status.unwrap_or_default().conditions
}

fn words(conditions: &[Condition]) -> Vec<String> {
    conditions.iter().map(|one| format!("{} {} {}", one.type_, one.status, one.message)).collect()
}

/// A site of which another says something already.
async fn create_with_status(world: &World) {
    world.create(&site("shop")).await;
    let status = json!({"status": {"published": false, "conditions": [{
        "type": "Seen", "status": "True", "reason": "Test", "message": "by another",
        "lastTransitionTime": "2025-01-01T00:00:00Z",
    }]}});
    let sites = world.api::<Site>();
    sites.patch_status("shop", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}

fn page(name: &str) -> serde_json::Value {
    json!({"spec": {"page": name}})
}

#[tokio::test(start_paused = true)]
async fn a_terminal_failure_is_a_condition_until_it_is_mended() {
    let world = World::new().await;
    let log = Log::default();
    create_with_status(&world).await;
    let _running = only(strict(&log, false)).start(world.recorded(), world.options());
    world.rest().await;
    let first = conditions(&world).await;
    assert_eq!(words(&first), ["Seen True by another", "Stalled True hello"]);
    assert_eq!((first[1].reason.as_str(), first[1].observed_generation), ("TerminalError", Some(1)));
    assert_eq!(log.take(), ["hello"], "its own word brings no reconcile");

    world.merge::<Site>("shop", page("worse")).await;
    world.rest().await;
    let second = conditions(&world).await;
    assert_eq!(words(&second), ["Seen True by another", "Stalled True worse"]);
    assert_eq!(second[1].observed_generation, Some(2));
    assert_eq!(second[1].last_transition_time, first[1].last_transition_time, "it was stalled before");
    assert_eq!(log.take(), ["worse"]);

    world.writes();
    world.merge::<Site>("shop", page("good")).await;
    world.rest().await;
    assert_eq!(conditions(&world).await, first[..1], "and what others say has stayed");
    assert_eq!(log.take(), ["good"]);
    assert_eq!(world.writes(), ["PATCH sites/shop/status"]);
}

/// Fails so often for each page, unless it is `bad`: then always.
fn failing(times: usize, log: &Log) -> Controller {
    let log = log.clone();
    Controller::of::<Site>().run(doing(move |site, _| {
        log.add(&site.spec.page);
        let attempts = log.0.lock().iter().filter(|page| **page == site.spec.page).count();
        let fails = attempts <= times || site.spec.page == "bad";
        async move { if fails { Err(Error::new("no room")) } else { Ok(Next::on_change()) } }.boxed()
    }))
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_does_not_pass_by_itself_is_a_condition_until_it_does() {
    let world = World::new().await;
    let log = Log::default();
    create_with_status(&world).await;
    world.merge::<Site>("shop", page("bad")).await;
    let _running = only(failing(0, &log)).start(world.recorded(), world.options());
    eventually("it was tried often", async || log.0.lock().len() >= 6).await;
    let told = conditions(&world).await;
    assert_eq!(words(&told), ["Seen True by another", "Stalled True no room"]);
    assert_eq!(told[1].reason, "RetriedError");
    assert_eq!(world.writes(), ["PATCH sites/shop/status"], "it is told once, however often it fails");

    world.merge::<Site>("shop", page("good")).await;
    world.rest().await;
    assert_eq!(words(&conditions(&world).await), ["Seen True by another"]);
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_passes_by_itself_is_not_told() {
    let world = World::new().await;
    let log = Log::default();
    create_with_status(&world).await;
    let _running = only(failing(2, &log)).start(world.recorded(), world.options());
    world.rest().await;
    assert_eq!(log.take().len(), 3);
    assert_eq!(world.writes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_status_that_is_written_anyway_says_that_an_object_is_mended() {
    let world = World::new().await;
    let log = Log::default();
    let _running = only(strict(&log, true)).start(world.recorded(), world.options());
    world.create(&site("shop")).await;
    world.rest().await;
    assert_eq!(words(&conditions(&world).await), ["Ready False ", "Stalled True hello"]);
    let status_writes = || {
        let writes = world.writes();
        writes.iter().filter(|write| write.as_str() == "PATCH sites/shop/status").count()
    };
    assert_eq!(status_writes(), 2, "the status of the reconciler, and that it is stalled");
    world.merge::<Site>("shop", json!({"metadata": {"labels": {"a": "b"}}})).await;
    world.rest().await;
    assert_eq!(status_writes(), 0, "nothing has changed");
    world.merge::<Site>("shop", page("good")).await;
    world.rest().await;
    assert_eq!(words(&conditions(&world).await), ["Ready True "]);
    assert_eq!(status_writes(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_changes_while_a_terminal_failure_is_told_is_not_missed() {
    let world = World::new().await;
    let log = Log::default();
    let rushes = Arc::new(AtomicUsize::new(0));
    let rushed = Rushed(world.client.clone(), world.namespace.clone(), rushes.clone());
    let client = Client::new(rushed, world.namespace.clone());
    let _running = only(strict(&log, true)).start(client, world.options());
    world.create(&site("shop")).await;
    world.rest().await;
    assert_eq!(log.take().last().map(String::as_str), Some("rushed"));
    assert_eq!(words(&conditions(&world).await), ["Ready False ", "Stalled True rushed"]);
    assert_eq!(rushes.load(Ordering::Relaxed), 1);
}

/// A client that is overtaken by another change, once, when it tells that an object is stalled.
#[derive(Clone)]
struct Rushed(Client, String, Arc<AtomicUsize>);

impl tower_service::Service<Request<Body>> for Rushed {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = BoxFuture<'static, kube::Result<Response<Body>>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> Poll<kube::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self(client, namespace, rushes) = self.clone();
        Box::pin(async move {
            if is_json_patch(&request) && rushes.fetch_max(1, Ordering::Relaxed) == 0 {
                let sites: Api<Site> = Api::namespaced(client.clone(), &namespace);
                let change = Patch::Merge(page("rushed"));
                sites.patch("shop", &PatchParams::default(), &change).await?;
                sleep(Duration::from_secs(1)).await;
            }
            client.send(request).await
        })
    }
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_said_of_a_failure_is_said_later() {
    let world = World::new().await;
    let log = Log::default();
    let is_silenced = Arc::new(AtomicBool::new(true));
    let client = Client::new(Silenced(world.client.clone(), is_silenced.clone()), world.namespace.clone());
    create_with_status(&world).await;
    let _running = only(strict(&log, false)).start(client, world.options());
    let tried_again = async |what| {
        eventually(what, async || log.0.lock().len() >= 3).await;
        is_silenced.store(false, Ordering::Relaxed);
        world.rest().await;
        log.take();
        is_silenced.store(true, Ordering::Relaxed);
        words(&conditions(&world).await)
    };
    assert_eq!(
        tried_again("that it is stalled is not told").await,
        ["Seen True by another", "Stalled True hello"]
    );
    world.merge::<Site>("shop", page("good")).await;
    assert_eq!(tried_again("that it is not any more is not told").await, ["Seen True by another"]);
}

/// A client that can't tell whether an object is stalled.
#[derive(Clone)]
struct Silenced(Client, Arc<AtomicBool>);

impl tower_service::Service<Request<Body>> for Silenced {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = BoxFuture<'static, kube::Result<Response<Body>>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> Poll<kube::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self(client, is_silenced) = self.clone();
        Box::pin(async move {
            if is_json_patch(&request) && is_silenced.load(Ordering::Relaxed) {
                let mut unavailable = Response::new(Body::empty());
                *unavailable.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
                return Ok(unavailable);
            }
            client.send(request).await
        })
    }
}

fn is_json_patch(request: &Request<Body>) -> bool {
    request.headers().get("content-type").is_some_and(|kind| kind == "application/json-patch+json")
}

#[tokio::test(start_paused = true)]
async fn two_controllers_of_one_kind_do_not_quarrel_about_a_condition() {
    let world = World::new().await;
    let log = Log::default();
    let calm =
        Controller::of::<Site>().named("calm").run(doing(|_, _| async { Ok(Next::on_change()) }.boxed()));
    let operator = only(strict(&log, false)).controller(calm);
    create_with_status(&world).await;
    let _running = operator.start(world.recorded(), world.options());
    world.rest().await;
    assert_eq!(log.take(), ["hello"]);
    assert_eq!(words(&conditions(&world).await), ["Seen True by another"]);
}

/// Remembers which objects it was told to forget.
struct Forgetful(Log);

impl Reconciler<Site> for Forgetful {
    async fn reconcile(&self, _: &Site, _: &Context<Site>) -> Result<Next> {
        Ok(Next::on_change())
    }

    fn forget(&self, key: &Key) {
        self.0.add(key.to_string());
    }
}

#[tokio::test(start_paused = true)]
async fn a_reconciler_may_forget_what_is_gone() {
    let world = World::new().await;
    let log = Log::default();
    let _running =
        only(Controller::of::<Site>().run(Forgetful(log.clone()))).start(world.recorded(), world.options());
    world.create(&site("short")).await;
    world.create(&site("stays")).await;
    world.rest().await;
    assert!(log.take().is_empty());
    world.delete::<Site>("short").await;
    world.rest().await;
    let forgotten = log.take();
    assert!(forgotten.len() == 1 && forgotten[0].ends_with("/short"), "{forgotten:?}");
}
