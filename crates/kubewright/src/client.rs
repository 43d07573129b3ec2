//! The client of a manager: any `kube::Client` behind a fence that only a leader's writes pass.
//!
//! Every request goes through here and is told to an observer when it is answered; a write is refused when the
//! fence has fallen, and cut when it falls meanwhile. The lease itself is renewed past the fence. What the server
//! wants later, it gets later.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::future::BoxFuture;
use http::{Method, Request, Response, StatusCode, header::RETRY_AFTER};
use kube::{Client, client::Body};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};

/// How often a request is sent again that the server wants later, as client-go has it.
const RETRIES: usize = 10;
/// However long the server asks for.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Told of every request that was sent: its method, and the status of the answer, or nothing if there was none.
pub type Observer = Arc<dyn Fn(&Method, Option<StatusCode>) + Send + Sync>;

/// A write was refused or cut because this replica does not lead, or not any more.
///
/// [`Error::downcast_ref`](crate::Error::downcast_ref) finds it in what a write failed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the leader any more: write refused")]
pub struct NotLeader;

/// Whether this replica may write. Cheap to clone; clones rise and fall together.
///
/// A fence that has fallen never rises again: what was begun under one leadership is not finished under another.
#[derive(Clone)]
pub struct Fence(watch::Sender<State>);

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Open,
    Waiting,
    HeldUntil(Instant),
    Fallen,
}

impl Fence {
    /// The fence of a manager without leader election: every write passes.
    pub fn open() -> Self {
        Self(watch::Sender::new(State::Open))
    }

    /// A fence no write passes before it is first held.
    pub(crate) fn waiting() -> Self {
        Self(watch::Sender::new(State::Waiting))
    }

    /// Whether a write would pass now.
    pub fn is_open(&self) -> bool {
        self.0.borrow().is_open()
    }

    /// Waits until no write passes any more; at once if none passes now.
    pub async fn fallen(&self) {
        let mut state = self.0.subscribe();
        loop {
            let now = *state.borrow_and_update();
            if !now.is_open() {
                return;
            }
            let deadline = async {
                match now {
                    State::HeldUntil(deadline) => sleep_until(deadline).await,
                    _ => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                _ = state.changed() => {}
                () = deadline => {}
            }
        }
    }

    /// Lets writes pass until `deadline`. False if that has passed already or the fence has fallen before.
    pub(crate) fn hold_until(&self, deadline: Instant) -> bool {
        self.0.send_if_modified(|state| {
            let may_rise = matches!(state, State::Waiting) || state.is_open();
            let holds = may_rise && Instant::now() < deadline;
            if holds {
                *state = State::HeldUntil(deadline);
            }
            holds
        })
    }

    /// Lets no write pass from now on.
    pub(crate) fn fall(&self) {
        self.0.send_replace(State::Fallen);
    }
}

impl State {
    fn is_open(self) -> bool {
        match self {
            Self::Open => true,
            Self::HeldUntil(deadline) => Instant::now() < deadline,
            Self::Waiting | Self::Fallen => false,
        }
    }
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Fence").field(&*self.0.borrow()).finish()
    }
}

/// `client`, with its writes behind `fence` and every answered request told to `observer`.
///
/// Must be called within a tokio runtime, as a `kube::Client` is made there.
pub fn fenced(client: Client, fence: Fence, observer: Observer) -> Client {
    let namespace = client.default_namespace().to_owned();
    let valid_until = *client.valid_until();
    Client::new(Fenced { client, fence, observer }, namespace).with_valid_until(valid_until)
}

#[derive(Clone)]
struct Fenced {
    client: Client,
    fence: Fence,
    observer: Observer,
}

impl Fenced {
    async fn send(self, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let method = request.method().clone();
        let is_write = is_write(&request);
        if is_write && !self.fence.is_open() {
            return Err(NotLeader.into());
        }
        let fallen = async {
            match is_write {
                true => self.fence.fallen().await,
                false => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = fallen => {
                (self.observer)(&method, None);
                Err(NotLeader.into())
            }
            answer = self.patiently(request) => answer,
        }
    }

    /// The answer to a request. If the server asks to come back later, that is done, but not for ever.
    async fn patiently(&self, mut request: Request<Body>) -> Result<Response<Body>, BoxError> {
        for _ in 0..RETRIES {
            let (now, later) = twice(request);
            let answer = self.observed(now).await?;
            let (Some(pause), Some(later)) = (retry_after(&answer), later) else { return Ok(answer) };
            tracing::debug!(status = %answer.status(), ?pause, "the server asks to come back later");
            sleep(pause).await;
            request = later;
        }
        self.observed(request).await
    }

    async fn observed(&self, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let method = request.method().clone();
        let answer = self.client.send(request).await.map_err(BoxError::from);
        (self.observer)(&method, answer.as_ref().ok().map(Response::status));
        answer
    }
}

/// A request, and a copy of it if its body can be sent again.
fn twice(request: Request<Body>) -> (Request<Body>, Option<Request<Body>>) {
    let (parts, body) = request.into_parts();
    let copy = body.try_clone().map(|body| Request::from_parts(parts.clone(), body));
    (Request::from_parts(parts, body), copy)
}

/// How long the server asks to be left alone: when it is asked too much, or fails and knows for how long.
fn retry_after(answer: &Response<Body>) -> Option<Duration> {
    let status = answer.status();
    if status != StatusCode::TOO_MANY_REQUESTS && !status.is_server_error() {
        return None;
    }
    let seconds = answer.headers().get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds).min(LONGEST_PAUSE))
}

impl tower_service::Service<Request<Body>> for Fenced {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().send(request))
    }
}

/// Reviews are questions, though they are posted; the two groups hold nothing else.
fn is_write<B>(request: &Request<B>) -> bool {
    let is_review = || {
        let path = request.uri().path();
        ["/apis/authentication.k8s.io/", "/apis/authorization.k8s.io/"]
            .iter()
            .any(|group| path.starts_with(group))
    };
    match *request.method() {
        Method::GET | Method::HEAD | Method::OPTIONS => false,
        Method::POST => !is_review(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        time::Duration,
    };

    use super::*;

    #[test]
    fn reads_and_reviews_are_no_writes() {
        let is_write = |method: &str, path: &str| {
            is_write(&Request::builder().method(method).uri(path).body(()).unwrap())
        };
        for path in [
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews",
            "/apis/authentication.k8s.io/v1/tokenreviews",
        ] {
            assert!(!is_write("POST", path), "{path}");
        }
        assert!(is_write("POST", "/api/v1/namespaces/default/serviceaccounts/robot/token"));
        for method in ["POST", "PUT", "PATCH", "DELETE", "UNHEARD-OF"] {
            assert!(is_write(method, "/api/v1/namespaces"), "{method}");
        }
        for method in ["GET", "HEAD", "OPTIONS"] {
            assert!(!is_write(method, "/api/v1/namespaces"), "{method}");
        }
    }

    /// A server that answers so many times that it wants to be asked later.
    #[derive(Clone)]
    struct Busy {
        left: Arc<AtomicUsize>,
        status: StatusCode,
        pause: Option<&'static str>,
    }

    impl tower_service::Service<Request<Body>> for Busy {
        type Response = Response<Body>;
        type Error = BoxError;
        type Future = std::future::Ready<Result<Response<Body>, BoxError>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Request<Body>) -> Self::Future {
            let mut answer = Response::new(Body::from(Vec::new()));
            if self.left.load(Ordering::Relaxed) > 0 {
                self.left.fetch_sub(1, Ordering::Relaxed);
                *answer.status_mut() = self.status;
                answer.headers_mut().extend(self.pause.map(|pause| (RETRY_AFTER, pause.parse().unwrap())));
            }
            std::future::ready(Ok(answer))
        }
    }

    /// What a client is told at last by a server that is busy for some time, and after how long.
    async fn told(times: usize, status: StatusCode, pause: Option<&'static str>) -> (u16, u64) {
        let busy = Busy { left: Arc::new(AtomicUsize::new(times)), status, pause };
        let client = fenced(Client::new(busy, "default"), Fence::open(), Arc::new(|_, _| {}));
        let start = Instant::now();
        let answer = client.send(Request::get("/version").body(Body::empty()).unwrap()).await.unwrap();
        (answer.status().as_u16(), start.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_server_wants_later_it_gets_later() {
        let busy = StatusCode::TOO_MANY_REQUESTS;
        assert_eq!(told(2, busy, Some("7")).await, (200, 14));
        assert_eq!(told(1, StatusCode::SERVICE_UNAVAILABLE, Some("3")).await, (200, 3));
        assert_eq!(told(1, busy, Some("86400")).await, (200, 60), "however long it asks for");
        assert_eq!(told(99, busy, Some("1")).await, (429, 10), "not for ever");
        assert_eq!(told(1, busy, None).await, (429, 0), "when, is not said");
        assert_eq!(told(1, StatusCode::CONFLICT, Some("1")).await, (409, 0), "later is no better");
    }

    #[tokio::test(start_paused = true)]
    async fn a_fence_is_held_as_long_as_it_was_last_said() {
        let fence = Fence::waiting();
        assert!(!fence.is_open());
        let start = Instant::now();
        assert!(fence.hold_until(start + Duration::from_secs(10)));
        let waiting = tokio::spawn({
            let fence = fence.clone();
            async move { fence.fallen().await }
        });
        tokio::time::sleep(Duration::from_secs(9)).await;
        assert!(fence.hold_until(start + Duration::from_secs(19)));
        waiting.await.unwrap();
        assert_eq!(start.elapsed().as_secs(), 19);
        assert!(!fence.is_open());
    }

    #[tokio::test(start_paused = true)]
    async fn a_fence_that_is_made_to_fall_is_seen_to_fall_at_once() {
        let fence = Fence::waiting();
        let start = Instant::now();
        assert!(fence.hold_until(start + Duration::from_secs(10)));
        let fall = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            fence.fall();
        };
        tokio::join!(fence.fallen(), fall);
        assert_eq!(start.elapsed().as_secs(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_fallen_fence_never_rises_again() {
        let fence = Fence::waiting();
        let soon = || Instant::now() + Duration::from_secs(1);
        assert!(fence.hold_until(soon()));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!fence.hold_until(soon()) && !fence.is_open(), "its time had passed");
        let fence = Fence::waiting();
        fence.fall();
        assert!(!fence.hold_until(soon()) && !fence.is_open(), "it was made to fall");
    }
}
