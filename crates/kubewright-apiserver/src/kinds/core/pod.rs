//! Pods: what is filled in at creation, and the little an update may change.
//!
//! The subresources `ephemeralcontainers` and `resize` are in [`super::pod_subresources`].

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{
    super::{
        Strategy,
        access::{
            copy_from, default_to, ensure_object, get, get_i64, get_str, has, items, items_mut, remove, same,
            set,
        },
        checks::{self, quantity},
        lifecycle::{keep_status, spec_changed},
        report::{At, Errors},
    },
    pod_spec::{self, Owner},
};
use crate::field::FieldError;

/// What a pod does.
pub(crate) const STRATEGY: Strategy = Strategy {
    default,
    prepare_create,
    prepare_update: keep_status,
    prepare_status_update,
    validate: |pod| Errors::of(pod, validate_create),
    validate_update,
    validate_status_update,
    warnings,
    generation: Some(spec_changed),
};

pub(super) fn default(pod: &mut Value) {
    pod_spec::drop_retired_annotations(pod);
    default_to(pod, &["spec"], Map::new());
    if let Some(spec) = pod.get_mut("spec") {
        pod_spec::default_pod_spec(spec);
        pod_spec::default_pod_only(spec);
        if get_i64(spec, &["terminationGracePeriodSeconds"]).is_some_and(|seconds| seconds < 0) {
            set(spec, &["terminationGracePeriodSeconds"], 1);
        }
    }
}

fn prepare_create(pod: &mut Value) {
    let mut status = json!({"phase": "Pending", "qosClass": qos_class(pod)});
    if !items(pod, &["spec", "schedulingGates"]).is_empty() {
        status["conditions"] = json!([{
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastProbeTime": null, "lastTransitionTime": null,
        }]);
    }
    set(pod, &["status"], status);
    merge_label_keys(pod);
}

/// How the node treats the pod when memory runs out: by what its containers ask for.
pub(crate) fn qos_class(pod: &Value) -> &'static str {
    let named = |list: Option<&Value>, name: &str| {
        quantity(list.map(|list| get_str(list, &[name])).unwrap_or_default())
    };
    let whole = get(pod, &["spec", "resources"]);
    let mut parts: Vec<&Value> = Vec::new();
    match whole {
        Some(resources) => parts.push(resources),
        None => {
            for list in ["containers", "initContainers"] {
                for container in items(pod, &["spec", list]) {
                    parts.push(container.get("resources").unwrap_or(&Value::Null));
                }
            }
        }
    }
    let (mut any, mut guaranteed) = (false, true);
    let mut requested = [quantity("0"), quantity("0")];
    let mut limited = requested.clone();
    for part in parts {
        let (requests, limits) = (part.get("requests"), part.get("limits"));
        for (index, name) in ["cpu", "memory"].into_iter().enumerate() {
            let (request, limit) = (named(requests, name), named(limits, name));
            any |= request.sign() > 0 || limit.sign() > 0;
            guaranteed &= limit.sign() > 0;
            requested[index] = requested[index].add(&request);
            limited[index] = limited[index].add(&limit);
        }
    }
    match (any, guaranteed && requested == limited) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

/// `matchLabelKeys` are resolved into the selectors beside them, once, from the labels at creation.
fn merge_label_keys(pod: &mut Value) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    let Some(labels) = get(pod, &["metadata", "labels"]).cloned() else { return };
    for kind in ["podAffinity", "podAntiAffinity"] {
        for term in items_mut(pod, &["spec", "affinity", kind, REQUIRED]) {
            merge_into_selector(term, &labels);
        }
        for term in items_mut(pod, &["spec", "affinity", kind, PREFERRED]) {
            if let Some(term) = term.get_mut("podAffinityTerm") {
                merge_into_selector(term, &labels);
            }
        }
    }
    for constraint in items_mut(pod, &["spec", "topologySpreadConstraints"]) {
        merge_into_selector(constraint, &labels);
    }
}

fn merge_into_selector(term: &mut Value, labels: &Value) {
    if !has(term, &["labelSelector"]) {
        return;
    }
    let mut added = Vec::new();
    for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        for key in items(term, &[field]).iter().filter_map(Value::as_str) {
            if let Some(value) = labels.get(key) {
                added.push(json!({"key": key, "operator": operator, "values": [value]}));
            }
        }
    }
    if !added.is_empty() {
        let mut expressions = items(term, &["labelSelector", "matchExpressions"]).to_vec();
        expressions.append(&mut added);
        set(term, &["labelSelector", "matchExpressions"], expressions);
    }
}

fn prepare_status_update(pod: &mut Value, old: &Value) {
    copy_from(pod, old, &["spec"]);
    remove(pod, &["metadata", "deletionTimestamp"]);
    copy_from(pod, old, &["metadata", "deletionTimestamp"]);
    copy_from(pod, old, &["metadata", "ownerReferences"]);
    one_pod_ip(pod);
    if get_str(pod, &["status", "qosClass"]).is_empty() {
        copy_from(pod, old, &["status", "qosClass"]);
    }
    keep_observed_generations(pod, old);
}

/// `podIP` is the first of `podIPs`; whoever writes one writes both.
fn one_pod_ip(pod: &mut Value) {
    let first = items(pod, &["status", "podIPs"]).first().map(|ip| get_str(ip, &["ip"]).to_owned());
    match (get_str(pod, &["status", "podIP"]).to_owned(), first) {
        (ip, Some(first)) if ip.is_empty() => set(pod, &["status", "podIP"], first),
        (ip, first) if !ip.is_empty() && first.as_ref() != Some(&ip) => {
            set(pod, &["status", "podIPs"], json!([{"ip": ip}]));
        }
        _ => {}
    }
}

/// Clients that don't know `observedGeneration` would clear it; it is kept for them.
fn keep_observed_generations(pod: &mut Value, old: &Value) {
    if get_i64(pod, &["status", "observedGeneration"]).unwrap_or_default() == 0 {
        copy_from(pod, old, &["status", "observedGeneration"]);
    }
    let mut known: Vec<(&str, &Value)> = items(old, &["status", "conditions"])
        .iter()
        .filter_map(|one| Some((get_str(one, &["type"]), get(one, &["observedGeneration"])?)))
        .collect();
    for condition in items_mut(pod, &["status", "conditions"]) {
        let kind = get_str(condition, &["type"]);
        let Some(index) = known.iter().position(|(other, _)| *other == kind) else { continue };
        let (_, generation) = known.remove(index);
        default_to(condition, &["observedGeneration"], generation.clone());
    }
}

fn validate_create(pod: &At<'_, '_>, errors: &mut Errors) {
    validate_any(pod, errors);
    let spec = pod.field("spec");
    let ephemeral = spec.field("ephemeralContainers");
    if !ephemeral.is_empty() {
        errors.forbidden(&ephemeral, "cannot be set on create");
    }
    let node = spec.field("nodeName");
    if !node.str().is_empty() && !spec.field("schedulingGates").is_empty() {
        errors.forbidden(&node, "cannot be set until all schedulingGates have been cleared");
    }
}

pub(super) fn validate_any(pod: &At<'_, '_>, errors: &mut Errors) {
    let (metadata, spec) = (pod.field("metadata"), pod.field("spec"));
    pod_spec::pod_annotations(&metadata.field("annotations"), &spec, errors);
    pod_spec::validate_pod_spec(&spec, metadata.field("name").str(), Owner::Pod, errors);
    if spec.field("serviceAccountName").str().is_empty() {
        for volume in spec.field("volumes").items() {
            let projected = volume.field("projected");
            for source in projected.field("sources").items() {
                let token = source.field("serviceAccountToken");
                if token.exists() {
                    errors.forbidden(&token, "must not be specified when serviceAccountName is not set");
                }
            }
        }
    }
    for list in ["containers", "initContainers"] {
        for container in spec.field(list).items() {
            pod_spec::image_padding(&container, errors);
        }
    }
}

fn validate_update(pod: &Value, old: &Value) -> Vec<FieldError> {
    Errors::of(pod, |at, errors| {
        validate_any(at, errors);
        annotation_changes(at, &At::root(old), errors);
        spec_changes(at, pod, old, errors);
    })
}

pub(super) fn annotation_changes(pod: &At<'_, '_>, old: &At<'_, '_>, errors: &mut Errors) {
    let special = |key: &str| {
        if key.starts_with("container.apparmor.security.beta.kubernetes.io/") {
            Some("AppArmor annotations")
        } else {
            (key == "kubernetes.io/config.mirror").then_some("mirror pod annotation")
        }
    };
    let (metadata, old_metadata) = (pod.field("metadata"), old.field("metadata"));
    let (now, before) = (metadata.field("annotations"), old_metadata.field("annotations"));
    for (key, value) in before.entries() {
        if let Some(what) = special(key).filter(|_| now.key(key).value() != value.value()) {
            errors.forbidden(&now.key(key), format!("may not remove or update {what}"));
        }
    }
    for (key, value) in now.entries() {
        if let Some(what) = special(key).filter(|_| !before.key(key).exists()) {
            errors.forbidden(&value, format!("may not add {what}"));
        }
    }
}

const UPDATABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

fn spec_changes(pod: &At<'_, '_>, object: &Value, old: &Value, errors: &mut Errors) {
    let spec = pod.field("spec");
    let was = At::root(old);
    let was = was.field("spec");
    for list in ["containers", "initContainers"] {
        let containers = spec.field(list);
        if containers.len() != was.field(list).len() {
            return errors.forbidden(&containers, "pod updates may not add or remove containers");
        }
        for container in containers.items() {
            if container.field("image").str().is_empty() {
                errors.required(&container.field("image"), "");
            }
            pod_spec::image_padding(&container, errors);
        }
    }
    let (deadline, old_deadline) = (spec.field("activeDeadlineSeconds"), was.field("activeDeadlineSeconds"));
    match (deadline.number(), old_deadline.number()) {
        (Some(now), _) if !(0..=i64::from(i32::MAX)).contains(&now) => {
            let text = checks::out_of_range(0, i64::from(i32::MAX));
            return errors.invalid(&deadline, now, text);
        }
        (Some(now), Some(before)) if before < now => {
            return errors.invalid(&deadline, now, "must be less than or equal to previous value");
        }
        (None, Some(_)) => {
            let text = "must not update from a positive integer to nil value";
            errors.invalid(&deadline, Value::Null, text);
        }
        _ => {}
    }
    tolerations_only_added(&spec, &was, errors);
    gates_only_removed(&spec, &was, errors);
    if same(object, old, &["spec"]) {
        return;
    }
    if let Some(differs) = other_differences(&spec, &was, errors) {
        errors.forbidden(&spec, format!("{UPDATABLE}\n{differs}"));
    }
}

fn tolerations_only_added(spec: &At<'_, '_>, was: &At<'_, '_>, errors: &mut Errors) {
    let tolerations = spec.field("tolerations");
    let identity = |toleration: At<'_, '_>| {
        let mut rest = toleration.shown();
        remove(&mut rest, &["tolerationSeconds"]);
        rest.to_string()
    };
    let kept: BTreeSet<String> = tolerations.items().map(identity).collect();
    for old in was.field("tolerations").items() {
        if !kept.contains(&identity(old)) {
            let text = "existing toleration can not be modified except its tolerationSeconds";
            return errors.forbidden(&tolerations, text);
        }
    }
    pod_spec::tolerations(&tolerations, errors);
}

fn gates_only_removed(spec: &At<'_, '_>, was: &At<'_, '_>, errors: &mut Errors) {
    let before = was.field("schedulingGates");
    let before: BTreeSet<&str> = before.items().map(|gate| gate.field("name").str()).collect();
    for gate in spec.field("schedulingGates").items() {
        let name = gate.field("name");
        if !before.contains(name.str()) {
            let text = format!("only deletion is allowed, but found new scheduling gate '{}'", name.str());
            errors.forbidden(&name, text);
        }
    }
}

/// The first difference outside of what an update may change, as two lines of a diff.
fn other_differences(spec: &At<'_, '_>, was: &At<'_, '_>, errors: &mut Errors) -> Option<String> {
    let (mut now, mut before) = (spec.value()?.clone(), was.value()?.clone());
    for object in [&mut now, &mut before] {
        for list in ["containers", "initContainers"] {
            for container in items_mut(object, &[list]) {
                remove(container, &["image"]);
            }
        }
        for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
            remove(object, &[field]);
        }
    }
    if was.field("terminationGracePeriodSeconds").int() < 0
        && get_i64(&now, &["terminationGracePeriodSeconds"]) == Some(1)
    {
        copy_from(&mut now, &before, &["terminationGracePeriodSeconds"]);
    }
    if !was.field("schedulingGates").is_empty() {
        gated_changes(spec, was, errors);
        for object in [&mut now, &mut before] {
            remove(object, &["nodeSelector"]);
            remove(object, &["affinity", "nodeAffinity"]);
            if get(object, &["affinity"]).is_some_and(|rest| rest.as_object().is_some_and(Map::is_empty)) {
                remove(object, &["affinity"]);
            }
        }
    }
    if now == before {
        return None;
    }
    let (now, before) = (ensure_object(&mut now, &[]), ensure_object(&mut before, &[]));
    let names: BTreeSet<&String> = now.keys().chain(before.keys()).collect();
    let mut lines = Vec::new();
    for name in names {
        if now.get(name) != before.get(name) {
            let text = |value: Option<&Value>| value.map_or_else(|| "null".to_owned(), Value::to_string);
            lines.push(format!("- {name}: {}", text(before.get(name))));
            lines.push(format!("+ {name}: {}", text(now.get(name))));
        }
    }
    Some(lines.join("\n"))
}

/// A pod that waits at a gate may be told more closely where to run, never less.
fn gated_changes(spec: &At<'_, '_>, was: &At<'_, '_>, errors: &mut Errors) {
    let selector = spec.field("nodeSelector");
    if was.field("nodeSelector").entries().any(|(key, old)| selector.key(key).value() != old.value()) {
        let text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        errors.invalid(&selector, selector.shown(), text);
    }
    let (affinity, old_affinity) = (spec.field("affinity"), was.field("affinity"));
    let (node, old_node) = (affinity.field("nodeAffinity"), old_affinity.field("nodeAffinity"));
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let (selector, old_selector) = (node.field(required), old_node.field(required));
    let (terms, old_terms) = (selector.field("nodeSelectorTerms"), old_selector.field("nodeSelectorTerms"));
    if !old_terms.is_empty() && terms.len() != old_terms.len() {
        let text = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        return errors.invalid(&terms, terms.shown(), text);
    }
    for (term, old) in terms.items().zip(old_terms.items()) {
        let grown = |field: &str| {
            let (now, before) = (term.field(field), old.field(field));
            now.len() >= before.len() && before.items().zip(now.items()).all(|(a, b)| a.value() == b.value())
        };
        let was_empty = old.field("matchExpressions").is_empty() && old.field("matchFields").is_empty();
        let is_empty = term.field("matchExpressions").is_empty() && term.field("matchFields").is_empty();
        if (was_empty && !is_empty) || !grown("matchExpressions") || !grown("matchFields") {
            errors.invalid(&term, term.shown(), "only additions are allowed (no mutations or deletions)");
        }
    }
}

fn validate_status_update(pod: &Value, old: &Value) -> Vec<FieldError> {
    Errors::of(pod, |pod, errors| {
        let old = At::root(old);
        annotation_changes(pod, &old, errors);
        let (metadata, spec) = (pod.field("metadata"), pod.field("spec"));
        pod_spec::pod_annotations(&metadata.field("annotations"), &spec, errors);
        let (status, was) = (pod.field("status"), old.field("status"));
        for condition in status.field("conditions").items() {
            let generation = condition.field("observedGeneration");
            if generation.int() < 0 {
                errors.invalid(&generation, generation.int(), "must be a non-negative integer");
            }
            let kind = condition.field("type").str();
            if !matches!(kind, "PodScheduled" | "Ready" | "Initialized") {
                for reason in checks::qualified_name(kind) {
                    errors.invalid(&condition.field("Type"), kind, reason);
                }
            }
        }
        let nominated = status.field("nominatedNodeName");
        if !nominated.str().is_empty() && nominated.value() != was.field("nominatedNodeName").value() {
            errors.each(&nominated, checks::dns_subdomain(nominated.str()));
            if !old.field("spec").field("nodeName").str().is_empty() {
                errors.forbidden(&nominated, "may not be set on pods that are already bound to a node");
            }
        }
        let generation = status.field("observedGeneration");
        if generation.int() < 0 {
            errors.invalid(&generation, generation.int(), "must be a non-negative integer");
        }
        errors.immutable(&status.field("qosClass"), &was.field("qosClass"));
        container_states(&status, &was, &spec, errors);
        addresses(&status, &was, "podIPs", errors);
        let hosts = status.field("hostIPs");
        let first = hosts.index(0);
        if !hosts.is_empty() && first.field("ip").str() != status.field("hostIP").str() {
            errors.invalid(&first.field("ip"), first.field("ip").str(), "must be equal to `hostIP`");
        }
        addresses(&status, &was, "hostIPs", errors);
    })
}

fn addresses(status: &At<'_, '_>, was: &At<'_, '_>, field: &str, errors: &mut Errors) {
    let (all, known) = (status.field(field), was.field(field));
    for entry in all.items() {
        let ip = entry.holding(entry.field("ip").value());
        if !known.items().any(|old| old.field("ip").str() == ip.str()) {
            checks::ip(&ip, errors);
        }
    }
    let mut families: Vec<bool> = all
        .items()
        .filter_map(|entry| checks::parse_ip(entry.field("ip").str()))
        .map(|ip| ip.is_ipv4())
        .collect();
    families.sort_unstable();
    families.dedup();
    if all.len() > 2 || (all.len() == 2 && families.len() != 2) {
        let shown: Vec<String> = all.items().map(|entry| entry.as_go(&[("IP", "ip")])).collect();
        let text = "may specify no more than one IP for each IP family";
        errors.invalid_text(&all, &format!("[{}]", shown.join(",")), text);
    }
}

/// A container that has ended for good may not be shown running again.
fn container_states(status: &At<'_, '_>, was: &At<'_, '_>, spec: &At<'_, '_>, errors: &mut Errors) {
    let policy = spec.field("restartPolicy").str();
    let ruled = spec.field("containers").items().any(|one| one.field("restartPolicy").exists());
    if policy == "Always" || ruled {
        return;
    }
    let (now, before) = (status.field("containerStatuses"), was.field("containerStatuses"));
    for (index, old) in before.items().enumerate() {
        let state = old.field("state");
        let ended = state.field("terminated");
        if !ended.exists() || (policy == "OnFailure" && ended.field("exitCode").int() != 0) {
            continue;
        }
        let name = old.field("name").str();
        let again = now
            .items()
            .any(|one| one.field("name").str() == name && !one.field("state").field("terminated").exists());
        if again {
            errors.forbidden(
                &now.index(index).field("state"),
                "may not be transitioned to non-terminated state",
            );
        }
    }
}

fn warnings(pod: &Value, old: Option<&Value>) -> Vec<String> {
    if old.is_some() {
        return Vec::new();
    }
    let mut warnings = Vec::new();
    let reasons = checks::dns_label(get_str(pod, &["metadata", "name"]));
    if !reasons.is_empty() {
        warnings.push(format!(
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [{}]",
            reasons.join(" ")
        ));
    }
    warnings.extend(pod_spec::pod_warnings(&At::root(pod)));
    warnings
}
