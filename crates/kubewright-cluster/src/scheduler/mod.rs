//! The scheduler: finds a node for each pod, or says why there is none.

mod fit;
mod requests;

use std::collections::BTreeMap;

use k8s_openapi::api::{
    core::v1::{
        Binding, Namespace, Node, ObjectReference, PersistentVolume, PersistentVolumeClaim, Pod, PodCondition,
    },
    storage::v1::StorageClass,
};
use kube::{
    Api, ResourceExt as _,
    api::{ObjectMeta, PostParams},
};
use kubewright::{
    Change, Context, Controller, Event, Index, Key, Lookup, Next, Predicate, Reconciler, Result, Seen, Watch,
};
use parking_lot::Mutex;

use self::{
    fit::{Namespaces, Placed, Unfit},
    requests::Resources,
};
use crate::{
    controllers::volumes::{self, PODS_BY_CLAIM},
    pods::{self, BY_NODE},
};

const NAME: &str = "default-scheduler";
/// When so many nodes are found that would do, no more are looked at.
const ENOUGH_NODES: usize = 16;

/// Pods that have no node yet.
const WAITING: Index<Pod> = Index::new("waiting", |pod| match is_ours(pod) {
    true => vec![String::new()],
    false => Vec::new(),
});

/// Pods that have no node yet and want to be with others.
const SEEKING: Index<Pod> = Index::new("seeking", |pod| {
    let affinity = pods::spec(pod).affinity.as_ref();
    match is_ours(pod) && affinity.is_some_and(|affinity| affinity.pod_affinity.is_some()) {
        true => vec![String::new()],
        false => Vec::new(),
    }
});

/// Pods that don't want to be with others.
const PICKY: Index<Pod> = Index::new("picky", |pod| match fit::avoided(pod).is_empty() {
    true => Vec::new(),
    false => vec![String::new()],
});

struct Scheduler {
    /// The nodes of pods that were just bound, until the watch tells of it: by UID.
    assumed: Mutex<BTreeMap<String, (String, Seen<Pod>)>>,
    /// Where the next search begins, so that all nodes are looked at in turn.
    turn: Mutex<usize>,
}

pub(crate) fn controller() -> Controller {
    Controller::of_existing::<Pod>()
        .named("scheduler")
        .watching(Watch::new().index(BY_NODE).index(WAITING).index(SEEKING).index(PICKY).index(PODS_BY_CLAIM))
        .when(Predicate::new(|change: &Change<Pod>| change.new.as_ref().is_some_and(|pod| is_ours(pod))))
        .watches_with(Watch::<Node>::new(), |_, lookup| all(WAITING, lookup), [node_changed()])
        .watches_with(Watch::<Pod>::new(), |_, lookup| all(WAITING, lookup), [has_left()])
        .watches_with(Watch::<Pod>::new(), |_, lookup| all(SEEKING, lookup), [has_come()])
        .watches::<PersistentVolumeClaim, _, _>(pods_of_claim)
        .reads::<PersistentVolume>()
        .reads::<StorageClass>()
        .reads::<Namespace>()
        .reports_as(NAME)
        .run(Scheduler { assumed: Mutex::default(), turn: Mutex::default() })
}

/// Whether a pod waits for this scheduler.
fn is_ours(pod: &Pod) -> bool {
    let spec = pods::spec(pod);
    spec.node_name.is_none() && spec.scheduler_name.as_deref().unwrap_or(NAME) == NAME && pods::is_active(pod)
}

/// What a node offers has changed, not merely that it is still there.
fn node_changed() -> Predicate<Node> {
    Predicate::new(|change: &Change<Node>| {
        let offer = |node: &Node| {
            let allocatable = node.status.as_ref().and_then(|status| status.allocatable.clone());
            (node.spec.clone(), node.labels().clone(), allocatable)
        };
        change.old.as_deref().map(offer) != change.new.as_deref().map(offer)
    })
}

/// A pod no longer needs its node.
fn has_left() -> Predicate<Pod> {
    Predicate::new(|change: &Change<Pod>| {
        let needs = |pod: &Pod| pods::spec(pod).node_name.is_some() && !pods::is_finished(pod);
        change.old.as_deref().is_some_and(needs) && !change.new.as_deref().is_some_and(needs)
    })
}

/// A pod has got a node, or is another one there by its labels.
fn has_come() -> Predicate<Pod> {
    Predicate::new(|change: &Change<Pod>| {
        let place = |pod: &Pod| (pods::spec(pod).node_name.clone(), pod.labels().clone());
        let now = change.new.as_deref().map(place);
        now.as_ref().is_some_and(|(node, _)| node.is_some()) && change.old.as_deref().map(place) != now
    })
}

/// The pods that may have waited for a claim.
async fn pods_of_claim(claim: Seen<PersistentVolumeClaim>, lookup: Lookup) -> Vec<Key> {
    let pods = lookup.indexed(&PODS_BY_CLAIM, &volumes::name_of(&claim)).unwrap_or_default();
    pods.iter().filter(|pod| is_ours(pod)).map(|pod| Key::of(&**pod)).collect()
}

async fn all(index: Index<Pod>, lookup: Lookup) -> Vec<Key> {
    let pods = lookup.indexed(&index, "").unwrap_or_default();
    pods.iter().map(|pod| Key::of(&**pod)).collect()
}

impl Reconciler<Pod> for Scheduler {
    async fn reconcile(&self, pod: &Pod, cx: &Context<Pod>) -> Result<Next> {
        if !is_ours(pod) || self.is_assumed(pod, cx)? {
            return Ok(Next::on_change());
        }
        if pods::spec(pod).scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty()) {
            let message = "Scheduling is blocked due to non-empty scheduling gates";
            return say(pod, "SchedulingGated", message, cx).await;
        }
        match self.choose(pod, cx)? {
            Ok(node) => {
                self.assumed.lock().insert(pod.uid().unwrap_or_default(), (node.clone(), cx.object()));
                if let Err(why) = bind(pod, &node, cx).await {
                    self.assumed.lock().remove(&pod.uid().unwrap_or_default());
                    return Err(why);
                }
                let note = format!("Successfully assigned {} to {node}", cx.key());
                cx.event(Event::normal("Scheduled", "Binding", note)).await;
                Ok(Next::on_change())
            }
            Err(why) => {
                cx.event(Event::warning("FailedScheduling", "Scheduling", why.clone())).await;
                say(pod, "Unschedulable", &why, cx).await
            }
        }
    }
}

impl Scheduler {
    /// Whether a pod has a node already, though the watch has not told of it. Forgets those it has told of.
    fn is_assumed(&self, pod: &Pod, cx: &Context<Pod>) -> Result<bool> {
        let lookup = cx.lookup();
        let mut assumed = self.assumed.lock();
        let mut known = Vec::new();
        for (uid, (_, one)) in assumed.iter() {
            let seen = lookup.get::<Pod>(&Key::of(&**one))?;
            if seen
                .is_none_or(|seen| seen.uid().as_ref() != Some(uid) || pods::spec(&seen).node_name.is_some())
            {
                known.push(uid.clone());
            }
        }
        known.iter().for_each(|uid| {
            assumed.remove(uid);
        });
        Ok(assumed.contains_key(&pod.uid().unwrap_or_default()))
    }

    /// The node that suits a pod best, or why there is none.
    fn choose(&self, pod: &Pod, cx: &Context<Pod>) -> Result<std::result::Result<String, String>> {
        let nodes = cx.list::<Node>()?;
        if let Some(why) = volumes::obstacle(pod, &cx.lookup())? {
            let all = nodes.len();
            let helps =
                format!("0/{all} nodes are available: {all} Preemption is not helpful for scheduling");
            return Ok(Err(format!("0/{all} nodes are available: {why}. preemption: {helps}.")));
        }
        let wanted = Resources::of_pod(pod);
        let neighbours = self.neighbours(pod, &nodes, cx)?;
        let placed: Vec<Placed<'_>> = neighbours.iter().map(|(pod, node)| Placed { pod, node }).collect();
        let namespaces: Namespaces = match placed.is_empty() {
            true => BTreeMap::new(),
            false => {
                let all = cx.lookup().list::<Namespace>(None)?;
                all.iter().map(|one| (one.name_any(), one.labels().clone())).collect()
            }
        };
        let mut unfit: Vec<Unfit> = Vec::new();
        let mut suitable: Vec<(i64, usize, &Seen<Node>)> = Vec::new();
        let first = *self.turn.lock() % nodes.len().max(1);
        for node in nodes.iter().cycle().skip(first).take(nodes.len()) {
            let here = self.on_node(&node.name_any(), cx)?;
            let mut used = Resources::default();
            here.iter().for_each(|pod| used.add(&Resources::of_pod(pod)));
            let verdict = fit::admits(node, pod)
                .and_then(|()| fit::has_ports(here.iter().map(|pod| &**pod), pod))
                .and_then(|()| fit::has_room(node, &used, &wanted))
                .and_then(|()| fit::gets_on(pod, node, &placed, &namespaces));
            match verdict {
                Ok(()) => {
                    used.add(&wanted);
                    let all = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
                    suitable.push((Resources::of(all).load(&used), here.len(), node));
                }
                Err(why) => unfit.push(why),
            }
            if suitable.len() == ENOUGH_NODES {
                break;
            }
        }
        *self.turn.lock() = first + unfit.len() + suitable.len();
        let best = suitable.into_iter().min_by_key(|(load, pods, node)| (*load, *pods, node.name_any()));
        Ok(best.map(|(_, _, node)| node.name_any()).ok_or_else(|| explain(&unfit)))
    }

    /// The pods on a node, also those that are just coming.
    fn on_node(&self, node: &str, cx: &Context<Pod>) -> Result<Vec<Seen<Pod>>> {
        let mut here = cx.indexed(&BY_NODE, node)?;
        let assumed = self.assumed.lock();
        here.extend(assumed.values().filter(|(on, _)| on == node).map(|(_, pod)| pod.clone()));
        Ok(here)
    }

    /// The pods that matter to where a pod may be: all, if it cares about others, otherwise those that may care
    /// about it.
    fn neighbours(
        &self,
        pod: &Pod,
        nodes: &[Seen<Node>],
        cx: &Context<Pod>,
    ) -> Result<Vec<(Seen<Pod>, Seen<Node>)>> {
        let cares = pods::spec(pod)
            .affinity
            .as_ref()
            .is_some_and(|affinity| affinity.pod_affinity.is_some() || affinity.pod_anti_affinity.is_some());
        let mut found = Vec::new();
        if cares {
            for node in nodes {
                found.extend(self.on_node(&node.name_any(), cx)?.into_iter().map(|pod| (pod, node.clone())));
            }
            return Ok(found);
        }
        let by_name: BTreeMap<String, &Seen<Node>> =
            nodes.iter().map(|node| (node.name_any(), node)).collect();
        let assumed: Vec<_> = self.assumed.lock().values().cloned().collect();
        let picky = cx.indexed(&PICKY, "")?.into_iter().filter(|pod| !pods::is_finished(pod));
        let seen = picky.filter_map(|pod| Some((pods::spec(&pod).node_name.clone()?, pod)));
        let coming = assumed.into_iter().filter(|(_, pod)| !fit::avoided(pod).is_empty());
        for (node, pod) in seen.chain(coming) {
            if let Some(node) = by_name.get(&node) {
                found.push((pod, (*node).clone()));
            }
        }
        Ok(found)
    }
}

/// Why no node would do, as the real scheduler counts it.
fn explain(unfit: &[Unfit]) -> String {
    let count = |reasons: &mut dyn Iterator<Item = &str>| {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        reasons.for_each(|reason| *counts.entry(reason).or_default() += 1);
        let mut texts: Vec<String> =
            counts.iter().map(|(reason, number)| format!("{number} {reason}")).collect();
        texts.sort();
        texts.join(", ")
    };
    if unfit.is_empty() {
        return "no nodes available to schedule pods".to_owned();
    }
    let all = unfit.len();
    let why = count(&mut unfit.iter().flat_map(|one| one.reasons.iter().map(String::as_str)));
    let helps = count(&mut unfit.iter().map(|one| match one.is_crowded {
        true => "No preemption victims found for incoming pod",
        false => "Preemption is not helpful for scheduling",
    }));
    format!("0/{all} nodes are available: {why}. preemption: 0/{all} nodes are available: {helps}.")
}

/// Says why a pod has no node yet.
async fn say(pod: &Pod, reason: &str, message: &str, cx: &Context<Pod>) -> Result<Next> {
    let before = pods::condition(pod, "PodScheduled");
    let is_said = before.is_some_and(|before| {
        before.status == "False"
            && (before.reason.as_deref(), before.message.as_deref()) == (Some(reason), Some(message))
    });
    if !is_said {
        let since =
            before.filter(|before| before.status == "False").and_then(|one| one.last_transition_time.clone());
        let mut changed = pod.clone();
        let conditions = changed.status.get_or_insert_default().conditions.get_or_insert_default();
        conditions.retain(|condition| condition.type_ != "PodScheduled");
        conditions.push(PodCondition {
            type_: "PodScheduled".to_owned(),
            status: "False".to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_transition_time: Some(since.unwrap_or_else(|| cx.clock().time())),
            observed_generation: pod.metadata.generation,
            ..PodCondition::default()
        });
        cx.replace_status(changed).await?;
    }
    Ok(Next::on_change())
}

async fn bind(pod: &Pod, node: &str, cx: &Context<Pod>) -> Result<()> {
    let api: Api<Pod> = Api::namespaced(cx.client().clone(), cx.namespace());
    let binding = Binding {
        metadata: ObjectMeta { name: pod.metadata.name.clone(), uid: pod.uid(), ..ObjectMeta::default() },
        target: ObjectReference {
            kind: Some("Node".to_owned()),
            name: Some(node.to_owned()),
            ..ObjectReference::default()
        },
    };
    let _: serde_json::Value =
        api.create_subresource("binding", &pod.name_any(), &PostParams::default(), &binding).await?;
    Ok(())
}
