//! Who makes a request: a name, a uid, groups, and extra facts about the credential.
//!
//! Users are not objects of the API. Each request's user comes out of its credentials and is what RBAC,
//! admission and the reviews see.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::names;

/// The group whose members may do anything, whatever RBAC says.
pub const MASTERS: &str = "system:masters";
/// The group of everyone who showed a valid credential.
pub const AUTHENTICATED: &str = "system:authenticated";
/// The group of everyone who showed none.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The user of a request without credentials.
pub const ANONYMOUS: &str = "system:anonymous";

/// Extra key that names the credential a user came with.
pub(crate) const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
/// Extra key of the node a service-account token is tied to.
pub(crate) const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// A user, as `userInfo` in reviews and admission requests shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct UserInfo {
    /// The unique name.
    #[serde(rename = "username", skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Tells apart users that bore the same name at different times.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The groups the user is in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// What else the authenticator knows.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, Vec<String>>,
}

impl UserInfo {
    /// A user of `groups`; `system:authenticated` is added as for any valid credential.
    pub fn new<S: Into<String>>(name: impl Into<String>, groups: impl IntoIterator<Item = S>) -> Self {
        Self { name: name.into(), groups: groups.into_iter().map(Into::into).collect(), ..Self::default() }
            .authenticated()
    }

    /// A service account.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        Self::new(service_account_username(namespace, name), service_account_groups(namespace))
    }

    /// The user of requests without credentials.
    pub fn anonymous() -> Self {
        Self { name: ANONYMOUS.to_owned(), groups: vec![UNAUTHENTICATED.to_owned()], ..Self::default() }
    }

    /// Whether the user is in `group`.
    pub fn in_group(&self, group: &str) -> bool {
        self.groups.iter().any(|one| one == group)
    }

    /// The user with `system:authenticated`, unless the groups already say whether it is.
    #[must_use]
    pub(crate) fn authenticated(mut self) -> Self {
        if self.name != ANONYMOUS && !self.in_group(AUTHENTICATED) && !self.in_group(UNAUTHENTICATED) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }

    /// The only value of an extra key; empty if there is none or several.
    pub(crate) fn extra_value(&self, key: &str) -> &str {
        match self.extra.get(key).map(Vec::as_slice) {
            Some([one]) => one,
            _ => "",
        }
    }
}

/// The user name of a service account.
pub fn service_account_username(namespace: &str, name: &str) -> String {
    format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}")
}

/// The groups every service account of `namespace` is in.
pub fn service_account_groups(namespace: &str) -> Vec<String> {
    vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]
}

/// Namespace and name of the service account that `username` stands for, if it is one.
pub fn split_service_account(username: &str) -> Option<(&str, &str)> {
    let (namespace, name) = username.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':')?;
    (names::dns1123_label(namespace).is_empty() && names::dns1123_subdomain(name).is_empty())
        .then_some((namespace, name))
}

/// Name of the node that `username` stands for, if it is one.
pub(crate) fn split_node(username: &str) -> Option<&str> {
    username.strip_prefix("system:node:").filter(|name| names::dns1123_subdomain(name).is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_well_formed_service_account_names_are_taken_apart() {
        for (username, expected) in [
            ("system:serviceaccount:ns:name", Some(("ns", "name"))),
            ("system:serviceaccount:ns:a.b", Some(("ns", "a.b"))),
            ("system:serviceaccount:n.s:name", None),
            ("system:serviceaccount:ns:a:b", None),
            ("system:serviceaccount:ns:", None),
            ("system:serviceaccount:ns", None),
            ("system:serviceaccount:ns:-a", None),
            ("system:serviceaccounts:ns:name", None),
        ] {
            assert_eq!(split_service_account(username), expected, "{username}");
        }
    }

    #[test]
    fn a_user_says_once_whether_it_is_authenticated() {
        assert_eq!(UserInfo::new("bob", ["a"]).groups, ["a", AUTHENTICATED]);
        assert_eq!(UserInfo::new("bob", [UNAUTHENTICATED]).groups, [UNAUTHENTICATED]);
        assert_eq!(UserInfo::anonymous().authenticated().groups, [UNAUTHENTICATED]);
    }
}
