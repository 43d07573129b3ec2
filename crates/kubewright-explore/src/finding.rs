//! What was found, and how it is told to people and to programs.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    ground::Ground,
    html,
    oracle::{Oracle, Violation},
    plan::Planned,
    scenario::Step,
    subject::Subject,
    timeline::{Row, side_by_side},
    trace::Entry,
};

/// Where the book tells of oracles.
const BOOK: &str = "docs/howto/reliability.md";
/// How many lines of timelines are shown before and after what matters.
const AROUND: usize = 6;
const WIDTH: usize = 62;

/// All it takes to make a run again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The resource, as it is created first.
    pub sample: Value,
    /// What the user does.
    pub steps: Vec<Step>,
    /// What is done to the operator.
    pub faults: Vec<Planned>,
    /// Whether replicas elect a leader.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub elects: bool,
    /// The seed of everything that is random.
    pub seed: u64,
}

/// Something that must not be.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// What did not hold, and what was seen.
    #[serde(flatten)]
    pub violation: Violation,
    /// What that means, and what usually mends it.
    pub explanation: &'static str,
    /// Where the book tells more.
    pub book: String,
    /// How to see it again.
    pub plan: Plan,
    /// What happened.
    pub trace: Vec<Entry>,
    /// What happened in the undisturbed run.
    pub undisturbed: Vec<Entry>,
    /// How many runs came to the same.
    pub runs: usize,
    /// The how-manieth of its oracle and its fault it is in a report.
    #[serde(skip)]
    nth: usize,
}

impl Finding {
    pub(crate) fn new(
        violation: Violation,
        plan: Plan,
        ground: &Ground,
        trace: Vec<Entry>,
        runs: usize,
    ) -> Self {
        Self { undisturbed: ground.trace.clone(), runs, ..Self::alone(violation, plan, trace) }
    }

    /// One that there is nothing to compare with.
    pub(crate) fn alone(violation: Violation, plan: Plan, trace: Vec<Entry>) -> Self {
        let oracle = violation.oracle;
        Self {
            violation,
            explanation: oracle.explanation(),
            book: format!("{BOOK}#{}", oracle.chapter()),
            plan,
            undisturbed: trace.clone(),
            trace,
            runs: 1,
            nth: 1,
        }
    }

    /// A name for it, of which a file or a test can be made; no other of the same report has it.
    pub fn name(&self) -> String {
        match self.nth {
            1 => self.sort(),
            nth => format!("{}-{nth}", self.sort()),
        }
    }

    /// Its oracle, and the first fault.
    fn sort(&self) -> String {
        let fault = self.plan.faults.first().map_or_else(String::new, |one| format!("-{}", one.fault));
        format!("{}{fault}", self.violation.oracle)
    }

    /// A test that fails as long as this is so.
    pub fn test(&self) -> String {
        let name = self.name().replace('-', "_");
        let plan = serde_json::to_string_pretty(&self.plan).unwrap_or_default();
        let plan = plan.replace('\n', "\n        ");
        format!(
            "#[test]\nfn survives_{name}() {{\n    kubewright_explore::replay(\n        operator,\n        r##\"{plan}\"##,\n    )\n    .assert_survived();\n}}\n"
        )
    }

    /// Both timelines as a whole, without what is merely told to the operator.
    pub(crate) fn rows(&self) -> Vec<Row<'_>> {
        side_by_side(&self.undisturbed, &self.trace)
    }

    /// Both timelines around the faults and the first write that differs.
    fn timelines(&self) -> String {
        let rows = self.rows();
        let matters = |row: &Row<'_>| row.disturbed.is_some_and(|entry| entry.fault.is_some());
        let first = rows.iter().position(Row::differs);
        let marked: Vec<usize> =
            rows.iter().enumerate().filter(|(_, row)| matters(row)).map(|(at, _)| at).chain(first).collect();
        if marked.is_empty() {
            return String::new();
        }
        let is_near = |at: usize| marked.iter().any(|marked| marked.abs_diff(at) <= AROUND);
        let mut text = format!("    {:WIDTH$}   {}\n", "undisturbed", "with the faults");
        let mut last = None;
        for (at, row) in rows.iter().enumerate().filter(|(at, _)| is_near(*at)) {
            if last.is_some_and(|last| last + 1 < at) {
                text.push_str("    ...\n");
            }
            last = Some(at);
            let cell = |entry: Option<&Entry>| entry.map(short).unwrap_or_default();
            let mark = match Some(at) == first {
                true => "=>",
                false => "",
            };
            let _ = writeln!(text, " {mark:2} {:WIDTH$} | {}", cell(row.undisturbed), cell(row.disturbed));
        }
        text
    }
}

/// An entry on half a line.
fn short(entry: &Entry) -> String {
    let mut text = format!("{:.1}s {}", entry.at.as_secs_f64(), entry.text);
    if entry.code != 0 {
        let _ = write!(text, " {}", entry.code);
    }
    if let Some(fault) = entry.fault {
        let _ = write!(text, " <-- {fault}");
    }
    match text.char_indices().nth(WIDTH) {
        Some((end, _)) if entry.fault.is_none() => format!("{}…", &text[..text.floor_char_boundary(end - 1)]),
        _ => text,
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let oracle = self.violation.oracle;
        writeln!(f, "{oracle}: {}", self.violation.seen)?;
        match self.plan.faults.as_slice() {
            [] => writeln!(f, "  in the undisturbed run")?,
            faults => {
                for fault in faults {
                    writeln!(f, "  after {fault}")?;
                }
            }
        }
        let steps: Vec<&str> = self.plan.steps.iter().map(|step| &*step.name).collect();
        writeln!(f, "  steps: {}", steps.join(", "))?;
        if self.runs > 1 {
            writeln!(f, "  and {} other runs that came to the same", self.runs - 1)?;
        }
        if !self.plan.faults.is_empty() {
            writeln!(f, "\n{}", self.timelines())?;
        }
        writeln!(f, "  {} ({})", self.explanation, self.book)
    }
}

/// What an exploration came to.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The operator.
    pub operator: String,
    /// What the user did.
    pub steps: Vec<Step>,
    /// How many runs there were with a fault.
    pub runs: usize,
    /// How many of them were made again from their beginning, to see that they go the same way.
    pub made_again: usize,
    /// How many of them came to where others had been before, and were not followed any further.
    pub known: usize,
    /// What must not be.
    pub findings: Vec<Finding>,
    /// How many more there are of each oracle, which were not looked into.
    pub more: BTreeMap<Oracle, usize>,
    /// What happened in the undisturbed run.
    pub undisturbed: Vec<Entry>,
    /// What happened in a run that was made again by its plan.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replayed: Vec<Entry>,
    /// How long it took, in real time.
    pub elapsed: Duration,
}

impl Report {
    pub(crate) fn new(subject: &Subject, steps: Vec<Step>) -> Self {
        Self {
            operator: (subject.operator)().name().to_owned(),
            steps,
            runs: 0,
            made_again: 0,
            known: 0,
            findings: Vec::new(),
            more: BTreeMap::new(),
            undisturbed: Vec::new(),
            replayed: Vec::new(),
            elapsed: Duration::ZERO,
        }
    }

    /// Gives findings that have the same oracle and fault names of their own.
    pub(crate) fn number(&mut self) {
        let mut sorts: BTreeMap<String, usize> = BTreeMap::new();
        for finding in &mut self.findings {
            let nth = sorts.entry(finding.sort()).or_default();
            *nth += 1;
            finding.nth = *nth;
        }
    }

    /// A page with the timelines of all findings: HTML in one file, that needs nothing else.
    pub fn page(&self) -> String {
        html::page(self)
    }

    /// Fails a test if something was found.
    ///
    /// # Panics
    /// With what was found.
    pub fn assert_survived(&self) {
        assert!(self.findings.is_empty(), "\n{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            writeln!(f, "{finding}")?;
        }
        for (oracle, more) in &self.more {
            writeln!(f, "{oracle}: {more} more, which may have the same cause\n")?;
        }
        let seconds = self.elapsed.as_secs_f64();
        let rate = self.runs as f64 / seconds.max(0.001);
        match self.findings.len() {
            0 => write!(f, "{} survived {} runs", self.operator, self.runs)?,
            1 => write!(f, "{}: 1 finding in {} runs", self.operator, self.runs)?,
            found => write!(f, "{}: {found} findings in {} runs", self.operator, self.runs)?,
        }
        write!(f, " ({seconds:.1} s, {rate:.0} a second)")
    }
}
