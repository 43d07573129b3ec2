//! The work queue by behaviour, through its public interface. Time is tokio's and stands still.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests may fail the test")]

mod model;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures_util::{FutureExt as _, future::join_all};
use kubewright::{
    Key,
    entropy::Entropy,
    queue::{
        Options, Outcome,
        Priority::{self, High, Low, Normal},
        Queue, RateLimit, Standing, Taken,
    },
};
use parking_lot::Mutex;
use tokio::{
    task::{JoinHandle, unconstrained, yield_now},
    time::{Instant, advance, timeout},
};

const FAILED: Outcome = Outcome::Retry { after: None };

fn queue() -> Queue<u32> {
    Queue::new(Options::default(), Entropy::seeded(1))
}

/// Takes a key if there is one now.
fn take(queue: &Queue<u32>) -> Option<Taken<u32>> {
    unconstrained(queue.get()).now_or_never().flatten()
}

/// Takes and ends what there is now.
fn drain(queue: &Queue<u32>) -> Vec<u32> {
    std::iter::from_fn(|| take(queue))
        .map(|taken| {
            let key = *taken.key();
            taken.done(Outcome::Success);
            key
        })
        .collect()
}

fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Fails a key once it is ready, and says how long it was away after that.
async fn pause_after(queue: &Queue<u32>, outcome: Outcome) -> Duration {
    queue.get().await.unwrap().done(outcome);
    let Standing::Delayed { until } = queue.describe(1)[0].standing else { panic!("expected a pause") };
    until - Instant::now()
}

#[tokio::test(start_paused = true)]
async fn a_key_waits_only_once() {
    let queue = queue();
    for key in [1, 2, 1, 1, 2] {
        queue.add(key, Normal);
    }
    assert_eq!(queue.stats().adds, 2);
    assert_eq!(drain(&queue), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_key_added_while_it_is_worked_on_is_ready_when_that_is_done() {
    let queue = queue();
    queue.add(1, Normal);
    let taken = take(&queue).unwrap();
    queue.add(1, Normal);
    queue.add(1, High);
    assert!(take(&queue).is_none());
    taken.done(Outcome::Success);
    let again = take(&queue).unwrap();
    assert_eq!((*again.key(), again.priority(), again.is_retry()), (1, High, false));
    again.done(Outcome::Success);
    assert!(take(&queue).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_key_delayed_while_it_is_worked_on_comes_at_the_earliest_time_asked_for() {
    for (outcome, expected) in [(Outcome::Success, 30), (Outcome::After(millis(10)), 10)] {
        let queue = queue();
        queue.add(1, Normal);
        let taken = take(&queue).unwrap();
        queue.add_after(1, millis(40), Normal);
        queue.add_after(1, millis(30), Normal);
        taken.done(outcome);
        let start = Instant::now();
        queue.get().await.unwrap().done(Outcome::Success);
        assert_eq!(start.elapsed(), millis(expected));
        assert_eq!(queue.stats().delayed, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_plain_add_makes_a_delayed_key_ready() {
    let queue = queue();
    queue.add_after(1, millis(50), Low);
    assert!(take(&queue).is_none());
    queue.add(1, Normal);
    assert_eq!(drain(&queue), [1]);
    advance(millis(100)).await;
    assert!(take(&queue).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_delay_is_shortened_but_not_prolonged() {
    let queue = queue();
    queue.add_after(1, millis(50), Normal);
    queue.add_after(1, millis(20), Normal);
    queue.add_after(1, millis(90), High);
    let start = Instant::now();
    let taken = queue.get().await.unwrap();
    assert_eq!((start.elapsed(), taken.priority()), (millis(20), High));
    taken.done(Outcome::Success);
    assert_eq!(queue.stats().delayed, 0);
}

#[tokio::test(start_paused = true)]
async fn keys_come_in_the_order_in_which_they_became_ready() {
    let queue = queue();
    queue.add_after(3, millis(10), Normal);
    queue.add_after(4, millis(10), Normal);
    queue.add_after(2, millis(5), Normal);
    queue.add(1, Normal);
    advance(millis(20)).await;
    queue.add(5, Normal);
    assert_eq!(drain(&queue), [1, 2, 3, 4, 5]);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_ready_again_goes_to_the_back() {
    let queue = queue();
    queue.add(1, Normal);
    let first = take(&queue).unwrap();
    queue.add(1, Normal);
    queue.add(2, Normal);
    queue.add(3, Normal);
    first.done(Outcome::Success);
    assert_eq!(drain(&queue), [2, 3, 1]);
}

#[tokio::test(start_paused = true)]
async fn higher_priorities_go_first_and_adding_raises_but_never_lowers() {
    let queue = queue();
    queue.add(1, Low);
    queue.add(2, Low);
    queue.add(3, Normal);
    queue.add(4, High);
    queue.add(4, Low);
    queue.add(2, High);
    assert_eq!(drain(&queue), [4, 2, 3, 1]);
}

#[tokio::test(start_paused = true)]
async fn of_ten_hand_outs_under_constant_load_one_is_for_a_lower_level() {
    for loads in [&[Normal, High][..], &[High], &[Normal]] {
        let queue = queue();
        for key in 0..100 {
            queue.add(key, Low);
        }
        let mut levels = Vec::new();
        for step in 0..500 {
            for (number, priority) in loads.iter().enumerate() {
                queue.add(1000 + step * 2 + number as u32, *priority);
            }
            let taken = take(&queue).unwrap();
            levels.push(taken.priority());
            taken.done(Outcome::Success);
        }
        for window in levels.windows(10) {
            assert_eq!(window.iter().filter(|level| **level == Low).count(), 1, "{window:?}");
        }
        for window in levels.windows(11) {
            assert!(loads.iter().all(|load| window.contains(load)), "{window:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_always_fails_does_not_delay_others() {
    let queue = queue();
    queue.add(0, High);
    let mut failures = 0;
    for key in 1..=1000 {
        queue.add(key, Normal);
        loop {
            let taken = queue.get().await.unwrap();
            // Timers go by the millisecond.
            assert!(taken.waited() < millis(1));
            if *taken.key() == key {
                taken.done(Outcome::Success);
                break;
            }
            failures += 1;
            taken.done(FAILED);
        }
        advance(millis(1)).await;
    }
    assert!((5..20).contains(&failures), "{failures} failures in a second");
}

#[tokio::test(start_paused = true)]
async fn pauses_double_up_to_the_cap_shortened_by_a_fifth_at_most() {
    let queue = queue();
    queue.add(1, Normal);
    for failures in 0..40 {
        let pause = pause_after(&queue, FAILED).await;
        let whole = Duration::from_secs(1000).min(millis(5).saturating_mul(2_u32.saturating_pow(failures)));
        assert!(pause <= whole && pause >= whole.mul_f64(0.8), "{pause:?} of {whole:?}");
        assert_eq!(queue.describe(1)[0].failures, failures + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn base_and_cap_can_be_set() {
    let options = Options { base: Duration::from_secs(1), cap: Duration::from_secs(3), ..Options::default() };
    let queue = Queue::new(options, Entropy::seeded(1));
    queue.add(1, Normal);
    for whole in [1.0, 2.0, 3.0, 3.0] {
        let pause = pause_after(&queue, FAILED).await.as_secs_f64();
        assert!(pause <= whole && pause >= 0.8 * whole, "{pause} of {whole}");
    }
}

#[tokio::test(start_paused = true)]
async fn pauses_follow_from_the_seed() {
    let mut runs = Vec::new();
    for seed in [7, 7, 8] {
        let queue = Queue::new(Options::default(), Entropy::seeded(seed));
        queue.add(1, Normal);
        let mut pauses = Vec::new();
        for _ in 0..8 {
            pauses.push(pause_after(&queue, FAILED).await);
        }
        runs.push(pauses);
    }
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2]);
}

#[tokio::test(start_paused = true)]
async fn success_and_forgetting_reset_the_pause() {
    for outcome in [Outcome::Success, Outcome::Forget, Outcome::After(millis(1))] {
        let queue = queue();
        queue.add(1, Normal);
        for _ in 0..6 {
            queue.get().await.unwrap().done(FAILED);
        }
        assert_eq!(queue.stats().failing, 1);
        let taken = queue.get().await.unwrap();
        assert_eq!((taken.is_retry(), taken.failures()), (true, 6));
        taken.done(outcome);
        assert_eq!(queue.stats().failing, 0);
        queue.add(1, Normal);
        assert!(pause_after(&queue, FAILED).await <= millis(5));
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_terminal_failure_nothing_is_scheduled() {
    let queue = queue();
    queue.add(1, Normal);
    take(&queue).unwrap().done(Outcome::Forget);
    assert_eq!(queue.describe(10), []);
}

#[tokio::test(start_paused = true)]
async fn a_key_comes_back_when_it_was_asked_to() {
    let queue = queue();
    queue.add(1, Low);
    let start = Instant::now();
    take(&queue).unwrap().done(Outcome::After(Duration::from_secs(60)));
    let taken = queue.get().await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(60));
    assert_eq!((taken.is_retry(), taken.priority()), (false, Low));
}

#[tokio::test(start_paused = true)]
async fn what_wants_to_come_back_at_once_rests_longer_each_time_and_has_not_failed() {
    for asked in [Duration::ZERO, Duration::from_nanos(1), millis(4)] {
        let queue = queue();
        queue.add(1, Normal);
        for times in 0..10 {
            let pause = pause_after(&queue, Outcome::After(asked)).await;
            let whole = millis(5).saturating_mul(2_u32.pow(times));
            assert!(pause <= whole && pause >= whole.mul_f64(0.8).max(asked), "{pause:?} of {whole:?}");
            let stats = queue.stats();
            assert_eq!((queue.describe(1)[0].failures, stats.failing, stats.retries), (0, 0, 0));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_no_longer_wants_to_come_back_at_once_is_not_held_up_later() {
    let at_once = Outcome::After(Duration::ZERO);
    for outcome in [Outcome::Success, Outcome::Forget, Outcome::After(millis(5))] {
        let queue = queue();
        queue.add(1, Normal);
        for _ in 0..6 {
            queue.get().await.unwrap().done(at_once);
        }
        queue.add(1, Normal);
        let taken = take(&queue).unwrap();
        // So that the queue keeps the key.
        queue.add_after(1, Duration::from_secs(1), Normal);
        taken.done(outcome);
        assert!(pause_after(&queue, at_once).await <= millis(5));
    }
}

#[tokio::test(start_paused = true)]
async fn changes_in_the_middle_of_such_a_rest_do_not_make_it_longer() {
    let queue = queue();
    queue.add(1, Normal);
    for times in 0..10 {
        let pause = pause_after(&queue, Outcome::After(Duration::ZERO)).await;
        assert!(pause >= millis(4) * 2_u32.pow(times));
        for _ in 0..100 {
            queue.add(1, Normal);
            assert_eq!(pause_after(&queue, Outcome::After(Duration::ZERO)).await, pause);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_waits_at_least_as_long_as_the_server_asks() {
    let queue = queue();
    queue.add(1, Normal);
    let seven = Duration::from_secs(7);
    assert_eq!(pause_after(&queue, Outcome::Retry { after: Some(seven) }).await, seven);
    for _ in 0..15 {
        queue.get().await.unwrap().done(FAILED);
    }
    assert!(pause_after(&queue, Outcome::Retry { after: Some(seven) }).await > seven);
}

#[tokio::test(start_paused = true)]
async fn failures_in_the_middle_of_a_pause_do_not_make_it_longer() {
    let queue = queue();
    queue.add(1, Normal);
    let start = Instant::now();
    let mut failed = 0;
    while start.elapsed() < Duration::from_secs(60) {
        queue.get().await.unwrap().done(FAILED);
        for _ in 0..100 {
            queue.add(1, Normal);
            take(&queue).unwrap().done(FAILED);
        }
        failed += 1;
    }
    let taken = queue.get().await.unwrap();
    assert_eq!(taken.failures(), failed);
    assert!(start.elapsed() < Duration::from_secs(3 * 60));
}

#[tokio::test(start_paused = true)]
async fn hand_outs_keep_to_the_rate_limit() {
    let options = Options { limit: Some(RateLimit { per_second: 10, burst: 5 }), ..Options::default() };
    let queue = Queue::new(options, Entropy::seeded(1));
    for key in 0..25 {
        queue.add(key, Normal);
    }
    let start = Instant::now();
    let workers = (0..3).map(|_| async {
        let mut times = Vec::new();
        while let Ok(Some(taken)) = timeout(Duration::from_secs(5), queue.get()).await {
            times.push(start.elapsed().as_millis());
            taken.done(Outcome::Success);
        }
        times
    });
    let mut times = join_all(workers).await.concat();
    times.sort_unstable();
    let expected: Vec<u128> = [0; 5].into_iter().chain((1..=20).map(|step| step * 100)).collect();
    assert_eq!(times, expected);
}

#[tokio::test(start_paused = true)]
async fn a_key_whose_task_panics_or_is_aborted_is_tried_again() {
    let queue = queue();
    queue.add(1, Normal);
    let taken = take(&queue).unwrap();
    let panicked = tokio::spawn(async move {
        let _taken = taken;
        panic!("as planned");
    });
    assert!(panicked.await.unwrap_err().is_panic());
    let taken = queue.get().await.unwrap();
    assert_eq!(taken.failures(), 1);
    let aborted = tokio::spawn(async move {
        let _taken = taken;
        std::future::pending::<()>().await;
    });
    yield_now().await;
    aborted.abort();
    assert_eq!(queue.get().await.unwrap().failures(), 2);
    assert_eq!(queue.stats().retries, 3);
}

#[tokio::test(start_paused = true)]
async fn shutting_down_wakes_all_and_drops_what_waits() {
    let queue = queue();
    queue.add(1, Normal);
    queue.add(2, Normal);
    let (ended, failed) = (take(&queue).unwrap(), take(&queue).unwrap());
    queue.add_after(3, millis(10), Normal);
    let getters: Vec<_> = (0..8).map(|_| waiting(&queue)).collect();
    yield_now().await;
    queue.add(1, Normal);
    let start = Instant::now();
    queue.shut_down();
    for getter in getters {
        assert_eq!(getter.await.unwrap(), None);
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
    queue.add(4, Normal);
    ended.done(Outcome::Success);
    failed.done(FAILED);
    assert!(queue.get().await.is_none());
    let stats = queue.stats();
    assert_eq!((stats.depth(), stats.delayed, stats.processing, stats.failing), (0, 0, 0, 0));
}

/// A task that waits for a key and gives the time it came.
fn waiting(queue: &Queue<u32>) -> JoinHandle<Option<(u32, Instant)>> {
    let queue = queue.clone();
    tokio::spawn(async move {
        let taken = queue.get().await?;
        let key = *taken.key();
        taken.done(Outcome::Success);
        Some((key, Instant::now()))
    })
}

#[tokio::test(start_paused = true)]
async fn a_getter_that_is_dropped_takes_nothing_and_leaves_its_watch_to_another() {
    let queue = queue();
    let start = Instant::now();
    let stays = waiting(&queue);
    yield_now().await;
    let goes = waiting(&queue);
    yield_now().await;
    // Woken first, `stays` takes this one; `goes` is now the only one that waits.
    queue.add(1, Normal);
    assert_eq!(stays.await.unwrap().unwrap().0, 1);
    let unaware = waiting(&queue);
    yield_now().await;
    // Only `goes` is told of the delay, and it is dropped before that is over.
    queue.add_after(2, millis(10), Normal);
    yield_now().await;
    goes.abort();
    let (key, at) = timeout(Duration::from_secs(1), unaware).await.unwrap().unwrap().unwrap();
    assert_eq!((key, at - start), (2, millis(10)));
}

#[tokio::test(start_paused = true)]
async fn a_getter_that_waits_hears_of_an_earlier_key() {
    let queue = queue();
    queue.add_after(1, Duration::from_secs(100), Normal);
    let start = Instant::now();
    let getters: Vec<_> = (0..3).map(|_| waiting(&queue)).collect();
    yield_now().await;
    queue.add_after(2, millis(30), Normal);
    queue.add_after(3, millis(20), Normal);
    let mut came: Vec<_> = join_all(getters).await.into_iter().map(|got| got.unwrap().unwrap()).collect();
    came.sort_by_key(|(_, at)| *at);
    let came: Vec<_> = came.into_iter().map(|(key, at)| (key, (at - start).as_millis())).collect();
    assert_eq!(came, [(3, 20), (2, 30), (1, 100_000)]);
}

#[tokio::test(start_paused = true)]
async fn forgetting_a_key_takes_back_only_what_was_to_come() {
    let queue = queue();
    for key in 0..3 {
        queue.add(key, Normal);
        let taken = take(&queue).unwrap();
        taken.done(FAILED);
    }
    queue.add(1, Normal);
    queue.add(2, Normal);
    let taken = [take(&queue).unwrap(), take(&queue).unwrap()];
    queue.add_after(1, millis(10), Normal);
    queue.add(2, Normal);
    assert_eq!(queue.stats().failing, 3);
    for key in 0..4 {
        queue.forget(&key);
    }
    assert_eq!((queue.stats().failing, queue.stats().delayed), (0, 0));
    for taken in taken {
        taken.done(Outcome::Success);
    }
    assert_eq!(drain(&queue), [2]);
    assert_eq!(queue.stats().delayed, 0);
}

#[tokio::test(start_paused = true)]
async fn the_figures_tell_what_there_is_to_do() {
    let queue = queue();
    for (key, priority) in [(1, High), (2, High), (3, Low), (4, Normal), (5, Normal), (6, Normal)] {
        queue.add(key, priority);
    }
    queue.add_after(7, Duration::from_secs(60), Normal);
    let first = take(&queue).unwrap();
    advance(Duration::from_secs(2)).await;
    let second = take(&queue).unwrap();
    assert_eq!((first.waited(), second.waited()), (Duration::ZERO, Duration::from_secs(2)));
    advance(Duration::from_secs(3)).await;
    take(&queue).unwrap().done(FAILED);
    queue.add(1, Normal);

    let stats = queue.stats();
    assert_eq!(stats.ready, [(Low, 1), (Normal, 2), (High, 0)]);
    assert_eq!((stats.depth(), stats.delayed, stats.processing, stats.failing), (3, 2, 2, 1));
    assert_eq!((stats.adds, stats.retries), (6, 1));
    assert_eq!(stats.longest_running, Duration::from_secs(5));
    assert_eq!(stats.unfinished, Duration::from_secs(8));

    let told = queue.describe(100);
    let keys: Vec<u32> = told.iter().map(|entry| entry.key).collect();
    assert_eq!(keys, [1, 2, 5, 6, 3, 4, 7]);
    let now = Instant::now();
    assert_eq!(
        told[0].standing,
        Standing::Processing { since: now - Duration::from_secs(5), again: Some(now) }
    );
    assert_eq!(told[2].standing, Standing::Ready { since: now - Duration::from_secs(5) });
    assert_eq!(told[6].standing, Standing::Delayed { until: now + Duration::from_secs(55) });
    assert_eq!((told[5].failures, told[6].failures), (1, 0));
    assert_eq!(queue.describe(2).len(), 2);
}

/// Who works on what, so that nobody works on what another works on.
#[derive(Default)]
struct Floor {
    busy: BTreeSet<Key>,
    handled: BTreeSet<Key>,
}

async fn work(queue: Queue, floor: Arc<Mutex<Floor>>, expected: usize) {
    while let Some(taken) = queue.get().await {
        assert!(floor.lock().busy.insert(taken.key().clone()), "{} is handed out twice", taken.key());
        yield_now().await;
        // Keeps everybody busy until the last key had its turn.
        queue.add(taken.key().clone(), Normal);
        let mut floor = floor.lock();
        floor.busy.remove(taken.key());
        let is_first = floor.handled.insert(taken.key().clone());
        if floor.handled.len() == expected {
            queue.shut_down();
        }
        drop(floor);
        taken.done(if is_first { FAILED } else { Outcome::Success });
    }
}

async fn everything_is_handled(keys: usize) {
    let queue = Queue::new(Options::default(), Entropy::seeded(1));
    let floor = Arc::new(Mutex::new(Floor::default()));
    let workers: Vec<_> = (0..16).map(|_| tokio::spawn(work(queue.clone(), floor.clone(), keys))).collect();
    for number in 0..keys {
        queue.add(Key::new("default", &format!("web-{number}")), Priority::ALL[number % 3]);
    }
    for worker in workers {
        worker.await.unwrap();
    }
    assert_eq!(floor.lock().handled.len(), keys);
    assert_eq!(queue.stats().processing, 0);
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_keys_are_all_handled_none_twice_at_once() {
    everything_is_handled(10_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn threads_of_their_own_make_no_difference() {
    everything_is_handled(10_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_wake_up_is_lost_between_threads() {
    let queue = queue();
    let workers: Vec<_> = (0..8)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move {
                let mut count = 0;
                while let Some(taken) = queue.get().await {
                    taken.done(Outcome::Success);
                    count += 1;
                }
                count
            })
        })
        .collect();
    for key in 0..20_000 {
        queue.add(key, Normal);
        if key % 7 == 0 {
            yield_now().await;
        }
    }
    while queue.stats().depth() + queue.stats().processing > 0 {
        yield_now().await;
    }
    queue.shut_down();
    let counts: Vec<u32> = join_all(workers).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(counts.iter().sum::<u32>(), 20_000);
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_hand_outs() {
    let mut runs = Vec::new();
    for seed in [3, 3, 4] {
        let queue = Queue::new(Options::default(), Entropy::seeded(seed));
        let start = Instant::now();
        for key in 0..200_u32 {
            queue.add(key, Priority::ALL[key as usize % 3]);
        }
        let mut run = Vec::new();
        while run.len() < 1000 {
            let taken = queue.get().await.unwrap();
            run.push((*taken.key(), start.elapsed(), taken.waited()));
            taken.done(FAILED);
        }
        runs.push(run);
    }
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2]);
}
