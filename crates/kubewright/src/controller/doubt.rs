//! Objects that have lost a child. It may have been deleted because its owner is gone, of which the watch of the owner
//! has yet to tell. What was made again then would be deleted again, as fast as both can.

use std::collections::BTreeSet;

use parking_lot::Mutex;

use crate::kind::Key;

/// The objects of which it is not certain that they are still there.
#[derive(Default)]
pub(crate) struct Doubts(Mutex<BTreeSet<Key>>);

impl Doubts {
    /// An object has lost a child.
    pub(super) fn raise(&self, key: Key) {
        self.0.lock().insert(key);
    }

    /// Whether an object has lost a child since it was last seen to be there.
    pub(crate) fn are_about(&self, key: &Key) -> bool {
        self.0.lock().contains(key)
    }

    /// An object was seen to be there, or is not there any more.
    pub(crate) fn settle(&self, key: &Key) {
        self.0.lock().remove(key);
    }
}
