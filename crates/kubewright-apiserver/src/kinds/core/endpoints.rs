//! Endpoints: the addresses behind a service, as they were listed before EndpointSlices.

use serde_json::Value;

use super::super::{
    Strategy,
    access::{get_str, items_mut, same, set},
    checks,
    report::{At, Errors},
};

/// What endpoints do.
pub(crate) const STRATEGY: Strategy = Strategy {
    default,
    validate: |endpoints| Errors::of(endpoints, validate),
    validate_update: |endpoints, old| {
        if same(endpoints, old, &["subsets"]) { Vec::new() } else { Errors::of(endpoints, validate) }
    },
    warnings: |endpoints, _| {
        let mut warnings = Vec::new();
        let endpoints = At::root(endpoints);
        for subset in endpoints.field("subsets").items() {
            for list in ["addresses", "notReadyAddresses"] {
                let list = subset.field(list);
                warnings.extend(list.items().filter_map(|address| checks::ip_warning(&address.field("ip"))));
            }
        }
        warnings
    },
    ..Strategy::PLAIN
};

fn default(endpoints: &mut Value) {
    for subset in items_mut(endpoints, &["subsets"]) {
        for port in items_mut(subset, &["ports"]) {
            if get_str(port, &["protocol"]).is_empty() {
                set(port, &["protocol"], "TCP");
            }
        }
    }
}

fn validate(endpoints: &At<'_, '_>, errors: &mut Errors) {
    for subset in endpoints.field("subsets").items() {
        if subset.field("addresses").is_empty() && subset.field("notReadyAddresses").is_empty() {
            errors.required(&subset, "must specify `addresses` or `notReadyAddresses`");
        }
        for list in ["addresses", "notReadyAddresses"] {
            for address in subset.field(list).items() {
                check_address(&address, errors);
            }
        }
        let ports = subset.field("ports");
        for port in ports.items() {
            check_port(&port, ports.len() > 1, errors);
        }
    }
}

fn check_address(address: &At<'_, '_>, errors: &mut Errors) {
    checks::ip(&address.field("ip"), errors);
    let (host, node) = (address.field("hostname"), address.field("nodeName"));
    if !host.str().is_empty() {
        errors.each(&host, checks::dns_label(host.str()));
    }
    if node.exists() {
        errors.each(&node, checks::dns_subdomain(node.str()));
    }
    checks::endpoint_ip(&address.field("ip"), errors);
}

fn check_port(port: &At<'_, '_>, need_name: bool, errors: &mut Errors) {
    let name = port.field("name");
    if !name.str().is_empty() {
        errors.each(&name, checks::dns_label(name.str()));
    } else if need_name {
        errors.required(&name, "");
    }
    checks::port_number(&port.field("port"), errors);
    errors.one_of(&port.field("protocol"), &["SCTP", "TCP", "UDP"]);
    let protocol = port.field("appProtocol");
    if protocol.exists() {
        errors.each(&protocol, checks::qualified_name(protocol.str()));
    }
}
