//! Role-based access control: may this user do this?
//!
//! [`Rules`] is a view of the Roles, ClusterRoles and their bindings, indexed by subject and kept current one
//! object at a time; cloning it costs nothing, so a fork of the cluster takes its rights along. A request is
//! described by [`Attributes`]. Rights only ever add up: nothing here can deny what another rule allows.

mod aggregation;
mod escalation;
mod rule;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use imbl::OrdMap;
use serde_json::Value;

pub use self::escalation::Write;
pub use self::rule::Rule;
pub(crate) use self::rule::quoted;
use super::user::{MASTERS, UserInfo, service_account_username};
use crate::error::{ApiError, Subject};

use self::aggregation::Aggregation;

/// The API group of the objects that grant rights.
pub const GROUP: &str = "rbac.authorization.k8s.io";

/// What is asked: who wants to do what to which target.
#[derive(Debug, Clone, Copy)]
pub struct Attributes<'a> {
    /// Who.
    pub user: &'a UserInfo,
    /// What, such as `list`; for a path the lower-case HTTP method.
    pub verb: &'a str,
    /// To what.
    pub target: Target<'a>,
}

/// What a request is about: objects of the API, or a path beside them.
#[derive(Debug, Clone, Copy)]
pub enum Target<'a> {
    /// Objects.
    Resource(ResourceTarget<'a>),
    /// A path such as `/healthz`.
    Path(&'a str),
}

/// Which objects a request is about. Empty text where the request does not say.
#[derive(Debug, Clone, Copy, Default)]
pub struct ResourceTarget<'a> {
    /// API group; empty for core.
    pub group: &'a str,
    /// Plural resource name.
    pub resource: &'a str,
    /// Subresource.
    pub subresource: &'a str,
    /// Namespace; empty for the cluster scope.
    pub namespace: &'a str,
    /// Name of the object; also of a list limited to one name by a field selector.
    pub name: &'a str,
}

impl<'a> Attributes<'a> {
    fn namespace(&self) -> &'a str {
        match self.target {
            Target::Resource(target) => target.namespace,
            Target::Path(_) => "",
        }
    }

    /// The 403 for this request. `reason` is what the authorizer adds, often nothing.
    pub fn forbidden(&self, reason: &str) -> ApiError {
        let Self { user, verb, target } = self;
        let name = &user.name;
        let mut why = match target {
            Target::Path(path) => format!("User {name:?} cannot {verb} path {path:?}"),
            Target::Resource(ResourceTarget { group, resource, subresource, namespace, .. }) => {
                let slash = if subresource.is_empty() { "" } else { "/" };
                let scope = match *namespace {
                    "" => "at the cluster scope".to_owned(),
                    namespace => format!("in the namespace {namespace:?}"),
                };
                let what = format!("{resource}{slash}{subresource}");
                format!("User {name:?} cannot {verb} resource {what:?} in API group {group:?} {scope}")
            }
        };
        // The message may end up in a browser, so it must not look like HTML.
        if why.contains(['&', '<', '>']) {
            why = why.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        }
        if !reason.is_empty() {
            why = format!("{why}: {reason}");
        }
        match target {
            Target::Path(_) => ApiError::forbidden(&Subject::default(), "", why),
            Target::Resource(target) => {
                let subject = Subject { group: target.group, resource: target.resource, kind: "" };
                ApiError::forbidden(&subject, target.name, why)
            }
        }
    }
}

/// The answer to [`Rules::authorize`].
#[derive(Debug, Clone)]
pub enum Decision<'a> {
    /// A member of `system:masters`, who needs no rule.
    Privileged,
    /// Allowed by a binding.
    Granted(Grant<'a>),
    /// Allowed by nothing; the roles that bindings of the user name but that do not exist.
    Refused(Vec<MissingRole<'a>>),
}

impl Decision<'_> {
    /// Whether the request may go on.
    pub fn is_allowed(&self) -> bool {
        !matches!(self, Self::Refused(_))
    }

    /// The `reason` of an access review.
    pub fn reason(&self) -> String {
        match self {
            Self::Privileged => String::new(),
            Self::Granted(grant) => format!("RBAC: allowed by {grant}"),
            Self::Refused(missing) if missing.is_empty() => String::new(),
            Self::Refused(missing) => {
                let names = missing
                    .iter()
                    .map(|role| format!("{}.{GROUP} {:?} not found", role.kind.to_lowercase(), role.name));
                format!("RBAC: {}", aggregate(names))
            }
        }
    }
}

/// One message, or several in brackets without repetition, as Kubernetes joins errors.
pub(crate) fn aggregate(messages: impl IntoIterator<Item = String>) -> String {
    let mut seen: Vec<String> = Vec::new();
    for message in messages {
        if !seen.contains(&message) {
            seen.push(message);
        }
    }
    match seen.as_slice() {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

/// A role that a binding refers to but that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissingRole<'a> {
    /// `Role` or `ClusterRole`.
    pub kind: &'a str,
    /// Its name.
    pub name: &'a str,
}

/// A binding that gives a role to a user.
#[derive(Debug, Clone)]
pub struct Grant<'a> {
    user: &'a UserInfo,
    namespace: &'a str,
    name: &'a str,
    binding: &'a Binding,
}

impl fmt::Display for Grant<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, name, .. } = self;
        match *namespace {
            "" => write!(f, "ClusterRoleBinding {name:?}")?,
            _ => write!(f, "RoleBinding \"{name}/{namespace}\"")?,
        }
        write!(f, " of {} {:?}", self.binding.role_kind, self.binding.role_name)?;
        match self.binding.subjects.iter().find(|subject| subject.applies_to(self.user)) {
            Some(subject) => write!(f, " to {subject}"),
            None => Ok(()),
        }
    }
}

/// The index key of a subject: service accounts are users too.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Who {
    User(String),
    Group(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct BoundSubject {
    who: Who,
    /// Namespace and name, if it is a service account.
    service_account: Option<(String, String)>,
}

impl BoundSubject {
    /// The subject, unless its kind is unknown or it is a service account of no namespace.
    fn from_value(subject: &Value, binding_namespace: &str) -> Option<Self> {
        let name = text(subject, "name").to_owned();
        match text(subject, "kind") {
            "User" => Some(Self { who: Who::User(name), service_account: None }),
            "Group" => Some(Self { who: Who::Group(name), service_account: None }),
            "ServiceAccount" => {
                let namespace = match text(subject, "namespace") {
                    "" => binding_namespace,
                    given => given,
                };
                (!namespace.is_empty()).then(|| Self {
                    who: Who::User(service_account_username(namespace, &name)),
                    service_account: Some((namespace.to_owned(), name)),
                })
            }
            _ => None,
        }
    }

    fn applies_to(&self, user: &UserInfo) -> bool {
        match &self.who {
            Who::User(name) => *name == user.name,
            Who::Group(name) => user.in_group(name),
        }
    }
}

impl fmt::Display for BoundSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.service_account, &self.who) {
            (Some((namespace, name)), _) => write!(f, "ServiceAccount \"{name}/{namespace}\""),
            (None, Who::User(name)) => write!(f, "User {name:?}"),
            (None, Who::Group(name)) => write!(f, "Group {name:?}"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Binding {
    role_kind: String,
    role_name: String,
    subjects: Vec<BoundSubject>,
}

/// The bindings of one namespace, or of the cluster. The indexes hold exactly the subjects of `by_name`.
#[derive(Debug, Clone, Default)]
struct Bindings {
    by_name: OrdMap<String, Arc<Binding>>,
    by_user: OrdMap<String, OrdMap<String, Arc<Binding>>>,
    by_group: OrdMap<String, OrdMap<String, Arc<Binding>>>,
}

impl Bindings {
    fn insert(&mut self, name: &str, binding: Binding) {
        self.remove(name);
        let binding = Arc::new(binding);
        for subject in &binding.subjects {
            let (index, key) = match &subject.who {
                Who::User(key) => (&mut self.by_user, key),
                Who::Group(key) => (&mut self.by_group, key),
            };
            index.entry(key.clone()).or_default().insert(name.to_owned(), Arc::clone(&binding));
        }
        self.by_name.insert(name.to_owned(), binding);
    }

    fn remove(&mut self, name: &str) {
        let Some(binding) = self.by_name.remove(name) else { return };
        for subject in &binding.subjects {
            let (index, key) = match &subject.who {
                Who::User(key) => (&mut self.by_user, key),
                Who::Group(key) => (&mut self.by_group, key),
            };
            if let Some(names) = index.get_mut(key) {
                names.remove(name);
                if names.is_empty() {
                    index.remove(key);
                }
            }
        }
    }

    /// The bindings that apply to `user`, by name, each once.
    fn of<'a>(&'a self, user: &UserInfo) -> Vec<(&'a str, &'a Binding)> {
        let groups = user.groups.iter().filter_map(|group| self.by_group.get(group));
        let mut found: Vec<(&str, &Binding)> = self
            .by_user
            .get(&user.name)
            .into_iter()
            .chain(groups)
            .flat_map(|names| names.iter().map(|(name, binding)| (name.as_str(), binding.as_ref())))
            .collect();
        found.sort_unstable_by_key(|(name, _)| *name);
        found.dedup_by_key(|(name, _)| *name);
        found
    }
}

#[derive(Debug, Clone, Default)]
struct ClusterRole {
    rules: Vec<Rule>,
    aggregation: Aggregation,
}

/// Every right there is, indexed.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    roles: OrdMap<String, OrdMap<String, Arc<Vec<Rule>>>>,
    cluster_roles: OrdMap<String, Arc<ClusterRole>>,
    bindings: OrdMap<String, Bindings>,
    cluster_bindings: Bindings,
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

impl Rules {
    /// The view of `objects`.
    pub fn new<'a>(objects: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut rules = Self::default();
        for object in objects {
            rules.upsert(object);
        }
        rules
    }

    /// Takes in an object that was created or changed. Objects of other kinds are none of its business.
    pub fn upsert(&mut self, object: &Value) {
        let metadata = object.get("metadata").unwrap_or(&Value::Null);
        let (namespace, name) = (text(metadata, "namespace"), text(metadata, "name"));
        match text(object, "kind") {
            "Role" => {
                let roles = self.roles.entry(namespace.to_owned()).or_default();
                roles.insert(name.to_owned(), Arc::new(Rule::list(object)));
            }
            "ClusterRole" => {
                let role = ClusterRole { rules: Rule::list(object), aggregation: Aggregation::of(object) };
                self.cluster_roles.insert(name.to_owned(), Arc::new(role));
            }
            "RoleBinding" => {
                let binding = Binding::from_value(object, namespace);
                self.bindings.entry(namespace.to_owned()).or_default().insert(name, binding);
            }
            "ClusterRoleBinding" => self.cluster_bindings.insert(name, Binding::from_value(object, "")),
            _ => {}
        }
    }

    /// Forgets an object that was deleted.
    pub fn remove(&mut self, kind: &str, namespace: &str, name: &str) {
        match kind {
            "Role" => {
                if let Some(roles) = self.roles.get_mut(namespace) {
                    roles.remove(name);
                    if roles.is_empty() {
                        self.roles.remove(namespace);
                    }
                }
            }
            "ClusterRole" => {
                self.cluster_roles.remove(name);
            }
            "RoleBinding" => {
                if let Some(bindings) = self.bindings.get_mut(namespace) {
                    bindings.remove(name);
                    if bindings.by_name.is_empty() {
                        self.bindings.remove(namespace);
                    }
                }
            }
            "ClusterRoleBinding" => self.cluster_bindings.remove(name),
            _ => {}
        }
    }

    /// Whether the request is allowed, and by what.
    pub fn authorize<'a>(&'a self, attributes: &Attributes<'a>) -> Decision<'a> {
        if attributes.user.in_group(MASTERS) {
            return Decision::Privileged;
        }
        let mut missing = Vec::new();
        for (grant, rules) in self.grants(attributes.user, attributes.namespace()) {
            match rules {
                Ok(rules) if rules.iter().any(|rule| rule.allows(attributes)) => {
                    return Decision::Granted(grant);
                }
                Ok(_) => {}
                Err(role) => missing.push(role),
            }
        }
        Decision::Refused(missing)
    }

    /// `Ok` if the request is allowed, else its 403.
    pub fn check(&self, attributes: &Attributes<'_>) -> Result<(), ApiError> {
        let decision = self.authorize(attributes);
        if decision.is_allowed() { Ok(()) } else { Err(attributes.forbidden(&decision.reason())) }
    }

    /// All rules of `user` in `namespace`, with the roles that were not found.
    pub fn rules_of<'a>(
        &'a self,
        user: &'a UserInfo,
        namespace: &'a str,
    ) -> (Vec<&'a Rule>, Vec<MissingRole<'a>>) {
        let (mut rules, mut missing) = (Vec::new(), Vec::new());
        for (_, granted) in self.grants(user, namespace) {
            match granted {
                Ok(granted) => rules.extend(granted),
                Err(role) => missing.push(role),
            }
        }
        (rules, missing)
    }

    fn grants<'a>(
        &'a self,
        user: &'a UserInfo,
        namespace: &'a str,
    ) -> impl Iterator<Item = (Grant<'a>, Result<&'a [Rule], MissingRole<'a>>)> {
        let local = if namespace.is_empty() { None } else { self.bindings.get(namespace) };
        let cluster = self.cluster_bindings.of(user).into_iter().map(|(name, binding)| ("", name, binding));
        let local = local
            .into_iter()
            .flat_map(move |bindings| bindings.of(user))
            .map(move |(name, binding)| (namespace, name, binding));
        cluster.chain(local).map(move |(namespace, name, binding)| {
            let rules = self.role_rules(&binding.role_kind, &binding.role_name, namespace);
            (Grant { user, namespace, name, binding }, rules)
        })
    }

    fn role_rules<'a>(
        &'a self,
        kind: &'a str,
        name: &'a str,
        namespace: &str,
    ) -> Result<&'a [Rule], MissingRole<'a>> {
        let found = if kind == "ClusterRole" {
            self.cluster_roles.get(name).map(|role| role.rules.as_slice())
        } else {
            self.roles.get(namespace).and_then(|roles| roles.get(name)).map(|rules| rules.as_slice())
        };
        found.ok_or(MissingRole { kind, name })
    }
}

impl Binding {
    fn from_value(binding: &Value, namespace: &str) -> Self {
        let role = binding.get("roleRef").unwrap_or(&Value::Null);
        let subjects = binding.get("subjects").and_then(Value::as_array);
        Self {
            role_kind: text(role, "kind").to_owned(),
            role_name: text(role, "name").to_owned(),
            subjects: subjects
                .into_iter()
                .flatten()
                .filter_map(|subject| BoundSubject::from_value(subject, namespace))
                .collect(),
        }
    }
}
