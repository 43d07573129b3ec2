//! `kubewright reference`: everything that can be said on the command line, as a page of the documentation.

use clap::{Arg, Args, Command};

use crate::terminal::line;

/// Print the reference of the command line as Markdown
#[derive(Args)]
#[command(hide = true)]
pub(crate) struct Reference {}

impl Reference {
    pub(crate) fn run(self, mut command: Command) {
        command.build();
        let mut page =
            "# The command line\n\n`kubewright COMMAND --help` says the same of one command.\n".to_owned();
        describe(&command, &mut page);
        line(page.trim_end());
    }
}

fn describe(command: &Command, page: &mut String) {
    let path = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let about = about.trim_end_matches('.');
    page.push_str(&format!("\n## {path}\n\n{about}.\n\n```text\n{usage}\n```\n"));
    if let Some(help) = command.get_after_help() {
        let help = help.to_string();
        let (text, examples) = help.split_once("Examples:\n").unwrap_or((&help, ""));
        if !text.trim().is_empty() {
            page.push_str(&format!("\n{}\n", text.trim()));
        }
        if !examples.is_empty() {
            page.push_str(&format!("\nExamples:\n\n```text\n{}\n```\n", examples.trim_end()));
        }
    }
    list("Arguments", command.get_positionals(), page);
    let options = command.get_arguments().filter(|argument| !argument.is_positional());
    list("Options", options.filter(|option| option.get_id() != "help"), page);
    let visible = command.get_subcommands().filter(|command| !command.is_hide_set());
    for command in visible.filter(|command| command.get_name() != "help") {
        describe(command, page);
    }
}

fn list<'a>(title: &str, arguments: impl Iterator<Item = &'a Arg>, page: &mut String) {
    let lines: String = arguments.filter(|argument| !argument.is_hide_set()).map(line_of).collect();
    if !lines.is_empty() {
        page.push_str(&format!("\n{title}:\n\n{lines}"));
    }
}

/// One argument, what it is for, and what it is if nobody says.
fn line_of(argument: &Arg) -> String {
    let mut help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let values: Vec<String> =
        argument.get_possible_values().iter().map(|value| format!("`{}`", value.get_name())).collect();
    if !values.is_empty() && argument.get_action().takes_values() {
        help.push_str(&format!(": {}", values.join(", ")));
    }
    let default: Vec<_> = argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if !default.is_empty() && argument.get_action().takes_values() {
        help.push_str(&format!(". Default: `{}`", default.join(",")));
    }
    if let Some(variable) = argument.get_env() {
        help.push_str(&format!(". Environment: `{}`", variable.to_string_lossy()));
    }
    let short = argument.get_short().map(|short| format!("`-{short}`, ")).unwrap_or_default();
    format!("- {short}`{argument}`: {help}\n")
}
