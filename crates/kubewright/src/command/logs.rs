//! Logs: lines for people, coloured on a terminal, or JSON for programs; always on stderr.

use std::io::{self, IsTerminal as _};

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

/// The form of logs: lines for people, or one JSON object a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    Text,
    Json,
}

/// Libraries that tell every byte they move when everything is to be told.
const LOUD: [&str; 6] = ["h2", "hyper", "hyper_util", "rustls", "tower", "tokio_util"];

/// What is to be told: a level, or rules as tracing has them.
pub(super) fn filter(text: &str) -> Result<String, String> {
    let rules = match text {
        "debug" | "trace" => {
            LOUD.iter().fold(text.to_owned(), |rules, library| format!("{rules},{library}=info"))
        }
        _ => text.to_owned(),
    };
    match EnvFilter::builder().parse(&rules) {
        Ok(_) => Ok(rules),
        Err(_) => {
            Err("expected error, warn, info, debug or trace, or rules as in \"info,kube=debug\"".to_owned())
        }
    }
}

/// Starts to log. A program that logs already keeps its own way.
pub(super) fn start(filter: &str, format: Format) {
    let lines = tracing_subscriber::fmt().with_env_filter(EnvFilter::new(filter)).with_writer(io::stderr);
    // Fails if something else was there first.
    let _ = match format {
        Format::Json => lines.json().flatten_event(true).try_init(),
        Format::Text => {
            let is_coloured = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            lines.with_ansi(is_coloured).with_target(false).try_init()
        }
    };
}
