//! The tutorial operator: a `Memcached` asks for a number of memcached pods; this makes a Deployment of just so many,
//! and lists the pods in the status.

use k8s_openapi::api::core::v1::{Capabilities, Container, ContainerPort, PodSpec, SecurityContext};
use kubewright::prelude::*;

/// A resource to begin with.
pub const SAMPLE: &str = include_str!("../config/samples/memcached.yaml");

/// What is wanted.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(
    group = "cache.example.com",
    version = "v1alpha1",
    kind = "Memcached",
    namespaced,
    doc = "A number of memcached pods.",
    status = "MemcachedStatus",
    printcolumn(name = "Size", type_ = "integer", json_path = ".spec.size"),
    printcolumn(
        name = "Available",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Available\")].status"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct MemcachedSpec {
    /// How many pods there are.
    #[schemars(range(min = 1, max = 5))]
    pub size: i32,
    /// What runs in them.
    #[serde(default = "default_image")]
    pub image: String,
}

fn default_image() -> String {
    "memcached:1.6-alpine".to_owned()
}

/// What is there.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct MemcachedStatus {
    /// The generation of the resource that this tells of.
    pub observed_generation: Option<i64>,
    /// The names of the pods.
    pub nodes: Vec<String>,
    /// `Available`, `Progressing` and `Degraded`.
    pub conditions: Vec<Condition>,
}

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
    let container = Container {
        name: "memcached".to_owned(),
        image: Some(memcached.spec.image.clone()),
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
    workload::deployment(memcached, memcached.spec.size, pod)
}

/// The operator: what it looks after, and what belongs to it.
pub fn operator() -> Operator {
    Operator::new("memcached-operator")
        .version(env!("CARGO_PKG_VERSION"))
        .controller(Controller::of::<Memcached>().owns::<Deployment>().follows_pods().run(Cache))
}
