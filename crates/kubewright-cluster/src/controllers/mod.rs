//! The built-in controllers: what every cluster does with the kinds it brings along.

mod claim;
mod cronjob;
mod job;
mod pod_batches;
mod replicaset;

use kubewright::Controller;

/// All of them.
pub(crate) fn all() -> Vec<Controller> {
    let mut all = vec![replicaset::controller(), cronjob::controller()];
    all.extend(job::controllers());
    all
}
