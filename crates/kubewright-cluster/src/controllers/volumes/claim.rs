//! PersistentVolumeClaims: each finds the volume that was made for it, one that is free, or gets a new one.

use k8s_openapi::{
    api::{
        core::v1::{
            CSIPersistentVolumeSource, ObjectReference, PersistentVolume, PersistentVolumeClaim,
            PersistentVolumeClaimSpec, PersistentVolumeSpec, Pod,
        },
        storage::v1::StorageClass,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::ResourceExt as _;
use kubewright::{Context, Controller, Event, Index, Key, Lookup, Next, Reconciler, Result, Seen, Watch};
use serde_json::{Value, json};

use super::{
    BIND_COMPLETED, BOUND_BY_CONTROLLER, DRIVER, FREE_VOLUMES, PODS_BY_CLAIM, PROVISIONED_BY, PROVISIONER,
    VOLUMES_BY_CLAIM, claims_of, is_ours,
    matching::{class_of_claim, class_of_volume, has_outgrown, is_for, mismatch, reserved, smallest},
    name_of, protect, set_phase, waits_for_consumer,
};
use crate::pods::{is_finished, spec};

const PROTECTION: &str = "kubernetes.io/pvc-protection";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const STORAGE_PROVISIONER: [&str; 2] =
    ["volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner"];
const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

/// Claims without a volume, by their class.
const UNBOUND: Index<PersistentVolumeClaim> = Index::new("unbound", |claim| match volume_name(claim) {
    Some(_) => Vec::new(),
    None => vec![class_of_claim(claim).to_owned()],
});
/// Claims by their volume.
const BY_VOLUME: Index<PersistentVolumeClaim> =
    Index::new("volume", |claim| volume_name(claim).into_iter().map(str::to_owned).collect());

struct Claims;

pub(in crate::controllers) fn controller() -> Controller {
    Controller::of_existing::<PersistentVolumeClaim>()
        .index(UNBOUND)
        .index(BY_VOLUME)
        .watches_with(
            Watch::new().index(PODS_BY_CLAIM),
            |pod: Seen<Pod>, _| async move { claims_of(&pod) },
            [],
        )
        .watches_with(Watch::new().index(VOLUMES_BY_CLAIM).index(FREE_VOLUMES), claims_for_volume, [])
        .watches::<StorageClass, _, _>(claims_of_class)
        .reconciles_deleted()
        .concurrency(5)
        .reports_as("persistentvolume-controller")
        .run(Claims)
}

/// The claims that a volume is for, that ask for it, or that could take it.
async fn claims_for_volume(volume: Seen<PersistentVolume>, lookup: Lookup) -> Vec<Key> {
    let Some(spec) = &volume.spec else { return Vec::new() };
    let asking = lookup.indexed(&BY_VOLUME, &volume.name_any()).unwrap_or_default();
    let waiting = match &spec.claim_ref {
        None => lookup.indexed(&UNBOUND, class_of_volume(&volume)).unwrap_or_default(),
        Some(_) => Vec::new(),
    };
    let reference = spec.claim_ref.as_ref();
    let owner = reference.and_then(|claim| Some(Key::new(claim.namespace.as_ref()?, claim.name.as_ref()?)));
    asking.iter().chain(&waiting).map(|claim| Key::of(&**claim)).chain(owner).collect()
}

/// The claims that wait for a class, or for any to be the default.
async fn claims_of_class(class: Seen<StorageClass>, lookup: Lookup) -> Vec<Key> {
    let waiting = |name: &str| lookup.indexed(&UNBOUND, name).unwrap_or_default();
    waiting(&class.name_any()).iter().chain(&waiting("")).map(|claim| Key::of(&**claim)).collect()
}

fn volume_name(claim: &PersistentVolumeClaim) -> Option<&str> {
    claim.spec.as_ref()?.volume_name.as_deref().filter(|name| !name.is_empty())
}

fn phase(claim: &PersistentVolumeClaim) -> Option<&str> {
    claim.status.as_ref()?.phase.as_deref()
}

impl Reconciler<PersistentVolumeClaim> for Claims {
    async fn reconcile(
        &self,
        claim: &PersistentVolumeClaim,
        cx: &Context<PersistentVolumeClaim>,
    ) -> Result<Next> {
        let Some(claim) = cx.get::<PersistentVolumeClaim>(&claim.name_any())? else {
            return Ok(Next::on_change());
        };
        let pods = cx.indexed(&PODS_BY_CLAIM, &name_of(&claim))?;
        let is_used = pods.iter().any(|pod| spec(pod).node_name.is_some());
        protect(cx, &claim, PROTECTION, is_used).await?;
        if claim.metadata.deletion_timestamp.is_some() {
            return Ok(Next::on_change());
        }
        let binding = Binding { cx, claim, pods };
        match (volume_name(&binding.claim), binding.claim.annotations().contains_key(BIND_COMPLETED)) {
            (name, true) => binding.keep(name).await?,
            (Some(name), false) => binding.take(name).await?,
            (None, false) => binding.find().await?,
        }
        Ok(Next::on_change())
    }
}

/// One reconcile of a claim.
struct Binding<'b> {
    cx: &'b Context<PersistentVolumeClaim>,
    claim: Seen<PersistentVolumeClaim>,
    /// The pods that use it.
    pods: Vec<Seen<Pod>>,
}

impl Binding<'_> {
    fn volume(&self, name: &str) -> Result<Option<Seen<PersistentVolume>>> {
        self.cx.get::<PersistentVolume>(name)
    }

    /// A claim that was bound stays so, or is lost for ever.
    async fn keep(&self, name: Option<&str>) -> Result<()> {
        let Some(name) = name else {
            let why = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!";
            return self.lose("ClaimLost", why).await;
        };
        let Some(volume) = self.volume(name)? else {
            let why = "Bound claim has lost its PersistentVolume. Data on the volume is lost!";
            return self.lose("ClaimLost", why).await;
        };
        let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
        if reference.is_none_or(|reference| reference.uid == self.claim.metadata.uid) {
            self.bind(&volume, None).await?;
            return self.grow(&volume).await;
        }
        let why = "Two claims are bound to the same volume, this one is bound incorrectly";
        self.lose("ClaimMisbound", why).await
    }

    /// A volume that this cluster made grows with what its claim asks for.
    async fn grow(&self, volume: &Seen<PersistentVolume>) -> Result<()> {
        let class = self.cx.get::<StorageClass>(class_of_claim(&self.claim))?;
        let may_grow =
            is_ours(volume) && class.is_some_and(|class| class.allow_volume_expansion == Some(true));
        if !may_grow || !has_outgrown(&self.claim, volume) {
            return Ok(());
        }
        let resources = self.claim.spec.as_ref().and_then(|spec| spec.resources.as_ref());
        let capacity = json!(resources.and_then(|resources| resources.requests.as_ref()));
        self.cx.patch(volume, json!({"spec": {"capacity": capacity}})).await?;
        self.cx.patch_status(&self.claim, json!({"capacity": capacity})).await?;
        let event = Event::normal("VolumeResizeSuccessful", "Resize", "Resize volume succeeded");
        self.cx.event(event).await;
        Ok(())
    }

    async fn lose(&self, reason: &str, why: &str) -> Result<()> {
        if phase(&self.claim) != Some("Lost") {
            self.set_status("Lost", None).await?;
            self.cx.event(Event::warning(reason, "Bind", why)).await;
        }
        Ok(())
    }

    /// A claim that asks for a volume by its name takes it, if it may.
    async fn take(&self, name: &str) -> Result<()> {
        let Some(volume) = self.volume(name)? else { return self.set_status("Pending", None).await };
        let is_free = volume.spec.as_ref().is_some_and(|spec| spec.claim_ref.is_none());
        let obstacle = match is_for(&volume, &self.claim) {
            true => None,
            false if is_free => mismatch(&volume, &self.claim).map(|why| {
                let note = format!("Cannot bind to requested volume {name:?}: {why}");
                Event::warning("VolumeMismatch", "Bind", note)
            }),
            false => {
                let note = format!("volume {name:?} already bound to a different claim.");
                Some(Event::warning("FailedBinding", "Bind", note))
            }
        };
        match obstacle {
            None => self.bind(&volume, None).await,
            Some(event) => {
                self.cx.event(event).await;
                self.set_status("Pending", None).await
            }
        }
    }

    /// A claim that takes any volume gets the one made for it, the best that is free, or a new one.
    async fn find(&self) -> Result<()> {
        let cx = self.cx;
        let node = self.selected_node();
        let may_choose = node.is_some() || !waits_for_consumer(&self.claim, &cx.lookup())?;
        if let Some(volume) = reserved(&self.claim, &cx.indexed(&VOLUMES_BY_CLAIM, &name_of(&self.claim))?) {
            return self.bind(volume, node).await;
        }
        let class = class_of_claim(&self.claim);
        if may_choose && let Some(volume) = smallest(&self.claim, &cx.indexed(&FREE_VOLUMES, class)?) {
            return self.bind(volume, node).await;
        }
        if self.take_default_class().await? {
            return Ok(()); // The change brings it back.
        }
        if !may_choose {
            cx.event(self.wait()).await;
        } else if !class.is_empty() {
            return self.provision(class, node).await;
        } else {
            let note = "no persistent volumes available for this claim and no storage class is set";
            cx.event(Event::normal("FailedBinding", "Bind", note)).await;
        }
        self.set_status("Pending", None).await
    }

    /// The node that a volume is needed on, once a pod has one.
    fn selected_node(&self) -> Option<&str> {
        let said = self.claim.annotations().get(SELECTED_NODE).map(String::as_str);
        said.or_else(|| self.pods.iter().find_map(|pod| spec(pod).node_name.as_deref()))
    }

    /// What a claim that is not bound yet waits for.
    fn wait(&self) -> Event {
        let waiting: Vec<_> =
            self.pods.iter().filter(|pod| !is_finished(pod)).map(|pod| pod.name_any()).collect();
        let (reason, note) = match waiting.as_slice() {
            [] => {
                ("WaitForFirstConsumer", "waiting for first consumer to be created before binding".to_owned())
            }
            [pod] => ("WaitForPodScheduled", format!("waiting for pod {pod} to be scheduled")),
            pods => ("WaitForPodScheduled", format!("waiting for pods {} to be scheduled", pods.join(","))),
        };
        Event::normal(reason, "Bind", note)
    }

    /// A claim that says nothing of a class gets the default one, even if that came later than the claim.
    async fn take_default_class(&self) -> Result<bool> {
        let is_silent = self.claim.spec.as_ref().is_some_and(|spec| spec.storage_class_name.is_none());
        if !is_silent || !class_of_claim(&self.claim).is_empty() {
            return Ok(false);
        }
        let classes = self.cx.list::<StorageClass>()?;
        let defaults = classes
            .iter()
            .filter(|class| class.annotations().get(DEFAULT_CLASS).is_some_and(|value| value == "true"));
        // The newest; of several, the first by name.
        let newest = defaults.rev().max_by_key(|class| class.metadata.creation_timestamp.clone());
        let Some(class) = newest else { return Ok(false) };
        self.cx.patch(&self.claim, json!({"spec": {"storageClassName": class.name_any()}})).await?;
        Ok(true)
    }

    /// Makes a volume, or asks whoever does.
    async fn provision(&self, class: &str, node: Option<&str>) -> Result<()> {
        let cx = self.cx;
        let Some(class) = cx.get::<StorageClass>(class)? else {
            let note = format!("storageclass.storage.k8s.io {class:?} not found");
            cx.event(Event::warning("ProvisioningFailed", "Provision", note)).await;
            return Ok(());
        };
        let provisioner = &class.provisioner;
        if provisioner == PROVISIONER {
            let volume = match cx.create_free(self.new_volume(&class)).await {
                Ok(volume) => volume,
                Err(error) => {
                    let name = class.name_any();
                    let note = format!("Failed to provision volume with StorageClass {name:?}: {error}");
                    cx.event(Event::warning("ProvisioningFailed", "Provision", note)).await;
                    return Err(error);
                }
            };
            let note = format!("Successfully provisioned volume {} using {provisioner}", volume.name_any());
            cx.event(Event::normal("ProvisioningSucceeded", "Provision", note)).await;
            return self.bind(&volume, node).await;
        }
        if self.claim.annotations().get(STORAGE_PROVISIONER[0]) != Some(provisioner) {
            let annotations: Value =
                STORAGE_PROVISIONER.map(|name| (name.to_owned(), json!(provisioner))).into_iter().collect();
            cx.patch(&self.claim, json!({"metadata": {"annotations": annotations}})).await?;
        }
        let note = format!(
            "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by \
             the system administrator. If volume creation is delayed, please verify that the provisioner is \
             running and correctly registered."
        );
        cx.event(Event::normal("ExternalProvisioning", "Provision", note)).await;
        Ok(())
    }

    fn new_volume(&self, class: &StorageClass) -> PersistentVolume {
        let name = format!("pvc-{}", self.claim.uid().unwrap_or_default());
        let PersistentVolumeClaimSpec {
            access_modes,
            resources,
            volume_mode,
            volume_attributes_class_name,
            ..
        } = self.claim.spec.clone().unwrap_or_default();
        PersistentVolume {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                annotations: Some([(PROVISIONED_BY.to_owned(), PROVISIONER.to_owned())].into()),
                ..ObjectMeta::default()
            },
            spec: Some(PersistentVolumeSpec {
                access_modes,
                capacity: resources.and_then(|resources| resources.requests),
                claim_ref: Some(self.reference()),
                csi: Some(CSIPersistentVolumeSource {
                    driver: DRIVER.to_owned(),
                    volume_handle: name,
                    ..CSIPersistentVolumeSource::default()
                }),
                mount_options: class.mount_options.clone(),
                persistent_volume_reclaim_policy: class.reclaim_policy.clone(),
                storage_class_name: Some(class.name_any()),
                volume_attributes_class_name,
                volume_mode,
                ..PersistentVolumeSpec::default()
            }),
            status: None,
        }
    }

    fn reference(&self) -> ObjectReference {
        ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("PersistentVolumeClaim".to_owned()),
            name: self.claim.metadata.name.clone(),
            namespace: self.claim.namespace(),
            uid: self.claim.uid(),
            resource_version: self.claim.resource_version(),
            field_path: None,
        }
    }

    /// Binds claim and volume to each other: first the volume, so that no other claim takes it.
    async fn bind(&self, volume: &Seen<PersistentVolume>, node: Option<&str>) -> Result<()> {
        let (cx, claim, name) = (self.cx, &self.claim, volume.name_any());
        let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
        let mut bound = volume.clone();
        if reference.is_none_or(|reference| reference.uid != claim.metadata.uid) {
            let annotations = match reference {
                None => json!({BOUND_BY_CONTROLLER: "yes"}),
                Some(_) => json!({}),
            };
            let change = json!({
                "metadata": {"resourceVersion": volume.resource_version(), "annotations": annotations},
                "spec": {"claimRef": self.reference()},
            });
            bound = cx.patch(volume, change).await?;
        }
        set_phase(cx, &bound, "Bound").await?;
        let is_asked_for = volume_name(claim).is_some();
        if !is_asked_for || !claim.annotations().contains_key(BIND_COMPLETED) {
            let mut annotations = json!({BIND_COMPLETED: "yes"});
            if !is_asked_for {
                annotations[BOUND_BY_CONTROLLER] = "yes".into();
            }
            if let Some(node) = node {
                annotations[SELECTED_NODE] = node.into();
            }
            let change = json!({"metadata": {"annotations": annotations}, "spec": {"volumeName": name}});
            cx.patch(claim, change).await?;
        }
        self.set_status("Bound", Some(volume)).await
    }

    /// Says in which phase the claim is, and of a bound one, what it has.
    async fn set_status(&self, phase: &str, volume: Option<&PersistentVolume>) -> Result<()> {
        let before = self.claim.status.clone().unwrap_or_default();
        let is_new = before.phase.as_deref() != Some(phase);
        let spec = volume.and_then(|volume| volume.spec.clone()).unwrap_or_default();
        if !is_new && before.access_modes == spec.access_modes {
            return Ok(());
        }
        let mut status = json!({"phase": phase, "accessModes": spec.access_modes});
        // The size of one that is bound may grow by itself.
        if is_new {
            status["capacity"] = json!(spec.capacity);
        }
        self.cx.patch_status(&self.claim, status).await?;
        Ok(())
    }
}
