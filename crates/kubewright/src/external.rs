//! Systems outside of the cluster, as operators reach them: through an [`Outside`], on which an explorer can let things
//! go wrong, and behind which a [`StandIn`] can be put.
//!
//! ```
//! use std::{collections::BTreeMap, fmt, sync::{Arc, Mutex}};
//!
//! use kubewright::{Error, Operator, external::{External, Outside, StandIn, Unreachable}};
//! use serde_json::Value;
//!
//! /// What is asked of a list of names.
//! struct Enter(String);
//!
//! impl fmt::Display for Enter {
//!     fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
//!         write!(f, "enter {}", self.0)
//!     }
//! }
//!
//! /// The list as it really is: a database, or a service.
//! struct Database;
//!
//! impl External for Database {
//!     type Request = Enter;
//!     type Answer = ();
//!     type Failure = Error;
//!
//!     async fn ask(&self, _: &Enter) -> Result<(), Error> {
//!         Err(Error::new("there is none in an example"))
//!     }
//! }
//!
//! #[derive(Default)]
//! struct Paper(Mutex<BTreeMap<String, Value>>);
//!
//! impl External for Paper {
//!     type Request = Enter;
//!     type Answer = ();
//!     type Failure = Error;
//!
//!     async fn ask(&self, enter: &Enter) -> Result<(), Error> {
//!         self.0.lock().unwrap().insert(enter.0.clone(), Value::Null);
//!         Ok(())
//!     }
//! }
//!
//! impl StandIn for Paper {
//!     fn keeps(&self) -> BTreeMap<String, Value> {
//!         self.0.lock().unwrap().clone()
//!     }
//! }
//!
//! fn operator() -> Operator {
//!     let names = Outside::new("names", Database).rehearsed_with(Paper::default());
//!     // A reconciler that holds `names` calls `names.ask(&Enter(..)).await`.
//!     Operator::new("names-operator").reaches(&names)
//! }
//! # operator();
//! ```

use std::{
    any::Any,
    collections::BTreeMap,
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, OnceLock},
};

use parking_lot::Mutex;
use serde_json::Value;

use crate::error::{Error, Result};

type BoxFuture<'f, T> = Pin<Box<dyn Future<Output = T> + Send + 'f>>;

/// A system outside of the cluster: an HTTP service, a database. Nobody can know of a request without an answer whether
/// it was carried out, so each should be one that can be made again without harm.
pub trait External: Send + Sync + 'static {
    /// What it is asked for. The text of it names the call wherever calls are told of, so it must not hold a secret.
    type Request: fmt::Display + Send + Sync;
    /// What it answers.
    type Answer: Send;
    /// Why it does not do what it was asked for.
    type Failure: From<Unreachable> + Send;

    /// Asks it for something.
    fn ask(
        &self,
        request: &Self::Request,
    ) -> impl Future<Output = Result<Self::Answer, Self::Failure>> + Send;
}

/// Stands in for a system while its operator is tried out.
pub trait StandIn: External {
    /// All that it keeps, each under a name: what must be the same in the end, whatever went wrong on the way.
    fn keeps(&self) -> BTreeMap<String, Value>;
}

/// That a system gave no answer: it can't be reached, or what it said was lost.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreachable(String);

impl Unreachable {
    /// One for a reason.
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

/// A stand-in for a system, whichever it is.
trait Plays<E: External>: Send + Sync {
    fn play<'a>(&'a self, request: &'a E::Request) -> BoxFuture<'a, Result<E::Answer, E::Failure>>;
    fn keeps(&self) -> BTreeMap<String, Value>;
}

impl<E, S> Plays<E> for S
where
    E: External,
    S: StandIn + External<Request = E::Request, Answer = E::Answer, Failure = E::Failure>,
{
    fn play<'a>(&'a self, request: &'a E::Request) -> BoxFuture<'a, Result<E::Answer, E::Failure>> {
        Box::pin(self.ask(request))
    }

    fn keeps(&self) -> BTreeMap<String, Value> {
        StandIn::keeps(self)
    }
}

/// The way of an operator to a system outside. Clones are the same way.
pub struct Outside<E: External>(Arc<Way<E>>);

struct Way<E: External> {
    name: String,
    system: E,
    stand_in: OnceLock<Arc<dyn Plays<E>>>,
    /// Where calls go instead, if the operator is rehearsed.
    rehearsed: OnceLock<(Rehearsal, Arc<dyn Plays<E>>)>,
}

impl<E: External> Clone for Outside<E> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<E: External> Outside<E> {
    /// The way to a system, which is called by a name where it is told of.
    pub fn new(name: impl Into<String>, system: E) -> Self {
        let name = name.into();
        Self(Arc::new(Way { name, system, stand_in: OnceLock::new(), rehearsed: OnceLock::new() }))
    }

    /// What stands in for the system while the operator is rehearsed. Nothing else ever asks it.
    #[must_use]
    pub fn rehearsed_with<S>(self, stand_in: S) -> Self
    where
        S: StandIn + External<Request = E::Request, Answer = E::Answer, Failure = E::Failure>,
    {
        // The first one counts.
        let _ = self.0.stand_in.set(Arc::new(stand_in));
        self
    }

    /// Asks the system for something.
    pub async fn ask(&self, request: &E::Request) -> Result<E::Answer, E::Failure> {
        let Some((rehearsal, stand_in)) = self.0.rehearsed.get() else {
            return self.0.system.ask(request).await;
        };
        let call = format!("{} {request}", self.0.name);
        rehearsal.0.passage.before(&call).await?;
        let answer = stand_in.play(request).await;
        rehearsal.0.passage.after(&call, answer.is_ok()).await?;
        answer
    }
}

impl<E: External> fmt::Debug for Outside<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Outside").field(&self.0.name).finish()
    }
}

/// What an operator says of the systems it reaches.
pub(crate) trait Reached: Send + Sync {
    fn rehearse(&self, rehearsal: &Rehearsal) -> Result<()>;
}

impl<E: External> Reached for Outside<E> {
    fn rehearse(&self, rehearsal: &Rehearsal) -> Result<()> {
        let name = &self.0.name;
        let stand_in = self.0.stand_in.get().ok_or_else(|| {
            Error::new(format!(
                "nothing stands in for {name}, which the operator reaches: give the way to it something with \
                 Outside::rehearsed_with"
            ))
        })?;
        let playing = rehearsal.cast(name, stand_in)?;
        // The first rehearsal counts.
        let _ = self.0.rehearsed.set((rehearsal.clone(), playing));
        Ok(())
    }
}

/// What happens to calls on their way out and back.
pub trait Passage: Send + Sync + 'static {
    /// A call is about to be made; an error keeps it from being made.
    fn before<'a>(&'a self, call: &'a str) -> BoxFuture<'a, Result<(), Unreachable>>;

    /// A call was made, and answered well or not; an error keeps the answer from being heard.
    fn after<'a>(&'a self, call: &'a str, is_well: bool) -> BoxFuture<'a, Result<(), Unreachable>>;
}

/// An operator that is tried out, with stand-ins for the systems it reaches. They keep what they have when the operator
/// is started anew, as the systems do.
#[derive(Clone)]
pub struct Rehearsal(Arc<Stage>);

struct Stage {
    passage: Box<dyn Passage>,
    /// By the name of what they stand in for.
    stand_ins: Mutex<BTreeMap<String, Part>>,
}

/// A stand-in: as it is asked, and as it is looked at.
struct Part {
    playing: Box<dyn Any + Send + Sync>,
    keeps: Box<dyn Fn() -> BTreeMap<String, Value> + Send + Sync>,
}

impl Rehearsal {
    /// One in which all calls take the same passage.
    pub fn new(passage: impl Passage) -> Self {
        Self(Arc::new(Stage { passage: Box::new(passage), stand_ins: Mutex::default() }))
    }

    /// What all stand-ins keep, by their names.
    pub fn keeps(&self) -> BTreeMap<String, BTreeMap<String, Value>> {
        let parts = self.0.stand_ins.lock();
        parts.iter().map(|(name, part)| (name.clone(), (part.keeps)())).collect()
    }

    /// The one that plays a system already, or else the one that is offered.
    fn cast<E: External>(&self, name: &str, offered: &Arc<dyn Plays<E>>) -> Result<Arc<dyn Plays<E>>> {
        let mut parts = self.0.stand_ins.lock();
        let part = parts.entry(name.to_owned()).or_insert_with(|| {
            let kept = offered.clone();
            Part { playing: Box::new(offered.clone()), keeps: Box::new(move || kept.keeps()) }
        });
        let playing = part.playing.downcast_ref::<Arc<dyn Plays<E>>>();
        playing.cloned().ok_or_else(|| Error::new(format!("two systems are both called {name}")))
    }
}

impl fmt::Debug for Rehearsal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Rehearsal").field(&self.keeps()).finish()
    }
}
