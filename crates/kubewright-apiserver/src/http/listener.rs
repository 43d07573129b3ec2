//! Connections: TLS, HTTP/1.1 and HTTP/2, one task each, and a clean end.

use std::{io, sync::Arc, time::Duration};

use ::http::{Request, Response};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Limited};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulShutdown},
};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::{BODY_MAX, answer::Body};
use crate::{
    auth::certificates::Peer,
    error::ApiError,
    server::{Cut, Server},
};

/// How long open requests may go on once the server stops.
const GRACE: Duration = Duration::from_secs(5);
/// How long a client may take for its part of the handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Serves connections until the server stops, then lets open requests finish.
pub(crate) async fn serve(server: Arc<Server>, listener: TcpListener, tls: ServerConfig) {
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    let graceful = GracefulShutdown::new();
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(Duration::from_secs(30));
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(1000);
    let builder = Arc::new(builder);
    loop {
        let (stream, _) = tokio::select! {
            biased;
            () = server.stopped() => break,
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                // Out of file descriptors, or the client has already gone: neither ends the server.
                Err(_) => { tokio::time::sleep(Duration::from_millis(10)).await; continue }
            },
        };
        let (server, acceptor, builder, watcher) =
            (server.clone(), acceptor.clone(), builder.clone(), graceful.watcher());
        tokio::spawn(async move {
            let Ok((stream, peer)) = handshake(&server, &acceptor, stream).await else { return };
            let service = service_fn(move |request| {
                let (server, peer) = (server.clone(), peer.clone());
                async move { call(&server, &peer, request).await }
            });
            let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
            // A connection that breaks is the client's affair.
            let _ = watcher.watch(connection.into_owned()).await;
        });
    }
    drop(listener);
    let _ = tokio::time::timeout(GRACE, graceful.shutdown()).await;
}

async fn handshake(
    server: &Server,
    acceptor: &TlsAcceptor,
    stream: TcpStream,
) -> io::Result<(tokio_rustls::server::TlsStream<TcpStream>, Peer)> {
    stream.set_nodelay(true)?;
    let stream = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await??;
    let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let peer = server.credentials.authority.identify(certificates, server.clock.now());
    Ok((stream, peer))
}

/// One request of a connection. A cut ends the connection without an answer.
async fn call(server: &Arc<Server>, peer: &Peer, request: Request<Incoming>) -> Result<Response<Body>, Cut> {
    let authorization = request.headers().get("authorization").and_then(|value| value.to_str().ok());
    let user = server.authenticator().authenticate(
        peer,
        authorization,
        server.clock.now(),
        &|kind, namespace, name| server.bound_object(kind, namespace, name),
    );
    let user = match user {
        Ok(user) => user,
        Err(error) => return Ok(error.into()),
    };
    let (parts, body) = request.into_parts();
    let body = match read(body).await {
        Ok(body) => body,
        Err(error) => return Ok(error.into()),
    };
    server.call(Request::from_parts(parts, body), user).await
}

/// Reads a body up to the limit.
pub(crate) async fn read<B>(body: B) -> Result<Bytes, ApiError>
where
    B: hyper::body::Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let collected = Limited::new(body, BODY_MAX).collect().await.map_err(|error| {
        if error.is::<http_body_util::LengthLimitError>() {
            ApiError::new(
                413,
                "RequestEntityTooLarge",
                format!("Request entity too large: limit is {BODY_MAX}"),
            )
        } else {
            ApiError::bad_request(format!("the body of the request could not be read: {error}"))
        }
    })?;
    Ok(collected.to_bytes())
}
