//! A Kubernetes API server that runs inside the process.
//!
//! A write goes down this list of modules, a watch event comes back up:
//!
//! - `http`: routing, content negotiation, discovery, OpenAPI, connections
//! - [`auth`]: client certificates, bearer tokens, service-account tokens; RBAC
//! - `rest`: the verbs, from options and bodies to the store and back
//! - `admission`: namespace lifecycle, webhooks, policies
//! - `webhook`: how webhooks are called, those of admission and those that convert
//! - `registry`: what a kind is: the built-in catalogue and CRDs behind one type
//! - `kinds`, `crd`, `table`: what the built-in kinds, CRDs and printed columns do
//! - `schema`: one engine for built-ins and CRDs: prune, default, validate, list types, CEL
//! - `fields`: managed fields and server-side apply
//! - `patch`: JSON patch, merge patch, strategic merge patch
//! - [`store`]: revisions, snapshots, watch history
//!
//! Start with [`ApiServer`].

mod admission;
mod api;
pub mod auth;
mod bootstrap;
mod clock;
mod crd;
mod credentials;
mod decode;
mod entropy;
pub mod error;
mod field;
mod fields;
mod http;
mod kinds;
mod names;
mod patch;
pub mod quantity;
mod registry;
mod rest;
mod schema;
mod selector;
mod server;
mod services;
pub mod store;
mod table;
mod webhook;

/// The version of Kubernetes whose behaviour this server has.
pub const KUBERNETES_VERSION: &str = "v1.36.3";

/// What counts against resource quotas, for whoever counts anew.
pub mod quota {
    pub use crate::admission::quota::{counted, used};
}

pub use self::{
    api::{ApiServer, Builder, InProcess, Listening, StartError},
    clock::Clock,
    credentials::write_private,
    http::answer::Body,
    quantity::{Quantity, QuantityError},
    rest::logs::{LogLine, LogSource},
    server::{Answer, BoxFuture, Cut, Hook, Next},
    webhook::{Route, ServiceResolver},
};
