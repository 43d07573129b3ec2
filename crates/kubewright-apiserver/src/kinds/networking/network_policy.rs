//! Network policies: who may talk to a pod, and to whom it may talk.

use serde_json::Value;

use super::addresses::Range;
use crate::kinds::{
    Strategy,
    access::{default_to, items, items_mut, remove, set},
    checks,
    lifecycle::spec_changed,
    report::{At, Errors},
};

pub(super) const NETWORK_POLICY: Strategy = Strategy {
    default,
    validate: |object| Errors::of(object, |policy, errors| spec(&policy.field("spec"), errors)),
    validate_update: |object, _| Errors::of(object, |policy, errors| spec(&policy.field("spec"), errors)),
    warnings: |object, _| warnings(object),
    generation: Some(spec_changed),
    ..Strategy::PLAIN
};

/// The two directions: the rules, and the peers of a rule.
const DIRECTIONS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];

fn default(object: &mut Value) {
    for (direction, _) in DIRECTIONS {
        for rule in items_mut(object, &["spec", direction]) {
            for port in items_mut(rule, &["ports"]) {
                default_to(port, &["protocol"], "TCP");
            }
        }
    }
    if items(object, &["spec", "policyTypes"]).is_empty() {
        let types = if items(object, &["spec", "egress"]).is_empty() {
            vec!["Ingress"]
        } else {
            vec!["Ingress", "Egress"]
        };
        remove(object, &["spec", "policyTypes"]);
        set(object, &["spec", "policyTypes"], types);
    }
}

fn spec(spec: &At<'_, '_>, errors: &mut Errors) {
    checks::label_selector(&spec.field("podSelector"), errors);
    for (direction, peers) in DIRECTIONS {
        let rules = spec.field(direction);
        for rule in rules.items() {
            let ports = rule.field("ports");
            for one in ports.items() {
                port(&one, errors);
            }
            let peers = rule.field(peers);
            for one in peers.items() {
                peer(&one, errors);
            }
        }
    }
    let types = spec.field("policyTypes");
    if types.len() > 2 {
        errors.invalid(&types, types.shown(), "may not specify more than two policyTypes");
        return;
    }
    for kind in types.items() {
        errors.optional_one_of(&kind, &["Ingress", "Egress"]);
    }
}

fn port(at: &At<'_, '_>, errors: &mut Errors) {
    errors.optional_one_of(&at.field("protocol"), &["TCP", "UDP", "SCTP"]);
    let (port, end) = (at.field("port"), at.field("endPort"));
    match port.value() {
        None if end.exists() => {
            errors.invalid(&end, end.int(), "may not be specified when `port` is not specified");
        }
        None => {}
        Some(Value::String(name)) => {
            if end.exists() {
                errors.invalid(&end, end.int(), "may not be specified when `port` is non-numeric");
            }
            errors.each(&port, checks::port_name(name));
        }
        Some(_) => {
            checks::port_number(&port, errors);
            if end.exists() {
                if end.int() < port.int() {
                    errors.invalid(&end, port.int(), "must be greater than or equal to `port`");
                }
                checks::port_number(&end, errors);
            }
        }
    }
}

fn peer(peer: &At<'_, '_>, errors: &mut Errors) {
    let (pods, namespaces, block) =
        (peer.field("podSelector"), peer.field("namespaceSelector"), peer.field("ipBlock"));
    for selector in [&pods, &namespaces] {
        checks::label_selector(selector, errors);
    }
    if block.exists() {
        ip_block(&block, errors);
    }
    let selects = pods.exists() || namespaces.exists();
    if !selects && !block.exists() {
        errors.required(peer, "must specify a peer");
    } else if selects && block.exists() {
        errors.forbidden(peer, "may not specify both ipBlock and another peer");
    }
}

fn ip_block(block: &At<'_, '_>, errors: &mut Errors) {
    let cidr = block.field("cidr");
    if cidr.str().is_empty() {
        errors.required(&cidr, "");
        return;
    }
    checks::cidr(&cidr, cidr.str(), errors);
    let Some(range) = Range::parse(cidr.str()) else { return };
    let exceptions = block.field("except");
    for exception in exceptions.items() {
        checks::cidr(&exception, exception.str(), errors);
        if Range::parse(exception.str()).is_some_and(|inner| !range.strictly_contains(inner)) {
            errors.invalid(&exception, exception.str(), "must be a strict subset of `cidr`");
        }
    }
}

/// Ranges of IPv6 that are not written the canonical way.
fn warnings(object: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut look_at = |at: &At<'_, '_>| {
        if let Some(range) = Range::parse(at.str()).filter(|range| !range.is_ipv4())
            && range.canonical() != at.str()
        {
            warnings.push(format!(
                "{}: IPv6 CIDR value \"{}\" should be in RFC 5952 canonical format (\"{}\")",
                at.path(),
                at.str(),
                range.canonical()
            ));
        }
    };
    let root = At::root(object);
    let spec = root.field("spec");
    for (direction, peers) in DIRECTIONS {
        let rules = spec.field(direction);
        for rule in rules.items() {
            let peers = rule.field(peers);
            for peer in peers.items() {
                let block = peer.field("ipBlock");
                look_at(&block.field("cidr"));
                let exceptions = block.field("except");
                exceptions.items().for_each(|exception| look_at(&exception));
            }
        }
    }
    warnings
}
