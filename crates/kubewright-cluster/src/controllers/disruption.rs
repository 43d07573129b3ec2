//! PodDisruptionBudgets: how many pods may be evicted by now. The API server takes from what is allowed here with
//! each eviction, so that a status is only written over the one that was seen.

use std::{collections::BTreeMap, time::Duration};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, ReplicaSet, StatefulSet},
        core::v1::Pod,
        policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus},
    },
    apimachinery::pkg::{
        apis::meta::v1::{Condition, LabelSelector, OwnerReference, Time},
        util::intstr::IntOrString,
    },
};
use kube::{
    Api, ResourceExt as _,
    api::DynamicObject,
    core::{GroupVersionKind, Selector, SelectorExt as _},
    discovery,
};
use kubewright::{Context, Controller, Error, Event, Key, Next, Predicate, Reconciler, Result, condition};

use super::percent::rounded_up;
use crate::pods::{self, controller_of, is_finished, is_ready, is_terminating};

/// After this time, a pod that was to be evicted is expected to stay.
const DELETION_TIMEOUT: SignedDuration = SignedDuration::from_mins(2);

/// Budgets, and pods that were to be evicted and were not.
pub(super) fn controllers() -> [Controller; 2] {
    let budgets = Controller::of_existing::<PodDisruptionBudget>()
        .watches::<Pod, _, _>(|pod, lookup| async move {
            let budgets =
                lookup.list::<PodDisruptionBudget>(pod.metadata.namespace.as_deref()).unwrap_or_default();
            budgets.iter().filter(|budget| covers(budget, &pod)).map(|budget| Key::of(&**budget)).collect()
        })
        .reads::<ReplicaSet>()
        .reads::<Deployment>()
        .reads::<StatefulSet>()
        .concurrency(2)
        .reports_as("controllermanager")
        .run(Budgets);
    let stale = Controller::of_existing::<Pod>()
        .named("stale-disruption")
        .when(Predicate::new(|change| {
            change.new.as_deref().is_some_and(|pod| to_be_disrupted(pod).is_some())
        }))
        .reports_as("controllermanager")
        .run(Stale);
    [budgets, stale]
}

struct Budgets;

impl Reconciler<PodDisruptionBudget> for Budgets {
    async fn reconcile(
        &self,
        budget: &PodDisruptionBudget,
        cx: &Context<PodDisruptionBudget>,
    ) -> Result<Next> {
        let all = cx.list::<Pod>()?;
        let selector = selector(budget);
        let covers = |pod: &&Pod| selector.as_ref().is_some_and(|selector| selector.matches(pod.labels()));
        let pods: Vec<&Pod> = all.iter().map(|pod| &**pod).filter(covers).collect();
        if pods.is_empty() {
            cx.event(Event::normal("NoPods", "Count", "No matching pods found")).await;
        }
        let before = budget.status.clone().unwrap_or_default();
        let expected = match expect(budget, &pods, cx).await {
            Ok(expected) => expected,
            Err(why) => {
                let note = format!("Failed to calculate the number of expected pods: {why}");
                cx.event(Event::warning("CalculateExpectedPodCountFailed", "Count", note)).await;
                // What can't be counted must not be disrupted.
                let failed = condition("DisruptionAllowed", false, "SyncFailed", why.to_string());
                let status = PodDisruptionBudgetStatus { disruptions_allowed: Some(0), ..before };
                write(budget, with_condition(status, failed, cx), cx).await?;
                return Ok(Next::on_change());
            }
        };
        if expected.unmanaged {
            let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
            let note = format!(
                "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As a result, \
                 the status of the PDB cannot be calculated correctly, which may result in undefined behavior. To \
                 account for these pods please set \".spec.minAvailable\" field of the PDB to an integer value.",
                shown(selector)
            );
            cx.event(Event::warning("UnmanagedPods", "Count", note)).await;
        }
        let now = cx.clock().now();
        let disrupted = disrupted(&before, &pods, now);
        let until = disrupted.values().filter_map(|time| time.0.checked_add(DELETION_TIMEOUT).ok()).min();
        write(budget, status(budget, &pods, &expected, disrupted, cx), cx).await?;
        let left = until.map(|until| Duration::try_from(until.duration_since(now)).unwrap_or_default());
        // A moment later, when it is surely over.
        Ok(left.map_or_else(Next::on_change, |left| Next::after(left + Duration::from_secs(1))))
    }
}

/// Which pods a budget counts: with an empty selector all, without a selector none.
fn selector(budget: &PodDisruptionBudget) -> Option<Selector> {
    Selector::try_from(budget.spec.as_ref()?.selector.clone()?).ok()
}

fn covers(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    selector(budget).is_some_and(|selector| selector.matches(pod.labels()))
}

/// How many pods there should be.
struct Expected {
    pods: i32,
    healthy: i32,
    /// There are pods that nobody controls, which don't count.
    unmanaged: bool,
}

async fn expect(
    budget: &PodDisruptionBudget,
    pods: &[&Pod],
    cx: &Context<PodDisruptionBudget>,
) -> Result<Expected> {
    let spec = budget.spec.clone().unwrap_or_default();
    Ok(match (&spec.max_unavailable, &spec.min_available) {
        (Some(unavailable), _) => {
            let (scale, unmanaged) = scale(pods, cx).await?;
            Expected { pods: scale, healthy: (scale - rounded_up(unavailable, scale)).max(0), unmanaged }
        }
        (None, Some(available @ IntOrString::String(_))) => {
            let (scale, unmanaged) = scale(pods, cx).await?;
            Expected { pods: scale, healthy: rounded_up(available, scale), unmanaged }
        }
        (None, Some(IntOrString::Int(available))) => {
            Expected { pods: number(pods.len()), healthy: *available, unmanaged: false }
        }
        (None, None) => Expected { pods: 0, healthy: 0, unmanaged: false },
    })
}

/// How many pods all controllers of these pods want together, and whether there are pods without one.
async fn scale(pods: &[&Pod], cx: &Context<PodDisruptionBudget>) -> Result<(i32, bool)> {
    let (mut owners, mut scales, mut unmanaged) = (BTreeMap::new(), BTreeMap::new(), false);
    for pod in pods {
        match controller_of(*pod) {
            Some(owner) => drop(owners.entry(&owner.uid).or_insert((owner, pod.name_any()))),
            None => unmanaged = true,
        }
    }
    for (owner, pod) in owners.into_values() {
        let Some((uid, replicas)) = scale_of(owner, cx).await? else {
            return Err(Error::new(format!("found no controllers for pod {pod:?}")));
        };
        scales.insert(uid, replicas);
    }
    Ok((scales.into_values().sum(), unmanaged))
}

/// The controller behind an owner reference, by its UID, and how many pods it wants.
async fn scale_of(
    owner: &OwnerReference,
    cx: &Context<PodDisruptionBudget>,
) -> Result<Option<(String, i32)>> {
    let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
    let name = owner.name.as_str();
    let found = match (group, owner.kind.as_str()) {
        ("apps", "ReplicaSet") => {
            let Some(set) = cx.get::<ReplicaSet>(name)?.filter(|set| set.uid().as_ref() == Some(&owner.uid))
            else {
                return Ok(None);
            };
            match controller_of(&*set).filter(|above| above.kind == "Deployment") {
                Some(above) => {
                    let found = cx.get::<Deployment>(&above.name)?;
                    let found = found.filter(|found| found.uid().as_ref() == Some(&above.uid));
                    found.map(|found| (found.uid(), found.spec.as_ref().and_then(|spec| spec.replicas)))
                }
                None => Some((set.uid(), set.spec.as_ref().and_then(|spec| spec.replicas))),
            }
        }
        ("apps", "StatefulSet") => {
            let found = cx.get::<StatefulSet>(name)?.filter(|set| set.uid().as_ref() == Some(&owner.uid));
            found.map(|found| (found.uid(), found.spec.as_ref().and_then(|spec| spec.replicas)))
        }
        _ => return other_scale(owner, group, cx).await,
    };
    Ok(found.map(|(uid, replicas)| (uid.unwrap_or_default(), replicas.unwrap_or(1))))
}

/// The scale of any other kind, which it has to say itself.
async fn other_scale(
    owner: &OwnerReference,
    group: &str,
    cx: &Context<PodDisruptionBudget>,
) -> Result<Option<(String, i32)>> {
    let version = owner.api_version.rsplit('/').next().unwrap_or_default();
    let gvk = GroupVersionKind::gvk(group, version, &owner.kind);
    let (resource, capabilities) = discovery::pinned_kind(cx.client(), &gvk).await?;
    if !capabilities.subresources.iter().any(|(part, _)| part.plural.ends_with("scale")) {
        let name = format!("{}.{group}", resource.plural);
        let name = name.trim_end_matches('.');
        return Err(Error::new(format!("{name} does not implement the scale subresource")));
    }
    let api: Api<DynamicObject> = Api::namespaced_with(cx.client().clone(), cx.namespace(), &resource);
    match api.get_scale(&owner.name).await {
        Ok(scale) if scale.metadata.uid.as_ref() == Some(&owner.uid) => {
            let replicas = scale.spec.and_then(|spec| spec.replicas).unwrap_or(0);
            Ok(Some((owner.uid.clone(), replicas)))
        }
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The pods that the API server has let go and that may still be about to.
fn disrupted(before: &PodDisruptionBudgetStatus, pods: &[&Pod], now: Timestamp) -> BTreeMap<String, Time> {
    let noted = before.disrupted_pods.clone().unwrap_or_default();
    let is_due = |name: &str, time: &Time| {
        let is_there =
            pods.iter().any(|pod| pod.metadata.name.as_deref() == Some(name) && !is_terminating(pod));
        is_there && now.duration_since(time.0) <= DELETION_TIMEOUT
    };
    noted.into_iter().filter(|(name, time)| is_due(name, time)).collect()
}

fn status(
    budget: &PodDisruptionBudget,
    pods: &[&Pod],
    expected: &Expected,
    disrupted: BTreeMap<String, Time>,
    cx: &Context<PodDisruptionBudget>,
) -> PodDisruptionBudgetStatus {
    let is_healthy =
        |pod: &&&Pod| !is_terminating(pod) && !disrupted.contains_key(&pod.name_any()) && is_ready(pod);
    let healthy = number(pods.iter().filter(is_healthy).count());
    let allowed = if expected.pods > 0 { (healthy - expected.healthy).max(0) } else { 0 };
    let status = PodDisruptionBudgetStatus {
        current_healthy: Some(healthy),
        desired_healthy: Some(expected.healthy),
        expected_pods: Some(expected.pods),
        disruptions_allowed: Some(allowed),
        disrupted_pods: Some(disrupted).filter(|pods| !pods.is_empty()),
        observed_generation: budget.metadata.generation,
        conditions: budget.status.as_ref().and_then(|status| status.conditions.clone()),
    };
    let reason = if allowed > 0 { "SufficientPods" } else { "InsufficientPods" };
    with_condition(status, condition("DisruptionAllowed", allowed > 0, reason, ""), cx)
}

/// Sets a condition, with the time since when it is what it is.
fn with_condition(
    mut status: PodDisruptionBudgetStatus,
    mut new: Condition,
    cx: &Context<PodDisruptionBudget>,
) -> PodDisruptionBudgetStatus {
    let conditions = status.conditions.get_or_insert_default();
    let before = conditions.iter().position(|one| one.type_ == new.type_).map(|at| conditions.remove(at));
    let since = before.filter(|before| before.status == new.status).map(|before| before.last_transition_time);
    new.last_transition_time = since.unwrap_or_else(|| cx.clock().time());
    new.observed_generation = status.observed_generation;
    conditions.push(new);
    status
}

async fn write(
    budget: &PodDisruptionBudget,
    status: PodDisruptionBudgetStatus,
    cx: &Context<PodDisruptionBudget>,
) -> Result<()> {
    if budget.status.as_ref() == Some(&status) {
        return Ok(());
    }
    let changed = PodDisruptionBudget { status: Some(status), ..budget.clone() };
    cx.replace_status(changed).await.map(|_| ())
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// A selector as Go prints it.
fn shown(selector: Option<&LabelSelector>) -> String {
    let Some(selector) = selector else { return "nil".to_owned() };
    let labels = selector.match_labels.iter().flatten().map(|(name, value)| format!("{name}: {value},"));
    let expressions = selector.match_expressions.iter().flatten().map(|one| {
        let values = one.values.clone().unwrap_or_default().join(" ");
        format!("LabelSelectorRequirement{{Key:{},Operator:{},Values:[{values}],}},", one.key, one.operator)
    });
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{}}},MatchExpressions:[]LabelSelectorRequirement{{{}}},}}",
        labels.collect::<String>(),
        expressions.collect::<String>()
    )
}

struct Stale;

/// Since when a pod that is not going has been said to go. What a kubelet says may take any time.
fn to_be_disrupted(pod: &Pod) -> Option<Timestamp> {
    let target = pods::condition(pod, "DisruptionTarget").filter(|target| {
        target.status == "True" && target.reason.as_deref() != Some("TerminationByKubelet")
    })?;
    let may_go = !is_terminating(pod) && !is_finished(pod);
    target.last_transition_time.as_ref().filter(|_| may_go).map(|time| time.0)
}

impl Reconciler<Pod> for Stale {
    async fn reconcile(&self, pod: &Pod, cx: &Context<Pod>) -> Result<Next> {
        let Some(since) = to_be_disrupted(pod) else { return Ok(Next::on_change()) };
        let until = since.saturating_add(DELETION_TIMEOUT)?;
        let left = Duration::try_from(until.duration_since(cx.clock().now())).unwrap_or_default();
        if !left.is_zero() {
            return Ok(Next::after(left));
        }
        let mut status = pod.status.clone().unwrap_or_default();
        for target in status.conditions.iter_mut().flatten().filter(|one| one.type_ == "DisruptionTarget") {
            "False".clone_into(&mut target.status);
            (target.reason, target.message) = (None, None);
            target.last_transition_time = Some(cx.clock().time());
        }
        cx.replace_status(Pod { status: Some(status), ..pod.clone() }).await?;
        Ok(Next::on_change())
    }
}
