//! Which objects belong to an owner: those it controls and still selects. What it no longer selects is released,
//! and what nobody controls, but it selects, is adopted.

use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::LabelSelector};
use kube::ResourceExt as _;
use kubewright::{Context, Index, Kind, Lookup, Result, Seen};
use serde_json::json;

use crate::pods::{controller_of, is_controlled_by, selects};

/// Pods that nobody controls, by their namespace.
pub(super) const ORPHANED_PODS: Index<Pod> = Index::new("orphaned", orphaned);

/// The namespace of an object that nobody controls.
pub(super) fn orphaned<C: Kind>(object: &C) -> Vec<String> {
    match controller_of(object) {
        None => object.meta().namespace.iter().cloned().collect(),
        Some(_) => Vec::new(),
    }
}

/// The owners, in the namespace of an object that nobody controls, that would adopt it.
pub(super) async fn adopters<K: Kind, C: Kind>(
    object: Seen<C>,
    lookup: Lookup,
    selector: fn(&K) -> Option<&LabelSelector>,
) -> Vec<kubewright::Key> {
    if controller_of(&*object).is_some() {
        return Vec::new();
    }
    let owners = lookup.list::<K>(object.meta().namespace.as_deref()).unwrap_or_default();
    let adopts = |owner: &&Seen<K>| selector(owner).is_some_and(|selector| selects(selector, &*object));
    owners.iter().filter(adopts).map(|owner| kubewright::Key::of(&**owner)).collect()
}

/// The objects that belong to `owner`, by name. `orphans` is the index of those that nobody controls.
pub(super) async fn claim<K: Kind, C: Kind>(
    owner: &K,
    cx: &Context<K>,
    selector: &LabelSelector,
    orphans: &Index<C>,
) -> Result<Vec<Seen<C>>> {
    claim_matching(owner, cx, |child| selects(selector, child), orphans, None).await
}

/// Like [`claim`], by something other than a selector alone, and with a finalizer that goes on what is adopted and
/// off what is released.
pub(super) async fn claim_matching<K: Kind, C: Kind>(
    owner: &K,
    cx: &Context<K>,
    matches: impl Fn(&C) -> bool + Send + Sync,
    orphans: &Index<C>,
    mark: Option<&str>,
) -> Result<Vec<Seen<C>>> {
    let uid = owner.meta().uid.as_deref().unwrap_or_default();
    let is_leaving = owner.meta().deletion_timestamp.is_some();
    let mut claimed = Vec::new();
    for child in cx.children::<C>()? {
        if !is_controlled_by(&*child, uid) {
            continue;
        }
        if matches(&*child) {
            claimed.push(child);
        } else if !is_leaving {
            tracing::info!(child = child.name_any(), "released: its labels no longer match");
            let others: Vec<_> = child.owner_references().iter().filter(|one| one.uid != uid).collect();
            let finalizers: Vec<&str> =
                child.finalizers().iter().map(String::as_str).filter(|name| Some(*name) != mark).collect();
            cx.patch(
                &child,
                json!({"metadata": {
                    "resourceVersion": child.resource_version(), "ownerReferences": others,
                    "finalizers": finalizers,
                }}),
            )
            .await?;
        }
    }
    let mut may_adopt = None;
    for orphan in cx.indexed(orphans, cx.namespace())? {
        if is_leaving || orphan.meta().deletion_timestamp.is_some() || !matches(&*orphan) {
            continue;
        }
        // Not on the word of a cache that may be behind: an owner that is gone must not adopt.
        if may_adopt.is_none() {
            let live = cx.live().get::<K>(&owner.name_any()).await?;
            may_adopt = Some(live.is_some_and(|live| {
                live.meta().uid.as_deref() == Some(uid) && live.meta().deletion_timestamp.is_none()
            }));
        }
        if may_adopt != Some(true) {
            break;
        }
        tracing::info!(child = orphan.name_any(), "adopted");
        let mut owners: Vec<_> = orphan.owner_references().to_vec();
        owners.extend(owner.controller_owner_ref(&()));
        let mut finalizers: Vec<&str> = orphan.finalizers().iter().map(String::as_str).collect();
        finalizers.extend(mark.filter(|mark| !finalizers.contains(mark)));
        let adopted = cx
            .patch(
                &orphan,
                json!({"metadata": {
                    "resourceVersion": orphan.resource_version(), "ownerReferences": owners,
                    "finalizers": finalizers,
                }}),
            )
            .await?;
        claimed.push(adopted);
    }
    claimed.sort_by_key(|child| child.name_any());
    Ok(claimed)
}
