//! Watch: the events of a collection from a revision on, one JSON document a line.
//!
//! A watcher holds a cursor in the store's history. Objects that enter or leave a selector show up as added
//! and deleted. What goes wrong after the answer has begun is an event too.

use std::{collections::VecDeque, pin::Pin, slice, sync::Arc, time::Duration};

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::{Instant, Sleep, sleep_until};

use super::{Scope, list, options::ListOptions};
use crate::{
    decode::go::quote,
    error::ApiError,
    http::{
        answer::{self, Answer, Body},
        negotiate::Shape,
    },
    kinds::access,
    registry::Origin,
    server::BoxFuture,
    store::{Event, EventKind, Stored, Watcher},
    table::{ListMeta, PartialObjectMetadata},
};

/// Between attempts at a conversion.
const CONVERSION_PAUSE: Duration = Duration::from_secs(1);
const BOOKMARK_PERIOD: Duration = Duration::from_secs(60);
/// Without a timeout a watch ends after half an hour to an hour, so that clients spread over servers.
const DEFAULT_TIMEOUT_SECONDS: std::ops::Range<u64> = 1800..3600;

pub(crate) async fn watch(scope: &Arc<Scope>) -> Result<Answer, ApiError> {
    let mut options = ListOptions::read(&scope.query, true)?;
    if !scope.name.is_empty() {
        options.fields.requirements.push(crate::selector::FieldRequirement {
            field: "metadata.name".to_owned(),
            equals: true,
            value: scope.name.clone(),
        });
    }
    scope.check_fields(&options)?;
    let store = &scope.server.store;
    let seconds =
        options.timeout_seconds.unwrap_or_else(|| scope.server.entropy.within(DEFAULT_TIMEOUT_SECONDS));
    let deadline = Instant::now() + Duration::from_secs(seconds);
    let version = options.resource_version.as_str();
    let server = scope.server.clone();
    let mut stream = Stream {
        scope: scope.clone(),
        pending: VecDeque::new(),
        backlog: VecDeque::new(),
        watcher: None,
        deadline,
        alarm: Box::pin(sleep_until(deadline)),
        stopped: Box::pin(async move { server.stopped().await }),
        headings: true,
        state: Phase::Live,
        options: options.clone(),
    };
    stream.set_alarm();
    let wanted: u64 = match version {
        "" => 0,
        text => text.parse().map_err(|_| {
            ApiError::unexplained(format!(
                "resourceVersion: Invalid value: {}: strconv.ParseUint: parsing {}: invalid syntax",
                quote(text),
                quote(text)
            ))
        })?,
    };
    let initial = options.send_initial_events.unwrap_or(wanted == 0);
    let mut after = wanted;
    if initial {
        if options.send_initial_events.is_some() && wanted > 0 {
            scope.server.wait_for(wanted).await?;
        }
        let page = list::page(
            scope,
            &ListOptions {
                limit: 0,
                continue_token: None,
                resource_version: String::new(),
                revision_match: None,
                ..options.clone()
            },
        )
        .await?;
        after = page.revision;
        let lines = stream.lines("ADDED", &page.objects).await;
        stream.pending.extend(lines.map_err(|error| scope.unlisted(false, error))?);
        if options.send_initial_events == Some(true) && options.bookmarks {
            let line = stream.bookmark(page.revision, true);
            stream.pending.push_back(line);
        }
    } else if wanted == 0 {
        after = store.revision();
    }
    match store.watch(scope.storage(), after) {
        Ok(watcher) => stream.watcher = Some(watcher),
        Err(_) => {
            stream.pending.push_back(gone(after));
            stream.state = Phase::Ending;
        }
    }
    let chunks = futures_util::stream::unfold(stream, |mut stream| async move {
        let line = stream.next().await?;
        Some((line, stream))
    });
    let mut answer = Answer::new(Body::stream(Box::pin(chunks)));
    let content_type = match scope.accepted.shape {
        Shape::Table => "application/json;as=Table;v=v1;g=meta.k8s.io",
        _ => "application/json",
    };
    answer::header(&mut answer, "content-type", content_type);
    Ok(answer)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Live,
    /// What is pending is the last.
    Ending,
}

struct Stream {
    scope: Arc<Scope>,
    options: ListOptions,
    watcher: Option<Watcher>,
    /// Lines that are ready.
    pending: VecDeque<Bytes>,
    /// Events of which no line was made yet.
    backlog: VecDeque<Arc<Event>>,
    deadline: Instant,
    /// Goes off when the next bookmark is due, or at the deadline. Kept from event to event, like `stopped`,
    /// because to wait anew costs more than an event does.
    alarm: Pin<Box<Sleep>>,
    stopped: BoxFuture<'static, ()>,
    /// The next table still needs its column headings.
    headings: bool,
    state: Phase,
}

impl Stream {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(line) = self.pending.pop_front() {
                return Some(self.join(line));
            }
            if self.state == Phase::Ending {
                return None;
            }
            if !self.backlog.is_empty() {
                self.work_off().await;
                continue;
            }
            let watcher = self.watcher.as_mut()?;
            let batch = tokio::select! {
                biased;
                batch = watcher.next_batch() => Some(batch),
                () = self.alarm.as_mut() => None,
                () = self.stopped.as_mut() => {
                    self.state = Phase::Ending;
                    continue;
                }
            };
            match batch {
                Some(Ok(events)) => self.backlog.extend(events),
                Some(Err(compacted)) => {
                    self.pending.push_back(gone(compacted.oldest));
                    self.state = Phase::Ending;
                }
                None => {
                    if self.options.bookmarks
                        && let Some(revision) = self.watcher.as_mut().and_then(Watcher::caught_up)
                    {
                        let line = self.bookmark(revision, false);
                        self.pending.push_back(line);
                    }
                    if Instant::now() >= self.deadline {
                        self.state = Phase::Ending;
                    }
                    self.set_alarm();
                }
            }
        }
    }

    /// Makes lines of the backlog. An event that can't be converted is waited for: nobody misses it, and nobody sees
    /// what comes after it first.
    async fn work_off(&mut self) {
        while let Some(event) = self.backlog.pop_front() {
            match self.line_of(&event).await {
                Ok(line) => self.pending.extend(line),
                Err(error) if !self.scope.resource.has_converter() => {
                    self.pending.push_back(error_line(&error));
                }
                Err(_) => {
                    self.backlog.push_front(event);
                    if self.pending.is_empty() {
                        self.pause().await;
                    }
                    return;
                }
            }
        }
    }

    /// Waits before a conversion is tried again.
    async fn pause(&mut self) {
        let until = (Instant::now() + CONVERSION_PAUSE).min(self.deadline);
        tokio::select! {
            biased;
            () = sleep_until(until) => {
                if Instant::now() >= self.deadline {
                    self.state = Phase::Ending;
                }
            }
            () = self.stopped.as_mut() => self.state = Phase::Ending,
        }
    }

    fn set_alarm(&mut self) {
        let bookmark_at = Instant::now() + BOOKMARK_PERIOD;
        let at = if self.options.bookmarks { bookmark_at.min(self.deadline) } else { self.deadline };
        self.alarm.as_mut().reset(at);
    }

    /// Several lines that are ready at once go out as one chunk.
    fn join(&mut self, first: Bytes) -> Bytes {
        const CHUNK: usize = 64 << 10;
        if self.pending.is_empty() {
            return first;
        }
        let mut chunk = first.to_vec();
        while let Some(line) = self.pending.pop_front_if(|line| chunk.len() + line.len() <= CHUNK) {
            chunk.extend_from_slice(&line);
        }
        chunk.into()
    }

    /// The line by which this watcher learns of an event, if it does.
    async fn line_of(&mut self, event: &Event) -> Result<Option<Bytes>, ApiError> {
        let is = event.kind != EventKind::Deleted && self.scope.shows(&self.options, &event.object).await?;
        let was = match &event.previous {
            Some(previous) => self.scope.shows(&self.options, previous).await?,
            None => false,
        };
        let line = match (was, is) {
            (false, true) => self.event_line(event, "ADDED").await,
            (true, true) => self.event_line(event, "MODIFIED").await,
            (true, false) if event.kind == EventKind::Deleted => self.event_line(event, "DELETED").await,
            (true, false) => self.left_selector(event).await,
            (false, false) => return Ok(None),
        };
        line.map(Some)
    }

    /// The line of an event as it happened, made once for all who watch it in this form.
    async fn event_line(&mut self, event: &Event, kind: &'static str) -> Result<Bytes, ApiError> {
        let natural = match event.kind {
            EventKind::Added => "ADDED",
            EventKind::Modified => "MODIFIED",
            EventKind::Deleted => "DELETED",
        };
        if kind != natural || self.scope.accepted.shape != Shape::Whole {
            return self.line(kind, &event.object).await;
        }
        if self.scope.resource.serves_as_stored(&event.object) {
            if let Some(line) = event.encoded.get() {
                return Ok(line.clone());
            }
            let line = self.line(kind, &event.object).await?;
            return Ok(event.encoded.get_or_init(|| line).clone());
        }
        let Some(version) = self.scope.version_now() else { return self.line(kind, &event.object).await };
        let shared = event.converted.of(&version);
        let line = shared.get_or_try_init(|| self.line(kind, &event.object)).await?;
        Ok(line.clone())
    }

    /// An object that no longer matches is deleted for this watcher: as it was, under the event's revision.
    async fn left_selector(&mut self, event: &Event) -> Result<Bytes, ApiError> {
        let Some(previous) = &event.previous else { return Ok(Bytes::new()) };
        let mut object = self.scope.load(previous).await?;
        access::set(&mut object, &["metadata", "resourceVersion"], event.revision.to_string());
        Ok(self.value_line("DELETED", object))
    }

    async fn line(&mut self, kind: &'static str, object: &Stored) -> Result<Bytes, ApiError> {
        if let Some(line) = self.line_as_stored(kind, object) {
            return Ok(line);
        }
        let object = self.scope.load(object).await?;
        Ok(self.value_line(kind, object))
    }

    /// The lines of many objects, which are converted together.
    async fn lines(&mut self, kind: &'static str, objects: &[Arc<Stored>]) -> Result<Vec<Bytes>, ApiError> {
        if let Some(lines) = objects.iter().map(|object| self.line_as_stored(kind, object)).collect() {
            return Ok(lines);
        }
        let objects = self.scope.load_all(objects).await?;
        Ok(objects.into_iter().map(|object| self.value_line(kind, object)).collect())
    }

    /// The line of an object of which nothing but stored bytes is shown.
    fn line_as_stored(&self, kind: &str, object: &Stored) -> Option<Bytes> {
        let Scope { resource, accepted, .. } = &*self.scope;
        match accepted.shape {
            Shape::Whole => Some([head(kind).as_slice(), &resource.whole(object, b"}\n")?].concat().into()),
            Shape::Metadata | Shape::MetadataList => {
                let stored = resource.item(object)?;
                let partial = PartialObjectMetadata::read(&stored, accepted.version).ok()?;
                Some(partial_line(kind, &partial))
            }
            Shape::Table | Shape::Discovery => None,
        }
    }

    fn value_line(&mut self, kind: &str, object: Value) -> Bytes {
        let document = match self.scope.accepted.shape {
            Shape::Whole | Shape::Discovery => object,
            Shape::Metadata | Shape::MetadataList => {
                return partial_line(kind, &PartialObjectMetadata::new(&object, self.scope.accepted.version));
            }
            Shape::Table => {
                let resource_version = access::get_str(&object, &["metadata", "resourceVersion"]).to_owned();
                let metadata = ListMeta { resource_version, ..ListMeta::default() };
                let headings = std::mem::take(&mut self.headings);
                match self.scope.table(&[object], metadata, headings) {
                    Ok(table) => table,
                    Err(error) => return error_line(&error),
                }
            }
        };
        write_line(kind, &document)
    }

    fn bookmark(&mut self, revision: u64, initial_end: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let mut object = json!({"metadata": metadata});
        if let Origin::BuiltIn(_) = self.scope.resource.origin
            && self.scope.accepted.shape == Shape::Whole
        {
            let mut filled = self.scope.resource.empty().clone();
            filled["metadata"] = object["metadata"].take();
            object = filled;
        }
        self.scope.set_type(&mut object);
        self.value_line("BOOKMARK", object)
    }
}

impl Scope {
    /// Whether an object is among those a watch looks at.
    async fn shows(&self, options: &ListOptions, object: &Arc<Stored>) -> Result<bool, ApiError> {
        if self.resource.namespaced && !self.namespace.is_empty() && object.namespace() != self.namespace {
            return Ok(false);
        }
        if self.selects_converted(options) {
            let matching = self.matching(options, slice::from_ref(object)).await?;
            return Ok(!matching.is_empty());
        }
        Ok(self.selects(options, object))
    }
}

/// How the line of an event begins.
fn head(kind: &str) -> Vec<u8> {
    format!("{{\"type\":\"{kind}\",\"object\":").into_bytes()
}

fn partial_line<M: Serialize>(kind: &str, partial: &PartialObjectMetadata<M>) -> Bytes {
    let mut out = head(kind);
    answer::write_json(&mut out, partial);
    out.extend_from_slice(b"}\n");
    out.into()
}

fn write_line(kind: &str, object: &Value) -> Bytes {
    let mut out = head(kind);
    answer::write_object(&mut out, object);
    out.extend_from_slice(b"}\n");
    out.into()
}

fn error_line(error: &ApiError) -> Bytes {
    write_line("ERROR", &error.to_status())
}

fn gone(revision: u64) -> Bytes {
    error_line(&ApiError::expired(format!("too old resource version: {revision}")))
}
