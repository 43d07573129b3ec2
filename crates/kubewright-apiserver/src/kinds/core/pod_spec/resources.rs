//! Resources a container or pod asks for: their names, amounts, and how requests relate to limits.

use serde_json::Value;

use super::super::super::{
    checks::{self, quantity},
    report::{At, Errors},
};
use crate::quantity::Quantity;

const OBJECT_COUNTS: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

const COMPUTE: [&str; 10] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "requests.storage",
];

/// Whether the resource is a size of huge pages.
fn is_hugepages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether more of a resource may be promised than there is.
pub(crate) fn is_overcommittable(name: &str) -> bool {
    is_native(name) && !is_hugepages(name)
}

/// Whether the resource is one a device plugin or the like brings, such as `nvidia.com/gpu`.
fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && checks::qualified_name(&format!("requests.{name}")).is_empty()
}

/// Whether the name is one that resource quotas know by themselves.
pub(crate) fn is_standard_quota(name: &str) -> bool {
    COMPUTE.contains(&name)
        || OBJECT_COUNTS.contains(&name)
        || is_hugepages(name)
        || name.starts_with("requests.hugepages-")
}

/// The name of any resource.
pub(crate) fn resource_name(at: &At<'_, '_>, name: &str, errors: &mut Errors) {
    let reasons = checks::qualified_name(name);
    let well_formed = reasons.is_empty();
    for reason in reasons {
        errors.invalid(at, name, reason);
    }
    if well_formed && !name.contains('/') && !is_standard_quota(name) && name != "storage" {
        errors.invalid(at, name, "must be a standard resource type or fully qualified");
    }
}

/// The name of a resource that a container may ask for.
pub(crate) fn container_resource_name(at: &At<'_, '_>, name: &str, errors: &mut Errors) {
    resource_name(at, name, errors);
    if !name.contains('/') {
        if !matches!(name, "cpu" | "memory" | "ephemeral-storage") && !is_hugepages(name) {
            errors.invalid(at, name, "must be a standard resource for containers");
        }
    } else if !is_native(name) && !is_extended(name) {
        errors.invalid(at, name, "doesn't follow extended resource name standard");
    }
}

/// The name of a resource that a quota may limit.
pub(crate) fn quota_resource_name(at: &At<'_, '_>, name: &str, errors: &mut Errors) {
    resource_name(at, name, errors);
    if !name.contains('/') && !is_standard_quota(name) {
        errors.invalid(at, name, "must be a standard resource for quota");
    }
}

fn pod_resource_name(at: &At<'_, '_>, name: &str, errors: &mut Errors) {
    let before = errors.count();
    resource_name(at, name, errors);
    if errors.count() == before && !matches!(name, "cpu" | "memory") && !is_hugepages(name) {
        errors.not_supported(at, name, &["cpu", "hugepages-", "memory"]);
    }
}

/// Amounts in a list of resources are kept no finer than a thousandth, rounded up. They arrive in canonical
/// form, so that only a suffix or exponent tells of a finer one.
pub(crate) fn round_amounts(list: Option<&mut Value>) {
    for (_, amount) in list.and_then(Value::as_object_mut).into_iter().flatten() {
        let Some(text) = amount.as_str() else { continue };
        if (text.ends_with(['n', 'u']) || text.contains('e'))
            && let Ok(exact) = Quantity::parse(text)
        {
            *amount = exact.round_up(-3).to_string().into();
        }
    }
}

/// The amount of a resource: not negative, and whole where things are counted.
pub(crate) fn amount(at: &At<'_, '_>, name: &str, errors: &mut Errors) {
    if at.str().starts_with('-') && quantity(at.str()).sign() < 0 {
        errors.invalid(at, at.str(), "must be greater than or equal to 0");
    }
    if (OBJECT_COUNTS.contains(&name) || is_extended(name)) && !checks::is_whole(&quantity(at.str())) {
        errors.invalid(at, at.str(), "must be an integer");
    }
}

fn hugepages(at: &At<'_, '_>, name: &str, errors: &mut Errors) {
    let Some(size) = name.strip_prefix("hugepages-") else { return };
    let size = quantity(size);
    if size.sign() <= 0 || !checks::is_whole(&size) || quantity(at.str()).value() % size.value() != 0 {
        errors.invalid(at, at.str(), format!("{} is not positive integer multiple of {name}", at.str()));
    }
}

/// What one container asks for. `claims` are the names of the pod's resource claims.
pub(super) fn of_container(resources: &At<'_, '_>, claims: &[&str], errors: &mut Errors) {
    requirements(resources, container_resource_name, errors);
    claim_names(&resources.field("claims"), claims, errors);
}

/// What a runtime class adds to a pod.
pub(super) fn of_overhead(overhead: &At<'_, '_>, errors: &mut Errors) {
    for (name, _) in overhead.entries() {
        let limits = overhead.field("limits");
        let amount =
            overhead.value().and_then(|all| all.get(name)).and_then(Value::as_str).unwrap_or_default();
        let at = limits.key(name);
        container_resource_name(&at, name, errors);
        if quantity(amount).sign() < 0 {
            errors.invalid(&at, amount, "must be greater than or equal to 0");
        }
    }
}

/// What a pod asks for as a whole.
pub(super) fn of_pod(spec: &At<'_, '_>, errors: &mut Errors) {
    let resources = spec.field("resources");
    if !resources.exists() {
        return;
    }
    if spec.field("os").field("name").str() == "windows" {
        errors.forbidden(&resources, "may not be set for a windows pod");
        return;
    }
    if resources.field("claims").exists() {
        errors.forbidden(&resources.field("claims"), "claims may not be set for Resources at pod-level");
    }
    requirements(&resources, pod_resource_name, errors);
    for (name, pod_request) in resources.field("requests").entries() {
        let sum = aggregate_requests(spec, name);
        if let Some(sum) = sum.filter(|sum| *sum > quantity(pod_request.str())) {
            let text = format!("must be greater than or equal to aggregate container requests of {sum}");
            errors.invalid(&pod_request, pod_request.str(), text);
        }
    }
    let containers = spec.field("containers");
    let misplaced = resources.field("containers");
    for (index, container) in containers.items().enumerate() {
        for (name, limit) in container.field("resources").field("limits").entries() {
            let limits = resources.field("limits");
            let pod_limit = limits.key(name);
            if pod_limit.exists() && quantity(limit.str()) > quantity(pod_limit.str()) {
                let text = format!("must be less than or equal to pod limits of {}", pod_limit.str());
                errors.invalid(&misplaced.index(index).key(name).field("limits"), limit.str(), text);
            }
        }
    }
}

/// What the containers ask for together, if any does: the regular ones and sidecars at once, each other init
/// container beside the sidecars started before it.
pub(super) fn aggregate_requests(spec: &At<'_, '_>, name: &str) -> Option<Quantity> {
    let request = |container: &At<'_, '_>| {
        let resources = container.field("resources");
        let requests = resources.field("requests");
        let amount = requests.key(name);
        amount.exists().then(|| quantity(amount.str()))
    };
    let nothing = || quantity("0");
    let mut sidecars: Option<Quantity> = None;
    let mut peak: Option<Quantity> = None;
    for container in spec.field("initContainers").items() {
        let Some(asked) = request(&container) else { continue };
        let together = sidecars.clone().unwrap_or_else(nothing).add(&asked);
        if container.value().is_some_and(super::is_sidecar) {
            sidecars = Some(together.clone());
        }
        peak = peak.max(Some(together));
    }
    let containers = spec.field("containers");
    let regular = containers.items().filter_map(|container| request(&container));
    let all = regular.fold(sidecars, |sum, asked| Some(sum.unwrap_or_else(nothing).add(&asked)));
    peak.max(all)
}

fn requirements(resources: &At<'_, '_>, check_name: fn(&At<'_, '_>, &str, &mut Errors), errors: &mut Errors) {
    let limits = resources.field("limits");
    let requests = resources.field("requests");
    let (mut basic, mut huge) = (false, false);
    let mut note = |name: &str| {
        basic |= matches!(name, "cpu" | "memory");
        huge |= is_hugepages(name);
    };
    for (name, limit) in limits.entries() {
        check_name(&limit, name, errors);
        amount(&limit, name, errors);
        hugepages(&limit, name, errors);
        note(name);
    }
    for (name, request) in requests.entries() {
        check_name(&request, name, errors);
        amount(&request, name, errors);
        let limit = limits.key(name);
        if !limit.exists() {
            if !is_overcommittable(name) {
                errors.required(&limits, "Limit must be set for non overcommitable resources");
            }
        } else if request.str() != limit.str() {
            let (asked, allowed) = (quantity(request.str()), quantity(limit.str()));
            if asked != allowed && !is_overcommittable(name) {
                let text = format!("must be equal to {name} limit of {}", limit.str());
                errors.invalid(&requests, request.str(), text);
            } else if asked > allowed {
                let text = format!("must be less than or equal to {name} limit of {}", limit.str());
                errors.invalid(&requests, request.str(), text);
            }
        }
        hugepages(&request, name, errors);
        note(name);
    }
    if huge && !basic {
        errors.forbidden(resources, "HugePages require cpu or memory");
    }
}

fn claim_names(claims: &At<'_, '_>, known: &[&str], errors: &mut Errors) {
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for claim in claims.items() {
        let (name, request) = (claim.field("name").str(), claim.field("request").str());
        if name.is_empty() {
            errors.required(&claim, "");
            continue;
        }
        if !request.is_empty() {
            errors.each(&claim.field("request"), checks::dns_label(request));
        }
        let clash = |other: &&(&str, &str)| {
            other.0 == name && (other.1 == request || other.1.is_empty() || request.is_empty())
        };
        match seen.iter().find(clash) {
            Some(other) if other.1 == request && !request.is_empty() => {
                errors.duplicate(&claim, format!("{name}/{request}"));
            }
            Some(_) => errors.duplicate(&claim, name),
            None => {}
        }
        seen.push((name, request));
        if !known.contains(&name) {
            let mut error = crate::field::FieldError::not_found(&claim.path(), name);
            error.detail = "must be one of the names in pod.spec.resourceClaims".to_owned();
            error.detail += &if known.is_empty() {
                " which is empty".to_owned()
            } else {
                format!(": {}", known.join(", "))
            };
            errors.push(error);
        }
    }
}
