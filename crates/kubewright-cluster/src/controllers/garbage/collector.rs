//! The work of the collector: what becomes of an object, given those that own it and those that it owns.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::future::{join_all, try_join_all};
use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1::Event},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::{
    Api,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy},
};
use kubewright::{Error, Key, Result, TaskContext, queue::Priority};
use serde_json::{Value, json};
use tokio::{sync::RwLock, time::timeout};

use super::{
    SETTLING,
    objects::{self, Member, Objects},
    sight::{FOREGROUND, ORPHAN, Sight, Work, blocks, has_finalizer, is_held, key_of, references},
};
use crate::discovery::{Catalogue, Served};

/// How long a kind may take to be seen before work goes on without it.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) struct Collector {
    cx: TaskContext,
    sight: Arc<Sight>,
    /// Held for writing until a new kind was seen as a whole, so that nobody decides from a part of it.
    kinds: RwLock<Kinds>,
}

/// The kinds there are.
#[derive(Default)]
struct Kinds {
    catalogue: Catalogue,
    /// Those that are watched, by their resource.
    watched: BTreeMap<Arc<str>, Kind>,
}

/// A kind whose objects may own and be owned.
struct Kind {
    served: Arc<Served>,
    objects: Box<dyn Objects>,
    /// The server no longer has it. It is watched for a moment longer, so that the end of its objects is seen.
    is_leaving: bool,
}

/// An object, with its kind.
struct Item<'k> {
    resource: &'k Arc<str>,
    kind: &'k Kind,
    object: Member,
}

/// What became of an owner.
enum Owner {
    Solid,
    /// It is being deleted, and waits for its dependents.
    Waits,
    Absent,
    /// It is in a namespace, and the dependent is not: nothing can be said of it.
    Invalid,
}

impl Collector {
    pub(super) fn new(cx: TaskContext, sight: Arc<Sight>) -> Self {
        Self { cx, sight, kinds: RwLock::default() }
    }

    pub(super) async fn work(&self, work: &Work) -> Result<()> {
        match work {
            Work::Discover => self.discover().await?,
            Work::Bereaved(uid) => {
                let kinds = self.kinds.read().await;
                kinds.dependents(uid).iter().for_each(|dependent| self.look_at(dependent));
            }
            Work::Owner { api_version, kind, key } => {
                let kinds = self.kinds.read().await;
                let owner = kinds.named(api_version, kind, key);
                if let Some(owner) = owner.filter(|owner| is_held(owner.object.metadata(), FOREGROUND)) {
                    self.look_at(&owner);
                }
            }
            Work::Check(resource, key) => {
                let kinds = self.kinds.read().await;
                if let Some(item) = kinds.item(resource, key) {
                    self.check(&kinds, &item).await?;
                }
            }
        }
        Ok(())
    }

    fn look_at(&self, item: &Item<'_>) {
        let work = Work::Check(item.resource.clone(), key_of(item.object.metadata()));
        self.sight.queue().add(work, Priority::Normal);
    }

    /// Watches the kinds that are new, and lets go of those that are no more.
    async fn discover(&self) -> Result<()> {
        let catalogue = Catalogue::read(&self.cx.client).await?;
        let mut kinds = self.kinds.write().await;
        let resources: BTreeMap<Arc<str>, Arc<Served>> = catalogue
            .resources
            .values()
            // Events have no owners, and there are many.
            .filter(|served| served.supports(&["delete", "list", "watch"]) && served.kind.plural != "events")
            .map(|served| (served.kind.to_string().into(), served.clone()))
            .collect();
        kinds.catalogue = catalogue;
        kinds
            .watched
            .retain(|resource, kind| resources.get(resource) == Some(&kind.served) || !kind.is_leaving);
        let mut is_any_leaving = false;
        for (resource, kind) in &mut kinds.watched {
            kind.is_leaving = !resources.contains_key(resource);
            is_any_leaving |= kind.is_leaving;
        }
        if is_any_leaving {
            self.sight.queue().add_after(Work::Discover, 10 * SETTLING, Priority::Low);
        }
        let mut new = Vec::new();
        for (resource, served) in resources {
            if kinds.watched.get(&resource).is_none_or(|kind| kind.served != served) {
                let objects = objects::watch(&self.cx, &served.kind, &resource, &self.sight);
                kinds.watched.insert(resource.clone(), Kind { served, objects, is_leaving: false });
                new.push(resource);
            }
        }
        let ready =
            new.iter().filter_map(|resource| kinds.watched.get(resource)).map(|kind| kind.objects.ready());
        if timeout(PATIENCE, join_all(ready)).await.is_err() {
            tracing::warn!("not all kinds were seen within {PATIENCE:?}: garbage is collected without them");
        }
        Ok(())
    }

    async fn check(&self, kinds: &Kinds, item: &Item<'_>) -> Result<()> {
        let meta = item.object.metadata();
        if is_held(meta, ORPHAN) {
            return self.orphan_dependents(kinds, item).await;
        }
        if is_held(meta, FOREGROUND) {
            return self.delete_dependents(kinds, item).await;
        }
        let is_leaving = meta.deletion_timestamp.is_some();
        if is_leaving || references(meta).all(|reference| kinds.is_solid(meta, reference)) {
            return Ok(());
        }
        self.judge(kinds, item).await
    }

    /// Takes an object out of the references of all that it owns, and lets it go.
    async fn orphan_dependents(&self, kinds: &Kinds, item: &Item<'_>) -> Result<()> {
        let dependents = kinds.dependents(item.uid());
        let freed = dependents.iter().map(|dependent| {
            let meta = dependent.object.metadata();
            let others: Vec<_> = references(meta).filter(|owner| owner.uid != item.uid()).collect();
            self.patch(dependent, meta, json!({"ownerReferences": others}))
        });
        try_join_all(freed).await?;
        self.remove_finalizer(item, ORPHAN).await
    }

    /// Deletes all that an object owns, and lets it go once nothing is left that keeps it.
    async fn delete_dependents(&self, kinds: &Kinds, item: &Item<'_>) -> Result<()> {
        let dependents = kinds.dependents(item.uid());
        let keeps = |dependent: &Item<'_>| {
            references(dependent.object.metadata()).any(|owner| owner.uid == item.uid() && blocks(owner))
        };
        if !dependents.iter().any(keeps) {
            return self.remove_finalizer(item, FOREGROUND).await;
        }
        let staying = |dependent: &&Item<'_>| dependent.object.metadata().deletion_timestamp.is_none();
        dependents.iter().filter(staying).for_each(|dependent| self.look_at(dependent));
        Ok(())
    }

    /// Deletes an object whose owners are all gone, or going; takes those out of its references if others stay.
    async fn judge(&self, kinds: &Kinds, item: &Item<'_>) -> Result<()> {
        let Some(latest) = item.api(self).get_metadata_opt(item.name()).await? else {
            return Ok(());
        };
        let meta = &latest.metadata;
        if meta.uid != item.object.metadata().uid || meta.owner_references.as_ref().is_none_or(Vec::is_empty)
        {
            return Ok(());
        }
        let (mut solid, mut waits) = (Vec::new(), false);
        for reference in references(meta) {
            match self.owner(kinds, item, reference).await? {
                Owner::Solid => solid.push(reference),
                Owner::Waits => waits = true,
                Owner::Absent => {}
                Owner::Invalid => return Ok(()),
            }
        }
        if !solid.is_empty() {
            if solid.len() < references(meta).count() {
                self.patch(item, meta, json!({"ownerReferences": solid})).await?;
            }
            return Ok(());
        }
        let dependents = kinds.dependents(item.uid());
        if !waits || dependents.is_empty() {
            let policy = if has_finalizer(meta, ORPHAN) {
                PropagationPolicy::Orphan
            } else if has_finalizer(meta, FOREGROUND) {
                PropagationPolicy::Foreground
            } else {
                PropagationPolicy::Background
            };
            return self.delete(item, meta.resource_version.clone(), policy).await;
        }
        // Those who own each other in a circle would wait for each other for ever.
        let is_circle = dependents.iter().any(|dependent| is_held(dependent.object.metadata(), FOREGROUND));
        let mut revision = meta.resource_version.clone();
        if is_circle && references(meta).any(blocks) {
            let unblocked: Vec<_> = references(meta)
                .map(|owner| OwnerReference { block_owner_deletion: Some(false), ..owner.clone() })
                .collect();
            let patched = self.patch(item, meta, json!({"ownerReferences": unblocked})).await?;
            let Some(patched) = patched else { return Ok(()) };
            revision = patched.resource_version;
        }
        self.delete(item, revision, PropagationPolicy::Foreground).await
    }

    /// What became of the owner that a reference names, as the server knows it.
    async fn owner(&self, kinds: &Kinds, item: &Item<'_>, reference: &OwnerReference) -> Result<Owner> {
        if self.sight.has_gone(&reference.uid) {
            return Ok(Owner::Absent);
        }
        let OwnerReference { api_version, kind, name, uid, .. } = reference;
        // A kind may be unknown because it is still to come.
        let Some(served) = kinds.catalogue.find(api_version, kind) else {
            return Err(Error::new(format!("the server has no {kind} of {api_version}")));
        };
        let namespace = item.object.metadata().namespace.as_deref();
        let is_invalid = served.kind.is_namespaced && namespace.is_none();
        if !is_invalid {
            let owner = served.api(&self.cx.client, namespace).get_metadata_opt(name).await?;
            if let Some(owner) = owner.filter(|owner| owner.metadata.uid.as_ref() == Some(uid)) {
                return Ok(if is_held(&owner.metadata, FOREGROUND) { Owner::Waits } else { Owner::Solid });
            }
        }
        if kinds.is_elsewhere(served, uid) {
            self.tell_of_namespace(item, reference).await;
        }
        Ok(if is_invalid { Owner::Invalid } else { Owner::Absent })
    }

    async fn remove_finalizer(&self, item: &Item<'_>, finalizer: &str) -> Result<()> {
        let meta = item.object.metadata();
        let others: Vec<_> = meta.finalizers.iter().flatten().filter(|one| *one != finalizer).collect();
        self.patch(item, meta, json!({"finalizers": others})).await.map(|_| ())
    }

    /// Changes the metadata of an object, if it still is as it was `seen`. Gives nothing if it has gone.
    async fn patch(
        &self,
        item: &Item<'_>,
        seen: &ObjectMeta,
        mut change: Value,
    ) -> Result<Option<ObjectMeta>> {
        change["uid"] = json!(seen.uid);
        change["resourceVersion"] = json!(seen.resource_version);
        let change = Patch::Merge(json!({"metadata": change}));
        let patched = item.api(self).patch_metadata(item.name(), &PatchParams::default(), &change).await;
        match patched {
            Ok(patched) => Ok(Some(patched.metadata)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Deletes an object, if it still is what its deletion was decided for.
    async fn delete(
        &self,
        item: &Item<'_>,
        revision: Option<String>,
        policy: PropagationPolicy,
    ) -> Result<()> {
        let parameters = DeleteParams {
            propagation_policy: Some(policy),
            preconditions: Some(Preconditions {
                uid: item.object.metadata().uid.clone(),
                resource_version: revision,
            }),
            ..DeleteParams::default()
        };
        match item.api(self).delete(item.name(), &parameters).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            outcome => Ok(outcome.map(|_| ())?),
        }
    }

    /// Says that an object names an owner of another namespace.
    async fn tell_of_namespace(&self, item: &Item<'_>, owner: &OwnerReference) {
        let (meta, kind) = (item.object.metadata(), &item.kind.served.kind);
        let namespace = meta.namespace.clone().unwrap_or_default();
        let note = format!(
            "ownerRef [{}/{}, namespace: {namespace}, name: {}, uid: {}] does not exist in namespace {namespace:?}",
            owner.api_version, owner.kind, owner.name, owner.uid,
        );
        let place = meta.namespace.clone().unwrap_or_else(|| "default".to_owned());
        let event = Event {
            metadata: ObjectMeta {
                generate_name: Some(format!("{}-", item.name())),
                ..ObjectMeta::default()
            },
            event_time: Some(self.cx.clock.micro_time()),
            type_: Some("Warning".to_owned()),
            reason: Some("OwnerRefInvalidNamespace".to_owned()),
            action: Some("Collect".to_owned()),
            note: Some(note),
            regarding: Some(ObjectReference {
                api_version: Some(kind.api_version()),
                kind: Some(kind.kind.clone()),
                name: meta.name.clone(),
                namespace: meta.namespace.clone(),
                uid: meta.uid.clone(),
                ..ObjectReference::default()
            }),
            reporting_controller: Some("garbage-collector-controller".to_owned()),
            reporting_instance: Some("garbage-collector-controller".to_owned()),
            ..Event::default()
        };
        let events: Api<Event> = Api::namespaced(self.cx.client.clone(), &place);
        if let Err(error) = events.create(&PostParams::default(), &event).await {
            tracing::warn!(%error, "an event was not written");
        }
    }
}

impl Item<'_> {
    fn uid(&self) -> &str {
        self.object.metadata().uid.as_deref().unwrap_or_default()
    }

    fn name(&self) -> &str {
        self.object.metadata().name.as_deref().unwrap_or_default()
    }

    fn api(&self, collector: &Collector) -> Api<DynamicObject> {
        self.kind.served.api(&collector.cx.client, self.object.metadata().namespace.as_deref())
    }
}

impl Kinds {
    fn item(&self, resource: &str, key: &Key) -> Option<Item<'_>> {
        let (resource, kind) = self.watched.get_key_value(resource)?;
        Some(Item { resource, kind, object: kind.objects.get(key)? })
    }

    /// The object with the version, the kind and the name that a reference from this namespace gives.
    fn named(&self, api_version: &str, kind: &str, key: &Key) -> Option<Item<'_>> {
        let served = self.catalogue.find(api_version, kind)?;
        let key = if served.kind.is_namespaced { key.clone() } else { Key::cluster(key.name()) };
        self.item(&served.kind.to_string(), &key)
    }

    /// What the object with this UID owns.
    fn dependents(&self, uid: &str) -> Vec<Item<'_>> {
        self.watched
            .iter()
            .flat_map(|(resource, kind)| {
                let owned = kind.objects.owned_by(uid).into_iter();
                owned.map(move |object| Item { resource, kind, object })
            })
            .collect()
    }

    /// Whether an owner is known to be there, and to stay. Memory may be behind, but never for long.
    fn is_solid(&self, dependent: &ObjectMeta, reference: &OwnerReference) -> bool {
        let key = Key::new(dependent.namespace.as_deref().unwrap_or_default(), &reference.name);
        self.named(&reference.api_version, &reference.kind, &key).is_some_and(|owner| {
            owner.uid() == reference.uid && !is_held(owner.object.metadata(), FOREGROUND)
        })
    }

    /// Whether the object with this UID is in another namespace than it was looked for in.
    fn is_elsewhere(&self, served: &Served, uid: &str) -> bool {
        let kind = self.watched.get(&*served.kind.to_string()).filter(|_| served.kind.is_namespaced);
        let all = kind.map(|kind| kind.objects.all()).unwrap_or_default();
        all.iter().any(|object| object.metadata().uid.as_deref() == Some(uid))
    }
}
