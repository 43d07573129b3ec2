//! Rows of what moves traffic: services, endpoints, ingresses, network policies, addresses.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use super::format::{
    NONE, age, annotated, labels, list_with_more, name, number, or, qualified, row, scalar, selector_or_none,
    strings,
};
use crate::kinds::access::{get, get_str, items};

const SHOWN: usize = 3;

pub(super) fn service(service: &Value, now: Timestamp) -> Vec<Value> {
    let addresses = strings(service, &["spec", "clusterIPs"]);
    let ports: Vec<String> = items(service, &["spec", "ports"]).iter().map(service_port).collect();
    row![
        name(service),
        get_str(service, &["spec", "type"]),
        addresses.first().copied().unwrap_or(NONE),
        external_address(service),
        or(&ports.join(","), NONE),
        age(service, now),
        labels(service, &["spec", "selector"]),
    ]
}

fn service_port(port: &Value) -> String {
    let (number_, protocol) = (number(port, &["port"]), get_str(port, &["protocol"]));
    match number(port, &["nodePort"]) {
        node_port if node_port > 0 => format!("{number_}:{node_port}/{protocol}"),
        _ => format!("{number_}/{protocol}"),
    }
}

fn external_address(service: &Value) -> String {
    let external = strings(service, &["spec", "externalIPs"]).join(",");
    match get_str(service, &["spec", "type"]) {
        "ClusterIP" | "NodePort" => or(&external, NONE).to_owned(),
        "LoadBalancer" => {
            let balancer = load_balancer(service);
            match (balancer.is_empty(), external.is_empty()) {
                (true, true) => "<pending>".to_owned(),
                (true, false) => external,
                (false, true) => balancer,
                (false, false) => format!("{balancer},{external}"),
            }
        }
        "ExternalName" => get_str(service, &["spec", "externalName"]).to_owned(),
        _ => super::format::UNKNOWN.to_owned(),
    }
}

fn load_balancer(object: &Value) -> String {
    let points: BTreeSet<&str> = items(object, &["status", "loadBalancer", "ingress"])
        .iter()
        .map(|point| or(get_str(point, &["ip"]), get_str(point, &["hostname"])))
        .filter(|point| !point.is_empty())
        .collect();
    points.into_iter().collect::<Vec<_>>().join(",")
}

pub(super) fn ingress(ingress: &Value, now: Timestamp) -> Vec<Value> {
    let class = get(ingress, &["spec", "ingressClassName"]).and_then(Value::as_str);
    let ports = if items(ingress, &["spec", "tls"]).is_empty() { "80" } else { "80, 443" };
    row![
        name(ingress),
        class.unwrap_or(NONE),
        hosts(items(ingress, &["spec", "rules"])),
        load_balancer(ingress),
        ports,
        age(ingress, now),
    ]
}

fn hosts(rules: &[Value]) -> String {
    let mut shown: Vec<&str> = Vec::new();
    for rule in rules {
        if shown.len() == SHOWN {
            return format!("{} + {} more...", shown.join(","), rules.len() - SHOWN);
        }
        let host = get_str(rule, &["host"]);
        if !host.is_empty() {
            shown.push(host);
        }
    }
    if shown.is_empty() { "*".to_owned() } else { shown.join(",") }
}

pub(super) fn ingress_class(class: &Value, now: Timestamp) -> Vec<Value> {
    let mut shown_name = get_str(class, &["metadata", "name"]).to_owned();
    if annotated(class, "ingressclass.kubernetes.io/is-default-class") {
        shown_name.push_str(" (default)");
    }
    let parameters = get(class, &["spec", "parameters"]).map_or_else(
        || NONE.to_owned(),
        |parameters| {
            let kind = qualified(get_str(parameters, &["kind"]), get_str(parameters, &["apiGroup"]));
            format!("{kind}/{}", get_str(parameters, &["name"]))
        },
    );
    row![shown_name, get_str(class, &["spec", "controller"]), parameters, age(class, now)]
}

pub(super) fn endpoints(endpoints: &Value, now: Timestamp) -> Vec<Value> {
    row![name(endpoints), addresses(items(endpoints, &["subsets"])), age(endpoints, now)]
}

fn addresses(subsets: &[Value]) -> String {
    if subsets.is_empty() {
        return NONE.to_owned();
    }
    let (mut shown, mut count) = (Vec::new(), 0);
    let mut list = |addresses: &[Value], text: &dyn Fn(&str) -> String| {
        count += addresses.len();
        for address in addresses.iter().take(SHOWN - shown.len()) {
            shown.push(text(get_str(address, &["ip"])));
        }
    };
    for subset in subsets {
        let (ips, ports) = (items(subset, &["addresses"]), items(subset, &["ports"]));
        if ports.is_empty() {
            list(ips, &str::to_owned);
        }
        for port in ports {
            let port = number(port, &["port"]);
            let join =
                |ip: &str| if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") };
            list(ips, &join);
        }
    }
    let text = shown.join(",");
    if count > SHOWN { format!("{text} + {} more...", count - SHOWN) } else { text }
}

pub(super) fn endpoint_slice(slice: &Value, now: Timestamp) -> Vec<Value> {
    let port = |port: &Value| {
        scalar(port, &["port"]).or_else(|| scalar(port, &["name"])).unwrap_or_else(|| "*".to_owned())
    };
    let ports: Vec<String> = items(slice, &["ports"]).iter().map(port).collect();
    let addresses: Vec<String> = items(slice, &["endpoints"])
        .iter()
        .flat_map(|endpoint| strings(endpoint, &["addresses"]))
        .map(str::to_owned)
        .collect();
    row![
        name(slice),
        get_str(slice, &["addressType"]),
        list_with_more(&ports, SHOWN),
        list_with_more(&addresses, SHOWN),
        age(slice, now),
    ]
}

pub(super) fn network_policy(policy: &Value, now: Timestamp) -> Vec<Value> {
    row![name(policy), selector_or_none(policy, &["spec", "podSelector"]), age(policy, now)]
}

pub(super) fn service_cidr(cidr: &Value, now: Timestamp) -> Vec<Value> {
    row![name(cidr), strings(cidr, &["spec", "cidrs"]).join(","), age(cidr, now)]
}

/// Has one cell more than columns, as on the real server.
pub(super) fn ip_address(address: &Value, now: Timestamp) -> Vec<Value> {
    let parent = get(address, &["spec", "parentRef"]).map_or_else(
        || NONE.to_owned(),
        |parent| {
            let resource =
                qualified(get_str(parent, &["resource"]), get_str(parent, &["group"])).to_lowercase();
            let (namespace, name) = (get_str(parent, &["namespace"]), get_str(parent, &["name"]));
            if namespace.is_empty() {
                format!("{resource}/{name}")
            } else {
                format!("{resource}/{namespace}/{name}")
            }
        },
    );
    row![name(address), parent, age(address, now)]
}
