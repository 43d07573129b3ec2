//! The command as a plugin of kubectl. kubectl finds plugins by the names of programs: a link named `kubectl-wright`
//! makes `kubectl wright`, and one named `kubectl_complete-wright` is asked for what could come next.

use std::{
    ffi::{OsStr, OsString},
    path::Path,
};

use clap::{Command, builder::StyledStr};

use crate::terminal::line;

const PLUGIN: &str = "kubectl-wright";
const COMPLETION: &str = "kubectl_complete-wright";
/// What people write to call the plugin.
const SPOKEN: &str = "kubectl wright";
/// What people write to call the command itself.
const OWN: &str = "kubewright";

/// As whom the program was called.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Called {
    Itself,
    Plugin,
    Completion,
}

impl Called {
    pub(crate) fn by(program: Option<&OsStr>) -> Self {
        match program.and_then(|program| Path::new(program).file_stem()).and_then(OsStr::to_str) {
            Some(PLUGIN) => Self::Plugin,
            Some(COMPLETION) => Self::Completion,
            _ => Self::Itself,
        }
    }

    /// What to write to call it in the same way.
    pub(crate) fn spoken(&self) -> &'static str {
        match self {
            Self::Itself => OWN,
            Self::Plugin | Self::Completion => SPOKEN,
        }
    }

    /// The command line, with help that can be typed as it stands.
    pub(crate) fn speak(&self, command: Command) -> Command {
        renamed(command, self.spoken()).bin_name(self.spoken())
    }
}

/// Calls the command in all examples by a name.
fn renamed(command: Command, name: &str) -> Command {
    let examples = command.get_after_help().map(|help| {
        let lines = help.to_string();
        let (own, spoken) = (format!("  {OWN} "), format!("  {name} "));
        let lines = lines.lines().map(|line| line.replacen(&own, &spoken, 1));
        StyledStr::from(lines.collect::<Vec<_>>().join("\n"))
    });
    let command = match examples {
        Some(examples) => command.after_help(examples),
        None => command,
    };
    command.mut_subcommands(|command| renamed(command, name))
}

/// Prints what could come next: one line each, and last whether files could, too, as cobra's `ShellCompDirective` says
/// it. The last word is the one that is being written.
pub(crate) fn complete(mut command: Command, words: &[OsString]) {
    const FILES: &str = ":0";
    const NO_FILES: &str = ":4";

    command.build();
    let words: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
    let (begun, before) = words.split_last().unwrap_or((&"", &[]));
    let mut reached = &command;
    for word in before {
        reached = reached.find_subcommand(word).unwrap_or(reached);
    }
    let choices = if begun.starts_with('-') { flags(reached) } else { words_of(reached) };
    for (choice, help) in &choices {
        if choice.starts_with(begun) {
            line(&format!("{choice}\t{help}"));
        }
    }
    line(if choices.is_empty() { FILES } else { NO_FILES });
}

fn flags(command: &Command) -> Vec<(String, String)> {
    let flags = command.get_arguments().filter(|argument| !argument.is_hide_set());
    let named = flags.filter_map(|flag| Some((format!("--{}", flag.get_long()?), text(flag.get_help()))));
    named.collect()
}

/// The commands below a command, and what can stand in its place without a flag.
fn words_of(command: &Command) -> Vec<(String, String)> {
    let commands = command.get_subcommands().filter(|command| !command.is_hide_set());
    let commands = commands.map(|command| (command.get_name().to_owned(), text(command.get_about())));
    let values = command.get_positionals().flat_map(clap::Arg::get_possible_values);
    let values = values.map(|value| (value.get_name().to_owned(), text(value.get_help())));
    commands.chain(values).collect()
}

fn text(help: Option<&StyledStr>) -> String {
    help.map(StyledStr::to_string).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_program_says_who_calls() {
        let called = |name: &str| Called::by(Some(OsStr::new(name)));
        assert_eq!(called("/usr/local/bin/kubectl-wright"), Called::Plugin);
        assert_eq!(called("kubectl_complete-wright"), Called::Completion);
        assert_eq!(called("target/debug/kubewright"), Called::Itself);
        assert_eq!(Called::by(None), Called::Itself);
    }
}
