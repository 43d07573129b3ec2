//! When a cron job is due, and how often it was missed.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::CronJob;

use super::schedule::Schedule;

/// More starts than this that were missed are a sign of a clock that is wrong.
const MANY: i64 = 100;
/// Clocks differ a little: it is looked a moment after something is due.
const DELAY: Duration = Duration::from_millis(100);

/// What of a schedule has passed by now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Due {
    /// Since when is looked.
    since: Timestamp,
    /// The latest time at which it was due since.
    pub(super) at: Option<Timestamp>,
    missed: i64,
}

impl Due {
    /// Looks back to the last start, or to the beginning, but no further than a start may be late.
    pub(super) fn of(cron: &CronJob, schedule: &Schedule, now: Timestamp) -> Result<Self, &'static str> {
        let deadline = cron.spec.starting_deadline_seconds;
        let since = since(cron);
        let earliest = deadline.and_then(|late| now.checked_sub(SignedDuration::from_secs(late)).ok());
        Self::between(schedule, earliest.map_or(since, |earliest| earliest.max(since)), now)
    }

    fn between(schedule: &Schedule, since: Timestamp, now: Timestamp) -> Result<Self, &'static str> {
        let never = "time difference between two schedules is less than 1 second";
        let first = schedule.next(since).ok_or(never)?;
        let second = schedule.next(first).ok_or(never)?;
        if now < first {
            return Ok(Self { since, at: None, missed: 0 });
        }
        if now < second {
            return Ok(Self { since, at: Some(first), missed: 0 });
        }
        // About how many there were, so that not all of years have to be gone through.
        let pause = second.duration_since(first).as_secs().max(1);
        let missed = now.duration_since(first).as_secs() / pause + 1;
        let from = first + SignedDuration::from_secs((missed - 2) * pause);
        let times = std::iter::successors(schedule.next(from), |at| schedule.next(*at));
        Ok(Self { since, at: times.take_while(|at| *at <= now).last(), missed })
    }

    pub(super) fn has_missed_many(&self) -> bool {
        self.missed > MANY
    }
}

/// How long it is until a cron job is due again.
pub(super) fn next_in(cron: &CronJob, schedule: &Schedule, now: Timestamp) -> Option<Duration> {
    let from = match Due::between(schedule, since(cron), now) {
        Ok(Due { at: Some(at), .. }) => at,
        Ok(Due { since, missed: 0, .. }) => since,
        _ => now,
    };
    let left = schedule.next(from)?.duration_since(now);
    Some(Duration::try_from(left).unwrap_or_default() + DELAY)
}

/// The last time it was started, or else the beginning.
fn since(cron: &CronJob) -> Timestamp {
    let last = cron.status.as_ref().and_then(|status| status.last_schedule_time.as_ref());
    last.or(cron.metadata.creation_timestamp.as_ref()).map_or(Timestamp::UNIX_EPOCH, |time| time.0)
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;

    fn between(schedule: &str, since: &str, now: &str) -> Result<Due, &'static str> {
        let schedule = Schedule::parse(schedule, TimeZone::UTC).unwrap();
        Due::between(&schedule, since.parse().unwrap(), now.parse().unwrap())
    }

    #[test]
    fn the_latest_of_those_that_were_missed_counts() {
        for (schedule, now, at, missed) in [
            ("0 * * * *", "2026-01-01T00:59:59Z", None, 0),
            ("0 * * * *", "2026-01-01T01:00:00Z", Some("2026-01-01T01:00:00Z"), 0),
            ("0 * * * *", "2026-01-01T03:30:00Z", Some("2026-01-01T03:00:00Z"), 3),
            ("* * * * *", "2026-01-01T02:30:30Z", Some("2026-01-01T02:30:00Z"), 150),
            // The estimate from the pause between the first two overshoots: what was missed is not made up for.
            ("30 6-16/4 * * 1-5", "2026-01-05T05:00:00Z", None, 24),
            ("30 6-16/4 * * 1-5", "2026-01-01T16:00:00Z", Some("2026-01-01T14:30:00Z"), 3),
        ] {
            let due = between(schedule, "2026-01-01T00:00:00Z", now).unwrap();
            assert_eq!((due.at, due.missed), (at.map(|at| at.parse().unwrap()), missed), "{schedule} {now}");
        }
        assert!(
            between("* * * * *", "2026-01-01T00:00:00Z", "2026-01-01T02:30:30Z").unwrap().has_missed_many()
        );
        assert!(between("0 0 31 2 *", "2026-01-01T00:00:00Z", "2026-01-01T02:30:30Z").is_err());
    }
}
