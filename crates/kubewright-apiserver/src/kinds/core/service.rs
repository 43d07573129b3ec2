//! Services. Addresses and node ports are allocated elsewhere, between preparing and validating.

mod validation;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::super::{
    Strategy,
    access::{copy_from, default_to, get, get_i64, get_str, has, items, items_mut, remove, same, set},
    checks,
    lifecycle::keep_spec,
    report::{At, Errors},
};

/// What a service does.
pub(crate) const STRATEGY: Strategy = Strategy {
    default,
    prepare_create: |service| {
        set(service, &["status"], json!({"loadBalancer": {}}));
        first_cluster_ip(service, None);
    },
    prepare_update,
    prepare_status_update: |service, old| {
        keep_spec(service, old);
        default_ip_mode(service);
    },
    validate: |service| Errors::of(service, |service, errors| validation::check(service, None, errors)),
    validate_update: |service, old| {
        Errors::of(service, |service, errors| {
            let old = At::root(old);
            validation::changes(service, &old, errors);
            validation::check(service, Some(&old), errors);
        })
    },
    validate_status_update: validation::status_update,
    warnings: |service, _| warnings(&At::root(service)),
    ..Strategy::PLAIN
};

const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";

fn kind(service: &Value) -> &str {
    get_str(service, &["spec", "type"])
}

fn is_reached_from_outside(service: &Value) -> bool {
    match kind(service) {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !items(service, &["spec", "externalIPs"]).is_empty(),
        _ => false,
    }
}

fn needs_health_check(service: &Value) -> bool {
    kind(service) == "LoadBalancer" && get_str(service, &["spec", "externalTrafficPolicy"]) == "Local"
}

fn default(service: &mut Value) {
    let unset = |service: &Value, field: &str| get_str(service, &["spec", field]).is_empty();
    if unset(service, "sessionAffinity") {
        set(service, &["spec", "sessionAffinity"], "None");
    }
    match get_str(service, &["spec", "sessionAffinity"]) {
        "None" => {
            remove(service, &["spec", "sessionAffinityConfig"]);
        }
        "ClientIP" => {
            default_to(service, &["spec", "sessionAffinityConfig", "clientIP", "timeoutSeconds"], 10800);
        }
        _ => {}
    }
    if unset(service, "type") {
        set(service, &["spec", "type"], "ClusterIP");
    }
    for port in items_mut(service, &["spec", "ports"]) {
        if get_str(port, &["protocol"]).is_empty() {
            set(port, &["protocol"], "TCP");
        }
        let target = get(port, &["targetPort"]);
        if target.is_none_or(|target| target == "" || target == 0) {
            let number = get_i64(port, &["port"]).unwrap_or_default();
            set(port, &["targetPort"], number);
        }
    }
    if is_reached_from_outside(service) && unset(service, "externalTrafficPolicy") {
        set(service, &["spec", "externalTrafficPolicy"], "Cluster");
    }
    if matches!(kind(service), "ClusterIP" | "NodePort" | "LoadBalancer") {
        default_to(service, &["spec", "internalTrafficPolicy"], "Cluster");
    } else if kind(service) == "ExternalName" {
        remove(service, &["spec", "internalTrafficPolicy"]);
    }
    if kind(service) == "LoadBalancer" {
        default_to(service, &["spec", "allocateLoadBalancerNodePorts"], true);
        default_ip_mode(service);
    }
    default_to(service, &["status", "loadBalancer"], json!({}));
}

fn default_ip_mode(service: &mut Value) {
    if kind(service) != "LoadBalancer" {
        return;
    }
    for ingress in items_mut(service, &["status", "loadBalancer", "ingress"]) {
        if !get_str(ingress, &["ip"]).is_empty() {
            default_to(ingress, &["ipMode"], "VIP");
        }
    }
}

/// `clusterIP` is the first of `clusterIPs`. What a client says that knows only the older field is carried
/// over to the newer one.
fn first_cluster_ip(service: &mut Value, old: Option<&Value>) {
    let single = get_str(service, &["spec", "clusterIP"]).to_owned();
    let Some(old) = old else {
        if !single.is_empty() && items(service, &["spec", "clusterIPs"]).is_empty() {
            set(service, &["spec", "clusterIPs"], json!([single]));
        }
        return;
    };
    let before = get_str(old, &["spec", "clusterIP"]);
    if single != before && same(service, old, &["spec", "clusterIPs"]) {
        if single.is_empty() {
            remove(service, &["spec", "clusterIPs"]);
        } else {
            set(service, &["spec", "clusterIPs"], json!([single]));
        }
    }
}

fn prepare_update(service: &mut Value, old: &Value) {
    copy_from(service, old, &["status"]);
    keep_allocated(service, old);
    first_cluster_ip(service, Some(old));
    drop_what_the_type_does_not_need(service, old);
}

/// What the server once allocated stays if an update leaves it out. Ports are told apart by name.
fn keep_allocated(service: &mut Value, old: &Value) {
    if kind(service) != "ExternalName" && kind(old) != "ExternalName" {
        if get_str(service, &["spec", "clusterIP"]).is_empty() {
            copy_from(service, old, &["spec", "clusterIP"]);
        }
        let same_ip = same(service, old, &["spec", "clusterIP"]);
        if items(service, &["spec", "clusterIPs"]).is_empty() && same_ip {
            copy_from(service, old, &["spec", "clusterIPs"]);
        }
        for field in ["ipFamilies", "ipFamilyPolicy"] {
            if !has(service, &["spec", field]) {
                copy_from(service, old, &["spec", field]);
            }
        }
    }
    if needs_node_ports(service) && needs_node_ports(old) {
        let taken = node_ports(service);
        let old_ports = items(old, &["spec", "ports"]).iter().rev();
        let before: BTreeMap<&str, i64> =
            old_ports.map(|port| (get_str(port, &["name"]), node_port(port))).collect();
        for port in items_mut(service, &["spec", "ports"]) {
            let before = before.get(get_str(port, &["name"])).copied();
            let number = before.filter(|number| *number != 0 && !taken.contains(number));
            if let Some(number) = number.filter(|_| node_port(port) == 0) {
                set(port, &["nodePort"], number);
            }
        }
    }
    let health = &["spec", "healthCheckNodePort"];
    if needs_health_check(service)
        && needs_health_check(old)
        && get_i64(service, health).unwrap_or_default() == 0
    {
        copy_from(service, old, health);
    }
}

fn node_port(port: &Value) -> i64 {
    get_i64(port, &["nodePort"]).unwrap_or_default()
}

fn node_ports(service: &Value) -> BTreeSet<i64> {
    items(service, &["spec", "ports"]).iter().map(node_port).filter(|port| *port != 0).collect()
}

fn needs_node_ports(service: &Value) -> bool {
    matches!(kind(service), "NodePort" | "LoadBalancer")
}

/// A change of type takes along what only the old type had, unless the user changed that, too.
fn drop_what_the_type_does_not_need(service: &mut Value, old: &Value) {
    let drop_if_same = |service: &mut Value, field: &str| {
        if same(service, old, &["spec", field]) {
            remove(service, &["spec", field]);
        }
    };
    if kind(old) != "ExternalName" && kind(service) == "ExternalName" {
        if same(service, old, &["spec", "clusterIP"]) && same(service, old, &["spec", "clusterIPs"]) {
            remove(service, &["spec", "clusterIP"]);
            remove(service, &["spec", "clusterIPs"]);
        }
        drop_if_same(service, "ipFamilies");
        drop_if_same(service, "ipFamilyPolicy");
    }
    let released = needs_node_ports(old) && !needs_node_ports(service);
    if released && node_ports(service).is_subset(&node_ports(old)) {
        for port in items_mut(service, &["spec", "ports"]) {
            remove(port, &["nodePort"]);
        }
    }
    if needs_health_check(old) && !needs_health_check(service) {
        drop_if_same(service, "healthCheckNodePort");
    }
    if kind(old) == "LoadBalancer" && kind(service) != "LoadBalancer" {
        drop_if_same(service, "allocateLoadBalancerNodePorts");
        drop_if_same(service, "loadBalancerClass");
    }
    if is_reached_from_outside(old) && !is_reached_from_outside(service) {
        drop_if_same(service, "externalTrafficPolicy");
    }
    if kind(service) != "LoadBalancer" {
        set(service, &["status", "loadBalancer"], json!({}));
    }
}

fn warnings(service: &At<'_, '_>) -> Vec<String> {
    let mut warnings = Vec::new();
    let (spec, metadata) = (service.field("spec"), service.field("metadata"));
    if metadata.field("annotations").key(TOPOLOGY_HINTS).exists() {
        warnings
            .push(format!("annotation {TOPOLOGY_HINTS} is deprecated, please use {TOPOLOGY_MODE} instead"));
    }
    if !matches!(spec.field("clusterIP").str(), "" | "None") {
        warnings.extend(spec.field("clusterIPs").items().filter_map(|ip| checks::ip_warning(&ip)));
    }
    let kind = spec.field("type").str();
    let headless = kind == "ClusterIP" && spec.field("clusterIP").str() == "None";
    let external = spec.field("externalIPs");
    let balancer = spec.field("loadBalancerIP");
    if headless {
        let ignored = [
            (!balancer.str().is_empty(), "loadBalancerIP"),
            (!external.is_empty(), "externalIPs"),
            (spec.field("sessionAffinity").str() != "None", "SessionAffinity"),
        ];
        for (_, field) in ignored.iter().filter(|(set, _)| *set) {
            warnings.push(format!("spec.{field} is ignored for headless services"));
        }
    }
    warnings.extend(external.items().filter_map(|ip| checks::ip_warning(&ip)));
    if !external.is_empty() && !headless && kind != "ExternalName" {
        let text = "spec.externalIPs is deprecated and may no longer be implemented in some clusters";
        warnings.push(text.to_owned());
    }
    warnings.extend(checks::ip_warning(&balancer));
    if kind == "ExternalName" && !external.is_empty() {
        warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if kind != "ExternalName" && !spec.field("externalName").str().is_empty() {
        warnings.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if spec.field("trafficDistribution").str() == "PreferClose" {
        let text = "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"";
        warnings.push(text.to_owned());
    }
    warnings
}
