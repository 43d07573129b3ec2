//! The events that an operator is told of, one at a time: late, twice, not at all, or from another time.

use std::{
    borrow::Cow,
    collections::VecDeque,
    convert::Infallible,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http::{Request, Response};
use http_body::{Body as _, Frame, SizeHint};
use kube::client::Body as RequestBody;
use kubewright_apiserver::Body;
use serde::Deserialize;
use serde_json::json;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use super::{BoxError, LATE, LATENCY, Wire, line::Line};
use crate::{
    call::Call,
    plan::Fault,
    trace::{What, digest_of},
};

/// How long the next change of the resource may take, if there is one.
const PATIENCE: Duration = Duration::from_secs(20 * 60);

/// The body of an answer that comes over the line.
pub(crate) enum WireBody {
    Whole(Body),
    Watch(Box<Deliveries>),
}

impl http_body::Body for WireBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Self::Whole(body) => Pin::new(body).poll_frame(cx),
            Self::Watch(deliveries) => {
                deliveries.poll_line(cx).map(|line| line.map(|line| Ok(Frame::data(line))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_end_stream(),
            Self::Watch(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => body.size_hint(),
            Self::Watch(_) => SizeHint::default(),
        }
    }
}

impl Line {
    pub(super) async fn watch(
        self,
        call: Call,
        request: Request<RequestBody>,
    ) -> Result<Response<WireBody>, BoxError> {
        let view = self.wire.view_of(&call);
        let server = view.as_ref().map_or_else(|| self.wire.0.server.clone(), |view| view.server.clone());
        let answer = self.pass_to(&server, &call, request, None).await?;
        if !answer.status().is_success() {
            return Ok(answer.map(WireBody::Whole));
        }
        let is_primary = call.resource == self.wire.0.primary;
        let mut state = self.wire.state();
        state.watched += 1;
        let (id, is_old) = ((self.epoch, state.watched), view.is_some());
        state.watching.insert(id, Watching { is_old, ..Watching::of(&call.resource) });
        drop(state);
        Ok(answer.map(|body| {
            WireBody::Watch(Box::new(Deliveries {
                wire: self.wire,
                epoch: self.epoch,
                id,
                resource: call.resource,
                is_primary,
                body,
                partial: BytesMut::new(),
                arrived: VecDeque::new(),
                due: VecDeque::new(),
                hold: None,
                read_to: 0,
                ends: view.map(|view| Box::pin(sleep_until(view.until))),
                has_ended: false,
                is_cut_off: false,
            }))
        }))
    }
}

/// A watch that is open, and what it has still to tell.
#[derive(Default)]
pub(crate) struct Watching {
    pub(super) resource: String,
    /// Whether it shows an older view.
    pub(super) is_old: bool,
    pub(super) untold: Vec<Bytes>,
    /// When that is told, and up to which revision the server was listened to: until then it is not any further.
    pub(super) until: Option<Instant>,
    pub(super) read_to: u64,
}

impl Watching {
    fn of(resource: &str) -> Self {
        Self { resource: resource.to_owned(), ..Self::default() }
    }
}

/// The events of one watch.
pub(crate) struct Deliveries {
    wire: Wire,
    epoch: u64,
    id: (u64, usize),
    resource: String,
    is_primary: bool,
    body: Body,
    partial: BytesMut,
    /// What the server has sent.
    arrived: VecDeque<Bytes>,
    /// What the operator is told next.
    due: VecDeque<Bytes>,
    hold: Option<Hold>,
    /// The newest revision among what the server has sent.
    read_to: u64,
    /// When the older view that this shows is over.
    ends: Option<Pin<Box<Sleep>>>,
    /// Whether the server sends nothing more; what has arrived is still delivered.
    has_ended: bool,
    /// Whether the line breaks off: nothing is delivered any more but what is due.
    is_cut_off: bool,
}

/// Why nothing is delivered now.
enum Hold {
    Time(Pin<Box<Sleep>>),
    /// And then what the fault says, with an event of this object.
    Late(Pin<Box<Sleep>>, Fault, String),
    Change(Pin<Box<dyn Future<Output = ()> + Send>>),
}

impl Hold {
    fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Time(sleep) | Self::Late(sleep, ..) => Some(sleep.deadline()),
            Self::Change(_) => None,
        }
    }
}

/// An event, as far as it is of interest here.
#[derive(Deserialize)]
struct Event<'l> {
    #[serde(rename = "type", borrow)]
    happened: Cow<'l, str>,
    #[serde(borrow)]
    object: Object<'l>,
}

#[derive(Deserialize)]
struct Object<'l> {
    #[serde(borrow, default)]
    metadata: Metadata<'l>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Metadata<'l> {
    #[serde(borrow)]
    resource_version: Cow<'l, str>,
    #[serde(borrow)]
    name: Cow<'l, str>,
    #[serde(borrow)]
    namespace: Cow<'l, str>,
    #[serde(borrow)]
    uid: Cow<'l, str>,
    generation: i64,
    #[serde(borrow)]
    deletion_timestamp: Option<Cow<'l, str>>,
}

impl Event<'_> {
    fn key(&self) -> String {
        match &*self.object.metadata.namespace {
            "" => self.object.metadata.name.to_string(),
            namespace => format!("{namespace}/{}", self.object.metadata.name),
        }
    }
}

impl Deliveries {
    fn poll_line(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let line = self.poll_next(cx);
        if let Some(watching) = self.wire.state().watching.get_mut(&self.id) {
            watching.untold.clear();
            watching.untold.extend(self.due.iter().chain(&self.arrived).cloned());
            watching.until = self.hold.as_ref().and_then(Hold::deadline);
            watching.read_to = self.read_to;
        }
        line
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if self.wire.is_cut(self.epoch) {
                return Poll::Pending;
            }
            if self.hold.is_none()
                && let Some(until) = self.wire.parted_until(self.epoch)
            {
                self.hold = Some(Hold::Time(Box::pin(sleep_until(until))));
            }
            if let Some(ends) = &mut self.ends
                && ends.as_mut().poll(cx).is_ready()
            {
                return Poll::Ready(None);
            }
            if self.hold.is_some() {
                ready!(self.poll_hold(cx));
            }
            if let Some(line) = self.due.pop_front() {
                self.tell(&line);
                return Poll::Ready(Some(line));
            }
            if self.is_cut_off {
                return Poll::Ready(None);
            }
            match self.arrived.pop_front() {
                Some(line) => self.deliver(line),
                None if self.has_ended => return Poll::Ready(None),
                None => ready!(self.poll_server(cx)),
            }
        }
    }

    fn poll_hold(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.hold {
            Some(Hold::Time(sleep)) => ready!(sleep.as_mut().poll(cx)),
            Some(Hold::Change(change)) => {
                ready!(change.as_mut().poll(cx));
                let mut state = self.wire.state();
                state.held -= 1;
                state.disturb(Duration::ZERO);
            }
            Some(Hold::Late(sleep, fault, key)) => {
                ready!(sleep.as_mut().poll(cx));
                let (fault, key) = (*fault, std::mem::take(key));
                let fault = self.wire.state().decide_between(fault);
                match fault {
                    Fault::Coalesce => self.coalesce(cx, &key),
                    Fault::DelayPastChange => {
                        self.hold_till_change();
                        return self.poll_hold(cx);
                    }
                    _ => {}
                }
            }
            None => {}
        }
        self.hold = None;
        Poll::Ready(())
    }

    /// Of all events of an object that have come only the last is told.
    fn coalesce(&mut self, cx: &mut Context<'_>, key: &str) {
        while !self.has_ended && self.poll_server(cx).is_ready() {}
        let is_of =
            |line: &Bytes| serde_json::from_slice::<Event<'_>>(line).is_ok_and(|event| event.key() == key);
        if let Some(last) = self.arrived.iter().rposition(is_of) {
            self.due.clear();
            let mut at = 0;
            self.arrived.retain(|line| {
                at += 1;
                at > last || !is_of(line)
            });
        }
    }

    fn hold_till_change(&mut self) {
        self.wire.state().held += 1;
        let wire = self.wire.clone();
        self.hold = Some(Hold::Change(Box::pin(async move {
            let _ = tokio::time::timeout(PATIENCE, wire.0.changed.notified()).await;
            sleep(Duration::from_secs(1)).await;
        })));
    }

    /// Takes what the server sends next.
    fn poll_server(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    self.partial.extend_from_slice(&data);
                }
                while let Some(end) = self.partial.iter().position(|byte| *byte == b'\n') {
                    let line = self.partial.split_to(end + 1).freeze();
                    let revision = serde_json::from_slice::<Event<'_>>(&line)
                        .ok()
                        .and_then(|event| event.object.metadata.resource_version.parse().ok());
                    self.read_to = self.read_to.max(revision.unwrap_or(0));
                    self.arrived.push_back(line);
                }
                if self.hold.is_none() {
                    self.hold = Some(Hold::Time(Box::pin(sleep(LATENCY))));
                }
            }
            Some(Err(never)) => match never {},
            None => self.has_ended = true,
        }
        Poll::Ready(())
    }

    /// An event has arrived: what becomes of it?
    fn deliver(&mut self, line: Bytes) {
        let Ok(event) = serde_json::from_slice::<Event<'_>>(&line) else {
            return self.due.push_back(line);
        };
        if !matches!(&*event.happened, "ADDED" | "MODIFIED" | "DELETED") {
            return self.due.push_back(line);
        }
        if self.is_primary && self.ends.is_none() {
            self.look(&event);
        }
        let call = format!("watch {}: {} {}", self.resource, event.happened.to_lowercase(), event.key());
        let faults: Vec<Fault> =
            Fault::OF_DELIVERIES.into_iter().filter(|fault| self.may_befall(*fault)).collect();
        let Some(fault) = self.wire.decide(self.epoch, &call, &faults) else {
            return self.due.push_back(line);
        };
        self.wire.state().note(What::Event, call, 0, 0, Some(fault));
        match fault {
            Fault::Disconnect => self.is_cut_off = true,
            Fault::Gone => {
                let gone = json!({"type": "ERROR", "object": {
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 410,
                    "reason": "Expired", "message": "too old resource version",
                }});
                self.due.push_back(Bytes::from(format!("{gone}\n")));
                self.is_cut_off = true;
            }
            Fault::Delay | Fault::Coalesce | Fault::DelayPastChange => {
                self.wire.state().disturb(LATE);
                self.hold = Some(Hold::Late(Box::pin(sleep(LATE)), fault, event.key()));
                self.due.push_back(line);
            }
            Fault::Duplicate => self.due.extend([line.clone(), line]),
            _ if self.wire.travel(fault) => {}
            _ => self.due.push_back(line),
        }
    }

    fn may_befall(&self, fault: Fault) -> bool {
        match fault {
            Fault::DelayPastChange => !self.wire.state().is_last,
            _ => fault.past().is_none_or(|(changes, _)| self.wire.before(changes).is_some()),
        }
    }

    /// Remembers the server as it is after a change of the resource.
    fn look(&self, event: &Event<'_>) {
        let metadata = &event.object.metadata;
        let sight = (
            metadata.uid.to_string(),
            metadata.generation,
            metadata.deletion_timestamp.is_some(),
            event.happened == "DELETED",
        );
        let mut state = self.wire.state();
        if state.seen.as_ref() != Some(&sight) {
            state.seen = Some(sight);
            let (now, is_disturbed) = (self.wire.0.server.fork(), !state.struck.is_empty());
            state.views.push((now, is_disturbed));
        }
    }

    fn tell(&self, line: &Bytes) {
        let Ok(event) = serde_json::from_slice::<Event<'_>>(line) else { return };
        let text = match &*event.happened {
            "BOOKMARK" => return,
            "ERROR" => format!("watch {}: expired", self.resource),
            happened => format!("watch {}: {} {}", self.resource, happened.to_lowercase(), event.key()),
        };
        self.wire.state().note(What::Event, text, 0, digest_of(&self.resource, &[line]), None);
    }
}

impl Drop for Deliveries {
    fn drop(&mut self) {
        self.wire.state().watching.remove(&self.id);
        match self.hold {
            Some(Hold::Change(_)) => self.wire.state().held -= 1,
            Some(Hold::Late(..)) => self.wire.state().leave_open(),
            _ => {}
        }
    }
}
