//! The command line that every operator has: `run`, which is also what happens without a command, and what the
//! operator can say of itself without a cluster. Results go to stdout, everything else to stderr.

mod connect;
mod logs;
mod run;

use std::{
    ffi::OsString,
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use serde_json::json;

pub use self::connect::connect;
use crate::{
    error::Result,
    manifests::{ManifestOptions, Part, to_yaml},
    operator::Operator,
    reach::Reach,
};

/// A Kubernetes operator
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
struct Arguments {
    #[command(flatten)]
    run: run::Run,

    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Run the operator until it is told to stop (the default)
    Run(run::Run),
    /// Print the manifests that install the operator
    Manifests(Manifests),
    /// Try every crash, stale read and lost event on the operator, if it is built for that
    #[command(disable_help_flag = true)]
    Explore {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
        flags: Vec<OsString>,
    },
    /// Print the version
    Version,
    /// Print a script that completes this command line
    Completion {
        /// The shell it is for
        shell: Shell,
    },
}

#[derive(Args)]
struct Manifests {
    /// Namespace the operator lives in; its name and "-system" without it
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,

    /// Image of the operator; its name and version without it
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,

    /// Limit the operator and its rights to these namespaces
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    watch_namespace: Vec<String>,

    /// Serve metrics over TLS, to those who have the right to read them
    #[arg(long)]
    metrics_secure: bool,

    /// Where the API server finds the webhooks of an operator that runs outside of the cluster, as in https://HOST:PORT
    #[arg(long, value_name = "URL", value_parser = webhook_url)]
    webhook_url: Option<String>,

    /// Print only these parts
    #[arg(long, value_enum, value_name = "PART", value_delimiter = ',')]
    only: Vec<Part>,

    /// The form in which they are printed
    #[arg(long, short, value_enum, default_value_t = Output::Yaml)]
    output: Output,

    /// Write them as files into this directory, laid out as kubebuilder does it
    #[arg(long, value_name = "DIRECTORY", conflicts_with_all = ["only", "output"])]
    into: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// A stream of documents
    Yaml,
    /// One List
    Json,
    /// A JSON object: the path and the content of each file that --into writes
    Files,
}

/// Runs the command line of an operator: what `fn main` of an operator calls.
///
/// ```no_run
/// # use std::process::ExitCode;
/// # use kubewright::Operator;
/// fn main() -> ExitCode {
///     kubewright::main(Operator::new("example-operator").version(env!("CARGO_PKG_VERSION")))
/// }
/// ```
pub fn main(operator: Operator) -> ExitCode {
    main_with(operator, std::env::args_os())
}

/// Like [`main`], with arguments that are given: the first one is the name of the program.
pub fn main_with<A: Into<OsString> + Clone>(
    operator: Operator,
    arguments: impl IntoIterator<Item = A>,
) -> ExitCode {
    let matches = match command_line(&operator).try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(why) => return refused(&why),
    };
    let arguments = match Arguments::from_arg_matches(&matches) {
        Ok(arguments) => arguments,
        Err(why) => return refused(&why),
    };
    let outcome = match arguments.command {
        None => return arguments.run.run(operator),
        Some(Command::Run(run)) => return run.run(operator),
        Some(Command::Manifests(manifests)) => manifests.text(&operator),
        Some(Command::Explore { .. }) => {
            let why = "this program was built without the explorer: run `kubewright explore` in the directory of its \
                       source, or build it with `--features explore`";
            let _ = failed(why);
            return ExitCode::from(2);
        }
        Some(Command::Version) => Ok(format!("{} {}\n", operator.name(), version(&operator))),
        Some(Command::Completion { shell }) => Ok(completion(&operator, shell)),
    };
    match outcome {
        Ok(text) => print(&text),
        Err(why) => failed(why),
    }
}

/// Help is no failure; wrong arguments are, with the code that shells know for it.
fn refused(why: &clap::Error) -> ExitCode {
    // If nobody reads it, nobody misses it.
    let _ = why.print();
    ExitCode::from(u8::try_from(why.exit_code()).unwrap_or(2))
}

fn print(text: &str) -> ExitCode {
    match io::stdout().write_all(text.as_bytes()) {
        Err(why) if why.kind() != io::ErrorKind::BrokenPipe => failed(why),
        _ => ExitCode::SUCCESS,
    }
}

/// Says on stderr why, in one line.
fn failed(why: impl std::fmt::Display) -> ExitCode {
    let why = why.to_string().lines().map(str::trim).collect::<Vec<_>>().join(" ");
    // If nobody reads it, nobody misses it.
    let _ = writeln!(io::stderr(), "error: {why}");
    ExitCode::FAILURE
}

fn webhook_url(text: &str) -> Result<String, String> {
    Reach::at(text).map(|_| text.to_owned()).map_err(|why| why.to_string())
}

fn version(operator: &Operator) -> String {
    let own = operator.version.as_deref().unwrap_or("(unversioned)");
    format!("{own} (kubewright {})", env!("CARGO_PKG_VERSION"))
}

fn command_line(operator: &Operator) -> clap::Command {
    let name = operator.name();
    let kinds: Vec<String> =
        operator.controllers.iter().map(|controller| controller.description.kind.to_string()).collect();
    let about = match kinds.as_slice() {
        [] => format!("The Kubernetes operator {name}"),
        kinds => format!("The Kubernetes operator {name}, which looks after {}", kinds.join(", ")),
    };
    let examples = format!(
        "\
Examples:
  {name} manifests | kubectl apply -f -
      Install it in the cluster that kubectl talks to.

  {name} manifests --only crds | kubectl apply -f -
  {name} run
      Run it on this machine, against the cluster of the current kubeconfig.

  {name} run --namespace team-a,team-b --log-level debug
      Look after two namespaces, and tell more."
    );
    Arguments::command()
        .name(name.to_owned())
        .bin_name(name.to_owned())
        .version(version(operator))
        .about(about)
        .after_help(examples)
}

fn completion(operator: &Operator, shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command_line(operator), operator.name(), &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

impl Manifests {
    fn text(self, operator: &Operator) -> Result<String> {
        let options = ManifestOptions {
            namespace: self.namespace,
            image: self.image,
            namespaces: self.watch_namespace,
            secure_metrics: self.metrics_secure,
            webhook_url: self.webhook_url,
            only: self.only.into_iter().collect(),
        };
        if let Some(directory) = self.into {
            operator.write_config(&options, &directory)?;
            return Ok(String::new());
        }
        let value = match self.output {
            Output::Yaml => return to_yaml(&operator.manifests(&options)),
            Output::Json => {
                json!({"apiVersion": "v1", "kind": "List", "items": operator.manifests(&options)})
            }
            Output::Files => json!(operator.config(&options)?),
        };
        Ok(serde_json::to_string_pretty(&value)? + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        command_line(&Operator::new("example-operator")).debug_assert();
    }
}
