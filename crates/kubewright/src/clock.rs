//! The one place that knows what time it is. The wall clock is an origin plus what tokio's clock has counted
//! since, so that pausing tokio's time pauses timestamps, and a run can be replayed.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use tokio::time::Instant;

/// A source of timestamps that follows tokio's clock.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    origin: Timestamp,
    start: Instant,
}

impl Clock {
    /// A clock that shows the machine's time.
    pub fn system() -> Self {
        #[allow(clippy::disallowed_methods, reason = "the one place where the machine's clock is read")]
        let now = Timestamp::now();
        Self::starting_at(now)
    }

    /// A clock that shows `origin` now.
    pub fn starting_at(origin: Timestamp) -> Self {
        Self { origin, start: Instant::now() }
    }

    /// The time it is.
    pub fn now(&self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.start.elapsed()).unwrap_or(SignedDuration::MAX);
        self.origin.saturating_add(elapsed).unwrap_or(Timestamp::MAX)
    }

    /// The time it is, as conditions carry it: to the second.
    pub fn time(&self) -> Time {
        let now = self.now();
        Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
    }

    /// The time it is, as leases and events carry it: to the microsecond.
    pub fn micro_time(&self) -> MicroTime {
        let now = self.now();
        MicroTime(Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now))
    }
}
