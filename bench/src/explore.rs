//! What an exploration costs: how many runs a core makes in a second, how long all faults of a larger operator take, and
//! that memory does not grow, however many runs are made.

use std::{
    io::{Write as _, stderr},
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::CustomResource;
use kubewright::{Context, Controller, Next, Operator, Reconciler, workload::child_meta};
use kubewright_explore::{Exploration, Level, Progress, Report, Step, explore};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::Instant;

use crate::{Result, measure::Measure, peer::resident, progress};

/// Makes an operator.
type Make = fn() -> Operator;

const CHILDREN: usize = 10;
/// How many runs are made before memory is looked at for the first time, and how many in all.
const FIRST_RUNS: usize = 1_000;
const MANY_RUNS: usize = 100_000;
/// How long these may take.
const LONGEST: Duration = Duration::from_secs(60 * 60);

/// A resource with ten children.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(group = "bench.kubewright.dev", version = "v1", kind = "Brood", namespaced, status = "BroodStatus")]
pub(crate) struct BroodSpec {
    text: String,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BroodStatus {
    observed_generation: Option<i64>,
}

struct Raise;

impl Reconciler<Brood> for Raise {
    async fn reconcile(&self, brood: &Brood, cx: &Context<Brood>) -> kubewright::Result<Next> {
        for child in 0..CHILDREN {
            let data = [("text".to_owned(), brood.spec.text.clone())].into();
            let metadata = child_meta(brood, &child.to_string());
            cx.apply(ConfigMap { metadata, data: Some(data), ..ConfigMap::default() }).await?;
        }
        cx.status(BroodStatus::default()).await?;
        Ok(Next::on_change())
    }
}

fn brood() -> Operator {
    Operator::new("brood-operator").controller(Controller::of::<Brood>().owns::<ConfigMap>().run(Raise))
}

const BROOD: &str =
    "{apiVersion: bench.kubewright.dev/v1, kind: Brood, metadata: {name: sample}, spec: {text: hello}}";

pub(crate) fn run() -> Result<Vec<Measure>> {
    progress("explore: MyWeb, in five steps");
    let web = |port: i64, page: &str| json!({"image": "nginx:1.29", "nodePortNumber": port, "pageContentHtml": page});
    let steps = [
        Step::apply("create", web(30100, "hello")),
        Step::apply("change", web(30100, "changed")),
        Step::apply("scale", web(30101, "changed")),
        Step::apply("undo", web(30100, "hello")),
        Step::delete("delete"),
    ];
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let exploration = explore(myweb_operator::operator).sample(myweb_operator::SAMPLE).steps(steps);
    let (report, seconds) = survived(exploration, |_| {})?;
    let rate = report.runs as f64 / seconds / cores as f64;
    progress("explore: ten children");
    let (_, all) = survived(explore(brood).sample(BROOD), |_| {})?;
    Ok(vec![
        Measure::more_is_better("explore: runs of MyWeb's five steps, a core", "/s")
            .reaching(300.0)
            .with(vec![rate], Vec::new()),
        Measure::less_is_better("explore: all single faults of an operator with ten children", "s")
            .reaching(20.0)
            .with(vec![all], Vec::new()),
    ])
}

/// Makes very many runs, with up to two faults, and looks at what the process that directs them grows by.
pub(crate) fn endurance() -> Result<Vec<Measure>> {
    progress(&format!("explore: {MANY_RUNS} runs"));
    let mut memory = (0.0, 0.0);
    let exploration = explore(brood).sample(BROOD).level(Level::Pairs).runs(MANY_RUNS).time(LONGEST);
    let (report, seconds) = survived(exploration, |at| match at.runs {
        FIRST_RUNS => memory.0 = own_memory(),
        runs if runs % FIRST_RUNS == 0 => {
            memory.1 = own_memory();
            if runs % (10 * FIRST_RUNS) == 0 {
                progress(&format!("explore: {runs} runs"));
            }
        }
        _ => {}
    })?;
    if report.runs < MANY_RUNS {
        return Err(format!("only {} runs were made", report.runs).into());
    }
    Ok(vec![
        Measure::less_is_better("explore: memory after 100,000 runs, compared with 1,000", "×")
            .reaching(1.05)
            .with(vec![memory.1 / memory.0], Vec::new()),
        Measure::less_is_better(
            "explore: 100,000 runs of an operator with ten children, up to two faults each",
            "s",
        )
        .with(vec![seconds], Vec::new()),
    ])
}

/// Explores all operators of this repository: all single faults, and pairs for a minute each. What is found is told.
pub(crate) fn all_operators() -> Result<Measure> {
    let operators: [(Make, &str); 6] = [
        (foobar_operator::operator, foobar_operator::SAMPLE),
        (memcached_operator::operator, memcached_operator::SAMPLE),
        (myapp_operator::operator, myapp_operator::SAMPLE),
        (myresource_operator::operator, myresource_operator::SAMPLE),
        (myweb_operator::operator, myweb_operator::SAMPLE),
        (project_operator::operator, project_operator::SAMPLE),
    ];
    let mut findings = 0;
    for (operator, sample) in operators {
        progress(&format!("explore: {}, singles and pairs", operator().name()));
        let report = explore(operator).sample(sample).level(Level::Pairs).try_run(|_| {})?;
        if !report.findings.is_empty() {
            writeln!(stderr(), "{report}")?;
        }
        findings += report.findings.len();
    }
    let findings = vec![findings as f64];
    Ok(Measure::less_is_better("explore: findings in the operators of this repository", "")
        .reaching(0.0)
        .with(findings, Vec::new()))
}

/// Explores, and gives how long it took.
fn survived(exploration: Exploration, told: impl FnMut(Progress) + Send) -> Result<(Report, f64)> {
    let begun = Instant::now();
    let report = exploration.try_run(told)?;
    if !report.findings.is_empty() {
        return Err(report.to_string().into());
    }
    Ok((report, begun.elapsed().as_secs_f64()))
}

/// The memory of this process, in MiB; nothing if it can't be told.
fn own_memory() -> f64 {
    resident(std::process::id()).unwrap_or(f64::NAN)
}
