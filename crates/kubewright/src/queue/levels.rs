//! The keys that are ready: a list for each priority, and whose turn it is.

use slab::Slab;

use super::{Priority, list::List, state::Slot};

/// How many hand-outs to others a level lets pass before it is its turn.
const PATIENCE: u32 = 9;

/// The ready slots by level, lowest first.
#[derive(Default)]
pub(super) struct Levels([Level; 3]);

#[derive(Default)]
struct Level {
    list: List,
    passed_over: u32,
}

impl Levels {
    pub(super) fn list(&self, priority: Priority) -> &List {
        &self.0[priority as usize].list
    }

    pub(super) fn push<K>(&mut self, slots: &mut Slab<Slot<K>>, at: usize, priority: Priority) {
        self.0[priority as usize].list.push(slots, at);
    }

    pub(super) fn remove<K>(&mut self, slots: &mut Slab<Slot<K>>, at: usize, priority: Priority) {
        self.0[priority as usize].list.remove(slots, at);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|level| level.list.is_empty())
    }

    /// Takes the slot whose turn it is: of the highest level, unless a lower one was passed over too often.
    pub(super) fn pop<K>(&mut self, slots: &mut Slab<Slot<K>>) -> Option<usize> {
        let waits = |level: &Level| !level.list.is_empty();
        let turn = self.0.iter().position(|level| waits(level) && level.passed_over >= PATIENCE);
        let turn = turn.or_else(|| self.0.iter().rposition(waits))?;
        for (number, level) in self.0.iter_mut().enumerate() {
            level.passed_over =
                if number == turn || level.list.is_empty() { 0 } else { level.passed_over + 1 };
        }
        let list = &mut self.0[turn].list;
        let at = list.first()?;
        list.remove(slots, at);
        Some(at)
    }
}
