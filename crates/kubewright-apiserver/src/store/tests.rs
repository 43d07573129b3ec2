//! The store in memory, against a model that keeps every state there ever was.

use std::{
    collections::{BTreeMap, VecDeque},
    pin::pin,
    sync::atomic::{AtomicUsize, Ordering},
    task::{Context, Poll, Wake, Waker},
};

use proptest::prelude::*;

use super::*;

/// Polls once: what needs no waiting is done then.
fn poll_once<T>(future: impl Future<Output = T>) -> Poll<T> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// The outcome of what must not wait.
fn now<T>(future: impl Future<Output = T>) -> T {
    match poll_once(future) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("waits"),
    }
}

pub(super) fn resource(index: u8) -> ResourceId {
    match index {
        0 => ResourceId::new("", "configmaps"),
        _ => ResourceId::new("apps", "deployments"),
    }
}

pub(super) fn put(index: u8, key: &str, expect: Expect, value: u32) -> Write {
    let labels = [("value", value.to_string())].into_iter().collect();
    let change = Change::put(labels, Attributes::default(), move |revision, out| {
        out.extend_from_slice(format!("{revision}:{value}").as_bytes());
    });
    Write { resource: resource(index), key: key.into(), expect, change }
}

pub(super) fn delete(index: u8, key: &str, expect: Expect) -> Write {
    let change = Change::delete(|revision, last, out| {
        out.extend_from_slice(format!("{revision}:deleted:").as_bytes());
        out.extend_from_slice(&last.bytes);
    });
    Write { resource: resource(index), key: key.into(), expect, change }
}

fn create(store: &Store, key: &str) -> Arc<Event> {
    now(store.commit(put(0, key, Expect::Absent, 0))).unwrap()
}

fn keys(objects: &Collection, prefix: &str, start: &str) -> Vec<String> {
    objects.range(prefix, start).map(|object| object.key.to_string()).collect()
}

fn revisions(events: &[Arc<Event>]) -> Vec<u64> {
    events.iter().map(|event| event.revision).collect()
}

/// One write of a random sequence. Whether it creates, updates or deletes follows from what is there.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) resource: u8,
    pub(super) key: String,
    pub(super) value: u32,
    pub(super) deletes: bool,
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    (0..2_u8, "[ab]/[a-d]", any::<u32>(), prop::bool::weighted(0.3))
        .prop_map(|(resource, key, value, deletes)| Step { resource, key, value, deletes })
}

/// What a collection holds: key to revision and bytes.
pub(super) type Objects = BTreeMap<String, (u64, String)>;

/// Every state a store went through.
#[derive(Clone)]
pub(super) struct Model {
    /// By revision, from 1 on.
    pub(super) states: Vec<[Objects; 2]>,
    /// Revision and size of the events each collection keeps.
    kept: [VecDeque<(u64, usize)>; 2],
    pub(super) oldest: [u64; 2],
    limits: HistoryLimits,
}

impl Model {
    pub(super) fn new(limits: HistoryLimits) -> Self {
        Self { states: vec![Default::default()], kept: Default::default(), oldest: [1, 1], limits }
    }

    pub(super) fn revision(&self) -> u64 {
        self.states.len() as u64
    }

    pub(super) fn at(&self, revision: u64, index: u8) -> &Objects {
        &self.states[revision as usize - 1][index as usize]
    }

    /// The write that `step` means here; `None` for deleting nothing.
    pub(super) fn write(&self, step: &Step) -> Option<Write> {
        let there = self.at(self.revision(), step.resource).get(&step.key);
        let expect = there.map_or(Expect::Absent, |(revision, _)| Expect::Revision(*revision));
        match (step.deletes, there) {
            (false, _) => Some(put(step.resource, &step.key, expect, step.value)),
            (true, Some(_)) => Some(delete(step.resource, &step.key, expect)),
            (true, None) => None,
        }
    }

    pub(super) fn take(&mut self, step: &Step, event: &Event) {
        let index = step.resource as usize;
        let mut state = self.states.last().unwrap().clone();
        let revision = self.revision() + 1;
        if step.deletes {
            state[index].remove(&step.key);
        } else {
            state[index].insert(step.key.clone(), (revision, format!("{revision}:{}", step.value)));
        }
        self.states.push(state);
        let kept = &mut self.kept[index];
        kept.push_back((revision, event.object.bytes.len()));
        while kept.len() > self.limits.events
            || kept.iter().map(|(_, size)| size).sum::<usize>() > self.limits.bytes
        {
            self.oldest[index] = kept.pop_front().unwrap().0;
        }
    }

    fn compact(&mut self, revision: u64) {
        for index in 0..2 {
            self.kept[index].retain(|(of, _)| *of > revision);
            self.oldest[index] = self.oldest[index].max(revision);
        }
    }
}

pub(super) fn objects(collection: &Collection) -> Objects {
    let text = |object: &Stored| String::from_utf8(object.bytes.to_vec()).unwrap();
    let objects: Objects = collection
        .range("", "")
        .map(|object| (object.key.to_string(), (object.revision, text(object))))
        .collect();
    assert_eq!(objects.len(), collection.len());
    objects
}

/// All events after `revision`, in several batches if there are many.
fn drain(watcher: &mut Watcher) -> Vec<Arc<Event>> {
    let mut all = Vec::new();
    while let Poll::Ready(batch) = poll_once(watcher.next_batch()) {
        all.extend(batch.unwrap());
    }
    all
}

fn check(store: &Store, model: &Model) {
    let current = model.revision();
    assert_eq!(store.revision(), current);
    for index in 0..2 {
        let id = resource(index);
        let oldest = model.oldest[index as usize];
        for revision in 0..oldest {
            let compacted = Compacted { oldest };
            assert_eq!(store.collection_at(&id, revision).unwrap_err(), compacted.into());
            assert_eq!(store.watch(&id, revision).unwrap_err(), compacted);
        }
        for revision in oldest..=current {
            let listed = store.collection_at(&id, revision).unwrap();
            assert_eq!(listed.revision(), revision);
            let mut rebuilt = objects(&listed);
            assert_eq!(&rebuilt, model.at(revision, index));

            let mut watcher = store.watch(&id, revision).unwrap();
            let mut seen = revision;
            for event in drain(&mut watcher) {
                assert!(event.revision > seen, "revisions rise");
                seen = event.revision;
                let key = event.object.key.to_string();
                let before = rebuilt.get(&key).map(|(revision, _)| *revision);
                assert_eq!(event.previous.as_ref().map(|previous| previous.revision), before);
                let kind = match (event.current(), before) {
                    (Some(object), before) => {
                        let text = String::from_utf8(object.bytes.to_vec()).unwrap();
                        rebuilt.insert(key, (object.revision, text));
                        if before.is_some() { EventKind::Modified } else { EventKind::Added }
                    }
                    (None, _) => {
                        rebuilt.remove(&key);
                        EventKind::Deleted
                    }
                };
                assert_eq!((event.kind, event.object.revision), (kind, event.revision));
            }
            assert_eq!(&rebuilt, model.at(current, index), "list at {revision} and watch from there");
        }
        let future = RevisionError::Future { current };
        assert_eq!(store.collection_at(&id, current + 1).unwrap_err(), future);
    }
}

#[derive(Debug, Clone)]
enum Action {
    Write(Step),
    Fork,
    /// Up to this share of the revisions, in percent.
    Compact(u64),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        20 => step().prop_map(Action::Write),
        1 => Just(Action::Fork),
        1 => (0..=110_u64).prop_map(Action::Compact),
    ]
}

fn limits() -> impl Strategy<Value = HistoryLimits> {
    prop_oneof![
        Just(HistoryLimits::default()),
        (0..20_usize, 0..200_usize).prop_map(|(events, bytes)| HistoryLimits { events, bytes }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_writes_forks_and_compactions_matches_the_model(
        limits in limits(),
        actions in prop::collection::vec((any::<prop::sample::Index>(), action()), 0..120),
    ) {
        let store = Store::in_memory(Options { history: limits, ..Options::default() });
        let mut worlds = vec![(store, Model::new(limits))];
        for (which, action) in actions {
            let count = worlds.len();
            let (store, model) = &mut worlds[which.index(count)];
            match action {
                Action::Write(step) => {
                    if let Some(write) = model.write(&step) {
                        let event = now(store.commit(write)).unwrap();
                        prop_assert_eq!(event.revision, model.revision() + 1);
                        model.take(&step, &event);
                    }
                }
                Action::Fork => {
                    let fork = (store.fork(), model.clone());
                    worlds.push(fork);
                }
                Action::Compact(percent) => {
                    let revision = model.revision() * percent / 100;
                    store.compact(revision);
                    model.compact(revision.min(model.revision()));
                }
            }
        }
        for (store, model) in &worlds {
            check(store, model);
        }
    }
}

#[test]
fn a_failed_expectation_tells_what_is_there() {
    let store = Store::default();
    let first = create(&store, "a/x");
    let refused = [
        (put(0, "a/x", Expect::Absent, 1), Some(2)),
        (put(0, "a/x", Expect::Revision(7), 1), Some(2)),
        (delete(0, "a/x", Expect::Revision(1)), Some(2)),
        (put(0, "a/y", Expect::Revision(2), 1), None),
        (put(0, "a/y", Expect::Existing, 1), None),
        (delete(0, "a/y", Expect::Existing), None),
        (delete(0, "a/y", Expect::Absent), None),
        (delete(0, "a/x", Expect::Absent), Some(2)),
    ];
    for (write, found) in refused {
        let what = format!("{write:?}");
        match now(store.commit(write)) {
            Err(CommitError::Conflict { current, .. }) => {
                assert_eq!(current.map(|object| object.revision), found, "{what}");
            }
            other => panic!("{what}: {other:?}"),
        }
    }
    assert_eq!(store.revision(), first.revision);
    let error = now(store.commit(put(0, "a/x", Expect::Revision(7), 1))).unwrap_err();
    assert_eq!(error.to_string(), "configmaps a/x: expected Revision(7), found revision 2");
}

#[test]
fn writes_committed_together_see_each_other_and_fail_together() {
    let store = Store::default();
    let events = now(store.commit_all(vec![
        put(0, "a", Expect::Absent, 1),
        put(0, "a", Expect::Revision(2), 2),
        put(1, "a", Expect::Absent, 3),
        delete(0, "a", Expect::Existing),
        put(0, "a", Expect::Absent, 4),
    ]))
    .unwrap();
    assert_eq!(revisions(&events), [2, 3, 4, 5, 6]);
    assert_eq!(events[3].object.bytes, "5:deleted:3:2");
    assert_eq!(store.get(&resource(0), "a").unwrap().bytes, "6:4");

    let failed = now(store.commit_all(vec![
        put(0, "a", Expect::Existing, 5),
        put(0, "b", Expect::Absent, 5),
        put(1, "a", Expect::Absent, 5),
    ]));
    assert!(matches!(failed, Err(CommitError::Conflict { resource, .. }) if resource == self::resource(1)));
    assert_eq!(store.revision(), 6);
    assert_eq!(store.get(&resource(0), "a").unwrap().bytes, "6:4");
    assert!(store.get(&resource(0), "b").is_none());
}

#[test]
fn a_batch_that_loses_one_commit_still_shows_the_earlier_ones_to_the_later() {
    let state = RwLock::new(State::new());
    let mut batch = Batch::new(&state);
    let mut scratch = Vec::new();
    batch.stage(vec![put(0, "a", Expect::Absent, 1)], &mut scratch).unwrap();
    let lost = vec![
        put(0, "a", Expect::Revision(2), 2),
        put(0, "b", Expect::Absent, 2),
        put(0, "c", Expect::Existing, 2),
    ];
    batch.stage(lost, &mut scratch).unwrap_err();
    let kept = vec![put(0, "a", Expect::Revision(2), 3), put(0, "b", Expect::Absent, 3)];
    batch.stage(kept, &mut scratch).unwrap();
    let written: Vec<_> = batch.staged().iter().map(|staged| staged.event.object.bytes.clone()).collect();
    assert_eq!(written, ["2:1", "3:3", "4:3"]);
}

#[test]
fn a_namespace_is_one_range_whatever_its_neighbours_are_called() {
    let store = Store::default();
    for key in ["a/x", "a-b/x", "a/y", "a.b/x", "ab/x", "a/z", "a"] {
        create(&store, key);
    }
    let all = store.collection(&resource(0));
    assert_eq!(keys(&all, "", ""), ["a", "a-b/x", "a.b/x", "a/x", "a/y", "a/z", "ab/x"]);
    assert_eq!(keys(&all, "a/", ""), ["a/x", "a/y", "a/z"]);
    assert_eq!(keys(&all, "a/", "a/x\0"), ["a/y", "a/z"]);
    assert_eq!(keys(&all, "", "a/z"), ["a/z", "ab/x"]);
    assert_eq!(keys(&all, "a/", "b"), [""; 0]);
    assert_eq!([all.count("a/", ""), all.count("a/", "a/x\0"), all.count("", "")], [3, 2, 7]);
    let object = all.get("a-b/x").unwrap();
    assert_eq!((object.namespace(), object.name()), ("a-b", "x"));
}

#[test]
fn a_snapshot_shows_all_resources_at_its_own_revision() {
    let store = Store::default();
    create(&store, "a");
    let snapshot = store.snapshot();
    now(store.commit(put(1, "b", Expect::Absent, 0))).unwrap();
    now(store.commit(delete(0, "a", Expect::Existing))).unwrap();
    assert_eq!(snapshot.revision(), 2);
    assert_eq!(snapshot.collection(&resource(0)).len(), 1);
    assert!(snapshot.collection(&resource(1)).is_empty());
    assert_eq!(snapshot.collection_at(&resource(0), 1).unwrap().len(), 0);
    assert_eq!(store.snapshot().resources().count(), 2);
}

#[test]
fn versions_of_an_object_share_key_and_labels() {
    let store = Store::default();
    let first = create(&store, "a/x");
    let second = now(store.commit(put(0, "a/x", Expect::Existing, 0))).unwrap();
    assert!(Arc::ptr_eq(&first.object.key, &second.object.key));
    let label = |event: &Event| event.object.labels.get("value").unwrap().as_ptr();
    assert_eq!(label(&first), label(&second));
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_watcher_is_woken_by_its_own_collection_only() {
    let store = Store::default();
    let mut watcher = store.watch(&resource(0), store.revision()).unwrap();
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(wakes.clone());
    let mut next = Box::pin(watcher.next_batch());
    assert!(next.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());

    now(store.commit(put(1, "a", Expect::Absent, 0))).unwrap();
    assert_eq!(wakes.0.load(Ordering::Relaxed), 0);
    now(store.commit(put(0, "a", Expect::Absent, 0))).unwrap();
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
    assert_eq!(revisions(&now(next).unwrap()), [3]);
}

#[test]
fn giving_up_the_wait_for_a_batch_loses_nothing() {
    let store = Store::default();
    let mut watcher = store.watch(&resource(0), 1).unwrap();
    assert!(poll_once(watcher.next_batch()).is_pending());
    create(&store, "a");
    let abandoned = watcher.next_batch();
    drop(abandoned);
    assert_eq!(revisions(&now(watcher.next_batch()).unwrap()), [2]);
    assert!(poll_once(watcher.next_batch()).is_pending());
}

#[test]
fn a_watcher_far_behind_gets_everything_in_several_batches() {
    let store = Store::default();
    for index in 0..2000 {
        create(&store, &index.to_string());
    }
    let mut watcher = store.watch(&resource(0), 11).unwrap();
    assert!(now(watcher.next_batch()).unwrap().len() < 1000);
    let rest = drain(&mut watcher);
    assert_eq!(rest.last().unwrap().revision, 2001);
}

#[test]
fn a_watcher_too_slow_for_history_expires() {
    let limits = HistoryLimits { events: 2, ..HistoryLimits::default() };
    let store = Store::in_memory(Options { history: limits, ..Options::default() });
    let mut watcher = store.watch(&resource(0), 1).unwrap();
    for key in ["a", "b", "c"] {
        create(&store, key);
    }
    assert_eq!(now(watcher.next_batch()).unwrap_err(), Compacted { oldest: 2 });
    assert_eq!(watcher.caught_up(), None);
    let mut fresh = store.watch(&resource(0), 2).unwrap();
    assert_eq!(revisions(&now(fresh.next_batch()).unwrap()), [3, 4]);
}

#[test]
fn a_watcher_of_an_idle_collection_survives_a_compaction() {
    let store = Store::default();
    now(store.commit(put(1, "a", Expect::Absent, 0))).unwrap();
    let mut watcher = store.watch(&resource(1), 2).unwrap();
    create(&store, "a");
    create(&store, "b");
    store.compact(4);
    assert_eq!(store.watch(&resource(1), 3).unwrap_err(), Compacted { oldest: 4 });
    assert!(poll_once(watcher.next_batch()).is_pending());
    now(store.commit(put(1, "b", Expect::Absent, 0))).unwrap();
    assert_eq!(revisions(&now(watcher.next_batch()).unwrap()), [5]);
}

#[test]
fn a_watcher_is_caught_up_once_it_has_handed_out_all_events() {
    let store = Store::default();
    let mut watcher = store.watch(&resource(0), 1).unwrap();
    create(&store, "a");
    assert_eq!(watcher.caught_up(), None);
    now(watcher.next_batch()).unwrap();
    now(store.commit(put(1, "a", Expect::Absent, 0))).unwrap();
    assert_eq!(watcher.caught_up(), Some(3));
}

#[test]
fn the_last_watcher_to_leave_takes_the_signal_along() {
    let store = Store::default();
    let first = store.watch(&resource(0), 1).unwrap();
    let second = store.watch(&resource(0), 1).unwrap();
    drop(first);
    assert_eq!(store.0.shared.signals.count(), 1);
    drop(second);
    assert_eq!(store.0.shared.signals.count(), 0);
    assert_eq!(Arc::strong_count(&store.0.shared), 1);
}

#[test]
fn a_fork_wakes_its_own_watchers_only() {
    let store = Store::default();
    let mut watcher = store.watch(&resource(0), 1).unwrap();
    let fork = store.fork();
    let mut fork_watcher = fork.watch(&resource(0), 1).unwrap();
    create(&fork, "a");
    assert!(poll_once(watcher.next_batch()).is_pending());
    assert_eq!(revisions(&now(fork_watcher.next_batch()).unwrap()), [2]);
}

#[tokio::test]
async fn waiting_for_a_revision_ends_when_it_is_reached() {
    let store = Store::default();
    now(store.wait_for_revision(1));
    let waiting = tokio::spawn({
        let store = store.clone();
        async move {
            store.wait_for_revision(3).await;
            store.revision()
        }
    });
    create(&store, "a");
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    create(&store, "b");
    assert_eq!(waiting.await.unwrap(), 3);
}

#[test]
fn a_watcher_that_lists_amid_parallel_writers_misses_nothing() {
    let store = Store::default();
    let writer = |name: &'static str| {
        let store = store.clone();
        std::thread::spawn(move || {
            (0..1000).for_each(|index| drop(create(&store, &format!("{name}/{index}"))))
        })
    };
    let writers = [writer("a"), writer("b")];
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let listed = store.collection(&resource(0));
        let mut next = listed.revision() + 1;
        let mut watcher = store.watch(&resource(0), listed.revision()).unwrap();
        let mut count = listed.len();
        while count < 2000 {
            for event in watcher.next_batch().await.unwrap() {
                assert_eq!(event.revision, next);
                next += 1;
                count += 1;
            }
        }
        assert_eq!(next, 2002);
    });
    for writer in writers {
        writer.join().unwrap();
    }
}
