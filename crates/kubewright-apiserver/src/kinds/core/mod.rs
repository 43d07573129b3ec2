//! The kinds of core/v1.

mod config;
mod endpoints;
pub(crate) mod event;
mod limit_range;
mod namespace;
mod node;
mod persistent_volume;
mod pod;
pub(crate) mod pod_spec;
mod pod_subresources;
mod pod_template;
mod replication_controller;
mod resource_quota;
mod service;
mod service_account;
pub(crate) mod volume_claim;

pub(crate) use self::pod::qos_class;
use super::Strategy;

/// What each kind of core/v1 does, by its name.
pub(crate) const STRATEGIES: &[(&str, Strategy)] = &[
    ("ConfigMap", config::CONFIG_MAP),
    ("Endpoints", endpoints::STRATEGY),
    ("Event", event::STRATEGY),
    ("LimitRange", limit_range::STRATEGY),
    ("Namespace", namespace::STRATEGY),
    ("Node", node::STRATEGY),
    ("PersistentVolume", persistent_volume::STRATEGY),
    ("PersistentVolumeClaim", volume_claim::STRATEGY),
    ("Pod", pod::STRATEGY),
    ("PodTemplate", pod_template::STRATEGY),
    ("ReplicationController", replication_controller::STRATEGY),
    ("ResourceQuota", resource_quota::STRATEGY),
    ("Secret", config::SECRET),
    ("Service", service::STRATEGY),
    ("ServiceAccount", service_account::STRATEGY),
];

/// What an update of a subresource with rules of its own does, by kind and subresource. Only
/// `prepare_update`, `validate_update` and `generation` of these count.
pub(crate) const SUBRESOURCES: &[(&str, &str, Strategy)] = &[
    ("Namespace", "finalize", namespace::FINALIZE),
    ("Pod", "ephemeralcontainers", pod_subresources::EPHEMERAL_CONTAINERS),
    ("Pod", "resize", pod_subresources::RESIZE),
];

#[cfg(test)]
mod tests;
