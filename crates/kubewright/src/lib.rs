//! The operator SDK for Rust.

pub mod client;
pub mod clock;
pub mod entropy;
mod error;
mod kind;
pub mod leader;
pub mod queue;

pub use self::{
    error::{Error, Result},
    kind::{Key, Kind, KindName, MayOwn, Scope, Seen},
};
