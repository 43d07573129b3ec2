//! What a request asks for, read from its method, path and query alone.

use std::borrow::Cow;

/// The decoded query of a request, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        Self(
            text.split('&')
                .filter(|pair| !pair.is_empty())
                .map(|pair| {
                    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                    (decode(key, true).into_owned(), decode(value, true).into_owned())
                })
                .collect(),
        )
    }

    /// The first value of a parameter; absent and empty are the same to Kubernetes.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str()).filter(|v| !v.is_empty())
    }

    /// Whether the parameter is there at all.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.0.iter().any(|(name, _)| name == key)
    }

    /// All values of a parameter.
    pub(crate) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// A parameter that Go reads as a boolean: present counts, unless it is `0` or `false`.
    pub(crate) fn flag(&self, key: &str) -> bool {
        self.0
            .iter()
            .find(|(name, _)| name == key)
            .is_some_and(|(_, value)| !matches!(value.as_str(), "0" | "false"))
    }
}

/// Percent-decodes; broken escapes stay as they are.
pub(crate) fn decode(text: &str, plus_is_space: bool) -> Cow<'_, str> {
    if !text.bytes().any(|byte| byte == b'%' || (plus_is_space && byte == b'+')) {
        return Cow::Borrowed(text);
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let hex = |offset: usize| bytes.get(at + offset).and_then(|b| char::from(*b).to_digit(16));
        match (byte, hex(1), hex(2)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                at += 3;
                continue;
            }
            (b'+', ..) if plus_is_space => out.push(b' '),
            _ => out.push(byte),
        }
        at += 1;
    }
    Cow::Owned(String::from_utf8_lossy(&out).into_owned())
}

/// Where a request goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// A resource under `/api` or `/apis`.
    Resource(ResourcePath),
    /// Anything else: discovery, health, documents.
    Other,
}

/// The parts of a resource path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) namespace: Option<String>,
    pub(crate) resource: String,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
    /// What follows the subresource, as for `proxy`.
    pub(crate) rest: String,
    /// The deprecated `/watch/` prefix was used.
    pub(crate) watch_prefix: bool,
}

impl Target {
    pub(crate) fn parse(path: &str) -> Self {
        let parts: Vec<Cow<'_, str>> =
            path.trim_matches('/').split('/').map(|part| decode(part, false)).collect();
        let parts: Vec<&str> = parts.iter().map(AsRef::as_ref).collect();
        let (group, version, mut rest) = match parts.as_slice() {
            ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
            ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
            _ => return Self::Other,
        };
        let mut path =
            ResourcePath { group: group.into(), version: version.into(), ..ResourcePath::default() };
        if let ["watch", after @ ..] = rest
            && !after.is_empty()
        {
            path.watch_prefix = true;
            rest = after;
        }
        // `/namespaces/NAME/RESOURCE` is a namespaced resource, unless RESOURCE is a subresource of the namespace.
        if let ["namespaces", namespace, resource, after @ ..] = rest
            && !(group.is_empty() && after.is_empty() && matches!(*resource, "status" | "finalize"))
        {
            path.namespace = Some((*namespace).to_owned());
            rest = &rest[2..];
            path.resource = (*resource).to_owned();
        } else {
            path.resource = rest[0].to_owned();
        }
        path.name = rest.get(1).map(|part| (*part).to_owned());
        path.subresource = rest.get(2).map(|part| (*part).to_owned());
        path.rest = rest.get(3..).unwrap_or_default().join("/");
        if path.resource == "namespaces" && group.is_empty() {
            path.namespace.clone_from(&path.name);
        }
        Self::Resource(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(path: &str) -> ResourcePath {
        match Target::parse(path) {
            Target::Resource(path) => path,
            Target::Other => panic!("{path} is not a resource path"),
        }
    }

    #[test]
    fn a_path_tells_namespace_resource_name_and_subresource() {
        let path = resource("/apis/apps/v1/namespaces/a/deployments/b/scale");
        assert_eq!((path.group.as_str(), path.version.as_str()), ("apps", "v1"));
        assert_eq!(path.namespace.as_deref(), Some("a"));
        assert_eq!((path.resource.as_str(), path.name.as_deref()), ("deployments", Some("b")));
        assert_eq!(path.subresource.as_deref(), Some("scale"));
    }

    #[test]
    fn status_of_a_namespace_is_a_subresource_and_not_a_resource_in_it() {
        let path = resource("/api/v1/namespaces/a/status");
        assert_eq!((path.resource.as_str(), path.subresource.as_deref()), ("namespaces", Some("status")));
        assert_eq!(path.namespace.as_deref(), Some("a"));
    }

    #[test]
    fn discovery_paths_are_not_resources() {
        for path in ["/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/healthz", "/"] {
            assert_eq!(Target::parse(path), Target::Other, "{path}");
        }
    }

    #[test]
    fn a_query_is_decoded_and_an_empty_value_counts_as_absent() {
        let query = Query::parse("labelSelector=a%3Db%2Cc&continue=&watch&x=a+b&bad=%zz");
        assert_eq!(query.get("labelSelector"), Some("a=b,c"));
        assert_eq!(query.get("continue"), None);
        assert!(query.flag("watch") && query.has("continue"));
        assert_eq!((query.get("x"), query.get("bad")), (Some("a b"), Some("%zz")));
    }
}
