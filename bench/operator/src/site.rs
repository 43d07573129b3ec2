//! What the measured operators look after: a resource, and the three children each of them makes of it.

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec},
        core::v1::{ConfigMap, Container, PodSpec, PodTemplateSpec, Service, ServicePort, ServiceSpec},
    },
    apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector},
};
use kube::{CustomResource, ResourceExt as _, api::ObjectMeta};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A page and what it takes to serve it.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(group = "bench.kubewright.dev", version = "v1", kind = "Site", namespaced, status = "SiteStatus")]
pub struct SiteSpec {
    /// What serves it.
    pub image: String,
    /// What it says.
    pub page: String,
}

/// Whether it is served.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SiteStatus {
    /// The generation all this was found for.
    pub observed_generation: Option<i64>,
    /// One: whether the page is published.
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

/// A site that says who it is.
pub fn site(number: usize) -> Site {
    let spec = SiteSpec { image: "nginx".to_owned(), page: number.to_string() };
    Site::new(&format!("site-{number}"), spec)
}

/// The ConfigMap that has the page.
pub fn page(site: &Site) -> ConfigMap {
    let data = [("index.html".to_owned(), site.spec.page.clone())].into();
    ConfigMap { metadata: named(site), data: Some(data), ..ConfigMap::default() }
}

/// The Deployment that serves it.
pub fn deployment(site: &Site) -> Deployment {
    let labels = [("site".to_owned(), site.name_any())];
    let container =
        Container { name: "web".to_owned(), image: Some(site.spec.image.clone()), ..Container::default() };
    Deployment {
        metadata: named(site),
        spec: Some(DeploymentSpec {
            selector: LabelSelector { match_labels: Some(labels.clone().into()), ..LabelSelector::default() },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta { labels: Some(labels.into()), ..ObjectMeta::default() }),
                spec: Some(PodSpec { containers: vec![container], ..PodSpec::default() }),
            },
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    }
}

/// The Service in front of it. Without an address of its own: a cluster has fewer of them than there are sites here.
pub fn service(site: &Site) -> Service {
    Service {
        metadata: named(site),
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".to_owned()),
            selector: Some([("site".to_owned(), site.name_any())].into()),
            ports: Some(vec![ServicePort { port: 80, ..ServicePort::default() }]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

fn named(site: &Site) -> ObjectMeta {
    ObjectMeta { name: Some(site.name_any()), namespace: site.namespace(), ..ObjectMeta::default() }
}
