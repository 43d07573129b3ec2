//! The built-in controllers: what every cluster does with the kinds it brings along.

mod claim;
mod deployment;
mod hash;
mod percent;
mod replicaset;
mod revisions;
mod statefulset;
pub(crate) mod volumes;

use kubewright::{Controller, Error};

/// All of them.
pub(crate) fn all() -> Vec<Controller> {
    vec![
        replicaset::controller(),
        deployment::controller(),
        statefulset::controller(),
        volumes::claims(),
        volumes::volumes(),
    ]
}

/// Whether something was not created because another has its name.
fn is_taken(error: &Error) -> bool {
    error.status().is_some_and(|status| status.reason == "AlreadyExists")
}
