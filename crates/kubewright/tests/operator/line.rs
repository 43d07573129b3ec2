//! The line between an operator and its server: requests are written down, and watches can be held and cut.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::stream;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::Bytes;
use kube::{Client, client::Body};
use parking_lot::Mutex;
use tokio::{sync::watch, time::Instant};

/// How long nothing must happen until all is quiet.
const QUIET: Duration = Duration::from_secs(2);

type Failure = Box<dyn std::error::Error + Send + Sync>;
type AnyBody = UnsyncBoxBody<Bytes, Failure>;

/// How the events of watches get through.
#[derive(Clone, Copy, PartialEq)]
enum Flow {
    Open,
    Held,
    Cut,
}

/// The line over which watches come. Everything else passes.
#[derive(Clone)]
pub struct Line {
    flow: watch::Sender<Flow>,
    traffic: Arc<Mutex<Traffic>>,
}

/// What tells whether anything is going on.
struct Traffic {
    last: Instant,
    /// How many watches broke and were not taken up again.
    broken: usize,
    /// Watches that go on from here or before are too late.
    forgotten: u64,
    /// The resources whose watches are open.
    open: Vec<String>,
}

/// A watch that is open.
struct Open(Line, String);

impl Open {
    fn new(line: &Line, resource: String) -> Self {
        line.traffic.lock().open.push(resource.clone());
        Self(line.clone(), resource)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let open = &mut self.0.traffic.lock().open;
        let at = open.iter().position(|resource| *resource == self.1);
        open.swap_remove(at.unwrap());
    }
}

impl Line {
    pub fn new() -> Self {
        let traffic = Traffic { last: Instant::now(), broken: 0, forgotten: 0, open: Vec::new() };
        Self { flow: watch::Sender::new(Flow::Open), traffic: Arc::new(Mutex::new(traffic)) }
    }

    pub fn open(&self) {
        self.flow.send_replace(Flow::Open);
    }

    /// Events wait until the line is open again.
    pub fn hold(&self) {
        self.flow.send_replace(Flow::Held);
    }

    /// Running watches break, and new ones fail.
    pub fn cut(&self) {
        self.flow.send_replace(Flow::Cut);
    }

    fn is_cut(&self) -> bool {
        *self.flow.borrow() == Flow::Cut
    }

    /// Whether nothing has happened for a while, and every watch that broke was taken up again if it could be.
    pub fn is_quiet_since(&self, start: Instant) -> bool {
        let traffic = self.traffic.lock();
        traffic.last.max(start).elapsed() >= QUIET && (traffic.broken == 0 || self.is_cut())
    }

    /// Watches that go on from `revision` or before are too late from now on.
    pub fn forget(&self, revision: u64) {
        self.traffic.lock().forgotten = revision;
    }

    /// The resources whose watches are open, in order.
    pub fn open_watches(&self) -> Vec<String> {
        let mut open = self.traffic.lock().open.clone();
        open.sort();
        open
    }

    fn touch(&self) {
        self.traffic.lock().last = Instant::now();
    }

    /// A watch that is to be too late, from a revision that every server has forgotten.
    fn aged(&self, uri: &http::Uri) -> Option<http::Uri> {
        let text = uri.to_string();
        let (before, after) = text.split_once("resourceVersion=")?;
        let (revision, after) = after.split_at(after.find('&').unwrap_or(after.len()));
        let is_forgotten = revision.parse::<u64>().ok()? <= self.traffic.lock().forgotten;
        is_forgotten.then(|| format!("{before}resourceVersion=1{after}").parse().unwrap())
    }

    fn through(&self, uri: &str, body: Body) -> AnyBody {
        let broken = self.traffic.lock().broken;
        self.traffic.lock().broken = broken.saturating_sub(1);
        let open = Open::new(self, resource(uri));
        let state = (Box::pin(body), self.flow.subscribe(), self.clone(), open);
        let frames = stream::unfold(state, |(mut body, mut flow, line, open)| async move {
            let frame = loop {
                let now = *flow.borrow_and_update();
                match now {
                    Flow::Cut => {
                        line.traffic.lock().broken += 1;
                        break Some(Err(Failure::from("the line is cut")));
                    }
                    Flow::Held => flow.changed().await.unwrap(),
                    Flow::Open => tokio::select! {
                        biased;
                        _ = flow.changed() => {}
                        frame = body.frame() => break frame.map(|frame| frame.map_err(Failure::from)),
                    },
                }
            };
            line.touch();
            frame.map(|frame| (frame, (body, flow, line, open)))
        });
        StreamBody::new(frames).boxed_unsync()
    }
}

/// What a client was used for, in order: method and path with its query.
pub type Requests = Arc<Mutex<Vec<(http::Method, String)>>>;

/// What may happen to a request on its way.
pub type Meddle = Arc<dyn Fn(&Request<Body>) -> bool + Send + Sync>;

/// What a server says that knows nothing of streaming lists.
const NO_STREAMING: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":"Invalid",
    "message":"sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled","code":422}"#;

/// A client that writes requests down, and loses those that `cut` says.
#[derive(Clone)]
pub struct Recording {
    pub client: Client,
    pub requests: Requests,
    pub cut: Meddle,
    pub line: Line,
    /// Whether the server can send the first list as a stream.
    pub streams: bool,
}

impl tower_service::Service<Request<Body>> for Recording {
    type Response = Response<AnyBody>;
    type Error = Failure;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        self.line.touch();
        self.requests.lock().push((request.method().clone(), request.uri().to_string()));
        let uri = request.uri().to_string();
        let is_watch = is_watch(&uri);
        if !self.streams && uri.contains("sendInitialEvents") {
            let answer = Response::builder().status(422).header("content-type", "application/json");
            let body = Full::from(NO_STREAMING).map_err(|never| match never {});
            return Box::pin(async move { Ok(answer.body(body.boxed_unsync())?) });
        }
        if (self.cut)(&request) || (is_watch && self.line.is_cut()) {
            return Box::pin(async { Err("cut off".into()) });
        }
        if is_watch && let Some(aged) = self.line.aged(request.uri()) {
            *request.uri_mut() = aged;
        }
        let (client, line) = (self.client.clone(), self.line.clone());
        Box::pin(async move {
            let answer = client.send(request).await?;
            line.touch();
            Ok(answer.map(|body| match is_watch {
                true => line.through(&uri, body),
                false => body.map_err(Failure::from).boxed_unsync(),
            }))
        })
    }
}

/// The resource that a path without a name ends with.
pub fn resource(uri: &str) -> String {
    let path = uri.split('?').next().unwrap_or_default();
    path.rsplit('/').next().unwrap_or_default().to_owned()
}

pub fn is_watch(uri: &str) -> bool {
    uri.contains("watch=true")
}
