//! Where a Service is served: as a resolver says, or as the stored objects do.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::DuplexStream;

use crate::{
    kinds::access,
    rest::codec,
    store::{ResourceId, Store, Stored},
};

/// Finds where a Service is served, for webhooks that are named by one.
pub trait ServiceResolver: Send + Sync + 'static {
    /// A way to the port of a Service, if this knows one. Asked whenever a connection is opened.
    fn resolve(&self, namespace: &str, name: &str, port: u16) -> Option<Route>;
}

impl<F> ServiceResolver for F
where
    F: Fn(&str, &str, u16) -> Option<Route> + Send + Sync + 'static,
{
    fn resolve(&self, namespace: &str, name: &str, port: u16) -> Option<Route> {
        self(namespace, name, port)
    }
}

/// A way to a webhook. TLS is spoken on either, with the name `NAME.NAMESPACE.svc`.
#[derive(Debug)]
pub enum Route {
    /// A socket that listens.
    Address(SocketAddr),
    /// One connection inside the process, whose other end is served.
    Pipe(DuplexStream),
}

/// Host and port of a Service as the stored objects tell them, or what the real server says there is not.
pub(super) fn stored(store: &Store, namespace: &str, name: &str, port: u16) -> Result<(String, u16), String> {
    let key = format!("{namespace}/{name}");
    let service = store.get(&ResourceId::new("", "services"), &key).and_then(|stored| parse(&stored));
    let service = service.ok_or_else(|| format!("service {name:?} not found"))?;
    if access::get_str(&service, &["spec", "type"]) == "ExternalName" {
        return Ok((access::get_str(&service, &["spec", "externalName"]).to_owned(), port));
    }
    let served = access::items(&service, &["spec", "ports"]).iter().find(|one| one["port"] == port);
    let served = served.ok_or_else(|| format!("no service port {port} found for service {name:?}"))?;
    let port_name = access::get_str(served, &["name"]);
    in_slices(store, namespace, name, port_name)
        .or_else(|| in_endpoints(store, &key, port_name))
        .ok_or_else(|| format!("no endpoints available for service {name:?}"))
}

/// The first endpoint that is ready, as the slices of a Service tell.
fn in_slices(store: &Store, namespace: &str, name: &str, port_name: &str) -> Option<(String, u16)> {
    let slices = store.collection(&ResourceId::new("discovery.k8s.io", "endpointslices"));
    slices
        .range(&format!("{namespace}/"), "")
        .filter(|slice| slice.labels.get("kubernetes.io/service-name") == Some(name))
        .filter_map(|slice| parse(slice))
        .find_map(|slice| {
            let port = number_of(access::items(&slice, &["ports"]), port_name)?;
            let mut endpoints = access::items(&slice, &["endpoints"]).iter();
            let ready = endpoints.find(|one| one["conditions"]["ready"] != false)?;
            Some((ready["addresses"][0].as_str()?.to_owned(), port))
        })
}

/// The first address, as the Endpoints of a Service tell.
fn in_endpoints(store: &Store, key: &str, port_name: &str) -> Option<(String, u16)> {
    let endpoints = parse(store.get(&ResourceId::new("", "endpoints"), key)?.as_ref())?;
    access::items(&endpoints, &["subsets"]).iter().find_map(|subset| {
        let port = number_of(access::items(subset, &["ports"]), port_name)?;
        Some((subset["addresses"][0]["ip"].as_str()?.to_owned(), port))
    })
}

/// The number of the port of a name, which is empty where there is but one.
fn number_of(ports: &[Value], name: &str) -> Option<u16> {
    let port = ports.iter().find(|port| access::get_str(port, &["name"]) == name)?;
    u16::try_from(port["port"].as_u64()?).ok()
}

fn parse(stored: &Stored) -> Option<Value> {
    codec::parse(&stored.bytes).ok()
}
