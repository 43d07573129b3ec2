//! ResourceQuotas: says how much may be used, and counts anew what is. The API server adds to the count before it
//! stores an object; what goes is noticed here.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use k8s_openapi::{
    api::core::v1::{Pod, ResourceQuota, ResourceQuotaStatus},
    apimachinery::pkg::api::resource::Quantity,
};
use kube::{
    ResourceExt as _,
    api::ListParams,
    core::{DynamicObject, PartialObjectMeta},
};
use kubewright::{
    Change, Context, Controller, Key, Lookup, Next, Predicate, Reconciler, Result, Seen, Watch,
};
use kubewright_apiserver::quota;
use serde_json::Value;

use crate::{
    discovery::{Catalogue, Served},
    pods,
};

/// How often is counted though nothing is known to have changed.
const PERIOD: Duration = Duration::from_secs(5 * 60);

struct Quotas;

pub(super) fn controller() -> Controller {
    Controller::of_existing::<ResourceQuota>()
        .when(Predicate::new(is_other))
        .watches_with(Watch::<Pod>::new(), quotas_of, [Predicate::new(frees)])
        .every(PERIOD)
        .concurrency(5)
        .reports_as("resourcequota-controller")
        .run(Quotas)
}

/// Whether something else is limited than before.
fn is_other(change: &Change<ResourceQuota>) -> bool {
    match (&change.old, &change.new) {
        (Some(old), Some(new)) => old.metadata.uid != new.metadata.uid || old.spec != new.spec,
        _ => true,
    }
}

/// Whether a pod uses less than before.
fn frees(change: &Change<Pod>) -> bool {
    match (&change.old, &change.new) {
        (Some(old), Some(new)) => !pods::is_finished(old) && pods::is_finished(new),
        (old, _) => old.is_some(),
    }
}

async fn quotas_of(pod: Seen<Pod>, lookup: Lookup) -> Vec<Key> {
    let quotas = lookup.list::<ResourceQuota>(pod.metadata.namespace.as_deref()).unwrap_or_default();
    quotas.iter().map(|quota| Key::of(&**quota)).collect()
}

impl Reconciler<ResourceQuota> for Quotas {
    async fn reconcile(&self, quota: &ResourceQuota, cx: &Context<ResourceQuota>) -> Result<Next> {
        let hard = quota.spec.as_ref().and_then(|spec| spec.hard.clone()).unwrap_or_default();
        let resources: BTreeSet<(String, String)> =
            hard.keys().filter_map(|entry| quota::counted(entry)).collect();
        let catalogue = Catalogue::read(cx.client()).await?;
        let resources: Vec<&Served> =
            resources.iter().filter_map(|resource| Some(&**catalogue.resources.get(resource)?)).collect();
        for served in resources.iter().filter(|served| served.kind.plural != "pods") {
            let watch = Watch::<PartialObjectMeta<DynamicObject>>::of(served.kind.clone());
            cx.watch(watch.namespaces([cx.namespace()])).await?;
        }
        // Read before anything is counted: what the server adds meanwhile makes the write below fail.
        let Some(live) = cx.live().get::<ResourceQuota>(&quota.name_any()).await? else {
            return Ok(Next::on_change());
        };
        let rules = serde_json::to_value(&*live)?;
        let mut used = BTreeMap::new();
        for served in resources {
            let (objects, now) = (objects(served, cx).await?, cx.clock().now());
            let counted = quota::used(&rules, &served.kind.group, &served.kind.plural, &objects, now);
            used.extend(counted.into_iter().map(|(entry, amount)| (entry, Quantity(amount))));
        }
        let hard = live.spec.as_ref().and_then(|spec| spec.hard.clone());
        let status = Some(ResourceQuotaStatus { hard, used: Some(used) });
        if live.status != status {
            cx.replace_status(ResourceQuota { status, ..(*live).clone() }).await?;
        }
        Ok(Next::on_change())
    }
}

/// The objects of a resource in the namespace of the quota. Where only their number counts, they are empty.
async fn objects(served: &Served, cx: &Context<ResourceQuota>) -> Result<Vec<Value>> {
    let api = served.api(cx.client(), Some(cx.namespace()));
    let all = ListParams::default();
    let is_measured = matches!(&*served.kind.plural, "pods" | "services" | "persistentvolumeclaims");
    if is_measured && served.kind.group.is_empty() {
        let objects = api.list(&all).await?;
        return Ok(objects.iter().map(serde_json::to_value).collect::<Result<_, _>>()?);
    }
    Ok(vec![Value::Null; api.list_metadata(&all).await?.items.len()])
}
