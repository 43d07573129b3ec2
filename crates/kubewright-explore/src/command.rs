//! The command line of an exploration: `explore`, in the binary of every operator.

use std::{
    ffi::OsString,
    fs,
    io::{self, IsTerminal as _, Write as _},
    path::PathBuf,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use clap::{Args, Parser, ValueEnum};
use kubewright::Operator;

use crate::{Error, Exploration, Fault, Level, Oracle, Progress, Report, explore};

/// Try every crash, stale read and lost event on the operator
#[derive(Parser)]
#[command(name = "explore", after_help = EXAMPLES)]
struct Arguments {
    #[command(flatten)]
    flags: Flags,
}

/// How an operator is explored, as it is said on a command line.
#[derive(Args, Debug, Clone)]
pub struct Flags {
    /// A resource for the operator, as YAML; without it, the only one in config/samples
    #[arg(long, short, value_name = "FILE")]
    sample: Option<PathBuf>,

    /// Which runs are made; each level has those before it
    #[arg(long, value_enum, default_value_t = Level::Singles)]
    level: Level,

    /// Make no more runs than these; those with one fault are chosen from all steps
    #[arg(long, value_name = "N")]
    runs: Option<usize>,

    /// Take no longer than this, such as 30s or 5m; pairs and random take a minute each without it
    #[arg(long, value_name = "TIME", value_parser = duration)]
    time: Option<Duration>,

    /// The seed of everything that is random
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,

    /// Only these faults
    #[arg(long, value_name = "FAULT", value_delimiter = ',', value_parser = fault)]
    faults: Vec<Fault>,

    /// Only these oracles
    #[arg(long, value_name = "ORACLE", value_delimiter = ',', value_parser = oracle)]
    oracles: Vec<Oracle>,

    /// How many runs are made at a time; one a core without it
    #[arg(long, value_name = "N")]
    cores: Option<usize>,

    /// Make every Nth run a second time, to see that it goes the same way; 0 for none
    #[arg(long, value_name = "N", default_value_t = crate::MADE_AGAIN)]
    again: usize,

    /// Make one run again, by the plan of a finding, and tell all of it
    #[arg(long, value_name = "PLAN", conflicts_with_all = ["sample", "level", "runs", "time", "seed", "faults", "again"])]
    replay: Option<PathBuf>,

    /// Write the plan of each finding into this directory
    #[arg(long, value_name = "DIRECTORY", default_value = "findings")]
    save: PathBuf,

    /// Write a page with the timelines of all findings
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// The form in which the outcome is printed
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people
    Text,
    /// One JSON object
    Json,
}

const EXAMPLES: &str = "\
Examples:
  explore
      Try every single fault at every step with the sample in config/samples.

  explore --sample my.yaml --level pairs --time 5m --html report.html
      Then pairs of faults, for five minutes in all, with a page to look at.

  explore --replay findings/end-state-crash-after.json
      Make the run of a finding again.

  explore --faults crash-before,crash-after --oracles end-state,leaks
      Only crashes, and only what is left at the end.

It ends with 0 if nothing was found, with 1 if something was, and with 2 if it could not be tried.";

/// The command line of an operator that can be explored: `explore`, and everything that
/// [`kubewright::main`] has.
///
/// ```no_run
/// # fn operator() -> kubewright::Operator { kubewright::Operator::new("example-operator") }
/// fn main() -> std::process::ExitCode {
///     kubewright_explore::main(operator)
/// }
/// ```
pub fn main(operator: impl Fn() -> Operator + Send + Sync + 'static) -> ExitCode {
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    if arguments.get(1).is_none_or(|first| first != "explore") {
        return kubewright::main_with(operator(), arguments);
    }
    arguments.remove(0);
    let name = operator().name().to_owned();
    let command = <Arguments as clap::CommandFactory>::command().bin_name(format!("{name} explore"));
    let parsed = command.try_get_matches_from(arguments);
    let arguments =
        match parsed.and_then(|matches| <Arguments as clap::FromArgMatches>::from_arg_matches(&matches)) {
            Ok(arguments) => arguments,
            Err(why) => {
                // If nobody reads it, nobody misses it.
                let _ = why.print();
                return ExitCode::from(u8::try_from(why.exit_code()).unwrap_or(2));
            }
        };
    let stop = match Interrupt::listen() {
        Ok(stop) => stop,
        Err(why) => {
            let _ = writeln!(io::stderr(), "error: can't listen for signals: {why}");
            return ExitCode::from(2);
        }
    };
    match arguments.flags.run(explore(operator).until(move || stop.has_come())) {
        Ok(report) if report.findings.is_empty() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(why) => {
            let _ = writeln!(io::stderr(), "error: {why}");
            ExitCode::from(2)
        }
    }
}

impl Flags {
    /// These flags as words, for the operator's own program; its samples are in a directory.
    pub fn words(&self, directory: &std::path::Path) -> Result<Vec<OsString>, Error> {
        let mut words = Vec::new();
        let mut say = |flag: &str, value: Option<OsString>| {
            if let Some(value) = value {
                words.push(OsString::from(format!("--{flag}")));
                words.push(value);
            }
        };
        let text = |value: String| Some(OsString::from(value));
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.clone().into_os_string());
        if self.replay.is_none() {
            let sample = match &self.sample {
                Some(sample) => sample.clone(),
                None => only_sample(directory)?,
            };
            say("sample", Some(sample.into_os_string()));
            say("level", text(self.level.to_string()));
            say("seed", text(self.seed.to_string()));
            say("again", text(self.again.to_string()));
        }
        say("runs", self.runs.map(|runs| runs.to_string().into()));
        say("time", self.time.map(|time| format!("{}s", time.as_secs()).into()));
        say("cores", self.cores.map(|cores| cores.to_string().into()));
        self.faults.iter().for_each(|fault| say("faults", text(fault.name())));
        self.oracles.iter().for_each(|oracle| say("oracles", text(oracle.name())));
        say("replay", path(&self.replay));
        say("save", Some(self.save.clone().into_os_string()));
        say("html", path(&self.html));
        let output = self.output.to_possible_value().map(|value| value.get_name().to_owned());
        say("output", output.map(OsString::from));
        Ok(words)
    }

    fn run(self, exploration: Exploration) -> Result<Report, Error> {
        let (output, page, save) = (self.output, self.html.clone(), self.save.clone());
        let is_replay = self.replay.is_some();
        let report = match &self.replay {
            Some(plan) => exploration.oracles(self.judges()).try_replay(&read(plan)?)?,
            None => self.explore(exploration)?,
        };
        if !is_replay {
            for finding in &report.findings {
                let plan = serde_json::to_string_pretty(&finding.plan).unwrap_or_default();
                write(&save.join(format!("{}.json", finding.name())), &plan)?;
            }
        }
        if let Some(page) = page {
            write(&page, &report.page())?;
        }
        let text = match output {
            Output::Json => serde_json::to_string_pretty(&report).unwrap_or_default(),
            Output::Text => told(&report, is_replay, &save),
        };
        let _ = writeln!(io::stdout(), "{text}");
        Ok(report)
    }

    fn judges(&self) -> Vec<Oracle> {
        if self.oracles.is_empty() { Oracle::ALL.to_vec() } else { self.oracles.clone() }
    }

    fn explore(self, exploration: Exploration) -> Result<Report, Error> {
        let sample = match &self.sample {
            Some(sample) => read(sample)?,
            None => read(&only_sample(std::path::Path::new("."))?)?,
        };
        let oracles = self.judges();
        let mut exploration = exploration
            .sample(sample)
            .level(self.level)
            .seed(self.seed)
            .oracles(oracles)
            .made_again(self.again);
        if let Some(runs) = self.runs {
            exploration = exploration.runs(runs);
        }
        if let Some(time) = self.time {
            exploration = exploration.time(time);
        }
        if let Some(cores) = self.cores {
            exploration = exploration.cores(cores);
        }
        if !self.faults.is_empty() {
            exploration = exploration.faults(self.faults);
        }
        #[allow(clippy::disallowed_methods, reason = "how long people wait is real time")]
        let began = Instant::now();
        let shows = io::stderr().is_terminal();
        let told = exploration.try_run(move |progress| {
            if shows {
                show(progress, began);
            }
        });
        if shows {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
        told
    }
}

/// How far it is, on one line of the terminal.
fn show(progress: Progress, began: Instant) {
    let seconds = began.elapsed().as_secs_f64();
    let rate = progress.runs as f64 / seconds.max(0.001);
    let (runs, step, steps) = (progress.runs, progress.step, progress.steps);
    let mut text = format!("{} {runs} runs", progress.level);
    if let Some(total) = progress.total {
        let done = (BAR * runs / total.max(1)).min(BAR);
        let left = total.saturating_sub(runs) as f64 / rate.max(0.001);
        text = format!("{}{} {text} of {total}, {left:.0} s left", "█".repeat(done), "░".repeat(BAR - done));
    }
    let findings = progress.findings;
    let _ = write!(
        io::stderr(),
        "\r\x1b[K{text}, {rate:.0} a second, step {step} of {steps}, {findings} findings"
    );
}

/// How long the bar is.
const BAR: usize = 20;

/// Whether somebody wants it to end.
struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on SIGINT and SIGTERM are heard. The second ends everything at once.
    fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let has_come = Arc::new(AtomicBool::new(false));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let (mut interrupt, mut terminate) = {
            let _entered = runtime.enter();
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
        };
        let tell = has_come.clone();
        std::thread::spawn(move || {
            runtime.block_on(async {
                loop {
                    tokio::select! {
                        biased;
                        _ = interrupt.recv() => {}
                        _ = terminate.recv() => {}
                    }
                    if tell.swap(true, Ordering::Relaxed) {
                        std::process::exit(INTERRUPTED);
                    }
                }
            });
        });
        Ok(Self(has_come))
    }

    fn has_come(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// As shells have it for a program that was interrupted.
const INTERRUPTED: i32 = 130;

/// The outcome for people: of a replay, everything that happened.
fn told(report: &Report, is_replay: bool, save: &std::path::Path) -> String {
    let mut text = String::new();
    if is_replay {
        for entry in &report.replayed {
            text.push_str(&format!("{entry}\n"));
        }
        text.push('\n');
    }
    text.push_str(&report.to_string());
    if !report.findings.is_empty() && !is_replay {
        text.push_str(&format!(
            "\n\nTheir plans are in {}: see one again with `explore --replay FILE`.",
            save.display()
        ));
        if let Some(finding) = report.findings.first() {
            text.push_str(&format!("\nA test for the first, to be kept:\n\n{}", finding.test()));
        }
    }
    text
}

fn read(path: &std::path::Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|why| Error::new(format!("{} can't be read: {why}", path.display())))
}

fn write(path: &std::path::Path, text: &str) -> Result<(), Error> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| fs::write(path, text))
        .map_err(|why| Error::new(format!("{} can't be written: {why}", path.display())))
}

/// The sample in `config/samples` of a directory, if there is just one.
fn only_sample(directory: &std::path::Path) -> Result<PathBuf, Error> {
    let directory = directory.join("config/samples");
    let files = fs::read_dir(&directory).map_err(|why| {
        Error::new(format!("{} can't be read: {why}; name a sample with --sample", directory.display()))
    })?;
    let mut samples: Vec<PathBuf> = files
        .filter_map(|file| Some(file.ok()?.path()))
        .filter(|file| {
            let is_yaml = file.extension().is_some_and(|one| one == "yaml" || one == "yml");
            is_yaml && file.file_stem().is_none_or(|stem| stem != "kustomization")
        })
        .collect();
    samples.sort();
    match samples.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(Error::new("there is no sample in config/samples; name one with --sample")),
        several => {
            let names: Vec<String> = several.iter().map(|file| file.display().to_string()).collect();
            Err(Error::new(format!(
                "there are several samples, choose one with --sample: {}",
                names.join(", ")
            )))
        }
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| "it is written as 30s, 5m or 1h".to_owned())?;
    match unit {
        "" | "s" => Ok(Duration::from_secs(number)),
        "m" => Ok(Duration::from_secs(number * 60)),
        "h" => Ok(Duration::from_secs(number * 60 * 60)),
        _ => Err("it is written as 30s, 5m or 1h".to_owned()),
    }
}

fn fault(text: &str) -> Result<Fault, String> {
    Fault::named(text).ok_or_else(|| {
        let all: Vec<String> = Fault::all().into_iter().map(Fault::name).collect();
        format!("there are these: {}", all.join(", "))
    })
}

fn oracle(text: &str) -> Result<Oracle, String> {
    Oracle::named(text).ok_or_else(|| {
        let all: Vec<String> = Oracle::ALL.into_iter().map(Oracle::name).collect();
        format!("there are these: {}", all.join(", "))
    })
}
