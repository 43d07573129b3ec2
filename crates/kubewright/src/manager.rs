//! Runs an operator: first the watches, until everything was seen; then what every replica does; then, as the
//! leader, the rest. On the way out in the opposite order. Whatever fails ends the whole, with its cause.

mod webhooks;

use std::{collections::BTreeSet, net::SocketAddr, sync::Arc, time::Duration};

use kube::Client;
use parking_lot::Mutex;
use tokio::{
    io::DuplexStream,
    sync::{Notify, mpsc, watch},
    task::{JoinHandle, JoinSet},
    time::{Instant, timeout, timeout_at},
};

use crate::{
    cache::Cache,
    client::{Fence, fenced},
    clock::Clock,
    controller::{Controller, Description, Parts, Prepared, Queues, Resync},
    entropy::Entropy,
    error::{Error, Result},
    events::{Event, Recorder},
    leader::{Elector, LeaderElection, Leadership},
    metrics::Metrics,
    migration,
    operator::Operator,
    queue::Stats,
    serve::{
        self, Access, Certificate, Desk, Door, Guard, Inspected, InspectedController, Purpose, Server, Tls,
    },
    shutdown::{Shutdown, Stop},
    task::TaskContext,
    webhook::Lead,
};

/// How long the next leader may have to wait for the event that tells of this one's end.
const FAREWELL: Duration = Duration::from_secs(1);

/// How an operator is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Only one replica at a time writes; nothing if there is only one.
    pub leader_election: Option<LeaderElection>,
    /// The namespaces that are watched; none means all.
    pub namespaces: Vec<String>,
    /// How long running reconciles may take to end when the operator is stopped: 30 seconds.
    pub grace: Duration,
    /// How long it may take until everything was seen once: two minutes.
    pub sync_timeout: Duration,
    /// How often every object is reconciled though nothing has changed, to be safe: every ten hours.
    pub resync: Option<Duration>,
    /// Whether events are written, for people to read: they are.
    pub events: bool,
    /// Where `/metrics` and `/debug` are served; nothing for nowhere. Port 0 takes a free one.
    pub metrics_address: Option<SocketAddr>,
    /// Serves metrics over TLS with this certificate, and only to those whose token the API server knows and whom
    /// it allows to `get` the path; without it everybody may read them.
    pub secure_metrics: Option<Certificate>,
    /// Where `/healthz` and `/readyz` are served; nothing for nowhere. Port 0 takes a free one.
    pub health_address: Option<SocketAddr>,
    /// Where webhooks are served, if there are any; nothing for nowhere but [within the process](Running::webhooks).
    /// Port 0 takes a free one.
    pub webhook_address: Option<SocketAddr>,
    /// Where the API server finds the webhooks of an operator outside of its cluster, as in `https://192.0.2.1:9443`: the
    /// webhook configurations and the conversions of its kinds lead there while it runs, and are as they were found when
    /// it has ended. Its certificates are for this address, and end with it.
    pub webhook_url: Option<String>,
    /// The certificate for webhooks, whose authority somebody else makes known to the API server. Without it the
    /// operator makes its own, keeps them in a Secret of its namespace, renews them, and tells the API server.
    pub webhook_certificate: Option<Certificate>,
    /// How long the certificates last that the operator makes for webhooks: 90 days. They are renewed when two thirds of
    /// it are over.
    pub webhook_certificate_life: Duration,
    /// The host and port of the API server, as metrics name it: a client does not tell where its requests go.
    pub host: String,
    /// Where the time comes from.
    pub clock: Clock,
    /// Where randomness comes from.
    pub entropy: Entropy,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            leader_election: None,
            namespaces: Vec::new(),
            grace: Duration::from_secs(30),
            sync_timeout: Duration::from_secs(120),
            resync: Some(Duration::from_secs(10 * 60 * 60)),
            events: true,
            metrics_address: None,
            secure_metrics: None,
            health_address: None,
            webhook_address: None,
            webhook_url: None,
            webhook_certificate: None,
            webhook_certificate_life: Duration::from_secs(90 * 24 * 60 * 60),
            host: String::new(),
            clock: Clock::system(),
            entropy: Entropy::system(),
        }
    }
}

/// How far an operator has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// The watches have not seen everything yet.
    Syncing,
    /// Everything was seen; another replica may lead.
    Waiting,
    /// It reconciles.
    Working,
    /// It is coming to its end.
    Stopping,
}

/// Where a running operator can be looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Addresses {
    /// Where `/metrics` and `/debug` are.
    pub metrics: Option<SocketAddr>,
    /// Where `/healthz` and `/readyz` are.
    pub health: Option<SocketAddr>,
    /// Where webhooks are.
    pub webhooks: Option<SocketAddr>,
}

/// A running operator. Dropping it is like a crash: everything ends at once, wherever it is.
#[must_use = "the operator ends when this is dropped"]
pub struct Running {
    /// Nothing once its end was told.
    task: Option<JoinHandle<Result<()>>>,
    stop: Stop,
    phase: watch::Receiver<Phase>,
    addresses: watch::Receiver<Addresses>,
    webhooks: Door,
    trusted: watch::Receiver<bool>,
    metrics: Metrics,
    resync: Arc<Notify>,
    queues: Arc<Queues>,
}

/// What a running operator has to do. It can be looked at from anywhere, also after the operator has ended.
#[derive(Clone)]
pub struct Backlog(Arc<Queues>);

impl Backlog {
    /// How much each controller has to do, in the order in which they were added.
    pub fn stats(&self) -> Vec<Stats> {
        self.0.stats()
    }
}

impl Running {
    /// Waits until it reconciles, or has failed.
    pub async fn working(&mut self) -> Result<()> {
        let is_working = self.phase.wait_for(|phase| *phase >= Phase::Working).await.is_ok();
        if is_working {
            return Ok(());
        }
        self.ended().await.and(Err(Error::new("the operator has ended")))
    }

    /// How far it has come.
    pub fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Waits until its servers are open, and says where; nothing if it has none, or has ended.
    pub async fn addresses(&self) -> Addresses {
        let mut addresses = self.addresses.clone();
        // Told once, before anything else is done.
        let _ = addresses.changed().await;
        *addresses.borrow()
    }

    /// Waits until the API server has been told to trust its webhooks; not at all if there are none, if somebody else says
    /// whom to trust, or if it has ended.
    pub async fn trusted(&self) {
        let _ = self.trusted.clone().wait_for(|is_trusted| *is_trusted).await;
    }

    /// The way to its webhooks within the process.
    pub fn webhooks(&self) -> Door {
        self.webhooks.clone()
    }

    /// Reconciles every object now, though nothing has changed, as [`Options::resync`] does from time to time.
    pub fn resync(&self) {
        self.resync.notify_waiters();
    }

    /// Its metrics, in the text form that Prometheus reads.
    pub fn metrics(&self) -> String {
        self.metrics.text()
    }

    /// What its controllers have to do.
    pub fn backlog(&self) -> Backlog {
        Backlog(self.queues.clone())
    }

    /// Waits until it ends by itself, which it only does if something fails. Why it has ended is told once.
    pub async fn ended(&mut self) -> Result<()> {
        let Some(task) = &mut self.task else { return Ok(()) };
        let outcome = task.await;
        self.task = None;
        outcome.unwrap_or_else(|panic| Err(panic.into()))
    }

    /// Asks it to end: running reconciles come to theirs, and the lease is released.
    pub async fn stop(mut self) -> Result<()> {
        self.stop.request();
        self.ended().await
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

pub(crate) fn start(operator: Operator, client: Client, options: Options) -> Running {
    let (stop, shutdown) = Stop::new();
    let (tell, phase) = watch::channel(Phase::Syncing);
    let metrics = Metrics::new();
    let (tell_addresses, addresses) = watch::channel(Addresses::default());
    let (webhooks, calls) = Door::new();
    let (tell_trusted, trusted) = watch::channel(false);
    let (resync, queues) = (Arc::new(Notify::new()), Arc::new(Queues::default()));
    let manager = Manager {
        operator,
        client,
        options,
        metrics: metrics.clone(),
        phase: tell,
        addresses: tell_addresses,
        trusted: tell_trusted,
        resync: resync.clone(),
        queues: queues.clone(),
    };
    let task = Some(tokio::spawn(manager.run(shutdown, calls)));
    Running { task, stop, phase, addresses, webhooks, trusted, metrics, resync, queues }
}

/// Connections to webhooks from within the process.
type Calls = mpsc::UnboundedReceiver<DuplexStream>;

struct Manager {
    operator: Operator,
    client: Client,
    options: Options,
    metrics: Metrics,
    phase: watch::Sender<Phase>,
    addresses: watch::Sender<Addresses>,
    trusted: watch::Sender<bool>,
    resync: Arc<Notify>,
    queues: Arc<Queues>,
}

/// What the outside finds, and how it is led there.
#[derive(Default)]
struct Open {
    lead: Option<Lead>,
    servers: Vec<Server>,
}

impl Manager {
    async fn run(self, shutdown: Shutdown, calls: Calls) -> Result<()> {
        let mut open = Open::default();
        let outcome = self.work(shutdown, calls, &mut open).await;
        if let Some(lead) = open.lead {
            lead.put_back().await;
        }
        outcome
    }

    async fn work(&self, shutdown: Shutdown, calls: Calls, open: &mut Open) -> Result<()> {
        self.check()?;
        let webhooks = self.webhook_tls()?;
        let elector = self.elector()?;
        let fence = elector.as_ref().map_or_else(Fence::open, Elector::fence);
        let free = self.behind(Fence::open());
        let leading = self.behind(fence);
        // One set of watches for all: reading needs no leadership.
        let cache = Cache::new(
            free.clone(),
            self.options.entropy.clone(),
            &self.operator.name,
            self.options.namespaces.clone(),
        );
        let inspected = Arc::new(Inspected {
            operator: self.operator.name.clone(),
            phase: self.phase.subscribe(),
            metrics: self.metrics.clone(),
            cache: cache.clone(),
            webhooks: webhooks.clone(),
            controllers: Mutex::default(),
        });
        // From before the first watch until after the lease is released.
        open.servers = self.serve(&inspected, &free, calls).await?;
        open.lead = self.lead(&free).await?;
        let reporting_as = |name: &Arc<str>| {
            let Options { events, clock, entropy, .. } = &self.options;
            Arc::new(Recorder::new(name.clone(), *events, *clock, entropy.clone()))
        };
        let recorder = reporting_as(&self.operator.name);
        let (leaders, others): (Vec<Prepared>, Vec<Prepared>) = self
            .operator
            .controllers
            .iter()
            .map(|controller| {
                let description = &controller.description;
                let needs_leadership = description.options.needs_leadership;
                let client = if needs_leadership { &leading } else { &free };
                (controller.prepare)(Parts {
                    operator: self.operator.name.clone(),
                    client: client.clone(),
                    cache: cache.clone(),
                    clock: self.options.clock,
                    entropy: self.options.entropy.clone(),
                    metrics: self.metrics.controller(&description.name),
                    recorder: description
                        .options
                        .reporter
                        .as_ref()
                        .map_or_else(|| recorder.clone(), reporting_as),
                    queues: self.queues.clone(),
                    resync: Resync { every: self.options.resync, now: self.resync.clone() },
                    is_alone: self.is_alone(controller),
                })
            })
            .inspect(|prepared| {
                inspected.controllers.lock().push(InspectedController {
                    name: prepared.name.clone(),
                    queue: prepared.queue.clone(),
                    history: prepared.history.clone(),
                });
            })
            .partition(|prepared| prepared.needs_leadership);

        let mut parts = Work::new(self.options.grace);
        match webhooks.filter(|_| self.options.webhook_certificate.is_none()) {
            Some(tls) => parts.besides(self.keeper(tls, &free, &cache).run()),
            None => drop(self.trusted.send_replace(true)),
        }
        let synced = async {
            let (mut ready, deadline) = (Vec::new(), Instant::now() + self.options.sync_timeout);
            for mut prepared in others.into_iter().chain(leaders) {
                self.synced(&mut prepared, deadline).await?;
                ready.push(prepared);
            }
            if open.lead.is_some() {
                self.trusted(deadline).await?;
            }
            Ok::<_, Error>(ready)
        };
        let ready = tokio::select! {
            biased;
            () = shutdown.requested() => return Ok(()),
            ready = synced => ready?,
        };
        self.phase.send_replace(Phase::Waiting);
        let (leaders, others): (Vec<Prepared>, Vec<Prepared>) =
            ready.into_iter().partition(|prepared| prepared.needs_leadership);
        for prepared in others {
            parts.controller(prepared);
        }
        self.start_tasks(&mut parts, &free, &cache, false);
        let mut leadership: Option<Leadership> = None;
        if let Some(elector) = elector {
            let name = self.lease_name();
            self.metrics.leads(&name, false);
            tokio::select! {
                biased;
                () = shutdown.requested() => return parts.end(None).await,
                why = parts.failed() => return parts.end(Some(why)).await,
                gained = elector.acquire() => leadership = Some(gained),
            }
            self.metrics.leads(&name, true);
        }
        if let Some(leadership) = &leadership {
            // Besides: what is told of the work must not delay it.
            tokio::spawn(told(&recorder, &leading, leadership, "became leader"));
        }
        for prepared in leaders {
            parts.controller(prepared);
        }
        self.start_tasks(&mut parts, &leading, &cache, true);
        self.phase.send_replace(Phase::Working);
        tracing::info!(operator = &*self.operator.name, "working");

        let failure = tokio::select! {
            biased;
            () = shutdown.requested() => None,
            why = parts.failed() => Some(why),
            why = lost(leadership.as_mut()) => Some(Error::new(format!("not the leader any more: {why}"))),
        };
        self.phase.send_replace(Phase::Stopping);
        let outcome = parts.end(failure).await;
        if let Some(leadership) = leadership {
            self.metrics.leads(&self.lease_name(), false);
            // While it still leads: later it would be a write of a former leader, which the fence does not let pass.
            if leadership.fence().is_open() {
                let _ = timeout(FAREWELL, told(&recorder, &leading, &leadership, "stopped leading")).await;
            }
            // Only now: nothing of this replica writes any more.
            if let Err(error) = leadership.release().await {
                tracing::warn!(%error, "the lease was not released");
            }
        }
        outcome
    }

    fn check(&self) -> Result<()> {
        let all: Vec<&Description> =
            self.operator.controllers.iter().map(|controller| &controller.description).collect();
        for (at, one) in all.iter().enumerate() {
            for other in &all[..at] {
                one.stands_beside(other)?;
            }
        }
        let mut paths = BTreeSet::new();
        for webhook in &self.operator.webhooks {
            if !paths.insert(webhook.description.path()) {
                let name = webhook.description.name();
                return Err(Error::terminal(format!("there are two webhooks {name}: make them one")));
            }
        }
        self.operator.conversions.check(&self.operator.definitions())
    }

    fn is_alone(&self, controller: &Controller) -> bool {
        let kind = &controller.description.kind;
        let of_kind = |other: &&Controller| {
            (&other.description.kind.group, &other.description.kind.kind) == (&kind.group, &kind.kind)
        };
        self.operator.controllers.iter().filter(of_kind).count() == 1
    }

    async fn serve(&self, inspected: &Arc<Inspected>, client: &Client, calls: Calls) -> Result<Vec<Server>> {
        let mut addresses = Addresses::default();
        let mut servers = Vec::new();
        if let Some(address) = self.options.health_address {
            let desk = Desk { purpose: Purpose::Health, guard: None, inspected: inspected.clone() };
            let server = serve::serve(address, "health", Arc::new(desk)).await?;
            addresses.health = server.address;
            servers.push(server);
        }
        if let Some(address) = self.options.metrics_address {
            let guarded = |certificate| {
                let tls = Tls::new(certificate, self.metrics.clone())?;
                Ok::<_, Error>(Guard { tls, access: Access::new(client.clone()) })
            };
            let guard = self.options.secure_metrics.as_ref().map(guarded).transpose()?;
            let desk = Desk { purpose: Purpose::Metrics, guard, inspected: inspected.clone() };
            let server = serve::serve(address, "metrics", Arc::new(desk)).await?;
            addresses.metrics = server.address;
            servers.push(server);
        }
        if let Some(tls) = &inspected.webhooks {
            let desk = Arc::new(self.webhook_desk(tls.clone(), &inspected.cache));
            if let Some(address) = self.options.webhook_address {
                let server = serve::serve(address, "webhook", desk.clone()).await?;
                addresses.webhooks = server.address;
                servers.push(server);
            }
            servers.push(serve::serve_door(calls, desk));
        }
        self.addresses.send_replace(addresses);
        Ok(servers)
    }

    fn lease_name(&self) -> String {
        let election = self.options.leader_election.as_ref();
        election.map_or_else(|| self.operator.name.to_string(), |election| election.name.clone())
    }

    fn elector(&self) -> Result<Option<Elector>> {
        let Some(options) = self.options.leader_election.clone() else { return Ok(None) };
        let (clock, entropy) = (self.options.clock, self.options.entropy.clone());
        Ok(Some(Elector::new(self.behind(Fence::open()), options, clock, entropy)?))
    }

    /// The client, with its writes behind a fence and its requests counted.
    fn behind(&self, fence: Fence) -> Client {
        let (metrics, host) = (self.metrics.clone(), self.options.host.clone());
        let observer = Arc::new(move |method: &_, code| metrics.request(method, code, &host));
        fenced(self.client.clone(), fence, observer)
    }

    async fn synced(&self, prepared: &mut Prepared, deadline: Instant) -> Result<()> {
        if timeout_at(deadline, &mut prepared.synced).await.is_ok() {
            return Ok(());
        }
        let behind: Vec<String> = (prepared.health)()
            .into_iter()
            .filter(|(_, health)| !health.is_synced)
            .map(|(name, health)| match health.trouble {
                Some(trouble) => format!("{name}: {trouble}"),
                None => format!("{name}: no answer yet"),
            })
            .collect();
        Err(Error::new(format!(
            "controller {} has not seen everything it watches within {:?}: {}",
            prepared.name,
            self.options.sync_timeout,
            behind.join("; ")
        )))
    }

    fn start_tasks(&self, work: &mut Work, client: &Client, cache: &Cache, needs_leadership: bool) {
        let cx = TaskContext {
            client: client.clone(),
            clock: self.options.clock,
            shutdown: work.shutdown.clone(),
            cache: cache.clone(),
        };
        for task in self.operator.tasks.iter().filter(|task| task.needs_leadership == needs_leadership) {
            work.task(&task.name, (task.run)(cx.clone()));
        }
        // Whoever sees only some namespaces can't know that all is migrated.
        if needs_leadership && self.options.namespaces.is_empty() {
            for kind in self.operator.migrated() {
                let run = migration::run(cx.clone(), self.operator.name.clone(), kind.clone());
                work.task(&format!("migration of {kind}"), run);
            }
        }
    }
}

/// Tells of a change of leaders, as client-go does.
fn told(
    recorder: &Arc<Recorder>,
    client: &Client,
    leadership: &Leadership,
    what: &str,
) -> impl Future<Output = ()> + Send + 'static {
    let (recorder, client, lease) = (recorder.clone(), client.clone(), leadership.claimed().clone());
    let note = format!("{} {what}", leadership.identity());
    let event = Event::normal("LeaderElection", "LeaderElection", note);
    async move { recorder.record(&client, &lease, event).await }
}

/// Why the leadership was lost; never if there is none to lose.
async fn lost(leadership: Option<&mut Leadership>) -> String {
    match leadership {
        Some(leadership) => leadership.lost().await.to_string(),
        None => std::future::pending().await,
    }
}

/// Everything that runs, and how it is brought to its end.
struct Work {
    running: JoinSet<Result<()>>,
    stop: Stop,
    shutdown: Shutdown,
    grace: Duration,
}

impl Work {
    fn new(grace: Duration) -> Self {
        let (stop, shutdown) = Stop::new();
        Self { running: JoinSet::new(), stop, shutdown, grace }
    }

    fn controller(&mut self, prepared: Prepared) {
        let run = (prepared.run)(self.shutdown.clone());
        self.running.spawn(async move {
            run.await;
            Ok(())
        });
    }

    fn task(&mut self, name: &str, run: impl Future<Output = Result<()>> + Send + 'static) {
        let name = name.to_owned();
        self.running.spawn(async move { run.await.map_err(|why| Error::new(format!("task {name}: {why}"))) });
    }

    /// Something that is just dropped at the end.
    fn besides(&mut self, run: impl Future<Output = ()> + Send + 'static) {
        let shutdown = self.shutdown.clone();
        self.running.spawn(async move {
            tokio::select! {
                biased;
                () = shutdown.requested() => {}
                () = run => {}
            }
            Ok(())
        });
    }

    /// Waits until something fails. What ends well is let go.
    async fn failed(&mut self) -> Error {
        loop {
            match self.running.join_next().await {
                Some(Ok(Ok(()))) => {}
                Some(Ok(Err(error))) => return error,
                Some(Err(panic)) => return panic.into(),
                None => std::future::pending().await,
            }
        }
    }

    /// Lets everything come to its end, but not for longer than the grace period.
    async fn end(mut self, failure: Option<Error>) -> Result<()> {
        self.stop.request();
        let mut failure = failure;
        let all = async {
            while let Some(ended) = self.running.join_next().await {
                let error = match ended {
                    Ok(Ok(())) => continue,
                    Ok(Err(error)) => error,
                    Err(panic) => panic.into(),
                };
                failure.get_or_insert(error);
            }
        };
        if timeout(self.grace, all).await.is_err() {
            tracing::warn!(grace = ?self.grace, "some reconciles did not end in time and were cut off");
            self.running.shutdown().await;
        }
        failure.map_or(Ok(()), Err)
    }
}
