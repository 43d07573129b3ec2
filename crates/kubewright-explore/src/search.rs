//! Which runs are made: the undisturbed one, with and without its past, then one for every fault at every step.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use kube::{
    ResourceExt as _,
    api::{Patch, PatchParams},
};
use kubewright_cluster::TestCluster;
use serde_json::Value;

use crate::{
    Error, Level, Progress, Settings,
    branch::{Apart, Brancher, Choice, Desk, Told, is_late},
    finding::{Finding, Plan, Report},
    oracle::{Oracle, Violation},
    plan::Planned,
    run::{Attempt, Outcome, run},
    scenario::{Draft, Step, asking, steps, together},
    shrink::shrink,
    state::Noise,
    subject::Subject,
    wire::Expected,
};

/// How long runs are made that there is no end of, if nothing is said.
const ENDLESS: Duration = Duration::from_secs(60);
/// How many of the first faults of pairs are taken in a pass, and how many of the second.
const PAIRS: [f64; 2] = [0.05, 0.05];
/// How many runs a pass makes by chance, and how many faults each has, about.
const RANDOM_RUNS: usize = 500;
const RANDOM_FAULTS: f64 = 3.0;

/// What is known of the undisturbed run.
pub(crate) struct Ground {
    pub(crate) steps: Arc<Vec<Step>>,
    pub(crate) noise: Arc<Noise>,
    pub(crate) expected: Arc<Expected>,
    pub(crate) trace: Vec<crate::trace::Entry>,
    pub(crate) sometimes: Vec<usize>,
}

pub(crate) fn search(
    subject: &Subject,
    settings: &Settings,
    given: Option<Vec<Step>>,
    mut progress: impl FnMut(Progress),
) -> Result<Report, Error> {
    #[allow(clippy::disallowed_methods, reason = "how long people wait is real time")]
    let began = Instant::now();
    let steps = match given {
        Some(steps) => steps,
        None => draft(subject)?,
    };
    let mut report = Report::new(subject, steps.clone());
    let ground = match ground(subject, settings, steps)? {
        Ok(ground) => ground,
        Err(findings) => {
            report.findings = findings;
            report.elapsed = began.elapsed();
            return Ok(report);
        }
    };
    report.steps = ground.steps.to_vec();
    report.undisturbed.clone_from(&ground.trace);
    if let Some(violation) = history(subject, settings, &ground) {
        report.findings.push(Finding::alone(violation, ground.plan(subject, settings), ground.trace.clone()));
    }
    let mut found = Found { told: BTreeMap::new(), sometimes: BTreeSet::new(), runs: 0 };
    for level in [Level::Singles, Level::Pairs, Level::Random] {
        if level > settings.level {
            break;
        }
        let mut take = |one: Told| {
            let is_of = |step: &Step| one.faults.first().is_some_and(|first| first.point.step == step.name);
            let step = ground.steps.iter().position(is_of).map_or(0, |at| at + 1);
            found.take(one);
            let findings = found.told.len() + report.findings.len();
            progress(Progress { level, step, steps: ground.steps.len(), runs: found.runs, findings });
        };
        descend(subject, settings, &ground, level, began, &mut take)?;
    }
    report.runs = found.runs;
    for ((oracle, seen), alike) in found.told {
        report.findings.push(finding(subject, settings, &ground, Violation::new(oracle, seen), &alike));
    }
    for (at, demand) in subject.demands.sometimes.iter().enumerate() {
        if !found.sometimes.contains(&at) && !ground.sometimes.contains(&at) {
            let violation =
                Violation::new(Oracle::Sometimes, format!("in no run, at no moment: {}", demand.name));
            report.findings.push(Finding::alone(
                violation,
                ground.plan(subject, settings),
                ground.trace.clone(),
            ));
        }
    }
    report.elapsed = began.elapsed();
    Ok(report)
}

/// What the runs of an exploration came to.
struct Found {
    told: BTreeMap<(Oracle, String), Vec<Told>>,
    sometimes: BTreeSet<usize>,
    runs: usize,
}

impl Found {
    fn take(&mut self, one: Told) {
        self.runs += 1;
        self.sometimes.extend(&one.sometimes);
        for violation in &one.violations {
            self.told.entry((violation.oracle, violation.seen.clone())).or_default().push(one.clone());
        }
    }
}

/// The finding of several runs that came to the same, by the shortest plan that still does.
fn finding(
    subject: &Subject,
    settings: &Settings,
    ground: &Ground,
    violation: Violation,
    alike: &[Told],
) -> Finding {
    let first = &alike[0];
    let plan = Plan { faults: first.faults.clone(), ..ground.plan(subject, settings) };
    let again = replay(subject, settings, ground, &first.faults, false);
    if again.digest() != first.digest && first.digest != 0 {
        let seen = format!(
            "a run with the same plan went another way; before, it was {}: {}",
            violation.oracle, violation.seen
        );
        return Finding::new(Violation::new(Oracle::Replay, seen), plan, ground, again.trace, alike.len());
    }
    let shrunk = shrink(subject, settings, &ground.noise, plan, again, violation.oracle);
    let mut seen = shrunk.outcome.violations.into_iter();
    let violation = seen.find(|one| one.oracle == violation.oracle).unwrap_or(violation);
    let ground = shrunk.ground.as_ref().unwrap_or(ground);
    Finding::new(violation, shrunk.plan, ground, shrunk.outcome.trace, alike.len())
}

/// One run by its plan, from its beginning.
pub(crate) fn replay(
    subject: &Subject,
    settings: &Settings,
    ground: &Ground,
    faults: &[Planned],
    logs: bool,
) -> Outcome {
    run(
        subject,
        Attempt {
            steps: ground.steps.clone(),
            plan: faults.to_vec(),
            seed: settings.seed,
            noise: ground.noise.clone(),
            expected: Some(ground.expected.clone()),
            brancher: None,
            rests_often: false,
            logs,
        },
    )
}

/// One plan, with full account of what it comes to.
pub(crate) fn again(subject: &Subject, settings: &Settings, plan: &Plan) -> Result<Report, Error> {
    #[allow(clippy::disallowed_methods, reason = "how long people wait is real time")]
    let began = Instant::now();
    let mut report = Report::new(subject, plan.steps.clone());
    match ground(subject, settings, plan.steps.clone())? {
        Err(findings) => report.findings = findings,
        Ok(ground) => {
            let outcome = replay(subject, settings, &ground, &plan.faults, true);
            let missed = plan.faults.iter().find(|planned| !outcome.struck.contains(planned));
            if let Some(missed) = missed {
                return Err(Error::new(format!("the operator does not come to {} any more", missed.point)));
            }
            let found = |violation| Finding::new(violation, plan.clone(), &ground, outcome.trace.clone(), 1);
            report.findings = outcome.violations.iter().cloned().map(found).collect();
            let undone = history(subject, settings, &ground);
            report.findings.extend(
                undone.map(|violation| Finding::alone(violation, plan.clone(), ground.trace.clone())),
            );
            report.undisturbed = ground.trace;
            report.runs = 1;
        }
    }
    report.elapsed = began.elapsed();
    Ok(report)
}

/// The steps that the schema of the resource suggests, as far as its definition allows them.
fn draft(subject: &Subject) -> Result<Vec<Step>, Error> {
    let sample = subject.sample.data.get("spec").cloned().unwrap_or_default();
    let draft = Draft::of(&sample, &subject.schema);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .map_err(|why| Error::new(why.to_string()))?;
    runtime.block_on(async {
        let cluster = TestCluster::with(|builder| builder.nodes(0)).await;
        let installed = kubewright::install_crds(&cluster.client(), &(subject.operator)()).await;
        installed.map_err(|why| Error::new(format!("the definitions can't be installed: {why}")))?;
        let api = subject.api(cluster.client());
        let is_allowed = async |spec: &Value| {
            let object = asking(&subject.sample, spec);
            let parameters = PatchParams { dry_run: true, ..PatchParams::apply("user").force() };
            api.patch(&object.name_any(), &parameters, &Patch::Apply(&object)).await.map(|_| ())
        };
        if let Err(why) = is_allowed(&sample).await {
            return Err(Error::new(format!("the sample is refused: {why}")));
        }
        let mut changes = Vec::new();
        for (name, candidates) in draft.changes {
            let mut allowed = Vec::new();
            for spec in candidates {
                if is_allowed(&spec).await.is_ok() {
                    allowed.push(spec);
                }
            }
            let all = together(&sample, &allowed);
            if !allowed.is_empty() && is_allowed(&all).await.is_ok() {
                changes.push((name, all));
            }
        }
        Ok(steps(&sample, changes))
    })
}

impl Ground {
    pub(crate) fn new(steps: Arc<Vec<Step>>, noise: Arc<Noise>, outcome: Outcome) -> Self {
        let Outcome { expected, trace, sometimes, .. } = outcome;
        Self { steps, noise, expected: Arc::new(expected), trace, sometimes }
    }

    /// The plan of the undisturbed run.
    fn plan(&self, subject: &Subject, settings: &Settings) -> Plan {
        plan(subject, settings, &self.steps)
    }
}

fn plan(subject: &Subject, settings: &Settings, steps: &[Step]) -> Plan {
    let sample = serde_json::to_value(&subject.sample).unwrap_or_default();
    Plan { sample, steps: steps.to_vec(), faults: Vec::new(), seed: settings.seed }
}

/// A run without faults.
pub(crate) fn undisturbed(
    subject: &Subject,
    seed: u64,
    steps: &Arc<Vec<Step>>,
    noise: &Arc<Noise>,
    rests_often: bool,
) -> Outcome {
    let (steps, noise) = (steps.clone(), noise.clone());
    run(
        subject,
        Attempt {
            steps,
            plan: Vec::new(),
            seed,
            noise,
            expected: None,
            brancher: None,
            rests_often,
            logs: false,
        },
    )
}

/// The undisturbed run: with the seed, with another to see what differs by chance, and with the first again.
fn ground(
    subject: &Subject,
    settings: &Settings,
    mut steps: Vec<Step>,
) -> Result<Result<Ground, Vec<Finding>>, Error> {
    let quiet = Arc::new(Noise::default());
    let first = loop {
        let outcome = undisturbed(subject, settings.seed, &Arc::new(steps.clone()), &quiet, true);
        match outcome.refused {
            // Not every change is allowed after every other.
            Some((name, why)) => {
                let at = steps.iter().position(|step| step.name == name);
                let at = at
                    .filter(|at| *at > 0)
                    .ok_or_else(|| Error::new(format!("the sample is refused: {why}")))?;
                steps.remove(at);
            }
            None => break outcome,
        }
    };
    let steps = Arc::new(steps);
    if !first.violations.is_empty() {
        let plan = plan(subject, settings, &steps);
        let found = |violation| Finding::alone(violation, plan.clone(), first.trace.clone());
        return Ok(Err(first.violations.iter().cloned().map(found).collect()));
    }
    let first = undisturbed(subject, settings.seed, &steps, &quiet, false);
    let other = undisturbed(subject, settings.seed.wrapping_add(1), &steps, &quiet, false);
    let mut noise = Noise::default();
    for (one, other) in first.expected.states.iter().zip(&other.expected.states) {
        noise.add(one, other);
    }
    let noise = Arc::new(noise);
    let again = undisturbed(subject, settings.seed, &steps, &noise, false);
    if again.digest() != first.digest() {
        let at = first.trace.iter().zip(&again.trace).position(|(one, other)| one != other);
        let line = |trace: &[crate::trace::Entry]| at.and_then(|at| trace.get(at)).map(ToString::to_string);
        let seen = format!(
            "two undisturbed runs differ: {:?} and {:?}",
            line(&first.trace).unwrap_or_default(),
            line(&again.trace).unwrap_or_default()
        );
        let violation = Violation::new(Oracle::Replay, seen);
        return Ok(Err(vec![Finding::alone(violation, plan(subject, settings, &steps), again.trace)]));
    }
    Ok(Ok(Ground::new(steps, noise, again)))
}

/// Whether each spec comes to the same without those before it.
fn history(subject: &Subject, settings: &Settings, ground: &Ground) -> Option<Violation> {
    if !subject.oracles.contains(&Oracle::History) {
        return None;
    }
    let mut fresh: Vec<(&Value, crate::state::State)> = Vec::new();
    for (step, reached) in ground.steps.iter().zip(&ground.expected.states) {
        let Some(spec) = &step.spec else { continue };
        let known = fresh.iter().position(|(known, _)| *known == spec);
        let at = match known {
            Some(at) => at,
            None => {
                let steps = Arc::new(vec![Step::apply("create", spec.clone())]);
                let outcome = undisturbed(subject, settings.seed, &steps, &ground.noise, false);
                // What may not be created like this may still be come to.
                let Some(state) =
                    outcome.expected.states.into_iter().next().filter(|_| outcome.refused.is_none())
                else {
                    continue;
                };
                fresh.push((spec, state));
                fresh.len() - 1
            }
        };
        let touched = &ground.expected.touched;
        if let Some(difference) = reached.difference_to(&fresh[at].1, |object| touched.contains(object)) {
            let seen =
                format!("after step `{}`, unlike when it is created like this, {difference}", step.name);
            return Some(Violation::new(Oracle::History, seen));
        }
    }
    None
}

/// The runs of one level, as many as there are or may be.
fn descend(
    subject: &Subject,
    settings: &Settings,
    ground: &Ground,
    level: Level,
    began: Instant,
    told: &mut impl FnMut(Told),
) -> Result<(), Error> {
    #[allow(clippy::disallowed_methods, reason = "how long people wait is real time")]
    let now = Instant::now();
    let deadline = match (settings.time, level) {
        (Some(time), _) => Some(began + time),
        (None, Level::Singles) => None,
        // There is no end of them.
        (None, _) => Some(now + ENDLESS),
    };
    let mut choice = Choice {
        faults: settings.faults.clone(),
        chances: Vec::new(),
        random: None,
        most: settings.runs,
        deadline,
    };
    if level == Level::Singles {
        choice.chances = vec![1.0];
        return branch_off(subject, settings, ground, choice, settings.seed, &mut *told).map(|_| ());
    }
    // In passes, each with some of them: when time is over, no step was left out.
    for pass in 0.. {
        if is_late(deadline) || choice.most == 0 {
            break;
        }
        let mut of_pass = choice.clone();
        match level {
            Level::Pairs => of_pass.chances = PAIRS.to_vec(),
            _ => {
                of_pass.most = choice.most.min(RANDOM_RUNS);
                of_pass.random = Some(RANDOM_FAULTS / ground.expected.calls.max(1) as f64);
            }
        }
        let made = branch_off(subject, settings, ground, of_pass, settings.seed ^ (pass << 32), &mut *told)?;
        if made == 0 {
            break;
        }
        choice.most -= made.min(choice.most);
    }
    Ok(())
}

/// One undisturbed run, and those that branch off from it; how many these are.
fn branch_off(
    subject: &Subject,
    settings: &Settings,
    ground: &Ground,
    choice: Choice,
    seed: u64,
    told: &mut impl FnMut(Told),
) -> Result<usize, Error> {
    let impossible = |why: std::io::Error| Error::new(format!("runs can't be made: {why}"));
    let (desk, way) = Desk::open().map_err(impossible)?;
    let brancher = Brancher::new(choice, seed, settings.cores, way);
    let trunk = Apart::run(|| trunk(subject, settings, ground, brancher)).map_err(impossible)?;
    let mut runs = 0;
    let mut take = |one| {
        runs += 1;
        told(one);
    };
    loop {
        match desk.take() {
            Some(one) => take(one),
            None if trunk.has_ended() => break,
            None => {}
        }
    }
    while let Some(one) = desk.take() {
        take(one);
    }
    Ok(runs)
}

/// The undisturbed run, from which all others branch off. What branches off comes out here, too.
fn trunk(subject: &Subject, settings: &Settings, ground: &Ground, brancher: Brancher) {
    let outcome = run(
        subject,
        Attempt {
            steps: ground.steps.clone(),
            plan: Vec::new(),
            seed: settings.seed,
            noise: ground.noise.clone(),
            expected: Some(ground.expected.clone()),
            brancher: Some(brancher),
            rests_often: false,
            logs: false,
        },
    );
    let digest = outcome.digest();
    if let Some(mut brancher) = outcome.brancher {
        brancher.close();
        if !outcome.struck.is_empty() {
            brancher.tell(&outcome.struck, outcome.violations, outcome.sometimes, digest);
        }
    }
}
