//! `kubewright run`: an operator that is being written, built and started again whenever its source changes.

mod logs;

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    pin::{Pin, pin},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use clap::Args;
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{
    Api, ResourceExt as _,
    api::{DynamicObject, PostParams},
};
use kubewright::Reach;
use kubewright_apiserver::write_private;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    process::{Child, ChildStderr, Command},
    time::{sleep, timeout},
};

use self::logs::Logs;
use crate::{
    apply::apply,
    local::{Local, Place},
    program::Program,
    project,
    source::{Snapshot, Source},
};

/// How often the source is looked at.
const GLANCE: Duration = Duration::from_millis(500);
/// How long an operator may take to end; a little longer than the grace period it gives itself.
const PATIENCE: Duration = Duration::from_secs(35);
/// For how long the token of an operator is good.
const TOKEN_SECONDS: i64 = 24 * 60 * 60;

/// Run an operator from its source, and again when that changes
#[derive(Args)]
#[command(after_help = "\
A local cluster also has those kinds of others whose definitions `kubewright create types` keeps in
tests/operator/definitions. In another cluster they must be there.

Examples:
  kubewright run
      The operator in this directory, against the cluster of the current kubeconfig.

  kubewright run --webhook-url https://192.0.2.1:9443
      And that cluster finds this machine there, so that it can call the operator's webhooks.

  kubewright run operators/memcached --local
      Against a local cluster of its own, where it is installed with the rights of its manifests.

  kubewright run --local --data-dir .kubewright -- --log-level debug
      Keeps the cluster between runs; what is behind -- is for the operator.")]
pub(crate) struct Run {
    /// The directory of the operator's crate
    #[arg(default_value = ".")]
    path: PathBuf,

    /// Which of its programs to run, if it has several
    #[arg(long, value_name = "NAME")]
    bin: Option<String>,

    /// Run it against a local cluster of its own
    #[arg(long)]
    local: bool,

    /// Where the cluster finds this machine, as in https://HOST:PORT, so that it can call the operator's webhooks
    #[arg(long, value_name = "URL", value_parser = address, conflicts_with = "local")]
    webhook_url: Option<String>,

    /// End when the operator ends, and leave its source alone
    #[arg(long)]
    once: bool,

    /// How many simulated nodes the local cluster has
    #[arg(long, value_name = "N", default_value_t = 1, env = "KUBEWRIGHT_NODES")]
    nodes: usize,

    #[command(flatten)]
    place: Place,

    /// Arguments for the operator
    #[arg(last = true, value_name = "ARGUMENTS")]
    arguments: Vec<String>,
}

impl Run {
    pub(crate) async fn run(self, stop: impl Future<Output = ()>) -> Result<(), String> {
        let mut stop = pin!(stop);
        let mut logs = Logs::new();
        let source = Source::of(&self.path, self.bin.clone()).await?;
        let local = match self.local {
            true => Some(self.place.start(Some(self.nodes)).await?),
            false => None,
        };
        if let Some(local) = &local {
            let kubeconfig = self.place.kubeconfig.display();
            logs.note(&format!("a cluster is at {}; export KUBECONFIG={kubeconfig}", local.url()));
        }
        let outcome = self.follow(&source, local.as_ref(), &mut logs, stop.as_mut()).await;
        if let Some(local) = local {
            local.stop().await;
        }
        outcome
    }

    /// Builds and runs it, again and again, until it is told to stop.
    async fn follow(
        &self,
        source: &Source,
        local: Option<&Local>,
        logs: &mut Logs,
        mut stop: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<(), String> {
        let mut running: Option<Process> = None;
        loop {
            let seen = source.snapshot();
            logs.share(true);
            let prepared = self.prepare(source, local);
            let prepared = self.meanwhile(prepared, &mut running, logs, stop.as_mut()).await?;
            logs.share(false);
            let Some(prepared) = prepared else { break };
            match prepared {
                Ok((program, kubeconfig)) => {
                    end(running.take(), logs).await;
                    logs.begin();
                    let webhooks = local.map(|local| local.webhooks);
                    running = Some(self.start(&program, kubeconfig.as_deref(), webhooks)?);
                    logs.note(&format!("running {}", program.display()));
                }
                Err(why) if self.once => return Err(why),
                Err(why) if running.is_some() => logs.note(&format!("{why}; what ran before goes on")),
                Err(why) => logs.note(&format!("{why}; waiting for a change")),
            }
            let changed = async {
                match self.once {
                    true => std::future::pending().await,
                    false => changed(source, &seen).await,
                }
            };
            if self.meanwhile(changed, &mut running, logs, stop.as_mut()).await?.is_none() {
                break;
            }
            logs.note("the source has changed");
        }
        logs.note("stopping");
        end(running, logs).await;
        Ok(())
    }

    /// Waits for something, and shows what the operator says meanwhile. Nothing if all is to end.
    async fn meanwhile<T>(
        &self,
        something: impl Future<Output = T>,
        running: &mut Option<Process>,
        logs: &mut Logs,
        mut stop: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<Option<T>, String> {
        let mut something = pin!(something);
        loop {
            let said = tokio::select! {
                biased;
                () = &mut stop => return Ok(None),
                done = &mut something => return Ok(Some(done)),
                said = next(running) => said,
            };
            match said {
                Said::Line(line) => logs.take(&line),
                Said::Ended(status) if self.once && status.success() => return Ok(None),
                Said::Ended(status) if self.once => return Err(ended(status)),
                Said::Ended(status) => {
                    *running = None;
                    logs.note(&format!("{}; waiting for a change", ended(status)));
                }
            }
        }
    }

    /// Builds the operator and, if the cluster is its own, installs it. Gives the program, and how it reaches the
    /// cluster if that is not as usual.
    async fn prepare(
        &self,
        source: &Source,
        local: Option<&Local>,
    ) -> Result<(PathBuf, Option<PathBuf>), String> {
        let program = source.build().await?;
        let kubeconfig = match local {
            Some(local) => Some(self.install(&program, local).await?),
            None => None,
        };
        Ok((program, kubeconfig))
    }

    /// Installs the operator as its manifests say, and writes the kubeconfig of its own account. Calls of its Service go to
    /// this machine.
    async fn install(&self, program: &Path, local: &Local) -> Result<PathBuf, String> {
        let program = Program::at(program);
        let documents = program.manifests(&["--only=crds,namespace,rbac,webhooks".to_owned()]).await?;
        let client = local.server.client();
        for definition in definitions_of_others(&self.path)? {
            apply(&client, &definition).await?;
        }
        let mut account: Option<DynamicObject> = None;
        for document in documents {
            let object: DynamicObject =
                serde_json::from_value(document).map_err(|_| program.no_manifests())?;
            apply(&client, &object).await?;
            match object.types.as_ref().map_or("", |types| &types.kind) {
                "Service" => {
                    let namespace = object.namespace().unwrap_or_default();
                    local.services.lead(&namespace, &object.name_any(), local.webhooks);
                }
                "ServiceAccount" => account = Some(object),
                _ => {}
            }
        }
        let account = account.ok_or_else(|| program.no_manifests())?;
        let namespace = account.namespace().unwrap_or_default();
        let accounts: Api<ServiceAccount> = Api::namespaced(client, &namespace);
        let spec =
            TokenRequestSpec { expiration_seconds: Some(TOKEN_SECONDS), ..TokenRequestSpec::default() };
        let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
        let token =
            accounts.create_token_request(&account.name_any(), &PostParams::default(), &request).await;
        let token = token.map_err(|why| format!("the operator got no token: {why}"))?;
        let token = token.status.map(|status| status.token).unwrap_or_default();

        let mut config: Value = serde_saphyr::from_str(&local.kubeconfig()).map_err(|why| why.to_string())?;
        config["users"][0]["user"] = json!({"token": token});
        config["contexts"][0]["context"]["namespace"] = namespace.into();
        let path = self.place.kubeconfig.with_extension("operator.kubeconfig");
        write_private(&path, &config.to_string())
            .map_err(|why| format!("can't write the kubeconfig {}: {why}", path.display()))?;
        Ok(path)
    }

    fn start(
        &self,
        program: &Path,
        kubeconfig: Option<&Path>,
        webhooks: Option<SocketAddr>,
    ) -> Result<Process, String> {
        let mut command = Command::new(program);
        command.arg("run").args(&self.arguments);
        // Ctrl-C on the terminal is for this process, which then tells the operator.
        command.process_group(0).kill_on_drop(true).stdin(Stdio::null()).stderr(Stdio::piped());
        command.env("LOG_FORMAT", "json");
        let webhooks = match (webhooks, &self.webhook_url) {
            (Some(address), _) => ("WEBHOOK_BIND_ADDRESS", address.to_string()),
            (None, Some(url)) => ("WEBHOOK_URL", url.clone()),
            (None, None) => ("WEBHOOK_URL", "auto".to_owned()),
        };
        for (name, value) in [
            ("METRICS_BIND_ADDRESS", "127.0.0.1:0".to_owned()),
            ("HEALTH_PROBE_BIND_ADDRESS", "0".to_owned()),
            webhooks,
        ] {
            if std::env::var_os(name).is_none() {
                command.env(name, value);
            }
        }
        if let Some(kubeconfig) = kubeconfig {
            command.env("KUBECONFIG", kubeconfig);
        }
        let mut child = command.spawn().map_err(|why| format!("can't run {}: {why}", program.display()))?;
        let lines = child.stderr.take().map(|stderr| BufReader::new(stderr).lines());
        Ok(Process { child, lines })
    }
}

fn address(url: &str) -> Result<String, String> {
    Reach::at(url).map(|_| url.to_owned()).map_err(|why| why.to_string())
}

/// The definitions that a project keeps of kinds that it does not bring along; another cluster has them from their owner.
fn definitions_of_others(project: &Path) -> Result<Vec<DynamicObject>, String> {
    let mut definitions = Vec::new();
    for entry in fs::read_dir(project.join(project::DEFINITIONS)).into_iter().flatten().flatten() {
        let path = entry.path();
        let text =
            fs::read_to_string(&path).map_err(|why| format!("can't read {}: {why}", path.display()))?;
        let definition = serde_saphyr::from_str(&text);
        definitions.push(definition.map_err(|_| format!("{} is no definition", path.display()))?);
    }
    Ok(definitions)
}

/// A running operator.
struct Process {
    child: Child,
    /// What it logs; nothing once it has closed that.
    lines: Option<Lines<BufReader<ChildStderr>>>,
}

enum Said {
    Line(String),
    Ended(ExitStatus),
}

/// What the operator says next; nothing ever if there is none.
async fn next(running: &mut Option<Process>) -> Said {
    let Some(program) = running else { return std::future::pending().await };
    if let Some(lines) = &mut program.lines {
        if let Ok(Some(line)) = lines.next_line().await {
            return Said::Line(line);
        }
        program.lines = None;
    }
    Said::Ended(program.child.wait().await.unwrap_or_default())
}

fn ended(status: ExitStatus) -> String {
    format!("the operator has ended: {status}")
}

/// Waits until the source differs from what was seen, and has settled.
async fn changed(source: &Source, seen: &Snapshot) {
    let mut last = source.snapshot();
    loop {
        sleep(GLANCE).await;
        let now = source.snapshot();
        if now == last && now != *seen {
            return;
        }
        last = now;
    }
}

/// Asks an operator to end, and waits for it; if it takes too long, it is killed.
async fn end(mut running: Option<Process>, logs: &mut Logs) {
    let Some(program) = &running else { return };
    let pid = program.child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    if let Some(pid) = pid {
        // If it has just ended by itself, so much the better.
        let _ = kill_process(pid, Signal::TERM);
    }
    let said = async {
        while let Said::Line(line) = next(&mut running).await {
            logs.take(&line);
        }
    };
    if timeout(PATIENCE, said).await.is_err() {
        logs.note("the operator did not end in time: it is killed");
    }
}
