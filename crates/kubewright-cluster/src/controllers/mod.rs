//! The built-in controllers: what every cluster does with the kinds it brings along.

mod claim;
mod cronjob;
mod daemonset;
mod deployment;
mod disruption;
mod endpoints;
mod event_expiry;
mod garbage;
mod hash;
mod job;
mod namespace;
mod node_lifecycle;
mod percent;
mod pod_batches;
mod pod_gc;
mod replicaset;
mod resource_quota;
mod revisions;
mod root_certificate;
mod service_account;
mod statefulset;
mod taint_eviction;
pub(crate) mod volumes;

use kube::ResourceExt as _;
use kubewright::{Context, Controller, Error, Key, Kind, Lookup, Result, Seen};

pub(crate) use self::garbage::run as collect_garbage;

/// All of them. The certificate, as PEM, is the one by which the API server is known.
pub(crate) fn all(certificate: String) -> Vec<Controller> {
    let mut all = vec![
        cronjob::controller(),
        daemonset::controller(),
        deployment::controller(),
        event_expiry::controller(),
        namespace::controller(),
        node_lifecycle::controller(),
        pod_gc::controller(),
        replicaset::controller(),
        resource_quota::controller(),
        root_certificate::controller(certificate),
        service_account::controller(),
        statefulset::controller(),
        taint_eviction::controller(),
        volumes::claims(),
        volumes::volumes(),
    ];
    all.extend(disruption::controllers());
    all.extend(endpoints::controllers());
    all.extend(job::controllers());
    all
}

/// Writes the status of the object that is reconciled, if it differs: in place of what it was, as the controllers of Kubernetes
/// do, and only onto what was seen.
async fn update_status<K: Kind, S: PartialEq>(
    cx: &Context<K>,
    object: &K,
    place: fn(&mut K) -> &mut Option<S>,
    status: S,
) -> Result<()> {
    // Not as it was when this reconcile began: it may have written to it before.
    let newer = cx.get::<K>(&object.name_any())?.filter(|newer| newer.uid() == object.uid());
    let mut object = newer.as_deref().unwrap_or(object).clone();
    let is_said = place(&mut object).as_ref() == Some(&status);
    if !is_said {
        *place(&mut object) = Some(status);
        cx.replace_status(object).await?;
    }
    Ok(())
}

/// The namespace that an object is in, for controllers of namespaces.
async fn in_namespace<C: Kind>(object: Seen<C>, _: Lookup) -> Vec<Key> {
    object.meta().namespace.iter().map(|name| Key::cluster(name)).collect()
}

/// Whether something was not created because another has its name.
fn is_taken(error: &Error) -> bool {
    error.status().is_some_and(|status| status.reason == "AlreadyExists")
}
