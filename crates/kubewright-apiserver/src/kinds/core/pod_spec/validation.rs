//! Whether a pod spec can be accepted.

use std::{
    cell::LazyCell,
    collections::{BTreeMap, BTreeSet},
};

use serde_json::Value;

use super::{
    super::super::{
        checks,
        report::{At, Errors},
    },
    containers::{self, Surroundings},
    resources, scheduling, security,
    volumes::Volumes,
};

/// Whose spec it is. Some rules came too late for templates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A pod's own.
    Pod,
    /// That of a template.
    Template,
}

/// A pod template: labels, annotations and spec.
pub(crate) fn template(template: &At<'_, '_>, errors: &mut Errors) {
    let metadata = template.field("metadata");
    let labels = template.field("labels").holding(metadata.field("labels").value());
    let annotations = template.field("annotations").holding(metadata.field("annotations").value());
    let spec = template.field("spec");
    checks::labels(&labels, errors);
    checks::annotations(&annotations, errors);
    pod_annotations(&annotations, &spec, errors);
    pod_spec(&spec, "", Owner::Template, errors);
    let ephemeral = spec.field("ephemeralContainers");
    if !ephemeral.is_empty() {
        errors.forbidden(&ephemeral, "ephemeral containers not allowed in pod template");
    }
}

/// Annotations that mean something to pods.
pub(crate) fn pod_annotations(annotations: &At<'_, '_>, spec: &At<'_, '_>, errors: &mut Errors) {
    const MIRROR: &str = "kubernetes.io/config.mirror";
    const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
    let mirror = annotations.key(MIRROR);
    if mirror.exists() && spec.field("nodeName").str().is_empty() {
        errors.invalid(&mirror, mirror.str(), "must set spec.nodeName if mirror pod annotation is set");
    }
    let cost = annotations.key(DELETION_COST);
    if cost.exists() {
        let text = cost.str();
        let canonical =
            !text.starts_with('+') && (text == "0" || !text.trim_start_matches('-').starts_with('0'));
        if !canonical || text.parse::<i32>().is_err() {
            errors.invalid(&cost, text, "must be a 32bit integer");
        }
    }
    for (key, profile) in annotations.entries() {
        if let Some(container) = key.strip_prefix("container.apparmor.security.beta.kubernetes.io/") {
            let mut known = false;
            super::each_container(spec, |one| known |= one.field("name").str() == container);
            if !known {
                errors.invalid(&profile, container, "container not found");
            }
            let text = profile.str();
            if !matches!(text, "" | "runtime/default" | "unconfined") && !text.starts_with("localhost/") {
                errors.invalid(&profile, text, format!("invalid AppArmor profile name: \"{text}\""));
            }
        }
    }
}

/// A pod spec. `pod` is the name of the pod, empty for templates.
pub(crate) fn pod_spec(spec: &At<'_, '_>, pod: &str, owner: Owner, errors: &mut Errors) {
    let grace = spec.field("terminationGracePeriodSeconds");
    if !grace.exists() {
        errors.required(&grace, "");
    }
    let host_users = spec.field("hostUsers");
    let around = Surroundings {
        volumes: Volumes::check(spec, pod, owner, errors),
        claims: spec
            .field("resourceClaims")
            .items()
            .map(|claim| claim.field("name").str())
            .filter(|name| !name.is_empty())
            .collect(),
        grace: grace.number(),
        restart_policy: spec.field("restartPolicy").str(),
        host_users: !host_users.exists() || host_users.bool(),
    };
    resource_claims(&spec.field("resourceClaims"), errors);
    containers::regular(&spec.field("containers"), &around, errors);
    containers::init(&spec.field("initContainers"), &spec.field("containers"), &around, errors);
    containers::ephemeral(spec, &around, errors);
    resources::of_pod(spec, errors);
    containers::host_network_ports(spec, owner, errors);
    errors.one_of(&spec.field("restartPolicy"), &["Always", "OnFailure", "Never"]);
    errors.one_of(&spec.field("dnsPolicy"), &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]);
    checks::labels(&spec.field("nodeSelector"), errors);
    security::of_pod(spec, errors);
    scheduling::affinity(&spec.field("affinity"), errors);
    dns_config(spec, errors);
    for gate in spec.field("readinessGates").items() {
        let condition = gate.field("conditionType");
        errors.each(&condition, checks::qualified_name(condition.str()));
    }
    scheduling::gates(&spec.field("schedulingGates"), errors);
    scheduling::spread(&spec.field("topologySpreadConstraints"), errors);
    security::own_users(spec, errors);
    host_name(spec, errors);
    names(spec, errors);
    let deadline = spec.field("activeDeadlineSeconds");
    let longest = i64::from(i32::MAX);
    if deadline.exists() && !(1..=longest).contains(&deadline.int()) {
        errors.invalid(&deadline, deadline.int(), checks::out_of_range(1, longest));
    }
    scheduling::tolerations(&spec.field("tolerations"), errors);
    for alias in spec.field("hostAliases").items() {
        checks::ip(&alias.field("ip"), errors);
        for name in alias.field("hostnames").items() {
            errors.each(&name, checks::dns_subdomain(name.str()));
        }
    }
    errors.optional_one_of(&spec.field("preemptionPolicy"), &["PreemptLowerPriority", "Never"]);
    resources::of_overhead(&spec.field("overhead"), errors);
    security::operating_system(spec, errors);
    files_from_volumes(spec, errors);
}

fn names(spec: &At<'_, '_>, errors: &mut Errors) {
    type Rule = fn(&str) -> Vec<String>;
    const RULES: [(&str, Rule); 6] = [
        ("serviceAccountName", checks::dns_subdomain),
        ("nodeName", checks::dns_subdomain),
        ("hostname", checks::dns_label),
        ("subdomain", checks::dns_label),
        ("priorityClassName", checks::dns_subdomain),
        ("runtimeClassName", checks::dns_subdomain),
    ];
    for (field, rule) in RULES {
        let name = spec.field(field);
        if !name.str().is_empty() {
            errors.each(&name, rule(name.str()));
        }
    }
}

fn host_name(spec: &At<'_, '_>, errors: &mut Errors) {
    let name = spec.field("hostnameOverride");
    if !name.exists() {
        return;
    }
    if spec.field("setHostnameAsFQDN").bool() {
        errors.forbidden(&name, "may not be specified when setHostnameAsFQDN is true");
    }
    if spec.field("hostNetwork").bool() {
        errors.forbidden(&name, "may not be specified when hostNetwork is true");
    }
    if name.str().len() > 64 {
        errors.too_long(&name, 64);
    }
    errors.each(&name, checks::dns_subdomain(name.str()));
}

fn dns_config(spec: &At<'_, '_>, errors: &mut Errors) {
    let config = spec.field("dnsConfig");
    let (servers, searches) = (config.field("nameservers"), config.field("searches"));
    if spec.field("dnsPolicy").str() == "None" {
        if !config.exists() {
            return errors.required(&config, "must provide `dnsConfig` when `dnsPolicy` is None");
        }
        if servers.is_empty() {
            let text = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return errors.required(&servers, text);
        }
    }
    if servers.len() > 3 {
        errors.invalid(&servers, servers.shown(), "must not have more than 3 nameservers");
    }
    for server in servers.items() {
        checks::ip(&server, errors);
    }
    if searches.len() > 32 {
        errors.invalid(&searches, searches.shown(), "must not have more than 32 search paths");
    }
    let total = searches.strings().map(|one| one.len() + 1).sum::<usize>();
    if total > 2049 {
        let text = "must not have more than 2048 characters (including spaces) in the search list";
        errors.invalid(&searches, searches.shown(), text);
    }
    for search in searches.items().filter(|search| search.str() != ".") {
        let domain = search.str().strip_suffix('.').unwrap_or(search.str());
        for reason in checks::dns_search(domain) {
            errors.invalid(&search, domain, reason);
        }
    }
    for option in config.field("options").items() {
        if option.field("name").str().is_empty() {
            errors.required(&option, "must not be empty");
        }
    }
}

/// The fields of a pod's resource claim as Go has them.
const CLAIM: &[(&str, &str)] = &[
    ("Name", "name"),
    ("ResourceClaimName", "resourceClaimName"),
    ("ResourceClaimTemplateName", "resourceClaimTemplateName"),
];

fn resource_claims(claims: &At<'_, '_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for claim in claims.items() {
        let name = claim.field("name");
        if name.str().is_empty() {
            errors.required(&name, "");
        } else if !seen.insert(name.str()) {
            errors.duplicate(&name, name.str());
        } else {
            errors.each(&name, checks::dns_label(name.str()));
        }
        let (one, template) = (claim.field("resourceClaimName"), claim.field("resourceClaimTemplateName"));
        if one.exists() && template.exists() {
            let text = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified";
            errors.invalid_text(&claim, &claim.as_go(CLAIM), text);
        }
        if !one.exists() && !template.exists() {
            let text = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`";
            errors.invalid_text(&claim, &claim.as_go(CLAIM), text);
        }
        for reference in [one, template].iter().filter(|reference| reference.exists()) {
            errors.each(reference, checks::dns_subdomain(reference.str()));
        }
    }
}

/// Variables that are read from files need a volume that can be written to.
fn files_from_volumes(spec: &At<'_, '_>, errors: &mut Errors) {
    let volumes = spec.field("volumes");
    let by_name = LazyCell::new(|| {
        let named = volumes.items().rev().map(|volume| (volume.field("name").str(), volume.value()));
        named.collect::<BTreeMap<_, _>>() // of two with one name the first counts
    });
    super::each_container(spec, |container| {
        for variable in container.field("env").items() {
            let from = variable.field("valueFrom");
            let file = from.field("fileKeyRef");
            if !file.exists() {
                continue;
            }
            let name = file.field("volumeName");
            let volume = by_name.get(name.str()).copied().flatten();
            match volume.map(|volume| volume.get("emptyDir").is_some_and(Value::is_object)) {
                None => errors.not_found(&name, name.str()),
                Some(false) => {
                    errors.invalid(&name, name.str(), "referenced volume must be of type emptyDir")
                }
                Some(true) => {}
            }
        }
    });
}
