//! `kubewright up`: a local cluster with operators in it, and their resources, converging before one's eyes.

mod operators;
mod reconciles;
mod screen;
mod state;
#[cfg(test)]
mod tests;
mod tree;

use std::{path::Path, sync::Arc, time::Duration};

use clap::{Args, builder::PossibleValuesParser};
use futures_util::future::select_all;
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, ReplicaSet},
        batch::v1::Job,
        core::v1::{ConfigMap, Event, Pod, Secret, Service},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{ResourceExt as _, api::DynamicObject};
use kubewright::{
    KindName, ManifestOptions, Operator, Options, Part, Running, Seen, TaskContext, Watch, Watching,
    install_crds,
};
use kubewright_apiserver::ApiServer;
use kubewright_cluster::Services;
use serde_json::{Value, json};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep, sleep_until},
};
use tracing_subscriber::layer::SubscriberExt as _;

use self::{
    operators::{OPERATORS, Sample},
    reconciles::Reconciles,
    screen::Screen,
    state::Mood,
    tree::Branch,
};
use crate::{
    apply::{apply, create_if_missing},
    local::Place,
    terminal::{Output, line},
};

/// How long changes are collected until they are shown.
const PAUSE: Duration = Duration::from_millis(50);

/// Run a local cluster with the sample operators, and watch their resources converge
#[derive(Args)]
#[command(after_help = "\
Examples:
  kubewright up
      All operators with their sample resources, until Ctrl-C.

  kubewright up myweb memcached
      Two of them.

  kubewright up memcached --no-samples
      An operator that waits for resources: for its walk-through, or your own.

  kubewright up --once --output json
      For scripts: ends as soon as all samples have converged, and says how they are.

  kubewright up --data-dir ~/.local/share/kubewright-up --listen 127.0.0.1:6443
      Goes on where it was stopped, on a fixed port.")]
pub(crate) struct Up {
    /// Which operators to run; all of them if none is named
    #[arg(value_name = "OPERATOR", value_parser = PossibleValuesParser::new(OPERATORS.iter().map(|sample| sample.name)))]
    operators: Vec<String>,

    /// Run the operators, but create no resources for them
    #[arg(long, conflicts_with = "once")]
    no_samples: bool,

    /// End when all samples have converged; with an error if they have not in time
    #[arg(long)]
    once: bool,

    /// How long the samples may take with --once, such as 90s or 2m
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    timeout: Duration,

    /// How to print how the samples are
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,

    /// How many simulated nodes there are; those of an earlier run stay
    #[arg(long, value_name = "N", default_value_t = 3, env = "KUBEWRIGHT_NODES")]
    nodes: usize,

    #[command(flatten)]
    place: Place,
}

fn duration(text: &str) -> Result<Duration, String> {
    let duration: jiff::SignedDuration = text.parse().map_err(|_| "write it as 90s or 2m".to_owned())?;
    duration.try_into().map_err(|_| "a time can't be negative".to_owned())
}

/// All that is shown at one moment.
#[derive(Default)]
pub(crate) struct Picture {
    trees: Vec<Branch>,
    /// The latest last.
    events: Vec<Happening>,
}

/// An event, as people read it.
struct Happening {
    text: String,
    is_warning: bool,
}

impl Picture {
    fn is_at_rest(&self, samples: usize) -> bool {
        self.trees.len() >= samples && self.trees.iter().all(Branch::is_at_rest)
    }
}

impl Up {
    pub(crate) async fn run(self, stop: impl Future<Output = ()>) -> Result<(), String> {
        let begun = Instant::now();
        let reconciles = Reconciles::default();
        // Fails only if there is a subscriber already, and there is none.
        let _ =
            tracing::subscriber::set_global_default(tracing_subscriber::registry().with(reconciles.clone()));
        let mut local = self.place.start(Some(self.nodes)).await?;
        let (server, services) = (local.server.clone(), local.services.clone());
        if self.output == Output::Text {
            let milliseconds = local.ready.as_secs_f64() * 1e3;
            line(&format!("The cluster is at {}, ready after {milliseconds:.0} ms.\n", local.url()));
        }
        let mut running = Vec::new();
        let outcome = tokio::select! {
            biased;
            () = stop => Ok(()),
            why = local.ended() => Err(why),
            outcome = self.converge(&server, &services, &reconciles, begun, &mut running) => outcome,
        };
        for operator in running {
            let _ = operator.stop().await;
        }
        local.stop().await;
        outcome
    }

    /// Brings the operators and their samples into the cluster, and shows them: until they are at rest if that is all
    /// that is wanted, else without an end.
    async fn converge(
        &self,
        server: &ApiServer,
        services: &Services,
        reconciles: &Reconciles,
        begun: Instant,
        running: &mut Vec<Running>,
    ) -> Result<(), String> {
        let client = server.client();
        let chosen: Vec<&Sample> = OPERATORS
            .iter()
            .filter(|sample| {
                self.operators.is_empty() || self.operators.iter().any(|name| name == sample.name)
            })
            .collect();
        let mut kinds = Vec::new();
        for sample in &chosen {
            let operator = (sample.operator)();
            operator.controllers().for_each(|name| reconciles.follow(name));
            for kind in operator.definitions().into_iter().filter_map(kind_of) {
                let is_other_version =
                    |known: &KindName| (&known.group, &known.kind) == (&kind.group, &kind.kind);
                if !kinds.iter().any(is_other_version) {
                    kinds.push(kind);
                }
            }
            running.push(
                start(server, services, operator).await.map_err(|why| format!("{}: {why}", sample.name))?,
            );
        }
        for (sample, operator) in chosen.iter().zip(running.iter_mut()) {
            operator.working().await.map_err(|why| format!("{} does not work: {why}", sample.name))?;
            operator.trusted().await;
            if !self.no_samples {
                create_if_missing(&client, &resource_of(sample)?).await?;
            }
        }
        let (pictures, mut seen) = watch::channel(Picture::default());
        let pictures = Arc::new(pictures);
        let view = Operator::new("kubewright-up")
            .task_everywhere("view", move |cx| view(cx, kinds.clone(), pictures.clone()));
        running.push(view.start(client, Options::default()));

        let mut screen = match self.output {
            Output::Text => Screen::new(),
            Output::Json => Screen::Dark,
        };
        let deadline = begun + self.timeout;
        let mut footer = Vec::new();
        loop {
            let is_late = tokio::select! {
                biased;
                why = any_ended(running) => return Err(why),
                _ = seen.changed() => false,
                () = sleep_until(deadline), if self.once => true,
            };
            let picture = seen.borrow_and_update();
            let samples = if self.no_samples { 0 } else { chosen.len() };
            let has_just_converged = footer.is_empty() && picture.is_at_rest(samples);
            if has_just_converged {
                footer = self.next_steps(chosen[0], begun.elapsed());
            }
            screen.show(&picture, reconciles, &footer);
            if has_just_converged {
                screen.close(&footer);
                self.summarise(&picture, begun.elapsed(), true);
                if self.once {
                    return Ok(());
                }
            }
            if is_late {
                self.summarise(&picture, begun.elapsed(), false);
                return Err(unfinished(&picture, self.timeout));
            }
        }
    }

    /// The same as is shown to people, for programs.
    fn summarise(&self, picture: &Picture, after: Duration, has_converged: bool) {
        if self.output == Output::Json {
            let resources: Vec<Value> = picture.trees.iter().map(Branch::summary).collect();
            let summary = json!({
                "converged": has_converged,
                "kubeconfig": self.place.kubeconfig,
                "milliseconds": after.as_secs_f64() * 1e3,
                "resources": resources,
            });
            line(&summary.to_string());
        }
    }

    /// What to do now that everything is there, with one of the operators for example.
    fn next_steps(&self, Sample { name, .. }: &Sample, after: Duration) -> Vec<String> {
        let what = if self.no_samples { "Everything is there" } else { "Everything has converged" };
        let mut lines = vec![format!("{what} after {:.1} s.", after.as_secs_f64())];
        if self.once {
            return lines;
        }
        lines.push("Ctrl-C ends it. Meanwhile, in another terminal:".to_owned());
        lines.push(format!("  export KUBECONFIG={}", self.place.kubeconfig.display()));
        lines.push("  kubectl get all".to_owned());
        if self.no_samples {
            let sample = format!("operators/{name}/config/samples/{name}.yaml");
            lines.push(match Path::new(&sample).is_file() {
                true => format!("  kubectl apply -f {sample}"),
                false => format!("  kubectl explain {name}.spec"),
            });
        } else {
            lines.push(format!("  kubectl edit {name} {name}"));
            lines.push("  kubectl delete pods --all".to_owned());
        }
        lines
    }
}

/// Installs an operator as its manifests say, and runs it with the rights they give.
async fn start(server: &ApiServer, services: &Services, operator: Operator) -> Result<Running, String> {
    let client = server.client();
    install_crds(&client, &operator).await.map_err(|why| why.to_string())?;
    let namespace = format!("{}-system", operator.name());
    let options = ManifestOptions {
        namespace: Some(namespace.clone()),
        only: [Part::Namespace, Part::Rbac, Part::Webhooks].into(),
        ..ManifestOptions::default()
    };
    for document in operator.manifests(&options) {
        let object = serde_json::from_value(document).map_err(|why| why.to_string())?;
        apply(&client, &object).await?;
    }
    let (account, service) =
        (server.client_of_service_account(&namespace, operator.name()), operator.webhook_service());
    let running = operator.start(account, Options::default());
    services.lead(&namespace, &service, running.webhooks());
    Ok(running)
}

/// Waits until one of the operators has ended by itself, and says why.
async fn any_ended(running: &mut [Running]) -> String {
    let ends = running.iter_mut().map(|operator| Box::pin(operator.ended()));
    let (outcome, ..) = select_all(ends).await;
    let why = outcome.err().map_or_else(String::new, |why| why.to_string());
    format!("an operator has ended: {why}")
}

/// The resource of an operator, by the operator's name: they all share a namespace, and so do their children.
fn resource_of(sample: &Sample) -> Result<DynamicObject, String> {
    let mut resource: DynamicObject = serde_saphyr::from_str(sample.resource)
        .map_err(|why| format!("the sample of {} can't be read: {why}", sample.name))?;
    resource.metadata.name = Some(sample.name.to_owned());
    Ok(resource)
}

/// The kind that a definition defines, at the version that is stored.
fn kind_of(definition: &CustomResourceDefinition) -> Option<KindName> {
    let spec = &definition.spec;
    Some(KindName {
        group: spec.group.clone(),
        version: spec.versions.iter().find(|version| version.storage)?.name.clone(),
        kind: spec.names.kind.clone(),
        plural: spec.names.plural.clone(),
        is_namespaced: spec.scope == "Namespaced",
    })
}

/// Watches everything that is shown, and makes a picture of it whenever something has changed.
async fn view(
    cx: TaskContext,
    kinds: Vec<KindName>,
    pictures: Arc<watch::Sender<Picture>>,
) -> kubewright::Result<()> {
    let changed = Arc::new(Notify::new());
    let follow = |kind: KindName| {
        let changed = changed.clone();
        cx.watch(Watch::<DynamicObject>::of(kind), move |_| changed.notify_one())
    };
    let made = [
        KindName::of::<ConfigMap>(),
        KindName::of::<Secret>(),
        KindName::of::<Service>(),
        KindName::of::<Deployment>(),
        KindName::of::<ReplicaSet>(),
        KindName::of::<Job>(),
        KindName::of::<Pod>(),
    ];
    let resources: Vec<_> = kinds.into_iter().map(follow).collect();
    let others: Vec<_> = made.into_iter().map(follow).collect();
    let events = follow(KindName::of::<Event>());
    for watching in resources.iter().chain(&others).chain([&events]) {
        watching.ready().await?;
    }
    loop {
        tokio::select! {
            biased;
            () = cx.shutdown.requested() => return Ok(()),
            () = changed.notified() => {}
        }
        pictures.send_replace(Picture {
            trees: tree::grow(all(&resources), all(&others)),
            events: happenings(all(std::slice::from_ref(&events)).collect()),
        });
        sleep(PAUSE).await;
    }
}

fn all(watched: &[Watching<DynamicObject>]) -> impl Iterator<Item = Arc<DynamicObject>> {
    watched.iter().flat_map(|watching| watching.list(None)).map(Seen::into_arc)
}

/// The latest events, the last one last.
fn happenings(mut events: Vec<Arc<DynamicObject>>) -> Vec<Happening> {
    let time = |event: &DynamicObject| {
        let times = ["/series/lastObservedTime", "/eventTime", "/lastTimestamp", "/firstTimestamp"];
        times.iter().find_map(|path| event.data.pointer(path)?.as_str()).unwrap_or_default().to_owned()
    };
    events.sort_by_cached_key(|event| (time(event), event.name_any()));
    let text = |event: &DynamicObject, path: &str| {
        event.data.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    events
        .iter()
        .map(|event| Happening {
            text: format!(
                "{} {}: {}: {}",
                text(event, "/involvedObject/kind"),
                text(event, "/involvedObject/name"),
                text(event, "/reason"),
                text(event, "/message")
            ),
            is_warning: event.data["type"] == "Warning",
        })
        .collect()
}

/// Why not everything is at rest.
fn unfinished(picture: &Picture, limit: Duration) -> String {
    let mut text = format!("not everything has converged within {limit:?}:");
    for line in picture.trees.iter().filter(|tree| !tree.is_at_rest()).flat_map(Branch::lines) {
        let mark = if line.state.mood == Mood::Well { "" } else { "  <--" };
        text.push_str(&format!("\n  {}{}: {}{mark}", line.lead, line.name, line.state.text));
    }
    for event in picture.events.iter().filter(|event| event.is_warning) {
        text.push_str(&format!("\n  {}", event.text));
    }
    text
}
