//! Containers of every sort: regular, init and ephemeral.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    super::super::{
        checks,
        report::{At, Errors},
    },
    env, probes, resources, security,
    validation::Owner,
    volumes::Volumes,
};

/// An image reference may not have blanks around it; a pod's only, as templates once allowed it.
pub(crate) fn image_padding(container: &At<'_, '_>, errors: &mut Errors) {
    let image = container.field("image");
    if image.str().trim() != image.str() {
        errors.invalid(&image, image.str(), "must not have leading or trailing whitespace");
    }
}

/// What the containers of a pod see of it.
pub(super) struct Surroundings<'v> {
    pub(super) volumes: Volumes<'v>,
    pub(super) claims: Vec<&'v str>,
    pub(super) grace: Option<i64>,
    pub(super) restart_policy: &'v str,
    pub(super) host_users: bool,
}

/// The regular containers.
pub(super) fn regular(containers: &At<'_, '_>, around: &Surroundings<'_>, errors: &mut Errors) {
    if containers.is_empty() {
        return errors.required(containers, "");
    }
    let mut names = BTreeSet::new();
    let mut host_ports = BTreeSet::new();
    for container in containers.items() {
        any(&container, around, errors);
        let name = container.field("name");
        if !names.insert(name.str()) {
            errors.duplicate(&name, name.str());
        }
        probes::of_container(&container, around.grace, errors);
        restart_rules(&container, errors);
    }
    for container in containers.items() {
        host_port_conflicts(&container, &mut host_ports, errors);
    }
}

/// The init containers, sidecars among them.
pub(super) fn init(
    containers: &At<'_, '_>,
    regular: &At<'_, '_>,
    around: &Surroundings<'_>,
    errors: &mut Errors,
) {
    let mut names: BTreeSet<&str> = regular.items().map(|container| container.field("name").str()).collect();
    for container in containers.items() {
        any(&container, around, errors);
        restart_rules(&container, errors);
        let name = container.field("name");
        if names.contains(name.str()) {
            errors.duplicate(&name, name.str());
        } else if !name.str().is_empty() {
            names.insert(name.str());
        }
        host_port_conflicts(&container, &mut BTreeSet::new(), errors);
        if container.value().is_some_and(super::is_sidecar) {
            probes::of_container(&container, around.grace, errors);
            continue;
        }
        for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            let field = container.field(field);
            if field.exists() {
                errors.forbidden(&field, "may not be set for init containers without restartPolicy=Always");
            }
        }
        for policy in container.field("resizePolicy").items() {
            let restart = policy.field("restartPolicy");
            if restart.str() == "RestartContainer" {
                let text = "must not be set to 'RestartContainer' for non-sidecar initContainers";
                errors.invalid(&restart, restart.str(), text);
            }
        }
    }
}

/// Containers that were added to a running pod to look into it.
pub(super) fn ephemeral(spec: &At<'_, '_>, around: &Surroundings<'_>, errors: &mut Errors) {
    const NOT_FOR_EPHEMERAL: &str = "cannot be set for an Ephemeral Container";
    let mut others = BTreeSet::new();
    for list in ["containers", "initContainers"] {
        others.extend(spec.field(list).items().map(|container| container.field("name").str()));
    }
    let mut names = others.clone();
    for container in spec.field("ephemeralContainers").items() {
        any(&container, around, errors);
        image_padding(&container, errors);
        let name = container.field("name");
        if !names.insert(name.str()) {
            errors.duplicate(&name, name.str());
        }
        let target = container.field("targetContainerName");
        if !target.str().is_empty() && !others.contains(target.str()) {
            errors.not_found(&target, target.str());
        }
        for field in [
            "ports",
            "resources",
            "resizePolicy",
            "restartPolicy",
            "livenessProbe",
            "readinessProbe",
            "startupProbe",
            "lifecycle",
        ] {
            let field = container.field(field);
            if field.value().is_some_and(|value| !is_zero(value)) {
                errors.forbidden(&field, NOT_FOR_EPHEMERAL);
            }
        }
        for mount in container.field("volumeMounts").items() {
            for field in ["subPath", "subPathExpr"] {
                if !mount.field(field).str().is_empty() {
                    errors.forbidden(&mount.field(field), NOT_FOR_EPHEMERAL);
                }
            }
        }
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// What holds for every container.
fn any(container: &At<'_, '_>, around: &Surroundings<'_>, errors: &mut Errors) {
    let name = container.field("name");
    if name.str().is_empty() {
        errors.required(&name, "");
    } else {
        errors.each(&name, checks::dns_label(name.str()));
    }
    if container.field("image").str().is_empty() {
        errors.required(&container.field("image"), "");
    }
    errors.one_of(&container.field("terminationMessagePolicy"), &["File", "FallbackToLogsOnError"]);
    ports(&container.field("ports"), errors);
    env::of_container(container, errors);
    around.volumes.check_mounts(container, errors);
    around.volumes.check_devices(container, errors);
    errors.one_of(&container.field("imagePullPolicy"), &["Always", "IfNotPresent", "Never"]);
    resources::of_container(&container.field("resources"), &around.claims, errors);
    resize_policies(&container.field("resizePolicy"), around.restart_policy, errors);
    security::of_container(&container.field("securityContext"), around.host_users, errors);
}

fn ports(ports: &At<'_, '_>, errors: &mut Errors) {
    let mut names = BTreeSet::new();
    for port in ports.items() {
        let name = port.field("name");
        if !name.str().is_empty() {
            let reasons = checks::port_name(name.str());
            if !reasons.is_empty() {
                errors.each(&name, reasons);
            } else if !names.insert(name.str()) {
                errors.duplicate(&name, name.str());
            }
        }
        let number = port.field("containerPort");
        if number.int() == 0 {
            errors.required(&number, "");
        } else {
            checks::port_number(&number, errors);
        }
        if port.field("hostPort").int() != 0 {
            checks::port_number(&port.field("hostPort"), errors);
        }
        errors.one_of(&port.field("protocol"), &["SCTP", "TCP", "UDP"]);
    }
}

fn host_port_conflicts<'v>(
    container: &At<'v, '_>,
    taken: &mut BTreeSet<(&'v str, &'v str, i64)>,
    errors: &mut Errors,
) {
    for port in container.field("ports").items() {
        let number = port.field("hostPort");
        if number.int() == 0 {
            continue;
        }
        let (protocol, address) = (port.field("protocol").str(), port.field("hostIP").str());
        if !taken.insert((protocol, address, number.int())) {
            errors.duplicate(&number, format!("{protocol}/{address}/{}", number.int()));
        }
    }
}

fn resize_policies(policies: &At<'_, '_>, pod_restart: &str, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for policy in policies.items() {
        let (resource, restart) = (policy.field("resourceName").str(), policy.field("restartPolicy").str());
        if !seen.insert(resource) {
            errors.duplicate(&policy, resource);
        }
        let mut one_of = |value: &str, supported: &[&str]| {
            if value.is_empty() {
                errors.required(policies, "");
            } else if !supported.contains(&value) {
                errors.not_supported(policies, value, supported);
            }
        };
        one_of(resource, &["cpu", "memory"]);
        one_of(restart, &["NotRequired", "RestartContainer"]);
        if pod_restart == "Never" && restart != "NotRequired" {
            errors.invalid(policies, restart, "must be 'NotRequired' when pod `restartPolicy` is 'Never'");
        }
    }
}

fn restart_rules(container: &At<'_, '_>, errors: &mut Errors) {
    let (policy, rules) = (container.field("restartPolicy"), container.field("restartPolicyRules"));
    if !policy.exists() {
        if rules.is_empty() {
            return;
        }
        errors.required(&policy, "must specify restartPolicy when restart rules are used");
    }
    errors.optional_one_of(&policy, &["Always", "Never", "OnFailure"]);
    if rules.len() > 20 {
        errors.too_many(&rules, 20);
    }
    for rule in rules.items() {
        let action = rule.field("action");
        if !matches!(action.str(), "Restart" | "RestartAllContainers") {
            errors.not_supported(&action, action.str(), &["Restart", "RestartAllContainers"]);
        }
        let codes = rule.field("exitCodes");
        if !codes.exists() {
            errors.required(&codes, "must be specified");
            continue;
        }
        let operator = codes.field("operator");
        if !matches!(operator.str(), "In" | "NotIn") {
            errors.not_supported(&operator, operator.str(), &["In", "NotIn"]);
        }
        if codes.field("values").len() > 255 {
            errors.too_many(&codes.field("values"), 255);
        }
    }
}

/// On the host's network, a container's port is the host's.
pub(super) fn host_network_ports(spec: &At<'_, '_>, owner: Owner, errors: &mut Errors) {
    if !spec.field("hostNetwork").bool() {
        return;
    }
    for container in spec.field("containers").items() {
        for port in container.field("ports").items() {
            let host = port.field("hostPort");
            if (owner == Owner::Pod || host.int() != 0) && host.int() != port.field("containerPort").int() {
                let text = "must match `containerPort` when `hostNetwork` is true";
                errors.invalid(&host, host.int(), text);
            }
        }
    }
}
