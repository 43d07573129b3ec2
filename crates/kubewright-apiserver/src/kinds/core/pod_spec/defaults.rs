//! Fills what a pod spec leaves unset.

use serde_json::{Map, Value, json};

use super::super::super::access::{default_to, get, get_bool, get_mut, get_str, has, items_mut, remove, set};
use super::super::super::report::At;
use super::super::volume_claim;
use super::resources::{aggregate_requests, round_amounts};

const CONTAINER_LISTS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// Sets a field that is absent or has the zero value of its type.
fn fill(object: &mut Value, name: &str, value: impl Into<Value>) {
    let unset = match object.get(name) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Number(number)) => number.as_i64() == Some(0),
        _ => false,
    };
    if unset && let Some(map) = object.as_object_mut() {
        map.insert(name.to_owned(), value.into());
    }
}

/// A pod template: an object with `metadata` and `spec`.
pub(crate) fn template(template: &mut Value) {
    if !template.is_object() {
        return;
    }
    drop_retired_annotations(template);
    default_to(template, &["metadata"], Map::new());
    default_to(template, &["spec"], Map::new());
    if let Some(spec) = template.get_mut("spec") {
        pod_spec(spec);
    }
}

/// Annotations that stood for init containers long ago are dropped whenever they are seen.
pub(crate) fn drop_retired_annotations(object: &mut Value) {
    const RETIRED: [&str; 4] = [
        "pod.beta.kubernetes.io/init-containers",
        "pod.alpha.kubernetes.io/init-containers",
        "pod.beta.kubernetes.io/init-container-statuses",
        "pod.alpha.kubernetes.io/init-container-statuses",
    ];
    for key in RETIRED {
        remove(object, &["metadata", "annotations", key]);
    }
}

/// A pod spec, of a pod or a template.
pub(crate) fn pod_spec(spec: &mut Value) {
    fill(spec, "dnsPolicy", "ClusterFirst");
    fill(spec, "restartPolicy", "Always");
    fill(spec, "schedulerName", "default-scheduler");
    default_to(spec, &["securityContext"], Map::new());
    default_to(spec, &["terminationGracePeriodSeconds"], 30);
    one_service_account(spec);
    // Behind a feature gate that is off, so not kept.
    remove(spec, &["schedulingGroup"]);
    for list in CONTAINER_LISTS {
        for container in items_mut(spec, &[list]) {
            self::container(container);
        }
    }
    for volume in items_mut(spec, &["volumes"]) {
        self::volume(volume);
    }
    round_amounts(get_mut(spec, &["overhead"]));
    for side in ["limits", "requests"] {
        round_amounts(get_mut(spec, &["resources", side]));
    }
}

/// `serviceAccount` is the old name of `serviceAccountName`; both are kept, equal.
fn one_service_account(spec: &mut Value) {
    let name = match get_str(spec, &["serviceAccountName"]) {
        "" => get_str(spec, &["serviceAccount"]).to_owned(),
        name => name.to_owned(),
    };
    if name.is_empty() || (get_str(spec, &["serviceAccount"]) == name && has(spec, &["serviceAccountName"])) {
        return;
    }
    set(spec, &["serviceAccount"], name.as_str());
    set(spec, &["serviceAccountName"], name);
}

fn container(container: &mut Value) {
    // Behind feature gates that are off, so not kept.
    remove(container, &["lifecycle", "stopSignal"]);
    let policy = pull_policy(get_str(container, &["image"]));
    fill(container, "imagePullPolicy", policy);
    fill(container, "terminationMessagePath", "/dev/termination-log");
    fill(container, "terminationMessagePolicy", "File");
    default_to(container, &["resources"], Map::new());
    for side in ["limits", "requests"] {
        round_amounts(get_mut(container, &["resources", side]));
    }
    for port in items_mut(container, &["ports"]) {
        fill(port, "protocol", "TCP");
    }
    for variable in items_mut(container, &["env"]) {
        if let Some(reference) = get_mut(variable, &["valueFrom", "fieldRef"]) {
            fill(reference, "apiVersion", "v1");
        }
        if let Some(reference) = get_mut(variable, &["valueFrom", "fileKeyRef"]) {
            default_to(reference, &["optional"], false);
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = get_mut(container, &[name]) {
            fill(probe, "timeoutSeconds", 1);
            fill(probe, "periodSeconds", 10);
            fill(probe, "successThreshold", 1);
            fill(probe, "failureThreshold", 3);
            http_get(probe);
            if let Some(grpc) = get_mut(probe, &["grpc"]) {
                default_to(grpc, &["service"], "");
            }
        }
    }
    for name in ["postStart", "preStop"] {
        if let Some(handler) = get_mut(container, &["lifecycle", name]) {
            http_get(handler);
        }
    }
}

fn http_get(handler: &mut Value) {
    if let Some(action) = get_mut(handler, &["httpGet"]) {
        fill(action, "path", "/");
        fill(action, "scheme", "HTTP");
    }
}

fn volume(volume: &mut Value) {
    let has_source = volume
        .as_object()
        .is_some_and(|fields| fields.iter().any(|(name, value)| name != "name" && !value.is_null()));
    if !has_source {
        default_to(volume, &["emptyDir"], Map::new());
        return;
    }
    for name in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = get_mut(volume, &[name]) {
            default_to(source, &["defaultMode"], 0o644);
        }
    }
    downward_files(volume, &["downwardAPI", "items"]);
    for source in items_mut(volume, &["projected", "sources"]) {
        // Behind feature gates that are off, so not kept.
        remove(source, &["clusterTrustBundle"]);
        remove(source, &["podCertificate"]);
        downward_files(source, &["downwardAPI", "items"]);
        if let Some(token) = get_mut(source, &["serviceAccountToken"]) {
            default_to(token, &["expirationSeconds"], 3600);
        }
    }
    if let Some(claim) = get_mut(volume, &["ephemeral", "volumeClaimTemplate"]) {
        default_to(claim, &["spec"], Map::new());
        if let Some(spec) = claim.get_mut("spec") {
            volume_claim::default_spec(spec);
        }
    }
    if let Some(image) = get_mut(volume, &["image"]) {
        let policy = pull_policy(get_str(image, &["reference"]));
        fill(image, "pullPolicy", policy);
    }
    shared_volume_source(volume);
}

/// The sources that pods and persistent volumes have in common.
pub(crate) fn shared_volume_source(volume: &mut Value) {
    const DEFAULTS: [(&str, &[(&str, &str)]); 3] = [
        ("iscsi", &[("iscsiInterface", "default")]),
        ("rbd", &[("pool", "rbd"), ("user", "admin"), ("keyring", "/etc/ceph/keyring")]),
        ("scaleIO", &[("storageMode", "ThinProvisioned"), ("fsType", "xfs")]),
    ];
    for (name, fields) in DEFAULTS {
        if let Some(source) = get_mut(volume, &[name]) {
            for (field, value) in fields {
                fill(source, field, *value);
            }
        }
    }
    if let Some(path) = get_mut(volume, &["hostPath"]) {
        default_to(path, &["type"], "");
    }
    if let Some(disk) = get_mut(volume, &["azureDisk"]) {
        default_to(disk, &["cachingMode"], "ReadWrite");
        default_to(disk, &["kind"], "Shared");
        default_to(disk, &["fsType"], "ext4");
        default_to(disk, &["readOnly"], false);
    }
}

fn downward_files(volume: &mut Value, path: &[&str]) {
    for file in items_mut(volume, path) {
        if let Some(reference) = get_mut(file, &["fieldRef"]) {
            fill(reference, "apiVersion", "v1");
        }
    }
}

/// What only a pod gets, not the template it may come from.
pub(crate) fn pod_only(spec: &mut Value) {
    default_to(spec, &["enableServiceLinks"], true);
    let host_network = get_bool(spec, &["hostNetwork"]);
    for list in ["containers", "initContainers"] {
        for container in items_mut(spec, &[list]) {
            requests_from_limits(container);
            if host_network {
                for port in items_mut(container, &["ports"]) {
                    let number = get(port, &["containerPort"]).cloned().unwrap_or_default();
                    fill(port, "hostPort", number);
                }
            }
        }
    }
    pod_requests(spec);
}

fn requests_from_limits(container: &mut Value) {
    let Some(Value::Object(limits)) = get(container, &["resources", "limits"]).cloned() else { return };
    for (name, limit) in limits {
        default_to(container, &["resources", "requests", &name], limit);
    }
}

/// Where the pod as a whole has limits, it asks for what its containers ask for together, or else for its
/// limit.
fn pod_requests(spec: &mut Value) {
    let Some(Value::Object(limits)) = get(spec, &["resources", "limits"]).cloned() else { return };
    if limits.is_empty() {
        return;
    }
    for name in ["cpu", "memory"] {
        let asked = aggregate_requests(&At::root(spec), name);
        if let Some(asked) = asked {
            default_to(spec, &["resources", "requests", name], asked.to_string());
        }
    }
    for (name, limit) in limits {
        if matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-") {
            default_to(spec, &["resources", "requests", &name], limit);
        }
    }
}

/// A moving tag is always pulled, a fixed one only once.
fn pull_policy(image: &str) -> Value {
    if tag_is_latest(image) { json!("Always") } else { json!("IfNotPresent") }
}

/// Whether an image reference names the tag `latest`, or neither tag nor digest. A reference that is not
/// well-formed does not.
fn tag_is_latest(image: &str) -> bool {
    let (named, digest) = match image.split_once('@') {
        Some((named, digest)) => (named, Some(digest)),
        None => (image, None),
    };
    let last = named.rfind('/').map_or(0, |slash| slash + 1);
    let (name, tag) = match named[last..].split_once(':') {
        Some((_, tag)) => (&named[..named.len() - tag.len() - 1], Some(tag)),
        None => (named, None),
    };
    let path = match name.split_once('/') {
        Some((host, path)) if host.contains(['.', ':']) || host == "localhost" => path,
        _ => name,
    };
    let well_formed = !path.is_empty()
        && path.split('/').all(|part| {
            part.bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'_' | b'-'))
                && part.starts_with(|c: char| c.is_ascii_alphanumeric())
                && part.ends_with(|c: char| c.is_ascii_alphanumeric())
        });
    well_formed
        && if digest.is_some() { tag == Some("latest") } else { tag.is_none_or(|tag| tag == "latest") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_moving_tag_is_pulled_always() {
        for image in ["img", "img:latest", "a.b:5000/c/img", "localhost/img", "docker.io/library/img:latest"]
        {
            assert!(tag_is_latest(image), "{image}");
        }
        let digest = format!("img@sha256:{}", "a".repeat(64));
        for image in ["img:1", "a.b:5000/img:2", &digest, "", "Img", " img", "img:"] {
            assert!(!tag_is_latest(image), "{image}");
        }
    }

    #[test]
    fn a_spec_is_filled_down_to_its_leaves() {
        let mut spec = json!({
            "serviceAccount": "robot",
            "containers": [{
                "name": "c", "image": "img:1",
                "ports": [{"containerPort": 80}],
                "env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                "readinessProbe": {"httpGet": {"port": 80}, "periodSeconds": 5},
            }],
            "volumes": [{"name": "scratch"}, {"name": "cert", "secret": {"secretName": "s"}}],
        });
        pod_spec(&mut spec);
        let once = spec.clone();
        pod_spec(&mut spec);
        assert_eq!(spec, once, "defaulting twice changes nothing");
        assert_eq!(
            spec,
            json!({
                "serviceAccount": "robot", "serviceAccountName": "robot",
                "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
                "securityContext": {}, "terminationGracePeriodSeconds": 30,
                "containers": [{
                    "name": "c", "image": "img:1", "imagePullPolicy": "IfNotPresent", "resources": {},
                    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                    "ports": [{"containerPort": 80, "protocol": "TCP"}],
                    "env": [{"name": "N", "valueFrom":
                        {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}],
                    "readinessProbe": {
                        "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, "periodSeconds": 5,
                        "timeoutSeconds": 1, "successThreshold": 1, "failureThreshold": 3,
                    },
                }],
                "volumes": [
                    {"name": "scratch", "emptyDir": {}},
                    {"name": "cert", "secret": {"secretName": "s", "defaultMode": 420}},
                ],
            })
        );
    }
}
