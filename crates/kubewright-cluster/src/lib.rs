//! A whole Kubernetes cluster inside the process: the API server, the controllers that every cluster has, a
//! scheduler and nodes.
//!
//! - [`Cluster`]: all of it, started in a few milliseconds, in memory or in a directory
//! - [`TestCluster`]: one for a test, with time that takes no time
//! - `controllers`: the built-in controllers, one file each, written with the SDK as any operator is
//! - `scheduler`: finds a node for each pod
//! - [`nodes`]: what a kubelet does around containers, and the containers themselves behind one trait

mod cluster;
mod controllers;
mod discovery;
mod fit;
pub mod nodes;
mod pods;
mod promises;
mod scheduler;
mod services;
mod test;

pub use self::{
    cluster::{Builder, Cluster, StartError},
    promises::Promises,
    services::{Served, Services},
    test::{Outage, TestCluster, TestOperator},
};
