//! The kinds of apps/v1.

mod controller_revision;
mod daemon_set;
mod deployment;
mod replica_set;
mod rollout;
mod stateful_set;

use super::Strategy;

/// What each kind of apps/v1 does, by its name.
pub(crate) const STRATEGIES: &[(&str, Strategy)] = &[
    ("ControllerRevision", controller_revision::STRATEGY),
    ("DaemonSet", daemon_set::STRATEGY),
    ("Deployment", deployment::STRATEGY),
    ("ReplicaSet", replica_set::STRATEGY),
    ("StatefulSet", stateful_set::STRATEGY),
];

#[cfg(test)]
mod tests;
