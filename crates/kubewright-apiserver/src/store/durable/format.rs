//! The format of logs and snapshots: a header, then frames with a checksum, in them records.
//!
//! A log frame holds the writes of one sync, so that a torn one was never acknowledged and is
//! always the last. Numbers are little-endian, texts carry their length. Anything may be read
//! back; what does not decode is `None`, never a panic.

use std::ops::Range;

use bytes::Bytes;

use crate::store::{
    batch::Staged,
    object::{Attributes, Stored},
};

/// The version of the format this build writes, and the newest it reads.
pub(super) const VERSION: u32 = 1;

const FILE_MAGIC: [u8; 8] = *b"KWSTORE\n";
pub(super) const HEADER_LENGTH: usize = 12;

/// No text holds these bytes, so that the next frame can be found behind a broken one.
const FRAME_MAGIC: [u8; 4] = [0xff, 0xfe, 0xc0, 0xf5];
const FRAME_HEADER_LENGTH: usize = 12;

const PUT: u8 = 1;
const DELETE: u8 = 2;
const END: u8 = 3;

pub(super) fn header() -> [u8; HEADER_LENGTH] {
    let mut header = [0; HEADER_LENGTH];
    header[..8].copy_from_slice(&FILE_MAGIC);
    header[8..].copy_from_slice(&VERSION.to_le_bytes());
    header
}

/// The format version a file says it has.
pub(super) fn version(file: &[u8]) -> Option<u32> {
    let version = file.strip_prefix(&FILE_MAGIC)?.first_chunk()?;
    Some(u32::from_le_bytes(*version))
}

/// Appends a frame with what `fill` appends; `None` if that is too long for one.
pub(super) fn put_frame(out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) -> Option<()> {
    let start = out.len();
    out.extend_from_slice(&FRAME_MAGIC);
    out.extend_from_slice(&[0; 8]);
    fill(out);
    let length = u32::try_from(out.len() - start - FRAME_HEADER_LENGTH).ok()?.to_le_bytes();
    let checksum = checksum(&length, &out[start + FRAME_HEADER_LENGTH..]);
    out[start + 4..start + 8].copy_from_slice(&length);
    out[start + 8..start + 12].copy_from_slice(&checksum.to_le_bytes());
    Some(())
}

/// The frame at `start`: the range of its content.
pub(super) fn frame_at(file: &[u8], start: usize) -> Option<Range<usize>> {
    let rest = file.get(start..)?.strip_prefix(&FRAME_MAGIC)?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (expected, rest) = rest.split_first_chunk::<4>()?;
    let content = rest.get(..u32::from_le_bytes(*length) as usize)?;
    if checksum(length, content) != u32::from_le_bytes(*expected) {
        return None;
    }
    let content_start = start + FRAME_HEADER_LENGTH;
    Some(content_start..content_start + content.len())
}

/// The next intact frame that begins after `start`.
pub(super) fn frame_after(file: &[u8], start: usize) -> Option<usize> {
    let begins = |at: &usize| file[*at..].starts_with(&FRAME_MAGIC) && frame_at(file, *at).is_some();
    (start + 1..file.len()).find(begins)
}

fn checksum(length: &[u8; 4], content: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(length);
    hasher.update(content);
    hasher.finalize()
}

/// One record of a frame.
pub(super) enum Record<'a> {
    /// An object is there.
    Put { resource: &'a str, object: Stored },
    /// An object is gone.
    Delete { revision: u64, resource: &'a str, key: &'a str },
    /// The last record of a snapshot.
    End { revision: u64, objects: u64 },
}

pub(super) fn put_staged(out: &mut Vec<u8>, staged: &Staged) {
    let resource = staged.resource.as_str();
    match staged.event.current() {
        Some(object) => put_object(out, resource, object),
        None => {
            out.push(DELETE);
            put_number(out, staged.event.revision);
            put_text(out, resource);
            put_text(out, &staged.event.object.key);
        }
    }
}

pub(super) fn put_object(out: &mut Vec<u8>, resource: &str, object: &Stored) {
    out.push(PUT);
    put_number(out, object.revision);
    put_text(out, resource);
    put_text(out, &object.key);
    put_attributes(out, &object.labels);
    put_attributes(out, &object.fields);
    put_bytes(out, &object.bytes);
}

pub(super) fn put_end(out: &mut Vec<u8>, revision: u64, objects: u64) {
    out.push(END);
    put_number(out, revision);
    put_number(out, objects);
}

fn put_number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, text.as_bytes());
}

fn put_attributes(out: &mut Vec<u8>, attributes: &Attributes) {
    let entries = attributes.iter();
    put_number(out, entries.len() as u64);
    for (name, value) in entries {
        put_text(out, name);
        put_text(out, value);
    }
}

/// The records of a frame's content; an item is `None` where it does not decode.
pub(super) fn records(content: &[u8]) -> impl Iterator<Item = Option<Record<'_>>> {
    let mut input = Input(content);
    std::iter::from_fn(move || {
        if input.0.is_empty() {
            return None;
        }
        let record = input.record();
        if record.is_none() {
            input.0 = &[];
        }
        Some(record)
    })
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn record(&mut self) -> Option<Record<'a>> {
        let (tag, rest) = self.0.split_first()?;
        self.0 = rest;
        let revision = self.number()?;
        match *tag {
            PUT => {
                let resource = self.text()?;
                let key = self.text()?.into();
                let (labels, fields) = (self.attributes()?, self.attributes()?);
                let bytes = Bytes::copy_from_slice(self.bytes()?);
                Some(Record::Put { resource, object: Stored { key, revision, bytes, labels, fields } })
            }
            DELETE => Some(Record::Delete { revision, resource: self.text()?, key: self.text()? }),
            END => Some(Record::End { revision, objects: self.number()? }),
            _ => None,
        }
    }

    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    fn attributes(&mut self) -> Option<Attributes> {
        (0..self.number()?).map(|_| Some((self.text()?, self.text()?))).collect()
    }
}
