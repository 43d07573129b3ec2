//! The watch that feeds a store: first everything, then every change, for as long as it is wanted. A broken
//! connection is resumed where it broke; only if the server has forgotten that place, everything is read again.

use std::{sync::Arc, time::Duration};

use futures_util::AsyncBufReadExt as _;
use http::{HeaderValue, header::ACCEPT_ENCODING};
use kube::{
    Client,
    core::{
        Request, Status,
        params::{ListParams, WatchParams},
    },
};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::{
    scan::Scan,
    store::Store,
    told::{Outline, Told},
};
use crate::{
    entropy::Entropy,
    kind::{Key, KindName, Object},
};

/// How long the server lets a watch run.
const WATCH_SECONDS: u32 = 290;
/// How much longer than that until a connection counts as dead.
const PATIENCE: Duration = Duration::from_secs(10);
/// A watch that ended sooner than this was not worth much: the next one waits.
const BRIEF: Duration = Duration::from_secs(1);
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How many objects a page of a list has.
const PAGE: u32 = 500;
/// How long a page may take until the connection counts as dead.
const PAGE_PATIENCE: Duration = Duration::from_secs(60);

#[derive(Deserialize)]
struct Page<'t> {
    metadata: PageMeta,
    #[serde(borrow, default)]
    items: Vec<&'t RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMeta {
    #[serde(default)]
    resource_version: String,
    #[serde(default, rename = "continue")]
    continue_token: Option<String>,
}

/// A line of a watch.
struct Event<'t> {
    happened: Happened,
    object: Outline<'t>,
}

enum Happened {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
}

impl<'t> Event<'t> {
    fn of(line: &'t str) -> Option<Self> {
        let (mut happened, mut object) = (None, None);
        Scan::new(line).object(|name, scan| {
            match name {
                "type" => happened = Some(Happened::of(scan.value()?)?),
                "object" => object = Some(Outline::scan(scan)?),
                _ => drop(scan.value()?),
            }
            Some(())
        })?;
        Some(Self { happened: happened?, object: object? })
    }
}

impl Happened {
    fn of(text: &str) -> Option<Self> {
        Some(match text {
            r#""ADDED""# => Self::Added,
            r#""MODIFIED""# => Self::Modified,
            r#""DELETED""# => Self::Deleted,
            r#""BOOKMARK""# => Self::Bookmark,
            r#""ERROR""# => Self::Error,
            _ => return None,
        })
    }
}

/// Why a watch does not go on.
enum Break {
    /// Another way is tried at once.
    Otherwise,
    /// The connection ended as it does from time to time.
    Ended,
    /// The server has forgotten where the watch was.
    Expired,
    /// Something is wrong.
    Failed(kube::Error),
}

impl From<kube::Error> for Break {
    fn from(error: kube::Error) -> Self {
        match &error {
            kube::Error::Api(status) if is_expired(status) => Self::Expired,
            _ => Self::Failed(error),
        }
    }
}

/// Keeps a store up to date until it is dropped.
pub(super) async fn feed<K: Object>(store: Arc<Store<K>>, client: Client, entropy: Entropy) {
    let name = store.selection().kind.clone();
    let mut feed = Feed { store, client, name, place: None, streams: true };
    let mut pause = FIRST_PAUSE;
    loop {
        let started = Instant::now();
        let reached = feed.place.clone();
        let broke = feed.follow().await;
        if feed.place.is_some() && feed.place != reached {
            pause = FIRST_PAUSE; // it got somewhere
        }
        match broke {
            Break::Expired if feed.place.is_some() => {
                tracing::debug!(kind = %feed.name, "the watch has expired: reading everything again");
                feed.place = None;
                continue;
            }
            Break::Otherwise => continue,
            Break::Ended if started.elapsed() >= BRIEF => continue,
            Break::Ended | Break::Expired => {}
            Break::Failed(error) => feed.report(&error),
        }
        sleep(entropy.jitter(pause, 0.5)).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

struct Feed<K> {
    store: Arc<Store<K>>,
    client: Client,
    name: KindName,
    /// The revision up to which everything was seen; nothing before the first synchronisation.
    place: Option<String>,
    /// Whether the server can send the initial list as a stream.
    streams: bool,
}

impl<K: Object> Feed<K> {
    /// One connection, from its start to its end.
    async fn follow(&mut self) -> Break {
        if self.place.is_none()
            && !self.streams
            && let Err(broke) = self.list().await
        {
            return broke;
        }
        match self.watch().await {
            Ok(never) => match never {},
            // A server without streaming lists refuses to be asked for one.
            Err(Break::Failed(kube::Error::Api(status)))
                if self.place.is_none() && self.streams && matches!(status.code, 400 | 422) =>
            {
                self.streams = false;
                Break::Otherwise
            }
            Err(broke) => broke,
        }
    }

    fn request(&self) -> Request {
        Request::new(self.name.path(self.store.selection().namespace.as_deref()))
    }

    async fn list(&mut self) -> Result<(), Break> {
        self.store.begin();
        let mut parameters = ListParams::default().limit(PAGE);
        parameters.label_selector.clone_from(&self.store.selection().labels);
        parameters.field_selector.clone_from(&self.store.selection().fields);
        loop {
            let request = match K::metadata_api() {
                true => self.request().list_metadata(&parameters),
                false => self.request().list(&parameters),
            };
            let request = request.map_err(kube::Error::BuildRequest)?;
            let text = timeout(PAGE_PATIENCE, self.client.request_text(request))
                .await
                .map_err(|_| Break::Ended)??;
            let page: Page<'_> = serde_json::from_str(&text).map_err(kube::Error::SerdeError)?;
            for item in page.items {
                if let Some(outline) = self.outline(item) {
                    self.observe(&outline);
                }
            }
            match page.metadata.continue_token.filter(|token| !token.is_empty()) {
                Some(token) => parameters.continue_token = Some(token),
                None => {
                    self.arrive(page.metadata.resource_version);
                    return Ok(());
                }
            }
        }
    }

    /// Everything was seen, up to a revision.
    fn arrive(&mut self, revision: String) {
        self.store.finish(revision.parse().unwrap_or(u64::MAX));
        self.place = Some(revision);
    }

    async fn watch(&mut self) -> Result<std::convert::Infallible, Break> {
        let mut parameters = WatchParams::default().timeout(WATCH_SECONDS);
        parameters.label_selector.clone_from(&self.store.selection().labels);
        parameters.field_selector.clone_from(&self.store.selection().fields);
        if self.place.is_none() {
            parameters = parameters.initial_events();
            self.store.begin();
        }
        let place = self.place.as_deref().unwrap_or_default();
        let request = match K::metadata_api() {
            true => self.request().watch_metadata(&parameters, place),
            false => self.request().watch(&parameters, place),
        };
        let mut request = request.map_err(kube::Error::BuildRequest)?;
        // A compressed watch is one member an event, of which the client would read but the first.
        request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let dead = Instant::now() + Duration::from_secs(WATCH_SECONDS.into()) + PATIENCE;
        let asked = timeout_at(dead, self.client.request_stream(request)).await;
        let mut lines = std::pin::pin!(asked.map_err(|_| Break::Ended)??);
        if self.place.is_some() {
            self.store.trouble(None);
        }
        let mut line = Vec::new();
        loop {
            line.clear();
            match timeout_at(dead, lines.read_until(b'\n', &mut line)).await {
                Ok(Ok(1..)) if line.ends_with(b"\n") => self.take(&line)?,
                Ok(Ok(_)) | Err(_) => return Err(Break::Ended),
                Ok(Err(why)) => {
                    tracing::debug!(kind = %self.name, "the watch broke: {why}");
                    return Err(Break::Ended);
                }
            }
        }
    }

    fn take(&mut self, line: &[u8]) -> Result<(), Break> {
        let event = str::from_utf8(line).ok().and_then(Event::of);
        let Event { happened, object: outline } = event.ok_or_else(|| not_an_event(line))?;
        match happened {
            Happened::Error => {
                let status = serde_json::from_str(outline.whole()).map_err(kube::Error::SerdeError)?;
                return Err(kube::Error::Api(Status::boxed(status)).into());
            }
            Happened::Added | Happened::Modified => self.observe(&outline),
            Happened::Deleted => {
                if let Some(told) = self.read(&outline, &outline.text()) {
                    self.store.vanish(&told.object);
                }
            }
            Happened::Bookmark if self.place.is_none() && outline.ends_initial_events() => {
                self.arrive(outline.place().to_owned());
            }
            Happened::Bookmark => {}
        }
        // Before the end of the initial events, revisions are those of the objects, in no order.
        if let Some(place) = &mut self.place
            && !outline.place().is_empty()
        {
            outline.place().clone_into(place);
        }
        Ok(())
    }

    fn observe(&self, outline: &Outline<'_>) {
        if self.store.recognises(outline) {
            return;
        }
        let text = outline.text();
        if let Some(told) = self.read(outline, &text) {
            self.store.observe(told, text);
        }
    }

    fn outline<'t>(&self, text: &'t RawValue) -> Option<Outline<'t>> {
        Outline::of(text.get()).inspect_err(|why| self.leave_out(None, why)).ok()
    }

    fn read(&self, outline: &Outline<'_>, text: &str) -> Option<Told<K>> {
        outline.read(text).inspect_err(|why| self.leave_out(Some(outline.key()), why)).ok()
    }

    /// An object that can't be read as its kind is left out and told of; the others are not its victims.
    fn leave_out(&self, object: Option<Key>, why: &serde_json::Error) {
        let object = object.map(tracing::field::display);
        tracing::error!(kind = %self.name, object, "left out: the object can't be read as its Rust type: {why}");
    }

    fn report(&mut self, error: &kube::Error) {
        let text = match error {
            kube::Error::Api(status) if status.code == 403 => format!(
                "{}: give the operator's account this right (its `manifests` command writes all it needs)",
                status.message
            ),
            kube::Error::Api(status) if status.code == 404 => {
                format!("the server has no {}: is its definition installed?", self.name)
            }
            kube::Error::Api(status) => status.message.clone(),
            other => other.to_string(),
        };
        tracing::error!(kind = %self.name, "can't watch: {text}");
        self.store.trouble(Some(text));
    }
}

/// What a line is that is no event: an answer that tells of an error, if it can be read.
fn not_an_event(line: &[u8]) -> kube::Error {
    match serde_json::from_slice::<Status>(line) {
        Ok(status) => kube::Error::Api(status.boxed()),
        Err(why) => kube::Error::SerdeError(why),
    }
}

fn is_expired(status: &Status) -> bool {
    status.code == 410 || status.reason == "Expired" || status.reason == "Gone"
}
