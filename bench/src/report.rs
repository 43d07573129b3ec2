//! The figures for people and for programs.

use std::fs;

use serde_json::{Map, Value, json};

use crate::{
    client::Protocol,
    measure::{Measure, number},
};

/// What a run has found.
pub(crate) struct Report {
    pub(crate) measures: Vec<Measure>,
    /// Our operator compared with another one, by its name.
    pub(crate) operators: Vec<(String, Vec<Measure>)>,
    /// What the embedded server and the reference say they are.
    pub(crate) versions: Vec<String>,
    /// Whether the reference's etcd does not wait for the disk.
    pub(crate) no_fsync: bool,
    pub(crate) machine: String,
    pub(crate) protocol: Protocol,
    pub(crate) rounds: u32,
}

impl Report {
    /// Tables.
    pub(crate) fn text(&self, colour: bool) -> String {
        let mut text = format!("{}\n", self.conditions());
        if !self.measures.is_empty() {
            text += &table("embedded", "reference", &self.measures, colour);
        }
        for (peer, measures) in &self.operators {
            text += &table("kubewright", peer, measures, colour);
        }
        text
    }

    /// Under which conditions the figures hold.
    pub(crate) fn conditions(&self) -> String {
        let protocol = match self.protocol {
            Protocol::Http1 => "HTTP/1.1",
            Protocol::Http2 => "HTTP/2",
        };
        let etcd = if self.no_fsync { "etcd that does not wait for the disk" } else { "etcd" };
        let reference =
            self.versions.get(1).map(|version| format!(" and kube-apiserver {version} with {etcd}"));
        format!(
            "Kubewright {} (as {}){}; {}; {protocol} over TLS on loopback, median of {} rounds",
            env!("CARGO_PKG_VERSION"),
            self.versions.first().map_or("", String::as_str),
            reference.unwrap_or_default(),
            self.machine,
            self.rounds,
        )
    }

    /// The same for programs.
    pub(crate) fn json(&self) -> Value {
        let operators: Map<String, Value> = self
            .operators
            .iter()
            .map(|(peer, measures)| (peer.clone(), values("kubewright", peer, measures)))
            .collect();
        json!({
            "conditions": self.conditions(),
            "measures": values("embedded", "reference", &self.measures),
            "operators": operators,
        })
    }
}

fn table(ours: &str, theirs: &str, measures: &[Measure], colour: bool) -> String {
    let mut rows: Vec<[String; 6]> = vec![["", ours, theirs, "better by", "target", ""].map(str::to_owned)];
    rows.extend(measures.iter().map(|measure| {
        let with_unit = |value: f64| format!("{} {}", number(value), measure.unit).trim_end().to_owned();
        [
            measure.name.clone(),
            with_unit(measure.embedded()),
            measure.reference().map(with_unit).unwrap_or_default(),
            measure.advantage().map(|times| format!("{}×", number(times))).unwrap_or_default(),
            measure.target(),
            match measure.met() {
                Some(true) => "met",
                Some(false) => "NOT MET",
                None => "",
            }
            .to_owned(),
        ]
    }));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..6).map(width).collect();
    let mut text = "\n".to_owned();
    for row in &rows {
        let cells: Vec<String> = row
            .iter()
            .enumerate()
            .map(|(column, cell)| match column {
                0 => format!("{cell:<0$}", widths[column]),
                5 if colour && cell == "met" => format!("\u{1b}[32m{cell}\u{1b}[0m"),
                5 if colour => format!("\u{1b}[31m{cell}\u{1b}[0m"),
                5 => cell.clone(),
                _ => format!("{cell:>0$}", widths[column]),
            })
            .collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

fn values(ours: &str, theirs: &str, measures: &[Measure]) -> Value {
    let value = |measure: &Measure| {
        json!({
            "name": measure.name,
            "unit": measure.unit,
            ours: measure.embedded(),
            theirs: measure.reference(),
            "betterBy": measure.advantage(),
            "target": measure.target(),
            "met": measure.met(),
        })
    };
    measures.iter().map(value).collect()
}

/// The class of this machine: cores and memory.
pub(crate) fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let read = |path: &str, name: &str| {
        let text = fs::read_to_string(path).unwrap_or_default();
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.trim().strip_prefix(':').map(str::to_owned));
        line.map(|value| value.trim().to_owned())
    };
    let model = read("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let kilobytes =
        read("/proc/meminfo", "MemTotal").and_then(|text| text.trim_end_matches(" kB").parse::<f64>().ok());
    let memory = kilobytes.map(|size| format!(", {:.0} GiB", size / f64::from(1 << 20))).unwrap_or_default();
    format!("{cores} cores ({model}){memory}")
}
