//! Snapshots: all objects at one revision in one file, so that the log before it can go.

use std::{fs, io, path::Path};

use super::{
    disk::{Disk, create_whole, sync_dir},
    format::{self, Record},
    log,
};
use crate::store::state::State;

pub(super) const PREFIX: &str = "snapshot-";

/// How many bytes are gathered before they go to disk as a frame.
const FRAME_BYTES: usize = 1 << 20;

/// Writes `state` and removes the files it replaces. Returns the size of the snapshot.
pub(super) fn write(disk: &dyn Disk, dir: &Path, state: &State) -> io::Result<u64> {
    let revision = state.revision;
    let mut size = 0;
    create_whole(disk, dir, &super::file_name(PREFIX, revision), |file| {
        let too_long = || io::Error::other("an object of over 4 GiB");
        let mut out = format::header().to_vec();
        let mut objects = state.objects().peekable();
        let mut count = 0;
        while objects.peek().is_some() {
            format::put_frame(&mut out, |out| {
                while out.len() < FRAME_BYTES
                    && let Some((resource, object)) = objects.next()
                {
                    format::put_object(out, resource.as_str(), object);
                    count += 1;
                }
            })
            .ok_or_else(too_long)?;
            file.append(&out)?;
            size += out.len() as u64;
            out.clear();
        }
        format::put_frame(&mut out, |out| format::put_end(out, revision, count)).ok_or_else(too_long)?;
        size += out.len() as u64;
        file.append(&out)
    })?;
    remove_replaced(dir, revision)?;
    Ok(size)
}

/// The state in a snapshot file; `None` if the file is not whole.
pub(super) fn read(file: &[u8]) -> Option<State> {
    let mut state = State::new();
    let mut objects = 0;
    let mut position = format::HEADER_LENGTH;
    format::version(file)?;
    loop {
        let content = format::frame_at(file, position)?;
        position = content.end;
        for record in format::records(&file[content]) {
            match record? {
                Record::Put { resource, object } => {
                    state.restore(resource, object);
                    objects += 1;
                }
                Record::Delete { .. } => return None,
                Record::End { revision, objects: expected } => {
                    state.restored_to(revision);
                    return (objects == expected && position == file.len()).then_some(state);
                }
            }
        }
    }
}

/// Removes what a snapshot at `revision` makes superfluous: older snapshots, and the logs up to
/// it. A log never spans the revision of a snapshot: a new one is begun for each.
pub(super) fn remove_replaced(dir: &Path, revision: u64) -> io::Result<()> {
    for prefix in [PREFIX, log::PREFIX] {
        for (of, path) in super::files(dir, prefix)? {
            if of < revision {
                fs::remove_file(path)?;
            }
        }
    }
    sync_dir(dir)
}
