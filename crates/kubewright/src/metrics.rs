//! The metrics of an operator, under the names that dashboards for controller-runtime know. Every series exists
//! from the start, at zero; labels are names of controllers and outcomes, never of objects.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use prometheus_client::{
    encoding::{EncodeLabelSet, text},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use crate::queue::{Queue, Taken};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByController {
    controller: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByResult {
    controller: String,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByName {
    name: String,
    controller: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByRequest {
    code: String,
    method: String,
    host: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByWebhook {
    /// The path it is served on.
    webhook: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByAnswer {
    webhook: String,
    code: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByLease {
    name: String,
}

/// How a reconcile has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Success,
    Requeued,
    Failed,
    Terminal,
    Panicked,
    TimedOut,
}

impl Ended {
    const RESULTS: [&str; 3] = ["success", "requeue_after", "error"];

    fn result(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Requeued => "requeue_after",
            Self::Failed | Self::Terminal | Self::Panicked | Self::TimedOut => "error",
        }
    }
}

type Seconds = Family<ByName, Histogram, fn() -> Histogram>;

/// All metrics of one operator.
#[derive(Clone)]
pub(crate) struct Metrics(Arc<Inner>);

struct Inner {
    registry: Mutex<Registry>,
    total: Family<ByResult, Counter>,
    errors: Family<ByController, Counter>,
    terminal: Family<ByController, Counter>,
    panics: Family<ByController, Counter>,
    timeouts: Family<ByController, Counter>,
    time: Family<ByController, Histogram, fn() -> Histogram>,
    concurrency: Family<ByController, Gauge>,
    active: Family<ByController, Gauge>,
    depth: Family<ByName, Gauge>,
    adds: Family<ByName, Counter>,
    retries: Family<ByName, Counter>,
    unfinished: Family<ByName, Gauge<f64, std::sync::atomic::AtomicU64>>,
    longest: Family<ByName, Gauge<f64, std::sync::atomic::AtomicU64>>,
    waited: Seconds,
    worked: Seconds,
    requests: Family<ByRequest, Counter>,
    leads: Family<ByLease, Gauge>,
    webhook_time: Family<ByWebhook, Histogram, fn() -> Histogram>,
    webhook_requests: Family<ByAnswer, Counter>,
    webhook_running: Family<ByWebhook, Gauge>,
    certificates: Counter,
    certificate_errors: Counter,
    queues: Mutex<Vec<(ByName, Queue)>>,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let times: fn() -> Histogram = || {
            Histogram::new([
                0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8,
                0.9, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0,
                20.0, 25.0, 30.0, 40.0, 50.0, 60.0,
            ])
        };
        let queues: fn() -> Histogram =
            || Histogram::new([1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0]);
        let inner = Inner {
            registry: Mutex::default(),
            total: Family::default(),
            errors: Family::default(),
            terminal: Family::default(),
            panics: Family::default(),
            timeouts: Family::default(),
            time: Family::new_with_constructor(times),
            concurrency: Family::default(),
            active: Family::default(),
            depth: Family::default(),
            adds: Family::default(),
            retries: Family::default(),
            unfinished: Family::default(),
            longest: Family::default(),
            waited: Family::new_with_constructor(queues),
            worked: Family::new_with_constructor(queues),
            requests: Family::default(),
            leads: Family::default(),
            webhook_time: Family::new_with_constructor(times),
            webhook_requests: Family::default(),
            webhook_running: Family::default(),
            certificates: Counter::default(),
            certificate_errors: Counter::default(),
            queues: Mutex::default(),
        };
        inner.register();
        Self(Arc::new(inner))
    }

    /// The metrics of one controller, all of them at zero. What its queue counts is there as soon as it is read.
    pub(crate) fn controller(&self, name: &str) -> ControllerMetrics {
        let inner = &self.0;
        let label = ByController { controller: name.to_owned() };
        let queue = ByName { name: name.to_owned(), controller: name.to_owned() };
        for result in Ended::RESULTS {
            let _ = inner.total.get_or_create(&ByResult { controller: name.to_owned(), result });
        }
        for family in [&inner.errors, &inner.terminal, &inner.panics, &inner.timeouts] {
            let _ = family.get_or_create(&label);
        }
        let _ = inner.time.get_or_create(&label);
        let _ = inner.active.get_or_create(&label);
        let _ = inner.waited.get_or_create(&queue);
        let _ = inner.worked.get_or_create(&queue);
        ControllerMetrics { metrics: self.clone(), label, queue }
    }

    /// Counts a request to the API server.
    pub(crate) fn request(&self, method: &http::Method, code: Option<http::StatusCode>, host: &str) {
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.as_str().to_owned());
        let label = ByRequest { code, method: method.as_str().to_owned(), host: host.to_owned() };
        self.0.requests.get_or_create(&label).inc();
    }

    /// Whether this replica leads.
    pub(crate) fn leads(&self, lease: &str, leads: bool) {
        self.0.leads.get_or_create(&ByLease { name: lease.to_owned() }).set(leads.into());
    }

    /// The metrics of a webhook, all of them at zero.
    pub(crate) fn add_webhook(&self, path: &str) {
        let label = ByWebhook { webhook: path.to_owned() };
        let _ = self.0.webhook_time.get_or_create(&label);
        let _ = self.0.webhook_running.get_or_create(&label);
        for code in ["200", "500"] {
            let label = ByAnswer { webhook: path.to_owned(), code: code.to_owned() };
            let _ = self.0.webhook_requests.get_or_create(&label);
        }
    }

    /// A webhook was called; it counts as running until the answer is dropped.
    pub(crate) fn webhook(&self, path: &str) -> Active {
        let running = self.0.webhook_running.get_or_create(&ByWebhook { webhook: path.to_owned() }).clone();
        running.inc();
        Active(running)
    }

    pub(crate) fn webhook_answered(&self, path: &str, code: http::StatusCode, took: Duration) {
        let answer = ByAnswer { webhook: path.to_owned(), code: code.as_str().to_owned() };
        self.0.webhook_requests.get_or_create(&answer).inc();
        let label = ByWebhook { webhook: path.to_owned() };
        self.0.webhook_time.get_or_create(&label).observe(took.as_secs_f64());
    }

    /// A certificate was read, or could not be.
    pub(crate) fn certificate_read(&self, is_good: bool) {
        self.0.certificates.inc();
        if !is_good {
            self.0.certificate_errors.inc();
        }
    }

    /// All of them, in the text form of OpenMetrics.
    pub(crate) fn text(&self) -> String {
        for (label, queue) in self.0.queues.lock().iter() {
            let stats = queue.stats();
            self.0.depth.get_or_create(label).set(i64::try_from(stats.depth()).unwrap_or(i64::MAX));
            raise(&self.0.adds.get_or_create(label), stats.adds);
            raise(&self.0.retries.get_or_create(label), stats.retries);
            self.0.unfinished.get_or_create(label).set(stats.unfinished.as_secs_f64());
            self.0.longest.get_or_create(label).set(stats.longest_running.as_secs_f64());
        }
        let mut text = String::new();
        // Writing into a string does not fail.
        let _ = text::encode(&mut text, &self.0.registry.lock());
        text
    }
}

/// Brings a counter to a total that is counted elsewhere.
fn raise(counter: &Counter, total: u64) {
    counter.inc_by(total.saturating_sub(counter.get()));
}

impl Inner {
    fn register(&self) {
        let mut registry = self.registry.lock();
        // The suffix `_total` is added to counters when they are written.
        registry.register("controller_runtime_reconcile", "Reconciles, by their result", self.total.clone());
        registry.register(
            "controller_runtime_reconcile_errors",
            "Reconciles that failed",
            self.errors.clone(),
        );
        registry.register(
            "controller_runtime_terminal_reconcile_errors",
            "Reconciles that failed for good",
            self.terminal.clone(),
        );
        registry.register(
            "controller_runtime_reconcile_panics",
            "Reconciles that panicked",
            self.panics.clone(),
        );
        registry.register(
            "controller_runtime_reconcile_timeouts",
            "Reconciles that took too long",
            self.timeouts.clone(),
        );
        registry.register(
            "controller_runtime_reconcile_time_seconds",
            "How long a reconcile takes",
            self.time.clone(),
        );
        registry.register(
            "controller_runtime_max_concurrent_reconciles",
            "How many reconciles may run at the same time",
            self.concurrency.clone(),
        );
        registry.register(
            "controller_runtime_active_workers",
            "How many reconciles are running",
            self.active.clone(),
        );
        registry.register("workqueue_depth", "How many keys are waiting", self.depth.clone());
        registry.register("workqueue_adds", "How many keys were added", self.adds.clone());
        registry.register(
            "workqueue_retries",
            "How often a key came back after a failure",
            self.retries.clone(),
        );
        registry.register(
            "workqueue_queue_duration_seconds",
            "How long a key waits until it is taken",
            self.waited.clone(),
        );
        registry.register(
            "workqueue_work_duration_seconds",
            "How long a key is worked on",
            self.worked.clone(),
        );
        registry.register(
            "workqueue_unfinished_work_seconds",
            "How long all running reconciles have been running together",
            self.unfinished.clone(),
        );
        registry.register(
            "workqueue_longest_running_processor_seconds",
            "How long the longest running reconcile has been running",
            self.longest.clone(),
        );
        registry.register("rest_client_requests", "Requests to the API server", self.requests.clone());
        registry.register("leader_election_master_status", "Whether this replica leads", self.leads.clone());
        registry.register(
            "controller_runtime_webhook_latency_seconds",
            "How long a webhook takes to answer",
            self.webhook_time.clone(),
        );
        registry.register(
            "controller_runtime_webhook_requests",
            "Calls of a webhook, by the code of the answer",
            self.webhook_requests.clone(),
        );
        registry.register(
            "controller_runtime_webhook_requests_in_flight",
            "How many calls of a webhook are being answered",
            self.webhook_running.clone(),
        );
        registry.register(
            "certwatcher_read_certificate",
            "How often a certificate was read",
            self.certificates.clone(),
        );
        registry.register(
            "certwatcher_read_certificate_errors",
            "How often a certificate could not be read",
            self.certificate_errors.clone(),
        );
    }
}

/// The metrics of one controller.
#[derive(Clone)]
pub(crate) struct ControllerMetrics {
    metrics: Metrics,
    label: ByController,
    queue: ByName,
}

impl ControllerMetrics {
    pub(crate) fn concurrency(&self, most: usize) {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        self.metrics.0.concurrency.get_or_create(&self.label).set(most);
    }

    pub(crate) fn watch_queue(&self, queue: Queue) {
        self.metrics.0.queues.lock().push((self.queue.clone(), queue));
    }

    /// A key was taken; it counts as active until the answer is dropped.
    pub(crate) fn started(&self, taken: &Taken) -> Active {
        self.metrics.0.waited.get_or_create(&self.queue).observe(taken.waited().as_secs_f64());
        let active = self.metrics.0.active.get_or_create(&self.label).clone();
        active.inc();
        Active(active)
    }

    pub(crate) fn ended(&self, ended: Ended, took: Duration) {
        let inner = &self.metrics.0;
        inner
            .total
            .get_or_create(&ByResult { controller: self.label.controller.clone(), result: ended.result() })
            .inc();
        inner.time.get_or_create(&self.label).observe(took.as_secs_f64());
        inner.worked.get_or_create(&self.queue).observe(took.as_secs_f64());
        if ended.result() == "error" {
            inner.errors.get_or_create(&self.label).inc();
        }
        match ended {
            Ended::Terminal => inner.terminal.get_or_create(&self.label).inc(),
            Ended::Panicked => inner.panics.get_or_create(&self.label).inc(),
            Ended::TimedOut => inner.timeouts.get_or_create(&self.label).inc(),
            Ended::Success | Ended::Requeued | Ended::Failed => 0,
        };
    }
}

/// A reconcile that is running.
pub(crate) struct Active(Gauge);

impl Drop for Active {
    fn drop(&mut self) {
        self.0.dec();
    }
}
