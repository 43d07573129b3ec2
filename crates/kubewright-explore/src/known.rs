//! The moments from which on it is known that all goes well: what one run has found out, all others know at once, though each
//! is a process of its own.
//!
//! It lies in memory that they share. A place that is taken keeps its moment for ever, so nobody has to wait for anybody. If
//! there is no room for a moment, it is found out anew.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// How many moments there is room for: what is not used takes no memory.
const PLACES: usize = 1 << 20;
/// How many places are looked at for one.
const NEIGHBOURS: usize = 16;
const FREE: u64 = 0;

/// Clones are the same.
#[derive(Clone)]
pub(crate) struct Known(Arc<Shared>);

/// Memory that stays the same in the processes that are forked off; nothing if there was none.
struct Shared(Option<&'static [AtomicU64]>);

impl Known {
    /// A few to begin with.
    pub(crate) fn of(moments: &[u64]) -> Self {
        let known = Self(Arc::new(Shared::new()));
        known.add(moments);
        known
    }

    pub(crate) fn has(&self, moment: u64) -> bool {
        let mut places = self.places(moment).map(|place| place.load(Ordering::Relaxed));
        places.find(|known| matches!(*known, FREE) || *known == moment).is_some_and(|known| known != FREE)
    }

    pub(crate) fn add(&self, moments: &[u64]) {
        for moment in moments {
            let take = |place: &AtomicU64| {
                let taken = place.compare_exchange(FREE, *moment, Ordering::Relaxed, Ordering::Relaxed);
                taken.is_ok() || taken == Err(*moment)
            };
            let _ = self.places(*moment).any(take);
        }
    }

    /// Where a moment may be.
    fn places(&self, moment: u64) -> impl Iterator<Item = &AtomicU64> {
        let places = self.0.0.unwrap_or_default();
        (0..NEIGHBOURS as u64).filter_map(move |at| places.get(moment.wrapping_add(at) as usize % PLACES))
    }
}

impl Shared {
    fn new() -> Self {
        #[allow(
            unsafe_code,
            reason = "new memory, of zeros and of that length; it is given back when nobody has it any more"
        )]
        unsafe {
            let memory = libc::mmap(
                std::ptr::null_mut(),
                PLACES * size_of::<AtomicU64>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANON,
                -1,
                0,
            );
            match memory {
                libc::MAP_FAILED => Self(None),
                memory => Self(Some(std::slice::from_raw_parts(memory.cast(), PLACES))),
            }
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(places) = self.0 {
            #[allow(unsafe_code, reason = "it was made by `new`, and nobody has it any more")]
            unsafe {
                libc::munmap(places.as_ptr().cast_mut().cast(), size_of_val(places));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_is_known() {
        let known = Known::of(&[7]);
        assert!(known.has(7) && !known.has(8) && !known.has(FREE));
        // Those that belong into the same place.
        let alike: Vec<u64> = (0..2 * NEIGHBOURS as u64).map(|at| 7 + at * PLACES as u64).collect();
        known.add(&alike);
        let kept = alike.iter().filter(|moment| known.has(**moment)).count();
        assert_eq!(kept, NEIGHBOURS, "those there is room for");
        known.add(&[8]);
        assert!(known.has(7), "nobody has to go");
    }
}
