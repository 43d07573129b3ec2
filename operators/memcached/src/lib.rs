//! The tutorial operator: a `Memcached` asks for a number of memcached pods; this makes a Deployment of just so many,
//! and lists the pods in the status. There are two versions of the kind: the operator works with the newer one, and
//! converts the other for those who use it.

pub mod v1alpha1;
pub mod v1beta1;
pub mod webhooks;

use k8s_openapi::api::core::v1::{Capabilities, Container, ContainerPort, PodSpec, SecurityContext};
use kubewright::prelude::*;

pub use self::v1beta1::{Memcached, MemcachedSpec, MemcachedStatus};

/// A resource to begin with.
pub const SAMPLE: &str = include_str!("../config/samples/memcached.yaml");
/// The same as it was written for the first version.
pub const OLD_SAMPLE: &str = include_str!("../config/samples/memcached_v1alpha1.yaml");

struct Cache;

impl Reconciler<Memcached> for Cache {
    async fn reconcile(&self, memcached: &Memcached, cx: &Context<Memcached>) -> Result<Next> {
        let deployment = cx.apply(deployment(memcached)).await?;
        let pods = cx.pods()?;
        cx.status(MemcachedStatus {
            nodes: pods.iter().map(|pod| pod.name_any()).collect(),
            conditions: workload::conditions(&deployment, &pods),
            ..MemcachedStatus::default()
        })
        .await?;
        Ok(Next::on_change())
    }
}

fn deployment(memcached: &Memcached) -> Deployment {
    let memory =
        memcached.spec.memory_megabytes.map(|megabytes| vec!["-m".to_owned(), megabytes.to_string()]);
    let container = Container {
        name: "memcached".to_owned(),
        image: Some(memcached.spec.image.clone()),
        args: memory,
        ports: Some(vec![ContainerPort { container_port: 11211, ..ContainerPort::default() }]),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            capabilities: Some(Capabilities {
                drop: Some(vec!["ALL".to_owned()]),
                ..Capabilities::default()
            }),
            ..SecurityContext::default()
        }),
        ..Container::default()
    };
    let pod = PodSpec { containers: vec![container], ..PodSpec::default() };
    workload::deployment(memcached, memcached.spec.replicas, pod)
}

/// The operator: what it looks after, and what belongs to it.
pub fn operator() -> Operator {
    Operator::new("memcached-operator")
        .version(env!("CARGO_PKG_VERSION"))
        .controller(Controller::of::<Memcached>().owns::<Deployment>().follows_pods().run(Cache))
        .converts::<v1alpha1::Memcached, v1beta1::Memcached>()
        .defaults::<Memcached>(webhooks::fill)
        .validates::<Memcached>(webhooks::check)
}
