//! Which runs are made: the undisturbed one, with and without its past, then one for every fault at every step, then
//! pairs, then by chance, also of other scenarios.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use crate::{
    Error, Level, Progress, Settings,
    branch::{Brancher, Choice, Crew, Told, is_late},
    draft::{chain, draft},
    finding::{Finding, Plan, Report},
    ground::{Ground, ground, history},
    known::Known,
    oracle::{Oracle, Violation},
    plan::Fault,
    run::{Attempt, Outcome, run},
    scenario::Step,
    shrink::shrink,
    subject::Subject,
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
/// For how many runs it pays to make forks cheaper.
#[cfg(target_os = "linux")]
const MANY: usize = 300;
/// How many findings of an oracle are looked into.
const MOST_ALIKE: usize = 3;

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
        if self.is_over(deadline) {
            return Ok(());
        }
        let is_of_leaders = |fault: &&Fault| **fault == Fault::TwoLeaders;
        let (of_leaders, others): (Vec<Fault>, Vec<Fault>) =
            self.settings.faults.iter().partition(is_of_leaders);
        let all = ground.singles(&self.settings.faults);
        let choice = |(faults, elects): (Vec<Fault>, bool)| {
            // Each has its share of what is left.
            let most = (self.left as f64 * ground.singles(&faults) as f64 / all as f64).round() as usize;
            let chances = vec![chance];
            Choice { chances, elects, most: most.min(self.left), ..self.choice(&faults, deadline) }
        };
        let given = [(others, false), (of_leaders, true)].into_iter();
        let choices: Vec<Choice> = given.filter(|(faults, _)| !faults.is_empty()).map(choice).collect();
        self.branch_off(ground, &choices, self.settings.seed, level, found)?;
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
            if self.branch_off(ground, &[choice], self.seed(pass), Level::Pairs, found)? == 0 {
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
            if self.branch_off(ground, &[choice], self.seed(pass), Level::Random, found)? == 0 {
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

    /// An undisturbed run for each choice, and those that branch off from them; how many these are.
    fn branch_off(
        &mut self,
        ground: &Ground,
        choices: &[Choice],
        seed: u64,
        level: Level,
        found: &mut Found,
    ) -> Result<usize, Error> {
        let impossible = |why: std::io::Error| Error::new(format!("runs can't be made: {why}"));
        let Some((first, others)) = choices.split_first() else { return Ok(0) };
        let (subject, settings) = (self.subject, self.settings);
        let total =
            (level == Level::Singles).then(|| ground.singles(&self.settings.faults).min(settings.runs));
        let (mut runs, mut again) = (0, Vec::new());
        let crew = Crew::set_out(settings, |way| {
            let make = |choice: &Choice, brancher| trunk(subject, settings, ground, brancher, choice.elects);
            let (passed, known) = (&ground.passed, ground.known.clone());
            let mut brancher = Brancher::new(first.clone(), seed, settings.cores, way, passed, known);
            for other in others {
                brancher = brancher.accompanied(other, |brancher| make(other, brancher));
            }
            #[cfg(target_os = "linux")]
            if first.about(ground.singles(&first.faults)) >= MANY {
                crate::code::enlarge();
            }
            make(first, brancher);
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
