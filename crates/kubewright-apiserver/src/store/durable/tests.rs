//! The durable store: what a reopened directory holds, and what happens when the disk fails.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use proptest::prelude::*;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::{disk::DiskFile, *};
use crate::store::{
    Compacted, Expect, HistoryLimits, Inner, RevisionError, Store, Writer,
    tests::{Model, Step, delete, objects, put, resource, step},
};

const NEVER: Options =
    Options { history: HistoryLimits { events: 10_000, bytes: 16 << 20 }, snapshot_after_bytes: u64::MAX };

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

fn open_with(disk: Arc<dyn Disk>, dir: &Path, options: Options) -> Result<Store, OpenError> {
    let (shared, committer) = open(disk, dir, options)?;
    Ok(Store(Arc::new(Inner { shared, writer: Writer::Durable(committer) })))
}

fn file_names(dir: &Path) -> BTreeSet<String> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// A copy of `dir` whose file `name` holds `content`.
fn copy_with(dir: &Path, name: &str, content: &[u8]) -> TempDir {
    let copy = TempDir::new().unwrap();
    for other in file_names(dir) {
        fs::copy(dir.join(&other), copy.path().join(&other)).unwrap();
    }
    fs::write(copy.path().join(name), content).unwrap();
    copy
}

async fn take(store: &Store, model: &mut Model, step: &Step) {
    if let Some(write) = model.write(step) {
        let event = store.commit(write).await.unwrap();
        model.take(step, &event);
    }
}

fn assert_holds(store: &Store, model: &Model, revision: u64) {
    assert_eq!(store.revision(), revision);
    for index in 0..2 {
        assert_eq!(&objects(&store.collection(&resource(index))), model.at(revision, index));
    }
}

/// What a test does to a disk.
#[derive(Default)]
struct Faults {
    /// How many more bytes fit.
    space: Option<usize>,
    fail_sync: bool,
    fail_truncate: bool,
    /// Told of every sync that begins.
    syncing: Option<mpsc::Sender<()>>,
}

#[derive(Clone, Default)]
struct FaultyDisk {
    faults: Arc<Mutex<Faults>>,
    /// Holds up every sync until the sender is gone.
    gate: Arc<Mutex<Option<mpsc::Receiver<()>>>>,
}

struct FaultyFile {
    disk: FaultyDisk,
    file: Box<dyn DiskFile>,
}

impl Disk for FaultyDisk {
    fn append_to(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(FaultyFile { disk: self.clone(), file: RealDisk.append_to(path)? }))
    }
}

impl DiskFile for FaultyFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut faults = self.disk.faults.lock();
        let Some(space) = &mut faults.space else { return self.file.append(bytes) };
        let fits = bytes.len().min(*space);
        *space -= fits;
        self.file.append(&bytes[..fits])?;
        if fits < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn sync(&mut self) -> io::Result<()> {
        let syncing = self.disk.faults.lock().syncing.clone();
        if let Some(syncing) = syncing {
            syncing.send(()).unwrap();
        }
        if let Some(gate) = &*self.disk.gate.lock() {
            gate.recv().unwrap_err();
        }
        if self.disk.faults.lock().fail_sync {
            return Err(io::Error::other("sync failed"));
        }
        self.file.sync()
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        if self.disk.faults.lock().fail_truncate {
            return Err(io::Error::other("truncate failed"));
        }
        self.file.truncate(length)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_reopened_store_continues_exactly(
        runs in prop::collection::vec(prop::collection::vec(step(), 0..30), 1..5),
        snapshot_after_bytes in prop_oneof![Just(u64::MAX), 0..1500_u64],
    ) {
        let dir = TempDir::new().unwrap();
        let options = Options { snapshot_after_bytes, ..NEVER };
        let mut model = Model::new(options.history);
        for steps in runs {
            let store = Store::open(dir.path(), options).unwrap();
            assert_holds(&store, &model, model.revision());
            runtime().block_on(async {
                for step in &steps {
                    take(&store, &mut model, step).await;
                }
            });
            assert_holds(&store, &model, model.revision());
        }
        let store = Store::open(dir.path(), options).unwrap();
        assert_holds(&store, &model, model.revision());
    }

    #[test]
    fn a_log_cut_anywhere_holds_every_write_before_the_cut(
        steps in prop::collection::vec(step(), 1..20),
        cut in any::<prop::sample::Index>(),
        garbage in prop::collection::vec(any::<u8>(), 0..40),
        after in step(),
    ) {
        let dir = TempDir::new().unwrap();
        let log = file_name(log::PREFIX, 1);
        let mut model = Model::new(NEVER.history);
        let store = Store::open(dir.path(), NEVER).unwrap();
        // Where the log ended when each revision was acknowledged.
        let mut ends = vec![0];
        runtime().block_on(async {
            for step in &steps {
                let before = model.revision();
                take(&store, &mut model, step).await;
                if model.revision() > before {
                    ends.push(fs::metadata(dir.path().join(&log)).unwrap().len());
                }
            }
        });
        drop(store);
        let whole = fs::read(dir.path().join(&log)).unwrap();
        let cut = cut.index(whole.len() + 1);
        let survive = ends.iter().filter(|end| **end <= cut as u64).count() as u64;

        let mut torn = whole[..cut].to_vec();
        if cut >= format::HEADER_LENGTH {
            torn.extend(garbage);
        }
        let copy = copy_with(dir.path(), &log, &torn);
        let store = Store::open(copy.path(), NEVER).unwrap();
        assert_holds(&store, &model, survive);

        model.states.truncate(survive as usize);
        runtime().block_on(take(&store, &mut model, &after));
        drop(store);
        assert_holds(&Store::open(copy.path(), NEVER).unwrap(), &model, model.revision());
    }
}

#[tokio::test]
async fn writes_that_wait_share_one_sync_and_are_not_seen_before_it() {
    let dir = TempDir::new().unwrap();
    let disk = FaultyDisk::default();
    let store = open_with(Arc::new(disk.clone()), dir.path(), NEVER).unwrap();
    let mut watcher = store.watch(&resource(0), 1).unwrap();
    let (syncing, syncs) = mpsc::channel();
    let (gate, closed) = mpsc::channel();
    disk.faults.lock().syncing = Some(syncing);
    *disk.gate.lock() = Some(closed);
    let commit = |key: &str| {
        let (store, write) = (store.clone(), put(0, key, Expect::Absent, 0));
        tokio::spawn(async move { store.commit(write).await })
    };

    let first = commit("first");
    tokio::task::yield_now().await;
    syncs.recv().unwrap();
    let others: Vec<_> = (0..20).map(|index| commit(&index.to_string())).collect();
    let again = commit("first");
    tokio::task::yield_now().await;
    assert_eq!((store.revision(), first.is_finished()), (1, false));
    assert!(store.get(&resource(0), "first").is_none());
    assert_eq!(watcher.caught_up(), Some(1));
    drop(gate);

    assert_eq!(first.await.unwrap().unwrap().revision, 2);
    for other in others {
        other.await.unwrap().unwrap();
    }
    assert!(matches!(again.await.unwrap(), Err(CommitError::Conflict { .. })));
    assert_eq!(syncs.try_iter().count(), 1);
    assert_eq!(store.revision(), 22);
    assert_eq!(watcher.next_batch().await.unwrap().first().unwrap().revision, 2);
}

#[tokio::test]
async fn a_full_disk_refuses_the_write_and_forgets_it() {
    let dir = TempDir::new().unwrap();
    let disk = FaultyDisk::default();
    let store = open_with(Arc::new(disk.clone()), dir.path(), NEVER).unwrap();
    store.commit(put(0, "kept", Expect::Absent, 1)).await.unwrap();
    let log = dir.path().join(file_name(log::PREFIX, 1));
    let before = fs::read(&log).unwrap();

    for space in [0, 1, 20, 90] {
        disk.faults.lock().space = Some(space);
        let refused = store.commit(put(0, "lost", Expect::Absent, 1)).await;
        let Err(CommitError::Storage(error)) = refused else { panic!("{refused:?}") };
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(store.revision(), 2);
        assert!(store.get(&resource(0), "lost").is_none());
        assert_eq!(fs::read(&log).unwrap(), before);
    }

    disk.faults.lock().space = None;
    assert_eq!(store.commit(put(0, "next", Expect::Absent, 1)).await.unwrap().revision, 3);
    drop(store);
    let store = Store::open(dir.path(), NEVER).unwrap();
    assert_eq!(objects(&store.collection(&resource(0))).into_keys().collect::<Vec<_>>(), ["kept", "next"]);
}

#[tokio::test]
async fn a_failed_write_that_cannot_be_taken_back_closes_the_log_but_not_the_store() {
    for (fail_sync, fail_truncate) in [(true, false), (false, true)] {
        let dir = TempDir::new().unwrap();
        let disk = FaultyDisk::default();
        let store = Store::open(dir.path(), NEVER).unwrap();
        store.commit(put(0, "kept", Expect::Absent, 1)).await.unwrap();
        drop(store);
        // A snapshot is due, but must not open a new log after one whose end is not known.
        let options = Options { snapshot_after_bytes: 0, ..NEVER };
        let store = open_with(Arc::new(disk.clone()), dir.path(), options).unwrap();
        *disk.faults.lock() = Faults { space: Some(20), fail_sync, fail_truncate, syncing: None };
        store.commit(put(0, "lost", Expect::Absent, 1)).await.unwrap_err();
        *disk.faults.lock() = Faults::default();

        for _ in 0..3 {
            let closed = store.commit(put(0, "lost", Expect::Absent, 1)).await.unwrap_err();
            assert!(closed.to_string().contains("closed until a restart"), "{closed}");
        }
        assert!(store.get(&resource(0), "kept").is_some());
        drop(store);
        let store = Store::open(dir.path(), options).unwrap();
        assert_eq!(store.revision(), 2);
        store.commit(put(0, "lost", Expect::Absent, 1)).await.unwrap();
    }
}

#[tokio::test]
async fn a_snapshot_takes_the_place_of_the_log() {
    let dir = TempDir::new().unwrap();
    let options = Options { snapshot_after_bytes: 2000, ..NEVER };
    let store = Store::open(dir.path(), options).unwrap();
    for value in 0..200 {
        let expect = if value == 0 { Expect::Absent } else { Expect::Existing };
        store.commit(put(0, "a", expect, value)).await.unwrap();
    }
    store.commit(put(0, "gone", Expect::Absent, 0)).await.unwrap();
    store.commit(delete(0, "gone", Expect::Existing)).await.unwrap();
    drop(store);

    let size: u64 =
        fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum();
    assert!(size < 200 * 60, "200 writes take {size} bytes");
    let store = Store::open(dir.path(), options).unwrap();
    assert_eq!(store.revision(), 203);
    assert_eq!(store.get(&resource(0), "a").unwrap().bytes, "201:199");
    assert_eq!(store.get(&resource(0), "a").unwrap().labels.get("value"), Some("199"));
    assert_eq!(store.collection(&resource(0)).len(), 1);
    let snapshots = file_names(dir.path()).iter().filter(|name| name.starts_with("snapshot-")).count();
    assert_eq!(snapshots, 1);
}

#[tokio::test]
async fn a_snapshot_that_does_not_fit_leaves_the_log_in_charge() {
    let dir = TempDir::new().unwrap();
    let disk = FaultyDisk::default();
    let options = Options { snapshot_after_bytes: 1, ..NEVER };
    let store = open_with(Arc::new(disk.clone()), dir.path(), options).unwrap();
    // The write fits, neither a new log nor a snapshot does.
    let (_, _, ends) = four_writes().await;
    disk.faults.lock().space = Some(ends[1] - ends[0] + 5);
    store.commit(put(0, "a", Expect::Absent, 1)).await.unwrap();
    store.commit(put(0, "b", Expect::Absent, 1)).await.unwrap_err();
    disk.faults.lock().space = None;
    store.commit(put(0, "c", Expect::Absent, 1)).await.unwrap();
    drop(store);
    assert!(!file_names(dir.path()).iter().any(|name| name.ends_with(".tmp")));
    let store = Store::open(dir.path(), options).unwrap();
    assert_eq!(objects(&store.collection(&resource(0))).into_keys().collect::<Vec<_>>(), ["a", "c"]);
}

#[tokio::test]
async fn history_begins_anew_after_a_restart() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path(), NEVER).unwrap();
    store.commit(put(0, "a", Expect::Absent, 1)).await.unwrap();
    store.commit(put(0, "a", Expect::Existing, 2)).await.unwrap();
    drop(store);
    let store = Store::open(dir.path(), NEVER).unwrap();
    let compacted = Compacted { oldest: 3 };
    assert_eq!(store.watch(&resource(0), 2).unwrap_err(), compacted);
    assert_eq!(store.collection_at(&resource(1), 2).unwrap_err(), RevisionError::Compacted(compacted));
    let mut watcher = store.watch(&resource(0), 3).unwrap();
    store.commit(delete(0, "a", Expect::Revision(3))).await.unwrap();
    assert_eq!(watcher.next_batch().await.unwrap()[0].object.bytes, "4:deleted:3:2");
}

#[tokio::test]
async fn a_fork_of_a_durable_store_writes_nothing_to_its_directory() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path(), NEVER).unwrap();
    store.commit(put(0, "a", Expect::Absent, 1)).await.unwrap();
    let fork = store.fork();
    fork.commit(put(0, "b", Expect::Absent, 1)).await.unwrap();
    drop(store);
    assert_eq!(Store::open(dir.path(), NEVER).unwrap().revision(), 2);
    assert_eq!(fork.collection(&resource(0)).len(), 2);
}

#[test]
fn a_directory_in_use_is_refused_and_free_again_afterwards() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path(), NEVER).unwrap();
    let refused = Store::open(dir.path(), NEVER).unwrap_err().to_string();
    assert_eq!(refused, format!("data directory {} is in use by another process", dir.path().display()));
    drop(store);
    Store::open(dir.path(), NEVER).unwrap();
}

#[test]
fn a_newer_format_is_refused_and_left_alone() {
    for prefix in [log::PREFIX, snapshot::PREFIX] {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join(file_name(prefix, 7));
        let mut newer = format::header().to_vec();
        newer[8] = 2;
        fs::write(&path, &newer).unwrap();
        let refused = Store::open(dir.path(), NEVER).unwrap_err();
        assert_eq!(
            refused.to_string(),
            format!(
                "{} has format version 2, this version reads up to 1: use the newer version that wrote it",
                path.display()
            )
        );
        assert_eq!(fs::read(&path).unwrap(), newer);
    }
}

/// A directory whose log holds four writes, and where each of them ends.
async fn four_writes() -> (TempDir, PathBuf, Vec<usize>) {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join(file_name(log::PREFIX, 1));
    let store = Store::open(dir.path(), NEVER).unwrap();
    let mut ends = Vec::new();
    for key in ["a", "b", "c", "d"] {
        store.commit(put(0, key, Expect::Absent, 1)).await.unwrap();
        ends.push(fs::metadata(&path).unwrap().len() as usize);
    }
    (dir, path, ends)
}

#[tokio::test]
async fn damage_before_intact_writes_is_an_error_and_changes_nothing() {
    let (dir, path, ends) = four_writes().await;
    let whole = fs::read(&path).unwrap();
    for offset in ends[0]..ends[2] {
        let mut damaged = whole.clone();
        damaged[offset] ^= 0x10;
        let copy = copy_with(dir.path(), &file_name(log::PREFIX, 1), &damaged);
        let at = if offset < ends[1] { ends[0] } else { ends[1] };
        match Store::open(copy.path(), NEVER) {
            Err(OpenError::Corrupt { offset: found, path }) => {
                assert_eq!(found, at as u64, "byte {offset}");
                assert_eq!(fs::read(path).unwrap(), damaged);
            }
            other => panic!("byte {offset}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_damaged_last_write_is_cut() {
    let (dir, path, ends) = four_writes().await;
    let whole = fs::read(&path).unwrap();
    for offset in ends[2]..ends[3] {
        let mut damaged = whole.clone();
        damaged[offset] ^= 0x10;
        let copy = copy_with(dir.path(), &file_name(log::PREFIX, 1), &damaged);
        assert_eq!(Store::open(copy.path(), NEVER).unwrap().revision(), 4, "byte {offset}");
    }
}

#[tokio::test]
async fn a_write_that_is_missing_or_there_twice_is_an_error() {
    let (dir, path, ends) = four_writes().await;
    let whole = fs::read(&path).unwrap();
    let missing = [&whole[..ends[0]], &whole[ends[1]..]].concat();
    let twice = [&whole[..ends[1]], &whole[ends[0]..]].concat();
    for log in [missing, twice] {
        let copy = copy_with(dir.path(), &file_name(log::PREFIX, 1), &log);
        assert!(matches!(Store::open(copy.path(), NEVER), Err(OpenError::Corrupt { .. })));
    }
}

#[tokio::test]
async fn a_log_whose_snapshot_is_gone_or_damaged_is_refused() {
    let dir = TempDir::new().unwrap();
    let options = Options { snapshot_after_bytes: 0, ..NEVER };
    let store = Store::open(dir.path(), options).unwrap();
    store.commit(put(0, "a", Expect::Absent, 1)).await.unwrap();
    drop(store);
    let snapshot = file_name(snapshot::PREFIX, 2);
    let whole = fs::read(dir.path().join(&snapshot)).unwrap();
    let object = format::frame_at(&whole, format::HEADER_LENGTH).unwrap();
    let without_object = [&whole[..format::HEADER_LENGTH], &whole[object.end..]].concat();
    let mut damaged: Vec<_> = (0..whole.len()).map(|length| whole[..length].to_vec()).collect();
    damaged.extend([without_object, [&whole[..], b"more"].concat()]);
    for content in damaged {
        let copy = copy_with(dir.path(), &snapshot, &content);
        let refused = Store::open(copy.path(), options);
        assert!(matches!(refused, Err(OpenError::Missing { after: 1, .. })), "{refused:?}");
        fs::remove_file(copy.path().join(file_name(log::PREFIX, 2))).unwrap();
        let refused = Store::open(copy.path(), options);
        assert!(matches!(refused, Err(OpenError::Corrupt { offset: 0, .. })), "{refused:?}");
    }
}

#[tokio::test]
async fn a_damaged_snapshot_is_passed_over_when_the_logs_hold_all_of_it() {
    let (dir, ..) = four_writes().await;
    let damaged = dir.path().join(file_name(snapshot::PREFIX, 3));
    fs::write(&damaged, b"KWSTORE\n").unwrap();
    fs::write(dir.path().join("snapshot-00000000000000000005.tmp"), b"half").unwrap();
    let store = Store::open(dir.path(), NEVER).unwrap();
    assert_eq!((store.revision(), store.collection(&resource(0)).len()), (5, 4));
    assert!(!file_names(dir.path()).iter().any(|name| name.ends_with(".tmp")));
}

#[tokio::test]
async fn a_log_before_the_snapshot_that_a_crash_left_is_passed_over() {
    let (dir, path, _) = four_writes().await;
    let old_log = fs::read(&path).unwrap();
    let options = Options { snapshot_after_bytes: 0, ..NEVER };
    let store = Store::open(dir.path(), options).unwrap();
    store.commit(delete(0, "a", Expect::Existing)).await.unwrap();
    drop(store);
    assert!(!path.exists());
    fs::write(&path, &old_log).unwrap();
    let store = Store::open(dir.path(), options).unwrap();
    assert_eq!((store.revision(), store.collection(&resource(0)).len()), (6, 3));
    assert!(!path.exists());
}
