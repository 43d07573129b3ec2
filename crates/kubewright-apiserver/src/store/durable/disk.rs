//! The little that the store asks of files, so that tests can let a disk fill up or fail.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::Path,
};

/// Where files come from.
pub(in crate::store) trait Disk: Send + Sync {
    /// Opens `path` for appending; creates it if it is not there.
    fn append_to(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
}

/// A file that grows at its end.
pub(in crate::store) trait DiskFile: Send {
    /// Appends all of `bytes`. After a failure any part of them may be there.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Returns once everything appended survives a loss of power.
    fn sync(&mut self) -> io::Result<()>;
    /// Cuts the file to `length`.
    fn truncate(&mut self, length: u64) -> io::Result<()>;
}

/// The disk of this machine.
pub(in crate::store) struct RealDisk;

impl Disk for RealDisk {
    fn append_to(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(File::options().append(true).create(true).open(path)?))
    }
}

impl DiskFile for File {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }
}

/// Makes a file appear under `dir/name` whole or not at all: `fill` writes it beside.
pub(super) fn create_whole(
    disk: &dyn Disk,
    dir: &Path,
    name: &str,
    fill: impl FnOnce(&mut dyn DiskFile) -> io::Result<()>,
) -> io::Result<Box<dyn DiskFile>> {
    let beside = dir.join(format!("{name}.{UNFINISHED}"));
    let mut file = disk.append_to(&beside)?;
    let filled = file
        .truncate(0)
        .and_then(|()| fill(&mut *file))
        .and_then(|()| file.sync())
        .and_then(|()| fs::rename(&beside, dir.join(name)))
        .and_then(|()| sync_dir(dir));
    if let Err(error) = filled {
        // The failure itself is what matters; what is left over goes at the next start.
        let _ = fs::remove_file(&beside);
        return Err(error);
    }
    Ok(file)
}

/// The file-name extension of what `create_whole` has not finished.
pub(super) const UNFINISHED: &str = "tmp";

/// Returns once the names in `dir` survive a loss of power.
pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}
