//! The built-in controllers: what every cluster does with the kinds it brings along.

mod claim;
mod replicaset;

use kubewright::Controller;

/// All of them.
pub(crate) fn all() -> Vec<Controller> {
    vec![replicaset::controller()]
}
