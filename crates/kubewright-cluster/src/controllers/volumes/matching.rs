//! Which volume is good enough for a claim. Nothing here reads or writes.

use k8s_openapi::{
    api::core::v1::{PersistentVolume, PersistentVolumeClaim},
    apimachinery::pkg::api::resource,
};
use kube::{
    ResourceExt as _,
    core::{Selector, SelectorExt as _},
};
use kubewright::Seen;
use kubewright_apiserver::Quantity;

/// Where the class stood before it had a field.
const CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// The class that a claim asks for; empty for none.
pub(super) fn class_of_claim(claim: &PersistentVolumeClaim) -> &str {
    let field = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_ref());
    claim.annotations().get(CLASS).or(field).map_or("", String::as_str)
}

/// The class of a volume; empty for none.
pub(super) fn class_of_volume(volume: &PersistentVolume) -> &str {
    let field = volume.spec.as_ref().and_then(|spec| spec.storage_class_name.as_ref());
    volume.annotations().get(CLASS).or(field).map_or("", String::as_str)
}

fn amount(quantity: Option<&resource::Quantity>) -> Option<Quantity> {
    quantity?.0.parse().ok()
}

fn capacity(volume: &PersistentVolume) -> Option<Quantity> {
    amount(volume.spec.as_ref()?.capacity.as_ref()?.get("storage"))
}

fn request(claim: &PersistentVolumeClaim) -> Option<Quantity> {
    amount(claim.spec.as_ref()?.resources.as_ref()?.requests.as_ref()?.get("storage"))
}

/// Whether a claim has come to ask for more than its volume has.
pub(super) fn has_outgrown(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    capacity(volume) < request(claim)
}

fn modes(modes: Option<&Vec<String>>) -> &[String] {
    modes.map_or(&[], Vec::as_slice)
}

/// Whether a volume is for a claim, by the word of whoever made or bound it.
pub(super) fn is_for(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    reference.is_some_and(|reference| {
        reference.name == claim.metadata.name
            && reference.namespace == claim.metadata.namespace
            && reference
                .uid
                .as_ref()
                .is_none_or(|uid| uid.is_empty() || claim.metadata.uid.as_ref() == Some(uid))
    })
}

/// Why a volume can't serve a claim, whatever their classes.
fn shortcoming(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Option<&'static str> {
    let (offered, wanted) = (volume.spec.clone()?, claim.spec.clone()?);
    let mode = |mode: Option<String>| mode.unwrap_or_else(|| "Filesystem".to_owned());
    let offered_modes = modes(offered.access_modes.as_ref());
    if volume.metadata.deletion_timestamp.is_some() {
        Some("the volume is marked for deletion")
    } else if has_outgrown(claim, volume) {
        Some("requested PV is too small")
    } else if mode(offered.volume_mode) != mode(wanted.volume_mode) {
        Some("incompatible volumeMode")
    } else if !modes(wanted.access_modes.as_ref()).iter().all(|mode| offered_modes.contains(mode)) {
        Some("incompatible accessMode")
    } else if offered.volume_attributes_class_name.unwrap_or_default()
        != wanted.volume_attributes_class_name.unwrap_or_default()
    {
        Some("volumeAttributesClassName does not match")
    } else {
        None
    }
}

/// Why a volume that a claim asks for by name can't be bound to it.
pub(super) fn mismatch(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Option<&'static str> {
    let other_class = class_of_volume(volume) != class_of_claim(claim);
    shortcoming(volume, claim).or(other_class.then_some("storageClassName does not match"))
}

/// The volume that was made for a claim.
pub(super) fn reserved<'v>(
    claim: &PersistentVolumeClaim,
    volumes: &'v [Seen<PersistentVolume>],
) -> Option<&'v Seen<PersistentVolume>> {
    volumes.iter().find(|volume| is_for(volume, claim) && shortcoming(volume, claim).is_none())
}

/// Of the volumes that are free, the one that wastes least: with the fewest modes, and then the smallest.
pub(super) fn smallest<'v>(
    claim: &PersistentVolumeClaim,
    free: &'v [Seen<PersistentVolume>],
) -> Option<&'v Seen<PersistentVolume>> {
    let selector = claim.spec.as_ref().and_then(|spec| spec.selector.clone());
    let selector = selector.map(Selector::try_from).transpose().ok()?;
    let is_good = |volume: &&Seen<PersistentVolume>| {
        volume.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Available")
            && selector.as_ref().is_none_or(|selector| selector.matches(volume.labels()))
            && mismatch(volume, claim).is_none()
    };
    free.iter().filter(is_good).min_by_key(|volume| {
        let offered = volume.spec.as_ref().and_then(|spec| spec.access_modes.as_ref());
        (modes(offered).len(), capacity(volume), volume.name_any())
    })
}
