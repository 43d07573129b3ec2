//! Lists that run through the slots themselves: a slot is in one list at most, and leaves it from anywhere at no
//! cost and without a trace.

use slab::Slab;

use super::state::Slot;

/// The neighbours of a slot in its list.
#[derive(Default)]
pub(super) struct Links {
    before: Option<usize>,
    after: Option<usize>,
}

/// Slots in the order in which they were added.
#[derive(Default)]
pub(super) struct List {
    first: Option<usize>,
    last: Option<usize>,
    length: usize,
}

impl List {
    pub(super) fn len(&self) -> usize {
        self.length
    }

    pub(super) fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub(super) fn first(&self) -> Option<usize> {
        self.first
    }

    pub(super) fn push<K>(&mut self, slots: &mut Slab<Slot<K>>, at: usize) {
        slots[at].links = Links { before: self.last, after: None };
        match self.last {
            Some(last) => slots[last].links.after = Some(at),
            None => self.first = Some(at),
        }
        self.last = Some(at);
        self.length += 1;
    }

    /// Takes out a slot that is in this list.
    pub(super) fn remove<K>(&mut self, slots: &mut Slab<Slot<K>>, at: usize) {
        let Links { before, after } = std::mem::take(&mut slots[at].links);
        match before {
            Some(before) => slots[before].links.after = after,
            None => self.first = after,
        }
        match after {
            Some(after) => slots[after].links.before = before,
            None => self.last = before,
        }
        self.length -= 1;
    }

    pub(super) fn iter<K>(&self, slots: &Slab<Slot<K>>) -> impl Iterator<Item = usize> {
        std::iter::successors(self.first, |at| slots[*at].links.after)
    }
}
