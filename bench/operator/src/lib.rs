//! The operator that is measured, for the process that measures and for one of its own.

pub mod site;

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Service},
};
use kubewright::{Context, Controller, Next, Operator, Reconciler, Result, condition};

use self::site::{Site, SiteStatus};

/// How many sites are reconciled at a time, whoever does it.
pub const WORKERS: usize = 8;

struct Publish;

impl Reconciler<Site> for Publish {
    async fn reconcile(&self, site: &Site, cx: &Context<Site>) -> Result<Next> {
        cx.apply(site::page(site)).await?;
        cx.apply(site::deployment(site)).await?;
        cx.apply(site::service(site)).await?;
        let published = condition("Published", true, "Applied", "all children are applied");
        cx.status(SiteStatus { conditions: vec![published], ..SiteStatus::default() }).await?;
        Ok(Next::on_change())
    }
}

/// The operator, written with Kubewright.
pub fn operator() -> Operator {
    Operator::new("bench").controller(
        Controller::of::<Site>()
            .owns::<ConfigMap>()
            .owns::<Deployment>()
            .owns::<Service>()
            .concurrency(WORKERS)
            .run(Publish),
    )
}
