//! Namespaces: before one goes, everything in it does.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::core::v1::{Namespace, NamespaceCondition, NamespaceSpec, NamespaceStatus, Pod};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, PostParams, PropagationPolicy},
};
use kubewright::{Context, Controller, Error, Key, Lookup, Next, Reconciler, Result, Seen, queue};

use crate::{
    discovery::{Catalogue, Served},
    pods,
};

/// The finalizer of a namespace that stands for its content.
const CONTENT: &str = "kubernetes";
/// How long finalizers are expected to take.
const FINALIZERS_TAKE: i64 = 15;
/// What is said of a namespace that goes, and the reason and the message if all is well.
const CONDITIONS: [(&str, &str, &str); 5] = [
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    ("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed"),
    ("NamespaceFinalizersRemaining", "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
];

struct Namespaces;

pub(super) fn controller() -> Controller {
    Controller::of_existing::<Namespace>()
        .watches::<Pod, _, _>(emptied)
        .reconciles_deleted()
        .concurrency(10)
        // Tried again at least once a minute.
        .queue(queue::Options { cap: Duration::from_secs(60), ..queue::Options::default() })
        .reports_as("namespace-controller")
        .run(Namespaces)
}

/// The namespace of the last pod that has gone, if it waits for that.
async fn emptied(pod: Seen<Pod>, lookup: Lookup) -> Vec<Key> {
    let name = pod.namespace().unwrap_or_default();
    let is_going = || {
        let namespace = lookup.get::<Namespace>(&Key::cluster(&name)).ok().flatten();
        namespace.is_some_and(|namespace| namespace.metadata.deletion_timestamp.is_some())
    };
    let has_gone = || lookup.get::<Pod>(&Key::of(&*pod)).is_ok_and(|found| found.is_none());
    let is_last = || lookup.list::<Pod>(Some(&name)).is_ok_and(|left| left.is_empty());
    if is_going() && has_gone() && is_last() { vec![Key::cluster(&name)] } else { Vec::new() }
}

/// What the deletion of some content has come to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Content {
    /// How many objects are left, by `resource.group`.
    left: BTreeMap<String, usize>,
    /// How many objects wait for each finalizer.
    finalizers: BTreeMap<String, usize>,
    /// How many seconds it may take until they are gone.
    estimate: i64,
    discovery: Option<String>,
    failures: Vec<String>,
}

impl Reconciler<Namespace> for Namespaces {
    async fn reconcile(&self, namespace: &Namespace, cx: &Context<Namespace>) -> Result<Next> {
        let finalizers = namespace.spec.iter().flat_map(|spec| spec.finalizers.iter().flatten());
        let others: Vec<String> = finalizers.clone().filter(|one| *one != CONTENT).cloned().collect();
        if namespace.metadata.deletion_timestamp.is_none() || finalizers.count() == 0 {
            return Ok(Next::on_change());
        }
        let content = delete_content(namespace, cx).await;
        let status = status(namespace, &content, cx);
        let mut current = namespace.clone();
        if namespace.status.as_ref() != Some(&status) {
            let written = cx.replace_status(Namespace { status: Some(status), ..current }).await?;
            current = (*written).clone();
        }
        if content.discovery.is_some() || !content.failures.is_empty() {
            let failures: Vec<String> = content.discovery.into_iter().chain(content.failures).collect();
            return Err(Error::new(failures.join(", ")));
        }
        if content.estimate > 0 {
            let pause = u64::try_from(content.estimate / 2 + 1).unwrap_or(1);
            return Ok(Next::after(Duration::from_secs(pause)));
        }
        current.spec = Some(NamespaceSpec { finalizers: Some(others) });
        let api: Api<Namespace> = Api::all(cx.client().clone());
        match api.replace_subresource("finalize", &current.name_any(), &PostParams::default(), &current).await
        {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            finalized => drop(finalized?),
        }
        Ok(Next::on_change())
    }
}

/// Deletes everything in a namespace: its pods first, so that nothing is taken away from them while they run.
async fn delete_content(namespace: &Namespace, cx: &Context<Namespace>) -> Content {
    let mut content = Content::default();
    let catalogue = match Catalogue::read(cx.client()).await {
        Ok(catalogue) => catalogue,
        Err(error) => {
            content.discovery = Some(Error::from(error).to_string());
            return content;
        }
    };
    let name = namespace.name_any();
    let mut resources: Vec<&Served> = catalogue
        .resources
        .values()
        .map(|served| &**served)
        .filter(|served| served.kind.is_namespaced && served.supports(&["delete"]))
        .collect();
    resources.sort_by_key(|served| !is_pods(served));
    for served in resources {
        let estimate = if is_pods(served) { pods_take(namespace, cx) } else { Ok(0) };
        let deleted = match estimate {
            Ok(estimate) => delete_all(served, cx.client(), &name, estimate, &mut content).await,
            Err(error) => Err(error),
        };
        if let Err(error) = deleted {
            content.failures.push(error.to_string());
        }
        if is_pods(served) && !content.left.is_empty() {
            // Only what is left after them is told of.
            content.left.clear();
            content.finalizers.clear();
            break;
        }
    }
    content
}

fn is_pods(served: &Served) -> bool {
    served.kind.group.is_empty() && served.kind.plural == "pods"
}

/// How many seconds the pods of a namespace may take to end; none if they have had that already.
fn pods_take(namespace: &Namespace, cx: &Context<Namespace>) -> Result<i64> {
    let pods = cx.lookup().list::<Pod>(Some(&namespace.name_any()))?;
    let running = pods.iter().filter(|pod| !pods::is_finished(pod));
    let longest =
        running.filter_map(|pod| pods::spec(pod).termination_grace_period_seconds).max().unwrap_or(0);
    let since = namespace.metadata.deletion_timestamp.as_ref().map(|time| time.0);
    let passed = since.map_or(0, |since| cx.clock().now().duration_since(since).as_secs());
    Ok(if passed >= longest { 0 } else { longest })
}

/// Deletes all objects of a resource, and looks what is left.
async fn delete_all(
    served: &Served,
    client: &Client,
    namespace: &str,
    estimate: i64,
    content: &mut Content,
) -> Result<()> {
    let api = served.api(client, Some(namespace));
    let parameters = DeleteParams {
        // All content goes: nothing is to be orphaned, or waited for.
        propagation_policy: Some(PropagationPolicy::Background),
        ..DeleteParams::default()
    };
    if served.supports(&["deletecollection"]) {
        api.delete_collection(&parameters, &ListParams::default()).await?;
    } else if served.supports(&["list"]) {
        for object in api.list_metadata(&ListParams::default()).await? {
            match api.delete(&object.name_any(), &parameters).await {
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 405) => {}
                deleted => drop(deleted?),
            }
        }
    }
    if !served.supports(&["list"]) {
        return Ok(());
    }
    let left = api.list_metadata(&ListParams::default()).await?.items;
    if left.is_empty() {
        return Ok(());
    }
    let (group, version, plural) = (&served.kind.group, &served.kind.version, &served.kind.plural);
    content.left.insert(format!("{plural}.{group}"), left.len());
    let held: Vec<&String> = left.iter().flat_map(|object| object.finalizers()).collect();
    for finalizer in &held {
        *content.finalizers.entry((*finalizer).clone()).or_default() += 1;
    }
    if estimate == 0 && held.is_empty() {
        return Err(Error::new(format!(
            "unexpected items still remain in namespace: {namespace} for gvr: {group}/{version}, Resource={plural}"
        )));
    }
    content.estimate = content.estimate.max(if estimate == 0 { FINALIZERS_TAKE } else { estimate });
    Ok(())
}

/// What is said of a namespace that is being deleted.
fn status(namespace: &Namespace, content: &Content, cx: &Context<Namespace>) -> NamespaceStatus {
    let counted = |counts: &BTreeMap<String, usize>, between: &str| {
        let mut texts: Vec<String> = counts
            .iter()
            .map(|(what, count)| format!("{what} {between} {count} resource instances"))
            .collect();
        texts.sort();
        texts.join(", ")
    };
    let mut failures = content.failures.clone();
    failures.sort();
    let bad = |condition: &str| match condition {
        "NamespaceDeletionDiscoveryFailure" => Some(("DiscoveryFailed", content.discovery.clone()?)),
        "NamespaceDeletionContentFailure" if !failures.is_empty() => Some((
            "ContentDeletionFailed",
            format!(
                "Failed to delete all resource types, {} remaining: {}",
                failures.len(),
                failures.join(", ")
            ),
        )),
        "NamespaceContentRemaining" if !content.left.is_empty() => Some((
            "SomeResourcesRemain",
            format!("Some resources are remaining: {}", counted(&content.left, "has")),
        )),
        "NamespaceFinalizersRemaining" if !content.finalizers.is_empty() => Some((
            "SomeFinalizersRemain",
            format!(
                "Some content in the namespace has finalizers remaining: {}",
                counted(&content.finalizers, "in")
            ),
        )),
        _ => None,
    };
    let mut status = namespace.status.clone().unwrap_or_default();
    status.phase = Some("Terminating".to_owned());
    let conditions = status.conditions.get_or_insert_default();
    for (name, reason, message) in CONDITIONS {
        let (value, reason, message) = match bad(name) {
            Some((reason, message)) => ("True", reason, message),
            None => ("False", reason, message.to_owned()),
        };
        let index = conditions.iter().position(|condition| condition.type_ == name);
        let before = index.map(|index| &conditions[index]).filter(|before| before.status == value);
        let condition = NamespaceCondition {
            type_: name.to_owned(),
            status: value.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message),
            last_transition_time: before
                .map_or_else(|| Some(cx.clock().time()), |before| before.last_transition_time.clone()),
        };
        match index {
            Some(index) => conditions[index] = condition,
            None => conditions.push(condition),
        }
    }
    status
}
