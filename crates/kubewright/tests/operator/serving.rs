//! Health, metrics and the page for people, as they are asked over a socket.

use std::{net::SocketAddr, sync::Arc};

use kubewright::{Options, Running};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use crate::support::{World, operator, site};

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
