//! The admission plugins of kube-apiserver that give objects what their schema can't: tolerations and
//! priority of pods, the class of claims, finalizers that protect storage.

use serde::Deserialize;
use serde_json::{Value, json};

use super::Operation;
use crate::{
    error::ApiError,
    kinds::access,
    rest::{Scope, codec},
    store::{ResourceId, Stored},
};

const TOLERATED_SECONDS: i64 = 300;

impl Scope {
    /// Fills in what the built-in plugins know.
    pub(super) fn admit_built_in(&self, operation: Operation, object: &mut Value) -> Result<(), ApiError> {
        if !self.subresource.is_empty() || operation == Operation::Delete {
            return Ok(());
        }
        if operation == Operation::Update {
            if &*self.resource.kind == "Pod" && self.resource.group.is_empty() {
                tolerate_lost_nodes(object);
            }
            return Ok(());
        }
        match (&*self.resource.group, &*self.resource.kind) {
            ("", "Pod") => {
                self.default_limits(object);
                self.set_priority(object)?;
                tolerate_lost_nodes(object);
            }
            ("", "PersistentVolumeClaim") => {
                add_finalizer(object, "kubernetes.io/pvc-protection");
                self.set_storage_class(object);
            }
            ("", "PersistentVolume") => add_finalizer(object, "kubernetes.io/pv-protection"),
            ("", "Node") => taint_new_node(object),
            ("networking.k8s.io", "Ingress") => self.set_ingress_class(object),
            ("certificates.k8s.io", "CertificateSigningRequest") => self.set_requester(object),
            _ => {}
        }
        Ok(())
    }

    fn objects(&self, group: &str, plural: &str) -> Vec<Value> {
        let collection = self.server.store.collection(&ResourceId::new(group, plural));
        collection.range("", "").filter_map(|stored| codec::parse(&stored.bytes).ok()).collect()
    }

    /// The objects of a core resource in the namespace of the request.
    pub(super) fn objects_of_namespace(&self, plural: &str) -> Vec<Value> {
        let collection = self.server.store.collection(&ResourceId::new("", plural));
        let prefix = format!("{}/", self.namespace);
        collection.range(&prefix, "").filter_map(|stored| codec::parse(&stored.bytes).ok()).collect()
    }

    /// The number behind a pod's priority class.
    fn set_priority(&self, pod: &mut Value) -> Result<(), ApiError> {
        let wanted = access::get_str(pod, &["spec", "priorityClassName"]).to_owned();
        let found = if wanted.is_empty() {
            self.default_priority_class()
        } else {
            let stored = self.server.store.get(&priority_classes(), &wanted);
            let Some(stored) = stored else {
                let why = format!("no PriorityClass with name {wanted} was found");
                return Err(self.refuse_pod(pod, why));
            };
            PriorityClass::read(&stored)
        };
        let value = found.as_ref().map_or(0, |class| class.value);
        let policy = found.as_ref().map_or("", |class| &class.preemption_policy);
        let policy = if policy.is_empty() { "PreemptLowerPriority" } else { policy };
        if let Some(given) = access::get_i64(pod, &["spec", "priority"]).filter(|given| *given != value) {
            let why = format!(
                "the integer value of priority ({given}) must not be provided in pod spec; priority admission \
                 controller computed {value} from the given PriorityClass name"
            );
            return Err(self.refuse_pod(pod, why));
        }
        access::set(pod, &["spec", "priority"], value);
        access::default_to(pod, &["spec", "preemptionPolicy"], policy);
        if let Some(class) = found.filter(|_| wanted.is_empty()) {
            access::set(pod, &["spec", "priorityClassName"], class.name);
        }
        Ok(())
    }

    /// The least of the classes for pods that name none.
    fn default_priority_class(&self) -> Option<PriorityClass> {
        let collection = self.server.store.collection(&priority_classes());
        let classes = collection.range("", "").filter_map(|stored| PriorityClass::read(stored));
        classes.filter(|class| class.global_default).min_by_key(|class| class.value)
    }

    fn refuse_pod(&self, pod: &Value, why: String) -> ApiError {
        ApiError::forbidden(&self.resource.subject(), access::get_str(pod, &["metadata", "name"]), why)
    }

    /// A claim without a class gets the default one, the newest if there are several.
    fn set_storage_class(&self, claim: &mut Value) {
        if access::has(claim, &["spec", "storageClassName"])
            || access::has(claim, &["metadata", "annotations", "volume.beta.kubernetes.io/storage-class"])
        {
            return;
        }
        let classes = self.objects("storage.k8s.io", "storageclasses");
        if let Some(name) = default_class(&classes, "storageclass.kubernetes.io/is-default-class") {
            access::set(claim, &["spec", "storageClassName"], name);
        }
    }

    /// Who asks for a certificate is who makes the request.
    fn set_requester(&self, request: &mut Value) {
        access::set(request, &["spec", "username"], self.user.name.as_str());
        access::set(request, &["spec", "groups"], self.user.groups.clone());
        let extra = json!(self.user.extra);
        for (field, value) in [("uid", json!(self.user.uid)), ("extra", extra)] {
            if value == json!("") || value == json!({}) {
                access::remove(request, &["spec", field]);
            } else {
                access::set(request, &["spec", field], value);
            }
        }
    }

    fn set_ingress_class(&self, ingress: &mut Value) {
        if access::has(ingress, &["spec", "ingressClassName"])
            || access::has(ingress, &["metadata", "annotations", "kubernetes.io/ingress.class"])
        {
            return;
        }
        let classes = self.objects("networking.k8s.io", "ingressclasses");
        if let Some(name) = default_class(&classes, "ingressclass.kubernetes.io/is-default-class") {
            access::set(ingress, &["spec", "ingressClassName"], name);
        }
    }
}

fn priority_classes() -> ResourceId {
    ResourceId::new("scheduling.k8s.io", "priorityclasses")
}

/// As much of a priority class as pods get; every new pod reads them all.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PriorityClass {
    #[serde(skip)]
    name: String,
    value: i64,
    global_default: bool,
    preemption_policy: String,
}

impl PriorityClass {
    fn read(stored: &Stored) -> Option<Self> {
        let class: Self = serde_json::from_slice(&stored.bytes).ok()?;
        Some(Self { name: stored.name().to_owned(), ..class })
    }
}

fn default_class(classes: &[Value], annotation: &str) -> Option<String> {
    let created = |class: &Value| access::get_str(class, &["metadata", "creationTimestamp"]).to_owned();
    let name = |class: &Value| access::get_str(class, &["metadata", "name"]).to_owned();
    classes
        .iter()
        .filter(|class| access::get_str(class, &["metadata", "annotations", annotation]) == "true")
        .max_by(|a, b| created(a).cmp(&created(b)).then_with(|| name(b).cmp(&name(a))))
        .map(name)
}

fn add_finalizer(object: &mut Value, name: &str) {
    let list = access::ensure_object(object, &["metadata"]).entry("finalizers").or_insert_with(|| json!([]));
    if let Value::Array(list) = list
        && !list.iter().any(|one| one == name)
    {
        list.push(name.into());
    }
}

/// Pods stay for a while on a node that is lost, unless they say otherwise.
fn tolerate_lost_nodes(pod: &mut Value) {
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = access::items(pod, &["spec", "tolerations"]).iter().any(|toleration| {
            let (own, effect) =
                (access::get_str(toleration, &["key"]), access::get_str(toleration, &["effect"]));
            (own == key || own.is_empty()) && matches!(effect, "NoExecute" | "")
        });
        if tolerated {
            continue;
        }
        let list = access::ensure_object(pod, &["spec"]).entry("tolerations").or_insert_with(|| json!([]));
        if let Value::Array(list) = list {
            list.push(json!({
                "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATED_SECONDS,
            }));
        }
    }
}

/// A new node takes no pods before it has said that it is ready.
fn taint_new_node(node: &mut Value) {
    const NOT_READY: &str = "node.kubernetes.io/not-ready";
    let list = access::ensure_object(node, &["spec"]).entry("taints").or_insert_with(|| json!([]));
    if let Value::Array(list) = list
        && !list.iter().any(|taint| access::get_str(taint, &["key"]) == NOT_READY)
    {
        list.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
    }
}
