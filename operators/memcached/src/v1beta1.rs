//! The version that is stored, and that the operator works with.

use kubewright::prelude::*;

/// What is wanted.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[kube(
    group = "cache.example.com",
    version = "v1beta1",
    kind = "Memcached",
    namespaced,
    doc = "A number of memcached pods.",
    status = "MemcachedStatus",
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(
        name = "Available",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Available\")].status"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct MemcachedSpec {
    /// How many pods there are. In `v1alpha1` this is `size`, which people took for the size of the cache; everywhere
    /// else in Kubernetes it is `replicas`.
    #[schemars(range(min = 1, max = 5))]
    pub replicas: i32,
    /// What runs in them.
    #[serde(default = "default_image")]
    pub image: String,
    /// How much memory each pod keeps items in, in megabytes; without it, as much as memcached takes by itself.
    /// `v1alpha1` does not know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub memory_megabytes: Option<i32>,
}

pub(crate) fn default_image() -> String {
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
