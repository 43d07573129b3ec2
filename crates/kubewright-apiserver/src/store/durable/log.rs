//! The write-ahead log: one segment that is being written. What `append` returned `Ok` for
//! survives; what it failed for leaves no trace, or the log takes nothing more.

use std::{fs, io, path::Path, sync::Arc};

use super::{
    disk::{Disk, DiskFile, create_whole},
    format,
};
use crate::store::batch::Staged;

pub(super) const PREFIX: &str = "log-";

pub(super) struct Log {
    /// The revision it continues.
    base: u64,
    file: Box<dyn DiskFile>,
    /// How far the file is known to be good.
    length: u64,
    /// Why nothing more can be appended.
    broken: Option<Arc<io::Error>>,
    buffer: Vec<u8>,
}

impl Log {
    /// A new segment for the writes after `revision`.
    pub(super) fn create(disk: &dyn Disk, dir: &Path, revision: u64) -> io::Result<Self> {
        let name = super::file_name(PREFIX, revision);
        let header = format::header();
        let file = create_whole(disk, dir, &name, |file| file.append(&header))?;
        Ok(Self::of(file, revision, header.len() as u64))
    }

    /// The segment at `path` that continues `base`, cut to the `length` that is good.
    pub(super) fn reopen(disk: &dyn Disk, path: &Path, base: u64, length: u64) -> io::Result<Self> {
        let mut file = disk.append_to(path)?;
        file.truncate(length)?;
        file.sync()?;
        Ok(Self::of(file, base, length))
    }

    fn of(file: Box<dyn DiskFile>, base: u64, length: u64) -> Self {
        Self { base, file, length, broken: None, buffer: Vec::new() }
    }

    /// Makes sure that the log holds nothing up to `revision`, its current end: goes on in a new
    /// segment if it does. After a failure the old one goes on.
    pub(super) fn begin_at(&mut self, disk: &dyn Disk, dir: &Path, revision: u64) -> io::Result<()> {
        if self.broken.is_some() {
            return Err(io::Error::other("the end of a broken log is not known"));
        }
        if self.base == revision {
            return Ok(());
        }
        match Self::create(disk, dir, revision) {
            Ok(log) => *self = log,
            Err(error) => {
                // A new segment that is there but not in use would end up behind what the old one
                // still takes in.
                let path = dir.join(super::file_name(PREFIX, revision));
                if let Err(left) = fs::remove_file(path)
                    && left.kind() != io::ErrorKind::NotFound
                {
                    self.close(&error, &left);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Appends `staged` in one frame and returns its size once it is on disk.
    pub(super) fn append(&mut self, staged: &[Staged]) -> Result<u64, Arc<io::Error>> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        self.buffer.clear();
        format::put_frame(&mut self.buffer, |out| {
            for write in staged {
                format::put_staged(out, write);
            }
        })
        .ok_or_else(|| Arc::new(io::Error::other("writes of over 4 GiB at once")))?;

        if let Err(error) = self.file.append(&self.buffer).and_then(|()| self.file.sync()) {
            self.cut_back(&error);
            return Err(Arc::new(error));
        }
        let written = self.buffer.len() as u64;
        self.length += written;
        Ok(written)
    }

    /// Removes what a failed append left. Synced, because a write that was refused must not come
    /// back after a crash.
    fn cut_back(&mut self, cause: &io::Error) {
        if let Err(error) = self.file.truncate(self.length).and_then(|()| self.file.sync()) {
            self.close(cause, &error);
        }
    }

    fn close(&mut self, cause: &io::Error, unrepaired: &io::Error) {
        self.broken = Some(Arc::new(io::Error::other(format!(
            "the log is closed until a restart: a write failed ({cause}) and could not be taken back \
             ({unrepaired})"
        ))));
    }
}
