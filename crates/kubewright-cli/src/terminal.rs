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

/// One clear line on standard error.
pub(crate) fn error(text: &str) {
    let label = if stderr().is_terminal() { "\u{1b}[1;31merror\u{1b}[0m" } else { "error" };
    let _ = writeln!(stderr(), "{label}: {text}");
}
