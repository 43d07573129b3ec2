//! Operators that are right, each in a way of its own.

use kube::{
    Api,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use kubewright::{Verb, prelude::*, workload::child_meta};
use kubewright_explore::{Fault, Step, explore};
use serde_json::json;

use super::{
    SOME,
    gadgets::pod,
    readiness::{ENGINE, Engine, EngineStatus, Part, Runs, part, stateful_set},
};
use crate::gadget::{Gadget, GadgetStatus, SAMPLE, text};

/// It survives some of everything that may go wrong, and all of what it was once accused after.
fn survives(operator: fn() -> Operator, sample: &str, accused_after: &[Fault]) {
    explore(operator).sample(sample).runs(SOME).run().assert_survived();
    explore(operator).sample(sample).faults(accused_after.iter().copied()).run().assert_survived();
}

/// Gets, changes, replaces, and does so again if somebody was faster.
struct ByHand;

impl Reconciler<Gadget> for ByHand {
    async fn reconcile(&self, gadget: &Gadget, cx: &Context<Gadget>) -> Result<Next> {
        let maps: Api<ConfigMap> = Api::namespaced(cx.client().clone(), cx.namespace());
        let mut wanted = text(gadget);
        wanted.metadata.owner_references = gadget.controller_owner_ref(&()).map(|owner| vec![owner]);
        for _ in 0..5 {
            let answer = match maps.get_opt(&wanted.name_any()).await? {
                None => maps.create(&PostParams::default(), &wanted).await,
                // That of another gadget goes with it.
                Some(there) if there.owner_references() != wanted.owner_references() => {
                    return Ok(Next::after(Duration::from_secs(5)));
                }
                Some(there) if there.data == wanted.data => return Ok(Next::on_change()),
                Some(mut there) => {
                    there.data.clone_from(&wanted.data);
                    maps.replace(&there.name_any(), &PostParams::default(), &there).await
                }
            };
            match answer {
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                answer => {
                    answer?;
                    return Ok(Next::on_change());
                }
            }
        }
        Err(Error::new("somebody is always faster"))
    }
}

/// Says that it has done what is its own to do; what comes of it is for somebody else to do, and to tell.
struct Orders;

impl Reconciler<Gadget> for Orders {
    fn remembers(&self) -> bool {
        false
    }

    async fn reconcile(&self, gadget: &Gadget, cx: &Context<Gadget>) -> Result<Next> {
        cx.apply(part(gadget)).await?;
        cx.status(GadgetStatus::default()).await?;
        Ok(Next::on_change())
    }
}

#[test]
fn a_generation_is_observed_before_the_children_of_a_child_are_there() {
    let operator = || {
        let gadgets = Controller::of::<Gadget>().owns::<Part>();
        let parts = Controller::of::<Part>().owns::<StatefulSet>();
        Operator::new("gadget-operator").controller(gadgets.run(Orders)).controller(parts.run(Runs))
    };
    survives(operator, SAMPLE, &[]);
}

const ATTEMPT: &str = "example.com/attempt";

/// Tells of how its Deployment gets on, also when that gives up after minutes.
struct Reports;

impl Reconciler<Gadget> for Reports {
    fn remembers(&self) -> bool {
        false
    }

    async fn reconcile(&self, gadget: &Gadget, cx: &Context<Gadget>) -> Result<Next> {
        let deployment = cx.apply(workload::deployment(gadget, 1, pod(&gadget.spec.text))).await?;
        let conditions = deployment.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let mut reasons = conditions.filter(|one| one.type_ == "Progressing");
        let reason = reasons.next().and_then(|one| one.reason.clone());
        let note = Some(format!("{:?} {reason:?}", gadget.labels().get(ATTEMPT)));
        cx.status(GadgetStatus { note, ..GadgetStatus::default() }).await?;
        Ok(Next::on_change())
    }
}

#[test]
fn a_deployment_gives_up_when_its_time_is_over() {
    let operator = || {
        let controller = Controller::of::<Gadget>().owns::<Deployment>();
        Operator::new("gadget-operator").controller(controller.run(Reports))
    };
    let never_ready = || json!({"text": "kubewright.invalid/never-ready:1"});
    let steps = [
        Step::apply("create", json!({"text": "nginx:1"})),
        Step::apply("break", never_ready()),
        // Its time is over in the minutes of quiet after this.
        Step::apply("try again", never_ready()).labelled(ATTEMPT, "second"),
    ];
    explore(operator).sample(SAMPLE).steps(steps).runs(SOME).run().assert_survived();
}

#[test]
fn a_child_may_be_kept_with_a_client_of_ones_own() {
    let operator = || {
        let controller = Controller::of::<Gadget>().owns::<ConfigMap>();
        let controller = controller.needs::<ConfigMap>(&[Verb::Get, Verb::Create, Verb::Update]);
        Operator::new("gadget-operator").controller(controller.run(ByHand))
    };
    survives(operator, SAMPLE, &[Fault::StaleResource, Fault::StaleResourceFar, Fault::Coalesce]);
}

/// Counts the pods that run.
struct Counts;

impl Reconciler<Engine> for Counts {
    async fn reconcile(&self, engine: &Engine, cx: &Context<Engine>) -> Result<Next> {
        cx.apply(workload::deployment(engine, 2, pod(&engine.spec.image))).await?;
        let labels = workload::labels(engine);
        let mut pods = cx.list::<Pod>()?;
        pods.retain(|pod| {
            labels.iter().all(|(name, value)| pod.labels().get(name) == Some(value))
                && pod.metadata.deletion_timestamp.is_none()
                && pod.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Running"))
        });
        cx.status(EngineStatus { pods: Some(pods.len()), ..EngineStatus::default() }).await?;
        Ok(Next::on_change())
    }
}

#[test]
fn pods_may_be_counted_while_two_changes_roll_out_at_once() {
    let operator = || {
        let controller = Controller::of::<Engine>().owns::<Deployment>();
        let controller = controller.watches::<Pod, _, _>(async |pod: Seen<Pod>, _| {
            let namespace = pod.namespace().unwrap_or_default();
            let engine = pod.labels().get("app.kubernetes.io/instance");
            engine.map(|engine| Key::new(&namespace, engine)).into_iter().collect()
        });
        Operator::new("engine-operator").controller(controller.run(Counts))
    };
    survives(operator, ENGINE, &[Fault::DelayPastChange]);
}

/// Writes down where the pods are.
struct Seeds;

impl Reconciler<Gadget> for Seeds {
    async fn reconcile(&self, gadget: &Gadget, cx: &Context<Gadget>) -> Result<Next> {
        cx.apply(stateful_set(gadget, &gadget.spec.text)).await?;
        let address = |pod: &Pod| pod.status.as_ref().and_then(|status| status.pod_ip.clone());
        let seeds: Vec<String> = cx.pods()?.iter().filter_map(|pod| address(pod)).collect();
        if seeds.len() == 2 {
            let data = Some([("seeds".to_owned(), seeds.join(","))].into());
            cx.apply(ConfigMap { metadata: child_meta(gadget, "seeds"), data, ..ConfigMap::default() })
                .await?;
        }
        Ok(Next::on_change())
    }
}

#[test]
fn addresses_of_pods_may_be_written_down() {
    let operator = || {
        let controller = Controller::of::<Gadget>().owns::<StatefulSet>().owns::<ConfigMap>();
        Operator::new("gadget-operator").controller(controller.follows_pods().run(Seeds))
    };
    survives(operator, SAMPLE, &[Fault::PodLost, Fault::ChildDeletedLater]);
}

const OF: &str = "test.example.com/of";

/// Asks the server which child there is.
struct Asks;

impl Reconciler<Gadget> for Asks {
    async fn reconcile(&self, gadget: &Gadget, cx: &Context<Gadget>) -> Result<Next> {
        let maps: Api<ConfigMap> = Api::namespaced(cx.client().clone(), cx.namespace());
        let uid = gadget.uid().unwrap_or_default();
        let own = ListParams::default().labels(&format!("{OF}={uid}"));
        let data = text(gadget).data;
        match maps.list(&own).await?.items.first() {
            None => {
                let metadata = ObjectMeta {
                    generate_name: Some(format!("{}-", gadget.name_any())),
                    labels: Some([(OF.to_owned(), uid)].into()),
                    ..ObjectMeta::default()
                };
                cx.create(ConfigMap { metadata, data, ..ConfigMap::default() }).await?;
            }
            Some(map) if map.data != data => {
                let change = Patch::Merge(json!({"data": data}));
                maps.patch(&map.name_any(), &PatchParams::default(), &change).await?;
            }
            Some(_) => {}
        }
        Ok(Next::on_change())
    }
}

#[test]
fn the_server_may_be_asked_while_time_travels() {
    let operator = || {
        let controller = Controller::of::<Gadget>().owns::<ConfigMap>();
        Operator::new("gadget-operator").controller(controller.run(Asks))
    };
    survives(operator, SAMPLE, &[Fault::TimeTravel, Fault::TimeTravelFar]);
}
