//! What people see: plain lines, coloured only on a terminal.

use std::io::{IsTerminal as _, Write as _, stderr, stdout};

use clap::ValueEnum;

/// Who reads what a command has to say in the end.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// People
    Text,
    /// Programs
    Json,
}

/// A line for people or scripts on standard output. A reader that has gone away is no error.
pub(crate) fn line(text: &str) {
    let _ = writeln!(stdout(), "{text}");
}

/// A text in a colour of the terminal.
pub(crate) fn painted(colour: &str, text: &str) -> String {
    format!("\u{1b}[{colour}m{text}\u{1b}[0m")
}

/// How far something is, for people, on standard error.
pub(crate) fn note(text: &str) {
    let _ = writeln!(stderr(), "{text}");
}

/// One clear line on standard error.
pub(crate) fn error(text: &str) {
    let label = if stderr().is_terminal() { painted("1;31", "error") } else { "error".to_owned() };
    let _ = writeln!(stderr(), "{label}: {text}");
}
