//! Several replicas of one operator: one of them works, and the next one soon after that one is gone.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use futures_util::{FutureExt as _, future::BoxFuture};
use http::{Request, Response};
use k8s_openapi::api::{coordination::v1::Lease, events::v1::Event};
use kube::{Client, ResourceExt as _, client::Body};
use kubewright::{
    Controller, Next, Options, Phase, Predicate, Running, entropy::Entropy, leader::LeaderElection,
    queue::Options as QueueOptions,
};
use tokio::time::{Instant, sleep};

use crate::support::{Log, Site, SiteStatus, World, doing, eventually, only, site};

/// A replica whose reconcile never ends: it writes twice a second, and writes down when it could.
fn replica(name: &'static str, world: &World, client: Client, log: &Log, start: Instant) -> Running {
    let log = log.clone();
    let patient = QueueOptions { cap: Duration::from_millis(500), ..QueueOptions::default() };
    let controller = Controller::of::<Site>().queue(patient).when(Predicate::generation_changed());
    let controller = controller.run(doing(move |_, cx| {
        let log = log.clone();
        async move {
            for turn in 0.. {
                let published = turn % 2 == 0;
                cx.status(SiteStatus { published, ..SiteStatus::default() }).await?;
                log.add(format!("{name} {:04}", start.elapsed().as_secs()));
                sleep(Duration::from_millis(500)).await;
            }
            Ok(Next::on_change())
        }
        .boxed()
    }));
    let election = LeaderElection { identity: Some(name.to_owned()), ..LeaderElection::new("site-operator") };
    // Replicas are not alike, or their events would have the same names.
    let entropy = Entropy::seeded(name.bytes().map(u64::from).sum());
    only(controller).start(client, Options { leader_election: Some(election), entropy, ..world.options() })
}

fn writers(log: &[String]) -> Vec<&str> {
    let mut names: Vec<&str> = log.iter().map(|entry| entry.split(' ').next().unwrap()).collect();
    names.dedup();
    names
}

fn second(entry: &str) -> u64 {
    entry.split(' ').nth(1).unwrap().parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn of_two_replicas_one_works_and_the_other_follows_soon_after_it_is_stopped() {
    let world = World::new().await;
    let (log, start) = (Log::default(), Instant::now());
    world.create(&site("shop")).await;
    let one = replica("one", &world, world.recorded(), &log, start);
    sleep(Duration::from_secs(1)).await;
    let other = replica("other", &world, world.recorded(), &log, start);
    world.pass(Duration::from_secs(300)).await;
    assert_eq!(writers(&log.take()), ["one"]);
    assert_eq!((one.phase(), other.phase()), (Phase::Working, Phase::Waiting));
    one.stop().await.unwrap();
    let stopped = start.elapsed().as_secs();
    eventually("the other one takes over", async || {
        log.0.lock().iter().any(|entry| entry.starts_with("other"))
    })
    .await;
    world.rest().await;
    let entries = log.take();
    assert_eq!(writers(entries.as_slice()).last(), Some(&"other"));
    let first = entries.iter().find(|entry| entry.starts_with("other")).unwrap();
    assert!(second(first) <= stopped + 5, "{first} after {stopped}");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_stops_writing_before_the_next_one_starts() {
    let world = World::new().await;
    let (log, start) = (Log::default(), Instant::now());
    world.create(&site("shop")).await;
    // Only its lease is cut: the worst case, in which its other writes would still get through.
    let is_cut = Arc::new(AtomicBool::new(false));
    let cut = is_cut.clone();
    let client = world.meddled(Arc::new(move |request| {
        cut.load(Ordering::Relaxed) && request.uri().path().contains("/leases")
    }));
    let mut one = replica("one", &world, client, &log, start);
    sleep(Duration::from_secs(1)).await;
    let _other = replica("other", &world, world.recorded(), &log, start);
    world.pass(Duration::from_secs(100)).await;
    log.take();
    is_cut.store(true, Ordering::Relaxed);
    let cut_at = start.elapsed().as_secs();
    eventually("the other one takes over", async || {
        log.0.lock().iter().any(|entry| entry.starts_with("other"))
    })
    .await;
    sleep(Duration::from_secs(10)).await;
    let entries = log.take();
    assert_eq!(writers(&entries), ["one", "other"], "one after the other, never in turns");
    let last = entries.iter().rfind(|entry| entry.starts_with("one")).unwrap();
    let first = entries.iter().find(|entry| entry.starts_with("other")).unwrap();
    assert!(second(last) < second(first), "{last}, {first}");
    assert!(second(first) < cut_at + 20, "{first}");
    let error = one.ended().await.unwrap_err();
    assert!(error.to_string().contains("not the leader any more"), "{error}");
}

/// What was told of the lease, in order.
async fn told(world: &World) -> Vec<String> {
    let mut events = world.api::<Event>().list(&Default::default()).await.unwrap().items;
    events.retain(|event| event.reason.as_deref() == Some("LeaderElection"));
    events.sort_by_key(|event| event.resource_version().unwrap().parse::<u64>().unwrap());
    let lease = events.iter().filter_map(|event| event.regarding.as_ref());
    assert!(
        lease
            .map(|lease| (&lease.kind, &lease.name))
            .all(|lease| { lease == (&Some("Lease".to_owned()), &Some("site-operator".to_owned())) })
    );
    events.into_iter().filter_map(|event| event.note).collect()
}

#[tokio::test(start_paused = true)]
async fn a_change_of_leaders_is_told_as_events_of_the_lease() {
    let world = World::new().await;
    let (log, start) = (Log::default(), Instant::now());
    let one = replica("one", &world, world.recorded(), &log, start);
    world.rest().await;
    let mut other = replica("other", &world, world.recorded(), &log, start);
    world.rest().await;
    one.stop().await.unwrap();
    world.rest().await;
    let mut expected = vec!["one became leader", "one stopped leading", "other became leader"];
    assert_eq!(told(&world).await, expected);
    world.delete::<Lease>("site-operator").await;
    let third = replica("third", &world, world.recorded(), &log, start);
    other.ended().await.unwrap_err();
    world.rest().await;
    expected.push("third became leader");
    assert_eq!(told(&world).await, expected, "who has lost the lease writes nothing any more");
    drop(third);
}

#[tokio::test(start_paused = true)]
async fn events_that_get_no_answer_delay_no_leader() {
    let world = World::new().await;
    let (log, start) = (Log::default(), Instant::now());
    world.create(&site("shop")).await;
    let mut one =
        replica("one", &world, Client::new(Stuck(world.recorded()), world.namespace.clone()), &log, start);
    one.working().await.unwrap();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(writers(&log.take()), ["one"]);
    let stopped = Instant::now();
    one.stop().await.unwrap();
    assert!(stopped.elapsed() < Duration::from_secs(35), "its grace, and little more");
    let lease = world.api::<Lease>().get("site-operator").await.unwrap();
    assert_eq!(lease.spec.unwrap().holder_identity.as_deref(), Some(""), "released");
}

/// A client whose events are never answered.
#[derive(Clone)]
struct Stuck(Client);

impl tower_service::Service<Request<Body>> for Stuck {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = BoxFuture<'static, kube::Result<Response<Body>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<kube::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let client = self.0.clone();
        Box::pin(async move {
            match request.uri().path().contains("/events") {
                true => std::future::pending().await,
                false => client.send(request).await,
            }
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_needs_no_leadership_works_in_every_replica() {
    let world = World::new().await;
    let log = Log::default();
    world.create(&site("shop")).await;
    let start = |name: &'static str| {
        let log = log.clone();
        let controller = Controller::of::<Site>().without_leadership().run(doing(move |_, _| {
            log.add(name);
            async { Ok(Next::on_change()) }.boxed()
        }));
        let election =
            LeaderElection { identity: Some(name.to_owned()), ..LeaderElection::new("site-operator") };
        only(controller)
            .start(world.recorded(), Options { leader_election: Some(election), ..world.options() })
    };
    let _both = (start("one"), start("other"));
    world.rest().await;
    assert_eq!(log.sorted(), ["one", "other"]);
}
