//! The roles and bindings every cluster starts with.
//!
//! `bootstrap.json` holds what kube-apiserver creates on its first start, without the roles of the controllers
//! of kube-controller-manager. Aggregating roles come out with their rules already gathered.

use serde::Deserialize;
use serde_json::{Value, json};

use super::rbac::{GROUP, Rules};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Entry {
    kind: String,
    name: String,
    namespace: Option<String>,
    #[serde(default)]
    labels: serde_json::Map<String, Value>,
    aggregation_rule: Option<Value>,
    rules: Option<Value>,
    role_ref: Option<Value>,
    subjects: Option<Value>,
}

impl Entry {
    fn into_object(self) -> Value {
        let mut labels = self.labels;
        labels.insert("kubernetes.io/bootstrapping".to_owned(), "rbac-defaults".into());
        let mut object = json!({
            "apiVersion": format!("{GROUP}/v1"),
            "kind": self.kind,
            "metadata": {
                "name": self.name,
                "labels": labels,
                "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
            },
        });
        if let Some(namespace) = self.namespace {
            object["metadata"]["namespace"] = namespace.into();
        }
        for (field, value) in [
            ("aggregationRule", self.aggregation_rule),
            ("rules", self.rules),
            ("roleRef", self.role_ref),
            ("subjects", self.subjects),
        ] {
            if let Some(value) = value {
                object[field] = value;
            }
        }
        object
    }
}

/// The objects to create in an empty cluster: ClusterRoles, ClusterRoleBindings, Roles, RoleBindings. The
/// namespaced ones are of `kube-system` and `kube-public`.
pub fn objects() -> Vec<Value> {
    let entries: Vec<Entry> = serde_json::from_str(include_str!("bootstrap.json"))
        .expect("the file is part of the program and read by a test");
    let mut objects: Vec<Value> = entries.into_iter().map(Entry::into_object).collect();
    let mut view = Rules::new(&objects);
    loop {
        let stale = view.stale_aggregates();
        if stale.is_empty() {
            return objects;
        }
        for (name, rules) in stale {
            let role = objects
                .iter_mut()
                .find(|object| object["kind"] == "ClusterRole" && object["metadata"]["name"] == name.as_str())
                .expect("the view was made of these objects");
            role["rules"] = serde_json::to_value(rules).expect("rules are strings, which always serialise");
            view.upsert(role);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::rbac::{Attributes, ResourceTarget, Target};
    use crate::auth::user::UserInfo;

    fn allowed(user: &UserInfo, verb: &str, target: Target<'_>) -> bool {
        Rules::new(&objects()).authorize(&Attributes { user, verb, target }).is_allowed()
    }

    #[test]
    fn strangers_see_health_and_version_and_nothing_else() {
        let (stranger, member) = (UserInfo::anonymous(), UserInfo::new("bob", ["g"]));
        for path in ["/healthz", "/livez", "/readyz", "/version", "/version/"] {
            assert!(allowed(&stranger, "get", Target::Path(path)), "{path}");
        }
        for path in ["/api", "/apis/apps", "/openapi/v3", "/metrics"] {
            assert!(!allowed(&stranger, "get", Target::Path(path)), "{path}");
        }
        assert!(allowed(&member, "get", Target::Path("/apis/apps/v1")));
        assert!(!allowed(&member, "get", Target::Path("/metrics")));
        let review = Target::Resource(ResourceTarget {
            group: "authentication.k8s.io",
            resource: "selfsubjectreviews",
            ..ResourceTarget::default()
        });
        assert!(allowed(&member, "create", review));
        assert!(!allowed(&stranger, "create", review));
    }

    #[test]
    fn view_edit_and_admin_allow_what_the_real_ones_do() {
        let mut rules = Rules::new(&objects());
        for role in ["view", "edit", "admin"] {
            rules.upsert(&json!({"kind": "RoleBinding", "metadata": {"name": role, "namespace": "ns"},
                "roleRef": {"kind": "ClusterRole", "name": role}, "subjects": [{"kind": "User", "name": role}]}));
        }
        let asked = [
            ("get", "pods", ""),
            ("create", "pods", ""),
            ("get", "secrets", ""),
            ("create", "deployments", "apps"),
            ("create", "roles", GROUP),
            ("get", "nodes", ""),
            ("delete", "namespaces", ""),
            ("create", "resourcequotas", ""),
            ("get", "configmaps", ""),
            ("impersonate", "serviceaccounts", ""),
        ];
        for (role, expected) in [
            ("view", [true, false, false, false, false, false, false, false, true, false]),
            ("edit", [true, true, true, true, false, false, false, false, true, true]),
            ("admin", [true, true, true, true, true, false, false, false, true, true]),
        ] {
            let user = UserInfo::new(role, ["g"]);
            for ((verb, resource, group), expected) in asked.into_iter().zip(expected) {
                let target = ResourceTarget { group, resource, namespace: "ns", ..ResourceTarget::default() };
                let attributes = Attributes { user: &user, verb, target: Target::Resource(target) };
                let decision = rules.authorize(&attributes);
                assert_eq!(decision.is_allowed(), expected, "{role} {verb} {resource}");
            }
        }
    }

    #[test]
    fn the_objects_are_complete_and_settled() {
        let objects = objects();
        for object in &objects {
            assert_eq!(object["metadata"]["labels"]["kubernetes.io/bootstrapping"], "rbac-defaults");
            let kind = object["kind"].as_str().unwrap();
            assert_eq!(kind.ends_with("Binding"), object.get("roleRef").is_some(), "{object}");
            assert_eq!(
                !kind.starts_with("Cluster"),
                object["metadata"].get("namespace").is_some(),
                "{object}"
            );
            assert!(kind.ends_with("Binding") || object["rules"].is_array(), "{object}");
        }
        assert!(Rules::new(&objects).stale_aggregates().is_empty());
        let rules = |name: &str| {
            let object = objects.iter().find(|object| object["metadata"]["name"] == name).unwrap();
            object["rules"].as_array().unwrap().clone()
        };
        let admin = rules("admin");
        for gathered in ["system:aggregate-to-view", "system:aggregate-to-edit", "system:aggregate-to-admin"]
        {
            assert!(!rules(gathered).is_empty() && rules(gathered).iter().all(|rule| admin.contains(rule)));
        }
    }
}
