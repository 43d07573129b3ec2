//! A Kubernetes API server that runs inside the process.
//!
//! A write goes down this list of modules, a watch event comes back up:
//!
//! - [`http`]: routing, content negotiation, tables, discovery, OpenAPI, watch streams
//! - [`auth`]: client certificates, bearer tokens, service-account tokens; RBAC
//! - [`admission`]: namespace lifecycle, webhooks, policies
//! - [`registry`]: what a kind is: the built-in catalogue and CRDs behind one type
//! - [`kinds`]: defaulting and validation of the built-in kinds
//! - [`schema`]: one engine for built-ins and CRDs: prune, default, validate, list types, CEL
//! - [`fields`]: managed fields and server-side apply
//! - [`patch`]: JSON patch, merge patch, strategic merge patch
//! - [`store`]: revisions, snapshots, watch history

pub mod admission;
pub mod auth;
pub mod error;
pub mod field;
pub mod fields;
pub mod http;
pub mod kinds;
pub mod names;
pub mod patch;
pub mod quantity;
pub mod registry;
pub mod schema;
pub mod store;
