//! Volumes of a pod, and how containers mount them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    super::super::{
        checks::{self, quantity},
        report::{At, Errors},
    },
    super::volume_claim,
    env,
    validation::Owner,
};

/// The volumes a container may mount: those without a fault, by name.
pub(super) struct Volumes<'v>(BTreeMap<&'v str, &'v Value>);

/// The kinds of volumes in the order in which the first one counts, with the name a second one is
/// reported by.
const SOURCES: [(&str, &str); 30] = [
    ("emptyDir", "emptyDir"),
    ("hostPath", "hostPath"),
    ("gitRepo", "gitRepo"),
    ("gcePersistentDisk", "gcePersistentDisk"),
    ("awsElasticBlockStore", "awsElasticBlockStore"),
    ("secret", "secret"),
    ("nfs", "nfs"),
    ("iscsi", "iscsi"),
    ("glusterfs", "glusterfs"),
    ("flocker", "flocker"),
    ("persistentVolumeClaim", "persistentVolumeClaim"),
    ("rbd", "rbd"),
    ("cinder", "cinder"),
    ("cephfs", "cephFS"),
    ("quobyte", "quobyte"),
    ("downwardAPI", "downwarAPI"),
    ("fc", "fc"),
    ("flexVolume", "flexVolume"),
    ("configMap", "configMap"),
    ("azureFile", "azureFile"),
    ("vsphereVolume", "vsphereVolume"),
    ("photonPersistentDisk", "photonPersistentDisk"),
    ("portworxVolume", "portworxVolume"),
    ("azureDisk", "azureDisk"),
    ("storageos", "storageos"),
    ("projected", "projected"),
    ("scaleIO", "scaleIO"),
    ("csi", "csi"),
    ("ephemeral", "ephemeral"),
    ("image", "image"),
];

impl<'v> Volumes<'v> {
    /// Checks the volumes of `spec`. `pod` is the name of the pod, if it is one and has one.
    pub(super) fn check(spec: &At<'v, '_>, pod: &str, owner: Owner, errors: &mut Errors) -> Self {
        let volumes = spec.field("volumes");
        let mut good = BTreeMap::new();
        let ephemeral: BTreeSet<&str> = volumes
            .items()
            .filter(|volume| volume.field("ephemeral").exists())
            .map(|volume| volume.field("name").str())
            .collect();
        for volume in volumes.items() {
            let before = errors.count();
            source(&volume, pod, owner, errors);
            let name = volume.field("name");
            if name.str().is_empty() {
                errors.required(&name, "");
            } else {
                errors.each(&name, checks::dns_label(name.str()));
            }
            if good.contains_key(name.str()) {
                errors.duplicate(&name, name.str());
            }
            if errors.count() == before
                && let Some(value) = volume.value()
            {
                good.insert(name.str(), value);
            }
            let claim = volume.field("persistentVolumeClaim");
            let name = claim.field("claimName");
            let of_pod = name.str().strip_prefix(pod).and_then(|rest| rest.strip_prefix('-'));
            if claim.exists() && !pod.is_empty() && of_pod.is_some_and(|name| ephemeral.contains(name)) {
                let text = "must not reference a PVC that gets created for an ephemeral volume";
                errors.invalid(&name, name.str(), text);
            }
        }
        Self(good)
    }

    /// The mounts of `container`.
    pub(super) fn check_mounts(&self, container: &At<'_, '_>, errors: &mut Errors) {
        let mounts = container.field("volumeMounts");
        let devices = container.field("volumeDevices");
        let (device_names, device_paths) = (values_of(&devices, "name"), values_of(&devices, "devicePath"));
        let privileged = container.field("securityContext").field("privileged").bool();
        let mut paths = BTreeSet::new();
        for mount in mounts.items() {
            let (name, path) = (mount.field("name"), mount.field("mountPath"));
            if name.str().is_empty() {
                errors.required(&name, "");
            }
            if !self.0.contains_key(name.str()) {
                errors.not_found(&name, name.str());
            }
            if path.str().is_empty() {
                errors.required(&path, "");
            }
            if !paths.insert(path.str()) {
                errors.invalid(&path, path.str(), "must be unique");
            }
            if device_names.contains(name.str()) {
                errors.invalid(&name, name.str(), "must not already exist in volumeDevices");
            }
            if device_paths.contains(path.str()) {
                errors.invalid(&path, path.str(), "must not already exist as a path in volumeDevices");
            }
            let (below, expression) = (mount.field("subPath").str(), mount.field("subPathExpr"));
            if !below.is_empty() {
                checks::descending_path(&mounts.field("subPath"), below, errors);
            }
            if !expression.str().is_empty() {
                if !below.is_empty() {
                    let text = "subPathExpr and subPath are mutually exclusive";
                    errors.invalid(&expression, expression.str(), text);
                }
                checks::descending_path(&mounts.field("subPathExpr"), expression.str(), errors);
            }
            propagation(&mounts, &mount, privileged, errors);
        }
    }

    /// The raw block devices of `container`.
    pub(super) fn check_devices(&self, container: &At<'_, '_>, errors: &mut Errors) {
        let mounts = container.field("volumeMounts");
        let (mount_names, mount_paths) = (values_of(&mounts, "name"), values_of(&mounts, "mountPath"));
        let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
        for device in container.field("volumeDevices").items() {
            let (name, path) = (device.field("name"), device.field("devicePath"));
            if name.str().is_empty() {
                errors.required(&name, "");
            } else if !names.insert(name.str()) {
                errors.invalid(&name, name.str(), "must be unique");
            }
            match self.0.get(name.str()) {
                None => errors.not_found(&name, name.str()),
                Some(volume)
                    if volume.get("persistentVolumeClaim").is_none() && volume.get("ephemeral").is_none() =>
                {
                    let text = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                    errors.invalid(&name, name.str(), text);
                }
                Some(_) => {}
            }
            if path.str().is_empty() {
                errors.required(&path, "");
            }
            if path.str().split('/').any(|part| part == "..") {
                errors.invalid(&path, path.str(), "can not contain backsteps ('..')");
            } else if !paths.insert(path.str()) {
                errors.invalid(&path, path.str(), "must be unique");
            }
            if mount_names.contains(name.str()) {
                errors.invalid(&name, name.str(), "must not already exist in volumeMounts");
            }
            if mount_paths.contains(path.str()) {
                errors.invalid(&path, path.str(), "must not already exist as a path in volumeMounts");
            }
        }
    }
}

/// What the items of a list have as `field`.
fn values_of<'v>(list: &At<'v, '_>, field: &str) -> BTreeSet<&'v str> {
    list.items().map(|item| item.field(field).str()).collect()
}

fn propagation(mounts: &At<'_, '_>, mount: &At<'_, '_>, privileged: bool, errors: &mut Errors) {
    let place = mounts.field("mountPropagation");
    let propagation = mount.field("mountPropagation");
    if propagation.exists() {
        let supported = ["Bidirectional", "HostToContainer", "None"];
        if !supported.contains(&propagation.str()) {
            errors.not_supported(&place, propagation.str(), &supported);
        }
        if propagation.str() == "Bidirectional" && !privileged {
            errors.forbidden(
                &place,
                "Bidirectional mount propagation is available only to privileged containers",
            );
        }
    }
    let place = mounts.field("recursiveReadOnly");
    match mount.field("recursiveReadOnly").str() {
        "Enabled" | "IfPossible" => {
            if !mount.field("readOnly").bool() {
                errors.forbidden(&place, "may only be specified when readOnly is true");
            }
            if !matches!(propagation.str(), "" | "None") {
                let text = "may only be specified when mountPropagation is None or not specified";
                errors.forbidden(&place, text);
            }
        }
        "" | "Disabled" => {}
        other => errors.not_supported(&place, other, &["Disabled", "Enabled", "IfPossible"]),
    }
}

fn source(volume: &At<'_, '_>, pod: &str, owner: Owner, errors: &mut Errors) {
    let mut found = false;
    for (kind, reported) in SOURCES {
        let source = volume.field(kind);
        if !source.exists() {
            continue;
        }
        if found {
            errors.forbidden(&volume.field(reported), "may not specify more than 1 volume type");
            continue;
        }
        found = true;
        one_source(kind, volume, &source, pod, owner, errors);
    }
    if !found {
        errors.required(volume, "must specify a volume type");
    }
}

fn one_source(
    kind: &str,
    volume: &At<'_, '_>,
    source: &At<'_, '_>,
    pod: &str,
    owner: Owner,
    errors: &mut Errors,
) {
    let required = |errors: &mut Errors, name: &str| {
        if source.field(name).str().is_empty() {
            errors.required(&source.field(name), "");
        }
    };
    match kind {
        "emptyDir" if quantity(source.field("sizeLimit").str()).sign() < 0 => {
            let text = "SizeLimit field must be a valid resource quantity";
            errors.forbidden(&source.field("sizeLimit"), text);
        }
        "hostPath" => host_path(source, errors),
        "gitRepo" => {
            required(errors, "repository");
            let directory = source.field("directory");
            checks::descending_path(&directory, directory.str(), errors);
        }
        "secret" => {
            required(errors, "secretName");
            file_mode(&source.field("defaultMode"), errors);
            keys_to_paths(&source.field("items"), errors);
        }
        "configMap" => {
            required(errors, "name");
            file_mode(&source.field("defaultMode"), errors);
            keys_to_paths(&source.field("items"), errors);
        }
        "nfs" => nfs(source, errors),
        "persistentVolumeClaim" => required(errors, "claimName"),
        "downwardAPI" => {
            file_mode(&source.field("defaultMode"), errors);
            for file in source.field("items").items() {
                env::downward_file(&source.holding(file.value()), errors);
            }
        }
        "projected" => {
            file_mode(&source.field("defaultMode"), errors);
            projections(source, errors);
        }
        "csi" => {
            csi_driver_name(&source.field("driver"), errors);
            let secret = source.field("nodePublishSecretRef");
            if secret.exists() && secret.field("name").str().is_empty() {
                errors.required(&secret.field("name"), "");
            }
        }
        "ephemeral" => ephemeral(volume, source, pod, errors),
        "image" => {
            if owner == Owner::Pod {
                required(errors, "reference");
            }
            errors.one_of(&source.field("pullPolicy"), &["Always", "IfNotPresent", "Never"]);
        }
        "iscsi" => {
            required(errors, "targetPortal");
            required(errors, "iqn");
        }
        "awsElasticBlockStore" | "cinder" => required(errors, "volumeID"),
        "gcePersistentDisk" => required(errors, "pdName"),
        "azureDisk" => {
            required(errors, "diskName");
            required(errors, "diskURI");
        }
        "azureFile" => {
            required(errors, "secretName");
            required(errors, "shareName");
        }
        "vsphereVolume" => required(errors, "volumePath"),
        "portworxVolume" => required(errors, "volumeID"),
        "flexVolume" => required(errors, "driver"),
        "glusterfs" => {
            required(errors, "endpoints");
            required(errors, "path");
        }
        _ => {}
    }
}

/// A directory or file of the node.
pub(crate) fn host_path(source: &At<'_, '_>, errors: &mut Errors) {
    let path = source.field("path");
    if path.str().is_empty() {
        return errors.required(&path, "");
    }
    checks::no_backsteps(&path, path.str(), errors);
    errors.optional_one_of(
        &source.field("type"),
        &[
            "",
            "BlockDevice",
            "CharDevice",
            "Directory",
            "DirectoryOrCreate",
            "File",
            "FileOrCreate",
            "Socket",
        ],
    );
}

/// A directory exported over NFS.
pub(crate) fn nfs(source: &At<'_, '_>, errors: &mut Errors) {
    let (server, path) = (source.field("server"), source.field("path"));
    if server.str().is_empty() {
        errors.required(&server, "");
    }
    if path.str().is_empty() {
        errors.required(&path, "");
    }
    if !path.str().starts_with('/') {
        errors.invalid(&path, path.str(), "must be an absolute path");
    }
}

/// The name of a CSI driver.
pub(crate) fn csi_driver_name(driver: &At<'_, '_>, errors: &mut Errors) {
    if driver.str().is_empty() {
        return errors.required(driver, "");
    }
    if driver.str().len() > 63 {
        errors.too_long(driver, 63);
    }
    errors.each(driver, checks::dns_subdomain(&driver.str().to_lowercase()));
}

/// The permission bits of a file.
pub(crate) fn file_mode(mode: &At<'_, '_>, errors: &mut Errors) {
    if !(0..=0o777).contains(&mode.int()) {
        errors.invalid(mode, mode.int(), "must be a number between 0 and 0777 (octal), both inclusive");
    }
}

fn keys_to_paths(items: &At<'_, '_>, errors: &mut Errors) {
    for item in items.items() {
        if item.field("key").str().is_empty() {
            errors.required(&item.field("key"), "");
        }
        let path = item.field("path");
        if path.str().is_empty() {
            errors.required(&path, "");
        }
        checks::projected_path(&path, errors);
        file_mode(&item.field("mode"), errors);
    }
}

fn ephemeral(volume: &At<'_, '_>, source: &At<'_, '_>, pod: &str, errors: &mut Errors) {
    let template = source.field("volumeClaimTemplate");
    if !template.exists() {
        errors.required(&template, "");
    } else {
        let metadata = template.field("metadata");
        checks::annotations(&metadata.field("annotations"), errors);
        checks::labels(&metadata.field("labels"), errors);
        for (name, _) in metadata
            .entries()
            .filter(|(name, _)| !matches!(*name, "annotations" | "labels" | "creationTimestamp"))
        {
            errors.forbidden(&metadata.field(name), "cannot be set");
        }
        volume_claim::validate_spec(&template.field("spec"), errors);
    }
    let name = volume.field("name");
    if !pod.is_empty() && !name.str().is_empty() {
        let claim = format!("{pod}-{}", name.str());
        for reason in checks::dns_subdomain(&claim) {
            errors.invalid(&name, name.str(), format!("PVC name \"{claim}\": {reason}"));
        }
    }
}

fn projections(projected: &At<'_, '_>, errors: &mut Errors) {
    let mut paths: BTreeSet<&str> = BTreeSet::new();
    for source in projected.field("sources").items() {
        let mut kinds = 0;
        for kind in ["secret", "configMap"] {
            let projection = source.field(kind);
            if !projection.exists() {
                continue;
            }
            kinds += 1;
            let name = projection.field("name");
            if name.str().is_empty() {
                errors.required(&name, "");
            }
            keys_to_paths(&projection.field("items"), errors);
            for item in projection.field("items").items() {
                let path = item.field("path").str();
                if !path.is_empty() && !paths.insert(path) {
                    errors.invalid(projected, name.str(), "conflicting duplicate paths");
                }
            }
        }
        let downward = source.field("downwardAPI");
        if downward.exists() {
            kinds += 1;
            for file in downward.field("items").items() {
                env::downward_file(&downward.holding(file.value()), errors);
                let path = file.field("path").str();
                if !path.is_empty() && !paths.insert(path) {
                    errors.invalid(projected, path, "conflicting duplicate paths");
                }
            }
        }
        let token = source.field("serviceAccountToken");
        if token.exists() {
            kinds += 1;
            let seconds = token.field("expirationSeconds");
            if seconds.int() < 600 {
                errors.invalid(&seconds, seconds.int(), "may not specify a duration less than 10 minutes");
            }
            if seconds.int() > 1 << 32 {
                errors.invalid(
                    &seconds,
                    seconds.int(),
                    "may not specify a duration larger than 2^32 seconds",
                );
            }
            let path = projected.field("path").holding(token.field("path").value());
            if path.str().is_empty() {
                errors.required(&path, "");
            } else {
                checks::projected_path(&path, errors);
            }
        }
        if kinds > 1 {
            errors.forbidden(&source, "may not specify more than 1 volume type per source");
        }
    }
}
