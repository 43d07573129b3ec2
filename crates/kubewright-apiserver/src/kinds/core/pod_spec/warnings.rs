//! What is accepted in a pod or template, but worth a word to its author.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    super::super::{
        checks::{self, quantity},
        report::At,
    },
    super::volume_claim,
};

/// More warnings than this do not fit into the headers of an answer, however short they are.
const MOST_SHOWN: usize = 4 * 1024;

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

/// Paths by which of them are inside of others.
#[derive(Default)]
struct Paths {
    /// The files at each path, which ends in a slash here.
    files: BTreeMap<String, Vec<usize>>,
    lengths: BTreeSet<usize>,
}

impl Paths {
    fn insert(&mut self, path: &str, file: usize) {
        self.lengths.insert(path.len() + 1);
        self.files.entry(format!("{path}/")).or_default().push(file);
    }

    /// The files that are `path`, are inside of it or that it is inside of, in the order they came in.
    fn overlapping(&self, path: &str) -> Vec<usize> {
        let path = format!("{path}/");
        let outer = self.lengths.range(..path.len()).filter_map(|length| path.get(..*length));
        let outer = outer.filter_map(|outer| self.files.get(outer));
        let inner = self.files.range(path.clone()..).take_while(|(other, _)| other.starts_with(&path));
        let mut files: Vec<usize> = outer.chain(inner.map(|(_, files)| files)).flatten().copied().collect();
        files.sort_unstable();
        files
    }
}

fn overlapping_paths(volume: &At<'_, '_>, warnings: &mut Vec<String>) {
    let name = volume.field("name").str();
    let described = |(path, source): &File| match source.as_str() {
        "" => format!("\"{path}\""),
        source => format!("\"{path}\" ({source})"),
    };
    let mut report = |kind: &str, files: Vec<File>| {
        let mut earlier = Paths::default();
        for (index, one) in files.iter().enumerate().filter(|(_, (path, _))| !path.is_empty()) {
            for other in earlier.overlapping(&one.0) {
                if warnings.len() > MOST_SHOWN {
                    return;
                }
                let pair = format!("{} with {}", described(one), described(&files[other]));
                warnings.push(format!("volume \"{name}\" ({kind}): overlapping paths: {pair}"));
            }
            earlier.insert(&one.0, index);
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

/// The definitions of one port of containers, by the address and port of the host they are bound to.
#[derive(Default)]
struct Definitions<'v> {
    paths: Vec<String>,
    by_host_port: BTreeMap<i64, Vec<usize>>,
    by_binding: BTreeMap<(i64, &'v str), Vec<usize>>,
}

impl<'v> Definitions<'v> {
    fn insert(&mut self, path: String, address: &'v str, host: i64) {
        let index = self.paths.len();
        self.paths.push(path);
        self.by_host_port.entry(host).or_default().push(index);
        self.by_binding.entry((host, address)).or_default().push(index);
    }

    /// The definitions that get in the way of another one, in order, and in what way.
    fn clashes(&self, address: &str, host: i64) -> Vec<(usize, &'static str)> {
        let bound = |host, address| {
            self.by_binding.get(&(host, address)).map(Vec::as_slice).unwrap_or_default().iter()
        };
        let to_host_port =
            |host: i64| self.by_host_port.get(&host).map(Vec::as_slice).unwrap_or_default().iter();
        let mut clashes: BTreeMap<usize, &'static str> = BTreeMap::new();
        if host == 0 {
            clashes.extend((0..self.paths.len()).map(|index| (index, "overlapping")));
        } else {
            let others = if address.is_empty() { to_host_port(host) } else { bound(host, "") };
            clashes.extend(others.map(|index| (*index, "dangerously ambiguous")));
            clashes.extend(to_host_port(0).map(|index| (*index, "overlapping")));
        }
        clashes.extend(bound(host, address).map(|index| (*index, "duplicate")));
        clashes.into_iter().collect()
    }
}

fn ports(spec: &At<'_, '_>, warnings: &mut Vec<String>) {
    let mut taken: BTreeMap<(i64, &str), Definitions<'_>> = BTreeMap::new();
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
            if warnings.len() <= MOST_SHOWN {
                let others = taken.entry(key).or_default();
                for (other, how) in others.clashes(address, host) {
                    let other = &others.paths[other];
                    warnings.push(format!("{path}: {how} port definition with {other}"));
                }
                others.insert(path.clone(), address, host);
            }
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
