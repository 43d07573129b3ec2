//! Managed fields and server-side apply: who owns which field, and what may be changed by whom.
//!
//! - [`PathElement`], [`FieldSet`] and `fields_v1`: paths into objects, sets of them, and their JSON form
//! - `node`, `compare`, `merge`: walking objects along a [`Schema`](crate::schema::Schema)
//! - `entries`: `metadata.managedFields` itself
//! - [`folded`]: FieldsV1 as text, as objects carry it through a write
//! - [`FieldManager`]: what a write does to ownership, and applying a configuration
//! - [`ScaleFields`]: ownership on the way through `/scale`
//!
//! Objects come in and go out as JSON in the version of the request. Nothing here reads a store or a clock.

mod apply;
mod compare;
mod conflict;
mod empty;
mod entries;
mod fields_v1;
pub(crate) mod folded;
mod last_applied;
mod manager;
mod merge;
mod node;
mod path;
mod scale;
mod set;

pub(crate) use empty::empty_object;

pub(crate) use entries::{check_managed_fields, keep_times_of_unchanged};
pub(crate) use manager::{FieldManager, ResetFields, Versions, manager_of_user_agent};
pub(crate) use scale::ScaleFields;
pub(crate) use set::{FieldSet, Match};

#[cfg(test)]
mod tests;
