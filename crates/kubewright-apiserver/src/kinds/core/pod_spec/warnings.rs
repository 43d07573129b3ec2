//! What is accepted in a pod or template, but worth a word to its author.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    super::super::{
        checks::{self, quantity},
        report::At,
    },
    super::volume_claim,
};

const DEPRECATED_NODE_LABELS: [(&str, &str); 8] = [
    ("beta.kubernetes.io/arch", "deprecated since v1.14; use \"kubernetes.io/arch\" instead"),
    ("beta.kubernetes.io/os", "deprecated since v1.14; use \"kubernetes.io/os\" instead"),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead",
    ),
    (
        "beta.kubernetes.io/instance-type",
        "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead",
    ),
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    (
        "scheduler.alpha.kubernetes.io/preferAvoidPods",
        "deprecated since v1.22; use Taints and Tolerations instead",
    ),
    ("node-role.kubernetes.io/master", "use \"node-role.kubernetes.io/control-plane\" instead"),
];

const DEPRECATED_ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    ("security.alpha.kubernetes.io/sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
];

const DEPRECATED_VOLUMES: [(&str, &str, &str); 9] = [
    ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

fn deprecated_label(key: &str) -> Option<&'static str> {
    DEPRECATED_NODE_LABELS.iter().find(|(label, _)| *label == key).map(|(_, message)| *message)
}

/// Warnings of a selector of nodes. Values of preferences are not refused, only mentioned.
pub(crate) fn node_selector_term_warnings(term: &At<'_, '_>, check_values: bool, warnings: &mut Vec<String>) {
    for expression in term.field("matchExpressions").items() {
        let key = expression.field("key");
        if let Some(message) = deprecated_label(key.str()) {
            warnings.push(format!("{}: {} is {message}", key.path(), key.str()));
        }
        if check_values {
            for value in expression.field("values").items() {
                for reason in checks::label_value(value.str()) {
                    warnings.push(format!("{}: {} is invalid, {reason}", value.path(), value.str()));
                }
            }
        }
    }
}

/// Warnings of a pod or template: an object with `metadata` and `spec`.
pub(crate) fn pod_warnings(pod: &At<'_, '_>) -> Vec<String> {
    let mut warnings = Vec::new();
    let (metadata, spec) = (pod.field("metadata"), pod.field("spec"));
    let annotations = metadata.field("annotations");
    for (key, label) in spec.field("nodeSelector").entries() {
        if let Some(message) = deprecated_label(key) {
            warnings.push(format!("{}: {message}", label.path()));
        }
    }
    node_affinity(&spec, &mut warnings);
    for constraint in spec.field("topologySpreadConstraints").items() {
        let key = constraint.field("topologyKey");
        if let Some(message) = deprecated_label(key.str()) {
            warnings.push(format!("{}: {} is {message}", key.path(), key.str()));
        }
        null_selector(&constraint.field("labelSelector"), &mut warnings);
    }
    for (key, message) in DEPRECATED_ANNOTATIONS {
        let annotation = annotations.key(key);
        if annotation.exists() {
            warnings.push(format!("{}: {message}", annotation.path()));
        }
    }
    volumes(&spec, &mut warnings);
    repeated(&spec, &mut warnings);
    let overhead = spec.field("overhead");
    fractions(&overhead, &mut warnings);
    let seccomp = annotations.key("seccomp.security.alpha.kubernetes.io/pod");
    if seccomp.exists() && !spec.field("securityContext").field("seccompProfile").exists() {
        warnings.push(no_longer_read(&seccomp));
    }
    super::each_container(&spec, |container| {
        if !annotations.is_empty() && !container.field("securityContext").field("seccompProfile").exists() {
            let name = container.field("name").str();
            let key = format!("container.seccomp.security.alpha.kubernetes.io/{name}");
            let seccomp = annotations.key(&key);
            if seccomp.exists() {
                warnings.push(no_longer_read(&seccomp));
            }
        }
        let resources = container.field("resources");
        let (limits, requests) = (resources.field("limits"), resources.field("requests"));
        for list in [&limits, &requests] {
            fractions(list, &mut warnings);
        }
        hidden_variables(container, &mut warnings);
    });
    ports(&spec, &mut warnings);
    let grace = spec.field("terminationGracePeriodSeconds");
    if grace.int() < 0 {
        let text = "must be >= 0; negative values are invalid and will be treated as 1";
        warnings.push(format!("{}: {text}", grace.path()));
    }
    pod_affinity(&spec, &mut warnings);
    let dns = spec.field("dnsConfig");
    warnings.extend(dns.field("nameservers").items().filter_map(|server| checks::ip_warning(&server)));
    warnings
        .extend(spec.field("hostAliases").items().filter_map(|alias| checks::ip_warning(&alias.field("ip"))));
    warnings
}

fn no_longer_read(annotation: &At<'_, '_>) -> String {
    format!("{}: non-functional in v1.27+; use the \"seccompProfile\" field instead", annotation.path())
}

fn null_selector(selector: &At<'_, '_>, warnings: &mut Vec<String>) {
    if !selector.exists() {
        warnings.push(format!("{}: a null labelSelector results in matching no pod", selector.path()));
    }
}

fn node_affinity(spec: &At<'_, '_>, warnings: &mut Vec<String>) {
    let affinity = spec.field("affinity");
    let node = affinity.field("nodeAffinity");
    let required = node.field("requiredDuringSchedulingIgnoredDuringExecution");
    for term in required.field("nodeSelectorTerms").items() {
        node_selector_term_warnings(&term, false, warnings);
    }
    for term in node.field("preferredDuringSchedulingIgnoredDuringExecution").items() {
        node_selector_term_warnings(&term.field("preference"), true, warnings);
    }
}

fn pod_affinity(spec: &At<'_, '_>, warnings: &mut Vec<String>) {
    let affinity = spec.field("affinity");
    for kind in ["podAffinity", "podAntiAffinity"] {
        let pods = affinity.field(kind);
        for term in pods.field("requiredDuringSchedulingIgnoredDuringExecution").items() {
            null_selector(&term.field("labelSelector"), warnings);
        }
        for term in pods.field("preferredDuringSchedulingIgnoredDuringExecution").items() {
            null_selector(&term.field("podAffinityTerm").field("labelSelector"), warnings);
        }
    }
}

fn volumes(spec: &At<'_, '_>, warnings: &mut Vec<String>) {
    for volume in spec.field("volumes").items() {
        for (kind, shown, message) in DEPRECATED_VOLUMES {
            if volume.field(kind).exists() {
                warnings.push(format!("{}: {message}", volume.field(shown).path()));
            }
        }
        let ephemeral = volume.field("ephemeral");
        let claim = ephemeral.field("volumeClaimTemplate");
        if claim.exists() {
            volume_claim::spec_warnings(&claim.field("spec"), warnings);
        }
    }
    for volume in spec.field("volumes").items() {
        overlapping_paths(&volume, warnings);
    }
}

/// A file of a volume: its path, and what it comes from where that differs within the volume.
type File = (String, String);

fn files(items: &At<'_, '_>, source: &str) -> Vec<File> {
    let path = |item: At<'_, '_>| item.field("path").str().trim_end_matches('/').to_owned();
    items.items().map(|item| (path(item), source.to_owned())).collect()
}

fn overlapping_paths(volume: &At<'_, '_>, warnings: &mut Vec<String>) {
    let name = volume.field("name").str();
    let described = |(path, source): &File| match source.as_str() {
        "" => format!("\"{path}\""),
        source => format!("\"{path}\" ({source})"),
    };
    let mut report = |kind: &str, files: Vec<File>| {
        for (index, one) in files.iter().enumerate().filter(|(_, (path, _))| !path.is_empty()) {
            for other in files[..index].iter().filter(|(path, _)| !path.is_empty()) {
                let inside = |a: &str, b: &str| format!("{a}/").starts_with(&format!("{b}/"));
                if inside(&one.0, &other.0) || inside(&other.0, &one.0) {
                    let pair = format!("{} with {}", described(one), described(other));
                    warnings.push(format!("volume \"{name}\" ({kind}): overlapping paths: {pair}"));
                }
            }
        }
    };
    let (config, secret) = (volume.field("configMap"), volume.field("secret"));
    if !config.field("items").is_empty() {
        report(&format!("ConfigMap \"{}\"", config.field("name").str()), files(&config.field("items"), ""));
    }
    if !secret.field("items").is_empty() {
        report(
            &format!("Secret \"{}\"", secret.field("secretName").str()),
            files(&secret.field("items"), ""),
        );
    }
    report("DownwardAPI", files(&volume.field("downwardAPI").field("items"), ""));
    let projected = volume.field("projected");
    let mut all = Vec::new();
    let mut empty = 0;
    for source in projected.field("sources").items() {
        let (config, secret) = (source.field("configMap"), source.field("secret"));
        if source.is_empty() {
            empty += 1;
        } else if config.exists() {
            let from = format!("ConfigMap \"{}\"", config.field("name").str());
            all.extend(files(&config.field("items"), &from));
        } else if secret.exists() {
            let from = format!("Secret \"{}\"", secret.field("name").str());
            all.extend(files(&secret.field("items"), &from));
        } else if source.field("downwardAPI").exists() {
            all.extend(files(&source.field("downwardAPI").field("items"), "DownwardAPI"));
        } else if source.field("serviceAccountToken").exists() {
            let path =
                source.field("serviceAccountToken").field("path").str().trim_end_matches('/').to_owned();
            all.push((path, "ServiceAccountToken".to_owned()));
        }
    }
    report("Projected", all);
    for _ in 0..empty {
        warnings.push(format!("volume \"{name}\" (Projected) has no sources provided"));
    }
}

fn repeated(spec: &At<'_, '_>, warnings: &mut Vec<String>) {
    let mut addresses = BTreeSet::new();
    for alias in spec.field("hostAliases").items() {
        let ip = alias.field("ip");
        if !addresses.insert(ip.str()) {
            warnings.push(format!("{}: duplicate ip \"{}\"", ip.path(), ip.str()));
        }
    }
    let mut names = BTreeSet::new();
    let secrets = spec.field("imagePullSecrets");
    for secret in secrets.items() {
        let name = secret.field("name");
        if !names.insert(name.str()) {
            warnings.push(format!("{}: duplicate name \"{}\"", name.path(), name.str()));
        }
    }
    for secret in secrets.items().filter(|secret| secret.field("name").str().is_empty()) {
        warnings.push(format!("{}: invalid empty name \"\"", secret.field("name").path()));
    }
}

fn fractions(list: &At<'_, '_>, warnings: &mut Vec<String>) {
    for name in ["memory", "ephemeral-storage"] {
        let amount = list.key(name);
        let may_be_finer = amount.str().contains(['m', 'u', 'n', '.', 'e']);
        if may_be_finer && !checks::is_whole(&quantity(amount.str())) {
            warnings.push(format!(
                "{}: fractional byte value \"{}\" is invalid, must be an integer",
                amount.path(),
                amount.str()
            ));
        }
    }
}

fn hidden_variables(container: &At<'_, '_>, warnings: &mut Vec<String>) {
    let mut names = BTreeSet::new();
    for variable in container.field("env").items() {
        let name = variable.field("name").str();
        if names.insert(name) {
            continue;
        }
        let (reference, value) = (format!("$({name})"), variable.field("value").str());
        let extends =
            value.contains(&reference) && value != reference && !variable.field("valueFrom").exists();
        if !extends {
            warnings.push(format!(
                "{}: hides previous definition of \"{name}\", which may be dropped when using apply",
                variable.path()
            ));
        }
    }
}

fn ports(spec: &At<'_, '_>, warnings: &mut Vec<String>) {
    /// Where a port is defined, and the address and port of the host it is bound to.
    type Definition<'v> = (String, &'v str, i64);
    let mut taken: BTreeMap<(i64, &str), Vec<Definition<'_>>> = BTreeMap::new();
    let mut named: BTreeMap<&str, String> = BTreeMap::new();
    let mut named_warnings = Vec::new();
    super::each_container(spec, |container| {
        for port in container.field("ports").items() {
            let path = port.path().to_string();
            let (address, host) = (port.field("hostIP").str(), port.field("hostPort").int());
            let key = (port.field("containerPort").int(), port.field("protocol").str());
            if !address.is_empty() && host == 0 {
                let name = port.field("name").str();
                warnings.push(format!(
                    "{path}: hostIP set without hostPort: {{Name:{name} HostPort:0 ContainerPort:{} Protocol:{} HostIP:{address}}}",
                    key.0, key.1
                ));
            }
            let others = taken.entry(key).or_default();
            for (other, other_address, other_host) in others.iter() {
                if address == *other_address && host == *other_host {
                    warnings.push(format!("{path}: duplicate port definition with {other}"));
                } else if host == 0 || *other_host == 0 {
                    warnings.push(format!("{path}: overlapping port definition with {other}"));
                } else if host == *other_host && address.is_empty() != other_address.is_empty() {
                    warnings.push(format!("{path}: dangerously ambiguous port definition with {other}"));
                }
            }
            others.push((path.clone(), address, host));
            let name = port.field("name").str();
            match named.get(name) {
                _ if name.is_empty() => {}
                Some(other) => named_warnings.push(format!(
                    "{path}: duplicate port name \"{name}\" with {other}, services and probes that select ports by name will use {other}"
                )),
                None => {
                    named.insert(name, path);
                }
            }
        }
    });
    warnings.append(&mut named_warnings);
}
