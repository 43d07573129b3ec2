//! `kubewright` without a command: what there is in this directory, and what to do next.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use crate::{
    init::something,
    project::{self, Project, Resource},
    source::{cargo, no_cargo, output},
    terminal::line,
};

/// What a directory is to somebody who writes operators.
#[derive(Debug, PartialEq, Eq)]
enum Here {
    /// One that was made with `init`, with its kinds as `Kind of group/version`.
    Project {
        name: String,
        kinds: Vec<String>,
    },
    /// A crate that is an operator.
    Operator(String),
    /// A workspace with operators, in these directories.
    Operators(Vec<PathBuf>),
    /// A crate or a workspace without an operator.
    Crate,
    /// A directory with something else in it.
    Other,
    Empty,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// Nothing if it is needed at run time.
    kind: Option<String>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
}

impl Package {
    /// One program on the SDK that brings no cluster of its own along.
    fn is_operator(&self) -> bool {
        let needs = |name: &str| {
            self.dependencies.iter().any(|dependency| dependency.name == name && dependency.kind.is_none())
        };
        let programs = self.targets.iter().filter(|target| target.kind.iter().any(|kind| kind == "bin"));
        programs.count() == 1 && needs("kubewright") && !needs("kubewright-apiserver")
    }

    fn directory(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(&self.manifest_path)
    }
}

/// A command, and what it is for.
type Step = (String, &'static str);

/// Says what to do next. The command is called `spoken`.
pub(crate) async fn run(spoken: &str) -> Result<(), String> {
    let failed = |why: io::Error| format!("can't look around here: {why}");
    // Without links, as cargo has it.
    let current = env::current_dir().and_then(fs::canonicalize).map_err(failed)?;
    let is_root =
        |directory: &&Path| [project::FILE, "Cargo.toml"].iter().any(|file| directory.join(file).is_file());
    let root = current.ancestors().find(is_root);
    let here = match root {
        Some(root) if root.join(project::FILE).is_file() => project(root)?,
        Some(root) => crates(root).await?,
        None if something(fs::read_dir(&current).map_err(failed)?).is_none() => Here::Empty,
        None => Here::Other,
    };
    line(&summary(&here));
    line("");
    let mut steps = steps(&here, spoken);
    if let Some(root) = root.filter(|root| *root != current) {
        steps.insert(0, (format!("cd {}", root.display()), "where it is"));
    }
    let width = steps.iter().map(|(command, _)| command.len()).max().unwrap_or_default();
    for (command, purpose) in &steps {
        line(&format!("  {command:width$}   {purpose}"));
    }
    line("");
    line(&format!("{spoken} --help tells of all commands, {spoken} COMMAND --help of one."));
    Ok(())
}

fn project(directory: &Path) -> Result<Here, String> {
    let project = Project::read(directory)?;
    let name_of = |resource: &Resource| {
        format!("{} of {}/{}", resource.kind, project.api_group(resource), resource.version)
    };
    Ok(Here::Project {
        kinds: project.resources.iter().map(name_of).collect(),
        name: project.project_name.clone(),
    })
}

async fn crates(directory: &Path) -> Result<Here, String> {
    let mut command = cargo();
    command.args(["metadata", "--no-deps", "--offline", "--format-version", "1", "--manifest-path"]);
    let output = output(command.arg(directory.join("Cargo.toml"))).await.map_err(|why| no_cargo(&why))?;
    let metadata: Metadata = serde_json::from_slice(&output.stdout)
        .map_err(|_| format!("{} can't be read by cargo", directory.join("Cargo.toml").display()))?;
    let operators: Vec<&Package> = metadata.packages.iter().filter(|package| package.is_operator()).collect();
    if let Some(own) = operators.iter().find(|operator| operator.directory() == directory) {
        return Ok(Here::Operator(own.name.clone()));
    }
    let relative =
        |operator: &&Package| operator.directory().strip_prefix(directory).ok().map(Path::to_owned);
    let mut directories: Vec<PathBuf> = operators.iter().filter_map(relative).collect();
    directories.sort();
    Ok(if directories.is_empty() { Here::Crate } else { Here::Operators(directories) })
}

fn summary(here: &Here) -> String {
    match here {
        Here::Project { name, kinds } if kinds.is_empty() => format!("{name} is an operator without a kind."),
        Here::Project { name, kinds } => format!("{name} is an operator with {}.", kinds.join(", ")),
        Here::Operator(name) => format!("{name} is an operator."),
        Here::Operators(directories) => {
            let directories: Vec<_> =
                directories.iter().map(|directory| directory.to_string_lossy()).collect();
            format!("There are operators in {}.", directories.join(", "))
        }
        Here::Crate => "Nothing here is an operator.".to_owned(),
        Here::Other => "There is no operator here.".to_owned(),
        Here::Empty => "There is nothing here yet.".to_owned(),
    }
}

fn steps(here: &Here, spoken: &str) -> Vec<Step> {
    let own = |arguments: &str, purpose| (format!("{spoken} {arguments}"), purpose);
    let api = own(
        "create api --group cache --version v1alpha1 --kind Memcached",
        "a kind, and what looks after it",
    );
    let init = own("init --domain example.com", "a project that builds and passes its tests");
    let show = own("up", "see operators at work first");
    match here {
        Here::Project { kinds, .. } if kinds.is_empty() => vec![api, own("test", "its tests")],
        Here::Project { .. } => vec![
            own("run --local", "run it against a local cluster, and again at every change"),
            own("test", "its tests"),
            own("generate", "write config/ and docs/ anew, after a change of its types"),
            own("build", "its image"),
            own("deploy", "bring it to the cluster of the current kubeconfig"),
        ],
        Here::Operator(_) => vec![
            own("run --local", "run it against a local cluster, and again at every change"),
            own("test", "its tests"),
            own("build", "its image"),
        ],
        Here::Operators(directories) => {
            let first =
                directories.first().map(|directory| directory.display().to_string()).unwrap_or_default();
            vec![
                own(
                    &format!("run {first} --local"),
                    "run one against a local cluster, and again at every change",
                ),
                own(&format!("test {first}"), "its tests"),
                own(&format!("build {first}"), "its image"),
            ]
        }
        Here::Crate | Here::Other => {
            vec![("mkdir my-operator && cd my-operator".to_owned(), "a place for one"), init, show]
        }
        Here::Empty => vec![init, show],
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn everything_that_is_proposed_is_understood() {
        let project = |kinds: Vec<String>| Here::Project { name: "web".to_owned(), kinds };
        let all = [
            project(Vec::new()),
            project(vec!["Site of web.example.com/v1".to_owned()]),
            Here::Operator("web".to_owned()),
            Here::Operators(vec!["operators/web".into()]),
            Here::Crate,
            Here::Empty,
        ];
        for (command, _) in all.iter().flat_map(|here| steps(here, "kubewright")) {
            if command.starts_with("kubewright ") {
                let parsed = crate::Arguments::command().try_get_matches_from(command.split_whitespace());
                assert!(parsed.is_ok(), "{command}: {}", parsed.expect_err("not understood"));
            }
        }
    }
}
