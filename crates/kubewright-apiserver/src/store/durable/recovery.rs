//! From a data directory to the state it holds and the log to go on with.
//!
//! The newest whole snapshot is loaded and the logs after it replayed. A torn end of the last log
//! is cut: nobody was told that it succeeded. Anything else that is missing or broken is an error,
//! never skipped. Nothing in the directory changes before all of it was understood.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

use super::{
    OpenError,
    disk::{Disk, UNFINISHED},
    files,
    format::{self, Record},
    log::{self, Log},
    snapshot,
};
use crate::store::state::State;

/// What a data directory holds.
pub(super) struct Recovered {
    pub(super) state: State,
    pub(super) log: Log,
    /// The size of the logs replayed.
    pub(super) replayed: u64,
    /// The size of the snapshot loaded.
    pub(super) snapshot: u64,
}

pub(super) fn recover(disk: &dyn Disk, dir: &Path) -> Result<Recovered, OpenError> {
    let snapshots = files(dir, snapshot::PREFIX).map_err(at(dir))?;
    let logs = files(dir, log::PREFIX).map_err(at(dir))?;

    for (_, path) in snapshots.iter().chain(&logs) {
        check_version(path)?;
    }

    let mut state = State::new();
    let mut snapshot_size = 0;
    for (revision, path) in snapshots.iter().rev() {
        let file = fs::read(path).map_err(at(path))?;
        if let Some(loaded) = snapshot::read(&file).filter(|loaded| loaded.revision == *revision) {
            state = loaded;
            snapshot_size = file.len() as u64;
            break;
        }
    }
    let snapshot_revision = state.revision;

    let mut replayed = 0;
    let mut last_length = 0;
    for (index, (base, path)) in logs.iter().enumerate() {
        let is_last = index + 1 == logs.len();
        if *base < snapshot_revision {
            continue;
        }
        if *base > state.revision {
            return Err(OpenError::Missing { path: path.clone(), after: state.revision });
        }
        let file = fs::read(path).map_err(at(path))?;
        let good = replay(path, &file, &mut state)?;
        if !is_last && good < file.len() {
            return Err(corrupt(path, good));
        }
        replayed += good as u64;
        last_length = good as u64;
    }
    let revision = state.revision;
    state.restored_to(revision);
    if let Some((newest, path)) = snapshots.last()
        && *newest > revision
    {
        return Err(corrupt(path, 0));
    }

    let last = logs.last().filter(|(base, _)| *base >= snapshot_revision);
    let log = match last {
        Some((base, path)) if last_length > 0 => {
            Log::reopen(disk, path, *base, last_length).map_err(at(path))?
        }
        _ => Log::create(disk, dir, revision).map_err(at(dir))?,
    };
    remove_unfinished(dir).map_err(at(dir))?;
    if snapshot_size > 0 {
        snapshot::remove_replaced(dir, snapshot_revision).map_err(at(dir))?;
    }
    Ok(Recovered { state, log, replayed, snapshot: snapshot_size })
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> OpenError {
    move |source| OpenError::Io { path: path.to_owned(), source }
}

/// Refuses a file that a newer version wrote.
fn check_version(path: &Path) -> Result<(), OpenError> {
    let mut header = Vec::new();
    let file = File::open(path).map_err(at(path))?;
    file.take(format::HEADER_LENGTH as u64).read_to_end(&mut header).map_err(at(path))?;
    match format::version(&header) {
        Some(found) if found > format::VERSION => {
            Err(OpenError::NewerFormat { path: path.to_owned(), found })
        }
        _ => Ok(()),
    }
}

/// Applies a log's writes that `state` does not have yet. Returns how much of the file is good;
/// the rest was never acknowledged.
fn replay(path: &Path, file: &[u8], state: &mut State) -> Result<usize, OpenError> {
    if file.len() < format::HEADER_LENGTH {
        return Ok(0);
    }
    if format::version(file).is_none() {
        return Err(corrupt(path, 0));
    }
    let mut position = format::HEADER_LENGTH;
    while position < file.len() {
        let Some(content) = format::frame_at(file, position) else {
            return match format::frame_after(file, position) {
                Some(_) => Err(corrupt(path, position)),
                None => Ok(position),
            };
        };
        for record in format::records(&file[content.clone()]) {
            let next = state.revision + 1;
            match record {
                Some(Record::Put { resource, object }) if object.revision == next => {
                    state.restore(resource, object);
                }
                Some(Record::Delete { revision, resource, key }) if revision == next => {
                    state.restore_deleted(resource, key);
                }
                _ => return Err(corrupt(path, position)),
            }
            state.revision = next;
        }
        position = content.end;
    }
    Ok(position)
}

fn corrupt(path: &Path, offset: usize) -> OpenError {
    OpenError::Corrupt { path: path.to_owned(), offset: offset as u64 }
}

/// Removes what a crash left half-written.
fn remove_unfinished(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path: PathBuf = entry?.path();
        if path.extension().is_some_and(|extension| extension == UNFINISHED) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}
