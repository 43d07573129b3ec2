//! PersistentVolumes: their phases follow their claims, and what was made for a claim goes with it.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::{Api, ResourceExt as _};
use kubewright::{Context, Controller, Key, Lookup, Next, Reconciler, Result, Seen};
use serde_json::json;

use super::{BOUND_BY_CONTROLLER, FREE_VOLUMES, VOLUMES_BY_CLAIM, is_ours, name_of, protect, set_phase};

const PROTECTION: &str = "kubernetes.io/pv-protection";

struct Volumes;

pub(in crate::controllers) fn controller() -> Controller {
    Controller::of_existing::<PersistentVolume>()
        .index(VOLUMES_BY_CLAIM)
        .index(FREE_VOLUMES)
        .watches::<PersistentVolumeClaim, _, _>(volumes_of)
        .reconciles_deleted()
        .concurrency(5)
        .reports_as("persistentvolume-controller")
        .run(Volumes)
}

/// The volumes that a claim has, or that were made for it.
async fn volumes_of(claim: Seen<PersistentVolumeClaim>, lookup: Lookup) -> Vec<Key> {
    let made = lookup.indexed(&VOLUMES_BY_CLAIM, &name_of(&claim)).unwrap_or_default();
    let bound = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref());
    made.iter().map(|volume| Key::of(&**volume)).chain(bound.map(Key::cluster)).collect()
}

impl Reconciler<PersistentVolume> for Volumes {
    async fn reconcile(&self, volume: &PersistentVolume, cx: &Context<PersistentVolume>) -> Result<Next> {
        let name = volume.name_any();
        let Some(volume) = cx.get::<PersistentVolume>(&name)? else { return Ok(Next::on_change()) };
        follow(cx, &volume).await?;
        if let Some(volume) = cx.get::<PersistentVolume>(&name)? {
            let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
            protect(cx, &volume, PROTECTION, phase == Some("Bound")).await?;
        }
        Ok(Next::on_change())
    }
}

/// Does what the claim of a volume calls for.
async fn follow(cx: &Context<PersistentVolume>, volume: &Seen<PersistentVolume>) -> Result<()> {
    let claim = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    let Some((claim, uid)) = claim.and_then(|claim| Some((claim, claim.uid.as_deref()?))) else {
        return set_phase(cx, volume, "Available").await;
    };
    let namespace = claim.namespace.as_deref().unwrap_or_default();
    let key = Key::new(namespace, claim.name.as_deref().unwrap_or_default());
    let is_it = |claim: &PersistentVolumeClaim| claim.metadata.uid.as_deref() == Some(uid);
    let mut present =
        cx.lookup().get::<PersistentVolumeClaim>(&key)?.filter(|claim| is_it(claim)).map(|claim| {
            let spec = claim.spec.as_ref();
            spec.and_then(|spec| spec.volume_name.clone())
        });
    if present.is_none() {
        // Not on the word of a cache that may be behind: data would be lost.
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(cx.client().clone(), namespace);
        let live = claims.get_opt(key.name()).await?.filter(is_it);
        present = live.map(|claim| claim.spec.and_then(|spec| spec.volume_name));
    }
    match present {
        None => release(cx, volume).await,
        Some(Some(bound)) if bound == volume.name_any() => set_phase(cx, volume, "Bound").await,
        // The claim has found another.
        Some(Some(_)) if is_ours(volume) => release(cx, volume).await,
        Some(Some(_)) => unbind(cx, volume).await,
        // The claim is about to be bound.
        Some(None) => Ok(()),
    }
}

/// The claim of a volume has gone; if it was made for it, and is not to be kept, the volume goes too.
async fn release(cx: &Context<PersistentVolume>, volume: &Seen<PersistentVolume>) -> Result<()> {
    set_phase(cx, volume, "Released").await?;
    let policy = volume.spec.as_ref().and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
    let is_leaving = volume.metadata.deletion_timestamp.is_some();
    if policy == Some("Delete") && is_ours(volume) && !is_leaving {
        cx.delete(volume).await?;
    }
    Ok(())
}

/// Makes a volume free again, or as free as whoever made it wanted it.
async fn unbind(cx: &Context<PersistentVolume>, volume: &Seen<PersistentVolume>) -> Result<()> {
    let version = volume.resource_version();
    let change = match volume.annotations().contains_key(BOUND_BY_CONTROLLER) {
        true => json!({
            "metadata": {"resourceVersion": version, "annotations": {BOUND_BY_CONTROLLER: null}},
            "spec": {"claimRef": null},
        }),
        false => json!({"metadata": {"resourceVersion": version}, "spec": {"claimRef": {"uid": null}}}),
    };
    let volume = cx.patch(volume, change).await?;
    set_phase(cx, &volume, "Available").await
}
