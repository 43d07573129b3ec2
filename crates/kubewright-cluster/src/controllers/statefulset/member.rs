//! What makes the pods of a StatefulSet different from each other: their ordinals, and with them names, labels
//! and claims.

use std::ops::Range;

use k8s_openapi::api::{
    apps::v1::{StatefulSet, StatefulSetSpec},
    core::v1::{PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, PodTemplateSpec, Volume},
};
use kube::ResourceExt as _;

use crate::{controllers::revisions::REVISION_LABEL, pods};

pub(super) const POD_NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";

/// The ordinal of a pod, if it has the name of a member of the set.
pub(super) fn ordinal(set: &str, pod: &Pod) -> Option<i32> {
    let (owner, ordinal) = pod.metadata.name.as_deref()?.rsplit_once('-')?;
    ordinal.parse().ok().filter(|ordinal: &i32| owner == set && *ordinal >= 0)
}

/// The ordinals that a set is to have.
pub(super) fn ordinals(spec: &StatefulSetSpec) -> Range<i32> {
    let start = spec.ordinals.as_ref().and_then(|ordinals| ordinals.start).unwrap_or(0);
    start..start + spec.replicas.unwrap_or(1)
}

/// The claims of a member, by the names of their volumes.
pub(super) fn claims(set: &StatefulSet, ordinal: i32) -> Vec<(String, PersistentVolumeClaim)> {
    let Some(spec) = &set.spec else { return Vec::new() };
    let claim = |template: &PersistentVolumeClaim| {
        let volume = template.name_any();
        let mut claim = template.clone();
        claim.metadata.name = Some(format!("{volume}-{}-{ordinal}", set.name_any()));
        claim.metadata.namespace = set.namespace();
        let labels = spec.selector.match_labels.clone().unwrap_or_default();
        claim.labels_mut().extend(labels);
        claim.status = None;
        (volume, claim)
    };
    spec.volume_claim_templates.iter().flatten().map(claim).collect()
}

/// A member as it is created from the template of a revision.
pub(super) fn member(set: &StatefulSet, ordinal: i32, template: &PodTemplateSpec, revision: &str) -> Pod {
    let mut pod = pods::from_template(template, &set.name_any());
    let name = format!("{}-{ordinal}", set.name_any());
    pod.metadata.name = Some(name.clone());
    let labels = pod.labels_mut();
    labels.insert(POD_NAME_LABEL.to_owned(), name.clone());
    labels.insert(POD_INDEX_LABEL.to_owned(), ordinal.to_string());
    labels.insert(REVISION_LABEL.to_owned(), revision.to_owned());
    let spec = pod.spec.get_or_insert_default();
    spec.hostname = Some(name);
    spec.subdomain = set.spec.as_ref().and_then(|spec| spec.service_name.clone());
    let claims = claims(set, ordinal);
    let own = spec.volumes.take().unwrap_or_default();
    let own = own.into_iter().filter(|volume| claims.iter().all(|(name, _)| *name != volume.name));
    let volumes: Vec<Volume> = claims.iter().map(|(name, claim)| volume(name, claim)).chain(own).collect();
    spec.volumes = Some(volumes).filter(|volumes| !volumes.is_empty());
    pod
}

fn volume(name: &str, claim: &PersistentVolumeClaim) -> Volume {
    Volume {
        name: name.to_owned(),
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
            claim_name: claim.name_any(),
            read_only: None,
        }),
        ..Volume::default()
    }
}
