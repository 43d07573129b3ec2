//! What labels, selectors, ports, addresses and paths must look like, in the words of apimachinery.
//!
//! Each check is told the place of a value and reports what is wrong with it there. The rules of single
//! names are those of [`crate::names`].

use std::net::{IpAddr, Ipv6Addr};

use serde_json::Value;

use super::report::{At, Errors};
pub(crate) use crate::names::{
    config_map_key as config_key, dns1123_label as dns_label, dns1123_subdomain as dns_subdomain,
    dns1123_subdomain_with_underscore as dns_search, http_header_name as header_name, label_value, percent,
    port_name, qualified_name, relaxed_env_var_name as env_name,
};
use crate::{
    names::{validate_annotations, validate_labels},
    quantity::{Format, Quantity},
    selector::{LabelSelector, validate_label_selector},
};

/// What is said of a number outside `low..=high`.
pub(crate) fn out_of_range(low: i64, high: i64) -> String {
    format!("must be between {low} and {high}, inclusive")
}

/// A port number.
pub(crate) fn port_number(at: &At<'_, '_>, errors: &mut Errors) {
    if !(1..=65535).contains(&at.int()) {
        errors.invalid(at, at.int(), out_of_range(1, 65535));
    }
}

/// A port given by number or name.
pub(crate) fn port(at: &At<'_, '_>, errors: &mut Errors) {
    match at.value() {
        Some(Value::String(name)) => errors.each(at, port_name(name)),
        _ => port_number(at, errors),
    }
}

/// A map of labels. Problems are reported at the map, not at the key.
pub(crate) fn labels(at: &At<'_, '_>, errors: &mut Errors) {
    let map = at.value().and_then(Value::as_object).filter(|map| !map.is_empty());
    if map.is_some() {
        errors.extend(validate_labels(map, &at.path()));
    }
}

/// A map of annotations.
pub(crate) fn annotations(at: &At<'_, '_>, errors: &mut Errors) {
    let map = at.value().and_then(Value::as_object).filter(|map| !map.is_empty());
    if map.is_some() {
        errors.extend(validate_annotations(map, &at.path()));
    }
}

/// A label selector with `matchLabels` and `matchExpressions`.
pub(crate) fn label_selector(at: &At<'_, '_>, errors: &mut Errors) {
    if at.exists() {
        errors.extend(validate_label_selector(at.value(), false, &at.path()));
    }
}

/// Whether `labels` satisfy a label selector; `None` if the selector can't be understood. No selector
/// selects nothing, an empty one everything.
pub(crate) fn selects(selector: &At<'_, '_>, labels: &At<'_, '_>) -> Option<bool> {
    let selector = LabelSelector::from_object(selector.value()).ok()?;
    Some(selector.matches(labels.value().and_then(Value::as_object)))
}

/// Parses an address as leniently as Kubernetes once did: IPv4 may have leading zeros.
pub(crate) fn parse_ip(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    let mut octets = [0_u8; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        *octet = part
            .trim_start_matches('0')
            .parse()
            .or_else(|error| if part.bytes().all(|byte| byte == b'0') { Ok(0) } else { Err(error) })
            .ok()?;
    }
    parts.next().is_none().then(|| octets.into())
}

fn is_mapped(address: &IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

/// An IP address.
pub(crate) fn ip(at: &At<'_, '_>, errors: &mut Errors) {
    let text = at.str();
    match parse_ip(text) {
        None => {
            errors.invalid(at, text, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
        }
        Some(_) if text.parse::<IpAddr>().is_err() => errors.invalid(at, text, "must not have leading 0s"),
        Some(address) if is_mapped(&address) => {
            errors.invalid(at, text, "must not be an IPv4-mapped IPv6 address");
        }
        Some(_) => {}
    }
}

/// An IP address, unless it was there before and so was accepted once.
pub(crate) fn ip_unless_in(at: &At<'_, '_>, old: &At<'_, '_>, errors: &mut Errors) {
    if !old.strings().any(|known| known == at.str()) {
        ip(at, errors);
    }
}

/// An address range such as `10.0.0.0/8`.
pub(crate) fn cidr(at: &At<'_, '_>, text: &str, errors: &mut Errors) {
    let parsed = text.split_once('/').and_then(|(address, length)| {
        let address = parse_ip(address)?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let digits = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
        let prefix: u32 = if digits { length.parse().ok()? } else { return None };
        (prefix <= bits).then_some((address, prefix, length))
    });
    let Some((address, prefix, length)) = parsed else {
        errors.invalid(at, text, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)");
        return;
    };
    let strict = text.split_once('/').is_some_and(|(address, _)| address.parse::<IpAddr>().is_ok());
    let trailing = match address {
        IpAddr::V4(address) => u128::from(u32::from(address)) & ((1_u128 << (32 - prefix)) - 1),
        IpAddr::V6(address) if prefix == 0 => u128::from(address),
        IpAddr::V6(address) => u128::from(address) & !(u128::MAX << (128 - prefix).min(127)),
    };
    if !strict || (length.len() > 1 && length.starts_with('0')) {
        errors.invalid(at, text, "must not have leading 0s in IP or prefix length");
    } else if is_mapped(&address) {
        errors.invalid(at, text, "must not have an IPv4-mapped IPv6 address");
    } else if trailing != 0 {
        errors.invalid(at, text, "must not have bits set beyond the prefix length");
    }
}

/// An address traffic may be sent to, so none of the special ones.
pub(crate) fn endpoint_ip(at: &At<'_, '_>, errors: &mut Errors) {
    let text = at.str();
    let Some(address) = parse_ip(text) else {
        errors.invalid(at, text, "must be a valid IP address");
        return;
    };
    if address.is_unspecified() {
        errors.invalid(at, text, format!("may not be unspecified ({text})"));
    }
    if address.is_loopback() {
        errors.invalid(at, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
    let (unicast, multicast) = match address {
        IpAddr::V4(address) => (address.is_link_local(), address.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(address) => {
            let first = address.segments()[0];
            (first & 0xffc0 == 0xfe80, first & 0xff0f == 0xff02)
        }
    };
    if unicast {
        errors.invalid(at, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    if multicast {
        errors.invalid(at, text, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
    }
}

/// Warns of an IPv6 address that is not written the canonical way.
pub(crate) fn ip_warning(at: &At<'_, '_>) -> Option<String> {
    let text = at.str();
    let canonical = text.parse::<Ipv6Addr>().ok()?.to_string();
    (canonical != text).then(|| {
        let path = at.path();
        format!("{path}: IPv6 address \"{text}\" should be in RFC 5952 canonical format (\"{canonical}\")")
    })
}

/// A path below a volume: relative, without `..`.
pub(crate) fn descending_path(at: &At<'_, '_>, text: &str, errors: &mut Errors) {
    if text.starts_with('/') {
        errors.invalid(at, text, "must be a relative path");
    }
    no_backsteps(at, text, errors);
}

/// A path without `..`.
pub(crate) fn no_backsteps(at: &At<'_, '_>, text: &str, errors: &mut Errors) {
    if text.split('/').any(|part| part == "..") {
        errors.invalid(at, text, "must not contain '..'");
    }
}

/// A path of a file that is projected into a volume.
pub(crate) fn projected_path(at: &At<'_, '_>, errors: &mut Errors) {
    let text = at.str();
    descending_path(at, text, errors);
    if text.starts_with("..") && !text.starts_with("../") {
        errors.invalid(at, text, "must not start with '..'");
    }
}

/// The amount a text stands for; nothing if it stands for none, as decoding has refused such.
pub(crate) fn quantity(text: &str) -> Quantity {
    Quantity::parse(text).unwrap_or_else(|_| Quantity::new(0, Format::DecimalSi))
}

/// Whether an amount is a whole number.
pub(crate) fn is_whole(amount: &Quantity) -> bool {
    amount.milli_value() % 1000 == 0
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_select_by_labels_and_expressions() {
        let labels = json!({"app": "web", "tier": "front"});
        let matches = |selector: Value| selects(&At::root(&selector), &At::root(&labels));
        assert_eq!(matches(json!({"matchLabels": {"app": "web"}})), Some(true));
        assert_eq!(matches(json!({"matchLabels": {"app": "db"}})), Some(false));
        assert_eq!(matches(json!({})), Some(true));
        let one = |operator: &str, values: Value| {
            matches(json!({"matchExpressions": [{"key": "tier", "operator": operator, "values": values}]}))
        };
        assert_eq!(one("In", json!(["front", "back"])), Some(true));
        assert_eq!(one("NotIn", json!(["front"])), Some(false));
        assert_eq!(one("Exists", json!([])), Some(true));
        assert_eq!(one("Zork", json!([])), None);
    }

    #[test]
    fn addresses_are_told_what_is_wrong_with_them() {
        let check = |text: &str, which: fn(&At<'_, '_>, &mut Errors)| {
            let value = json!(text);
            let errors = Errors::of(&value, which);
            errors.first().map(|error| error.detail.clone()).unwrap_or_default()
        };
        assert_eq!(check("10.0.0.1", ip), "");
        assert_eq!(check("10.0.0.01", ip), "must not have leading 0s");
        assert!(check("zork", ip).starts_with("must be a valid IP address"));
        assert_eq!(check("::ffff:1.2.3.4", ip), "must not be an IPv4-mapped IPv6 address");
        assert!(check("127.0.0.1", endpoint_ip).contains("loopback"));
        let range: fn(&At<'_, '_>, &mut Errors) = |at, errors| cidr(at, at.str(), errors);
        assert_eq!(check("10.0.0.0/8", range), "");
        assert_eq!(check("0.0.0.0/0", range), "");
        assert_eq!(check("::/0", range), "");
        assert_eq!(check("10.0.0.1/8", range), "must not have bits set beyond the prefix length");
        assert!(check("10.0.0.0/33", range).starts_with("must be a valid CIDR"));
    }
}
