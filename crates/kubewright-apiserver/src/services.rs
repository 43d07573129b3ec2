//! Addresses and node ports of services: who has which, and the next free one.
//!
//! What is taken follows from the stored services. A write reserves what it needs before it is stored, so
//! that two writes under way never get the same; a write that fails gives back what it had reserved.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
    ops::RangeInclusive,
};

use serde_json::{Value, json};

use crate::{
    entropy::Entropy,
    field::{FieldError, Path},
    kinds::access,
};

/// The addresses services get: 10.96.0.0/16 without its first and last.
const NETWORK: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 0);
const ADDRESSES: u32 = 1 << 16;
const NODE_PORTS: RangeInclusive<u16> = 30000..=32767;

/// What services have, by service and by thing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Allocations {
    addresses: BTreeMap<Ipv4Addr, String>,
    ports: BTreeMap<u16, String>,
    services: BTreeMap<String, Held>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Held {
    addresses: Vec<Ipv4Addr>,
    ports: Vec<u16>,
}

impl Held {
    fn of(service: &Value) -> Self {
        let addresses = access::items(service, &["spec", "clusterIPs"]);
        let ports = access::items(service, &["spec", "ports"])
            .iter()
            .map(|port| access::get_i64(port, &["nodePort"]));
        let health = access::get_i64(service, &["spec", "healthCheckNodePort"]);
        Self {
            addresses: addresses
                .iter()
                .filter_map(|address| address.as_str()?.parse().ok())
                .filter(|address| in_network(*address))
                .collect(),
            ports: ports
                .chain([health])
                .flatten()
                .filter_map(|port| u16::try_from(port).ok())
                .filter(|p| *p > 0)
                .collect(),
        }
    }
}

impl Allocations {
    /// Makes what `key` has exactly what the stored service says; nothing if there is none.
    pub(crate) fn record(&mut self, key: &str, service: Option<&Value>) {
        self.release(key);
        if let Some(service) = service {
            self.hold(key, Held::of(service));
        }
    }

    fn release(&mut self, key: &str) {
        let Some(held) = self.services.remove(key) else { return };
        held.addresses.iter().for_each(|address| {
            self.addresses.remove(address);
        });
        held.ports.iter().for_each(|port| {
            self.ports.remove(port);
        });
    }

    fn hold(&mut self, key: &str, held: Held) {
        for address in &held.addresses {
            self.addresses.insert(*address, key.to_owned());
        }
        for port in &held.ports {
            self.ports.insert(*port, key.to_owned());
        }
        if held != Held::default() {
            self.services.insert(key.to_owned(), held);
        }
    }

    /// Gives a service the address and ports it lacks, and reserves what it asks for by number. A dry run
    /// sees what would be refused, but reserves nothing.
    pub(crate) fn allocate(
        &mut self,
        key: &str,
        service: &mut Value,
        entropy: &Entropy,
        dry_run: bool,
    ) -> Vec<FieldError> {
        if access::get_str(service, &["spec", "type"]) == "ExternalName" {
            if !dry_run {
                self.release(key);
            }
            return Vec::new();
        }
        let mut errors = set_families(service);
        self.allocate_address(key, service, entropy, dry_run, &mut errors);
        self.allocate_ports(key, service, entropy, &mut errors);
        if errors.is_empty() && !dry_run {
            self.record(key, Some(service));
        }
        errors
    }

    fn allocate_address(
        &self,
        key: &str,
        service: &mut Value,
        entropy: &Entropy,
        dry_run: bool,
        errors: &mut Vec<FieldError>,
    ) {
        let wanted = access::get_str(service, &["spec", "clusterIP"]).to_owned();
        if wanted == "None" {
            return;
        }
        if wanted.is_empty() {
            let address = match dry_run {
                true => Some(NETWORK),
                false => self.free_address(entropy),
            };
            match address {
                Some(address) => {
                    access::set(service, &["spec", "clusterIP"], address.to_string());
                    access::set(service, &["spec", "clusterIPs"], json!([address.to_string()]));
                }
                None => errors.push(FieldError::internal(
                    &Path::new("spec.clusterIPs"),
                    "failed to allocate a serviceIP: range is full",
                )),
            }
            return;
        }
        let Ok(address) = wanted.parse::<Ipv4Addr>() else { return }; // not an address: validation says so
        let why = if !in_network(address) {
            "the provided network does not match the current range"
        } else if self.addresses.get(&address).is_some_and(|owner| owner != key) {
            "provided IP is already allocated"
        } else {
            return;
        };
        let shown = access::get(service, &["spec", "clusterIPs"]).cloned().unwrap_or_else(|| json!([wanted]));
        let detail = format!("failed to allocate IP {wanted}: {why}");
        errors.push(FieldError::invalid(&Path::new("spec.clusterIPs"), shown, detail));
    }

    fn free_address(&self, entropy: &Entropy) -> Option<Ipv4Addr> {
        // What is held is of the network, so the count tells without a search that all of it is.
        if self.addresses.len() >= (ADDRESSES - 2) as usize {
            return None;
        }
        let start = u32::try_from(entropy.within(1..u64::from(ADDRESSES) - 1)).unwrap_or(1);
        let base = u32::from(NETWORK);
        // Neither the first (the network) nor the last (broadcast).
        (0..ADDRESSES - 2)
            .map(|step| Ipv4Addr::from(base + 1 + (start + step) % (ADDRESSES - 2)))
            .find(|address| !self.addresses.contains_key(address))
    }

    fn allocate_ports(
        &self,
        key: &str,
        service: &mut Value,
        entropy: &Entropy,
        errors: &mut Vec<FieldError>,
    ) {
        let kind = access::get_str(service, &["spec", "type"]).to_owned();
        let balanced = kind == "LoadBalancer";
        let opted_out = balanced
            && access::get(service, &["spec", "allocateLoadBalancerNodePorts"]).and_then(Value::as_bool)
                == Some(false);
        if kind != "NodePort" && !balanced {
            return;
        }
        let mut own = BTreeSet::new();
        let mut full = false;
        let path = Path::new("spec.ports");
        for (index, port) in access::items_mut(service, &["spec", "ports"]).iter_mut().enumerate() {
            let wanted = access::get_i64(port, &["nodePort"]).unwrap_or(0);
            if wanted == 0 {
                if opted_out {
                    continue;
                }
                let free = if full { None } else { self.free_port(&own, entropy) };
                match free {
                    Some(number) => {
                        access::set(port, &["nodePort"], number);
                        own.insert(number);
                    }
                    None => {
                        full = true;
                        errors.push(FieldError::internal(
                            &path.index(index).child("nodePort"),
                            "failed to allocate a nodePort: range is full",
                        ));
                    }
                }
                continue;
            }
            let at = path.index(index).child("nodePort");
            match self.check_port(key, wanted) {
                Ok(number) => drop(own.insert(number)),
                Err(why) => errors.push(FieldError::invalid(&at, wanted, why)),
            }
        }
        let local = access::get_str(service, &["spec", "externalTrafficPolicy"]) == "Local";
        let health = access::get_i64(service, &["spec", "healthCheckNodePort"]).unwrap_or(0);
        if balanced && local && health == 0 {
            if let Some(number) = self.free_port(&own, entropy) {
                access::set(service, &["spec", "healthCheckNodePort"], number);
            }
        } else if balanced
            && local
            && let Err(why) = self.check_port(key, health)
        {
            errors.push(FieldError::invalid(&Path::new("spec.healthCheckNodePort"), health, why));
        }
    }

    fn check_port(&self, key: &str, wanted: i64) -> Result<u16, String> {
        let number = u16::try_from(wanted).ok().filter(|number| NODE_PORTS.contains(number));
        let Some(number) = number else {
            return Err(format!(
                "provided port is not in the valid range. The range of valid ports is {}-{}",
                NODE_PORTS.start(),
                NODE_PORTS.end()
            ));
        };
        match self.ports.get(&number) {
            Some(owner) if owner != key => Err("provided port is already allocated".to_owned()),
            _ => Ok(number),
        }
    }

    fn free_port(&self, own: &BTreeSet<u16>, entropy: &Entropy) -> Option<u16> {
        let (first, last) = (u64::from(*NODE_PORTS.start()), u64::from(*NODE_PORTS.end()));
        let count = last - first + 1;
        let start = entropy.within(0..count);
        (0..count)
            .filter_map(|step| u16::try_from(first + (start + step) % count).ok())
            .find(|port| !self.ports.contains_key(port) && !own.contains(port))
    }
}

fn in_network(address: Ipv4Addr) -> bool {
    let offset = u32::from(address).wrapping_sub(u32::from(NETWORK));
    offset > 0 && offset < ADDRESSES - 1
}

/// The address families of a cluster that has IPv4 only.
fn set_families(service: &mut Value) -> Vec<FieldError> {
    let headless = access::get_str(service, &["spec", "clusterIP"]) == "None";
    let selectorless = access::entries(service, &["spec", "selector"]).next().is_none();
    let policy = access::get_str(service, &["spec", "ipFamilyPolicy"]).to_owned();
    let families: Vec<String> = access::items(service, &["spec", "ipFamilies"])
        .iter()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    if headless && selectorless {
        // Nothing here serves it, so both families may be in it.
        if families.is_empty() {
            let both = policy.is_empty() || policy != "SingleStack";
            let list = if both { json!(["IPv4", "IPv6"]) } else { json!(["IPv4"]) };
            access::set(service, &["spec", "ipFamilies"], list);
            access::default_to(service, &["spec", "ipFamilyPolicy"], "RequireDualStack");
        } else {
            let policy = if families.len() > 1 { "RequireDualStack" } else { "SingleStack" };
            access::default_to(service, &["spec", "ipFamilyPolicy"], policy);
        }
        return Vec::new();
    }
    let mut errors = Vec::new();
    if policy == "RequireDualStack" {
        let detail = "this cluster is not configured for dual-stack services";
        errors.push(FieldError::invalid(&Path::new("spec.ipFamilyPolicy"), policy.as_str(), detail));
    }
    for (index, family) in families.iter().enumerate().filter(|(_, family)| *family == "IPv6") {
        let path = Path::new("spec.ipFamilies").index(index);
        errors.push(FieldError::invalid(&path, family.as_str(), "not configured on this cluster"));
    }
    if families.is_empty() {
        access::set(service, &["spec", "ipFamilies"], json!(["IPv4"]));
    }
    access::default_to(service, &["spec", "ipFamilyPolicy"], "SingleStack");
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(spec: Value) -> Value {
        json!({"metadata": {"name": "s"}, "spec": spec})
    }

    fn allocate(taken: &mut Allocations, key: &str, spec: Value) -> Result<Value, String> {
        let mut object = service(spec);
        let errors = taken.allocate(key, &mut object, &Entropy::seeded(1), false);
        if errors.is_empty() { Ok(object) } else { Err(errors.iter().map(ToString::to_string).collect()) }
    }

    #[test]
    fn two_services_never_get_the_same_address_or_port() {
        let mut taken = Allocations::default();
        let ports = json!({"type": "NodePort", "ports": [{"port": 80}, {"port": 81}]});
        let (a, b) =
            (allocate(&mut taken, "a", ports.clone()).unwrap(), allocate(&mut taken, "b", ports).unwrap());
        let held = [Held::of(&a), Held::of(&b)];
        assert_ne!(held[0].addresses, held[1].addresses);
        assert!(held[0].ports.iter().all(|port| NODE_PORTS.contains(port) && !held[1].ports.contains(port)));
        assert_ne!(held[0].ports[0], held[0].ports[1]);
    }

    #[test]
    fn what_a_deleted_service_had_is_free_again() {
        let mut taken = Allocations::default();
        let spec = json!({"type": "NodePort", "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"], "ports": [{"port": 80, "nodePort": 30080}]});
        allocate(&mut taken, "a", spec.clone()).unwrap();
        let refused = allocate(&mut taken, "b", spec.clone()).unwrap_err();
        assert!(refused.contains("provided IP is already allocated"), "{refused}");
        assert!(refused.contains("provided port is already allocated"), "{refused}");
        taken.record("a", None);
        allocate(&mut taken, "b", spec).unwrap();
    }

    #[test]
    fn the_last_address_is_found_and_then_the_range_is_full() {
        let mut taken = Allocations::default();
        let base = u32::from(NETWORK);
        for offset in 1..ADDRESSES - 2 {
            let address = Ipv4Addr::from(base + offset).to_string();
            taken.record(&address, Some(&service(json!({"clusterIPs": [address]}))));
        }
        // Not of the network, so it takes no place in it.
        taken.record("elsewhere", Some(&service(json!({"clusterIPs": ["10.97.0.1"]}))));
        let last = allocate(&mut taken, "last", json!({})).unwrap();
        assert_eq!(last["spec"]["clusterIP"], Ipv4Addr::from(base + ADDRESSES - 2).to_string());
        let refused = allocate(&mut taken, "late", json!({})).unwrap_err();
        assert!(refused.contains("range is full"), "{refused}");
    }

    #[test]
    fn a_dry_run_reserves_nothing() {
        let mut taken = Allocations::default();
        let mut object = service(json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}]}));
        assert!(taken.allocate("a", &mut object, &Entropy::seeded(1), true).is_empty());
        assert!(taken.services.is_empty() && taken.ports.is_empty());
    }
}
