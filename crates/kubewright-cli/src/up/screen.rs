//! What people see of it: on a terminal one picture that is drawn again and again, elsewhere a line for every change.

use std::{
    collections::BTreeMap,
    io::{IsTerminal as _, Write as _, stdout},
};

use super::{
    Picture,
    reconciles::{Reconcile, Reconciles},
    state::{Mood, State},
};
use crate::terminal::{line, painted};

/// How many events, and how many reconciles, a picture has.
const LATEST: usize = 5;
/// The least that is left of the names, in characters.
const SHORTEST_NAME: usize = 24;

/// Where pictures are shown.
pub(super) enum Screen {
    /// Drawn over the last one, which had so many lines.
    Terminal { drawn: usize },
    /// What was said of each resource, and of how many warnings.
    Lines { said: BTreeMap<String, State>, warnings: usize },
    /// Not at all.
    Dark,
}

impl Screen {
    pub(super) fn new() -> Self {
        match stdout().is_terminal() {
            true => Self::Terminal { drawn: 0 },
            false => Self::Lines { said: BTreeMap::new(), warnings: 0 },
        }
    }

    /// Shows how things are. A terminal also has what to do next, once that is known.
    pub(super) fn show(&mut self, picture: &Picture, reconciles: &Reconciles, footer: &[String]) {
        match self {
            Self::Dark => {}
            Self::Terminal { drawn } => {
                let (width, height) = terminal_size::terminal_size()
                    .map_or((80, 24), |(width, height)| (width.0.into(), height.0.into()));
                let lines = frame(picture, &reconciles.latest(LATEST), footer, width, height);
                // In one piece, so that nothing flickers: back to the first line, and over it.
                let up = match *drawn {
                    0 => String::new(),
                    lines => format!("\u{1b}[{lines}F"),
                };
                let text: String = lines.iter().map(|line| format!("{line}\u{1b}[K\n")).collect();
                let _ = write!(stdout(), "\u{1b}[?2026h{up}{text}\u{1b}[J\u{1b}[?2026l");
                let _ = stdout().flush();
                *drawn = lines.len();
            }
            Self::Lines { said, warnings } => {
                for branch in &picture.trees {
                    let name = branch.name();
                    if said.get(&name) != Some(&branch.state) {
                        line(&format!("{name}: {}", branch.state.text));
                        said.insert(name, branch.state.clone());
                    }
                }
                for event in picture.events.iter().filter(|event| event.is_warning).skip(*warnings) {
                    line(&event.text);
                    *warnings += 1;
                }
            }
        }
    }

    /// Everything is there: says so where [`show`](Self::show) does not.
    pub(super) fn close(&self, footer: &[String]) {
        if let Self::Lines { .. } = self {
            footer.iter().for_each(|text| line(text));
        }
    }
}

/// A picture in lines that fit on the terminal. What does not fit is left out from the end of the trees.
pub(super) fn frame(
    picture: &Picture,
    reconciles: &[Reconcile],
    footer: &[String],
    width: usize,
    height: usize,
) -> Vec<String> {
    let mut below = vec![String::new()];
    let mut section = |title: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            below.push(painted("1", title));
            below.extend(lines);
            below.push(String::new());
        }
    };
    section("Reconciled", reconciles.iter().map(|reconcile| reconciled(reconcile, width)).collect());
    let latest = picture.events.iter().rev().take(LATEST).rev();
    section(
        "Events",
        latest
            .map(|event| match event.is_warning {
                true => painted("33", &cut(&event.text, width)),
                false => cut(&event.text, width),
            })
            .collect(),
    );
    below.extend(footer.iter().map(|line| cut(line, width)));

    let lines: Vec<_> = picture.trees.iter().flat_map(|tree| tree.lines()).collect();
    let longest = lines.iter().map(|line| line.lead.chars().count() + line.name.chars().count()).max();
    let column = longest.unwrap_or_default().clamp(SHORTEST_NAME, (width / 2).max(SHORTEST_NAME));
    // The line under the last one is where the cursor stays.
    let room = height.saturating_sub(below.len() + 1).max(1);
    let (shown, left_out) = if lines.len() > room {
        let shown = room.saturating_sub(1);
        (shown, lines.len() - shown)
    } else {
        (lines.len(), 0)
    };
    let mut out: Vec<String> = lines[..shown]
        .iter()
        .map(|line| {
            let name = cut(&format!("{}{}", line.lead, line.name), column);
            let padding = " ".repeat(column - name.chars().count());
            let text = cut(&line.state.text, width.saturating_sub(column + 4));
            let name = if line.lead.is_empty() { painted("1", &name) } else { name };
            format!("{name}{padding}  {} {}", mark(line.state.mood), text)
        })
        .collect();
    if left_out > 0 {
        out.push(painted("2", &cut(&format!("… and {left_out} more"), width)));
    }
    out.extend(below);
    out.truncate(height.saturating_sub(1).max(1));
    out
}

fn reconciled(reconcile: &Reconcile, width: usize) -> String {
    let times = match reconcile.times {
        1 => String::new(),
        times => format!(" {times}×"),
    };
    let what = format!("{} {}{times}", reconcile.controller, reconcile.object);
    match &reconcile.failure {
        None => cut(&what, width),
        Some(failure) => painted("31", &cut(&format!("{what}: {failure}"), width)),
    }
}

fn mark(mood: Mood) -> String {
    match mood {
        Mood::Well => painted("32", "●"),
        Mood::Busy => painted("33", "◌"),
        Mood::Unwell => painted("31", "✗"),
    }
}

/// The first line of a text, as far as it fits.
fn cut(text: &str, width: usize) -> String {
    let text = text.lines().next().unwrap_or_default();
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}
