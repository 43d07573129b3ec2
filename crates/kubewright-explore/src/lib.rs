//! The reliability explorer: tries every crash, stale read and lost event on an operator, and tells what it does not
//! survive.
//!
//! An operator, an API server, the controllers of a cluster and its nodes run in one thread, on one virtual clock, from
//! one seed. So the same [plan](Planned) gives the same run, and a run takes hundredths of a second: every single fault can be
//! tried at every single step. All it needs is the operator and a sample of its resource.
//!
//! - `scenario`, `draft`, `edits`: what a user does with the resource
//! - `wire`: the line between operator and server, on which things go wrong
//! - `branch`, `code`: a run goes two ways wherever a fault may strike
//! - `run`, `supervisor`: one run, from its beginning to its end
//! - `ground`: the undisturbed run, and what of it is chance
//! - `lookout`, `moment`, `known`: where a run comes to what is known, and ends early
//! - `state`: what a cluster comes to, without what differs from run to run
//! - `oracle`, `readiness`, `secrets`: what must hold
//! - `search`, `shrink`: which runs are made, and which of them are told of
//! - `finding`, `timeline`, `html`: what is told

mod branch;
mod call;
#[cfg(target_os = "linux")]
mod code;
mod command;
mod draft;
mod edits;
mod finding;
mod ground;
mod html;
mod known;
mod logs;
mod lookout;
mod moment;
mod oracle;
mod plan;
mod readiness;
mod run;
mod scenario;
mod search;
mod secrets;
mod shrink;
mod state;
mod subject;
mod supervisor;
mod timeline;
mod trace;
mod wire;
mod world;

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use kubewright::Operator;

use self::subject::{Demand, Demands, Make, Subject};
pub use self::{
    command::{Flags, main},
    finding::{Finding, Plan, Report},
    oracle::{Oracle, Violation},
    plan::{Fault, Planned, Point},
    scenario::Step,
    trace::{Entry, What},
    world::World,
};

/// Why an operator could not be explored.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

impl Error {
    fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// Every run of so many is made again, if nothing is said.
const MADE_AGAIN: usize = 100;

/// Which runs are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Level {
    /// Every single fault at every single step.
    Singles,
    /// Then pairs of which the second falls into the recovery from the first.
    Pairs,
    /// Then several, by chance.
    Random,
}

/// An exploration to be set up. See [`explore`].
#[must_use = "nothing happens until it is run"]
pub struct Exploration {
    operator: Make,
    sample: Option<String>,
    steps: Option<Vec<Step>>,
    settings: Settings,
    demands: Demands,
}

#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) level: Level,
    pub(crate) runs: usize,
    pub(crate) time: Option<Duration>,
    pub(crate) seed: u64,
    pub(crate) faults: Vec<Fault>,
    pub(crate) oracles: BTreeSet<Oracle>,
    pub(crate) cores: usize,
    /// Every run of so many is made again; 0 for none.
    pub(crate) again: usize,
    /// Whether nobody wants to wait any more.
    pub(crate) stop: Arc<dyn Fn() -> bool + Send + Sync>,
}

/// Explores an operator. What is given makes it: it is made anew for every start.
///
/// ```no_run
/// # fn operator() -> kubewright::Operator { kubewright::Operator::new("example-operator") }
/// # const SAMPLE: &str = "";
/// kubewright_explore::explore(operator).sample(SAMPLE).run().assert_survived();
/// ```
pub fn explore(operator: impl Fn() -> Operator + Send + Sync + 'static) -> Exploration {
    Exploration {
        operator: Arc::new(operator),
        sample: None,
        steps: None,
        settings: Settings {
            level: Level::Singles,
            runs: usize::MAX,
            time: None,
            seed: 1,
            faults: Fault::all(),
            oracles: Oracle::ALL.into(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            again: MADE_AGAIN,
            stop: Arc::new(|| false),
        },
        demands: Demands::default(),
    }
}

impl Exploration {
    /// The resource that is created, changed and deleted, as YAML.
    pub fn sample(mut self, yaml: impl Into<String>) -> Self {
        self.sample = Some(yaml.into());
        self
    }

    /// What the user does, instead of what the schema of the resource suggests.
    pub fn steps(mut self, steps: impl IntoIterator<Item = Step>) -> Self {
        self.steps = Some(steps.into_iter().collect());
        self
    }

    /// Which runs are made: [`Level::Singles`] without this.
    pub fn level(mut self, level: Level) -> Self {
        self.settings.level = level;
        self
    }

    /// How many runs are made at most; those with one fault are then chosen from all steps.
    pub fn runs(mut self, runs: usize) -> Self {
        self.settings.runs = runs;
        self
    }

    /// How long it may take.
    pub fn time(mut self, time: Duration) -> Self {
        self.settings.time = Some(time);
        self
    }

    /// The seed of everything that is random.
    pub fn seed(mut self, seed: u64) -> Self {
        self.settings.seed = seed;
        self
    }

    /// Only these faults.
    pub fn faults(mut self, faults: impl IntoIterator<Item = Fault>) -> Self {
        self.settings.faults = faults.into_iter().collect();
        self
    }

    /// Only these oracles.
    pub fn oracles(mut self, oracles: impl IntoIterator<Item = Oracle>) -> Self {
        self.settings.oracles = oracles.into_iter().collect();
        self
    }

    /// How many runs are made at a time: one a core without this.
    pub fn cores(mut self, cores: usize) -> Self {
        self.settings.cores = cores.max(1);
        self
    }

    /// Every run of so many is made again from its beginning, to see that it goes the same way: every hundredth without
    /// this, none with 0.
    pub fn made_again(mut self, every: usize) -> Self {
        self.settings.again = every;
        self
    }

    /// Ends with what is known as soon as this says so.
    pub fn until(mut self, stop: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.settings.stop = Arc::new(stop);
        self
    }

    /// Something that must hold after every write of the operator.
    pub fn always(
        mut self,
        name: impl Into<String>,
        holds: impl Fn(&World) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.demands.always.push(Demand::new(name, holds));
        self
    }

    /// Something that must hold at the end of every step, whatever went wrong before.
    pub fn eventually(
        mut self,
        name: impl Into<String>,
        holds: impl Fn(&World) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.demands.eventually.push(Demand::new(name, holds));
        self
    }

    /// Something that must hold at some moment of some run: so it is known that it was tried.
    pub fn sometimes(
        mut self,
        name: impl Into<String>,
        holds: impl Fn(&World) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.demands.sometimes.push(Demand::new(name, holds));
        self
    }

    fn subject(&self) -> Result<Subject, Error> {
        let sample =
            self.sample.as_deref().ok_or_else(|| Error::new("there is no sample to explore with"))?;
        let mut subject = Subject::new(self.operator.clone(), sample)?;
        subject.oracles.clone_from(&self.settings.oracles);
        let namespace = subject.namespace.clone().unwrap_or_default();
        subject.demands = Demands { namespace, ..self.demands.clone() };
        Ok(subject)
    }

    /// Explores.
    ///
    /// # Panics
    /// If it can't: the sample is none of the operator's kinds, or can't be created.
    pub fn run(self) -> Report {
        #[allow(clippy::panic, reason = "a test says what is wrong by panicking")]
        self.try_run(|_| {}).unwrap_or_else(|why| panic!("{why}"))
    }

    /// Makes one run again, by its plan.
    pub fn try_replay(mut self, plan: &str) -> Result<Report, Error> {
        let plan: Plan =
            serde_json::from_str(plan).map_err(|why| Error::new(format!("this is no plan: {why}")))?;
        self.sample = Some(plan.sample.to_string());
        self.settings.seed = plan.seed;
        let subject = self.subject()?;
        let settings = self.settings;
        apart(move || search::again(&subject, &settings, &plan))
    }

    /// Explores, and tells how far it is.
    pub fn try_run(self, progress: impl FnMut(Progress) + Send) -> Result<Report, Error> {
        let subject = self.subject()?;
        let (settings, steps) = (self.settings, self.steps);
        apart(move || search::search(&subject, &settings, steps, progress))
    }
}

/// Runs something on a thread of its own: the caller may be inside of a runtime, in which none can be made.
///
/// All that it needs has to be its own: in a forked process other threads are gone, and their stacks are given to new ones.
fn apart<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        scope.spawn(run).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Makes one run again, by its plan: what a finding's own test does.
///
/// # Panics
/// If the plan can't be read, or the operator does not come to where its faults strike.
pub fn replay(operator: impl Fn() -> Operator + Send + Sync + 'static, plan: &str) -> Report {
    #[allow(clippy::panic, reason = "a test says what is wrong by panicking")]
    explore(operator).try_replay(plan).unwrap_or_else(|why| panic!("{why}"))
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Singles => "singles",
            Self::Pairs => "pairs",
            Self::Random => "random",
        })
    }
}

/// How far an exploration is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Which runs are made.
    pub level: Level,
    /// The step that the runs of now were disturbed in, and how many there are.
    pub step: usize,
    /// How many steps there are.
    pub steps: usize,
    /// How many runs were made.
    pub runs: usize,
    /// How many there are of this level, if that is known.
    pub total: Option<usize>,
    /// How many of them came to something that must not be.
    pub findings: usize,
}

impl fmt::Debug for Exploration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exploration").field("sample", &self.sample).finish_non_exhaustive()
    }
}
