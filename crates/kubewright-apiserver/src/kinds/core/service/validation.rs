//! Whether a service can be accepted: new, as the successor of another, and its status.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    super::super::{
        access::{get_str, items},
        checks,
        report::{At, Errors},
    },
    TOPOLOGY_HINTS, TOPOLOGY_MODE, is_reached_from_outside, needs_health_check,
};
use crate::field::FieldError;

fn is_headless(spec: &At<'_, '_>) -> bool {
    let ips = spec.field("clusterIPs");
    ips.len() == 1 && ips.index(0).str() == "None"
}

pub(super) fn check(service: &At<'_, '_>, old: Option<&At<'_, '_>>, errors: &mut Errors) {
    let (spec, metadata) = (service.field("spec"), service.field("metadata"));
    let annotations = metadata.field("annotations");
    let (hints, mode) = (annotations.key(TOPOLOGY_HINTS), annotations.key(TOPOLOGY_MODE));
    if hints.exists() && mode.exists() && hints.str() != mode.str() {
        let text = format!("must match annotations[{TOPOLOGY_HINTS}] when both are specified");
        errors.invalid(&mode, mode.str(), text);
    }
    let (ports, kind) = (spec.field("ports"), spec.field("type"));
    let headless = is_headless(&spec);
    if ports.is_empty() && !headless && kind.str() != "ExternalName" {
        errors.required(&ports, "");
    }
    by_type(&spec, headless, errors);
    let mut names = BTreeSet::new();
    for port in ports.items() {
        check_port(&port, ports.len() > 1, &mut names, errors);
    }
    checks::labels(&spec.field("selector"), errors);
    session_affinity(&spec, errors);
    cluster_ips(&spec, old, errors);
    for ip in spec.field("externalIPs").items() {
        let before = errors.count();
        let nothing = At::root(&Value::Null);
        let old_spec = old.unwrap_or(&nothing).field("spec");
        checks::ip_unless_in(&ip, &old_spec.field("externalIPs"), errors);
        if errors.count() == before {
            checks::endpoint_ip(&ip, errors);
        }
    }
    errors.one_of(&kind, &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]);
    repeated_ports(&spec, errors);
    load_balancer(service, errors);
    traffic(service, errors);
}

fn by_type(spec: &At<'_, '_>, headless: bool, errors: &mut Errors) {
    match spec.field("type").str() {
        kind @ ("LoadBalancer" | "NodePort") if headless => {
            let text = format!("may not be set to 'None' for {kind} services");
            errors.invalid(&spec.field("clusterIPs").index(0), "None", text);
        }
        "ExternalName" => {
            for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                let field = spec.field(field);
                if field.exists() && (!field.is_empty() || !field.str().is_empty()) {
                    errors.forbidden(&field, "may not be set for ExternalName services");
                }
            }
            let name = spec.field("externalName");
            let domain = name.str().strip_suffix('.').unwrap_or(name.str());
            if domain.is_empty() {
                errors.required(&name, "");
            } else {
                for reason in checks::dns_subdomain(domain) {
                    errors.invalid(&name, domain, reason);
                }
            }
        }
        _ => {}
    }
}

fn check_port<'v>(port: &At<'v, '_>, need_name: bool, names: &mut BTreeSet<&'v str>, errors: &mut Errors) {
    let name = port.field("name");
    if !name.str().is_empty() {
        errors.each(&name, checks::dns_label(name.str()));
        if !names.insert(name.str()) {
            errors.duplicate(&name, name.str());
        }
    } else if need_name {
        errors.required(&name, "");
    }
    checks::port_number(&port.field("port"), errors);
    errors.one_of(&port.field("protocol"), &["SCTP", "TCP", "UDP"]);
    checks::port(&port.field("targetPort"), errors);
    let protocol = port.field("appProtocol");
    if protocol.exists() {
        errors.each(&protocol, checks::qualified_name(protocol.str()));
    }
}

fn session_affinity(spec: &At<'_, '_>, errors: &mut Errors) {
    let (affinity, config) = (spec.field("sessionAffinity"), spec.field("sessionAffinityConfig"));
    errors.one_of(&affinity, &["ClientIP", "None"]);
    let client = config.field("clientIP");
    let timeout = client.field("timeoutSeconds");
    match affinity.str() {
        "ClientIP" => {
            let missing = [&config, &client, &timeout].into_iter().find(|part| !part.exists());
            if let Some(missing) = missing {
                errors.required(missing, "when session affinity type is ClientIP");
            } else if !(1..=86400).contains(&timeout.int()) {
                errors.invalid(&timeout, timeout.int(), "must be greater than 0 and less than 86400");
            }
        }
        "None" if config.exists() => {
            errors.forbidden(&config, "must not be set when session affinity is None");
        }
        _ => {}
    }
}

fn cluster_ips(spec: &At<'_, '_>, old: Option<&At<'_, '_>>, errors: &mut Errors) {
    if spec.field("type").str() == "ExternalName" {
        return;
    }
    let (ips, single) = (spec.field("clusterIPs"), spec.field("clusterIP").str());
    if !single.is_empty() && ips.is_empty() {
        errors.required(&ips, "");
    } else if !single.is_empty() && ips.index(0).str() != single {
        errors.invalid(&ips, ips.shown(), "first value must match `clusterIP`");
    } else if single.is_empty() && !ips.is_empty() {
        errors.invalid(&ips, ips.shown(), "must be empty when `clusterIP` is not specified");
    }
    let families = spec.field("ipFamilies");
    let mut seen = BTreeSet::new();
    for family in families.items() {
        errors.optional_one_of(&family, &["IPv4", "IPv6"]);
        if !seen.insert(family.str()) {
            errors.duplicate(&family, family.str());
        }
    }
    let policies = &["PreferDualStack", "RequireDualStack", "SingleStack"];
    errors.optional_one_of(&spec.field("ipFamilyPolicy"), policies);
    let before = errors.count();
    let nothing = At::root(&Value::Null);
    let old_spec = old.unwrap_or(&nothing).field("spec");
    for (index, ip) in ips.items().enumerate() {
        if index == 0 && ip.str() == "None" {
            if ips.len() > 1 {
                errors.invalid(&ips, ips.shown(), "'None' must be the first and only value");
            }
            continue;
        }
        checks::ip_unless_in(&ip, &old_spec.field("clusterIPs"), errors);
    }
    let faulty = errors.count() != before;
    if ips.len() > 2 {
        errors.invalid(&ips, ips.shown(), "may only hold up to 2 values");
    }
    if faulty {
        return;
    }
    let is_v6 = |text: &str| text.contains(':');
    if ips.len() > 1 {
        let kinds: BTreeSet<bool> = ips.strings().map(is_v6).collect();
        if kinds.len() != 2 {
            errors.invalid(&ips, ips.shown(), "may specify no more than one IP for each IP family");
        }
    }
    if !is_headless(spec) {
        for (index, (ip, family)) in ips.items().zip(families.strings()).enumerate() {
            if (family == "IPv6") != is_v6(ip.str()) && matches!(family, "IPv4" | "IPv6") {
                let text = format!("expected an {family} value as indicated by `ipFamilies[{index}]`");
                errors.invalid(&ip, ip.str(), text);
            }
        }
    }
}

fn repeated_ports(spec: &At<'_, '_>, errors: &mut Errors) {
    let ports = spec.field("ports");
    if spec.field("type").str() == "ClusterIP" {
        for port in ports.items().filter(|port| port.field("nodePort").int() != 0) {
            errors.forbidden(&port.field("nodePort"), "may not be used when `type` is 'ClusterIP'");
        }
    }
    let mut node_ports = BTreeSet::new();
    for port in ports.items() {
        let number = port.field("nodePort");
        if number.int() != 0 && !node_ports.insert((port.field("protocol").str(), number.int())) {
            errors.duplicate(&number, number.int());
        }
    }
    let mut numbers = BTreeSet::new();
    for port in ports.items() {
        let (protocol, number) = (port.field("protocol").str(), port.field("port").int());
        if !numbers.insert((protocol, number)) {
            // The real server shows its own type for the pair, with the names and order of Go.
            let shown = format!(
                r#"{{"Name":"","Protocol":"{protocol}","AppProtocol":null,"Port":{number},"TargetPort":0,"NodePort":0}}"#
            );
            errors.duplicate_text(&port, shown);
        }
    }
}

fn load_balancer(service: &At<'_, '_>, errors: &mut Errors) {
    const ONLY: &str = "may only be used when `type` is 'LoadBalancer'";
    const RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
    let spec = service.field("spec");
    let balanced = spec.field("type").str() == "LoadBalancer";
    let ranges = spec.field("loadBalancerSourceRanges");
    let place = spec.field("LoadBalancerSourceRanges");
    let metadata = service.field("metadata");
    let annotations = metadata.field("annotations");
    let annotation = annotations.key(RANGES);
    if !ranges.is_empty() {
        if !balanced {
            errors.forbidden(&place, ONLY);
        }
        for (index, range) in ranges.strings().enumerate() {
            checks::cidr(&place.index(index), range.trim(), errors);
        }
    } else if annotation.exists() {
        if !balanced {
            errors.forbidden(&annotation, ONLY);
        }
        for range in
            annotation.str().split(',').map(str::trim).filter(|_| !annotation.str().trim().is_empty())
        {
            checks::cidr(&annotation, range, errors);
        }
    }
    let allocate = spec.field("allocateLoadBalancerNodePorts");
    if allocate.exists() && !balanced {
        errors.forbidden(&allocate, ONLY);
    }
    let class = spec.field("loadBalancerClass");
    if class.exists() && balanced {
        errors.each(&class, checks::qualified_name(class.str()));
    } else if class.exists() {
        errors.forbidden(&class, ONLY);
    }
}

fn traffic(service: &At<'_, '_>, errors: &mut Errors) {
    let Some(object) = service.value() else { return };
    let spec = service.field("spec");
    let external = spec.field("externalTrafficPolicy");
    if is_reached_from_outside(object) {
        errors.one_of(&external, &["Cluster", "Local"]);
    } else if !external.str().is_empty() {
        let text = "may only be set for externally-accessible services";
        errors.invalid(&external, external.str(), text);
    }
    let health = spec.field("healthCheckNodePort");
    if needs_health_check(object) {
        if health.int() == 0 {
            errors.required(&health, "");
        } else {
            checks::port_number(&health, errors);
        }
    } else if health.int() != 0 {
        let text = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        errors.invalid(&health, health.int(), text);
    }
    let internal = spec.field("internalTrafficPolicy");
    errors.optional_one_of(&internal, &["Cluster", "Local"]);
    let distribution = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    errors.optional_one_of(&spec.field("trafficDistribution"), &distribution);
}

pub(super) fn changes(service: &At<'_, '_>, old: &At<'_, '_>, errors: &mut Errors) {
    let (spec, was) = (service.field("spec"), old.field("spec"));
    let external = |spec: &At<'_, '_>| spec.field("type").str() == "ExternalName";
    if !external(&spec) && !external(&was) {
        let (headless, was_headless) = (is_headless(&spec), is_headless(&was));
        if !(headless && was_headless) {
            kept_in_order(&spec, &was, "clusterIPs", "clusterIP", errors);
        }
        if !headless && !was_headless {
            kept_in_order(&spec, &was, "ipFamilies", "ipFamily", errors);
        }
    }
    let balanced = |spec: &At<'_, '_>| spec.field("type").str() == "LoadBalancer";
    let (class, old_class) = (spec.field("loadBalancerClass"), was.field("loadBalancerClass"));
    if balanced(&spec) && balanced(&was) && class.value() != old_class.value() {
        errors.invalid(&class, class.shown(), "may not change once set");
    }
    let both = service.value().is_some_and(needs_health_check) && old.value().is_some_and(needs_health_check);
    let health = spec.field("healthCheckNodePort");
    if both && health.int() != was.field("healthCheckNodePort").int() {
        errors.forbidden(&health, "field is immutable");
    }
}

/// A second address or family may come and go; the first one stays.
fn kept_in_order(spec: &At<'_, '_>, was: &At<'_, '_>, field: &str, single: &str, errors: &mut Errors) {
    let (now, before) = (spec.field(field), was.field(field));
    if now.len() == before.len() {
        for (index, (one, other)) in now.strings().zip(before.strings()).enumerate() {
            if one != other {
                let index = if field == "ipFamilies" { 0 } else { index };
                errors.invalid(&now.index(index), now.shown(), "may not change once set");
            }
        }
        return;
    }
    if now.is_empty() {
        errors.invalid(&now.index(0), json!([]), format!("primary {single} can not be unset"));
    } else if !before.is_empty() && now.index(0).str() != before.index(0).str() {
        errors.invalid(&now.index(0), now.shown(), "may not change once set");
    }
    let policy = spec.field("ipFamilyPolicy");
    if before.len() > now.len() && now.len() == 1 && policy.str() != "SingleStack" {
        let text = format!("must be set to 'SingleStack' when releasing the secondary {single}");
        errors.invalid(&policy, policy.shown(), text);
    }
}

pub(super) fn status_update(service: &Value, old: &Value) -> Vec<FieldError> {
    Errors::of(service, |service, errors| {
        let (spec, status) = (service.field("spec"), service.field("status"));
        let balancer = status.field("loadBalancer");
        let ingress = balancer.field("ingress");
        if spec.field("type").str() != "LoadBalancer" {
            if !ingress.is_empty() {
                errors.forbidden(&ingress, "may only be used when `spec.type` is 'LoadBalancer'");
            }
            return;
        }
        let known = items(old, &["status", "loadBalancer", "ingress"]);
        for entry in ingress.items() {
            let (ip, mode, host) = (entry.field("ip"), entry.field("ipMode"), entry.field("hostname"));
            if !ip.str().is_empty() && !known.iter().any(|one| get_str(one, &["ip"]) == ip.str()) {
                checks::ip(&ip, errors);
            }
            if !mode.exists() && !ip.str().is_empty() {
                errors.required(&mode, "must be specified when `ip` is set");
            } else if mode.exists() && ip.str().is_empty() {
                errors.forbidden(&mode, "may not be specified when `ip` is not set");
            } else {
                errors.optional_one_of(&mode, &["Proxy", "VIP"]);
            }
            if !host.str().is_empty() {
                errors.each(&host, checks::dns_subdomain(host.str()));
                if checks::parse_ip(host.str()).is_some() {
                    errors.invalid(&host, host.str(), "must be a DNS name, not an IP address");
                }
            }
        }
    })
}
