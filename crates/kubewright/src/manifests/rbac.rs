//! Who may do what: the operator no more than it uses, and the people of a cluster with its kinds as with the
//! built-in ones.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::{ManifestOptions, Names, definitions};
use crate::{
    controller::{Audience, Description},
    migration,
    operator::Operator,
    rights::{Rights, Verb},
    webhook::{Targets, secret_name},
};

pub(super) fn rbac(operator: &Operator, names: &Names<'_>, options: &ManifestOptions) -> Vec<Value> {
    let account = json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": names.own(names.operator),
    });
    let mut documents = vec![account];
    documents.extend(operator_roles(&all_rights(operator, options), names, &options.namespaces));
    documents.extend(leader_election(names));
    documents.extend(options.secure_metrics.then(|| metrics_reader(names)));
    let definitions = definitions::merged(operator);
    for definition in &definitions {
        let subject = subject(definition, &definitions);
        documents.extend(roles_for_people(definition, &subject, audience(operator, definition), names));
    }
    documents
}

/// What the controllers use, migrating what is stored, telling about it all in events, and asking who may read the
/// metrics. A kind of its own
/// without a status needs no right to it.
fn all_rights(operator: &Operator, options: &ManifestOptions) -> Rights {
    let mut rights = operator.rights();
    for definition in definitions::merged(operator) {
        let mut parts = definition.spec.versions.iter().filter_map(|version| version.subresources.as_ref());
        if !parts.any(|parts| parts.status.is_some()) {
            let status = format!("{}/status", definition.spec.names.plural);
            rights
                .verbs
                .retain(|(group, resource, _), _| *group != definition.spec.group || *resource != status);
        }
    }
    if options.namespaces.is_empty() {
        operator.migrated().into_iter().for_each(|kind| rights.merge(&migration::rights(kind)));
    }
    rights.add("events.k8s.io".to_owned(), "events".to_owned(), true, &[Verb::Create, Verb::Patch]);
    if options.secure_metrics {
        for (group, reviews) in
            [("authentication.k8s.io", "tokenreviews"), ("authorization.k8s.io", "subjectaccessreviews")]
        {
            rights.add(group.to_owned(), reviews.to_owned(), false, &[Verb::Create]);
        }
    }
    keeping_certificates(&mut rights, operator, options);
    rights
}

/// Certificates for webhooks, and making them known. Applying creates what is named, and listing can be limited to a name.
fn keeping_certificates(rights: &mut Rights, operator: &Operator, options: &ManifestOptions) {
    const CONFIGURATIONS: &str = "admissionregistration.k8s.io";
    let Targets { mutating, validating, definitions } = operator.webhook_targets(&options.namespaces);
    let told: Vec<(&str, &str, &String)> = (mutating.iter())
        .map(|name| (CONFIGURATIONS, "mutatingwebhookconfigurations", name))
        .chain(validating.iter().map(|name| (CONFIGURATIONS, "validatingwebhookconfigurations", name)))
        .chain(definitions.iter().map(|name| ("apiextensions.k8s.io", "customresourcedefinitions", name)))
        .collect();
    let changing = [Verb::WATCHING, &[Verb::Patch]].concat();
    for (group, resource, name) in &told {
        rights.named(group, resource, false, name, &changing);
    }
    if !told.is_empty() {
        let making = [changing.as_slice(), &[Verb::Create]].concat();
        rights.named("", "secrets", true, &secret_name(operator.name()), &making);
    }
}

/// One ClusterRole; or, if only some namespaces are watched, a Role in each, and a ClusterRole for what is in none. What
/// it may do in its own namespace, by name, is a Role there.
fn operator_roles(rights: &Rights, names: &Names<'_>, namespaces: &[String]) -> Vec<Value> {
    let mut everywhere = rules(rights, |is_namespaced| !is_namespaced || namespaces.is_empty());
    everywhere.extend(named_rules(rights, false));
    let mut documents = if everywhere.is_empty() { Vec::new() } else { cluster_role(names, everywhere) };
    for namespace in namespaces {
        documents.extend(role(
            names,
            namespace,
            names.operator,
            rules(rights, |is_namespaced| is_namespaced),
        ));
    }
    let own = named_rules(rights, true);
    if !own.is_empty() {
        documents.extend(role(names, &names.namespace, &format!("{}-own", names.operator), own));
    }
    documents
}

/// The rules for those rights whose scope is wanted; resources of a group that need the same share one.
fn rules(rights: &Rights, is_wanted: impl Fn(bool) -> bool) -> Vec<Value> {
    let mut together: BTreeMap<(&str, Vec<&str>), Vec<&str>> = BTreeMap::new();
    for ((group, resource, is_namespaced), verbs) in &rights.verbs {
        if is_wanted(*is_namespaced) {
            let verbs = verbs.iter().map(|verb| verb.name()).collect();
            together.entry((group, verbs)).or_default().push(resource);
        }
    }
    let rule =
        |((group, verbs), resources)| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    together.into_iter().map(rule).collect()
}

/// The rules for objects of a scope that are named; those of a resource that need the same share one.
fn named_rules(rights: &Rights, is_namespaced: bool) -> Vec<Value> {
    let mut together: BTreeMap<(&str, &str, Vec<&str>), Vec<&str>> = BTreeMap::new();
    for ((group, resource, _), names) in
        rights.named.iter().filter(|((.., scope), _)| *scope == is_namespaced)
    {
        for (name, verbs) in names {
            let verbs = verbs.iter().map(|verb| verb.name()).collect();
            together.entry((group, resource, verbs)).or_default().push(name);
        }
    }
    let rule = |((group, resource, verbs), names)| json!({"apiGroups": [group], "resources": [resource], "resourceNames": names, "verbs": verbs});
    together.into_iter().map(rule).collect()
}

fn cluster_role(names: &Names<'_>, rules: Vec<Value>) -> Vec<Value> {
    let name = names.operator;
    vec![
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": names.cluster(name),
            "rules": rules,
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": names.cluster(name),
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": subjects(names),
        }),
    ]
}

fn role(names: &Names<'_>, namespace: &str, name: &str, rules: Vec<Value>) -> Vec<Value> {
    vec![
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": names.within(namespace, name),
            "rules": rules,
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": names.within(namespace, name),
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": subjects(names),
        }),
    ]
}

fn subjects(names: &Names<'_>) -> Value {
    json!([{"kind": "ServiceAccount", "name": names.operator, "namespace": names.namespace}])
}

/// The lease by its name, and telling who leads. Creating can't be limited to one name: it is not known when rights
/// are checked.
fn leader_election(names: &Names<'_>) -> Vec<Value> {
    let (groups, resources) = (["coordination.k8s.io"], ["leases"]);
    let rules = vec![
        json!({"apiGroups": groups, "resources": resources, "verbs": ["create"]}),
        json!({
            "apiGroups": groups,
            "resources": resources,
            "resourceNames": [names.operator],
            "verbs": ["get", "update"],
        }),
        json!({"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create"]}),
    ];
    role(names, &names.namespace, &format!("{}-leader-election", names.operator), rules)
}

/// For whoever collects metrics.
fn metrics_reader(names: &Names<'_>) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": names.cluster(format!("{}-metrics-reader", names.operator)),
        "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
    })
}

/// The smallest of those that its controllers name.
fn audience(operator: &Operator, definition: &CustomResourceDefinition) -> Audience {
    let controllers = operator.controllers.iter().map(|controller| &controller.description);
    let is_of_it = |one: &&Description| {
        one.kind.group == definition.spec.group && one.kind.plural == definition.spec.names.plural
    };
    controllers.filter(is_of_it).map(|one| one.audience).min().unwrap_or(Audience::Everybody)
}

/// What the roles of a kind are named after: the kind, and its group if another group has a kind of that name.
fn subject(definition: &CustomResourceDefinition, all: &[CustomResourceDefinition]) -> String {
    let kind = &definition.spec.names.kind;
    let lower = kind.to_ascii_lowercase();
    match all.iter().filter(|other| other.spec.names.kind == *kind).count() {
        1 => lower,
        _ => format!("{lower}-{}", definition.spec.group.replace('.', "-")),
    }
}

/// Roles that become part of the cluster's own `admin`, `edit` and `view`, as far as they are for this audience.
fn roles_for_people(
    definition: &CustomResourceDefinition,
    subject: &str,
    audience: Audience,
    names: &Names<'_>,
) -> Vec<Value> {
    let (group, plural) = (&definition.spec.group, &definition.spec.names.plural);
    let editing = ["create", "delete", "get", "list", "patch", "update", "watch"];
    let tiers: [(Audience, &str, &str, &[&str]); 3] = [
        (Audience::Editors, "admin", "admin", &["*"]),
        (Audience::Editors, "editor", "edit", &editing),
        (Audience::Everybody, "viewer", "view", &["get", "list", "watch"]),
    ];
    tiers
        .into_iter()
        .filter(|(needed, ..)| *needed <= audience)
        .map(|(_, tier, aggregate, verbs)| {
            let mut metadata = names.cluster(format!("{}-{subject}-{tier}", names.operator));
            metadata["labels"][format!("rbac.authorization.k8s.io/aggregate-to-{aggregate}")] = json!("true");
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRole",
                "metadata": metadata,
                "rules": [
                    {"apiGroups": [group], "resources": [plural], "verbs": verbs},
                    {"apiGroups": [group], "resources": [format!("{plural}/status")], "verbs": ["get"]},
                ],
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_to_single_objects_name_them() {
        let mut rights = Rights::default();
        for name in ["one", "two"] {
            rights.named("example.com", "things", false, name, &[Verb::Get, Verb::Patch]);
        }
        rights.named("", "secrets", true, "keys", &[Verb::Get]);
        let mut all = Rights::default();
        all.merge(&rights);
        let names = Names { operator: "one-operator", namespace: "own".to_owned() };
        let roles: Vec<Value> = operator_roles(&all, &names, &["watched".to_owned()])
            .into_iter()
            .filter(|document| !document["rules"].is_null())
            .map(|role| json!([role["metadata"]["namespace"], role["metadata"]["name"], role["rules"]]))
            .collect();
        let things = json!({
            "apiGroups": ["example.com"], "resources": ["things"], "resourceNames": ["one", "two"],
            "verbs": ["get", "patch"],
        });
        let keys = json!({
            "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["keys"], "verbs": ["get"],
        });
        assert_eq!(
            roles,
            [
                json!([null, "one-operator", [things]]),
                json!(["watched", "one-operator", []]),
                json!(["own", "one-operator-own", [keys]]),
            ]
        );
    }
}
