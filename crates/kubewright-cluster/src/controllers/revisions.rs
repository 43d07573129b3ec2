//! ControllerRevisions: the templates an owner has had, numbered from old to new, as `kubectl rollout history`
//! and `undo` read them.

use k8s_openapi::{
    NamespaceResourceScope,
    api::{apps::v1::ControllerRevision, core::v1::PodTemplateSpec},
    apimachinery::pkg::{
        apis::meta::v1::{LabelSelector, ObjectMeta},
        runtime::RawExtension,
    },
};
use kube::{Resource, ResourceExt as _};
use kubewright::{Context, Index, Kind, Result, Seen};
use serde_json::{Value, json};

use super::{
    claim::{self, claim},
    hash::hash,
    is_taken,
};

/// Revisions that nobody controls, by their namespace.
pub(super) const ORPHANED_REVISIONS: Index<ControllerRevision> = Index::new("orphaned", claim::orphaned);
/// The label of pods that says which revision they were made from.
pub(super) const REVISION_LABEL: &str = "controller-revision-hash";
/// How much of the owner's name is in that of a revision.
const LONGEST_PREFIX: usize = 223;

/// The revisions of an owner.
pub(super) struct Revisions {
    /// From old to new. The last is the one of the owner's template.
    all: Vec<Seen<ControllerRevision>>,
    /// How many names were found to be taken by others.
    pub(super) collisions: i32,
}

impl Revisions {
    /// Reads what is there, and makes the revision of `template` the newest. What tells the names of revisions
    /// apart is also in a label of theirs.
    pub(super) async fn of<K>(
        owner: &K,
        cx: &Context<K>,
        selector: &LabelSelector,
        template: &PodTemplateSpec,
        hash_label: &str,
        collisions: i32,
    ) -> Result<Self>
    where
        K: Kind + Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        let mut all = claim(owner, cx, selector, &ORPHANED_REVISIONS).await?;
        all.sort_by_key(|one| (one.revision, one.metadata.creation_timestamp.clone()));
        let next = all.last().map_or(1, |newest| newest.revision + 1);
        let data = data(template)?;
        let mut revisions = Self { all, collisions };
        match revisions.all.iter().rposition(|one| has(one, &data)) {
            Some(at) if at + 1 == revisions.all.len() => {}
            // The way back to an earlier template.
            Some(at) => {
                let again = revisions.all.remove(at);
                revisions.all.push(cx.patch(&again, json!({"revision": next})).await?);
            }
            None => {
                let created = revisions.create(owner, cx, template, hash_label, &data, next).await?;
                revisions.all.push(created);
            }
        }
        Ok(revisions)
    }

    /// The revision of the owner's template.
    pub(super) fn newest(&self) -> Option<&Seen<ControllerRevision>> {
        self.all.last()
    }

    /// A revision by its name.
    pub(super) fn named(&self, name: Option<&str>) -> Option<&Seen<ControllerRevision>> {
        self.all.iter().find(|one| one.metadata.name.as_deref() == name)
    }

    /// The revisions that may go, if only so many are kept besides those that are in use.
    pub(super) fn superfluous<'r>(
        &'r self,
        limit: Option<i32>,
        is_used: impl Fn(&str) -> bool + 'r,
    ) -> impl Iterator<Item = &'r Seen<ControllerRevision>> {
        let unused: Vec<_> = self.all.iter().filter(|one| !is_used(&one.name_any())).collect();
        let kept = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        let surplus = unused.len().saturating_sub(kept);
        unused.into_iter().take(surplus)
    }

    async fn create<K>(
        &mut self,
        owner: &K,
        cx: &Context<K>,
        template: &PodTemplateSpec,
        hash_label: &str,
        data: &Value,
        number: i64,
    ) -> Result<Seen<ControllerRevision>>
    where
        K: Kind + Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        loop {
            let hash = hash(data, Some(self.collisions));
            let mut name = owner.name_any();
            name.truncate(LONGEST_PREFIX);
            let mut labels =
                template.metadata.as_ref().and_then(|meta| meta.labels.clone()).unwrap_or_default();
            labels.insert(hash_label.to_owned(), hash.clone());
            let revision = ControllerRevision {
                metadata: ObjectMeta {
                    name: Some(format!("{name}-{hash}")),
                    labels: Some(labels),
                    annotations: owner.meta().annotations.clone(),
                    ..ObjectMeta::default()
                },
                data: Some(RawExtension(data.clone())),
                revision: number,
            };
            let error = match cx.create(revision).await {
                Ok(created) => return Ok(created),
                Err(error) => error,
            };
            if !is_taken(&error) {
                return Err(error);
            }
            match cx.live().get::<ControllerRevision>(&format!("{name}-{hash}")).await? {
                Some(present) if has(&present, data) => return Ok(present),
                _ => self.collisions += 1,
            }
        }
    }
}

fn has(revision: &ControllerRevision, data: &Value) -> bool {
    revision.data.as_ref().is_some_and(|present| present.0 == *data)
}

/// A template as a patch that restores it.
fn data(template: &PodTemplateSpec) -> Result<Value> {
    let mut template = serde_json::to_value(template)?;
    template["$patch"] = "replace".into();
    Ok(json!({"spec": {"template": template}}))
}

/// The template that a revision restores.
pub(super) fn template_of(revision: &ControllerRevision) -> Result<PodTemplateSpec> {
    let template = revision.data.as_ref().and_then(|data| data.0.pointer("/spec/template"));
    Ok(serde_json::from_value(template.cloned().unwrap_or_default())?)
}
