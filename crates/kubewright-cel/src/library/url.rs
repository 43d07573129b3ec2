//! URLs, as Go's `net/url` reads them.

use std::{collections::BTreeMap, sync::Arc};

use super::{Extension, standard::go_quote};
use crate::{
    eval::EvalError,
    value::{Evaluated, Key, Map, Val},
};

/// An absolute URL or an absolute path.
#[derive(Debug)]
pub struct Url {
    scheme: String,
    user_info: Option<String>,
    host: String,
    escaped_path: String,
    query: Option<String>,
}

impl Url {
    /// The URL as one text.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        if !self.scheme.is_empty() {
            text.push_str(&self.scheme);
            text.push(':');
        }
        if !self.scheme.is_empty() || !self.host.is_empty() || self.user_info.is_some() {
            text.push_str("//");
            if let Some(user_info) = &self.user_info {
                text.push_str(user_info);
                text.push('@');
            }
            text.push_str(&self.host);
        }
        text.push_str(&self.escaped_path);
        if let Some(query) = &self.query {
            text.push('?');
            text.push_str(query);
        }
        text
    }

    fn hostname(&self) -> &str {
        let host = self.split_port().0;
        host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
    }

    fn split_port(&self) -> (&str, &str) {
        match self.host.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !port.contains(']') => {
                (host, port)
            }
            _ => (&self.host, ""),
        }
    }
}

/// Reads a URL as the target of a request: absolute, or an absolute path; `#` has no meaning.
pub(super) fn parse_request_uri(text: &str) -> Result<Url, String> {
    parse(text, true).map_err(|problem| format!("parse {}: {problem}", go_quote(text)))
}

fn parse(text: &str, via_request: bool) -> Result<Url, String> {
    if text.bytes().any(|b| b < b' ' || b == 0x7f) {
        return Err("net/url: invalid control character in URL".into());
    }
    if text.is_empty() && via_request {
        return Err("empty url".into());
    }
    let (text, _fragment) = match text.split_once('#') {
        Some((before, fragment)) if !via_request => (before, fragment),
        _ => (text, ""),
    };
    if text == "*" {
        return Ok(Url {
            scheme: String::new(),
            user_info: None,
            host: String::new(),
            escaped_path: "*".into(),
            query: None,
        });
    }
    let (scheme, rest) = split_scheme(text)?;
    let (rest, query) = match rest.split_once('?') {
        Some((rest, query)) => (rest, Some(query.to_owned())),
        None => (rest, None),
    };
    if !rest.starts_with('/') {
        if !scheme.is_empty() {
            // An opaque URL, such as `mailto:a@b`.
            return Ok(Url {
                scheme: scheme.to_ascii_lowercase(),
                user_info: None,
                host: String::new(),
                escaped_path: String::new(),
                query,
            });
        }
        if via_request {
            return Err("invalid URI for request".into());
        }
        if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
            return Err("first path segment in URL cannot contain colon".into());
        }
    }
    let mut url = Url {
        scheme: scheme.to_ascii_lowercase(),
        user_info: None,
        host: String::new(),
        escaped_path: String::new(),
        query,
    };
    let has_authority =
        (!scheme.is_empty() || !via_request && !rest.starts_with("///")) && rest.starts_with("//");
    let path = if has_authority {
        let after = &rest[2..];
        let end = after.find('/').unwrap_or(after.len());
        parse_authority(&after[..end], &mut url)?;
        &after[end..]
    } else {
        rest
    };
    check_escapes(path)?;
    url.escaped_path = escape_path(path);
    Ok(url)
}

fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (position, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if position > 0 => {}
            '0'..='9' | '+' | '-' | '.' => return Ok(("", text)),
            ':' if position == 0 => return Err("missing protocol scheme".into()),
            ':' => return Ok((&text[..position], &text[position + 1..])),
            _ => return Ok(("", text)),
        }
    }
    Ok(("", text))
}

fn parse_authority(authority: &str, url: &mut Url) -> Result<(), String> {
    let (user_info, host) = match authority.rsplit_once('@') {
        Some((user_info, host)) => (Some(user_info), host),
        None => (None, authority),
    };
    let port = if let Some(bracketed) = host.strip_prefix('[') {
        let end = bracketed.rfind(']').ok_or("missing ']' in host")?;
        let inside = &bracketed[..end];
        let address = inside.split_once("%25").map_or(inside, |(address, _)| address);
        if address.parse::<std::net::Ipv6Addr>().is_err() {
            return Err(format!("invalid host: ParseAddr({}): unable to parse IP", go_quote(address)));
        }
        &bracketed[end + 1..]
    } else {
        host.rfind(':').map_or("", |colon| &host[colon..])
    };
    let digits = if port.is_empty() { Some("") } else { port.strip_prefix(':') };
    if !digits.is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit())) {
        return Err(format!("invalid port {} after host", go_quote(port)));
    }
    if let Some(c) = host.chars().find(|c| matches!(c, ' ' | '\\' | '^' | '`' | '{' | '}' | '|')) {
        return Err(format!("invalid character {} in host name", go_quote(&c.to_string())));
    }
    if let Some(user_info) = user_info {
        let valid = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
        if !user_info.chars().all(valid) {
            return Err("net/url: invalid userinfo".into());
        }
        check_escapes(user_info)?;
    }
    if !host.starts_with('[') {
        check_escapes(host)?;
    }
    url.user_info = user_info.map(str::to_owned);
    url.host = host.into();
    Ok(())
}

fn check_escapes(text: &str) -> Result<(), String> {
    let bytes = text.as_bytes();
    let mut position = 0;
    while position < bytes.len() {
        if bytes[position] == b'%' {
            let escape = bytes.get(position + 1..position + 3);
            if !escape.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
                let end = text.len().min(position + 3);
                let shown = String::from_utf8_lossy(&bytes[position..end]).into_owned();
                return Err(format!("invalid URL escape {}", go_quote(&shown)));
            }
            position += 2;
        }
        position += 1;
    }
    Ok(())
}

/// A path with what may not stand in it escaped; what is escaped already stays.
fn escape_path(path: &str) -> String {
    let mut escaped = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@!'()*%[]".contains(&byte) {
            escaped.push(byte as char);
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

fn unescape_query(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let high = (rest.next()? as char).to_digit(16)?;
                let low = (rest.next()? as char).to_digit(16)?;
                (high * 16 + low) as u8
            }
            byte => byte,
        });
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn no_such_overload<'a>() -> Evaluated<'a> {
    Err(EvalError::no_such_overload())
}

pub(super) fn url<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    let [Val::String(text)] = args else { return no_such_overload() };
    let problem =
        |problem: String| EvalError::new(format!("URL parse error during conversion from string: {problem}"));
    parse_request_uri(text).map_err(problem)?;
    let url = parse(text, false).map_err(|why| problem(format!("parse {}: {why}", go_quote(text))))?;
    Ok(Val::Extension(Extension::Url(Arc::new(url))))
}

pub(super) fn is_url<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::String(text)] => Ok(Val::Bool(parse_request_uri(text).is_ok())),
        _ => no_such_overload(),
    }
}

fn part<'a>(args: &[Val<'a>], part: fn(&Url) -> &str) -> Evaluated<'a> {
    match args {
        [Val::Extension(Extension::Url(url))] => Ok(Val::from(part(url).to_owned())),
        _ => no_such_overload(),
    }
}

pub(super) fn get_scheme<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    part(args, |url| &url.scheme)
}

pub(super) fn get_host<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    part(args, |url| &url.host)
}

pub(super) fn get_hostname<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    part(args, Url::hostname)
}

pub(super) fn get_port<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    part(args, |url| url.split_port().1)
}

pub(super) fn get_escaped_path<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    part(args, |url| &url.escaped_path)
}

pub(super) fn get_query<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    let [Val::Extension(Extension::Url(url))] = args else { return no_such_overload() };
    let mut values: BTreeMap<Key, Vec<Val<'a>>> = BTreeMap::new();
    for pair in url.query.as_deref().unwrap_or_default().split('&') {
        if pair.is_empty() || pair.contains(';') {
            continue;
        }
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if let (Some(key), Some(value)) = (unescape_query(key), unescape_query(value)) {
            values.entry(Key::String(key.into())).or_default().push(Val::from(value));
        }
    }
    let entries = values.into_iter().map(|(key, values)| (key, Val::from(values))).collect();
    Ok(Val::Map(Map::from_entries(entries)))
}
