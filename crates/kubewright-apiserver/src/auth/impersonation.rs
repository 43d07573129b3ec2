//! Acting as somebody else: the `Impersonate-*` headers and the rights they need.
//!
//! Each constrained mode asks for two things, the right to impersonate whom and the right to do this request
//! while impersonating; the old mode asks only for the verb `impersonate`. The first mode that allows it wins;
//! if none does, the first one's refusal is the answer.

use std::fmt::Write as _;

use super::rbac::{Attributes, ResourceTarget, Rules, Target};
use super::user::{
    ANONYMOUS, AUTHENTICATED, MASTERS, NODE_NAME, UNAUTHENTICATED, UserInfo, service_account_groups,
    split_node, split_service_account,
};
use crate::{error::ApiError, names};

const AUTHENTICATION_GROUP: &str = "authentication.k8s.io";
const PREFIX: &str = "impersonate-";
const EXTRA_PREFIX: &str = "impersonate-extra-";
/// From this many values on, a constrained mode first asks for all of them at once.
const MANY: usize = 4;

/// The user that `headers` ask to be, exactly as they say; none if they don't.
pub fn wanted_user<'a>(
    headers: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<Option<UserInfo>, ApiError> {
    let mut wanted = UserInfo::default();
    let mut any = false;
    for (header, value) in headers {
        let is_meant = header.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX));
        if !is_meant {
            continue;
        }
        let header = header.to_ascii_lowercase();
        match header.as_str() {
            // Of a header given twice the first one counts, as everywhere in HTTP for Go.
            "impersonate-user" if wanted.name.is_empty() => value.clone_into(&mut wanted.name),
            "impersonate-uid" if wanted.uid.is_empty() => value.clone_into(&mut wanted.uid),
            "impersonate-group" => wanted.groups.push(value.to_owned()),
            _ => match header.strip_prefix(EXTRA_PREFIX) {
                Some(key) => wanted.extra.entry(unescaped(key)).or_default().push(value.to_owned()),
                None => continue,
            },
        }
        any = true;
    }
    if !wanted.name.is_empty() {
        return Ok(Some(wanted));
    }
    if any && (!wanted.uid.is_empty() || !wanted.groups.is_empty() || !wanted.extra.is_empty()) {
        let shown = go_syntax(&wanted);
        return Err(ApiError::bad_request(format!("requested {shown} without impersonating a user name")));
    }
    Ok(None)
}

/// The key with its `%` escapes resolved; as it is if they are malformed.
fn unescaped(key: &str) -> String {
    let mut bytes = Vec::with_capacity(key.len());
    let mut rest = key.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let digits = after.get(..2).and_then(|pair| std::str::from_utf8(pair).ok());
        let Some(byte) = digits
            .filter(|pair| pair.bytes().all(|digit| digit.is_ascii_hexdigit()))
            .and_then(|pair| u8::from_str_radix(pair, 16).ok())
        else {
            return key.to_owned();
        };
        bytes.push(byte);
        rest = &after[2..];
    }
    String::from_utf8(bytes).unwrap_or_else(|_| key.to_owned())
}

fn go_syntax(user: &UserInfo) -> String {
    let list = |items: &[String]| {
        let items: Vec<String> = items.iter().map(|item| format!("{item:?}")).collect();
        format!("[]string{{{}}}", items.join(", "))
    };
    let groups = if user.groups.is_empty() { "[]string(nil)".to_owned() } else { list(&user.groups) };
    let mut extra = "map[string][]string".to_owned();
    if user.extra.is_empty() {
        extra.push_str("(nil)");
    } else {
        let items: Vec<String> =
            user.extra.iter().map(|(key, values)| format!("{key:?}:{}", list(values))).collect();
        let _ = write!(extra, "{{{}}}", items.join(", "));
    }
    format!("&user.DefaultInfo{{Name:{:?}, UID:{:?}, Groups:{groups}, Extra:{extra}}}", user.name, user.uid)
}

/// A way to impersonate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    User,
    Legacy,
}

impl Mode {
    const ALL: [Self; 5] =
        [Self::AssociatedNode, Self::ArbitraryNode, Self::ServiceAccount, Self::User, Self::Legacy];

    fn name(self) -> &'static str {
        match self {
            Self::AssociatedNode => "associated-node",
            Self::ArbitraryNode => "arbitrary-node",
            Self::ServiceAccount => "serviceaccount",
            Self::User => "user-info",
            Self::Legacy => "",
        }
    }

    fn verb(self) -> String {
        if self == Self::Legacy { "impersonate".to_owned() } else { format!("impersonate:{}", self.name()) }
    }

    fn applies(self, wanted: &UserInfo, requestor: &UserInfo) -> bool {
        let only_name = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let node = split_node(&wanted.name);
        let service_account = split_service_account(&wanted.name).is_some();
        match self {
            Self::AssociatedNode => {
                only_name
                    && split_service_account(&requestor.name).is_some()
                    && node.is_some_and(|node| node == requestor.extra_value(NODE_NAME))
            }
            Self::ArbitraryNode => only_name && node.is_some(),
            Self::ServiceAccount => only_name && service_account,
            Self::User => node.is_none() && !service_account,
            Self::Legacy => true,
        }
    }
}

impl Rules {
    /// The user that the request goes on with, if `request.user` may be `wanted` for it; else the 403.
    pub fn impersonate(&self, wanted: &UserInfo, request: &Attributes<'_>) -> Result<UserInfo, ApiError> {
        let mut refusal = None;
        for mode in Mode::ALL.into_iter().filter(|mode| mode.applies(wanted, request.user)) {
            match self.impersonate_by(mode, wanted, request) {
                Ok(user) => return Ok(user),
                Err(error) => {
                    refusal.get_or_insert(error);
                }
            }
        }
        Err(refusal.expect("the old mode always applies, so there is a user or a refusal"))
    }

    fn impersonate_by(
        &self,
        mode: Mode,
        wanted: &UserInfo,
        request: &Attributes<'_>,
    ) -> Result<UserInfo, ApiError> {
        let constrained = mode != Mode::Legacy;
        if constrained {
            let verb = format!("impersonate-on:{}:{}", mode.name(), request.verb);
            self.check(&Attributes { verb: &verb, ..*request })?;
        }
        let verb = mode.verb();
        let attributes =
            |target| Attributes { user: request.user, verb: &verb, target: Target::Resource(target) };
        let group = if constrained { AUTHENTICATION_GROUP } else { "" };
        let mut user = wanted.clone();

        let mut target =
            ResourceTarget { group, resource: "users", name: &wanted.name, ..ResourceTarget::default() };
        if let Some(node) = split_node(&wanted.name).filter(|_| constrained) {
            let name = if mode == Mode::AssociatedNode { "*" } else { node };
            target = ResourceTarget { resource: "nodes", name, ..target };
            user.groups = vec!["system:nodes".to_owned()];
        } else if let Some((namespace, name)) = split_service_account(&wanted.name) {
            target = ResourceTarget { resource: "serviceaccounts", namespace, name, ..target };
            if wanted.groups.is_empty() {
                user.groups = service_account_groups(namespace);
            }
        }
        self.check(&attributes(target))?;

        let special = ResourceTarget { group: AUTHENTICATION_GROUP, ..ResourceTarget::default() };
        if !wanted.uid.is_empty() {
            self.check(&attributes(ResourceTarget { resource: "uids", name: &wanted.uid, ..special }))?;
        }

        let groups = ResourceTarget { group, resource: "groups", ..ResourceTarget::default() };
        if constrained {
            for (bad, what) in [("", "empty string"), (MASTERS, MASTERS)] {
                if wanted.in_group(bad) {
                    let reason = format!("impersonating the {what} group is not allowed");
                    return Err(attributes(ResourceTarget { name: bad, ..groups }).forbidden(&reason));
                }
            }
        }
        let all = || self.authorize(&attributes(ResourceTarget { name: "*", ..groups })).is_allowed();
        if !(constrained && wanted.groups.len() >= MANY && all()) {
            for name in &wanted.groups {
                self.check(&attributes(ResourceTarget { name, ..groups }))?;
            }
        }

        let extra = ResourceTarget { resource: "userextras", ..special };
        if constrained && let Some(reason) = bad_extra(wanted) {
            return Err(attributes(extra).forbidden(&reason));
        }
        let many = wanted.extra.len() >= MANY || wanted.extra.values().map(Vec::len).sum::<usize>() >= MANY;
        let all = || {
            let target = ResourceTarget { subresource: "*", name: "*", ..extra };
            self.authorize(&attributes(target)).is_allowed()
        };
        if !(constrained && many && all()) {
            for (subresource, values) in &wanted.extra {
                for name in values {
                    self.check(&attributes(ResourceTarget { subresource, name, ..extra }))?;
                }
            }
        }

        let group = if user.name == ANONYMOUS { UNAUTHENTICATED } else { AUTHENTICATED };
        if !user.in_group(group) && !user.in_group(UNAUTHENTICATED) {
            user.groups.push(group.to_owned());
        }
        Ok(user)
    }
}

/// What keeps the constrained modes from taking the extra values, if anything.
fn bad_extra(user: &UserInfo) -> Option<String> {
    for (key, values) in &user.extra {
        if key.is_empty() {
            return Some("impersonating the empty string key in extra is not allowed".to_owned());
        }
        let path = key
            .split_once('/')
            .filter(|(host, path)| names::dns1123_subdomain(host).is_empty() && !path.is_empty());
        if path.is_none() {
            return Some(format!(
                "impersonating an invalid key in extra is not allowed: extra.key: Invalid value: {key:?}: \
                 must be a domain-prefixed path (such as \"acme.io/foo\")"
            ));
        }
        if key.chars().any(char::is_uppercase) {
            return Some(format!("impersonating a non-lowercase key in extra is not allowed: {key:?}"));
        }
        if values.iter().any(String::is_empty) {
            return Some("impersonating the empty string value in extra is not allowed".to_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn rules(rules: Value) -> Rules {
        Rules::new([
            &json!({"kind": "ClusterRole", "metadata": {"name": "r"}, "rules": rules}),
            &json!({"kind": "ClusterRoleBinding", "metadata": {"name": "b"},
                "roleRef": {"kind": "ClusterRole", "name": "r"},
                "subjects": [{"kind": "User", "name": "ann"}]}),
        ])
    }

    fn ask(rules: &Rules, headers: &[(&str, &str)]) -> Result<UserInfo, String> {
        let user = UserInfo::new("ann", ["x"]);
        let target = ResourceTarget { resource: "pods", namespace: "ns", ..ResourceTarget::default() };
        let request = Attributes { user: &user, verb: "list", target: Target::Resource(target) };
        let wanted = wanted_user(headers.iter().copied()).unwrap().unwrap();
        rules.impersonate(&wanted, &request).map_err(|error| error.message)
    }

    #[test]
    fn headers_without_a_user_are_a_bad_request() {
        for (headers, shown) in [
            (
                vec![("Impersonate-Group", "g")],
                r#"&user.DefaultInfo{Name:"", UID:"", Groups:[]string{"g"}, Extra:map[string][]string(nil)}"#,
            ),
            (
                vec![("impersonate-uid", "u"), ("Impersonate-Extra-A%2fb", "v")],
                r#"&user.DefaultInfo{Name:"", UID:"u", Groups:[]string(nil), Extra:map[string][]string{"a/b":[]string{"v"}}}"#,
            ),
        ] {
            let error = wanted_user(headers).unwrap_err();
            assert_eq!(error.code, 400);
            assert_eq!(error.message, format!("requested {shown} without impersonating a user name"));
        }
        assert_eq!(wanted_user([("accept", "*/*"), ("impersonate-user", "")]).unwrap(), None);
    }

    #[test]
    fn malformed_escapes_in_an_extra_key_are_kept() {
        for (key, expected) in
            [("a%2Fb", "a/b"), ("a%2", "a%2"), ("a%zz", "a%zz"), ("%ff", "%ff"), ("%+1", "%+1"), ("%", "%")]
        {
            assert_eq!(unescaped(key), expected, "{key}");
        }
    }

    #[test]
    fn the_old_verb_allows_each_part_by_itself() {
        let rules = rules(json!([
            {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"], "resourceNames": ["bob"]},
            {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["groups"], "resourceNames": ["g"]},
            {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["serviceaccounts"]},
            {"verbs": ["impersonate"], "apiGroups": ["authentication.k8s.io"], "resources": ["userextras/scopes"]},
        ]));
        let bob = ("Impersonate-User", "bob");
        assert_eq!(ask(&rules, &[bob]).unwrap().groups, [AUTHENTICATED]);
        let full =
            ask(&rules, &[bob, ("Impersonate-Group", "g"), ("Impersonate-Extra-Scopes", "x")]).unwrap();
        assert_eq!(full.groups, ["g", AUTHENTICATED]);
        assert_eq!(full.extra["scopes"], ["x"]);
        let account = ask(&rules, &[("Impersonate-User", "system:serviceaccount:ns:s")]).unwrap();
        assert_eq!(account.groups, ["system:serviceaccounts", "system:serviceaccounts:ns", AUTHENTICATED]);
        let on = "pods is forbidden: User \"ann\" cannot impersonate-on:user-info:list resource \"pods\" in \
                  API group \"\" in the namespace \"ns\"";
        assert_eq!(ask(&rules, &[("Impersonate-User", "eve")]).unwrap_err(), on);
        assert_eq!(ask(&rules, &[bob, ("Impersonate-Group", MASTERS)]).unwrap_err(), on);
        assert_eq!(ask(&rules, &[bob, ("Impersonate-Uid", "1")]).unwrap_err(), on);
    }

    #[test]
    fn a_constrained_mode_needs_both_rights_and_never_gives_masters() {
        let on =
            json!({"verbs": ["impersonate-on:user-info:list"], "apiGroups": [""], "resources": ["pods"]});
        let who = json!({"verbs": ["impersonate:user-info"], "apiGroups": ["authentication.k8s.io"],
            "resources": ["users", "groups"]});
        let bob = ("Impersonate-User", "bob");
        assert!(
            ask(&rules(json!([on])), &[bob]).unwrap_err().contains("cannot impersonate:user-info resource")
        );
        assert!(ask(&rules(json!([who])), &[bob]).unwrap_err().contains("impersonate-on:user-info:list"));
        let both = rules(json!([on, who]));
        assert_eq!(ask(&both, &[bob]).unwrap().name, "bob");
        assert_eq!(
            ask(&both, &[bob, ("Impersonate-Group", MASTERS)]).unwrap_err(),
            "groups.authentication.k8s.io \"system:masters\" is forbidden: User \"ann\" cannot \
             impersonate:user-info resource \"groups\" in API group \"authentication.k8s.io\" at the cluster \
             scope: impersonating the system:masters group is not allowed"
        );
    }

    #[test]
    fn the_anonymous_user_stays_unauthenticated() {
        let all = rules(json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]));
        assert_eq!(ask(&all, &[("Impersonate-User", ANONYMOUS)]).unwrap().groups, [UNAUTHENTICATED]);
        let doubted = [("Impersonate-User", "bob"), ("Impersonate-Group", UNAUTHENTICATED)];
        assert_eq!(ask(&all, &doubted).unwrap().groups, [UNAUTHENTICATED]);
    }
}
