//! The addresses services have, and the ranges these come from.

use std::net::IpAddr;

use serde_json::{Value, json};

use crate::{
    field::FieldError,
    kinds::{
        Strategy,
        access::same,
        checks,
        discovery::canonical_ip,
        internal_form::{Absent, internal_form},
        lifecycle::keep_status,
        report::{At, Errors},
        status::{drop_status, keep_spec_and_metadata},
    },
    names,
};

pub(super) const IP_ADDRESS: Strategy = Strategy {
    validate: |object| Errors::of(object, ip_address),
    validate_update: |object, old| {
        Errors::of(object, |address, errors| {
            ip_address(address, errors);
            if !same(object, old, &["spec", "parentRef"]) {
                let spec = address.field("spec");
                let parent = spec.field("parentRef");
                let shown = internal_form(
                    &parent,
                    &[
                        ("group", "Group", Absent::Text),
                        ("resource", "Resource", Absent::Text),
                        ("namespace", "Namespace", Absent::Text),
                        ("name", "Name", Absent::Text),
                    ],
                );
                errors.invalid_unshown(&parent, format!("{shown}: field is immutable"));
            }
        })
    },
    ..Strategy::PLAIN
};

pub(super) const SERVICE_CIDR: Strategy = Strategy {
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_status_update: keep_spec_and_metadata,
    validate: |object| Errors::of(object, |cidr, errors| ranges(&cidr.field("spec").field("cidrs"), errors)),
    validate_update: service_cidr_update,
    ..Strategy::PLAIN
};

fn ip_address(address: &At<'_, '_>, errors: &mut Errors) {
    canonical_ip(&address.field("metadata").field("name"), errors);
    let spec = address.field("spec");
    let parent = spec.field("parentRef");
    if !parent.exists() {
        errors.required(&parent, "");
        return;
    }
    let group = parent.field("group");
    if !group.str().is_empty() {
        errors.each(&group, checks::dns_subdomain(group.str()));
    }
    for (field, required) in [("resource", true), ("name", true), ("namespace", false)] {
        let part = parent.field(field);
        if !part.str().is_empty() {
            errors.each(&part, names::path_segment(part.str()));
        } else if required {
            errors.required(&part, "");
        }
    }
}

/// A range of addresses, as leniently read as [`checks::parse_ip`] reads an address.
#[derive(Clone, Copy)]
pub(super) struct Range {
    network: IpAddr,
    prefix: u32,
}

impl Range {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (address, length) = text.split_once('/')?;
        let address = checks::parse_ip(address)?;
        let prefix: u32 = length.parse().ok()?;
        let network = match address {
            IpAddr::V4(address) if prefix <= 32 => {
                let mask = u32::MAX.checked_shl(32 - prefix).unwrap_or(0);
                IpAddr::V4((u32::from(address) & mask).into())
            }
            IpAddr::V6(address) if prefix <= 128 => {
                let mask = u128::MAX.checked_shl(128 - prefix).unwrap_or(0);
                IpAddr::V6((u128::from(address) & mask).into())
            }
            _ => return None,
        };
        Some(Self { network, prefix })
    }

    /// Whether `inner` lies in this range and is smaller.
    pub(super) fn strictly_contains(self, inner: Self) -> bool {
        let same_family = self.network.is_ipv4() == inner.network.is_ipv4();
        let widened = Self::parse(&format!("{}/{}", inner.network, self.prefix));
        same_family
            && self.prefix < inner.prefix
            && widened.is_some_and(|widened| widened.network == self.network)
    }

    pub(super) fn is_ipv4(self) -> bool {
        self.network.is_ipv4()
    }

    /// The one way to write this range.
    pub(super) fn canonical(self) -> String {
        format!("{}/{}", self.network, self.prefix)
    }
}

fn ranges(cidrs: &At<'_, '_>, errors: &mut Errors) {
    if cidrs.is_empty() {
        errors.required(cidrs, "at least one CIDR required");
        return;
    }
    if cidrs.len() > 2 {
        errors.invalid(cidrs, json!({"CIDRs": cidrs.shown()}), "may only hold up to 2 values");
        return;
    }
    for cidr in cidrs.items() {
        let before = errors.count();
        checks::cidr(&cidr, cidr.str(), errors);
        if errors.count() == before
            && let Some(canonical) = Range::parse(cidr.str()).map(Range::canonical)
            && canonical != cidr.str()
        {
            errors.invalid(&cidr, cidr.str(), format!("must be in canonical form (\"{canonical}\")"));
        }
    }
    let families: Vec<bool> = cidrs.strings().filter_map(Range::parse).map(Range::is_ipv4).collect();
    if let [one, other] = families[..]
        && one == other
    {
        let why = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        errors.invalid(cidrs, cidrs.shown(), why);
    }
}

/// Ranges stay; a second one may join the first.
fn service_cidr_update(object: &Value, old: &Value) -> Vec<FieldError> {
    const IMMUTABLE: &str = "field is immutable";
    Errors::of(object, |object, errors| {
        let old = At::root(old);
        let (spec, old_spec) = (object.field("spec"), old.field("spec"));
        let (cidrs, old_cidrs) = (spec.field("cidrs"), old_spec.field("cidrs"));
        let joined = old_cidrs.len() == 1 && cidrs.len() == 2;
        if cidrs.len() != old_cidrs.len() && !joined {
            errors.invalid(&cidrs, cidrs.shown(), IMMUTABLE);
            return;
        }
        for (cidr, before) in cidrs.items().zip(old_cidrs.strings()) {
            if cidr.str() != before {
                errors.invalid(&cidr, cidr.str(), IMMUTABLE);
            }
        }
        if joined {
            ranges(&cidrs, errors);
        }
    })
}
