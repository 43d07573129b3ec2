//! `kubewright doctor`: what an operator needs to be built, deployed and run, looked at one after another. It changes
//! nothing.

use std::{
    collections::BTreeSet,
    fs,
    io::{IsTerminal as _, stdout},
    path::Path,
    process::Stdio,
};

use clap::Args;
use k8s_openapi::{
    api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, Client, ResourceExt as _, api::PostParams};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::{
    apply::{Placed, reason},
    deploy::ApplySet,
    generate::{self, generated},
    program::{Installation, Program, Which},
    project::{self, Project},
    source::cargo,
    target::Target,
    terminal::{Output, line, painted},
};

/// The oldest Kubernetes that operators are made for.
const OLDEST: [u32; 2] = [1, 33];
/// What deploying takes of each kind.
const VERBS: [&str; 5] = ["get", "list", "create", "patch", "delete"];

/// Check everything an operator needs, and say what to do
#[derive(Args)]
#[command(after_help = "\
Looks at the toolchain, the project, and the cluster: its version, your rights to deploy to it, and its definitions
against the code. Fails only if something can't work; what is merely worth knowing is a warning.

Examples:
  kubewright doctor
      The operator in this directory, and the cluster of the current kubeconfig.

  kubewright doctor operators/memcached --context staging --output json")]
pub(crate) struct Doctor {
    #[command(flatten)]
    operator: Which,

    #[command(flatten)]
    target: Target,

    /// Namespace the operator would be deployed to; its name and "-system" without it
    #[arg(long, short, value_name = "NAME")]
    namespace: Option<String>,

    /// How to print what was found
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    Ok,
    Warn,
    Fail,
}

#[derive(Serialize)]
struct Finding {
    check: &'static str,
    level: Level,
    message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

impl Finding {
    fn ok(check: &'static str, message: impl Into<String>) -> Self {
        Self { check, level: Level::Ok, message: message.into(), remedy: None }
    }

    fn warn(check: &'static str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, level: Level::Warn, message: message.into(), remedy: Some(remedy.into()) }
    }

    fn fail(check: &'static str, message: impl Into<String>) -> Self {
        Self { check, level: Level::Fail, message: message.into(), remedy: None }
    }

    fn or(self, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..self }
    }
}

impl Doctor {
    pub(crate) async fn run(self) -> Result<(), String> {
        let mut findings = vec![toolchain(&self.operator.path).await];
        findings.extend(project(&self.operator.path));
        let program = match self.operator.program().await {
            Ok(program) => {
                findings.push(Finding::ok("operator", "it builds"));
                findings.push(config(&program, &self.operator.path).await);
                Some(program)
            }
            Err(why) => {
                findings.push(Finding::fail("operator", why));
                None
            }
        };
        match self.target.connect().await {
            Ok(client) => {
                findings.push(version(&client).await);
                if let Some(program) = &program {
                    let installation =
                        Installation { namespace: self.namespace.clone(), ..Installation::default() };
                    findings.push(rights(&client, program, &installation).await);
                    findings.extend(definitions(&client, program).await);
                }
            }
            Err(why) => findings.push(Finding::fail("cluster", why)),
        }
        match self.output {
            Output::Text => findings.iter().for_each(tell),
            Output::Json => line(&format!("{:#}", json!({"findings": findings}))),
        }
        match findings.iter().filter(|finding| finding.level == Level::Fail).count() {
            0 => Ok(()),
            1 => Err("one thing is in the way".to_owned()),
            several => Err(format!("{several} things are in the way")),
        }
    }
}

fn tell(finding: &Finding) {
    let (word, colour) = match finding.level {
        Level::Ok => ("ok  ", "32"),
        Level::Warn => ("warn", "33"),
        Level::Fail => ("fail", "31"),
    };
    let word = if stdout().is_terminal() { painted(colour, word) } else { word.to_owned() };
    line(&format!("{word}  {:<11} {}", finding.check, finding.message));
    if let Some(remedy) = &finding.remedy {
        line(&format!("                  -> {remedy}"));
    }
}

/// Whether there is a compiler, and one that is new enough for the crate.
async fn toolchain(path: &Path) -> Finding {
    let rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    let versions = (said(cargo(), &["--version"]).await, said(rustc, &["--version"]).await);
    let (Some(cargo), Some(compiler)) = versions else {
        let finding = Finding::fail("toolchain", "cargo or rustc can't be run");
        return finding.or("install Rust from https://rustup.rs");
    };
    let found = format!("{}, {}", compiler.trim(), cargo.trim());
    match rust_version(path).await {
        Some(wanted) if number(&compiler) < number(&wanted) => {
            Finding::fail("toolchain", format!("{found}; the operator needs {wanted}"))
                .or("rustup update stable")
        }
        _ => Finding::ok("toolchain", found),
    }
}

/// The oldest compiler that a crate says it needs.
async fn rust_version(path: &Path) -> Option<String> {
    let manifest = fs::canonicalize(path.join("Cargo.toml")).ok()?;
    let arguments = ["metadata", "--no-deps", "--offline", "--format-version=1", "--manifest-path"];
    let metadata = said(cargo(), &[&arguments[..], &[manifest.to_str()?]].concat()).await?;
    let metadata: Value = serde_json::from_str(&metadata).ok()?;
    let is_it = |package: &&Value| package["manifest_path"].as_str().map(Path::new) == Some(&manifest);
    Some(metadata["packages"].as_array()?.iter().find(is_it)?["rust_version"].as_str()?.to_owned())
}

/// The numbers of the first version in a text.
fn number(text: &str) -> Vec<u32> {
    let is_version = |word: &&str| word.starts_with(|letter: char| letter.is_ascii_digit());
    let version = text.split_whitespace().find(is_version).unwrap_or_default();
    version.split(['.', '-']).map_while(|part| part.parse().ok()).collect()
}

/// What a program prints, if it can be run.
async fn said(mut command: Command, arguments: &[&str]) -> Option<String> {
    let output = command.args(arguments).stdin(Stdio::null()).kill_on_drop(true).output().await.ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// What has become of the files that were scaffolded, if the project was.
fn project(path: &Path) -> Option<Finding> {
    if !path.join(project::FILE).is_file() {
        return None;
    }
    let project = match Project::read(path) {
        Ok(project) => project,
        Err(why) => return Some(Finding::fail("project", why).or("restore it from version control")),
    };
    let (mut unchanged, mut changed, mut missing) = (0, 0, Vec::new());
    for file in project.files.keys() {
        match fs::read_to_string(path.join(file)) {
            Err(_) => missing.push(file.as_str()),
            Ok(content) if project.is_untouched(file, &content) => unchanged += 1,
            Ok(_) => changed += 1,
        }
    }
    let told = format!("of its scaffold {unchanged} files are as they were, and {changed} are yours");
    Some(match missing.as_slice() {
        [] => Finding::ok("project", told),
        missing => Finding::warn(
            "project",
            format!("{told}; there is no {}", missing.join(", ")),
            "if that is not meant to be, restore them from version control",
        ),
    })
}

/// Whether config follows from the code.
async fn config(program: &Program, path: &Path) -> Finding {
    let changes = async { generated(program, path, generate::MANIFESTS).await?.changes() }.await;
    match changes {
        Ok(changes) if changes.is_empty() => Finding::ok("config", "config/ follows from the code"),
        Ok(changes) => Finding::warn(
            "config",
            format!("in config/ {} of the generated files are not up to date", changes.len()),
            "kubewright generate",
        ),
        Err(why) => Finding::fail("config", why),
    }
}

/// Whether the cluster is one that operators are made for.
async fn version(client: &Client) -> Finding {
    let found = match client.apiserver_version().await {
        Ok(found) => found,
        Err(why) => return Finding::fail("cluster", reason(&why)),
    };
    let told = format!("Kubernetes {}", found.git_version);
    match number(found.git_version.trim_start_matches('v')) < OLDEST.to_vec() {
        false => Finding::ok("cluster", told),
        true => Finding::warn(
            "cluster",
            told,
            format!("operators are made for {}.{} and newer: upgrade the cluster", OLDEST[0], OLDEST[1]),
        ),
    }
}

/// Whether whoever asks may do all that deploying takes.
async fn rights(client: &Client, program: &Program, installation: &Installation) -> Finding {
    match denied(client, program, installation).await {
        Ok(denied) if denied.is_empty() => Finding::ok("rights", "you may deploy it"),
        Ok(denied) => Finding::warn(
            "rights",
            format!("to deploy it you lack: {}", denied.into_iter().collect::<Vec<_>>().join("; ")),
            "ask an administrator of the cluster for them, or to deploy it",
        ),
        Err(why) => Finding::fail("rights", why),
    }
}

async fn denied(
    client: &Client,
    program: &Program,
    installation: &Installation,
) -> Result<BTreeSet<String>, String> {
    let mut documents = program.manifests(&installation.arguments()).await?;
    let set = ApplySet::of(&documents)?;
    documents.push(set.parent(&Default::default()));
    let mut asked = BTreeSet::new();
    let mut denied = BTreeSet::new();
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    for document in documents {
        let placed = Placed::document(client, document).await?;
        if !asked.insert((placed.resource_name(), placed.object.namespace())) {
            continue;
        }
        let mut missing = Vec::new();
        for verb in VERBS {
            let attributes = ResourceAttributes {
                group: Some(placed.group().to_owned()),
                resource: Some(placed.plural().to_owned()),
                namespace: placed.object.namespace(),
                verb: Some(verb.to_owned()),
                ..ResourceAttributes::default()
            };
            let spec = SelfSubjectAccessReviewSpec {
                resource_attributes: Some(attributes),
                ..SelfSubjectAccessReviewSpec::default()
            };
            let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
            let answer = reviews.create(&PostParams::default(), &review).await;
            let answer = answer.map_err(|why| format!("can't ask for your rights: {}", reason(&why)))?;
            if !answer.status.is_some_and(|status| status.allowed) {
                missing.push(verb);
            }
        }
        if !missing.is_empty() {
            let place = placed.object.namespace().map(|name| format!(" in {name}")).unwrap_or_default();
            denied.insert(format!("{} {}{place}", missing.join(", "), placed.resource_name()));
        }
    }
    Ok(denied)
}

/// The definitions of the cluster against those of the code.
async fn definitions(client: &Client, program: &Program) -> Vec<Finding> {
    let wanted = match program.definitions().await {
        Ok(wanted) => wanted,
        Err(why) => return vec![Finding::fail("definitions", why)],
    };
    let mut findings = Vec::new();
    for document in wanted {
        findings.push(match compared(client, &document).await {
            Ok(finding) => finding,
            Err(why) => Finding::fail("definitions", why),
        });
    }
    findings
}

async fn compared(client: &Client, document: &Value) -> Result<Finding, String> {
    const INSTALL: &str = "kubewright install, or kubewright deploy";
    let wanted: CustomResourceDefinition =
        serde_json::from_value(document.clone()).map_err(|why| why.to_string())?;
    let name = wanted.name_any();
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let present = api.get_opt(&name).await.map_err(|why| format!("{name}: {}", reason(&why)))?;
    let Some(present) = present else {
        return Ok(Finding::warn("definitions", format!("{name} is not installed"), INSTALL));
    };
    if let Some(why) = kubewright::lost_by(&present, &wanted) {
        return Ok(Finding::fail("definitions", format!("{name}: {why}")));
    }
    Ok(match contains(&json!(present.spec), &json!(wanted.spec)) {
        true => Finding::ok("definitions", format!("{name} is that of the code")),
        false => Finding::warn("definitions", format!("{name} is not that of the code"), INSTALL),
    })
}

/// Whether `present` has everything that is wanted; what a server has added does not matter.
fn contains(present: &Value, wanted: &Value) -> bool {
    match (present, wanted) {
        (Value::Object(present), Value::Object(wanted)) => {
            wanted.iter().all(|(name, wanted)| present.get(name).is_some_and(|one| contains(one, wanted)))
        }
        (Value::Array(present), Value::Array(wanted)) => {
            present.len() == wanted.len()
                && present.iter().zip(wanted).all(|(one, other)| contains(one, other))
        }
        (Value::Number(present), Value::Number(wanted)) => present.as_f64() == wanted.as_f64(),
        (present, wanted) => present == wanted,
    }
}
