//! What tests need below a client: a connection in a given version of HTTP, and a webhook to be called back on.

use std::{convert::Infallible, net::SocketAddr, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{Request, Response, Version};
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::{body::Incoming, client::conn, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use jiff::Timestamp;
use kubewright_apiserver::{Clock, auth::certificates::CertificateAuthority};
use parking_lot::Mutex;
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::ring,
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::harness::Server;

/// Sends one request over a connection of its own; gives the code and the version that was spoken.
pub(crate) async fn get(address: &str, path: &str, token: &str, version: Version) -> (u16, Version) {
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the usual versions of TLS")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyServer))
        .with_no_client_auth();
    config.alpn_protocols =
        vec![if version == Version::HTTP_2 { b"h2".to_vec() } else { b"http/1.1".to_vec() }];
    let stream = TcpStream::connect(address).await.expect("a connection");
    let name = ServerName::try_from("localhost").expect("a name");
    let stream =
        TokioIo::new(TlsConnector::from(Arc::new(config)).connect(name, stream).await.expect("a handshake"));
    let request = Request::get(format!("https://{address}{path}"))
        .version(version)
        .header("host", address)
        .header("authorization", format!("Bearer {token}"))
        .body(Empty::<Bytes>::new())
        .expect("a well-formed request");
    let answer = if version == Version::HTTP_2 {
        let (mut sender, connection) =
            conn::http2::handshake(TokioExecutor::new(), stream).await.expect("HTTP/2");
        tokio::spawn(connection);
        sender.send_request(request).await
    } else {
        let (mut sender, connection) = conn::http1::handshake(stream).await.expect("HTTP/1.1");
        tokio::spawn(connection);
        sender.send_request(request).await
    };
    let answer = answer.expect("an answer");
    (answer.status().as_u16(), answer.version())
}

/// Takes every server for what it says it is: these tests run on loopback.
#[derive(Debug)]
struct AnyServer;

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// A webhook server on loopback: answers every review with what a function makes of it, and keeps what it was asked.
#[derive(Clone)]
pub(crate) struct Webhook {
    address: SocketAddr,
    authority: String,
    asked: Arc<Mutex<Vec<Value>>>,
}

impl Webhook {
    /// Starts one; `answer` turns the request into the fields of the response. The uid is the request's unless it gives
    /// another; `{"http": CODE}` and `{"body": TEXT}` are answered as they say.
    pub(crate) async fn start<F, R>(answer: F) -> Self
    where
        F: Fn(Value) -> R + Clone + Send + 'static,
        R: Future<Output = Value> + Send + 'static,
    {
        Self::certified_at(Clock::system().now(), answer).await
    }

    /// Starts one whose certificate was made at some time.
    pub(crate) async fn certified_at<F, R>(now: Timestamp, answer: F) -> Self
    where
        F: Fn(Value) -> R + Clone + Send + 'static,
        R: Future<Output = Value> + Send + 'static,
    {
        let authority = CertificateAuthority::generate(now).expect("an authority");
        let serving = authority.serving(&[], now).expect("a certificate");
        let tls = TlsAcceptor::from(Arc::new(authority.server_config(&serving).expect("TLS")));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("its address");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = asked.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (tls, answer, seen) = (tls.clone(), answer.clone(), seen.clone());
                tokio::spawn(async move {
                    let Ok(stream) = tls.accept(stream).await else { return };
                    let service = service_fn(move |request| review(request, answer.clone(), seen.clone()));
                    let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { address, authority: STANDARD.encode(authority.certificate_pem()), asked }
    }

    /// One that allows everything.
    pub(crate) async fn allowing() -> Self {
        Self::start(async |_| json!({"allowed": true})).await
    }

    /// Forgets what it was asked.
    pub(crate) fn forget(&self) {
        self.asked.lock().clear();
    }

    /// How to reach it.
    pub(crate) fn client_config(&self) -> Value {
        json!({"url": format!("https://{}/review", self.address), "caBundle": self.authority})
    }

    /// What it was asked so far.
    pub(crate) fn asked(&self) -> Vec<Value> {
        self.asked.lock().clone()
    }

    /// The names of the objects it was asked about, except the one that waits for it.
    pub(crate) fn names(&self) -> Vec<String> {
        let asked = self.asked();
        let names = asked.iter().filter_map(|request| request["name"].as_str()).filter(|name| *name != PROBE);
        names.map(str::to_owned).collect()
    }

    /// Waits until the server asks it about ConfigMaps of the test's namespace.
    pub(crate) async fn known_to(&self, server: &Server) {
        server
            .until("the webhook is asked", async || {
                let before = self.asked.lock().len();
                let mut probe = crate::manifests::config_map(PROBE, json!({}));
                probe["metadata"]["labels"] = json!({"matched": "yes"});
                server.post(&server.path("configmaps?dryRun=All"), probe).await;
                (self.asked.lock().len() > before).then_some(())
            })
            .await;
    }
}

/// The object with which tests find out that a webhook or policy is in force.
pub(crate) const PROBE: &str = "probe";

async fn review<F, R>(
    request: Request<Incoming>,
    answer: F,
    asked: Arc<Mutex<Vec<Value>>>,
) -> Result<Response<Full<Bytes>>, Infallible>
where
    F: Fn(Value) -> R,
    R: Future<Output = Value>,
{
    let body = request.into_body().collect().await.expect("a whole review").to_bytes();
    let review: Value = serde_json::from_slice(&body).expect("a review is JSON");
    let request = review["request"].clone();
    asked.lock().push(request.clone());
    let uid = request["uid"].clone();
    let mut response = answer(request).await;
    if let Some(code) = response["http"].as_u64() {
        let answer = Response::builder().status(code as u16).body(Full::default());
        return Ok(answer.expect("a status"));
    }
    let body = match response["body"].as_str() {
        Some(body) => body.to_owned(),
        None => {
            if response.get("uid").is_none() {
                response["uid"] = uid;
            }
            json!({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response})
                .to_string()
        }
    };
    let answer = Response::builder().header("content-type", "application/json").body(Full::from(body));
    Ok(answer.expect("an answer"))
}
