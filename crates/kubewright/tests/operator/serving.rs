//! Health, metrics and the page for people, as they are asked over a socket.

use std::{
    fs::File,
    net::SocketAddr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures_util::FutureExt as _;
use k8s_openapi::api::{
    authentication::v1::TokenRequest, core::v1::ServiceAccount, rbac::v1::ClusterRoleBinding,
};
use kube::Api;
use kubewright::{Certificate, Controller, Error, ManifestOptions, Options, Running};
use parking_lot::Mutex;
use rustls::{
    ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::ring::default_provider,
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsConnector;

use crate::{
    installing::install,
    support::{Site, World, doing, only, operator, site},
};

fn on_free_ports(world: &World) -> Options {
    let free: SocketAddr = "127.0.0.1:0".parse().unwrap();
    Options { metrics_address: Some(free), health_address: Some(free), ..world.options() }
}

/// The whole answer, head and body.
async fn get(address: Option<SocketAddr>, path: &str, accept: &str) -> String {
    let mut stream = TcpStream::connect(address.unwrap()).await.unwrap();
    let request =
        format!("GET {path} HTTP/1.1\r\nhost: test\r\naccept: {accept}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

async fn started(world: &World) -> Running {
    world.create(&site("shop")).await;
    let mut running = operator().start(world.recorded(), on_free_ports(world));
    running.working().await.unwrap();
    running
}

#[tokio::test]
async fn a_working_operator_is_ready_and_says_what_it_watches() {
    let world = World::in_real_time().await;
    let running = started(&world).await;
    let health = running.addresses().await.health;
    assert!(get(health, "/healthz", "*/*").await.ends_with("\r\n\r\nok"));
    assert!(get(health, "/readyz", "*/*").await.ends_with("\r\n\r\nok"));
    let verbose = get(health, "/readyz?verbose", "*/*").await;
    assert!(verbose.contains("[+]watch-sites.test.kubewright.dev ok\n"), "{verbose}");
    assert!(verbose.ends_with("readyz check passed\n"), "{verbose}");
    assert!(get(health, "/metrics", "*/*").await.starts_with("HTTP/1.1 404"));
    running.stop().await.unwrap();
    assert!(TcpStream::connect(health.unwrap()).await.is_err(), "it closes at the end");
}

#[tokio::test]
async fn an_operator_whose_watch_is_cut_off_is_alive_but_not_ready() {
    let world = World::in_real_time().await;
    let client = world.meddled(Arc::new(|request| request.uri().path().contains("deployments")));
    let running = operator().start(client, on_free_ports(&world));
    let health = running.addresses().await.health;
    assert!(get(health, "/healthz", "*/*").await.ends_with("\r\n\r\nok"));
    let answer = get(health, "/readyz", "*/*").await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(answer.contains("[-]watch-deployments.apps failed: "), "{answer}");
}

#[tokio::test]
async fn metrics_are_served_in_the_form_that_prometheus_reads() {
    let world = World::in_real_time().await;
    let running = started(&world).await;
    let answer = get(running.addresses().await.metrics, "/metrics", "*/*").await;
    assert!(
        answer.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"),
        "{answer}"
    );
    assert!(answer.contains("controller_runtime_reconcile_total"), "{answer}");
    assert!(answer.ends_with("# EOF\n"), "{answer}");
}

#[tokio::test]
async fn people_and_programs_can_see_queues_and_watches() {
    let world = World::in_real_time().await;
    let running = started(&world).await;
    let address = running.addresses().await.metrics;
    let answer = get(address, "/debug", "application/json").await;
    let state: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!((&state["operator"], &state["phase"]), (&"site-operator".into(), &"working".into()));
    assert_eq!(state["queues"][0]["controller"], "site");
    let kinds: Vec<&str> =
        state["watches"].as_array().unwrap().iter().map(|watch| watch["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["configmaps", "deployments.apps", "services", "sites.test.kubewright.dev"]);
    assert_eq!(state["watches"][3]["objects"], 1);
    let page = get(address, "/debug", "text/html").await;
    assert!(page.contains("<h1>site-operator: working</h1>"), "{page}");
    assert!(page.contains("<tr><td>sites.test.kubewright.dev<td>1<td>yes<td></tr>"), "{page}");
}

#[tokio::test]
async fn a_port_that_is_in_use_is_named() {
    let world = World::in_real_time().await;
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap();
    let mut running =
        operator().start(world.recorded(), Options { health_address: Some(address), ..world.options() });
    let why = running.ended().await.unwrap_err().to_string();
    assert_eq!(
        why,
        format!(
            "the health server can't listen on {address}: the port is in use: choose another one, or 0 to go without"
        )
    );
}

/// Believes everything, and keeps the certificate that it was shown.
#[derive(Debug, Default)]
struct Witness(Mutex<Vec<u8>>);

impl ServerCertVerifier for Witness {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        *self.0.lock() = shown.to_vec();
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = default_provider().signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// The whole answer over TLS, and the certificate of who gave it.
async fn get_securely(address: Option<SocketAddr>, path: &str, token: &str) -> (String, Vec<u8>) {
    let witness = Arc::new(Witness::default());
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(witness.clone())
        .with_no_client_auth();
    let stream = TcpStream::connect(address.unwrap()).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    let authorization =
        if token.is_empty() { String::new() } else { format!("authorization: Bearer {token}\r\n") };
    let request = format!("GET {path} HTTP/1.1\r\nhost: test\r\n{authorization}connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let shown = std::mem::take(&mut *witness.0.lock());
    (answer, shown)
}

async fn status(address: Option<SocketAddr>, path: &str, token: &str) -> String {
    let (answer, _) = get_securely(address, path, token).await;
    answer.split(' ').nth(1).unwrap().to_owned()
}

fn secure(world: &World, certificate: Certificate) -> Options {
    Options { secure_metrics: Some(certificate), ..on_free_ports(world) }
}

/// A token of a new service account.
async fn token(world: &World, name: &str) -> String {
    let accounts = world.api::<ServiceAccount>();
    let account = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    accounts.create(&Default::default(), &account).await.unwrap();
    let request = json!({"spec": {"audiences": []}});
    let answer: TokenRequest =
        accounts.create_subresource("token", name, &Default::default(), &request).await.unwrap();
    answer.status.unwrap().token.unwrap()
}

/// Allows a service account what a cluster role allows.
async fn bind(world: &World, account: &str, role: &str) {
    let binding = serde_json::from_value(json!({
        "metadata": {"name": format!("{account}-{}", world.namespace)},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "namespace": world.namespace, "name": account}],
    }));
    let bindings: Api<ClusterRoleBinding> = Api::all(world.client.clone());
    bindings.create(&Default::default(), &binding.unwrap()).await.unwrap();
}

#[tokio::test]
async fn secure_metrics_are_for_those_who_may_read_them() {
    let world = World::in_real_time().await;
    let namespaces = vec![world.namespace.clone()];
    install(&world.client, &ManifestOptions { namespaces, secure_metrics: true, ..Default::default() }).await;
    let (reader, stranger) = (token(&world, "reader").await, token(&world, "stranger").await);
    bind(&world, "reader", "site-operator-metrics-reader").await;
    let client = world.server.client_of_service_account("site-operator-system", "site-operator").await;
    let mut running = operator().start(
        client,
        Options { namespaces: vec![world.namespace.clone()], ..secure(&world, Certificate::SelfSigned) },
    );
    running.working().await.unwrap();
    let address = running.addresses().await.metrics;
    assert_eq!(status(address, "/metrics", "").await, "401");
    assert_eq!(status(address, "/metrics", "made-up").await, "401");
    assert_eq!(status(address, "/metrics", &stranger).await, "403");
    assert_eq!(status(address, "/debug", &reader).await, "403", "the role is for metrics alone");
    let (answer, _) = get_securely(address, "/metrics", &reader).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("# EOF\n"), "{answer}");
    let (_, first) = get_securely(address, "/metrics", "").await;
    let (_, second) = get_securely(address, "/metrics", "").await;
    assert!(!first.is_empty() && first == second, "one certificate for as long as it runs");
}

#[tokio::test]
async fn without_an_answer_of_the_api_server_nobody_reads_and_with_one_it_is_not_asked_again() {
    let world = World::in_real_time().await;
    let token = token(&world, "reader").await;
    bind(&world, "reader", "cluster-admin").await;
    let is_cut = Arc::new(AtomicBool::new(true));
    let cut = is_cut.clone();
    let client = world.meddled(Arc::new(move |request| {
        cut.load(Ordering::Relaxed) && request.uri().path().ends_with("subjectaccessreviews")
    }));
    let running = operator().start(client, secure(&world, Certificate::SelfSigned));
    let address = running.addresses().await.metrics;
    assert_eq!(status(address, "/metrics", &token).await, "500");
    is_cut.store(false, Ordering::Relaxed);
    assert_eq!(status(address, "/metrics", &token).await, "200");
    assert_eq!(status(address, "/metrics", &token).await, "200");
    let reviews = |kind: &str| {
        let requests = world.requests.lock();
        requests.iter().filter(|(_, uri)| uri.contains(kind)).count()
    };
    assert_eq!(reviews("/tokenreviews"), 1);
    assert_eq!(reviews("/subjectaccessreviews"), 2, "the one that failed, and the one that counts");
}

/// Puts a new certificate into a directory, as written at a time, and gives it.
fn renew(directory: &Path, seconds: u64) -> Vec<u8> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let pem = |label: &str, der: &[u8]| {
        format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(der))
    };
    write(directory, "tls.crt", seconds, &pem("CERTIFICATE", made.cert.der()));
    write(directory, "tls.key", seconds, &pem("PRIVATE KEY", made.signing_key.serialized_der()));
    made.cert.der().to_vec()
}

fn write(directory: &Path, file: &str, seconds: u64, text: &str) {
    let path = directory.join(file);
    std::fs::write(&path, text).unwrap();
    let written = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    File::options().write(true).open(path).unwrap().set_modified(written).unwrap();
}

#[tokio::test]
async fn a_renewed_certificate_is_used_and_a_broken_one_is_not() {
    let world = World::in_real_time().await;
    let directory = tempfile::tempdir().unwrap();
    let first = renew(directory.path(), 1);
    let certificate = Certificate::Directory(directory.path().to_owned());
    let running = operator().start(world.recorded(), secure(&world, certificate));
    let address = running.addresses().await.metrics;
    let shown = async || get_securely(address, "/metrics", "").await.1;
    assert_eq!(shown().await, first);
    let second = renew(directory.path(), 2);
    assert_eq!(shown().await, second);
    write(directory.path(), "tls.key", 3, "half of a k");
    assert_eq!(shown().await, second);
    std::fs::remove_file(directory.path().join("tls.crt")).unwrap();
    assert_eq!(shown().await, second);
    let third = renew(directory.path(), 4);
    assert_eq!(shown().await, third);
}

#[tokio::test]
async fn a_certificate_that_is_not_there_is_named() {
    let world = World::in_real_time().await;
    let directory = tempfile::tempdir().unwrap();
    let certificate = Certificate::Directory(directory.path().to_owned());
    let mut running = operator().start(world.recorded(), secure(&world, certificate));
    let why = running.ended().await.unwrap_err().to_string();
    assert!(
        why.starts_with(&format!("{} can't be read: ", directory.path().join("tls.crt").display())),
        "{why}"
    );
}

#[tokio::test(start_paused = true)]
async fn requests_are_counted_by_the_host_they_go_to() {
    let world = World::new().await;
    let options = Options { host: "cluster.example:6443".to_owned(), ..world.options() };
    let mut running = operator().start(world.recorded(), options);
    running.working().await.unwrap();
    let metrics = running.metrics();
    let line = metrics.lines().find(|line| line.starts_with("rest_client_requests_total{")).unwrap();
    assert!(line.contains("host=\"cluster.example:6443\""), "{line}");
}

#[tokio::test]
async fn people_and_programs_can_see_what_is_slow_and_what_fails() {
    let world = World::in_real_time().await;
    world.create(&site("shop")).await;
    let controller = Controller::of::<Site>().run(doing(|_, _| {
        async { Err(Error::terminal("no such page: <script>alert(\"&\")</script>")) }.boxed()
    }));
    let mut running = only(controller).start(world.recorded(), on_free_ports(&world));
    running.working().await.unwrap();
    let address = running.addresses().await.metrics;
    let key = format!("{}/shop", world.namespace);
    let queue = loop {
        let answer = get(address, "/debug", "application/json").await;
        let state: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
        if state["queues"][0]["slowest"] != json!([]) {
            break state["queues"][0].clone();
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(queue["slowest"][0]["key"], key);
    assert_eq!(queue["errors"][0]["key"], key);
    assert_eq!(queue["errors"][0]["message"], "no such page: <script>alert(\"&\")</script>");
    assert_eq!(queue["errors"][0]["count"], 1);
    let time = queue["errors"][0]["time"].as_str().unwrap();
    assert!(time.starts_with("2026-01-01T00:00:"), "{time}");
    let page = get(address, "/debug", "text/html").await;
    let message = "no such page: &lt;script&gt;alert(&quot;&amp;&quot;)&lt;/script&gt;";
    assert!(page.contains(&format!("<td>{key}<td>{message}<td>1</tr>")), "{page}");
    assert!(!page.contains("<script"), "{page}");
}
