//! CustomResourceDefinitions: whether one is valid, what status it has, and what it makes of the objects
//! of its kinds.
//!
//! Everything here is a function of JSON values. Serving, storing and the order of calls are the
//! registry's.

mod approval;
mod conversion;
mod default_values;
mod definition;
mod internal;
mod jsonpath;
mod openapi;
mod parts;
mod resource;
mod rules;
mod scale;
mod schema_rules;
mod status;
mod strategy;
mod structural;
mod table;
mod validate;
mod webhook;

use crate::kinds::Strategy;

pub(crate) use conversion::Conversion;
pub(crate) use definition::{Definition, Names, Version};
pub(crate) use openapi::{model_name, openapi_v2, openapi_v3};
pub(crate) use resource::{
    SelectableFields, Verdict, compare_versions, deprecation_warning, finalizer_warnings, prepare_object,
    prepare_object_status, prepare_object_update, validate_object, validate_object_status,
    validate_object_update, validate_type,
};
pub(crate) use rules::compile as compile_rules;
pub(crate) use scale::{scale_for_update, scale_of, write_scale};
pub(crate) use status::{awaits_cleanup, begin_deletion, end_deletion, next_status};
pub(crate) use strategy::{
    default, prepare_create, prepare_status_update, prepare_update, raises_generation, warnings,
};
pub(crate) use table::Table;
pub(crate) use validate::{validate, validate_status, validate_update};

/// The behaviour of CustomResourceDefinitions themselves.
pub(crate) const STRATEGY: Strategy = Strategy {
    default,
    prepare_create,
    prepare_update,
    prepare_status_update,
    validate,
    validate_update,
    validate_status_update: |crd, _| validate_status(crd),
    warnings,
    generation: Some(raises_generation),
};

#[cfg(test)]
mod tests;
