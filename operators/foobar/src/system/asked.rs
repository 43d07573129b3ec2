//! The system as the operator reaches it: each call is something that is asked for, so that it can be rehearsed what
//! happens if it goes wrong.

use std::{collections::BTreeMap, fmt};

use kubewright::external::{External, StandIn, Unreachable};
use serde_json::{Value, json};

use super::{Failure, Record, Recorded, System};

/// A system that is asked.
pub(crate) struct Asked<S>(pub(crate) S);

/// What it is asked for.
pub(crate) enum Ask {
    Put { id: String, record: Record },
    Delete { id: String },
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Put { id, .. } => write!(f, "put {id}"),
            Self::Delete { id } => write!(f, "delete {id}"),
        }
    }
}

impl<S: System> External for Asked<S> {
    type Request = Ask;
    type Answer = ();
    type Failure = Failure;

    async fn ask(&self, ask: &Ask) -> Result<(), Failure> {
        match ask {
            Ask::Put { id, record } => self.0.put(id, record).await,
            Ask::Delete { id } => self.0.delete(id).await,
        }
    }
}

impl StandIn for Asked<Recorded> {
    fn keeps(&self) -> BTreeMap<String, Value> {
        self.0.records().into_iter().map(|(id, record)| (id, json!(record))).collect()
    }
}

impl From<Unreachable> for Failure {
    fn from(unreachable: Unreachable) -> Self {
        Self::Unavailable(unreachable.to_string())
    }
}
