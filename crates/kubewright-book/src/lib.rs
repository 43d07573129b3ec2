//! The book in `docs`, as tests: its Rust snippets are doctests of this crate. What many of them need is here, so that
//! each shows only what it is about.

use k8s_openapi::api::core::v1::{Container, PodSpec};
use kubewright::{prelude::*, workload::child_meta};

macro_rules! pages {
    ($($name:ident: $path:literal,)*) => {$(
        #[cfg(doctest)]
        #[doc = include_str!(concat!("../../../docs/", $path))]
        mod $name {}
    )*};
}

pages! {
    api_server: "api-server.md",
    cluster: "cluster.md",
    concepts: "concepts/flow.md",
    watch: "concepts/watch.md",
    cache: "concepts/cache.md",
    predicate: "concepts/predicate.md",
    queue: "concepts/queue.md",
    reconciler: "concepts/reconciler.md",
    writes: "concepts/writes.md",
    debugging_a_hot_loop: "howto/debugging-a-hot-loop.md",
    events: "howto/events.md",
    finalizers: "howto/finalizers.md",
    indexes: "howto/indexes.md",
    leader_election: "howto/leader-election.md",
    metrics: "howto/metrics.md",
    multi_cluster: "howto/multi-cluster.md",
    owner_references: "howto/owner-references.md",
    rbac: "howto/rbac.md",
    reliability: "howto/reliability.md",
    sharding: "howto/sharding.md",
    status_and_conditions: "howto/status-and-conditions.md",
    testing: "howto/testing.md",
    upgrading_a_crd: "howto/upgrading-a-crd.md",
    watch_another_resource: "howto/watch-another-resource.md",
    webhooks: "howto/webhooks.md",
}

/// What is wanted.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(group = "example.com", version = "v1", kind = "Site", namespaced, status = "SiteStatus")]
pub struct SiteSpec {
    /// What the page says.
    pub text: String,
    /// How many pods serve it.
    #[serde(default = "one")]
    pub replicas: i32,
    /// The ConfigMap that has its style.
    pub style: Option<String>,
}

fn one() -> i32 {
    1
}

/// What is there.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct SiteStatus {
    /// The generation of the site that this tells of.
    pub observed_generation: Option<i64>,
    /// What is true of it, since when, and why.
    pub conditions: Vec<Condition>,
}

/// The page of a site.
pub fn page(site: &Site) -> ConfigMap {
    ConfigMap {
        metadata: child_meta(site, "page"),
        data: Some([("index.html".to_owned(), site.spec.text.clone())].into()),
        ..ConfigMap::default()
    }
}

/// The pods that serve it.
pub fn deployment(site: &Site) -> Deployment {
    let web = Container { name: "web".to_owned(), image: Some("nginx".to_owned()), ..Container::default() };
    workload::deployment(site, site.spec.replicas, PodSpec { containers: vec![web], ..PodSpec::default() })
}

/// Runs a snippet, as `#[tokio::test]` runs a test.
///
/// # Panics
/// If the snippet does.
pub fn run(snippet: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(snippet);
}
