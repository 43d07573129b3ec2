//! The operator for something outside of the cluster: a `FooBar` asks for a record in an external system. Two
//! controllers see to that. The first makes an `Entry` of a `FooBar`, which nobody else writes; the second keeps a
//! record for each `Entry`, and removes it before the `Entry` goes. Pods that name a `FooBar` are told its target.

mod pods;
mod system;

use std::{env, sync::Arc};

use kubewright::{external::Outside, prelude::*, workload::child_meta};

use self::system::{Ask, Asked};
pub use self::{
    pods::{LABEL, VARIABLE},
    system::{Failure, Http, Record, Recorded, System},
};

/// Names the address of the external system, such as `http://records.example.com`.
pub const ADDRESS: &str = "FOOBAR_SYSTEM";
/// Where the system is if nothing is said.
pub const DEFAULT_ADDRESS: &str = "http://127.0.0.1:8090";

/// Keeps what it is put on until the external system is clean.
const FINALIZER: &str = "test.example.com/record";
/// How soon a record is put again, which may have been lost outside without a word.
const PUT_AGAIN: Duration = Duration::from_secs(10 * 60);

/// A resource to begin with.
pub const SAMPLE: &str = include_str!("../config/samples/foobar.yaml");

/// What is wanted.
#[allow(clippy::duplicated_attributes, reason = "two columns are of the same type")]
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(
    group = "test.example.com",
    version = "v1",
    kind = "FooBar",
    namespaced,
    doc = "A record in the external system.",
    status = "FooBarStatus",
    printcolumn(name = "Target", type_ = "string", json_path = ".spec.target"),
    printcolumn(name = "Type", type_ = "string", json_path = ".spec.type"),
    printcolumn(
        name = "Available",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Available\")].status"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct FooBarSpec {
    /// What the record is about.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub target: String,
    /// What kind of thing that is; which ones there are, the system decides.
    #[serde(rename = "type")]
    pub type_: Option<String>,
}

/// What is there.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct FooBarStatus {
    /// The generation of the resource that this tells of.
    pub observed_generation: Option<i64>,
    /// `Available`, `Progressing` and `Degraded`.
    pub conditions: Vec<Condition>,
}

/// What the first controller asks of the second.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(
    group = "test.example.com",
    version = "v1",
    kind = "Entry",
    plural = "entries",
    namespaced,
    doc = "What the foobar operator notes for itself: nobody else writes it.",
    status = "FooBarStatus",
    printcolumn(name = "Target", type_ = "string", json_path = ".spec.record.target"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct EntrySpec {
    /// The record as it should be. Its id in the system is the UID of this object.
    pub record: Record,
}

/// Makes entries of what people ask for.
struct Notes;

impl Reconciler<FooBar> for Notes {
    async fn reconcile(&self, foobar: &FooBar, cx: &Context<FooBar>) -> Result<Next> {
        let entry = cx.apply(entry(foobar)).await?;
        cx.status(told(&entry)).await?;
        Ok(Next::on_change())
    }
}

impl Finalizer<FooBar> for Notes {
    async fn finalize(&self, _: &FooBar, cx: Finalizing<FooBar>) -> Result<Finalized> {
        let entries = cx.children::<Entry>()?;
        for entry in &entries {
            if entry.metadata.deletion_timestamp.is_none() {
                cx.delete(entry).await?;
            }
            cx.status(told(entry)).await?;
        }
        // When they are gone, this is called again at once.
        Ok(if entries.is_empty() { cx.done() } else { cx.again_after(PUT_AGAIN) })
    }
}

fn entry(foobar: &FooBar) -> Entry {
    let record = Record { target: foobar.spec.target.clone(), type_: foobar.spec.type_.clone() };
    Entry { metadata: child_meta(foobar, ""), spec: EntrySpec { record }, status: None }
}

/// What an entry tells of the resource that it was made for.
fn told(entry: &Entry) -> FooBarStatus {
    let is_news = |status: &FooBarStatus| status.observed_generation == entry.metadata.generation;
    let mut told = entry.status.clone().filter(is_news).unwrap_or_else(|| status(None));
    // That an entry is stalled is between it and the operator.
    told.conditions.retain(|condition| condition.type_ != "Stalled");
    told
}

/// Keeps the records of entries.
struct Keeps<S: System>(Outside<Asked<S>>);

impl<S: System> Reconciler<Entry> for Keeps<S> {
    async fn reconcile(&self, entry: &Entry, cx: &Context<Entry>) -> Result<Next> {
        // What the system keeps for an entry that is gone, nobody would remove: a view may be old, the server's is not.
        let now = cx.live().get::<Entry>(&entry.name_any()).await?;
        if now.is_none_or(|now| now.uid() != entry.uid()) {
            return Ok(Next::on_change());
        }
        let put = Ask::Put { id: id(entry), record: entry.spec.record.clone() };
        let outcome = self.0.ask(&put).await;
        cx.status(status(Some(&outcome))).await?;
        outcome?;
        Ok(Next::after(PUT_AGAIN))
    }
}

impl<S: System> Finalizer<Entry> for Keeps<S> {
    async fn finalize(&self, entry: &Entry, cx: Finalizing<Entry>) -> Result<Finalized> {
        let outcome = self.0.ask(&Ask::Delete { id: id(entry) }).await;
        if outcome.is_err() {
            cx.status(status(Some(&outcome))).await?;
        }
        outcome?;
        Ok(cx.done())
    }
}

/// The id of a record: no two entries ever have the same, not even one after the other.
fn id(entry: &Entry) -> String {
    entry.uid().unwrap_or_default()
}

/// What the answer of the system means for a resource, if there is one.
fn status(answer: Option<&Result<(), Failure>>) -> FooBarStatus {
    let (reason, message) = match answer {
        None => ("Asking", "the system has not answered yet"),
        Some(Ok(())) => ("Recorded", "the system has the record"),
        Some(Err(Failure::Unavailable(why))) => ("SystemUnavailable", why.as_str()),
        Some(Err(Failure::Refused(why))) => ("SystemRefuses", why.as_str()),
    };
    let is_on_its_way = matches!(answer, None | Some(Err(Failure::Unavailable(_))));
    let degraded = match answer {
        Some(Err(_)) => condition("Degraded", true, reason, message),
        _ => condition("Degraded", false, "AsExpected", "nothing is in the way"),
    };
    let conditions = vec![
        condition("Available", matches!(answer, Some(Ok(()))), reason, message),
        condition("Progressing", is_on_its_way, reason, message),
        degraded,
    ];
    FooBarStatus { conditions, ..FooBarStatus::default() }
}

/// The operator, with the external system that the environment names.
pub fn operator() -> Operator {
    operator_with(Http::new(&env::var(ADDRESS).unwrap_or_else(|_| DEFAULT_ADDRESS.to_owned())))
}

/// The operator, with an external system: what it looks after, and what belongs to it.
pub fn operator_with(system: impl System) -> Operator {
    let records = Outside::new("records", Asked(system)).rehearsed_with(Asked(Recorded::default()));
    let (notes, keeps) = (Arc::new(Notes), Arc::new(Keeps(records.clone())));
    Operator::new("foobar-operator")
        .version(env!("CARGO_PKG_VERSION"))
        .reaches(&records)
        .controller(Controller::of::<FooBar>().owns::<Entry>().finalizer(FINALIZER, notes.clone()).run(notes))
        .controller(
            Controller::of::<Entry>()
                .internal()
                // What is said in the status is no reason to ask the system again.
                .when(Predicate::generation_changed())
                .finalizer(FINALIZER, keeps.clone())
                .concurrency(4)
                .run(keeps),
        )
        .webhook(pods::webhook())
}
