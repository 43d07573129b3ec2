//! Elections between replicas in one process, on paused time. Their clocks are an hour apart, and the network
//! between each replica and the API server can be cut or slowed down.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on says so by panicking")]

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt as _;
use http::{Method, Request, StatusCode};
use hyper::body::Bytes;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    authorization::v1::{SelfSubjectAccessReview, SelfSubjectAccessReviewSpec},
    coordination::v1::{Lease, LeaseSpec},
    core::v1::ConfigMap,
};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use kubewright::{
    client,
    clock::Clock,
    entropy::Entropy,
    leader::{Elector, Fence, LeaderElection, Leadership, Lost, NotLeader, OptionsError},
};
use kubewright_apiserver::{
    Answer, ApiServer, BoxFuture, Cut, Hook, Next,
    auth::user::{MASTERS, UserInfo},
};
use parking_lot::Mutex;
use serde_json::json;
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

const LEASE: Duration = Duration::from_secs(15);
const RENEW: Duration = Duration::from_secs(10);
/// The longest pause between two tries, jitter included.
const PAUSE: Duration = Duration::from_millis(2400);

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// What happens to the requests of a replica.
#[derive(Clone, Copy)]
enum Wire {
    Cut,
    /// The server acts, but the answer gets lost.
    Deaf,
    /// Writes of anything but leases arrive late.
    Slow(Duration),
    /// The server acts, but the answer comes late.
    Late(Duration),
    /// Nothing arrives, and nobody says so.
    Silent,
}

/// The network between the replicas and the API server, and what went through it.
#[derive(Clone, Default)]
struct Network {
    wires: Arc<Mutex<BTreeMap<String, Wire>>>,
    accepted: Arc<Mutex<Vec<Accepted>>>,
}

/// A write the server accepted.
#[derive(Clone)]
struct Accepted {
    by: String,
    is_lease: bool,
    at: Instant,
}

impl Network {
    fn disturb(&self, replica: &str, wire: Wire) {
        self.wires.lock().insert(replica.to_owned(), wire);
    }

    fn mend(&self, replica: &str) {
        self.wires.lock().remove(replica);
    }

    fn accepted(&self, by: &str, is_lease: bool) -> Vec<Instant> {
        let accepted = self.accepted.lock();
        accepted
            .iter()
            .filter(|write| write.by == by && write.is_lease == is_lease)
            .map(|write| write.at)
            .collect()
    }
}

impl Hook for Network {
    fn call<'a>(&'a self, request: Request<Bytes>, next: Next<'a>) -> BoxFuture<'a, Result<Answer, Cut>> {
        Box::pin(async move {
            let by = next.user().name.clone();
            let is_lease = request.uri().path().contains("/leases");
            let is_write = request.method() != Method::GET;
            let wire = self.wires.lock().get(&by).copied();
            match wire {
                Some(Wire::Cut) => return Err(Cut),
                Some(Wire::Slow(delay)) if is_write && !is_lease => sleep(delay).await,
                Some(Wire::Silent) => std::future::pending().await,
                _ => {}
            }
            let answer = next.run(request).await?;
            if is_write && answer.status().is_success() {
                self.accepted.lock().push(Accepted { by, is_lease, at: Instant::now() });
            }
            match wire {
                Some(Wire::Deaf) => return Err(Cut),
                Some(Wire::Late(delay)) => sleep(delay).await,
                _ => {}
            }
            Ok(answer)
        })
    }
}

/// An API server and the network around it.
struct World {
    server: ApiServer,
    network: Network,
    /// By how much the clock of each further replica is ahead.
    skew: SignedDuration,
}

impl World {
    async fn new() -> Self {
        Self::with_skew(SignedDuration::from_hours(1)).await
    }

    async fn with_skew(skew: SignedDuration) -> Self {
        let network = Network::default();
        let server = ApiServer::builder().seed(1).hook(network.clone()).start().await.unwrap();
        Self { server, network, skew }
    }

    fn client(&self, replica: &str) -> Client {
        self.server.client_as(UserInfo::new(replica, [MASTERS]))
    }

    /// Replica "a" has the right time, "b" is ahead, "c" more so.
    fn elector(&self, replica: &str) -> Elector {
        let number = replica.bytes().next().unwrap() - b'a';
        let origin: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let clock = Clock::starting_at(origin + self.skew * i32::from(number));
        let options =
            LeaderElection { identity: Some(replica.to_owned()), ..LeaderElection::new("operator") };
        Elector::new(self.client(replica), options, clock, Entropy::seeded(number.into())).unwrap()
    }

    /// A replica that waits for its turn.
    fn waiting(&self, replica: &str) -> JoinHandle<(Leadership, Instant)> {
        let elector = self.elector(replica);
        tokio::spawn(async move { (elector.acquire().await, Instant::now()) })
    }

    fn writer(&self, replica: &str, fence: Fence) -> Api<ConfigMap> {
        Api::default_namespaced(client::fenced(self.client(replica), fence, Arc::new(|_, _| {})))
    }

    fn leases(&self) -> Api<Lease> {
        Api::default_namespaced(self.server.client())
    }

    async fn lease(&self) -> LeaseSpec {
        self.leases().get("operator").await.unwrap().spec.unwrap()
    }

    /// Changes the lease as a person with kubectl would.
    async fn patch(&self, patch: serde_json::Value) {
        self.leases().patch("operator", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }
}

async fn write(maps: &Api<ConfigMap>) -> kube::Result<ConfigMap> {
    let map = json!({"metadata": {"generateName": "written-"}});
    maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await
}

fn is_not_leader(error: kube::Error) -> bool {
    kubewright::Error::from(error).downcast_ref() == Some(&NotLeader)
}

#[tokio::test(start_paused = true)]
async fn one_of_two_leads() {
    let world = World::new().await;
    let mut first = world.elector("a").acquire().await;
    let second = world.elector("b");
    let (election, fence) = (second.watch(), second.fence());
    assert!(timeout(seconds(600), second.acquire()).await.is_err(), "two lead");
    assert!(timeout(seconds(0), first.lost()).await.is_err(), "the first one lost it");
    assert!(first.fence().is_open() && !fence.is_open());
    let election = election.borrow().clone();
    assert_eq!((election.is_leader, election.holder.as_deref()), (false, Some("a")));
    let lease = world.lease().await;
    assert_eq!(lease.holder_identity.as_deref(), Some("a"));
    assert_eq!((lease.lease_transitions, lease.lease_duration_seconds), (Some(0), Some(15)));
    let held = lease.renew_time.unwrap().0.duration_since(lease.acquire_time.unwrap().0);
    assert!((597..=600).contains(&held.as_secs()), "{held:?}");
}

#[tokio::test(start_paused = true)]
async fn of_many_that_start_at_once_one_leads() {
    let world = World::new().await;
    let mut tasks = ["a", "b", "c", "d", "e"].map(|replica| world.waiting(replica));
    for generation in 0..5 {
        sleep(seconds(60)).await;
        let leaders: Vec<usize> = (0..5).filter(|at| tasks[*at].is_finished()).collect();
        assert_eq!(leaders.len(), 1, "{leaders:?} lead");
        assert_eq!(world.lease().await.lease_transitions, Some(generation));
        // The task that waits forever takes the place of the one that has led.
        let done = std::mem::replace(&mut tasks[leaders[0]], tokio::spawn(std::future::pending()));
        done.await.unwrap().0.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_dead_leader_is_replaced_after_the_lease_duration_and_not_sooner() {
    let world = World::new().await;
    let leader = world.elector("a").acquire().await;
    let next = world.waiting("b");
    sleep(seconds(31)).await;
    let fence = leader.fence();
    drop(leader);
    assert!(!fence.is_open(), "a dead leader writes");
    let (_leader, acquired) = next.await.unwrap();
    let waited = acquired - *world.network.accepted("a", true).last().unwrap();
    assert!(waited >= LEASE && waited <= LEASE + PAUSE * 2, "{waited:?}");
    assert_eq!(world.lease().await.lease_transitions, Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_writes_nothing_after_another_has_acquired() {
    for wire in [Wire::Cut, Wire::Deaf, Wire::Slow(seconds(4))] {
        let world = World::new().await;
        let mut leader = world.elector("a").acquire().await;
        let fence = leader.fence();
        let maps = world.writer("a", fence.clone());
        let writing = tokio::spawn(async move {
            loop {
                let _ = write(&maps).await;
                sleep(Duration::from_millis(20)).await;
            }
        });
        let next = world.waiting("b");
        sleep(seconds(20)).await;
        assert!(world.network.accepted("a", false).len() > 500);
        world.network.disturb("a", wire);
        if matches!(wire, Wire::Slow(_)) {
            // Only its writes get through, slowly; of the lease it hears that somebody else took it.
            world.patch(json!({"spec": {"holderIdentity": "gone", "leaseDurationSeconds": 5}})).await;
        }
        fence.fallen().await;
        let fallen = Instant::now();
        let why = leader.lost().await;
        let (second, acquired) = next.await.unwrap();
        match wire {
            Wire::Slow(_) => assert_eq!(why, Lost::Taken { by: Some("gone".to_owned()) }),
            Wire::Cut => {
                assert_eq!(why, Lost::Expired);
                assert!(acquired >= fallen + LEASE - RENEW, "{:?} too close", acquired - fallen);
            }
            _ => assert_eq!(why, Lost::Expired),
        }
        assert!(acquired > fallen);
        // Once the network is back, the former leader still has nothing to say.
        world.network.mend("a");
        sleep(seconds(60)).await;
        let last = *world.network.accepted("a", false).last().unwrap();
        assert!(last <= fallen, "a write {:?} after the fence had fallen", last - fallen);
        assert!(!writing.is_finished() && second.fence().is_open());
        writing.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_does_not_prolong_the_leadership() {
    let world = World::new().await;
    let mut leader = world.elector("a").acquire().await;
    let next = world.waiting("b");
    world.network.disturb("a", Wire::Late(seconds(4)));
    sleep(seconds(61)).await;
    world.network.disturb("a", Wire::Cut);
    assert_eq!(leader.lost().await, Lost::Expired);
    let renewed = *world.network.accepted("a", true).last().unwrap();
    assert_eq!((Instant::now() - renewed).as_secs(), RENEW.as_secs());
    assert!(!next.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_was_asleep_writes_nothing_when_it_wakes() {
    let world = World::new().await;
    let leader = world.elector("a").acquire().await;
    let fence = leader.fence();
    sleep(seconds(5)).await;
    assert!(fence.is_open());
    // Time goes by, but no task runs: not the one that renews, nor the one that would notice.
    tokio::time::advance(RENEW).now_or_never();
    assert!(!fence.is_open());
    assert!(is_not_leader(write(&world.writer("a", fence)).await.unwrap_err()));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_never_answered_is_given_up_in_time_for_another() {
    let world = World::new().await;
    let mut leader = world.elector("a").acquire().await;
    for _ in 0..10 {
        world.network.disturb("a", Wire::Silent);
        sleep(PAUSE).await;
        world.network.mend("a");
        assert!(timeout(RENEW, leader.lost()).await.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_shorter_than_the_renew_deadline_is_survived() {
    for wire in [Wire::Cut, Wire::Deaf] {
        let world = World::new().await;
        let mut leader = world.elector("a").acquire().await;
        let fence = leader.fence();
        let _next = world.waiting("b");
        for _ in 0..20 {
            sleep(seconds(7)).await;
            // It starts right after a renewal.
            let renewals = world.network.accepted("a", true).len();
            while world.network.accepted("a", true).len() == renewals {
                sleep(Duration::from_millis(1)).await;
            }
            world.network.disturb("a", wire);
            sleep(RENEW - PAUSE - Duration::from_millis(100)).await;
            assert!(fence.is_open());
            world.network.mend("a");
        }
        assert!(timeout(seconds(60), leader.lost()).await.is_err());
        assert!(write(&world.writer("a", fence)).await.is_ok());
        assert_eq!(world.lease().await.lease_transitions, Some(0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_taken_over_at_the_next_try() {
    let world = World::new().await;
    let leader = world.elector("a").acquire().await;
    let next = world.waiting("b");
    sleep(seconds(20)).await;
    let fence = leader.fence();
    leader.release().await.unwrap();
    assert!(!fence.is_open());
    let released = Instant::now();
    let lease = world.lease().await;
    assert_eq!((lease.holder_identity.as_deref(), lease.lease_duration_seconds), (Some(""), Some(1)));
    let (_leader, acquired) = next.await.unwrap();
    assert!(acquired - released <= PAUSE, "{:?}", acquired - released);
    let lease = world.lease().await;
    assert_eq!((lease.holder_identity.as_deref(), lease.lease_transitions), (Some("b"), Some(1)));
    assert_eq!(lease.lease_duration_seconds, Some(15));
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_not_released_if_another_holds_it_or_if_nobody_asked() {
    let world = World::new().await;
    let leader = world.elector("a").acquire().await;
    world.patch(json!({"spec": {"holderIdentity": "person"}})).await;
    leader.release().await.unwrap();
    assert_eq!(world.lease().await.holder_identity.as_deref(), Some("person"));

    let options = LeaderElection { release_on_shutdown: false, ..LeaderElection::new("kept") };
    let elector = Elector::new(world.client("a"), options, Clock::system(), Entropy::seeded(1)).unwrap();
    let identity = elector.identity().to_owned();
    elector.acquire().await.release().await.unwrap();
    let kept = world.leases().get("kept").await.unwrap().spec.unwrap();
    assert_eq!(kept.holder_identity, Some(identity));
}

#[tokio::test(start_paused = true)]
async fn a_release_that_nobody_answers_ends() {
    for wire in [Wire::Cut, Wire::Silent] {
        let world = World::new().await;
        let leader = world.elector("a").acquire().await;
        world.network.disturb("a", wire);
        assert!(timeout(RENEW * 2, leader.release()).await.unwrap().is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_in_flight_is_cut_when_the_fence_falls() {
    let world = World::new().await;
    let leader = world.elector("a").acquire().await;
    let maps = world.writer("a", leader.fence());
    world.network.disturb("a", Wire::Slow(seconds(30)));
    let started = Instant::now();
    assert!(write(&maps).await.is_ok(), "the lease was renewed all the while");
    assert_eq!(started.elapsed().as_secs(), 30);

    let in_flight = tokio::spawn(async move { write(&maps).await });
    sleep(seconds(1)).await;
    world.network.disturb("a", Wire::Cut);
    let renewed = *world.network.accepted("a", true).last().unwrap();
    let cut = in_flight.await.unwrap().unwrap_err();
    assert!(is_not_leader(cut));
    assert_eq!((Instant::now() - renewed).as_secs(), RENEW.as_secs());
    sleep(seconds(60)).await;
    assert_eq!(world.network.accepted("a", false).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_others_write_beside_the_holder_is_kept() {
    let world = World::new().await;
    let mut leader = world.elector("a").acquire().await;
    for _ in 0..20 {
        world.patch(json!({"metadata": {"annotations": {"note": "hello"}}})).await;
        let patched = Instant::now();
        assert!(timeout(PAUSE, leader.lost()).await.is_err());
        assert!(*world.network.accepted("a", true).last().unwrap() >= patched, "not renewed at once");
    }
    let lease = world.leases().get("operator").await.unwrap();
    assert_eq!(lease.metadata.annotations.unwrap()["note"], "hello");
}

#[tokio::test(start_paused = true)]
async fn whoever_is_written_into_the_lease_leads() {
    for holder in ["person", ""] {
        let world = World::new().await;
        let elector = world.elector("a");
        let election = elector.watch();
        let mut leader = elector.acquire().await;
        assert!(election.borrow().is_leader);
        world.patch(json!({"spec": {"holderIdentity": holder}})).await;
        let why = timeout(PAUSE, leader.lost()).await.unwrap();
        let holder = Some(holder.to_owned()).filter(|holder| !holder.is_empty());
        assert_eq!(why, Lost::Taken { by: holder.clone() });
        assert_eq!(leader.lost().await, why, "it stays lost");
        assert!(!leader.fence().is_open());
        assert_eq!((election.borrow().is_leader, &election.borrow().holder), (false, &holder));
    }
}

#[tokio::test(start_paused = true)]
async fn remarks_on_the_lease_of_a_dead_leader_do_not_keep_it_alive() {
    let world = World::new().await;
    drop(world.elector("a").acquire().await);
    let next = world.waiting("b");
    for _ in 0..20 {
        sleep(seconds(1)).await;
        world.patch(json!({"metadata": {"annotations": {"at": format!("{:?}", Instant::now())}}})).await;
    }
    assert!(next.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_lease_is_no_invitation() {
    let world = World::new().await;
    let mut leader = world.elector("a").acquire().await;
    let next = world.waiting("b");
    for _ in 0..20 {
        sleep(Duration::from_millis(4700)).await;
        world.leases().delete("operator", &DeleteParams::default()).await.unwrap();
    }
    assert!(!next.is_finished() && timeout(PAUSE, leader.lost()).await.is_err());
    assert_eq!(world.lease().await.holder_identity.as_deref(), Some("a"));
    // If its leader is gone, too, the next one has its turn.
    world.network.disturb("a", Wire::Cut);
    world.leases().delete("operator", &DeleteParams::default()).await.unwrap();
    leader.lost().await;
    assert!(!next.is_finished());
    assert!(timeout(LEASE, next).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn clocks_that_disagree_change_nothing() {
    let run = async |hours| {
        let world = World::with_skew(SignedDuration::from_hours(hours)).await;
        let started = Instant::now();
        let mut leader = world.elector("a").acquire().await;
        let next = world.waiting("b");
        sleep(seconds(100)).await;
        world.network.disturb("a", Wire::Cut);
        leader.lost().await;
        let lost = Instant::now();
        let (_second, acquired) = next.await.unwrap();
        (lost - started, acquired - started)
    };
    let expected = run(0).await;
    for hours in [-24, -1, 1, 24] {
        assert_eq!(run(hours).await, expected, "{hours} hours");
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_leads_while_the_server_is_away_and_somebody_does_when_it_is_back() {
    let world = World::new().await;
    world.network.disturb("a", Wire::Cut);
    let next = world.waiting("a");
    sleep(seconds(300)).await;
    assert!(!next.is_finished());
    world.network.mend("a");
    assert!(timeout(PAUSE, next).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn reads_pass_a_fence_that_writes_do_not() {
    let world = World::new().await;
    let counts: [Arc<AtomicU32>; 3] = Default::default();
    let observer = {
        let counts = counts.clone();
        move |_: &Method, status: Option<StatusCode>| {
            let at = match status {
                Some(status) if status.is_success() => 0,
                Some(_) => 1,
                None => 2,
            };
            counts[at].fetch_add(1, Ordering::Relaxed);
        }
    };
    let closed = world.elector("a").fence();
    let fenced = client::fenced(world.client("a"), closed, Arc::new(observer));
    let maps: Api<ConfigMap> = Api::default_namespaced(fenced.clone());
    let refused = write(&maps).await.unwrap_err();
    assert_eq!(
        kubewright::Error::from(refused).to_string(),
        "ServiceError: not the leader any more: write refused"
    );
    assert!(is_not_leader(maps.delete("some", &DeleteParams::default()).await.unwrap_err()));
    assert!(maps.get_opt("none").await.unwrap().is_none());
    let question = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec::default(),
        ..SelfSubjectAccessReview::default()
    };
    let answer = Api::all(fenced).create(&PostParams::default(), &question).await;
    assert!(!answer.is_err_and(is_not_leader));
    world.network.disturb("a", Wire::Cut);
    assert!(maps.get("none").await.is_err());
    let counts = counts.map(|count| count.load(Ordering::Relaxed));
    assert_eq!((counts.iter().sum::<u32>(), counts[2]), (3, 1), "what was refused was never sent");
}

#[tokio::test]
async fn options_that_are_not_safe_are_refused() {
    let server = ApiServer::start().await.unwrap();
    let refused = |change: &dyn Fn(&mut LeaderElection)| {
        let mut options = LeaderElection::new("operator");
        change(&mut options);
        Elector::new(server.client(), options, Clock::system(), Entropy::seeded(1)).err()
    };
    assert_eq!(refused(&|_| {}), None);
    assert_eq!(refused(&|options| options.name.clear()), Some(OptionsError::NoName));
    assert_eq!(refused(&|options| options.identity = Some(String::new())), Some(OptionsError::NoIdentity));
    assert_eq!(refused(&|options| options.retry_period = Duration::ZERO), Some(OptionsError::NoRetryPeriod));
    let short = refused(&|options| options.lease_duration = RENEW).unwrap();
    assert_eq!(
        short.to_string(),
        "leader election: lease_duration must be longer than renew_deadline, but 10s is not longer than 10s"
    );
    let short = refused(&|options| options.renew_deadline = PAUSE).unwrap();
    assert_eq!(
        short.to_string(),
        "leader election: renew_deadline must be longer than 1.2 times retry_period, but 2.4s is not longer than 1.2 times 2s"
    );
}

#[tokio::test]
async fn two_replicas_on_one_host_have_two_identities() {
    let server = ApiServer::start().await.unwrap();
    let identity = |seed| {
        let options = LeaderElection::new("operator");
        let elector = Elector::new(server.client(), options, Clock::system(), Entropy::seeded(seed)).unwrap();
        elector.identity().to_owned()
    };
    assert_ne!(identity(1), identity(2));
    assert_eq!(identity(1), identity(1));
}
