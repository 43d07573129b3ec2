//! Who owns the claims of a StatefulSet, and so with whom they go: with the set, with a pod that was scaled away,
//! or with nobody.

use k8s_openapi::{
    api::{
        apps::v1::{StatefulSet, StatefulSetSpec},
        core::v1::{PersistentVolumeClaim, Pod},
    },
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{Resource, ResourceExt as _};

use super::member::{ordinal, ordinals};

/// When the claims of a set go.
#[derive(Clone, Copy)]
struct Policy {
    with_set: bool,
    with_scaled_pod: bool,
}

impl Policy {
    fn of(spec: &StatefulSetSpec) -> Self {
        let policy = spec.persistent_volume_claim_retention_policy.as_ref();
        let deletes = |when: Option<&String>| when.is_some_and(|when| when == "Delete");
        Self {
            with_set: deletes(policy.and_then(|policy| policy.when_deleted.as_ref())),
            with_scaled_pod: deletes(policy.and_then(|policy| policy.when_scaled.as_ref())),
        }
    }
}

/// Whether a claim is about to go with an earlier pod of the same name, and so is not for a new one.
pub(super) fn is_stale(claim: &PersistentVolumeClaim, spec: &StatefulSetSpec, pod: &str) -> bool {
    Policy::of(spec).with_scaled_pod
        && claim.owner_references().iter().any(|owner| owner.kind == "Pod" && owner.name == pod)
}

/// The owners that a claim of a pod must have; nothing if it has them, or others see to it.
pub(super) fn owners(
    claim: &PersistentVolumeClaim,
    set: &StatefulSet,
    pod: &Pod,
) -> Option<Vec<OwnerReference>> {
    let spec = set.spec.as_ref()?;
    let policy = Policy::of(spec);
    let present = claim.owner_references();
    let is_stale = |owner: &OwnerReference| {
        (is_to(owner, set) && set.uid().as_ref() != Some(&owner.uid))
            || (is_to(owner, pod) && pod.uid().as_ref() != Some(&owner.uid))
    };
    if present.iter().any(is_stale) {
        return None;
    }
    let mut wanted: Vec<_> =
        present.iter().filter(|owner| !is_to(owner, set) && !is_to(owner, pod)).cloned().collect();
    let is_retained = !policy.with_set && !policy.with_scaled_pod;
    let has_other_controller = !is_retained && wanted.iter().any(|owner| owner.controller == Some(true));
    if !has_other_controller {
        let is_scaled_away =
            ordinal(&set.name_any(), pod).is_none_or(|ordinal| !ordinals(spec).contains(&ordinal));
        if policy.with_scaled_pod && is_scaled_away {
            wanted.extend(pod.controller_owner_ref(&()));
        } else if policy.with_set {
            wanted.extend(set.controller_owner_ref(&()));
        }
    }
    let same = |one: &OwnerReference, other: &OwnerReference| {
        one.uid == other.uid && one.controller == other.controller
    };
    let is_so = wanted.len() == present.len()
        && wanted.iter().all(|one| present.iter().any(|other| same(one, other)));
    (!is_so).then_some(wanted)
}

/// Whether a reference is to an object, or to another that had its name.
fn is_to<K: Resource<DynamicType = ()>>(owner: &OwnerReference, object: &K) -> bool {
    owner.api_version == K::api_version(&())
        && owner.kind == K::kind(&())
        && Some(&owner.name) == object.meta().name.as_ref()
}
