//! Workloads: the Deployment or the Job that an object owns, the Service in front of it, its pods, and what they tell
//! of the object.

mod job;

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentCondition, DeploymentSpec, DeploymentStatus},
        core::v1::{
            ContainerStatus, Pod, PodCondition, PodSpec, PodStatus, PodTemplateSpec, Service, ServiceSpec,
        },
    },
    apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector},
};
use kube::{Resource, ResourceExt as _, api::ObjectMeta};

pub use self::job::{JobState, job, job_conditions};
use crate::{
    cache::{Index, Watch},
    context::{Reader, child_name, condition, digest, label_value},
    controller::Builder,
    error::{Error, Result},
    kind::{Key, Kind, Seen, is_namespaced},
    lookup::Lookup,
};

const NAME: &str = "app.kubernetes.io/name";
const INSTANCE: &str = "app.kubernetes.io/instance";

/// Pods by the object they are for.
const BY_INSTANCE: Index<Pod> =
    Index::new("kubewright.dev/instance", |pod| pod.labels().get(INSTANCE).cloned().into_iter().collect());

/// The labels by which the pods of an object are selected: what it is, and which one.
pub fn labels<K: Resource<DynamicType = ()>>(owner: &K) -> BTreeMap<String, String> {
    [
        (NAME.to_owned(), K::kind(&()).to_ascii_lowercase()),
        (INSTANCE.to_owned(), label_value(owner.meta().name.as_deref().unwrap_or_default())),
    ]
    .into()
}

/// The metadata of a child: its name, as [`child_name`] gives it, and the [`labels`] of its owner.
pub fn child_meta<K: Resource<DynamicType = ()>>(owner: &K, purpose: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(child_name(owner, purpose)),
        labels: Some(labels(owner)),
        ..ObjectMeta::default()
    }
}

/// A Deployment with the name of its owner, whose pods have the owner's [`labels`].
///
/// ```
/// use k8s_openapi::api::core::v1::{ConfigMap, Container, PodSpec};
/// use kubewright::workload;
///
/// let mut owner = ConfigMap::default();
/// owner.metadata.name = Some("shop".to_owned());
/// let container = Container { name: "web".to_owned(), image: Some("nginx".to_owned()), ..Container::default() };
/// let deployment = workload::deployment(&owner, 3, PodSpec { containers: vec![container], ..PodSpec::default() });
/// assert_eq!(deployment.metadata.name.as_deref(), Some("shop"));
/// ```
pub fn deployment<K: Resource<DynamicType = ()>>(owner: &K, replicas: i32, pod: PodSpec) -> Deployment {
    let labels = labels(owner);
    Deployment {
        metadata: child_meta(owner, ""),
        spec: Some(DeploymentSpec {
            replicas: Some(replicas),
            selector: LabelSelector { match_labels: Some(labels.clone()), ..LabelSelector::default() },
            template: template(labels, pod),
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    }
}

/// A Service with the name of its owner, in front of the pods with the owner's [`labels`].
pub fn service<K: Resource<DynamicType = ()>>(owner: &K, spec: ServiceSpec) -> Service {
    Service {
        metadata: child_meta(owner, ""),
        spec: Some(ServiceSpec { selector: Some(labels(owner)), ..spec }),
        ..Service::default()
    }
}

fn template(labels: BTreeMap<String, String>, pod: PodSpec) -> PodTemplateSpec {
    let metadata = ObjectMeta { labels: Some(labels), ..ObjectMeta::default() };
    PodTemplateSpec { metadata: Some(metadata), spec: Some(pod) }
}

/// A Deployment whose pods are replaced when `content` changes, as those must be that read it only once. Not for
/// secrets: whoever guesses the content can tell from the Deployment that they are right.
#[must_use]
pub fn rolled_by(mut deployment: Deployment, name: &str, content: &str) -> Deployment {
    let spec = deployment.spec.get_or_insert_default();
    let annotations = spec.template.metadata.get_or_insert_default().annotations.get_or_insert_default();
    annotations.insert(format!("kubewright.dev/{name}"), digest(content));
    deployment
}

impl<K: Kind> Builder<K> {
    /// The pods of the objects' workloads matter: a change of one reconciles the object whose [`labels`] it has, and
    /// [`pods`](Reader::pods) gives them.
    #[must_use]
    pub fn follows_pods(self) -> Self {
        let selector = format!("{NAME}={}", K::kind(&()).to_ascii_lowercase());
        let watch = Watch::<Pod>::new().labels(selector).index(BY_INSTANCE);
        self.watches_with(watch, async |pod, lookup| owner::<K>(&pod, &lookup).into_iter().collect(), [])
    }
}

/// The object that a pod is for.
fn owner<K: Kind>(pod: &Pod, lookup: &Lookup) -> Option<Key> {
    let instance = pod.labels().get(INSTANCE)?;
    let namespace = pod.metadata.namespace.as_deref().filter(|_| is_namespaced::<K>());
    let key = namespace.map_or_else(|| Key::cluster(instance), |namespace| Key::new(namespace, instance));
    if lookup.get::<K>(&key).ok()?.is_some() {
        return Some(key);
    }
    // Its name may be too long for a label.
    let objects = lookup.list::<K>(namespace).ok()?;
    objects.iter().map(|object| Key::of(&**object)).find(|key| label_value(key.name()) == *instance)
}

impl<K: Kind> Reader<K> {
    /// The pods of this object's workloads, by name, from the cache; not those that have ended or are about to. They
    /// are watched if the controller [follows](Builder::follows_pods) them.
    pub fn pods(&self) -> Result<Vec<Seen<Pod>>> {
        let object = self.object();
        let instance = label_value(object.meta().name.as_deref().unwrap_or_default());
        let mut pods = self.indexed(&BY_INSTANCE, &instance).map_err(|_| {
            let kind = K::kind(&());
            Error::terminal(format!("the pods of a {kind} are not watched: declare it with .follows_pods()"))
        })?;
        pods.retain(|pod| {
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            (!is_namespaced::<K>() || pod.metadata.namespace == object.meta().namespace)
                && pod.metadata.deletion_timestamp.is_none()
                && !matches!(phase, Some("Succeeded" | "Failed"))
        });
        Ok(pods)
    }
}

/// What a Deployment and its pods tell, as the conditions `Available`, `Progressing` and `Degraded`: whether it does
/// its work, whether it is on its way to what is wanted, and what is in the way, such as `ImagePullBackOff`.
pub fn conditions(deployment: &Deployment, pods: &[Seen<Pod>]) -> Vec<Condition> {
    let status = status(deployment);
    let available = status.available_replicas.unwrap_or(0);
    let count = format!("{available} of {} pods are available", wanted(deployment));
    let is_available = says(&status, "Available").is_some_and(|one| one.status == "True");
    let late = says(&status, "Progressing").filter(|one| one.status == "False");
    let is_progressing = !is_complete(deployment) && late.is_none();
    let progress = match (is_progressing, &late) {
        (true, _) => "RollingOut",
        (false, None) => "Complete",
        (false, Some(_)) => "ProgressDeadlineExceeded",
    };
    let updated =
        format!("{} of {} pods are up to date", status.updated_replicas.unwrap_or(0), wanted(deployment));
    let trouble = pods.iter().find_map(|pod| Trouble::of(pod)).or_else(|| {
        let failed = says(&status, "ReplicaFailure").filter(|one| one.status == "True");
        failed.or(late).map(Trouble::told)
    });
    let availability = if is_available { "PodsAvailable" } else { "PodsUnavailable" };
    vec![
        condition("Available", is_available, availability, count),
        condition("Progressing", is_progressing, progress, updated),
        degraded(trouble),
    ]
}

fn degraded(trouble: Option<Trouble>) -> Condition {
    match trouble {
        Some(trouble) => condition("Degraded", true, &trouble.reason, trouble.message),
        None => condition("Degraded", false, "AsExpected", "nothing is in the way"),
    }
}

/// Whether a Deployment has just the pods that are wanted, all of them up to date and available.
pub fn is_complete(deployment: &Deployment) -> bool {
    let (status, wanted) = (status(deployment), wanted(deployment));
    let counts = [status.replicas, status.updated_replicas, status.available_replicas];
    status.observed_generation >= deployment.metadata.generation
        && counts.iter().all(|count| count.unwrap_or(0) == wanted)
}

fn status(deployment: &Deployment) -> DeploymentStatus {
    deployment.status.clone().unwrap_or_default()
}

fn wanted(deployment: &Deployment) -> i32 {
    deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

fn says<'s>(status: &'s DeploymentStatus, name: &str) -> Option<&'s DeploymentCondition> {
    status.conditions.iter().flatten().find(|condition| condition.type_ == name)
}

/// What is in the way.
#[derive(Debug, PartialEq)]
struct Trouble {
    reason: String,
    message: String,
}

impl Trouble {
    fn told(condition: &DeploymentCondition) -> Self {
        let reason = condition.reason.clone().unwrap_or_else(|| condition.type_.clone());
        Self { reason, message: condition.message.clone().unwrap_or_default() }
    }

    /// What keeps a pod from its work; nothing if it works, or has only just begun.
    fn of(pod: &Pod) -> Option<Self> {
        let status = pod.status.as_ref()?;
        let named = |reason: &str, message: String| Self {
            reason: reason.to_owned(),
            message: format!("pod {}: {message}", pod.name_any()),
        };
        if let Some(unscheduled) = untrue(status, "PodScheduled") {
            let reason = unscheduled.reason.as_deref().unwrap_or("Unschedulable");
            return Some(named(reason, unscheduled.message.clone().unwrap_or_default()));
        }
        let containers = || status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
        if let Some((container, reason, message)) = containers().find_map(broken) {
            return Some(named(&reason, format!("container {container}: {message}")));
        }
        // A kubelet says why. Whoever speaks for one that says no more does not, and leaves the containers as they were.
        let is_lost = untrue(status, "Ready").is_some_and(|ready| ready.reason.is_none())
            && status.container_statuses.iter().flatten().any(|container| container.ready);
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
        is_lost.then(|| named("NodeNotReady", format!("node {node} is not ready")))
    }
}

/// A condition of a pod that does not hold.
fn untrue<'s>(status: &'s PodStatus, name: &str) -> Option<&'s PodCondition> {
    status
        .conditions
        .iter()
        .flatten()
        .find(|condition| condition.type_ == name && condition.status == "False")
}

/// The name of a container that can't start or has failed, the reason, and what was said of it.
fn broken(container: &ContainerStatus) -> Option<(String, String, String)> {
    /// What a container waits for when all is well.
    const USUAL: [&str; 2] = ["ContainerCreating", "PodInitializing"];
    let state = container.state.as_ref()?;
    let waiting = state.waiting.as_ref().and_then(|waiting| {
        let reason = waiting.reason.clone().filter(|reason| !USUAL.contains(&reason.as_str()))?;
        Some((reason, waiting.message.clone().unwrap_or_default()))
    });
    let (reason, message) = waiting.or_else(|| {
        let ended = state.terminated.as_ref().filter(|ended| ended.exit_code != 0)?;
        let reason = ended.reason.clone().unwrap_or_else(|| "Error".to_owned());
        Some((reason, format!("it ended with exit code {}", ended.exit_code)))
    })?;
    Some((container.name.clone(), reason, message))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    fn deployment(status: Value) -> Deployment {
        let json = json!({"metadata": {"generation": 2}, "spec": {"replicas": 3, "selector": {}, "template": {}}, "status": status});
        serde_json::from_value(json).unwrap()
    }

    fn pod(status: Value) -> Seen<Pod> {
        let json = json!({"metadata": {"name": "web-1"}, "spec": {"nodeName": "node-1", "containers": []}, "status": status});
        Seen::new(Arc::new(serde_json::from_value(json).unwrap()))
    }

    fn words(deployment: &Deployment, pods: &[Seen<Pod>]) -> Vec<String> {
        let conditions = conditions(deployment, pods);
        conditions
            .into_iter()
            .map(|one| format!("{} {} {}: {}", one.type_, one.status, one.reason, one.message))
            .collect()
    }

    fn complete() -> Deployment {
        deployment(json!({
            "observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "availableReplicas": 3,
            "conditions": [{"type": "Available", "status": "True"}],
        }))
    }

    #[test]
    fn a_complete_deployment_is_available_and_at_rest() {
        assert_eq!(
            words(&complete(), &[pod(json!({}))]),
            [
                "Available True PodsAvailable: 3 of 3 pods are available",
                "Progressing False Complete: 3 of 3 pods are up to date",
                "Degraded False AsExpected: nothing is in the way",
            ]
        );
    }

    #[test]
    fn what_was_not_seen_yet_is_not_complete() {
        let mut unseen = complete();
        unseen.metadata.generation = Some(3);
        assert!(is_complete(&complete()) && !is_complete(&unseen));
        assert!(words(&unseen, &[])[1].starts_with("Progressing True RollingOut"));
    }

    #[test]
    fn a_deployment_without_pods_can_be_complete() {
        let mut none = deployment(json!({"observedGeneration": 2}));
        none.spec.as_mut().unwrap().replicas = Some(0);
        assert!(is_complete(&none));
    }

    #[test]
    fn a_rollout_that_took_too_long_is_degraded() {
        let late = deployment(json!({"observedGeneration": 2, "conditions": [
            {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "timed out"},
        ]}));
        assert_eq!(
            words(&late, &[])[1..],
            [
                "Progressing False ProgressDeadlineExceeded: 0 of 3 pods are up to date",
                "Degraded True ProgressDeadlineExceeded: timed out",
            ]
        );
    }

    #[test]
    fn what_keeps_a_pod_from_its_work_is_told() {
        let container = |state: Value| {
            pod(json!({"containerStatuses": [{
                "name": "web", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state,
            }]}))
        };
        let trouble =
            |pod: &Seen<Pod>| Trouble::of(pod).map(|one| format!("{}: {}", one.reason, one.message));
        for (pod, expected) in [
            (container(json!({"waiting": {"reason": "ContainerCreating"}})), None),
            (container(json!({"running": {}})), None),
            (container(json!({"terminated": {"exitCode": 0, "reason": "Completed"}})), None),
            (
                container(json!({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}})),
                Some("ImagePullBackOff: pod web-1: container web: no such image"),
            ),
            (
                container(json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}})),
                Some("OOMKilled: pod web-1: container web: it ended with exit code 137"),
            ),
            (
                pod(
                    json!({"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes"}]}),
                ),
                Some("Unschedulable: pod web-1: 0/1 nodes"),
            ),
            (
                pod(json!({
                    "conditions": [{"type": "Ready", "status": "False"}],
                    "containerStatuses": [{"name": "web", "image": "", "imageID": "", "ready": true, "restartCount": 0}],
                })),
                Some("NodeNotReady: pod web-1: node node-1 is not ready"),
            ),
            (
                pod(json!({
                    "conditions": [{"type": "Ready", "status": "False", "reason": "ReadinessGatesNotReady"}],
                    "containerStatuses": [{"name": "web", "image": "", "imageID": "", "ready": true, "restartCount": 0}],
                })),
                None,
            ),
        ] {
            assert_eq!(trouble(&pod).as_deref(), expected);
        }
    }
}
