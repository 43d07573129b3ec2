//! The undisturbed run, which all others are compared with: what it comes to, what of that is chance, and whether its past
//! shows.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    Error, Settings,
    finding::{Finding, Plan},
    known::Known,
    oracle::{Oracle, Violation},
    plan::Fault,
    run::{Attempt, Outcome, run},
    scenario::Step,
    state::{Noise, OUTSIDE, State},
    subject::Subject,
    wire::Expected,
};

/// Those oracles that a run may violate undisturbed, and still show what faults do to it.
const BEARABLE: [Oracle; 6] =
    [Oracle::Destruction, Oracle::Leaks, Oracle::Status, Oracle::Rights, Oracle::Always, Oracle::Eventually];

/// What is known of the undisturbed run.
pub(crate) struct Ground {
    pub(crate) steps: Arc<Vec<Step>>,
    pub(crate) noise: Arc<Noise>,
    pub(crate) expected: Arc<Expected>,
    pub(crate) trace: Vec<crate::trace::Entry>,
    pub(crate) sometimes: Vec<usize>,
    /// How often each fault could have struck.
    chances: BTreeMap<Fault, usize>,
    /// What each spec comes to if it is the first, as far as that is wanted and allowed.
    pub(crate) fresh: Fresh,
    /// The moments of the run, and all from which on it is known that all goes well.
    pub(crate) passed: Vec<u64>,
    pub(crate) known: Known,
}

/// What specs come to if they are the first.
pub(crate) type Fresh = Arc<Vec<(Step, State)>>;

impl Ground {
    pub(crate) fn new(steps: Arc<Vec<Step>>, noise: Arc<Noise>, fresh: Fresh, outcome: Outcome) -> Self {
        let Outcome { expected, trace, sometimes, chances, passed, .. } = outcome;
        let of_step = |step: &Step| {
            let known = fresh.iter().find(|(known, _)| known.asks_for_the_same(step));
            known.map(|(_, state)| state.clone())
        };
        let known = Known::of(&passed);
        let expected = Arc::new(Expected { fresh: steps.iter().map(of_step).collect(), ..expected });
        Self { steps, noise, expected, trace, sometimes, chances, fresh, passed, known }
    }

    /// The plan of the undisturbed run.
    pub(crate) fn plan(&self, subject: &Subject, settings: &Settings) -> Plan {
        plan(subject, settings, &self.steps)
    }

    /// How many runs there are with one fault.
    pub(crate) fn singles(&self, faults: &[Fault]) -> usize {
        let chances = |fault: &Fault| match fault {
            // There is no election in this run; it may befall every write, as this one.
            Fault::TwoLeaders => self.chances.get(&Fault::SchemaChange),
            fault => self.chances.get(fault),
        };
        faults.iter().filter_map(chances).sum()
    }
}

pub(crate) fn plan(subject: &Subject, settings: &Settings, steps: &[Step]) -> Plan {
    let sample = serde_json::to_value(&subject.sample).unwrap_or_default();
    Plan { sample, steps: steps.to_vec(), faults: Vec::new(), elects: false, seed: settings.seed }
}

/// A run without faults.
pub(crate) fn undisturbed(
    subject: &Subject,
    seed: u64,
    steps: &Arc<Vec<Step>>,
    noise: &Arc<Noise>,
) -> Outcome {
    run(subject, Attempt::undisturbed(steps, seed, noise))
}

/// The undisturbed run: with the seed, with another to see what differs by chance, and with the first again; and what is
/// wrong with it. There is none if nothing can be compared with it.
pub(crate) fn ground(
    subject: &Subject,
    settings: &Settings,
    mut steps: Vec<Step>,
) -> Result<(Option<Ground>, Vec<Finding>), Error> {
    let quiet = Arc::new(Noise::default());
    let (first, once, other) = loop {
        let scenario = Arc::new(steps.clone());
        let attempt = |seed| Attempt::undisturbed(&scenario, seed, &quiet);
        let (first, [once, other]) = both(
            || run(subject, Attempt { rests_often: true, ..attempt(settings.seed) }),
            || {
                let other = Attempt { is_shifted: true, ..attempt(settings.seed.wrapping_add(1)) };
                [attempt(settings.seed), other].map(|attempt| run(subject, attempt))
            },
        );
        match first.refused {
            // Not every change is allowed after every other.
            Some((name, why)) => {
                let at = steps.iter().position(|step| step.name == name);
                let at = at
                    .filter(|at| *at > 0)
                    .ok_or_else(|| Error::new(format!("the sample is refused: {why}")))?;
                steps.remove(at);
            }
            None => break (first, once, other),
        }
    };
    let steps = Arc::new(steps);
    let plan = plan(subject, settings, &steps);
    let found = |violation| Finding::alone(violation, plan.clone(), first.trace.clone());
    let findings: Vec<Finding> = first.violations.iter().cloned().map(found).collect();
    let is_unbearable = |finding: &Finding| !BEARABLE.contains(&finding.violation.oracle);
    if first.is_flooded || findings.iter().any(is_unbearable) {
        return Ok((None, findings));
    }
    let noise = Arc::new(Noise::of_runs(&once.expected.states, &other.expected.states));
    let (again, fresh) = both(
        || undisturbed(subject, settings.seed, &steps, &noise),
        || fresh(subject, settings, &steps, &noise),
    );
    if again.digest(usize::MAX) != once.digest(usize::MAX) {
        let at = once.trace.iter().zip(&again.trace).position(|(one, other)| one != other);
        let line = |trace: &[crate::trace::Entry]| at.and_then(|at| trace.get(at)).map(ToString::to_string);
        let seen = format!(
            "two undisturbed runs differ: {:?} and {:?}",
            line(&once.trace).unwrap_or_default(),
            line(&again.trace).unwrap_or_default()
        );
        let violation = Violation::new(Oracle::Replay, seen);
        let finding = Finding::alone(violation, plan, again.trace);
        return Ok((None, findings.into_iter().chain([finding]).collect()));
    }
    Ok((Some(Ground::new(steps, noise, Arc::new(fresh), again)), findings))
}

/// Does two things at once.
fn both<A: Send, B>(one: impl FnOnce() -> A + Send, other: impl FnOnce() -> B) -> (A, B) {
    std::thread::scope(|scope| {
        let one = scope.spawn(one);
        let other = other();
        (one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), other)
    })
}

/// What each spec of a scenario comes to without those before it.
fn fresh(subject: &Subject, settings: &Settings, steps: &[Step], noise: &Arc<Noise>) -> Vec<(Step, State)> {
    let mut fresh: Vec<(Step, State)> = Vec::new();
    if !subject.oracles.contains(&Oracle::History) {
        return fresh;
    }
    for step in steps.iter().filter(|step| step.spec.is_some()) {
        if fresh.iter().any(|(known, _)| known.asks_for_the_same(step)) {
            continue;
        }
        let alone = Step { name: "create".to_owned(), ..step.clone() };
        let outcome = undisturbed(subject, settings.seed, &Arc::new(vec![alone]), noise);
        // What may not be created like this may still be come to.
        let state = outcome.expected.states.into_iter().next().filter(|_| outcome.refused.is_none());
        fresh.extend(state.map(|state| (step.clone(), state)));
    }
    fresh
}

/// Whether each spec comes to the same without those before it. How many there were may show.
pub(crate) fn history(subject: &Subject, ground: &Ground) -> Option<Violation> {
    let (resource, touched) = (subject.object_name(), &ground.expected.touched);
    let reached = ground.expected.states.iter().zip(&ground.expected.fresh);
    ground.steps.iter().zip(reached).enumerate().find_map(|(at, (step, (reached, fresh)))| {
        let fresh = fresh.as_ref()?;
        // What a status says of the cluster may show what was there before, but not once that was so already.
        let is_undone = ground.steps[..at].iter().any(|before| before.asks_for_the_same(step));
        let is_own = |object: &str| {
            touched.contains(object) || is_undone && object == resource || object.starts_with(OUTSIDE)
        };
        reached.difference_to(fresh, is_own)?;
        let [reached, fresh] = [reached, fresh].map(|state| state.without_generation_of(&resource));
        let is_known = |object: &str| is_own(object) || object.ends_with("(the generation)");
        let difference = reached.difference_to(&fresh, is_known)?;
        let seen = format!("after step `{}`, unlike when it is created like this, {difference}", step.name);
        Some(Violation::new(Oracle::History, seen))
    })
}
