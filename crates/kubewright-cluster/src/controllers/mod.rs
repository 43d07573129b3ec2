//! The built-in controllers: what every cluster does with the kinds it brings along.

mod claim;
mod cronjob;
mod daemonset;
mod disruption;
mod hash;
mod job;
mod percent;
mod pod_batches;
mod replicaset;
mod revisions;

use kubewright::Controller;

/// All of them.
pub(crate) fn all() -> Vec<Controller> {
    let mut all = vec![replicaset::controller(), cronjob::controller(), daemonset::controller()];
    all.extend(job::controllers());
    all.extend(disruption::controllers());
    all
}
