//! Which runs are made: the undisturbed one, with and without its past, then one for every fault at every step, then
//! pairs, then by chance, also of other scenarios.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    Error, Level, Progress, Settings,
    branch::{Brancher, Choice, Crew, Told, is_late},
    draft::{chain, draft},
    finding::{Finding, Plan, Report},
    known::Known,
    oracle::{Oracle, Violation},
    plan::Fault,
    run::{Attempt, Outcome, run},
    scenario::Step,
    shrink::shrink,
    state::{Noise, OUTSIDE, State},
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
/// How many of the single faults are tried on each scenario that was made up by chance.
const OF_CHAIN: f64 = 0.1;
/// How many findings of an oracle are looked into.
const MOST_ALIKE: usize = 3;

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
    passed: Vec<u64>,
    known: Known,
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
    fn plan(&self, subject: &Subject, settings: &Settings) -> Plan {
        plan(subject, settings, &self.steps)
    }

    /// How many runs there are with one fault.
    fn singles(&self, faults: &[Fault]) -> usize {
        let chances = |fault: &Fault| match fault {
            // There is no election in this run; it may befall every write, as this one.
            Fault::TwoLeaders => self.chances.get(&Fault::SchemaChange),
            fault => self.chances.get(fault),
        };
        faults.iter().filter_map(chances).sum()
    }
}

fn plan(subject: &Subject, settings: &Settings, steps: &[Step]) -> Plan {
    let sample = serde_json::to_value(&subject.sample).unwrap_or_default();
    Plan { sample, steps: steps.to_vec(), faults: Vec::new(), elects: false, seed: settings.seed }
}

pub(crate) fn search(
    subject: &Subject,
    settings: &Settings,
    given: Option<Vec<Step>>,
    progress: impl FnMut(Progress),
) -> Result<Report, Error> {
    #[allow(clippy::disallowed_methods, reason = "how long people wait is real time")]
    let began = Instant::now();
    let steps = match given {
        Some(steps) => steps,
        None => draft(subject)?,
    };
    let report = Report::new(subject, steps.clone());
    let mut search = Search {
        subject,
        settings,
        began,
        progress,
        report,
        met: BTreeSet::new(),
        left: settings.runs,
        known: BTreeSet::new(),
    };
    if let Some(ground) = search.ground(steps)? {
        search.report.steps = ground.steps.to_vec();
        search.report.undisturbed.clone_from(&ground.trace);
        search.explore(&ground)?;
    }
    search.report.elapsed = began.elapsed();
    search.report.number();
    Ok(search.report)
}

/// An exploration under way.
struct Search<'s, P> {
    subject: &'s Subject,
    settings: &'s Settings,
    began: Instant,
    progress: P,
    report: Report,
    /// Those demands that are to be met at some time, and were.
    met: BTreeSet<usize>,
    /// How many runs may still be made.
    left: usize,
    /// Those oracles that do not hold even undisturbed.
    known: BTreeSet<Oracle>,
}

/// What the runs of a scenario came to that must not be: those together of which the same oracle says that it does not hold
/// after the same fault at the same call, in whichever step.
#[derive(Default)]
struct Found(BTreeMap<(Oracle, String), Alike>);

type Alike = Vec<(Violation, Told)>;

impl Found {
    /// Remembers a run that came to something that must not be.
    fn note(&mut self, one: &Told, oracles: &BTreeSet<Oracle>) {
        for violation in one.violations.iter().filter(|violation| oracles.contains(&violation.oracle)) {
            let fault = one.faults.first().map(|first| format!("{} at {}", first.fault, first.point.call));
            let key = (violation.oracle, fault.unwrap_or_default());
            self.0.entry(key).or_default().push((violation.clone(), one.clone()));
        }
    }
}

impl<P: FnMut(Progress)> Search<'_, P> {
    /// The undisturbed run of a scenario, unless nothing can be compared with it. It may be a finding itself; so may be
    /// what is different without its past.
    fn ground(&mut self, steps: Vec<Step>) -> Result<Option<Ground>, Error> {
        let (ground, findings) = ground(self.subject, self.settings, steps)?;
        // What is so without faults need not be said of each of them.
        self.known.extend(findings.iter().map(|finding| finding.violation.oracle));
        self.report.findings.extend(findings);
        let Some(ground) = ground else { return Ok(None) };
        self.met.extend(&ground.sometimes);
        if let Some(violation) = history(self.subject, &ground) {
            self.report.findings.push(self.alone(violation, &ground));
        }
        Ok(Some(ground))
    }

    fn alone(&self, violation: Violation, ground: &Ground) -> Finding {
        Finding::alone(violation, ground.plan(self.subject, self.settings), ground.trace.clone())
    }

    fn explore(&mut self, ground: &Ground) -> Result<(), Error> {
        let mut found = Found::default();
        let total = ground.singles(&self.settings.faults).max(1);
        let chance = (self.left as f64 / total as f64).min(1.0);
        self.singles(ground, chance, Level::Singles, self.deadline(Level::Singles), &mut found)?;
        if self.settings.level >= Level::Pairs {
            self.pairs(ground, &mut found)?;
        }
        if self.settings.level >= Level::Random {
            self.random(ground, &mut found)?;
        }
        self.look_into(ground, found);
        for (at, demand) in self.subject.demands.sometimes.iter().enumerate() {
            if !self.met.contains(&at) {
                let seen = format!("in no run, at no moment: {}", demand.name);
                self.report.findings.push(self.alone(Violation::new(Oracle::Sometimes, seen), ground));
            }
        }
        Ok(())
    }

    fn deadline(&self, level: Level) -> Option<Instant> {
        #[allow(clippy::disallowed_methods, reason = "how long people wait is real time")]
        let now = Instant::now();
        match (self.settings.time, level) {
            // What comes after pairs gets its share.
            (Some(time), Level::Pairs) if self.settings.level > level => {
                Some(now + time.saturating_sub(now - self.began) / 2)
            }
            (Some(time), _) => Some(self.began + time),
            (None, Level::Singles) => None,
            // There is no end of them.
            (None, _) => Some(now + ENDLESS),
        }
    }

    /// Those oracles that have something to say of runs with faults.
    fn judging(&self) -> BTreeSet<Oracle> {
        self.settings.oracles.difference(&self.known).copied().collect()
    }

    fn is_over(&self, deadline: Option<Instant>) -> bool {
        self.left == 0 || is_late(deadline) || (self.settings.stop)()
    }

    fn choice(&self, faults: &[Fault], deadline: Option<Instant>) -> Choice {
        let faults = faults.to_vec();
        Choice { faults, chances: Vec::new(), random: None, most: self.left, elects: false, deadline }
    }

    /// Every fault at every step, or each with some chance.
    fn singles(
        &mut self,
        ground: &Ground,
        chance: f64,
        level: Level,
        deadline: Option<Instant>,
        found: &mut Found,
    ) -> Result<(), Error> {
        let is_of_leaders = |fault: &&Fault| **fault == Fault::TwoLeaders;
        let (of_leaders, others): (Vec<Fault>, Vec<Fault>) =
            self.settings.faults.iter().partition(is_of_leaders);
        for (faults, elects) in [(others, false), (of_leaders, true)] {
            if !faults.is_empty() && !self.is_over(deadline) {
                let choice = self.choice(&faults, deadline);
                let choice = Choice { chances: vec![chance], elects, ..choice };
                self.branch_off(ground, choice, self.settings.seed, level, found)?;
            }
        }
        Ok(())
    }

    /// Pairs of faults, in passes, each with some of them: when time is over, no step was left out.
    fn pairs(&mut self, ground: &Ground, found: &mut Found) -> Result<(), Error> {
        let deadline = self.deadline(Level::Pairs);
        let left_after = if self.settings.level > Level::Pairs { self.left / 2 } else { 0 };
        for pass in 0.. {
            if self.is_over(deadline) || self.left <= left_after {
                break;
            }
            // An election takes time, so there is one only now and then.
            let choice = self.choice(&self.settings.faults, deadline);
            let most = self.left - left_after;
            let choice = Choice { chances: PAIRS.to_vec(), elects: pass % 8 == 7, most, ..choice };
            if self.branch_off(ground, choice, self.seed(pass), Level::Pairs, found)? == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Several faults by chance; and changes by chance, with single faults.
    fn random(&mut self, ground: &Ground, found: &mut Found) -> Result<(), Error> {
        let deadline = self.deadline(Level::Random);
        for pass in 0.. {
            if self.is_over(deadline) {
                break;
            }
            if pass % 2 == 1 {
                self.chain(self.seed(pass), deadline)?;
                continue;
            }
            let choice = self.choice(&self.settings.faults, deadline);
            let choice = Choice {
                most: self.left.min(RANDOM_RUNS),
                random: Some(RANDOM_FAULTS / ground.expected.calls.max(1) as f64),
                elects: pass % 8 == 6,
                ..choice
            };
            if self.branch_off(ground, choice, self.seed(pass), Level::Random, found)? == 0 {
                break;
            }
        }
        Ok(())
    }

    fn seed(&self, pass: u64) -> u64 {
        self.settings.seed ^ (pass << 32)
    }

    /// A scenario that was made up by chance: by itself, without its past, and with some of the single faults.
    fn chain(&mut self, seed: u64, deadline: Option<Instant>) -> Result<(), Error> {
        let steps = chain(self.subject, seed)?;
        let Some(ground) = self.ground(steps)? else { return Ok(()) };
        let mut found = Found::default();
        self.singles(&ground, OF_CHAIN, Level::Random, deadline, &mut found)?;
        self.look_into(&ground, found);
        Ok(())
    }

    /// One undisturbed run, and those that branch off from it; how many these are.
    fn branch_off(
        &mut self,
        ground: &Ground,
        choice: Choice,
        seed: u64,
        level: Level,
        found: &mut Found,
    ) -> Result<usize, Error> {
        let impossible = |why: std::io::Error| Error::new(format!("runs can't be made: {why}"));
        let (subject, settings, elects) = (self.subject, self.settings, choice.elects);
        let total =
            (level == Level::Singles).then(|| ground.singles(&self.settings.faults).min(settings.runs));
        let (mut runs, mut again) = (0, Vec::new());
        let crew = Crew::set_out(settings, |way| {
            let (passed, known) = (&ground.passed, ground.known.clone());
            let brancher = Brancher::new(choice.clone(), seed, settings.cores, way, passed, known);
            trunk(subject, settings, ground, brancher, elects);
        });
        crew.map_err(impossible)?.gather(settings, |one| {
            runs += 1;
            let has_ended = one.digest != 0 || one.is_known;
            if settings.again > 0 && runs % settings.again == 0 && has_ended {
                again.push(one.clone());
            }
            self.take(one, ground, level, total, found);
        });
        self.left -= runs.min(self.left);
        if !again.is_empty() {
            let crew = Crew::set_out(settings, |way| make_again(subject, settings, ground, &again, way));
            crew.map_err(impossible)?.gather(settings, |one| {
                self.report.made_again += 1;
                found.note(&one, &self.judging());
            });
        }
        Ok(runs)
    }

    /// What a run came to.
    fn take(&mut self, one: Told, ground: &Ground, level: Level, total: Option<usize>, found: &mut Found) {
        let is_of = |step: &Step| one.faults.first().is_some_and(|first| first.point.step == step.name);
        let step = ground.steps.iter().position(is_of).map_or(0, |at| at + 1);
        self.met.extend(&one.sometimes);
        self.report.runs += 1;
        self.report.known += usize::from(one.is_known);
        found.note(&one, &self.judging());
        let (steps, runs) = (ground.steps.len(), self.report.runs);
        let findings = found.0.len() + self.report.findings.len();
        (self.progress)(Progress { level, step, steps, runs, total, findings });
    }

    /// Makes findings of what runs came to: the first few of each oracle, each by the shortest plan that still comes to
    /// the same.
    fn look_into(&mut self, ground: &Ground, found: Found) {
        let mut alike: BTreeMap<Oracle, usize> = BTreeMap::new();
        // In the order of the scenario, in whichever order they came in.
        let place = |(_, told): &(Violation, Told)| {
            let first = told.faults.first().map(|first| first.point.clone()).unwrap_or_default();
            (ground.steps.iter().position(|step| step.name == first.step), first)
        };
        let mut found: Vec<Alike> = found.0.into_values().collect();
        found.iter_mut().for_each(|alike| alike.sort_by_cached_key(place));
        found.sort_by_cached_key(|alike| alike.first().map(place));
        for alike_runs in found {
            let violation = alike_runs[0].0.clone();
            let runs: Vec<Told> = alike_runs.into_iter().map(|(_, told)| told).collect();
            let known = alike.entry(violation.oracle).or_default();
            *known += 1;
            if *known > MOST_ALIKE {
                *self.report.more.entry(violation.oracle).or_default() += 1;
            } else {
                let deadline = self.settings.time.map(|time| self.began + time);
                let found = finding(self.subject, self.settings, ground, violation, &runs, deadline);
                self.report.findings.push(found);
            }
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
    deadline: Option<Instant>,
) -> Finding {
    let first = &alike[0];
    let plan = Plan { faults: first.faults.clone(), elects: first.elects, ..ground.plan(subject, settings) };
    if first.digest == 0 {
        // It died, or did not end: it would take this process along.
        return Finding::new(violation, plan, ground, ground.trace.clone(), alike.len());
    }
    let again = replay(subject, settings, ground, &plan, false);
    if again.digest(first.happened) != first.digest && violation.oracle != Oracle::Replay {
        let seen = format!(
            "a run with the same plan went another way; before, it was {}: {}",
            violation.oracle, violation.seen
        );
        return Finding::new(Violation::new(Oracle::Replay, seen), plan, ground, again.trace, alike.len());
    }
    let shrunk = shrink(subject, settings, ground, plan, again, violation.oracle, deadline);
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
    plan: &Plan,
    logs: bool,
) -> Outcome {
    let attempt = Attempt {
        plan: plan.faults.clone(),
        elects: plan.elects,
        expected: Some(ground.expected.clone()),
        logs,
        ..Attempt::undisturbed(&ground.steps, settings.seed, &ground.noise)
    };
    run(subject, attempt)
}

/// One plan, with full account of what it comes to.
pub(crate) fn again(subject: &Subject, settings: &Settings, plan: &Plan) -> Result<Report, Error> {
    #[allow(clippy::disallowed_methods, reason = "how long people wait is real time")]
    let began = Instant::now();
    let mut report = Report::new(subject, plan.steps.clone());
    let (ground, findings) = ground(subject, settings, plan.steps.clone())?;
    let known: BTreeSet<Oracle> = findings.iter().map(|finding| finding.violation.oracle).collect();
    report.findings = findings;
    match ground {
        None => {}
        Some(ground) => {
            let outcome = replay(subject, settings, &ground, plan, true);
            let missed = plan.faults.iter().find(|planned| !outcome.struck.contains(planned));
            if let Some(missed) = missed {
                return Err(Error::new(format!("the operator does not come to {} any more", missed.point)));
            }
            let found = |violation| Finding::new(violation, plan.clone(), &ground, outcome.trace.clone(), 1);
            let violations = outcome.violations.iter().filter(|one| !known.contains(&one.oracle));
            report.findings.extend(violations.cloned().map(found));
            let undone = history(subject, &ground);
            report.findings.extend(
                undone.map(|violation| Finding::alone(violation, plan.clone(), ground.trace.clone())),
            );
            report.undisturbed = ground.trace;
            report.replayed = outcome.trace;
            report.runs = 1;
        }
    }
    report.elapsed = began.elapsed();
    report.number();
    Ok(report)
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
fn ground(
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
fn history(subject: &Subject, ground: &Ground) -> Option<Violation> {
    let (resource, touched) = (subject.object_name(), &ground.expected.touched);
    let reached = ground.expected.states.iter().zip(&ground.expected.fresh);
    ground.steps.iter().zip(reached).find_map(|(step, (reached, fresh))| {
        let fresh = fresh.as_ref()?;
        let is_own = |object: &str| touched.contains(object) || object.starts_with(OUTSIDE);
        reached.difference_to(fresh, is_own)?;
        let [reached, fresh] = [reached, fresh].map(|state| state.without_generation_of(&resource));
        let is_known = |object: &str| is_own(object) || object.ends_with("(the generation)");
        let difference = reached.difference_to(&fresh, is_known)?;
        let seen = format!("after step `{}`, unlike when it is created like this, {difference}", step.name);
        Some(Violation::new(Oracle::History, seen))
    })
}

/// The undisturbed run, from which all others branch off. What branches off comes out here, too.
fn trunk(subject: &Subject, settings: &Settings, ground: &Ground, brancher: Brancher, elects: bool) {
    let attempt = Attempt {
        expected: Some(ground.expected.clone()),
        brancher: Some(brancher),
        elects,
        ..Attempt::undisturbed(&ground.steps, settings.seed, &ground.noise)
    };
    let outcome = run(subject, attempt);
    let happened = outcome.length();
    let digest = outcome.digest(happened);
    if let Some(mut brancher) = outcome.brancher {
        brancher.close();
        if !outcome.struck.is_empty() {
            // After a stale read not everything is judged.
            let is_judged = outcome.struck.iter().all(|planned| planned.fault != Fault::StaleRead);
            if is_judged && outcome.violations.is_empty() {
                brancher.teach(&outcome.passed);
            }
            let Outcome { struck: faults, violations, sometimes, is_known, .. } = outcome;
            brancher.tell(Told { faults, violations, sometimes, digest, happened, is_known, elects });
        }
    }
}

/// Makes runs again from their beginning, and tells which went another way.
fn make_again(
    subject: &Subject,
    settings: &Settings,
    ground: &Ground,
    made: &[Told],
    way: std::os::unix::net::UnixDatagram,
) {
    let nothing = Known::of(&[]);
    let mut brancher = Brancher::new(Choice::none(), settings.seed, settings.cores, way, &[], nothing);
    brancher.begin();
    let made_again = made.iter().find(|told| brancher.split(&told.faults));
    let Some(before) = made_again else { return brancher.close() };
    let plan =
        Plan { faults: before.faults.clone(), elects: before.elects, ..ground.plan(subject, settings) };
    let outcome = replay(subject, settings, ground, &plan, false);
    let digest = outcome.digest(before.happened);
    // What was known without being made is made for the first time.
    let was_made = before.digest != 0;
    let is_other = was_made && digest != before.digest && subject.oracles.contains(&Oracle::Replay);
    let seen = || Violation::new(Oracle::Replay, "a run with the same plan went another way");
    let mut violations: Vec<Violation> = is_other.then(seen).into_iter().collect();
    // This one is followed to its end, though it may be known how it goes on.
    if before.violations.is_empty() {
        violations.extend(outcome.violations);
    }
    let faults = before.faults.clone();
    brancher.tell(Told { faults, violations, digest, happened: before.happened, ..Told::default() });
}
