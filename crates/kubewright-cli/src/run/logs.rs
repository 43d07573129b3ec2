//! The logs of an operator, for people: what it says line by line, and below them the failures that came last.

use std::{
    collections::VecDeque,
    io::{IsTerminal as _, Write as _, stdout},
};

use serde_json::{Map, Value};

use crate::terminal::painted;

/// How many failures stay in sight.
const IN_SIGHT: usize = 5;

/// Where logs are shown.
pub(super) struct Logs {
    is_terminal: bool,
    /// The latest last.
    failures: VecDeque<Failure>,
    /// How many lines of failures are on the terminal.
    drawn: usize,
    /// Whether others write to the terminal: then nothing on it may be drawn over.
    is_shared: bool,
}

struct Failure {
    object: String,
    message: String,
    time: String,
    count: usize,
}

/// What a line of a log says.
struct Entry {
    time: String,
    level: String,
    /// The controller and the object, of a reconcile.
    subject: String,
    message: String,
    fields: Vec<(String, String)>,
}

impl Logs {
    pub(super) fn new() -> Self {
        Self { is_terminal: stdout().is_terminal(), failures: VecDeque::new(), drawn: 0, is_shared: false }
    }

    /// A line that the operator has written: one of its log, or something else, which is shown as it is.
    pub(super) fn take(&mut self, line: &str) {
        let Some(entry) = Entry::read(line) else { return self.say(line) };
        if !entry.subject.is_empty() && matches!(entry.level.as_str(), "WARN" | "ERROR") {
            self.remember(&entry);
        }
        let text = entry.text(self.is_terminal);
        self.say(&text);
    }

    /// Something about the operator, rather than from it.
    pub(super) fn note(&mut self, text: &str) {
        let text = if self.is_terminal { painted("1;36", text) } else { text.to_owned() };
        self.say(&text);
    }

    /// The compiler begins to write to the terminal, too, or has ended.
    pub(super) fn share(&mut self, is_shared: bool) {
        self.drawn = 0;
        self.is_shared = is_shared;
    }

    /// A new program begins without failures.
    pub(super) fn begin(&mut self) {
        self.failures.clear();
    }

    fn remember(&mut self, entry: &Entry) {
        let error = entry.fields.iter().find(|(name, _)| name == "error" || name == "panic");
        let message = error.map_or(&entry.message, |(_, error)| error).clone();
        let same = |failure: &Failure| failure.object == entry.subject && failure.message == message;
        let before = self.failures.iter().position(same).and_then(|at| self.failures.remove(at));
        let count = before.map_or(1, |failure| failure.count + 1);
        self.failures.push_back(Failure {
            object: entry.subject.clone(),
            message,
            time: entry.time.clone(),
            count,
        });
        if self.failures.len() > IN_SIGHT {
            self.failures.pop_front();
        }
    }

    /// Prints a line above the failures.
    fn say(&mut self, line: &str) {
        let mut text = String::new();
        if self.drawn > 0 {
            text.push_str(&format!("\u{1b}[{}F\u{1b}[J", self.drawn));
        }
        text.push_str(line);
        text.push('\n');
        self.drawn = 0;
        if self.is_terminal && !self.is_shared && !self.failures.is_empty() {
            let width = terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0));
            let title = "── last failures ".to_owned() + &"─".repeat(width.saturating_sub(18));
            text.push_str(&painted("31", &title));
            text.push('\n');
            for failure in &self.failures {
                let Failure { object, message, time, count } = failure;
                let line = format!("{time} {object} {count}×: {message}");
                text.extend(line.lines().next().unwrap_or_default().chars().take(width));
                text.push('\n');
            }
            self.drawn = self.failures.len() + 1;
        }
        let _ = stdout().write_all(text.as_bytes());
        let _ = stdout().flush();
    }
}

impl Entry {
    fn read(line: &str) -> Option<Self> {
        let Ok(Value::Object(mut fields)) = serde_json::from_str(line) else { return None };
        let mut take = |name: &str| fields.remove(name);
        let (time, level) = (plain(&take("timestamp")?), plain(&take("level")?));
        let message = take("message").map(|message| plain(&message)).unwrap_or_default();
        let span = take("span").and_then(|span| span.as_object().cloned()).unwrap_or_default();
        let (_spans, _target) = (take("spans"), take("target"));
        Some(Self {
            // The time of day is enough for who sits in front of it.
            time: time.get(11..19).unwrap_or(&time).to_owned(),
            level,
            subject: subject(&span),
            message,
            fields: fields.iter().map(|(name, value)| (name.clone(), plain(value))).collect(),
        })
    }

    fn text(&self, is_coloured: bool) -> String {
        let paint = |colour: &str, text: &str| match is_coloured {
            true => painted(colour, text),
            false => text.to_owned(),
        };
        let colour = match self.level.as_str() {
            "ERROR" => "31",
            "WARN" => "33",
            "INFO" => "32",
            _ => "34",
        };
        let mut text = format!("{} {}", paint("2", &self.time), paint(colour, &format!("{:<5}", self.level)));
        for part in [&self.subject, &self.message].into_iter().filter(|part| !part.is_empty()) {
            text.push(' ');
            text.push_str(&if std::ptr::eq(part, &self.subject) { paint("1", part) } else { part.clone() });
        }
        for (name, value) in &self.fields {
            text.push_str(&format!(" {}{value}", paint("2", &format!("{name}="))));
        }
        text
    }
}

fn subject(span: &Map<String, Value>) -> String {
    let of = |name: &str| span.get(name).map(plain);
    match (of("controller"), of("object")) {
        (Some(controller), Some(object)) => format!("{controller} {object}"),
        _ => String::new(),
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
