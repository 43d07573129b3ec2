//! What is said to be ready, or to run, and is not yet.

use k8s_openapi::api::apps::v1::{DaemonSetSpec, StatefulSetSpec};
use kubewright::{
    prelude::*,
    workload::{JobState, child_meta},
};
use kubewright_explore::{Fault, Oracle, explore};

use super::{
    Done,
    gadgets::{once, one_is_found, pod},
    is_found,
};
use crate::gadget::{Doing, Gadget, GadgetStatus, SAMPLE, text};

fn said(is_ready: bool) -> GadgetStatus {
    let conditions = vec![condition("Ready", is_ready, "Looked", "")];
    GadgetStatus { conditions, ..GadgetStatus::default() }
}

/// A StatefulSet with two pods.
pub(super) fn stateful_set<K: Resource<DynamicType = ()>>(owner: &K, image: &str) -> StatefulSet {
    let spec = workload::deployment(owner, 2, pod(image)).spec.unwrap_or_default();
    StatefulSet {
        metadata: child_meta(owner, ""),
        spec: Some(StatefulSetSpec {
            replicas: spec.replicas,
            selector: spec.selector,
            template: spec.template,
            // Else one that never gets ready blocks what would mend it.
            pod_management_policy: Some("Parallel".to_owned()),
            ..StatefulSetSpec::default()
        }),
        ..StatefulSet::default()
    }
}

fn is_complete(set: &StatefulSet) -> bool {
    let status = set.status.clone().unwrap_or_default();
    let wanted = set.spec.as_ref().and_then(|spec| spec.replicas);
    status.observed_generation == set.metadata.generation
        && status.ready_replicas.or(Some(0)) == wanted
        && status.updated_replicas.or(Some(0)) == wanted
}

fn is_up(pod: &Pod) -> bool {
    let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|one| one.type_ == "Ready" && one.status == "True")
}

struct LooksAtPods(Done);

impl Reconciler<Gadget> for LooksAtPods {
    fn remembers(&self) -> bool {
        false
    }

    async fn reconcile(&self, gadget: &Gadget, cx: &Context<Gadget>) -> Result<Next> {
        let set = cx.apply(stateful_set(gadget, &gadget.spec.text)).await?;
        let is_ready = match self.0 {
            Done::Wrong => cx.pods()?.iter().all(|pod| is_up(pod)),
            Done::Right => is_complete(&set),
        };
        cx.status(said(is_ready)).await?;
        Ok(Next::on_change())
    }
}

#[test]
fn all_pods_are_ready_if_there_are_none() {
    let operator = |done| {
        let controller = Controller::of::<Gadget>().owns::<StatefulSet>().follows_pods();
        Operator::new("gadget-operator").controller(controller.run(LooksAtPods(done)))
    };
    is_found(operator, SAMPLE, &[Oracle::Status]);
}

/// Something that runs, and says so in a word.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(group = "bugs.example.com", version = "v1", kind = "Engine", namespaced, status = "EngineStatus")]
pub(crate) struct EngineSpec {
    pub image: String,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default)]
#[serde(default)]
pub(crate) struct EngineStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// How many pods run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<usize>,
}

pub(super) const ENGINE: &str =
    "{apiVersion: bugs.example.com/v1, kind: Engine, metadata: {name: sample}, spec: {image: 'nginx:1'}}";

struct Starts(Done);

impl Reconciler<Engine> for Starts {
    fn remembers(&self) -> bool {
        false
    }

    async fn reconcile(&self, engine: &Engine, cx: &Context<Engine>) -> Result<Next> {
        let set = cx.apply(stateful_set(engine, &engine.spec.image)).await?;
        let phase = if self.0 == Done::Wrong || is_complete(&set) { "Running" } else { "Creating" };
        cx.status(EngineStatus { phase: Some(phase.to_owned()), ..EngineStatus::default() }).await?;
        Ok(Next::on_change())
    }
}

#[test]
fn what_has_only_been_asked_for_is_said_to_be_running() {
    let operator = |done| {
        let controller = Controller::of::<Engine>().owns::<StatefulSet>();
        Operator::new("engine-operator").controller(controller.run(Starts(done)))
    };
    is_found(operator, ENGINE, &[Oracle::Status]);
}

struct Migrates(Done);

impl Reconciler<Gadget> for Migrates {
    fn remembers(&self) -> bool {
        false
    }

    async fn reconcile(&self, gadget: &Gadget, cx: &Context<Gadget>) -> Result<Next> {
        let job = cx.apply(workload::job(gadget, once(&gadget.spec.text), &())?).await?;
        cx.status(said(self.0 == Done::Wrong || JobState::of(&job) == JobState::Succeeded)).await?;
        Ok(Next::on_change())
    }
}

#[test]
fn it_is_said_to_be_ready_before_the_job_that_makes_it_so_is_done() {
    let operator = |done| {
        let controller = Controller::of::<Gadget>().owns::<Job>().prunes();
        Operator::new("gadget-operator").controller(controller.run(Migrates(done)))
    };
    is_found(operator, SAMPLE, &[Oracle::Status]);
}

struct LooksAtDaemons(Done);

impl Reconciler<Gadget> for LooksAtDaemons {
    fn remembers(&self) -> bool {
        false
    }

    async fn reconcile(&self, gadget: &Gadget, cx: &Context<Gadget>) -> Result<Next> {
        let spec = workload::deployment(gadget, 1, pod(&gadget.spec.text)).spec.unwrap_or_default();
        let (selector, template) = (spec.selector, spec.template);
        let spec = Some(DaemonSetSpec { selector, template, ..DaemonSetSpec::default() });
        let metadata = child_meta(gadget, "");
        let set = cx.apply(DaemonSet { metadata, spec, ..DaemonSet::default() }).await?;
        let status = set.status.clone().unwrap_or_default();
        let is_told = status.observed_generation == set.metadata.generation
            && status.desired_number_scheduled > 0
            && status.updated_number_scheduled.unwrap_or(0) == status.desired_number_scheduled;
        let is_ready = status.number_ready == status.desired_number_scheduled;
        cx.status(said(is_ready && (is_told || self.0 == Done::Wrong))).await?;
        Ok(Next::on_change())
    }
}

fn daemons(done: Done) -> Operator {
    let controller = Controller::of::<Gadget>().owns::<DaemonSet>();
    Operator::new("gadget-operator").controller(controller.run(LooksAtDaemons(done)))
}

#[test]
fn no_daemons_are_missing_if_none_are_wanted_yet() {
    is_found(daemons, SAMPLE, &[Oracle::Status]);
}

#[test]
fn how_often_the_cluster_counts_that_daemons_were_changed_does_not_matter() {
    let deleted = [Fault::ChildDeleted, Fault::ChildDeletedLater];
    explore(|| daemons(Done::Right)).sample(SAMPLE).faults(deleted).run().assert_survived();
}

/// A part of a gadget, which somebody else looks after.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(group = "bugs.example.com", version = "v1", kind = "Part", namespaced, status = "GadgetStatus")]
pub(crate) struct PartSpec {
    pub image: String,
}

pub(super) fn part(gadget: &Gadget) -> Part {
    let spec = PartSpec { image: gadget.spec.text.clone() };
    Part { metadata: child_meta(gadget, ""), spec, status: None }
}

struct Assembles(Done);

impl Reconciler<Gadget> for Assembles {
    fn remembers(&self) -> bool {
        false
    }

    async fn reconcile(&self, gadget: &Gadget, cx: &Context<Gadget>) -> Result<Next> {
        let part = cx.apply(part(gadget)).await?;
        let status = part.status.clone().unwrap_or_default();
        let is_so = |one: &Condition| one.type_ == "Ready" && (one.status == "True" || self.0 == Done::Wrong);
        let is_ready = status.conditions.iter().any(is_so);
        cx.status(said(is_ready && status.observed_generation == part.metadata.generation)).await?;
        Ok(Next::on_change())
    }
}

pub(super) struct Runs;

impl Reconciler<Part> for Runs {
    fn remembers(&self) -> bool {
        false
    }

    async fn reconcile(&self, part: &Part, cx: &Context<Part>) -> Result<Next> {
        let set = cx.apply(stateful_set(part, &part.spec.image)).await?;
        cx.status(said(is_complete(&set))).await?;
        Ok(Next::on_change())
    }
}

#[test]
fn what_consists_of_a_custom_resource_is_said_to_be_ready_before_that() {
    let operator = |done| {
        let gadgets = Controller::of::<Gadget>().owns::<Part>();
        let parts = Controller::of::<Part>().owns::<StatefulSet>();
        Operator::new("gadget-operator").controller(gadgets.run(Assembles(done))).controller(parts.run(Runs))
    };
    is_found(operator, SAMPLE, &[Oracle::Status]);
}

#[test]
fn what_was_refused_is_said_to_be_done() {
    let wrong: Doing = |gadget, cx| Box::pin(boast(gadget, cx, Done::Wrong));
    let right: Doing = |gadget, cx| Box::pin(boast(gadget, cx, Done::Right));
    one_is_found(wrong, right, Oracle::Status);
}

async fn boast(gadget: &Gadget, cx: &Context<Gadget>, done: Done) -> Result<Next> {
    let made = cx.apply(text(gadget)).await;
    cx.status(said(made.is_ok() || done == Done::Wrong)).await?;
    made.map(|_| Next::on_change())
}
