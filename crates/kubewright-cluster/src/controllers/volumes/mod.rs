//! Storage: claims find a volume or get one made, volumes follow their claims, and neither goes while it is used.

mod claim;
mod matching;
mod volume;

use k8s_openapi::api::{
    core::v1::{PersistentVolume, PersistentVolumeClaim, Pod},
    storage::v1::StorageClass,
};
use kube::{Api, Client, ResourceExt as _};
use kubewright::{Context, Index, Key, Kind, Lookup, Result, Seen};
use serde_json::json;

pub(super) use self::{claim::controller as claims, volume::controller as volumes};
use crate::{cluster::create_if_missing, pods};

/// The provisioner whose volumes this cluster makes: they exist in name only.
const PROVISIONER: &str = "kubewright.dev/simulated";
/// What its volumes say is needed to mount them.
const DRIVER: &str = "simulated.kubewright.dev";
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

/// Pods by the claims they use.
pub(crate) const PODS_BY_CLAIM: Index<Pod> = Index::new("claim", |pod| {
    let namespace = pod.namespace().unwrap_or_default();
    claim_names(pod).map(|name| format!("{namespace}/{name}")).collect()
});
/// Volumes by the claim they are for.
const VOLUMES_BY_CLAIM: Index<PersistentVolume> = Index::new("claim", |volume| {
    let claim = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    let key = claim.and_then(|claim| Some(format!("{}/{}", claim.namespace.as_ref()?, claim.name.as_ref()?)));
    key.into_iter().collect()
});
/// Volumes that are for no claim, by their class.
const FREE_VOLUMES: Index<PersistentVolume> = Index::new("free", |volume| {
    let is_free = volume.spec.as_ref().is_some_and(|spec| spec.claim_ref.is_none());
    is_free.then(|| matching::class_of_volume(volume).to_owned()).into_iter().collect()
});

/// The name of a claim within an index.
pub(crate) fn name_of(claim: &PersistentVolumeClaim) -> String {
    format!("{}/{}", claim.namespace().unwrap_or_default(), claim.name_any())
}

/// The names of the claims that a pod uses.
fn claim_names(pod: &Pod) -> impl Iterator<Item = String> {
    let volumes = pods::spec(pod).volumes.iter().flatten();
    volumes.filter_map(|volume| Some(volume.persistent_volume_claim.as_ref()?.claim_name.clone()))
}

/// The keys of the claims that a pod uses.
fn claims_of(pod: &Pod) -> Vec<Key> {
    let namespace = pod.namespace().unwrap_or_default();
    claim_names(pod).map(|name| Key::new(&namespace, &name)).collect()
}

/// Whether this cluster made a volume.
fn is_ours(volume: &PersistentVolume) -> bool {
    volume.annotations().get(PROVISIONED_BY).is_some_and(|provisioner| provisioner == PROVISIONER)
}

/// Why a pod can't be scheduled for the sake of its claims; nothing if it can. Whoever asks must watch claims,
/// volumes and classes.
pub(crate) fn obstacle(pod: &Pod, lookup: &Lookup) -> Result<Option<String>> {
    for key in claims_of(pod) {
        let name = key.name();
        let Some(claim) = lookup.get::<PersistentVolumeClaim>(&key)? else {
            return Ok(Some(format!("persistentvolumeclaim {name:?} not found")));
        };
        if claim.metadata.deletion_timestamp.is_some() {
            return Ok(Some(format!("persistentvolumeclaim {name:?} is being deleted")));
        }
        let volume = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref());
        match volume.filter(|_| claim.annotations().contains_key(BIND_COMPLETED)) {
            Some(volume) if lookup.get::<PersistentVolume>(&Key::cluster(volume))?.is_none() => {
                let what = format!("persistentvolumeclaim {name:?} bound to non-existent persistentvolume");
                return Ok(Some(format!("{what} {volume:?}")));
            }
            Some(_) => {}
            None if volume.is_none() && waits_for_consumer(&claim, lookup)? => {}
            None => return Ok(Some("pod has unbound immediate PersistentVolumeClaims".to_owned())),
        }
    }
    Ok(None)
}

/// Whether a claim is only bound when a pod that uses it has a node.
fn waits_for_consumer(claim: &PersistentVolumeClaim, lookup: &Lookup) -> Result<bool> {
    let class = lookup.get::<StorageClass>(&Key::cluster(matching::class_of_claim(claim)))?;
    Ok(class.is_some_and(|class| class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer")))
}

/// Puts a volume into a phase.
async fn set_phase<K: Kind>(cx: &Context<K>, volume: &Seen<PersistentVolume>, phase: &str) -> Result<()> {
    if volume.status.as_ref().and_then(|status| status.phase.as_deref()) == Some(phase) {
        return Ok(());
    }
    let status = json!({"phase": phase, "lastPhaseTransitionTime": cx.clock().time()});
    cx.patch_status(volume, status).await?;
    Ok(())
}

/// Makes sure that an object has a finalizer until it may go.
async fn protect<K: Kind>(cx: &Context<K>, object: &Seen<K>, finalizer: &str, is_used: bool) -> Result<()> {
    let mut finalizers = object.finalizers().to_vec();
    let (has, is_leaving) =
        (finalizers.iter().any(|one| one == finalizer), object.meta().deletion_timestamp.is_some());
    match is_leaving {
        false if !has => finalizers.push(finalizer.to_owned()),
        true if has && !is_used => finalizers.retain(|one| one != finalizer),
        _ => return Ok(()),
    }
    let version = object.resource_version();
    cx.patch(object, json!({"metadata": {"resourceVersion": version, "finalizers": finalizers}})).await?;
    Ok(())
}

/// Puts the default class into the cluster, if it is not there.
pub(crate) async fn register(client: &Client) -> kube::Result<()> {
    let classes: Api<StorageClass> = Api::all(client.clone());
    let class = json!({
        "metadata": {
            "name": "standard",
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowVolumeExpansion": true,
    });
    let class: StorageClass = serde_json::from_value(class).map_err(kube::Error::SerdeError)?;
    create_if_missing(&classes, &class).await
}
