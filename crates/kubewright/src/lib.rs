#![doc = include_str!("docs/tutorial.md")]

mod cache;
pub mod client;
pub mod clock;
mod command;
mod context;
mod controller;
pub mod conversion;
pub mod entropy;
mod error;
mod events;
pub mod external;
mod finalizer;
mod kind;
pub mod leader;
mod lookup;
mod manager;
mod manifests;
mod metrics;
mod migration;
mod next;
mod operator;
pub mod prelude;
pub mod queue;
mod reach;
mod rights;
mod selector;
mod serve;
mod shutdown;
mod task;
mod webhook;
pub mod workload;

pub use self::{
    cache::{Change, Health, Index, Watch},
    command::{connect, main, main_with},
    context::{Context, Live, Reader, Watched, child_name, condition},
    controller::{Builder, Controller, Owners, Predicate, Reconciler},
    error::{Error, Result},
    events::Event,
    finalizer::{Finalized, Finalizer, Finalizing},
    kind::{Key, Kind, KindName, MayOwn, Object, Scope, Seen},
    lookup::Lookup,
    manager::{Addresses, Backlog, Options, Phase, Running},
    manifests::{ManifestOptions, Part, install_crds, install_crds_at, lost_by, to_yaml},
    next::Next,
    operator::Operator,
    reach::Reach,
    rights::Verb,
    serve::{Certificate, Door},
    shutdown::Shutdown,
    task::{TaskContext, Watching},
    webhook::{
        Admission, BORROWED, Defaulter, FailurePolicy, Operation, Outcome, Validator, Verdict, Webhook,
    },
};
