//! Events: what an operator tells people about an object, as `kubectl describe` shows it. The same event again
//! within minutes is counted on the one that is there. An event that can't be written is logged and forgotten:
//! telling about the work must not stop it.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::{
    core::v1::ObjectReference,
    events::v1::{Event as Record, EventSeries},
};
use kube::{
    Api, Client, Resource as _,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
    core::Request,
};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;

use crate::{clock::Clock, entropy::Entropy, kind::Kind};

/// How long the same event counts as one series.
const SERIES: Duration = Duration::from_secs(6 * 60);
/// How many different events are remembered.
const REMEMBERED: usize = 1024;
/// The longest note the API takes, in bytes.
const LONGEST_NOTE: usize = 1024;

/// Something that happened to an object and that people may want to know.
///
/// ```
/// use kubewright::Event;
///
/// let event = Event::warning("NoSuchImage", "Pull", "the image nginx:latst was not found");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event {
    kind: &'static str,
    reason: String,
    action: String,
    note: String,
}

impl Event {
    /// Something that is as it should be. `reason` is one word for machines, `action` what was done.
    pub fn normal(reason: impl Into<String>, action: impl Into<String>, note: impl Into<String>) -> Self {
        Self { kind: "Normal", reason: reason.into(), action: action.into(), note: note.into() }
    }

    /// Something that needs attention.
    pub fn warning(reason: impl Into<String>, action: impl Into<String>, note: impl Into<String>) -> Self {
        Self { kind: "Warning", reason: reason.into(), action: action.into(), note: note.into() }
    }
}

/// Writes the events of one operator.
pub(crate) struct Recorder {
    /// The operator, as who reports.
    operator: Arc<str>,
    instance: String,
    /// Whether anybody wants to know.
    writes: bool,
    clock: Clock,
    entropy: Entropy,
    remembered: Mutex<Remembered>,
}

/// The UID of an object, and what happened to it.
type Occurrence = (String, Event);

/// The latest events.
#[derive(Default)]
struct Remembered {
    series: BTreeMap<Arc<Occurrence>, Series>,
    /// In the order in which they began.
    order: VecDeque<Arc<Occurrence>>,
}

#[derive(Clone)]
struct Series {
    name: String,
    namespace: String,
    count: i32,
    last: Instant,
}

impl Recorder {
    pub(crate) fn new(operator: Arc<str>, writes: bool, clock: Clock, entropy: Entropy) -> Self {
        let instance = std::env::var("HOSTNAME").unwrap_or_else(|_| operator.to_string());
        Self { operator, instance, writes, clock, entropy, remembered: Mutex::default() }
    }

    /// Tells of an event, with a client that may write.
    pub(crate) async fn record<K: Kind>(&self, client: &Client, object: &K, event: Event) {
        if !self.writes {
            return;
        }
        let meta = object.meta();
        let regarding = ObjectReference {
            api_version: Some(K::api_version(&()).into_owned()),
            kind: Some(K::kind(&()).into_owned()),
            name: meta.name.clone(),
            namespace: meta.namespace.clone(),
            uid: meta.uid.clone(),
            resource_version: meta.resource_version.clone(),
            field_path: None,
        };
        self.record_regarding(client, regarding, event).await;
    }

    async fn record_regarding(&self, client: &Client, regarding: ObjectReference, mut event: Event) {
        event.note.truncate(event.note.floor_char_boundary(LONGEST_NOTE));
        let occurrence = Arc::new((regarding.uid.clone().unwrap_or_default(), event));
        let outcome = match self.again(&occurrence) {
            Some(series) => self.count(client, &series).await,
            None => self.create(client, regarding, &occurrence).await,
        };
        if let Err(error) = outcome {
            let (_, Event { reason, note, .. }) = &*occurrence;
            tracing::warn!(%error, reason, note, "an event was not written");
        }
    }

    /// The series of an event that has happened before, with this time counted.
    fn again(&self, occurrence: &Occurrence) -> Option<Series> {
        let mut remembered = self.remembered.lock();
        let series = remembered.series.get_mut(occurrence).filter(|series| series.last.elapsed() < SERIES)?;
        series.count += 1;
        series.last = Instant::now();
        Some(series.clone())
    }

    async fn count(&self, client: &Client, series: &Series) -> kube::Result<()> {
        let change = json!({"series": {"count": series.count, "lastObservedTime": self.clock.micro_time()}});
        let events: Api<Record> = Api::namespaced(client.clone(), &series.namespace);
        events.patch_metadata(&series.name, &PatchParams::default(), &Patch::Merge(change)).await.map(|_| ())
    }

    async fn create(
        &self,
        client: &Client,
        regarding: ObjectReference,
        occurrence: &Arc<Occurrence>,
    ) -> kube::Result<()> {
        let (_, event) = &**occurrence;
        // Events about objects outside of namespaces are in this one.
        let namespace = regarding.namespace.clone().unwrap_or_else(|| "default".to_owned());
        let about = regarding.name.as_deref().unwrap_or_default();
        let name = format!("{about}.{:016x}", self.entropy.number());
        let record = Record {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                namespace: Some(namespace.clone()),
                ..ObjectMeta::default()
            },
            event_time: Some(self.clock.micro_time()),
            type_: Some(event.kind.to_owned()),
            reason: Some(event.reason.clone()),
            action: Some(event.action.clone()),
            note: Some(event.note.clone()),
            regarding: Some(regarding),
            reporting_controller: Some(self.operator.to_string()),
            reporting_instance: Some(self.instance.clone()),
            series: None::<EventSeries>,
            ..Record::default()
        };
        let body = serde_json::to_vec(&record).map_err(kube::Error::SerdeError)?;
        let request =
            Request::new(Record::url_path(&(), Some(&namespace))).create(&PostParams::default(), body);
        client.request_text(request.map_err(kube::Error::BuildRequest)?).await?;
        let series = Series { name, namespace, count: 1, last: Instant::now() };
        self.remembered.lock().remember(occurrence.clone(), series);
        Ok(())
    }
}

impl Remembered {
    fn remember(&mut self, occurrence: Arc<Occurrence>, series: Series) {
        if self.series.insert(occurrence.clone(), series).is_none() {
            self.order.push_back(occurrence);
        }
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.series.remove(&oldest);
        }
    }
}
