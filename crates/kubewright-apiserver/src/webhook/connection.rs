//! Connections to webhooks: where they lead, TLS on them, and what they die of, as Go says it.

use std::{
    fmt, io,
    net::IpAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use ::http::Uri;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use hyper_util::{
    client::legacy::connect::{Connected, Connection},
    rt::TokioIo,
};
use jiff::Timestamp;
use rustls::{
    CertificateError, ClientConfig, RootCertStore,
    client::Resumption,
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _},
    time_provider::TimeProvider,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{
    Address,
    service::{self, Route, ServiceResolver},
};
use crate::{Clock, clock, server::BoxFuture, store::Store};

/// What a connection died of.
pub(super) fn explain(error: &hyper_util::client::legacy::Error) -> String {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    let mut last = error.to_string();
    while let Some(error) = source {
        if let Some(failure) = error.downcast_ref::<ConnectError>() {
            return failure.0.clone();
        }
        last = error.to_string();
        source = error.source();
    }
    if last.contains("connection closed") { "EOF".to_owned() } else { last }
}

/// Why no connection came about.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct ConnectError(String);

impl ConnectError {
    fn dial(address: impl fmt::Display, error: &io::Error) -> Self {
        let why = match error.kind() {
            io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
            io::ErrorKind::HostUnreachable => "no route to host".to_owned(),
            io::ErrorKind::NetworkUnreachable => "network is unreachable".to_owned(),
            io::ErrorKind::TimedOut => "connection timed out".to_owned(),
            _ => error.to_string(),
        };
        Self(format!("dial tcp {address}: connect: {why}"))
    }

    fn handshake(error: &io::Error) -> Self {
        let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        let why = match tls {
            Some(rustls::Error::InvalidCertificate(why)) => {
                format!("tls: failed to verify certificate: x509: {}", refusal(why))
            }
            Some(rustls::Error::InvalidMessage(_)) => {
                "tls: first record does not look like a TLS handshake".to_owned()
            }
            _ if error.kind() == io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
            _ => error.to_string(),
        };
        Self(why)
    }
}

/// Why a certificate is refused.
fn refusal(why: &CertificateError) -> String {
    let time = |time: UnixTime| {
        let seconds = i64::try_from(time.as_secs()).ok().and_then(|at| Timestamp::from_second(at).ok());
        clock::seconds(seconds.unwrap_or(Timestamp::MAX))
    };
    let outside = "certificate has expired or is not yet valid: current time";
    match why {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "certificate signed by unknown authority".to_owned()
        }
        CertificateError::ExpiredContext { time: now, not_after } => {
            format!("{outside} {} is after {}", time(*now), time(*not_after))
        }
        CertificateError::NotValidYetContext { time: now, not_before } => {
            format!("{outside} {} is before {}", time(*now), time(*not_before))
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            let expected = expected.to_str();
            let quoted = |name: &str| Some(name.strip_prefix("DnsName(\"")?.strip_suffix("\")")?.to_owned());
            let names: Vec<String> = presented.iter().filter_map(|name| quoted(name)).collect();
            match names.is_empty() {
                true => format!("certificate is not valid for any names, but wanted to match {expected}"),
                false => format!("certificate is valid for {}, not {expected}", names.join(", ")),
            }
        }
        other => other.to_string(),
    }
}

/// What leads to Services.
#[derive(Clone)]
pub(super) struct Routes {
    pub(super) resolver: Option<Arc<dyn ServiceResolver>>,
    /// Has the Services that the resolver does not know.
    pub(super) store: Store,
}

/// Opens connections to one address.
#[derive(Clone)]
pub(super) struct Connector {
    pub(super) address: Address,
    pub(super) routes: Routes,
    pub(super) tls: TlsConnector,
}

impl Connector {
    async fn connect(self) -> Result<Stream, ConnectError> {
        let (name, wire) = match &self.address {
            Address::Service { namespace, name, port } => {
                (format!("{name}.{namespace}.svc"), self.routes.open(namespace, name, *port).await?)
            }
            Address::Host(host) => {
                let (name, port) = split_port(host);
                (name.to_owned(), dial(name, port).await?)
            }
        };
        let name = ServerName::try_from(name).map_err(|error| ConnectError(error.to_string()))?;
        let stream = self.tls.connect(name, wire).await;
        Ok(Stream(TokioIo::new(stream.map_err(|error| ConnectError::handshake(&error))?)))
    }
}

impl Routes {
    async fn open(&self, namespace: &str, name: &str, port: u16) -> Result<Wire, ConnectError> {
        match self.resolver.as_ref().and_then(|resolver| resolver.resolve(namespace, name, port)) {
            Some(Route::Pipe(pipe)) => Ok(Box::new(pipe)),
            Some(Route::Address(address)) => dial(&address.ip().to_string(), address.port()).await,
            None => {
                let found = service::stored(&self.store, namespace, name, port).map_err(ConnectError)?;
                dial(&found.0, found.1).await
            }
        }
    }
}

/// What TLS is spoken on.
type Wire = Box<dyn Transport>;

trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

async fn dial(host: &str, port: u16) -> Result<Wire, ConnectError> {
    let stream = TcpStream::connect((host, port)).await.map_err(|error| match host.parse::<IpAddr>() {
        Err(_) if error.raw_os_error().is_none() => {
            ConnectError(format!("dial tcp: lookup {host}: no such host"))
        }
        Ok(IpAddr::V6(_)) => ConnectError::dial(format_args!("[{host}]:{port}"), &error),
        _ => ConnectError::dial(format_args!("{host}:{port}"), &error),
    })?;
    stream.set_nodelay(true).map_err(|error| ConnectError(error.to_string()))?;
    Ok(Box::new(stream))
}

/// Host and port of an authority; an IPv6 host loses its brackets.
fn split_port(authority: &str) -> (&str, u16) {
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.parse().unwrap_or(443)),
        _ => (authority, 443),
    };
    (host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host), port)
}

impl tower_service::Service<Uri> for Connector {
    type Response = Stream;
    type Error = ConnectError;
    type Future = BoxFuture<'static, Result<Stream, ConnectError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        Box::pin(self.clone().connect())
    }
}

/// A connection to a webhook.
pub(super) struct Stream(TokioIo<TlsStream<Wire>>);

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl hyper::rt::Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: hyper::rt::ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl hyper::rt::Write for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

/// TLS that trusts a bundle, base64 of PEM, and nobody else, at the time the clock shows.
pub(super) fn tls(ca_bundle: &str, clock: Clock) -> Result<ClientConfig, String> {
    const UNUSABLE: &str = "unable to load root certificates: unable to parse bytes as PEM block";
    let mut roots = RootCertStore::empty();
    if !ca_bundle.is_empty() {
        let pem = STANDARD.decode(ca_bundle).map_err(|_| UNUSABLE.to_owned())?;
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            let certificate = certificate.map_err(|_| UNUSABLE.to_owned())?;
            roots.add(certificate).map_err(|why| format!("unable to load root certificates: {why}"))?;
        }
        if roots.is_empty() {
            return Err(UNUSABLE.to_owned());
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_details(provider, Arc::new(Time(clock)))
        .with_safe_default_protocol_versions()
        .map_err(|why| why.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    // Who has changed its certificate since shows the new one.
    config.resumption = Resumption::disabled();
    // One connection a call in flight spreads calls over what stands behind a Service.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// The time by which certificates are judged.
#[derive(Debug)]
struct Time(Clock);

impl TimeProvider for Time {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = u64::try_from(self.0.now().as_second()).ok()?;
        Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}
