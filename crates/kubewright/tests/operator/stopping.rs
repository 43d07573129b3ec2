//! How an operator comes to its end: in peace, by a crash, or because something failed.

use std::time::Duration;

use futures_util::FutureExt as _;
use kubewright::{Controller, Error, Next, Operator, Options};
use tokio::time::{Instant, sleep};

use crate::{
    server::is_left_out,
    support::{Log, Site, SiteStatus, World, doing, only, site},
};

/// A reconcile that takes a minute, writes its status, and writes down how far it comes.
fn minute(log: &Log) -> Controller {
    let log = log.clone();
    Controller::of::<Site>().run(doing(move |_, cx| {
        let log = log.clone();
        async move {
            log.add("begun");
            sleep(Duration::from_secs(60)).await;
            cx.status(SiteStatus { published: true, ..SiteStatus::default() }).await?;
            log.add("ended");
            Ok(Next::on_change())
        }
        .boxed()
    }))
}

#[tokio::test(start_paused = true)]
async fn what_runs_when_the_operator_is_stopped_comes_to_its_end_and_nothing_new_is_begun() {
    if is_left_out("it takes minutes") {
        return;
    }
    let world = World::new().await;
    let log = Log::default();
    let options = Options { grace: Duration::from_secs(100), ..world.options() };
    let running = only(minute(&log)).start(world.recorded(), options);
    world.create(&site("one")).await;
    sleep(Duration::from_secs(10)).await;
    world.create(&site("two")).await;
    let before = Instant::now();
    running.stop().await.unwrap();
    assert_eq!(before.elapsed().as_secs(), 50);
    assert_eq!(log.take(), ["begun", "ended"]);
    assert_eq!(world.writes(), ["PATCH sites/one/status"]);
}

#[tokio::test(start_paused = true)]
async fn what_takes_longer_than_the_grace_period_is_cut_off() {
    if is_left_out("it takes minutes") {
        return;
    }
    let world = World::new().await;
    let log = Log::default();
    let options = Options { grace: Duration::from_secs(20), ..world.options() };
    let running = only(minute(&log)).start(world.recorded(), options);
    world.create(&site("one")).await;
    sleep(Duration::from_secs(10)).await;
    let before = Instant::now();
    running.stop().await.unwrap();
    assert_eq!(before.elapsed().as_secs(), 20);
    sleep(Duration::from_secs(1000)).await;
    assert_eq!(log.take(), ["begun"]);
    assert_eq!(world.writes(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn an_operator_that_is_dropped_ends_at_once_wherever_it_is() {
    let world = World::new().await;
    let log = Log::default();
    let running = only(minute(&log)).start(world.recorded(), world.options());
    world.create(&site("one")).await;
    world.pass(Duration::from_secs(50)).await; // it would end well, were it let
    drop(running);
    sleep(Duration::from_millis(1)).await;
    world.requests.lock().clear();
    world.create(&site("two")).await;
    world.pass(Duration::from_secs(1000)).await;
    assert_eq!(log.take(), ["begun"]);
    assert!(world.requests.lock().is_empty(), "not even a watch goes on");
}

#[tokio::test(start_paused = true)]
async fn an_operator_can_be_stopped_before_it_has_seen_everything() {
    let world = World::new().await;
    world.line.cut();
    let running = only(minute(&Log::default())).start(world.recorded(), world.options());
    world.rest().await;
    let before = Instant::now();
    running.stop().await.unwrap();
    assert_eq!(before.elapsed().as_secs(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_fails_ends_the_operator_with_its_cause_after_what_runs() {
    let world = World::new().await;
    let log = Log::default();
    let operator = only(minute(&log)).task("weather", |_| async {
        sleep(Duration::from_secs(40)).await;
        Err(Error::new("it rains"))
    });
    let mut running = operator.start(world.recorded(), world.options());
    running.working().await.unwrap();
    world.create(&site("one")).await;
    let error = running.ended().await.unwrap_err();
    assert_eq!(error.to_string(), "task weather: it rains");
    assert_eq!(log.take(), ["begun", "ended"]);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_panics_ends_the_operator_too_and_one_that_ends_well_does_not() {
    let world = World::new().await;
    let operator =
        Operator::new("site-operator").task("brief", |_| async { Ok(()) }).task("wrong", |_| async {
            sleep(Duration::from_secs(40)).await;
            panic!("a mistake")
        });
    let before = Instant::now();
    let mut running = operator.start(world.recorded(), world.options());
    let error = running.ended().await.unwrap_err();
    assert!(error.to_string().contains("a mistake"), "{error}");
    assert_eq!(before.elapsed().as_secs(), 40);
}

#[tokio::test(start_paused = true)]
async fn a_task_is_asked_to_end_when_the_operator_is_stopped() {
    let world = World::new().await;
    let log = Log::default();
    let seen = log.clone();
    let operator = Operator::new("site-operator").task_everywhere("patient", move |cx| {
        let seen = seen.clone();
        async move {
            cx.shutdown.requested().await;
            sleep(Duration::from_secs(5)).await;
            seen.add("ended");
            Ok(())
        }
    });
    let mut running = operator.start(world.recorded(), world.options());
    running.working().await.unwrap();
    running.stop().await.unwrap();
    assert_eq!(log.take(), ["ended"]);
}
