//! Who keeps the operator of a run going: what dies is started again, and what is told to start anew does.

use std::{sync::Arc, time::Duration};

use kubewright::{
    Options, Running, clock::Clock, entropy::Entropy, external::Rehearsal, leader::LeaderElection,
};
use kubewright_cluster::TestCluster;
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
    time::{sleep, timeout},
};

use crate::{
    lookout::Working,
    run::PATIENCE,
    subject::Subject,
    wire::{Wire, identity},
};

/// How soon an operator is started again.
const RESTART: Duration = Duration::from_secs(1);

/// Keeps the operator running: what dies is started again.
pub(crate) struct Supervisor {
    task: JoinHandle<()>,
    orders: mpsc::UnboundedSender<Order>,
    working: watch::Receiver<u64>,
    /// What the operator has to do while it works.
    pub(crate) at_work: Working,
}

enum Order {
    Resync,
    /// How many reconciles have failed.
    Failures(oneshot::Sender<f64>),
    Restart,
}

impl Supervisor {
    pub(crate) fn start(
        subject: &Subject,
        cluster: &Arc<TestCluster>,
        wire: &Wire,
        rehearsal: &Rehearsal,
        seed: u64,
        elects: bool,
    ) -> Self {
        let (orders, mut taken) = mpsc::unbounded_channel();
        let (tell, working) = watch::channel(0);
        let (make, cluster, wire) = (subject.operator.clone(), cluster.clone(), wire.clone());
        let rehearsal = rehearsal.clone();
        let at_work = Working::default();
        let works = at_work.clone();
        let task = tokio::spawn(async move {
            for start in 1.. {
                let operator = make();
                // Whether all systems have a stand-in was seen before.
                let _ = operator.rehearse(&rehearsal);
                let (namespace, service) =
                    (format!("{}-system", operator.name()), operator.webhook_service());
                let election = || LeaderElection {
                    identity: Some(identity(start)),
                    ..LeaderElection::new(operator.name())
                };
                let options = Options {
                    leader_election: elects.then(election),
                    clock: Clock::starting_at(cluster.clock().now()),
                    entropy: Entropy::seeded(seed ^ start),
                    ..Options::default()
                };
                let mut running = operator.start(wire.connect(&namespace), options);
                cluster.lead_service(&namespace, &service, running.webhooks());
                tokio::select! {
                    biased;
                    () = wire.crashed() => {}
                    () = wire.rivalled() => {
                        // It goes on until it notices.
                        tokio::spawn(async move { running.ended().await });
                        continue;
                    }
                    () = serve(&mut running, &mut taken, &tell, start, &works) => {}
                }
                *works.lock() = None;
                drop(running);
                sleep(RESTART).await;
                wire.may_start().await;
            }
        });
        Self { task, orders, working, at_work }
    }

    /// Waits until the operator works, but not for ever; whether it does.
    pub(crate) async fn is_working(&self) -> bool {
        let mut working = self.working.clone();
        timeout(PATIENCE, working.wait_for(|starts| *starts > 0)).await.is_ok_and(|works| works.is_ok())
    }

    /// Whether a reconcile has failed, and none of the same object has gone well since.
    pub(crate) fn is_failing(&self) -> bool {
        let at_work = self.at_work.lock();
        at_work.as_ref().is_some_and(|backlog| backlog.stats().iter().any(|stats| stats.failing > 0))
    }

    pub(crate) fn resync(&self) {
        let _ = self.orders.send(Order::Resync);
    }

    /// How many reconciles of this start have failed; as many as there are if it does not work.
    pub(crate) async fn failures(&self) -> f64 {
        let (ask, answer) = oneshot::channel();
        let _ = self.orders.send(Order::Failures(ask));
        timeout(RESTART, answer).await.ok().and_then(Result::ok).unwrap_or(f64::INFINITY)
    }

    /// Starts it anew; whether it works again.
    pub(crate) async fn restart(&mut self) -> bool {
        let starts = *self.working.borrow();
        let _ = self.orders.send(Order::Restart);
        timeout(PATIENCE, self.working.wait_for(|now| *now > starts)).await.is_ok_and(|works| works.is_ok())
    }

    pub(crate) fn end(self) {
        self.task.abort();
    }
}

/// How many reconciles have failed, by the metrics.
fn failures(metrics: &str) -> f64 {
    let lines = metrics.lines().filter(|line| line.starts_with("controller_runtime_reconcile_errors_total"));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// Until the operator ends, or is to be started again.
async fn serve(
    running: &mut Running,
    orders: &mut mpsc::UnboundedReceiver<Order>,
    working: &watch::Sender<u64>,
    start: u64,
    at_work: &Working,
) {
    if running.working().await.is_err() {
        return;
    }
    running.trusted().await;
    *at_work.lock() = Some(running.backlog());
    working.send_replace(start);
    loop {
        tokio::select! {
            biased;
            order = orders.recv() => match order {
                Some(Order::Resync) => running.resync(),
                Some(Order::Failures(answer)) => drop(answer.send(failures(&running.metrics()))),
                Some(Order::Restart) | None => return,
            },
            _ = running.ended() => return,
        }
    }
}
