//! The same operator, written with kube's `Controller`.

use std::{fmt::Debug, sync::Arc, time::Duration};

use futures_util::StreamExt as _;
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Service},
    },
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{Patch, PatchParams},
    runtime::{
        controller::{Action, Config, Controller},
        watcher,
    },
};
use kubewright_bench_operator::{
    WORKERS,
    site::{Site, SiteStatus, deployment, page, service},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;

const MANAGER: &str = "bench";

async fn reconcile(site: Arc<Site>, client: Arc<Client>) -> kube::Result<Action> {
    apply(&client, &site, page(&site)).await?;
    apply(&client, &site, deployment(&site)).await?;
    apply(&client, &site, service(&site)).await?;
    let status = status(&site);
    if site.status.as_ref() != Some(&status) {
        let patch = json!({"apiVersion": Site::api_version(&()), "kind": Site::kind(&()), "status": status});
        let sites: Api<Site> = Api::namespaced((*client).clone(), &site.namespace().unwrap_or_default());
        sites
            .patch_status(&site.name_any(), &PatchParams::apply(MANAGER).force(), &Patch::Apply(patch))
            .await?;
    }
    Ok(Action::await_change())
}

async fn apply<C>(client: &Client, site: &Site, mut child: C) -> kube::Result<C>
where
    C: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Serialize
        + DeserializeOwned
        + Clone
        + Debug,
{
    child.meta_mut().owner_references = site.controller_owner_ref(&()).map(|owner| vec![owner]);
    let children: Api<C> = Api::namespaced(client.clone(), &site.namespace().unwrap_or_default());
    children.patch(&child.name_any(), &PatchParams::apply(MANAGER).force(), &Patch::Apply(&child)).await
}

/// The condition keeps the time at which it became true.
fn status(site: &Site) -> SiteStatus {
    let before = site.status.as_ref().and_then(|status| status.conditions.first());
    let published = Condition {
        type_: "Published".to_owned(),
        status: "True".to_owned(),
        reason: "Applied".to_owned(),
        message: "all children are applied".to_owned(),
        observed_generation: site.meta().generation,
        last_transition_time: before.map_or_else(now, |before| before.last_transition_time.clone()),
    };
    SiteStatus { observed_generation: site.meta().generation, conditions: vec![published] }
}

#[expect(clippy::disallowed_methods, reason = "as an operator without an injected clock has it")]
fn now() -> Time {
    Time(Timestamp::now())
}

#[tokio::main]
async fn main() -> kube::Result<()> {
    let client = Client::try_default().await?;
    let config = watcher::Config::default();
    Controller::new(Api::<Site>::all(client.clone()), config.clone())
        .owns(Api::<ConfigMap>::all(client.clone()), config.clone())
        .owns(Api::<Deployment>::all(client.clone()), config.clone())
        .owns(Api::<Service>::all(client.clone()), config)
        .with_config(Config::default().concurrency(WORKERS as u16))
        .shutdown_on_signal()
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_secs(5)), Arc::new(client))
        .for_each(|_| std::future::ready(()))
        .await;
    Ok(())
}
