//! The string formats a CRD's schema can name, as kube-openapi checks them.
//!
//! An unknown format restricts nothing: it is dropped when the schema is read.

use std::{net::Ipv6Addr, sync::LazyLock};

use regex::Regex;

use crate::names;

/// Whether the format is known for a schema of type `ty` (empty: untyped).
pub(crate) fn recognised(ty: &str, format: &str) -> bool {
    format.is_empty() || supported(ty, format).is_some()
}

/// `format` if a schema of type `ty` may have it.
pub(super) fn supported<'a>(ty: &str, format: &'a str) -> Option<&'a str> {
    let known = match ty {
        "" | "string" => check(format).is_some(),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    };
    known.then_some(format)
}

/// The check of a string format. Dashes in the name don't count.
pub(super) fn check(format: &str) -> Option<fn(&str) -> bool> {
    Some(match format.replace('-', "").as_str() {
        "bsonobjectid" => |text| text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "uri" => is_request_uri,
        "email" => is_email,
        "hostname" => is_hostname,
        "ipv4" => |text| text.contains('.') && is_ip(text),
        "ipv6" => |text| text.contains(':') && is_ipv6(text, false),
        "cidr" => is_cidr,
        "mac" => is_mac,
        "uuid" => |text| is_uuid(text, None),
        "uuid3" => |text| is_uuid(text, Some(b'3')),
        "uuid4" => |text| is_uuid(text, Some(b'4')),
        "uuid5" => |text| is_uuid(text, Some(b'5')),
        "isbn" => |text| is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10,
        "isbn13" => is_isbn13,
        "creditcard" => is_credit_card,
        "ssn" => |text| text.len() == 11 && matches(&SSN, text),
        "hexcolor" => |text| {
            let digits = text.strip_prefix('#').unwrap_or(text);
            matches!(digits.len(), 3 | 6) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        },
        "rgbcolor" => |text| matches(&RGB, text),
        "byte" => |text| matches(&BASE64, text),
        "password" => |_| true,
        "date" => is_date,
        "duration" => is_duration,
        "datetime" => is_date_time,
        "k8sshortname" => |text| names::dns1123_label(text).is_empty(),
        "k8slongname" => |text| names::dns1123_subdomain(text).is_empty(),
        _ => return None,
    })
}

type Lazy = LazyLock<Option<Regex>>;

macro_rules! patterns {
    ($($name:ident = $pattern:expr;)*) => { $(static $name: Lazy = LazyLock::new(|| Regex::new($pattern).ok());)* };
}

patterns! {
    SSN = "^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$";
    RGB = r"^rgb\([\t\n\f\r ]*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])[\t\n\f\r ]*,[\t\n\f\r ]*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])[\t\n\f\r ]*,[\t\n\f\r ]*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])[\t\n\f\r ]*\)$";
    BASE64 = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$";
    CARD = "^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})$";
    HOST = r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$";
    TIME = r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$";
    SCALA_DURATION = r"([0-9]+)[\t\n\f\r ]*([A-Za-zµ]+)";
}

fn matches(pattern: &Lazy, text: &str) -> bool {
    pattern.as_ref().is_some_and(|regex| regex.is_match(text))
}

fn is_hostname(text: &str) -> bool {
    text.len() <= 255 && text.split('.').all(|label| label.len() <= 63) && matches(&HOST, text)
}

/// As Go's old parser, which reads leading zeros as decimal.
fn is_ip(text: &str) -> bool {
    if text.contains(':') { is_ipv6(text, true) } else { is_ipv4(text, true) }
}

fn is_ipv4(text: &str, leading_zeros: bool) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    parts.len() == 4
        && parts.iter().all(|part| {
            !part.is_empty()
                && part.bytes().all(|byte| byte.is_ascii_digit())
                && part.parse::<u8>().is_ok()
                && (leading_zeros || part.len() == 1 || !part.starts_with('0'))
        })
}

fn is_ipv6(text: &str, leading_zeros: bool) -> bool {
    match text.rsplit_once(':') {
        Some((head, tail)) if tail.contains('.') => {
            is_ipv4(tail, leading_zeros) && format!("{head}:0.0.0.0").parse::<Ipv6Addr>().is_ok()
        }
        _ => text.parse::<Ipv6Addr>().is_ok(),
    }
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let most = if address.contains(':') { 128 } else { 32 };
    let digits = !bits.is_empty() && bits.len() <= 8 && bits.bytes().all(|byte| byte.is_ascii_digit());
    digits && bits.parse::<u32>().is_ok_and(|bits| bits <= most) && is_ip(address)
}

fn is_mac(text: &str) -> bool {
    let groups = |separator: char, digits: usize, lengths: &[usize]| {
        let parts: Vec<&str> = text.split(separator).collect();
        lengths.contains(&parts.len())
            && parts
                .iter()
                .all(|part| part.len() == digits && part.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    groups(':', 2, &[6, 8, 20]) || groups('-', 2, &[6, 8, 20]) || groups('.', 4, &[3, 4, 10])
}

/// 32 hex digits with optional dashes between the groups; `version` fixes the 13th, and for versions 4
/// and 5 the 17th says which variant it is.
fn is_uuid(text: &str, version: Option<u8>) -> bool {
    let mut rest = text;
    let mut digits = Vec::with_capacity(32);
    for (index, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if index > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let Some((group, after)) = rest.split_at_checked(length) else { return false };
        digits.extend(group.bytes());
        rest = after;
    }
    rest.is_empty()
        && digits.iter().all(u8::is_ascii_hexdigit)
        && version.is_none_or(|version| {
            digits[12] == version
                && (version == b'3' || matches!(digits[16].to_ascii_lowercase(), b'8' | b'9' | b'a' | b'b'))
        })
}

fn without_spaces_and_dashes(text: &str) -> Vec<u8> {
    text.bytes().filter(|byte| !matches!(byte, b'-' | b'\t' | b'\n' | 0x0c | b'\r' | b' ')).collect()
}

fn is_isbn10(text: &str) -> bool {
    let digits = without_spaces_and_dashes(text);
    let [first @ .., last] = digits.as_slice() else { return false };
    if digits.len() != 10 || !first.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let last = match last {
        b'X' => 10,
        digit if digit.is_ascii_digit() => u32::from(digit - b'0'),
        _ => return false,
    };
    let sum: u32 = (1..).zip(first).map(|(weight, digit)| weight * u32::from(digit - b'0')).sum();
    (sum + 10 * last).is_multiple_of(11)
}

fn is_isbn13(text: &str) -> bool {
    let digits = without_spaces_and_dashes(text);
    digits.len() == 13
        && digits.iter().all(u8::is_ascii_digit)
        && (0_u32..)
            .zip(&digits)
            .map(|(index, digit)| (1 + index % 2 * 2) * u32::from(digit - b'0'))
            .sum::<u32>()
            .is_multiple_of(10)
}

fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    if !matches(&CARD, &digits) {
        return false;
    }
    let sum: u32 = digits
        .bytes()
        .rev()
        .enumerate()
        .map(|(index, byte)| {
            let digit = u32::from(byte - b'0');
            if index % 2 == 0 { digit } else { digit * 2 / 10 + digit * 2 % 10 }
        })
        .sum();
    sum.is_multiple_of(10)
}

fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 10
        && bytes.iter().enumerate().all(|(index, byte)| match index {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        })
        && text.parse::<jiff::civil::Date>().is_ok()
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    let Some(found) = TIME.as_ref().and_then(|regex| regex.captures(time)) else { return false };
    is_date(date) && &found[1] <= "23" && &found[2] <= "59" && &found[3] <= "59"
}

fn is_duration(text: &str) -> bool {
    const UNITS: &[&str] = &[
        "ns", "nano", "us", "µs", "micro", "ms", "milli", "s", "sec", "m", "min", "h", "hr", "hour", "d",
        "day", "w", "wk", "week",
    ];
    const PREFIXES: &[&str] = &["nano", "micro", "milli", "sec", "min", "hour", "day", "week"];
    if is_go_duration(text) {
        return true;
    }
    let Some(regex) = SCALA_DURATION.as_ref() else { return false };
    let mut found = false;
    for part in regex.captures_iter(text) {
        if part[1].parse::<i64>().is_err() {
            return false;
        }
        let unit = part[2].to_lowercase();
        found |= UNITS.contains(&unit.as_str()) || PREFIXES.iter().any(|prefix| unit.starts_with(prefix));
    }
    found
}

/// `time.ParseDuration`: signed decimal numbers with units, such as `-1.5h30m`.
fn is_go_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    let mut nanoseconds = 0_f64;
    let mut parts = 0;
    while !rest.is_empty() {
        let number = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
        let (digits, after) = rest.split_at(number);
        let unit = after.len() - after.trim_start_matches(|c: char| c != '.' && !c.is_ascii_digit()).len();
        let (unit, after) = after.split_at(unit);
        let scale = match unit {
            "ns" => 1.0,
            "us" | "µs" | "μs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" => 60e9,
            "h" => 3600e9,
            _ => return false,
        };
        if digits == "." || digits.matches('.').count() > 1 {
            return false;
        }
        let Ok(amount) = digits.trim_end_matches('.').parse::<f64>() else { return false };
        nanoseconds += amount * scale;
        parts += 1;
        rest = after;
    }
    parts > 0 && nanoseconds < 9.223_372_036_854_776e18
}

/// `url.ParseRequestURI`: an absolute URI, or an absolute path.
pub(crate) fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
        return false;
    }
    if text == "*" {
        return true;
    }
    let Ok((scheme, rest)) = split_scheme(text) else { return false };
    let rest = rest.split('?').next().unwrap_or_default();
    if !rest.starts_with('/') {
        return !scheme.is_empty();
    }
    let path = match rest.strip_prefix("//") {
        Some(authority) if !scheme.is_empty() || !rest.starts_with("///") => {
            let end = authority.find('/').unwrap_or(authority.len());
            let (authority, path) = authority.split_at(end);
            if !is_authority(authority) {
                return false;
            }
            path
        }
        _ => rest,
    };
    escapes_are_valid(path)
}

/// The scheme (empty if there is none) and what follows it.
pub(crate) fn split_scheme(text: &str) -> Result<(&str, &str), ()> {
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if index > 0 => {}
            b':' if index > 0 => return Ok((&text[..index], &text[index + 1..])),
            b':' => return Err(()),
            _ => return Ok(("", text)),
        }
    }
    Ok(("", text))
}

fn is_authority(authority: &str) -> bool {
    let host = match authority.rsplit_once('@') {
        Some((user, host)) => {
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
            if !user.bytes().all(allowed) || !escapes_are_valid(user) {
                return false;
            }
            host
        }
        None => authority,
    };
    let port = match host.strip_prefix('[') {
        Some(bracketed) => match bracketed.split_once(']') {
            Some((_, port)) => port,
            None => return false,
        },
        None => host.rfind(':').map_or("", |colon| &host[colon..]),
    };
    let port_is_valid = match port.strip_prefix(':') {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_digit()),
        None => port.is_empty(),
    };
    let allowed =
        |byte: u8| byte >= 0x80 || byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:[]<>\"%".contains(&byte);
    port_is_valid && host.bytes().all(allowed) && host_escapes_are_valid(host)
}

/// A host may only escape what is not ASCII, and the percent sign itself.
fn host_escapes_are_valid(host: &str) -> bool {
    let foreign = |escape: &str| escape.starts_with("25") || escape.starts_with(|digit: char| digit > '7');
    escapes_are_valid(host) && host.split('%').skip(1).all(foreign)
}

fn escapes_are_valid(text: &str) -> bool {
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let hex = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_hexdigit());
            if !hex(bytes.next()) || !hex(bytes.next()) {
                return false;
            }
        }
    }
    true
}

/// `mail.ParseAddress`: `local@domain`, or the same in angle brackets after a name.
fn is_email(text: &str) -> bool {
    let text = text.trim_matches([' ', '\t']);
    let comment = text.strip_suffix(')').and_then(|rest| rest.rfind('('));
    let text = comment.map_or(text, |start| text[..start].trim_end_matches([' ', '\t']));
    let address = match text.strip_suffix('>') {
        Some(rest) => match rest.rsplit_once('<') {
            Some((name, address)) if is_phrase(name.trim_matches([' ', '\t'])) => address,
            _ => return false,
        },
        None => text,
    };
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let local = local.trim_end_matches([' ', '\t']);
    let domain = domain.trim_start_matches([' ', '\t']);
    let is_local = is_quoted(local) || is_dot_atom(local);
    let is_domain = match domain.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(literal) => is_ip(literal.strip_prefix("IPv6:").unwrap_or(literal)),
        None => is_dot_atom(domain),
    };
    is_local && is_domain
}

fn is_phrase(name: &str) -> bool {
    name.is_empty()
        || is_quoted(name)
        || name
            .split([' ', '\t'])
            .filter(|word| !word.is_empty())
            .all(|word| word.chars().all(|c| is_atom(c) || c == '.'))
}

fn is_quoted(text: &str) -> bool {
    let Some(inner) = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else { return false };
    let mut escaped = false;
    for character in inner.chars() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' | '\r' | '\n' => return false,
            _ => {}
        }
    }
    !escaped && !inner.is_empty()
}

fn is_dot_atom(text: &str) -> bool {
    text.split('.').all(|atom| !atom.is_empty() && atom.chars().all(is_atom))
}

fn is_atom(character: char) -> bool {
    !character.is_ascii() || character.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(character)
}
