//! A store with a data directory: a log of all writes, and now and then a snapshot.
//!
//! One thread commits. It takes all writes that wait, appends them to the log in one frame, syncs
//! once, publishes them and answers; so what anybody can see is on disk. A batch that can't be
//! written fails as a whole and leaves no trace. Snapshots are written by a thread of their own
//! from a view that costs nothing, while writes go on in a new log.

mod disk;
mod format;
mod log;
mod recovery;
mod snapshot;
#[cfg(test)]
mod tests;

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
};

use tokio::sync::oneshot;

pub(in crate::store) use self::disk::{Disk, RealDisk};
use self::{
    log::Log,
    recovery::{Recovered, recover},
};
use super::{
    Options, Shared,
    batch::{Batch, CommitError, Write},
    object::Event,
};

/// A batch takes in no further writes once it is this large, so that those in it need not wait.
const BATCH_BYTES: usize = 4 << 20;

/// Why a data directory can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Somebody else has it open.
    #[error("data directory {} is in use by another process", .dir.display())]
    Locked {
        /// The directory.
        dir: PathBuf,
    },
    /// It was written by a newer version.
    #[error(
        "{} has format version {found}, this version reads up to {}: use the newer version that wrote it",
        .path.display(), format::VERSION
    )]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// The version it has.
        found: u32,
    },
    /// A file is damaged in a way that no crash explains.
    #[error("{} is damaged at byte {offset}: restore the data directory from a copy", .path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where the first damage is.
        offset: u64,
    },
    /// Files are missing.
    #[error(
        "{} does not continue revision {after}, the last one found: restore the data directory from a copy",
        .path.display()
    )]
    Missing {
        /// The file that does not fit.
        path: PathBuf,
        /// The last revision before the gap.
        after: u64,
    },
    /// The file system says no.
    #[error("{}: {source}", .path.display())]
    Io {
        /// What was accessed.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
}

/// The way to the committing thread.
pub(super) struct Committer {
    /// `None` only while it is being dropped.
    queue: Option<mpsc::Sender<Request>>,
    thread: Option<JoinHandle<()>>,
    /// Held until the thread has ended.
    _lock: File,
}

type Reply = Result<Vec<Arc<Event>>, CommitError>;

struct Request {
    writes: Vec<Write>,
    reply: oneshot::Sender<Reply>,
}

/// Opens `dir` and starts the committing thread.
pub(super) fn open(
    disk: Arc<dyn Disk>,
    dir: &Path,
    options: Options,
) -> Result<(Arc<Shared>, Committer), OpenError> {
    let io_error = |source| OpenError::Io { path: dir.to_owned(), source };
    fs::create_dir_all(dir).map_err(io_error)?;
    let lock = lock(dir)?;
    let Recovered { state, log, replayed, snapshot } = recover(&*disk, dir)?;
    let shared = Shared::new(state, options.history);
    let worker = Worker {
        shared: shared.clone(),
        dir: dir.to_owned(),
        disk,
        log,
        scratch: Vec::new(),
        since_snapshot: replayed,
        last_snapshot: snapshot,
        snapshot_after: options.snapshot_after_bytes,
        snapshotting: None,
    };
    let (queue, requests) = mpsc::channel();
    let thread = thread::Builder::new()
        .name("store-commit".to_owned())
        .spawn(move || worker.run(&requests))
        .map_err(io_error)?;
    Ok((shared, Committer { queue: Some(queue), thread: Some(thread), _lock: lock }))
}

fn lock(dir: &Path) -> Result<File, OpenError> {
    let path = dir.join("lock");
    let attempt = File::options().write(true).create(true).truncate(false).open(&path);
    let file = attempt.map_err(|source| OpenError::Io { path: path.clone(), source })?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked { dir: dir.to_owned() }),
        Err(TryLockError::Error(source)) => Err(OpenError::Io { path, source }),
    }
}

impl Committer {
    pub(super) async fn commit(&self, writes: Vec<Write>) -> Reply {
        let ended = || CommitError::Storage(Arc::new(io::Error::other("the committing thread has ended")));
        let (reply, answer) = oneshot::channel();
        let queue = self.queue.as_ref().ok_or_else(ended)?;
        queue.send(Request { writes, reply }).map_err(|_| ended())?;
        answer.await.map_err(|_| ended())?
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
        {
            // It has nobody left to tell of a panic.
            let _ = thread.join();
        }
    }
}

/// The committing thread's own.
struct Worker {
    shared: Arc<Shared>,
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    log: Log,
    scratch: Vec<u8>,
    /// How much log was written since the last snapshot was begun.
    since_snapshot: u64,
    last_snapshot: u64,
    snapshot_after: u64,
    snapshotting: Option<JoinHandle<io::Result<u64>>>,
}

impl Worker {
    fn run(mut self, requests: &mpsc::Receiver<Request>) {
        while let Ok(request) = requests.recv() {
            self.commit(request, requests);
            self.finish_snapshot(JoinHandle::is_finished);
            if self.snapshotting.is_none()
                && self.since_snapshot >= self.snapshot_after.max(self.last_snapshot)
            {
                self.begin_snapshot();
            }
        }
        self.finish_snapshot(|_| true);
    }

    /// Commits `first` and what else waits.
    fn commit(&mut self, first: Request, requests: &mpsc::Receiver<Request>) {
        let shared = self.shared.clone();
        let mut batch = Batch::new(&shared.state);
        let mut outcomes = Vec::new();
        let mut bytes = 0;
        let mut next = Some(first);
        while let Some(Request { writes, reply }) = next {
            let outcome = batch.stage(writes, &mut self.scratch).map(|range| &batch.staged()[range]);
            bytes +=
                outcome.iter().copied().flatten().map(|write| write.event.object.bytes.len()).sum::<usize>();
            outcomes.push((reply, outcome.map(|writes| writes.len())));
            next = if bytes < BATCH_BYTES { requests.try_recv().ok() } else { None };
        }

        let staged = batch.staged();
        let stored = if staged.is_empty() { Ok(0) } else { self.log.append(staged) };
        if let Ok(written) = &stored {
            self.since_snapshot += written;
            shared.publish(staged);
            shared.wake(staged);
        }
        let mut events = staged.iter().map(|write| write.event.clone());
        for (reply, outcome) in outcomes {
            // Also who was refused waits until here: what refused it might not have been stored.
            let answer = match &stored {
                Ok(_) => outcome.map(|count| events.by_ref().take(count).collect()),
                Err(error) => Err(CommitError::Storage(error.clone())),
            };
            // Who no longer waits need not be told.
            let _ = reply.send(answer);
        }
    }

    /// Goes on in a new log and has all that was written to the old ones put in a snapshot.
    /// A failure costs only disk space: it is tried again when the log has grown as much again.
    fn begin_snapshot(&mut self) {
        self.since_snapshot = 0;
        let state = self.shared.state.read().clone();
        if self.log.begin_at(&*self.disk, &self.dir, state.revision).is_err() {
            return;
        }
        let (disk, dir) = (self.disk.clone(), self.dir.clone());
        self.snapshotting = thread::Builder::new()
            .name("store-snapshot".to_owned())
            .spawn(move || snapshot::write(&*disk, &dir, &state))
            .ok();
    }

    fn finish_snapshot(&mut self, is_due: impl FnOnce(&JoinHandle<io::Result<u64>>) -> bool) {
        if let Some(thread) = self.snapshotting.take_if(|thread| is_due(thread))
            && let Ok(Ok(size)) = thread.join()
        {
            self.last_snapshot = size;
        }
    }
}

/// The name of the file that belongs to `revision`, sorted as revisions are.
fn file_name(prefix: &str, revision: u64) -> String {
    format!("{prefix}{revision:020}")
}

/// The files of a kind with their revisions, oldest first.
fn files(dir: &Path, prefix: &str) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let revision = name.to_str().and_then(|name| name.strip_prefix(prefix)?.parse().ok());
        found.extend(revision.map(|revision| (revision, entry.path())));
    }
    found.sort();
    Ok(found)
}
