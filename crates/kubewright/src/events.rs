//! Events: what an operator tells people about an object, as `kubectl describe` shows it. The same event again
//! within minutes is counted on the one that is there. An event that can't be written is logged and forgotten:
//! telling about the work must not stop it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::api::{
    core::v1::ObjectReference,
    events::v1::{Event as Record, EventSeries},
};
use kube::{
    Api, Client,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;

use crate::{
    clock::Clock,
    entropy::Entropy,
    kind::{Kind, uid},
};

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
    clock: Clock,
    entropy: Entropy,
    series: Mutex<BTreeMap<(String, Event), Series>>,
}

#[derive(Clone)]
struct Series {
    name: String,
    namespace: String,
    count: i32,
    last: Instant,
}

impl Recorder {
    pub(crate) fn new(operator: Arc<str>, clock: Clock, entropy: Entropy) -> Self {
        let instance = std::env::var("HOSTNAME").unwrap_or_else(|_| operator.to_string());
        Self { operator, instance, clock, entropy, series: Mutex::default() }
    }

    /// Tells of an event, with a client that may write.
    pub(crate) async fn record<K: Kind>(&self, client: &Client, object: &K, mut event: Event) {
        event.note.truncate(event.note.floor_char_boundary(LONGEST_NOTE));
        let key = (uid(object).to_owned(), event);
        let outcome = match self.again(&key) {
            Some(series) => self.count(client, &series).await,
            None => self.create(client, object, &key).await,
        };
        if let Err(error) = outcome {
            tracing::warn!(%error, reason = key.1.reason, note = key.1.note, "an event was not written");
        }
    }

    /// The series of an event that has happened before, with this time counted.
    fn again(&self, key: &(String, Event)) -> Option<Series> {
        let mut all = self.series.lock();
        let series = all.get_mut(key).filter(|series| series.last.elapsed() < SERIES)?;
        series.count += 1;
        series.last = Instant::now();
        Some(series.clone())
    }

    async fn count(&self, client: &Client, series: &Series) -> kube::Result<()> {
        let change = json!({"series": {"count": series.count, "lastObservedTime": self.clock.micro_time()}});
        let events: Api<Record> = Api::namespaced(client.clone(), &series.namespace);
        events.patch_metadata(&series.name, &PatchParams::default(), &Patch::Merge(change)).await.map(|_| ())
    }

    async fn create<K: Kind>(&self, client: &Client, object: &K, key: &(String, Event)) -> kube::Result<()> {
        let (_, event) = key;
        let meta = object.meta();
        // Events about objects outside of namespaces are in this one.
        let namespace = meta.namespace.clone().unwrap_or_else(|| "default".to_owned());
        let name = format!("{}.{:016x}", meta.name.as_deref().unwrap_or_default(), self.entropy.number());
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
            regarding: Some(ObjectReference {
                api_version: Some(K::api_version(&()).into_owned()),
                kind: Some(K::kind(&()).into_owned()),
                name: meta.name.clone(),
                namespace: meta.namespace.clone(),
                uid: meta.uid.clone(),
                resource_version: meta.resource_version.clone(),
                field_path: None,
            }),
            reporting_controller: Some(self.operator.to_string()),
            reporting_instance: Some(self.instance.clone()),
            series: None::<EventSeries>,
            ..Record::default()
        };
        let events: Api<Record> = Api::namespaced(client.clone(), &namespace);
        events.create(&PostParams::default(), &record).await?;
        let mut all = self.series.lock();
        if all.len() >= REMEMBERED {
            all.retain(|_, series| series.last.elapsed() < SERIES);
            let oldest = all.iter().min_by_key(|(_, series)| series.last).map(|(key, _)| key.clone());
            if let Some(oldest) = oldest.filter(|_| all.len() >= REMEMBERED) {
                all.remove(&oldest);
            }
        }
        all.insert(key.clone(), Series { name, namespace, count: 1, last: Instant::now() });
        Ok(())
    }
}
