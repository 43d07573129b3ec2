//! What an operator tells over HTTP: whether it is alive and ready, its metrics, and a page for people who want
//! to know what it is doing. It only ever tells; nothing can be changed here.

mod access;
mod debug;
mod tls;

use std::{convert::Infallible, fmt::Write as _, io, net::SocketAddr, sync::Arc, time::Duration};

use http::{HeaderValue, Method, Response, StatusCode, header, request::Parts};
use http_body_util::Full;
use hyper::{
    Request,
    body::{Bytes, Incoming},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite, DuplexStream, duplex},
    net::TcpListener,
    sync::{mpsc, watch},
    task::{AbortHandle, JoinSet},
    time::{sleep, timeout},
};

pub use self::tls::Certificate;
pub(crate) use self::{access::Access, tls::Tls};
use crate::{
    cache::{Cache, WatchState},
    controller::History,
    error::{Error, Result},
    manager::Phase,
    metrics::Metrics,
    queue::Queue,
};

/// As prometheus-client says of the text that it writes.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
pub(crate) const PLAIN: &str = "text/plain; charset=utf-8";

/// How long a client may take to agree on keys and to send the head of its request, and the API server to say
/// whether the client may read.
const PATIENCE: Duration = Duration::from_secs(10);

/// How much may be on the way through a door.
const PIPE: usize = 64 << 10;

/// The parts of a running operator that can be looked at.
pub(crate) struct Inspected {
    pub(crate) operator: Arc<str>,
    pub(crate) phase: watch::Receiver<Phase>,
    pub(crate) metrics: Metrics,
    pub(crate) cache: Cache,
    /// How webhooks are served; nothing if there are none.
    pub(crate) webhooks: Option<Arc<Tls>>,
    /// In the order in which they were added.
    pub(crate) controllers: Mutex<Vec<InspectedController>>,
}

/// The parts of a controller that can be looked at.
pub(crate) struct InspectedController {
    pub(crate) name: String,
    pub(crate) queue: Queue,
    pub(crate) history: Arc<History>,
}

/// What answers the requests of a server.
pub(crate) trait Answers: Send + Sync + 'static {
    /// How connections are encrypted; nothing for not at all.
    fn tls(&self) -> Option<&Tls>;

    fn answer(&self, request: Request<Incoming>) -> impl Future<Output = Answer> + Send;
}

/// What a desk answers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// `/healthz` and `/readyz`.
    Health,
    /// `/metrics` and `/debug`.
    Metrics,
}

/// What keeps others from reading along, and from reading at all.
pub(crate) struct Guard {
    pub(crate) tls: Tls,
    pub(crate) access: Access,
}

/// Where those who only look are answered.
pub(crate) struct Desk {
    pub(crate) purpose: Purpose,
    /// Nothing if everybody may read.
    pub(crate) guard: Option<Guard>,
    pub(crate) inspected: Arc<Inspected>,
}

/// An open server. It closes when this is dropped.
pub(crate) struct Server {
    /// Nothing if it is behind a door.
    pub(crate) address: Option<SocketAddr>,
    task: AbortHandle,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reads an address as kubebuilder's flags have it: `:8080` is on every interface, and `0` means none.
pub(crate) fn parse_address(text: &str) -> Result<Option<SocketAddr>, String> {
    if text == "0" {
        return Ok(None);
    }
    let whole = if text.starts_with(':') { format!("[::]{text}") } else { text.to_owned() };
    let whole = whole.replacen("localhost:", "127.0.0.1:", 1);
    whole.parse().map(Some).map_err(|_| {
        format!("{text:?} is no address: write it as \":8080\" or \"127.0.0.1:8080\", or \"0\" for none")
    })
}

/// A way into a server of this process, without a socket.
#[derive(Debug, Clone)]
pub struct Door(mpsc::UnboundedSender<DuplexStream>);

impl Door {
    /// A door, and where those come out who use it.
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<DuplexStream>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender), receiver)
    }

    /// A new connection to it, as if over the network; nothing if it has closed.
    pub fn open(&self) -> Option<DuplexStream> {
        let (ours, theirs) = duplex(PIPE);
        self.0.send(theirs).ok().map(|()| ours)
    }
}

/// Opens a server on an address. What it is for is told if it can't be opened.
pub(crate) async fn serve(address: SocketAddr, what: &str, desk: Arc<impl Answers>) -> Result<Server> {
    let listener = bind(address).await.map_err(|why| {
        let hint = match why.kind() {
            io::ErrorKind::AddrInUse => {
                "the port is in use: choose another one, or 0 to go without".to_owned()
            }
            io::ErrorKind::PermissionDenied => "not allowed: choose a port above 1023".to_owned(),
            _ => why.to_string(),
        };
        Error::terminal(format!("the {what} server can't listen on {address}: {hint}"))
    })?;
    let address = listener.local_addr()?;
    let task = tokio::spawn(accept(listener, desk)).abort_handle();
    Ok(Server { address: Some(address), task })
}

/// Opens a server behind a door.
pub(crate) fn serve_door(mut door: mpsc::UnboundedReceiver<DuplexStream>, desk: Arc<impl Answers>) -> Server {
    let accept = async move {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                Some(_ended) = connections.join_next() => {}
                Some(stream) = door.recv() => {
                    connections.spawn(welcome(stream, desk.clone()));
                }
                else => return,
            }
        }
    };
    Server { address: None, task: tokio::spawn(accept).abort_handle() }
}

/// Every interface is that of both protocols, or of IPv4 on a host without IPv6.
async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Err(why)
            if address.ip() == std::net::Ipv6Addr::UNSPECIFIED && why.kind() != io::ErrorKind::AddrInUse =>
        {
            TcpListener::bind((std::net::Ipv4Addr::UNSPECIFIED, address.port())).await
        }
        bound => bound,
    }
}

async fn accept(listener: TcpListener, desk: Arc<impl Answers>) {
    let mut connections = JoinSet::new();
    loop {
        let stream = tokio::select! {
            biased;
            Some(_ended) = connections.join_next() => continue,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "a connection was not accepted");
                    sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
        };
        // Answers are small: none waits for another one to go along.
        let _ = stream.set_nodelay(true);
        connections.spawn(welcome(stream, desk.clone()));
    }
}

async fn welcome<S>(stream: S, desk: Arc<impl Answers>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Some(tls) = desk.tls() else { return converse(stream, desk).await };
    let Some(acceptor) = tls.acceptor() else {
        return tracing::debug!("a client came before there was a certificate");
    };
    match timeout(PATIENCE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => converse(stream, desk).await,
        Ok(Err(error)) => tracing::debug!(%error, "a client did not agree on keys"),
        Err(_) => tracing::debug!("a client took too long to agree on keys"),
    }
}

async fn converse<S>(stream: S, desk: Arc<impl Answers>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let desk = desk.clone();
        async move { Ok::<_, Infallible>(desk.answer(request).await) }
    });
    let mut connection = auto::Builder::new(TokioExecutor::new());
    connection.http1().timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    connection.http2().timer(TokioTimer::new());
    // How a connection ends is the client's business.
    let _ = connection.serve_connection(TokioIo::new(stream), service).await;
}

pub(crate) type Answer = Response<Full<Bytes>>;

impl Answers for Desk {
    fn tls(&self) -> Option<&Tls> {
        self.guard.as_ref().map(|guard| &guard.tls)
    }

    async fn answer(&self, request: Request<Incoming>) -> Answer {
        self.tell(&request.into_parts().0).await
    }
}

impl Desk {
    async fn tell(&self, request: &Parts) -> Answer {
        if request.method != Method::GET && request.method != Method::HEAD {
            return text(StatusCode::METHOD_NOT_ALLOWED, PLAIN, "only GET is answered here\n");
        }
        if let Some(guard) = &self.guard
            && let Some(refusal) = guard.access.refusal(request).await
        {
            return refusal;
        }
        let (purpose, inspected) = (self.purpose, &*self.inspected);
        let is_verbose =
            request.uri.query().is_some_and(|query| query.split('&').any(|word| word.starts_with("verbose")));
        match (purpose, request.uri.path()) {
            (Purpose::Health, "/healthz" | "/livez") => report("healthz", &[], is_verbose),
            (Purpose::Health, "/readyz") => report("readyz", &inspected.obstacles(), is_verbose),
            (Purpose::Metrics, "/metrics") => text(StatusCode::OK, OPEN_METRICS, inspected.metrics.text()),
            (Purpose::Metrics, "/debug") => debug::answer(request, inspected),
            (Purpose::Health, _) => text(StatusCode::NOT_FOUND, PLAIN, "here are /healthz and /readyz\n"),
            (Purpose::Metrics, _) => text(StatusCode::NOT_FOUND, PLAIN, "here are /metrics and /debug\n"),
        }
    }
}

pub(crate) fn text(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

/// One thing that must hold, and what is in its way.
struct Check {
    name: String,
    obstacle: Option<String>,
}

/// In the form in which the servers of Kubernetes tell it.
fn report(name: &str, checks: &[Check], is_verbose: bool) -> Answer {
    let passes = checks.iter().all(|check| check.obstacle.is_none());
    if passes && !is_verbose {
        return text(StatusCode::OK, PLAIN, "ok");
    }
    let mut body = "[+]ping ok\n".to_owned();
    for Check { name, obstacle } in checks {
        // Writing into a string does not fail.
        let _ = match obstacle {
            None => writeln!(body, "[+]{name} ok"),
            Some(why) => writeln!(body, "[-]{name} failed: {why}"),
        };
    }
    let (status, outcome) = match passes {
        true => (StatusCode::OK, "passed"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "failed"),
    };
    let _ = writeln!(body, "{name} check {outcome}");
    text(status, PLAIN, body)
}

impl Inspected {
    /// What must hold for the operator to be ready: it is not on its way in or out, and every watch has seen
    /// everything once; and webhooks have a certificate.
    fn obstacles(&self) -> Vec<Check> {
        let phase = match *self.phase.borrow() {
            Phase::Syncing => Some("not everything was seen yet".to_owned()),
            Phase::Waiting | Phase::Working => None,
            Phase::Stopping => Some("it is stopping".to_owned()),
        };
        let watch = |watch: WatchState| Check {
            name: format!("watch-{}", watch.name),
            obstacle: (!watch.health.is_synced)
                .then(|| watch.health.trouble.unwrap_or_else(|| "no answer yet".to_owned())),
        };
        let first = Check { name: "operator".to_owned(), obstacle: phase };
        let webhooks = self.webhooks.as_ref().map(|tls| Check {
            name: "webhooks".to_owned(),
            obstacle: (!tls.is_loaded()).then(|| "there is no certificate yet".to_owned()),
        });
        std::iter::once(first).chain(webhooks).chain(self.cache.watches().into_iter().map(watch)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_kubebuilder_writes_them() {
        assert_eq!(parse_address(":8080"), Ok(Some("[::]:8080".parse().unwrap())));
        assert_eq!(parse_address("127.0.0.1:0"), Ok(Some("127.0.0.1:0".parse().unwrap())));
        assert_eq!(parse_address("localhost:81"), Ok(Some("127.0.0.1:81".parse().unwrap())));
        assert_eq!(parse_address("0"), Ok(None));
        assert!(parse_address("8080").unwrap_err().contains("\":8080\""));
    }
}
