//! What the collector knows of the objects of one kind: their metadata, in whatever form they are watched.

use std::sync::{Arc, LazyLock};

use futures_util::future::BoxFuture;
use k8s_openapi::{
    api::{
        apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet},
        batch::v1::{CronJob, Job},
        core::v1::{
            Endpoints, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, ResourceQuota, Service,
        },
        discovery::v1::EndpointSlice,
        policy::v1::PodDisruptionBudget,
        storage::v1::StorageClass,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::core::{DynamicObject, PartialObjectMeta};
use kubewright::{Key, Kind, KindName, Object, Result, TaskContext, Watch, Watching};

use super::sight::Sight;

/// All that is known of an object of a kind that nobody else watches.
type Meta = PartialObjectMeta<DynamicObject>;

/// The objects of a kind. They are watched until this is dropped.
pub(super) trait Objects: Send + Sync {
    /// Waits until all were seen.
    fn ready(&self) -> BoxFuture<'_, Result<()>>;
    fn get(&self, key: &Key) -> Option<Member>;
    fn all(&self) -> Vec<Member>;
    /// Those that the one with this UID owns.
    fn owned_by(&self, uid: &str) -> Vec<Member>;
}

/// One of them.
pub(super) type Member = Arc<dyn Described>;

pub(super) trait Described: Send + Sync {
    fn metadata(&self) -> &ObjectMeta;
}

impl<K: Object> Described for K {
    fn metadata(&self) -> &ObjectMeta {
        self.meta()
    }
}

impl<K: Object> Objects for Watching<K> {
    fn ready(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(Watching::ready(self))
    }

    fn get(&self, key: &Key) -> Option<Member> {
        (**self).get(key).map(|one| one.into_arc() as Member)
    }

    fn all(&self) -> Vec<Member> {
        self.list(None).into_iter().map(|one| one.into_arc() as Member).collect()
    }

    fn owned_by(&self, uid: &str) -> Vec<Member> {
        (**self).owned_by(uid).into_iter().map(|one| one.into_arc() as Member).collect()
    }
}

type Watcher = fn(&TaskContext, Arc<str>, Arc<Sight>) -> Box<dyn Objects>;

/// The kinds that controllers watch as a whole: their watches are shared.
static WHOLE: LazyLock<[(KindName, Watcher); 18]> = LazyLock::new(|| {
    fn whole<K: Kind>() -> (KindName, Watcher) {
        (KindName::of::<K>(), |cx, resource, sight| watch_as(cx, Watch::<K>::new(), resource, sight))
    }
    [
        whole::<ControllerRevision>(),
        whole::<CronJob>(),
        whole::<DaemonSet>(),
        whole::<Deployment>(),
        whole::<EndpointSlice>(),
        whole::<Endpoints>(),
        whole::<Job>(),
        whole::<Namespace>(),
        whole::<Node>(),
        whole::<PersistentVolume>(),
        whole::<PersistentVolumeClaim>(),
        whole::<Pod>(),
        whole::<PodDisruptionBudget>(),
        whole::<ReplicaSet>(),
        whole::<ResourceQuota>(),
        whole::<Service>(),
        whole::<StatefulSet>(),
        whole::<StorageClass>(),
    ]
});

/// Watches the objects of a kind, and tells `sight` of every change.
pub(super) fn watch(
    cx: &TaskContext,
    kind: &KindName,
    resource: &Arc<str>,
    sight: &Arc<Sight>,
) -> Box<dyn Objects> {
    let (resource, sight) = (resource.clone(), sight.clone());
    match WHOLE.iter().find(|(name, _)| name == kind) {
        Some((_, watcher)) => watcher(cx, resource, sight),
        None => watch_as(cx, Watch::<Meta>::of(kind.clone()).transform(lean), resource, sight),
    }
}

fn watch_as<K: Object>(
    cx: &TaskContext,
    watch: Watch<K>,
    resource: Arc<str>,
    sight: Arc<Sight>,
) -> Box<dyn Objects> {
    Box::new(cx.watch(watch, move |change| sight.saw(&resource, change)))
}

/// Leaves of an object what the collector reads.
fn lean(object: &mut Meta) {
    let meta = std::mem::take(&mut object.metadata);
    object.types = None;
    object.metadata = ObjectMeta {
        name: meta.name,
        namespace: meta.namespace,
        uid: meta.uid,
        resource_version: meta.resource_version,
        owner_references: meta.owner_references,
        finalizers: meta.finalizers,
        deletion_timestamp: meta.deletion_timestamp,
        ..ObjectMeta::default()
    };
}
