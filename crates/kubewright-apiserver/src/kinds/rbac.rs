//! Roles and who has them. Whether somebody may grant what is in them is decided elsewhere.

use serde_json::{Value, json};

use super::{
    Strategy,
    access::{default_to, get_str, items_mut, set},
    checks,
    report::{At, Errors},
};
use crate::{field::FieldError, names};

const GROUP: &str = "rbac.authorization.k8s.io";

/// The kinds of the group `rbac.authorization.k8s.io`.
pub(crate) const STRATEGIES: &[(&str, &str, Strategy)] = &[
    ("v1", "ClusterRole", CLUSTER_ROLE),
    ("v1", "ClusterRoleBinding", CLUSTER_ROLE_BINDING),
    ("v1", "Role", ROLE),
    ("v1", "RoleBinding", ROLE_BINDING),
];

const ROLE: Strategy = Strategy {
    validate: |object| Errors::of(object, |role, errors| rules(role, true, errors)),
    validate_update: |object, _| Errors::of(object, |role, errors| rules(role, true, errors)),
    ..Strategy::PLAIN
};

const CLUSTER_ROLE: Strategy = Strategy {
    validate: |object| Errors::of(object, cluster_role),
    validate_update: |object, _| Errors::of(object, cluster_role),
    ..Strategy::PLAIN
};

const ROLE_BINDING: Strategy = Strategy {
    default: default_binding,
    validate: |object| Errors::of(object, |binding, errors| role_binding(binding, true, errors)),
    validate_update: |object, old| binding_update(object, old, true),
    ..Strategy::PLAIN
};

const CLUSTER_ROLE_BINDING: Strategy = Strategy {
    default: default_binding,
    validate: |object| Errors::of(object, |binding, errors| role_binding(binding, false, errors)),
    validate_update: |object, old| binding_update(object, old, false),
    ..Strategy::PLAIN
};

fn default_binding(object: &mut Value) {
    if get_str(object, &["roleRef", "apiGroup"]).is_empty() {
        set(object, &["roleRef", "apiGroup"], GROUP);
    }
    for subject in items_mut(object, &["subjects"]) {
        if matches!(get_str(subject, &["kind"]), "User" | "Group") {
            default_to(subject, &["apiGroup"], GROUP);
        }
    }
}

fn rules(role: &At<'_, '_>, namespaced: bool, errors: &mut Errors) {
    let rules = role.field("rules");
    for rule in rules.items() {
        let verbs = rule.field("verbs");
        if verbs.is_empty() {
            errors.required(&verbs, "verbs must contain at least one value");
        }
        let (groups, resources) = (rule.field("apiGroups"), rule.field("resources"));
        let urls = rule.field("nonResourceURLs");
        if urls.is_empty() {
            if groups.is_empty() {
                errors.required(&groups, "resource rules must supply at least one api group");
            }
            if resources.is_empty() {
                errors.required(&resources, "resource rules must supply at least one resource");
            }
            continue;
        }
        if namespaced {
            errors.invalid(&urls, urls.shown(), "namespaced rules cannot apply to non-resource URLs");
        }
        if !groups.is_empty() || !resources.is_empty() || !rule.field("resourceNames").is_empty() {
            let why = "rules cannot apply to both regular resources and non-resource URLs";
            errors.invalid(&urls, urls.shown(), why);
        }
    }
}

fn cluster_role(role: &At<'_, '_>, errors: &mut Errors) {
    rules(role, false, errors);
    let aggregation = role.field("aggregationRule");
    if !aggregation.exists() {
        return;
    }
    let selectors = aggregation.field("clusterRoleSelectors");
    if selectors.is_empty() {
        errors
            .required(&selectors, "at least one clusterRoleSelector required if aggregationRule is non-nil");
    }
    for selector in selectors.items() {
        checks::label_selector(&selector, errors);
    }
}

fn role_binding(binding: &At<'_, '_>, namespaced: bool, errors: &mut Errors) {
    let role = binding.field("roleRef");
    let group = role.field("apiGroup");
    if group.str() != GROUP {
        errors.not_supported(&group, group.str(), &[GROUP]);
    }
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    let kind = role.field("kind");
    if !kinds.contains(&kind.str()) {
        errors.not_supported(&kind, kind.str(), kinds);
    }
    let name = role.field("name");
    if name.str().is_empty() {
        errors.required(&name, "");
    } else {
        errors.each(&name, names::path_segment(name.str()));
    }
    let subjects = binding.field("subjects");
    for one in subjects.items() {
        subject(&one, namespaced, errors);
    }
}

fn subject(subject: &At<'_, '_>, namespaced: bool, errors: &mut Errors) {
    let (kind, name) = (subject.field("kind"), subject.field("name"));
    let group = subject.field("apiGroup");
    if name.str().is_empty() {
        errors.required(&name, "");
    }
    match kind.str() {
        "ServiceAccount" => {
            if !name.str().is_empty() {
                errors.each(&name, checks::dns_subdomain(name.str()));
            }
            if !group.str().is_empty() {
                errors.not_supported(&group, group.str(), &[""]);
            }
            let namespace = subject.field("namespace");
            if !namespaced && namespace.str().is_empty() {
                errors.required(&namespace, "");
            }
        }
        "User" | "Group" => {
            if group.str() != GROUP {
                errors.not_supported(&group, group.str(), &[GROUP]);
            }
        }
        other => errors.not_supported(&kind, other, &["ServiceAccount", "User", "Group"]),
    }
}

fn binding_update(object: &Value, old: &Value, namespaced: bool) -> Vec<FieldError> {
    Errors::of(object, |binding, errors| {
        role_binding(binding, namespaced, errors);
        let role = binding.field("roleRef");
        let (before, now) = (At::root(old), |field| role.field(field).str().to_owned());
        let before = before.field("roleRef");
        if ["apiGroup", "kind", "name"]
            .iter()
            .any(|field| before.field(field).str() != role.field(field).str())
        {
            let shown = json!({"APIGroup": now("apiGroup"), "Kind": now("kind"), "Name": now("name")});
            errors.invalid(&role, shown, "cannot change roleRef");
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binding() -> Value {
        json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [
            {"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s"}, {"kind": "Group", "name": "g"},
        ]})
    }

    #[test]
    fn a_binding_gets_the_groups_of_its_role_and_people() {
        let mut object = binding();
        default_binding(&mut object);
        assert_eq!(
            object,
            json!({"roleRef": {"apiGroup": GROUP, "kind": "Role", "name": "r"}, "subjects": [
                {"apiGroup": GROUP, "kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s"},
                {"apiGroup": GROUP, "kind": "Group", "name": "g"},
            ]})
        );
        assert!((ROLE_BINDING.validate)(&object).is_empty());
    }

    #[test]
    fn what_is_wrong_with_bindings_and_roles_is_said_in_the_known_words() {
        let mut object = binding();
        default_binding(&mut object);
        let mut changed = object.clone();
        changed["roleRef"]["name"] = "other".into();
        let update = (ROLE_BINDING.validate_update)(&changed, &object);
        assert_eq!(
            update[0].to_string(),
            "roleRef: Invalid value: {\"APIGroup\":\"rbac.authorization.k8s.io\",\"Kind\":\"Role\",\"Name\":\"other\"}: cannot change roleRef"
        );
        let errors = (CLUSTER_ROLE_BINDING.validate)(&object);
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "roleRef.kind: Unsupported value: \"Role\": supported values: \"ClusterRole\"",
                "subjects[1].namespace: Required value",
            ]
        );
        let role =
            json!({"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"], "resources": ["pods"]}, {}]});
        let texts: Vec<String> = (ROLE.validate)(&role).iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "rules[0].nonResourceURLs: Invalid value: [\"/x\"]: namespaced rules cannot apply to non-resource URLs",
                "rules[0].nonResourceURLs: Invalid value: [\"/x\"]: rules cannot apply to both regular resources and non-resource URLs",
                "rules[1].verbs: Required value: verbs must contain at least one value",
                "rules[1].apiGroups: Required value: resource rules must supply at least one api group",
                "rules[1].resources: Required value: resource rules must supply at least one resource",
            ]
        );
    }
}
