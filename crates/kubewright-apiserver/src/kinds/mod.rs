//! What the built-in kinds do beyond their schema: defaulting, validation, what an update may touch.
//!
//! A [`Strategy`] is a set of plain functions on one object. Objects arrive decoded along their schema:
//! every declared field has the right JSON type, unknown fields and empty optional ones are gone. A
//! strategy never sees the store; what needs other objects (allocation, quota, admission) lives elsewhere.

use serde_json::Value;

use crate::field::FieldError;

/// The behaviour of one built-in kind. Each function has a neutral default, see [`Strategy::PLAIN`].
#[derive(Clone, Copy)]
pub struct Strategy {
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

impl Strategy {
    /// A kind without behaviour of its own: no defaults, always valid, no status, no generation.
    pub const PLAIN: Self = Self {
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
