//! The text of an expression, places in it, and how a problem at a place is shown.
//!
//! Parser and checker report [`Problem`]s here; what comes out is the text cel-go prints, snippet and
//! caret included, because that text reaches users through the API.

use std::fmt;

/// At most this many problems are shown; the rest is counted.
const MAX_PROBLEMS: usize = 100;
/// Longer lines are not shown under a problem.
const MAX_SNIPPET_BYTES: usize = 16_384;

/// A place in an expression: a one-based line and a zero-based column, both in code points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Location {
    pub(crate) line: i64,
    pub(crate) column: i64,
}

impl Location {
    /// The place of a problem that belongs to no part of the text.
    pub(crate) const NONE: Self = Self { line: -1, column: -1 };
}

/// The text of an expression as code points, with its lines.
pub(crate) struct Source {
    pub(crate) chars: Vec<char>,
    line_starts: Vec<usize>,
}

impl Source {
    pub(crate) fn new(text: &str) -> Self {
        let chars: Vec<char> = text.chars().collect();
        let mut line_starts = vec![0];
        line_starts.extend(chars.iter().enumerate().filter(|(_, c)| **c == '\n').map(|(i, _)| i + 1));
        Self { chars, line_starts }
    }

    pub(crate) fn text(&self, start: usize, end: usize) -> String {
        self.chars[start.min(self.chars.len())..end.min(self.chars.len())].iter().collect()
    }

    pub(crate) fn location(&self, offset: usize) -> Location {
        if self.chars.is_empty() {
            return Location { line: 1, column: -1 };
        }
        let line = self.line_starts.partition_point(|&start| start <= offset);
        let start = self.line_starts[line - 1];
        Location { line: line as i64, column: (offset - start) as i64 }
    }

    fn line(&self, line: i64) -> Option<String> {
        let index = usize::try_from(line).ok()?.checked_sub(1).filter(|_| !self.chars.is_empty())?;
        let start = *self.line_starts.get(index)?;
        let end = self.line_starts.get(index + 1).map_or(self.chars.len(), |next| next - 1);
        Some(self.text(start, end))
    }

    fn show(&self, problem: &Problem) -> String {
        let Location { line, column } = problem.location;
        let mut text = format!("ERROR: <input>:{line}:{}: {}", column + 1, problem.message);
        let Some(snippet) = self.line(line).filter(|snippet| snippet.len() <= MAX_SNIPPET_BYTES) else {
            return text;
        };
        let snippet = snippet.replace('\t', " ");
        text.push_str("\n | ");
        text.push_str(&snippet);
        text.push_str("\n | ");
        // A wide character takes two cells, so its dot and caret do too.
        let mut under = snippet.chars();
        for c in under.by_ref().take(usize::try_from(column).unwrap_or(0)) {
            text.push(if c.len_utf8() > 1 { '\u{ff0e}' } else { '.' });
        }
        text.push(if under.next().is_some_and(|c| c.len_utf8() > 1) { '\u{ff3e}' } else { '^' });
        text
    }
}

/// One thing that is wrong with an expression.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    pub(crate) location: Location,
    pub(crate) message: String,
}

/// The problems found so far.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    found: Vec<Problem>,
    count: usize,
}

impl Problems {
    pub(crate) fn report(&mut self, location: Location, message: impl Into<String>) {
        self.count += 1;
        if self.count <= MAX_PROBLEMS {
            self.found.push(Problem { location, message: message.into() });
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The rendered problems, ordered by place.
    pub(crate) fn into_error(mut self, source: &Source) -> CompileError {
        self.found.sort_by_key(|problem| problem.location);
        let mut lines: Vec<String> = self.found.iter().map(|problem| source.show(problem)).collect();
        if self.count > MAX_PROBLEMS {
            lines.push(format!("{} more errors were truncated", self.count - MAX_PROBLEMS));
        }
        CompileError { text: lines.join("\n"), instantiation: false }
    }
}

/// Why an expression does not compile; displays as kube-apiserver shows it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct CompileError {
    text: String,
    instantiation: bool,
}

impl CompileError {
    pub(crate) fn instantiation(text: String) -> Self {
        Self { text, instantiation: true }
    }

    /// Whether the expression is well-formed and well-typed, but has a constant part that always fails.
    /// kube-apiserver then says "instantiation failed" instead of "compilation failed".
    pub fn is_instantiation(&self) -> bool {
        self.instantiation
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
