//! Nobody may grant what they don't hold: the check on writes of roles and bindings.

use serde_json::{Map, Value};

use super::rule::{missing, quoted};
use super::{Attributes, GROUP, ResourceTarget, Rule, Rules, Target, aggregate, text};
use crate::auth::user::{MASTERS, UserInfo};
use crate::error::{ApiError, Subject};

/// A create or update of an object that grants rights.
#[derive(Debug, Clone, Copy)]
pub struct Write<'a> {
    /// Who writes.
    pub user: &'a UserInfo,
    /// Namespace of the request; empty for cluster-scoped kinds.
    pub namespace: &'a str,
    /// Name in the request's path; empty on create.
    pub name: &'a str,
    /// The object as it shall be, defaulted.
    pub object: &'a Value,
    /// The object as it is, on update.
    pub old: Option<&'a Value>,
}

impl Rules {
    /// Refuses a write that gives away rights the writer lacks. Other kinds than the four of RBAC pass.
    pub fn check_escalation(&self, write: &Write<'_>) -> Result<(), ApiError> {
        let kind = text(write.object, "kind");
        let resource = match kind {
            "Role" => "roles",
            "ClusterRole" => "clusterroles",
            "RoleBinding" => "rolebindings",
            "ClusterRoleBinding" => "clusterrolebindings",
            _ => return Ok(()),
        };
        if write.user.in_group(MASTERS) {
            return Ok(());
        }
        let own_metadata = write.object.get("metadata").unwrap_or(&Value::Null);
        let forbidden = |why: String| {
            let subject = Subject { group: GROUP, resource, kind };
            ApiError::forbidden(&subject, text(own_metadata, "name"), why)
        };
        let may = |verb: &str, group: &str, resource: &str, name: &str| {
            let namespace = write.namespace;
            let target =
                Target::Resource(ResourceTarget { group, resource, subresource: "", namespace, name });
            self.authorize(&Attributes { user: write.user, verb, target }).is_allowed()
        };
        let only_collected = write.old.is_some_and(|old| changes_only_collection(write.object, old));
        if kind.ends_with("Role") {
            if may("escalate", GROUP, resource, write.name) || only_collected {
                return Ok(());
            }
            self.confirm_held(write, resource, &Rule::list(write.object)).map_err(forbidden)?;
            if kind == "ClusterRole" && [Some(write.object), write.old].into_iter().flatten().any(aggregates)
            {
                self.confirm_held(write, resource, &full_authority()).map_err(|_| {
                    forbidden("must have cluster-admin privileges to use the aggregationRule".to_owned())
                })?;
            }
            return Ok(());
        }
        let role = write.object.get("roleRef").unwrap_or(&Value::Null);
        let (role_kind, role_name) = (text(role, "kind"), text(role, "name"));
        let role_resource = match role_kind {
            "Role" => "roles",
            "ClusterRole" => "clusterroles",
            other => {
                return Err(ApiError::unexplained(format!("unsupported role reference kind: {other:?}")));
            }
        };
        if only_collected || may("bind", text(role, "apiGroup"), role_resource, role_name) {
            return Ok(());
        }
        let rules = self.role_rules(role_kind, role_name, write.namespace).map_err(|_| {
            // The real server speaks of the resource that is written, not of the role that is missing.
            ApiError::not_found(&Subject { group: GROUP, resource, kind }, role_name)
        })?;
        self.confirm_held(write, resource, rules).map_err(forbidden)
    }

    fn confirm_held(&self, write: &Write<'_>, resource: &str, asked: &[Rule]) -> Result<(), String> {
        let user = write.user;
        let (held, unresolved) = self.rules_of(user, write.namespace);
        let missing = missing(&held, asked);
        if missing.is_empty() {
            return Ok(());
        }
        let lines: Vec<String> = missing.into_iter().collect();
        let mut message = format!(
            "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
            user.name,
            quoted(&user.groups),
            lines.join("\n")
        );
        if !unresolved.is_empty() {
            let unresolved =
                unresolved.iter().map(|role| format!("{resource}.{GROUP} {:?} not found", role.name));
            message.push_str(&format!("; resolution errors: [{}]", aggregate(unresolved)));
        }
        Err(message)
    }
}

fn aggregates(role: &Value) -> bool {
    role.pointer("/aggregationRule/clusterRoleSelectors")
        .and_then(Value::as_array)
        .is_some_and(|selectors| !selectors.is_empty())
}

fn full_authority() -> [Rule; 2] {
    let all = || vec!["*".to_owned()];
    [
        Rule { verbs: all(), api_groups: all(), resources: all(), ..Rule::default() },
        Rule { verbs: all(), non_resource_urls: all(), ..Rule::default() },
    ]
}

/// Whether nothing differs but what the garbage collector writes: it must work without the rights it frees.
fn changes_only_collection(new: &Value, old: &Value) -> bool {
    let (Some(new), Some(old)) = (new.as_object(), old.as_object()) else { return false };
    let (Some(new_metadata), Some(old_metadata)) = (metadata(new), metadata(old)) else { return false };
    same_except(new, old, &["metadata"])
        && same_except(new_metadata, old_metadata, &["ownerReferences", "finalizers", "managedFields"])
}

fn metadata(object: &Map<String, Value>) -> Option<&Map<String, Value>> {
    object.get("metadata").and_then(Value::as_object)
}

fn same_except(one: &Map<String, Value>, other: &Map<String, Value>, ignored: &[&str]) -> bool {
    let differs = |one: &Map<String, Value>, other: &Map<String, Value>| {
        one.iter().any(|(key, value)| !ignored.contains(&key.as_str()) && other.get(key) != Some(value))
    };
    !differs(one, other) && !differs(other, one)
}
