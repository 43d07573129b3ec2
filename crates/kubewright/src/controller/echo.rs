//! What a controller says about an object on its own account, and then hears from the watch. It is no news to the
//! controller, and must not bring the object back.
//!
//! Such a write names the revision that it is based on, so that the first change of that revision is either its
//! echo or the reason why it fails. Which one is known when it is answered; the watch may tell of it before.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::{
    kind::Key,
    queue::{Priority, Queue},
};

/// The writes that are under way.
#[derive(Default)]
pub(crate) struct Echoes(Mutex<BTreeMap<Key, Echo>>);

struct Echo {
    based_on: u64,
    /// The revision that came after it.
    heard: Option<u64>,
}

/// A write that is under way. If what was taken for its echo was not, the object comes back when this is dropped.
pub(crate) struct Expected<'a> {
    echoes: &'a Echoes,
    queue: &'a Queue,
    key: &'a Key,
    written: Option<u64>,
}

impl Echoes {
    /// An object of this revision, and of no other, is about to be written.
    pub(crate) fn expect<'a>(&'a self, queue: &'a Queue, key: &'a Key, based_on: u64) -> Expected<'a> {
        self.0.lock().insert(key.clone(), Echo { based_on, heard: None });
        Expected { echoes: self, queue, key, written: None }
    }

    /// Whether a change from one revision to another is to be kept from the queue.
    pub(super) fn swallows(&self, key: &Key, old: u64, new: u64) -> bool {
        let mut all = self.0.lock();
        let echo = all.get_mut(key).filter(|echo| echo.based_on == old && echo.heard.is_none());
        echo.map(|echo| echo.heard = Some(new)).is_some()
    }
}

impl Expected<'_> {
    /// The write has made this revision, and the cache knows.
    pub(crate) fn written(mut self, revision: u64) {
        self.written = Some(revision);
    }
}

impl Drop for Expected<'_> {
    fn drop(&mut self) {
        let heard = self.echoes.0.lock().remove(self.key).and_then(|echo| echo.heard);
        if heard.is_some() && heard != self.written {
            self.queue.add(self.key.clone(), Priority::Normal);
        }
    }
}
