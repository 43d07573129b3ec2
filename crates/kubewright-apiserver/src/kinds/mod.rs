//! What the built-in kinds do beyond their schema: defaulting, validation, what an update may touch.
//!
//! A [`Strategy`] is a set of plain functions on one object. Objects arrive decoded along their schema:
//! every declared field has the right JSON type, unknown fields and empty optional ones are gone. A
//! strategy never sees the store; what needs other objects (allocation, quota, admission) lives elsewhere.

pub(crate) mod access;
pub(crate) mod admissionregistration;
pub(crate) mod apiregistration;
pub(crate) mod apps;
pub(crate) mod authentication;
pub(crate) mod authorization;
pub(crate) mod autoscaling;
pub(crate) mod batch;
pub(crate) mod certificates;
mod checks;
pub(crate) mod coordination;
pub(crate) mod core;
pub(crate) mod discovery;
pub(crate) mod events;
pub(crate) mod fields;
pub(crate) mod flowcontrol;
mod internal_form;
mod lifecycle;
pub(crate) mod networking;
pub(crate) mod node;
pub(crate) mod policy;
pub(crate) mod rbac;
mod report;
pub(crate) mod scale;
pub(crate) mod scheduling;
mod status;
pub(crate) mod storage;
mod workload;

use serde_json::Value;

use crate::field::FieldError;

/// The behaviour of a built-in kind; `None` if it has none of its own.
pub(crate) fn strategy(group: &str, version: &str, kind: &str) -> Option<&'static Strategy> {
    let in_version_one = |table: &'static [(&str, Strategy)]| {
        table.iter().find(|(name, _)| *name == kind).map(|(_, strategy)| strategy)
    };
    let table = match group {
        "" => return in_version_one(core::STRATEGIES),
        "apps" => return in_version_one(apps::STRATEGIES),
        "batch" => return in_version_one(batch::STRATEGIES),
        "apiextensions.k8s.io" => return Some(&crate::crd::STRATEGY),
        "admissionregistration.k8s.io" => admissionregistration::STRATEGIES,
        "apiregistration.k8s.io" => apiregistration::STRATEGIES,
        "authentication.k8s.io" => authentication::STRATEGIES,
        "authorization.k8s.io" => authorization::STRATEGIES,
        "autoscaling" => autoscaling::STRATEGIES,
        "certificates.k8s.io" => certificates::STRATEGIES,
        "coordination.k8s.io" => coordination::STRATEGIES,
        "discovery.k8s.io" => discovery::STRATEGIES,
        "events.k8s.io" => events::STRATEGIES,
        "flowcontrol.apiserver.k8s.io" => flowcontrol::STRATEGIES,
        "networking.k8s.io" => networking::STRATEGIES,
        "node.k8s.io" => node::STRATEGIES,
        "policy" => policy::STRATEGIES,
        "rbac.authorization.k8s.io" => rbac::STRATEGIES,
        "scheduling.k8s.io" => scheduling::STRATEGIES,
        "storage.k8s.io" => storage::STRATEGIES,
        _ => return None,
    };
    table.iter().find(|(v, name, _)| *v == version && *name == kind).map(|(_, _, strategy)| strategy)
}

/// The behaviour of one built-in kind. Each function has a neutral default, see [`Strategy::PLAIN`].
#[derive(Clone, Copy)]
pub(crate) struct Strategy {
    /// Fills unset fields, as the `SetDefaults_*` functions of Kubernetes do. Runs on every write, before
    /// validation, and is idempotent.
    pub default: fn(object: &mut Value),
    /// Clears what a creator may not set (usually status) and folds write-only fields (`stringData`).
    pub prepare_create: fn(object: &mut Value),
    /// Carries over from `old` what an ordinary update may not touch (usually status).
    pub prepare_update: fn(object: &mut Value, old: &Value),
    /// Carries over from `old` what an update of `/status` may not touch (usually everything but status).
    pub prepare_status_update: fn(object: &mut Value, old: &Value),
    /// What is wrong with a new object, metadata aside.
    pub validate: fn(object: &Value) -> Vec<FieldError>,
    /// What is wrong with `object` as the successor of `old`, metadata aside: its own validity and
    /// immutable fields.
    pub validate_update: fn(object: &Value, old: &Value) -> Vec<FieldError>,
    /// What is wrong with `object` as a `/status` successor of `old`.
    pub validate_status_update: fn(object: &Value, old: &Value) -> Vec<FieldError>,
    /// Texts for `Warning` headers of a write.
    pub warnings: fn(object: &Value, old: Option<&Value>) -> Vec<String>,
    /// Whether the change from `old` raises `metadata.generation`; `None` for kinds without generation.
    pub generation: Option<fn(object: &Value, old: &Value) -> bool>,
}

impl std::fmt::Debug for Strategy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Strategy")
    }
}

impl Strategy {
    /// A kind without behaviour of its own: no defaults, always valid, no status, no generation.
    pub(crate) const PLAIN: Self = Self {
        default: |_| {},
        prepare_create: |_| {},
        prepare_update: |_, _| {},
        prepare_status_update: |_, _| {},
        validate: |_| Vec::new(),
        validate_update: |_, _| Vec::new(),
        validate_status_update: |_, _| Vec::new(),
        warnings: |_, _| Vec::new(),
        generation: None,
    };
}
