//! The system outside of the cluster: what this operator wants of it, and what can go wrong.

mod asked;
mod http;
mod recorded;

use std::future::Future;

use kubewright::prelude::*;

pub(crate) use self::asked::{Ask, Asked};
pub use self::{http::Http, recorded::Recorded};

/// What the system keeps.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct Record {
    /// What it is about.
    pub target: String,
    /// What kind of thing that is.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
}

/// A system that keeps records. Either call can be made again without harm, as it is when nobody knows whether it came
/// to its end.
pub trait System: Send + Sync + 'static {
    /// Makes the record of this id be as given.
    fn put(&self, id: &str, record: &Record) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Makes sure that there is no record of this id.
    fn delete(&self, id: &str) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// Why the system did not do what it was asked for.
#[derive(Debug, Clone, PartialEq)]
pub enum Failure {
    /// It may do so later.
    Unavailable(String),
    /// It never will.
    Refused(String),
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Unavailable(why) => Self::new(why),
            Failure::Refused(why) => Self::terminal(why),
        }
    }
}
