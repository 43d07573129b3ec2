//! One connection to a server: TLS on loopback, HTTP/1.1 or HTTP/2, one request after the other.

use std::{net::SocketAddr, sync::Arc};

use bytes::Bytes;
use clap::ValueEnum;
use http::{Method, Request, Response, header};
use http_body_util::{BodyExt as _, Full};
use hyper::{
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{
    ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::CryptoProvider,
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::{Result, wire::Wire};

/// The HTTP version of the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Protocol {
    /// HTTP/1.1
    #[value(name = "1")]
    Http1,
    /// HTTP/2
    #[value(name = "2")]
    Http2,
}

/// Where a server is and who asks.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
}

/// An open connection.
pub(crate) struct Connection {
    sender: Sender,
    authority: String,
    authorization: String,
}

/// An open connection for many small requests.
pub(crate) enum Caller {
    Wire(Box<Wire>),
    Connection(Connection),
}

impl Caller {
    /// Sends a request and reads the whole answer, which must have the status `expected`.
    pub(crate) async fn call(&mut self, ask: Ask) -> Result<()> {
        let Ask { method, path, body, expected } = ask;
        match self {
            Self::Wire(wire) => wire.call(&method, &path, &body, expected).await,
            Self::Connection(connection) => {
                connection.call(method, &path, body, expected).await.map(|_size| ())
            }
        }
    }
}

/// A request and the status its answer must have.
pub(crate) struct Ask {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) body: Bytes,
    pub(crate) expected: u16,
}

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Endpoint {
    async fn open(&self, protocol: Protocol) -> Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::IpAddress(self.address.ip().into());
        Ok(TlsConnector::from(tls(protocol)?).connect(name, stream).await?)
    }

    /// A client as operators have it.
    pub(crate) fn client(&self) -> Result<kube::Client> {
        let mut config = kube::Config::new(format!("https://{}", self.address).parse()?);
        config.accept_invalid_certs = true; // as below
        config.auth_info.token = Some(self.token.clone().into());
        Ok(kube::Client::try_from(config)?)
    }

    /// The same for programs that read a kubeconfig.
    pub(crate) fn kubeconfig(&self) -> String {
        let named = |key: &str, value: Value| json!([{"name": "bench", key: value}]);
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "bench",
            "clusters": named(
                "cluster",
                json!({"server": format!("https://{}", self.address), "insecure-skip-tls-verify": true}),
            ),
            "users": named("user", json!({"token": self.token})),
            "contexts": named("context", json!({"cluster": "bench", "user": "bench"})),
        })
        .to_string()
    }

    /// Opens a connection for many small requests.
    pub(crate) async fn caller(&self, protocol: Protocol) -> Result<Caller> {
        Ok(match protocol {
            Protocol::Http1 => {
                let stream = self.open(protocol).await?;
                Caller::Wire(Box::new(Wire::new(stream, &self.address.to_string(), &self.token)))
            }
            Protocol::Http2 => Caller::Connection(self.connect(protocol).await?),
        })
    }

    /// Opens a connection.
    pub(crate) async fn connect(&self, protocol: Protocol) -> Result<Connection> {
        let stream = TokioIo::new(self.open(protocol).await?);
        let sender = match protocol {
            Protocol::Http1 => {
                let (sender, connection) = http1::handshake(stream).await?;
                tokio::spawn(connection);
                Sender::Http1(sender)
            }
            Protocol::Http2 => {
                let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await?;
                tokio::spawn(connection);
                Sender::Http2(sender)
            }
        };
        let authorization = format!("Bearer {}", self.token);
        Ok(Connection { sender, authority: self.address.to_string(), authorization })
    }
}

impl Connection {
    /// Sends a request and gives the answer as soon as its head is there.
    pub(crate) async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>> {
        let uri = match &self.sender {
            Sender::Http1(_) => path.to_owned(),
            Sender::Http2(_) => format!("https://{}{path}", self.authority),
        };
        let mut request = Request::builder()
            .method(method)
            .uri(uri)
            .header(header::AUTHORIZATION, &self.authorization)
            .header(header::ACCEPT, "application/json")
            .header(header::USER_AGENT, "kubewright-bench");
        if matches!(self.sender, Sender::Http1(_)) {
            request = request.header(header::HOST, &self.authority);
        }
        if !body.is_empty() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let request = request.body(Full::new(body))?;
        Ok(match &mut self.sender {
            Sender::Http1(sender) => {
                sender.ready().await?;
                sender.send_request(request).await?
            }
            Sender::Http2(sender) => {
                sender.ready().await?;
                sender.send_request(request).await?
            }
        })
    }

    /// Sends a request and reads the whole answer, which must have the status `expected`. Gives its size.
    pub(crate) async fn call(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
        expected: u16,
    ) -> Result<usize> {
        let answer = self.send(method, path, body).await?;
        let status = answer.status();
        let mut body = answer.into_body();
        if status.as_u16() != expected {
            let text = body.collect().await?.to_bytes();
            return Err(format!(
                "{path}: expected {expected}, got {status}: {}",
                String::from_utf8_lossy(&text)
            )
            .into());
        }
        let mut size = 0;
        while let Some(frame) = body.frame().await {
            size += frame?.data_ref().map_or(0, Bytes::len);
        }
        Ok(size)
    }
}

fn tls(protocol: Protocol) -> Result<Arc<ClientConfig>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Loopback(provider)))
        .with_no_client_auth();
    config.alpn_protocols = vec![match protocol {
        Protocol::Http1 => b"http/1.1".to_vec(),
        Protocol::Http2 => b"h2".to_vec(),
    }];
    Ok(Arc::new(config))
}

/// Takes any certificate: both servers were started here, on loopback, each with an authority of its own.
#[derive(Debug)]
struct Loopback(Arc<CryptoProvider>);

impl ServerCertVerifier for Loopback {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
