//! Endpoint slices: where the traffic of a service goes.

use std::{collections::BTreeSet, net::IpAddr};

use serde_json::Value;

use super::{
    Strategy,
    access::{default_to, items_mut, remove, same},
    checks,
    report::{At, Errors},
};
use crate::field::FieldError;

/// The kinds of the group `discovery.k8s.io`.
pub(crate) const STRATEGIES: &[(&str, &str, Strategy)] = &[("v1", "EndpointSlice", ENDPOINT_SLICE)];

const ENDPOINT_SLICE: Strategy = Strategy {
    default,
    prepare_create: drop_topology,
    prepare_update: |object, _| drop_topology(object),
    validate: |object| Errors::of(object, endpoint_slice),
    validate_update,
    warnings,
    generation: Some(|object, old| {
        [&["addressType"][..], &["endpoints"], &["ports"], &["metadata", "labels"]]
            .iter()
            .any(|path| !same(object, old, path))
    }),
    ..Strategy::PLAIN
};

fn default(object: &mut Value) {
    for port in items_mut(object, &["ports"]) {
        default_to(port, &["name"], "");
        default_to(port, &["protocol"], "TCP");
    }
}

/// Writes to the topology of old are dropped.
fn drop_topology(object: &mut Value) {
    for endpoint in items_mut(object, &["endpoints"]) {
        remove(endpoint, &["deprecatedTopology"]);
    }
}

fn endpoint_slice(slice: &At<'_, '_>, errors: &mut Errors) {
    let kind = slice.field("addressType");
    errors.one_of(&kind, &["FQDN", "IPv4", "IPv6"]);
    ports(&slice.field("ports"), errors);
    let endpoints = slice.field("endpoints");
    if endpoints.len() > 1000 {
        errors.too_many(&endpoints, 1000);
        return;
    }
    for endpoint in endpoints.items() {
        addresses(&endpoint.field("addresses"), kind.str(), errors);
        let node = endpoint.field("nodeName");
        if node.exists() {
            errors.each(&node, checks::dns_subdomain(node.str()));
        }
        let hostname = endpoint.field("hostname");
        if hostname.exists() {
            errors.each(&hostname, checks::dns_label(hostname.str()));
        }
        let hints = endpoint.field("hints");
        hint(&hints.field("forZones"), checks::label_value, errors);
        hint(&hints.field("forNodes"), checks::dns_subdomain, errors);
    }
}

fn ports(ports: &At<'_, '_>, errors: &mut Errors) {
    if ports.len() > 20000 {
        errors.too_many(ports, 20000);
        return;
    }
    let mut names = BTreeSet::new();
    for port in ports.items() {
        let name = port.field("name");
        if !name.str().is_empty() {
            errors.each(&name, checks::dns_label(name.str()));
        }
        if !names.insert(name.str()) {
            errors.duplicate(&name, name.str());
        }
        errors.one_of(&port.field("protocol"), &["SCTP", "TCP", "UDP"]);
        let application = port.field("appProtocol");
        if application.exists() {
            errors.each(&application, checks::qualified_name(application.str()));
        }
    }
}

fn addresses(addresses: &At<'_, '_>, kind: &str, errors: &mut Errors) {
    if addresses.is_empty() {
        errors.required(addresses, "must contain at least 1 address");
    } else if addresses.len() > 100 {
        errors.too_many(addresses, 100);
    }
    for address in addresses.items() {
        let before = errors.count();
        match kind {
            "IPv4" => checks::ip(&address, errors),
            "IPv6" => canonical_ip(&address, errors),
            "FQDN" => {
                domain_name(&address, errors);
                continue;
            }
            _ => continue,
        }
        if errors.count() > before {
            continue;
        }
        if checks::parse_ip(address.str()).is_some_and(|ip| ip.is_ipv4() != (kind == "IPv4")) {
            errors.invalid(addresses, address.str(), format!("must be an {kind} address"));
        }
        checks::endpoint_ip(&address, errors);
    }
}

/// An address in the one form that newer fields accept.
pub(crate) fn canonical_ip(at: &At<'_, '_>, errors: &mut Errors) {
    let before = errors.count();
    checks::ip(at, errors);
    if errors.count() == before
        && let Ok(address) = at.str().parse::<IpAddr>()
        && address.to_string() != at.str()
    {
        errors.invalid(at, at.str(), format!("must be in canonical form (\"{address}\")"));
    }
}

fn domain_name(at: &At<'_, '_>, errors: &mut Errors) {
    let name = at.str().strip_suffix('.').unwrap_or(at.str());
    if at.str().is_empty() {
        errors.required(at, "");
        return;
    }
    let reasons = checks::dns_subdomain(name);
    if !reasons.is_empty() {
        errors.invalid(at, name, reasons.join(","));
    } else if !name.contains('.') {
        errors.invalid(at, name, "should be a domain with at least two segments separated by dots");
    } else if let Some(label) = name.split('.').find(|label| !checks::dns_label(label).is_empty()) {
        errors.invalid(at, label, checks::dns_label(label).join(","));
    }
}

fn hint(hints: &At<'_, '_>, check: fn(&str) -> Vec<String>, errors: &mut Errors) {
    if hints.len() > 8 {
        errors.too_many(hints, 8);
        return;
    }
    let mut names: Vec<&str> = Vec::new();
    for hint in hints.items() {
        let name = hint.field("name");
        if names.contains(&name.str()) {
            errors.duplicate(&name, name.str());
        } else {
            names.push(name.str());
        }
        errors.each(&name, check(name.str()));
    }
}

fn validate_update(object: &Value, old: &Value) -> Vec<FieldError> {
    Errors::of(object, |object, errors| {
        endpoint_slice(object, errors);
        errors.immutable(&object.field("addressType"), &At::root(old).field("addressType"));
    })
}

fn warnings(object: &Value, old: Option<&Value>) -> Vec<String> {
    let slice = At::root(object);
    let mut warnings = Vec::new();
    if old.is_none() && slice.field("addressType").str() == "FQDN" {
        warnings.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
    }
    let metadata = slice.field("metadata");
    let labels = metadata.field("labels");
    let controllers = ["endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"];
    if controllers.contains(&labels.field("endpointslice.kubernetes.io/managed-by").str()) {
        return warnings;
    }
    let endpoints = slice.field("endpoints");
    for endpoint in endpoints.items() {
        let addresses = endpoint.field("addresses");
        warnings.extend(addresses.items().filter_map(|address| checks::ip_warning(&address)));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn addresses_are_of_the_kind_that_is_announced() {
        let texts = |kind: &str, addresses: Value| -> Vec<String> {
            let slice = json!({"addressType": kind, "endpoints": [{"addresses": addresses}]});
            Errors::of(&slice, endpoint_slice).iter().map(ToString::to_string).collect()
        };
        assert!(texts("IPv4", json!(["10.0.0.1"])).is_empty());
        assert_eq!(
            texts("Zork", json!(["10.0.0.1"])),
            ["addressType: Unsupported value: \"Zork\": supported values: \"FQDN\", \"IPv4\", \"IPv6\""]
        );
        assert_eq!(
            texts("IPv4", json!(["zork", "fd00::1", "127.0.0.1"])),
            [
                "endpoints[0].addresses[0]: Invalid value: \"zork\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                "endpoints[0].addresses: Invalid value: \"fd00::1\": must be an IPv4 address",
                "endpoints[0].addresses[2]: Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, ::1/128)",
            ]
        );
        assert_eq!(
            texts("IPv6", json!(["FD00::1"])),
            [
                "endpoints[0].addresses[0]: Invalid value: \"FD00::1\": must be in canonical form (\"fd00::1\")"
            ]
        );
        assert_eq!(
            texts("FQDN", json!(["localhost"])),
            [
                "endpoints[0].addresses[0]: Invalid value: \"localhost\": should be a domain with at least two segments separated by dots"
            ]
        );
        assert_eq!(
            texts("IPv4", json!([])),
            ["endpoints[0].addresses: Required value: must contain at least 1 address"]
        );
    }

    #[test]
    fn ports_get_a_name_and_a_protocol() {
        let mut slice = json!({"ports": [{"port": 80}]});
        default(&mut slice);
        assert_eq!(slice, json!({"ports": [{"name": "", "port": 80, "protocol": "TCP"}]}));
    }
}
