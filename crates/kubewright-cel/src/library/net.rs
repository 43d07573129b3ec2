//! IP addresses and ranges of them.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use super::{Extension, standard::go_quote};
use crate::{
    eval::EvalError,
    types::Type,
    value::{Evaluated, Val},
};

pub(super) const IP: Type = Type::Opaque("net.IP");
pub(super) const CIDR: Type = Type::Opaque("net.CIDR");

/// A range of addresses: an address and how many of its bits count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    address: IpAddr,
    bits: u8,
}

impl Cidr {
    pub(super) fn bits(self) -> u8 {
        self.bits
    }

    fn contains(self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4()
            && mask(self.address, self.bits) == mask(address, self.bits)
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

fn mask(address: IpAddr, bits: u8) -> IpAddr {
    let cut = |width: u32| width.saturating_sub(u32::from(bits));
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(cut(32)).unwrap_or(0);
            Ipv4Addr::from(u32::from(address) & mask).into()
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(cut(128)).unwrap_or(0);
            Ipv6Addr::from(u128::from(address) & mask).into()
        }
    }
}

/// Why Go's `netip.ParseAddr` does not take a text.
fn parse_problem(text: &str) -> String {
    let problem = |message: &str| format!("ParseAddr({}): {message}", go_quote(text));
    for c in text.chars() {
        match c {
            '.' => return parse_problem_v4(text),
            ':' => {
                return match text.split_once('%') {
                    Some((_, "")) => problem("zone must be a non-empty string"),
                    _ => problem_v6(text),
                };
            }
            '%' => return problem("missing IPv6 address"),
            _ => {}
        }
    }
    problem("unable to parse IP")
}

fn parse_problem_v4(text: &str) -> String {
    let quoted = go_quote(text);
    let problem = |message: &str| format!("ParseAddr({quoted}): {message}");
    let at = |message: &str, rest: &str| format!("ParseAddr({quoted}): {message} (at {})", go_quote(rest));
    let mut fields = 0;
    let mut value = 0_u32;
    let mut digits = 0;
    let bytes = text.as_bytes();
    for (position, c) in text.char_indices() {
        match c {
            '0'..='9' => {
                if digits == 1 && value == 0 {
                    return problem("IPv4 field has octet with leading zero");
                }
                value = value * 10 + (c as u32 - '0' as u32);
                digits += 1;
                if value > 255 {
                    return problem("IPv4 field has value >255");
                }
            }
            '.' => {
                if position == 0 || position == text.len() - 1 || bytes[position - 1] == b'.' {
                    return at("IPv4 field must have at least one digit", &text[position..]);
                }
                if fields == 3 {
                    return problem("IPv4 address too long");
                }
                fields += 1;
                value = 0;
                digits = 0;
            }
            _ => return at("unexpected character", &text[position..]),
        }
    }
    problem("IPv4 address too short")
}

fn problem_v6(text: &str) -> String {
    let quoted = go_quote(text);
    let at = |message: &str, rest: &str| format!("ParseAddr({quoted}): {message} (at {})", go_quote(rest));
    let problem = |message: &str| format!("ParseAddr({quoted}): {message}");
    let mut rest = text.split('%').next().unwrap_or_default();
    let mut ellipsis = false;
    if let Some(after) = rest.strip_prefix("::") {
        ellipsis = true;
        rest = after;
        if rest.is_empty() {
            return problem("unable to parse IP");
        }
    }
    let mut bytes = 0;
    while bytes < 16 {
        let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        if digits > 4 {
            return at("each group must have 4 or fewer digits", rest);
        }
        if digits == 0 {
            return at("each colon-separated field must have at least one digit", rest);
        }
        if rest[digits..].starts_with('.') {
            if !ellipsis && bytes != 12 {
                return at("embedded IPv4 address must replace the final 2 fields of the address", rest);
            }
            if bytes + 4 > 16 {
                return at("too many hex fields to fit an embedded IPv4 at the end of the address", rest);
            }
            return match rest.parse::<Ipv4Addr>() {
                Ok(_) => problem("address string too short"),
                Err(_) => parse_problem_v4(rest).replacen(&go_quote(rest), &quoted, 1),
            };
        }
        bytes += 2;
        rest = &rest[digits..];
        if rest.is_empty() {
            break;
        }
        if !rest.starts_with(':') {
            return at("unexpected character, want colon", rest);
        }
        if rest.len() == 1 {
            return at("colon must be followed by more characters", rest);
        }
        rest = &rest[1..];
        if let Some(after) = rest.strip_prefix(':') {
            if ellipsis {
                return at("multiple :: in address", rest);
            }
            ellipsis = true;
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
    }
    if !rest.is_empty() {
        return at("trailing garbage after address", rest);
    }
    if bytes < 16 {
        problem("address string too short")
    } else {
        problem("the :: must expand to at least one field of zeros")
    }
}

fn parse_ip(text: &str) -> Result<IpAddr, String> {
    if let Some((address, zone)) = text.split_once('%')
        && !zone.is_empty()
        && address.parse::<Ipv6Addr>().is_ok()
    {
        return Err(format!("IP address {} with zone value is not allowed", go_quote(text)));
    }
    let address: IpAddr = text.parse().map_err(|_| {
        format!(
            "IP Address {} parse error during conversion from string: {}",
            go_quote(text),
            parse_problem(text)
        )
    })?;
    if is_mapped(address) {
        return Err(format!("IPv4-mapped IPv6 address {} is not allowed", go_quote(text)));
    }
    Ok(address)
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

fn parse_cidr(text: &str) -> Result<Cidr, String> {
    let problem = |message: String| {
        format!(
            "network address parse error during conversion from string: netip.ParsePrefix({}): {message}",
            go_quote(text)
        )
    };
    let (address_text, bits) = text.rsplit_once('/').ok_or_else(|| problem("no '/'".into()))?;
    let address: IpAddr = address_text.parse().map_err(|_| {
        if address_text.contains('%') {
            problem("IPv6 zones cannot be present in a prefix".into())
        } else {
            problem(parse_problem(address_text))
        }
    })?;
    let is_number = !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit());
    let leading_zero = bits.len() > 1 && bits.starts_with('0');
    if !is_number || leading_zero {
        return Err(problem(format!("bad bits after slash: {}", go_quote(bits))));
    }
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.parse::<u8>().ok().filter(|bits| *bits <= most);
    let bits = bits.ok_or_else(|| problem("prefix length out of range".into()))?;
    if is_mapped(address) {
        return Err(format!("IPv4-mapped IPv6 address {} is not allowed", go_quote(text)));
    }
    Ok(Cidr { address, bits })
}

fn cidr_error(message: String) -> EvalError {
    EvalError::new(format!("network address parse error during conversion from string: {message}"))
}

fn no_such_overload<'a>() -> Evaluated<'a> {
    Err(EvalError::no_such_overload())
}

pub(super) fn ip<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::String(text)] => {
            parse_ip(text).map(|address| Val::Extension(Extension::Ip(address))).map_err(EvalError::new)
        }
        [Val::Extension(Extension::Cidr(cidr))] => Ok(Val::Extension(Extension::Ip(cidr.address))),
        _ => no_such_overload(),
    }
}

pub(super) fn is_ip<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::String(text)] => Ok(Val::Bool(parse_ip(text).is_ok())),
        _ => no_such_overload(),
    }
}

pub(super) fn is_canonical<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::String(text)] => {
            parse_ip(text).map(|address| Val::Bool(address.to_string() == **text)).map_err(EvalError::new)
        }
        _ => no_such_overload(),
    }
}

fn of_ip<'a>(args: &[Val<'a>], ask: fn(IpAddr) -> bool) -> Evaluated<'a> {
    match args {
        [Val::Extension(Extension::Ip(address))] => Ok(Val::Bool(ask(*address))),
        _ => no_such_overload(),
    }
}

pub(super) fn family<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::Extension(Extension::Ip(address))] => Ok(Val::Int(if address.is_ipv4() { 4 } else { 6 })),
        _ => no_such_overload(),
    }
}

pub(super) fn is_unspecified<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    of_ip(args, |address| address.is_unspecified())
}

pub(super) fn is_loopback<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    of_ip(args, |address| address.is_loopback())
}

fn link_local_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
        IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
    }
}

fn link_local_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.segments()[0] & 0xffc0 == 0xfe80,
    }
}

pub(super) fn is_link_local_multicast<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    of_ip(args, link_local_multicast)
}

pub(super) fn is_link_local_unicast<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    of_ip(args, link_local_unicast)
}

pub(super) fn is_global_unicast<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    of_ip(args, |address| {
        !address.is_unspecified()
            && !address.is_loopback()
            && !address.is_multicast()
            && !link_local_unicast(address)
            && address != IpAddr::V4(Ipv4Addr::BROADCAST)
    })
}

pub(super) fn cidr<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::String(text)] => {
            parse_cidr(text).map(|cidr| Val::Extension(Extension::Cidr(cidr))).map_err(cidr_error)
        }
        _ => no_such_overload(),
    }
}

pub(super) fn is_cidr<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::String(text)] => Ok(Val::Bool(parse_cidr(text).is_ok())),
        _ => no_such_overload(),
    }
}

pub(super) fn contains_ip<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    let (cidr, address) = match args {
        [Val::Extension(Extension::Cidr(cidr)), Val::String(text)] => match parse_ip(text) {
            Ok(address) => (cidr, address),
            Err(_) => return no_such_overload(),
        },
        [Val::Extension(Extension::Cidr(cidr)), Val::Extension(Extension::Ip(address))] => (cidr, *address),
        _ => return no_such_overload(),
    };
    Ok(Val::Bool(cidr.contains(address)))
}

pub(super) fn contains_cidr<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    let (cidr, other) = match args {
        [Val::Extension(Extension::Cidr(cidr)), Val::String(text)] => {
            (cidr, parse_cidr(text).map_err(cidr_error)?)
        }
        [Val::Extension(Extension::Cidr(cidr)), Val::Extension(Extension::Cidr(other))] => (cidr, *other),
        _ => return no_such_overload(),
    };
    Ok(Val::Bool(cidr.bits <= other.bits && cidr.contains(other.address)))
}

pub(super) fn prefix_length<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::Extension(Extension::Cidr(cidr))] => Ok(Val::Int(cidr.bits.into())),
        _ => no_such_overload(),
    }
}

pub(super) fn masked<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::Extension(Extension::Cidr(cidr))] => {
            let address = mask(cidr.address, cidr.bits);
            Ok(Val::Extension(Extension::Cidr(Cidr { address, ..*cidr })))
        }
        _ => no_such_overload(),
    }
}
