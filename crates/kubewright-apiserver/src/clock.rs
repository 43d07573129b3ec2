//! The one place that knows what time it is.
//!
//! Wall-clock time is an origin plus what tokio's clock has counted since, so that pausing and advancing
//! tokio's time moves timestamps along, and two runs from the same origin see the same times.

use jiff::{SignedDuration, Timestamp};
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

    /// The time it is, to the second, as objects carry it.
    pub fn now_text(&self) -> String {
        seconds(self.now())
    }
}

/// A timestamp to the second, as objects carry it.
pub(crate) fn seconds(time: Timestamp) -> String {
    format!("{time:.0}")
}
