//! The kinds of batch/v1.

mod cron_job;
mod job;
mod job_status;
mod schedule;

use super::Strategy;

/// What each kind of batch/v1 does, by its name.
pub(crate) const STRATEGIES: &[(&str, Strategy)] = &[("CronJob", cron_job::STRATEGY), ("Job", job::STRATEGY)];

#[cfg(test)]
mod tests;
