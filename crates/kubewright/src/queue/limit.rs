//! A token bucket that is one instant: the time at which it is full again. No timer fills it.

use std::time::Duration;

use tokio::time::Instant;

use super::RateLimit;

/// A limit on hand-outs over time.
pub(super) struct Limit {
    /// In which a token comes back.
    interval: Duration,
    /// How far ahead of time the burst may run.
    slack: Duration,
    full_at: Option<Instant>,
}

impl Limit {
    pub(super) fn new(limit: RateLimit) -> Self {
        let interval = Duration::from_secs(1) / limit.per_second.max(1);
        Self { interval, slack: interval * (limit.burst.max(1) - 1), full_at: None }
    }

    /// Takes a token, or says when there will be one.
    pub(super) fn take(&mut self, now: Instant) -> Result<(), Instant> {
        let full_at = self.full_at.map_or(now, |full_at| full_at.max(now));
        if full_at - now > self.slack {
            return Err(full_at - self.slack);
        }
        self.full_at = Some(full_at + self.interval);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_its_burst_and_then_one_at_a_time() {
        let start = Instant::now();
        let mut limit = Limit::new(RateLimit { per_second: 10, burst: 3 });
        for _ in 0..3 {
            assert_eq!(limit.take(start), Ok(()));
        }
        let next = start + Duration::from_millis(100);
        assert_eq!(limit.take(start), Err(next));
        assert_eq!(limit.take(next), Ok(()));
        assert_eq!(limit.take(next), Err(next + Duration::from_millis(100)));
    }

    #[test]
    fn a_bucket_never_holds_more_than_its_burst() {
        let start = Instant::now();
        let mut limit = Limit::new(RateLimit { per_second: 10, burst: 3 });
        assert_eq!(limit.take(start), Ok(()));
        let much_later = start + Duration::from_secs(3600);
        assert_eq!((0..10).filter(|_| limit.take(much_later).is_ok()).count(), 3);
    }

    #[test]
    fn zero_counts_as_one() {
        let start = Instant::now();
        let mut limit = Limit::new(RateLimit { per_second: 0, burst: 0 });
        assert_eq!(limit.take(start), Ok(()));
        assert_eq!(limit.take(start), Err(start + Duration::from_secs(1)));
    }
}
