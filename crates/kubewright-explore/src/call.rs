//! What a request is about, in the words of Kubernetes.

use std::fmt;

use http::{Method, Request, header::CONTENT_TYPE};

use crate::state::uids_in;

/// Whether a call changes something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    Write,
    Read,
    Watch,
    /// Discovery and reviews: nothing of it is about an object.
    Other,
}

/// A request: its verb, and the object or the objects that it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) class: Class,
    /// Whether it asks for whatever is at hand, and not for the newest.
    pub(crate) may_be_old: bool,
    /// Whether it is only about objects that are labelled with some UID.
    pub(crate) selects_by_uid: bool,
    pub(crate) verb: &'static str,
    pub(crate) version: String,
    /// Plural and group, such as `deployments.apps`.
    pub(crate) resource: String,
    pub(crate) subresource: Option<String>,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
}

impl Call {
    pub(crate) fn of<B>(request: &Request<B>) -> Self {
        let path = Path::of(request.uri().path());
        let query = request.uri().query().unwrap_or_default();
        let is_watch = query.split('&').any(|one| matches!(one, "watch=true" | "watch=1" | "watch"));
        let is_apply = || {
            let kind = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
            kind.is_some_and(|kind| kind.starts_with("application/apply-patch"))
        };
        let (verb, class) = match *request.method() {
            Method::GET if is_watch => ("watch", Class::Watch),
            Method::GET if path.name.is_some() => ("get", Class::Read),
            Method::GET => ("list", Class::Read),
            Method::POST => ("create", Class::Write),
            Method::PUT => ("update", Class::Write),
            Method::PATCH if is_apply() => ("apply", Class::Write),
            Method::PATCH => ("patch", Class::Write),
            Method::DELETE if path.name.is_none() => ("deletecollection", Class::Write),
            Method::DELETE => ("delete", Class::Write),
            _ => ("call", Class::Other),
        };
        let is_about_objects = !path.resource.is_empty()
            && !matches!(path.group, "authorization.k8s.io" | "authentication.k8s.io");
        let resource = match path.group {
            "" => path.resource.to_owned(),
            group => format!("{}.{group}", path.resource),
        };
        let may_be_old = query.split('&').any(|one| one == "resourceVersion=0");
        let selector = query.split('&').find_map(|one| one.strip_prefix("labelSelector="));
        Self {
            may_be_old,
            selects_by_uid: selector.is_some_and(|selector| uids_in(selector).next().is_some()),
            class: if is_about_objects { class } else { Class::Other },
            verb,
            version: path.version.to_owned(),
            resource,
            subresource: path.subresource.map(str::to_owned),
            namespace: path.namespace.map(str::to_owned),
            name: path.name.map(str::to_owned),
        }
    }

    /// Whether it only tells others of the operator: what happened, or that it leads.
    pub(crate) fn is_told(&self) -> bool {
        matches!(&*self.resource, "events" | "events.events.k8s.io" | "leases.coordination.k8s.io")
    }

    /// Whether something is there afterwards.
    pub(crate) fn makes(&self) -> bool {
        !matches!(self.verb, "delete" | "deletecollection")
    }

    /// The key of the object: its namespace and name, or only its name.
    pub(crate) fn key(&self) -> Option<String> {
        let name = self.name.as_ref()?;
        Some(match &self.namespace {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name.clone(),
        })
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if let Some(subresource) = &self.subresource {
            write!(f, "/{subresource}")?;
        }
        match (&self.namespace, &self.name) {
            (Some(namespace), Some(name)) => write!(f, " {namespace}/{name}"),
            (None, Some(name)) => write!(f, " {name}"),
            (Some(namespace), None) => write!(f, " in {namespace}"),
            (None, None) => Ok(()),
        }
    }
}

#[derive(Default)]
struct Path<'p> {
    group: &'p str,
    version: &'p str,
    resource: &'p str,
    namespace: Option<&'p str>,
    name: Option<&'p str>,
    subresource: Option<&'p str>,
}

impl<'p> Path<'p> {
    fn of(path: &'p str) -> Self {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return Self::default(),
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() && !is_of_namespaces(rest) => {
                (Some(*namespace), rest)
            }
            rest => (None, rest),
        };
        Self {
            group,
            version,
            resource: rest.first().copied().unwrap_or_default(),
            namespace,
            name: rest.get(1).copied(),
            subresource: rest.get(2).copied(),
        }
    }
}

/// Whether what follows the name of a namespace is a subresource of it.
fn is_of_namespaces(rest: &[&str]) -> bool {
    matches!(rest, ["status" | "finalize"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_reads_as_kubernetes_names_it() {
        let read = |method: &str, uri: &str| {
            Call::of(&Request::builder().method(method).uri(uri).body(()).unwrap()).to_string()
        };
        assert_eq!(read("GET", "/api/v1/namespaces/a/configmaps/b"), "get configmaps a/b");
        assert_eq!(read("GET", "/apis/apps/v1/deployments?watch=true"), "watch deployments.apps");
        assert_eq!(read("POST", "/apis/apps/v1/namespaces/a/deployments"), "create deployments.apps in a");
        assert_eq!(
            read("PATCH", "/apis/apps/v1/namespaces/a/deployments/b/status"),
            "patch deployments.apps/status a/b"
        );
        assert_eq!(read("PUT", "/api/v1/namespaces/a/finalize"), "update namespaces/finalize a");
        assert_eq!(read("DELETE", "/api/v1/nodes/a"), "delete nodes a");
    }
}
