//! What is taken out of a spec stays in the cluster.

use k8s_openapi::api::core::v1::{ServicePort, ServiceSpec};
use kubewright::{prelude::*, workload::child_meta};
use kubewright_explore::Oracle;

use super::{Done, is_found};

#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(group = "bugs.example.com", version = "v1", kind = "Team", namespaced)]
pub(crate) struct TeamSpec {
    pub people: Vec<String>,
}

pub(super) const TEAM: &str =
    "{apiVersion: bugs.example.com/v1, kind: Team, metadata: {name: sample}, spec: {people: [ann, bob]}}";

struct Enrols;

impl Reconciler<Team> for Enrols {
    async fn reconcile(&self, team: &Team, cx: &Context<Team>) -> Result<Next> {
        for name in &team.spec.people {
            cx.apply(ServiceAccount { metadata: child_meta(team, name), ..ServiceAccount::default() })
                .await?;
        }
        Ok(Next::on_change())
    }
}

#[test]
fn members_that_left_keep_their_accounts() {
    let operator = |done| {
        let controller = Controller::of::<Team>().owns::<ServiceAccount>();
        let controller = if done == Done::Right { controller.prunes() } else { controller };
        Operator::new("team-operator").controller(controller.run(Enrols))
    };
    is_found(operator, TEAM, &[Oracle::History]);
}

#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(group = "bugs.example.com", version = "v1", kind = "Probe", namespaced)]
pub(crate) struct ProbeSpec {
    pub text: String,
    pub metrics: Option<Metrics>,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug)]
pub(crate) struct Metrics {
    pub port: i32,
}

struct Measures;

impl Reconciler<Probe> for Measures {
    async fn reconcile(&self, probe: &Probe, cx: &Context<Probe>) -> Result<Next> {
        let data = Some([("text".to_owned(), probe.spec.text.clone())].into());
        cx.apply(ConfigMap { metadata: child_meta(probe, ""), data, ..ConfigMap::default() }).await?;
        if let Some(metrics) = &probe.spec.metrics {
            let ports = Some(vec![ServicePort { port: metrics.port, ..ServicePort::default() }]);
            cx.apply(workload::service(probe, ServiceSpec { ports, ..ServiceSpec::default() })).await?;
        }
        Ok(Next::on_change())
    }
}

fn measures(done: Done) -> Operator {
    let controller = Controller::of::<Probe>().owns::<ConfigMap>().owns::<Service>();
    let controller = if done == Done::Right { controller.prunes() } else { controller };
    Operator::new("probe-operator").controller(controller.run(Measures))
}

#[test]
fn a_part_of_the_sample_stays() {
    let spec = "{text: hello, metrics: {port: 9090}}";
    let sample =
        format!("{{apiVersion: bugs.example.com/v1, kind: Probe, metadata: {{name: sample}}, spec: {spec}}}");
    is_found(measures, &sample, &[Oracle::History]);
}

#[test]
fn a_part_that_the_sample_does_not_have_stays() {
    let sample =
        "{apiVersion: bugs.example.com/v1, kind: Probe, metadata: {name: sample}, spec: {text: hello}}";
    is_found(measures, sample, &[Oracle::History]);
}
