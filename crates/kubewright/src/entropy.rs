//! The one source of randomness: jitter, names of events, identities. Seedable, so that a run can be replayed.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;

/// A seedable source of randomness. Clones draw from the same source.
#[derive(Debug, Clone)]
pub struct Entropy(Arc<Mutex<fastrand::Rng>>);

impl Entropy {
    /// A source that gives the same numbers for the same seed.
    pub fn seeded(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(fastrand::Rng::with_seed(seed))))
    }

    /// A source nobody can foretell.
    pub fn system() -> Self {
        use ring::rand::SecureRandom as _;
        let mut bytes = [0; 8];
        let seed = match ring::rand::SystemRandom::new().fill(&mut bytes) {
            Ok(()) => u64::from_ne_bytes(bytes),
            Err(_) => u64::from(std::process::id()),
        };
        Self::seeded(seed)
    }

    /// A number from 0 up to, not including, 1.
    pub fn fraction(&self) -> f64 {
        self.0.lock().f64()
    }

    /// Any number.
    pub fn number(&self) -> u64 {
        self.0.lock().u64(..)
    }

    /// `duration`, or up to a `share` of it less: what failed together is not tried again together.
    pub fn jitter(&self, duration: Duration, share: f64) -> Duration {
        duration.mul_f64(1.0 - share.clamp(0.0, 1.0) * self.fraction())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let draw = |seed| {
            let source = Entropy::seeded(seed);
            (0..8).map(|_| source.number()).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn jitter_only_shortens_and_by_no_more_than_its_share() {
        let source = Entropy::seeded(1);
        let whole = Duration::from_secs(10);
        for _ in 0..1000 {
            let some = source.jitter(whole, 0.2);
            assert!(some <= whole && some >= whole.mul_f64(0.8), "{some:?}");
        }
    }
}
