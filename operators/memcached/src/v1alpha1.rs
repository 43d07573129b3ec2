//! The first version, for those who still use it. The server converts it to [`v1beta1`] and back.

use kubewright::prelude::*;

use crate::v1beta1;
pub use crate::v1beta1::MemcachedStatus;

/// What is wanted.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[kube(
    group = "cache.example.com",
    version = "v1alpha1",
    kind = "Memcached",
    namespaced,
    doc = "A number of memcached pods.",
    status = "MemcachedStatus",
    deprecated = "cache.example.com/v1alpha1 Memcached is deprecated; use cache.example.com/v1beta1",
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
    #[serde(default = "v1beta1::default_image")]
    pub image: String,
}

impl From<Memcached> for v1beta1::Memcached {
    fn from(old: Memcached) -> Self {
        let spec =
            v1beta1::MemcachedSpec { replicas: old.spec.size, image: old.spec.image, memory_megabytes: None };
        Self { metadata: old.metadata, spec, status: old.status }
    }
}

impl From<v1beta1::Memcached> for Memcached {
    fn from(new: v1beta1::Memcached) -> Self {
        let spec = MemcachedSpec { size: new.spec.replicas, image: new.spec.image };
        Self { metadata: new.metadata, spec, status: new.status }
    }
}
